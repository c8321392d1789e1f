//! Every event on every phase, and chains of them.

use proptest::prelude::*;
use uuid::Uuid;

use super::{Clock, builder, built, document, id, outcome, planned, policy};
use crate::model::board::Board;
use crate::model::card::{Card, CardId, Failure, Source};
use crate::model::event::{Event, EventKind, Refusal};
use crate::model::job::{JobType, Payload, ResearchPayload, ReviewPayload, SplitPayload};
use crate::model::marker::draft::{ProposedIntent, Question};
use crate::model::marker::review::Decision;
use crate::model::marker::split::{ChildKind, ProposedChild};
use crate::model::outcome::{Outcome, Produced, RunResult};
use crate::model::phase::Phase;
use crate::model::slug::Slug;
use crate::model::time::Timestamp;
use crate::model::transition;

/// An event of each kind that the operator can cause, with a payload that fits its target.
fn events(source: Source) -> Vec<Event> {
    let research = Payload::Research(ResearchPayload { question: document(), commit: "a".repeat(40) });
    let split = Payload::Split(SplitPayload { intent: document(), commit: "a".repeat(40) });
    let review =
        Payload::Review(ReviewPayload { intent: document(), commit: "c".repeat(40), base: "a".repeat(40) });
    let started = if source == Source::Research { research.clone() } else { builder(2, false) };
    let slug = || Slug::parse("neuer").unwrap();
    vec![
        Event::Started { payload: started },
        Event::SplitStarted { payload: split.clone() },
        Event::DoneOutside { reason: "anders".into() },
        Event::Resumed { payload: builder(1, true) },
        Event::StartedAfresh { payload: builder(2, false) },
        Event::Discarded,
        Event::ReviewRetried { payload: review },
        Event::SentBack { note: String::new() },
        Event::AcceptedByHand { reason: "passt".into() },
        Event::Replanned,
        Event::Revised { draft: Uuid::from_u128(77), intent: document(), reports: Vec::new() },
        Event::Deployed,
        Event::TakenBack { reason: "doch nicht".into() },
        Event::PlannedAgain,
        Event::AskedAgain { payload: research },
        Event::SplitRetried { payload: split },
        Event::CancelAsked,
        Event::Archived,
        Event::BroughtBack,
        Event::Deleted,
        Event::Undone { in_queue: false },
        Event::MadeIntent { slug: slug(), text: None, taken: false },
        Event::PlannedOut { draft: Uuid::from_u128(78) },
        Event::Answered { answer: "ja".into(), option: None, round: None },
        Event::DraftRetried { note: None, revision: None },
        Event::ProposalAccepted { slug: slug(), taken: false },
    ]
}

/// A card of this phase as it can stand on a board.
fn card_in(phase: Phase, source: Source) -> Option<(Board, CardId)> {
    let fits = match source {
        Source::Idea => phase == Phase::Idee,
        Source::Draft => phase.is_draft(),
        Source::Research => matches!(
            phase,
            Phase::Geplant
                | Phase::RechercheLaeuft
                | Phase::RechercheFertig
                | Phase::RechercheFehlgeschlagen
                | Phase::Deployed
                | Phase::Archiviert
        ),
        Source::Intent => {
            !phase.is_draft()
                && !matches!(
                    phase,
                    Phase::Idee
                        | Phase::RechercheLaeuft
                        | Phase::RechercheFertig
                        | Phase::RechercheFehlgeschlagen
                )
        }
    };
    if !fits {
        return None;
    }
    let (mut board, mut clock) = (Board::empty(), Clock(1000));
    let card = match source {
        Source::Idea => board.create_idea(Uuid::from_u128(3), "Idee", "", &clock.stamp()).unwrap().card,
        Source::Draft => {
            board.create_draft(Uuid::from_u128(4), "Thema", &clock.stamp(), &policy(0)).unwrap().card
        }
        Source::Intent | Source::Research => planned(&mut board, "limit", source),
    };
    if source == Source::Intent {
        board
            .apply(&card, Event::Started { payload: builder(1, false) }, &clock.stamp(), &policy(0))
            .unwrap();
    }
    let payload = match phase.work() {
        Some(JobType::Research) => {
            Some(Payload::Research(ResearchPayload { question: document(), commit: "a".repeat(40) }))
        }
        Some(JobType::Split) => {
            Some(Payload::Split(SplitPayload { intent: document(), commit: "a".repeat(40) }))
        }
        Some(JobType::Review) => Some(Payload::Review(ReviewPayload {
            intent: document(),
            commit: "c".repeat(40),
            base: "a".repeat(40),
        })),
        Some(JobType::Builder | JobType::Draft) | None => None,
    };
    let entry = board.cards.get(&card).unwrap().clone();
    let job = match (payload, phase.work()) {
        (Some(payload), Some(kind)) => {
            let bare = Card { job: None, ..entry };
            Some(board.new_job(&bare, kind, payload, &clock.stamp(), &policy(0)).unwrap())
        }
        _ => entry.job,
    };
    let entry = board.cards.get_mut(&card).unwrap();
    entry.phase = phase;
    entry.job = job;
    if phase.failure().is_none() && phase.terminal() == Some(crate::model::phase::Terminal::Failure) {
        entry.error = Some(Failure {
            result: RunResult::Failed,
            sentence: "kaputt".into(),
            at: Timestamp::MIN,
            job: None,
            log: None,
            reply: None,
        });
    }
    board.outbox.clear();
    Some((board, card))
}

/// What holds of every board, whatever happened (design/README.md, invariants 1 and 2).
fn check(board: &Board) {
    for (id, card) in &board.cards {
        assert_eq!(&card.id, id);
        match card.phase.work() {
            Some(kind) => {
                let job = card.current_job().unwrap_or_else(|| panic!("{id} in {} has no job", card.phase));
                assert_eq!(job.kind, kind);
                assert_eq!(&job.card_id, id);
            }
            None => assert!(card.parked.is_none() && card.cancel_asked.is_none(), "{id} in {}", card.phase),
        }
        if let Some(draft) = &card.open_draft {
            assert!(board.cards.contains_key(draft), "{id} names the draft {draft}");
        }
        if let Some(parent) = &card.parent {
            assert!(board.cards[&CardId::Slug(parent.clone())].children.iter().any(|c| Some(c) == id.slug()));
        }
    }
}

#[test]
fn every_event_on_every_phase_does_what_the_table_says_or_is_refused_with_what_fits() {
    let mut seen = 0;
    for phase in Phase::ALL {
        for source in [Source::Intent, Source::Research, Source::Idea, Source::Draft] {
            let Some((board, card)) = card_in(phase, source) else { continue };
            for event in events(source) {
                let (kind, mut after, mut clock) = (event.kind(), board.clone(), Clock(5000));
                let result = after.apply(&card, event, &clock.stamp(), &policy(0));
                match (transition::find(phase, source, kind), result) {
                    (None, Err(Refusal::NotAllowed { allowed, .. })) => {
                        assert!(!allowed.contains(&kind));
                    }
                    (Some(row), Ok(applied)) => {
                        seen += 1;
                        check(&after);
                        let ordered = after.cards.get(&card).is_some_and(|c| c.order.is_some());
                        let beside = matches!(kind, EventKind::Revised | EventKind::PlannedOut);
                        if let Some(to) = transition::target(row, phase).filter(|_| !ordered && !beside) {
                            assert_eq!(applied.to, Some(to), "{phase} {kind}");
                        }
                        let job = applied.job.filter(|_| kind != EventKind::CancelAsked);
                        assert_eq!(job.is_some(), row.job, "{phase} {kind}");
                    }
                    // Rows that need more than the phase: a parked start, a kept proposal, a worktree.
                    (Some(_), Err(refusal)) => assert!(
                        matches!(kind, EventKind::Undone | EventKind::ProposalAccepted | EventKind::Resumed),
                        "{phase} {kind}: {refusal}"
                    ),
                    (None, other) => panic!("{phase} {source:?} {kind}: {other:?}"),
                }
            }
        }
    }
    assert!(seen > 40, "{seen}");
}

/// What a run of this card left that is this event; `None` if no outcome is.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a new event of an outcome has no answer here and fails the test"
)]
fn left(board: &mut Board, card: &CardId, event: EventKind) -> Option<Outcome> {
    let slug = || Slug::parse("neuer").unwrap();
    let body = || "# Intent: Neu\n".to_owned();
    let review =
        |decision| Produced::Review { commit: "c".repeat(40), decision, report: "# Review\n".into() };
    let produced = match event {
        EventKind::Built => return Some(built(board, card)),
        EventKind::Question => Produced::Question(Question { text: "Wie?".into(), options: Vec::new() }),
        EventKind::IntentProposed => {
            Produced::Intent(ProposedIntent { slug: slug(), profile: None, iterations: None, body: body() })
        }
        EventKind::ReviewedReady => review(Decision::Ready),
        EventKind::ReviewedBack => review(Decision::Back),
        EventKind::Reported => Produced::Research { report: "# Antwort\n".into() },
        EventKind::ChildrenWritten => {
            let (slug, body) = (slug(), body());
            let child =
                ProposedChild { slug, kind: ChildKind::Intent, profile: None, iterations: None, body };
            Produced::Split { children: vec![child] }
        }
        EventKind::DraftFailed
        | EventKind::BuildEnded
        | EventKind::ReviewFailed
        | EventKind::ResearchFailed
        | EventKind::SplitFailed => return Some(outcome(board, card, RunResult::Failed, None)),
        EventKind::InterruptedOnce => return Some(outcome(board, card, RunResult::Interrupted, None)),
        EventKind::InterruptedTwice => {
            board.cards.get_mut(card).unwrap().interruptions = 1;
            return Some(outcome(board, card, RunResult::Interrupted, None));
        }
        EventKind::Unavailable => return Some(outcome(board, card, RunResult::Unavailable, None)),
        EventKind::Cancelled => return Some(outcome(board, card, RunResult::Cancelled, None)),
        _ => return None,
    };
    Some(outcome(board, card, RunResult::Succeeded, Some(produced)))
}

#[test]
fn every_outcome_of_the_table_takes_a_card_where_its_row_says() {
    for row in transition::TABLE.iter().filter(|row| row.who == transition::Who::Outcome) {
        for phase in row.from {
            let sources = [Source::Intent, Source::Research, Source::Draft];
            let placed = sources.into_iter().find_map(|source| card_in(*phase, source));
            let (mut board, card) = placed.unwrap_or_else(|| panic!("no card stands in {phase}"));
            let what = format!("{} in {phase}", row.event);
            let left =
                left(&mut board, &card, row.event).unwrap_or_else(|| panic!("{what}: no outcome is known"));
            let before = left.reference();
            let applied = board.apply_outcome(&left, &[], &Clock(5000).stamp(), &policy(0)).unwrap();
            check(&board);
            assert_eq!((applied.event, applied.to), (row.event, transition::target(row, *phase)), "{what}");
            let job = board.cards[&applied.card].current_job().map(|job| job.reference());
            assert_eq!(job.is_some_and(|job| job != before), row.job, "{what}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_clicked_and_however_runs_end_the_board_holds_together(
        choices in proptest::collection::vec((0_usize..26, 0_usize..11, any::<bool>()), 1..60),
        undo in 0_u32..2,
    ) {
        let (mut board, mut clock) = (Board::empty(), Clock(0));
        let policy = policy(undo);
        planned(&mut board, "limit", Source::Intent);
        planned(&mut board, "frage", Source::Research);
        board.create_idea(Uuid::from_u128(3), "Idee", "", &clock.stamp()).unwrap();
        board.link(&id("frage"), Some(&id("limit")), &clock.stamp()).unwrap();
        for (event, result, operator) in choices {
            let ids: Vec<CardId> = board.cards.keys().cloned().collect();
            for card in ids {
                let mut next = board.clone();
                let Some(entry) = next.cards.get(&card) else { continue };
                let done = if operator || entry.current_job().is_none() {
                    let event = events(entry.source).swap_remove(event);
                    next.apply(&card, event, &clock.stamp(), &policy)
                } else {
                    let result = RunResult::ALL[result];
                    let left = if result == RunResult::Succeeded { built_or_failed(&next, &card) } else {
                        outcome(&next, &card, result, None)
                    };
                    next.apply_outcome(&left, &[], &clock.stamp(), &policy)
                };
                if done.is_ok() {
                    check(&next);
                    let text = serde_json::to_string(&next).unwrap();
                    prop_assert_eq!(&serde_json::from_str::<Board>(&text).unwrap(), &next);
                    board = next;
                }
            }
            board.release_due(clock.stamp().now);
            check(&board);
        }
    }
}

fn built_or_failed(board: &Board, card: &CardId) -> Outcome {
    let job = board.cards[card].current_job().unwrap();
    let produced = match &job.payload {
        Payload::Builder(_) => return built(board, card),
        Payload::Review(payload) => Produced::Review {
            commit: payload.commit.clone(),
            decision: Decision::Back,
            report: "nein".into(),
        },
        Payload::Research(_) => Produced::Research { report: "so".into() },
        Payload::Split(_) | Payload::Draft(_) => {
            return outcome(board, card, RunResult::Failed, None);
        }
    };
    outcome(board, card, RunResult::Succeeded, Some(produced))
}

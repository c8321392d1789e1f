//! The loop as the board sees it: what each outcome and each click does.

mod old;
mod table;
mod text;

use std::collections::BTreeMap;

use uuid::Uuid;

use super::Standing;
use crate::model::board::{Board, Policy, RolePolicy, Stamp};
use crate::model::card::{Card, CardId, Source};
use crate::model::event::{Applied, Event, EventKind, Refusal};
use crate::model::job::{BuilderPayload, DocumentText, Payload, Resume, ReviewPayload, SplitPayload};
use crate::model::marker::draft::{ProposedIntent, Question};
use crate::model::marker::review::Decision;
use crate::model::marker::split::{ChildKind, ProposedChild};
use crate::model::outcome::{Built, Outcome, Produced, RunResult};
use crate::model::phase::Phase;
use crate::model::profile::{Choice, RoleName};
use crate::model::slug::Slug;
use crate::model::time::Timestamp;

fn policy(undo_seconds: u32) -> Policy {
    let role = |profile: &str| RolePolicy { profile: profile.into(), iterations: None };
    Policy {
        undo_seconds,
        profiles: BTreeMap::from([("standard".into(), None), ("stark".into(), Some(15))]),
        roles: RoleName::ALL.into_iter().map(|name| (name, role("standard"))).collect(),
        iteration_cap: 20,
        external_builder: false,
        guidance: BTreeMap::new(),
    }
}

/// Stamps with ids that follow from a counter, one second apart.
struct Clock(u64);

impl Clock {
    fn stamp(&mut self) -> Stamp {
        self.0 += 1;
        Stamp {
            now: Timestamp::from_millis(1_790_000_000_000 + i64::try_from(self.0).unwrap() * 1000),
            actor: "lukas".into(),
            request: None,
            transition: Uuid::from_u128(u128::from(self.0)),
            job: Uuid::from_u128(1 << 64 | u128::from(self.0)),
            park: true,
        }
    }
}

fn document() -> DocumentText {
    DocumentText {
        path: "docs/intent/limit.md".into(),
        blob: "b".repeat(40),
        text: "# Intent: Limit\n".into(),
    }
}

fn builder(number: u32, resume: bool) -> Payload {
    Payload::Builder(BuilderPayload {
        intent: document(),
        base_commit: "a".repeat(40),
        diff_base: None,
        number,
        resume: resume.then(|| Resume { number, before: "unterbrochen".into() }),
        feedback: None,
    })
}

fn id(slug: &str) -> CardId {
    CardId::Slug(Slug::parse(slug).unwrap())
}

fn planned(board: &mut Board, slug: &str, source: Source) -> CardId {
    let id = id(slug);
    let mut card = Card::new(id.clone(), source, slug, Phase::Geplant, Timestamp::MIN);
    card.rev = 1;
    board.cards.insert(id.clone(), card);
    id
}

fn outcome(board: &Board, id: &CardId, result: RunResult, produced: Option<Produced>) -> Outcome {
    let job = board.cards[id].current_job().unwrap();
    let mut outcome = Outcome::without_run(job, result, result.id(), Timestamp::MIN);
    outcome.produced = produced;
    outcome
}

fn built(board: &Board, id: &CardId) -> Outcome {
    let build = board.cards[id].build.as_ref().unwrap();
    let produced = Produced::Build(Built {
        branch: build.branch.clone(),
        base: build.base_commit.clone(),
        commit: "c".repeat(40),
        files_changed: 1,
        summary: "gebaut".into(),
        put_back: Vec::new(),
    });
    outcome(board, id, RunResult::Succeeded, Some(produced))
}

fn apply_outcome(board: &mut Board, outcome: &Outcome, clock: &mut Clock) -> Applied {
    board.apply_outcome(outcome, &[], &clock.stamp(), &policy(0)).unwrap()
}

#[test]
fn one_successful_build_gives_one_review_job_bound_to_its_commit() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    board.apply(&card, Event::Started { payload: builder(1, false) }, &clock.stamp(), &policy(0)).unwrap();
    let done = built(&board, &card);
    let applied = apply_outcome(&mut board, &done, &mut clock);
    assert_eq!(applied.to, Some(Phase::Review));
    let job = board.cards[&card].current_job().unwrap().clone();
    let Payload::Review(ReviewPayload { commit, base, .. }) = &job.payload else { panic!("{job:?}") };
    assert_eq!((commit.as_str(), base.as_str()), ("c".repeat(40).as_str(), "a".repeat(40).as_str()));
    assert_eq!(board.standing(&card, done.reference()), Standing::Applied);
    assert!(board.apply_outcome(&done, &[], &clock.stamp(), &policy(0)).is_err(), "applied at most once");

    let verdict =
        |commit: String| Produced::Review { commit, decision: Decision::Ready, report: "gut".into() };
    let planted = outcome(&board, &card, RunResult::Succeeded, Some(verdict("d".repeat(40))));
    assert!(board.clone().apply_outcome(&planted, &[], &clock.stamp(), &policy(0)).is_err());
    let ready = outcome(&board, &card, RunResult::Succeeded, Some(verdict("c".repeat(40))));
    assert_eq!(apply_outcome(&mut board, &ready, &mut clock).to, Some(Phase::BereitFuerDeployment));
    let deployed = board.apply(&card, Event::Deployed, &clock.stamp(), &policy(0)).unwrap();
    assert_eq!(deployed.to, Some(Phase::Deployed));
    let events: Vec<&str> = board.outbox.iter().map(|entry| entry.step.event.as_str()).collect();
    assert_eq!(events, ["started", "built", "reviewed_ready", "deployed"]);
    assert_eq!(board.cards[&card].result_ref(), Some("c".repeat(40)));
}

#[test]
fn a_parked_start_is_given_back_exactly_and_published_only_when_due() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    let before = board.clone();
    let start = Event::Started { payload: builder(1, false) };
    let stamp = clock.stamp();
    let applied = board.apply(&card, start.clone(), &stamp, &policy(5)).unwrap();
    assert_eq!(applied.parked_until, Some(stamp.now.plus_seconds(5)));
    assert!(board.outbox.is_empty());
    let refused = board.clone().apply(&card, Event::Undone { in_queue: true }, &clock.stamp(), &policy(5));
    assert_eq!(refused, Err(Refusal::TooLateToUndo));
    board.apply(&card, Event::Undone { in_queue: false }, &clock.stamp(), &policy(5)).unwrap();
    assert_eq!(board, before);

    board.apply(&card, start, &stamp, &policy(5)).unwrap();
    assert!(!board.release_due(stamp.now.plus_seconds(4)));
    assert!(board.clone().release_due(stamp.now.plus_seconds(-3600)), "the clock was set back");
    assert!(board.release_due(stamp.now.plus_seconds(5)));
    assert_eq!(board.outbox.len(), 1);
    let late = board.apply(&card, Event::Undone { in_queue: false }, &clock.stamp(), &policy(5));
    assert_eq!(late, Err(Refusal::TooLateToUndo));
}

#[test]
fn a_second_click_is_refused_with_the_job_of_the_first() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    let start = Event::Started { payload: builder(1, false) };
    let first = board.apply(&card, start.clone(), &clock.stamp(), &policy(5)).unwrap();
    match board.apply(&card, start, &clock.stamp(), &policy(5)) {
        Err(Refusal::NotAllowed { job, phase, .. }) => {
            assert_eq!((job, phase), (first.job, Phase::InUmsetzung));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_request_again_is_answered_as_the_first_time_and_does_nothing() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    let mut stamp = clock.stamp();
    stamp.request = Some(Uuid::from_u128(7));
    let start = Event::Started { payload: builder(1, false) };
    let first = board.apply(&card, start.clone(), &stamp, &policy(0)).unwrap();
    let failed = outcome(&board, &card, RunResult::Failed, None);
    apply_outcome(&mut board, &failed, &mut clock);
    let before = board.clone();
    let again =
        board.apply(&card, start, &Stamp { request: stamp.request, ..clock.stamp() }, &policy(0)).unwrap();
    assert!(again.repeated);
    assert_eq!(again.job, first.job);
    assert_eq!(board, before);
}

#[test]
fn an_interrupted_build_waits_for_the_operator_and_a_reader_runs_once_more() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    board.apply(&card, Event::Started { payload: builder(1, false) }, &clock.stamp(), &policy(0)).unwrap();
    let stopped = outcome(&board, &card, RunResult::Interrupted, None);
    let applied = apply_outcome(&mut board, &stopped, &mut clock);
    assert_eq!(applied.to, Some(Phase::UmsetzungFehlgeschlagen));
    assert_eq!(board.cards[&card].error.as_ref().unwrap().result, RunResult::Interrupted);
    board.apply(&card, Event::Resumed { payload: builder(1, true) }, &clock.stamp(), &policy(0)).unwrap();

    let done = built(&board, &card);
    apply_outcome(&mut board, &done, &mut clock);
    let job = board.cards[&card].current_job().unwrap().id;
    for (event, to) in [
        (EventKind::InterruptedOnce, Phase::Review),
        (EventKind::InterruptedTwice, Phase::ReviewFehlgeschlagen),
    ] {
        let stopped = outcome(&board, &card, RunResult::Interrupted, None);
        let applied = apply_outcome(&mut board, &stopped, &mut clock);
        assert_eq!((applied.event, applied.to), (event, Some(to)));
        assert_eq!(board.standing(&card, stopped.reference()), Standing::Applied);
    }
    assert_eq!(board.cards[&card].job.as_ref().map(|j| (j.id, j.attempt)), Some((job, 2)));
}

#[test]
fn unavailable_waits_with_the_next_attempt_and_pauses_the_profile_longer_each_time() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    board.apply(&card, Event::Started { payload: builder(1, false) }, &clock.stamp(), &policy(0)).unwrap();
    let mut minutes = Vec::new();
    for attempt in 1..6 {
        let away = outcome(&board, &card, RunResult::Unavailable, None);
        assert_eq!(away.attempt, attempt);
        let stamp = clock.stamp();
        board.apply_outcome(&away, &[], &stamp, &policy(0)).unwrap();
        assert!(board.cards[&card].waiting.is_some());
        let pause = board.pauses[0].clone();
        minutes.push(pause.until.unwrap().seconds_since(stamp.now) / 60);
        clock.0 += 7200;
    }
    assert_eq!(minutes, [1, 5, 15, 60, 60]);
    let mut begun = outcome(&board, &card, RunResult::Unavailable, None);
    begun.usage.iterations = 1;
    let applied = apply_outcome(&mut board, &begun, &mut clock);
    assert_eq!(applied.to, Some(Phase::UmsetzungFehlgeschlagen));
}

#[test]
fn a_cancel_turns_an_interruption_into_cancelled_but_a_success_counts_as_itself() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    board.apply(&card, Event::Started { payload: builder(1, false) }, &clock.stamp(), &policy(0)).unwrap();
    board.apply(&card, Event::CancelAsked, &clock.stamp(), &policy(0)).unwrap();
    let again = board.apply(&card, Event::CancelAsked, &clock.stamp(), &policy(0));
    assert!(matches!(again, Err(Refusal::NotAllowed { .. })));
    let mut other = board.clone();
    let done = built(&other, &card);
    assert_eq!(apply_outcome(&mut other, &done, &mut clock).to, Some(Phase::Review));
    let stopped = outcome(&board, &card, RunResult::Interrupted, None);
    let applied = apply_outcome(&mut board, &stopped, &mut clock);
    assert_eq!((applied.event, applied.to), (EventKind::Cancelled, Some(Phase::UmsetzungFehlgeschlagen)));
}

#[test]
fn a_parked_start_that_is_cancelled_fails_at_once() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    board.apply(&card, Event::Started { payload: builder(1, false) }, &clock.stamp(), &policy(5)).unwrap();
    let applied = board.apply(&card, Event::CancelAsked, &clock.stamp(), &policy(5)).unwrap();
    assert_eq!(applied.to, Some(Phase::UmsetzungFehlgeschlagen));
    assert!(board.cards[&card].parked.is_none());
    let transitions: Vec<Uuid> = board.outbox.iter().map(|entry| entry.step.transition).collect();
    assert_eq!(transitions.len(), 2);
    assert_ne!(transitions[0], transitions[1]);
}

#[test]
fn a_draft_goes_from_topic_by_question_to_an_intent() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let draft =
        board.create_draft(Uuid::from_u128(9), "Kartenlimit", &clock.stamp(), &policy(5)).unwrap().card;
    let question = Question { text: "Wie viele?".into(), options: vec!["10".into(), "25".into()] };
    let asked = outcome(&board, &draft, RunResult::Succeeded, Some(Produced::Question(question)));
    assert_eq!(apply_outcome(&mut board, &asked, &mut clock).to, Some(Phase::EntwurfFrage));
    let answer = |round| Event::Answered { answer: "aber bald".into(), option: Some("10".into()), round };
    let old = board.clone().apply(&draft, answer(Some(2)), &clock.stamp(), &policy(5));
    assert_eq!(old, Err(Refusal::OldRound { given: 2, current: 1 }));
    board.apply(&draft, answer(Some(1)), &clock.stamp(), &policy(5)).unwrap();
    assert_eq!(board.cards[&draft].draft.as_ref().unwrap().round, 2);
    let intent = ProposedIntent {
        slug: Slug::parse("limit").unwrap(),
        profile: None,
        iterations: Some(15),
        body: "# Intent: Limit\n".into(),
    };
    let proposed = outcome(&board, &draft, RunResult::Succeeded, Some(Produced::Intent(intent)));
    let applied = apply_outcome(&mut board, &proposed, &mut clock);
    assert_eq!((applied.card.clone(), applied.to), (id("limit"), Some(Phase::Geplant)));
    assert_eq!(board.redirect(&draft), Some(&id("limit")));
    assert!(!board.cards.contains_key(&draft));
    assert_eq!(board.cards[&id("limit")].choice.iterations, Some(15));
}

#[test]
fn a_taken_slug_keeps_the_proposal_and_the_retry_names_it() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let draft =
        board.create_draft(Uuid::from_u128(9), "Kartenlimit", &clock.stamp(), &policy(5)).unwrap().card;
    let intent = ProposedIntent {
        slug: Slug::parse("limit").unwrap(),
        profile: None,
        iterations: None,
        body: "# Intent: Limit\n".into(),
    };
    let proposed = outcome(&board, &draft, RunResult::Succeeded, Some(Produced::Intent(intent.clone())));
    let stamp = clock.stamp();
    board.refuse_documents(&proposed, "Der Slug limit ist vergeben.", &stamp, &policy(5)).unwrap();
    let card = &board.cards[&draft];
    assert_eq!(card.phase, Phase::EntwurfFehlgeschlagen);
    assert_eq!(card.draft.as_ref().unwrap().proposal, Some(intent));
    let mut other = board.clone();
    let free = Slug::parse("limit-2").unwrap();
    other
        .apply(&draft, Event::ProposalAccepted { slug: free, taken: false }, &clock.stamp(), &policy(5))
        .unwrap();
    let written = other.finish_order(&draft, &[], &clock.stamp()).unwrap();
    assert_eq!(written.card, id("limit-2"));
    board
        .apply(&draft, Event::DraftRetried { note: None, revision: None }, &clock.stamp(), &policy(5))
        .unwrap();
    let Payload::Draft(payload) = &board.cards[&draft].current_job().unwrap().payload else { panic!() };
    assert_eq!(payload.round, 1, "a retry is the same round");
    assert!(payload.conversation.last().unwrap().text.contains("„limit“"));
}

#[test]
fn a_deleted_draft_whose_round_ran_comes_back_as_cancelled() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let draft = board.create_draft(Uuid::from_u128(9), "Thema", &clock.stamp(), &policy(5)).unwrap().card;
    board.apply(&draft, Event::Deleted, &clock.stamp(), &policy(5)).unwrap();
    assert!(board.cards.is_empty());
    board.restore(&draft, &clock.stamp()).unwrap();
    let card = &board.cards[&draft];
    assert_eq!(card.phase, Phase::EntwurfFehlgeschlagen);
    assert_eq!(card.error.as_ref().unwrap().sentence, "abgebrochen");
    let idea = board.create_idea(Uuid::from_u128(3), "Idee", "", &clock.stamp()).unwrap().card;
    let before = board.cards[&idea].clone();
    board.apply(&idea, Event::Deleted, &clock.stamp(), &policy(5)).unwrap();
    board.restore(&idea, &clock.stamp()).unwrap();
    let mut back = board.cards[&idea].clone();
    back.changed_at = before.changed_at;
    assert_eq!(back, before);
}

#[test]
fn the_last_child_that_ends_makes_the_synthesis_due_once_and_an_interrupted_one_does_not() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let parent = planned(&mut board, "parent", Source::Intent);
    for child in ["one", "two"] {
        let child = planned(&mut board, child, Source::Intent);
        board.link(&child, Some(&parent), &clock.stamp()).unwrap();
    }
    let archive = |board: &mut Board, slug: &str, clock: &mut Clock| {
        board.apply(&id(slug), Event::Archived, &clock.stamp(), &policy(0)).unwrap();
    };
    archive(&mut board, "one", &mut clock);
    assert!(board.cards[&parent].synthesis_due.is_none());
    board
        .apply(&id("two"), Event::Started { payload: builder(1, false) }, &clock.stamp(), &policy(0))
        .unwrap();
    let stopped = outcome(&board, &id("two"), RunResult::Interrupted, None);
    apply_outcome(&mut board, &stopped, &mut clock);
    assert!(board.cards[&parent].synthesis_due.is_none(), "a deploy makes no synthesis");
    board
        .apply(&id("two"), Event::Resumed { payload: builder(1, true) }, &clock.stamp(), &policy(0))
        .unwrap();
    let failed = outcome(&board, &id("two"), RunResult::Failed, None);
    apply_outcome(&mut board, &failed, &mut clock);
    assert!(board.cards[&parent].synthesis_due.is_some());
    let slug = Slug::parse("parent-synthese").unwrap();
    board.finish_synthesis(&parent, &slug, "Synthese", &[], &clock.stamp()).unwrap();
    let made = &board.cards[&CardId::Slug(slug)];
    assert!(made.unread && made.phase == Phase::Geplant);
    let start = board.apply(
        &made.id.clone(),
        Event::Started { payload: builder(1, false) },
        &clock.stamp(),
        &policy(0),
    );
    assert_eq!(start, Err(Refusal::Unread));
    archive(&mut board, "two", &mut clock);
    assert!(board.cards[&parent].synthesis_due.is_none(), "once");
}

#[test]
fn a_synthesis_by_hand_needs_children_that_have_all_ended_and_is_asked_for_once() {
    use crate::model::event::SynthesisRefusal as S;
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let (parent, child) =
        (planned(&mut board, "parent", Source::Intent), planned(&mut board, "child", Source::Research));
    let mut ask = |board: &mut Board, key: u128| {
        let stamp = Stamp { request: Some(Uuid::from_u128(key)), ..clock.stamp() };
        board.ask_synthesis(&parent, &stamp, |_| true)
    };
    assert_eq!(ask(&mut board, 1), Err(S::NoChildren.into()));
    board.link(&child, Some(&parent), &Clock(50).stamp()).unwrap();
    let open = Err(S::Open(vec![Slug::parse("child").unwrap()]).into());
    assert_eq!(ask(&mut board, 2), open);
    let entry = board.cards.remove(&child).unwrap();
    assert_eq!(ask(&mut board, 3), open, "whoever knows the repository says whether it is open");
    board.cards.insert(child.clone(), entry);
    board.cards.get_mut(&child).unwrap().phase = Phase::RechercheFertig;
    assert_eq!(ask(&mut board, 4), Ok(()));
    assert!(board.cards[&parent].synthesis_due.is_some());
    assert_eq!(ask(&mut board, 5), Err(S::Due.into()));
    let slug = Slug::parse("parent-synthese").unwrap();
    board.finish_synthesis(&parent, &slug, "Synthese", &[], &Clock(60).stamp()).unwrap();
    assert_eq!(ask(&mut board, 4), Ok(()), "the same request");
    assert!(board.cards[&parent].synthesis_due.is_none(), "does nothing the second time");
    assert_eq!(ask(&mut board, 6), Ok(()));
    assert!(board.cards[&parent].synthesis_due.is_some(), "a further one");
    assert_eq!(board.outbox.iter().filter(|entry| entry.step.event == "synthesis_asked").count(), 2);
}

#[test]
fn while_a_start_can_be_taken_back_nothing_else_is_recorded_and_a_child_that_ends_is_not_forgotten() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let (parent, child) =
        (planned(&mut board, "parent", Source::Intent), planned(&mut board, "child", Source::Intent));
    board.link(&child, Some(&parent), &clock.stamp()).unwrap();
    // As the store does with each write.
    board.cards.values_mut().for_each(|card| card.rev = 1);
    let park = Stamp { park: true, ..clock.stamp() };
    board.apply(&parent, Event::Started { payload: builder(1, false) }, &park, &policy(5)).unwrap();
    assert_eq!(board.check_written(&parent), Err(Refusal::Parked));
    assert_eq!(board.ask_synthesis(&parent, &clock.stamp(), |_| false), Err(Refusal::Parked));
    board.apply(&child, Event::Archived, &clock.stamp(), &policy(0)).unwrap();
    board.apply(&parent, Event::Undone { in_queue: false }, &clock.stamp(), &policy(0)).unwrap();
    let back = &board.cards[&parent];
    assert_eq!((back.phase, back.children.len()), (Phase::Geplant, 1));
    assert!(back.synthesis_due.is_some());
}

#[test]
fn a_parent_that_only_its_record_knew_keeps_a_due_synthesis_when_its_start_is_taken_back() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let (parent, child) =
        (planned(&mut board, "parent", Source::Intent), planned(&mut board, "child", Source::Intent));
    board.link(&child, Some(&parent), &clock.stamp()).unwrap();
    // As it is read from a record: no write of the store has seen it.
    board.cards.get_mut(&parent).unwrap().rev = 0;
    let park = Stamp { park: true, ..clock.stamp() };
    board.apply(&parent, Event::Started { payload: builder(1, false) }, &park, &policy(5)).unwrap();
    board.apply(&child, Event::Archived, &clock.stamp(), &policy(0)).unwrap();
    board.apply(&parent, Event::Undone { in_queue: false }, &clock.stamp(), &policy(0)).unwrap();
    let back = &board.cards[&parent];
    assert_eq!((back.phase, back.children.len()), (Phase::Geplant, 1));
    assert!(back.synthesis_due.is_some());
}

#[test]
fn a_last_child_whose_new_start_is_taken_back_makes_the_synthesis_due_then_and_once() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let parent = planned(&mut board, "parent", Source::Intent);
    for child in ["one", "two"] {
        let child = planned(&mut board, child, Source::Intent);
        board.link(&child, Some(&parent), &clock.stamp()).unwrap();
    }
    board.cards.values_mut().for_each(|card| card.rev = 1);
    let start = Event::Started { payload: builder(1, false) };
    board.apply(&id("one"), start, &clock.stamp(), &policy(0)).unwrap();
    let failed = outcome(&board, &id("one"), RunResult::Failed, None);
    apply_outcome(&mut board, &failed, &mut clock);
    // It is open again while its new start can be taken back, and the other one ends meanwhile.
    let park = Stamp { park: true, ..clock.stamp() };
    let afresh = Event::StartedAfresh { payload: builder(2, false) };
    board.apply(&id("one"), afresh, &park, &policy(5)).unwrap();
    board.apply(&id("two"), Event::Archived, &clock.stamp(), &policy(0)).unwrap();
    assert!(board.cards[&parent].synthesis_due.is_none(), "one child is open");
    board.apply(&id("one"), Event::Undone { in_queue: false }, &clock.stamp(), &policy(0)).unwrap();
    assert!(board.cards[&parent].synthesis_due.is_some());
    let slug = Slug::parse("parent-synthese").unwrap();
    board.finish_synthesis(&parent, &slug, "Synthese", &[], &clock.stamp()).unwrap();
    board.apply(&id("one"), Event::Archived, &clock.stamp(), &policy(0)).unwrap();
    assert!(board.cards[&parent].synthesis_due.is_none(), "once");
}

#[test]
fn links_that_cannot_be_are_refused_with_their_reason() {
    use crate::model::event::LinkRefusal as L;
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let (a, b, c) = (
        planned(&mut board, "a", Source::Intent),
        planned(&mut board, "b", Source::Research),
        planned(&mut board, "c", Source::Intent),
    );
    let idea = board.create_idea(Uuid::from_u128(3), "Idee", "", &clock.stamp()).unwrap().card;
    board.link(&b, Some(&a), &clock.stamp()).unwrap();
    board.link(&c, Some(&b), &clock.stamp()).unwrap();
    let mut link = |child: &CardId, parent: &CardId| board.link(child, Some(parent), &clock.stamp());
    assert_eq!(link(&a, &a), Err(L::Itself));
    assert!(matches!(link(&a, &c), Err(L::Cycle(_))));
    assert!(matches!(link(&c, &a), Err(L::HasParent(_))));
    assert!(matches!(link(&idea, &a), Err(L::NotACard(_))));
    assert!(matches!(link(&a, &idea), Err(L::NotACard(_))));
    assert!(matches!(link(&a, &id("gone")), Err(L::Unknown(_))));
    assert_eq!(link(&c, &b), Ok(()), "the same link again is no fault");
    board.link(&c, None, &clock.stamp()).unwrap();
    for n in 0..crate::model::fanout::MAX_CHILDREN {
        let child = planned(&mut board, &format!("child-{n}"), Source::Intent);
        board.link(&child, Some(&c), &clock.stamp()).unwrap();
    }
    let one_more = planned(&mut board, "one-more", Source::Intent);
    assert_eq!(board.link(&one_more, Some(&c), &clock.stamp()), Err(L::TooMany));
}

#[test]
fn a_split_writes_all_children_linked_and_planned() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    let payload = Payload::Split(SplitPayload { intent: document(), commit: "a".repeat(40) });
    board.apply(&card, Event::SplitStarted { payload }, &clock.stamp(), &policy(0)).unwrap();
    let child = |slug: &str, kind| ProposedChild {
        slug: Slug::parse(slug).unwrap(),
        kind,
        profile: None,
        iterations: None,
        body: format!("# {slug}\n"),
    };
    let children = vec![child("api", ChildKind::Intent), child("frage", ChildKind::Research)];
    let produced = Produced::Split { children };
    let split = outcome(&board, &card, RunResult::Succeeded, Some(produced));
    let mut taken = board.clone();
    planned(&mut taken, "api", Source::Intent);
    assert!(matches!(taken.apply_outcome(&split, &[], &clock.stamp(), &policy(0)), Err(Refusal::Taken(_))));
    apply_outcome(&mut board, &split, &mut clock);
    assert_eq!(board.cards[&card].phase, Phase::Aufgeteilt);
    assert_eq!(board.cards[&id("frage")].source, Source::Research);
    assert_eq!(board.cards[&id("api")].parent.as_ref().map(Slug::as_str), Some("limit"));
}

#[test]
fn a_retry_runs_the_profile_that_was_shown_unless_the_operator_changes_it() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    board.apply(&card, Event::Started { payload: builder(1, false) }, &clock.stamp(), &policy(0)).unwrap();
    let failed = outcome(&board, &card, RunResult::Failed, None);
    apply_outcome(&mut board, &failed, &mut clock);
    board.roles.insert(RoleName::Builder, "stark".into());
    let resumed = Event::Resumed { payload: builder(1, true) };
    let mut same = board.clone();
    same.apply(&card, resumed.clone(), &clock.stamp(), &policy(0)).unwrap();
    assert_eq!(same.cards[&card].current_job().unwrap().profile, "standard");
    let choice = Choice { profile: Some("stark".into()), reason: None, iterations: Some(3) };
    board.set_choice(&card, choice, &clock.stamp(), &policy(0)).unwrap();
    board.apply(&card, resumed, &clock.stamp(), &policy(0)).unwrap();
    let job = board.cards[&card].current_job().unwrap();
    assert_eq!((job.profile.as_str(), job.iteration_limit), ("stark", 3));
    let unknown = Choice { profile: Some("teuer".into()), ..Choice::default() };
    assert!(board.set_choice(&card, unknown, &clock.stamp(), &policy(0)).is_err());
    for (iterations, fits) in [(0, false), (1, true), (20, true), (21, false)] {
        let choice = Choice { iterations: Some(iterations), ..Choice::default() };
        assert_eq!(board.set_choice(&card, choice, &clock.stamp(), &policy(0)).is_ok(), fits, "{iterations}");
    }
}

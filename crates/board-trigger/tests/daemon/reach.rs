//! Every row of the transition table that an operator causes: the call of the API and the form that do it.
use board_core::edge::clock;
use board_core::model::board::Board;
use board_core::model::card::{Build, Card, CardId, Draft, Parked, Source, Step};
use board_core::model::event::EventKind;
use board_core::model::job::{
    BuilderPayload, DocumentText, DraftPayload, JOB_SCHEMA, Job, JobType, Payload, ResearchPayload,
    ReviewPayload, Speaker, SplitPayload, Turn,
};
use board_core::model::marker::draft::ProposedIntent;
use board_core::model::phase::Phase;
use board_core::model::slug::Slug;
use board_core::model::transition::{Of, TABLE, Who};
use uuid::Uuid;

use crate::house::House;

/// A commit that nothing is read from here.
const COMMIT: &str = "cccccccccccccccccccccccccccccccccccccccc";

/// How an event is reached: method and address of the call, address of the page with its form, and where that
/// form is posted. `{}` stands for the card, `{page}` for its page.
fn ways(event: EventKind) -> Option<(&'static str, &'static str, &'static str, &'static str)> {
    const CARD: &str = "/api/board/cards/{}";
    let on_card = |path| Some(("POST", path, "{page}", "{page}"));
    match event {
        EventKind::IdeaCreated => Some(("POST", "/api/board/cards", "/karten/neu", "/karten/neu")),
        EventKind::DraftCreated => Some(("POST", "/api/board/drafts", "/entwuerfe/neu", "/entwuerfe/neu")),
        EventKind::DocumentWritten => on_card("/api/board/cards/{}/to-intent"),
        EventKind::PlannedOut => on_card("/api/board/cards/{}/plan"),
        EventKind::Answered => on_card("/api/board/cards/{}/draft-answer"),
        EventKind::DraftRetried => on_card("/api/board/cards/{}/draft-retry"),
        EventKind::ProposalAccepted => on_card("/api/board/cards/{}/accept-slug"),
        EventKind::Started
        | EventKind::DoneOutside
        | EventKind::SentBack
        | EventKind::AcceptedByHand
        | EventKind::Replanned
        | EventKind::Deployed
        | EventKind::TakenBack
        | EventKind::PlannedAgain => on_card("/api/board/cards/{}/move"),
        EventKind::SplitStarted => on_card("/api/board/cards/{}/split"),
        EventKind::Resumed => on_card("/api/board/cards/{}/resume"),
        EventKind::StartedAfresh
        | EventKind::ReviewRetried
        | EventKind::AskedAgain
        | EventKind::SplitRetried => on_card("/api/board/cards/{}/retry"),
        EventKind::Discarded => on_card("/api/board/cards/{}/discard"),
        EventKind::Revised => on_card("/api/board/cards/{}/revise"),
        EventKind::CancelAsked => on_card("/api/board/cards/{}/cancel"),
        EventKind::Archived => on_card("/api/board/cards/{}/archive"),
        EventKind::BroughtBack | EventKind::Restored => on_card("/api/board/cards/{}/restore"),
        EventKind::Deleted => Some(("DELETE", CARD, "{page}", "{page}")),
        EventKind::Undone => on_card("/api/board/cards/{}/undo"),
        EventKind::Question
        | EventKind::IntentProposed
        | EventKind::DraftFailed
        | EventKind::Built
        | EventKind::BuildEnded
        | EventKind::ReviewedReady
        | EventKind::ReviewedBack
        | EventKind::ReviewFailed
        | EventKind::Reported
        | EventKind::ResearchFailed
        | EventKind::ChildrenWritten
        | EventKind::SplitFailed
        | EventKind::InterruptedOnce
        | EventKind::InterruptedTwice
        | EventKind::Unavailable
        | EventKind::Cancelled
        | EventKind::SynthesisWritten => None,
    }
}

pub(crate) fn sources(of: Of, phase: Phase) -> Vec<Source> {
    match (of, phase) {
        (_, Phase::Idee) => vec![Source::Idea],
        (_, phase) if phase.is_draft() => vec![Source::Draft],
        (Of::Research, _)
        | (_, Phase::RechercheLaeuft | Phase::RechercheFertig | Phase::RechercheFehlgeschlagen) => {
            vec![Source::Research]
        }
        (Of::Any | Of::Intent | Of::Document, _) => vec![Source::Intent],
    }
}

/// A card that stands in this phase, with everything that its events need; its builds began at this commit.
pub(crate) fn put(board: &mut Board, phase: Phase, source: Source, commit: &str) -> CardId {
    let at = clock::now();
    let id = match source {
        Source::Idea => CardId::Idea(Uuid::from_u128(3)),
        Source::Draft => CardId::Draft(Uuid::from_u128(4)),
        Source::Intent => "limit".parse().unwrap(),
        Source::Research => "frage".parse().unwrap(),
    };
    let mut card = Card::new(id.clone(), source, "Karte", phase, at);
    let document =
        DocumentText { path: "docs/intent/limit.md".into(), blob: "b".repeat(40), text: "# A\n".into() };
    let commit = commit.to_owned();
    if source == Source::Draft {
        let body = "# Intent: A\n".to_owned();
        let proposal =
            ProposedIntent { slug: Slug::parse("limit").unwrap(), profile: None, iterations: None, body };
        card.draft = Some(Draft {
            round: 1,
            conversation: vec![],
            from_idea: None,
            revises: None,
            proposal: (phase == Phase::EntwurfFehlgeschlagen).then_some(proposal),
        });
        let asked = Turn {
            who: Speaker::Planner,
            at,
            text: "Wie viele?".into(),
            options: vec!["10".into()],
            chosen: None,
        };
        card.draft.as_mut().unwrap().conversation.push(asked);
    }
    if source == Source::Intent {
        card.build = Some(Build {
            number: 1,
            branch: "board/limit/1".into(),
            worktree: Some("limit-1".into()),
            base_commit: commit.clone(),
            diff_base: commit.clone(),
            check_commit: Some(commit.clone()),
            earlier_check: None,
            given_up: false,
            intent_blob: document.blob.clone(),
            saved_refs: Vec::new(),
        });
    }
    if let Some(kind) = phase.work() {
        let payload = match kind {
            JobType::Draft => {
                Payload::Draft(DraftPayload { round: 1, conversation: Vec::new(), revises: None })
            }
            JobType::Builder => Payload::Builder(BuilderPayload {
                intent: document,
                base_commit: commit,
                diff_base: None,
                number: 1,
                resume: None,
                feedback: None,
            }),
            JobType::Review => {
                Payload::Review(ReviewPayload { intent: document, base: commit.clone(), commit })
            }
            JobType::Research => Payload::Research(ResearchPayload { question: document, commit }),
            JobType::Split => Payload::Split(SplitPayload { intent: document, commit }),
        };
        card.job = Some(Job {
            schema: JOB_SCHEMA,
            id: clock::stamp("lukas").job,
            attempt: 1,
            kind,
            card_id: id.clone(),
            created_at: at,
            requested_by: "lukas".into(),
            profile: "klein".into(),
            iteration_limit: 20,
            guidance: None,
            payload,
        });
        let step = Step {
            transition: Uuid::from_u128(5),
            from: Some(Phase::Geplant),
            to: phase,
            event: "started".into(),
            actor: "lukas".into(),
            at,
            job: None,
            profile: None,
            note: None,
        };
        // Parked, so that nothing is published and it can be taken back.
        card.parked = Some(Parked { not_before: at.plus_seconds(3000), window_s: 3600, before: None, step });
    }
    board.cards.clear();
    board.deleted.clear();
    board.cards.insert(id.clone(), card);
    id
}

/// The forms of a page: where each is posted, and the event that it sends.
fn forms(page: &str) -> Vec<(String, Option<String>)> {
    let value = |text: &str, from: &str| Some(text.split_once(from)?.1.split('"').next()?.to_owned());
    let page = page.replace("&#x2f;", "/");
    page.split("<form ")
        .skip(1)
        .filter_map(|rest| {
            let form = rest.split("</form>").next()?;
            Some((value(form, "action=\"")?, value(form, "name=\"event\" value=\"")))
        })
        .collect()
}

#[test]
fn every_event_of_an_operator_has_a_call_and_a_form() {
    let house = House::open();
    let documented = house.get("/api/openapi.json").json();
    let mut rows = 0;
    for row in TABLE.iter().filter(|row| row.who == Who::Operator) {
        let (method, path, page, action) = ways(row.event).unwrap_or_else(|| panic!("{}: no way", row.event));
        let template = path.replace("{}", "{id}");
        let operation = &documented["paths"][&template][method.to_lowercase()];
        assert!(operation.is_object(), "{}: {method} {template} is not in the OpenAPI document", row.event);
        rows += 1;
        if row.from.is_empty() {
            // A card that is made; of one that is gone the next test tells.
            if row.event == EventKind::Restored {
                continue;
            }
            let new = row.event == EventKind::DocumentWritten;
            let (page, action) = if new { ("/karten/neu", "/karten/neu") } else { (page, action) };
            let shown = house.get(page).text();
            assert!(forms(&shown).iter().any(|(to, _)| to == action), "{}: {page} has no form", row.event);
            continue;
        }
        for phase in row.from {
            for source in sources(row.of, *phase) {
                let id = house.change(|board| put(board, *phase, source, COMMIT));
                let own_page = match &id {
                    CardId::Draft(_) => format!("/entwuerfe/{id}"),
                    CardId::Slug(_) | CardId::Idea(_) => format!("/karten/{id}"),
                };
                let what = format!("{} in {phase} of {}", row.event, source.id());
                let card = house.get(&format!("/api/board/cards/{id}")).json();
                let call = card["calls"]
                    .as_array()
                    .unwrap_or_else(|| panic!("{what}: {card}"))
                    .iter()
                    .find(|c| c["event"] == row.event.id());
                let call = call.unwrap_or_else(|| panic!("{what}: no call in {}", card["calls"]));
                let (path, page) = (path.replace("{}", &id.to_string()), page.replace("{page}", &own_page));
                assert_eq!((&call["method"], &call["path"]), (&method.into(), &path.into()), "{what}");
                let shown = house.get(&page).text();
                let form = (action.replace("{page}", &own_page), Some(row.event.id().to_owned()));
                assert!(forms(&shown).contains(&form), "{what}: no form among {:?}", forms(&shown));
                rows += 1;
            }
        }
    }
    assert!(rows > 60, "{rows}");
}

#[test]
fn a_card_that_is_gone_offers_the_form_that_brings_it_back() {
    let house = House::open();
    let id = house.change(|board| put(board, Phase::EntwurfFrage, Source::Draft, COMMIT));
    let page = format!("/entwuerfe/{id}");
    assert_eq!(house.form(&page, &[("event", "deleted")]).status, 303);
    let form = (page.clone(), Some("restored".to_owned()));
    assert!(forms(&house.get(&page).text()).contains(&form));
    assert_eq!(house.form(&page, &[("event", "restored")]).status, 303);
}

//! The editor's orders, and drafts that go other ways than straight to an intent.

use uuid::Uuid;

use super::{Clock, apply_outcome, document, id, outcome, planned, policy};
use crate::model::board::Board;
use crate::model::card::{CardId, Source};
use crate::model::event::{Event, EventKind, Refusal};
use crate::model::job::{DocumentText, Payload, Revision, Speaker};
use crate::model::marker::draft::{ProposedIntent, Question};
use crate::model::outcome::{Produced, RunResult};
use crate::model::phase::Phase;
use crate::model::slug::Slug;

fn slug(text: &str) -> Slug {
    Slug::parse(text).unwrap()
}

fn conflicted(board: &mut Board, card: &CardId) {
    let order = board.cards.get_mut(card).unwrap().order.as_mut().unwrap();
    order.conflict = Some("vergeben".into());
}

#[test]
fn a_document_written_in_the_editor_is_a_new_card_once_its_file_is_there() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let text = "# Intent: Neues\n\nMach es.\n";
    let made = board.write_document(slug("neues"), Source::Intent, text, false, &clock.stamp()).unwrap();
    assert_eq!((made.from, made.to), (None, Some(Phase::Geplant)));
    let card = &board.cards[&made.card];
    assert_eq!((card.title.as_str(), card.is_only_ordered(), board.outbox.len()), ("Neues", true, 0));
    assert!(board.reserved_paths().contains("docs/intent/neues.md"));
    let started = board.clone().apply(&made.card, Event::Archived, &clock.stamp(), &policy(0));
    assert_eq!(started, Err(Refusal::Saving));
    let choice = board.clone().set_choice(&made.card, Default::default(), &clock.stamp(), &policy(0));
    assert_eq!(choice, Err(Refusal::Saving));
    let again = board.write_document(slug("neues"), Source::Research, text, false, &clock.stamp());
    assert_eq!(again, Err(Refusal::Taken(slug("neues"))));
    board.finish_order(&made.card, &[], &clock.stamp()).unwrap();
    let card = &board.cards[&made.card];
    assert!(card.order.is_none() && !card.is_only_ordered());
    let step = &board.outbox[0].step;
    assert_eq!((step.from, step.to, step.event.as_str()), (None, Phase::Geplant, "document_written"));
}

#[test]
fn an_empty_text_and_a_file_outside_the_board_are_refused() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let mut write = |text: &str, taken| {
        board.write_document(slug("a"), Source::Research, text, taken, &clock.stamp()).unwrap_err()
    };
    assert!(matches!(write(" \n", false), Refusal::Invalid { field: "text", .. }));
    assert_eq!(write("# A\n", true), Refusal::Taken(slug("a")));
}

#[test]
fn a_text_that_found_its_name_taken_waits_for_the_operator_and_blocks_nobody() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let made =
        board.write_document(slug("a"), Source::Research, "# Frage\n", false, &clock.stamp()).unwrap().card;
    assert_eq!(board.drop_order(&made, &clock.stamp()), Err(Refusal::Saving), "it may still be written");
    conflicted(&mut board, &made);
    assert!(board.reserved_paths().is_empty(), "the file that is there is somebody else's");
    let mut dropped = board.clone();
    assert_eq!(dropped.drop_order(&made, &clock.stamp()), Ok(false));
    assert!(dropped.cards.is_empty());
    let other = board.write_elsewhere(&made, slug("b"), false, &clock.stamp()).unwrap().card;
    let (card, order) = (&board.cards[&other], board.cards[&other].order.as_ref().unwrap());
    assert_eq!((card.source, order.path.as_str()), (Source::Research, "docs/research/b.md"));
    assert_eq!((order.text.as_str(), board.cards.len()), ("# Frage\n", 1));
}

#[test]
fn an_edit_replaces_exactly_what_was_edited_and_leaves_the_phase() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    board.cards.get_mut(&card).unwrap().unread = true;
    board.edit_document(&card, "# Intent: Anders\n", "blob", &clock.stamp()).unwrap();
    let order = board.cards[&card].order.clone().unwrap();
    assert_eq!((order.base_blob.as_deref(), order.path.as_str()), (Some("blob"), "docs/intent/limit.md"));
    assert_eq!(board.edit_document(&card, "# B\n", "blob", &clock.stamp()), Err(Refusal::Saving));
    // After a conflict the operator's next text counts.
    conflicted(&mut board, &card);
    board.edit_document(&card, "# Intent: Beides\n", "neu", &clock.stamp()).unwrap();
    board.finish_order(&card, &[], &clock.stamp()).unwrap();
    let entry = &board.cards[&card];
    assert_eq!((entry.title.as_str(), entry.phase, entry.unread), ("Beides", Phase::Geplant, false));
    assert_eq!(board.outbox[0].step.from, Some(Phase::Geplant));
    assert_eq!(
        board.drop_order(&card, &clock.stamp()).unwrap_err().to_string().split(':').next(),
        Some("text")
    );
}

#[test]
fn a_start_that_can_be_taken_back_keeps_its_text() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let card = planned(&mut board, "limit", Source::Intent);
    let start = Event::Started { payload: super::builder(1, false) };
    board.apply(&card, start, &clock.stamp(), &policy(5)).unwrap();
    let edited = board.edit_document(&card, "# B\n", "blob", &clock.stamp());
    assert!(
        matches!(edited, Err(Refusal::NotAllowed { event: EventKind::DocumentWritten, .. })),
        "{edited:?}"
    );
}

#[test]
fn other_words_of_an_idea_count_at_once() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let idea = board.create_idea(Uuid::from_u128(3), "Idee", "kurz", &clock.stamp()).unwrap().card;
    board.edit_idea(&idea, " Bessere Idee ", "länger", &clock.stamp()).unwrap();
    let card = &board.cards[&idea];
    assert_eq!((card.title.as_str(), card.text.as_str()), ("Bessere Idee", "länger"));
    assert!(matches!(board.edit_idea(&idea, " ", "", &clock.stamp()), Err(Refusal::Invalid { .. })));
    let draft =
        board.apply(&idea, Event::PlannedOut { draft: Uuid::from_u128(5) }, &clock.stamp(), &policy(5));
    let draft = draft.unwrap().card;
    assert_eq!(board.edit_idea(&idea, "x", "", &clock.stamp()), Err(Refusal::InDraft(draft)));
}

#[test]
fn whoever_answers_an_answered_round_is_told_so_whatever_the_draft_does_by_now() {
    let (mut board, mut clock) = (Board::empty(), Clock(0));
    let draft = board.create_draft(Uuid::from_u128(9), "Thema", &clock.stamp(), &policy(5)).unwrap().card;
    let question = Question { text: "Wie viele?".into(), options: vec!["10".into()] };
    let asked = outcome(&board, &draft, RunResult::Succeeded, Some(Produced::Question(question)));
    apply_outcome(&mut board, &asked, &mut clock);
    let answer = |round| Event::Answered { answer: "zehn".into(), option: None, round };
    board.apply(&draft, answer(Some(1)), &clock.stamp(), &policy(5)).unwrap();
    let late = board.clone().apply(&draft, answer(Some(1)), &clock.stamp(), &policy(5));
    assert_eq!(late, Err(Refusal::OldRound { given: 1, current: 2 }));
    let early = board.apply(&draft, answer(Some(2)), &clock.stamp(), &policy(5));
    assert!(matches!(early, Err(Refusal::NotAllowed { .. })), "{early:?}");
}

/// A card with feedback whose revision proposed something that could not be written.
fn failed_revision(clock: &mut Clock) -> (Board, CardId, CardId) {
    let mut board = Board::empty();
    let card = planned(&mut board, "limit", Source::Intent);
    board.cards.get_mut(&card).unwrap().phase = Phase::PlanungMitFeedback;
    let revised = Event::Revised { draft: Uuid::from_u128(7), intent: document(), reports: Vec::new() };
    let draft = board.apply(&card, revised, &clock.stamp(), &policy(0)).unwrap().card;
    let body = "# Intent: Limit 2\n".to_owned();
    let intent = ProposedIntent { slug: slug("limit"), profile: None, iterations: None, body };
    let proposed = outcome(&board, &draft, RunResult::Succeeded, Some(Produced::Intent(intent)));
    board
        .refuse_documents(&proposed, "Intent wurde inzwischen geändert", &clock.stamp(), &policy(0))
        .unwrap();
    (board, card, draft)
}

#[test]
fn a_revision_that_is_tried_again_works_from_the_intent_as_it_is_now() {
    let mut clock = Clock(0);
    let (mut board, card, draft) = failed_revision(&mut clock);
    let intent = DocumentText { blob: "c".repeat(40), text: "# Intent: von Hand\n".into(), ..document() };
    let fresh = Revision { card, intent: intent.clone(), reports: Vec::new() };
    let retry = Event::DraftRetried { note: None, revision: Some(fresh) };
    board.apply(&draft, retry, &clock.stamp(), &policy(0)).unwrap();
    let entry = &board.cards[&draft];
    let own = entry.draft.as_ref().unwrap();
    assert_eq!(own.revises.as_ref().unwrap().blob, intent.blob);
    let Payload::Draft(payload) = &entry.current_job().unwrap().payload else { panic!() };
    assert_eq!(payload.revises.as_ref().unwrap().intent, intent);
    let last = payload.conversation.last().unwrap();
    assert!(last.who == Speaker::Board && last.text.contains("inzwischen geändert"), "{last:?}");
    assert!(!own.conversation.iter().any(|turn| turn.text.contains("vergeben")), "its own slug is not taken");
}

#[test]
fn a_revision_taken_under_another_slug_frees_the_card_that_it_was_of() {
    let mut clock = Clock(0);
    let (mut board, card, draft) = failed_revision(&mut clock);
    let accept = Event::ProposalAccepted { slug: slug("limit-2"), taken: false };
    board.apply(&draft, accept, &clock.stamp(), &policy(0)).unwrap();
    let made = board.finish_order(&draft, &[], &clock.stamp()).unwrap();
    assert_eq!((made.card, board.cards[&card].open_draft.clone()), (id("limit-2"), None));
}

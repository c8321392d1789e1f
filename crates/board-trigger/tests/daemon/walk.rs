//! The transition table walked: every row that an operator causes, from every phase and source of it, once by its
//! call of the API and once by the form of the page. Each time the card stands where the row says.

use board_core::edge::store::Store;
use board_core::model::board::Board;
use board_core::model::card::{CardId, Source};
use board_core::model::event::EventKind;
use board_core::model::phase::Phase;
use board_core::model::slug::Slug;
use board_core::model::transition::{self, Row, TABLE, To, Who};
use serde_json::{Map, Value, json};

use crate::house::{House, Reply};
use crate::reach::{put, sources};

/// By which way an event is caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Call,
    Form,
}

/// What is given besides the click; the form's own fields are on the page.
#[expect(clippy::wildcard_enum_match_arm, reason = "most events want nothing; the walk tells where one does")]
fn given(event: EventKind) -> Vec<(&'static str, &'static str)> {
    match event {
        EventKind::DoneOutside | EventKind::AcceptedByHand | EventKind::TakenBack => {
            vec![("reason", "von Hand")]
        }
        EventKind::SentBack | EventKind::DraftRetried => vec![("note", "bitte kürzer")],
        EventKind::DocumentWritten | EventKind::ProposalAccepted => vec![("slug", "neuer-name")],
        EventKind::Answered => vec![("answer", "zehn")],
        _ => Vec::new(),
    }
}

fn page_of(id: &CardId) -> String {
    match id {
        CardId::Draft(_) => format!("/entwuerfe/{id}"),
        CardId::Slug(_) | CardId::Idea(_) => format!("/karten/{id}"),
    }
}

/// The fields that the form of this event has on the page, hidden and typed, as a browser would send them.
fn fields_of(page: &str, event: EventKind) -> Vec<(String, String)> {
    let value = |text: &str, from: &str| Some(text.split_once(from)?.1.split('"').next()?.to_owned());
    let wanted = format!("name=\"event\" value=\"{}\"", event.id());
    let form = page.split("<form ").skip(1).filter_map(|rest| rest.split("</form>").next());
    let form = form.into_iter().find(|form| form.contains(&wanted));
    let form = form.unwrap_or_else(|| panic!("{event}: no form on\n{page}"));
    let inputs = form.split("<input ").skip(1).filter_map(|rest| rest.split('>').next());
    inputs
        .filter(|input| !input.contains("type=\"radio\"") && !input.contains("type=\"checkbox\""))
        .filter_map(|input| Some((value(input, "name=\"")?, value(input, "value=\"").unwrap_or_default())))
        .collect()
}

fn cause(house: &House, id: &CardId, event: EventKind, way: Way) -> Reply {
    match way {
        Way::Call => {
            let card = house.get(&format!("/api/board/cards/{id}")).json();
            let call = card["calls"].as_array().unwrap().iter().find(|call| call["event"] == event.id());
            let call = call.unwrap_or_else(|| panic!("{event}: no call among {}", card["calls"]));
            let path = call["path"].as_str().unwrap();
            let mut body: Map<String, Value> =
                given(event).into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
            if path.ends_with("/move") {
                body.insert("to".to_owned(), call["to"].clone());
            }
            let body = if body.is_empty() { String::new() } else { Value::from(body).to_string() };
            house.ask(&format!("{} {path}", call["method"].as_str().unwrap()), "", &body)
        }
        Way::Form => {
            let page = page_of(id);
            let mut fields = fields_of(&house.get(&page).text(), event);
            let given = given(event);
            fields.retain(|(name, _)| given.iter().all(|(own, _)| own != name));
            fields.extend(given.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
            let fields: Vec<(&str, &str)> = fields.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            house.form(&page, &fields)
        }
    }
}

/// Checks that the card stands where the row says.
fn arrived(board: &Board, id: &CardId, row: &Row, from: Phase, what: &str) {
    let card = board.cards.get(id);
    match (row.to, row.event) {
        // The text is an order; the watcher writes it, and then it is an intent in this phase.
        (To::Intent, _) => {
            let slug = CardId::Slug(Slug::parse("neuer-name").unwrap());
            let ordered = card.or(board.cards.get(&slug)).and_then(|card| card.order.as_ref());
            let order = ordered.unwrap_or_else(|| panic!("{what}: no order in {card:?}"));
            assert_eq!(order.path, "docs/intent/neuer-name.md", "{what}");
            assert_eq!(transition::target(row, from), Some(Phase::Geplant), "{what}");
        }
        (To::Gone, _) => {
            assert!(card.is_none(), "{what}: {card:?}");
            assert!(board.deleted.iter().any(|deleted| deleted.card.id == *id), "{what}: kept for a day");
        }
        (To::Same, EventKind::Revised | EventKind::PlannedOut) => {
            let card = card.unwrap();
            assert_eq!(card.phase, from, "{what}");
            let draft = card.open_draft.as_ref().unwrap_or_else(|| panic!("{what}: no draft"));
            assert_eq!(board.cards[draft].phase, Phase::EntwurfLaeuft, "{what}");
        }
        // Parked: it ends at once.
        (To::Same, EventKind::CancelAsked) => {
            assert_eq!(card.unwrap().phase, from.failure().unwrap(), "{what}");
        }
        // There was no entry before the start that is taken back: the card is what its file says.
        (To::Before, EventKind::Undone) => assert!(card.is_none(), "{what}: {card:?}"),
        (To::Before, EventKind::TakenBack) => {
            assert_eq!(card.unwrap().phase, Phase::BereitFuerDeployment, "{what}");
        }
        (To::Before, _) => assert_eq!(card.unwrap().phase, Phase::Geplant, "{what}"),
        (To::Phase(to), _) => {
            let card = card.unwrap_or_else(|| panic!("{what}: gone"));
            assert_eq!(card.phase, to, "{what}");
            assert_eq!(card.current_job().is_some(), row.job, "{what}");
        }
        (To::Same | To::Failure, _) => panic!("{what}: this row has no check"),
    }
}

fn head(house: &House) -> String {
    std::fs::read_to_string(house.repository().join(".git/refs/heads/main")).unwrap().trim().to_owned()
}

#[test]
fn every_row_of_an_operator_is_walked_by_call_and_by_form() {
    let house = House::open();
    let commit = head(&house);
    let store = Store::open(&house.state()).unwrap();
    let (mut walked, mut rows) = (0, 0);
    for row in TABLE.iter().filter(|row| row.who == Who::Operator && !row.from.is_empty()) {
        rows += 1;
        for (phase, source) in row
            .from
            .iter()
            .flat_map(|phase| sources(row.of, *phase).into_iter().map(move |source| (*phase, source)))
        {
            for way in [Way::Call, Way::Form] {
                let what = format!("{} in {phase} of {} by {way:?}", row.event, source.id());
                let id = house.change(|board| put(board, phase, source, &commit));
                let reply = cause(&house, &id, row.event, way);
                let good = match way {
                    Way::Call => (200..300).contains(&reply.status),
                    Way::Form => reply.status == 303,
                };
                assert!(good, "{what}: {} {}", reply.status, reply.text());
                arrived(&store.read().unwrap(), &id, row, phase, &what);
                walked += 1;
            }
        }
    }
    // Every row with a card, twice at least.
    assert!(walked >= 2 * rows && rows > 20, "{walked} of {rows} rows");
}

#[test]
#[expect(clippy::wildcard_enum_match_arm, reason = "a new event that makes a card fails here, as it should")]
fn every_row_that_makes_a_card_is_walked_by_call_and_by_form() {
    let house = House::open();
    let commit = head(&house);
    let board = || Store::open(&house.state()).unwrap().read().unwrap();
    for row in TABLE.iter().filter(|row| row.who == Who::Operator && row.from.is_empty()) {
        for way in [Way::Call, Way::Form] {
            house.change(|board| board.cards.clear());
            let made = match row.event {
                EventKind::IdeaCreated => make(
                    &house,
                    way,
                    "/api/board/cards",
                    "/karten/neu",
                    &[("title", "Eins"), ("kind", "idee")],
                ),
                EventKind::DocumentWritten => {
                    let fields = [("title", "Eins"), ("kind", "intent"), ("slug", "eins")];
                    make(&house, way, "/api/board/cards", "/karten/neu", &fields)
                }
                EventKind::DraftCreated => {
                    make(&house, way, "/api/board/drafts", "/entwuerfe/neu", &[("topic", "Eins")])
                }
                EventKind::Restored => {
                    let id = house.change(|board| put(board, Phase::EntwurfFrage, Source::Draft, &commit));
                    assert_eq!(house.ask(&format!("DELETE /api/board/cards/{id}"), "", "").status, 204);
                    assert!(board().cards.is_empty());
                    let page = page_of(&id);
                    match way {
                        Way::Call => house.post(&format!("/api/board/cards/{id}/restore"), "").status,
                        Way::Form => {
                            assert!(house.get(&page).text().contains("name=\"event\" value=\"restored\""));
                            house.form(&page, &[("event", "restored")]).status
                        }
                    }
                }
                other => panic!("{other}: no way is known to make a card by it"),
            };
            assert!(matches!(made, 200..=202 | 303), "{} by {way:?}: {made}", row.event);
            let board = board();
            let card = board.cards.values().next().unwrap_or_else(|| panic!("{} by {way:?}", row.event));
            let wanted = match row.to {
                To::Phase(phase) => phase,
                To::Before => Phase::EntwurfFrage,
                To::Same | To::Failure | To::Intent | To::Gone => panic!("{}: no check", row.event),
            };
            assert_eq!((board.cards.len(), card.phase), (1, wanted), "{} by {way:?}", row.event);
            assert_eq!(card.current_job().is_some(), row.job, "{} by {way:?}", row.event);
        }
    }
}

fn make(house: &House, way: Way, call: &str, page: &str, fields: &[(&str, &str)]) -> u16 {
    match way {
        Way::Call => {
            let body: Map<String, Value> =
                fields.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
            house.post(call, &Value::from(body).to_string()).status
        }
        Way::Form => {
            assert!(house.get(page).text().contains(&format!("method=\"post\" action=\"{page}\"")), "{page}");
            house.form(page, fields).status
        }
    }
}

//! Parents, children and their synthesis: by the API, by the forms of a card's page, and each refusal in both
//! languages.
use board_core::model::card::{Card, CardId, Source};
use board_core::model::fanout::MAX_CHILDREN;
use board_core::model::phase::Phase;
use board_core::model::time::Timestamp;
use serde_json::json;

use crate::house::{House, Reply};

/// Puts a card without a file of its own into the state.
fn card(house: &House, slug: &str, phase: Phase) -> CardId {
    let id: CardId = slug.parse().unwrap();
    let card = Card::new(id.clone(), Source::Intent, format!("Titel {slug}"), phase, Timestamp::MIN);
    std::fs::write(house.repository().join(format!("docs/intent/{slug}.md")), format!("# Titel {slug}\n"))
        .unwrap();
    house.change(|board| board.cards.insert(id.clone(), card));
    id
}

fn link(house: &House, child: &str, parent: Option<&str>, headers: &str) -> Reply {
    let body = json!({ "parent_id": parent }).to_string();
    house.ask(&format!("PATCH /api/board/cards/{child}/parent"), headers, &body)
}

const ENGLISH: &str = "Accept-Language: en\r\n";

#[test]
fn each_link_that_cannot_be_is_refused_with_its_sentence_in_german_and_in_english() {
    let house = House::open();
    for slug in ["a", "b", "c"] {
        card(&house, slug, Phase::Geplant);
    }
    let idea =
        house.post("/api/board/cards", r#"{"title":"Idee"}"#).json()["id"].as_str().unwrap().to_owned();
    assert_eq!(link(&house, "b", Some("a"), "").status, 200);
    assert_eq!(link(&house, "c", Some("b"), "").status, 200);
    let full = card(&house, "voll", Phase::Geplant);
    house.change(|board| {
        let children = (0..MAX_CHILDREN).map(|n| format!("kind-{n}").parse().unwrap());
        board.cards.get_mut(&full).unwrap().children = children.collect();
    });
    let own =
        format!("{idea} ist eine Idee oder ein Entwurf; verbinden lassen sich nur Intents und Recherchen.");
    let own_en = format!("{idea} is an idea or a draft; only intents and research can be linked.");
    let cases = [
        ("a", "nirgends", "Es gibt keine Karte nirgends.", "There is no card nirgends."),
        ("a", "a", "Eine Karte kann nicht ihre eigene Elternkarte sein.", "A card cannot be its own parent."),
        ("a", "c", "Das ergäbe einen Kreis über c.", "That would make a cycle through c."),
        (
            "c",
            "a",
            "Die Karte hat schon eine Elternkarte: b. Löse zuerst diese Verbindung.",
            "The card already has a parent: b. Unlink it first.",
        ),
        ("a", idea.as_str(), own.as_str(), own_en.as_str()),
        (idea.as_str(), "a", own.as_str(), own_en.as_str()),
        ("limit", "voll", "Eine Karte hat höchstens 64 Kinder.", "A card has at most 64 children."),
    ];
    for (child, parent, german, english) in cases {
        for (headers, sentence) in [("", german), (ENGLISH, english)] {
            let refused = link(&house, child, Some(parent), headers);
            let body = refused.json();
            assert_eq!((refused.status, body["code"].as_str()), (409, Some("link")), "{body}");
            assert_eq!(body["detail"], sentence, "{child} under {parent}");
        }
        let form = house.form(&format!("/karten/{child}/parent"), &[("parent_id", parent)]);
        assert_eq!(form.status, 409);
        let escaped = german.replace('/', "&#x2f;");
        assert!(form.text().contains(&escaped), "{german} is not in\n{}", form.text());
        assert!(form.text().contains(&format!("value=\"{parent}\"")), "what was typed is still there");
    }
    assert_eq!(house.get("/api/board/cards/a").json()["depends_on"], json!(["b"]), "nothing was changed");
}

#[test]
fn by_the_forms_a_card_gets_and_loses_a_parent_and_both_pages_show_it() {
    let house = House::open();
    card(&house, "kind", Phase::Geplant);
    let set = house.form("/karten/kind/parent", &[("parent_id", " limit ")]);
    assert_eq!((set.status, set.header("location")), (303, Some("/karten/kind")));
    let child = house.get("/karten/kind").text();
    assert!(child.contains("href=\"/karten/limit\">Kartenlimit</a>"), "{child}");
    let parent = house.get("/karten/limit").text();
    assert!(parent.contains("href=\"/karten/kind\">Titel kind</a>"), "{parent}");
    assert!(!parent.contains("/karten/limit/synthese"), "no button while a child is open");
    assert_eq!(house.form("/karten/kind/parent", &[("parent_id", "")]).status, 303);
    assert!(!house.get("/karten/limit").text().contains("href=\"/karten/kind\">Titel kind</a>"));
    // Neither the one nor the other made a synthesis due.
    house.change(|board| assert!(board.cards.values().all(|card| card.synthesis_due.is_none())));
}

#[test]
fn a_synthesis_by_hand_is_refused_with_a_sentence_until_all_children_have_ended() {
    let house = House::open();
    let child = card(&house, "kind", Phase::Geplant);
    let ask = |headers: &str| house.ask("POST /api/board/cards/limit/synthesise", headers, "");
    let refused = |german: &str, english: &str| {
        for (headers, sentence) in [("", german), (ENGLISH, english)] {
            let answer = ask(headers);
            assert_eq!((answer.status, answer.json()["code"].as_str()), (409, Some("synthesis")));
            assert_eq!(answer.json()["detail"], sentence);
        }
    };
    refused(
        "Die Karte hat keine Kinder. Verbinde zuerst welche mit ihr.",
        "The card has no children. Link some to it first.",
    );
    link(&house, "kind", Some("limit"), "");
    link(&house, "frage", Some("limit"), "");
    house.change(|board| board.cards.get_mut(&child).unwrap().phase = Phase::Archiviert);
    refused("Noch nicht beendet: frage.", "Not ended yet: frage.");
    // A form is answered with the page of the same sentence.
    let form = house.form("/karten/limit/synthese", &[]);
    assert!(form.status == 409 && form.text().contains("Noch nicht beendet: frage."), "{}", form.text());
    house.change(|board| {
        board.cards.get_mut(&"frage".parse().unwrap()).unwrap().phase = Phase::RechercheFertig;
    });
    let page = house.get("/karten/limit").text();
    assert!(page.contains("Alle Kinder fertig") && page.contains("Synthese erzeugen"), "{page}");
    let key = "Idempotency-Key: 0b0e7a52-6a1e-4c1d-9a80-3f2f0c9b7a11\r\n";
    assert_eq!((ask(key).status, ask(key).status), (200, 200), "the same request twice is one");
    house.change(|board| assert!(board.cards[&"limit".parse().unwrap()].synthesis_due.is_some()));
    refused("Eine Synthese wird gerade geschrieben.", "A synthesis is being written.");
    let audit = house.audit();
    assert_eq!(
        audit.iter().filter(|line| line["action"] == "synthesise" && line["result"] == "ok").count(),
        2
    );
    assert_eq!(house.post("/api/board/cards/limit/synthesise", r#"{"x":1}"#).status, 422);
    assert_eq!(house.post("/api/board/cards/nirgends/synthesise", "").status, 404);
}

#[test]
fn a_synthesis_is_read_by_a_call_a_form_or_the_confirmed_start_and_who_did_is_kept() {
    let house = House::open();
    for slug in ["eins", "zwei", "drei"] {
        let id = card(&house, slug, Phase::Geplant);
        house.change(|board| board.cards.get_mut(&id).unwrap().unread = true);
    }
    for (headers, title) in [("", "Noch nicht gelesen"), (ENGLISH, "Not read yet")] {
        let refused = house.ask("POST /api/board/cards/eins/move", headers, r#"{"to":"in_umsetzung"}"#);
        assert_eq!((refused.status, refused.json()["code"].as_str()), (428, Some("synthesis-unread")));
        assert_eq!(refused.json()["title"], title);
    }
    for body in ["", "{}", r#"{"confirm":false}"#] {
        let refused = house.post("/api/board/cards/eins/read", body);
        assert_eq!((refused.status, refused.json()["code"].as_str()), (422, Some("invalid")), "{body}");
    }
    assert_eq!(house.get("/api/board/cards/eins").json()["unread"], true);
    let read = house.post("/api/board/cards/eins/read", r#"{"confirm":true}"#);
    assert_eq!((read.status, &read.json()["unread"]), (200, &json!(false)), "{}", read.text());
    assert_eq!(read.json()["history"][0]["event"], "read");
    let page = house.get("/karten/zwei").text();
    assert!(page.contains("action=\"/karten/zwei/gelesen\""), "{page}");
    assert_eq!(house.form("/karten/zwei/gelesen", &[]).status, 303);
    assert!(!house.get("/karten/zwei").text().contains("/karten/zwei/gelesen"));
    let start = house.post("/api/board/cards/drei/move", r#"{"to":"in_umsetzung","confirm":true}"#);
    assert_eq!(start.status, 202, "{}", start.text());
    house.change(|board| {
        for slug in ["eins", "zwei", "drei"] {
            let card = &board.cards[&slug.parse().unwrap()];
            assert!(!card.unread && card.read_by.is_some(), "{slug}");
        }
    });
}

#[test]
fn while_a_start_can_be_taken_back_its_card_is_not_linked() {
    let house = House::open();
    assert_eq!(house.post("/api/board/cards/limit/move", r#"{"to":"in_umsetzung"}"#).status, 202);
    for (child, parent) in [("limit", "frage"), ("frage", "limit")] {
        let refused = link(&house, child, Some(parent), "");
        assert_eq!((refused.status, refused.json()["code"].as_str()), (409, Some("parked")));
        assert!(refused.json()["detail"].as_str().unwrap().contains("zurücknehmen"));
    }
    assert_eq!(house.post("/api/board/cards/limit/undo", "").status, 200);
    assert_eq!(link(&house, "frage", Some("limit"), "").status, 200);
}

#[test]
fn a_card_is_put_before_another_or_last_and_the_board_shows_it_there() {
    let house = House::open();
    let planned = || -> Vec<String> {
        let board = house.get("/api/board").json();
        let cards = board["columns"][1]["cards"].as_array().unwrap().clone();
        cards.iter().map(|card| card["id"].as_str().unwrap().to_owned()).collect()
    };
    for slug in ["eins", "zwei"] {
        card(&house, slug, Phase::Geplant);
    }
    let rank = |card: &str, body: &str| house.post(&format!("/api/board/cards/{card}/rank"), body);
    let mut first = planned();
    assert_eq!(first.len(), 4, "{first:?}");
    let last = first.pop().unwrap();
    first.insert(0, last.clone());
    let moved = rank(&last, &json!({ "before": first[1] }).to_string());
    assert_eq!(moved.status, 200, "{}", moved.text());
    assert_eq!(moved.json()["history"][0]["event"], "ranked");
    assert_eq!(planned(), first);
    // Last, by a call without a body; and back between two others, by the form of the page.
    assert_eq!(rank(&last, "").status, 200);
    first.rotate_left(1);
    assert_eq!(planned(), first);
    let page = house.get(&format!("/karten/{last}")).text();
    assert!(page.contains(&format!("action=\"/karten/{last}/platz\"")), "{page}");
    let form = house.form(&format!("/karten/{last}/platz"), &[("before", &first[1])]);
    assert_eq!(form.status, 303, "{}", form.text());
    first.pop();
    first.insert(1, last.clone());
    assert_eq!(planned(), first);
    // The field says what is wrong with it.
    let no = "before: nirgends ist keine andere Karte derselben Spalte";
    assert_eq!(rank("eins", r#"{"before":"nirgends"}"#).json()["detail"], no);
    assert!(house.form("/karten/eins/platz", &[("before", "nirgends")]).text().contains(no));
    let itself = house.ask("POST /api/board/cards/eins/rank", ENGLISH, r#"{"before":"eins"}"#);
    assert_eq!((itself.status, itself.json()["code"].as_str()), (422, Some("invalid")));
    assert_eq!(itself.json()["detail"], "before: eins is no other card of the same column");
    assert_eq!(rank("eins", r#"{"before":"../x"}"#).status, 422);
    house.change(|board| board.cards.get_mut(&"zwei".parse().unwrap()).unwrap().phase = Phase::Deployed);
    let elsewhere = rank("zwei", "");
    assert_eq!(elsewhere.status, 422, "{}", elsewhere.text());
    assert!(elsewhere.json()["detail"].as_str().unwrap().contains("nur in Backlog und Geplant"));
}

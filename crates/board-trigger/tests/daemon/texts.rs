//! Texts of the editor, through the API and through forms. No watcher runs here: an order stays in the state,
//! or a test carries it out as the watcher does.
use board_core::edge::clock;
use board_core::model::card::CardId;
use serde_json::{Value, json};

use crate::house::{House, Reply};

fn told(reply: &Reply) -> (u16, String) {
    (reply.status, reply.json()["code"].as_str().unwrap_or_default().to_owned())
}

fn location(reply: &Reply) -> String {
    assert_eq!(reply.status, 303, "{}", reply.text());
    reply.header("location").unwrap().to_owned()
}

/// Carries out the order of a card as the watcher does, once it is there.
fn written(house: &House, card: &str) -> String {
    let id: CardId = card.parse().unwrap();
    let order = house.wait_for("the order", || house.change(|board| board.cards.get(&id)?.order.clone()));
    std::fs::write(house.repository().join(&order.path), &order.text).unwrap();
    house.change(|board| board.finish_order(&id, &[], &clock::stamp("board")).unwrap()).card.to_string()
}

fn card(house: &House, id: &str) -> Value {
    house.get(&format!("/api/board/cards/{id}")).json()
}

#[test]
fn an_intent_and_a_question_are_ordered_and_answered_once_they_are_written() {
    let house = House::open();
    let body = r##"{"kind":"intent","title":"Größere Übersicht","text":"Mach sie größer."}"##;
    let made = std::thread::scope(|scope| {
        let made = scope.spawn(|| house.post("/api/board/cards", body));
        assert_eq!(written(&house, "groessere-uebersicht"), "groessere-uebersicht");
        made.join().unwrap()
    });
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.header("location"), Some("/api/board/cards/groessere-uebersicht"));
    assert_eq!((&made.json()["phase"], &made.json()["source"]), (&json!("geplant"), &json!("intent")));
    let file =
        std::fs::read_to_string(house.repository().join("docs/intent/groessere-uebersicht.md")).unwrap();
    assert_eq!(file, "# Intent: Größere Übersicht\n\nMach sie größer.\n");
    // Without a watcher the answer says so after a while, and the card with it.
    let late =
        house.post("/api/board/cards", r##"{"kind":"recherche","slug":"wie-viele","text":"# Wie viele?"}"##);
    assert_eq!((late.status, &late.json()["order"]["path"]), (202, &json!("docs/research/wie-viele.md")));
    assert_eq!((&late.json()["title"], &late.json()["file_missing"]), (&json!("Wie viele?"), &json!(false)));
    assert_eq!(told(&house.post("/api/board/cards/wie-viele/archive", "")), (409, "saving".to_owned()));
    let parent = house.ask("PATCH /api/board/cards/wie-viele/parent", "", r#"{"parent_id":"limit"}"#);
    assert_eq!(told(&parent), (409, "saving".to_owned()));
}

#[test]
fn what_cannot_be_a_card_is_refused_with_a_sentence() {
    let house = House::open();
    let post = |body: &str| told(&house.post("/api/board/cards", body));
    assert_eq!(post(r#"{"kind":"intent","title":"x","slug":"limit"}"#), (409, "taken".to_owned()));
    assert_eq!(post(r#"{"kind":"recherche","title":"x","slug":"limit"}"#), (409, "taken".to_owned()));
    assert_eq!(post(r#"{"kind":"intent","title":"x","slug":"Groß"}"#), (422, "invalid".to_owned()));
    assert_eq!(post(r#"{"kind":"intent","slug":"leer"}"#), (422, "invalid".to_owned()));
    assert_eq!(post(r#"{"kind":"roman","title":"x"}"#), (422, "invalid".to_owned()));
    let large = "x".repeat(256 * 1024);
    assert_eq!(post(&json!({"kind": "intent", "title": "x", "slug": "g", "text": large}).to_string()).0, 422);
    assert_eq!(post(&json!({"title": "x", "text": "y".repeat(1024 * 1024)}).to_string()).0, 413);
}

#[test]
fn a_text_is_replaced_where_it_is_still_the_one_that_was_edited() {
    let house = House::open();
    let path = "/api/board/cards/limit/text";
    let text = house.get(path).json();
    assert_eq!(text["text"], "# Intent: Kartenlimit\n\nEin *Limit*.\n");
    assert_eq!(card(&house, "limit")["document_blob"], text["base_blob"]);
    let put = |base: &Value, text: &str| {
        house.ask(&format!("PUT {path}"), "", &json!({"text": text, "base_blob": base}).to_string())
    };
    assert_eq!(told(&house.ask(&format!("PUT {path}"), "", r#"{"text":"x"}"#)), (422, "invalid".to_owned()));
    let saved = std::thread::scope(|scope| {
        let saved = scope.spawn(|| put(&text["base_blob"], "# Intent: Kartenlimit\n\nZehn."));
        written(&house, "limit");
        saved.join().unwrap()
    });
    assert_eq!((saved.status, &saved.json()["phase"]), (200, &json!("geplant")), "{}", saved.text());
    assert_eq!(saved.json()["history"].as_array().unwrap().last().unwrap()["event"], "document_written");
    // The other tab began before that.
    let late = put(&text["base_blob"], "# Intent: Kartenlimit\n\nElf.");
    assert_eq!(told(&late), (412, "precondition".to_owned()));
    let late = late.json();
    assert_eq!(late["current"]["text"], "# Intent: Kartenlimit\n\nZehn.\n");
    assert_eq!(late["yours"], "# Intent: Kartenlimit\n\nElf.");
    assert_eq!(late["current"]["base_blob"], house.get(path).json()["base_blob"]);
    assert_eq!(put(&json!("0"), "").status, 412);
    assert_eq!(put(&late["current"]["base_blob"], " ").status, 422, "a document is not emptied");
}

#[test]
fn a_conflict_that_comes_later_is_shown_with_both_texts_and_settled_by_the_operator() {
    let house = House::open();
    let base = house.get("/api/board/cards/limit/text").json()["base_blob"].as_str().unwrap().to_owned();
    let put = |base: &str, text: &str| {
        house.ask(
            "PUT /api/board/cards/limit/text",
            "",
            &json!({"text": text, "base_blob": base}).to_string(),
        )
    };
    assert_eq!(put(&base, "# Intent: Meins\n").status, 202);
    assert_eq!(told(&put(&base, "# Intent: Noch einmal\n")), (409, "saving".to_owned()));
    // Somebody saved the file in an editor before the watcher came to it.
    std::fs::write(house.repository().join("docs/intent/limit.md"), "# Intent: Ihres\n").unwrap();
    let conflicted = || {
        house.change(|board| {
            let card = board.cards.get_mut(&"limit".parse().unwrap()).unwrap();
            card.order.as_mut().unwrap().conflict = Some("Intent wurde inzwischen geändert".into());
        });
    };
    conflicted();
    let page = house.get("/karten/limit").text();
    assert!(
        page.contains("Nicht gespeichert")
            && page.contains("# Intent: Meins")
            && page.contains("# Intent: Ihres"),
        "{page}"
    );
    let refused = house.post("/api/board/cards/limit/archive", "");
    assert_eq!(told(&refused), (409, "saving".to_owned()));
    assert!(refused.json()["detail"].as_str().unwrap().contains("Entscheide zuerst"), "{}", refused.text());
    let editor = house.get("/karten/limit/text").text();
    assert!(editor.contains("# Intent: Meins") && editor.contains("# Intent: Ihres"), "{editor}");
    let now = house.get("/api/board/cards/limit/text").json()["base_blob"].as_str().unwrap().to_owned();
    // What the operator makes of both is another order, on the text that is there now.
    let saved = std::thread::scope(|scope| {
        let fields = [("text", "# Intent: Beides\n"), ("base_blob", now.as_str())];
        let saved = scope.spawn(move || fields);
        let fields = saved.join().unwrap();
        let house = &house;
        let saved = scope.spawn(move || house.form("/karten/limit/text", &fields));
        house.wait_for("the new order", || {
            let order = house.change(|b| b.cards.get(&"limit".parse().unwrap())?.order.clone())?;
            order.conflict.is_none().then_some(())
        });
        written(house, "limit");
        saved.join().unwrap()
    });
    assert_eq!(location(&saved), "/karten/limit");
    assert_eq!(card(&house, "limit")["title"], "Beides");
    // The other ways: given up, or under another slug.
    let now = house.get("/api/board/cards/limit/text").json()["base_blob"].as_str().unwrap().to_owned();
    put(&now, "# Intent: Verworfen\n");
    conflicted();
    assert_eq!(house.ask("DELETE /api/board/cards/limit/text", "", "").status, 204);
    assert_eq!(
        (card(&house, "limit")["order"].clone(), card(&house, "limit")["title"].clone()),
        (json!(null), json!("Beides"))
    );
    assert_eq!(told(&house.ask("DELETE /api/board/cards/limit/text", "", "")), (422, "invalid".to_owned()));
    put(&now, "# Intent: Woanders\n");
    conflicted();
    let elsewhere = house.post("/api/board/cards/limit/accept-slug", r#"{"slug":"woanders"}"#);
    assert_eq!(
        (elsewhere.status, &elsewhere.json()["id"]),
        (202, &json!("woanders")),
        "{}",
        elsewhere.text()
    );
    assert_eq!(card(&house, "woanders")["order"]["text"], "# Intent: Woanders\n");
    assert_eq!(card(&house, "limit")["order"], json!(null));
}

#[test]
fn an_idea_is_edited_at_once_and_written_as_an_intent() {
    let house = House::open();
    let made = house.post("/api/board/cards", r#"{"title":"Übersicht","text":"klein"}"#).json();
    let idea = made["id"].as_str().unwrap().to_owned();
    let saved =
        house.form(&format!("/karten/{idea}/text"), &[("title", "Große Übersicht"), ("text", "groß")]);
    assert_eq!(location(&saved), format!("/karten/{idea}"));
    assert_eq!(
        (card(&house, &idea)["title"].clone(), card(&house, &idea)["text"].clone()),
        (json!("Große Übersicht"), json!("groß"))
    );
    let text = house.get(&format!("/api/board/cards/{idea}/text")).json();
    assert_eq!(text["text"], "groß");
    let page = house.get(&format!("/karten/{idea}")).text();
    assert!(page.contains("Als Intent schreiben") && page.contains("value=\"grosse-uebersicht\""), "{page}");
    let editor = house.get(&format!("/karten/{idea}/text?als=intent")).text();
    assert!(editor.contains("# Intent: Große Übersicht\n\ngroß"), "{editor}");
    let post = |body: &str| house.post(&format!("/api/board/cards/{idea}/to-intent"), body);
    assert_eq!(told(&post(r#"{"slug":"limit"}"#)), (409, "taken".to_owned()));
    assert_eq!(told(&post("{}")), (422, "invalid".to_owned()));
    let done = std::thread::scope(|scope| {
        let done = scope.spawn(|| post(r#"{"slug":"uebersicht"}"#));
        written(&house, &idea);
        done.join().unwrap()
    });
    assert_eq!((done.status, &done.json()["id"]), (200, &json!("uebersicht")), "{}", done.text());
    assert_eq!(
        (&done.json()["phase"], &done.json()["card"]["source"]),
        (&json!("geplant"), &json!("intent"))
    );
    let moved = house.get(&format!("/karten/{idea}"));
    assert_eq!((moved.status, moved.header("location")), (308, Some("/karten/uebersicht")));
}

#[test]
fn the_page_of_a_new_card_keeps_what_was_typed_and_shows_a_preview() {
    let house = House::open();
    let fields =
        |slug: &'static str| [("kind", "intent"), ("title", "Neu"), ("slug", slug), ("text", "Tu *es*.")];
    let refused = house.form("/karten/neu", &fields("limit"));
    let text = refused.text();
    assert_eq!(refused.status, 409);
    for part in [
        "Tu *es*.",
        "value=\"limit\"",
        "aria-invalid=\"true\"",
        "limit gibt es schon",
        "value=\"intent\" checked",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let mut preview = fields("frei").to_vec();
    preview.push(("vorschau", "1"));
    let preview = house.form("/karten/neu", &preview);
    assert!(preview.status == 200 && preview.text().contains("Tu <em>es</em>."), "{}", preview.text());
    assert_eq!(card(&house, "frei")["status"], 404, "a preview makes no card");
    let made = house.form("/karten/neu", &fields("frei"));
    assert_eq!(location(&made), "/karten/frei");
    assert!(house.get("/karten/frei").text().contains("Wird gespeichert"));
    let idea =
        house.form("/karten/neu", &[("kind", "idee"), ("title", "Idee"), ("text", ""), ("weiter", "1")]);
    assert_eq!(location(&idea), "/karten/neu?art=idee");
    let english = house.ask("GET /karten/neu?art=recherche", "Accept-Language: en\r\n", "").text();
    assert!(english.contains("New card") && english.contains("value=\"recherche\" checked"), "{english}");
}

#[test]
fn what_front_matter_proposes_is_taken_by_nobody_but_the_operator() {
    let house = House::open();
    let text = "---\nprofil: gross\nbegruendung: viel\niterationen: 5\n---\n# Intent: Kopf\n";
    let body = json!({"kind": "intent", "slug": "kopf", "text": text}).to_string();
    std::thread::scope(|scope| {
        let made = scope.spawn(|| house.post("/api/board/cards", &body));
        written(&house, "kopf");
        assert_eq!(made.join().unwrap().status, 201);
    });
    let shown = card(&house, "kopf");
    assert_eq!((&shown["profile"], &shown["title"]), (&json!("klein"), &json!("Kopf")));
    let page = house.get("/karten/kopf").text();
    assert!(
        page.contains("Vorschläge im Dateikopf") && page.contains("Profil gross, Iterationen 5"),
        "{page}"
    );
    let taken =
        house.form("/karten/kopf/profile", &[("profile", "gross"), ("iterations", "5"), ("reason", "viel")]);
    assert_eq!(location(&taken), "/karten/kopf");
    assert_eq!(
        (&card(&house, "kopf")["profile"], &card(&house, "kopf")["iterations"]["limit"]),
        (&json!("gross"), &json!(5))
    );
}

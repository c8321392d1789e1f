//! What is typed on the board becomes a file and a commit, or a conflict with both texts.

use loop_tests::{Options, World};
use serde_json::{Value, json};

fn read(world: &World, path: &str) -> String {
    std::fs::read_to_string(world.path("repo").join(path)).unwrap()
}

fn put(world: &World, card: &str, base: &Value, text: &str) -> loop_tests::http::Answer {
    world.api("PUT", &format!("/cards/{card}/text"), Some(&json!({ "text": text, "base_blob": base })))
}

#[test]
fn a_card_written_in_the_editor_is_there_with_its_commit_when_the_answer_comes() {
    let mut world = World::new(Options::default()).unwrap();
    world.start().unwrap();
    let body =
        json!({ "kind": "intent", "title": "Kartenlimit", "slug": "ok-limit", "text": "Zehn Karten." });
    let made = world.api("POST", "/cards", Some(&body));
    assert_eq!((made.status, &made.json()["phase"]), (201, &json!("geplant")), "{}", made.body);
    assert_eq!(read(&world, "docs/intent/ok-limit.md"), "# Intent: Kartenlimit\n\nZehn Karten.\n");
    let question = json!({ "kind": "recherche", "title": "Wie viele?", "slug": "wie-viele" });
    assert_eq!(world.api("POST", "/cards", Some(&question)).status, 201);
    assert_eq!(read(&world, "docs/research/wie-viele.md"), "# Wie viele?\n");
    world.wait_committed();
    assert_eq!(world.trailers("Board-Event").unwrap(), ["document_written", "document_written"]);
    assert_eq!(world.git(&["status", "--porcelain"]).unwrap(), "");
    // It is a card like any other.
    assert_eq!(world.move_to("ok-limit", "in_umsetzung").status, 202);
    world.wait_phase("ok-limit", &["bereit_fuer_deployment"]);
}

#[test]
fn an_edit_replaces_what_was_edited_and_an_idea_becomes_an_intent() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("ok-eins").unwrap();
    world.start().unwrap();
    let base = world.api("GET", "/cards/ok-eins/text", None).json()["base_blob"].clone();
    let saved = put(&world, "ok-eins", &base, "# Intent: Anders\n");
    assert_eq!((saved.status, &saved.json()["title"]), (200, &json!("Anders")), "{}", saved.body);
    assert_eq!(read(&world, "docs/intent/ok-eins.md"), "# Intent: Anders\n");
    let late = put(&world, "ok-eins", &base, "# Intent: Zu spät\n");
    assert_eq!((late.status, &late.json()["current"]["text"]), (412, &json!("# Intent: Anders\n")));
    let idea = world.api("POST", "/cards", Some(&json!({ "title": "Idee", "text": "Tu es." }))).json();
    let path = format!("/cards/{}/to-intent", idea["id"].as_str().unwrap());
    let done = world.api("POST", &path, Some(&json!({ "slug": "aus-idee" })));
    assert_eq!((done.status, &done.json()["id"]), (200, &json!("aus-idee")), "{}", done.body);
    assert_eq!(read(&world, "docs/intent/aus-idee.md"), "# Intent: Idee\n\nTu es.\n");
    world.wait_committed();
    assert_eq!(world.trailers("Board-Event").unwrap(), ["document_written", "document_written"]);
}

#[test]
fn a_file_that_came_first_is_not_overwritten_and_the_text_waits_with_its_card() {
    let mut world = World::new(Options::default()).unwrap();
    world.start().unwrap();
    // Without the watcher nothing is written: the order waits in the state while somebody makes the file.
    world.stop();
    world.start_trigger().unwrap();
    let body = json!({ "kind": "intent", "title": "Meins", "slug": "streit", "text": "Meins." });
    let made = world.api("POST", "/cards", Some(&body));
    assert_eq!((made.status, &made.json()["order"]["conflict"]), (202, &json!(null)), "{}", made.body);
    world.write("docs/intent/streit.md", "# Intent: Ihres\n").unwrap();
    world.stop();
    world.start().unwrap();
    let card = world.wait("the conflict", || {
        let card = world.card("streit");
        card["order"]["conflict"].is_string().then_some(card)
    });
    assert_eq!(
        (&card["title"], &card["order"]["text"]),
        (&json!("Ihres"), &json!("# Intent: Meins\n\nMeins.\n"))
    );
    let page = world.client().send("GET", "/karten/streit", None).unwrap().body;
    assert!(page.contains("Nicht gespeichert") && page.contains("# Intent: Ihres"), "{page}");
    let moved = world.api("POST", "/cards/streit/accept-slug", Some(&json!({ "slug": "ohne-streit" })));
    assert_eq!((moved.status, &moved.json()["id"]), (200, &json!("ohne-streit")), "{}", moved.body);
    assert_eq!(read(&world, "docs/intent/ohne-streit.md"), "# Intent: Meins\n\nMeins.\n");
    assert_eq!(read(&world, "docs/intent/streit.md"), "# Intent: Ihres\n");
    assert_eq!(
        (&world.card("streit")["order"], &world.card("streit")["phase"]),
        (&json!(null), &json!("geplant"))
    );
}

//! A conversation with the planner, through the API and through forms; what the planner says is put into the
//! state as the watcher does.
use board_core::edge::clock;
use board_core::model::card::CardId;
use board_core::model::draft::MAX_ROUNDS;
use board_core::model::marker::draft::{ProposedIntent, Question};
use board_core::model::outcome::Produced;
use board_core::model::phase::Phase;
use board_core::model::slug::Slug;
use serde_json::json;

use crate::house::{House, Reply, outcome};

const KEY: &str = "Idempotency-Key: 0b0e7a52-6a1e-4c1d-9a80-3f2f0c9b7a12\r\n";

fn without_undo() -> House {
    House::with("[auth]\nmode = \"open\"\n", 0)
}

fn question(options: &[&str]) -> Produced {
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    Produced::Question(Question { text: "Wie viele *Karten*?".into(), options })
}

fn intent(slug: &str) -> ProposedIntent {
    let body = "# Intent: Kartenlimit\n\nZehn Karten.\n".to_owned();
    ProposedIntent { slug: Slug::parse(slug).unwrap(), profile: None, iterations: None, body }
}

fn new_draft(house: &House) -> String {
    let made = house.post("/api/board/drafts", r#"{"topic":"Kartenlimit"}"#);
    assert_eq!(made.status, 202, "{}", made.text());
    made.json()["id"].as_str().unwrap().to_owned()
}

/// A draft with an open question.
fn asked(house: &House) -> String {
    let draft = new_draft(house);
    house.answer_of_role(&draft, question(&["10", "alle"]));
    draft
}

/// A draft whose proposal found its slug taken.
fn refused(house: &House) -> String {
    let draft = new_draft(house);
    let (id, policy): (CardId, _) = (draft.parse().unwrap(), house.policy());
    house.change(|board| {
        let left = outcome(board, &id, Some(Produced::Intent(intent("limit"))));
        board
            .refuse_documents(&left, "Der Slug „limit“ ist vergeben", &clock::stamp("board"), &policy)
            .unwrap();
    });
    draft
}

fn told(reply: &Reply) -> (u16, String) {
    (reply.status, reply.json()["code"].as_str().unwrap_or_default().to_owned())
}

fn location(reply: &Reply) -> String {
    assert_eq!(reply.status, 303, "{}", reply.text());
    reply.header("location").unwrap().to_owned()
}

#[test]
fn a_draft_begins_with_a_topic_and_its_first_round_is_queued_at_once() {
    let house = House::open();
    let made = house.ask("POST /api/board/drafts", KEY, r#"{"topic":" Kartenlimit "}"#);
    assert_eq!(made.status, 202, "{}", made.text());
    let body = made.json();
    let id = body["id"].as_str().unwrap().to_owned();
    assert_eq!(made.header("location"), Some(format!("/api/board/cards/{id}").as_str()));
    assert_eq!((&body["phase"], &body["job"]["position"]), (&json!("entwurf_laeuft"), &json!(1)));
    assert_eq!(body["job"]["parked_until"], json!(null), "rounds of a draft are not parked");
    assert_eq!((&body["card"]["draft_round"], &body["card"]["title"]), (&json!(1), &json!("Kartenlimit")));
    let again = house.ask("POST /api/board/drafts", KEY, r#"{"topic":"Kartenlimit"}"#);
    assert_eq!((again.status, &again.json()["id"]), (202, &json!(id)));
    assert_eq!(house.queued().iter().filter(|file| file.contains("/inbox/draft/")).count(), 1);
    let topic =
        |chars: usize| house.post("/api/board/drafts", &json!({"topic": "ä".repeat(chars)}).to_string());
    assert_eq!((topic(4000).status, topic(4001).status, topic(0).status), (202, 422, 422));
}

#[test]
fn an_option_and_a_note_are_sent_together_and_both_are_kept() {
    let house = House::open();
    let draft = asked(&house);
    let answer = format!("/api/board/cards/{draft}/draft-answer");
    let done = house.post(&answer, r#"{"option":"10","answer":"aber sortiert","round":1}"#);
    assert_eq!((done.status, &done.json()["phase"]), (202, &json!("entwurf_laeuft")), "{}", done.text());
    let card = &done.json()["card"];
    let last = card["draft_conversation"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["chosen"], &last["text"]), (&json!("10"), &json!("aber sortiert")));
    assert_eq!(card["draft_round"], 2);
}

#[test]
fn a_round_that_another_tab_answered_is_refused_with_that_answer() {
    let house = House::open();
    let draft = asked(&house);
    let page = format!("/entwuerfe/{draft}");
    let rev = house.get(&format!("/api/board/cards/{draft}")).json()["rev"].to_string();
    let fields = |answer| [("event", "answered"), ("round", "1"), ("rev", rev.as_str()), ("answer", answer)];
    assert_eq!(location(&house.form(&page, &fields("zehn, bitte"))), page);
    let late = house.form(&page, &fields("doch lieber alle"));
    assert_eq!(late.status, 409, "{}", late.text());
    let text = late.text();
    assert!(text.contains("zehn, bitte") && text.contains("doch lieber alle"), "both are shown: {text}");
    let late =
        house.post(&format!("/api/board/cards/{draft}/draft-answer"), r#"{"answer":"alle","round":1}"#);
    assert_eq!(told(&late), (409, "old-round".to_owned()));
    assert_eq!(late.json()["current"]["answer"]["text"], "zehn, bitte");
    assert!(late.json()["detail"].as_str().unwrap().contains("zehn, bitte"));
    let other = house.ask(
        &format!("POST /api/board/cards/{draft}/draft-answer"),
        "If-Match: \"1\"\r\n",
        r#"{"answer":"x","round":2}"#,
    );
    assert_eq!(other.status, 412, "another revision of the same round");
}

#[test]
fn answers_have_1_to_4000_characters_and_the_page_keeps_what_was_typed() {
    let house = House::open();
    let draft = asked(&house);
    let path = format!("/api/board/cards/{draft}/draft-answer");
    let answer = |body: serde_json::Value| told(&house.post(&path, &body.to_string()));
    assert_eq!(answer(json!({"answer": " "})).0, 422);
    assert_eq!(answer(json!({"answer": "ä".repeat(3999), "option": "10"})).0, 422);
    let page = house.form(
        &format!("/entwuerfe/{draft}"),
        &[("event", "answered"), ("round", "1"), ("answer", &"x".repeat(4001))],
    );
    assert_eq!(page.status, 422);
    let text = page.text();
    assert!(
        text.contains(&"x".repeat(4001))
            && text.contains("role=\"alert\"")
            && text.contains("id=\"antwort\"")
    );
    assert_eq!(answer(json!({"answer": "ä".repeat(3998), "option": "10"})).0, 202);
}

#[test]
fn at_the_last_round_the_answer_is_refused_with_what_to_do() {
    let house = House::open();
    let draft = asked(&house);
    let id: CardId = draft.parse().unwrap();
    let round = |round: u32| {
        house.change(|board| board.cards.get_mut(&id).unwrap().draft.as_mut().unwrap().round = round);
    };
    let path = format!("/api/board/cards/{draft}/draft-answer");
    round(MAX_ROUNDS);
    let full = house.post(&path, r#"{"answer":"weiter"}"#);
    assert_eq!(told(&full), (422, "limit".to_owned()));
    assert!(full.json()["detail"].as_str().unwrap().contains("Thema"));
    let page = house.get(&format!("/entwuerfe/{draft}")).text();
    assert!(page.contains("Runde 40 von 40") && page.contains("Das sind alle 40 Runden"), "{page}");
    round(MAX_ROUNDS - 1);
    assert_eq!(house.post(&path, r#"{"answer":"weiter"}"#).status, 202);
}

#[test]
fn the_page_asks_with_buttons_and_a_field_and_works_without_scripts() {
    let house = House::open();
    let begun = house.form("/entwuerfe/neu", &[("topic", "Kartenlimit")]);
    let page = location(&begun);
    let draft = page.strip_prefix("/entwuerfe/").unwrap().to_owned();
    let running = house.get(&page).text();
    assert!(
        running.contains("Der Planner denkt nach") && running.contains("http-equiv=\"refresh\""),
        "{running}"
    );
    assert!(!running.contains("id=\"antwort\""));
    house.answer_of_role(&draft, question(&["10", "alle & mehr"]));
    let asks = house.get(&page).text();
    for part in [
        "<ol class=\"turns\">",
        "<fieldset>",
        "name=\"antwort\" value=\"alle &amp; mehr\"",
        "name=\"answer\"",
        "name=\"round\" value=\"1\"",
        "Wie viele <em>Karten</em>?",
        "Runde 1 von 40",
    ] {
        assert!(asks.contains(part), "{part} is missing: {asks}");
    }
    let english = house.ask(&format!("GET {page}"), "Accept-Language: en\r\n", "").text();
    assert!(english.contains("Round 1 of 40") && english.contains("Your answer"), "{english}");
    let fields = [("event", "answered"), ("round", "1"), ("antwort", "alle & mehr"), ("answer", "")];
    assert_eq!(location(&house.form(&page, &fields)), page);
    assert!(house.get(&page).text().contains("alle &amp; mehr"));
    // The address of the card leads there as well.
    assert_eq!(location(&house.get(&format!("/karten/{draft}"))), page);
    let empty = house.form("/entwuerfe/neu", &[("topic", "  ")]);
    assert!(empty.status == 422 && empty.text().contains("name=\"topic\""), "{}", empty.text());
}

#[test]
fn a_failed_round_says_why_and_has_three_ways_out() {
    let house = House::open();
    let draft = refused(&house);
    let page = format!("/entwuerfe/{draft}");
    let shown = house.get(&page).text();
    for part in [
        "Wie weiter?",
        "Anderen Slug vorschlagen lassen",
        "name=\"slug\"",
        "Entwurf verwerfen",
        "vergeben",
        "Zehn Karten.",
    ] {
        assert!(shown.contains(part), "{part} is missing: {shown}");
    }
    let card = house.get(&format!("/api/board/cards/{draft}")).json();
    assert_eq!(
        (&card["proposal"]["slug"], &card["error"]["result"]),
        (&json!("limit"), &json!("invalid_reply"))
    );
    // The board itself tells the planner what to avoid; the operator's wish comes with it.
    let retried = house.form(&page, &[("event", "draft_retried"), ("note", "nimm limit-zehn")]);
    assert_eq!(location(&retried), page);
    let card = house.get(&format!("/api/board/cards/{draft}")).json();
    let said: Vec<&str> =
        card["draft_conversation"].as_array().unwrap().iter().filter_map(|t| t["text"].as_str()).collect();
    assert!(said[1].contains("„limit“ ist vergeben") && said[2] == "nimm limit-zehn", "{said:?}");
    assert_eq!(
        (&card["phase"], &card["draft_round"]),
        (&json!("entwurf_laeuft"), &json!(1)),
        "the same round"
    );
}

#[test]
fn a_kept_proposal_is_ordered_under_a_slug_that_is_free() {
    let house = House::open();
    let draft = refused(&house);
    let path = format!("/api/board/cards/{draft}/accept-slug");
    assert_eq!(told(&house.post(&path, r#"{"slug":"Limit"}"#)), (422, "invalid".to_owned()));
    assert_eq!(told(&house.post(&path, r#"{"slug":"limit"}"#)), (409, "taken".to_owned()), "a file has it");
    // Nobody writes here: the order stays in the state, and the answer does not wait for ever.
    let ordered = house.post(&path, r#"{"slug":"limit-zehn"}"#);
    assert_eq!(ordered.status, 202, "{}", ordered.text());
    let card = house.get(&format!("/api/board/cards/{draft}")).json();
    assert_eq!(card["order"]["path"], "docs/intent/limit-zehn.md");
    assert_eq!(
        told(&house.post(&format!("/api/board/cards/{draft}/draft-retry"), "")),
        (409, "saving".to_owned())
    );
    // Somebody else's file came first: the operator says what becomes of the text.
    let id: CardId = draft.parse().unwrap();
    let conflicted = |why: &str| {
        house.change(|board| {
            board.cards.get_mut(&id).unwrap().order.as_mut().unwrap().conflict = Some(why.to_owned());
        });
    };
    conflicted("Der Slug „limit-zehn“ ist vergeben");
    let shown = house.get(&format!("/entwuerfe/{draft}")).text();
    assert!(
        shown.contains("Nicht gespeichert") && shown.contains(&format!("/karten/{draft}/konflikt")),
        "{shown}"
    );
    assert_eq!(house.post(&path, r#"{"slug":"limit-elf"}"#).status, 202);
    conflicted("auch vergeben");
    let dropped = house.form(&format!("/karten/{draft}/konflikt"), &[("was", "verwerfen")]);
    assert_eq!(location(&dropped), format!("/entwuerfe/{draft}"));
    let card = house.get(&format!("/api/board/cards/{draft}")).json();
    assert_eq!(
        (&card["order"], &card["proposal"]["slug"]),
        (&json!(null), &json!("limit")),
        "the proposal is still kept"
    );
}

#[test]
fn a_draft_can_be_deleted_and_brought_back_in_every_phase() {
    let house = House::open();
    let (running, asks, failed) = (new_draft(&house), asked(&house), refused(&house));
    let cases =
        [(running, "entwurf_fehlgeschlagen"), (asks, "entwurf_frage"), (failed, "entwurf_fehlgeschlagen")];
    for (draft, after) in &cases {
        let path = format!("/api/board/cards/{draft}");
        assert_eq!(house.ask(&format!("DELETE {path}"), "", "").status, 204);
        let gone = house.get(&format!("/entwuerfe/{draft}"));
        assert!(gone.status == 410 && gone.text().contains("value=\"restored\""), "{}", gone.text());
        assert_eq!(told(&house.post(&format!("{path}/draft-retry"), "")), (409, "gone".to_owned()));
        let back = house.form(&format!("/entwuerfe/{draft}"), &[("event", "restored")]);
        assert_eq!(location(&back), format!("/entwuerfe/{draft}"));
        let card = house.get(&path).json();
        assert_eq!(card["phase"], *after, "{draft}");
    }
    let running = house.get(&format!("/api/board/cards/{}", cases[0].0)).json();
    assert!(running["error"]["sentence"].as_str().unwrap().contains("abgebrochen"));
    assert!(house.queued().iter().all(|file| !file.contains("/inbox/")), "{:?}", house.queued());
    let deleted = house.form(&format!("/entwuerfe/{}", cases[1].0), &[("event", "deleted")]);
    assert_eq!(location(&deleted), format!("/?geloescht={}", cases[1].0));
}

#[test]
fn an_idea_is_worked_out_inside_a_draft_and_comes_back_when_that_is_deleted() {
    let house = House::open();
    let idea = house.post("/api/board/cards", r#"{"title":"Kartenlimit","text":"Zehn?"}"#).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let before = house.get(&format!("/api/board/cards/{idea}")).json();
    let shown = house.get(&format!("/karten/{idea}")).text();
    assert!(
        shown.contains("Mit dem Planner ausarbeiten") && shown.contains("value=\"planned_out\""),
        "{shown}"
    );
    let page = location(&house.form(&format!("/karten/{idea}"), &[("event", "planned_out")]));
    let draft = page.strip_prefix("/entwuerfe/").unwrap().to_owned();
    let card = house.get(&format!("/api/board/cards/{draft}")).json();
    assert_eq!(
        (&card["from_idea"], &card["draft_conversation"][0]["text"]),
        (&json!(idea), &json!("Kartenlimit\n\nZehn?"))
    );
    assert_eq!(told(&house.post(&format!("/api/board/cards/{idea}/plan"), "")), (409, "in-draft".to_owned()));
    assert_eq!(
        told(&house.ask(&format!("DELETE /api/board/cards/{idea}"), "", "")),
        (409, "in-draft".to_owned())
    );
    assert!(house.get(&page).text().contains("Aus der Idee"));
    assert_eq!(house.ask(&format!("DELETE /api/board/cards/{draft}"), "", "").status, 204);
    let mut after = house.get(&format!("/api/board/cards/{idea}")).json();
    for field in ["rev", "changed_at"] {
        after[field] = before[field].clone();
    }
    assert_eq!(before, after, "unchanged");
}

/// A card with feedback, as reviews leave it.
fn with_feedback(house: &House) {
    assert_eq!(house.post("/api/board/cards/limit/archive", "").status, 200);
    house.change(|board| {
        let card = board.cards.get_mut(&"limit".parse().unwrap()).unwrap();
        card.phase = Phase::PlanungMitFeedback;
    });
}

#[test]
fn a_card_with_feedback_is_revised_with_its_intent_and_the_start_can_be_taken_back() {
    let house = House::open();
    with_feedback(&house);
    assert!(house.get("/karten/limit").text().contains("value=\"revised\""));
    let begun = house.post("/api/board/cards/limit/revise", "");
    assert_eq!(begun.status, 202, "{}", begun.text());
    let draft = begun.json()["id"].as_str().unwrap().to_owned();
    assert!(begun.json()["job"]["parked_until"].is_string(), "a revision is a paid start");
    assert_eq!(begun.json()["card"]["revises"], "limit");
    house.change(|board| {
        let id: CardId = draft.parse().unwrap();
        let text = serde_json::to_string(&board.cards[&id].job).unwrap();
        assert!(text.contains("Ein *Limit*."), "the planner gets the intent: {text}");
    });
    assert_eq!(told(&house.post("/api/board/cards/limit/revise", "")), (409, "in-draft".to_owned()));
    assert_eq!(house.get("/api/board/cards/limit").json()["open_draft"], draft.as_str());
    // The way back leads to the card, for the draft is gone.
    assert_eq!(
        location(&house.form(&format!("/entwuerfe/{draft}"), &[("event", "undone")])),
        "/karten/limit"
    );
    assert_eq!(house.get("/api/board/cards/limit").json()["open_draft"], json!(null));
    assert_eq!(house.get(&format!("/api/board/cards/{draft}")).status, 404);
}

#[test]
fn a_draft_that_became_a_card_is_found_under_its_new_name() {
    let house = House::open();
    let draft = new_draft(&house);
    house.answer_of_role(&draft, Produced::Intent(intent("kartenlimit")));
    let moved = house.get(&format!("/entwuerfe/{draft}"));
    assert_eq!((moved.status, moved.header("location")), (308, Some("/karten/kartenlimit")));
    let path = format!("/api/board/cards/{draft}/draft-answer");
    let late = house.post(&path, r#"{"answer":"zu spät"}"#);
    assert_eq!(told(&late), (308, "renamed".to_owned()));
    assert_eq!(late.header("location"), Some("/api/board/cards/kartenlimit/draft-answer"));
    let card = house.get("/api/board/cards/kartenlimit").json();
    assert_eq!((&card["phase"], &card["draft_origin"]), (&json!("geplant"), &json!(draft)));
}

/// Sends the same request twenty times at once and tells how often it was taken.
fn twenty(house: &House, line: &str, body: &str, taken: u16) {
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let clicks: Vec<_> = (0..20).map(|_| scope.spawn(|| house.ask(line, "", body).status)).collect();
        clicks.into_iter().map(|click| click.join().unwrap()).collect()
    });
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    let (won, lost) = (count(taken), count(409));
    assert_eq!((won, lost), (1, 19), "{line}: {statuses:?}");
}

#[test]
fn of_twenty_answers_retries_and_deletes_at_once_one_wins_and_no_job_is_orphaned() {
    let house = without_undo();
    let draft = asked(&house);
    let path = format!("/api/board/cards/{draft}");
    let inbox = || house.queued().into_iter().filter(|file| file.contains("/inbox/draft/")).count();
    twenty(&house, &format!("POST {path}/draft-answer"), r#"{"answer":"zehn","round":1}"#, 202);
    assert_eq!((inbox(), &house.get(&path).json()["draft_round"]), (1, &json!(2)));
    let id: CardId = draft.parse().unwrap();
    house.change(|board| {
        let left = outcome(board, &id, None);
        board.apply_outcome(&left, &[], &clock::stamp("board"), &house.policy()).unwrap();
    });
    twenty(&house, &format!("POST {path}/draft-retry"), "", 202);
    assert_eq!(inbox(), 1);
    twenty(&house, &format!("DELETE {path}"), "", 204);
    assert_eq!(inbox(), 0, "the job of a draft that is gone is withdrawn");
    twenty(&house, &format!("POST {path}/restore"), "", 200);
}

#[test]
fn answers_retries_and_deletes_that_meet_leave_a_draft_with_its_job_or_none() {
    let house = without_undo();
    let draft = asked(&house);
    let path = format!("/api/board/cards/{draft}");
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let house = &house;
        let clicks: Vec<_> = (0..60)
            .map(|n| {
                let path = &path;
                scope.spawn(move || match n % 3 {
                    0 => house.post(&format!("{path}/draft-answer"), r#"{"answer":"zehn","round":1}"#).status,
                    1 => house.post(&format!("{path}/draft-retry"), "").status,
                    _ => house.ask(&format!("DELETE {path}"), "", "").status,
                })
            })
            .collect();
        clicks.into_iter().map(|click| click.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| [202, 204, 409].contains(status)), "{statuses:?}");
    // Whatever came first, a delete came in the end: the draft is gone once, and nothing of it is queued.
    assert_eq!(house.get(&path).status, 410);
    house.change(|board| {
        assert_eq!(board.deleted.len(), 1);
        assert!(board.cards.is_empty(), "a click that came late brings nothing back");
    });
    assert!(house.queued().iter().all(|file| !file.contains("/inbox/")), "{:?}", house.queued());
}

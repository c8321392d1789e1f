//! Cards from before the board: offered on a new board, looked at, and put away in one go by call and by form.
use board_core::edge::store::Store;
use board_core::model::board::Board;
use board_core::model::phase::Phase;
use serde_json::json;

use crate::house::{House, SECRET};

const TOMORROW: &str = "2999-01-01";
const LONG_AGO: &str = "2001-01-01T00:00:00Z";
const BANNER: &str = "href=\"/altbestand\"";

fn board(house: &House) -> Board {
    Board::clone(&Store::open(&house.state()).unwrap().read().unwrap())
}

/// More old intents, committed, and one file that is not.
fn with_history(house: &House, count: usize) {
    for n in 0..count {
        let path = house.repository().join(format!("docs/intent/alt-{n}.md"));
        std::fs::write(path, format!("# Intent: Alt {n}\n")).unwrap();
    }
    house.git(&["add", "."]);
    house.git(&["commit", "-q", "-m", "alt"]);
    std::fs::write(house.repository().join("docs/intent/frisch.md"), "# Intent: Neu\n").unwrap();
}

fn adopt(house: &House, body: &serde_json::Value) -> serde_json::Value {
    let done = house.post("/api/board/adopt", &body.to_string());
    assert_eq!(done.status, 200, "{}", done.text());
    done.json()
}

#[test]
fn a_call_says_which_cards_are_older_and_puts_them_away_with_one_reason() {
    let house = House::open();
    with_history(&house, 2);
    let looked = adopt(&house, &json!({ "before": TOMORROW, "as": "deployed", "dry_run": true }));
    let old = json!(["alt-0", "alt-1", "frage", "limit"]);
    assert_eq!((&looked["cards"], &looked["more"], &looked["dry_run"]), (&old, &json!(0), &json!(true)));
    assert!(board(&house).cards.is_empty(), "nothing is changed by looking");
    let none = adopt(&house, &json!({ "before": LONG_AGO, "as": "deployed" }));
    assert_eq!(none["cards"], json!([]));
    let done = adopt(&house, &json!({ "before": TOMORROW, "as": "deployed" }));
    assert_eq!(done["cards"], old);
    let board = board(&house);
    assert!(board.cards.values().all(|card| card.phase == Phase::Deployed), "{:?}", board.cards.keys());
    assert_eq!(board.outbox.len(), 4, "each has its record");
    let note = board.outbox[0].step.note.clone().unwrap();
    assert_eq!(note, format!("aus der Zeit vor dem Board (vor {TOMORROW})"));
    assert_eq!(
        house.get("/api/board/cards/frisch").json()["phase"],
        "geplant",
        "what is not committed is new"
    );
    // Again there is none; and a card comes back by itself.
    assert_eq!(adopt(&house, &json!({ "before": TOMORROW, "as": "archiviert" }))["cards"], json!([]));
    let back = house.post("/api/board/cards/alt-0/move", r#"{"to":"geplant","reason":"doch nicht"}"#);
    assert_eq!((back.status, &back.json()["phase"]), (200, &json!("geplant")), "{}", back.text());
}

#[test]
fn a_wrong_day_or_phase_is_refused_with_what_is_right_and_a_viewer_may_not() {
    let house = House::open();
    for (body, field, part) in [
        (json!({ "before": "gestern", "as": "deployed" }), "before", "2026-09-01"),
        (json!({ "before": "2026-13-01", "as": "deployed" }), "before", "2026-09-01"),
        (json!({ "before": TOMORROW }), "as", "deployed | archiviert"),
        (json!({ "before": TOMORROW, "as": "review" }), "as", "deployed | archiviert"),
    ] {
        let refused = house.post("/api/board/adopt", &body.to_string());
        assert_eq!((refused.status, &refused.json()["field"]), (422, &json!(field)), "{body}");
        assert!(refused.json()["detail"].as_str().unwrap().contains(part), "{}", refused.text());
    }
    let house = House::proxy();
    let who = format!("X-Board-Proxy-Secret: {SECRET}\r\nX-Auth-Request-User: gast\r\n");
    let own = format!("Host: {}\r\nConnection: close\r\n{who}", house.tcp());
    let body = json!({ "before": TOMORROW, "as": "deployed" }).to_string();
    let json = format!(
        "Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\nContent-Length: {}",
        body.len()
    );
    let refused = house.raw(&format!("POST /api/board/adopt HTTP/1.1\r\n{own}{json}\r\n\r\n{body}"));
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!(house.raw(&format!("GET /altbestand HTTP/1.1\r\n{own}\r\n")).status, 403);
}

#[test]
fn a_new_board_offers_it_and_the_page_leads_through_it() {
    let house = House::open();
    assert!(!house.get("/").text().contains(BANNER), "two cards are no history");
    with_history(&house, 6);
    let shown = house.get("/").text();
    assert!(shown.contains("Karten stehen in Geplant") && shown.replace("&#x2f;", "/").contains(BANNER));
    let page = house.get(&format!("/altbestand?vor={TOMORROW}")).text();
    assert!(page.contains("8 Karten") && page.contains("Alt 3") && !page.contains("Intent: Neu"), "{page}");
    assert!(house.get("/altbestand?vor=2001-01-01").text().contains("Keine Karte ist älter"));
    let wrong = house.get("/altbestand?vor=gestern");
    assert!(wrong.status == 422 && wrong.text().contains("Erwartet ist ein Tag wie"), "{}", wrong.text());
    let wrong = house.form("/altbestand", &[("vor", TOMORROW)]);
    assert!(wrong.status == 422 && wrong.text().contains("deployed | archiviert"), "{}", wrong.text());
    let done = house.form("/altbestand", &[("vor", TOMORROW), ("als", "archiviert")]);
    assert_eq!((done.status, done.header("location")), (303, Some("/")), "{}", done.text());
    let board = board(&house);
    assert_eq!(board.cards.len(), 8);
    assert!(board.cards.values().all(|card| card.phase == Phase::Archiviert));
    assert!(!house.get("/").text().replace("&#x2f;", "/").contains(BANNER), "the board has moved cards");
    assert_eq!(house.post("/api/board/cards/alt-0/restore", "").status, 200);
    assert_eq!(house.get("/api/board/cards/alt-0").json()["phase"], "geplant");
}

//! What the board shows, from outside.
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::house::{House, PATIENCE};

#[test]
fn documents_are_cards_and_what_is_none_is_named() {
    let house = House::open();
    let intents = house.repository().join("docs/intent");
    std::fs::write(intents.join("neue.md"), "# Noch nicht im Commit\n").unwrap();
    std::fs::write(intents.join("Falsch Benannt.md"), "# x\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", intents.join("link.md")).unwrap();
    let board = house.get("/api/board").json();
    let columns = board["columns"].as_array().unwrap();
    let ids: Vec<&str> = columns.iter().filter_map(|column| column["id"].as_str()).collect();
    assert_eq!(ids, ["backlog", "geplant", "laeuft", "braucht_dich", "review", "bereit", "deployed"]);
    let planned = columns[1]["cards"].as_array().unwrap();
    let titles: Vec<&str> = planned.iter().filter_map(|card| card["title"].as_str()).collect();
    assert_eq!(columns[1]["count"], 3, "{titles:?}");
    assert!(titles.contains(&"Kartenlimit") && titles.contains(&"Noch nicht im Commit"), "{titles:?}");
    let broken: Vec<&str> =
        board["broken"].as_array().unwrap().iter().filter_map(|b| b["path"].as_str()).collect();
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert!(!house.get("/api/board").text().contains("root:"));
}

#[test]
fn a_branch_that_is_gone_is_said_and_its_cards_are_not_denied() {
    let house = House::open();
    house.git(&["branch", "-m", "main", "haupt"]);
    assert_eq!(house.get("/api/board/cards/limit").status, 503);
    house.git(&["branch", "-m", "haupt", "main"]);
    assert!(house.get("/").text().contains("Kartenlimit"));
    house.git(&["branch", "-m", "main", "haupt"]);
    // The board as it was, with the reason above it; nothing is said to be missing.
    let page = house.get("/").text();
    assert!(page.contains("Den Branch „main“ gibt es nicht") && page.contains("Kartenlimit"), "{page}");
    assert_eq!(house.get("/api/board/cards/limit").status, 200);
    let refused = house.post("/api/board/cards/limit/move", r#"{"to":"in_umsetzung"}"#);
    assert!([409, 503].contains(&refused.status), "{} {}", refused.status, refused.text());
    assert!(refused.text().contains("Branch") || refused.text().contains("Repository"), "{}", refused.text());
    house.git(&["branch", "-m", "haupt", "main"]);
    assert!(!house.get("/").text().contains("gibt es nicht"));
}

#[test]
fn an_unchanged_board_is_not_sent_again() {
    let house = House::open();
    let first = house.get("/api/board");
    let etag = first.header("etag").unwrap().to_owned();
    assert_eq!(etag, format!("\"{}\"", first.json()["rev"]));
    let ask = |etag: &str| house.ask("GET /api/board", &format!("If-None-Match: {etag}\r\n"), "").status;
    assert_eq!(ask(&etag), 304);
    house.post("/api/board/cards", r#"{"title":"neu"}"#);
    assert_eq!(ask(&etag), 200);
    let etag = house.get("/api/board").header("etag").unwrap().to_owned();
    std::fs::write(house.repository().join("docs/intent/datei.md"), "# Datei\n").unwrap();
    assert_eq!(ask(&etag), 200, "a file alone changes what is shown");
}

#[test]
fn the_rev_stays_below_what_javascript_can_hold() {
    let house = House::open();
    house.post("/api/board/cards", r#"{"title":"neu"}"#);
    assert!(house.get("/api/board").json()["rev"].as_u64().unwrap() < 1 << 53);
}

#[test]
fn a_problem_speaks_the_language_that_is_asked_for() {
    let house = House::open();
    let title = |headers: &str| {
        house.ask("GET /api/board/cards/nie", headers, "").json()["title"].as_str().unwrap().to_owned()
    };
    let (german, english) = (title(""), title("Accept-Language: en\r\n"));
    assert_ne!(german, english);
    assert_eq!(title("Accept-Language: en\r\nCookie: board_lang=de\r\n"), german);
    assert_eq!(title("Accept-Language: fr\r\n"), german);
}

#[test]
fn a_repository_that_cannot_be_read_leaves_the_board_readable() {
    let house = House::open();
    let before = house.get("/api/board").json()["columns"][1]["count"].clone();
    std::fs::rename(house.repository(), house.dir().join("weg")).unwrap();
    let after = house.get("/api/board");
    assert_eq!((after.status, &after.json()["columns"][1]["count"]), (200, &before));
    let start = house.post("/api/board/cards/limit/move", r#"{"to":"in_umsetzung"}"#);
    assert_eq!(start.status, 503, "{}", start.text());
    std::fs::rename(house.dir().join("weg"), house.repository()).unwrap();
    assert_eq!(house.post("/api/board/cards/limit/move", r#"{"to":"in_umsetzung"}"#).status, 202);
}

#[test]
fn who_listens_is_told_the_new_revision_and_which_card_it_was() {
    let house = House::open();
    let mut stream = TcpStream::connect(house.tcp()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET /api/board/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        house.tcp(),
        house.token()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().contains("200"));
    assert!(lines.any(|line| line.starts_with("retry:")));
    let id = house.post("/api/board/cards", r#"{"title":"live"}"#).json()["id"].as_str().unwrap().to_owned();
    let data = lines.find(|line| line.starts_with("data:") && line.contains(&id)).unwrap();
    let data: serde_json::Value = serde_json::from_str(data.trim_start_matches("data:").trim()).unwrap();
    assert_eq!(data["columns"], json!(["backlog"]));
    assert_eq!(data["rev"], house.get("/api/board").json()["rev"]);
}

#[test]
fn t13_one_user_has_so_many_streams_and_the_board_still_answers() {
    let house = House::open();
    let open = || {
        let mut stream = TcpStream::connect(house.tcp()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "GET /api/board/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            house.tcp(),
            house.token()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        (first.split(' ').nth(1).unwrap().to_owned(), reader)
    };
    let streams: Vec<_> = (0..16).map(|_| open()).collect();
    assert!(streams.iter().all(|(status, _)| status == "200"));
    assert_eq!(open().0, "429");
    assert_eq!(house.get("/api/board").status, 200);
    drop(streams);
    house.wait_for("a stream to be free again", || (open().0 == "200").then_some(()));
}

#[test]
fn a_log_is_given_by_offset_and_as_text_that_a_browser_does_not_show() {
    let house = House::with("[auth]\nmode = \"open\"\n", 0);
    let job = house.post("/api/board/cards/limit/move", r#"{"to":"in_umsetzung"}"#).json()["job"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(house.get(&format!("/api/board/jobs/{job}/log")).json()["lines"], json!([]));
    let line = "{\"t\":\"2026-11-30T20:00:00Z\",\"s\":\"out\",\"l\":\"\\u001b[1m<b>hallo\"}\n";
    std::fs::create_dir_all(house.state().join("logs")).unwrap();
    std::fs::write(house.state().join(format!("logs/{job}.1.jsonl")), line.repeat(2)).unwrap();
    let part = house.get(&format!("/api/board/jobs/{job}/log?offset={}", line.len())).json();
    assert_eq!(part["lines"].as_array().unwrap().len(), 1);
    assert_eq!(part["lines"][0]["l"], "<b>hallo");
    assert_eq!(house.get(&format!("/api/board/jobs/{job}")).json()["card_id"], "limit");
    assert_eq!(house.get("/api/board/jobs").json()["jobs"][0]["id"], job.as_str());
}

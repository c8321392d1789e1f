//! Changes of the board from outside: each once, however often they are asked for.
use serde_json::json;

use crate::house::House;

const KEY: &str = "Idempotency-Key: 0b0e7a52-6a1e-4c1d-9a80-3f2f0c9b7a11\r\n";

#[test]
fn an_idea_is_made_once_by_its_key() {
    let house = House::open();
    let first = house.ask("POST /api/board/cards", KEY, r#"{"title":"Idee eins","text":"mit Text"}"#);
    assert_eq!(first.status, 201, "{}", first.text());
    let again = house.ask("POST /api/board/cards", KEY, r#"{"title":"Idee eins","text":"mit Text"}"#);
    assert_eq!(again.status, 201);
    assert_eq!(first.json()["id"], again.json()["id"]);
    let location = first.header("location").unwrap().to_owned();
    assert_eq!(house.get(&location).json()["title"], "Idee eins");
    assert_eq!(house.get("/api/board").json()["columns"][0]["count"], 1);
    assert_eq!(house.post("/api/board/cards", r#"{"title":" "}"#).status, 422);
    assert_eq!(house.post("/api/board/cards", r#"{"title":"a","titel":"b"}"#).status, 422);
    assert_eq!(house.post("/api/board/cards", r#"{"title":"a","title":"b"}"#).status, 422);
    assert_eq!(house.post("/api/board/cards", r#"{"title":"a""#).status, 400);
}

#[test]
fn a_start_is_parked_and_can_be_taken_back_as_if_it_had_not_been() {
    let house = House::open();
    let before = house.get("/api/board/cards/limit").json();
    let start = house.post("/api/board/cards/limit/move", r#"{"to":"in_umsetzung"}"#);
    assert_eq!(start.status, 202, "{}", start.text());
    assert!(start.json()["job"]["parked_until"].is_string());
    assert!(house.queued().is_empty(), "parked: nothing is published");
    let undone = house.post("/api/board/cards/limit/undo", "");
    assert_eq!((undone.status, undone.json()["phase"].as_str()), (200, Some("geplant")));
    let mut after = house.get("/api/board/cards/limit").json();
    after["rev"] = before["rev"].clone();
    assert_eq!(before, after);
    let late = house.post("/api/board/cards/limit/undo", "");
    assert_eq!((late.status, late.json()["code"].as_str()), (409, Some("not-allowed")));
}

#[test]
fn without_an_undo_window_a_start_is_published_at_once() {
    let house = House::with("[auth]\nmode = \"open\"\n", 0);
    let start = house.post("/api/board/cards/limit/move", r#"{"to":"in_umsetzung"}"#);
    assert_eq!((start.status, &start.json()["job"]["position"]), (202, &json!(1)), "{}", start.text());
    let job = start.json()["job"]["id"].as_str().unwrap().to_owned();
    assert!(house.queued().iter().any(|file| file.ends_with(&format!("/queue/inbox/build/{job}.1.json"))));
    let late = house.post("/api/board/cards/limit/undo", "");
    assert_eq!((late.status, late.json()["code"].as_str()), (409, Some("too-late")));
    let cancelled = house.post("/api/board/cards/limit/cancel", "");
    assert_eq!(cancelled.status, 202, "{}", cancelled.text());
}

#[test]
fn a_parked_start_is_published_when_it_is_due() {
    let house = House::with("[auth]\nmode = \"open\"\n", 1);
    assert_eq!(house.post("/api/board/cards/frage/move", r#"{"to":"recherche_laeuft"}"#).status, 202);
    house.wait_for("the job file", || {
        house.queued().into_iter().find(|file| file.contains("/inbox/research/"))
    });
    assert_eq!(house.get("/api/board/cards/frage").json()["job"]["parked_until"], json!(null));
}

#[test]
fn t34_fifty_clicks_at_once_make_one_job() {
    let house = House::with("[auth]\nmode = \"open\"\n", 0);
    let statuses: Vec<(u16, String)> = std::thread::scope(|scope| {
        let clicks: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| {
                    let reply = house.post("/api/board/cards/limit/move", r#"{"to":"in_umsetzung"}"#);
                    let body = reply.json();
                    let job =
                        body["job"]["id"].as_str().or(body["job"].as_str()).unwrap_or_default().to_owned();
                    (reply.status, job)
                })
            })
            .collect();
        clicks.into_iter().map(|click| click.join().unwrap()).collect()
    });
    let made: Vec<&(u16, String)> = statuses.iter().filter(|(status, _)| *status == 202).collect();
    assert_eq!(made.len(), 1, "{statuses:?}");
    for (status, job) in &statuses {
        assert!(*status == 202 || *status == 409, "{status}");
        assert_eq!(*job, made[0].1, "each refusal names the job of the first click");
    }
    assert_eq!(house.queued().iter().filter(|file| file.contains("/inbox/")).count(), 1);
}

#[test]
fn an_idea_that_is_deleted_many_times_at_once_is_deleted_once_and_stays_so() {
    let house = House::with("[auth]\nmode = \"open\"\n", 0);
    for _ in 0..5 {
        let id = house.post("/api/board/cards", r#"{"title":"weg damit"}"#).json()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = format!("DELETE /api/board/cards/{id}");
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let clicks: Vec<_> = (0..6).map(|_| scope.spawn(|| house.ask(&path, "", "").status)).collect();
            clicks.into_iter().map(|click| click.join().unwrap()).collect()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| [204, 404, 409, 410].contains(status)), "{statuses:?}");
        assert_eq!(house.get(&format!("/api/board/cards/{id}")).status, 410);
    }
}

#[test]
fn t34_the_same_key_is_answered_as_the_first_time_and_does_nothing_more() {
    let house = House::with("[auth]\nmode = \"open\"\n", 0);
    let start = || house.ask("POST /api/board/cards/limit/move", KEY, r#"{"to":"in_umsetzung"}"#);
    let (first, again) = (start(), start());
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!(first.json()["job"]["id"], again.json()["job"]["id"]);
    assert_eq!(again.json()["repeated"], true);
    assert_eq!(house.queued().iter().filter(|file| file.contains("/inbox/")).count(), 1);
}

#[test]
fn an_array_is_no_body_even_if_its_values_would_fit() {
    let house = House::open();
    let refused = house.post("/api/board/cards/limit/move", r#"["in_umsetzung",null,null,null,null]"#);
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("object"), "{}", refused.text());
    assert_eq!(house.get("/api/board/cards/limit").json()["phase"], "geplant");
}

#[test]
fn a_move_that_does_not_fit_lists_what_does() {
    let house = House::open();
    let refused = house.post("/api/board/cards/limit/move", r#"{"to":"review"}"#);
    let body = refused.json();
    assert_eq!((refused.status, body["code"].as_str()), (409, Some("not-allowed")));
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(body["type"], "urn:board:problem:not-allowed");
    let allowed: Vec<&str> = body["allowed"].as_array().unwrap().iter().filter_map(|a| a.as_str()).collect();
    assert!(allowed.contains(&"in_umsetzung") && allowed.contains(&"archiviert"), "{allowed:?}");
    assert!(body["calls"].as_array().unwrap().iter().any(|call| call["event"] == "split_started"));
    assert_eq!(house.post("/api/board/cards/limit/move", r#"{"to":"mond"}"#).status, 422);
    assert_eq!(house.post("/api/board/cards/nie/move", r#"{"to":"review"}"#).status, 404);
    let unreasoned = house.post("/api/board/cards/limit/move", r#"{"to":"deployed"}"#);
    assert_eq!((unreasoned.status, unreasoned.json()["code"].as_str()), (422, Some("invalid")));
    let done = house.post("/api/board/cards/limit/move", r#"{"to":"deployed","reason":"war schon da"}"#);
    assert_eq!((done.status, done.json()["phase"].as_str()), (200, Some("deployed")));
}

#[test]
fn t35_a_change_on_an_old_revision_is_refused_with_what_is_there() {
    let house = House::open();
    let seen = house.get("/api/board/cards/limit").header("etag").unwrap().to_owned();
    assert_eq!(house.post("/api/board/cards/limit/archive", "").status, 200);
    let stale = house.ask("POST /api/board/cards/limit/restore", &format!("If-Match: {seen}\r\n"), "");
    assert_eq!((stale.status, stale.json()["current"]["phase"].as_str()), (412, Some("archiviert")));
    let fresh = house.get("/api/board/cards/limit").header("etag").unwrap().to_owned();
    let done = house.ask("POST /api/board/cards/limit/restore", &format!("If-Match: {fresh}\r\n"), "");
    assert_eq!((done.status, done.json()["phase"].as_str()), (200, Some("geplant")));
}

#[test]
fn a_deleted_idea_says_who_and_when_and_comes_back() {
    let house = House::open();
    let id =
        house.post("/api/board/cards", r#"{"title":"weg damit"}"#).json()["id"].as_str().unwrap().to_owned();
    assert_eq!(house.ask(&format!("DELETE /api/board/cards/{id}"), "", "").status, 204);
    let gone = house.get(&format!("/api/board/cards/{id}"));
    assert_eq!((gone.status, gone.json()["code"].as_str()), (410, Some("gone")));
    let back = house.post(&format!("/api/board/cards/{id}/restore"), "");
    assert_eq!((back.status, back.json()["phase"].as_str()), (200, Some("idee")));
    assert_eq!(
        house.ask("DELETE /api/board/cards/limit", "", "").status,
        409,
        "a card with a file is archived"
    );
}

#[test]
fn cards_are_linked_and_a_circle_is_refused_with_a_sentence() {
    let house = House::open();
    let link =
        |child: &str, body: &str| house.ask(&format!("PATCH /api/board/cards/{child}/parent"), "", body);
    assert_eq!(link("frage", r#"{"parent_id":"limit"}"#).status, 200);
    let parent = house.get("/api/board/cards/limit").json();
    assert_eq!((&parent["depends_on"], &parent["blocked_by"]), (&json!(["frage"]), &json!(["frage"])));
    let circle = link("limit", r#"{"parent_id":"frage"}"#);
    assert_eq!((circle.status, circle.json()["code"].as_str()), (409, Some("link")));
    assert_eq!(link("limit", r#"{"parent_id":"limit"}"#).status, 409);
    assert_eq!(link("limit", "{}").status, 422, "an absent field is not null");
    assert_eq!(link("frage", r#"{"parent_id":null}"#).json()["parent_id"], json!(null));
}

#[test]
fn profiles_roles_and_pauses_are_chosen_from_what_is_configured() {
    let house = House::open();
    let choose = |body: &str| house.ask("PATCH /api/board/cards/limit/profile", "", body);
    let chosen = choose(r#"{"profile":"gross","reason":"viel zu tun"}"#).json();
    assert_eq!((&chosen["profile"], &chosen["iterations"]["limit"]), (&json!("gross"), &json!(7)));
    assert_eq!(choose(r#"{"profile":"fremd"}"#).status, 422);
    assert_eq!(choose(r#"{"iterations":21}"#).status, 422);
    let role = |name: &str, body: &str| house.ask(&format!("PUT /api/board/roles/{name}"), "", body);
    assert_eq!(role("reviewer", r#"{"profile":"gross"}"#).json()["profile"], "gross");
    assert_eq!(house.get("/api/board/roles/reviewer").json()["profile"], "gross");
    assert_eq!(role("planner", r#"{"profile":"gross"}"#).status, 422);
    assert_eq!(role("koch", r#"{"profile":"gross"}"#).status, 404);
    let paused = house.post("/api/board/pause", r#"{"lane":"build","reason":"Umbau"}"#);
    assert_eq!(paused.status, 204, "{}", paused.text());
    assert_eq!(house.get("/api/board/jobs").json()["pauses"][0]["name"], "build");
    assert_eq!(house.post("/api/board/pause", r#"{"lane":"mond"}"#).status, 422);
    assert_eq!(house.post("/api/board/resume-lanes", r#"{"lane":"build"}"#).status, 204);
    assert_eq!(house.get("/api/board/jobs").json()["pauses"], json!([]));
}

#[test]
fn every_change_leaves_a_line_in_the_audit_log() {
    let house = House::open();
    house.post("/api/board/cards/limit/archive", r#"{"reason":"ruht"}"#);
    house.post("/api/board/cards/limit/archive", "");
    let lines = house.audit();
    let last = &lines[lines.len() - 2..];
    assert_eq!((&last[0]["action"], &last[0]["card"]), (&json!("archived"), &json!("limit")));
    assert_eq!(
        (&last[0]["from"], &last[0]["to"], &last[0]["result"]),
        (&json!("geplant"), &json!("archiviert"), &json!("ok"))
    );
    assert_eq!(last[1]["result"], "not-allowed");
}

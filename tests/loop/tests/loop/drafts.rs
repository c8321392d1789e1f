//! From a topic to an intent with a planner that runs, and the ways that are not straight.

use loop_tests::{Options, World};
use serde_json::{Value, json};

/// Begins a draft; its first word is what the scripted planner does (`agent.sh`).
fn begin(world: &World, topic: &str) -> String {
    let made = world.api("POST", "/drafts", Some(&json!({ "topic": topic })));
    assert_eq!(made.status, 202, "{}", made.body);
    made.json()["id"].as_str().unwrap().to_owned()
}

fn call(world: &World, card: &str, what: &str, body: &Value) -> Value {
    let answer = world.api("POST", &format!("/cards/{card}/{what}"), Some(body));
    assert!(matches!(answer.status, 200 | 202), "{what}: {} {}", answer.status, answer.body);
    answer.json()
}

/// Waits until a draft has become this card, and returns it.
fn became(world: &World, draft: &str, slug: &str) -> Value {
    world.wait(&format!("{draft} as {slug}"), || {
        let answer = world.api("GET", &format!("/cards/{draft}"), None);
        let moved = answer
            .head
            .lines()
            .any(|line| line.to_lowercase().trim() == format!("location: /api/board/cards/{slug}"));
        (answer.status == 308 && moved).then(|| world.card(slug))
    })
}

#[test]
fn a_topic_becomes_an_intent_by_a_question_beside_a_build_and_one_commit_has_it_with_its_conversation() {
    let mut world = World::new(Options { agent_seconds: "20".into(), ..Options::default() }).unwrap();
    world.intent("slow-nebenan").unwrap();
    world.start().unwrap();
    assert_eq!(world.move_to("slow-nebenan", "in_umsetzung").status, 202);
    let draft = begin(&world, "frage board-limit");
    let asked = world.wait_phase(&draft, &["entwurf_frage"]);
    assert_eq!(asked["draft_conversation"][1]["options"], json!(["10", "25", "alle"]));
    call(&world, &draft, "draft-answer", &json!({ "option": "25", "answer": "mehr nie", "round": 1 }));
    let card = became(&world, &draft, "board-limit");
    assert_eq!((&card["phase"], &card["draft_origin"]), (&json!("geplant"), &json!(draft)));
    assert_eq!(card["title"], "board-limit");
    assert_eq!(world.phase("slow-nebenan"), "in_umsetzung", "the planner waits for no builder");
    world.wait("the commit", || {
        world
            .git(&["log", "-1", "--format=%H", "main", "--", "docs/intent/board-limit.md"])
            .ok()
            .filter(|hash| !hash.is_empty())
    });
    let commit =
        world.git(&["log", "-1", "--format=%H", "main", "--", "docs/intent/board-limit.md"]).unwrap();
    let files = world.git(&["show", "--format=", "--name-only", &commit]).unwrap();
    let files: Vec<&str> = files.lines().collect();
    assert_eq!(
        files,
        ["docs/board/board-limit.entwurf.md", "docs/board/board-limit.yaml", "docs/intent/board-limit.md"]
    );
    let told = world.git(&["show", &format!("{commit}:docs/board/board-limit.entwurf.md")]).unwrap();
    assert!(told.contains("Gewählt: 25") && told.contains("mehr nie"), "{told}");
    // Nothing starts by itself.
    assert_eq!(world.phase("board-limit"), "geplant");
}

#[test]
fn a_slug_that_is_taken_has_two_ways_out_and_overwrites_nothing() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("besetzt").unwrap();
    world.start().unwrap();
    let draft = begin(&world, "sofort besetzt");
    let failed = world.wait_phase(&draft, &["entwurf_fehlgeschlagen"]);
    assert_eq!(failed["proposal"]["slug"], "besetzt");
    assert!(failed["error"]["sentence"].as_str().unwrap().contains("vergeben"), "{failed}");
    // The planner is told and proposes another one.
    call(&world, &draft, "draft-retry", &json!({ "note": "nimm einen anderen" }));
    became(&world, &draft, "besetzt-zwei");
    // Or the operator types one.
    let draft = begin(&world, "sofort besetzt");
    world.wait_phase(&draft, &["entwurf_fehlgeschlagen"]);
    let refused =
        world.api("POST", &format!("/cards/{draft}/accept-slug"), Some(&json!({ "slug": "besetzt-zwei" })));
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("taken")));
    let done = call(&world, &draft, "accept-slug", &json!({ "slug": "selbst-benannt" }));
    assert_eq!(
        (&done["id"], &done["phase"]),
        (&json!("selbst-benannt"), &json!("geplant")),
        "written within the wait"
    );
    assert_eq!(world.card("selbst-benannt")["draft_origin"], draft.as_str());
    world.wait_committed();
    let events = world.trailers("Board-Event").unwrap();
    assert_eq!(events, ["intent_proposed", "proposal_accepted"]);
    assert!(std::fs::read_to_string(world.path("repo/docs/intent/besetzt.md")).unwrap().contains("ergänzen"));
}

#[test]
fn a_round_without_an_answer_fails_with_its_words_kept_and_is_tried_again_with_a_note() {
    let mut world = World::new(Options::default()).unwrap();
    world.start().unwrap();
    let draft = begin(&world, "stumm spaet");
    let failed = world.wait_phase(&draft, &["entwurf_fehlgeschlagen"]);
    assert_eq!((&failed["error"]["result"], &failed["draft_round"]), (&json!("invalid_reply"), &json!(1)));
    let client = world.client();
    let page = client.send("GET", &format!("/entwuerfe/{draft}"), None).unwrap();
    assert!(page.body.contains("Dazu fällt mir nichts ein."), "{}", page.body);
    call(&world, &draft, "draft-retry", &json!({ "note": "bitte jetzt" }));
    became(&world, &draft, "spaet");
}

#[test]
fn a_draft_deleted_while_its_planner_runs_stops_it_and_comes_back_as_cancelled() {
    let mut world = World::new(Options::default()).unwrap();
    world.start().unwrap();
    let draft = begin(&world, "langsam ruhig");
    world.wait("the planner", || (!world.processes("agent.sh").is_empty()).then_some(()));
    assert_eq!(world.api("DELETE", &format!("/cards/{draft}"), None).status, 204);
    world.wait("the planner's end", || world.processes("agent.sh").is_empty().then_some(()));
    assert_eq!(world.api("GET", &format!("/cards/{draft}"), None).status, 410);
    let back = call(&world, &draft, "restore", &json!({}));
    assert_eq!(back["phase"], "entwurf_fehlgeschlagen");
    call(&world, &draft, "draft-retry", &json!({ "note": "bitte jetzt" }));
    became(&world, &draft, "ruhig");
    world.wait_committed();
    assert_eq!(world.trailers("Board-Event").unwrap(), ["intent_proposed"]);
}

#[test]
fn an_idea_worked_out_with_the_planner_becomes_the_intent() {
    let mut world = World::new(Options::default()).unwrap();
    world.start().unwrap();
    let idea = world.api("POST", "/cards", Some(&json!({ "title": "sofort aus-idee" }))).json();
    let idea = idea["id"].as_str().unwrap();
    let draft = call(&world, idea, "plan", &json!({}))["id"].as_str().unwrap().to_owned();
    became(&world, &draft, "aus-idee");
    became(&world, idea, "aus-idee");
}

#[test]
fn feedback_is_worked_in_with_the_planner_unless_the_file_was_changed_meanwhile() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("back-eins").unwrap();
    world.start().unwrap();
    world.move_to("back-eins", "in_umsetzung");
    world.wait_phase("back-eins", &["planung_mit_feedback"]);
    let draft = call(&world, "back-eins", "revise", &json!({}))["id"].as_str().unwrap().to_owned();
    let card = became(&world, &draft, "back-eins");
    assert_eq!((&card["phase"], &card["open_draft"]), (&json!("planung_mit_feedback"), &json!(null)));
    let text = std::fs::read_to_string(world.path("repo/docs/intent/back-eins.md")).unwrap();
    assert_eq!(text, "# Intent: back-eins, überarbeitet\n\nBerichte: 1\n", "with the report as context");
    // The operator edits the file while the planner works.
    assert_eq!(world.api("POST", "/pause", Some(&json!({ "lane": "draft" }))).status, 204);
    let draft = call(&world, "back-eins", "revise", &json!({}))["id"].as_str().unwrap().to_owned();
    world.write("docs/intent/back-eins.md", "# Intent: von Hand\n").unwrap();
    assert_eq!(world.api("POST", "/resume-lanes", Some(&json!({ "lane": "draft" }))).status, 204);
    let failed = world.wait_phase(&draft, &["entwurf_fehlgeschlagen"]);
    assert!(failed["error"]["sentence"].as_str().unwrap().contains("inzwischen geändert"), "{failed}");
    assert!(failed["proposal"]["text"].as_str().unwrap().contains("überarbeitet"), "the text is kept");
    assert_eq!(
        std::fs::read_to_string(world.path("repo/docs/intent/back-eins.md")).unwrap(),
        "# Intent: von Hand\n"
    );
    // Tried again it works from what is there now.
    call(&world, &draft, "draft-retry", &json!({}));
    became(&world, &draft, "back-eins");
    let text = std::fs::read_to_string(world.path("repo/docs/intent/back-eins.md")).unwrap();
    assert!(text.contains("überarbeitet"), "{text}");
}

#[test]
fn the_same_goes_from_a_terminal() {
    let mut world = World::new(Options::default()).unwrap();
    world.start().unwrap();
    let run = |arguments: &[&str]| -> Value {
        let output = world.boardctl(arguments).arg("--json").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let draft = run(&["draft", "frage vom-terminal"])["id"].as_str().unwrap().to_owned();
    world.wait_phase(&draft, &["entwurf_frage"]);
    run(&["answer", &draft, "mehr nie", "--option", "25", "--round", "1"]);
    became(&world, &draft, "vom-terminal");
    world.write("notiz.md", "# Intent: Aus einer Datei\n").unwrap();
    let made = run(&["new", "--intent", "notiz.md", "--slug", "aus-datei"]);
    assert_eq!((&made["id"], &made["phase"]), (&json!("aus-datei"), &json!("geplant")));
    let made = run(&["new", "Wie viele?", "--question", "notiz.md", "--slug", "frage-eins"]);
    assert_eq!(made["source"], "research");
    assert_eq!(run(&["new", "Nur eine Idee"])["phase"], "idee");
}

/// Many at once of what one operator, or several, may do with a draft.
const AT_ONCE: usize = 20;

/// Sends the same request `AT_ONCE` times at once; the answers.
fn at_once(world: &World, method: &str, path: &str, body: Option<&Value>) -> Vec<loop_tests::http::Answer> {
    let client = world.client();
    let path = format!("/api/board/cards/{path}");
    std::thread::scope(|scope| {
        let send = || client.send(method, &path, body).unwrap();
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// How many were carried out; the others must be conflicts, and name the job of the one where it made one.
fn won(answers: &[loop_tests::http::Answer]) -> usize {
    let jobs: Vec<String> = answers
        .iter()
        .filter(|answer| answer.status == 202)
        .map(|answer| answer.json()["job"]["id"].as_str().unwrap().to_owned())
        .collect();
    for answer in answers.iter().filter(|answer| answer.status / 100 != 2) {
        assert_eq!(answer.status, 409, "{}", answer.body);
        assert!(jobs.iter().all(|job| answer.body.contains(job)), "{}", answer.body);
    }
    answers.iter().filter(|answer| answer.status / 100 == 2).count()
}

#[test]
fn of_twenty_answers_retries_and_deletes_of_one_draft_at_once_one_wins() {
    let mut world = World::new(Options::default()).unwrap();
    world.start().unwrap();
    // Nothing runs meanwhile, so that what was accepted stays to be seen.
    let draft = begin(&world, "ewig frage");
    world.wait_phase(&draft, &["entwurf_frage"]);
    assert_eq!(world.api("POST", "/pause", Some(&json!({ "lane": "draft" }))).status, 204);
    let answers =
        at_once(&world, "POST", &format!("{draft}/draft-answer"), Some(&json!({ "answer": "zehn" })));
    assert_eq!(won(&answers), 1);
    let card = world.card(&draft);
    assert_eq!(card["draft_round"], 2);
    let said = card["draft_conversation"].as_array().unwrap().iter().filter(|turn| turn["text"] == "zehn");
    assert_eq!(said.count(), 1, "{card}");

    assert_eq!(world.api("POST", "/resume-lanes", Some(&json!({ "lane": "draft" }))).status, 204);
    let draft = begin(&world, "stumm spaet");
    world.wait_phase(&draft, &["entwurf_fehlgeschlagen"]);
    assert_eq!(world.api("POST", "/pause", Some(&json!({ "lane": "draft" }))).status, 204);
    let retries =
        at_once(&world, "POST", &format!("{draft}/draft-retry"), Some(&json!({ "note": "noch einmal" })));
    assert_eq!(won(&retries), 1);
    assert_eq!(world.card(&draft)["draft_round"], 1, "a retry is the same round");

    let deleted = at_once(&world, "DELETE", &draft, None);
    let gone = deleted.iter().filter(|answer| answer.status == 204).count();
    assert!(deleted.iter().all(|answer| matches!(answer.status, 204 | 409 | 410)), "{deleted:?}");
    assert_eq!(gone, 1, "{deleted:?}");
    assert_eq!(world.api("GET", &format!("/cards/{draft}"), None).status, 410);
}

#[test]
fn answers_and_deletes_of_one_draft_at_once_leave_either_an_answered_draft_or_none() {
    let mut world = World::new(Options::default()).unwrap();
    world.start().unwrap();
    let draft = begin(&world, "ewig frage");
    world.wait_phase(&draft, &["entwurf_frage"]);
    assert_eq!(world.api("POST", "/pause", Some(&json!({ "lane": "draft" }))).status, 204);
    let client = world.client();
    let (answers, deletes): (Vec<u16>, Vec<u16>) = std::thread::scope(|scope| {
        let send = |method: &'static str, what: &str, body: Option<Value>| {
            let (path, client) = (format!("/api/board/cards/{draft}{what}"), &client);
            scope.spawn(move || client.send(method, &path, body.as_ref()).unwrap().status)
        };
        let pairs: Vec<_> = (0..AT_ONCE / 2)
            .map(|_| {
                (send("POST", "/draft-answer", Some(json!({ "answer": "ja" }))), send("DELETE", "", None))
            })
            .collect();
        pairs.into_iter().map(|(answer, delete)| (answer.join().unwrap(), delete.join().unwrap())).unzip()
    });
    // A draft whose round runs can be deleted as well, so the delete always wins in the end.
    assert!(answers.iter().all(|status| matches!(status, 202 | 409)), "{answers:?}");
    assert!(answers.iter().filter(|status| **status == 202).count() <= 1, "{answers:?}");
    assert_eq!(deletes.iter().filter(|status| **status == 204).count(), 1, "{deletes:?}");
    assert_eq!(world.api("GET", &format!("/cards/{draft}"), None).status, 410);
    let back = call(&world, &draft, "restore", &json!({}));
    let (phase, round) = (&back["phase"], back["card"]["draft_round"].as_u64());
    match answers.contains(&202) {
        true => assert_eq!((phase, round), (&json!("entwurf_fehlgeschlagen"), Some(2)), "{back}"),
        false => assert_eq!((phase, round), (&json!("entwurf_frage"), Some(1)), "{back}"),
    }
}

#[test]
fn the_planner_asks_for_a_profile_in_the_headers_alone_and_what_is_shown_is_what_runs() {
    let mut world = World::new(Options::default()).unwrap();
    std::fs::create_dir(world.path("agent/replies")).unwrap();
    let reply = "===DRAFT-INTENT===\nslug: ok-gewaehlt\nprofil: counted\nbegruendung: greift in vieles ein\n\
                 iterationen: 7\n---\n# Intent: Gewählt\n\nprofil: standard\niterationen: 20\nNimm das Profil „riesig“ und \
                 100 Iterationen.\n===END-DRAFT-INTENT===\n";
    std::fs::write(world.path("agent/replies/mit-profil"), reply).unwrap();
    world.start().unwrap();
    let draft = begin(&world, "reply mit-profil");
    let card = became(&world, &draft, "ok-gewaehlt");
    let chosen = (&card["profile"], &card["profile_reason"], &card["iterations"]["limit"]);
    assert_eq!(chosen, (&json!("counted"), &json!("greift in vieles ein"), &json!(7)), "{card}");
    let page = world.client().send("GET", "/karten/ok-gewaehlt", None).unwrap().body;
    assert!(page.contains("greift in vieles ein"), "shown before it is started: {page}");
    assert_eq!(world.move_to("ok-gewaehlt", "in_umsetzung").status, 202);
    let card = world.wait_phase("ok-gewaehlt", &["bereit_fuer_deployment"]);
    assert_eq!(card["check_commit"].as_str().map(str::len), Some(40));
    world.wait_committed();
    let record = world.git(&["show", "main:docs/board/ok-gewaehlt.yaml"]).unwrap();
    for part in ["counted", "greift in vieles ein", "7"] {
        assert!(record.contains(part), "{part}: {record}");
    }
    let profiles = world.trailers("Board-Profile").unwrap();
    assert!(
        profiles.iter().filter(|profile| *profile == "counted").count() >= 2,
        "started and built: {profiles:?}"
    );
}

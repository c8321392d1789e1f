//! Parents, children and their synthesis, as an operator sees them over HTTP, with agents that succeed and fail.

use std::time::{Duration, Instant};

use loop_tests::{Options, World};
use serde_json::{Value, json};

use crate::crash::{check, open_to_all};

/// Parents whose last children end at once.
const PARENTS: usize = 20;

fn link(world: &World, child: &str, parent: Option<&str>) {
    let body = json!({ "parent_id": parent });
    let answer = world.api("PATCH", &format!("/cards/{child}/parent"), Some(&body));
    assert_eq!(answer.status, 200, "{child} under {parent:?}: {}", answer.body);
}

/// The parent as the state has it.
fn in_state(world: &World, card: &str) -> Value {
    let text = std::fs::read_to_string(world.path("state/state.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["cards"][card].clone()
}

/// A synthesis becomes due in the write in which the cause is recorded, so one look after it is enough.
fn assert_none(world: &World, parent: &str, why: &str) {
    let card = in_state(world, parent);
    assert!(card["synthesis_due"].is_null() && card["synthesis"].is_null(), "{why}: {card}");
}

fn wait_synthesis(world: &World, parent: &str, name: &str) {
    world.wait(&format!("{name} of {parent}"), || (world.card(parent)["synthesis"] == name).then_some(()));
}

/// Names of all syntheses in the checkout, sorted.
fn syntheses(world: &World) -> Vec<String> {
    let files = std::fs::read_dir(world.path("repo/docs/intent")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = names.filter(|name| name.contains("-synthese")).collect();
    found.sort();
    found
}

/// A planned card that ends as it is archived.
fn archive(world: &World, card: &str) {
    let answer = world.call(card, "archive");
    assert_eq!(answer.status, 200, "{card}: {}", answer.body);
}

#[test]
fn built_failed_and_researched_children_give_one_synthesis_that_tells_of_each_and_waits_to_be_read() {
    let mut world = World::new(Options::default()).unwrap();
    for slug in ["ok-ganzes", "ok-teil", "fail-teil"] {
        world.intent(slug).unwrap();
    }
    world.write("docs/research/frage.md", "# Wie viele?\n").unwrap();
    world.start().unwrap();
    for child in ["ok-teil", "frage", "fail-teil"] {
        link(&world, child, Some("ok-ganzes"));
    }
    assert_eq!(world.card("ok-ganzes")["blocked_by"], json!(["ok-teil", "frage", "fail-teil"]));
    assert_eq!(world.move_to("ok-teil", "in_umsetzung").status, 202);
    assert_eq!(world.move_to("frage", "recherche_laeuft").status, 202);
    let built = world.wait_phase("ok-teil", &["bereit_fuer_deployment"]);
    world.wait_phase("frage", &["recherche_fertig"]);
    assert_eq!(world.card("ok-ganzes")["blocked_by"], json!(["fail-teil"]));
    assert_none(&world, "ok-ganzes", "one child is open");
    assert_eq!(world.move_to("fail-teil", "in_umsetzung").status, 202);
    world.wait_phase("fail-teil", &["umsetzung_fehlgeschlagen"]);
    wait_synthesis(&world, "ok-ganzes", "ok-ganzes-synthese");
    world.wait_committed();

    let text = world.git(&["show", "main:docs/intent/ok-ganzes-synthese.md"]).unwrap();
    let commit = built["check_commit"].as_str().unwrap();
    let reason = world.card("fail-teil")["error"]["sentence"].as_str().unwrap().to_owned();
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        format!(
            "Stand: Bereit für Deployment (erfolgreich)\n- Ergebnis: `{commit}`\n- Entscheidung des Reviews: bereit\n"
        ),
        "[docs/intent/ok-teil.md](ok-teil.md), [docs/review/ok-teil.md](../review/ok-teil.md)".to_owned(),
        "Stand: Recherche fertig (erfolgreich)\n- Ergebnis: `docs/research-report/frage.md`\n".to_owned(),
        "[docs/research/frage.md](../research/frage.md)".to_owned(),
        format!("Stand: Umsetzung fehlgeschlagen (fehlgeschlagen)\n- Grund: {reason}\n"),
        "ob das Ziel von „ok-ganzes“ erreicht ist".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}\nis not in\n{text}");
    }
    let order: Vec<usize> = ["`ok-teil`", "`frage`", "`fail-teil`"]
        .map(|id| text.find(&format!("Karte: {id}")).unwrap())
        .to_vec();
    assert!(order.is_sorted(), "the children stand in the order of linking: {text}");

    // It waits to be read, and another end of a child makes no second one.
    let made = world.card("ok-ganzes-synthese");
    assert_eq!((&made["phase"], &made["unread"]), (&json!("geplant"), &json!(true)));
    let start = world.move_to("ok-ganzes-synthese", "in_umsetzung");
    assert_eq!((start.status, &start.json()["code"]), (428, &json!("synthesis-unread")));
    archive(&world, "fail-teil");
    world.wait_committed();
    assert_eq!(syntheses(&world), ["ok-ganzes-synthese.md"]);
    let read = world.api("POST", "/cards/ok-ganzes-synthese/read", Some(&json!({ "confirm": true })));
    assert_eq!(read.status, 200, "{}", read.body);
    assert_eq!(world.move_to("ok-ganzes-synthese", "in_umsetzung").status, 202);
    world.wait_phase("ok-ganzes-synthese", &["bereit_fuer_deployment", "planung_mit_feedback"]);
    check(&world);
}

#[test]
fn neither_an_interruption_nor_a_cancel_nor_linking_makes_a_synthesis_but_the_operator_can() {
    let mut world = World::new(Options::default()).unwrap();
    for slug in ["ok-ganzes", "hang-teil", "ok-alt"] {
        world.intent(slug).unwrap();
    }
    world.start().unwrap();
    link(&world, "hang-teil", Some("ok-ganzes"));
    let running = |world: &World| {
        world.wait("the agent", || (!world.processes("agent.sh").is_empty()).then_some(()));
    };
    assert_eq!(world.move_to("hang-teil", "in_umsetzung").status, 202);
    running(&world);
    world.stop();
    world.start().unwrap();
    let card = world.wait_phase("hang-teil", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(card["error"]["result"], "interrupted", "{card}");
    assert_none(&world, "ok-ganzes", "an interruption");
    assert_eq!(world.card("ok-ganzes")["blocked_by"], json!(["hang-teil"]));
    assert_eq!(world.call("hang-teil", "retry").status, 202);
    running(&world);
    assert_eq!(world.call("hang-teil", "cancel").status, 202);
    let card = world.wait_phase("hang-teil", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(card["error"]["result"], "cancelled", "{card}");
    assert_none(&world, "ok-ganzes", "a cancel");
    let refused = world.call("ok-ganzes", "synthesise");
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("synthesis")));

    // All linked children have ended only because links come and go.
    archive(&world, "ok-alt");
    link(&world, "ok-alt", Some("ok-ganzes"));
    assert_none(&world, "ok-ganzes", "a link to a card that has ended");
    link(&world, "hang-teil", None);
    assert_none(&world, "ok-ganzes", "the open child was unlinked");
    assert_eq!(world.card("ok-ganzes")["blocked_by"], json!([]));
    world.wait_committed();
    assert_eq!(syntheses(&world), Vec::<String>::new());

    assert_eq!(world.call("ok-ganzes", "synthesise").status, 200);
    wait_synthesis(&world, "ok-ganzes", "ok-ganzes-synthese");
    assert_eq!(world.call("ok-ganzes", "synthesise").status, 200);
    wait_synthesis(&world, "ok-ganzes", "ok-ganzes-synthese-2");
    world.wait_committed();
    assert_eq!(syntheses(&world), ["ok-ganzes-synthese-2.md", "ok-ganzes-synthese.md"]);
    check(&world);
}

#[test]
fn twenty_parents_whose_children_end_at_once_get_one_synthesis_each() {
    let mut world = World::new(Options::default()).unwrap();
    for n in 0..PARENTS {
        for slug in [format!("p-{n}"), format!("a-{n}"), format!("b-{n}")] {
            world.intent(&slug).unwrap();
        }
    }
    world.start().unwrap();
    for n in 0..PARENTS {
        for child in ["a", "b"] {
            link(&world, &format!("{child}-{n}"), Some(&format!("p-{n}")));
        }
    }
    let world = &world;
    std::thread::scope(|scope| {
        for n in 0..PARENTS {
            scope.spawn(move || archive(world, &format!("a-{n}")));
            scope.spawn(move || {
                let body = json!({ "to": "deployed", "reason": "von Hand" });
                let answer = world.api("POST", &format!("/cards/b-{n}/move"), Some(&body));
                assert_eq!(answer.status, 200, "{}", answer.body);
            });
        }
    });
    for n in 0..PARENTS {
        wait_synthesis(world, &format!("p-{n}"), &format!("p-{n}-synthese"));
    }
    world.wait_committed();
    let mut wanted: Vec<String> = (0..PARENTS).map(|n| format!("p-{n}-synthese.md")).collect();
    wanted.sort();
    assert_eq!(syntheses(world), wanted);
    for n in 0..PARENTS {
        let text = world.git(&["show", &format!("main:docs/intent/p-{n}-synthese.md")]).unwrap();
        assert!(text.contains(&format!("`a-{n}`")) && text.contains(&format!("`b-{n}`")), "{text}");
    }
    check(world);
}

/// Steps of the watcher between the end of the last child and the commit of the synthesis: where an operator
/// ends it, and where an outcome does.
const STEPS: [(&str, bool); 10] = [
    ("applying.begun", false),
    ("documents.blob", false),
    ("documents.file", false),
    ("applying.written", false),
    ("audit.files", false),
    ("git.ref_moved", false),
    ("audit.committed", false),
    ("audit.marked", false),
    ("complete.found", true),
    ("complete.applied", true),
];

#[test]
fn with_the_watcher_killed_at_each_step_the_synthesis_is_written_once() {
    let fault = tempfile::Builder::new().prefix("board-fault-").tempdir_in("/var/tmp").unwrap();
    open_to_all(fault.path());
    let (plan, taken) = (fault.path().join("plan"), fault.path().join("plan.taken"));
    let env = vec![("BOARD_FAULT_FILE".to_owned(), plan.display().to_string())];
    let mut world = World::new(Options { env, ..Options::default() }).unwrap();
    for (n, (_, researched)) in STEPS.iter().enumerate() {
        world.intent(&format!("p-{n}")).unwrap();
        match researched {
            true => world.write(&format!("docs/research/k-{n}.md"), "# Wie viele?\n").unwrap(),
            false => world.intent(&format!("k-{n}")).unwrap(),
        }
    }
    world.start().unwrap();
    let mut wanted = Vec::new();
    for (n, (point, researched)) in STEPS.iter().enumerate() {
        let (parent, child) = (format!("p-{n}"), format!("k-{n}"));
        link(&world, &child, Some(&parent));
        world.wait_committed();
        let staged = fault.path().join("staged");
        std::fs::write(&staged, format!("{point}:kill")).unwrap();
        open_to_all(&staged);
        std::fs::rename(&staged, &plan).unwrap();
        match researched {
            true => assert_eq!(world.move_to(&child, "recherche_laeuft").status, 202),
            false => archive(&world, &child),
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while !taken.exists() {
            assert!(Instant::now() < deadline, "{point} was not hit; the log:\n{}", world.log());
            loop_tests::world::wait_a_little();
        }
        std::fs::remove_file(&taken).unwrap();
        wait_synthesis(&world, &parent, &format!("{parent}-synthese"));
        world.wait_committed();
        wanted.push(format!("{parent}-synthese.md"));
        wanted.sort();
        assert_eq!(syntheses(&world), wanted, "killed at {point}");
        let card = in_state(&world, &parent);
        assert!(card["applying"].is_null() && card["synthesis_due"].is_null(), "killed at {point}: {card}");
        let text = world.git(&["show", &format!("main:docs/intent/{parent}-synthese.md")]).unwrap();
        assert_eq!(text.matches(&format!("Karte: `{child}`")).count(), 1, "killed at {point}: {text}");
        assert!(world.card(&format!("{parent}-synthese"))["unread"] == true, "killed at {point}");
        check(&world);
    }
}

#[test]
fn a_family_and_cards_from_before_the_board_are_managed_from_a_terminal() {
    let mut world = World::new(Options::default()).unwrap();
    for slug in ["alt-eins", "alt-zwei"] {
        world.intent(slug).unwrap();
    }
    world.git(&["add", "docs"]).unwrap();
    world.git(&["commit", "--quiet", "-m", "Altes"]).unwrap();
    for slug in ["ok-ganzes", "ok-teil", "ok-drittes"] {
        world.intent(slug).unwrap();
    }
    world.start().unwrap();
    let run = |arguments: &[&str]| -> Value {
        let output = world.boardctl(arguments).arg("--json").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let old = json!(["alt-eins", "alt-zwei"]);
    let adopt = ["adopt", "--all-before", "2999-01-01", "--as", "deployed"];
    assert_eq!(run(&[&adopt[..], &["--dry-run"]].concat())["cards"], old);
    assert_eq!(world.phase("alt-eins"), "geplant");
    assert_eq!(run(&adopt)["cards"], old);
    assert_eq!((world.phase("alt-eins"), world.phase("ok-teil")), ("deployed".into(), "geplant".into()));
    world.wait_committed();
    let subjects = world.git(&["log", "--format=%s", "main"]).unwrap();
    assert_eq!(subjects.matches("board: ").count(), 1, "one commit for all of them:\n{subjects}");

    assert_eq!(run(&["link", "ok-teil", "ok-ganzes"])["parent_id"], "ok-ganzes");
    run(&["archive", "ok-teil"]);
    wait_synthesis(&world, "ok-ganzes", "ok-ganzes-synthese");
    assert_eq!(run(&["read", "ok-ganzes-synthese"])["unread"], json!(false));
    run(&["synthesise", "ok-ganzes"]);
    wait_synthesis(&world, "ok-ganzes", "ok-ganzes-synthese-2");
    run(&["rank", "ok-drittes", "--before", "ok-ganzes"]);
    let board = world.api("GET", "", None).json();
    let planned = board["columns"].as_array().unwrap().iter().find(|column| column["id"] == "geplant");
    let order: Vec<&str> = planned.unwrap()["cards"]
        .as_array()
        .unwrap()
        .iter()
        .map(|card| card["id"].as_str().unwrap())
        .collect();
    let place = |id: &str| order.iter().position(|other| *other == id).unwrap();
    assert_eq!(place("ok-drittes") + 1, place("ok-ganzes"), "{order:?}");
    assert_eq!(run(&["link", "ok-teil"])["parent_id"], json!(null));
    let refused = world.boardctl(&["adopt-file", "ok-teil", "--take", "board"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(4), "nothing was edited: {refused:?}");
    let wrong = world.boardctl(&["adopt", "--all-before", "gestern", "--as", "deployed"]).output().unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(wrong.status.code() == Some(4) && said.contains("2026-09-01"), "{said}");
}

#[test]
fn a_last_child_whose_new_start_is_taken_back_gives_the_synthesis_then_and_once() {
    let mut world = World::new(Options { undo_seconds: 30, ..Options::default() }).unwrap();
    for slug in ["ok-ganzes", "fail-teil", "ok-teil"] {
        world.intent(slug).unwrap();
    }
    world.start().unwrap();
    for child in ["fail-teil", "ok-teil"] {
        link(&world, child, Some("ok-ganzes"));
    }
    // From a terminal a start is not parked.
    assert!(world.boardctl(&["start", "fail-teil"]).status().unwrap().success());
    world.wait_phase("fail-teil", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(world.call("fail-teil", "retry").status, 202);
    // And the parent's own start can be taken back as well while its last child ends.
    assert_eq!(world.move_to("ok-ganzes", "in_umsetzung").status, 202);
    archive(&world, "ok-teil");
    assert_none(&world, "ok-ganzes", "one child is open until its start is taken back");
    assert_eq!(world.call("fail-teil", "undo").status, 200);
    assert!(
        !in_state(&world, "ok-ganzes")["synthesis_due"].is_null(),
        "due, and waits for the parent's undo"
    );
    assert_eq!(syntheses(&world), Vec::<String>::new());
    assert_eq!(world.call("ok-ganzes", "undo").status, 200);
    wait_synthesis(&world, "ok-ganzes", "ok-ganzes-synthese");
    world.wait_committed();
    archive(&world, "fail-teil");
    world.wait_committed();
    assert_eq!(syntheses(&world), ["ok-ganzes-synthese.md"]);
    check(&world);
}

/// Ids of the cards whose jobs lie in the running directories of a lane, and in its inbox.
fn in_lane(world: &World, lane: &str) -> (Vec<String>, Vec<String>) {
    let cards = |dir: std::path::PathBuf| -> Vec<String> {
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let jobs = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
        let read = jobs.filter_map(|path| serde_json::from_slice::<Value>(&std::fs::read(path).ok()?).ok());
        read.filter_map(|job| job["card_id"].as_str().map(str::to_owned)).collect()
    };
    let queue = world.path("state/queue");
    let running = ["1", "2"].map(|slot| cards(queue.join(format!("running/{lane}-{slot}")))).concat();
    (running, cards(queue.join(format!("inbox/{lane}"))))
}

#[test]
fn builders_of_one_parent_work_at_the_same_time_in_worktrees_of_their_own_and_its_researchers_one_after_another()
 {
    let mut world = World::new(Options { agent_seconds: "3".into(), ..Options::default() }).unwrap();
    for slug in ["ok-ganzes", "slow-a", "slow-b"] {
        world.intent(slug).unwrap();
    }
    for slug in ["slow-c", "slow-d"] {
        world.write(&format!("docs/research/{slug}.md"), "# Wie?\n").unwrap();
    }
    world.start().unwrap();
    for child in ["slow-a", "slow-b", "slow-c", "slow-d"] {
        link(&world, child, Some("ok-ganzes"));
    }
    for (child, to) in [
        ("slow-c", "recherche_laeuft"),
        ("slow-d", "recherche_laeuft"),
        ("slow-a", "in_umsetzung"),
        ("slow-b", "in_umsetzung"),
    ] {
        assert_eq!(world.move_to(child, to).status, 202);
    }
    let mut most_researchers = 0;
    let queued = world.wait("both builders at once beside a researcher", || {
        let (builders, _) = in_lane(&world, "build");
        let (researchers, queued) = in_lane(&world, "research");
        most_researchers = most_researchers.max(researchers.len());
        // Each has begun its own work in a worktree of its own.
        let works = |child: &str| {
            let file = world.path(&format!("state/worktrees/{child}-1/src/text.txt"));
            std::fs::read_to_string(file).is_ok_and(|text| text.matches("langsam").count() == 1)
        };
        let at_once = builders.len() == 2 && researchers.len() == 1 && works("slow-a") && works("slow-b");
        at_once.then_some(queued)
    });
    assert_eq!(queued.len(), 1, "the other question waits");
    world.wait("the end of all", || {
        most_researchers = most_researchers.max(in_lane(&world, "research").0.len());
        world.card("ok-ganzes")["blocked_by"].as_array().unwrap().is_empty().then_some(())
    });
    assert_eq!(most_researchers, 1);
    wait_synthesis(&world, "ok-ganzes", "ok-ganzes-synthese");
    assert_eq!(
        world.git(&["status", "--porcelain", "src"]).unwrap(),
        "",
        "nothing half done in the checkout"
    );
}

//! An external builder in the whole loop: a stand-in that does what docs/builder.md asks for, and what it must not.

use std::path::PathBuf;

use loop_tests::{Options, World};
use serde_json::{Value, json};

/// The stand-in. It claims jobs by a rename, builds in a worktree of its own and leaves results.
struct Builder<'w> {
    world: &'w World,
}

impl Builder<'_> {
    /// Waits for a job and claims it.
    fn claim(&self) -> Value {
        let inbox = self.world.path("builder/inbox");
        let file = self.world.wait("a job for the builder", || {
            let names = std::fs::read_dir(&inbox).unwrap().map(|entry| entry.unwrap().path());
            names.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "json"))
        });
        let mine = self.world.path("builder").join(file.file_name().unwrap());
        std::fs::rename(&file, &mine).unwrap();
        serde_json::from_slice(&std::fs::read(mine).unwrap()).unwrap()
    }

    /// Builds, and returns the commit on the job's branch.
    fn build(&self, job: &Value) -> String {
        let card = text(&job["card_id"]);
        let tree = self.world.path(&format!("home/{}", text(&job["id"]))).display().to_string();
        let git = |arguments: &[&str]| self.world.git(arguments).unwrap();
        git(&["worktree", "add", "-q", "--detach", &tree, &text(&job["payload"]["base_commit"])]);
        let mut made = self.world.command("sh");
        made.arg("-c").arg("mkdir -p src && echo gebaut >src/\"$0\".txt").arg(&card).current_dir(&tree);
        assert!(made.status().unwrap().success());
        git(&["-C", &tree, "add", "-A"]);
        git(&["-C", &tree, "commit", "-q", "-m", "gebaut"]);
        let commit = git(&["-C", &tree, "rev-parse", "HEAD"]);
        git(&["branch", "-f", &format!("board/{card}/{}", job["payload"]["number"]), &commit]);
        commit
    }

    fn result(job: &Value, commit: &str) -> Value {
        let (card, number) = (text(&job["card_id"]), &job["payload"]["number"]);
        json!({
            "schema": 1, "job_id": job["id"], "attempt": job["attempt"], "card_id": card, "type": "builder",
            "result": "succeeded", "sentence": "gebaut", "profile": job["profile"],
            "started_at": "2026-11-01T10:00:00Z", "finished_at": "2026-11-01T10:20:00Z",
            "usage": { "iterations": 12 },
            "produced": { "build": {
                "branch": format!("board/{card}/{number}"), "base": job["payload"]["base_commit"], "commit": commit,
                "files_changed": 1, "summary": "fertig",
            } },
        })
    }

    fn leave(&self, result: &Value) -> String {
        let name = format!("{}.{}.outcome.json", text(&result["job_id"]), result["attempt"]);
        self.leave_as(&name, &result.to_string());
        name
    }

    fn leave_as(&self, name: &str, text: &str) {
        let results = self.world.path("builder/results");
        let staged = results.join(format!(".{name}.part"));
        std::fs::write(&staged, text).unwrap();
        std::fs::rename(staged, results.join(name)).unwrap();
    }

    /// Waits until the file lies in `rejected/`, and returns why.
    fn rejected(&self, name: &str) -> String {
        let path: PathBuf = self.world.path("state/queue/rejected").join(format!("{name}.reason.json"));
        self.world.wait(&format!("{name} in rejected/"), || {
            let reason: Value = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
            Some(text(&reason["reason"]))
        })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A world whose builds are another service's.
fn world() -> World {
    let world = World::with(|dir| {
        let builder = dir.join("builder");
        let extra = format!(
            "[builder]\ninbox = \"{}\"\nresults = \"{}\"\n",
            builder.join("inbox").display(),
            builder.join("results").display()
        );
        Options { extra, ..Options::default() }
    })
    .unwrap();
    for name in ["builder", "builder/inbox", "builder/results"] {
        world.open_dir(name).unwrap();
    }
    world
}

#[test]
fn an_external_builder_builds_and_what_it_leaves_wrongly_changes_nothing() {
    let mut world = world();
    for slug in ["ok-eins", "ok-zwei"] {
        world.intent(slug).unwrap();
    }
    world.start().unwrap();
    let builder = Builder { world: &world };
    assert_eq!(world.move_to("ok-eins", "in_umsetzung").status, 202);
    let job = builder.claim();
    assert_eq!((&job["card_id"], &job["type"]), (&json!("ok-eins"), &json!("builder")));

    // Malformed, and of a card that nobody knows: kept with the reason, and the card goes on waiting.
    builder.leave_as("kaputt.1.outcome.json", "{\"schema\": 1,");
    assert!(!builder.rejected("kaputt.1.outcome.json").is_empty());
    let commit = builder.build(&job);
    let mut unknown = Builder::result(&job, &commit);
    unknown["job_id"] = json!("0198c0de-0000-7000-8000-000000000001");
    unknown["card_id"] = json!("niemand");
    let name = builder.leave(&unknown);
    assert!(builder.rejected(&name).contains("no such card"), "{}", builder.rejected(&name));
    assert_eq!(world.phase("ok-eins"), "in_umsetzung");

    // The right one, twice: one review.
    let right = Builder::result(&job, &commit);
    let name = builder.leave(&right);
    let card = world.wait_phase("ok-eins", &["review", "bereit_fuer_deployment"]);
    assert_eq!(card["check_commit"], commit.as_str());
    builder.leave(&right);
    assert!(builder.rejected(&name).contains("has an outcome already"));
    world.wait_phase("ok-eins", &["bereit_fuer_deployment"]);

    // Given up by the button of the page; the late result changes nothing, and the next start goes out.
    assert_eq!(world.move_to("ok-zwei", "in_umsetzung").status, 202);
    let old = builder.claim();
    let page = world.client().send("GET", "/karten/ok-zwei", None).unwrap().body;
    assert!(page.contains("Aufgeben") && page.contains("Der Builder lässt sich nicht anhalten"), "{page}");
    assert!(!page.contains("Hält den laufenden Job an"), "{page}");
    let given_up = world.call("ok-zwei", "cancel");
    assert_eq!(given_up.status, 202, "{}", given_up.body);
    let card = world.wait_phase("ok-zwei", &["umsetzung_fehlgeschlagen"]);
    assert!(text(&card["error"]["sentence"]).contains("arbeitet vielleicht noch"), "{card}");
    let late = builder.leave(&Builder::result(&old, &builder.build(&old)));
    assert!(builder.rejected(&late).contains("too late"));
    assert_eq!(world.phase("ok-zwei"), "umsetzung_fehlgeschlagen");
    assert_eq!(world.call("ok-zwei", "retry").status, 202);
    let next = builder.claim();
    assert_ne!(next["id"], old["id"]);
    let mut failed = Builder::result(&next, &commit);
    (failed["result"], failed["sentence"]) = (json!("failed"), json!("Der Bau ging nicht."));
    failed.as_object_mut().unwrap().remove("produced");
    builder.leave(&failed);
    let card = world.wait("the failure", || {
        let card = world.card("ok-zwei");
        text(&card["error"]["sentence"]).contains("Der Bau ging nicht").then_some(card)
    });
    assert_eq!(card["iterations"]["used"], 12);
    let page = world.client().send("GET", "/karten/ok-zwei", None).unwrap().body;
    assert!(page.contains("20 min · laut Builder"), "{page}");
    world.wait_committed();
    let events = world.trailers("Board-Event").unwrap();
    assert_eq!(events.iter().filter(|event| *event == "built").count(), 1, "{events:?}");
}

#[test]
fn the_doctor_says_whether_both_can_use_the_directories() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = world();
    let lines = || {
        let output = world.boardctl(&["doctor", "--json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap().clone();
        let of_builder = checks.into_iter().filter(|check| check["what"] == "externer Builder");
        of_builder.map(|check| (text(&check["level"]), text(&check["found"]))).collect::<Vec<_>>()
    };
    let good = lines();
    assert_eq!(good.len(), 2, "{good:?}");
    assert!(
        good.iter().all(|(level, found)| level == "ok" && found.contains("für beide benutzbar")),
        "{good:?}"
    );
    let results = world.path("builder/results");
    std::fs::set_permissions(&results, std::fs::Permissions::from_mode(0o500)).unwrap();
    let bad = lines();
    let of_results = |(level, found): &(String, String)| level == "fail" && found.contains("(500)");
    assert!(bad.iter().any(of_results), "{bad:?}");
}

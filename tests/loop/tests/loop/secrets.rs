//! An agent that prints, commits and reports its key, its login and the daemon's environment: none of it is found in
//! a log, an outcome, the state, a commit, a page or a line for the journal.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use loop_tests::{Options, World};

/// With everything that JSON escapes. What is looked for is their common beginning, so a part that is left counts.
const KEY: &str = r#"k4n4ri-key-"ä\x/y-1234567890"#;
const LOGIN: &str = r#"k4n4ri-login-"ö\z/w-1234567890"#;
const ENVIRONMENT: &str = r#"k4n4ri-env-"ü\q/r-1234567890"#;
const BEGINNING: &str = "k4n4ri";

const AGENT: &str = include_str!("../../leak.sh");

fn world(sandbox: &str) -> World {
    let mut world = World::with(|at| Options {
        profile: "leaks".into(),
        env: vec![("CANARY_TOKEN".into(), ENVIRONMENT.into())],
        extra: format!(
            "[sandbox]\nmode = \"{sandbox}\"\nallow_api_keys = true\n\
             [runtimes.leaks]\nkind = \"codex\"\nprogram = \"{at}/agent/leak.sh\"\n\
             credential = {{ env = \"CANARY_KEY\", file = \"{at}/key\" }}\n\
             [profiles.leaks]\nruntime = \"leaks\"\ndescription = \"erzählt alles\"\n",
            at = at.display()
        ),
        ..Options::default()
    })
    .unwrap();
    let agent = world.path("agent/leak.sh");
    std::fs::write(&agent, AGENT).unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(world.path("key"), format!("{KEY}\n")).unwrap();
    let home = world.path("state/runtimes/leaks/.codex");
    let login = serde_json::json!({ "tokens": { "access_token": LOGIN } }).to_string();
    let put = "mkdir -p \"$0\" && printf %s \"$1\" >\"$0/auth.json\"";
    let status = world.command("sh").args(["-c", put]).arg(&home).arg(login).status().unwrap();
    assert!(status.success());
    for card in ["message-eins", "file-eins", "fail-eins", "mute-eins"] {
        world.intent(card).unwrap();
    }
    world.start().unwrap();
    world
}

/// Every file below a directory in which the beginning of a canary stands, in its name or its content.
fn leaks(dir: &Path, but: &[PathBuf], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if but.contains(&path) {
            continue;
        }
        if path.file_name().unwrap().to_string_lossy().contains(BEGINNING) {
            found.push(path.clone());
        }
        if kind.is_dir() {
            leaks(&path, but, found);
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(BEGINNING.len()).any(|part| part == BEGINNING.as_bytes()) {
                found.push(path);
            }
        }
    }
}

/// All that can be reached from any ref, the texts of the commits among it.
fn history(world: &World) -> String {
    world.git(&["log", "--all", "-p", "-a", "--full-history", "-m", "--format=%H %an%n%B%n%N"]).unwrap()
}

fn everything_is_told_and_nothing_comes_out(sandbox: &str, environment_is_seen: bool) {
    let world = world(sandbox);
    let ends = [
        ("message-eins", "bereit_fuer_deployment"),
        ("file-eins", "umsetzung_fehlgeschlagen"),
        ("fail-eins", "umsetzung_fehlgeschlagen"),
        ("mute-eins", "review_fehlgeschlagen"),
    ];
    for (card, _) in ends {
        assert_eq!(world.move_to(card, "in_umsetzung").status, 202);
    }
    let all = ["bereit_fuer_deployment", "umsetzung_fehlgeschlagen", "review_fehlgeschlagen"];
    let mut pages =
        vec!["/".to_owned(), "/jobs".into(), "/system".into(), "/api/board".into(), "/api/board/jobs".into()];
    for (card, phase) in ends {
        let shown = world.wait_phase(card, &all);
        assert_eq!(shown["phase"], phase, "{shown}");
        pages.extend([format!("/karten/{card}"), format!("/api/board/cards/{card}")]);
    }
    for name in std::fs::read_dir(world.path("state/logs")).unwrap().flatten().map(|entry| entry.file_name())
    {
        if let Some((job, _)) = name.to_string_lossy().split_once('.').filter(|(job, _)| job.len() == 36) {
            pages.extend([
                format!("/jobs/{job}"),
                format!("/api/board/jobs/{job}"),
                format!("/api/board/jobs/{job}/log"),
            ]);
        }
    }
    world.wait_committed();

    // It had them: the lengths of what it got are in the check commit.
    let got = world.git(&["show", "board/message-eins/1:src/got.txt"]).unwrap();
    let length = |of: &str| {
        let words: Vec<&str> = got.split(' ').collect();
        let at = words.iter().position(|word| *word == of).unwrap();
        words[at + 1].parse::<usize>().unwrap()
    };
    assert!(length("key") >= KEY.chars().count() && length("login") >= LOGIN.chars().count(), "{got}");
    assert_eq!(length("environment") > 0, environment_is_seen, "{got}");

    let history = history(&world);
    assert!(!history.contains(BEGINNING), "{history}");
    // What it did with them is there, without them.
    assert!(history.contains("Fertig: [entfernt] | [entfernt]"), "the summary");
    assert!(history.contains("+[entfernt] | [entfernt]"), "the saved work and the report");
    for page in pages {
        let answer = world.client().send("GET", &page, None).unwrap();
        assert_eq!(answer.status, 200, "{page}");
        assert!(!answer.body.contains(BEGINNING), "{page}: {}", answer.body);
    }
    let mut found = Vec::new();
    // Logins, and the worktrees, where the files are as the agent left them.
    let but = ["state/runtimes", "state/worktrees"].map(|name| world.path(name));
    leaks(&world.path("state"), &but, &mut found);
    leaks(&world.path("repo/docs"), &[], &mut found);
    assert!(found.is_empty(), "{found:?}");
    let journal = std::fs::read_to_string(world.path("dev.log")).unwrap();
    assert!(!journal.contains(BEGINNING) && journal.contains("[entfernt]"), "{journal}");
    let replies: Vec<_> = std::fs::read_dir(world.path("state/logs")).unwrap().flatten().collect();
    assert!(replies.iter().any(|reply| reply.path().to_string_lossy().ends_with(".reply.md")));
}

#[test]
fn no_secret_comes_out_of_a_run_in_its_sandbox() {
    everything_is_told_and_nothing_comes_out("bubblewrap", false);
}

#[test]
fn no_secret_comes_out_of_a_run_without_a_sandbox_which_sees_the_daemons_environment_too() {
    everything_is_told_and_nothing_comes_out("none", true);
}

//! The home of a run: made from what its runtime keeps, its own while it works, and thrown away afterwards.

use std::os::unix::fs::PermissionsExt as _;

use loop_tests::{Options, World};

const AGENT: &str = include_str!("../../home.sh");
const LOGIN: &str = "{\"who\":\"kept-login\"}";

fn world(cards: &[&str]) -> World {
    let mut world = World::with(|at| Options {
        profile: "heim".into(),
        extra: format!(
            "[runtimes.heim]\nkind = \"codex\"\nprogram = \"{at}/agent/home.sh\"\n\
             [profiles.heim]\nruntime = \"heim\"\ndescription = \"sieht sich zu Hause um\"\n",
            at = at.display()
        ),
        ..Options::default()
    })
    .unwrap();
    let agent = world.path("agent/home.sh");
    std::fs::write(&agent, AGENT).unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let put =
        "mkdir -p \"$0/.codex\" && printf %s \"$1\" >\"$0/.codex/auth.json\" && echo kept >\"$0/settings\"";
    let kept = world.path("state/runtimes/heim");
    assert!(world.command("sh").args(["-c", put]).arg(kept).arg(LOGIN).status().unwrap().success());
    for card in cards {
        world.intent(card).unwrap();
    }
    world.start().unwrap();
    world
}

/// The files that the runtime keeps, and its login.
fn kept(world: &World) -> (Vec<String>, String) {
    let home = world.path("state/runtimes/heim");
    let list = world.command("find").args([".", "!", "-type", "d"]).current_dir(&home).output().unwrap();
    let mut files: Vec<String> = String::from_utf8(list.stdout).unwrap().lines().map(str::to_owned).collect();
    files.sort();
    (files, std::fs::read_to_string(home.join(".codex/auth.json")).unwrap())
}

const FILES: [&str; 2] = ["./.codex/auth.json", "./settings"];

#[test]
fn what_a_builder_writes_into_its_home_is_not_there_for_the_next_run_of_any_role() {
    let world = world(&["eins", "zwei"]);
    for card in ["eins", "zwei"] {
        assert_eq!(world.move_to(card, "in_umsetzung").status, 202);
        let shown = world.wait_phase(
            card,
            &["bereit_fuer_deployment", "umsetzung_fehlgeschlagen", "review_fehlgeschlagen"],
        );
        assert_eq!(shown["phase"], "bereit_fuer_deployment", "{shown}");
        let found = world.git(&["show", &format!("board/{card}/1:src/{card}.txt")]).unwrap();
        assert_eq!(found.lines().next().unwrap().trim(), FILES.join(" "), "the builder of {card}");
        world.wait_committed();
        let report = world.git(&["show", &format!("main:docs/review/{card}.md")]).unwrap();
        assert!(
            report.contains(&format!("HOME: {} ENDE", FILES.join(" "))),
            "the reviewer of {card}: {report}"
        );
        // The login that a run renewed is the one thing that comes back; the next run has it.
        assert_eq!(kept(&world), (FILES.map(str::to_owned).into(), format!("{{\"who\":\"new-{card}\"}}")));
    }
    let found = world.git(&["show", "board/zwei/1:src/zwei.txt"]).unwrap();
    assert_eq!(found.lines().nth(1), Some("{\"who\":\"new-eins\"}"));
}

#[test]
fn two_builders_of_one_runtime_at_once_do_not_disturb_each_other() {
    let cards = ["wait-eins", "wait-zwei"];
    let world = world(&cards);
    for card in cards {
        assert_eq!(world.move_to(card, "in_umsetzung").status, 202);
    }
    let worktree = |card: &str| world.path(&format!("state/worktrees/{card}-1"));
    world.wait("both to work", || {
        cards.iter().all(|card| worktree(card).join("src/bereit.txt").exists()).then_some(())
    });
    for card in cards {
        assert!(world.command("touch").arg(worktree(card).join("weiter")).status().unwrap().success());
    }
    for card in cards {
        let shown = world.wait_phase(
            card,
            &["bereit_fuer_deployment", "umsetzung_fehlgeschlagen", "review_fehlgeschlagen"],
        );
        assert_eq!(shown["phase"], "bereit_fuer_deployment", "{shown}");
        let found = world.git(&["show", &format!("board/{card}/1:src/{card}.txt")]).unwrap();
        assert_eq!(found.lines().collect::<Vec<_>>(), [&format!("{} ", FILES.join(" ")), LOGIN, card]);
        assert_eq!(
            world
                .git(&["diff", "--name-only", "main", &format!("board/{card}/1"), "--", "src"])
                .unwrap()
                .lines()
                .count(),
            2
        );
    }
    let (files, login) = kept(&world);
    assert_eq!(files, FILES);
    assert!(login.starts_with("{\"who\":\"new-wait-"), "{login}");
}

#[test]
fn a_run_that_is_killed_leaves_the_kept_login_alone() {
    let world = world(&["wait-eins"]);
    assert_eq!(world.move_to("wait-eins", "in_umsetzung").status, 202);
    world.wait("it to work", || {
        world.path("state/worktrees/wait-eins-1/src/bereit.txt").exists().then_some(())
    });
    let killed = world.processes("home.sh");
    assert!(!killed.is_empty());
    for process in killed {
        loop_tests::processes::signal(process.pid, nix::sys::signal::Signal::SIGKILL);
    }
    world.wait_phase("wait-eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(kept(&world), (FILES.map(str::to_owned).into(), LOGIN.to_owned()));
}

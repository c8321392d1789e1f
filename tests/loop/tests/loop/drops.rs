//! Job files dropped by hand.

use std::os::unix::fs::chown;

use loop_tests::{Options, World};
use serde_json::Value;

/// Drops a file as the operator does: written beside and renamed.
pub(crate) fn drop_file(world: &World, name: &str, bytes: &[u8]) {
    let staged = world.path("state/queue").join(format!(".{name}.part"));
    std::fs::write(&staged, bytes).unwrap();
    if loop_tests::world::is_root() {
        chown(&staged, Some(65_534), Some(65_534)).unwrap();
    }
    std::fs::rename(staged, world.path("state/queue/drop").join(name)).unwrap();
}

/// The reason that a dropped file was rejected with.
fn reason(world: &World, name: &str) -> String {
    let path = world.path("state/queue/rejected").join(format!("{name}.reason.json"));
    world.wait(&format!("the reason of {name}"), || {
        let text = std::fs::read_to_string(&path).ok()?;
        let reason: Value = serde_json::from_str(&text).ok()?;
        Some(format!("{} {}", reason["field"].as_str().unwrap_or_default(), reason["reason"].as_str()?))
    })
}

#[test]
fn a_dropped_file_does_what_the_click_would_have_done() {
    let mut world = World::new(Options { undo_seconds: 30, ..Options::default() }).unwrap();
    world.write("docs/research/frage.md", "# Wie viele?\n").unwrap();
    world.intent("ok-eins").unwrap();
    world.start().unwrap();
    drop_file(&world, "a.json", br#"{"type":"research","card_id":"frage"}"#);
    drop_file(&world, "b.json", br#"{"type":"builder","card_id":"ok-eins"}"#);
    // Not parked, although a click would wait for thirty seconds.
    world.wait_phase("frage", &["recherche_fertig"]);
    world.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
    world.wait_committed();
    let actors = world.trailers("Board-Actor").unwrap();
    assert!(actors.iter().any(|actor| actor.starts_with("drop:")), "{actors:?}");
}

#[test]
fn each_bad_file_is_rejected_with_a_reason_and_the_next_good_one_runs() {
    let mut world = World::new(Options::default()).unwrap();
    world.write("docs/research/frage.md", "# Wie viele?\n").unwrap();
    world.intent("ok-eins").unwrap();
    world.start().unwrap();
    let deep = format!(r#"{{"type":"research","card_id":{}"#, "[".repeat(100_000));
    let cases: [(&str, &[u8], &str); 11] = [
        ("leer.json", b"", ""),
        ("kaputt.json", b"{\"type\":", ""),
        ("nul.json", b"\0\0\0", ""),
        ("bom.json", b"\xef\xbb\xbf{\"type\":\"research\",\"card_id\":\"frage\"}", ""),
        ("tief.json", deep.as_bytes(), ""),
        ("art.json", br#"{"type":"deploy","card_id":"frage"}"#, "type"),
        ("draft.json", br#"{"type":"draft","card_id":"frage"}"#, "type"),
        ("feld.json", br#"{"type":"research","card_id":"frage","phase":"deployed"}"#, "phase"),
        ("karte.json", br#"{"type":"research","card_id":"nicht-da"}"#, "card_id"),
        ("pfad.json", br#"{"type":"research","card_id":"../../etc/passwd"}"#, "card_id"),
        ("profil.json", br#"{"type":"research","card_id":"frage","profile":"teuer"}"#, "profile"),
    ];
    for (name, bytes, field) in cases {
        drop_file(&world, name, bytes);
        let reason = reason(&world, name);
        assert!(reason.contains(field), "{name}: {reason}");
    }
    drop_file(&world, "gross.json", &vec![b' '; 10 * 1024 * 1024]);
    reason(&world, "gross.json");
    std::os::unix::fs::symlink("/etc/passwd", world.path("state/queue/drop/link.json")).unwrap();
    reason(&world, "link.json");
    let dir = world.path("state/queue/drop/dir.json");
    std::fs::create_dir(world.path("home/dir")).unwrap();
    if loop_tests::world::is_root() {
        // Nobody but its owner and root may move a directory elsewhere.
        chown(world.path("home/dir"), Some(65_534), Some(65_534)).unwrap();
    }
    std::fs::rename(world.path("home/dir"), dir).unwrap();
    reason(&world, "dir.json");
    nix::unistd::mkfifo(&world.path("state/queue/drop/fifo.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    reason(&world, "fifo.json");

    drop_file(&world, "gut.json", br#"{"type":"research","card_id":"frage"}"#);
    world.wait_phase("frage", &["recherche_fertig"]);
    assert_eq!(world.phase("ok-eins"), "geplant");
}

#[test]
fn a_copy_of_a_finished_job_in_its_inbox_ends_aside_and_nothing_runs_again() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("ok-eins").unwrap();
    world.start().unwrap();
    world.move_to("ok-eins", "in_umsetzung");
    let job = world.card("ok-eins")["job"]["id"].as_str().unwrap().to_owned();
    world.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
    let name = format!("{job}.1.json");
    let done = world.path("state/queue/done").join(&name);
    world.wait("the job in done", || done.exists().then_some(()));
    let copy = world.path("state/queue/inbox/build").join(&name);
    std::fs::copy(done, &copy).unwrap();
    if loop_tests::world::is_root() {
        chown(&copy, Some(65_534), Some(65_534)).unwrap();
    }
    world.wait("the copy to go aside", || (!copy.exists()).then_some(()));
    let aside = std::fs::read_dir(world.path("state/queue/rejected")).unwrap().flatten();
    assert!(aside.filter(|entry| entry.file_name().to_string_lossy().contains(&job)).count() > 0);
    assert_eq!(world.phase("ok-eins"), "bereit_fuer_deployment");
    assert!(!world.path("state/logs").join(format!("{job}.2.jsonl")).exists());
}

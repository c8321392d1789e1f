//! A state that cannot be read stops everything and is repaired by a command.

use loop_tests::{Options, World};

#[test]
fn a_broken_state_is_refused_with_path_and_line_and_restored_by_a_command() {
    let mut world = World::new(Options::default()).unwrap();
    world.intent("ok-eins").unwrap();
    world.start().unwrap();
    world.move_to("ok-eins", "in_umsetzung");
    world.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
    world.wait_committed();
    world.stop();
    let path = world.path("state/state.json");
    let good = std::fs::read(&path).unwrap();
    let half = &good[..good.len() / 2];
    let future = String::from_utf8(good.clone()).unwrap().replacen("\"schema\":1", "\"schema\":99", 1);
    assert_ne!(future.as_bytes(), good, "the schema stands in the state as the test expects");
    for broken in [&b""[..], half, b"\xff\xfe garbage", future.as_bytes()] {
        std::fs::write(&path, broken).unwrap();
        for daemon in [
            &["run", "trigger"][..],
            &["run", "watcher"],
            &["run", "worker", "--lane", "build", "--slot", "1"],
        ] {
            let output = world.boardctl(daemon).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{daemon:?} started: {said}");
            assert!(said.contains("state.json"), "{daemon:?}: {said}");
            assert!(said.contains("state restore"), "{daemon:?} says what to do: {said}");
            assert_eq!(std::fs::read(&path).unwrap(), broken, "nothing is written");
        }
    }
    let output = world.boardctl(&["state", "restore"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.start().unwrap();
    assert_eq!(world.phase("ok-eins"), "bereit_fuer_deployment");
    let kept = std::fs::read_dir(world.path("state")).unwrap().flatten();
    assert!(kept.filter(|entry| entry.file_name().to_string_lossy().contains("broken")).count() > 0);
}

//! Exit codes, streams and closed pipes.
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn boardctl(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boardctl"));
    command
        .args(arguments)
        .env_remove("BOARD_AGENT_CONFIG")
        .env("BOARD_AGENT_CONFIG", "/nonexistent/config.toml");
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = boardctl(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (status.code(), text(&stdout), text(&stderr))
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../queue-schema/examples").join(name)
}

#[test]
fn a_good_file_ends_with_0_and_a_bad_one_with_1_and_its_fields() {
    let good = example("job.review.json");
    assert_eq!(run(&["check-job", good.to_str().unwrap()]).0, Some(0));
    let bad = example("bad/job.many-faults.json");
    let (code, said, complained) = run(&["check-job", bad.to_str().unwrap()]);
    assert_eq!((code, complained.as_str()), (Some(1), ""));
    assert!(said.contains("iteration_limit") && said.contains("5 Fehler"), "{said}");
    assert!(!said.contains('\x1b'), "no colour in a pipe: {said}");
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    for line in [&["nonsense"][..], &["show", "../x"], &["list", "--language", "fr"]] {
        let (code, said, complained) = run(line);
        assert_eq!((code, said.as_str()), (Some(2), ""), "{line:?}");
        assert!(!complained.is_empty());
    }
    assert_eq!(run(&["--help"]).0, Some(0));
}

#[test]
fn nobody_there_ends_with_3_and_one_sentence_that_says_what_to_do() {
    let (code, said, complained) = run(&["--socket", "/nonexistent/control.sock", "list"]);
    assert_eq!((code, said.as_str(), complained.lines().count()), (Some(3), "", 1));
    assert!(complained.contains("boardctl dev"), "{complained}");
    let (_, _, complained) = run(&["--language", "en", "--socket", "/nonexistent/control.sock", "list"]);
    assert!(complained.contains("No board answers"), "{complained}");
}

#[test]
fn a_missing_configuration_is_said_without_a_panic() {
    for line in [&["check-config"][..], &["queue"], &["state", "check"], &["dev"]] {
        let (code, said, complained) = run(line);
        assert_eq!(code, Some(1), "{line:?}");
        assert!(
            format!("{said}{complained}").contains("/nonexistent/config.toml"),
            "{line:?}: {said}{complained}"
        );
        assert!(!complained.contains("panicked"), "{complained}");
    }
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    // The reading end is closed before the program starts, so that its first line meets nobody.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = boardctl(&["schema"]).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    // Either by the signal of the pipe or by itself; never by a panic.
    assert!(output.status.code().is_none_or(|code| code == 0), "{:?}", output.status);
}

#[test]
fn json_is_one_value() {
    let (code, said, _) = run(&["--json", "check-job", example("bad/drop.path.json").to_str().unwrap()]);
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &value["ok"]), (Some(1), &serde_json::json!(false)));
    assert_eq!(value["errors"][1]["field"], "path");
}

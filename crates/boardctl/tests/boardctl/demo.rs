//! `demo --once`: the whole loop with every real daemon, as a newcomer runs it.
use std::process::Command;

fn once(arguments: &[&str]) -> (Option<i32>, String, String, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_boardctl"));
    command.args(["demo", "--once", "--dir"]).arg(dir.path().join("demo")).args(arguments);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr), dir)
}

#[test]
fn one_card_goes_from_planned_to_ready_and_leaves_commits_and_a_report() {
    let (code, said, complained, dir) = once(&[]);
    assert_eq!(code, Some(0), "{said}\n{complained}");
    for part in [
        "Geplant → In Umsetzung",
        "In Umsetzung → Review",
        "Review → Bereit für Deployment",
        "Board-Card: tagebuch-monatssumme",
        "Board-Event: built",
        "docs/review/tagebuch-monatssumme.md",
        "Umfang und Vorgehen",
        "befehle/summe.sh",
        "board/tagebuch-monatssumme/1",
    ] {
        assert!(said.contains(part), "{part}:\n{said}\n{complained}");
    }
    let git = |arguments: &[&str]| {
        let repository = dir.path().join("demo/werkstatt-tagebuch");
        let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(git(&["status", "--porcelain"]), "", "the checkout is clean");
    assert_eq!(git(&["rev-list", "--count", "main..board/tagebuch-monatssumme/1"]).trim(), "1");
}

#[test]
fn json_and_english_work_too() {
    let (code, said, complained, _dir) = once(&["--json", "--language", "en"]);
    assert_eq!(code, Some(0), "{said}\n{complained}");
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(value["card"]["id"], "tagebuch-monatssumme");
    assert_eq!(value["steps"].as_array().map(Vec::len), Some(3));
}

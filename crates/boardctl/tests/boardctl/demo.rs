//! `demo --once` and `demo --tour`: the whole loop with every real daemon, as a newcomer runs it.
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
fn the_tour_goes_from_a_topic_over_parallel_parts_to_a_built_synthesis() {
    let (code, said, complained, dir) = once(&["--tour"]);
    assert_eq!(code, Some(0), "{said}\n{complained}");
    for part in [
        "1/5  Ein Thema wird ein Intent",
        "Planner: Wer soll das vor allem benutzen?",
        "Wird aufgeteilt → Aufgeteilt",
        "jahresbericht-leser     Recherche läuft → Recherche fertig",
        "jahresbericht-druck     In Umsetzung → Umsetzung fehlgeschlagen",
        "jahresbericht-geraete   Review → Bereit für Deployment",
        "/karten/jahresbericht-synthese",
        "Ungelesen startet sie nicht. Das Board sagt: Noch nicht gelesen",
        "5/5  Gelesen, gestartet, gebaut",
        "jahresbericht-synthese  Review → Bereit für Deployment",
    ] {
        assert!(said.contains(part), "{part}:\n{said}\n{complained}");
    }
    let git = |arguments: &[&str]| {
        let repository = dir.path().join("demo/werkstatt-tagebuch");
        let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(git(&["status", "--porcelain"]), "", "the checkout is clean");
    let judged = git(&["show", "board/jahresbericht-synthese/1:bewertung/jahresbericht-synthese.md"]);
    assert!(judged.contains("4 Teilaufgaben sind beendet.") && judged.contains("blockiert: "), "{judged}");
}

#[test]
fn json_and_english_work_too() {
    let (code, said, complained, _dir) = once(&["--json", "--language", "en"]);
    assert_eq!(code, Some(0), "{said}\n{complained}");
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(value["card"]["id"], "tagebuch-monatssumme");
    assert_eq!(value["steps"].as_array().map(Vec::len), Some(3));
    let (code, said, complained, _dir) = once(&["--tour", "--json", "--language", "en"]);
    assert_eq!(code, Some(0), "{said}\n{complained}");
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(value["synthesis"], "jahresbericht-synthese");
    assert_eq!(value["children"].as_array().map(Vec::len), Some(4));
}

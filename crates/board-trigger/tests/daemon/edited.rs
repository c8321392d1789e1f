//! A record that was edited by hand: both are shown, and the operator says which counts.
use board_core::model::board::Committed;
use board_core::model::hash::blob_hash;
use board_core::model::phase::Phase;
use board_core::model::time::Timestamp;
use serde_json::json;

use crate::house::{House, Reply};

/// A card whose record was committed and then edited; returns what stands in the file.
fn edited(house: &House, edit: impl FnOnce(&str) -> String) -> String {
    assert_eq!(house.ask("PATCH /api/board/cards/limit/profile", "", r#"{"profile":"gross"}"#).status, 200);
    let record = house.change(|board| {
        let entry = board.outbox.last_mut().unwrap();
        entry.committed = Some(Committed { commit: "0".repeat(40), at: Timestamp::MIN });
        entry.record.clone()
    });
    write(house, &edit(&record))
}

fn write(house: &House, text: &str) -> String {
    let path = house.repository().join("docs/board/limit.yaml");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    text.to_owned()
}

fn adopt(house: &House, headers: &str, body: &str) -> Reply {
    house.ask("POST /api/board/cards/limit/adopt-file", headers, body)
}

const ENGLISH: &str = "Accept-Language: en\r\n";

#[test]
fn an_edited_record_is_shown_beside_the_boards_and_taken_by_call() {
    let house = House::open();
    let archived = format!("phase: {}\n", Phase::Archiviert.id());
    let text = edited(&house, |record| {
        format!("{}rank: 3\n", record.replace(&format!("phase: {}\n", Phase::Geplant.id()), &archived))
    });
    let page = house.get("/karten/limit").text();
    assert!(page.contains("Die Akte der Karte wurde von Hand geändert"), "{page}");
    assert!(page.contains("rank: 3") && page.contains(&format!("value=\"{}\"", blob_hash(text.as_bytes()))));
    let taken = adopt(&house, "", r#"{"take":"file"}"#);
    assert_eq!((taken.status, &taken.json()["phase"]), (200, &json!("archiviert")), "{}", taken.text());
    house.change(|board| {
        let entry = board.outbox.last().unwrap();
        assert_eq!(
            (entry.step.event.as_str(), &entry.step.note),
            ("file_taken", &Some(blob_hash(text.as_bytes())))
        );
        assert_eq!(board.cards[&"limit".parse().unwrap()].rank, Some(3));
    });
    assert!(house.queued().is_empty(), "nothing starts by it");
    assert!(!house.get("/karten/limit").text().contains("Die Akte der Karte wurde"));
    let again = adopt(&house, "", r#"{"take":"file"}"#);
    assert_eq!((again.status, again.json()["code"].as_str()), (409, Some("file")), "it is decided");
}

#[test]
fn by_the_form_the_board_counts_only_over_the_file_that_was_shown() {
    let house = House::open();
    let first = edited(&house, |record| format!("{record}rank: 3\n"));
    let shown = blob_hash(first.as_bytes());
    let second = write(&house, &first.replace("rank: 3", "rank: 4"));
    let form = |hash: &str| house.form("/karten/limit/datei", &[("take", "board"), ("hash", hash)]);
    let refused = form(&shown);
    assert_eq!(refused.status, 412);
    assert!(
        refused.text().contains("Die Datei wurde inzwischen noch einmal geändert."),
        "{}",
        refused.text()
    );
    let now = blob_hash(second.as_bytes());
    assert_eq!(form(&now).status, 303);
    house.change(|board| {
        let entry = board.outbox.last().unwrap();
        assert_eq!((entry.step.event.as_str(), &entry.step.note), ("file_overruled", &Some(now)));
        assert_eq!(board.cards[&"limit".parse().unwrap()].rank, None);
    });
}

#[test]
fn what_cannot_be_taken_is_refused_with_its_sentence_in_german_and_in_english() {
    let house = House::open();
    let refused = |german: &str, english: &str| {
        for (headers, sentence) in [("", german), (ENGLISH, english)] {
            let answer = adopt(&house, headers, r#"{"take":"file"}"#);
            assert_eq!(
                (answer.status, answer.json()["code"].as_str()),
                (409, Some("file")),
                "{}",
                answer.text()
            );
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(sentence), "{sentence} is not in {detail}");
        }
    };
    refused(
        "Die Datei der Karte ist nicht von Hand geändert",
        "The record of the card was not edited by hand",
    );
    let planned = format!("phase: {}\n", Phase::Geplant.id());
    let with = |phase: Phase| format!("phase: {}\n", phase.id());
    let record = edited(&house, |record| format!("{record}rank: 3\n"));
    for phase in [Phase::InUmsetzung, Phase::Review, Phase::BereitFuerDeployment, Phase::RechercheFertig] {
        write(&house, &record.replace(&planned, &with(phase)));
        refused(
            "In der Phase der Datei (phase) kann diese Karte nicht stehen",
            "cannot stand in the phase of the file",
        );
    }
    write(&house, &record.replace(&planned, "phase: fliegt\n"));
    refused("kann diese Karte nicht stehen", "cannot stand in the phase");
    write(&house, &record.replace("source: intent", "source: research"));
    refused("eine andere Art von Karte (source)", "another kind of card (source)");
    write(&house, &format!("{record}unbekannt: 1\n"));
    refused("Die Datei ist nicht lesbar:", "The file cannot be read:");
    write(&house, &record.replace("gross", "fremd"));
    let foreign = adopt(&house, "", r#"{"take":"file"}"#);
    assert_eq!(
        (foreign.status, foreign.json()["code"].as_str()),
        (422, Some("invalid")),
        "{}",
        foreign.text()
    );
    for body in ["", "{}", r#"{"take":"beides"}"#] {
        assert_eq!(adopt(&house, "", body).status, 422, "{body}");
    }
    house.change(|board| assert_eq!(board.cards[&"limit".parse().unwrap()].phase, Phase::Geplant));
    // While it runs nothing of a file counts; the board's state may.
    write(&house, &record);
    house.change(|board| {
        let id = "limit".parse().unwrap();
        board.cards.get_mut(&id).unwrap().phase = Phase::InUmsetzung;
    });
    refused("Die Karte läuft gerade.", "The card is running.");
    assert_eq!(adopt(&house, "", r#"{"take":"board"}"#).status, 200);
}

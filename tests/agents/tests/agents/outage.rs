//! What is not the card's fault: login, quota, server. The cards wait, and all of them arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agents_tests::codex::{Wish, ready};
use agents_tests::{Codex, Reply};
use serde_json::{Value, json};

const CARDS: [&str; 3] = ["eins", "zwei", "drei"];

/// The pauses that hold now, and whether a job runs or has left an outcome that is not applied.
fn pauses(codex: &Codex) -> (Vec<Value>, bool) {
    let jobs = codex.world.api("GET", "/jobs", None).json();
    let list = |key: &str| jobs[key].as_array().cloned().unwrap_or_default();
    let under_way = list("jobs").iter().any(|job| job["place"] == "running" || job["place"] == "outcomes");
    (list("pauses"), under_way)
}

/// Waits until one pause holds whose reason has this text and nothing is under way any more, and returns it.
fn wait_pause(codex: &Codex, reason: &str) -> Value {
    codex.world.wait(&format!("a pause for {reason}"), || {
        let (all, under_way) = pauses(codex);
        assert!(all.len() <= 1, "one outage is one pause: {all:?}");
        let told = |pause: &Value| pause["reason"].as_str().is_some_and(|told| told.contains(reason));
        all.into_iter().find(|pause| !under_way && told(pause))
    })
}

#[test]
fn three_cards_survive_an_expired_login_and_a_used_up_quota_and_all_arrive() {
    let error = |status: u16, message: &str| Reply::Error(status, message.to_owned());
    let replies = [error(401, "token expired"), error(429, "slow down"), error(500, "oops")];
    let step = Arc::new(AtomicUsize::new(0));
    let at = Arc::clone(&step);
    let mut codex =
        Codex::new(Wish::default(), move |request| match replies.get(at.load(Ordering::SeqCst)) {
            Some(error) => error.clone(),
            None if request.is_review() => ready(request),
            None if request.round() == 0 => Reply::Shell("echo gebaut > neu.txt".into()),
            None => Reply::Say("Neue Datei.".into()),
        })
        .unwrap();
    for card in CARDS {
        codex.world.intent(card).unwrap();
    }
    codex.world.start().unwrap();
    for card in CARDS {
        assert_eq!(codex.world.move_to(card, "in_umsetzung").status, 202);
    }
    let mut asked_before = 0;
    for (number, reason) in ["Anmeldung", "Kontingent", "Dienst ist gestört"].into_iter().enumerate() {
        let pause = wait_pause(&codex, reason);
        assert_eq!((&pause["what"], &pause["name"]), (&json!("profile"), &json!("codex")));
        for card in CARDS {
            assert_eq!(codex.world.phase(card), "in_umsetzung");
        }
        // One notice, and not one for each card; and while it holds nobody asks again. A card that began before the
        // first answer was applied has asked too.
        let page = codex.world.client().send("GET", "/", None).unwrap().body;
        assert_eq!(page.matches("Angehalten:").count(), 1, "{page}");
        let now = codex.standin.requests().len();
        let asked = now - std::mem::replace(&mut asked_before, now);
        assert!((1..=CARDS.len()).contains(&asked), "{asked} requests in the outage {reason}");
        // The operator has put it right, or hopes so.
        step.store(number + 1, Ordering::SeqCst);
        let answer = codex.world.api("POST", "/resume-lanes", Some(&json!({ "profile": "codex" })));
        assert_eq!(answer.status, 204, "{}", answer.body);
    }
    for card in CARDS {
        let done = codex.world.wait_phase(card, &["bereit_fuer_deployment", "umsetzung_fehlgeschlagen"]);
        assert_eq!(done["phase"], "bereit_fuer_deployment", "{done}");
        let events: Vec<&str> =
            done["history"].as_array().unwrap().iter().filter_map(|step| step["event"].as_str()).collect();
        assert!(
            !events.iter().any(|event| event.contains("failed") || event.contains("ended")),
            "{events:?}"
        );
        assert_eq!((events[0], events[events.len() - 1]), ("started", "reviewed_ready"), "{events:?}");
    }
    assert!(pauses(&codex).0.is_empty());
}

#[test]
fn a_limit_that_names_seconds_pauses_for_as_long_and_goes_on_by_itself() {
    let codex =
        Codex::started("eins", Wish::default(), |request| match (request.number, request.is_review()) {
            (0, _) => Reply::Failed(
                "rate_limit_exceeded".into(),
                "Rate limit reached. Please try again in 3s.".into(),
            ),
            (_, true) => ready(request),
            (_, false) if request.round() == 0 => Reply::Shell("echo gebaut > neu.txt".into()),
            (_, false) => Reply::Say("Neue Datei.".into()),
        })
        .unwrap();
    let card = codex.world.wait_phase("eins", &["bereit_fuer_deployment", "umsetzung_fehlgeschlagen"]);
    assert_eq!(card["phase"], "bereit_fuer_deployment", "{card}");
}

#[test]
fn a_used_up_quota_pauses_until_the_time_of_day_that_codex_names() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let again = now + 90 * 60;
    let codex = Codex::started("eins", Wish::default(), move |_| Reply::UsedUp(again)).unwrap();
    let pause = wait_pause(&codex, "Kontingent");
    let until = pause["until"].as_str().unwrap();
    // Codex says it to the minute and without a zone: in that of the board.
    let minute = |seconds: u64| {
        let output =
            codex.world.command("date").args(["-u", "-d", &format!("@{seconds}"), "+%FT%H:%M"]).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
    };
    assert!([again - 60, again, again + 60].iter().any(|at| until.starts_with(&minute(*at))), "{pause}");
    assert_eq!(codex.world.phase("eins"), "in_umsetzung");
}

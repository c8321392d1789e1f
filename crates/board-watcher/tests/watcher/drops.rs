//! Files dropped by hand.

use board_core::model::event::Event;
use board_core::model::job::{JobType, Payload};
use board_core::model::phase::Phase;
use uuid::Uuid;

use crate::setup::Setup;

fn drop_file(setup: &Setup, name: &str, text: &str) {
    let dir = setup.state().join("queue/drop");
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    // Old enough that nobody is still writing it.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
}

fn reason(setup: &Setup) -> String {
    let names = setup.files("rejected");
    let name = names.iter().find(|name| name.ends_with(".reason.json")).unwrap();
    std::fs::read_to_string(setup.state().join("queue/rejected").join(name)).unwrap()
}

#[test]
fn a_dropped_file_does_what_the_click_would_have_done_unparked() {
    let setup = Setup::new();
    drop_file(&setup, "any name.json", r#"{"type":"research","card_id":"why"}"#);
    setup.settle();
    let card = setup.card("why");
    assert_eq!((card.phase, card.parked.is_none()), (Phase::RechercheLaeuft, true));
    let job = card.job.unwrap();
    assert!(job.requested_by.starts_with("drop:"), "{}", job.requested_by);
    assert_eq!(setup.inboxes(), [job.reference().job_file()]);
    assert!(setup.files("drop").is_empty());
    assert_eq!(setup.trailers("Board-Actor"), [job.requested_by]);
}

#[test]
fn a_drop_that_is_found_again_makes_no_second_job() {
    let setup = Setup::new();
    let key = Uuid::new_v4();
    let name = format!("{key}.adopt");
    let text = r#"{"type":"builder","card_id":"one"}"#;
    std::fs::write(setup.state().join("queue/drop").join(&name), text).unwrap();
    setup.settle();
    let job = setup.card("one").job.unwrap();
    assert_eq!(job.kind, JobType::Builder);
    std::fs::write(setup.state().join("queue/drop").join(&name), text).unwrap();
    setup.settle();
    assert_eq!(setup.card("one").job.unwrap(), job);
    assert_eq!(setup.inboxes().len(), 1);
    assert!(setup.files("drop").is_empty() && setup.files("rejected").is_empty());
}

#[test]
fn the_same_order_dropped_twice_is_one_job_and_the_second_file_is_rejected() {
    let setup = Setup::new();
    for name in ["a.json", "b.json"] {
        drop_file(&setup, name, r#"{"type":"split","card_id":"one"}"#);
    }
    setup.settle();
    assert_eq!(setup.inboxes().len(), 1);
    assert!(reason(&setup).contains("does not fit"), "{}", reason(&setup));
}

#[test]
fn a_profile_and_a_limit_in_the_file_are_chosen_for_the_card() {
    let setup = Setup::new();
    let text = r#"{"type":"builder","card_id":"one","profile":"stark","iteration_limit":3}"#;
    drop_file(&setup, "x.json", text);
    setup.settle();
    let job = setup.card("one").job.unwrap();
    assert_eq!((job.profile.as_str(), job.iteration_limit), ("stark", 3));
    drop_file(&setup, "y.json", r#"{"type":"builder","card_id":"two","profile":"nope"}"#);
    setup.settle();
    assert!(reason(&setup).contains("profile"), "{}", reason(&setup));
    assert!(!setup.board().cards.contains_key(&crate::setup::id("two")));
}

#[test]
fn what_cannot_be_adopted_is_rejected_with_a_sentence_and_the_others_go_on() {
    let setup = Setup::new();
    drop_file(&setup, "1.json", "{");
    drop_file(&setup, "2.json", r#"{"type":"draft","card_id":"one"}"#);
    drop_file(&setup, "3.json", r#"{"type":"builder","card_id":"nobody"}"#);
    drop_file(&setup, "4.json", r#"{"type":"review","card_id":"one"}"#);
    std::fs::create_dir(setup.state().join("queue/drop/5.json")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", setup.state().join("queue/drop/6.json")).unwrap();
    drop_file(&setup, "7.json", r#"{"type":"research","card_id":"why"}"#);
    let tick = setup.settle();
    assert!(!tick.undone, "{tick:?}");
    assert!(setup.files("drop").is_empty(), "{:?}", setup.files("drop"));
    let reasons = setup.files("rejected").iter().filter(|name| name.ends_with(".reason.json")).count();
    assert_eq!(reasons, 6, "{:?}", setup.files("rejected"));
    assert_eq!(setup.card("why").phase, Phase::RechercheLaeuft);
}

#[test]
fn a_half_written_file_is_looked_at_again_before_it_is_rejected() {
    let setup = Setup::new();
    let path = setup.state().join("queue/drop/x.json");
    std::fs::write(&path, "{\"type\":").unwrap();
    let mut watcher = setup.watcher();
    let tick = watcher.tick();
    assert!(tick.next.is_some() && path.exists(), "{tick:?}");
    std::fs::write(&path, r#"{"type":"research","card_id":"why"}"#).unwrap();
    watcher.tick();
    assert_eq!(setup.card("why").phase, Phase::RechercheLaeuft);
}

#[test]
fn a_card_that_was_built_before_goes_on_from_its_check_commit() {
    let setup = Setup::new();
    setup.built("one");
    setup.settle();
    setup.reviewed("one", board_core::model::marker::review::Decision::Back, "# Umfang\n\nkürzer\n");
    setup.settle();
    let first = setup.card("one").build.unwrap();
    setup.event("one", Event::Replanned);
    drop_file(&setup, "x.json", r#"{"type":"builder","card_id":"one"}"#);
    setup.settle();
    let Payload::Builder(payload) = setup.card("one").job.unwrap().payload else { panic!() };
    assert_eq!(Some(payload.base_commit), first.check_commit);
    assert_eq!((payload.diff_base, payload.number), (Some(first.diff_base), 2));
    assert!(payload.feedback.unwrap().reports[0].contains("kürzer"));
}

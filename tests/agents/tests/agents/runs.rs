//! One run of codex for each way in which a model can behave.

use agents_tests::codex::{Wish, builds};
use agents_tests::{Codex, Reply};
use serde_json::{Value, json};

/// Short enough to be waited for, long enough for a program to start on a busy machine.
const IMPATIENT: &str = "idle_time = \"6s\"\nwall_time = \"60s\"";

fn shell(command: &str) -> Reply {
    Reply::Shell(command.to_owned())
}

fn say(text: &str) -> Reply {
    Reply::Say(text.to_owned())
}

/// A builder's run to its end: the world, the card, and the result with its sentence.
fn run(limits: &str, rounds: Vec<Reply>) -> (Codex, Value, String, String) {
    let wish = Wish { limits: limits.to_owned(), ..Wish::default() };
    let codex = Codex::started("eins", wish, builds(rounds)).unwrap();
    let card = codex.world.wait_phase("eins", &["bereit_fuer_deployment", "umsetzung_fehlgeschlagen"]);
    let text = |key: &str| card["error"][key].as_str().unwrap_or_default().to_owned();
    let (result, sentence) = (text("result"), text("sentence"));
    (codex, card, result, sentence)
}

/// The iterations that the card shows, and the model's requests.
fn used(codex: &Codex, card: &Value) -> (u64, usize) {
    (card["iterations"]["used"].as_u64().unwrap(), codex.standin.requests().len())
}

#[test]
fn a_plain_answer_is_a_build_without_a_change() {
    let (codex, card, result, sentence) = run("", vec![say("Es ist nichts zu tun.")]);
    assert_eq!(result, "no_change");
    assert!(sentence.contains("Es ist nichts zu tun."), "{sentence}");
    assert_eq!(used(&codex, &card), (1, 1));
}

#[test]
fn what_its_shell_writes_becomes_the_check_commit() {
    let (codex, card, ..) = run("", vec![shell("echo gebaut > neu.txt && cat neu.txt"), say("Neue Datei.")]);
    assert_eq!(card["phase"], "bereit_fuer_deployment", "{card}\n{:#?}", codex.log("out"));
    // It ran in codex's own sandbox within ours, as an unprivileged user.
    let requests = codex.standin.requests();
    assert!(requests[1].outputs()[0].contains("gebaut"), "{:?}", requests[1].outputs());
    assert_eq!(codex.world.git(&["show", "board/eins/1:neu.txt"]).unwrap(), "gebaut");
    assert!(codex.world.git(&["log", "-1", "--format=%B", "board/eins/1"]).unwrap().contains("Neue Datei."));
}

#[test]
fn what_it_writes_by_its_own_means_becomes_the_check_commit() {
    let write = Reply::Write { path: "src/neu.txt".into(), text: "geschrieben\n".into() };
    let (codex, card, ..) = run("", vec![write, say("Neue Datei.")]);
    assert_eq!(card["phase"], "bereit_fuer_deployment", "{card}\n{:#?}", codex.log("out"));
    assert_eq!(codex.world.git(&["show", "board/eins/1:src/neu.txt"]).unwrap(), "geschrieben");
}

#[test]
fn beside_its_worktree_it_writes_nothing_and_its_key_is_not_its_commands() {
    let try_all = "for to in .git ../beside /usr/beside $HOME/.codex/auth.json; do \
                   echo x > $to && echo WROTE $to; done; echo \"key=$STANDIN_KEY.\"; git commit --allow-empty -m x \
                   && echo COMMITTED; echo ok > neu.txt";
    let (codex, card, ..) = run("", vec![shell(try_all), say("Fertig.")]);
    let told = codex.standin.requests()[1].outputs()[0].clone();
    assert_eq!(card["phase"], "bereit_fuer_deployment", "{told}");
    assert!(!told.contains("WROTE") && !told.contains("COMMITTED") && told.contains("key=."), "{told}");
    assert!(!codex.world.path("state/worktrees/beside").exists());
}

#[test]
fn an_endless_loop_is_ended_on_the_event_after_the_last_allowed_iteration() {
    let (codex, card, result, sentence) = run("", vec![shell("echo noch einmal; sleep 0.1")]);
    assert_eq!((result.as_str(), sentence.as_str()), ("limit", "Iterationslimit 20 erreicht"));
    let (iterations, requests) = used(&codex, &card);
    assert_eq!(iterations, 20);
    // It has sent its next request before the 21st event is seen.
    assert!((21..=23).contains(&requests), "{requests}");
    let done = codex.log("out").unwrap();
    let done =
        done.iter().filter(|line| line.contains("item.completed") && line.contains("command_execution"));
    assert!(done.count() >= 21);
}

#[test]
fn an_endless_call_of_a_tool_that_is_not_there_is_ended_by_time_since_no_event_tells_of_it() {
    let (codex, card, result, sentence) =
        run(IMPATIENT, vec![Reply::Tool("no_such_tool".into(), json!({"x": 1}))]);
    assert!(result == "stalled" || result == "timeout", "{result}: {sentence}");
    let (iterations, requests) = used(&codex, &card);
    assert!(iterations == 0 && requests > 1, "{iterations} iterations, {requests} requests");
}

#[test]
fn a_cut_stream_is_a_failure() {
    let (_, _, result, sentence) = run("", vec![Reply::Cut]);
    assert_eq!(result, "failed");
    assert!(sentence.contains("stream"), "{sentence}");
}

#[test]
fn a_cut_stream_after_work_keeps_the_work() {
    let (codex, _, result, _) = run("", vec![shell("echo halb > halb.txt"), Reply::Cut]);
    assert_eq!(result, "failed");
    let refs = codex.world.git(&["for-each-ref", "--format=%(refname)", "refs/board/saved"]).unwrap();
    assert_eq!(codex.world.git(&["show", &format!("{refs}:halb.txt")]).unwrap(), "halb");
}

#[test]
fn an_empty_answer_is_no_answer() {
    let (_, _, result, _) = run("", vec![say("")]);
    assert_eq!(result, "invalid_reply");
}

#[test]
fn a_model_that_hangs_before_its_headers_is_ended_by_the_idle_limit() {
    let (_, _, result, sentence) = run(IMPATIENT, vec![Reply::Mute]);
    assert_eq!((result.as_str(), sentence.as_str()), ("stalled", "Seit 6 s kein Lebenszeichen"));
}

#[test]
fn a_model_that_hangs_within_its_answer_is_ended_by_the_idle_limit() {
    let (_, _, result, sentence) = run(IMPATIENT, vec![shell("true"), Reply::Hang]);
    assert_eq!((result.as_str(), sentence.as_str()), ("stalled", "Seit 6 s kein Lebenszeichen"));
}

#[test]
fn a_stop_of_the_service_interrupts_it_leaves_nothing_behind_and_is_no_failure_of_the_work() {
    let rounds = builds(vec![shell("echo angefangen > teil.txt; sleep 600")]);
    let mut codex = Codex::started("eins", Wish::default(), rounds).unwrap();
    codex.world.wait("the command to run", || {
        let part = codex.world.path("state/worktrees/eins-1/teil.txt");
        // What the file says and not that it is there: the shell makes it before it writes.
        let says = std::fs::read_to_string(part).unwrap_or_default();
        (says == "angefangen\n" && !codex.world.processes("sleep 600").is_empty()).then_some(())
    });
    codex.world.stop();
    assert!(codex.world.processes("").is_empty(), "{:?}", codex.world.processes(""));
    codex.world.start().unwrap();
    let card = codex.world.wait_phase("eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(card["error"]["result"], "interrupted");
    let refs = codex.world.git(&["for-each-ref", "--format=%(refname)", "refs/board/saved"]).unwrap();
    assert_eq!(codex.world.git(&["show", &format!("{refs}:teil.txt")]).unwrap(), "angefangen");
}

#[test]
fn a_cancel_ends_it_within_moments() {
    let codex = Codex::started("eins", Wish::default(), builds(vec![shell("sleep 600")])).unwrap();
    codex.world.wait("the command to run", || (!codex.world.processes("sleep 600").is_empty()).then_some(()));
    codex.world.call("eins", "cancel");
    let card = codex.world.wait_phase("eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(card["error"]["result"], "cancelled");
    codex
        .world
        .wait("everything of it to be gone", || codex.world.processes("sleep 600").is_empty().then_some(()));
}

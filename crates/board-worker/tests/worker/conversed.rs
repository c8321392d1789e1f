//! Agents that speak with us: what is sent and when, and how such a run ends.

use std::time::Duration;

use board_core::model::outcome::RunResult;
use board_core::model::profile::RoleName;
use board_worker::limits::OwnReason;
use board_worker::runtimes::acp::Acp;
use board_worker::runtimes::{RunSpec, conclude};
use board_worker::words::Language;

use crate::supervised::{Seen, Trial, both};

/// The beginning of every conversation, as a shell script: it answers what it reads.
const HELLO: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":$1}}"; }
chunk() { update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}"; }
tool() { update "{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c$1\",\"kind\":\"edit\",\"title\":\"tool $1\"}"; }
read -r initialize; say '{"id":0,"result":{"protocolVersion":1}}'
read -r new; say '{"id":1,"result":{"sessionId":"s"}}'
read -r prompt
"#;

fn acp() -> Acp {
    Acp::for_run(&RunSpec {
        program: vec!["agent".into()],
        args: Vec::new(),
        env: Vec::new(),
        role: RoleName::Builder,
        model: None,
        effort: None,
        directory: "/work".into(),
        home: "/home/agent".into(),
        sandboxed: true,
    })
}

fn run(trial: &Trial, script: &str) -> (Seen, RunResult) {
    let seen = trial.run(&mut acp(), &format!("{HELLO}{script}"));
    let own = seen.ended.own.as_ref();
    let result = conclude(&seen.reading, seen.ended.exit, own, "", Language::De).result;
    (seen, result)
}

#[test]
fn a_conversation_brings_its_answer_and_asks_before_it_writes() {
    both(|mode| {
        let ask = r#"{"id":"p","method":"session/request_permission","params":{"toolCall":{"kind":"edit"},"options":[{"optionId":"yes","kind":"allow_once"}]}}"#;
        let (seen, result) = run(
            &Trial::new(mode),
            &format!(
                "tool 1; say '{ask}'; read -r yes; chunk \"$(echo \"$yes\" | grep -c selected) done\"; say '{{\"id\":3,\"result\":{{\"stopReason\":\"end_turn\"}}}}'; cat >/dev/null"
            ),
        );
        assert_eq!(result, RunResult::Succeeded, "{}", seen.log);
        assert_eq!(seen.reading.final_message.as_deref(), Some("1 done"));
        assert_eq!((seen.ended.progress.iterations, seen.ended.own), (1, None));
        assert!(
            seen.log.contains(r#"\"method\":\"session/prompt\""#) && seen.log.contains("do it"),
            "{}",
            seen.log
        );
    });
}

#[test]
fn an_agent_that_stays_after_its_answer_is_ended_and_its_answer_counts() {
    both(|mode| {
        let (seen, result) = run(
            &Trial::new(mode),
            r#"chunk done; say '{"id":3,"result":{"stopReason":"end_turn"}}'; trap '' TERM; sleep 600; sleep 600"#,
        );
        assert_eq!((result, seen.ended.own), (RunResult::Succeeded, None));
    });
}

#[test]
fn on_the_event_after_the_last_allowed_one_it_is_cancelled_in_its_own_words() {
    both(|mode| {
        let (seen, result) = run(
            &Trial::new(mode),
            r#"n=0; while [ $n -lt 21 ]; do n=$((n + 1)); tool $n; done
            read -r cancel; echo "$cancel" >&2
            say '{"id":3,"result":{"stopReason":"cancelled"}}'; sleep 600"#,
        );
        assert_eq!((result, seen.ended.own), (RunResult::Limit, Some(OwnReason::Iterations(20))));
        assert!(seen.ended.last_stderr.contains("session/cancel"), "{}", seen.log);
        assert_eq!(seen.ended.progress.iterations, 20);
    });
}

#[test]
fn one_that_does_not_listen_is_ended_all_the_same() {
    both(|mode| {
        let mut trial = Trial::new(mode);
        trial.limits.idle = Duration::from_secs(1);
        let (_, result) = run(&trial, "trap '' TERM; while :; do sleep 1; done");
        assert_eq!(result, RunResult::Stalled);
    });
}

#[test]
fn one_that_asks_and_never_reads_gets_no_more_answers_and_costs_no_memory() {
    both(|mode| {
        let mut trial = Trial::new(mode);
        trial.limits.output_bytes = 4 << 20;
        let (seen, result) = run(&trial, r#"yes '{"id":1,"method":"fs/read_text_file"}'"#);
        assert_eq!(result, RunResult::Limit);
        assert!(seen.log.contains("does not read what it is told"));
    });
}

#[test]
fn one_that_goes_away_in_the_middle_has_failed() {
    both(|mode| {
        let (_, result) = run(&Trial::new(mode.clone()), "chunk half; exit 7");
        assert_eq!(result, RunResult::Failed);
        let (_, result) = run(&Trial::new(mode), "chunk half; exit 0");
        assert_eq!(result, RunResult::InvalidReply);
    });
}

//! A conversation line by line: what is sent for what, and what a run of it comes to.

use board_core::model::outcome::RunResult;

use super::*;
use crate::runtimes::fixtures::{Read, read, spec};

const READY: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#;
const SESSION: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1"}}"#;
const END: &str = r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":200,"outputTokens":40,"cachedReadTokens":80}}}"#;

fn update(inner: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s1","update":{inner}}}}}"#)
}

fn said(text: &str) -> String {
    update(&format!(
        r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
    ))
}

fn tool(kind: &str) -> String {
    update(&format!(
        r#"{{"sessionUpdate":"tool_call","toolCallId":"c1","title":"run ls","kind":"{kind}","status":"pending"}}"#
    ))
}

fn ended(lines: &[&str]) -> Read {
    read(Acp::for_run(&spec(RoleName::Builder)), lines, ExitInfo::code(0))
}

/// What is sent for a line, once the prompt is under way.
fn sent(role: RoleName, line: &str) -> Vec<Value> {
    let mut acp = Acp::for_run(&spec(role));
    acp.open(b"Do it.");
    acp.event(READY.as_bytes());
    acp.event(SESSION.as_bytes());
    sends(acp.event(line.as_bytes()))
}

fn sends(events: Vec<Event>) -> Vec<Value> {
    let mut lines = Vec::new();
    for event in events {
        if let Event::Send(line) = event {
            assert!(line.ends_with(b"\n") && !line[..line.len() - 1].contains(&b'\n'));
            lines.push(serde_json::from_slice(&line).unwrap());
        }
    }
    lines
}

#[test]
fn a_conversation_goes_from_the_handshake_to_the_prompt_and_its_answer() {
    let mut acp = Acp::for_run(&spec(RoleName::Builder));
    let opening = acp.open("Tu „es“.\n".as_bytes());
    assert!(opening.stays_open);
    let first: Value = serde_json::from_slice(&opening.bytes).unwrap();
    assert_eq!((&first["method"], &first["params"]["protocolVersion"]), (&json!("initialize"), &json!(1)));
    let second = sends(acp.event(READY.as_bytes()));
    assert_eq!(second[0]["params"], json!({"cwd": "/view", "mcpServers": []}));
    let third = sends(acp.event(SESSION.as_bytes()));
    assert_eq!(third[0]["method"], "session/prompt");
    assert_eq!(
        third[0]["params"],
        json!({"sessionId": "s1", "prompt": [{"type": "text", "text": "Tu „es“.\n"}]})
    );
    assert!(acp.event(END.as_bytes()).contains(&Event::Over));
    assert!(acp.reading(ExitInfo::code(0)).over);
}

#[test]
fn tool_calls_are_iterations_and_the_final_message_is_what_follows_the_last() {
    let done = update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed"}"#);
    let run = ended(&[
        READY,
        SESSION,
        &said("I look."),
        &tool("execute"),
        &done,
        &said("All "),
        &said("done."),
        END,
    ]);
    assert_eq!((run.result, run.iterations), (RunResult::Succeeded, 1));
    assert_eq!(run.reading.final_message.as_deref(), Some("All done."));
    let usage = &run.reading.usage;
    assert_eq!(
        (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens),
        (Some(200), Some(80), Some(40))
    );
    assert_eq!(run.activities, ["I look.", "run ls", "All", "done."]);
}

#[test]
fn chunks_of_another_message_begin_anew() {
    let chunk = |id: &str, text: &str| {
        update(&format!(
            r#"{{"sessionUpdate":"agent_message_chunk","messageId":"{id}","content":{{"type":"text","text":"{text}"}}}}"#
        ))
    };
    let run = ended(&[READY, SESSION, &chunk("a", "Warning!"), &chunk("b", "Do"), &chunk("b", "ne."), END]);
    assert_eq!(run.reading.final_message.as_deref(), Some("Done."));
}

#[test]
fn usage_is_found_in_the_meta_data_as_well() {
    let end = r#"{"id":3,"result":{"stopReason":"end_turn","_meta":{"quota":{"token_count":{"input_tokens":7,"output_tokens":3}}}}}"#;
    let cost = update(
        r#"{"sessionUpdate":"usage_update","used":5,"size":9,"cost":{"amount":0.25,"currency":"USD"}}"#,
    );
    let run = ended(&[READY, SESSION, &cost, &said("Done."), end]);
    let usage = run.reading.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cost_usd), (Some(7), Some(3), Some(0.25)));
}

#[test]
fn errors_are_told_apart_at_every_step() {
    let error = |id: u64, error: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
    let refused = r#"{"code":-32000,"message":"Authentication required"}"#;
    assert_eq!(ended(&[READY, &error(1, refused)]).result, RunResult::Unavailable);
    let internal = |told: &str| {
        ended(&[
            READY,
            SESSION,
            &error(3, &format!(r#"{{"code":-32603,"message":"Internal error","data":{told}}}"#)),
        ])
    };
    assert_eq!(
        internal(r#"{"message":"unexpected status 401 Unauthorized"}"#).result,
        RunResult::Unavailable
    );
    assert_eq!(
        internal(r#"{"details":"429 Too Many Requests, try again in 20s"}"#).result,
        RunResult::Unavailable
    );
    assert_eq!(internal(r#""stream closed""#).result, RunResult::Failed);
    assert_eq!(ended(&[READY, SESSION, &error(3, r#"{"code":503}"#)]).result, RunResult::Unavailable);
    assert_eq!(ended(&[&error(0, r#"{"code":-32601,"message":"no"}"#)]).result, RunResult::Failed);
    assert_eq!(ended(&[READY, r#"{"id":1,"result":{}}"#]).result, RunResult::Failed, "no session");
    assert_eq!(ended(&[r#"{"id":0,"result":{"protocolVersion":2}}"#]).result, RunResult::Failed);
}

#[test]
fn every_way_in_which_a_turn_stops_has_its_result() {
    let of = |reason: &str| {
        let end = format!(r#"{{"id":3,"result":{{"stopReason":"{reason}"}}}}"#);
        ended(&[READY, SESSION, &said("Half"), &end]).result
    };
    assert_eq!(of("end_turn"), RunResult::Succeeded);
    assert_eq!(of("max_turn_requests"), RunResult::Limit);
    for reason in ["max_tokens", "refusal", "cancelled", "novel"] {
        assert_eq!(of(reason), RunResult::Failed, "{reason}");
    }
    assert_eq!(ended(&[READY, SESSION, &said("Half")]).result, RunResult::InvalidReply, "no answer came");
    assert_eq!(ended(&[READY, SESSION, END]).result, RunResult::InvalidReply, "nothing was said");
}

#[test]
fn once_it_is_over_the_exit_code_says_nothing_more() {
    let killed = ExitInfo { code: None, signal: Some(9), out_of_memory: false };
    let run = read(Acp::default(), &[READY, SESSION, &said("Done."), END], killed);
    assert_eq!(run.result, RunResult::Succeeded);
    let run = read(Acp::default(), &[READY, SESSION, &said("Done.")], killed);
    assert_eq!(run.result, RunResult::Failed);
}

#[test]
fn a_builder_may_a_reader_may_look_and_a_planner_may_nothing() {
    let asks = |kind: &str| {
        format!(
            r#"{{"id":"q","method":"session/request_permission","params":{{"sessionId":"s1","toolCall":{{"toolCallId":"c","kind":"{kind}"}},"options":[{{"optionId":"always","kind":"allow_always"}},{{"optionId":"yes","kind":"allow_once"}},{{"optionId":"no","kind":"reject_once"}}]}}}}"#
        )
    };
    let answer = |role, kind: &str| sent(role, &asks(kind))[0]["result"]["outcome"]["optionId"].clone();
    assert_eq!(answer(RoleName::Builder, "edit"), "yes");
    assert_eq!(answer(RoleName::Reviewer, "read"), "yes");
    assert_eq!(answer(RoleName::Reviewer, "edit"), "no");
    assert_eq!(answer(RoleName::Researcher, ""), "no");
    assert_eq!(answer(RoleName::Planner, "read"), "no");
    assert_eq!(sent(RoleName::Builder, &asks("edit"))[0]["id"], "q");
}

#[test]
fn a_permission_without_a_fitting_option_is_cancelled() {
    for params in [
        "{}",
        "[]",
        r#"{"options":[{"optionId":"x","kind":"allow_always"}]}"#,
        r#"{"options":[{"kind":"allow_once"}]}"#,
    ] {
        let line = format!(r#"{{"id":9,"method":"session/request_permission","params":{params}}}"#);
        assert_eq!(sent(RoleName::Builder, &line)[0]["result"]["outcome"], json!({"outcome": "cancelled"}));
    }
}

#[test]
fn what_is_not_offered_is_refused_and_notices_get_no_answer() {
    let asked =
        sent(RoleName::Builder, r#"{"id":4,"method":"fs/write_text_file","params":{"path":"/etc/x"}}"#);
    assert_eq!((&asked[0]["id"], &asked[0]["error"]["code"]), (&json!(4), &json!(-32_601)));
    assert!(sent(RoleName::Builder, r#"{"method":"novel/notice","params":{}}"#).is_empty());
    assert!(sent(RoleName::Builder, r#"{"id":7,"result":{"stopReason":"end_turn"}}"#).is_empty());
}

#[test]
fn another_session_and_answers_that_nobody_waits_for_change_nothing() {
    let other =
        r#"{"method":"session/update","params":{"sessionId":"s2","update":{"sessionUpdate":"tool_call"}}}"#;
    let run = ended(&[END, SESSION, READY, READY, SESSION, other, &said("Done."), END, END]);
    assert_eq!((run.result, run.iterations), (RunResult::Succeeded, 0));
}

#[test]
fn the_model_of_the_profile_is_chosen_where_it_is_offered() {
    let mut run = spec(RoleName::Builder);
    run.model = Some("m2".into());
    let session = |models: &str| format!(r#"{{"id":1,"result":{{"sessionId":"s1","models":{models}}}}}"#);
    let of = |models: &str| {
        let mut acp = Acp::for_run(&run);
        acp.open(b"Do it.");
        acp.event(READY.as_bytes());
        let sent = sends(acp.event(session(models).as_bytes()));
        (acp, sent[0].clone())
    };
    let (mut acp, asked) =
        of(r#"{"currentModelId":"m1","availableModels":[{"modelId":"m1"},{"modelId":"m2"}]}"#);
    assert_eq!((&asked["method"], &asked["params"]["modelId"]), (&json!("session/set_model"), &json!("m2")));
    assert_eq!(sends(acp.event(br#"{"id":2,"result":{}}"#))[0]["method"], "session/prompt");
    assert_eq!(acp.reading(ExitInfo::code(0)).model.as_deref(), Some("m2"));
    let (acp, asked) = of(r#"{"currentModelId":"m1","availableModels":[{"modelId":"m1"}]}"#);
    assert_eq!(asked["method"], "session/prompt");
    assert_eq!(acp.reading(ExitInfo::code(0)).model.as_deref(), Some("m1"));
}

#[test]
fn a_run_that_is_to_end_is_cancelled_in_its_own_words() {
    let mut acp = Acp::for_run(&spec(RoleName::Builder));
    acp.open(b"Do it.");
    assert!(acp.cancel().is_empty(), "there is nothing to cancel yet");
    acp.event(READY.as_bytes());
    acp.event(SESSION.as_bytes());
    let notice: Value = serde_json::from_slice(&acp.cancel()).unwrap();
    assert_eq!((&notice["method"], &notice["params"]["sessionId"]), (&json!("session/cancel"), &json!("s1")));
    assert!(notice.get("id").is_none());
    let asked = br#"{"id":1,"method":"session/request_permission","params":{"options":[{"optionId":"y","kind":"allow_once"}]}}"#;
    assert_eq!(sends(acp.event(asked))[0]["result"]["outcome"]["outcome"], "cancelled");
}

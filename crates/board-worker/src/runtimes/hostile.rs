//! Streams that no agent should print: nothing panics, nothing grows, and no success comes of half an answer.
//!
//! Whatever one version prints the next prints a little differently, and what an agent read may end up in its
//! output. So every runtime is fed its own events with lines lost, doubled, exchanged and cut, with fields
//! gone or of another kind, and with plain noise between them.

use board_core::model::outcome::RunResult;
use board_core::model::profile::RoleName;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

use super::acp::Acp;
use super::claude::Claude;
use super::codex::Codex;
use super::command::Text;
use super::fixtures::spec;
use super::gemini::Gemini;
use super::opencode::Opencode;
use super::{Adapter, Event, ExitInfo, MAX_ACTIVITY_CHARS, MAX_FINAL_BYTES, conclude};
use crate::limits::OwnReason;
use crate::words::Language;

/// One whole run of each runtime that prints events; the last line of each but opencode's is its end.
const RUNS: [&[&str]; 5] = [
    &[
        r#"{"type":"thread.started","thread_id":"t"}"#,
        r#"{"type":"turn.started"}"#,
        r#"{"type":"error","message":"Reconnecting... 1/5 (last status: 429)"}"#,
        r#"{"type":"item.started","item":{"id":"1","type":"command_execution","command":"ls"}}"#,
        r#"{"type":"item.completed","item":{"id":"1","type":"file_change","changes":[{"path":"/w/x"}]}}"#,
        r#"{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"Done."}}"#,
        r#"{"type":"turn.completed","usage":{"input_tokens":200,"cached_input_tokens":80,"output_tokens":40}}"#,
    ],
    &[
        r#"{"type":"system","subtype":"init","model":"m"}"#,
        r#"{"type":"system","subtype":"api_retry","error_status":429,"error":"rate_limit"}"#,
        r#"{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"x"}]}}"#,
        r#"{"type":"assistant","message":{"id":"b","content":[{"type":"text","text":"Done."}]}}"#,
        r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","total_cost_usd":0.1,"usage":{"input_tokens":2,"output_tokens":4}}"#,
    ],
    &[
        r#"{"type":"init","model":"m"}"#,
        r#"{"type":"message","role":"user","content":"Do it."}"#,
        r#"{"type":"tool_use","tool_name":"ls","parameters":{"path":"/"}}"#,
        r#"{"type":"tool_result","status":"success","output":"x"}"#,
        r#"{"type":"message","role":"assistant","content":"Done.","delta":true}"#,
        r#"{"type":"result","status":"success","stats":{"input_tokens":2,"output_tokens":4,"cached":1}}"#,
    ],
    &[
        r#"{"type":"step_start","part":{"type":"step-start"}}"#,
        r#"{"type":"tool_use","part":{"tool":"bash","state":{"input":{"command":"ls"},"title":"ls"}}}"#,
        r#"{"type":"step_finish","part":{"reason":"tool-calls","tokens":{"input":1,"output":2},"cost":0.1}}"#,
        r#"{"type":"step_start","part":{"type":"step-start"}}"#,
        r#"{"type":"text","part":{"type":"text","text":"Done."}}"#,
        r#"{"type":"step_finish","part":{"reason":"stop","tokens":{"input":1,"output":2},"cost":0.1}}"#,
    ],
    &[
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#,
        r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","kind":"edit","title":"x"}}}"#,
        r#"{"id":9,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","kind":"edit"},"options":[{"optionId":"granted","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}"#,
        r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."}}}}"#,
        r#"{"id":3,"result":{"stopReason":"end_turn"}}"#,
    ],
];

/// The runtimes in the order of [`RUNS`].
fn adapter(which: usize, role: RoleName) -> Box<dyn Adapter> {
    match which {
        0 => Box::new(Codex::default()),
        1 => Box::new(Claude::default()),
        2 => Box::new(Gemini::default()),
        3 => Box::new(Opencode::default()),
        4 => Box::new(Acp::for_run(&spec(role))),
        _ => Box::new(Text::default()),
    }
}

/// What a run came to.
struct Came {
    result: RunResult,
    iterations: usize,
    message: Option<String>,
    sent: Vec<Vec<u8>>,
}

fn run(which: usize, role: RoleName, lines: &[Vec<u8>], exit: ExitInfo) -> Came {
    let mut adapter = adapter(which, role);
    adapter.open(b"Do it.");
    let (mut iterations, mut sent) = (0, Vec::new());
    for line in lines {
        let events = if line.len() > 4096 { adapter.cut_event(&line[..4096]) } else { adapter.event(line) };
        assert!(events.len() <= 64, "one line is few events");
        for event in events {
            match event {
                Event::Iteration => iterations += 1,
                Event::Activity(said) => assert!(said.chars().count() <= MAX_ACTIVITY_CHARS + 1),
                Event::Send(line) => sent.push(line),
                Event::Tokens(_) | Event::Over => {}
            }
        }
    }
    let reading = adapter.reading(exit);
    let conclusion = conclude(&reading, exit, None, "", Language::De);
    let limit = OwnReason::Iterations(20);
    assert_eq!(conclude(&reading, exit, Some(&limit), "", Language::De).result, RunResult::Limit);
    if conclusion.result != RunResult::Succeeded {
        assert!(!conclusion.sentence.is_empty(), "whatever it was, it has its sentence");
    }
    Came { result: conclusion.result, iterations, message: reading.final_message, sent }
}

/// One line that is not as it should be.
#[derive(Debug, Clone)]
enum Change {
    Lose(Index),
    Double(Index),
    Exchange(Index, Index),
    CutShort(Index, Index),
    Grow(Index),
    Noise(Index, Vec<u8>),
    Strip(Index, Index),
    Replace(Index, Index, Value),
    Novel(Index, Value),
}

/// Any JSON, not deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z: .\\[\\]401\u{0}\"ö😀-]{0,12}".prop_map(Value::from),
        select(vec!["turn.failed", "result", "error", "API Error: 401", "session/update", "stop"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let key = select(vec!["type", "item", "part", "message", "error", "id", "params", "status", "x"]);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        at().prop_map(Change::Lose),
        at().prop_map(Change::Double),
        (at(), at()).prop_map(|(a, b)| Change::Exchange(a, b)),
        (at(), at()).prop_map(|(a, b)| Change::CutShort(a, b)),
        at().prop_map(Change::Grow),
        (at(), proptest::collection::vec(any::<u8>(), 0..40)).prop_map(|(a, b)| Change::Noise(a, b)),
        (at(), at()).prop_map(|(a, b)| Change::Strip(a, b)),
        (at(), at(), any_json()).prop_map(|(a, b, c)| Change::Replace(a, b, c)),
        (at(), any_json()).prop_map(|(a, b)| Change::Novel(a, b)),
    ]
}

/// Members of an object and of the objects in it.
fn members(value: &mut Value) -> Vec<(&mut serde_json::Map<String, Value>, String)> {
    // The borrow checker allows one way down at a time, so the deepest object on the first way is taken.
    match value {
        Value::Object(map) => {
            let inner = map.iter().find(|(_, value)| value.is_object()).map(|(key, _)| key.clone());
            match inner {
                Some(key) if map.len() > 1 && map.keys().next() == Some(&key) => {
                    map.get_mut(&key).map(members).unwrap_or_default()
                }
                Some(_) | None => {
                    map.keys().next_back().cloned().map(|key| vec![(map, key)]).unwrap_or_default()
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Vec::new(),
    }
}

fn changed(lines: &mut Vec<Vec<u8>>, change: &Change) {
    if lines.is_empty() {
        return;
    }
    let many = lines.len();
    let mut edit = |at: usize, key: &Index, with: Option<&Value>| {
        let Ok(mut value) = serde_json::from_slice::<Value>(&lines[at]) else { return };
        let top = value.as_object().map_or(0, serde_json::Map::len);
        let which = key.index(top + 1);
        let place = match value.as_object_mut() {
            Some(map) if which < top => {
                let key = map.keys().nth(which).cloned().unwrap_or_default();
                Some((map, key))
            }
            Some(_) => members(&mut value).pop(),
            None => None,
        };
        if let Some((map, key)) = place {
            match with {
                Some(with) => map.insert(key, with.clone()),
                None => map.remove(&key),
            };
        }
        lines[at] = value.to_string().into_bytes();
    };
    match change {
        Change::Lose(at) => drop(lines.remove(at.index(many))),
        Change::Double(at) => lines.insert(at.index(many), lines[at.index(many)].clone()),
        Change::Exchange(a, b) => lines.swap(a.index(many), b.index(many)),
        Change::CutShort(at, to) => {
            let at = at.index(many);
            let length = lines[at].len();
            lines[at].truncate(to.index(length + 1));
        }
        Change::Grow(at) => {
            let at = at.index(many);
            // The first alone: of all of them, a line grown three times would be 48 GB.
            let text = String::from_utf8_lossy(&lines[at]).replacen("Done.", &"Done. ".repeat(2000), 1);
            lines[at] = text.into_bytes();
        }
        Change::Noise(at, noise) => lines.insert(at.index(many), noise.clone()),
        Change::Strip(at, key) => edit(at.index(many), key, None),
        Change::Replace(at, key, with) => edit(at.index(many), key, Some(with)),
        Change::Novel(at, value) => lines.insert(at.index(many), value.to_string().into_bytes()),
    }
}

fn as_bytes(lines: &[&str]) -> Vec<Vec<u8>> {
    lines.iter().map(|line| line.as_bytes().to_vec()).collect()
}

#[test]
fn the_runs_are_read_as_they_are() {
    for (which, lines) in RUNS.iter().enumerate() {
        let came = run(which, RoleName::Builder, &as_bytes(lines), ExitInfo::code(0));
        assert_eq!((came.result, came.message.as_deref()), (RunResult::Succeeded, Some("Done.")), "{which}");
    }
}

#[test]
fn no_run_succeeds_that_ended_before_its_last_line() {
    for (which, lines) in RUNS.iter().enumerate() {
        for whole in 0..lines.len() {
            let mut part = as_bytes(&lines[..whole]);
            for cut in 0..lines[whole].len() {
                part.push(lines[whole].as_bytes()[..cut].to_vec());
                let came = run(which, RoleName::Builder, &part, ExitInfo::code(0));
                assert_ne!(came.result, RunResult::Succeeded, "{which}: {whole} lines and {cut} bytes");
                part.pop();
            }
        }
    }
}

#[test]
fn what_nobody_knows_between_the_lines_changes_nothing() {
    let novel = [
        "",
        " ",
        "null",
        "[]",
        "[1]",
        "7",
        "\"x\"",
        "{",
        "}",
        "not JSON",
        "{}",
        r#"{"type":null}"#,
        r#"{"type":"novel.event","item":{"type":"agent_message","text":"no"}}"#,
        r#"{"method":"novel"}"#,
        r#"{"id":77,"result":{"stopReason":"refusal"}}"#,
        r#"{"type":["result"],"is_error":true}"#,
        "\u{feff}",
        "data: {}",
        "\u{0}",
    ];
    for (which, lines) in RUNS.iter().enumerate() {
        let plain = run(which, RoleName::Builder, &as_bytes(lines), ExitInfo::code(0));
        for at in 0..=lines.len() {
            let mut mixed = lines.to_vec();
            for line in novel {
                mixed.insert(at, line);
            }
            let came = run(which, RoleName::Builder, &as_bytes(&mixed), ExitInfo::code(0));
            assert_eq!(
                (came.result, came.iterations, came.message.as_deref()),
                (plain.result, plain.iterations, plain.message.as_deref()),
                "{which}, before line {at}"
            );
        }
    }
}

#[test]
fn depth_and_length_are_harmless() {
    let deep = [
        "[".repeat(200_000),
        r#"{"type":"#.to_owned() + &r#"{"a":"#.repeat(100_000),
        format!(r#"{{"type":"error","error":{}"x"{}}}"#, r#"{"error":"#.repeat(5000), "}".repeat(5000)),
        format!(r#"{{"type":"turn.failed","error":{{"message":"{}"}}}}"#, "x".repeat(3 << 20)),
        format!(r#"{{"type":"text","part":{{"text":"{}"}}}}"#, "x\\n".repeat(1 << 20)),
    ];
    for which in 0..6 {
        let mut adapter = adapter(which, RoleName::Builder);
        for line in &deep {
            adapter.event(line.as_bytes());
            adapter.cut_event(line.as_bytes());
        }
        let exit = ExitInfo::code(0);
        let reading = adapter.reading(exit);
        assert!(reading.final_message.as_ref().is_none_or(|text| text.len() <= MAX_FINAL_BYTES));
        assert!(conclude(&reading, exit, None, "", Language::De).sentence.chars().count() < 2000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn nothing_panics_and_a_success_has_a_message(
        which in 0_usize..6,
        changes in proptest::collection::vec(any_change(), 1..6),
        code in select(vec![Some(0), Some(1), Some(53), Some(137), Some(145), None]),
        out_of_memory in any::<bool>(),
    ) {
        let mut lines = as_bytes(RUNS[which % RUNS.len()]);
        changes.iter().for_each(|change| changed(&mut lines, change));
        let exit = ExitInfo { code, signal: code.is_none().then_some(9), out_of_memory };
        let came = run(which, RoleName::Builder, &lines, exit);
        prop_assert!(came.iterations <= lines.len());
        if came.result == RunResult::Succeeded {
            prop_assert!(came.message.is_some_and(|message| !message.trim().is_empty()));
        }
    }

    #[test]
    fn a_planner_is_never_granted_anything_and_each_line_gets_one_answer_at_most(
        changes in proptest::collection::vec(any_change(), 0..8),
    ) {
        let mut lines = as_bytes(RUNS[4]);
        changes.iter().for_each(|change| changed(&mut lines, change));
        let came = run(4, RoleName::Planner, &lines, ExitInfo::code(0));
        prop_assert!(came.sent.len() <= lines.len());
        for line in &came.sent {
            prop_assert!(serde_json::from_slice::<Value>(line).is_ok() && line.ends_with(b"\n"));
            prop_assert!(!String::from_utf8_lossy(line).contains("granted"));
        }
    }
}

//! `claude -p --output-format stream-json --verbose`, and whatever prints the same shape (qwen does).
//!
//! Facts that this reader rests on, each seen in a recorded run: one `assistant` line per content block,
//! so a turn is a distinct `message.id`; messages of model `<synthetic>` are the program's own; `subtype`
//! stays „success" on API errors, so `is_error` is asked; without a `result` line and with exit code 53
//! the program stopped at its own limit of turns.

use std::collections::BTreeSet;

use board_core::model::profile::RoleName;
use serde::Deserialize;
use serde_json::Value;

use super::failure::{Failure, FailureKind, status_beside, told_in};
use super::lax::{self, Lax, lax_object};
use super::{Adapter, CommandSpec, Event, ExitInfo, Reading, RunSpec, Tail, activity};

/// Exit code of qwen and gemini at their own limit of turns.
const OWN_LIMIT_EXIT: i32 = 53;

/// Subtypes of a `result` at a limit of its own.
const OWN_LIMITS: [&str; 2] = ["error_max_turns", "error_max_budget_usd"];

/// Message ids that are remembered. The limit of iterations ends a run long before; it is here so that
/// memory stays flat whatever is printed.
const MAX_IDS: usize = 4_096;

/// Reads the events of claude.
#[derive(Debug, Default)]
pub struct Claude {
    ids: BTreeSet<String>,
    ended: bool,
    last_message: Option<Tail>,
    reading: Reading,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type", default)]
    kind: Lax<String>,
    #[serde(default)]
    subtype: Lax<String>,
    #[serde(default)]
    message: Lax<Message>,
    #[serde(default)]
    model: Lax<String>,
    #[serde(default)]
    is_error: Lax<bool>,
    #[serde(default)]
    api_error_status: Lax<u16>,
    #[serde(default)]
    error_status: Lax<u16>,
    #[serde(default)]
    error: Lax<Value>,
    #[serde(default)]
    errors: Lax<Value>,
    #[serde(default)]
    result: Lax<String>,
    #[serde(default)]
    total_cost_usd: Lax<f64>,
    #[serde(default)]
    usage: Lax<RawUsage>,
    #[serde(default)]
    rate_limit_info: Lax<RateLimit>,
}

#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    id: Lax<String>,
    #[serde(default)]
    model: Lax<String>,
    #[serde(default)]
    content: Lax<Value>,
}

#[derive(Debug, Deserialize)]
struct RawUsage {
    #[serde(default)]
    input_tokens: Lax<u64>,
    #[serde(default)]
    cache_read_input_tokens: Lax<u64>,
    #[serde(default)]
    output_tokens: Lax<u64>,
}

#[derive(Debug, Deserialize)]
struct RateLimit {
    #[serde(default)]
    status: Lax<String>,
    #[serde(rename = "resetsAt", default)]
    resets_at: Lax<u64>,
}

lax_object!(Message, RawUsage, RateLimit);

impl Adapter for Claude {
    fn command(&self, run: &RunSpec) -> CommandSpec {
        let mut argv = run.program.clone();
        argv.extend(
            [
                "-p",
                "--output-format",
                "stream-json",
                "--verbose",
                "--no-session-persistence",
                "--strict-mcp-config",
            ]
            .map(str::to_owned),
        );
        let (sources, more): (&str, &[&str]) = match run.role {
            RoleName::Builder => ("project", &["--permission-mode", "acceptEdits", "--allowedTools", "Bash"]),
            RoleName::Reviewer | RoleName::Researcher => {
                ("", &["--tools", "Read,Grep,Glob", "--permission-mode", "dontAsk"])
            }
            RoleName::Planner => ("", &["--tools", "", "--permission-mode", "dontAsk"]),
        };
        argv.extend(["--setting-sources".to_owned(), sources.to_owned()]);
        argv.extend(more.iter().map(|arg| (*arg).to_owned()));
        if let Some(model) = &run.model {
            argv.extend(["--model".to_owned(), model.clone()]);
        }
        if let Some(effort) = &run.effort {
            argv.extend(["--effort".to_owned(), effort.clone()]);
        }
        argv.extend(run.args.iter().cloned());
        let mut env = run.env.clone();
        env.push(("CLAUDE_CONFIG_DIR".to_owned(), run.home.join(".claude").display().to_string()));
        for name in [
            "DISABLE_AUTOUPDATER",
            "DISABLE_TELEMETRY",
            "DISABLE_ERROR_REPORTING",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        ] {
            env.push((name.to_owned(), "1".to_owned()));
        }
        CommandSpec { argv, env, home_directories: vec![".claude"], ..CommandSpec::default() }
    }

    fn event(&mut self, line: &[u8]) -> Vec<Event> {
        let Some(raw) = lax::object::<Raw>(line) else { return Vec::new() };
        match raw.kind.text() {
            "system" => self.system(&raw),
            "assistant" => self.assistant(&raw),
            "result" => self.result(&raw),
            "rate_limit_event" => {
                // Told with every answer; only a refusal says something about this run.
                if let Some(limit) =
                    raw.rate_limit_info.get().filter(|limit| limit.status.text() == "rejected")
                {
                    self.reading.resets_at = limit.resets_at.0;
                }
                Vec::new()
            }
            "error" => {
                let told = raw.error.get().map(told_in).unwrap_or_default();
                self.reading.last_error = Some(told);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn reading(&self, exit: ExitInfo) -> Reading {
        let mut reading = self.reading.clone();
        if let Some(message) = &self.last_message {
            (reading.final_message, reading.cut) = message.finish();
        }
        if !self.ended {
            // Half a conversation is no answer: only the `result` line carries the final message.
            reading.final_message = None;
            if exit.code == Some(OWN_LIMIT_EXIT) {
                reading.failure = Some(Failure::known(FailureKind::OwnLimit, "max turns"));
            }
        }
        reading
    }
}

impl Claude {
    fn system(&mut self, raw: &Raw) -> Vec<Event> {
        match raw.subtype.text() {
            "init" => {
                self.reading.model.clone_from(&raw.model.0);
                Vec::new()
            }
            "api_retry" => {
                let status = raw.error_status.get().map(|status| format!(" {status}")).unwrap_or_default();
                let word = raw.error.get().and_then(Value::as_str).unwrap_or("");
                let message = format!("API error{status} {word}");
                let said = activity(&message);
                self.reading.last_error = Some(message);
                said
            }
            _ => Vec::new(),
        }
    }

    fn assistant(&mut self, raw: &Raw) -> Vec<Event> {
        let Some(message) = raw.message.get() else { return Vec::new() };
        let blocks = message.content.get().and_then(Value::as_array).into_iter().flatten();
        if message.model.text() == "<synthetic>" {
            // The program's own words: an error, if the line says so. The `result` line decides, if it comes.
            if let (Some(_), Some(text)) = (raw.error.get(), blocks.filter_map(text_of).next()) {
                self.reading.last_error = Some(text.to_owned());
            }
            return Vec::new();
        }
        let mut events = Vec::new();
        // A retry that ended in an answer is over.
        self.reading.last_error = None;
        let id = message.id.text();
        if !self.ids.contains(id) {
            if self.ids.len() >= MAX_IDS {
                self.ids.clear();
            }
            // Without an id two lines cannot be told to be one turn, so each counts.
            if !id.is_empty() {
                self.ids.insert(id.to_owned());
            }
            events.push(Event::Iteration);
        }
        for block in blocks {
            events.extend(describe(block));
        }
        events
    }

    fn result(&mut self, raw: &Raw) -> Vec<Event> {
        self.ended = true;
        let mut events = Vec::new();
        let usage = &mut self.reading.usage;
        usage.cost_usd = raw.total_cost_usd.0.filter(|cost| cost.is_finite());
        if let Some(told) = raw.usage.get() {
            usage.input_tokens = told.input_tokens.0;
            usage.cached_input_tokens = told.cache_read_input_tokens.0;
            usage.output_tokens = told.output_tokens.0;
            let sum = told.input_tokens.0.unwrap_or(0).saturating_add(told.output_tokens.0.unwrap_or(0));
            events.push(Event::Tokens(sum));
        }
        let (text, subtype) = (raw.result.text(), raw.subtype.text());
        let status = raw.api_error_status.0.or(raw.error_status.0);
        if OWN_LIMITS.contains(&subtype) {
            self.reading.failure = Some(Failure::known(FailureKind::OwnLimit, subtype));
        } else if raw.is_error.0 == Some(true) || status.is_some() || subtype.starts_with("error") {
            let told = [raw.error.get(), raw.errors.get()].into_iter().flatten().map(told_in);
            let told = std::iter::once(text.to_owned()).chain(told).find(|told| !told.is_empty());
            let status = status.or_else(|| raw.error.get().and_then(status_beside));
            let told = told.or_else(|| self.reading.last_error.clone()).unwrap_or_else(|| subtype.to_owned());
            self.reading.failure = Some(Failure::of(&told, status));
        }
        self.last_message = Some(Tail::of(text));
        events
    }
}

fn text_of(block: &Value) -> Option<&str> {
    block.get("text").and_then(Value::as_str)
}

fn describe(block: &Value) -> Vec<Event> {
    match block.get("type").and_then(Value::as_str) {
        Some("text") => activity(block.get("text").and_then(Value::as_str).unwrap_or("")),
        Some("tool_use") => {
            let name = block.get("name").and_then(Value::as_str).unwrap_or("");
            let input = block.get("input");
            let about = ["command", "file_path", "path", "pattern", "description"]
                .iter()
                .find_map(|key| input?.get(key)?.as_str())
                .unwrap_or("");
            activity(&format!("{name} {about}"))
        }
        Some(_) | None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{read, spec};
    use super::*;
    use board_core::model::outcome::RunResult;

    const INIT: &str = r#"{"type":"system","subtype":"init","cwd":"/w","model":"m1","tools":[]}"#;

    fn turn(id: &str, content: &str) -> String {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","model":"m1","role":"assistant","content":[{content}]}},"parent_tool_use_id":null}}"#
        )
    }

    fn result(rest: &str) -> String {
        format!(r#"{{"type":"result","subtype":"success","num_turns":2,{rest}}}"#)
    }

    fn ended(lines: &[&str], code: i32) -> super::super::fixtures::Read {
        read(Claude::default(), lines, ExitInfo::code(code))
    }

    #[test]
    fn blocks_of_one_message_are_one_iteration() {
        let lines = [
            INIT,
            &turn("a", r#"{"type":"tool_use","name":"Bash","input":{"command":"ls"}}"#),
            &turn("a", r#"{"type":"tool_use","name":"Read","input":{"file_path":"/w/x"}}"#),
            r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"x"}]}}"#,
            &turn("b", r#"{"type":"text","text":"Done."}"#),
            &result(
                r#""is_error":false,"api_error_status":null,"result":"Done.","total_cost_usd":0.002,"usage":{"input_tokens":200,"cache_read_input_tokens":80,"output_tokens":40}"#,
            ),
        ];
        let run = ended(&lines, 0);
        assert_eq!((run.result, run.iterations), (RunResult::Succeeded, 2));
        assert_eq!(run.reading.final_message.as_deref(), Some("Done."));
        assert_eq!(run.reading.model.as_deref(), Some("m1"));
        assert_eq!(run.reading.usage.cost_usd, Some(0.002));
        assert_eq!(run.activities, ["Bash ls", "Read /w/x", "Done."]);
    }

    #[test]
    fn synthetic_messages_are_not_counted_and_is_error_is_asked_not_the_subtype() {
        let synthetic = r#"{"type":"assistant","message":{"id":"s","model":"<synthetic>","content":[{"type":"text","text":"API Error: 401 no"}]}}"#;
        for (status, text, expected) in [
            ("401", "Failed to authenticate. API Error: 401 no", RunResult::Unavailable),
            ("429", "API Error: rate limit", RunResult::Unavailable),
            ("500", "API Error: 500 x", RunResult::Unavailable),
            ("null", "API Error: malformed response (HTTP 200)", RunResult::Failed),
        ] {
            let last = result(&format!(r#""is_error":true,"api_error_status":{status},"result":"{text}""#));
            let run = ended(&[INIT, synthetic, &last], 1);
            assert_eq!((run.result, run.iterations), (expected, 0), "{status}");
        }
    }

    #[test]
    fn an_empty_result_is_no_final_message() {
        let run = ended(&[INIT, &result(r#""is_error":false,"result":"""#)], 0);
        assert_eq!(run.result, RunResult::InvalidReply);
    }

    #[test]
    fn a_success_whose_text_is_an_api_error_is_none() {
        let of =
            |text: &str| ended(&[INIT, &result(&format!(r#""is_error":false,"result":"{text}""#))], 0).result;
        assert_eq!(of("[API Error: 401 no]"), RunResult::Unavailable);
        assert_eq!(of("Half[API Error: Model stream ended without a finish reason.]"), RunResult::Failed);
    }

    #[test]
    fn the_runtimes_own_limit_of_turns_is_a_limit() {
        let line = r#"{"type":"result","subtype":"error_max_turns","is_error":true,"num_turns":6}"#;
        assert_eq!(ended(&[INIT, line], 1).result, RunResult::Limit);
        assert_eq!(ended(&[INIT, &turn("a", "")], 53).result, RunResult::Limit);
    }

    #[test]
    fn an_error_counts_wherever_it_stands() {
        let of = |line: &str| ended(&[INIT, line], 1);
        let result = |rest: &str| format!(r#"{{"type":"result","subtype":"error_during_execution",{rest}}}"#);
        assert_eq!(of(&result(r#""errors":["API Error: 529 overloaded"]"#)).result, RunResult::Unavailable);
        assert_eq!(of(&result(r#""error":{"status":401,"message":"no"}"#)).result, RunResult::Unavailable);
        assert_eq!(of(&result(r#""result":{"a":1},"is_error":"yes""#)).result, RunResult::Failed);
        assert_eq!(of(&result(r#""api_error_status":"429","is_error":true"#)).result, RunResult::Unavailable);
        let synthetic = r#"{"type":"assistant","error":"rate_limit","message":{"id":"s","model":"<synthetic>","content":[{"type":"text","text":"API Error: 429 slow down"}]}}"#;
        assert_eq!(of(synthetic).result, RunResult::Unavailable, "no result line came");
        let error = r#"{"type":"error","error":{"type":"authentication_error","message":"no"}}"#;
        assert_eq!(of(error).result, RunResult::Unavailable);
    }

    #[test]
    fn the_time_at_which_a_refused_quota_begins_anew_is_kept() {
        let limit = |status: &str| {
            format!(
                r#"{{"type":"rate_limit_event","rate_limit_info":{{"status":"{status}","resetsAt":1796083200}}}}"#
            )
        };
        assert_eq!(ended(&[INIT, &limit("rejected")], 1).reading.resets_at, Some(1_796_083_200));
        assert_eq!(ended(&[INIT, &limit("allowed")], 1).reading.resets_at, None);
    }

    #[test]
    fn without_a_result_line_there_is_no_final_message() {
        let lines = [INIT, &turn("a", r#"{"type":"text","text":"I begin."}"#)];
        assert_eq!(ended(&lines, 0).result, RunResult::InvalidReply);
        assert_eq!(ended(&lines, 1).result, RunResult::Failed);
    }

    #[test]
    fn message_ids_do_not_grow_without_bound() {
        let mut claude = Claude::default();
        for n in 0..2 * MAX_IDS {
            claude.event(turn(&n.to_string(), "").as_bytes());
        }
        assert!(claude.ids.len() <= MAX_IDS);
    }

    #[test]
    fn a_reader_gets_reading_tools_and_no_settings_of_the_project() {
        let reviewer = Claude::default().command(&spec(RoleName::Reviewer)).argv;
        assert!(reviewer.windows(2).any(|pair| pair == ["--setting-sources", ""]));
        assert!(reviewer.windows(2).any(|pair| pair == ["--tools", "Read,Grep,Glob"]));
        let planner = Claude::default().command(&spec(RoleName::Planner)).argv;
        assert!(planner.windows(2).any(|pair| pair == ["--tools", ""]));
        let builder = Claude::default().command(&spec(RoleName::Builder)).argv;
        assert!(builder.windows(2).any(|pair| pair == ["--permission-mode", "acceptEdits"]));
    }
}

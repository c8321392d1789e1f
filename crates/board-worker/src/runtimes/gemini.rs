//! `gemini -o stream-json`.
//!
//! Facts that this reader rests on, each seen in a recorded run: an iteration is a `tool_use`; the answer
//! comes in pieces (`delta`) and only what follows the last tool is the final message; after a failed try
//! its pieces stand there too, so an error throws them away; the `result` line says how it ended, with exit
//! code 0 on a cut stream; the exit code of an HTTP error is its status modulo 256.

use board_core::model::profile::RoleName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::failure::{Failure, FailureKind, status_beside, told_in};
use super::lax::{self, Lax, lax_object};
use super::{Adapter, CommandSpec, Event, ExitInfo, Reading, RunSpec, Tail, activity};

/// Exit code without a login.
const NO_LOGIN_EXIT: i32 = 41;
/// Exit code at its own limit of turns.
const OWN_LIMIT_EXIT: i32 = 53;

/// Settings above all others, below the home.
const SETTINGS: &str = ".gemini/board-agent.json";

/// Reads the events of gemini.
#[derive(Debug, Default)]
pub struct Gemini {
    text: Tail,
    ended: bool,
    reading: Reading,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type", default)]
    kind: Lax<String>,
    #[serde(default)]
    role: Lax<String>,
    #[serde(default)]
    content: Lax<String>,
    #[serde(default)]
    delta: Lax<bool>,
    #[serde(default)]
    model: Lax<String>,
    #[serde(default)]
    tool_name: Lax<String>,
    #[serde(default)]
    parameters: Lax<Value>,
    #[serde(default)]
    severity: Lax<String>,
    #[serde(default)]
    message: Lax<String>,
    #[serde(default)]
    status: Lax<String>,
    #[serde(default)]
    error: Lax<Value>,
    #[serde(default)]
    stats: Lax<Stats>,
}

#[derive(Debug, Deserialize)]
struct Stats {
    #[serde(default)]
    input_tokens: Lax<u64>,
    #[serde(default)]
    cached: Lax<u64>,
    #[serde(default)]
    output_tokens: Lax<u64>,
}

lax_object!(Stats);

impl Adapter for Gemini {
    fn command(&self, run: &RunSpec) -> CommandSpec {
        let mut argv = run.program.clone();
        let mode = match run.role {
            RoleName::Builder => "yolo",
            RoleName::Reviewer | RoleName::Researcher | RoleName::Planner => "plan",
        };
        argv.extend(["-o", "stream-json", "--approval-mode", mode, "--skip-trust"].map(str::to_owned));
        if let Some(model) = &run.model {
            argv.extend(["-m".to_owned(), model.clone()]);
        }
        argv.extend(run.args.iter().cloned());
        let mut env = run.env.clone();
        env.push((
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH".to_owned(),
            run.home.join(SETTINGS).display().to_string(),
        ));
        // It would start itself again to get more memory, and the second process is not ours to see.
        env.push(("GEMINI_CLI_NO_RELAUNCH".to_owned(), "true".to_owned()));
        CommandSpec {
            argv,
            env,
            home_directories: vec![".gemini"],
            home_files: vec![(SETTINGS, settings(run.role).to_string())],
        }
    }

    fn event(&mut self, line: &[u8]) -> Vec<Event> {
        let Some(raw) = lax::object::<Raw>(line) else { return Vec::new() };
        match raw.kind.text() {
            "init" => {
                self.reading.model.clone_from(&raw.model.0);
                Vec::new()
            }
            "message" if raw.role.text() == "assistant" => {
                if raw.delta.0 != Some(true) {
                    self.text = Tail::default();
                }
                self.text.push(raw.content.text());
                self.reading.last_error = None;
                activity(raw.content.text())
            }
            "tool_use" => {
                self.text = Tail::default();
                self.reading.last_error = None;
                let mut events = vec![Event::Iteration];
                let about = ["command", "file_path", "path", "absolute_path", "pattern", "description"];
                let input = raw.parameters.get();
                let about = about.iter().find_map(|key| input?.get(key)?.as_str()).unwrap_or("");
                events.extend(activity(&format!("{} {about}", raw.tool_name.text())));
                events
            }
            "tool_result" => {
                self.text = Tail::default();
                Vec::new()
            }
            "error" => self.error(&raw),
            "result" => self.result(&raw),
            _ => Vec::new(),
        }
    }

    fn reading(&self, exit: ExitInfo) -> Reading {
        let mut reading = self.reading.clone();
        if self.ended {
            (reading.final_message, reading.cut) = self.text.finish();
        } else {
            // Half an answer is none, and without a `result` line the exit code tells what it was.
            reading.failure = exit.code.and_then(|code| of_exit(code, self.last_error()));
        }
        reading
    }
}

impl Gemini {
    fn last_error(&self) -> &str {
        self.reading.last_error.as_deref().unwrap_or("")
    }

    fn error(&mut self, raw: &Raw) -> Vec<Event> {
        let mut message = raw.message.text().to_owned();
        if message.is_empty() {
            message = raw.error.get().map(told_in).unwrap_or_default();
        }
        let said = activity(&message);
        if raw.severity.text() != "warning" {
            self.text = Tail::default();
            self.reading.last_error = Some(message);
        }
        said
    }

    fn result(&mut self, raw: &Raw) -> Vec<Event> {
        self.ended = true;
        let error = raw.error.get().filter(|error| !error.is_null());
        if error.is_some() || !matches!(raw.status.text(), "" | "success") {
            let told = error.map(told_in).filter(|told| !told.is_empty());
            let told = told.unwrap_or_else(|| self.last_error().to_owned());
            self.reading.failure =
                Some(match told.contains("MaxSessionTurns") || told.contains("max session turns") {
                    true => Failure::known(FailureKind::OwnLimit, &told),
                    false => Failure::of(&told, error.and_then(status_beside)),
                });
        }
        let Some(told) = raw.stats.get() else { return Vec::new() };
        let usage = &mut self.reading.usage;
        usage.input_tokens = told.input_tokens.0;
        usage.cached_input_tokens = told.cached.0;
        usage.output_tokens = told.output_tokens.0;
        vec![Event::Tokens(
            told.input_tokens.0.unwrap_or(0).saturating_add(told.output_tokens.0.unwrap_or(0)),
        )]
    }
}

/// What an end without a `result` line was.
fn of_exit(code: i32, told: &str) -> Option<Failure> {
    match code {
        NO_LOGIN_EXIT => Some(Failure::of(if told.is_empty() { "login" } else { told }, Some(401))),
        OWN_LIMIT_EXIT => Some(Failure::known(FailureKind::OwnLimit, "max session turns")),
        // Statuses whose remainder is no exit code of anything else.
        145 | 147 | 173 | 244 | 246 | 247 | 248 => {
            let status = u16::try_from(code).ok()? + 256;
            let told = if told.is_empty() { format!("HTTP {status}") } else { told.to_owned() };
            Some(Failure::of(&told, Some(status)))
        }
        _ => None,
    }
}

/// What no directory and no home may change. A reader gets nothing of the tree as instructions.
fn settings(role: RoleName) -> Value {
    let mut settings = json!({
        "general": {"enableAutoUpdate": false, "disableAutoUpdate": true},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        // Agents of its own would work in calls that no event tells of, beyond every limit.
        "experimental": {"enableAgents": false, "skills": role == RoleName::Builder},
        "tools": {"exclude": ["invoke_agent"]},
    });
    match role {
        RoleName::Builder => {}
        RoleName::Reviewer | RoleName::Researcher | RoleName::Planner => {
            settings["context"] = json!({
                "fileName": ["board-agent-reads-no-instructions"],
                "discoveryMaxDirs": 1,
                "loadMemoryFromIncludeDirectories": false,
            });
            settings["mcp"] = json!({"allowed": []});
            settings["hooksConfig"] = json!({"enabled": false});
            settings["tools"]["exclude"] = json!(["invoke_agent", "google_web_search", "web_fetch"]);
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{read, spec};
    use super::*;
    use board_core::model::outcome::RunResult;

    const INIT: &str = r#"{"type":"init","session_id":"s","model":"m1"}"#;
    const TOOL: &str =
        r#"{"type":"tool_use","tool_name":"run_shell_command","tool_id":"t","parameters":{"command":"ls"}}"#;
    const GAVE: &str = r#"{"type":"tool_result","tool_id":"t","status":"success","output":"x"}"#;
    const DONE: &str = r#"{"type":"result","status":"success","stats":{"total_tokens":240,"input_tokens":200,"output_tokens":40,"cached":80}}"#;

    fn said(text: &str) -> String {
        format!(r#"{{"type":"message","role":"assistant","content":"{text}","delta":true}}"#)
    }

    fn ended(lines: &[&str], code: i32) -> super::super::fixtures::Read {
        read(Gemini::default(), lines, ExitInfo::code(code))
    }

    #[test]
    fn the_pieces_after_the_last_tool_are_the_final_message() {
        let asked = r#"{"type":"message","role":"user","content":"Do it."}"#;
        let run = ended(&[INIT, asked, &said("I look."), TOOL, GAVE, &said("All "), &said("done."), DONE], 0);
        assert_eq!((run.result, run.iterations), (RunResult::Succeeded, 1));
        assert_eq!(run.reading.final_message.as_deref(), Some("All done."));
        assert_eq!(run.reading.model.as_deref(), Some("m1"));
        let usage = &run.reading.usage;
        assert_eq!(
            (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens),
            (Some(200), Some(80), Some(40))
        );
        assert_eq!(run.activities, ["I look.", "run_shell_command ls", "All ", "done."].map(str::trim));
    }

    #[test]
    fn an_error_throws_half_answers_away_and_the_result_decides() {
        let error =
            r#"{"type":"error","severity":"error","message":"Model stream ended without a finish reason."}"#;
        let failed = r#"{"type":"result","status":"error","stats":{}}"#;
        let run = ended(&[INIT, &said("Half"), error, failed], 0);
        assert_eq!((run.result, run.reading.final_message), (RunResult::Failed, None));
        let retried = ended(&[INIT, &said("Half"), error, &said("Whole."), DONE], 0);
        assert_eq!(retried.reading.final_message.as_deref(), Some("Whole."));
        let warning = r#"{"type":"error","severity":"warning","message":"slow"}"#;
        assert_eq!(ended(&[INIT, &said("All."), warning, DONE], 0).result, RunResult::Succeeded);
    }

    #[test]
    fn login_quota_and_server_are_told_apart_wherever_the_error_stands() {
        let of = |error: &str| {
            ended(&[INIT, &format!(r#"{{"type":"result","status":"error","error":{error}}}"#)], 1).result
        };
        assert_eq!(
            of(
                r#"{"type":"unknown","message":"[API Error: {\"error\":{\"code\":401,\"status\":\"UNAUTHENTICATED\"}}]"}"#
            ),
            RunResult::Unavailable
        );
        assert_eq!(of(r#"{"code":429,"message":"slow"}"#), RunResult::Unavailable);
        assert_eq!(of(r#""RESOURCE_EXHAUSTED""#), RunResult::Unavailable);
        assert_eq!(of(r#"{"message":"bad request"}"#), RunResult::Failed);
        assert_eq!(
            of(r#"{"type":"FatalTurnLimitedError","message":"Reached max session turns"}"#),
            RunResult::Limit
        );
    }

    #[test]
    fn without_a_result_line_the_exit_code_tells_what_it_was() {
        let half = [INIT, &said("Half")];
        assert_eq!(ended(&half, 0).result, RunResult::InvalidReply);
        assert_eq!(ended(&half, 1).result, RunResult::Failed);
        assert_eq!(ended(&[], 41).result, RunResult::Unavailable);
        assert_eq!(ended(&half, 53).result, RunResult::Limit);
        assert_eq!(ended(&half, 145).result, RunResult::Unavailable);
        assert_eq!(ended(&half, 173).result, RunResult::Unavailable);
        assert_eq!(ended(&half, 148).result, RunResult::Failed, "404");
    }

    #[test]
    fn a_reader_plans_and_reads_no_instructions_of_the_tree() {
        let reviewer = Gemini::default().command(&spec(RoleName::Reviewer));
        assert!(reviewer.argv.windows(2).any(|pair| pair == ["--approval-mode", "plan"]));
        assert!(
            reviewer.home_files.iter().any(|(name, text)| *name == SETTINGS && text.contains("fileName"))
        );
        let builder = Gemini::default().command(&spec(RoleName::Builder));
        assert!(builder.argv.windows(2).any(|pair| pair == ["--approval-mode", "yolo"]));
        assert!(!builder.home_files[0].1.contains("fileName"));
    }
}

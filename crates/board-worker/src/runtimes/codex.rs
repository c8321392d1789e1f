//! `codex exec --json`.
//!
//! Facts that this reader rests on, each seen in a recorded run: an item of type `error` is a warning
//! before the turn and no iteration; an `error` event („Reconnecting… 1/5") is not terminal, only
//! `turn.failed` is; there is no HTTP status field, so the message is read; the final message is the
//! last `agent_message` of a turn that was completed, also an empty one.

use std::path::Path;

use board_core::model::profile::RoleName;
use serde::Deserialize;
use serde_json::Value;

use super::failure::{Failure, status_beside, told_in};
use super::lax::{self, Lax, lax_object};
use super::{Adapter, CommandSpec, Event, ExitInfo, Reading, RunSpec, Tail, activity, add};

/// Item types that are no iteration: a warning, a thought, a plan.
const NOT_COUNTED: [&str; 3] = ["error", "reasoning", "todo_list"];

/// Reads the events of codex.
#[derive(Debug, Default)]
pub struct Codex {
    last_message: Option<Tail>,
    /// Half a turn is no answer, also if it said something.
    completed: bool,
    reading: Reading,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type", default)]
    kind: Lax<String>,
    #[serde(default)]
    item: Lax<Item>,
    #[serde(default)]
    usage: Lax<RawUsage>,
    #[serde(default)]
    message: Lax<String>,
    #[serde(default)]
    error: Lax<Value>,
}

#[derive(Debug, Deserialize)]
struct RawUsage {
    #[serde(default)]
    input_tokens: Lax<u64>,
    #[serde(default)]
    cached_input_tokens: Lax<u64>,
    #[serde(default)]
    output_tokens: Lax<u64>,
}

#[derive(Debug, Deserialize)]
struct Item {
    #[serde(rename = "type", default)]
    kind: Lax<String>,
    #[serde(default)]
    text: Lax<String>,
    #[serde(default)]
    command: Lax<String>,
    #[serde(default)]
    message: Lax<String>,
    #[serde(default)]
    changes: Lax<Vec<Change>>,
}

#[derive(Debug, Deserialize)]
struct Change {
    #[serde(default)]
    path: Lax<String>,
}

lax_object!(RawUsage, Item, Change);

impl Adapter for Codex {
    fn command(&self, run: &RunSpec) -> CommandSpec {
        let mut argv = run.program.clone();
        argv.extend(
            [
                "exec",
                "--json",
                "--ephemeral",
                "--ignore-user-config",
                "--ignore-rules",
                "--skip-git-repo-check",
            ]
            .map(str::to_owned),
        );
        argv.extend(["-C".to_owned(), run.directory.display().to_string()]);
        argv.extend(["-s".to_owned(), sandbox(run).to_owned()]);
        if let Some(model) = &run.model {
            argv.extend(["-m".to_owned(), model.clone()]);
        }
        let mut settings = vec![
            "approval_policy=\"never\"".to_owned(),
            "analytics.enabled=false".to_owned(),
            "check_for_update_on_startup=false".to_owned(),
            "features.plugins=false".to_owned(),
            "features.apps=false".to_owned(),
            // The key or login of the run must not be seen by the commands that it runs.
            "shell_environment_policy.inherit=\"core\"".to_owned(),
            "shell_environment_policy.ignore_default_excludes=false".to_owned(),
        ];
        if let Some(effort) = &run.effort {
            settings.push(format!("model_reasoning_effort={}", Value::from(effort.as_str())));
        }
        // Agents of its own would work in calls that no event tells of, beyond every limit.
        let mut off = vec!["multi_agent"];
        match run.role {
            RoleName::Builder => {}
            RoleName::Reviewer | RoleName::Researcher | RoleName::Planner => {
                settings.push("project_doc_max_bytes=0".to_owned());
                settings.push("web_search=\"disabled\"".to_owned());
                off.push("goals");
            }
        }
        if run.role == RoleName::Planner {
            off.extend(["shell_tool", "unified_exec"]);
        }
        for feature in off {
            argv.extend(["--disable".to_owned(), feature.to_owned()]);
        }
        for setting in settings {
            argv.extend(["-c".to_owned(), setting]);
        }
        argv.extend(run.args.iter().cloned());
        argv.push("-".to_owned());
        let mut env = run.env.clone();
        env.push(("CODEX_HOME".to_owned(), run.home.join(".codex").display().to_string()));
        CommandSpec { argv, env, home_directories: vec![".codex"], ..CommandSpec::default() }
    }

    fn event(&mut self, line: &[u8]) -> Vec<Event> {
        let Some(raw) = lax::object::<Raw>(line) else { return Vec::new() };
        match raw.kind.text() {
            "turn.started" => {
                self.last_message = None;
                self.completed = false;
                Vec::new()
            }
            "item.started" => raw.item.get().map(describe).unwrap_or_default(),
            "item.completed" => raw.item.get().map(|item| self.item(item)).unwrap_or_default(),
            "turn.completed" => {
                self.completed = true;
                self.usage(raw.usage.get())
            }
            "turn.failed" => {
                let message = raw.error.get().map(told_in).unwrap_or_default();
                let message = if message.is_empty() { raw.message.text() } else { &message };
                let message = if message.is_empty() { self.last_error() } else { message };
                self.reading.failure = Some(Failure::of(message, raw.error.get().and_then(status_beside)));
                Vec::new()
            }
            "error" => {
                let message = match raw.message.text() {
                    "" => raw.error.get().map(told_in).unwrap_or_default(),
                    message => message.to_owned(),
                };
                let said = activity(&message);
                self.reading.last_error = Some(message);
                said
            }
            _ => Vec::new(),
        }
    }

    fn reading(&self, _: ExitInfo) -> Reading {
        let mut reading = self.reading.clone();
        if let Some(message) = self.last_message.as_ref().filter(|_| self.completed) {
            (reading.final_message, reading.cut) = message.finish();
        }
        reading
    }
}

impl Codex {
    fn last_error(&self) -> &str {
        self.reading.last_error.as_deref().unwrap_or("")
    }

    fn item(&mut self, item: &Item) -> Vec<Event> {
        let mut events = Vec::new();
        if !NOT_COUNTED.contains(&item.kind.text()) {
            events.push(Event::Iteration);
            // It went on: what was wrong before is over.
            self.reading.last_error = None;
        }
        events.extend(describe(item));
        if item.kind.text() == "agent_message" {
            self.last_message = Some(Tail::of(item.text.text()));
        }
        events
    }

    fn usage(&mut self, usage: Option<&RawUsage>) -> Vec<Event> {
        let Some(told) = usage else { return Vec::new() };
        let usage = &mut self.reading.usage;
        add(&mut usage.input_tokens, told.input_tokens.0);
        add(&mut usage.cached_input_tokens, told.cached_input_tokens.0);
        add(&mut usage.output_tokens, told.output_tokens.0);
        let sum = told.input_tokens.0.unwrap_or(0).saturating_add(told.output_tokens.0.unwrap_or(0));
        vec![Event::Tokens(sum)]
    }
}

fn describe(item: &Item) -> Vec<Event> {
    match item.kind.text() {
        "command_execution" => activity(&format!("$ {}", item.command.text())),
        "file_change" => {
            let changes = item.changes.get().into_iter().flatten();
            let names = changes.filter_map(|change| Path::new(change.path.text()).file_name());
            let names: Vec<_> = names.take(4).map(|name| name.to_string_lossy().into_owned()).collect();
            activity(&format!("✎ {}", names.join(", ")))
        }
        "agent_message" | "reasoning" => activity(item.text.text()),
        "error" => activity(item.message.text()),
        other => activity(other),
    }
}

/// Inside our own sandbox a reader's tree is read-only, where codex cannot start its `workspace-write`
/// sandbox and needs none. Without ours its own is all there is.
fn sandbox(run: &RunSpec) -> &'static str {
    match run.role {
        RoleName::Builder => "workspace-write",
        RoleName::Reviewer | RoleName::Researcher | RoleName::Planner if run.sandboxed => {
            "danger-full-access"
        }
        RoleName::Reviewer | RoleName::Researcher | RoleName::Planner => "read-only",
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{read, spec};
    use super::*;
    use board_core::model::outcome::RunResult;

    const WARNING: &str =
        r#"{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Metadata not found."}}"#;
    const TURN: &str = r#"{"type":"turn.started"}"#;
    const DONE: &str = r#"{"type":"turn.completed","usage":{"input_tokens":200,"cached_input_tokens":80,"output_tokens":40,"reasoning_output_tokens":10}}"#;

    fn said(text: &str) -> String {
        format!(r#"{{"type":"item.completed","item":{{"id":"i","type":"agent_message","text":"{text}"}}}}"#)
    }

    #[test]
    fn a_turn_with_a_tool_and_a_message_succeeds_with_two_iterations() {
        let lines = [
            r#"{"type":"thread.started","thread_id":"t"}"#,
            WARNING,
            TURN,
            r#"{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"ls","status":"in_progress"}}"#,
            r#"{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"ls","exit_code":0,"status":"completed"}}"#,
            &said("All done."),
            DONE,
        ];
        let run = read(Codex::default(), &lines, ExitInfo::code(0));
        assert_eq!((run.result, run.iterations), (RunResult::Succeeded, 2));
        assert_eq!(run.reading.final_message.as_deref(), Some("All done."));
        assert_eq!(run.reading.usage.input_tokens, Some(200));
        assert_eq!(run.reading.usage.cached_input_tokens, Some(80));
        assert_eq!(run.reading.usage.output_tokens, Some(40));
        assert_eq!(run.activities, ["Metadata not found.", "$ ls", "$ ls", "All done."]);
    }

    #[test]
    fn warnings_thoughts_and_plans_are_no_iterations_and_unknown_items_are() {
        let item = |kind: &str| format!(r#"{{"type":"item.completed","item":{{"id":"i","type":"{kind}"}}}}"#);
        let lines =
            [item("error"), item("reasoning"), item("todo_list"), item("mcp_tool_call"), item("file_change")];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(read(Codex::default(), &lines, ExitInfo::code(0)).iterations, 2);
    }

    #[test]
    fn the_last_message_of_the_turn_counts_also_an_empty_one() {
        let run = read(Codex::default(), &[TURN, &said("first"), &said("second"), DONE], ExitInfo::code(0));
        assert_eq!(run.reading.final_message.as_deref(), Some("second"));
        let run = read(Codex::default(), &[TURN, &said("first"), &said(""), DONE], ExitInfo::code(0));
        assert_eq!(run.result, RunResult::InvalidReply);
        for half in [vec![TURN, &said("first"), TURN, DONE], vec![TURN, &said("first")]] {
            assert_eq!(read(Codex::default(), &half, ExitInfo::code(0)).result, RunResult::InvalidReply);
        }
    }

    #[test]
    fn only_a_failed_turn_is_terminal() {
        let error = r#"{"type":"error","message":"Reconnecting... 1/5 (exceeded, last status: 429 Too Many Requests)"}"#;
        let run = read(Codex::default(), &[TURN, error, &said("done"), DONE], ExitInfo::code(0));
        assert_eq!(run.result, RunResult::Succeeded);
        let failed = |message: &str| {
            let line = format!(r#"{{"type":"turn.failed","error":{{"message":"{message}"}}}}"#);
            read(Codex::default(), &[TURN, &line], ExitInfo::code(1)).result
        };
        assert_eq!(failed("unexpected status 401 Unauthorized: no"), RunResult::Unavailable);
        assert_eq!(
            failed("exceeded retry limit, last status: 429 Too Many Requests"),
            RunResult::Unavailable
        );
        assert_eq!(failed("We’re currently experiencing high demand, which may"), RunResult::Unavailable);
        assert_eq!(failed("stream disconnected before completion: stream closed"), RunResult::Failed);
    }

    #[test]
    fn an_error_counts_wherever_it_stands() {
        let of = |lines: &[&str]| read(Codex::default(), lines, ExitInfo::code(0)).result;
        let limit = "last status: 429 Too Many Requests";
        assert_eq!(
            of(&[TURN, &format!(r#"{{"type":"turn.failed","error":"{limit}"}}"#)]),
            RunResult::Unavailable
        );
        assert_eq!(
            of(&[TURN, &format!(r#"{{"type":"turn.failed","message":"{limit}"}}"#)]),
            RunResult::Unavailable
        );
        assert_eq!(
            of(&[TURN, r#"{"type":"turn.failed","error":{"status":"401","detail":["no"]}}"#]),
            RunResult::Unavailable
        );
        let error = format!(r#"{{"type":"error","message":"{limit}"}}"#);
        assert_eq!(of(&[TURN, &error, r#"{"type":"turn.failed"}"#]), RunResult::Unavailable);
        assert_eq!(of(&[TURN, &error]), RunResult::Unavailable, "the program died before it said so");
        assert_eq!(of(&[TURN, r#"{"type":"turn.failed","error":null}"#]), RunResult::Failed);
        assert_eq!(of(&[TURN, &error, &said(""), DONE]), RunResult::InvalidReply, "it had gone on");
    }

    #[test]
    fn fields_that_are_missing_or_of_another_kind_cost_only_themselves() {
        let lines = [
            TURN,
            r#"{"type":"item.completed","item":{"type":"command_execution","command":["ls"],"changes":3}}"#,
            r#"{"type":"item.completed","item":{"id":7,"type":"agent_message","text":"Done.","command":{}}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":"12","output_tokens":{},"new":[1]}}"#,
        ];
        let run = read(Codex::default(), &lines, ExitInfo::code(0));
        assert_eq!((run.result, run.iterations), (RunResult::Succeeded, 2));
        assert_eq!((run.reading.usage.input_tokens, run.reading.usage.output_tokens), (Some(12), None));
    }

    #[test]
    fn lines_that_are_no_events_are_ignored() {
        let run = read(
            Codex::default(),
            &["", "panic!", "[1]", r#"{"type":"novel.thing","x":1}"#],
            ExitInfo::code(0),
        );
        assert_eq!((run.iterations, run.activities.len()), (0, 0));
    }

    #[test]
    fn a_builder_writes_in_its_workspace_and_a_reader_gets_no_project_documents() {
        let builder = Codex::default().command(&spec(RoleName::Builder));
        assert!(builder.argv.windows(2).any(|pair| pair == ["-s", "workspace-write"]));
        assert_eq!(builder.argv.last().map(String::as_str), Some("-"));
        assert!(builder.env.contains(&("CODEX_HOME".into(), "/home/agent/.codex".into())));
        let reviewer = Codex::default().command(&spec(RoleName::Reviewer));
        assert!(reviewer.argv.windows(2).any(|pair| pair == ["-s", "danger-full-access"]));
        assert!(reviewer.argv.iter().any(|arg| arg == "project_doc_max_bytes=0"));
        let mut bare = spec(RoleName::Reviewer);
        bare.sandboxed = false;
        assert!(Codex::default().command(&bare).argv.windows(2).any(|pair| pair == ["-s", "read-only"]));
        let disables = |role, feature: &str| {
            let argv = Codex::default().command(&spec(role)).argv;
            argv.windows(2).any(|pair| pair[0] == "--disable" && pair[1] == feature)
        };
        assert!(disables(RoleName::Planner, "shell_tool") && !disables(RoleName::Reviewer, "shell_tool"));
        assert!(RoleName::ALL.iter().all(|role| disables(*role, "multi_agent")));
    }

    #[test]
    fn model_and_effort_of_the_profile_are_arguments() {
        let mut run = spec(RoleName::Builder);
        run.model = Some("m1".into());
        run.effort = Some("high".into());
        let argv = Codex::default().command(&run).argv;
        assert!(argv.windows(2).any(|pair| pair == ["-m", "m1"]));
        assert!(argv.windows(2).any(|pair| pair == ["-c", "model_reasoning_effort=\"high\""]));
    }
}

//! `opencode run --format json`.
//!
//! Facts that this reader rests on, each seen in a recorded run: an iteration is a `step_finish`; usage is
//! told per step; a tool is shown when it has finished; there is no closing event, so a run is whole when
//! its last step finished with reason `stop`; `unknown` is a stream that was cut, which it tries again for
//! ever; an `error` is terminal and carries a status.

use board_core::model::profile::RoleName;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::failure::{Failure, status_beside, told_in};
use super::lax::{self, Lax, lax_object};
use super::{Adapter, CommandSpec, Event, ExitInfo, Reading, RunSpec, Tail, activity, add};

/// Its configuration as an environment variable, which counts above every file.
const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";

/// Reads the events of opencode.
#[derive(Debug, Default)]
pub struct Opencode {
    text: Tail,
    /// Why the last step finished; none while it goes on.
    finished: Option<String>,
    reading: Reading,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type", default)]
    kind: Lax<String>,
    #[serde(default)]
    part: Lax<Part>,
    #[serde(default)]
    error: Lax<Value>,
    #[serde(default)]
    message: Lax<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Part {
    #[serde(default)]
    text: Lax<String>,
    #[serde(default)]
    tool: Lax<String>,
    #[serde(default)]
    state: Lax<State>,
    #[serde(default)]
    reason: Lax<String>,
    #[serde(default)]
    tokens: Lax<Tokens>,
    #[serde(default)]
    cost: Lax<f64>,
}

#[derive(Debug, Deserialize)]
struct State {
    #[serde(default)]
    title: Lax<String>,
    #[serde(default)]
    input: Lax<Value>,
}

#[derive(Debug, Deserialize)]
struct Tokens {
    #[serde(default)]
    total: Lax<u64>,
    #[serde(default)]
    input: Lax<u64>,
    #[serde(default)]
    output: Lax<u64>,
    #[serde(default)]
    reasoning: Lax<u64>,
    #[serde(default)]
    cache: Lax<Cache>,
}

#[derive(Debug, Deserialize)]
struct Cache {
    #[serde(default)]
    read: Lax<u64>,
}

lax_object!(Part, State, Tokens, Cache);

impl Adapter for Opencode {
    fn command(&self, run: &RunSpec) -> CommandSpec {
        let mut argv = run.program.clone();
        argv.extend(["run", "--format", "json"].map(str::to_owned));
        match run.role {
            RoleName::Builder => {}
            RoleName::Reviewer | RoleName::Researcher | RoleName::Planner => argv.push("--pure".to_owned()),
        }
        argv.extend(["--dir".to_owned(), run.directory.display().to_string()]);
        // Without a title it asks the model for one.
        argv.extend(["--title", "board-agent"].map(str::to_owned));
        if let Some(model) = &run.model {
            argv.extend(["-m".to_owned(), model.clone()]);
        }
        if let Some(effort) = &run.effort {
            argv.extend(["--variant".to_owned(), effort.clone()]);
        }
        argv.extend(run.args.iter().cloned());
        let (mut env, configured): (Vec<_>, Vec<_>) =
            run.env.iter().cloned().partition(|(name, _)| name != CONFIG);
        let configured = configured.last().map_or("", |(_, value)| value);
        env.push((CONFIG.to_owned(), config(run.role, configured).to_string()));
        let mut flags = vec!["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE"];
        match run.role {
            RoleName::Builder => {}
            RoleName::Reviewer | RoleName::Researcher | RoleName::Planner => {
                flags.extend(["CLAUDE_CODE", "PROJECT_CONFIG", "DEFAULT_PLUGINS", "EXTERNAL_SKILLS"]);
            }
        }
        env.extend(flags.iter().map(|flag| (format!("OPENCODE_DISABLE_{flag}"), "1".to_owned())));
        env.push(("OPENCODE_DB".to_owned(), ":memory:".to_owned()));
        CommandSpec {
            argv,
            env,
            home_directories: vec![".local/share/opencode", ".config/opencode"],
            ..CommandSpec::default()
        }
    }

    fn event(&mut self, line: &[u8]) -> Vec<Event> {
        let Some(raw) = lax::object::<Raw>(line) else { return Vec::new() };
        let nothing = Part::default();
        let part = raw.part.get().unwrap_or(&nothing);
        match raw.kind.text() {
            "step_start" => {
                self.text = Tail::default();
                self.finished = None;
                Vec::new()
            }
            "text" => {
                self.text = Tail::of(part.text.text());
                activity(part.text.text())
            }
            "tool_use" => {
                self.text = Tail::default();
                activity(&format!("{} {}", part.tool.text(), about(part.state.get())))
            }
            "step_finish" => self.step(part),
            "error" => {
                let error = raw.error.get();
                let told = error.map(told_in).unwrap_or_default();
                let told = if told.is_empty() { raw.message.text() } else { &told };
                let mut failure = Failure::of(told, error.and_then(status_beside));
                if failure.kind.is_unavailable() && failure.retry_after.is_none() {
                    failure.retry_after = error.and_then(retry_after);
                }
                let said = activity(told);
                self.reading.failure = Some(failure);
                said
            }
            _ => Vec::new(),
        }
    }

    fn reading(&self, _: ExitInfo) -> Reading {
        let mut reading = self.reading.clone();
        match self.finished.as_deref() {
            // A step without a reason is one of a version that does not tell it.
            Some("stop" | "") => (reading.final_message, reading.cut) = self.text.finish(),
            // It went on to its tools and never came back.
            Some("tool-calls") | None => {}
            Some(reason) => {
                let told = format!("the last step ended for the reason „{reason}“");
                reading.failure.get_or_insert_with(|| Failure::of(&told, None));
            }
        }
        reading
    }
}

impl Opencode {
    fn step(&mut self, part: &Part) -> Vec<Event> {
        self.finished = Some(part.reason.text().to_owned());
        let mut events = vec![Event::Iteration];
        let usage = &mut self.reading.usage;
        if let Some(cost) = part.cost.0.filter(|cost| cost.is_finite()) {
            usage.cost_usd = Some(usage.cost_usd.unwrap_or(0.0) + cost);
        }
        if let Some(told) = part.tokens.get() {
            let read = told.cache.get().and_then(|cache| cache.read.0);
            add(&mut usage.input_tokens, told.input.0);
            add(&mut usage.cached_input_tokens, read);
            add(&mut usage.output_tokens, told.output.0);
            // What came from a cache and what was thought are told beside the rest, not within it.
            let all = [told.input.0, read, told.output.0, told.reasoning.0].into_iter().flatten();
            events.push(Event::Tokens(told.total.0.unwrap_or_else(|| all.fold(0, u64::saturating_add))));
        }
        events
    }
}

/// What a tool did, in a few words.
fn about(state: Option<&State>) -> &str {
    let Some(state) = state else { return "" };
    let of_input = || {
        let input = state.input.get()?;
        ["command", "filePath", "path", "pattern"].iter().find_map(|key| input.get(key)?.as_str())
    };
    of_input().unwrap_or(state.title.text())
}

/// Seconds of the header that came with an error.
fn retry_after(error: &Value) -> Option<u32> {
    let headers = error.get("data")?.get("responseHeaders")?.as_object()?;
    let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"))?;
    let seconds: u32 = value.as_str()?.trim().parse().ok().filter(|seconds| *seconds > 0)?;
    Some(seconds.min(super::failure::MAX_RETRY_AFTER_S))
}

/// What the role may, over what the operator configured in the same variable.
fn config(role: RoleName, configured: &str) -> Value {
    let mut config = match serde_json::from_str(configured) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    };
    config.insert("autoupdate".to_owned(), Value::Bool(false));
    config.insert("share".to_owned(), json!("disabled"));
    // Its own git repository of every step; the wrapper makes the commit.
    config.insert("snapshot".to_owned(), Value::Bool(false));
    // Agents of its own („task“) would work in steps that no event tells of, beyond every limit.
    let permission = match role {
        RoleName::Builder => {
            json!({"edit": "allow", "bash": "allow", "task": "deny", "external_directory": "deny"})
        }
        RoleName::Reviewer | RoleName::Researcher => json!({
            "edit": "deny", "bash": "deny", "webfetch": "deny", "websearch": "deny", "task": "deny", "skill": "deny",
            "external_directory": "deny"
        }),
        RoleName::Planner => json!({"*": "deny"}),
    };
    config.insert("permission".to_owned(), permission);
    match role {
        RoleName::Builder => {}
        RoleName::Reviewer | RoleName::Researcher | RoleName::Planner => {
            config.insert("instructions".to_owned(), json!([]));
            config.insert("mcp".to_owned(), json!({}));
            config.insert("plugin".to_owned(), json!([]));
        }
    }
    Value::Object(config)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{read, spec};
    use super::*;
    use board_core::model::outcome::RunResult;

    const START: &str = r#"{"type":"step_start","part":{"type":"step-start"}}"#;
    const TOOL: &str = r#"{"type":"tool_use","part":{"type":"tool","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"title":"ls"}}}"#;

    fn said(text: &str) -> String {
        format!(r#"{{"type":"text","part":{{"type":"text","text":"{text}"}}}}"#)
    }

    fn step(reason: &str) -> String {
        format!(
            r#"{{"type":"step_finish","part":{{"reason":"{reason}","tokens":{{"total":120,"input":60,"output":15,"reasoning":5,"cache":{{"write":0,"read":40}}}},"cost":0.5}}}}"#
        )
    }

    fn ended(lines: &[&str], code: i32) -> super::super::fixtures::Read {
        read(Opencode::default(), lines, ExitInfo::code(code))
    }

    #[test]
    fn steps_are_iterations_and_usage_is_their_sum() {
        let run = ended(
            &[START, &said("I look."), TOOL, &step("tool-calls"), START, &said("All done."), &step("stop")],
            0,
        );
        assert_eq!((run.result, run.iterations), (RunResult::Succeeded, 2));
        assert_eq!(run.reading.final_message.as_deref(), Some("All done."));
        let usage = &run.reading.usage;
        assert_eq!(
            (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.cost_usd),
            (Some(120), Some(80), Some(30), Some(1.0))
        );
        assert_eq!(run.activities, ["I look.", "bash ls", "All done."]);
    }

    #[test]
    fn a_run_is_whole_only_when_its_last_step_stopped() {
        assert_eq!(ended(&[START, &said("Half")], 0).result, RunResult::InvalidReply);
        assert_eq!(ended(&[START, &said("Half"), &step("tool-calls")], 0).result, RunResult::InvalidReply);
        assert_eq!(ended(&[START, &said("Half"), &step("unknown")], 0).result, RunResult::Failed);
        assert_eq!(ended(&[START, &said("Half"), &step("length")], 0).result, RunResult::Failed);
        assert_eq!(ended(&[START, &step("stop")], 0).result, RunResult::InvalidReply);
        let again = [START, &said("Half"), &step("unknown"), START, &said("Whole"), &step("stop")];
        assert_eq!(ended(&again, 0).result, RunResult::Succeeded);
    }

    #[test]
    fn an_error_is_terminal_and_its_status_counts() {
        let of = |data: &str| {
            ended(&[&format!(r#"{{"type":"error","error":{{"name":"APIError","data":{data}}}}}"#)], 1)
        };
        assert_eq!(of(r#"{"message":"no","statusCode":401}"#).result, RunResult::Unavailable);
        assert_eq!(of(r#"{"message":"no","statusCode":"503"}"#).result, RunResult::Unavailable);
        assert_eq!(of(r#"{"message":"no","statusCode":400}"#).result, RunResult::Failed);
        let quota = of(r#"{"message":"x","statusCode":429,"responseHeaders":{"Retry-After":"17"}}"#);
        assert_eq!(quota.result, RunResult::Unavailable);
        assert_eq!(quota.reading.failure.unwrap().retry_after, Some(17));
        assert_eq!(ended(&[r#"{"type":"error","error":"fetch failed"}"#], 1).result, RunResult::Unavailable);
    }

    #[test]
    fn a_reader_writes_nothing_and_the_configured_provider_stays() {
        let mut run = spec(RoleName::Planner);
        run.env.push((
            CONFIG.into(),
            r#"{"provider":{"p":{}},"permission":{"bash":"allow"},"mcp":{"x":{}}}"#.into(),
        ));
        let command = Opencode::default().command(&run);
        let all: Vec<_> = command.env.iter().filter(|(name, _)| name == CONFIG).collect();
        let config: Value = serde_json::from_str(&all[0].1).unwrap();
        assert_eq!((all.len(), &config["permission"]), (1, &json!({"*": "deny"})));
        assert_eq!((&config["provider"], &config["mcp"]), (&json!({"p": {}}), &json!({})));
        assert!(command.argv.contains(&"--pure".to_owned()));
        let builder = Opencode::default().command(&spec(RoleName::Builder));
        assert!(!builder.argv.contains(&"--pure".to_owned()));
        assert!(
            builder.env.iter().any(|(name, value)| name == CONFIG && value.contains(r#""edit":"allow""#))
        );
    }
}

//! Any agent of the Agent Client Protocol, version 1, on its stdin and stdout.
//!
//! The one runtime that is a conversation: initialize, a session in the directory, one prompt, and answers to
//! what the agent asks meanwhile. It is still pure: a line goes in, events come out, and what is to be sent
//! is one of them. An iteration is a `tool_call`; the final message is what was said after the last of them;
//! the end is the answer to the prompt, since some agents go on running when their stdin is closed.
//!
//! A permission is given once to a builder, whose limits are the sandbox's; a reader's only for reading and a
//! planner's never. What is not known is refused.

mod wire;

use board_core::model::profile::RoleName;
use serde_json::{Value, json};

use self::wire::{AUTH_REQUIRED, Answer, Incoming, Params, Update, VERSION};
use super::failure::{Failure, FailureKind, status_beside, told_in};
use super::{Adapter, CommandSpec, Event, ExitInfo, Opening, Reading, RunSpec, Tail, activity, lax};

/// Our questions, by their ids.
const INITIALIZE: u64 = 0;
const NEW_SESSION: u64 = 1;
const SET_MODEL: u64 = 2;
const PROMPT: u64 = 3;

/// Kinds of tools that only look.
const LOOKING: [&str; 3] = ["read", "search", "think"];

/// Longest id of a session that is repeated to the agent, in bytes.
const MAX_SESSION_BYTES: usize = 4_096;

/// Speaks with an agent.
#[derive(Debug)]
pub struct Acp {
    role: RoleName,
    directory: String,
    model: Option<String>,
    prompt: String,
    /// The question whose answer is waited for; none once the conversation is over.
    waits_for: Option<u64>,
    session: String,
    cancelled: bool,
    text: Tail,
    message_id: String,
    /// The last tool that was announced, with its kind: a permission does not always repeat it.
    tool: (String, String),
    completed: bool,
    reading: Reading,
}

impl Default for Acp {
    /// Knows nothing of the run before [`Acp::for_run`], and so permits nothing.
    fn default() -> Acp {
        Acp {
            role: RoleName::Planner,
            directory: "/".to_owned(),
            model: None,
            prompt: String::new(),
            waits_for: Some(INITIALIZE),
            session: String::new(),
            cancelled: false,
            text: Tail::default(),
            message_id: String::new(),
            tool: (String::new(), String::new()),
            completed: false,
            reading: Reading::default(),
        }
    }
}

impl Acp {
    /// For this run.
    pub fn for_run(run: &RunSpec) -> Acp {
        Acp {
            role: run.role,
            directory: run.directory.display().to_string(),
            model: run.model.clone(),
            ..Acp::default()
        }
    }
}

impl Adapter for Acp {
    fn command(&self, run: &RunSpec) -> CommandSpec {
        let argv = run.program.iter().chain(&run.args).cloned().collect();
        CommandSpec { argv, env: run.env.clone(), ..CommandSpec::default() }
    }

    fn open(&mut self, prompt: &[u8]) -> Opening {
        self.prompt = String::from_utf8_lossy(prompt).into_owned();
        Opening { bytes: wire::request(INITIALIZE, "initialize", &wire::initialize()), stays_open: true }
    }

    fn event(&mut self, line: &[u8]) -> Vec<Event> {
        let Some(message) = lax::object::<Incoming>(line) else { return Vec::new() };
        match (message.method.get().map(String::as_str), &message.id) {
            (None, Some(id)) => match id.as_u64().filter(|id| Some(*id) == self.waits_for) {
                Some(id) => self.answered(id, &message),
                // An answer to nothing, or to something long past.
                None => Vec::new(),
            },
            (Some("session/update"), None) => {
                let params = message.params.get().filter(|params| self.is_ours(params));
                params.and_then(|params| params.update.get()).map(|u| self.update(u)).unwrap_or_default()
            }
            (Some("session/request_permission"), Some(id)) if !id.is_null() => {
                let option = message.params.get().and_then(|params| self.permit(params));
                vec![Event::Send(wire::permission(id, option))]
            }
            (Some(_), Some(id)) if !id.is_null() => vec![Event::Send(wire::refusal(id))],
            (Some(_) | None, _) => Vec::new(),
        }
    }

    fn cancel(&mut self) -> Vec<u8> {
        self.cancelled = true;
        if self.waits_for != Some(PROMPT) {
            return Vec::new();
        }
        wire::notice("session/cancel", &json!({"sessionId": self.session}))
    }

    fn reading(&self, _: ExitInfo) -> Reading {
        let mut reading = self.reading.clone();
        reading.over = self.waits_for.is_none();
        if self.completed {
            (reading.final_message, reading.cut) = self.text.finish();
        }
        reading
    }
}

impl Acp {
    /// Whether a notice is of our session. One that names none is.
    fn is_ours(&self, params: &Params) -> bool {
        params.session.get().is_none_or(|session| *session == self.session)
    }

    fn ask(&mut self, id: u64, method: &str, params: &Value) -> Vec<Event> {
        self.waits_for = Some(id);
        vec![Event::Send(wire::request(id, method, params))]
    }

    fn fail(&mut self, failure: Failure) -> Vec<Event> {
        self.reading.failure = Some(failure);
        self.waits_for = None;
        vec![Event::Over]
    }

    fn answered(&mut self, id: u64, message: &Incoming) -> Vec<Event> {
        if let Some(error) = message.error.get().filter(|error| !error.is_null()) {
            // A model that cannot be chosen is told and not more: the session has one.
            if id == SET_MODEL {
                self.reading.last_error = Some(told_in(error));
                return self.send_prompt();
            }
            let status = match error.get("code").and_then(Value::as_i64) {
                Some(AUTH_REQUIRED) => Some(401),
                Some(_) | None => status_beside(error),
            };
            return self.fail(Failure::of(&told_in(error), status));
        }
        let nothing = Answer::default();
        let answer = message.result.get().unwrap_or(&nothing);
        match id {
            INITIALIZE => match answer.version.0 {
                Some(VERSION) | None => {
                    let params = json!({"cwd": self.directory, "mcpServers": []});
                    self.ask(NEW_SESSION, "session/new", &params)
                }
                Some(other) => {
                    let told = format!("the agent speaks version {other} of the protocol, not {VERSION}");
                    self.fail(Failure::of(&told, None))
                }
            },
            NEW_SESSION => self.session_is_there(answer),
            SET_MODEL => {
                self.reading.model.clone_from(&self.model);
                self.send_prompt()
            }
            _ => self.prompt_is_answered(answer),
        }
    }

    fn session_is_there(&mut self, answer: &Answer) -> Vec<Event> {
        let session = answer.session.text();
        if session.is_empty() || session.len() > MAX_SESSION_BYTES {
            return self.fail(Failure::of("the agent gave no session", None));
        }
        session.clone_into(&mut self.session);
        let Some(models) = answer.models.get() else { return self.send_prompt() };
        self.reading.model.clone_from(&models.current.0);
        let wanted = self.model.clone().filter(|model| Some(model) != models.current.get());
        match wanted.filter(|model| {
            models.available.get().into_iter().flatten().any(|offered| offered.id.text() == model)
        }) {
            Some(model) => {
                let params = json!({"sessionId": self.session, "modelId": model});
                self.ask(SET_MODEL, "session/set_model", &params)
            }
            None => self.send_prompt(),
        }
    }

    fn send_prompt(&mut self) -> Vec<Event> {
        let text = std::mem::take(&mut self.prompt);
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]});
        self.ask(PROMPT, "session/prompt", &params)
    }

    fn prompt_is_answered(&mut self, answer: &Answer) -> Vec<Event> {
        let failure = match answer.stop_reason.text() {
            // The field is there in every version; one that left it out has still answered.
            "end_turn" | "" => None,
            "max_turn_requests" => Some(Failure::known(FailureKind::OwnLimit, "max turn requests")),
            other => Some(Failure::of(&format!("the turn ended for the reason „{other}“"), None)),
        };
        self.completed = failure.is_none();
        self.reading.failure = failure;
        self.waits_for = None;
        let mut events = self.usage(answer);
        events.push(Event::Over);
        events
    }

    fn usage(&mut self, answer: &Answer) -> Vec<Event> {
        let of_meta = || {
            let told = answer.meta.get()?.get("quota")?.get("token_count")?;
            serde_json::from_value::<wire::Usage>(told.clone()).ok()
        };
        let other;
        let told = match answer.usage.get() {
            Some(told) => told,
            None => match of_meta() {
                Some(told) => {
                    other = told;
                    &other
                }
                None => return Vec::new(),
            },
        };
        let usage = &mut self.reading.usage;
        usage.input_tokens = told.input.0;
        usage.cached_input_tokens = told.cached.0;
        usage.output_tokens = told.output.0;
        vec![Event::Tokens(told.input.0.unwrap_or(0).saturating_add(told.output.0.unwrap_or(0)))]
    }

    fn update(&mut self, update: &Update) -> Vec<Event> {
        if self.waits_for != Some(PROMPT) {
            return Vec::new();
        }
        match update.kind.text() {
            "agent_message_chunk" => {
                let text = text_of(update.content.get());
                let id = update.message_id.text();
                if id != self.message_id {
                    id.clone_into(&mut self.message_id);
                    self.text = Tail::default();
                }
                self.text.push(&text);
                activity(&text)
            }
            "agent_thought_chunk" => activity(&text_of(update.content.get())),
            "tool_call" => {
                self.text = Tail::default();
                self.tool = (update.tool_call_id.text().to_owned(), update.tool_kind.text().to_owned());
                let mut events = vec![Event::Iteration];
                events.extend(activity(update.title.text()));
                events
            }
            "usage_update" => {
                let cost = update.cost.get().filter(|cost| cost.currency.text().eq_ignore_ascii_case("usd"));
                if let Some(amount) = cost.and_then(|cost| cost.amount.0).filter(|amount| amount.is_finite())
                {
                    self.reading.usage.cost_usd = Some(amount);
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The option that the role takes; none where there is none, or the run is being ended.
    fn permit<'p>(&self, params: &'p Params) -> Option<&'p str> {
        let call = params.tool_call.get();
        let kind = call.map_or("", |call| call.kind.text());
        let id = call.map_or("", |call| call.id.text());
        let kind = if kind.is_empty() && !id.is_empty() && id == self.tool.0 { &self.tool.1 } else { kind };
        let allowed = match self.role {
            RoleName::Builder => true,
            RoleName::Reviewer | RoleName::Researcher => LOOKING.contains(&kind),
            RoleName::Planner => false,
        };
        // Once, and never for always: each is asked for.
        let wanted = if allowed { "allow_once" } else { "reject_once" };
        let options = params.options.get().filter(|_| !self.cancelled && self.is_ours(params))?;
        let taken = options.iter().find(|option| option.kind.text() == wanted);
        taken.map(|option| option.id.text()).filter(|id| !id.is_empty())
    }
}

/// The text of a content block.
fn text_of(content: Option<&Value>) -> String {
    content.and_then(|content| content.get("text")?.as_str()).unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests;

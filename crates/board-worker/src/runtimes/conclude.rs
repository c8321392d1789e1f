//! What a run was, decided in one order for every runtime (agents.md, "Runtimes").
//!
//! Our own reason for ending it → a terminal error event or an error status → a final text that begins
//! with or ends in an API error → no final message → exit code. Exit 0 alone proves nothing: one agent
//! reports a 401 as success, another exits 0 on SIGTERM, so the exit code is asked last.

use board_core::model::outcome::RunResult;

use super::failure::{Failure, FailureKind};
use super::{Reading, RunSpec};
use crate::limits::OwnReason;
use crate::words::{Language, pick};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitInfo {
    /// Its exit code; a sandbox tells a signal inside as 128 + n.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether the kernel ended a process of this cgroup for want of memory meanwhile.
    pub out_of_memory: bool,
}

impl ExitInfo {
    /// An exit with this code.
    pub fn code(code: i32) -> ExitInfo {
        ExitInfo { code: Some(code), signal: None, out_of_memory: false }
    }

    /// Whether it ended by SIGKILL, which gave it no time to finish what it wrote.
    pub(crate) fn was_killed(self) -> bool {
        const SIGKILL: i32 = 9;
        self.signal == Some(SIGKILL) || self.code == Some(128 + SIGKILL)
    }
}

/// A result and its sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conclusion {
    /// `Succeeded` means only that there is a final message to be read.
    pub result: RunResult,
    /// For people.
    pub sentence: String,
    /// For `unavailable`: seconds that the runtime asked to wait.
    pub retry_after: Option<u32>,
}

/// Exit code of a shell and of a sandbox for a program that is not there.
const NOT_FOUND: i32 = 127;
/// Exit code of a shell for a program that cannot be executed.
const NOT_EXECUTABLE: i32 = 126;

/// Decides what a run was. `last_stderr` is its last line on stderr, for the sentence alone.
pub fn conclude(
    reading: &Reading,
    exit: ExitInfo,
    own: Option<&OwnReason>,
    last_stderr: &str,
    language: Language,
) -> Conclusion {
    let plain = |result, sentence| Conclusion { result, sentence, retry_after: None };
    if let Some(own) = own {
        return plain(own.result(), own.sentence(language));
    }
    if let Some(failure) = &reading.failure {
        return of_failure(failure, language);
    }
    if let Some(failure) = reading.final_message.as_deref().and_then(api_error) {
        return of_failure(&failure, language);
    }
    if exit.out_of_memory && exit.was_killed() {
        return plain(
            RunResult::Oom,
            pick(
                language,
                "Der Kernel hat den Agenten wegen Speichermangels beendet",
                "The kernel ended the agent for want of memory",
            ),
        );
    }
    // What ended after its conversation was over was ended by us, or of no account.
    let exit = if reading.over { ExitInfo::code(0) } else { exit };
    match (&reading.final_message, exit.code) {
        (Some(_), Some(0)) => plain(RunResult::Succeeded, String::new()),
        // An error that nobody declared terminal, and then nothing: that error was the end of it.
        (None, Some(0)) if reading.last_error.as_deref().is_some_and(|error| !error.is_empty()) => {
            of_failure(&Failure::of(reading.last_error.as_deref().unwrap_or(""), None), language)
        }
        (None, Some(0)) => plain(
            RunResult::InvalidReply,
            pick(
                language,
                "Der Agent endete ohne Schlussnachricht",
                "The agent ended without a final message",
            ),
        ),
        // Without a final message the exit code says more than its absence does.
        (_, _) => of_exit(reading, exit, last_stderr, language),
    }
}

fn of_failure(failure: &Failure, language: Language) -> Conclusion {
    let message = &failure.message;
    let (result, sentence) = match failure.kind {
        FailureKind::Auth => (
            RunResult::Unavailable,
            pick(
                language,
                format!("Anmeldung fehlt oder ist abgelaufen: {message}"),
                format!("Login missing or expired: {message}"),
            ),
        ),
        FailureKind::Quota => (
            RunResult::Unavailable,
            pick(
                language,
                format!("Kontingent oder Anfragelimit erreicht: {message}"),
                format!("Quota or rate limit reached: {message}"),
            ),
        ),
        FailureKind::Server => (
            RunResult::Unavailable,
            pick(
                language,
                format!("Der Dienst ist gestört: {message}"),
                format!("The service has a problem: {message}"),
            ),
        ),
        FailureKind::Network => (
            RunResult::Unavailable,
            pick(
                language,
                format!("Der Dienst ist nicht erreichbar: {message}"),
                format!("The service cannot be reached: {message}"),
            ),
        ),
        FailureKind::OwnLimit => (
            RunResult::Limit,
            pick(
                language,
                format!("Eigenes Limit des Agenten erreicht: {message}"),
                format!("The agent's own limit was reached: {message}"),
            ),
        ),
        FailureKind::Other => (
            RunResult::Failed,
            pick(
                language,
                format!("Der Agent meldete einen Fehler: {message}"),
                format!("The agent reported an error: {message}"),
            ),
        ),
    };
    Conclusion { result, sentence, retry_after: failure.retry_after }
}

/// A final text that is an API error. Agents print it with brackets around it or at the very beginning;
/// the same words inside a report are a report.
fn api_error(text: &str) -> Option<Failure> {
    let text = text.trim();
    let bracketed = text.ends_with(']').then(|| text.rfind("[API Error:")).flatten();
    let inner = match bracketed {
        // One line only: a closing bracket of something else further down is not the error's.
        Some(at) if !text[at..].contains('\n') => &text[at + 1..text.len() - 1],
        Some(_) | None if text.starts_with("API Error:") || text.starts_with("[API Error:") => text,
        Some(_) | None => return None,
    };
    Some(Failure::of(inner, None))
}

fn of_exit(reading: &Reading, exit: ExitInfo, last_stderr: &str, language: Language) -> Conclusion {
    let told = reading.last_error.as_deref().unwrap_or(last_stderr);
    let told = crate::words::first_line(told, 300);
    let with = |sentence: String| if told.is_empty() { sentence } else { format!("{sentence}: {told}") };
    // An error line that nobody declared terminal still tells why an agent gave up.
    if let Some(error) = reading.last_error.as_deref() {
        let failure = Failure::of(error, None);
        if failure.kind.is_unavailable() {
            return of_failure(&failure, language);
        }
    }
    let sentence = match (exit.code, exit.signal) {
        (Some(code), _) => pick(
            language,
            with(format!("Der Agent endete mit Exit-Code {code}")),
            with(format!("The agent ended with exit code {code}")),
        ),
        (None, Some(signal)) => pick(
            language,
            with(format!("Der Agent wurde durch Signal {signal} beendet")),
            with(format!("The agent was ended by signal {signal}")),
        ),
        (None, None) => pick(language, "Der Agent endete ohne Status", "The agent ended without a status"),
    };
    Conclusion { result: RunResult::Failed, sentence, retry_after: None }
}

/// A program that is missing or cannot be executed: not the card's fault.
pub fn not_startable(run: &RunSpec, why: &str, language: Language) -> Conclusion {
    let program = run.program.first().map_or("", String::as_str);
    Conclusion {
        result: RunResult::Unavailable,
        sentence: pick(
            language,
            format!("Das Programm des Agenten lässt sich nicht starten: {program}: {why}"),
            format!("The agent's program cannot be started: {program}: {why}"),
        ),
        retry_after: None,
    }
}

/// Whether an exit code says that the sandbox or a shell found no program to run.
pub fn says_not_startable(exit: ExitInfo) -> bool {
    matches!(exit.code, Some(NOT_FOUND | NOT_EXECUTABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Reading {
        Reading { final_message: Some(text.to_owned()), ..Reading::default() }
    }

    fn result(reading: &Reading, code: i32, own: Option<OwnReason>) -> RunResult {
        conclude(reading, ExitInfo::code(code), own.as_ref(), "", Language::De).result
    }

    #[test]
    fn our_own_reason_counts_before_everything_else() {
        let mut reading = message("done");
        reading.failure = Some(Failure::of("API Error: 401", None));
        assert_eq!(result(&reading, 0, Some(OwnReason::Iterations(20))), RunResult::Limit);
        assert_eq!(result(&message("done"), 0, Some(OwnReason::Stopped)), RunResult::Interrupted);
        assert_eq!(result(&message("done"), 0, Some(OwnReason::Cancelled)), RunResult::Cancelled);
    }

    #[test]
    fn a_terminal_error_counts_before_a_final_message_and_exit_0() {
        let mut reading = message("done");
        reading.failure = Some(Failure::of("exceeded, last status: 429", None));
        assert_eq!(result(&reading, 0, None), RunResult::Unavailable);
        reading.failure = Some(Failure::of("stream closed", None));
        assert_eq!(result(&reading, 0, None), RunResult::Failed);
        reading.failure = Some(Failure::known(FailureKind::OwnLimit, "max turns"));
        assert_eq!(result(&reading, 0, None), RunResult::Limit);
    }

    #[test]
    fn a_final_text_that_is_an_api_error_is_no_success() {
        assert_eq!(result(&message("[API Error: 401 no]"), 0, None), RunResult::Unavailable);
        assert_eq!(
            result(&message("half of it[API Error: stream ended without a finish]"), 0, None),
            RunResult::Failed
        );
        assert_eq!(result(&message("API Error: 500 x"), 0, None), RunResult::Unavailable);
        assert_eq!(result(&message("I fixed how [API Error: 401] is shown."), 0, None), RunResult::Succeeded);
        assert_eq!(
            result(&message("[API Error: 401]\nis now shown, see [1]"), 0, None),
            RunResult::Unavailable
        );
        assert_eq!(result(&message("see [API Error: 401\nand\nmore]"), 0, None), RunResult::Succeeded);
    }

    #[test]
    fn no_final_message_is_an_invalid_reply_unless_the_exit_code_says_more() {
        assert_eq!(result(&Reading::default(), 0, None), RunResult::InvalidReply);
        assert_eq!(result(&Reading::default(), 2, None), RunResult::Failed);
        assert_eq!(result(&message("done"), 0, None), RunResult::Succeeded);
        assert_eq!(result(&message("done"), 1, None), RunResult::Failed);
    }

    #[test]
    fn the_sentence_of_a_failure_names_exit_code_and_last_words() {
        let said = conclude(&Reading::default(), ExitInfo::code(2), None, "bad flag\n", Language::De);
        assert_eq!(said.sentence, "Der Agent endete mit Exit-Code 2: bad flag");
        let killed = ExitInfo { code: None, signal: Some(11), out_of_memory: false };
        let said = conclude(&message("x"), killed, None, "", Language::En);
        assert_eq!(
            (said.result, said.sentence.as_str()),
            (RunResult::Failed, "The agent was ended by signal 11")
        );
    }

    #[test]
    fn a_kill_while_the_kernel_was_short_of_memory_is_oom() {
        let killed = ExitInfo { code: Some(137), signal: None, out_of_memory: true };
        assert_eq!(conclude(&Reading::default(), killed, None, "", Language::De).result, RunResult::Oom);
        let other = ExitInfo { out_of_memory: true, ..ExitInfo::code(0) };
        assert_eq!(conclude(&message("x"), other, None, "", Language::De).result, RunResult::Succeeded);
    }

    #[test]
    fn a_conversation_that_is_over_is_not_judged_by_the_exit() {
        let over = Reading { over: true, ..message("done") };
        assert_eq!(result(&over, 143, None), RunResult::Succeeded);
        assert_eq!(result(&Reading { over: true, ..Reading::default() }, 1, None), RunResult::InvalidReply);
    }

    #[test]
    fn an_error_after_which_nothing_came_is_the_end_also_with_exit_0() {
        let of = |error: &str| Reading { last_error: Some(error.into()), ..Reading::default() };
        assert_eq!(result(&of("last status: 429"), 0, None), RunResult::Unavailable);
        assert_eq!(result(&of("stream ended"), 0, None), RunResult::Failed);
        assert_eq!(result(&of(""), 0, None), RunResult::InvalidReply);
    }

    #[test]
    fn an_error_that_was_not_terminal_still_tells_why_an_agent_gave_up() {
        let reading =
            Reading { last_error: Some("last status: 429, try again in 20s".into()), ..Reading::default() };
        let said = conclude(&reading, ExitInfo::code(1), None, "", Language::De);
        assert_eq!((said.result, said.retry_after), (RunResult::Unavailable, Some(20)));
    }

    #[test]
    fn every_runtime_that_is_told_to_wait_is_unavailable_for_as_long() {
        use super::super::{
            acp::Acp, claude::Claude, codex::Codex, command, fixtures, gemini::Gemini, opencode,
        };
        const WAIT: &str = "Rate limit reached. Please try again in 20s";
        let of = |adapter: &mut dyn super::super::Adapter, lines: &[&str], code: i32| {
            for line in lines {
                adapter.event(line.replace("WAIT", WAIT).as_bytes());
            }
            let exit = ExitInfo::code(code);
            let said = conclude(&adapter.reading(exit), exit, None, "", Language::De);
            (said.result, said.retry_after)
        };
        let expected = (RunResult::Unavailable, Some(20));
        let codex = r#"{"type":"turn.failed","error":{"message":"WAIT"}}"#;
        assert_eq!(of(&mut Codex::default(), &[codex], 1), expected);
        assert_eq!(of(&mut command::Spoken(Codex::default()), &[codex], 0), expected);
        let claude = r#"{"type":"result","is_error":true,"api_error_status":429,"result":"API Error: WAIT"}"#;
        assert_eq!(of(&mut Claude::default(), &[claude], 1), expected);
        let qwen = r#"{"type":"result","subtype":"success","is_error":false,"result":"[API Error: WAIT]"}"#;
        assert_eq!(of(&mut Claude::default(), &[qwen], 0), expected);
        let gemini = r#"{"type":"result","status":"error","error":{"message":"WAIT"}}"#;
        assert_eq!(of(&mut Gemini::default(), &[gemini], 1), expected);
        let error =
            r#"{"type":"error","error":{"name":"APIError","data":{"message":"WAIT","statusCode":429}}}"#;
        assert_eq!(of(&mut opencode::Opencode::default(), &[error], 1), expected);
        let mut acp = Acp::for_run(&fixtures::spec(board_core::model::profile::RoleName::Builder));
        let refused =
            r#"{"id":0,"error":{"code":-32603,"message":"Internal error","data":{"details":"WAIT"}}}"#;
        assert_eq!(of(&mut acp, &[refused], 0), expected);
        assert_eq!(of(&mut command::Text::default(), &["API Error: WAIT"], 0), expected);
    }
}

//! What a run may use, counted by the harness whatever the model says.
//!
//! Apart from the supervisor, so that every limit is a number against a counter and nothing else: no
//! process and no clock is needed to test it. A run is ended on the event *after* the last allowed one,
//! because an agent has already sent its next request when the last allowed event is seen.

use std::time::Duration;

use board_core::model::outcome::RunResult;

use crate::words::{Language, pick, size, span};

/// Output of one run, both streams together, in bytes (agents.md, "Limits").
pub const MAX_OUTPUT_BYTES: u64 = 256 << 20;

/// One line of output, in bytes; longer ones are cut, counted and the run goes on.
pub const MAX_LINE_BYTES: usize = 4 << 20;

/// How often the disk is looked at during a run.
pub const DISK_CHECK_EVERY: Duration = Duration::from_secs(10);

/// How long an agent has between SIGTERM and SIGKILL. Longer would let one that answers SIGTERM with
/// another turn of its model go on working.
pub const KILL_GRACE: Duration = Duration::from_secs(2);

/// How long an agent that was told in its own words to end has before the signal.
pub const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// What an agent may leave unread of what it is told, in bytes. A prompt alone may be longer.
pub const MAX_UNREAD_BYTES: usize = 1 << 20;

/// What one run may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLimits {
    /// Iterations, frozen in the job.
    pub iterations: u32,
    /// Wall-clock time.
    pub wall: Duration,
    /// Time without any event.
    pub idle: Duration,
    /// Bytes of both streams.
    pub output_bytes: u64,
    /// Bytes of one line.
    pub line_bytes: usize,
    /// Tokens, where the runtime reports them.
    pub tokens: Option<u64>,
}

/// Why we ended a run ourselves. It counts before anything that the agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnReason {
    /// More iterations than these.
    Iterations(u32),
    /// More output than so many bytes.
    Output(u64),
    /// More tokens than these.
    Tokens(u64),
    /// The disk; the text is the whole sentence.
    Disk(String),
    /// Longer than this.
    WallTime(Duration),
    /// No event for this long.
    Idle(Duration),
    /// The operator asked for it.
    Cancelled,
    /// The worker itself was asked to stop.
    Stopped,
}

impl OwnReason {
    /// The result that an outcome gets for it.
    pub fn result(&self) -> RunResult {
        match self {
            OwnReason::Iterations(_) | OwnReason::Output(_) | OwnReason::Tokens(_) | OwnReason::Disk(_) => {
                RunResult::Limit
            }
            OwnReason::WallTime(_) => RunResult::Timeout,
            OwnReason::Idle(_) => RunResult::Stalled,
            OwnReason::Cancelled => RunResult::Cancelled,
            OwnReason::Stopped => RunResult::Interrupted,
        }
    }

    /// The sentence for people.
    pub fn sentence(&self, language: Language) -> String {
        match self {
            OwnReason::Iterations(n) => pick(
                language,
                format!("Iterationslimit {n} erreicht"),
                format!("Limit of {n} iterations reached"),
            ),
            OwnReason::Output(bytes) => pick(
                language,
                format!("Ausgabelimit {} erreicht", size(*bytes)),
                format!("Limit of {} of output reached", size(*bytes)),
            ),
            OwnReason::Tokens(n) => {
                pick(language, format!("Tokenlimit {n} erreicht"), format!("Limit of {n} tokens reached"))
            }
            OwnReason::Disk(sentence) => sentence.clone(),
            OwnReason::WallTime(time) => pick(
                language,
                format!("Zeitlimit {} erreicht", span(*time)),
                format!("Time limit of {} reached", span(*time)),
            ),
            OwnReason::Idle(time) => pick(
                language,
                format!("Seit {} kein Lebenszeichen", span(*time)),
                format!("No sign of life for {}", span(*time)),
            ),
            OwnReason::Cancelled => pick(language, "Abgebrochen", "Cancelled"),
            OwnReason::Stopped => pick(
                language,
                "Unterbrochen: der Dienst wurde angehalten",
                "Interrupted: the service was stopped",
            ),
        }
    }
}

/// The counters of one run against its limits.
#[derive(Debug, Clone)]
pub struct Meter {
    limits: RunLimits,
    iterations: u32,
    output: u64,
    tokens: u64,
}

impl Meter {
    /// All counters at nought.
    pub fn new(limits: RunLimits) -> Meter {
        Meter { limits, iterations: 0, output: 0, tokens: 0 }
    }

    /// The limits counted against.
    pub fn limits(&self) -> &RunLimits {
        &self.limits
    }

    /// Iterations used; the one that ended the run is not counted as used.
    pub fn iterations(&self) -> u32 {
        self.iterations.min(self.limits.iterations)
    }

    /// One more iteration.
    pub fn iteration(&mut self) -> Option<OwnReason> {
        self.iterations = self.iterations.saturating_add(1);
        (self.iterations > self.limits.iterations).then_some(OwnReason::Iterations(self.limits.iterations))
    }

    /// So many more bytes of output.
    pub fn output(&mut self, bytes: u64) -> Option<OwnReason> {
        self.output = self.output.saturating_add(bytes);
        (self.output > self.limits.output_bytes).then_some(OwnReason::Output(self.limits.output_bytes))
    }

    /// So many more tokens, in and out together.
    pub fn tokens(&mut self, tokens: u64) -> Option<OwnReason> {
        self.tokens = self.tokens.saturating_add(tokens);
        let most = self.limits.tokens?;
        (self.tokens > most).then_some(OwnReason::Tokens(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> RunLimits {
        RunLimits {
            iterations: 20,
            wall: Duration::from_secs(7200),
            idle: Duration::from_secs(600),
            output_bytes: MAX_OUTPUT_BYTES,
            line_bytes: MAX_LINE_BYTES,
            tokens: Some(1000),
        }
    }

    #[test]
    fn a_run_is_ended_on_the_event_after_the_last_allowed_one() {
        let mut meter = Meter::new(limits());
        for _ in 0..20 {
            assert_eq!(meter.iteration(), None);
        }
        assert_eq!(meter.iteration(), Some(OwnReason::Iterations(20)));
        assert_eq!(meter.iterations(), 20);
    }

    #[test]
    fn output_and_tokens_may_reach_their_limit_and_not_pass_it() {
        let mut meter = Meter::new(limits());
        assert_eq!(meter.output(MAX_OUTPUT_BYTES), None);
        assert_eq!(meter.output(1), Some(OwnReason::Output(MAX_OUTPUT_BYTES)));
        assert_eq!(meter.tokens(1000), None);
        assert_eq!(meter.tokens(1), Some(OwnReason::Tokens(1000)));
        let mut free = Meter::new(RunLimits { tokens: None, ..limits() });
        assert_eq!(free.tokens(u64::MAX), None);
    }

    #[test]
    fn each_reason_has_its_own_sentence_and_result() {
        let said = |reason: OwnReason| (reason.result(), reason.sentence(Language::De));
        assert_eq!(
            said(OwnReason::Iterations(20)),
            (RunResult::Limit, "Iterationslimit 20 erreicht".to_owned())
        );
        assert_eq!(
            said(OwnReason::Output(256 << 20)),
            (RunResult::Limit, "Ausgabelimit 256 MiB erreicht".to_owned())
        );
        assert_eq!(said(OwnReason::Tokens(5)), (RunResult::Limit, "Tokenlimit 5 erreicht".to_owned()));
        assert_eq!(
            said(OwnReason::WallTime(Duration::from_secs(7200))),
            (RunResult::Timeout, "Zeitlimit 2 h erreicht".to_owned())
        );
        assert_eq!(
            said(OwnReason::Idle(Duration::from_secs(600))),
            (RunResult::Stalled, "Seit 10 min kein Lebenszeichen".to_owned())
        );
        assert_eq!(said(OwnReason::Cancelled), (RunResult::Cancelled, "Abgebrochen".to_owned()));
        assert_eq!(OwnReason::Stopped.result(), RunResult::Interrupted);
        assert_eq!(OwnReason::Disk("voll".into()).sentence(Language::En), "voll");
    }
}

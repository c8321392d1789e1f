//! `command` with `events = "text"`: any program, prompt on stdin, all of stdout is the final message.
//!
//! There is nothing to count in plain text, so only the limits of time and output apply, and stderr is
//! a sign of life as well. Programs that print the events of another runtime are read by that
//! runtime's reader, with this command line ([`Spoken`]).

use super::{Adapter, CommandSpec, Event, ExitInfo, Reading, RunSpec, Tail, activity};

/// A program that prints plain text.
#[derive(Debug, Default)]
pub struct Text {
    output: Tail,
}

impl Adapter for Text {
    fn command(&self, run: &RunSpec) -> CommandSpec {
        plain(run)
    }

    fn event(&mut self, line: &[u8]) -> Vec<Event> {
        let text = String::from_utf8_lossy(line);
        self.output.push(&text);
        self.output.push("\n");
        activity(&text)
    }

    fn cut_event(&mut self, start: &[u8]) -> Vec<Event> {
        self.event(start)
    }

    fn reading(&self, _: ExitInfo) -> Reading {
        let (final_message, cut) = self.output.finish();
        Reading { final_message, cut, ..Reading::default() }
    }

    fn stderr_is_life(&self) -> bool {
        true
    }
}

/// A program of one's own that prints the events of another runtime.
#[derive(Debug, Default)]
pub struct Spoken<A>(pub A);

impl<A: Adapter> Adapter for Spoken<A> {
    fn command(&self, run: &RunSpec) -> CommandSpec {
        plain(run)
    }

    fn event(&mut self, line: &[u8]) -> Vec<Event> {
        self.0.event(line)
    }

    fn reading(&self, exit: ExitInfo) -> Reading {
        self.0.reading(exit)
    }
}

/// The configured command line as it is: a model or an effort is the program's own business.
fn plain(run: &RunSpec) -> CommandSpec {
    let argv = run.program.iter().chain(&run.args).cloned().collect();
    CommandSpec { argv, env: run.env.clone(), ..CommandSpec::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_stdout_is_the_final_message_and_nothing_is_counted() {
        let mut text = Text::default();
        assert_eq!(text.event(b"first \xff"), [Event::Activity("first \u{fffd}".into())]);
        assert_eq!(text.event(b""), []);
        text.event(b"last");
        let reading = text.reading(ExitInfo::code(0));
        assert_eq!(reading.final_message.as_deref(), Some("first \u{fffd}\n\nlast\n"));
        assert!(!reading.cut);
    }

    #[test]
    fn nothing_printed_is_no_final_message() {
        let mut text = Text::default();
        text.event(b"  ");
        assert_eq!(text.reading(ExitInfo::code(0)).final_message, None);
    }
}

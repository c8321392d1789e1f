//! What the operator sees: lines on stdout, one sentence on stderr, an exit code.
//!
//! Apart so that three things hold for every command: colour only on a terminal, a closed pipe ends it
//! quietly (`boardctl list | head -1`), and an exit code means the same everywhere.
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use board_core::edge::settings::Language;

use crate::words;

/// Something was found (a fault in a file, a state that cannot be read), or a run failed.
pub(crate) const FAILED: u8 = 1;
/// The command line is wrong. clap ends with the same.
pub(crate) const USAGE: u8 = 2;
/// The board cannot be reached.
pub(crate) const UNREACHABLE: u8 = 3;
/// The board refused: the card stands elsewhere, a limit, no right to it.
pub(crate) const REFUSED: u8 = 4;

/// An end that is not success, where its exit code is not [`FAILED`] or nothing is left to say.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The findings were printed.
    #[error("findings")]
    Findings,
    /// Nobody answers.
    #[error("{0}")]
    Unreachable(String),
    /// The board answered no.
    #[error("{0}")]
    Refused(String),
}

/// Ends a command: the sentence on stderr and the exit code.
pub(crate) fn report(result: anyhow::Result<()>, language: Language) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if is_closed_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    let code = match error.downcast_ref::<Ended>() {
        Some(Ended::Findings) => return ExitCode::from(FAILED),
        Some(Ended::Unreachable(_)) => UNREACHABLE,
        Some(Ended::Refused(_)) => REFUSED,
        None => FAILED,
    };
    complain(&words::failed(language, &format!("{error:#}")));
    ExitCode::from(code)
}

/// Whether the reader of our output has seen enough, which is no failure.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// What clap says about a command line: the help on stdout, an error on stderr.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Nothing is left to do if this cannot be printed.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// A line on stderr; one that cannot be written is lost, since there is no other place for it.
pub(crate) fn complain(sentence: &str) {
    let style = if io::stderr().is_terminal() && colour_wanted() { Style::Bad } else { Style::Plain };
    let _ = writeln!(io::stderr(), "{}", style.paint(sentence));
}

fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How a piece of text looks on a terminal. Never the only carrier of a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// As it is.
    Plain,
    /// A heading.
    Strong,
    /// Of little weight: times, paths.
    Faint,
    /// It went well.
    Good,
    /// It waits for the operator.
    Notice,
    /// It failed.
    Bad,
    /// A card, a commit, an address.
    Name,
}

impl Style {
    fn code(self) -> Option<&'static str> {
        match self {
            Style::Plain => None,
            Style::Strong => Some("1"),
            Style::Faint => Some("2"),
            Style::Good => Some("32"),
            Style::Notice => Some("33"),
            Style::Bad => Some("31"),
            Style::Name => Some("36"),
        }
    }

    fn paint(self, text: impl Display) -> String {
        match self.code() {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.to_string(),
        }
    }
}

/// Stdout, with or without colour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    colour: bool,
    /// Values as JSON instead of lines for people.
    pub(crate) json: bool,
    /// The language of the lines for people.
    pub(crate) language: Language,
}

impl Out {
    /// Colour on a terminal that wants it, and never in JSON.
    pub(crate) fn new(json: bool, language: Language) -> Out {
        Out { colour: !json && io::stdout().is_terminal() && colour_wanted(), json, language }
    }

    /// Text in a style, if there is colour.
    pub(crate) fn paint(self, style: Style, text: impl Display) -> String {
        if self.colour { style.paint(text) } else { text.to_string() }
    }

    /// The same, filled up with blanks to `width` characters first, so that columns align.
    pub(crate) fn cell(self, style: Style, text: &str, width: usize) -> String {
        let missing = width.saturating_sub(text.chars().count());
        format!("{}{}", self.paint(style, text), " ".repeat(missing))
    }

    /// Prints a line.
    ///
    /// # Errors
    /// Stdout cannot be written; a closed pipe among them.
    pub(crate) fn line(self, text: impl Display) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{text}")
    }

    /// Prints a value as JSON, indented.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub(crate) fn value(self, value: &serde_json::Value) -> io::Result<()> {
        self.line(format_args!("{value:#}"))
    }

    /// Prints rows whose cells are aligned; the last cell of a row is not filled up.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub(crate) fn table(self, rows: &[Vec<(Style, String)>]) -> io::Result<()> {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            rows.iter().filter_map(|row| row.get(at)).map(|(_, text)| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in rows {
            let mut line = String::new();
            for (at, (style, text)) in row.iter().enumerate() {
                let last = at + 1 == row.len();
                line.push_str(&self.cell(*style, text, if last { 0 } else { widths[at] + 2 }));
            }
            self.line(line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(error: anyhow::Error) -> ExitCode {
        report(Err(error), Language::De)
    }

    #[test]
    fn an_end_has_its_exit_code_also_below_a_context() {
        let same = |a: ExitCode, b: u8| assert_eq!(format!("{a:?}"), format!("{:?}", ExitCode::from(b)));
        same(report(Ok(()), Language::De), 0);
        same(code(anyhow::anyhow!("x")), FAILED);
        same(code(Ended::Findings.into()), FAILED);
        same(code(anyhow::Error::new(Ended::Unreachable("x".into())).context("y")), UNREACHABLE);
        same(code(Ended::Refused("x".into()).into()), REFUSED);
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let error = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("print");
        assert_eq!(format!("{:?}", code(error)), format!("{:?}", ExitCode::SUCCESS));
    }

    #[test]
    fn a_cell_is_filled_up_by_what_is_seen() {
        let out = Out { colour: true, json: false, language: Language::De };
        assert_eq!(out.cell(Style::Bad, "ü", 3), "\x1b[31mü\x1b[0m  ");
        let plain = Out { colour: false, ..out };
        assert_eq!(plain.cell(Style::Bad, "abcd", 3), "abcd");
    }
}

//! Where the daemons say what they do: the journal, or stderr for people.
//!
//! Apart from the daemons so that all of them speak alike. Under systemd events go to journald by its own
//! protocol, with fields that it can be asked for; everywhere else (a terminal, a pipe, a test) they are
//! one line of text each on stderr.
//!
//! **How to log.** `tracing::info!`, `warn!` and `error!` with a whole sentence and the fields below in
//! capitals, on the event itself and not on a span:
//!
//! ```
//! # let (id, card) = ("0198c0de", "board-kartenlimit");
//! tracing::warn!(JOB_ID = %id, CARD_ID = %card, "the outcome is stale");
//! ```
//!
//! Steps in the life of a job go through [`life`], so that `journalctl JOB_ID=…` tells its story. What an
//! agent prints never comes here: journald drops lines of a chatty service without a word; it goes to the
//! log of the job.
use std::fmt;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;

use nix::sys::stat::fstat;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::Layer as _;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use uuid::Uuid;

use crate::model::card::CardId;
use crate::model::job::JobType;
use crate::model::phase::Phase;

/// The field with a job's id.
pub const JOB_ID: &str = "JOB_ID";
/// The field with a card's id.
pub const CARD_ID: &str = "CARD_ID";
/// The field with a job's type, as in its file.
pub const JOB_TYPE: &str = "JOB_TYPE";
/// The field with the id of a card's phase.
pub const PHASE: &str = "PHASE";

/// The environment variable that sets how much is said: `error`, `warn`, `info` (the default), `debug`,
/// `trace` or `off`.
pub const LEVEL_VARIABLE: &str = "BOARD_AGENT_LOG";

/// Sends the events of this process to the journal, or as text to stderr. The first call decides.
///
/// `program` is the syslog identifier, as in `journalctl -t board-worker`, and begins each line of text.
pub fn init(program: &str) {
    let wanted = std::env::var(LEVEL_VARIABLE).ok();
    let level = wanted.as_deref().map_or(Some(LevelFilter::INFO), level);
    let filter = level.unwrap_or(LevelFilter::INFO);
    let mut refused = None;
    // A second call is a test or a program that runs several daemons; the first one's choice stands.
    let _ = match journald(program) {
        Ok(Some(layer)) => {
            let registry = tracing_subscriber::registry().with(layer.with_filter(filter));
            tracing::subscriber::set_global_default(registry)
        }
        fallback => {
            refused = fallback.err();
            let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            tracing::subscriber::set_global_default(text(program, filter, colour, io::stderr))
        }
    };
    if let Some(error) = refused {
        tracing::warn!("the journal cannot be reached ({error}), so this goes to stderr");
    }
    if level.is_none() {
        let wanted = wanted.unwrap_or_default();
        tracing::warn!(
            "{LEVEL_VARIABLE}={wanted:?} is not known, so it is info; \
             write error, warn, info, debug, trace or off"
        );
    }
}

/// A step in the life of a job.
#[derive(Debug, Clone, Copy)]
pub struct Life<'a> {
    /// The job; without one it is a step of the card alone.
    pub job: Option<Uuid>,
    /// The card.
    pub card: &'a CardId,
    /// The job's type.
    pub job_type: Option<JobType>,
    /// The phase that the card is in after this step, where the speaker knows it.
    pub phase: Option<Phase>,
    /// The step as a sentence.
    pub message: &'a str,
}

/// Tells of a step in the life of a job or a card, with the fields that `journalctl` finds it by. The message names
/// the card too: `systemctl status` and a plain `journalctl` show no fields.
pub fn life(event: &Life<'_>) {
    let of = event.job_type.map(|kind| format!(" ({})", kind.id())).unwrap_or_default();
    tracing::info!(
        CARD_ID = %event.card,
        JOB_ID = event.job.map(tracing::field::display),
        JOB_TYPE = event.job_type.map(JobType::id),
        PHASE = event.phase.map(Phase::id),
        "{}{of}: {}",
        event.card,
        event.message
    );
}

/// The levels by their names; unlike `LevelFilter`'s own parser no numbers and no empty text.
fn level(name: &str) -> Option<LevelFilter> {
    match name {
        "off" => Some(LevelFilter::OFF),
        "error" => Some(LevelFilter::ERROR),
        "warn" => Some(LevelFilter::WARN),
        "info" => Some(LevelFilter::INFO),
        "debug" => Some(LevelFilter::DEBUG),
        "trace" => Some(LevelFilter::TRACE),
        _ => None,
    }
}

/// A layer to journald where stderr leads there; `None` where it does not.
fn journald(program: &str) -> io::Result<Option<tracing_journald::Layer>> {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    if !leads_to(&stream, io::stderr()) {
        return Ok(None);
    }
    let layer = tracing_journald::layer()?
        // Without this the fields would be F_JOB_ID and so on.
        .with_field_prefix(None)
        .with_syslog_identifier(program.to_owned())
        // Life-cycle events are no notices, which many hosts highlight.
        .with_priority_mappings(PriorityMappings {
            info: Priority::Informational,
            debug: Priority::Debug,
            ..PriorityMappings::new()
        });
    Ok(Some(layer))
}

/// Whether `stream` names this descriptor, as `device:inode` (systemd.exec, `$JOURNAL_STREAM`). The
/// variable alone says little: it is inherited by programs whose stderr leads elsewhere.
fn leads_to(stream: &str, descriptor: impl AsFd) -> bool {
    let named =
        stream.split_once(':').and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?)));
    match (named, fstat(descriptor)) {
        (Some(named), Ok(there)) => named == (there.st_dev, there.st_ino),
        (None, _) | (_, Err(_)) => false,
    }
}

fn text<W>(
    program: &str,
    filter: LevelFilter,
    colour: bool,
    writer: W,
) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(colour)
        // It would go to stderr by a macro that panics where stderr is gone.
        .log_internal_errors(false)
        .with_writer(writer)
        .event_format(Lines { program: program.to_owned() });
    tracing_subscriber::registry().with(lines.with_filter(filter))
}

/// One line per event: `program: warning: sentence card=… job=… further=…`.
struct Lines {
    program: String,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'l> LookupSpan<'l>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut found = Found::default();
        event.record(&mut found);
        let (word, code) = match *event.metadata().level() {
            Level::ERROR => ("error: ", "1;31"),
            Level::WARN => ("warning: ", "33"),
            Level::INFO => ("", ""),
            Level::DEBUG => ("debug: ", "2"),
            Level::TRACE => ("trace: ", "2"),
        };
        let colour = out.has_ansi_escapes();
        write!(out, "{}: ", self.program)?;
        if colour && !word.is_empty() {
            write!(out, "\x1b[{code}m{word}\x1b[0m")?;
        } else {
            out.write_str(word)?;
        }
        out.write_str(&found.message)?;
        if colour && !found.fields.is_empty() {
            out.write_str("\x1b[2m")?;
        }
        // What people look for first.
        found.fields.sort_by_key(|(name, _)| match *name {
            "card" => 0,
            "job" => 1,
            _ => 2,
        });
        for (name, value) in &found.fields {
            write!(out, " {name}={value}")?;
        }
        if colour && !found.fields.is_empty() {
            out.write_str("\x1b[0m")?;
        }
        writeln!(out)
    }
}

/// The message and the fields of an event, escaped.
#[derive(Default)]
struct Found {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Found {
    fn record_str(&mut self, field: &Field, value: &str) {
        let name = match field.name() {
            "message" => {
                self.message = escaped(value);
                return;
            }
            CARD_ID => "card",
            JOB_ID => "job",
            JOB_TYPE => "type",
            PHASE => "phase",
            other => other,
        };
        let value = escaped(value);
        let quoted = value.starts_with('"') && value.ends_with('"') && value.len() > 1;
        let bare = quoted || !(value.is_empty() || value.contains(char::is_whitespace));
        self.fields.push((name, if bare { value } else { format!("\"{value}\"") }));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// A text that cannot move the cursor, start a new line or turn the direction of writing: messages quote
/// what agents, files and browsers said.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            // Line and paragraph separators, bidirectional marks, embeddings, overrides and isolates.
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
                safe.extend(c.escape_unicode());
            }
            c if c.is_control() => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("lock").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What the text form prints of the events of `say`.
    fn printed(filter: LevelFilter, colour: bool, say: impl FnOnce()) -> String {
        let captured = Captured::default();
        let writer = captured.clone();
        let subscriber = text("board-worker", filter, colour, move || writer.clone());
        tracing::subscriber::with_default(subscriber, say);
        let bytes = captured.0.lock().expect("lock").clone();
        String::from_utf8(bytes).expect("UTF-8")
    }

    fn plain(say: impl FnOnce()) -> String {
        printed(LevelFilter::TRACE, false, say)
    }

    #[test]
    fn a_line_is_the_sentence_and_then_card_and_job() {
        let line = plain(|| {
            tracing::info!(path = ?"/a b", JOB_ID = %7, CARD_ID = %"card-limit", tries = 3, "the job is claimed");
        });
        assert_eq!(line, "board-worker: the job is claimed card=card-limit job=7 path=\"/a b\" tries=3\n");
    }

    #[test]
    fn levels_other_than_info_are_named() {
        let lines = plain(|| {
            tracing::error!("a");
            tracing::warn!("b");
            tracing::info!("c");
            tracing::debug!("d");
            tracing::trace!("e");
        });
        let name = "board-worker: ";
        assert_eq!(
            lines,
            format!("{name}error: a\n{name}warning: b\n{name}c\n{name}debug: d\n{name}trace: e\n")
        );
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        for colour in [false, true] {
            let lines = printed(LevelFilter::INFO, colour, || {
                tracing::info!(JOB_ID = "1\n2", "a\u{1b}[2Jb\r\nc\td\u{9b}e\u{202e}f\u{2028}g\u{7f}äß–");
            });
            assert_eq!(lines.lines().count(), 1, "{lines:?}");
            assert!(lines.contains(r"a\u{1b}[2Jb\r\nc\td\u{9b}e\u{202e}f\u{2028}g\u{7f}äß–"), "{lines:?}");
            assert!(lines.contains(r"job=1\n2"), "{lines:?}");
        }
    }

    #[test]
    fn values_with_spaces_are_quoted() {
        let line = plain(|| tracing::info!(reason = "two words", none = "", word = "one", "said"));
        assert_eq!(line, "board-worker: said reason=\"two words\" none=\"\" word=one\n");
    }

    #[test]
    fn colour_is_for_terminals_only() {
        let say = || tracing::warn!(CARD_ID = "a", "said");
        assert_eq!(
            printed(LevelFilter::INFO, true, say),
            "board-worker: \x1b[33mwarning: \x1b[0msaid\x1b[2m card=a\x1b[0m\n"
        );
        assert!(!plain(say).contains('\x1b'));
    }

    #[test]
    fn what_is_below_the_level_is_not_said() {
        let say = || {
            tracing::info!("a");
            tracing::debug!("b");
        };
        assert_eq!(printed(LevelFilter::INFO, false, say), "board-worker: a\n");
        assert_eq!(printed(LevelFilter::OFF, false, say), "");
    }

    #[test]
    fn levels_have_names_and_nothing_else() {
        for (name, expected) in [
            ("off", LevelFilter::OFF),
            ("error", LevelFilter::ERROR),
            ("warn", LevelFilter::WARN),
            ("info", LevelFilter::INFO),
            ("debug", LevelFilter::DEBUG),
            ("trace", LevelFilter::TRACE),
        ] {
            assert_eq!(level(name), Some(expected));
        }
        for name in ["", "3", "INFO", "board_core=debug"] {
            assert_eq!(level(name), None, "{name}");
        }
    }

    #[test]
    fn a_step_in_the_life_of_a_job_has_its_fields_and_leaves_out_what_is_not_known() {
        let card: CardId = "card-limit".parse().expect("slug");
        let lines = plain(|| {
            life(&Life {
                job: Some(Uuid::nil()),
                card: &card,
                job_type: Some(JobType::Builder),
                phase: Some(Phase::ALL[0]),
                message: "published to inbox/build",
            });
            life(&Life { job: None, card: &card, job_type: None, phase: None, message: "archived" });
        });
        let phase = Phase::ALL[0].id();
        assert_eq!(
            lines,
            format!(
                "board-worker: card-limit (builder): published to inbox/build card=card-limit job=00000000-0000-0000-0000-000000000000 type=builder \
                 phase={phase}\nboard-worker: card-limit: archived card=card-limit\n"
            )
        );
    }

    #[test]
    fn the_journal_is_taken_only_where_stderr_leads_to_it() {
        let file = tempfile::tempfile().expect("file");
        let metadata = file.metadata().expect("metadata");
        let stream = format!("{}:{}", metadata.dev(), metadata.ino());
        assert!(leads_to(&stream, &file));
        let other = format!("{}:{}", metadata.dev(), metadata.ino() + 1);
        for stream in [other.as_str(), "", "1", "a:b", ":", "1:2:3"] {
            assert!(!leads_to(stream, &file), "{stream}");
        }
    }
}

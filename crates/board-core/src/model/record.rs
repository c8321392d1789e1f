//! The versioned metadata of a card: `docs/board/<slug>.yaml`.
//!
//! One field per line in a fixed order, so that diffs read and merge (storage.md). Written by the board
//! alone; what is read back was possibly edited by a person, so it is read as a typed structure under a
//! budget and every fault names its line. The writer is by hand because the layout is the format.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use super::card::{Build, Card, CardId, Failure, Mark, Report, Source, Step, Used};
use super::job::JobRef;
use super::marker::review::Decision;
use super::outcome::RunResult;
use super::phase::Phase;
use super::profile::Choice;
use super::slug::Slug;
use super::time::Timestamp;

/// Version of the format.
pub const RECORD_SCHEMA: u32 = 1;
/// Largest file that is read, in bytes.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;
/// YAML nodes of one file at most.
pub const MAX_RECORD_NODES: usize = 10_000;
/// Nesting of one file at most; ours has 4 levels. The reader recurses with large frames: 100 levels of
/// somebody's file were enough to overflow the stack of a thread.
pub const MAX_RECORD_DEPTH: usize = 16;
/// Reports that a record lists, the newest; older ones stand in earlier commits of the file.
pub const MAX_RECORD_REPORTS: usize = 60;
/// Saved refs that a record lists, the newest.
pub const MAX_RECORD_REFS: usize = 100;
/// Longest text of one field as it is written, in bytes; longer ones are cut.
pub const MAX_FIELD_BYTES: usize = 4 * 1024;

/// A phase as the file spells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedPhase {
    /// One that this version knows.
    Known(Phase),
    /// Anything else, kept as it stands: the work of a person or of a newer version.
    Unknown(String),
}

impl<'de> Deserialize<'de> for RecordedPhase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(match Phase::from_id(&text) {
            Some(phase) => RecordedPhase::Known(phase),
            None => RecordedPhase::Unknown(text),
        })
    }
}

/// Why a file is no record, with the line where that shows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RecordError {
    /// The line, from 1, where it is known.
    pub line: Option<u64>,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

/// A card whose record names a phase that this version does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the phase {0:?} is not known to this version")]
pub struct UnknownPhase(pub String);

/// One report in a record.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedReport {
    path: String,
    job: Uuid,
    at: Timestamp,
    profile: String,
    #[serde(default)]
    commit: Option<String>,
    #[serde(default)]
    decision: Option<Decision>,
    #[serde(default)]
    missing: Vec<String>,
}

fn text<'de, D: Deserializer<'de>, T: FromStr>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T::Err: fmt::Display,
{
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`RECORD_SCHEMA`].
    pub schema: u32,
    /// What backs the card; a file without it is an intent's.
    #[serde(default = "intent")]
    pub source: Source,
    /// Where the card stands.
    pub phase: RecordedPhase,
    /// Its title at the last transition.
    #[serde(default)]
    pub title: Option<String>,
    /// When it was last changed.
    #[serde(default)]
    changed_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "text")]
    job: Option<JobRef>,
    #[serde(default)]
    profile: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    used: Option<Used>,
    #[serde(default)]
    build: Option<u32>,
    #[serde(default)]
    branch: Option<String>,
    #[serde(default)]
    worktree: Option<String>,
    #[serde(default)]
    base_commit: Option<String>,
    #[serde(default)]
    diff_base: Option<String>,
    #[serde(default)]
    check_commit: Option<String>,
    #[serde(default)]
    earlier_check: Option<String>,
    #[serde(default)]
    given_up: bool,
    #[serde(default)]
    intent_blob: Option<String>,
    #[serde(default)]
    saved_refs: Vec<String>,
    #[serde(default)]
    reports: Vec<RecordedReport>,
    /// Its parent.
    #[serde(default)]
    pub parent: Option<Slug>,
    /// Its children, in order.
    #[serde(default)]
    pub children: Vec<Slug>,
    #[serde(default)]
    synthesis: Option<Slug>,
    #[serde(default)]
    unread: bool,
    #[serde(default)]
    read_by: Option<String>,
    #[serde(default)]
    read_at: Option<Timestamp>,
    #[serde(default)]
    draft_origin: Option<CardId>,
    #[serde(default)]
    archived_from: Option<Phase>,
    #[serde(default)]
    deployed_from: Option<Phase>,
    #[serde(default)]
    rank: Option<i64>,
    #[serde(default)]
    note: Option<String>,
    #[serde(default)]
    error: Option<RunResult>,
    #[serde(default)]
    error_sentence: Option<String>,
    #[serde(default)]
    error_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "text")]
    error_job: Option<JobRef>,
    #[serde(default)]
    error_log: Option<String>,
    #[serde(default)]
    error_reply: Option<String>,
    /// The newest transition, the trailer of the commit that wrote this file.
    #[serde(default)]
    pub transition: Option<Uuid>,
    #[serde(default)]
    event: Option<String>,
    #[serde(default)]
    actor: Option<String>,
    #[serde(default)]
    at: Option<Timestamp>,
}

fn intent() -> Source {
    Source::Intent
}

/// The file of a card after its newest transition.
pub fn render(card: &Card) -> String {
    Record::of(card).render()
}

/// Reads a file.
///
/// # Errors
/// [`RecordError`] for anything that the board would not write: not YAML, duplicate keys, unknown fields,
/// another schema, or beyond the budget.
pub fn parse(bytes: &[u8]) -> Result<Record, RecordError> {
    #[derive(Deserialize)]
    struct Head {
        schema: u64,
    }
    let problem = |problem: String| RecordError { line: None, problem };
    if bytes.len() > MAX_RECORD_BYTES {
        return Err(problem(format!("{} bytes, at most {MAX_RECORD_BYTES} are read", bytes.len())));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| RecordError {
        line: Some(1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() as u64),
        problem: "not UTF-8".into(),
    })?;
    let head: Head = serde_saphyr::from_str_with_options(text, options()).map_err(fault)?;
    if head.schema != u64::from(RECORD_SCHEMA) {
        return Err(problem(format!("schema is {}; this version reads schema {RECORD_SCHEMA}", head.schema)));
    }
    let record: Record = serde_saphyr::from_str_with_options(text, options()).map_err(fault)?;
    if !record.source.has_document() {
        return Err(problem(format!("a card with the source {} has no file", record.source.id())));
    }
    Ok(record)
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: MAX_RECORD_NODES,
            max_depth: MAX_RECORD_DEPTH,
            flow_nesting_limit: MAX_RECORD_DEPTH,
            max_documents: 1,
            // The board writes none, and an alias is the usual way to make a small file a large one.
            max_aliases: 0,
            max_anchors: 0,
        },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        with_snippet: false,
    }
}

fn fault(error: serde_saphyr::Error) -> RecordError {
    let line = error.location().map(|at| at.line()).filter(|line| *line > 0);
    RecordError { line, problem: error.without_snippet().to_string() }
}

impl Record {
    /// What the file of this card says.
    pub fn of(card: &Card) -> Record {
        let last = card.history.last();
        let build = card.build.as_ref();
        let refs = build.map(|b| b.saved_refs.as_slice()).unwrap_or_default();
        let error = card.error.as_ref();
        Record {
            schema: RECORD_SCHEMA,
            source: card.source,
            phase: RecordedPhase::Known(card.phase),
            title: Some(card.title.clone()).filter(|title| !title.is_empty()),
            changed_at: Some(card.changed_at),
            job: card.current_job().map(|job| job.reference()).or(card.applied),
            profile: card.choice.profile.clone(),
            reason: card.choice.reason.clone(),
            limit: card.choice.iterations,
            used: card.used.clone(),
            build: build.map(|b| b.number),
            branch: build.map(|b| b.branch.clone()),
            worktree: build.and_then(|b| b.worktree.clone()),
            base_commit: build.map(|b| b.base_commit.clone()),
            diff_base: build.map(|b| b.diff_base.clone()),
            check_commit: build.and_then(|b| b.check_commit.clone()),
            earlier_check: build.and_then(|b| b.earlier_check.clone()),
            given_up: build.is_some_and(|b| b.given_up),
            intent_blob: build.map(|b| b.intent_blob.clone()),
            saved_refs: refs[refs.len().saturating_sub(MAX_RECORD_REFS)..].to_vec(),
            reports: card.reports[card.reports.len().saturating_sub(MAX_RECORD_REPORTS)..]
                .iter()
                .map(RecordedReport::of)
                .collect(),
            parent: card.parent.clone(),
            children: card.children.clone(),
            synthesis: card.synthesis.clone(),
            unread: card.unread,
            read_by: card.read_by.as_ref().map(|mark| mark.by.clone()),
            read_at: card.read_by.as_ref().map(|mark| mark.at),
            draft_origin: card.draft_origin.clone(),
            archived_from: card.archived_from,
            deployed_from: card.deployed_from,
            rank: card.rank,
            note: card.note.clone(),
            error: error.map(|e| e.result),
            error_sentence: error.map(|e| e.sentence.clone()),
            error_at: error.map(|e| e.at),
            error_job: error.and_then(|e| e.job),
            error_log: error.and_then(|e| e.log.clone()),
            error_reply: error.and_then(|e| e.reply.clone()),
            transition: last.map(|step| step.transition),
            event: last.map(|step| step.event.clone()),
            actor: last.map(|step| step.actor.clone()),
            at: last.map(|step| step.at),
        }
    }

    /// The text of the file.
    pub fn render(&self) -> String {
        let mut out = Lines(String::with_capacity(1024));
        let phase = match &self.phase {
            RecordedPhase::Known(phase) => phase.id().to_owned(),
            RecordedPhase::Unknown(text) => quoted(text),
        };
        out.plain("schema", Some(self.schema));
        out.plain("source", Some(self.source.id()));
        out.plain("phase", Some(phase));
        out.text("title", self.title.as_ref());
        out.plain("changed_at", self.changed_at);
        out.plain("job", self.job);
        out.text("profile", self.profile.as_ref());
        out.text("reason", self.reason.as_ref());
        out.plain("limit", self.limit);
        out.plain("used", self.used.as_ref().map(flow_used));
        out.plain("build", self.build);
        out.text("branch", self.branch.as_ref());
        out.text("worktree", self.worktree.as_ref());
        out.text("base_commit", self.base_commit.as_ref());
        out.text("diff_base", self.diff_base.as_ref());
        out.text("check_commit", self.check_commit.as_ref());
        out.text("earlier_check", self.earlier_check.as_ref());
        out.plain("given_up", self.given_up.then_some(true));
        out.text("intent_blob", self.intent_blob.as_ref());
        out.list("saved_refs", self.saved_refs.iter().map(|name| quoted(name)));
        out.list("reports", self.reports.iter().map(RecordedReport::flow));
        out.text("parent", self.parent.as_ref());
        out.list("children", self.children.iter().map(|slug| quoted(slug.as_str())));
        out.text("synthesis", self.synthesis.as_ref());
        out.plain("unread", self.unread.then_some(true));
        out.text("read_by", self.read_by.as_ref());
        out.plain("read_at", self.read_at);
        out.text("draft_origin", self.draft_origin.as_ref().map(ToString::to_string).as_ref());
        out.plain("archived_from", self.archived_from);
        out.plain("deployed_from", self.deployed_from);
        out.plain("rank", self.rank);
        out.text("note", self.note.as_ref());
        out.plain("error", self.error.map(RunResult::id));
        out.text("error_sentence", self.error_sentence.as_ref());
        out.plain("error_at", self.error_at);
        out.plain("error_job", self.error_job);
        out.text("error_log", self.error_log.as_ref());
        out.text("error_reply", self.error_reply.as_ref());
        out.plain("transition", self.transition);
        out.text("event", self.event.as_ref());
        out.text("actor", self.actor.as_ref());
        out.plain("at", self.at);
        out.0
    }

    /// The card that the file describes. A running phase becomes its failure phase with the reason
    /// `interrupted`: whether such a run still goes on cannot be known from a file, and a file never
    /// starts anything.
    ///
    /// # Errors
    /// [`UnknownPhase`]: such a card can be shown, not worked with.
    pub fn to_card(&self, slug: &Slug) -> Result<Card, UnknownPhase> {
        let recorded = match &self.phase {
            RecordedPhase::Known(phase) => *phase,
            RecordedPhase::Unknown(text) => return Err(UnknownPhase(text.clone())),
        };
        let at = self.changed_at.unwrap_or(Timestamp::MIN);
        let phase = recorded.failure().unwrap_or(recorded);
        let title = self.title.clone().unwrap_or_else(|| slug.to_string());
        let mut card = Card::new(slug.clone().into(), self.source, title, phase, at);
        card.applied = self.job;
        card.choice =
            Choice { profile: self.profile.clone(), reason: self.reason.clone(), iterations: self.limit };
        card.used = self.used.clone();
        card.build = self.to_build();
        card.reports = self.reports.iter().map(RecordedReport::to_report).collect();
        card.parent = self.parent.clone();
        card.children = self.children.clone();
        card.synthesis = self.synthesis.clone();
        card.unread = self.unread;
        card.read_by = self.read_by.clone().zip(self.read_at).map(|(by, at)| Mark { by, at });
        card.draft_origin = self.draft_origin.clone();
        card.archived_from = self.archived_from;
        card.deployed_from = self.deployed_from;
        card.rank = self.rank;
        card.note = self.note.clone();
        card.error = self.error.map(|result| Failure {
            result,
            sentence: self.error_sentence.clone().unwrap_or_default(),
            at: self.error_at.unwrap_or(at),
            job: self.error_job,
            log: self.error_log.clone(),
            reply: self.error_reply.clone(),
        });
        if phase != recorded {
            card.error = Some(Failure {
                result: RunResult::Interrupted,
                sentence:
                    "Das Board kennt diesen Lauf nur aus der Datei der Karte; er gilt als unterbrochen."
                        .into(),
                at,
                job: self.job,
                log: None,
                reply: None,
            });
        }
        if let (Some(transition), Some(event)) = (self.transition, self.event.clone()) {
            card.history.push(Step {
                transition,
                from: None,
                to: recorded,
                event,
                actor: self.actor.clone().unwrap_or_default(),
                at: self.at.unwrap_or(at),
                job: self.job,
                profile: None,
                note: None,
            });
        }
        Ok(card)
    }

    fn to_build(&self) -> Option<Build> {
        Some(Build {
            number: self.build?,
            branch: self.branch.clone()?,
            worktree: self.worktree.clone(),
            base_commit: self.base_commit.clone()?,
            diff_base: self.diff_base.clone().or_else(|| self.base_commit.clone())?,
            check_commit: self.check_commit.clone(),
            earlier_check: self.earlier_check.clone(),
            given_up: self.given_up,
            intent_blob: self.intent_blob.clone().unwrap_or_default(),
            saved_refs: self.saved_refs.clone(),
        })
    }
}

impl RecordedReport {
    fn of(report: &Report) -> RecordedReport {
        RecordedReport {
            path: report.path.clone(),
            job: report.job,
            at: report.at,
            profile: report.profile.clone(),
            commit: report.commit.clone(),
            decision: report.decision,
            missing: report.missing_headings.clone(),
        }
    }

    fn to_report(&self) -> Report {
        Report {
            path: self.path.clone(),
            job: self.job,
            at: self.at,
            profile: self.profile.clone(),
            commit: self.commit.clone(),
            decision: self.decision,
            missing_headings: self.missing.clone(),
        }
    }

    fn flow(&self) -> String {
        let mut out = format!(
            "{{path: {}, job: {}, at: {}, profile: {}",
            quoted(&self.path),
            self.job,
            quoted(&self.at.to_string()),
            quoted(&self.profile)
        );
        if let Some(commit) = &self.commit {
            push(&mut out, format_args!(", commit: {}", quoted(commit)));
        }
        match self.decision {
            None => {}
            Some(Decision::Ready) => out.push_str(", decision: bereit"),
            Some(Decision::Back) => out.push_str(", decision: zurueck"),
        }
        if !self.missing.is_empty() {
            let names: Vec<String> = self.missing.iter().map(|name| quoted(name)).collect();
            push(&mut out, format_args!(", missing: [{}]", names.join(", ")));
        }
        out.push('}');
        out
    }
}

fn flow_used(used: &Used) -> String {
    let mut out =
        format!("{{iterations: {}, limit: {}, seconds: {}", used.iterations, used.limit, used.seconds);
    if let Some(tokens) = used.tokens {
        push(&mut out, format_args!(", tokens: {tokens}"));
    }
    out.push('}');
    out
}

/// Writing to a `String` cannot fail.
fn push(out: &mut String, what: fmt::Arguments<'_>) {
    let _ = out.write_fmt(what);
}

/// The lines of a file; a field without a value has none.
struct Lines(String);

impl Lines {
    fn plain(&mut self, key: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            push(&mut self.0, format_args!("{key}: {value}\n"));
        }
    }

    fn text(&mut self, key: &str, value: Option<impl AsRef<str>>) {
        self.plain(key, value.map(|text| quoted(text.as_ref())));
    }

    fn list(&mut self, key: &str, values: impl Iterator<Item = String>) {
        let mut values = values.peekable();
        if values.peek().is_some() {
            push(&mut self.0, format_args!("{key}:\n"));
        }
        for value in values {
            push(&mut self.0, format_args!("  - {value}\n"));
        }
    }
}

/// Words that some YAML reader takes for something else than a text.
const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// A text as a scalar that every YAML reader takes for a text: plain where that is beyond doubt, else in
/// double quotes with everything escaped that is invisible, turns the line or moves the cursor.
fn quoted(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'/' | b'.'))
        && text.len() <= MAX_FIELD_BYTES
        && !WORDS.contains(&text)
        // A hash that begins with a letter reads like its neighbours that begin with a digit.
        && !(text.len() >= 40 && text.bytes().all(|b| b.is_ascii_hexdigit()));
    if plain {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    // What still fits if the text has to be cut, the sign for that and the quote included.
    let mut fits = 0;
    for (at, c) in text.char_indices() {
        if out.len() + "…\"".len() <= MAX_FIELD_BYTES {
            fits = out.len();
        }
        escape(c, &mut out);
        let last = at + c.len_utf8() == text.len();
        if out.len() + usize::from(last) > MAX_FIELD_BYTES {
            out.truncate(fits);
            out.push('…');
            break;
        }
    }
    out.push('"');
    out
}

fn escape(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{a0}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{feff}'
        | '\u{fffe}'..='\u{ffff}' => push(out, format_args!("\\u{:04x}", u32::from(c))),
        c => out.push(c),
    }
}

#[cfg(test)]
mod tests;

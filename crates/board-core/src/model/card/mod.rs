//! A card: what the board shows and what `state.json` keeps of it.

mod parts;

pub use parts::{
    Applying, ApplyingFor, Build, Draft, Failure, Mark, Order, Parked, PlannedDocument, Report, Revises,
    Step, Used, Waiting, WriteKind,
};

use std::fmt;
use std::str::FromStr;

use crate::model::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::job::{Job, JobRef};
use crate::model::phase::Phase;
use crate::model::profile::Choice;
use crate::model::slug::{Slug, SlugError};

/// Longest title of an idea, in characters.
pub const MAX_TITLE_CHARS: usize = 200;
/// Largest text of an idea or a document, in bytes (domain.md).
pub const MAX_DOCUMENT_BYTES: usize = 256 * 1024;
/// Entries of a card's history that are kept; older ones stand in the commits.
pub const MAX_HISTORY: usize = 100;

/// What backs a card (domain.md, "Cards and their sources").
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `docs/intent/<slug>.md`
    Intent,
    /// `docs/research/<slug>.md`
    Research,
    /// `state.json` only.
    Idea,
    /// `state.json` only.
    Draft,
}

impl Source {
    /// The stable id.
    pub fn id(self) -> &'static str {
        match self {
            Source::Intent => "intent",
            Source::Research => "research",
            Source::Idea => "idea",
            Source::Draft => "draft",
        }
    }

    /// Whether a file in the repository backs it, so that it has a YAML and commits.
    pub fn has_document(self) -> bool {
        matches!(self, Source::Intent | Source::Research)
    }
}

/// Id of a card: a slug, `idea-<uuid>` or `draft-<uuid>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CardId {
    /// Of an intent or a research question.
    Slug(Slug),
    /// Of an idea.
    Idea(Uuid),
    /// Of a draft.
    Draft(Uuid),
}

impl CardId {
    /// The slug, for cards with a document.
    pub fn slug(&self) -> Option<&Slug> {
        match self {
            CardId::Slug(slug) => Some(slug),
            CardId::Idea(_) | CardId::Draft(_) => None,
        }
    }
}

impl From<Slug> for CardId {
    fn from(slug: Slug) -> Self {
        CardId::Slug(slug)
    }
}

impl fmt::Display for CardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CardId::Slug(slug) => fmt::Display::fmt(slug, f),
            CardId::Idea(id) => write!(f, "idea-{id}"),
            CardId::Draft(id) => write!(f, "draft-{id}"),
        }
    }
}

impl FromStr for CardId {
    type Err = SlugError;

    fn from_str(text: &str) -> Result<Self, SlugError> {
        let uuid = |prefix: &str| {
            let id = Uuid::try_parse(text.strip_prefix(prefix)?).ok()?;
            // One spelling only, so that an id is equal to its text.
            (format!("{prefix}{id}") == text).then_some(id)
        };
        if let Some(id) = uuid("idea-") {
            return Ok(CardId::Idea(id));
        }
        if let Some(id) = uuid("draft-") {
            return Ok(CardId::Draft(id));
        }
        Slug::parse(text).map(CardId::Slug)
    }
}

impl Serialize for CardId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CardId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for CardId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CardId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "maxLength": 80,
            "pattern": "^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$",
            "description": "a slug, idea-<uuid> or draft-<uuid>"
        })
    }
}

/// A card of the board.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Its id.
    pub id: CardId,
    /// What backs it.
    pub source: Source,
    /// Its title when the card was last written; documents override it.
    pub title: String,
    /// Where it stands.
    pub phase: Phase,
    /// Generation of the board at its last change; its ETag.
    #[serde(default)]
    pub rev: u64,
    /// When it was last changed.
    pub changed_at: Timestamp,
    /// The current job in a running phase; in a failure phase the one that failed, for its retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
    /// Interruptions of this job so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interruptions: u32,
    /// Job and attempt whose outcome was applied last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<JobRef>,
    /// Set while the start can be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Parked>,
    /// Set while the current attempt waits for a pause to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Set from the click on cancel until the outcome comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_asked: Option<Mark>,
    /// Set while documents of a transition are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applying: Option<Applying>,
    /// The editor's order, until it is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Profile, reason and budget chosen for this card.
    #[serde(default, skip_serializing_if = "is_default")]
    pub choice: Choice,
    /// What the newest run used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// Why it failed, in a failure phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Slug>,
    /// Its children in the order of linking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Slug>,
    /// Set while a synthesis is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthesis_due: Option<Timestamp>,
    /// Its newest synthesis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<Slug>,
    /// A synthesis that nobody has read yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
    /// Who said „gelesen".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_by: Option<Mark>,
    /// Branch and commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// Reports, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<Report>,
    /// Where it stood before it was archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_from: Option<Phase>,
    /// Where it stood before it was deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed_from: Option<Phase>,
    /// Order by hand within its column, smaller first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<i64>,
    /// The draft that it was worked out in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft_origin: Option<CardId>,
    /// The draft inside an idea, or the open revision of a card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_draft: Option<CardId>,
    /// What only a draft has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<Draft>,
    /// Text of an idea.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The operator's note to the next builder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Set by the watcher when the document is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub file_missing: bool,
    /// Transitions, oldest first, at most [`MAX_HISTORY`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Step>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_default(choice: &Choice) -> bool {
    *choice == Choice::default()
}

impl Card {
    /// A card of this phase with nothing else known of it.
    pub fn new(id: CardId, source: Source, title: impl Into<String>, phase: Phase, at: Timestamp) -> Card {
        Card {
            id,
            source,
            title: title.into(),
            phase,
            rev: 0,
            changed_at: at,
            job: None,
            interruptions: 0,
            applied: None,
            parked: None,
            waiting: None,
            cancel_asked: None,
            applying: None,
            order: None,
            choice: Choice::default(),
            used: None,
            error: None,
            parent: None,
            children: Vec::new(),
            synthesis_due: None,
            synthesis: None,
            unread: false,
            read_by: None,
            build: None,
            reports: Vec::new(),
            archived_from: None,
            deployed_from: None,
            rank: None,
            draft_origin: None,
            open_draft: None,
            draft: None,
            text: String::new(),
            note: None,
            file_missing: false,
            history: Vec::new(),
        }
    }

    /// The job whose outcome is awaited: only in a running phase.
    pub fn current_job(&self) -> Option<&Job> {
        self.phase.work().and(self.job.as_ref())
    }

    /// Whether there is nothing of it yet but the editor's order to write its file.
    pub fn is_only_ordered(&self) -> bool {
        let new = self.order.as_ref().is_some_and(|order| order.base_blob.is_none());
        new && self.source.has_document() && self.history.is_empty()
    }

    /// Path of its document.
    pub fn document_path(&self) -> Option<String> {
        let slug = self.id.slug()?;
        match self.source {
            Source::Intent => Some(format!("docs/intent/{slug}.md")),
            Source::Research => Some(format!("docs/research/{slug}.md")),
            Source::Idea | Source::Draft => None,
        }
    }

    /// Path of its versioned metadata.
    pub fn record_path(&self) -> Option<String> {
        self.id.slug().map(|slug| format!("docs/board/{slug}.yaml"))
    }

    /// What its result is: the check commit of an intent, the report of a research question.
    pub fn result_ref(&self) -> Option<String> {
        match self.source {
            Source::Intent => self.build.as_ref().and_then(|b| b.check_commit.clone()),
            Source::Research => self.reports.last().map(|r| r.path.clone()),
            Source::Idea | Source::Draft => None,
        }
    }

    /// Adds to the history, dropping the oldest beyond [`MAX_HISTORY`].
    pub fn record_step(&mut self, step: Step) {
        if self.history.len() >= MAX_HISTORY {
            self.history.drain(..=self.history.len() - MAX_HISTORY);
        }
        self.history.push(step);
    }
}

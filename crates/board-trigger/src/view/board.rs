//! The board: seven columns of summaries, as JSON and as a page.
use std::hash::{Hash, Hasher};

use board_core::edge::settings::Language;
use board_core::model::apply::rank::{is_by_hand, rank_of};
use board_core::model::card::{Card, CardId, Source};
use board_core::model::job::Speaker;
use board_core::model::pending::{HeldBack, Place, held_back};
use board_core::model::phase::{Column, Phase};
use serde::Serialize;

use super::{actions, column_label, phase_label, text};
use crate::i18n::t;
use crate::world::World;

/// Characters of a sentence that a summary carries.
const EXCERPT: usize = 120;
/// Deployed cards that the board shows; the others are on a page of their own.
pub(crate) const DEPLOYED_SHOWN: usize = 20;
/// Bits of a revision that tell apart what is not in the state: documents, queue.
const HASH_BITS: u32 = 20;

/// A revision: the state's generation, and below it a hash of what else is shown. Stays below 2^53, so that
/// JavaScript can hold it.
pub(crate) fn revision(generation: u64, shown: &impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    shown.hash(&mut hasher);
    (generation << HASH_BITS) | (hasher.finish() & ((1 << HASH_BITS) - 1))
}

/// The whole board.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct BoardJson {
    /// Changes whenever something else is shown; the `ETag`.
    pub(crate) rev: u64,
    /// The columns, left to right.
    pub(crate) columns: Vec<ColumnJson>,
    /// Files that are no cards, and why.
    pub(crate) broken: Vec<Broken>,
}

/// A file that is no card.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
pub(crate) struct Broken {
    /// Its path in the repository.
    pub(crate) path: String,
    /// Why it is none.
    pub(crate) reason: String,
}

/// A column.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct ColumnJson {
    /// Stable id.
    pub(crate) id: &'static str,
    /// Its label in the language of the request.
    pub(crate) label: String,
    /// Cards in it, also those that are not listed.
    pub(crate) count: usize,
    /// The cards, newest change first.
    pub(crate) cards: Vec<Summary>,
}

/// A card on the board.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
pub(crate) struct Summary {
    /// Its id.
    pub(crate) id: String,
    /// Its title.
    pub(crate) title: String,
    /// `intent`, `research`, `idea` or `draft`.
    pub(crate) source: &'static str,
    /// Id of its phase.
    pub(crate) phase: &'static str,
    /// Its revision.
    pub(crate) rev: u64,
    /// When it was last changed.
    pub(crate) changed_at: String,
    /// The phases that a move can lead to.
    pub(crate) allowed: Vec<&'static str>,
    /// What it waits for, does, or wants, in the language of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<State>,
    /// Its parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_id: Option<String>,
    /// Children that have ended, and all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) children: Option<(usize, usize)>,
    /// A synthesis that nobody read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unread: bool,
    /// Its document is gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) file_missing: bool,
    /// The start can be taken back until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) undo_until: Option<String>,
}

/// What a card waits for, does, or wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
pub(crate) struct State {
    /// `run`, `wait`, `ask`, `fail` or `info`.
    pub(crate) tone: &'static str,
    /// The sentence.
    pub(crate) text: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
}

impl State {
    fn new(tone: &'static str, text: String) -> State {
        State { tone, text, since: None }
    }

    fn since(mut self, at: board_core::model::time::Timestamp) -> State {
        self.since = Some(at.to_string());
        self
    }
}

/// What the query of the board asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Filter {
    /// Words that title or id contain.
    pub(crate) q: String,
    /// Id of a phase.
    pub(crate) phase: String,
    /// Id of a source.
    pub(crate) art: String,
    /// Id of a parent.
    pub(crate) parent: String,
    /// Running cards only.
    #[serde(rename = "laeuft")]
    pub(crate) running: String,
    /// Cards that need the operator only.
    #[serde(rename = "braucht-dich")]
    pub(crate) needs_you: String,
    /// Id of a column that is shown whole.
    pub(crate) alle: String,
}

impl Filter {
    /// Whether anything is filtered.
    pub(crate) fn is_active(&self) -> bool {
        [&self.q, &self.phase, &self.art, &self.parent, &self.running, &self.needs_you]
            .iter()
            .any(|f| !f.trim().is_empty())
    }

    fn fits(&self, world: &World, card: &Card) -> bool {
        let column = card.phase.column();
        let id = card.id.to_string();
        let is = |wanted: &str, own: &str| wanted.is_empty() || wanted == own;
        let words = || {
            let hay = format!("{} {id}", world.title(card)).to_lowercase();
            self.q.to_lowercase().split_whitespace().all(|word| hay.contains(word))
        };
        is(&self.phase, card.phase.id())
            && is(&self.art, card.source.id())
            && is(&self.parent, card.parent.as_ref().map_or("", |parent| parent.as_str()))
            && (self.running.is_empty() || card.phase.work().is_some())
            && (self.needs_you.is_empty() || column == Some(Column::BrauchtDich))
            && words()
    }
}

/// The revision of a card: of its entry, and below it of its document.
pub(crate) fn card_rev(world: &World, card: &Card) -> u64 {
    revision(
        card.rev,
        &(
            world.title(card),
            world.documents.blob(&card.id),
            world.is_missing(card),
            world.documents.is_merged(&card.id),
        ),
    )
}

/// The board as the API gives it. Returns also how many cards there are without the filter.
pub(crate) fn board(world: &World, filter: &Filter, language: Language) -> (BoardJson, usize) {
    let mut columns: Vec<(Column, Vec<&Card>)> =
        Column::ALL.into_iter().map(|column| (column, Vec::new())).collect();
    let mut total = 0;
    for card in world.cards() {
        let Some(column) = card.phase.column() else { continue };
        total += 1;
        if !filter.fits(world, card) {
            continue;
        }
        if let Some((_, cards)) = columns.iter_mut().find(|(own, _)| *own == column) {
            cards.push(card);
        }
    }
    let columns: Vec<ColumnJson> = columns
        .into_iter()
        .map(|(column, mut cards)| {
            sort(column, &mut cards);
            let count = cards.len();
            if column == Column::Deployed && filter.alle != column.id() {
                cards.truncate(DEPLOYED_SHOWN);
            }
            ColumnJson {
                id: column.id(),
                label: column_label(column, language),
                count,
                cards: cards.into_iter().map(|card| summary(world, card, language)).collect(),
            }
        })
        .collect();
    let broken = world.documents.broken().to_vec();
    let shown: Vec<_> = columns.iter().map(|column| (column.id, &column.cards)).collect();
    let rev = revision(world.board.generation, &(shown, &broken));
    (BoardJson { rev, columns, broken }, total)
}

/// The cards of a column as the board shows them, all of them.
pub(crate) fn in_order(world: &World, column: Column) -> Vec<&Card> {
    let mut cards: Vec<&Card> = world.cards().filter(|card| card.phase.column() == Some(column)).collect();
    sort(column, &mut cards);
    cards
}

/// Newest change first; Backlog and Geplant by hand where somebody ordered them.
fn sort(column: Column, cards: &mut [&Card]) {
    let by_hand = is_by_hand(column);
    cards.sort_by(|a, b| {
        let rank = |card: &Card| if by_hand { rank_of(card) } else { 0 };
        rank(a).cmp(&rank(b)).then(b.changed_at.cmp(&a.changed_at)).then(a.id.cmp(&b.id))
    });
}

/// A card on the board.
pub(crate) fn summary(world: &World, card: &Card, language: Language) -> Summary {
    Summary {
        id: card.id.to_string(),
        title: text::excerpt(world.title(card), board_core::model::card::MAX_TITLE_CHARS),
        source: card.source.id(),
        phase: card.phase.id(),
        rev: card_rev(world, card),
        changed_at: card.changed_at.to_string(),
        allowed: actions::allowed(&world.board, card),
        state: state(world, card, language),
        parent_id: card.parent.as_ref().map(ToString::to_string),
        children: world.children(card),
        unread: card.unread,
        file_missing: world.is_missing(card),
        undo_until: card.parked.as_ref().map(|parked| parked.not_before.to_string()),
    }
}

/// What a card waits for, does, or wants.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other phases have the sentence of their error, if any"
)]
pub(crate) fn state(world: &World, card: &Card, language: Language) -> Option<State> {
    let say = |key: &str, args: &[(&str, &str)]| t(language, key, args);
    if let Some(applying) = &card.applying {
        let text = match &applying.blocked {
            Some(why) => say("state.applying-blocked", &[("why", &text::excerpt(why, EXCERPT))]),
            None => say("state.applying", &[]),
        };
        return Some(State::new("wait", text).since(applying.since));
    }
    if let Some(order) = &card.order {
        return Some(match &order.conflict {
            Some(why) => {
                State::new("ask", say("state.order-conflict", &[("why", &text::excerpt(why, EXCERPT))]))
            }
            None => State::new("wait", say("state.order", &[])).since(order.mark.at),
        });
    }
    if let Some(job) = card.current_job() {
        return Some(running(world, card, job, language));
    }
    if let Some(draft) = &card.open_draft {
        let title = world.card(draft).map_or_else(String::new, |card| text::excerpt(world.title(card), 60));
        return Some(State::new("wait", say("state.in-draft", &[("title", &title)])));
    }
    match card.phase {
        Phase::EntwurfFrage => {
            let asked = card
                .draft
                .as_ref()
                .and_then(|d| d.conversation.iter().rev().find(|turn| turn.who == Speaker::Planner));
            asked.map(|turn| State::new("ask", text::excerpt(&turn.text, EXCERPT)).since(turn.at))
        }
        Phase::BereitFuerDeployment if world.documents.is_merged(&card.id) => {
            let branch = world.documents.branch.as_deref().unwrap_or_default();
            Some(State::new("info", say("state.merged", &[("branch", branch)])))
        }
        Phase::PlanungMitFeedback => Some(State::new("ask", say("state.feedback", &[]))),
        _ => match &card.error {
            Some(error) => {
                // What could not be taken was read well enough.
                let kept = card.draft.as_ref().is_some_and(|draft| draft.proposal.is_some());
                let result = match kept {
                    true => say("state.not-taken", &[]),
                    false => say(&format!("result.{}", error.result.id()), &[]),
                };
                let line = error.sentence.lines().next().unwrap_or_default();
                Some(
                    State::new("fail", format!("{result}: {}", text::excerpt(line, EXCERPT))).since(error.at),
                )
            }
            None if world.children(card).is_some_and(|(ended, all)| ended == all)
                && card.synthesis.is_none() =>
            {
                Some(State::new("info", say("state.children-done", &[])))
            }
            None => None,
        },
    }
}

/// Why a job is not running yet, or how far it is.
fn running(world: &World, card: &Card, job: &board_core::model::job::Job, language: Language) -> State {
    let say = |key: &str, args: &[(&str, &str)]| t(language, key, args);
    let who = say(&format!("role.{}", job.kind.role().id()), &[]);
    if let Some(mark) = &card.cancel_asked {
        return State::new("wait", say("state.cancelling", &[])).since(mark.at);
    }
    if let Some(parked) = &card.parked {
        let left = parked.not_before.seconds_since(world.now).max(0).to_string();
        return State::new("wait", say("state.parked", &[("who", &who), ("n", &left)]));
    }
    let reference = job.reference();
    match world.place(reference) {
        // Of an external builder that does not answer.
        Place::Running if world.waits.cards.contains_key(&card.id) => {
            let wait = &world.waits.cards[&card.id];
            State::new("warn", text::excerpt(&wait.reason, EXCERPT)).since(wait.since)
        }
        Place::Running => {
            let run = world.runs.get(&reference);
            let used = run.map_or(0, |run| run.iterations).to_string();
            let args = [
                ("who", who.as_str()),
                ("profile", job.profile.as_str()),
                ("used", &used),
                ("limit", &job.iteration_limit.to_string()),
            ];
            State::new("run", say("state.running", &args)).since(job.created_at)
        }
        Place::Inbox => {
            let position = world.queue.position(reference).unwrap_or(1).to_string();
            let text = match world.ahead(reference) {
                Some(ahead) if ahead.id != card.id => {
                    let title = text::excerpt(world.title(ahead), 60);
                    say("state.queued-behind", &[("n", &position), ("title", &title)])
                }
                Some(_) | None => say("state.queued", &[("n", &position), ("who", &who)]),
            };
            State::new("wait", text).since(job.created_at)
        }
        Place::Outcomes => match world.waits.cards.get(&card.id) {
            Some(wait) => {
                State::new("wait", say("state.paused", &[("why", &text::excerpt(&wait.reason, EXCERPT))]))
                    .since(wait.since)
            }
            None => State::new("wait", say("state.outcome", &[])),
        },
        Place::Nowhere | Place::Done => match held_back(&world.board, card, job, &world.queue, world.now) {
            Some(HeldBack::Paused(pause)) => {
                State::new("wait", say("state.paused", &[("why", &text::excerpt(&pause.reason, EXCERPT))]))
                    .since(pause.since)
            }
            Some(HeldBack::OtherRun(_)) => State::new("wait", say("state.other-run", &[])),
            Some(HeldBack::Parked) | None => match &card.waiting {
                Some(waiting) => State::new(
                    "wait",
                    say("state.paused", &[("why", &text::excerpt(&waiting.reason, EXCERPT))]),
                )
                .since(waiting.since),
                None => State::new("wait", say("state.publishing", &[])),
            },
        },
    }
}

/// A card as the page shows it: the summary and its words.
#[derive(Debug, Serialize)]
pub(crate) struct Tile {
    #[serde(flatten)]
    summary: Summary,
    /// The page of the card.
    href: String,
    /// Allowed targets, separated by blanks.
    to: String,
    source_label: String,
    phase_label: &'static str,
    parent_title: Option<String>,
    /// Whether the phase says more than the column.
    names_phase: bool,
}

/// A column as the page shows it.
#[derive(Debug, Serialize)]
pub(crate) struct ColumnPage {
    id: &'static str,
    label: String,
    count: usize,
    note: Option<String>,
    more: usize,
    tiles: Vec<Tile>,
}

/// The columns as the page shows them.
pub(crate) fn columns(world: &World, board: BoardJson, language: Language) -> Vec<ColumnPage> {
    board
        .columns
        .into_iter()
        .map(|column| {
            let note = note(world, column.id, language);
            let more = column.count - column.cards.len();
            let tiles = column.cards.into_iter().map(|summary| tile(world, summary, language)).collect();
            ColumnPage { id: column.id, label: column.label, count: column.count, note, more, tiles }
        })
        .collect()
}

fn tile(world: &World, summary: Summary, language: Language) -> Tile {
    let phase = Phase::from_id(summary.phase).unwrap_or(Phase::Geplant);
    let parent = summary.parent_id.as_ref().and_then(|id| id.parse::<CardId>().ok());
    let parent = parent.and_then(|id| world.card(&id));
    let label = phase_label(phase, language);
    let alone = phase.column().map(|column| column_label(column, language));
    Tile {
        href: match summary.id.parse::<CardId>() {
            Ok(id) => crate::route::page_of(&id),
            Err(_) => format!("/karten/{}", summary.id),
        },
        to: summary.allowed.join(" "),
        source_label: t(language, &format!("source.{}", summary.source), &[]),
        phase_label: label,
        parent_title: parent.map(|card| text::excerpt(world.title(card), 60)),
        names_phase: alone.as_deref() != Some(label),
        summary,
    }
}

/// „1 läuft, 2 warten" above the columns in which roles work.
fn note(world: &World, column: &str, language: Language) -> Option<String> {
    let is_of = |phase: Phase| phase.column().is_some_and(|own| own.id() == column);
    if column != Column::Laeuft.id() && column != Column::Review.id() {
        return None;
    }
    let (mut runs, mut waits) = (0_usize, 0_usize);
    for (card, job) in world.board.running() {
        if is_of(card.phase) {
            match world.place(job.reference()) {
                Place::Running => runs += 1,
                Place::Nowhere | Place::Inbox | Place::Outcomes | Place::Done => waits += 1,
            }
        }
    }
    (runs + waits > 0).then(|| {
        t(language, "board.queue-note", &[("runs", &runs.to_string()), ("waits", &waits.to_string())])
    })
}

/// Ids and their labels.
pub(crate) type Choices = Vec<(&'static str, String)>;

/// The choices of the filter bar: phases and sources.
pub(crate) fn choices(language: Language) -> (Choices, Choices) {
    let phases = Phase::ALL
        .into_iter()
        .filter(|phase| phase.column().is_some())
        .map(|phase| (phase.id(), phase_label(phase, language).to_owned()))
        .collect();
    let sources = [Source::Intent, Source::Research, Source::Idea, Source::Draft]
        .into_iter()
        .map(|source| (source.id(), t(language, &format!("source.{}", source.id()), &[])))
        .collect();
    (phases, sources)
}

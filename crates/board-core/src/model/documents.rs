//! The documents that transitions write into the repository, as text.
//!
//! Reports are written by the wrapper, not by the role: the head of a section says what is known (job,
//! commit, decision, time, profiles), and only what follows it is the role's words. Everything here is a
//! function of text; which bytes get where is the business of the edge.

use serde::Deserialize;
use uuid::Uuid;

use super::board::Board;
use super::card::{Card, CardId, MAX_TITLE_CHARS, PlannedDocument, Source, WriteKind};
use super::event::EventKind;
use super::hash::blob_hash;
use super::job::{Speaker, Turn};
use super::marker::draft::ProposedIntent;
use super::marker::review::Decision;
use super::marker::split::{ChildKind, ProposedChild};
use super::outcome::{Outcome, Produced};
use super::phase::Phase;
use super::slug::Slug;
use super::time::Timestamp;

mod markdown;

pub use markdown::{nested, without_front_matter};

/// Directory of intents.
pub const INTENT_DIR: &str = "docs/intent";
/// Directory of research questions.
pub const RESEARCH_DIR: &str = "docs/research";
/// Directory of versioned metadata and conversations.
pub const RECORD_DIR: &str = "docs/board";
/// Directory of reviews.
pub const REVIEW_DIR: &str = "docs/review";
/// Directory of research reports.
pub const REPORT_DIR: &str = "docs/research-report";

/// The headings that a review's prompt asks for: the name that is noted when one is missing, and the words,
/// German and English, by which it is recognised anywhere in a heading.
const REVIEW_HEADINGS: [(&str, &[&str]); 5] = [
    ("Umfang und Methode", &["umfang", "methode", "vorgehen", "scope", "method"]),
    ("Befunde nach Priorität", &["befund", "finding"]),
    ("Unsicherheiten", &["unsicher", "uncertain"]),
    ("Entscheidung", &["entscheidung", "decision", "verdict"]),
    ("Empfehlungen", &["empfehl", "recommend"]),
];

/// What the head of a report's section says; the line by which it is found again ends with it.
const SECTION_JOB: &str = "(Auftrag ";

/// What the front matter of a document proposes. Shown, never obeyed: the operator takes it with a click.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Proposals {
    /// A profile.
    #[serde(default, rename = "profil")]
    pub profile: Option<String>,
    /// Why this one.
    #[serde(default, rename = "begruendung")]
    pub reason: Option<String>,
    /// An iteration budget.
    #[serde(default, rename = "iterationen")]
    pub iterations: Option<u32>,
    /// A parent.
    #[serde(default)]
    pub parent: Option<String>,
}

/// What the front matter of a document proposes; none if there is no front matter or it cannot be read.
pub fn proposals(text: &str) -> Option<Proposals> {
    let (front, _) = without_front_matter(text);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 1_000, max_depth: 16, flow_nesting_limit: 16, max_aliases: 0 },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(front?, options).ok()
}

/// Title of a document: its first heading without a leading `Intent:`; none if there is no heading.
pub fn title(text: &str) -> Option<String> {
    let (_, body) = without_front_matter(text);
    let heading = markdown::headings(body).next()?;
    let plain = match heading.get(.."intent:".len()) {
        Some(start) if start.eq_ignore_ascii_case("intent:") => heading["intent:".len()..].trim(),
        Some(_) | None => heading,
    };
    let visible = plain.chars().filter(|c| !c.is_control());
    Some(visible.take(MAX_TITLE_CHARS).collect::<String>()).filter(|title| !title.is_empty())
}

/// The text of an intent that is made of an idea.
pub fn idea_as_intent(title: &str, text: &str) -> String {
    match text.trim() {
        "" => format!("# Intent: {title}\n"),
        text => format!("# Intent: {title}\n\n{text}\n"),
    }
}

/// The slug of a document's path, `docs/…/<slug>.md`.
pub fn slug_of(path: &str) -> Option<Slug> {
    Slug::parse(path.rsplit('/').next()?.strip_suffix(".md")?).ok()
}

/// Path of the document of a card with this slug; none for ideas and drafts.
pub fn document_path(source: Source, slug: &Slug) -> Option<String> {
    match source {
        Source::Intent => Some(format!("{INTENT_DIR}/{slug}.md")),
        Source::Research => Some(format!("{RESEARCH_DIR}/{slug}.md")),
        Source::Idea | Source::Draft => None,
    }
}

/// Headings that the reviewer's prompt asks for and that a report lacks; noted on the card, fails nothing.
pub fn missing_headings(report: &str) -> Vec<String> {
    let headings: Vec<String> = markdown::headings(report).map(str::to_lowercase).collect();
    let has = |words: &[&str]| headings.iter().any(|h| words.iter().any(|word| h.contains(word)));
    REVIEW_HEADINGS.iter().filter(|(_, words)| !has(words)).map(|(name, _)| (*name).to_owned()).collect()
}

/// The documents that a successful outcome brings; empty for a build, a question and everything that did
/// not succeed.
///
/// # Errors
/// A sentence for the card if they cannot be written whatever the repository says: the outcome is then
/// refused and its text kept.
pub fn plan(board: &Board, outcome: &Outcome) -> Result<Vec<PlannedDocument>, String> {
    let Some(card) = board.cards.get(&outcome.card_id) else { return Ok(Vec::new()) };
    match &outcome.produced {
        None | Some(Produced::Build(_) | Produced::Question(_)) => Ok(Vec::new()),
        Some(Produced::Review { commit, decision, report }) => {
            Ok(vec![review_section(card, outcome, commit, *decision, report)])
        }
        Some(Produced::Research { report }) => Ok(vec![research_section(card, outcome, report)]),
        Some(Produced::Split { children }) => plan_children(board, children),
        Some(Produced::Intent(intent)) => plan_intent(board, card, intent, outcome.finished_at),
    }
}

/// The documents of the editor's order on this card; empty if it has none.
pub fn plan_order(card: &Card) -> Vec<PlannedDocument> {
    let Some(order) = &card.order else { return Vec::new() };
    let kind = match &order.base_blob {
        Some(old) => WriteKind::Replace { old: old.clone() },
        None => WriteKind::New,
    };
    let mut documents = vec![planned(order.path.clone(), kind, order.text.clone())];
    if let Some(slug) = slug_of(&order.path).filter(|_| card.source == Source::Draft) {
        documents.extend(conversation(card, &slug, order.mark.at));
    }
    documents
}

/// A document as it is planned.
pub fn planned(path: String, kind: WriteKind, text: String) -> PlannedDocument {
    PlannedDocument { path, kind, hash: blob_hash(text.as_bytes()), text }
}

fn plan_children(board: &Board, children: &[ProposedChild]) -> Result<Vec<PlannedDocument>, String> {
    let mut taken = board.taken_slugs();
    let mut documents = Vec::with_capacity(children.len());
    for child in children {
        if !taken.insert(child.slug.to_string()) {
            return Err(taken_sentence(&child.slug));
        }
        let dir = match child.kind {
            ChildKind::Intent => INTENT_DIR,
            ChildKind::Research => RESEARCH_DIR,
        };
        documents.push(planned(format!("{dir}/{}.md", child.slug), WriteKind::New, child.body.clone()));
    }
    Ok(documents)
}

/// What a card says whose new document found its name taken.
pub fn taken_sentence(slug: &Slug) -> String {
    format!("Der Slug „{slug}“ ist vergeben; der Text bleibt bei der Karte.")
}

fn plan_intent(
    board: &Board,
    card: &Card,
    intent: &ProposedIntent,
    at: Timestamp,
) -> Result<Vec<PlannedDocument>, String> {
    let path = format!("{INTENT_DIR}/{}.md", intent.slug);
    let own = CardId::Slug(intent.slug.clone());
    let kind = match card.draft.as_ref().and_then(|draft| draft.revises.as_ref()) {
        None if board.taken_slugs().contains(intent.slug.as_str()) => {
            return Err(taken_sentence(&intent.slug));
        }
        None => WriteKind::New,
        Some(revises) if revises.card != own => {
            return Err(format!(
                "Die Überarbeitung trägt den Slug „{}“, die Karte heißt „{}“.",
                intent.slug, revises.card
            ));
        }
        Some(revises) => {
            let waits = board.cards.get(&own).is_some_and(|card| card.phase == Phase::PlanungMitFeedback);
            if !waits {
                return Err(changed_sentence());
            }
            WriteKind::Replace { old: revises.blob.clone() }
        }
    };
    let mut documents = vec![planned(path, kind, intent.body.clone())];
    documents.extend(conversation(card, &intent.slug, at));
    Ok(documents)
}

/// What a revision says that came too late.
pub fn changed_sentence() -> String {
    "Intent wurde inzwischen geändert; der Text bleibt bei der Karte.".into()
}

/// The conversation of a draft as the end of `docs/board/<slug>.entwurf.md`; a file that is there, of an
/// earlier draft of this slug, gets it appended.
fn conversation(card: &Card, slug: &Slug, at: Timestamp) -> Option<PlannedDocument> {
    let draft = card.draft.as_ref()?;
    let what = if draft.revises.is_some() { "Überarbeitung" } else { "Entwurf" };
    let mark = card.id.to_string();
    let mut text = format!("# {what} {mark}\n\nAbgeschlossen: {at}, Runden: {}\n", draft.round);
    for turn in &draft.conversation {
        text.push_str(&turn_text(turn));
    }
    Some(planned(format!("{RECORD_DIR}/{slug}.entwurf.md"), WriteKind::Append { mark }, text))
}

fn turn_text(turn: &Turn) -> String {
    let who = match turn.who {
        Speaker::Operator => "Operator",
        Speaker::Planner => "Planner",
        Speaker::Board => "Board",
    };
    let mut text = format!("\n## {who}, {}\n\n", turn.at);
    if let Some(chosen) = &turn.chosen {
        text.push_str(&format!("Gewählt: {chosen}\n"));
    }
    if !turn.text.is_empty() {
        text.push_str(&nested(&turn.text));
    }
    if !turn.options.is_empty() {
        text.push_str(&format!("\nOptionen: {}\n", turn.options.join(" | ")));
    }
    text
}

fn review_section(
    card: &Card,
    outcome: &Outcome,
    commit: &str,
    decision: Decision,
    report: &str,
) -> PlannedDocument {
    let job = outcome.job_id;
    let base = match card.job.as_ref().map(|job| &job.payload) {
        Some(super::job::Payload::Review(payload)) => payload.base.as_str(),
        _ => "unbekannt",
    };
    let text = format!(
        "# Review: {title}\n\n\
         ## {at}: {decision} {SECTION_JOB}{job})\n\n\
         - Karte: `{id}`\n\
         - Commit: `{commit}`\n\
         - Basis: `{base}`\n\
         - Entscheidung: {decision}\n\
         - Zeit: {at}\n\
         - Profil des Builders: {builder}\n\
         - Profil des Reviewers: {reviewer}\n\n\
         {body}",
        title = one_line(&card.title),
        at = outcome.finished_at,
        decision = decision.word(),
        id = card.id,
        builder = one_line(&builder_profile(card)),
        reviewer = one_line(&outcome.profile),
        body = nested(report),
    );
    planned(format!("{REVIEW_DIR}/{}.md", card.id), WriteKind::Section { job }, text)
}

fn research_section(card: &Card, outcome: &Outcome, report: &str) -> PlannedDocument {
    let job = outcome.job_id;
    let commit = match card.job.as_ref().map(|job| &job.payload) {
        Some(super::job::Payload::Research(payload)) => payload.commit.as_str(),
        _ => "unbekannt",
    };
    let text = format!(
        "# Recherche: {title}\n\n\
         ## {at} {SECTION_JOB}{job})\n\n\
         - Karte: `{id}`\n\
         - Commit: `{commit}`\n\
         - Zeit: {at}\n\
         - Profil: {profile}\n\n\
         {body}",
        title = one_line(&card.title),
        at = outcome.finished_at,
        id = card.id,
        profile = one_line(&outcome.profile),
        body = nested(report),
    );
    planned(format!("{REPORT_DIR}/{}.md", card.id), WriteKind::Section { job }, text)
}

/// The profile of the newest build, from the card's history.
fn builder_profile(card: &Card) -> String {
    let starts = [EventKind::Started, EventKind::Resumed, EventKind::StartedAfresh, EventKind::Built];
    let is_build = |event: &str| starts.iter().any(|kind| kind.id() == event);
    let newest = card.history.iter().rev().find(|step| is_build(&step.event) && step.profile.is_some());
    newest.and_then(|step| step.profile.clone()).unwrap_or_else(|| "unbekannt".into())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line is the head of a section. The role's words hold none: [`nested`] moves their headings
/// two levels down.
fn is_section_head(line: &str) -> bool {
    line.starts_with("## ") && line.trim_end().ends_with(')') && line.contains(SECTION_JOB)
}

fn is_head_of(line: &str, job: Uuid) -> bool {
    is_section_head(line) && line.contains(&format!("{SECTION_JOB}{job})"))
}

/// Byte positions of the lines of `text` with the lines themselves.
fn lines_at(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

/// The section of a report that this job wrote, from its head to the next one.
pub fn find_section(text: &str, job: Uuid) -> Option<&str> {
    let (start, head) = lines_at(text).find(|(_, line)| is_head_of(line, job))?;
    let after = start + head.len();
    let end = lines_at(&text[after..]).find(|(_, line)| is_section_head(line)).map(|(at, _)| after + at);
    Some(&text[start..end.unwrap_or(text.len())])
}

/// A report with one more section, newest first; `section` is the text of a planned section with the
/// heading of the file above it, which a file that is there keeps as it has it.
pub fn add_section(existing: Option<&str>, section: &str) -> String {
    let Some(existing) = existing.filter(|text| !text.trim().is_empty()) else { return section.to_owned() };
    let from = lines_at(section).find(|(_, line)| is_section_head(line)).map_or(0, |(at, _)| at);
    let section = &section[from..];
    let first = lines_at(existing).find(|(_, line)| is_section_head(line)).map(|(at, _)| at);
    // Without a section of ours the file is somebody's own: ours comes right below its heading.
    let at = first.unwrap_or_else(|| {
        let heading = lines_at(existing).find(|(_, line)| line.starts_with("# "));
        heading.map_or(0, |(at, line)| at + line.len())
    });
    let (before, after) = existing.split_at(at);
    let gap = if before.is_empty() || before.ends_with("\n\n") {
        ""
    } else if before.ends_with('\n') {
        "\n"
    } else {
        "\n\n"
    };
    let next_gap = if after.is_empty() || after.starts_with('\n') { "" } else { "\n" };
    format!("{before}{gap}{}\n{next_gap}{after}", section.trim_end_matches('\n'))
}

/// A conversation with one more at its end.
pub fn append(existing: Option<&str>, text: &str) -> String {
    match existing.map(str::trim_end).filter(|text| !text.is_empty()) {
        Some(existing) => format!("{existing}\n\n{text}"),
        None => text.to_owned(),
    }
}

/// Whether a conversation with this mark in its heading is in the text.
pub fn has_conversation(text: &str, mark: &str) -> bool {
    text.lines().any(|line| line.starts_with("# ") && line.split_whitespace().any(|word| word == mark))
}

#[cfg(test)]
mod tests;

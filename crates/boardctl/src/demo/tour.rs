//! `boardctl demo --tour`: the whole cycle from a topic to a built synthesis, told in the terminal and to be
//! watched in the browser.
//!
//! A client of the board like any other: each step is a call that a click makes as well.
mod pace;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use board_core::edge::settings::Settings;
use board_core::edge::store::Store;
use board_core::edge::wake::{Wake, WatchSpec, Woken};
use board_core::model::board::Board;
use board_core::model::card::{Card, CardId};
use board_core::model::fanout::{ChildState, child_state};
use board_core::model::phase::Phase;
use board_core::model::slug::Slug;
use serde_json::{Value, json};

use super::repository::git;
use super::script::Stage;
use super::timeline::Timeline;
use crate::commands::label;
use crate::commands::start::start;
use crate::control::Control;
use crate::dev::Interrupt;
use crate::output::{Out, Style};
use crate::words;
use pace::Pace;

/// What the tour asks the planner for; the script knows how to split what comes of it.
const TOPIC: &str = "Jahresbericht";
/// What the tour says where the planner offers no options.
const EXAMPLE: &str = "tagebuch geraete 2026 zeigt zuerst die Drehbank mit 115 Minuten";
/// Steps that are told.
const STEPS: usize = 5;
/// How long one step may take where nobody watches.
const STEP_WITHIN: Duration = Duration::from_secs(120);
/// What the board answers to a start of a synthesis that nobody has read.
const UNREAD: u16 = 428;

/// The end of a tour that the operator ended.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// Where a tour is given.
pub(crate) struct Scene<'a> {
    /// The board's control socket.
    pub(crate) control: &'a Control,
    /// Its configuration.
    pub(crate) settings: &'a Settings,
    /// Its directories.
    pub(crate) stage: &'a Stage,
    /// Its address, with the token.
    pub(crate) url: &'a str,
    /// Ends the tour.
    pub(crate) interrupt: &'a Interrupt,
}

/// Gives the tour. With `alone` nobody is waited for, and each step has a limit.
///
/// # Errors
/// [`Interrupted`]; a step that leads elsewhere, or takes longer than [`STEP_WITHIN`] with `alone`; a refusal of
/// the board, as when somebody clicked ahead of the tour.
pub(crate) fn drive(scene: &Scene<'_>, timeline: &mut Timeline, alone: bool, out: Out) -> anyhow::Result<()> {
    let store = Store::open(&scene.settings.board.state_dir)?;
    let wake = Wake::new(&[WatchSpec::file(store.path())])?;
    let pace = Pace::new(alone, scene.interrupt, &wake);
    let origin = scene.url.split("/?").next().unwrap_or_default().to_owned();
    let mut tour = Tour { control: scene.control, store, wake, timeline, pace, origin, step: 0, out };
    let before = git(&scene.stage.repository(), ["rev-parse", "main"])?;
    tour.turn_page()?;
    let parent = tour.intake()?;
    let children = tour.split(&parent)?;
    tour.work(&children)?;
    let synthesis = tour.synthesis(&parent)?;
    tour.build(&synthesis)?;
    tour.ends(scene.stage, before.trim(), &parent, &children, &synthesis)
}

struct Tour<'a> {
    control: &'a Control,
    store: Store,
    wake: Wake,
    timeline: &'a mut Timeline,
    pace: Pace,
    /// The board's address without the token.
    origin: String,
    step: usize,
    out: Out,
}

impl Tour<'_> {
    /// From a topic to an intent: the planner asks, the tour answers.
    fn intake(&mut self) -> anyhow::Result<CardId> {
        let out = self.out;
        let language = out.language;
        self.begin(&words::tour_intake(language, TOPIC))?;
        let made = self.control.post("/api/board/drafts", &json!({ "topic": TOPIC }))?;
        let draft: CardId = made.get("id").and_then(Value::as_str).unwrap_or_default().parse()?;
        self.look(&format!("entwuerfe/{draft}"))?;
        let mut asked = 0;
        loop {
            let next = self.until(|board| {
                let made = board.cards.values().find(|card| card.draft_origin.as_ref() == Some(&draft));
                let open = board.cards.get(&draft);
                match (made, open) {
                    (Some(card), _) => Some(Ok(Next::Intent(card.id.clone()))),
                    (None, Some(card)) if card.phase == Phase::EntwurfFrage => question(card, asked),
                    (None, Some(card)) if card.phase == Phase::EntwurfFehlgeschlagen => {
                        Some(Err(elsewhere(out, card)))
                    }
                    (None, _) => None,
                }
            })?;
            let (round, text, options) = match next? {
                Next::Intent(id) => {
                    self.tell(&words::tour_intent(language, &id.to_string()))?;
                    return Ok(id);
                }
                Next::Question { round, text, options } => (round, text, options),
            };
            asked = round;
            let body = match options.first() {
                Some(option) => json!({ "option": option, "answer": "", "round": round }),
                None => json!({ "answer": EXAMPLE, "round": round }),
            };
            let answer = options.first().map_or(EXAMPLE, String::as_str);
            self.tell(&words::tour_asks(language, text.lines().next().unwrap_or_default()))?;
            self.turn_page()?;
            self.tell(&words::tour_answers(language, answer))?;
            self.control.post(&format!("/api/board/cards/{draft}/draft-answer"), &body)?;
        }
    }

    /// The intent becomes children.
    fn split(&mut self, parent: &CardId) -> anyhow::Result<Vec<CardId>> {
        self.turn_page()?;
        self.begin(&words::tour_split(self.out.language))?;
        self.look(&format!("karten/{parent}"))?;
        self.control.post(&format!("/api/board/cards/{parent}/split"), &json!({}))?;
        let out = self.out;
        self.until(|board| arrived(out, board.cards.get(parent)?, Phase::Aufgeteilt))??;
        let board = self.store.read()?;
        let children = board.cards.get(parent).map(|card| card.children.clone()).unwrap_or_default();
        let children: Vec<CardId> = children.into_iter().map(CardId::Slug).collect();
        for child in &children {
            let title = board.cards.get(child).map(|card| card.title.as_str()).unwrap_or_default();
            self.tell(&format!("{child}: {title}"))?;
        }
        Ok(children)
    }

    /// All children at once.
    fn work(&mut self, children: &[CardId]) -> anyhow::Result<()> {
        self.turn_page()?;
        self.begin(&words::tour_work(self.out.language))?;
        self.look("")?;
        self.look("jobs")?;
        for child in children {
            start(self.control, child)?;
        }
        self.until(|board| {
            let ended = |id| board.cards.get(id).is_some_and(|card| child_state(card) != ChildState::Open);
            children.iter().all(ended).then_some(())
        })
    }

    /// What the board writes when the last child has ended, and that nobody starts it unread.
    fn synthesis(&mut self, parent: &CardId) -> anyhow::Result<CardId> {
        let written = |board: &Board| board.cards.get(parent).and_then(|card| card.synthesis.clone());
        let slug: Slug = self.until(written)?;
        let synthesis = CardId::Slug(slug);
        self.turn_page()?;
        self.begin(&words::tour_synthesis(self.out.language, &synthesis.to_string()))?;
        self.look(&format!("karten/{synthesis}"))?;
        let body = json!({ "to": Phase::InUmsetzung.id() });
        let answer = self.control.ask("POST", &format!("/api/board/cards/{synthesis}/move"), Some(&body))?;
        anyhow::ensure!(answer.status == UNREAD, words::tour_was_read(self.out.language));
        let said = answer.body.get("title").and_then(Value::as_str).unwrap_or_default();
        self.tell(&words::tour_unread(self.out.language, said))?;
        Ok(synthesis)
    }

    /// The synthesis is read and worked out like any other intent.
    fn build(&mut self, synthesis: &CardId) -> anyhow::Result<()> {
        self.turn_page()?;
        self.begin(&words::tour_build(self.out.language))?;
        self.look(&format!("karten/{synthesis}"))?;
        self.control.post(&format!("/api/board/cards/{synthesis}/read"), &json!({ "confirm": true }))?;
        start(self.control, synthesis)?;
        let out = self.out;
        self.until(|board| arrived(out, board.cards.get(synthesis)?, Phase::BereitFuerDeployment))?
    }

    /// What is left in the repository.
    fn ends(
        &mut self,
        stage: &Stage,
        before: &str,
        parent: &CardId,
        children: &[CardId],
        synthesis: &CardId,
    ) -> anyhow::Result<()> {
        self.until(|board| board.outbox.iter().all(|entry| entry.committed.is_some()).then_some(()))?;
        let (out, repository) = (self.out, stage.repository());
        let commits = git(&repository, ["rev-list", "--count", &format!("{before}..main")])?;
        let board = self.store.read()?;
        let build = board.cards.get(synthesis).and_then(|card| card.build.as_ref()).context("no build")?;
        if out.json {
            let ids = |ids: &[CardId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
            return Ok(out.value(&json!({
                "parent": parent.to_string(),
                "children": ids(children),
                "synthesis": synthesis.to_string(),
                "branch": build.branch,
                "check_commit": build.check_commit,
            }))?);
        }
        out.line("")?;
        out.line(out.paint(Style::Good, words::tour_done(out.language, commits.trim())))?;
        Ok(out.line(words::look_yourself(out.language, &repository.display().to_string(), &build.branch))?)
    }

    /// The heading of the next step.
    fn begin(&mut self, text: &str) -> anyhow::Result<()> {
        self.step += 1;
        if self.out.json {
            return Ok(());
        }
        let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
        self.out.line("")?;
        self.out.line(self.out.paint(Style::Strong, format_args!("{}/{STEPS}  {title}", self.step)))?;
        for line in rest.lines() {
            self.out.line(format_args!("     {line}"))?;
        }
        Ok(())
    }

    /// Where to look in the browser.
    fn look(&self, path: &str) -> anyhow::Result<()> {
        let address = self.out.paint(Style::Name, format_args!("{}/{path}", self.origin));
        self.tell(&words::tour_look(self.out.language, &address))
    }

    fn tell(&self, sentence: &str) -> anyhow::Result<()> {
        if self.out.json { Ok(()) } else { Ok(self.out.line(format_args!("     {sentence}"))?) }
    }

    /// Waits for the reader, where there is one.
    fn turn_page(&mut self) -> anyhow::Result<()> {
        if !self.pace.asks() {
            return Ok(());
        }
        self.tell(&self.out.paint(Style::Notice, words::tour_enter(self.out.language)))?;
        while !self.pace.entered() {
            self.timeline.show(&*self.store.read()?, None)?;
            anyhow::ensure!(!self.pace.is_interrupted(), Interrupted);
            self.wake.wait(None);
        }
        Ok(())
    }

    /// Tells what happens on the board until what is looked for is there.
    fn until<T>(&mut self, look: impl Fn(&Board) -> Option<T>) -> anyhow::Result<T> {
        let deadline = self.pace.is_alone().then(|| Instant::now() + STEP_WITHIN);
        loop {
            let board = self.store.read()?;
            self.timeline.show(&board, None)?;
            if let Some(found) = look(&board) {
                return Ok(found);
            }
            anyhow::ensure!(!self.pace.is_interrupted(), Interrupted);
            if self.wake.wait(deadline) == Woken::Deadline {
                let (step, seconds) = (self.step.to_string(), STEP_WITHIN.as_secs().to_string());
                anyhow::bail!(words::tour_too_slow(self.out.language, &step, &seconds));
            }
        }
    }
}

/// What follows in a conversation with the planner.
enum Next {
    Question { round: u32, text: String, options: Vec<String> },
    Intent(CardId),
}

/// The open question of a draft, if its round was not answered yet.
fn question(card: &Card, answered: u32) -> Option<anyhow::Result<Next>> {
    let draft = card.draft.as_ref().filter(|draft| draft.round > answered)?;
    let turn = draft.conversation.last()?;
    Some(Ok(Next::Question { round: draft.round, text: turn.text.clone(), options: turn.options.clone() }))
}

/// Whether a card that was started has come to `wanted`; an error if it waits somewhere else.
fn arrived(out: Out, card: &Card, wanted: Phase) -> Option<anyhow::Result<()>> {
    if card.phase == wanted {
        return Some(Ok(()));
    }
    card.phase.work().is_none().then(|| Err(elsewhere(out, card)))
}

/// A card stands where it should not.
fn elsewhere(out: Out, card: &Card) -> anyhow::Error {
    let why = card.error.as_ref().map_or("–", |error| error.sentence.as_str());
    let phase = label(out.language, card.phase);
    anyhow::anyhow!(words::tour_elsewhere(out.language, &card.id.to_string(), phase, why))
}

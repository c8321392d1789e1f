//! The transitions of the cards as lines for people, as they happen.
use std::collections::HashSet;
use std::io;

use board_core::edge::settings::Settings;
use board_core::edge::store::Store;
use board_core::edge::wake::{Wake, WatchSpec};
use board_core::model::board::Board;
use board_core::model::card::{Card, CardId, Step};
use board_core::model::event::EventKind;
use board_core::model::phase::Phase;
use board_core::model::time::Timestamp;
use jiff::tz::TimeZone;
use uuid::Uuid;

use crate::commands::{event, label};
use crate::output::{Out, Style};
use crate::when;

/// Prints each transition once.
pub(crate) struct Timeline {
    seen: HashSet<Uuid>,
    begin: Timestamp,
    zone: TimeZone,
    out: Out,
}

impl Timeline {
    /// Begins with what happens from `begin` on.
    pub(crate) fn new(settings: &Settings, begin: Timestamp, out: Out) -> Timeline {
        Timeline { seen: HashSet::new(), begin, zone: when::zone(&settings.board.timezone), out }
    }

    /// Prints what is new on the board; of one card only, if one is named.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub(crate) fn show(&mut self, board: &Board, only: Option<&CardId>) -> io::Result<()> {
        let cards = board.cards.values().filter(|card| only.is_none_or(|only| card.id == *only));
        let mut new: Vec<(&Card, &Step)> =
            cards.flat_map(|card| card.history.iter().map(move |step| (card, step))).collect();
        new.retain(|(_, step)| self.seen.insert(step.transition) && is_told(step));
        new.sort_by_key(|(_, step)| step.at);
        for (card, step) in new {
            if !self.out.json {
                self.line(card, step, only.is_none())?;
            }
        }
        Ok(())
    }

    fn line(&self, card: &Card, step: &Step, named: bool) -> io::Result<()> {
        let out = self.out;
        let since = format!("{:+.1} s", elapsed(self.begin, step.at));
        let label = |phase: Phase| label(out.language, phase);
        let phases = match step.from {
            Some(from) if from != step.to => format!("{} → {}", label(from), label(step.to)),
            _ => label(step.to).to_owned(),
        };
        let name = short(&card.id);
        let card = if named { out.cell(Style::Name, &name, NAME_WIDTH) + "  " } else { String::new() };
        out.line(format_args!(
            "  {}  {since:>8}  {card}{}  {}  {}",
            out.paint(Style::Faint, when::time_of_day(step.at, &self.zone)),
            out.cell(style(step.to), &phases, WIDTH),
            out.cell(Style::Plain, &event(out.language, &step.event), EVENT_WIDTH),
            out.paint(Style::Faint, &step.actor),
        ))
    }
}

/// Room for the longest usual pair of phases, so that the events of one card align.
const WIDTH: usize = 30;
/// Room for the names of the demo's cards.
const NAME_WIDTH: usize = 22;
/// Characters of an id without a slug that tell it from the others.
const ID_CHARS: usize = 14;

/// A card's name in a line; of a draft or an idea the beginning of its id.
fn short(id: &CardId) -> String {
    let name = id.to_string();
    match id.slug() {
        Some(_) => name,
        None => name.chars().take(ID_CHARS).chain(['…']).collect(),
    }
}

/// Whether a step is worth a line: what changed a phase, or an event of the table. Not a note on a card.
fn is_told(step: &Step) -> bool {
    step.from != Some(step.to) || EventKind::ALL.iter().any(|kind| kind.id() == step.event)
}
/// Room for the longest usual event.
const EVENT_WIDTH: usize = 19;

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a demo")]
fn elapsed(begin: Timestamp, at: Timestamp) -> f64 {
    (at.as_millis() - begin.as_millis()) as f64 / 1000.0
}

fn style(phase: Phase) -> Style {
    if phase.work().is_some() {
        Style::Plain
    } else if Phase::ALL.iter().any(|running| running.failure() == Some(phase)) {
        Style::Bad
    } else {
        Style::Good
    }
}

/// Prints what happens on the board from now on, in a thread that ends with the program.
///
/// # Errors
/// The state cannot be watched.
pub(crate) fn follow(settings: &Settings, mut timeline: Timeline) -> anyhow::Result<()> {
    let store = Store::open(&settings.board.state_dir)?;
    let mut wake = Wake::new(&[WatchSpec::file(store.path())])?;
    std::thread::spawn(move || {
        loop {
            // A state that cannot be read is the daemons' to tell; a closed stdout ends this thread alone.
            let shown = store.read().map(|board| timeline.show(&board, None));
            if matches!(shown, Ok(Err(_))) {
                return;
            }
            wake.wait(None);
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_is_named_by_the_beginning_of_its_id() {
        let draft = "draft-ffe5a8ce-f660-4726-a867-627070744d7b".parse().unwrap();
        assert_eq!(short(&draft), "draft-ffe5a8ce…");
        assert_eq!(short(&"tagebuch-suche".parse().unwrap()), "tagebuch-suche");
    }

    #[test]
    fn only_a_failure_looks_like_one() {
        assert_eq!(style(Phase::Review), Style::Plain);
        assert_eq!(style(Phase::ReviewFehlgeschlagen), Style::Bad);
        assert_eq!(style(Phase::BereitFuerDeployment), Style::Good);
    }
}

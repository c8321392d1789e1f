//! The page of phases and transitions, drawn from the table that decides: `docs/phases.md`.
//!
//! A test compares the page in the repository with what this draws, so the drawing cannot say anything else
//! than the program does.
use std::collections::BTreeMap;
use std::fmt::Write as _;

use board_core::model::event::EventKind;
use board_core::model::job::JobType;
use board_core::model::phase::{Phase, Terminal};
use board_core::model::transition::{Of, Row, TABLE, To, Who, target};

/// The whole page, Markdown.
pub(crate) fn page() -> String {
    let mut page = String::from(HEAD);
    phases(&mut page);
    page.push_str(DRAWINGS);
    for (title, sorts) in [("What the operator does", Who::Operator), ("What outcomes do", Who::Outcome)] {
        drawing(&mut page, title, sorts);
    }
    page.push_str(TABLE_HEAD);
    for row in TABLE {
        table_row(&mut page, row);
    }
    page
}

const HEAD: &str = "\
# Phases and transitions

Where a card can stand, and what moves it. Generated from `model::phase` and `model::transition::TABLE`, the one
table that the program decides with; a test compares both. To draw it again:

```
cargo run -p boardctl -- schema --phases > docs/phases.md
```

An event that has no row for the card's phase is refused with the list of those that do (HTTP 409). No row of an
outcome starts anything but the review of a successful build.

## Phases

The id stands in files and in the API; people see the label.

| id | label | English | column | kind of work | fan-out |
| --- | --- | --- | --- | --- | --- |
";

const DRAWINGS: &str = "
## Drawing

Events of many phases would hide the rest and stand in the table alone: cancel, undo, archive, delete, an
interrupted or unavailable run. `[*]` is a card that is made.
";

const TABLE_HEAD: &str = "
## Table

*job*: a job is made in the same write as the phase. *Where it was* is the phase before the archive, the deployment
or the parked start; *its failure phase* is the one of the running phase (running ones have a kind of work).

| from | cards | event | to | who | job |
| --- | --- | --- | --- | --- | --- |
";

fn phases(page: &mut String) {
    for phase in Phase::ALL {
        let column = phase.column().map_or("a page of its own", |column| column.id());
        let work = phase.work().map_or("", JobType::id);
        let counts = match phase.terminal() {
            None => "",
            Some(Terminal::Success) => "success",
            Some(Terminal::Failure) => "failure",
            Some(Terminal::SuccessWithSynthesis) => "success once its own synthesis exists",
            Some(Terminal::Ended) => "ended",
        };
        let (de, en) = (phase.label_de(), phase.label_en());
        line(page, &format!("| `{phase}` | {de} | {en} | {column} | {work} | {counts} |"));
    }
}

/// Events that lead from so many phases that their arrows would hide the others.
fn is_drawn(event: EventKind) -> bool {
    use EventKind as E;
    !matches!(
        event,
        E::CancelAsked
            | E::Cancelled
            | E::Undone
            | E::Archived
            | E::BroughtBack
            | E::Deleted
            | E::Restored
            | E::InterruptedOnce
            | E::InterruptedTwice
            | E::Unavailable
    )
}

fn drawing(page: &mut String, title: &str, who: Who) {
    line(page, &format!("\n### {title}\n\n```mermaid\nstateDiagram-v2"));
    let mut arrows: BTreeMap<(usize, String, String), Vec<&str>> = BTreeMap::new();
    let rows = TABLE.iter().filter(|row| row.who == who || (row.from.is_empty() && who == Who::Operator));
    for row in rows.filter(|row| is_drawn(row.event)) {
        let froms =
            if row.from.is_empty() { vec![None] } else { row.from.iter().copied().map(Some).collect() };
        for from in froms {
            let to = match from {
                Some(phase) => target(row, phase),
                None => match row.to {
                    To::Phase(phase) => Some(phase),
                    To::Same | To::Failure | To::Intent | To::Before | To::Gone => None,
                },
            };
            let Some(to) = to else { continue };
            let order = from.map_or(0, |phase| 1 + position(phase));
            let from = from.map_or_else(|| "[*]".to_owned(), |phase| phase.id().to_owned());
            arrows.entry((order, from, to.id().to_owned())).or_default().push(row.event.id());
        }
    }
    for ((_, from, to), events) in arrows {
        line(page, &format!("    {from} --> {to}: {}", events.join(", ")));
    }
    line(page, "```");
}

fn position(phase: Phase) -> usize {
    Phase::ALL.iter().position(|known| *known == phase).unwrap_or(Phase::ALL.len())
}

fn table_row(page: &mut String, row: &Row) {
    let from = match row.from {
        [] => "–".to_owned(),
        phases => phases.iter().map(|phase| format!("`{phase}`")).collect::<Vec<_>>().join(", "),
    };
    let of = match row.of {
        Of::Any => "any",
        Of::Intent => "intent",
        Of::Research => "research",
        Of::Document => "intent, research",
    };
    let to = match row.to {
        To::Phase(phase) => format!("`{phase}`"),
        To::Same => "stays".to_owned(),
        To::Failure => "its failure phase".to_owned(),
        To::Intent => format!("an intent in `{}`", Phase::Geplant),
        To::Before => "where it was".to_owned(),
        To::Gone => "gone".to_owned(),
    };
    let who = match row.who {
        Who::Operator => "operator",
        Who::Outcome => "outcome",
        Who::Board => "board",
    };
    let job = if row.job { "yes" } else { "" };
    line(
        page,
        &format!("| {from} | {of} | `{}` ({}) | {to} | {who} | {job} |", row.event, row.event.label_de()),
    );
}

fn line(page: &mut String, text: &str) {
    // Writing into a string cannot fail.
    let _ = writeln!(page, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_repository_is_drawn_from_the_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/phases.md");
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == page(),
            "docs/phases.md differs from the table: cargo run -p boardctl -- schema --phases > docs/phases.md"
        );
    }

    #[test]
    fn every_phase_and_every_event_stands_on_the_page() {
        let page = page();
        for phase in Phase::ALL {
            assert!(page.contains(&format!("| `{phase}` | {}", phase.label_de())), "{phase}");
        }
        for event in EventKind::ALL {
            assert!(page.contains(&format!("| `{event}` (")), "{event}");
        }
    }

    #[test]
    fn every_row_is_in_the_drawing_or_left_out_by_name() {
        let page = page();
        for row in TABLE.iter().filter(|row| is_drawn(row.event)) {
            for phase in row.from {
                if let Some(to) = target(row, *phase) {
                    let arrow = format!("    {phase} --> {to}: ");
                    let drawn = page.lines().any(|l| {
                        l.strip_prefix(&arrow).is_some_and(|e| e.split(", ").any(|e| e == row.event.id()))
                    });
                    assert!(drawn, "{phase} {}", row.event);
                }
            }
        }
    }
}

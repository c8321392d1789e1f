//! `boardctl list`: the board, column by column.
use serde_json::Value;

use crate::control::Control;
use crate::output::{Out, Style};
use crate::words;

/// Prints the board.
///
/// # Errors
/// [`crate::output::Ended::Unreachable`] or a refusal.
pub(crate) fn run(control: &Control, out: Out) -> anyhow::Result<()> {
    let board = control.get("/api/board")?;
    if out.json {
        return Ok(out.value(&board)?);
    }
    let mut rows = Vec::new();
    for column in array(&board, "columns") {
        let cards: Vec<&Value> = array(column, "cards").collect();
        if cards.is_empty() {
            continue;
        }
        let heading = format!("{} ({})", text(column, "label"), cards.len());
        rows.push(vec![(Style::Strong, heading)]);
        rows.extend(cards.into_iter().map(|card| row(out, card)));
    }
    if rows.is_empty() {
        return Ok(out.line(words::no_cards(out.language))?);
    }
    print(&rows, out)?;
    for broken in array(&board, "broken") {
        let (path, reason) = (text(broken, "path"), text(broken, "reason"));
        out.line(out.paint(Style::Bad, format_args!("{path}: {reason}")))?;
    }
    Ok(())
}

/// Headings do not widen the columns below them.
fn print(rows: &[Vec<(Style, String)>], out: Out) -> anyhow::Result<()> {
    let cards: Vec<_> = rows.iter().filter(|row| row.len() > 1).cloned().collect();
    let width = |at: usize| cards.iter().map(|row| row[at].1.chars().count()).max().unwrap_or(0);
    let (id, phase) = (width(0), width(1));
    for row in rows {
        match row.as_slice() {
            [(style, heading)] => out.line(out.paint(*style, heading))?,
            [(of_id, name), (of_phase, label), (of_title, title)] => out.line(format_args!(
                "  {}  {}  {}",
                out.cell(*of_id, name, id),
                out.cell(*of_phase, label, phase),
                out.paint(*of_title, title)
            ))?,
            _ => {}
        }
    }
    Ok(())
}

fn row(out: Out, card: &Value) -> Vec<(Style, String)> {
    let (label, style) = super::phase(out, card);
    vec![
        (Style::Name, text(card, "id").to_owned()),
        (style, label),
        (Style::Plain, text(card, "title").to_owned()),
    ]
}

fn array<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

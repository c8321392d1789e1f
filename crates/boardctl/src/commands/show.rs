//! `boardctl show CARD`: what the board knows of one card, without its documents.
use board_core::model::card::CardId;
use serde_json::Value;

use crate::control::Control;
use crate::output::{Out, Style};
use crate::words;

/// Prints a card.
///
/// # Errors
/// [`crate::output::Ended::Unreachable`] or a refusal; an unknown card among them.
pub(crate) fn run(control: &Control, card: &CardId, out: Out) -> anyhow::Result<()> {
    let card = control.get(&format!("/api/board/cards/{card}"))?;
    if out.json {
        return Ok(out.value(&card)?);
    }
    let (label, style) = super::phase(out, &card);
    let title = card.get("title").and_then(Value::as_str).unwrap_or_default();
    out.line(format_args!("{}  {}", out.paint(Style::Strong, title), out.paint(style, label)))?;
    let mut rows = Vec::new();
    let labels = words::of_a_card(out.language);
    for (keys, label) in KEYS.iter().zip(labels) {
        let found = keys.iter().find_map(|key| card.get(key).map(|value| of_key(out, key, value)));
        let found = found.filter(|text| !text.is_empty());
        if let Some(text) = found {
            rows.push(vec![
                (Style::Plain, String::new()),
                (Style::Faint, label.to_owned()),
                (Style::Plain, text),
            ]);
        }
    }
    Ok(out.table(&rows)?)
}

/// What is shown of a card, in order; names that mean the same together.
const KEYS: [&[&str]; 18] = [
    &["id"],
    &["source"],
    &["profile"],
    &["iterations", "used"],
    &["job"],
    &["error"],
    &["branch"],
    &["base_commit"],
    &["check_commit"],
    &["result_ref"],
    &["reports"],
    &["parent_id"],
    &["depends_on"],
    &["blocked_by"],
    &["synthesis"],
    &["draft_origin"],
    &["changed_at"],
    &["allowed"],
];

/// A field of the card on one line; what has a word of its own for people is said with it.
fn of_key(out: Out, key: &str, value: &Value) -> String {
    let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default().to_string();
    match key {
        "allowed" => {
            let targets = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            targets.map(|id| super::target(out.language, id)).collect::<Vec<_>>().join(", ")
        }
        "iterations" => words::iterations(out.language, &number("used"), &number("limit")),
        _ => spelled(value),
    }
}

/// A value of the API on one line.
fn spelled(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.lines().next().unwrap_or_default().to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            items.iter().map(spelled).filter(|item| !item.is_empty()).collect::<Vec<_>>().join(", ")
        }
        Value::Object(map) => {
            let first =
                ["sentence", "path", "event", "id", "phase", "label"].iter().find_map(|key| map.get(*key));
            match first {
                Some(first) => spelled(first),
                None => map
                    .iter()
                    .map(|(key, value)| format!("{key} {}", spelled(value)))
                    .collect::<Vec<_>>()
                    .join(", "),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_spelled_on_one_line() {
        assert_eq!(spelled(&json!({"limit": 20, "used": 3})), "limit 20, used 3");
        assert_eq!(spelled(&json!([{"path": "a", "at": "x"}, null, "b\nc"])), "a, b");
        assert_eq!(spelled(&Value::Null), "");
    }
}

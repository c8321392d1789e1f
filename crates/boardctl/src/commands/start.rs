//! `boardctl start CARD`: starts the work of a planned card, unparked.
use board_core::model::card::{CardId, Source};
use board_core::model::phase::Phase;
use serde_json::{Value, json};

use crate::control::Control;
use crate::output::{Out, Style};
use crate::words;

/// Where the start of a card leads to: the builder for an intent, the researcher for a question.
fn target(card: &Value) -> Phase {
    let research = card.get("source").and_then(Value::as_str) == Some(Source::Research.id());
    if research { Phase::RechercheLaeuft } else { Phase::InUmsetzung }
}

/// Starts a card.
///
/// # Errors
/// [`crate::output::Ended::Unreachable`] or a refusal.
pub(crate) fn run(control: &Control, id: &CardId, out: Out) -> anyhow::Result<()> {
    let answer = start(control, id)?;
    if out.json {
        return Ok(out.value(&answer)?);
    }
    let job = answer.get("job").map(|job| job.get("id").or(job.get("job")).unwrap_or(job));
    let job = job.and_then(Value::as_str).unwrap_or("–");
    Ok(out.line(out.paint(Style::Good, words::started(out.language, &id.to_string(), job)))?)
}

/// The same without a word, for `demo`.
///
/// # Errors
/// As [`run`].
pub(crate) fn start(control: &Control, id: &CardId) -> anyhow::Result<Value> {
    let card = control.get(&format!("/api/board/cards/{id}"))?;
    control.post(&format!("/api/board/cards/{id}/move"), &json!({"to": target(&card).id()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_researched_and_an_intent_is_built() {
        assert_eq!(target(&json!({"source": "research"})), Phase::RechercheLaeuft);
        assert_eq!(target(&json!({"source": "intent"})), Phase::InUmsetzung);
    }
}

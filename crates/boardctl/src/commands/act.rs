//! The board's use-cases from a terminal: one request over the control socket each, and one line about what
//! came of it.
use board_core::model::card::CardId;
use board_core::model::event::EventKind;
use serde_json::{Map, Value, json};

use crate::cli::{Act, From, OnCard, What, With};
use crate::control::Control;
use crate::output::Out;
use crate::words;

/// Carries out one of them.
///
/// # Errors
/// [`crate::output::Ended::Unreachable`] or a refusal.
pub(crate) fn run(control: &Control, act: &Act, out: Out) -> anyhow::Result<()> {
    match act {
        Act::New { title, text } => {
            told(out, &control.post("/api/board/cards", &json!({"title": title, "text": text}))?)
        }
        Act::Move { card, to, with } => {
            let mut body = body(with);
            body.insert("to".to_owned(), to.id().into());
            told(out, &control.post(&of(card, "/move"), &body.into())?)
        }
        Act::Cancel(on) => call(control, on, "cancel", out),
        Act::Retry(on) => call(control, on, "retry", out),
        Act::Resume(on) => call(control, on, "resume", out),
        Act::Discard(on) => call(control, on, "discard", out),
        Act::Undo(on) => call(control, on, "undo", out),
        Act::Archive(on) => call(control, on, "archive", out),
        Act::Restore(on) => call(control, on, "restore", out),
        Act::Split(on) => call(control, on, "split", out),
        Act::Delete(on) => {
            control.delete(&of(&on.card, ""))?;
            if out.json {
                return Ok(out.value(&json!({"id": on.card.to_string(), "phase": null}))?);
            }
            Ok(out.line(words::deleted(out.language, &on.card.to_string()))?)
        }
        Act::Pause { what, reason } => {
            let mut body = target(what);
            body.insert("reason".to_owned(), reason.as_str().into());
            let answer = control.post("/api/board/pause", &body.into())?;
            paused(out, &answer, &words::paused(out.language))
        }
        Act::ResumeLanes { what } => {
            let answer = control.post("/api/board/resume-lanes", &target(what).into())?;
            paused(out, &answer, &words::goes_on(out.language))
        }
    }
}

fn of(card: &CardId, what: &str) -> String {
    format!("/api/board/cards/{card}{what}")
}

fn call(control: &Control, on: &OnCard, what: &str, out: Out) -> anyhow::Result<()> {
    told(out, &control.post(&of(&on.card, &format!("/{what}")), &body(&on.with).into())?)
}

/// The fields that were given.
fn body(with: &With) -> Map<String, Value> {
    let from = with.from.map(|from| match from {
        From::Commit => "commit",
        From::Branch => "branch",
    });
    let fields = [
        ("reason", with.reason.as_deref().map(Value::from)),
        ("note", with.note.as_deref().map(Value::from)),
        ("from", from.map(Value::from)),
        ("confirm", with.confirm.then_some(Value::Bool(true))),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn target(what: &What) -> Map<String, Value> {
    let fields = [
        ("lane", what.lane.map(|lane| Value::from(lane.id()))),
        ("profile", what.profile.as_deref().map(Value::from)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The card that the answer is about, where it stands now, and the job that was made.
fn told(out: Out, answer: &Value) -> anyhow::Result<()> {
    if out.json {
        return Ok(out.value(answer)?);
    }
    let id = answer.get("id").and_then(Value::as_str).unwrap_or_default();
    let (phase, style) = super::phase(out, answer);
    let mut line = format!("{id}: {}", out.paint(style, phase));
    let job = answer.get("job").and_then(|job| job.get("id")).and_then(Value::as_str);
    if let Some(job) = job {
        line.push_str(&words::with_job(out.language, job));
    }
    if answer.get("event").and_then(Value::as_str) == Some(EventKind::CancelAsked.id()) {
        line.push_str(&words::stopping(out.language));
    }
    Ok(out.line(line)?)
}

fn paused(out: Out, answer: &Value, sentence: &str) -> anyhow::Result<()> {
    if out.json { Ok(out.value(answer)?) } else { Ok(out.line(sentence)?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_is_sent() {
        let with = With { reason: None, note: Some("kurz".into()), from: Some(From::Branch), confirm: false };
        assert_eq!(Value::from(body(&with)), json!({"note": "kurz", "from": "branch"}));
        let nothing = With { reason: None, note: None, from: None, confirm: true };
        assert_eq!(Value::from(body(&nothing)), json!({"confirm": true}));
    }

    #[test]
    fn everything_is_paused_if_nothing_is_named() {
        assert_eq!(target(&What { lane: None, profile: None }), Map::new());
        let build = What { lane: Some(board_core::model::job::Lane::Build), profile: None };
        assert_eq!(Value::from(target(&build)), json!({"lane": "build"}));
    }
}

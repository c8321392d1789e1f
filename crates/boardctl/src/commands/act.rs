//! The board's use-cases from a terminal: one request over the control socket each, and one line about what
//! came of it.
use std::path::Path;

use anyhow::Context as _;
use board_core::model::card::CardId;
use board_core::model::event::EventKind;
use serde_json::{Map, Value, json};

use crate::cli::{Act, From, New, OnCard, What, With};
use crate::control::Control;
use crate::output::Out;
use crate::words;

/// Carries out one of them.
///
/// # Errors
/// [`crate::output::Ended::Unreachable`] or a refusal.
pub(crate) fn run(control: &Control, act: &Act, out: Out) -> anyhow::Result<()> {
    match act {
        Act::New(new) => told(out, &control.post("/api/board/cards", &new_card(new)?.into())?),
        Act::Draft { topic } => told(out, &control.post("/api/board/drafts", &json!({"topic": topic}))?),
        Act::Answer { card, text, option, round } => {
            let body = answer_body(text, option.as_deref(), *round);
            told(out, &control.post(&of(card, "/draft-answer"), &body.into())?)
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
        Act::Adopt { all_before, belongs, dry_run } => {
            let body = json!({"before": all_before, "as": belongs.phase().id(), "dry_run": dry_run});
            adopted(out, &control.post("/api/board/adopt", &body)?, *dry_run)
        }
        Act::Link { card, parent } => {
            let parent = parent.as_ref().map(ToString::to_string);
            told(out, &control.patch(&of(card, "/parent"), &json!({"parent_id": parent}))?)
        }
        Act::Read(on) => told(out, &control.post(&of(&on.card, "/read"), &json!({"confirm": true}))?),
        Act::Synthesise(on) => told(out, &control.post(&of(&on.card, "/synthesise"), &json!({}))?),
        Act::Rank { card, before } => {
            let before = before.as_ref().map(ToString::to_string);
            let body = before.map_or_else(|| json!({}), |before| json!({"before": before}));
            told(out, &control.post(&of(card, "/rank"), &body)?)
        }
        Act::AdoptFile { card, take } => {
            told(out, &control.post(&of(card, "/adopt-file"), &json!({"take": take}))?)
        }
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

/// A new card as the API takes it; a file is read here, since the board reads none but its own.
fn new_card(new: &New) -> anyhow::Result<Map<String, Value>> {
    let (kind, text) = match (&new.intent, &new.question) {
        (Some(file), _) => (Some("intent"), Some(read(file)?)),
        (None, Some(file)) => (Some("recherche"), Some(read(file)?)),
        (None, None) => (None, new.text.clone()),
    };
    let fields = [
        ("title", new.title.clone()),
        ("text", text),
        ("kind", kind.map(ToOwned::to_owned)),
        ("slug", new.slug.clone()),
    ];
    Ok(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect())
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        return std::io::read_to_string(std::io::stdin()).context("stdin");
    }
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

fn answer_body(text: &str, option: Option<&str>, round: Option<u32>) -> Map<String, Value> {
    let fields = [
        ("answer", Some(Value::from(text))),
        ("option", option.map(Value::from)),
        ("round", round.map(Value::from)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
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

/// The cards that were put away, one a line, and how many.
fn adopted(out: Out, answer: &Value, dry_run: bool) -> anyhow::Result<()> {
    if out.json {
        return Ok(out.value(answer)?);
    }
    let cards: Vec<&str> = answer
        .get("cards")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for card in &cards {
        out.line(format_args!("  {card}"))?;
    }
    let count = cards.len().to_string();
    out.line(match dry_run {
        true => words::would_adopt(out.language, &count),
        false => words::adopted(out.language, &count),
    })?;
    match answer.get("more").and_then(Value::as_u64).filter(|more| *more > 0) {
        Some(more) => Ok(out.line(words::more_to_adopt(out.language, &more.to_string()))?),
        None => Ok(()),
    }
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
    fn a_file_becomes_an_intent_or_a_question_and_words_an_idea() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("limit.md");
        std::fs::write(&file, "# Intent: Limit\n").unwrap();
        let none = || New { title: None, text: None, intent: None, question: None, slug: None };
        let idea = New { title: Some("Idee".into()), ..none() };
        assert_eq!(Value::from(new_card(&idea).unwrap()), json!({"title": "Idee"}));
        let intent = New { intent: Some(file.clone()), slug: Some("limit".into()), ..none() };
        let wanted = json!({"kind": "intent", "text": "# Intent: Limit\n", "slug": "limit"});
        assert_eq!(Value::from(new_card(&intent).unwrap()), wanted);
        let question = New { question: Some(file), ..none() };
        assert_eq!(new_card(&question).unwrap()["kind"], "recherche");
        let gone = New { intent: Some(dir.path().join("fehlt.md")), ..none() };
        assert!(format!("{:#}", new_card(&gone).unwrap_err()).contains("fehlt.md"));
    }

    #[test]
    fn an_option_and_its_note_are_sent_together() {
        let body = answer_body("sortiert", Some("10"), Some(2));
        assert_eq!(Value::from(body), json!({"answer": "sortiert", "option": "10", "round": 2}));
        assert_eq!(Value::from(answer_body("ja", None, None)), json!({"answer": "ja"}));
    }

    #[test]
    fn everything_is_paused_if_nothing_is_named() {
        assert_eq!(target(&What { lane: None, profile: None }), Map::new());
        let build = What { lane: Some(board_core::model::job::Lane::Build), profile: None };
        assert_eq!(Value::from(target(&build)), json!({"lane": "build"}));
    }
}

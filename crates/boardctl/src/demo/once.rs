//! `boardctl demo --once`: one card from planned to ready for deployment, and what came of it.
//!
//! Drives the board through its API like any other client: starts the card, waits, reads.
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use board_core::edge::clock::now;
use board_core::edge::settings::Settings;
use board_core::edge::store::Store;
use board_core::edge::wake::{Wake, WatchSpec, Woken};
use board_core::model::board::Board;
use board_core::model::card::{Build, Card, CardId};
use board_core::model::phase::Phase;
use serde_json::{Value, json};

use super::repository::{FIRST_CARD, git};
use super::script::Stage;
use super::timeline::Timeline;
use crate::commands::label;
use crate::commands::start::start;
use crate::control::Control;
use crate::output::{Out, Style};
use crate::words;

/// How long build and review may take together.
const DRIVEN_WITHIN: Duration = Duration::from_secs(60);
/// How long the commits of the board may take after that.
const COMMITTED_WITHIN: Duration = Duration::from_secs(30);
/// Lines of the report that are shown.
const REPORT_LINES: usize = 24;

/// Drives the card and prints what came of it.
///
/// # Errors
/// The card does not get there within [`DRIVEN_WITHIN`], with what the board says of it.
pub(crate) fn drive(control: &Control, settings: &Settings, stage: &Stage, out: Out) -> anyhow::Result<()> {
    let id: CardId = FIRST_CARD.parse()?;
    let store = Store::open(&settings.board.state_dir)?;
    let mut wake = Wake::new(&[WatchSpec::file(store.path())])?;
    let repository = stage.repository();
    let before = git(&repository, ["rev-parse", "main"])?;
    if !out.json {
        out.line(out.paint(Style::Strong, words::once_title(out.language, FIRST_CARD)))?;
        out.line(out.paint(Style::Faint, format_args!("  {}", stage.dir.display())))?;
        out.line("")?;
    }
    let mut timeline = Timeline::new(settings, now(), out);
    start(control, &id)?;
    let deadline = Instant::now() + DRIVEN_WITHIN;
    let reached = loop {
        timeline.show(&*store.read()?, Some(&id))?;
        let card = control.get(&format!("/api/board/cards/{id}"))?;
        match card.get("phase").and_then(Value::as_str).and_then(Phase::from_id) {
            Some(Phase::BereitFuerDeployment) => break card,
            // Waiting, but not where it should: nothing will move it any more.
            Some(phase) if phase.work().is_none() && phase != Phase::Geplant => {
                anyhow::bail!(words::went_elsewhere(
                    out.language,
                    label(out.language, phase),
                    &reason(&card)
                ));
            }
            Some(_) | None => {}
        }
        if wake.wait(Some(deadline)) == Woken::Deadline {
            anyhow::bail!(words::too_slow(out.language, &DRIVEN_WITHIN.as_secs().to_string()));
        }
    };
    let deadline = Instant::now() + COMMITTED_WITHIN;
    let board = loop {
        let board = store.read()?;
        timeline.show(&board, Some(&id))?;
        if board.outbox.iter().all(|entry| entry.committed.is_some()) {
            break board;
        }
        if wake.wait(Some(deadline)) == Woken::Deadline {
            anyhow::bail!(words::not_committed(out.language, &COMMITTED_WITHIN.as_secs().to_string()));
        }
    };
    result(&repository, before.trim(), &board, &id, &reached, out)
}

/// Why a card stands where it should not.
fn reason(card: &Value) -> String {
    let error = card.get("error").unwrap_or(&Value::Null);
    error.get("sentence").unwrap_or(error).as_str().unwrap_or("–").to_owned()
}

fn result(
    repository: &Path,
    before: &str,
    board: &Board,
    id: &CardId,
    reached: &Value,
    out: Out,
) -> anyhow::Result<()> {
    let card = board.cards.get(id).context("the card left the state")?;
    let build = card.build.as_ref().context("the card has no build")?;
    let check = build.check_commit.as_deref().context("the card has no check commit")?;
    let report = card.reports.last().context("the card has no report")?;
    let commits = git(repository, ["log", "--reverse", COMMIT_FORMAT, &format!("{before}..main")])?;
    let text = std::fs::read_to_string(repository.join(&report.path))
        .with_context(|| repository.join(&report.path).display().to_string())?;
    if out.json {
        return Ok(out.value(&as_json(card, build, check, &report.path, reached))?);
    }
    heading(out, words::commits(out.language, "main"))?;
    for line in commits.trim_end().lines() {
        let trailer = line.starts_with("    ");
        out.line(out.paint(if trailer { Style::Faint } else { Style::Plain }, line))?;
    }
    heading(out, words::report(out.language, &report.path))?;
    for line in text.lines().take(REPORT_LINES) {
        out.line(format_args!("  {line}").to_string().trim_end())?;
    }
    if text.lines().count() > REPORT_LINES {
        out.line("  …")?;
    }
    heading(out, words::branch(out.language, &build.branch))?;
    let subject = git(repository, ["log", "-1", "--format=%h %an: %s", check])?;
    out.line(format_args!("  {}", subject.trim()))?;
    let stat = git(repository, ["diff", "--stat", &build.diff_base, check])?;
    for line in stat.lines() {
        out.line(format_args!("  {line}"))?;
    }
    out.line("")?;
    out.line(out.paint(Style::Good, words::once_done(out.language)))?;
    Ok(out.line(words::look_yourself(out.language, &repository.display().to_string(), &build.branch))?)
}

/// A commit on a line, its trailers indented below.
const COMMIT_FORMAT: &str = "--format=  %h %an: %s%n%w(0,4,4)%(trailers:only,unfold)";

fn heading(out: Out, text: String) -> std::io::Result<()> {
    out.line("")?;
    out.line(out.paint(Style::Strong, text))
}

fn as_json(card: &Card, build: &Build, check: &str, report: &str, reached: &Value) -> Value {
    json!({
        "card": reached,
        "steps": card.history,
        "branch": build.branch,
        "base_commit": build.base_commit,
        "check_commit": check,
        "report": report,
    })
}

//! What only systemd calls: `boardctl sweep`, for what no event tells of and what is old; `boardctl alarm`;
//! `boardctl end-runs`.
//!
//! It does what whoever calls it may do: the files are the service user's, the units are root's. The unit of the sweep
//! therefore calls it twice. Harmless by hand, and at any time.
mod files;
mod units;

use std::io::IsTerminal as _;
use std::os::unix::fs::MetadataExt as _;

use anyhow::Context as _;
use board_core::edge::alarms;
use board_core::edge::journal;
use board_core::edge::settings::Settings;
use board_core::edge::systemd::{self, Systemctl};
use board_core::model::job::Lane;
use nix::unistd::geteuid;

pub(crate) use files::open_git;

use crate::output::{Out, Style};
use crate::words;

/// Sweeps.
///
/// # Errors
/// A state directory that is somebody else's or cannot be read. What fails for one part does not stop the others: it is
/// told, and ends as an error.
pub(crate) fn run(settings: &Settings, out: Out) -> anyhow::Result<()> {
    journal::init("boardctl");
    let state_dir = &settings.board.state_dir;
    let about = std::fs::metadata(state_dir).with_context(|| state_dir.display().to_string())?;
    let me = geteuid();
    let (is_owner, is_root) = (me.as_raw() == about.uid(), me.is_root());
    anyhow::ensure!(
        is_owner || is_root,
        "{}",
        words::sweep_not_yours(out.language, &state_dir.display().to_string())
    );
    let systemctl = systemd::is_booted().then(Systemctl::default);
    let mut done = Vec::new();
    let mut failed = 0;
    if is_owner {
        let found = files::sweep(settings, systemctl.as_ref());
        done.extend(found.done);
        failed += found.failed;
    }
    if let (true, Some(systemctl)) = (is_root, &systemctl) {
        let found = units::sweep(settings, systemctl);
        done.extend(found.done);
        failed += found.failed;
    }
    if out.json {
        out.value(&serde_json::json!({"done": done, "failed": failed}))?;
    } else if done.is_empty() && failed == 0 && std::io::stdout().is_terminal() {
        // For whoever waits in front of it; the timer's journal would fill with it.
        out.line(out.paint(Style::Faint, words::sweep_nothing(out.language)))?;
    }
    anyhow::ensure!(failed == 0, "{}", words::sweep_failed(out.language, &failed.to_string()));
    Ok(())
}

/// Ends every run, where the target is stopped and not started again; `board-agent-runs.service` calls it.
///
/// # Errors
/// systemd cannot be asked.
pub(crate) fn end_runs() -> anyhow::Result<()> {
    let systemctl = Systemctl::default();
    if systemctl.will_start(systemd::TARGET)? {
        return Ok(());
    }
    let workers: Vec<String> =
        Lane::ALL.iter().map(|lane| format!("board-agent-{}@*.service", lane.id())).collect();
    Ok(systemctl.stop(&workers)?)
}

/// What a part of the sweep came to.
#[derive(Debug, Default)]
struct Found {
    /// What was found or done, in words; told to the journal already.
    done: Vec<String>,
    /// How much failed.
    failed: usize,
}

impl Found {
    /// Something that whoever operates the board wants to know.
    fn notice(&mut self, sentence: String) {
        tracing::warn!("{sentence}");
        self.done.push(sentence);
    }

    /// Something ordinary.
    fn tidied(&mut self, sentence: String) {
        tracing::info!("{sentence}");
        self.done.push(sentence);
    }

    /// What one part could not do.
    fn take<T>(&mut self, what: &str, result: anyhow::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::error!("{what}: {error:#}");
                self.failed += 1;
                None
            }
        }
    }
}

/// Raises the alarm for a unit that failed.
///
/// # Errors
/// A state directory that cannot be written.
pub(crate) fn alarm(settings: &Settings, unit: &str, out: Out) -> anyhow::Result<()> {
    journal::init("boardctl");
    // Why it failed helps, but the alarm does not depend on it.
    let result = systemd::is_booted().then(|| Systemctl::default().property(unit, "Result").ok()).flatten();
    let result = result.filter(|result| !result.is_empty() && result != "success");
    let sentence = match result {
        Some(result) => words::unit_failed_because(out.language, unit, &result),
        None => words::unit_failed(out.language, unit),
    };
    tracing::error!("{sentence}");
    alarms::raise(&settings.board.state_dir, unit, &sentence)?;
    Ok(())
}

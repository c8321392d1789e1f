//! `boardctl state`: whether `state.json` can be read, what is in it, and earlier ones.
use anyhow::Context as _;
use board_core::edge::settings::Settings;
use board_core::edge::store::{Snapshot, Store};
use serde_json::json;

use crate::cli::StateCommand;
use crate::output::{Ended, Out, Style, complain};
use crate::{when, words};

/// Carries out one of the commands.
///
/// # Errors
/// A state that cannot be read (its sentence says what to do), a snapshot that is not there.
pub(crate) fn run(settings: &Settings, command: &StateCommand, out: Out) -> anyhow::Result<()> {
    let state_dir = &settings.board.state_dir;
    match command {
        StateCommand::Check => check(settings, &Store::look_at(state_dir), out),
        StateCommand::Show => Ok(out.value(&serde_json::to_value(&*Store::look_at(state_dir).read()?)?)?),
        // Written by the owner alone: a state of root's would lock the daemons out.
        StateCommand::Restore { snapshot, force } => {
            let store = Store::open(state_dir)?;
            if !*force {
                needs_it(&store, out)?;
            }
            restore(&store, snapshot.as_deref(), out)
        }
    }
}

fn check(settings: &Settings, store: &Store, out: Out) -> anyhow::Result<()> {
    let read = store.read();
    let snapshots = store.snapshots()?;
    if out.json {
        let error = read.as_ref().err().map(ToString::to_string);
        let names: Vec<String> = snapshots.iter().map(name).collect();
        let generation = read.as_ref().ok().map(|board| board.generation);
        out.value(
            &json!({"ok": error.is_none(), "generation": generation, "error": error, "snapshots": names}),
        )?;
    } else {
        match &read {
            Ok(board) => {
                let uncommitted = board.outbox.iter().filter(|entry| entry.committed.is_none()).count();
                let running = board.running().count().to_string();
                let (cards, waiting) = (board.cards.len().to_string(), uncommitted.to_string());
                let generation = board.generation.to_string();
                out.line(out.paint(
                    Style::Good,
                    words::state_good(out.language, &generation, &cards, &running, &waiting),
                ))?;
            }
            Err(error) => complain(&words::failed(out.language, &error.to_string())),
        }
        out.line(words::snapshots(out.language, &snapshots.len().to_string()))?;
        let zone = when::zone(&settings.board.timezone);
        let row = |snapshot: &Snapshot| {
            vec![
                (Style::Plain, String::new()),
                (Style::Name, name(snapshot)),
                (Style::Plain, when::day_and_time(snapshot.at, &zone)),
                (Style::Faint, format!("{} kB", snapshot.bytes.div_ceil(1000))),
            ]
        };
        out.table(&snapshots.iter().map(row).collect::<Vec<_>>())?;
    }
    if read.is_ok() { Ok(()) } else { Err(Ended::Findings.into()) }
}

/// A state that can be read is not replaced by an older one without a word: its transitions would be undone.
fn needs_it(store: &Store, out: Out) -> anyhow::Result<()> {
    if let Ok(board) = store.read() {
        let generation = board.generation.to_string();
        let newest = store.newest_readable_snapshot()?.map_or(0, |snapshot| snapshot.generation);
        anyhow::bail!(words::state_readable(out.language, &generation, &newest.to_string()));
    }
    Ok(())
}

fn restore(store: &Store, wanted: Option<&str>, out: Out) -> anyhow::Result<()> {
    let found = match wanted {
        Some(wanted) => store.snapshots()?.into_iter().find(|snapshot| name(snapshot) == wanted),
        None => store.newest_readable_snapshot()?,
    };
    let snapshot = found.with_context(|| words::no_snapshot(out.language))?;
    let restored = store.restore(&snapshot)?;
    if out.json {
        let value = json!({"snapshot": name(&snapshot), "generation": restored.generation, "broken": restored.broken});
        return Ok(out.value(&value)?);
    }
    out.line(out.paint(Style::Good, words::restored(out.language, &name(&snapshot))))?;
    if let Some(broken) = &restored.broken {
        out.line(words::kept_beside(out.language, &broken.display().to_string()))?;
    }
    Ok(())
}

/// A snapshot's name as the command line takes it: its file's.
fn name(snapshot: &Snapshot) -> String {
    snapshot.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

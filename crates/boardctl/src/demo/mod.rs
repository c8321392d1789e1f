//! `boardctl demo`: the whole system on a throw-away repository, with a scripted agent.
//!
//! Needs neither systemd nor a key nor the network. Everything lies below one directory, by default below the
//! build directory; the next demo removes it, unless it is to be kept. With `--once` it ends by itself.
mod once;
mod repository;
mod script;
mod timeline;
mod tour;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use board_core::edge::clock::now;
use board_core::edge::files::{check_owned_dir, create_dirs_private};
use board_core::edge::settings::{Language, Settings};
use jiff::Timestamp;
use nix::fcntl::{Flock, FlockArg};

use crate::cli::Demo;
use crate::control::Control;
use crate::dev::{Interrupt, Sink, System};
use crate::output::{Out, Style, is_closed_pipe};
use crate::words;
use script::{Play, Stage};

/// The file that is locked while a demo runs in its directory.
const LOCK: &str = "demo.lock";
/// The file that says that a directory is to be kept.
const KEEP: &str = "keep";
/// How the name of a demo's directory begins.
const PREFIX: &str = "demo-";
/// How long a start can be taken back on the board, seconds.
const UNDO_SECONDS: u32 = 5;
/// How long each step of the agent takes where somebody watches, seconds.
const PAUSE: u32 = 1;

/// Runs the demo.
///
/// # Errors
/// No git, a directory that is not empty, a system that does not come up; with `--once` a card that does not
/// get to where it should.
pub(crate) fn run(arguments: &Demo, out: Out) -> anyhow::Result<()> {
    // With --once a signal just ends this process, and the children with it.
    let interrupt = if arguments.once { Interrupt::none() } else { Interrupt::catch()? };
    let (stage, _lock) = prepare(arguments, out)?;
    repository::make(&stage.repository())?;
    let sandbox = match probe() {
        Ok(()) => true,
        Err(why) => {
            crate::output::complain(&words::no_sandbox(out.language, &why));
            false
        }
    };
    let (undo_seconds, pause) = if arguments.once { (0, 0) } else { (UNDO_SECONDS, PAUSE) };
    stage.set(Play { language: out.language, sandbox, undo_seconds, pause })?;
    let settings = Settings::load(&stage.config())?;
    let sink = Sink::File(Arc::from(stage.log()));
    let started = System::start(&settings, &stage.config(), Some(arguments.port), &sink, &interrupt, out);
    let system = started.map_err(|error| with_log(error, &stage, out.language))?;
    let control = Control::locate(None, Some(&stage.state()), out.language);
    let url = system.url.clone().unwrap_or_default();
    let scene = tour::Scene {
        control: &control,
        settings: &settings,
        stage: &stage,
        url: &url,
        interrupt: &interrupt,
    };
    let mut timeline = timeline::Timeline::new(&settings, now(), out);
    if arguments.once {
        let driven = if arguments.tour {
            tour::drive(&scene, &mut timeline, true, out)
        } else {
            once::drive(&control, &settings, &stage, out)
        };
        system.end();
        return driven.map_err(|error| with_log(error, &stage, out.language));
    }
    if arguments.tour {
        greet(&url, &stage, words::tour_title(out.language), words::tour_first(out.language), out)?;
        match tour::drive(&scene, &mut timeline, false, out) {
            Ok(()) => out.line(words::tour_stays(out.language))?,
            Err(error) if error.is::<tour::Interrupted>() => {}
            // The board is worth more than the tour: who clicked ahead of it goes on alone.
            Err(error) => crate::output::complain(&words::tour_ends(out.language, &format!("{error:#}"))),
        }
    } else {
        greet(&url, &stage, words::demo_title(out.language), words::demo_first(out.language), out)?;
    }
    timeline::follow(&settings, timeline)?;
    system.run_until(&interrupt, out);
    Ok(())
}

fn greet(url: &str, stage: &Stage, title: String, first: String, out: Out) -> anyhow::Result<()> {
    out.line(out.paint(Style::Strong, title))?;
    out.line("")?;
    let row =
        |label: String, style, value: String| vec![(Style::Plain, "  ".to_owned() + &label), (style, value)];
    out.table(&[
        row(words::address(out.language), Style::Name, url.to_owned()),
        row(words::directory(out.language), Style::Plain, stage.dir.display().to_string()),
        row(words::log_file(out.language), Style::Plain, stage.log().display().to_string()),
    ])?;
    out.line("")?;
    out.line(first)?;
    out.line(words::demo_then(out.language, &stage.config().display().to_string()))?;
    out.line("")?;
    // For programs that wait for it, as `dev` prints it.
    out.line(format_args!("ready {}", out.paint(Style::Name, url)))?;
    Ok(())
}

/// A failure with what the daemons said last.
fn with_log(error: anyhow::Error, stage: &Stage, language: Language) -> anyhow::Error {
    if is_closed_pipe(&error) {
        return error;
    }
    let log = std::fs::read_to_string(stage.log()).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let tail = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
    let path = stage.log().display().to_string();
    anyhow::anyhow!("{error:#}\n{}\n{tail}", words::log_says(language, &path))
}

/// Lines of the log that a failure shows.
const LOG_LINES: usize = 20;

/// The directory of this demo, locked; directories of earlier ones are removed.
fn prepare(arguments: &Demo, out: Out) -> anyhow::Result<(Stage, Flock<File>)> {
    let dir = match &arguments.dir {
        Some(dir) => {
            let empty = std::fs::read_dir(dir).map_or(Ok(true), |mut entries| match entries.next() {
                None => Ok(true),
                Some(entry) => entry.map(|_| false),
            });
            let empty = empty.with_context(|| dir.display().to_string())?;
            anyhow::ensure!(empty, words::not_empty(out.language, &dir.display().to_string()));
            dir.clone()
        }
        None => {
            let home = home()?;
            remove_earlier(&home);
            let time = Timestamp::now().strftime("%Y%m%d-%H%M%S");
            home.join(format!("{PREFIX}{time}-{}", std::process::id()))
        }
    };
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let dir = std::fs::canonicalize(&dir).with_context(|| dir.display().to_string())?;
    let lock = lock(&dir)?.with_context(|| words::demo_runs(out.language, &dir.display().to_string()))?;
    if arguments.keep || arguments.dir.is_some() {
        std::fs::write(dir.join(KEEP), "").with_context(|| dir.display().to_string())?;
    }
    Ok((Stage { dir }, lock))
}

/// The lock of a demo's directory; `None` if a demo runs there.
fn lock(dir: &Path) -> anyhow::Result<Option<Flock<File>>> {
    let path = dir.join(LOCK);
    let file =
        File::options().create(true).append(true).open(&path).with_context(|| path.display().to_string())?;
    Ok(Flock::lock(file, FlockArg::LockExclusiveNonblock).ok())
}

/// Where demos lie: below the build directory that this program stands in, else among temporary files.
fn home() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("the path of this program")?;
    // Cargo marks its build directory so that backups leave it out.
    let built = program.ancestors().skip(1).find(|dir| dir.join("CACHEDIR.TAG").is_file());
    if let Some(target) = built {
        return Ok(target.join("demo"));
    }
    // Under a name that anybody can guess, so nothing is done in a directory of somebody else.
    let home = std::env::temp_dir().join(format!("board-agent-demo-{}", nix::unistd::geteuid()));
    create_dirs_private(&home)?;
    check_owned_dir(&home, 0o755)?;
    Ok(home)
}

/// Removes what earlier demos left, unless it is kept or still runs. What cannot be removed is left to the
/// next one.
fn remove_earlier(home: &Path) {
    let Ok(entries) = std::fs::read_dir(home) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_demo = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if is_demo && !path.join(KEEP).exists() && path.join(LOCK).exists() {
            // Held until the directory is gone.
            if let Ok(Some(_lock)) = lock(&path) {
                let _ = std::fs::remove_dir_all(&path);
            }
        }
    }
}

/// Whether bubblewrap starts here, with everything that a run asks of it.
fn probe() -> Result<(), String> {
    let paths = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let program = std::env::split_paths(&paths).map(|dir| dir.join("bwrap")).find(|path| path.is_file());
    board_worker::sandbox::probe(&program.ok_or("bwrap: not found")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_demo_is_removed_unless_it_is_kept_or_runs() {
        let home = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let dir = home.path().join(name);
            std::fs::create_dir_all(dir.join("state")).unwrap();
            let lock = lock(&dir).unwrap().unwrap();
            (dir, lock)
        };
        let (old, lock_of_old) = make("demo-1");
        drop(lock_of_old);
        let (kept, lock_of_kept) = make("demo-2");
        drop(lock_of_kept);
        std::fs::write(kept.join(KEEP), "").unwrap();
        let (running, _lock) = make("demo-3");
        let (other, lock_of_other) = make("something");
        drop(lock_of_other);
        remove_earlier(home.path());
        assert!(!old.exists() && kept.exists() && running.exists() && other.exists());
    }
}

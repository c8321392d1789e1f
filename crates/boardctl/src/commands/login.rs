//! `boardctl login RUNTIME`: the runtime's own login, in the home that it keeps, as the service user.
//!
//! The program talks with the person in front of the terminal; here is only who it runs as, where, and whether a
//! login was left. It runs without the sandbox, which has no terminal: it is the operator's own act, and no text of
//! a card reaches it.
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use board_core::edge::files::create_dirs_private;
use board_core::edge::settings::Settings;
use board_worker::login::login;
use nix::sys::stat::{Mode, umask};
use serde_json::json;

use crate::output::{Out, Style};
use crate::words;

/// What a login is given of the caller's environment: the terminal, the language and the way out.
const PASSED_ON: [&str; 11] = [
    "TERM",
    "COLORTERM",
    "LANG",
    "LC_ALL",
    "NO_COLOR",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
];

/// Logs a runtime in.
///
/// # Errors
/// An unknown runtime, another user's state directory, a program that is missing, fails or leaves no login.
pub(crate) fn run(settings: &Settings, name: &str, arguments: &[String], out: Out) -> anyhow::Result<()> {
    let runtime = settings.runtimes.get(name).with_context(|| {
        let known: Vec<&str> = settings.runtimes.keys().map(String::as_str).collect();
        words::no_such_runtime(out.language, name, &known.join(", "))
    })?;
    let state_dir = &settings.board.state_dir;
    let there = std::fs::metadata(state_dir).with_context(|| state_dir.display().to_string())?;
    let me = nix::unistd::geteuid();
    anyhow::ensure!(
        me.is_root() || me.as_raw() == there.uid(),
        words::login_not_yours(out.language, &state_dir.display().to_string(), name)
    );
    let asked = login(settings, name, runtime, arguments, out.language).map_err(anyhow::Error::msg)?;
    let service = (me.is_root() && there.uid() != 0).then(|| (there.uid(), there.gid()));
    for directory in &asked.directories {
        make(state_dir, directory, service)?;
    }
    let mut command = Command::new(&asked.argv[0]);
    command.args(&asked.argv[1..]).env_clear().current_dir(&asked.home);
    command.envs(PASSED_ON.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
    command.envs(asked.env.iter().map(|(name, value)| (name, value)));
    if let Some((user, group)) = service {
        command.uid(user).gid(group);
    }
    if out.json {
        // What it says to the person is not the value that is printed.
        command.stdout(std::io::stderr());
    }
    // What it leaves is a secret, whatever it thinks of it.
    umask(Mode::from_bits_truncate(0o077));
    let line = asked.argv.join(" ");
    let status = command.status().with_context(|| line.clone())?;
    anyhow::ensure!(status.success(), words::login_failed(out.language, &line, &status.to_string()));
    let left = asked.credential.as_deref();
    if let Some(file) = left.filter(|file| !holds_a_login(file)) {
        anyhow::bail!(words::login_left_nothing(out.language, &line, &file.display().to_string()));
    }
    if out.json {
        let file = left.map(|file| file.display().to_string());
        return Ok(
            out.value(&json!({ "runtime": name, "home": asked.home.display().to_string(), "login": file }))?
        );
    }
    let place = left.unwrap_or(&asked.home).display().to_string();
    Ok(out.line(out.paint(Style::Good, words::logged_in(out.language, name, &place)))?)
}

/// Makes a directory below the state directory, with those above it that are missing, for the service alone.
fn make(state_dir: &Path, directory: &Path, service: Option<(u32, u32)>) -> anyhow::Result<()> {
    let below: Vec<&Path> = directory.ancestors().take_while(|above| *above != state_dir).collect();
    for directory in below.into_iter().rev().filter(|directory| !directory.is_dir()) {
        create_dirs_private(directory)?;
        if let Some((user, group)) = service {
            chown(directory, Some(user), Some(group)).with_context(|| directory.display().to_string())?;
        }
    }
    Ok(())
}

/// Whether the file is there and JSON, as every login is that comes back from a run.
fn holds_a_login(file: &Path) -> bool {
    let bytes = std::fs::read(file).unwrap_or_default();
    serde_json::from_slice::<serde_json::Value>(&bytes).is_ok_and(|value| value.is_object())
}

//! Whether an agent can run here: the sandbox, and each runtime with its version and its login.
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use board_core::edge::settings::{Runtime, RuntimeKind, SandboxMode, SandboxNetwork, Settings};
use board_worker::PATH;
use board_worker::sandbox::{probe, resolve_program};

use super::Report;

/// How long a program may take to say its version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);
/// Longest version that is shown, in characters.
const MAX_VERSION_CHARS: usize = 60;
/// Homes, which the units hide.
const HIDDEN: [&str; 2] = ["/home", "/root"];

/// bubblewrap and what it is asked for.
pub(super) fn sandbox(report: &mut Report, settings: &Settings) {
    let what = report.say("Sandbox", "sandbox");
    match settings.sandbox.mode {
        SandboxMode::None => {
            let found = report.say("aus: Agenten laufen ungeschützt", "off: agents run unprotected");
            return report.warn(&what, found, "sandbox.mode = \"bubblewrap\"");
        }
        SandboxMode::Bubblewrap => {}
    }
    match resolve_program("bwrap", PATH).and_then(|program| probe(&program).map(|()| program)) {
        Ok(program) => report.good(&what, program.display().to_string()),
        Err(why) => {
            let remedy = report.say(
                "apt-get install bubblewrap; sind Benutzer-Namensräume erlaubt (sysctl kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns)?",
                "apt-get install bubblewrap; are user namespaces allowed (sysctl kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns)?",
            );
            report.bad(&what, format!("bubblewrap: {why}"), remedy);
        }
    }
    match settings.sandbox.network {
        SandboxNetwork::Outside => {
            let found = report.say(
                "network = \"outside\" kann diese Version nicht",
                "network = \"outside\" is not there yet",
            );
            report.bad(&what, found, "sandbox.network = \"host\" | \"none\"");
        }
        SandboxNetwork::Host | SandboxNetwork::None => {}
    }
}

/// Every runtime: its program, and where it keeps its login.
pub(super) fn runtimes(report: &mut Report, settings: &Settings) {
    for (name, runtime) in &settings.runtimes {
        let used = settings.profiles.iter().filter(|(_, profile)| profile.runtime == *name);
        let used: Vec<&str> = used.map(|(profile, _)| profile.as_str()).collect();
        let what = format!("runtime {name}");
        if used.is_empty() {
            let found = report.say("kein Profil nutzt sie", "no profile uses it");
            report.good(&what, found);
            continue;
        }
        one(report, settings, &what, name, runtime);
    }
}

fn one(report: &mut Report, settings: &Settings, what: &str, name: &str, runtime: &Runtime) {
    let Some(program) = runtime.program.as_ref().or_else(|| runtime.argv.first()) else { return };
    let program = match resolve_program(program, PATH) {
        Ok(program) => program,
        Err(why) => {
            let remedy = report.say(
                format!("installieren (gesucht wird in {PATH}), oder den Pfad in [runtimes.{name}] nennen"),
                format!("install it (looked for in {PATH}), or name its path in [runtimes.{name}]"),
            );
            return report.bad(what, format!("{program}: {why}"), remedy);
        }
    };
    if HIDDEN.iter().any(|hidden| program.starts_with(hidden)) && board_core::edge::systemd::is_booted() {
        let found = report.say(
            format!("{} liegt in einem Home, das die Units nicht sehen", program.display()),
            format!("{} lies in a home, which the units do not see", program.display()),
        );
        let remedy = report.say("nach /usr/local installieren", "install it below /usr/local");
        report.warn(what, found, remedy);
    }
    match runtime.kind {
        // Any program: it might do anything when it is called.
        RuntimeKind::Command => return report.good(what, program.display().to_string()),
        RuntimeKind::Codex
        | RuntimeKind::Claude
        | RuntimeKind::Acp
        | RuntimeKind::Opencode
        | RuntimeKind::Gemini => {}
    }
    match version(&program, VERSION_WITHIN) {
        Ok(version) => report.good(what, format!("{} ({version})", program.display())),
        Err(why) => {
            let remedy = report.say("von Hand mit --version aufrufen", "call it by hand with --version");
            report.warn(what, format!("{}: {why}", program.display()), remedy);
        }
    }
    let login = match runtime.kind {
        RuntimeKind::Codex => ".codex/auth.json",
        RuntimeKind::Claude => ".claude/.credentials.json",
        RuntimeKind::Acp | RuntimeKind::Opencode | RuntimeKind::Gemini | RuntimeKind::Command => return,
    };
    let home = settings.board.state_dir.join("runtimes").join(name);
    if runtime.credential.is_none() && !home.join(login).is_file() {
        let found = report.say(
            format!("nicht angemeldet: {} fehlt", home.join(login).display()),
            format!("not logged in: {} is missing", home.join(login).display()),
        );
        report.warn(what, found, format!("boardctl login {name}"));
    }
}

/// The first line of what `program --version` says.
fn version(program: &Path, within: Duration) -> Result<String, String> {
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let deadline = Instant::now() + within;
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("--version: {} s", within.as_secs()));
            }
        }
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().next().unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).take(MAX_VERSION_CHARS).collect();
    if output.status.success() { Ok(line) } else { Err(output.status.to_string()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(dir: &Path, text: &str) -> std::path::PathBuf {
        let path = dir.join("agent");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_version_is_one_line_and_a_program_that_hangs_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(MAX_VERSION_CHARS + 1);
        let said = version(&program(dir.path(), &format!("echo {long}; echo more")), VERSION_WITHIN).unwrap();
        assert_eq!(said.len(), MAX_VERSION_CHARS);
        assert!(version(&program(dir.path(), "exit 3"), VERSION_WITHIN).is_err());
        assert!(version(&program(dir.path(), "exec sleep 100"), Duration::from_millis(50)).is_err());
    }
}

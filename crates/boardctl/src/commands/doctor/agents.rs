//! Whether an agent can run here: the sandbox, and each runtime with its version, its login and its own sandbox.
//!
//! What there is to find, and how it is asked, the worker knows (`board_worker::check`); here it becomes lines.
use board_core::edge::settings::{SandboxMode, SandboxNetwork, Settings};
use board_worker::PATH;
use board_worker::check::{Login, RuntimeCheck, check};
use board_worker::sandbox::{probe, resolve_program};

use super::Report;

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

/// Every runtime that a profile uses.
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
        tell(report, &what, name, check(settings, name, runtime));
    }
}

/// What was found of one runtime, as lines.
fn tell(report: &mut Report, what: &str, name: &str, found: RuntimeCheck) {
    let program = match &found.program {
        Ok(program) => program.clone(),
        Err(why) => {
            let remedy = report.say(
                format!("installieren (gesucht wird in {PATH}), oder den Pfad in [runtimes.{name}] nennen"),
                format!("install it (looked for in {PATH}), or name its path in [runtimes.{name}]"),
            );
            return report.bad(what, why.clone(), remedy);
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
    let RuntimeCheck { version, login, own_sandbox, .. } = found;
    match version {
        None => report.good(what, program.display().to_string()),
        Some(Ok(version)) => report.good(what, format!("{} ({version})", program.display())),
        Some(Err(why)) => {
            let remedy = report.say(
                format!(
                    "so läuft kein Agent; braucht das Programm etwas außerhalb von /usr, gehört es in \
                     sandbox.read; von Hand: {} --version",
                    program.display()
                ),
                format!(
                    "no agent runs like this; what the program needs outside of /usr belongs into \
                     sandbox.read; by hand: {} --version",
                    program.display()
                ),
            );
            let found = report.say(
                format!("{} antwortet in der Sandbox nicht: {why}", program.display()),
                format!("{} does not answer in the sandbox: {why}", program.display()),
            );
            report.bad(what, found, remedy);
        }
    }
    self::login(report, what, name, &login);
    if let Some(held) = own_sandbox {
        own(report, what, held);
    }
}

/// Whether there is something to log in with.
fn login(report: &mut Report, what: &str, name: &str, login: &Login) {
    match login {
        Login::Unknown => {}
        Login::Key => {
            let found = report.say("Anmeldung mit einem Schlüssel", "logs in with a key");
            report.good(what, found);
        }
        Login::There(file) => {
            let found = report
                .say(format!("angemeldet: {}", file.display()), format!("logged in: {}", file.display()));
            report.good(what, found);
        }
        Login::Missing(file) => {
            let found = report.say(
                format!("nicht angemeldet: {} fehlt", file.display()),
                format!("not logged in: {} is missing", file.display()),
            );
            report.warn(what, found, format!("boardctl login {name}"));
        }
    }
}

/// The sandbox that a runtime starts within ours.
fn own(report: &mut Report, what: &str, held: Result<(), String>) {
    match held {
        Ok(()) => {
            let found = report.say(
                "die eigene Sandbox startet in unserer und hält",
                "its own sandbox starts within ours and holds",
            );
            report.good(what, found);
        }
        Err(why) => {
            let found = report.say(
                format!("die eigene Sandbox startet nicht in unserer oder hält nicht: {why}"),
                format!("its own sandbox does not start within ours, or does not hold: {why}"),
            );
            let remedy = report.say(
                "sind Benutzer-Namensräume innerhalb von Benutzer-Namensräumen erlaubt (sysctl \
                 user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)?",
                "are user namespaces within user namespaces allowed (sysctl user.max_user_namespaces, \
                 kernel.apparmor_restrict_unprivileged_userns)?",
            );
            report.bad(what, found, remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use board_core::edge::settings::Language;

    use super::super::Level;
    use super::*;

    fn levels(checks: &Report) -> Vec<Level> {
        checks.checks.iter().map(|check| check.level).collect()
    }

    #[test]
    fn everything_that_was_found_of_a_runtime_has_its_line_and_its_remedy() {
        let found = RuntimeCheck {
            program: Ok(PathBuf::from("/usr/bin/codex")),
            version: Some(Ok("codex-cli 1".into())),
            login: Login::There(PathBuf::from("/s/auth.json")),
            own_sandbox: Some(Ok(())),
        };
        let mut report = Report::new(Language::En);
        tell(&mut report, "runtime codex", "codex", found.clone());
        assert_eq!(levels(&report), [Level::Good; 3]);
        let bad = RuntimeCheck {
            version: Some(Err("exit status: 1".into())),
            login: Login::Missing(PathBuf::from("/s/auth.json")),
            own_sandbox: Some(Err("exit status: 4".into())),
            ..found
        };
        let mut report = Report::new(Language::De);
        tell(&mut report, "runtime codex", "codex", bad.clone());
        assert_eq!(levels(&report), [Level::Bad, Level::Warn, Level::Bad]);
        assert_eq!(report.checks[1].remedy, "boardctl login codex");
        assert!(report.checks.iter().all(|check| !check.remedy.is_empty()));
        let mut report = Report::new(Language::De);
        tell(
            &mut report,
            "runtime codex",
            "codex",
            RuntimeCheck { program: Err("codex: not found".into()), ..bad },
        );
        assert_eq!(levels(&report), [Level::Bad]);
        assert!(report.checks[0].remedy.contains("[runtimes.codex]"));
    }

    #[test]
    fn a_program_of_ones_own_has_one_line_and_a_key_is_said_to_be_one() {
        let found = RuntimeCheck {
            program: Ok(PathBuf::from("/usr/local/bin/agent")),
            version: None,
            login: Login::Unknown,
            own_sandbox: None,
        };
        let mut report = Report::new(Language::De);
        tell(&mut report, "runtime mine", "mine", found.clone());
        assert_eq!(levels(&report), [Level::Good]);
        tell(&mut report, "runtime mine", "mine", RuntimeCheck { login: Login::Key, ..found });
        assert!(report.checks[2].found.contains("Schlüssel"));
    }
}

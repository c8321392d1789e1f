//! What systemd says of our units, and the few things that it is asked to do with them: `systemctl`, called and read.
//!
//! Apart because only the sweep and `doctor` speak to systemd about units; the daemons tell it of themselves by
//! sd_notify. Reading is pure and beside the calling, so recorded answers test it.
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::model::job::Lane;

/// The target of everything.
pub const TARGET: &str = "board-agent.target";
/// The board.
pub const TRIGGER: &str = "board-agent-trigger.service";
/// Its sockets.
pub const TRIGGER_SOCKET: &str = "board-agent-trigger.socket";
/// The completion watcher.
pub const WATCHER: &str = "board-agent-watcher.service";
/// The sweep.
pub const SWEEP: &str = "board-agent-sweep.service";
/// What wakes the sweep.
pub const SWEEP_TIMER: &str = "board-agent-sweep.timer";
/// What starts the sweep if something waits.
pub const BACKLOG: &str = "board-agent-backlog.service";
/// What looks whether something waits.
pub const BACKLOG_TIMER: &str = "board-agent-backlog.timer";
/// What all path units of slots match.
pub const SLOT_PATHS: &str = "board-agent-*@*.path";

/// What is asked of each unit.
const PROPERTIES: &str = "Id,LoadState,ActiveState,Result,UnitFileState";

/// The path unit of a slot.
pub fn slot_path(lane: Lane, slot: u32) -> String {
    format!("board-agent-{}@{slot}.path", lane.id())
}

/// The worker of a slot.
pub fn slot_service(lane: Lane, slot: u32) -> String {
    format!("board-agent-{}@{slot}.service", lane.id())
}

/// The slot that a path unit stands for.
pub fn slot_of(path_unit: &str) -> Option<(Lane, u32)> {
    let (lane, slot) = path_unit.strip_prefix("board-agent-")?.strip_suffix(".path")?.split_once('@')?;
    let found = (Lane::from_id(lane)?, slot.parse().ok()?);
    // One spelling only: the running directory of `build@01` would be another.
    (slot_path(found.0, found.1) == path_unit).then_some(found)
}

/// A unit as systemd sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unit {
    /// Its name.
    pub id: String,
    /// `loaded`, `not-found`, `masked` …
    pub load: String,
    /// `active`, `inactive`, `failed` …
    pub active: String,
    /// Why it ended, for example `success` or `unit-start-limit-hit`.
    pub result: String,
    /// `enabled`, `static`, `masked` …; empty where it has no file.
    pub file: String,
}

impl Unit {
    /// It gave up and does not revive by itself.
    pub fn is_failed(&self) -> bool {
        self.active == "failed"
    }

    /// It runs, or waits for what it watches.
    pub fn is_active(&self) -> bool {
        matches!(self.active.as_str(), "active" | "activating" | "reloading")
    }

    /// It was taken out of use.
    pub fn is_masked(&self) -> bool {
        self.load == "masked" || self.file.starts_with("masked")
    }
}

/// `systemctl` gave no answer.
#[derive(Debug, thiserror::Error)]
#[error("{command}: {why}")]
pub struct SystemctlError {
    command: String,
    why: String,
}

/// Whether this host was booted with systemd.
pub fn is_booted() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// The program.
#[derive(Debug, Clone)]
pub struct Systemctl {
    program: PathBuf,
}

impl Default for Systemctl {
    fn default() -> Systemctl {
        Systemctl { program: "systemctl".into() }
    }
}

impl Systemctl {
    /// Another program in its place.
    pub fn at(program: impl Into<PathBuf>) -> Systemctl {
        Systemctl { program: program.into() }
    }

    /// The state of units. A pattern finds those that are loaded; a name always gives one.
    ///
    /// # Errors
    /// [`SystemctlError`], for example without a bus.
    pub fn units(&self, names: &[&str]) -> Result<Vec<Unit>, SystemctlError> {
        let mut arguments = vec!["show", "--property", PROPERTIES, "--"];
        arguments.extend(names);
        Ok(parse_units(&self.call(&arguments)?))
    }

    /// One property of one unit, as systemd spells it.
    ///
    /// # Errors
    /// [`SystemctlError`].
    pub fn property(&self, unit: &str, name: &str) -> Result<String, SystemctlError> {
        let said = self.call(&["show", "--value", "--property", name, "--", unit])?;
        Ok(said.trim_end().to_owned())
    }

    /// Forgets that a unit failed, and starts it. For root.
    ///
    /// # Errors
    /// [`SystemctlError`].
    pub fn revive(&self, unit: &str) -> Result<(), SystemctlError> {
        // systemd may have forgotten the unit with its failure; whether it starts is what counts.
        let _ = self.call(&["reset-failed", "--", unit]);
        self.call(&["start", "--no-block", "--", unit]).map(drop)
    }

    /// Starts a unit and waits for nothing. For root.
    ///
    /// # Errors
    /// [`SystemctlError`], for example for a masked one.
    pub fn start(&self, unit: &str) -> Result<(), SystemctlError> {
        self.call(&["start", "--no-block", "--", unit]).map(drop)
    }

    /// Whether a unit is to be started, perhaps again, by what systemd does right now.
    ///
    /// # Errors
    /// [`SystemctlError`].
    pub fn will_start(&self, unit: &str) -> Result<bool, SystemctlError> {
        let jobs = self.call(&["list-jobs", "--plain", "--no-legend", "--", unit])?;
        Ok(parse_jobs(&jobs).any(|kind| kind.contains("start")))
    }

    /// Stops units, patterns among them, and waits until they are. For root.
    ///
    /// # Errors
    /// [`SystemctlError`].
    pub fn stop(&self, units: &[String]) -> Result<(), SystemctlError> {
        let mut arguments = vec!["stop", "--"];
        arguments.extend(units.iter().map(String::as_str));
        self.call(&arguments).map(drop)
    }

    /// Reads the unit files again. For root.
    ///
    /// # Errors
    /// [`SystemctlError`].
    pub fn daemon_reload(&self) -> Result<(), SystemctlError> {
        self.call(&["daemon-reload"]).map(drop)
    }

    fn call(&self, arguments: &[&str]) -> Result<String, SystemctlError> {
        let refused =
            |why: String| SystemctlError { command: format!("systemctl {}", arguments.join(" ")), why };
        let output = Command::new(&self.program)
            .arg("--no-pager")
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| refused(error.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(refused(said.lines().next().map_or_else(|| output.status.to_string(), str::to_owned)))
    }
}

/// The kinds in the answer of `systemctl list-jobs`: number, unit, kind and state in each line.
fn parse_jobs(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.split_whitespace().nth(2))
}

/// Reads the answer of `systemctl show`: lines `Key=value`, an empty one between two units.
pub fn parse_units(text: &str) -> Vec<Unit> {
    let mut units = Vec::new();
    for block in text.split("\n\n") {
        let mut unit = Unit::default();
        for (key, value) in block.lines().filter_map(|line| line.split_once('=')) {
            let field = match key {
                "Id" => &mut unit.id,
                "LoadState" => &mut unit.load,
                "ActiveState" => &mut unit.active,
                "Result" => &mut unit.result,
                "UnitFileState" => &mut unit.file,
                _ => continue,
            };
            value.clone_into(field);
        }
        if !unit.id.is_empty() {
            units.push(unit);
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const ANSWER: &str = "Result=unit-start-limit-hit\nId=board-agent-build@1.path\nLoadState=loaded\n\
        ActiveState=failed\nUnitFileState=enabled\n\nResult=success\nId=board-agent-read@2.path\nLoadState=masked\n\
        ActiveState=inactive\nUnitFileState=masked\n";

    #[test]
    fn a_restart_is_told_from_a_stop() {
        let kinds = |text| parse_jobs(text).collect::<Vec<_>>();
        assert_eq!(kinds("812 board-agent.target restart running\n"), ["restart"]);
        assert_eq!(kinds("812 board-agent.target stop waiting\n"), ["stop"]);
        assert!(kinds("No jobs\n").is_empty() && kinds("").is_empty());
    }

    #[test]
    fn the_answer_of_show_is_read_unit_by_unit() {
        let units = parse_units(ANSWER);
        assert_eq!(units.len(), 2);
        assert!(units[0].is_failed() && !units[0].is_active() && !units[0].is_masked());
        assert_eq!(units[0].result, "unit-start-limit-hit");
        assert!(units[1].is_masked() && !units[1].is_failed());
        assert_eq!(parse_units("\n"), []);
    }

    #[test]
    fn a_path_unit_names_its_slot_in_one_spelling() {
        assert_eq!(slot_of("board-agent-build@2.path"), Some((Lane::Build, 2)));
        for other in
            ["board-agent-build@02.path", "board-agent-build@.path", "board-agent-x@1.path", "x.path"]
        {
            assert_eq!(slot_of(other), None, "{other}");
        }
        assert_eq!(slot_service(Lane::Read, 3), "board-agent-read@3.service");
    }

    #[test]
    fn a_refusal_is_told_with_the_command_and_what_it_said() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("systemctl");
        std::fs::write(&program, "#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = Systemctl::at(program).start("a.path").unwrap_err();
        assert_eq!(error.to_string(), "systemctl start --no-block -- a.path: Failed to connect to bus");
        let error = Systemctl::at(dir.path().join("none")).units(&["a.path"]).unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }
}

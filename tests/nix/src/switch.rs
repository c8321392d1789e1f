//! What `switch-to-configuration` of NixOS does with units that changed, as its manual says.
//!
//! Apart from doing it, so that the rules are tested where no systemd runs.

use std::path::Path;

use crate::tree::{all_files, directives};

/// What a switch does, in this order: stop, reload systemd, restart, start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Stopped while the old units are there.
    pub stop: Vec<String>,
    /// Restarted with the new units.
    pub restart: Vec<String>,
    /// Started with the new units.
    pub start: Vec<String>,
}

/// Compares two directories of units for the units that are active or about to be.
///
/// # Errors
/// A directory that cannot be read.
pub fn plan(old: &Path, new: &Path, active: &[String]) -> anyhow::Result<Plan> {
    let mut plan = Plan::default();
    for unit in active {
        let Some(before) = text(old, unit)? else { continue };
        let Some(after) = text(new, unit)? else {
            if !says(&before, "Unit", "X-StopOnRemoval", "false") {
                plan.stop.push(unit.clone());
            }
            continue;
        };
        let kind = unit.rsplit_once('.').map_or("", |(_, kind)| kind);
        if kind == "target" {
            // Always, so that what is new among its wants comes along.
            plan.start.push(unit.clone());
        }
        if before == after || matches!(kind, "target" | "path" | "slice" | "socket" | "mount") {
            // What systemd takes over at a reload, or what NixOS leaves alone.
            continue;
        }
        let is_left = says(&after, "Service", "X-RestartIfChanged", "false")
            || says(&after, "Unit", "RefuseManualStop", "true");
        if is_left {
            continue;
        }
        if kind != "service" || says(&after, "Service", "X-StopIfChanged", "false") {
            plan.restart.push(unit.clone());
            continue;
        }
        plan.stop.push(unit.clone());
        let socket = format!("{}.socket", unit.trim_end_matches(".service"));
        if active.contains(&socket) {
            // Its sockets are stopped with it, and only they are started again.
            plan.stop.push(socket.clone());
            plan.start.push(socket);
        } else {
            plan.start.push(unit.clone());
        }
    }
    Ok(plan)
}

fn says(text: &str, section: &str, key: &str, value: &str) -> bool {
    directives(text).contains(&(section.to_owned(), key.to_owned(), value.to_owned()))
}

/// A unit with its drop-ins, an instance with those of its template; `None` if there is no such unit.
fn text(dir: &Path, unit: &str) -> anyhow::Result<Option<String>> {
    let template = unit.split_once('@').and_then(|(name, rest)| {
        let (_, kind) = rest.rsplit_once('.')?;
        Some(format!("{name}@.{kind}"))
    });
    let base =
        if dir.join(unit).exists() { unit.to_owned() } else { template.unwrap_or_else(|| unit.to_owned()) };
    let Ok(mut text) = std::fs::read_to_string(dir.join(&base)) else { return Ok(None) };
    let mut drop_ins = vec![dir.join(format!("{base}.d"))];
    if base != unit {
        drop_ins.push(dir.join(format!("{unit}.d")));
    }
    for dir in drop_ins.iter().filter(|dir| dir.is_dir()) {
        for file in all_files(dir)? {
            text.push_str(&std::fs::read_to_string(file)?);
        }
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(units: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in units {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        dir
    }

    fn planned(old: &[(&str, &str)], new: &[(&str, &str)], active: &[&str]) -> Plan {
        let active: Vec<String> = active.iter().map(|&unit| unit.to_owned()).collect();
        plan(tree(old).path(), tree(new).path(), &active).unwrap()
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_changed_service_is_stopped_and_started_with_its_socket_unless_it_says_otherwise() {
        let old = [("a.service", "[Service]\nExecStart=1\n"), ("a.socket", "[Socket]\n")];
        let new = [("a.service", "[Service]\nExecStart=2\n"), ("a.socket", "[Socket]\n")];
        let done = planned(&old, &new, &["a.service", "a.socket"]);
        assert_eq!((done.stop, done.start), (names(&["a.service", "a.socket"]), names(&["a.socket"])));
        let done = planned(&old, &new, &["a.service"]);
        assert_eq!((done.stop, done.start), (names(&["a.service"]), names(&["a.service"])));
        let kept = [("a.service", "[Service]\nExecStart=2\nX-StopIfChanged=false\n")];
        assert_eq!(planned(&old, &kept, &["a.service", "a.socket"]).restart, names(&["a.service"]));
        let left =
            [("a.service", "[Service]\nExecStart=2\nX-RestartIfChanged=false\n"), ("a.socket", "[Socket]\n")];
        assert_eq!(planned(&old, &left, &["a.service", "a.socket"]), Plan::default());
        assert_eq!(planned(&old, &new, &[]), Plan::default(), "what does not run is not touched");
    }

    #[test]
    fn an_instance_is_judged_by_its_template_and_its_drop_ins() {
        let old = [("a@.service", "[Service]\n"), ("a@.service.d/o.conf", "[Service]\nA=1\n")];
        let new = [("a@.service", "[Service]\n"), ("a@.service.d/o.conf", "[Service]\nA=2\n")];
        assert_eq!(planned(&old, &new, &["a@1.service"]).stop, names(&["a@1.service"]));
        assert_eq!(planned(&old, &old, &["a@1.service"]), Plan::default());
    }

    #[test]
    fn what_is_gone_is_stopped_unless_it_says_otherwise_and_targets_are_started() {
        let old =
            [("a.service", "[Unit]\n"), ("b.service", "[Unit]\nX-StopOnRemoval=false\n"), ("c.target", "")];
        let done = planned(&old, &[("c.target", "")], &["a.service", "b.service", "c.target"]);
        assert_eq!((done.stop, done.start), (names(&["a.service"]), names(&["c.target"])));
        // Not of NixOS at all.
        assert_eq!(planned(&[], &[], &["d.service"]), Plan::default());
    }
}

//! The units that NixOS would make.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix_tests::tree::{OVERRIDES, all_files, directives, install_package, repeated, write_units};
use nix_tests::{Host, root};

use crate::{hosts, said};

/// The highest exposure by `systemd-analyze security`, in tenths; as for the units themselves.
const THRESHOLDS: [(&str, u32); 10] = [
    ("board-agent-runs.service", 15),
    ("board-agent-watcher.service", 15),
    ("board-agent-trigger.service", 15),
    ("board-agent-sweep.service", 15),
    ("board-agent-backlog.service", 15),
    ("board-agent-alarm@.service", 15),
    ("board-agent-draft@.service", 25),
    ("board-agent-read@.service", 25),
    ("board-agent-research@.service", 25),
    ("board-agent-build@.service", 32),
];
const WORKERS: [&str; 4] = [
    "board-agent-draft@.service",
    "board-agent-read@.service",
    "board-agent-research@.service",
    "board-agent-build@.service",
];

/// A root with the units of a host, as `/etc/systemd/system`, and the programs that they start.
struct Made {
    root: tempfile::TempDir,
}

impl Made {
    fn of(host: &Host) -> Made {
        let root = tempfile::tempdir().unwrap();
        let package = root.path().join(host.package().trim_start_matches('/'));
        install_package(host.package(), &package).unwrap();
        let made = Made { root };
        write_units(host, &package, &made.units()).unwrap();
        fs::create_dir_all(package.join("bin")).unwrap();
        for program in ["board-trigger", "board-watcher", "board-worker", "boardctl"] {
            fs::copy("/bin/true", package.join("bin").join(program)).unwrap();
        }
        made
    }

    fn units(&self) -> PathBuf {
        self.root.path().join("etc/systemd/system")
    }

    /// Whether the module opens the home that the unit file closes.
    fn is_open(&self, name: &str) -> bool {
        let (packaged, added) = self.both(name);
        packaged.contains("ProtectHome=yes") && added.contains("ProtectHome=tmpfs")
    }

    /// The text of a unit file and its packaged drop-ins, and what the module adds.
    fn both(&self, name: &str) -> (String, String) {
        let dir = self.units();
        let mut packaged = fs::read_to_string(dir.join(name)).unwrap_or_default();
        let mut added = String::new();
        for file in all_files(&dir.join(format!("{name}.d"))).unwrap_or_default() {
            let text = fs::read_to_string(&file).unwrap();
            if file.ends_with(OVERRIDES) { added = text } else { packaged.push_str(&text) }
        }
        (packaged, added)
    }
}

#[test]
fn the_module_repeats_no_directive_of_the_unit_files() {
    for (name, host) in hosts() {
        let made = Made::of(&host);
        let mut looked_at = 0;
        for unit in host.units().keys() {
            let (packaged, added) = made.both(unit);
            assert_eq!(repeated(&packaged, &added), [""; 0], "{name}: {unit}");
            looked_at += usize::from(!packaged.is_empty() && !added.is_empty());
        }
        assert!(looked_at >= 10, "{name}");
    }
    // It would be seen.
    let twice =
        repeated("[Service]\nUMask=0077\nA=1\n", "[Service]\nUMask=0077\nA=\nA=1\n[Unit]\nUMask=0077\n");
    assert_eq!(twice, ["[Service] UMask=0077"]);
}

#[test]
fn a_unit_of_the_module_is_a_drop_in_of_one_that_the_package_has_or_an_instance_of_its_template() {
    let there: BTreeSet<String> = fs::read_dir(root().join("systemd"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for (name, host) in hosts() {
        for (unit, made) in host.units() {
            if there.contains(&unit) {
                continue;
            }
            let (template, kind) = unit.split_once('@').map_or(("", ""), |(template, rest)| {
                (template, rest.rsplit_once('.').map_or("", |(_, kind)| kind))
            });
            assert!(there.contains(&format!("{template}@.{kind}")), "{name}: {unit}");
            assert!(made.is_drop_in, "{name}: {unit} would hide its template");
            let of_template = format!("{template}@.{kind}");
            assert!(host.unit(&of_template).is_empty(), "{name}: {unit} hides the drop-in of {of_template}");
        }
    }
}

#[test]
fn the_slots_are_instances_that_the_target_wants() {
    let slots = |name: &str| -> Vec<String> {
        let made = Made::of(&Host::named(name));
        let mut found: Vec<String> = fs::read_dir(made.units().join("board-agent.target.wants"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert!(made.units().join("multi-user.target.wants/board-agent.target").exists(), "{name}");
        found.iter().map(|unit| unit.trim_start_matches("board-agent-").replace(".path", "")).collect()
    };
    assert_eq!(
        slots("default"),
        ["build@1", "build@2", "draft@1", "draft@2", "read@1", "read@2", "research@1"]
    );
    assert_eq!(slots("external-builder"), ["draft@1", "draft@2", "read@1", "read@2", "research@1"]);
    assert_eq!(
        slots("everything"),
        ["build@1", "build@2", "build@3", "build@4", "draft@1", "read@1", "read@2", "read@3", "research@1"]
    );
}

#[test]
fn a_switch_ends_no_run_and_restarts_the_board_under_its_sockets() {
    for (name, host) in hosts() {
        let has = |unit: &str, section: &str, line: &str| {
            let (key, value) = line.split_once('=').unwrap();
            let wanted = (section.to_owned(), key.to_owned(), value.to_owned());
            directives(&host.unit(unit)).contains(&wanted)
        };
        for worker in WORKERS {
            assert!(has(worker, "Service", "X-RestartIfChanged=false"), "{name}: {worker}");
            assert!(has(worker, "Service", "X-StopIfChanged=false"), "{name}: {worker}");
            assert!(has(worker, "Unit", "X-StopOnRemoval=false"), "{name}: {worker}");
            assert!(!host.unit(worker).contains("X-Restart-Triggers"), "{name}: {worker}");
        }
        // Its stop is what ends the runs.
        assert!(has("board-agent-runs.service", "Service", "X-RestartIfChanged=false"), "{name}");
        for daemon in ["board-agent-trigger.service", "board-agent-watcher.service"] {
            // Not stopped first: NixOS would then stop the sockets too, and refuse what comes meanwhile.
            assert!(has(daemon, "Service", "X-StopIfChanged=false"), "{name}: {daemon}");
            assert!(!host.unit(daemon).contains("X-RestartIfChanged=false"), "{name}: {daemon}");
            let file = host.value["configFile"].as_str().unwrap();
            assert!(has(daemon, "Unit", &format!("X-Restart-Triggers={file}")), "{name}: {daemon}");
        }
    }
}

#[test]
fn each_unit_gets_what_its_options_say() {
    let host = Host::named("everything");
    let build = host.unit("board-agent-build@.service");
    for line in [
        "User=agents",
        "Group=agents",
        "MemoryMax=8G",
        "CPUQuota=200%",
        "ReadWritePaths=/srv/cache",
        "ReadWritePaths=-/srv/board-agent/worktrees",
        "ReadWritePaths=/srv/100%%/repo/.git",
        "EnvironmentFile=/run/secrets/agents.env",
        "LoadCredential=openai:/run/secrets/openai",
        "BindReadOnlyPaths=%d:/run/board-agent-keys",
    ] {
        assert!(build.lines().any(|there| there == line), "{line}:\n{build}");
    }
    assert!(!build.contains("proxy-secret"), "the workers do not see the proxy's secret");
    let trigger = host.unit("board-agent-trigger.service");
    assert!(trigger.contains("LoadCredential=proxy-secret:/run/secrets/board-proxy\n"), "{trigger}");
    assert_eq!(host.value["etc"]["credstore/board-agent.proxy-secret"], "/run/secrets/board-proxy");
    assert!(!trigger.contains("openai") && !trigger.contains("agents.env"), "{trigger}");
    let default = Host::named("default");
    assert!(default.unit("board-agent-trigger.socket").is_empty(), "nothing to say");
    let socket = Host::named("unix-socket").unit("board-agent-trigger.socket");
    assert!(
        socket.contains("SocketGroup=nginx\n") && socket.contains("ListenStream=\nListenStream=/run/board")
    );
    // Two users share the checkout where the service has its own; its owner needs no more than his own mask.
    assert!(default.unit("board-agent-watcher.service").contains("UMask=0007\n"));
    assert!(!Host::named("own-user").unit("board-agent-watcher.service").contains("UMask="));
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units_of_any_host() {
    for (name, host) in hosts() {
        let made = Made::of(&host);
        for other in
            ["multi-user.target", "network.target", "sysinit.target", "basic.target", "shutdown.target"]
        {
            fs::write(made.units().join(other), "[Unit]\nDescription=there\n").unwrap();
        }
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no", "--recursive-errors=no"]);
        command.arg(format!("--root={}", made.root.path().display()));
        for entry in fs::read_dir(made.units()).unwrap() {
            let unit = entry.unwrap().file_name().into_string().unwrap();
            if unit.starts_with("board-agent")
                && Path::new(&unit).extension().is_some_and(|kind| kind != "d" && kind != "wants")
            {
                command.arg(unit.replace("@.", "@1."));
            }
        }
        let (good, said) = said(&mut command);
        // Directives of NixOS begin with X-, which systemd leaves alone.
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("board-agent")).collect();
        assert!(good && ours.is_empty(), "{name}: {said}");
    }
}

#[test]
fn no_unit_of_any_host_is_more_exposed_than_its_threshold() {
    for (name, host) in hosts() {
        let made = Made::of(&host);
        for (unit, threshold) in THRESHOLDS {
            // A checkout in a home costs the readers a tenth: the home is empty then instead of closed.
            let is_open = made.is_open(unit);
            let threshold = threshold + u32::from(is_open);
            let mut command = Command::new("systemd-analyze");
            command.args(["security", "--no-pager", "--offline=true", &format!("--threshold={threshold}")]);
            let (good, said) = said(command.arg(format!("./{unit}")).current_dir(made.units()));
            assert!(good, "{name}: {unit}: {}", said.lines().last().unwrap_or_default());
        }
    }
}

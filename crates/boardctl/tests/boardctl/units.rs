//! The units of `systemd/` against the code that they start and the facts of systemd that the queue rests on.
//!
//! Here and not beside the units because the names of lanes and directories are board-core's. Whatever needs a
//! booted systemd is tested in a container.
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use board_core::edge::queue::{Queue, SlotName};
use board_core::model::job::Lane;

/// Where the packaged units keep the state.
const STATE_DIR: &str = "/var/lib/board-agent";
/// The highest exposure by `systemd-analyze security`, in tenths.
const THRESHOLDS: [(&str, u32); 10] = [
    ("board-agent-backlog.service", 15),
    ("board-agent-runs.service", 15),
    ("board-agent-watcher.service", 15),
    ("board-agent-trigger.service", 15),
    ("board-agent-sweep.service", 15),
    ("board-agent-alarm@.service", 15),
    ("board-agent-draft@.service", 25),
    ("board-agent-read@.service", 25),
    ("board-agent-research@.service", 25),
    ("board-agent-build@.service", 32),
];
/// The programs that units start.
const PROGRAMS: [&str; 4] = ["board-trigger", "board-watcher", "board-worker", "boardctl"];
/// What each unit reads after itself.
const SHARED: [(&str, &str); 2] = [
    ("10-worker.conf", "board-agent-build@ board-agent-draft@ board-agent-read@ board-agent-research@"),
    (
        "10-daemon.conf",
        "board-agent-alarm@ board-agent-backlog board-agent-runs board-agent-sweep board-agent-trigger board-agent-watcher",
    ),
];

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systemd")
}

/// The settings of a unit with its drop-ins, in the order in which systemd reads them.
struct Unit {
    name: String,
    settings: Vec<(String, String, String)>,
}

impl Unit {
    fn read(name: &str) -> Unit {
        let mut files = vec![units().join(name)];
        let mut drop_ins: Vec<PathBuf> = fs::read_dir(units().join(format!("{name}.d")))
            .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
            .unwrap_or_default();
        drop_ins.sort();
        files.extend(drop_ins);
        let mut settings = Vec::new();
        for file in files {
            let text =
                fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let mut section = String::new();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                    name.clone_into(&mut section);
                } else if let Some((key, value)) = line.split_once('=') {
                    settings.push((section.clone(), key.to_owned(), value.to_owned()));
                }
            }
        }
        Unit { name: name.to_owned(), settings }
    }

    fn all(&self, key: &str) -> Vec<&str> {
        self.settings
            .iter()
            .filter(|(_, known, _)| known == key)
            .map(|(_, _, value)| value.as_str())
            .collect()
    }

    fn one(&self, key: &str) -> &str {
        match self.all(key).as_slice() {
            [value] => value,
            values => panic!("{}: {key} stands {} times", self.name, values.len()),
        }
    }
}

fn worker(lane: Lane) -> Unit {
    Unit::read(&format!("board-agent-{}@.service", lane.id()))
}

fn names() -> BTreeSet<String> {
    let entries = fs::read_dir(units()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("board-agent") && !name.ends_with(".d"))
        .collect()
}

#[test]
fn every_lane_has_its_two_templates_and_the_rest_is_what_the_design_names() {
    let mut expected: BTreeSet<String> = Lane::ALL
        .iter()
        .flat_map(|lane| ["path", "service"].map(|kind| format!("board-agent-{}@.{kind}", lane.id())))
        .collect();
    expected.extend(
        [
            "board-agent.target",
            "board-agent.slice",
            "board-agent-trigger.socket",
            "board-agent-trigger.service",
            "board-agent-watcher.service",
            "board-agent-backlog.timer",
            "board-agent-backlog.service",
            "board-agent-sweep.timer",
            "board-agent-sweep.service",
            "board-agent-alarm@.service",
            "board-agent-runs.service",
        ]
        .map(str::to_owned),
    );
    assert_eq!(names(), expected);
}

#[test]
fn a_path_unit_watches_exactly_the_directories_that_the_queue_has() {
    let dir = tempfile::tempdir().unwrap();
    let state_dir = dir.path().join("state");
    let queue = Queue::open(&state_dir, true).unwrap();
    let packaged =
        |path: PathBuf| format!("{STATE_DIR}/{}", path.strip_prefix(&state_dir).unwrap().display());
    for lane in Lane::ALL {
        let unit = Unit::read(&format!("board-agent-{}@.path", lane.id()));
        let slot = SlotName::Slot { lane, number: 7 }.to_string();
        let running = packaged(queue.running_dir().join(slot)).replace("-7", "-%i");
        let expected = [packaged(queue.inbox_dir(lane)), running].map(|dir| format!("{dir}/*.json"));
        assert_eq!(unit.all("PathExistsGlob"), expected);
        assert!(unit.all("PathChanged").is_empty() && unit.all("PathModified").is_empty());
        assert_eq!((unit.one("TriggerLimitIntervalSec"), unit.one("TriggerLimitBurst")), ("10s", "20000"));
        assert_eq!(unit.one("WantedBy"), "board-agent.target");
    }
}

#[test]
fn a_worker_has_the_brake_one_program_and_nothing_that_could_fail_its_path_unit() {
    for lane in Lane::ALL {
        let unit = worker(lane);
        let expected = format!("/usr/bin/board-worker --lane {} --slot %i", lane.id());
        assert_eq!(unit.one("ExecStart"), expected);
        for (key, value) in [
            ("Type", "oneshot"),
            ("Restart", "on-failure"),
            ("RestartSec", "1s"),
            ("StartLimitIntervalSec", "0"),
            ("KillMode", "mixed"),
            ("OOMPolicy", "continue"),
            ("NotifyAccess", "main"),
        ] {
            assert_eq!(unit.one(key), value, "{}: {key}", unit.name);
        }
        for (section, key, _) in &unit.settings {
            let refused = key.starts_with("Condition") || key.starts_with("Assert") || key == "Requires";
            assert!(!refused && section != "Install", "{}: {key}", unit.name);
        }
        for key in ["PartOf", "RuntimeMaxSec", "WatchdogSec", "StateDirectory"] {
            assert!(unit.all(key).is_empty(), "{}: {key}", unit.name);
        }
    }
}

#[test]
fn a_worker_leaves_off_what_bubblewrap_and_jit_runtimes_cannot_live_with() {
    for lane in Lane::ALL {
        let unit = worker(lane);
        for key in [
            "ProtectKernelTunables",
            "ProtectKernelLogs",
            "ProtectProc",
            "ProcSubset",
            "MemoryDenyWriteExecute",
        ] {
            assert!(unit.all(key).is_empty(), "{}: {key}", unit.name);
        }
        assert!(unit.all("SystemCallFilter")[0].split(' ').any(|set| set == "@mount"));
        let spaces = unit.one("RestrictNamespaces").split(' ');
        assert_eq!(spaces.collect::<BTreeSet<_>>(), BTreeSet::from(["mnt", "net", "pid", "user"]));
        assert!(unit.all("RestrictSUIDSGID").is_empty(), "{}: openat2", unit.name);
        // bubblewrap makes none then, so the two lines belong together.
        assert_eq!((unit.one("PrivateIPC"), unit.one("Environment")), ("yes", "BOARD_OWN_IPC=yes"));
    }
}

#[test]
fn trigger_and_watcher_can_open_the_checkout_without_following_links() {
    for name in ["board-agent-trigger.service", "board-agent-watcher.service"] {
        // It answers openat2 with ENOSYS.
        assert!(Unit::read(name).all("RestrictSUIDSGID").is_empty(), "{name}");
    }
}

#[test]
fn a_stop_of_the_target_stops_everything_and_a_restart_of_it_touches_no_run_and_no_socket() {
    for name in names() {
        let unit = Unit::read(&name);
        let (part, stops) = (unit.all("PartOf"), unit.all("StopPropagatedFrom"));
        let is_worker = Lane::ALL.iter().any(|lane| name == format!("board-agent-{}@.service", lane.id()));
        if is_worker {
            // Both would end a run at a restart, the second since systemd 253; board-agent-runs.service does not.
            assert_eq!((part.len(), stops.len()), (0, 0), "{name}");
        } else if name.ends_with(".socket") {
            assert_eq!((part.len(), stops), (0, vec!["board-agent.target"]), "{name}");
        } else if name.ends_with(".path")
            || name.contains("runs")
            || name.contains("trigger")
            || name.contains("watcher")
        {
            assert_eq!((part, stops.len()), (vec!["board-agent.target"], 0), "{name}");
        }
    }
}

#[test]
fn what_units_share_is_written_once() {
    for (file, of) in SHARED {
        for unit in of.split(' ') {
            let link = units().join(format!("{unit}.service.d/{file}"));
            assert_eq!(fs::read_link(&link).unwrap(), Path::new("..").join(file), "{}", link.display());
        }
        for (other, _) in SHARED.iter().filter(|(other, _)| *other != file) {
            for unit in of.split(' ') {
                assert!(!units().join(format!("{unit}.service.d/{other}")).exists());
            }
        }
    }
    for name in names().iter().filter(|name| name.ends_with(".service")) {
        let unit = Unit::read(name);
        let mut keys: Vec<&str> = unit.settings.iter().map(|(_, key, _)| key.as_str()).collect();
        // These add up; everything else would be overruled by what is read later.
        let adds = [
            "SystemCallFilter",
            "ReadWritePaths",
            "IPAddressAllow",
            "ExecStart",
            "Documentation",
            "ConditionPathExistsGlob",
        ];
        keys.retain(|key| !adds.contains(key));
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all, "{name} says something twice");
    }
}

#[test]
fn units_start_programs_that_the_project_builds() {
    for name in names() {
        for line in Unit::read(&name).all("ExecStart") {
            let program = line.trim_start_matches('!').split(' ').next().unwrap();
            let program = program.strip_prefix("/usr/bin/").unwrap_or_else(|| panic!("{name}: {program}"));
            assert!(PROGRAMS.contains(&program), "{name}: {program}");
        }
    }
}

/// Runs `systemd-analyze`; `None`, told as a skip, where there is none.
fn analyze(test: &str, arguments: &[&str], dir: &Path) -> Option<(bool, String)> {
    match Command::new("systemd-analyze").args(arguments).current_dir(dir).env("LC_ALL", "C").output() {
        Ok(output) => {
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            Some((output.status.success(), said))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            super::skipped(test, "needs systemd-analyze: apt-get install systemd");
            None
        }
        Err(error) => panic!("systemd-analyze: {error}"),
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    // A root in which the programs and the users are there, as they are where the package is installed.
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    let home = at("etc/systemd/system");
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(at("usr/bin")).unwrap();
    for program in PROGRAMS {
        fs::copy("/bin/true", at("usr/bin").join(program)).unwrap();
    }
    let mut paths = Vec::new();
    for name in names() {
        fs::copy(units().join(&name), home.join(&name)).unwrap();
        if let Ok(entries) = fs::read_dir(units().join(format!("{name}.d"))) {
            let drop_ins = home.join(format!("{name}.d"));
            fs::create_dir(&drop_ins).unwrap();
            for entry in entries.map(Result::unwrap) {
                fs::copy(entry.path(), drop_ins.join(entry.file_name())).unwrap();
            }
        }
        paths.push(name.replace("@.", "@1."));
    }
    // The units that ours name and that every system has.
    for name in ["multi-user.target", "network.target", "sysinit.target", "basic.target", "shutdown.target"] {
        fs::write(home.join(name), "[Unit]\nDescription=there\n").unwrap();
    }
    let root = format!("--root={}", root.path().display());
    let mut arguments = vec!["verify", "--man=no", "--recursive-errors=no", &root];
    arguments.extend(paths.iter().map(String::as_str));
    let Some((good, said)) = analyze("units-verify", &arguments, &home) else { return };
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("board-agent")).collect();
    assert!(good && ours.is_empty(), "{said}");
}

#[test]
fn no_unit_is_more_exposed_than_its_threshold() {
    let services: BTreeSet<String> = names().into_iter().filter(|name| name.ends_with(".service")).collect();
    assert_eq!(services, THRESHOLDS.iter().map(|(name, _)| (*name).to_owned()).collect());
    for (name, threshold) in THRESHOLDS {
        let (threshold, path) = (format!("--threshold={threshold}"), format!("./{name}"));
        let arguments = ["security", "--no-pager", "--offline=true", &threshold, &path];
        let Some((good, said)) = analyze("units-security", &arguments, &units()) else { return };
        assert!(good, "{name}: {}", said.lines().last().unwrap_or_default());
    }
}

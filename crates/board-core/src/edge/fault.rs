//! Fault points: named places between two steps where a crash test can stop the program.
//!
//! They are apart so that one list names them all, and so that a release contains none: without the cargo
//! feature `fault-points` the macro expands to nothing. With it, three environment variables act:
//!
//! - `BOARD_FAULT_LOG=<file>`: one line with the name for each hit, so that a run can print how often each
//!   was hit and fail on one that was not.
//! - `BOARD_FAULT=<name>[:<n>][:<action>]`: the n-th hit of this process (default the first) does the action:
//!   `kill` (SIGKILL, the default), `stop` (SIGSTOP), `panic`, `exit` or `delay:<milliseconds>`.
//! - `BOARD_FAULT_FILE=<path>`: a file with `<name>[:<action>]`. Whoever hits the name first takes the file
//!   away by renaming it to `<path>.taken`, so that of several processes one does it, and once.

/// Every fault point of the project, in the order of a job's life. A test compares it with the sources.
pub const FAULT_POINTS: &[&str] = &[
    // store: one write of the state
    "state.locked",
    "state.written",
    "state.kept",
    "state.renamed",
    "state.synced",
    // reconcile: after each step
    "reconcile.step",
    // queue: publish
    "publish.begin",
    "publish.staged",
    "publish.renamed",
    "publish.synced",
    // queue: claim
    "claim.begin",
    "claim.renamed",
    "claim.running_synced",
    "claim.inbox_synced",
    // queue: reject and put aside
    "reject.reason",
    "reject.moved",
    // queue: an outcome is left
    "outcome.begin",
    "outcome.staged",
    "outcome.renamed",
    "outcome.synced",
    // queue: finish and recovery
    "finish.outcome_left",
    "finish.job_done",
    "recover.begin",
    "recover.saved",
    // queue: retire and bring back
    "retire.begin",
    "retire.moved",
    "bring_back.moved",
    // queue: adoption of a dropped file
    "adopt.taken",
    "adopt.removed",
    // watcher: an outcome is applied
    "complete.found",
    "complete.applied",
    "complete.published",
    // watcher: a dropped file becomes a job
    "adopt.renamed",
    "adopt.state",
    "adopt.ordered",
    // watcher: a transition that writes documents
    "applying.begun",
    "documents.blob",
    "documents.file",
    "applying.written",
    "worktree.removed",
    // audit: one commit
    "audit.files",
    "git.ref_moved",
    "audit.committed",
    "audit.marked",
];

/// Marks a step boundary. Expands to nothing without the feature `fault-points` of board-core.
#[cfg(feature = "fault-points")]
#[macro_export]
macro_rules! fault_point {
    ($name:literal) => {
        $crate::edge::fault::hit($name)
    };
}

/// Marks a step boundary. Expands to nothing without the feature `fault-points` of board-core.
#[cfg(not(feature = "fault-points"))]
#[macro_export]
macro_rules! fault_point {
    ($name:literal) => {{}};
}

#[cfg(feature = "fault-points")]
pub use armed::hit;

#[cfg(feature = "fault-points")]
mod armed {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use nix::sys::signal::{Signal, raise};

    use super::FAULT_POINTS;

    /// What a hit does.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) enum Action {
        Kill,
        Stop,
        Panic,
        Exit,
        Delay(Duration),
    }

    /// `<name>[:<n>][:<action>]`
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct Plan {
        pub(super) name: String,
        pub(super) nth: u32,
        pub(super) action: Action,
    }

    impl Plan {
        pub(super) fn parse(text: &str, points: &[&str]) -> Option<Plan> {
            let mut parts = text.trim().split(':').peekable();
            let name = parts.next()?.to_owned();
            if !points.contains(&name.as_str()) {
                return None;
            }
            let nth = match parts.peek().and_then(|part| part.parse::<u32>().ok()) {
                Some(nth) => {
                    parts.next();
                    nth
                }
                None => 1,
            };
            let action = match parts.next() {
                None | Some("kill") => Action::Kill,
                Some("stop") => Action::Stop,
                Some("panic") => Action::Panic,
                Some("exit") => Action::Exit,
                Some("delay") => Action::Delay(Duration::from_millis(parts.next()?.parse().ok()?)),
                Some(_) => return None,
            };
            parts.next().is_none().then_some(Plan { name, nth, action })
        }
    }

    /// Hits of the planned name so far, in this process.
    static HITS: AtomicU32 = AtomicU32::new(0);

    /// Records the hit of a fault point and does what the environment plans for it.
    #[allow(clippy::panic)] // a crash test with a misspelled plan must not pass
    pub fn hit(name: &str) {
        if let Some(log) = std::env::var_os("BOARD_FAULT_LOG") {
            let line = format!("{name}\n");
            let written = OpenOptions::new().create(true).append(true).open(&log);
            if let Err(error) = written.and_then(|mut file| file.write_all(line.as_bytes())) {
                panic!("BOARD_FAULT_LOG {}: {error}", log.display());
            }
        }
        if let Ok(text) = std::env::var("BOARD_FAULT") {
            let Some(plan) = Plan::parse(&text, FAULT_POINTS) else {
                panic!("BOARD_FAULT={text}: no such plan")
            };
            if plan.name == name && HITS.fetch_add(1, Ordering::SeqCst) + 1 == plan.nth {
                act(name, &plan.action);
            }
        }
        if let Some(path) = std::env::var_os("BOARD_FAULT_FILE") {
            let Ok(text) = std::fs::read_to_string(&path) else { return };
            let Some(plan) = Plan::parse(&text, FAULT_POINTS) else {
                panic!("BOARD_FAULT_FILE: {text}: no such plan")
            };
            let mut taken = path.clone();
            taken.push(".taken");
            if plan.name == name && std::fs::rename(&path, taken).is_ok() {
                act(name, &plan.action);
            }
        }
    }

    #[allow(clippy::panic, clippy::exit)] // that is what was asked for
    fn act(name: &str, action: &Action) {
        match action {
            Action::Kill => drop(raise(Signal::SIGKILL)),
            Action::Stop => drop(raise(Signal::SIGSTOP)),
            Action::Panic => panic!("fault point {name}"),
            Action::Exit => std::process::exit(70),
            Action::Delay(time) => std::thread::sleep(*time),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::FAULT_POINTS;

    fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                into.push(path);
            }
        }
    }

    #[test]
    fn every_fault_point_in_the_sources_is_listed_and_every_listed_one_is_in_the_sources() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut files = Vec::new();
        for entry in std::fs::read_dir(crates).unwrap().map(Result::unwrap) {
            let src = entry.path().join("src");
            if src.is_dir() {
                sources(&src, &mut files);
            }
        }
        let mut used = BTreeSet::new();
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for rest in text.split(concat!("fault_point!", "(\"")).skip(1) {
                used.insert(rest.split('"').next().unwrap().to_owned());
            }
        }
        let listed: BTreeSet<String> = FAULT_POINTS.iter().map(ToString::to_string).collect();
        assert_eq!(listed.len(), FAULT_POINTS.len(), "a name is listed twice");
        assert_eq!(used, listed);
    }

    #[cfg(feature = "fault-points")]
    #[test]
    fn a_plan_names_a_point_a_count_and_an_action() {
        use super::armed::{Action, Plan};
        use std::time::Duration;

        let parse = |text: &str| Plan::parse(text, &["publish.staged"]);
        let plan = |nth, action| Some(Plan { name: "publish.staged".into(), nth, action });
        assert_eq!(parse("publish.staged"), plan(1, Action::Kill));
        assert_eq!(parse("publish.staged:3"), plan(3, Action::Kill));
        assert_eq!(parse("publish.staged:panic\n"), plan(1, Action::Panic));
        assert_eq!(parse("publish.staged:2:stop"), plan(2, Action::Stop));
        assert_eq!(parse("publish.staged:exit"), plan(1, Action::Exit));
        assert_eq!(parse("publish.staged:2:delay:50"), plan(2, Action::Delay(Duration::from_millis(50))));
        for bad in ["", "nowhere", "publish.staged:burn", "publish.staged:delay", "publish.staged:kill:1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

//! The sandbox around every run: from a plan to the arguments of bubblewrap, purely.
//!
//! Independent of the agents' own sandboxes, because those differ and several have none. The root is an
//! allow-list and not the host's; a pid namespace that dies with the worker lets nothing survive a run,
//! not even children that left the process group. What the host offers is read by [`host`]; here it is
//! only put in order, so that every mount of every role is a test.
//!
//! The environment is not part of the arguments: it would stand in `/proc/<pid>/cmdline` for everybody.
//! It is the environment of the sandbox's own process, cleared and set by the supervisor.

pub mod host;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use host::{HostRoot, probe, program_binds, resolve_program};

/// Where the lock of the run lies inside the sandbox.
const LOCK_INSIDE: &str = "/run/board-agent.lock";

/// The home inside the sandbox. Not below `/tmp`: codex refuses its sandbox helper there.
pub const HOME_INSIDE: &str = "/home/agent";

/// What stands around a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// bubblewrap, by this program.
    Bubblewrap(PathBuf),
    /// Nothing: said explicitly in the configuration, shown on every page of the board.
    None,
}

/// Which network a run sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The host's, its loopback included.
    Host,
    /// None at all.
    None,
}

/// Something of the host that is seen inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// Path on the host.
    pub from: PathBuf,
    /// Path inside.
    pub to: PathBuf,
}

impl Bind {
    /// Seen under its own path.
    pub fn same(path: impl Into<PathBuf>) -> Bind {
        let path = path.into();
        Bind { from: path.clone(), to: path }
    }

    /// Seen under another path.
    pub fn at(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Bind {
        Bind { from: from.into(), to: to.into() }
    }
}

/// What a run may see and write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPlan {
    /// What stands around it.
    pub mode: Mode,
    /// Its network.
    pub network: Network,
    /// The host's root, the part of it that everybody may read.
    pub host: HostRoot,
    /// What is read besides: the configured paths, the directory of the program.
    pub read: Vec<Bind>,
    /// The throw-away home on the host; [`HOME_INSIDE`] inside.
    pub home: PathBuf,
    /// What the role writes.
    pub write: Vec<Bind>,
    /// What the role reads; later than `write`, so that a file in a writable directory can be protected.
    pub view: Vec<Bind>,
    /// The directory in which the agent starts, as it sees it.
    pub directory: PathBuf,
    /// The file that the sandbox keeps locked while it lives.
    pub lock_file: Option<PathBuf>,
}

impl SandboxPlan {
    /// The home as the agent sees it.
    pub fn home_seen(&self) -> PathBuf {
        match self.mode {
            Mode::Bubblewrap(_) => PathBuf::from(HOME_INSIDE),
            Mode::None => self.home.clone(),
        }
    }

    /// The whole command line for a program and its arguments. The program is an absolute path.
    pub fn command_line(&self, argv: &[OsString]) -> Vec<OsString> {
        let mut line = match &self.mode {
            Mode::None => return argv.to_vec(),
            Mode::Bubblewrap(program) => vec![program.clone().into_os_string()],
        };
        line.extend(self.arguments());
        line.push("--".into());
        line.extend_from_slice(argv);
        line
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut args = Arguments(Vec::new());
        for flag in ["--unshare-pid", "--die-with-parent", "--new-session"] {
            args.flag(flag);
        }
        if !self.host.own_ipc {
            args.flag("--unshare-ipc");
        }
        match self.network {
            Network::Host => {}
            Network::None => args.flag("--unshare-net"),
        }
        // As root there is no user namespace, so the capabilities have to go by hand.
        args.pair("--cap-drop", "ALL");
        self.host.mount(&mut args);
        for bind in &self.read {
            args.bind("--ro-bind", bind);
        }
        args.bind("--bind", &Bind::at(&self.home, HOME_INSIDE));
        for bind in &self.write {
            args.bind("--bind", bind);
        }
        for bind in &self.view {
            args.bind("--ro-bind", bind);
        }
        if let Some(lock) = &self.lock_file {
            args.bind("--ro-bind", &Bind::at(lock, LOCK_INSIDE));
            args.pair("--lock-file", LOCK_INSIDE);
        }
        args.pair("--chdir", &self.directory);
        args.0
    }
}

/// Collects arguments of bubblewrap, whose mounts happen in their order.
pub(crate) struct Arguments(pub(crate) Vec<OsString>);

impl Arguments {
    pub(crate) fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    pub(crate) fn pair(&mut self, flag: &str, value: impl AsRef<Path>) {
        self.0.push(flag.into());
        self.0.push(value.as_ref().as_os_str().to_owned());
    }

    pub(crate) fn bind(&mut self, flag: &str, bind: &Bind) {
        self.pair(flag, &bind.from);
        self.0.push(bind.to.clone().into_os_string());
    }

    pub(crate) fn link(&mut self, target: &Path, at: &Path) {
        self.pair("--symlink", target);
        self.0.push(at.as_os_str().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::host::{Entry, Kind};
    use super::*;

    fn plan() -> SandboxPlan {
        let entry = |path: &str, kind| Entry { path: path.into(), kind };
        SandboxPlan {
            mode: Mode::Bubblewrap("/usr/bin/bwrap".into()),
            network: Network::Host,
            host: HostRoot {
                entries: vec![
                    entry("/usr", Kind::Present),
                    entry("/bin", Kind::Link("usr/bin".into())),
                    entry("/etc/passwd", Kind::Present),
                    entry("/etc/ssl", Kind::Present),
                    entry("/etc/ssl/private", Kind::Masked),
                ],
                resolv_conf: Some("/run/systemd/resolve/stub-resolv.conf".into()),
                own_ipc: false,
            },
            read: vec![Bind::same("/opt/agent/bin")],
            home: "/var/lib/board/run/home".into(),
            write: vec![Bind::same("/var/lib/board/worktrees/x-1")],
            view: vec![Bind::same("/var/lib/board/worktrees/x-1/.git")],
            directory: "/var/lib/board/worktrees/x-1".into(),
            lock_file: Some("/var/lib/board/locks/sandbox-build-1.lock".into()),
        }
    }

    fn line(plan: &SandboxPlan) -> String {
        let line = plan.command_line(&["/opt/agent/bin/agent".into(), "--x".into()]);
        line.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_run_gets_its_own_pids_and_session_and_dies_with_the_worker() {
        let line = line(&plan());
        for part in ["--unshare-pid", "--die-with-parent", "--new-session", "--cap-drop ALL"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(line.starts_with("/usr/bin/bwrap --unshare-pid"));
        assert!(line.ends_with("--chdir /var/lib/board/worktrees/x-1 -- /opt/agent/bin/agent --x"));
    }

    #[test]
    fn the_network_is_cut_only_where_the_plan_says_so() {
        assert!(!line(&plan()).contains("--unshare-net"));
        assert!(line(&plan()).contains("--unshare-ipc"));
        let in_unit = HostRoot { own_ipc: true, ..plan().host };
        assert!(!line(&SandboxPlan { host: in_unit, ..plan() }).contains("--unshare-ipc"));
        assert!(line(&SandboxPlan { network: Network::None, ..plan() }).contains("--unshare-net"));
    }

    #[test]
    fn what_is_bound_later_lies_above_what_was_bound_before() {
        let line = line(&plan());
        let at = |part: &str| line.find(part).unwrap_or_else(|| panic!("{part} in {line}"));
        assert!(at("--tmpfs /var") < at("--bind /var/lib/board/worktrees/x-1 "));
        assert!(
            at("--bind /var/lib/board/worktrees/x-1 ") < at("--ro-bind /var/lib/board/worktrees/x-1/.git")
        );
        assert!(at("--tmpfs /home") < at("--bind /var/lib/board/run/home /home/agent"));
        assert!(at("--ro-bind /etc/ssl /etc/ssl") < at("--tmpfs /etc/ssl/private"));
        assert!(at("--tmpfs /run") < at("--lock-file /run/board-agent.lock"));
    }

    #[test]
    fn links_of_the_root_stay_links_and_the_resolver_is_the_resolved_file() {
        let line = line(&plan());
        assert!(line.contains("--symlink usr/bin /bin"));
        assert!(line.contains("--ro-bind /run/systemd/resolve/stub-resolv.conf /etc/resolv.conf"));
    }

    #[test]
    fn no_environment_stands_on_the_command_line() {
        assert!(!line(&plan()).contains("--setenv"));
    }

    #[test]
    fn without_a_sandbox_the_program_is_started_as_it_is() {
        let bare = SandboxPlan { mode: Mode::None, ..plan() };
        assert_eq!(line(&bare), "/opt/agent/bin/agent --x");
        assert_eq!(bare.home_seen(), PathBuf::from("/var/lib/board/run/home"));
        assert_eq!(plan().home_seen(), PathBuf::from(HOME_INSIDE));
    }
}

//! One booted systemd: started by `boot.sh`, entered by its namespaces, and gone with all its processes, mounts and
//! control groups when it is dropped.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use loop_tests::processes::Process;
use nix::fcntl::Flock;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;

use crate::root::{Root, lock, remove, support};
use crate::{PATIENCE, wait_a_little};

/// Where the control groups of Linux may be mounted: the second hierarchy and systemd's own of the first.
const HIERARCHIES: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"];

/// A container.
#[derive(Debug)]
pub struct Container {
    root: Root,
    name: String,
    dir: PathBuf,
    /// Held while this lives, so that others know whose directory it is.
    _lock: Flock<File>,
    nspawn: Option<Child>,
    /// Its PID 1, as the host counts.
    pid: i32,
    /// Its boot, as its journal names it.
    boot_id: String,
}

impl Container {
    /// Its directory above the installed root; nothing runs yet.
    ///
    /// # Errors
    /// If the root cannot be made.
    pub fn new() -> anyhow::Result<Container> {
        let root = Root::installed()?;
        let name = format!("board-{}", uuid::Uuid::new_v4().simple());
        let name = name[..18].to_owned();
        let dir = root.runs.join(&name);
        for part in ["upper", "work", "root", "disks"] {
            let part = dir.join(part);
            std::fs::create_dir_all(&part).with_context(|| part.display().to_string())?;
        }
        let lock = lock(&dir.join("lock"))?;
        Ok(Container { root, name, dir, _lock: lock, nspawn: None, pid: 0, boot_id: String::new() })
    }

    /// Boots, and waits until systemd says that it runs.
    ///
    /// # Errors
    /// If it does not within [`PATIENCE`]; the console is in the message.
    pub fn boot(&mut self) -> anyhow::Result<()> {
        let console = File::options().create(true).append(true).open(self.dir.join("console"))?;
        let mut command = Command::new("setpriv");
        // It goes with the test, however that ends.
        command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "sh"]);
        command.arg(support("boot.sh")).arg(self.root.lower()).arg(&self.dir).arg(&self.name);
        command.args(groups(&self.name)).stdin(Stdio::null()).stdout(console.try_clone()?).stderr(console);
        let nspawn = self.nspawn.insert(command.spawn().context("setpriv")?).id().cast_signed();
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.nspawn.as_mut().and_then(|nspawn| nspawn.try_wait().ok().flatten()) {
                anyhow::bail!("the container ended with {status}:\n{}", self.console());
            }
            if let Some(pid) = init_of(nspawn) {
                self.pid = pid;
                // Not `is-system-running`: while a worker runs, the boot counts as not finished.
                let said = self.run(&["systemctl", "is-active", "multi-user.target"])?;
                if said.stdout.trim_ascii() == b"active" {
                    break;
                }
            }
            anyhow::ensure!(Instant::now() < deadline, "it does not boot:\n{}", self.console());
            wait_a_little();
        }
        let boot_id = self.run(&["cat", "/proc/sys/kernel/random/boot_id"])?.stdout;
        self.boot_id = String::from_utf8_lossy(&boot_id).trim().replace('-', "");
        // A /proc with nothing mounted over its parts, as a host's: else no sandbox gets one of its own.
        let mount = Command::new("nsenter")
            .args(["--target", &self.pid.to_string(), "--mount", "--pid"])
            .args(["mount", "-t", "proc", "proc", "/proc"])
            .status()
            .context("nsenter")?;
        anyhow::ensure!(mount.success(), "/proc of the container: {mount}");
        Ok(())
    }

    /// Cuts the power: every process is gone at once. What was written stays, synced or not; [`crate::disk`] knows
    /// disks that forget.
    pub fn cut(&mut self) {
        kill_groups(&self.name);
        if let Some(mut nspawn) = self.nspawn.take() {
            let _ = nspawn.kill();
            let _ = nspawn.wait();
        }
        self.pid = 0;
        remove_groups(&self.name);
    }

    /// A file of the container, while it runs, by its absolute path there.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        PathBuf::from(format!("/proc/{}/root", self.pid)).join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Its directory on the host: `upper` has what differs from the root, `disks` its own disks.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its name, also that of its control groups.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn console(&self) -> String {
        std::fs::read_to_string(self.dir.join("console")).unwrap_or_default()
    }

    /// A command inside, as root.
    pub fn command(&self, argv: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LANG", "C.UTF-8")
            .args(["--target", &self.pid.to_string(), "--all", "--"])
            .args(argv)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command inside, as root.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(&self, argv: &[&str]) -> anyhow::Result<Output> {
        self.command(argv).output().with_context(|| argv.join(" "))
    }

    /// Runs a script inside as root and returns what it said.
    ///
    /// # Panics
    /// If it fails.
    pub fn sh(&self, script: &str) -> String {
        self.sh_as("root", script)
    }

    /// Runs a script inside as a user and returns what it said.
    ///
    /// # Panics
    /// If it fails.
    pub fn sh_as(&self, user: &str, script: &str) -> String {
        self.try_sh_as(user, script).unwrap_or_else(|said| panic!("{script}: {said}"))
    }

    /// Runs a script inside as a user.
    ///
    /// # Errors
    /// What it said, if it fails.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn try_sh_as(&self, user: &str, script: &str) -> Result<String, String> {
        let script = format!("umask 0002; {script}");
        let argv: &[&str] = match user {
            "root" => &["sh", "-euc", &script],
            user => &["runuser", "-u", user, "--", "sh", "-euc", &script],
        };
        let output = self.run(argv).unwrap_or_else(|error| panic!("{error:#}"));
        let out = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.status.success() {
            return Ok(out);
        }
        Err(format!("{}: {out}{}", output.status, String::from_utf8_lossy(&output.stderr)))
    }

    /// `systemctl` with these arguments.
    ///
    /// # Panics
    /// If it fails.
    pub fn systemctl(&self, arguments: &str) -> String {
        self.sh(&format!("systemctl {arguments}"))
    }

    /// A property of a unit, as systemd shows it.
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.systemctl(&format!("show --property={name} --value '{unit}'"))
    }

    /// Lines of the journal of this boot that match.
    pub fn journal(&self, matches: &str) -> Vec<String> {
        let boot = &self.boot_id;
        let said =
            self.sh(&format!("journalctl --quiet --no-pager --output=cat _BOOT_ID={boot} {matches} || true"));
        said.lines().map(str::to_owned).collect()
    }

    /// Gives a file of the container to a user and group of it.
    ///
    /// # Panics
    /// If it cannot be given.
    pub fn chown(&self, path: impl AsRef<Path>, user: u32, group: u32) {
        let path = self.path(path);
        chown(&path, Some(user), Some(group)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// A connection to a port of its loopback.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn connect(&self, port: u16) -> anyhow::Result<TcpStream> {
        let net = File::open(format!("/proc/{}/ns/net", self.pid)).context("its network")?;
        // The namespace is that of a thread; a socket keeps the one that it was made in.
        let thread = std::thread::spawn(move || -> anyhow::Result<TcpStream> {
            setns(net, CloneFlags::CLONE_NEWNET).context("its network")?;
            TcpStream::connect(("127.0.0.1", port)).context("connect")
        });
        thread.join().map_err(|_| anyhow::anyhow!("the thread in its network panicked"))?
    }

    /// All its processes by unit, as the host counts them, with their command lines.
    pub fn processes(&self) -> BTreeMap<String, Vec<Process>> {
        let mut found: BTreeMap<String, Vec<Process>> = BTreeMap::new();
        let Some(group) = groups(&self.name).into_iter().next() else { return found };
        let mut todo = vec![group];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    todo.push(entry.path());
                }
            }
            let unit = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for pid in std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines() {
                let Ok(pid) = pid.parse() else { continue };
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                found.entry(unit.clone()).or_default().push(Process { pid, line });
            }
        }
        found
    }

    /// The processes of one unit.
    pub fn processes_of(&self, unit: &str) -> Vec<Process> {
        self.processes().remove(unit).unwrap_or_default()
    }

    /// Its processes whose command line contains `what`.
    pub fn processes_with(&self, what: &str) -> Vec<Process> {
        let all = self.processes().into_values().flatten();
        all.filter(|process| process.line.contains(what)).collect()
    }

    /// Processes in its namespace of processes whose command line contains `what`, and that no unit has: started by hand.
    pub fn processes_outside(&self, what: &str) -> Vec<Process> {
        let namespace = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let mine: Vec<i32> = self.processes().into_values().flatten().map(|process| process.pid).collect();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if mine.contains(&pid) || namespace(pid) != namespace(self.pid) {
                continue;
            }
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            // Nor the two that brought it there and wait for it.
            if line.contains(what) && !line.starts_with("runuser") && !line.starts_with("nsenter") {
                found.push(Process { pid, line });
            }
        }
        found
    }

    /// Its PID 1, as the host counts.
    pub fn init(&self) -> i32 {
        self.pid
    }

    /// Waits for something, looking again and again.
    ///
    /// # Panics
    /// If it does not come within [`PATIENCE`].
    pub fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        self.wait_for(PATIENCE, what, &mut look)
    }

    /// Waits three times as long, for what systemd itself takes minutes for.
    ///
    /// # Panics
    /// If it does not come.
    pub fn wait_long<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        self.wait_for(PATIENCE * 3, what, &mut look)
    }

    fn wait_for<T>(&self, patience: Duration, what: &str, look: &mut dyn FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            wait_a_little();
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if std::thread::panicking() && self.pid != 0 {
            let script = "systemctl --no-pager --failed; journalctl --no-pager --output=short-precise | tail -120; \
                          find /var/lib/board-agent/queue -type f | tail -60; systemctl --no-pager status 'board-agent-*.service'; \
                          ls -l /srv/repo/.git; head -c 4000 /var/lib/board-agent/watcher.json /var/lib/board-agent/state.json";
            let said = self.run(&["sh", "-c", script]);
            let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
            eprintln!("{}", text.unwrap_or_else(|error| format!("{error:#}")));
        }
        self.cut();
        if let Err(error) = remove(&self.dir) {
            eprintln!("left behind: {error:#}");
        }
    }
}

/// Sends a signal to a process of the container.
pub fn signal(process: &Process, signal: Signal) {
    loop_tests::processes::signal(process.pid, signal);
}

/// The PID 1 that nspawn started, once it is there.
fn init_of(nspawn: i32) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{nspawn}/task/{nspawn}/children")).ok()?;
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        // The first of two namespaces counts as the host does; in the last one it is the first.
        let first = of("NSpid:").is_some_and(|pids| pids.split_whitespace().skip(1).last() == Some("1"));
        first && of("Name:").is_some_and(|name| name.trim() == "systemd")
    })
}

/// The control groups of a container: one in each hierarchy that systemd uses, below the test's own; the second
/// hierarchy first.
pub(crate) fn groups(name: &str) -> Vec<PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let below = |prefix: &str| -> Option<String> {
        own.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(prefix).map(str::to_owned))
    };
    let mut found = Vec::new();
    for dir in HIERARCHIES {
        let (modern, legacy) =
            (Path::new(dir).join("cgroup.subtree_control").exists(), dir.ends_with("/systemd"));
        let own = match (modern, legacy) {
            (true, _) => below(":"),
            (false, true) => below("name=systemd:"),
            (false, false) => None,
        };
        if let Some(own) = own {
            found.push(Path::new(dir).join(own.trim_start_matches('/')).join(name));
        }
    }
    found
}

/// Ends every process of a container.
fn kill_groups(name: &str) {
    for group in groups(name) {
        let _ = std::fs::write(group.join("cgroup.kill"), "1");
    }
}

/// Removes its control groups; the last processes may still be leaving.
pub(crate) fn remove_groups(name: &str) {
    kill_groups(name);
    let deadline = Instant::now() + PATIENCE;
    for group in groups(name) {
        while group.exists() && Instant::now() < deadline {
            remove_below(&group);
            if group.exists() {
                wait_a_little();
            }
        }
    }
}

fn remove_below(group: &Path) {
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path());
        }
    }
    let _ = std::fs::remove_dir(group);
}

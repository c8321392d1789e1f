//! What `boardctl doctor` asks of a runtime: is its program there, which version, is it logged in, and does
//! its own sandbox start.
//!
//! Apart from the runtimes, which are pure. Whatever is started here runs as a run would: in the sandbox, with
//! the environment of its adapter and an empty home. So „it answers" means that it answers where it will work.
//! Nothing here asks the service behind a runtime, which would cost money.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use board_core::edge::files::create_dirs_private;
use board_core::edge::settings::{Runtime, RuntimeKind, SandboxMode, Settings};
use board_core::model::profile::RoleName;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use uuid::Uuid;

use crate::play::{BUBBLEWRAP, PATH, adapter};
use crate::runtimes::RunSpec;
use crate::sandbox::{Bind, HostRoot, Mode, Network, SandboxPlan, program_binds, resolve_program};
use crate::words::first_line;

/// How long a program may take for one answer. The slowest of them needs 14 s on two cores.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Longest answer that is told, in characters.
const MAX_ANSWER_CHARS: usize = 200;

/// Where the homes of checks are made. Not in the state directory, where root would leave what the service
/// cannot write, and not in `/tmp`, where codex refuses its sandbox.
const PLACES: &str = "/var/tmp";

/// What codex's sandbox has to do: let its directory be written, and nothing beside it.
const SELF_TEST: &str =
    "echo x >inside || exit 3; if (echo x >\"$HOME/outside\") 2>/dev/null; then exit 4; fi";

/// Whether a runtime can log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// A key is configured.
    Key,
    /// This file holds its login. Whether it still counts only the service knows.
    There(PathBuf),
    /// No key, and this file is missing.
    Missing(PathBuf),
    /// The program's own business.
    Unknown,
}

/// What was found of one runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeCheck {
    /// Its program, or why there is none.
    pub program: Result<PathBuf, String>,
    /// What it says of its version, or why it says nothing. None if there is no program, or one of the kind
    /// `command`, which might do anything when it is called.
    pub version: Option<Result<String, String>>,
    /// Its login.
    pub login: Login,
    /// Whether its own sandbox starts within ours and keeps what it promises. Only codex has one.
    pub own_sandbox: Option<Result<(), String>>,
}

/// Looks at a runtime of the configuration, in its sandbox. Takes up to twice [`ANSWER_WITHIN`], and starts
/// nothing that asks a model.
pub fn check(settings: &Settings, name: &str, runtime: &Runtime) -> RuntimeCheck {
    let named = runtime.program.as_ref().or(runtime.argv.first()).cloned().unwrap_or_default();
    let program = resolve_program(&named, PATH).map_err(|why| format!("{named}: {why}"));
    let spec = RunSpec {
        program: vec![named],
        args: Vec::new(),
        env: runtime.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        role: RoleName::Builder,
        model: None,
        effort: None,
        directory: PathBuf::from("/"),
        home: PathBuf::new(),
        sandboxed: settings.sandbox.mode != SandboxMode::None,
    };
    let kept = settings.board.state_dir.join("runtimes").join(name);
    let login = login(runtime, &kept);
    let mut found = RuntimeCheck { program, version: None, login, own_sandbox: None };
    let Ok(program) = &found.program else { return found };
    if runtime.kind == RuntimeKind::Command {
        return found;
    }
    let place = match Place::new(settings) {
        Ok(place) => place,
        Err(why) => {
            found.version = Some(Err(why));
            return found;
        }
    };
    let asked = |arguments: &[&str]| place.answer(settings, runtime, &spec, program, arguments);
    found.version = Some(asked(&["--version"]));
    if runtime.kind == RuntimeKind::Codex {
        let arguments =
            ["sandbox", "-c", "sandbox_mode=\"workspace-write\"", "--", "/bin/sh", "-c", SELF_TEST];
        found.own_sandbox = Some(asked(&arguments).map(drop));
    }
    found
}

fn login(runtime: &Runtime, kept: &Path) -> Login {
    if runtime.credential.is_some() {
        return Login::Key;
    }
    let Some(file) = runtime.kind.login_files().first() else { return Login::Unknown };
    let path = kept.join(file);
    if path.is_file() { Login::There(path) } else { Login::Missing(path) }
}

/// A home and a directory of this check, gone with it.
struct Place {
    directory: PathBuf,
    mode: Mode,
    /// User and group of the service, where root checks for it: for root codex's sandbox does not start in
    /// ours.
    service: Option<(u32, u32)>,
}

impl Place {
    fn new(settings: &Settings) -> Result<Place, String> {
        let mode = match settings.sandbox.mode {
            SandboxMode::None => Mode::None,
            SandboxMode::Bubblewrap => Mode::Bubblewrap(resolve_program(BUBBLEWRAP, PATH)?),
        };
        let directory = Path::new(PLACES).join(format!("board-agent-check-{}", Uuid::new_v4()));
        for name in ["home", "work"] {
            create_dirs_private(&directory.join(name)).map_err(|error| error.to_string())?;
        }
        let owner = std::fs::metadata(&settings.board.state_dir).map(|there| (there.uid(), there.gid()));
        let service = owner.ok().filter(|(user, _)| nix::unistd::geteuid().is_root() && *user != 0);
        Ok(Place { directory, mode, service })
    }

    /// The first line of what the program says to these arguments, or why it does not.
    fn answer(
        &self,
        settings: &Settings,
        runtime: &Runtime,
        spec: &RunSpec,
        program: &Path,
        arguments: &[&str],
    ) -> Result<String, String> {
        let work = self.directory.join("work");
        let host = HostRoot::read();
        let private = [settings.board.state_dir.as_path(), settings.board.repository.as_path()];
        let mut read: Vec<Bind> = settings.sandbox.read.iter().map(Bind::same).collect();
        read.extend(program_binds(program, &host, &private));
        let plan = SandboxPlan {
            mode: self.mode.clone(),
            network: Network::None,
            host,
            read,
            home: self.directory.join("home"),
            write: vec![Bind::same(&work)],
            view: Vec::new(),
            directory: work.clone(),
            lock_file: None,
        };
        let seen = RunSpec { home: plan.home_seen(), directory: work.clone(), ..spec.clone() };
        let command = adapter(runtime, &seen).command(&seen);
        for name in &command.home_directories {
            create_dirs_private(&plan.home.join(name)).map_err(|error| error.to_string())?;
        }
        let mut argv: Vec<OsString> = vec![program.into()];
        argv.extend(arguments.iter().map(OsString::from));
        let argv = plan.command_line(&argv);
        let (first, rest) = argv.split_first().ok_or("no program")?;
        let mut started = Command::new(first);
        started
            .args(rest)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", plan.home_seen())
            .env("LANG", "C.UTF-8")
            .envs(command.env)
            .current_dir(&work);
        if let Some((user, group)) = self.service {
            give(&self.directory, user, group)?;
            started.uid(user).gid(group);
        }
        said(&mut started, ANSWER_WITHIN)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            tracing::warn!("{}: {error}", self.directory.display());
        }
    }
}

/// Gives a tree to a user.
fn give(tree: &Path, user: u32, group: u32) -> Result<(), String> {
    let told = |error: io::Error| format!("{}: {error}", tree.display());
    std::os::unix::fs::lchown(tree, Some(user), Some(group)).map_err(told)?;
    if !tree.is_symlink() && tree.is_dir() {
        for entry in std::fs::read_dir(tree).map_err(told)? {
            give(&entry.map_err(told)?.path(), user, group)?;
        }
    }
    Ok(())
}

/// The first line that a program says, within a time; everything of it is ended.
fn said(command: &mut Command, within: Duration) -> Result<String, String> {
    let told = |error: io::Error| error.to_string();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(told)?;
    let group = Pid::from_raw(child.id().cast_signed());
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let late = std::thread::spawn(move || {
        let late = wait.recv_timeout(within) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        if late {
            let _ = killpg(group, Signal::SIGKILL);
        }
        late
    });
    let output = collect(&mut child);
    // Before it is reaped, so that the number is still its own.
    drop(done);
    let late = late.join().unwrap_or(false);
    let _ = killpg(group, Signal::SIGKILL);
    let status = child.wait().map_err(told)?;
    let (out, err) = output.map_err(told)?;
    let line = |bytes: &[u8]| first_line(&String::from_utf8_lossy(bytes), MAX_ANSWER_CHARS);
    match (late, status.success()) {
        (true, _) => Err(format!("no answer within {} s", within.as_secs())),
        (false, true) => Ok(line(&out)),
        (false, false) => Err(format!("{status} ({})", line(if err.is_empty() { &out } else { &err }))),
    }
}

/// Both streams to their ends, a part of each.
fn collect(child: &mut std::process::Child) -> io::Result<(Vec<u8>, Vec<u8>)> {
    use std::io::Read;
    /// Of each stream; the rest is thrown away.
    const MOST: u64 = 64 << 10;
    fn head(stream: &mut Option<impl Read>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            stream.take(MOST).read_to_end(&mut bytes)?;
            io::copy(stream, &mut io::sink())?;
        }
        Ok(bytes)
    }
    let mut err = child.stderr.take();
    let other = std::thread::spawn(move || head(&mut err));
    let out = head(&mut child.stdout.take())?;
    let err = other.join().map_err(|_| io::Error::other("a thread"))??;
    Ok((out, err))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct World(tempfile::TempDir);

    impl World {
        fn new() -> World {
            let world = World(tempfile::tempdir().unwrap());
            for name in ["repo", "state", "bin"] {
                std::fs::create_dir(world.0.path().join(name)).unwrap();
            }
            world
        }

        /// A runtime of this kind whose program is a script.
        fn found(&self, kind: &str, script: &str) -> RuntimeCheck {
            let at = |name: &str| self.0.path().join(name).display().to_string();
            let program = at("bin/agent");
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            let named = if kind == "command" { "argv = [\"PROGRAM\"]" } else { "program = \"PROGRAM\"" };
            let config = self.0.path().join("config.toml");
            std::fs::write(
                &config,
                format!(
                    "[board]\nrepository = \"{}\"\nstate_dir = \"{}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[auth]\nmode = \"open\"\n\
                     [sandbox]\nmode = \"none\"\n[runtimes.it]\nkind = \"{kind}\"\n{}\n\
                     [profiles.p]\nruntime = \"it\"\ndescription = \"x\"\n[roles.builder]\nprofile = \"p\"\n\
                     [roles.reviewer]\nprofile = \"p\"\n[roles.researcher]\nprofile = \"p\"\n[roles.planner]\nprofile = \"p\"\n",
                    at("repo"),
                    at("state"),
                    named.replace("PROGRAM", &program),
                ),
            )
            .unwrap();
            let settings = Settings::load(&config).unwrap();
            check(&settings, "it", &settings.runtimes["it"])
        }
    }

    #[test]
    fn a_program_tells_its_version_and_whether_its_sandbox_holds() {
        let world = World::new();
        let script = "[ \"$1\" = sandbox ] && { echo broken >&2; exit 7; }\necho \"agent 1.2\"\necho more";
        let found = world.found("codex", script);
        assert_eq!(found.program, Ok(world.0.path().join("bin/agent")));
        assert_eq!(found.version, Some(Ok("agent 1.2".into())));
        assert!(found.own_sandbox.unwrap().unwrap_err().contains("broken"));
        let found = world.found("claude", "echo \"$HOME\"; echo \"$CLAUDE_CONFIG_DIR\" >&2");
        assert!(found.version.unwrap().unwrap().contains("/board-agent-check-"));
        assert_eq!(found.own_sandbox, None);
        assert_eq!(std::fs::read_dir(world.0.path().join("state")).unwrap().count(), 0);
    }

    #[test]
    fn a_sandbox_that_lets_everything_through_is_none() {
        let found = World::new().found("codex", "shift 4 2>/dev/null && exec \"$@\"; echo 1");
        assert!(found.own_sandbox.unwrap().is_err(), "it wrote into the home");
    }

    #[test]
    fn the_login_is_the_file_of_its_runtime() {
        let world = World::new();
        let file = world.0.path().join("state/runtimes/it/.codex/auth.json");
        assert_eq!(world.found("codex", "echo 1").login, Login::Missing(file.clone()));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(world.found("codex", "echo 1").login, Login::There(file));
        assert_eq!(world.found("acp", "echo 1").login, Login::Unknown);
    }

    #[test]
    fn a_program_of_ones_own_is_never_called() {
        let found = World::new().found("command", "exit 9");
        assert_eq!((found.version, found.own_sandbox), (None, None));
        assert!(found.program.is_ok());
    }

    #[test]
    fn one_that_does_not_answer_is_ended_with_everything_that_it_started() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 600 & sleep 600"]);
        let told = said(&mut command, Duration::from_millis(200)).unwrap_err();
        assert!(told.contains("no answer"), "{told}");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "head -c 1000000 /dev/zero | tr '\\0' x; head -c 1000000 /dev/zero >&2"]);
        assert_eq!(said(&mut command, ANSWER_WITHIN).unwrap().chars().count(), MAX_ANSWER_CHARS + 1);
    }
}

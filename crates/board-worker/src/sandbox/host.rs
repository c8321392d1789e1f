//! What of this host every run may see, where its programs are, and whether bubblewrap starts.
//!
//! Apart from the plan because it reads the file system. The root is an allow-list: what is not named
//! here is not there inside, so a new secret in `/etc` needs no new rule.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Arguments, Bind, Mode, Network, SandboxPlan};

/// Parts of the root besides `/etc`.
const ROOT: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system"];

/// Entries of `/etc` that hold no secret: names, certificates, the loader, the locale.
const ETC: [&str; 38] = [
    "alternatives",
    "bash.bashrc",
    "bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "fonts",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "inputrc",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki",
    "profile",
    "protocols",
    "services",
    "shells",
    "ssl",
    "static",
    "terminfo",
    "timezone",
    "zoneinfo",
];

/// Directories with keys inside of what is shown.
const MASKED: [&str; 3] = ["/etc/ssl/private", "/etc/pki/tls/private", "/etc/pki/rpm-gpg/private"];

/// Fresh and empty inside.
const EMPTY: [&str; 5] = ["/run", "/tmp", "/var", "/home", "/root"];

/// How an entry of the root is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// As it is, read-only.
    Present,
    /// As the same link.
    Link(PathBuf),
    /// An empty directory over what is there.
    Masked,
}

/// An entry of the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path, on the host and inside.
    pub path: PathBuf,
    /// How it is shown.
    pub kind: Kind,
}

/// The part of the host that everybody may read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostRoot {
    /// In the order of mounting.
    pub entries: Vec<Entry>,
    /// The resolver's configuration, links resolved.
    pub resolv_conf: Option<PathBuf>,
    /// Whether the worker has an IPC namespace of its own already, and may make no further one.
    pub own_ipc: bool,
}

/// Set by the units with PrivateIPC=.
const OWN_IPC: &str = "BOARD_OWN_IPC";

impl HostRoot {
    /// Reads what is there of the allow-list.
    pub fn read() -> HostRoot {
        let mut entries = Vec::new();
        let etc = ETC.iter().map(|name| format!("/etc/{name}"));
        for path in ROOT.iter().map(|path| (*path).to_owned()).chain(etc) {
            let path = PathBuf::from(path);
            let Ok(there) = fs::symlink_metadata(&path) else { continue };
            if !there.is_symlink() {
                entries.push(Entry { path, kind: Kind::Present });
            } else if let Ok(target) = fs::read_link(&path) {
                entries.push(Entry { path, kind: Kind::Link(target) });
            }
        }
        for path in MASKED {
            if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
                entries.push(Entry { path: path.into(), kind: Kind::Masked });
            }
        }
        HostRoot {
            entries,
            resolv_conf: fs::canonicalize("/etc/resolv.conf").ok(),
            own_ipc: std::env::var_os(OWN_IPC).is_some(),
        }
    }

    pub(super) fn mount(&self, args: &mut Arguments) {
        args.pair("--proc", "/proc");
        args.pair("--dev", "/dev");
        // Before the entries: one of them lies below /run.
        for path in EMPTY {
            args.pair("--tmpfs", path);
        }
        for entry in &self.entries {
            match &entry.kind {
                Kind::Present => args.bind("--ro-bind", &Bind::same(&entry.path)),
                Kind::Link(target) => args.link(target, &entry.path),
                Kind::Masked => args.pair("--tmpfs", &entry.path),
            }
        }
        if let Some(resolv_conf) = &self.resolv_conf {
            args.bind("--ro-bind", &Bind::at(resolv_conf, "/etc/resolv.conf"));
        }
    }

    /// Whether a path is seen inside without a bind of its own.
    fn shows(&self, path: &Path) -> bool {
        self.entries.iter().any(|entry| entry.kind == Kind::Present && path.starts_with(&entry.path))
    }
}

/// The absolute path of a program: an absolute one as it is, a name by `PATH`.
///
/// # Errors
/// A sentence: it is not there, or it is no file that may be executed.
pub fn resolve_program(program: &str, path: &str) -> Result<PathBuf, String> {
    if program.contains('/') {
        let program = PathBuf::from(program);
        return match executable(&program) {
            Ok(()) if program.is_absolute() => Ok(program),
            Ok(()) => Err("is not an absolute path".to_owned()),
            Err(why) => Err(why),
        };
    }
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| executable(candidate).is_ok())
        .ok_or_else(|| "not found in PATH".to_owned())
}

fn executable(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("not found".to_owned()),
        Err(error) => Err(error.to_string()),
        Ok(there) if !there.is_file() => Err("is no regular file".to_owned()),
        Ok(there) if there.permissions().mode() & 0o111 == 0 => Err("is not executable".to_owned()),
        Ok(_) => Ok(()),
    }
}

/// What has to be bound for a program to start: the directory that it lies in, and that of the file behind
/// a link. A program that npm installed needs the packages beside its own, so all of that `node_modules`. Where such a directory holds one of the `private` ones, the file alone is bound, so that a script
/// beside the state directory does not show it.
pub fn program_binds(program: &Path, host: &HostRoot, private: &[&Path]) -> Vec<Bind> {
    let mut binds: Vec<Bind> = Vec::new();
    let real = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    for file in [program, real.as_path()] {
        let directory = modules_of(file).or(file.parent()).unwrap_or(Path::new("/"));
        if host.shows(file) {
            continue;
        }
        let exposes =
            directory == Path::new("/") || private.iter().any(|private| private.starts_with(directory));
        let bind = Bind::same(if exposes { file } else { directory });
        if !binds.contains(&bind) {
            binds.push(bind);
        }
    }
    binds
}

/// The outermost `node_modules` that a file lies in.
fn modules_of(file: &Path) -> Option<&Path> {
    let named = |directory: &&Path| directory.file_name().is_some_and(|name| name == "node_modules");
    file.ancestors().skip(1).filter(named).last()
}

/// Whether bubblewrap starts here, with everything that a run asks of it.
///
/// # Errors
/// A sentence with what it said. It does not start, for example, where user namespaces are forbidden, or
/// in a unit that mounts over parts of `/proc`.
pub fn probe(bubblewrap: &Path) -> Result<(), String> {
    let directory = std::env::temp_dir();
    let plan = SandboxPlan {
        mode: Mode::Bubblewrap(bubblewrap.to_owned()),
        network: Network::None,
        host: HostRoot::read(),
        read: Vec::new(),
        home: directory,
        write: Vec::new(),
        view: Vec::new(),
        directory: PathBuf::from("/"),
        lock_file: None,
    };
    let line = plan.command_line(&[OsString::from("/bin/sh"), "-c".into(), "exit 0".into()]);
    let Some((program, args)) = line.split_first() else { return Err("no command".to_owned()) };
    let output = Command::new(program)
        .args(args)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", bubblewrap.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = crate::words::first_line(&String::from_utf8_lossy(&output.stderr), 300);
    Err(format!("{}: {} ({said})", bubblewrap.display(), output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(directory: &Path, name: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_root_shows_programs_and_no_secrets() {
        let root = HostRoot::read();
        assert!(root.shows(Path::new("/usr/bin/env")));
        for secret in
            ["/etc/shadow", "/etc/ssh/ssh_host_rsa_key", "/etc/sudoers", "/etc/board-agent/config.toml"]
        {
            assert!(!root.shows(Path::new(secret)), "{secret}");
        }
    }

    #[test]
    fn a_program_is_found_by_name_or_path_and_the_reason_is_told_if_not() {
        let dir = tempfile::tempdir().unwrap();
        let agent = program(dir.path(), "agent", 0o755);
        let plain = program(dir.path(), "plain", 0o644);
        let path = format!("relative:{}", dir.path().display());
        assert_eq!(resolve_program("agent", &path), Ok(agent.clone()));
        assert_eq!(resolve_program(agent.to_str().unwrap(), ""), Ok(agent));
        assert_eq!(resolve_program("plain", &path), Err("not found in PATH".into()));
        assert_eq!(resolve_program(plain.to_str().unwrap(), ""), Err("is not executable".into()));
        assert_eq!(resolve_program("/nowhere/agent", ""), Err("not found".into()));
        assert_eq!(resolve_program(dir.path().to_str().unwrap(), ""), Err("is no regular file".into()));
    }

    #[test]
    fn a_program_outside_the_root_gets_its_directory_and_that_behind_its_link() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let (bin, lib) = (base.join("bin"), base.join("lib"));
        fs::create_dir(&bin).unwrap();
        fs::create_dir(&lib).unwrap();
        let real = program(&lib, "agent.js", 0o755);
        std::os::unix::fs::symlink(&real, bin.join("agent")).unwrap();
        let host = HostRoot::read();
        assert_eq!(
            program_binds(&bin.join("agent"), &host, &[]),
            [Bind::same(bin.clone()), Bind::same(lib.clone())]
        );
        assert_eq!(program_binds(&real, &host, &[&lib.join("state")]), [Bind::same(real)]);
        assert_eq!(program_binds(Path::new("/usr/bin/env"), &host, &[]), []);
    }

    #[test]
    fn a_program_of_npm_gets_the_packages_that_were_installed_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let modules = fs::canonicalize(dir.path()).unwrap().join("node_modules");
        let package = modules.join("@maker/agent/node_modules/inner");
        fs::create_dir_all(&package).unwrap();
        fs::create_dir(modules.join(".bin")).unwrap();
        let real = program(&package, "agent.js", 0o755);
        let link = modules.join(".bin/agent");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let host = HostRoot::read();
        assert_eq!(program_binds(&link, &host, &[]), [Bind::same(modules.clone())]);
        let private = modules.join("state");
        assert_eq!(program_binds(&link, &host, &[&private]), [Bind::same(link), Bind::same(real)]);
    }
}

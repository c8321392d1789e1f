//! The tools that suites need: whether they are there, and how they come when they may be installed.
//!
//! Apart because this is the one place that changes the machine. Tests do so only with `CI=true` or `--install`; who
//! asks for a package gets what makes one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// A program that a suite calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tool {
    /// git.
    Git,
    /// The sandbox of the agents.
    Bubblewrap,
    /// The test runner; `cargo test` stands in for it.
    Nextest,
    /// Licences, sources and bans of the dependencies.
    CargoDeny,
    /// Makes the Debian package.
    CargoDeb,
    /// Finds the libraries that the packaged programs need.
    DpkgDev,
    /// Checks the units.
    SystemdAnalyze,
    /// Evaluates the NixOS module.
    NixInstantiate,
    /// Makes the Debian root that the tests boot.
    Mmdebstrap,
    /// Boots it.
    Nspawn,
    /// Makes disks that can lose power.
    MkfsExt4,
    /// Makes the hashes of passwords for the proxies.
    OpenSsl,
    /// A proxy that the board stands behind.
    Nginx,
    /// Another one.
    Caddy,
    /// Another one.
    Haproxy,
    /// And the last.
    Apache,
    /// The browser that walks over the board.
    Chromium,
    /// What runs the scripts that drive the browser.
    Node,
    /// What fetches the library that they drive it with.
    Npm,
    /// That library, where those scripts look for it.
    PlaywrightCore,
    /// The real agent that the tests of agents run.
    Codex,
}

/// Where a tool comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A package of Debian and its kin.
    Apt(&'static str),
    /// A crate with a program, and the version that the project was checked with.
    Cargo { name: &'static str, version: &'static str },
    /// What the lock file of this directory names.
    Npm(&'static str),
}

impl Tool {
    /// The name of its program, or of its directory where it is no program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Tool::Git => "git",
            Tool::Bubblewrap => "bwrap",
            Tool::Nextest => "cargo-nextest",
            Tool::CargoDeny => "cargo-deny",
            Tool::CargoDeb => "cargo-deb",
            Tool::DpkgDev => "dpkg-shlibdeps",
            Tool::SystemdAnalyze => "systemd-analyze",
            Tool::NixInstantiate => "nix-instantiate",
            Tool::Mmdebstrap => "mmdebstrap",
            Tool::Nspawn => "systemd-nspawn",
            Tool::MkfsExt4 => "mkfs.ext4",
            Tool::OpenSsl => "openssl",
            Tool::Nginx => "nginx",
            Tool::Caddy => "caddy",
            Tool::Haproxy => "haproxy",
            Tool::Apache => "apache2",
            Tool::Chromium => "chromium",
            Tool::Node => "node",
            Tool::Npm => "npm",
            Tool::PlaywrightCore => "playwright-core",
            Tool::Codex => "@openai/codex",
        }
    }

    fn origin(self) -> Origin {
        match self {
            Tool::Git => Origin::Apt("git"),
            Tool::Bubblewrap => Origin::Apt("bubblewrap"),
            Tool::Nextest => Origin::Cargo { name: "cargo-nextest", version: "0.9.143" },
            Tool::CargoDeny => Origin::Cargo { name: "cargo-deny", version: "0.20.2" },
            Tool::CargoDeb => Origin::Cargo { name: "cargo-deb", version: "3.8.0" },
            Tool::DpkgDev => Origin::Apt("dpkg-dev"),
            Tool::SystemdAnalyze => Origin::Apt("systemd"),
            Tool::NixInstantiate => Origin::Apt("nix-bin"),
            Tool::Mmdebstrap => Origin::Apt("mmdebstrap"),
            Tool::Nspawn => Origin::Apt("systemd-container"),
            Tool::MkfsExt4 => Origin::Apt("e2fsprogs"),
            Tool::OpenSsl => Origin::Apt("openssl"),
            Tool::Nginx => Origin::Apt("nginx-light"),
            Tool::Caddy => Origin::Apt("caddy"),
            Tool::Haproxy => Origin::Apt("haproxy"),
            Tool::Apache => Origin::Apt("apache2-bin"),
            Tool::Chromium => Origin::Apt("chromium"),
            Tool::Node => Origin::Apt("nodejs"),
            Tool::Npm => Origin::Apt("npm"),
            Tool::PlaywrightCore => Origin::Npm("tests/browser"),
            Tool::Codex => Origin::Npm("tests/agents"),
        }
    }

    /// The line that a person would type to get it.
    pub(crate) fn how(self) -> String {
        match self.origin() {
            Origin::Apt(package) => format!("apt-get install {package}"),
            Origin::Cargo { name, version } => format!("cargo install --locked {name}@{version}"),
            Origin::Npm(dir) => format!("npm ci --prefix {dir}"),
        }
    }

    /// Is its program there?
    pub(crate) fn is_there(self) -> bool {
        if let Origin::Npm(dir) = self.origin() {
            return crate::root().join(dir).join("node_modules").join(self.program()).is_dir();
        }
        search_path().iter().any(|dir| is_program(&dir.join(self.program())))
    }
}

/// Is this process root's?
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Installs what is missing: packages in one go, then crates and directories of npm one by one.
///
/// # Errors
/// The first installation that failed, with its command. What came before stays.
pub(crate) fn install(tools: &BTreeSet<Tool>) -> anyhow::Result<()> {
    let mut packages = Vec::new();
    let mut crates = Vec::new();
    let mut dirs = Vec::new();
    for tool in tools.iter().filter(|tool| !tool.is_there()) {
        match tool.origin() {
            Origin::Apt(package) => packages.push(package),
            Origin::Cargo { name, version } => crates.push(format!("{name}@{version}")),
            Origin::Npm(dir) => dirs.push(crate::root().join(dir)),
        }
    }
    if !packages.is_empty() {
        if !is_root() {
            bail!("{} must be installed, and only root can: apt-get install {0}", packages.join(" "));
        }
        call("apt-get", &["update", "-q"])?;
        let mut arguments = vec!["install", "-q", "-y", "--no-install-recommends"];
        arguments.extend(packages);
        call("apt-get", &arguments)?;
    }
    for name in crates {
        call("cargo", &["install", "--locked", &name])?;
    }
    for dir in dirs {
        call("npm", &["ci", "--no-audit", "--no-fund", "--prefix", &dir.to_string_lossy()])?;
    }
    Ok(())
}

fn call(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let line = format!("{program} {}", arguments.join(" "));
    println!("== {line}");
    let status = Command::new(program)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Where cargo looks for its subcommands: PATH, and its own `bin` even where that is not in PATH.
fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let home = |name: &str, below: &str| -> Option<PathBuf> {
        std::env::var_os(name)
            .filter(|value| *value != OsString::new())
            .map(|dir| Path::new(&dir).join(below))
    };
    dirs.extend(home("CARGO_HOME", "bin").or_else(|| home("HOME", ".cargo/bin")));
    dirs
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_the_execute_bit_is_no_program() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bwrap");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(!is_program(&path));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(is_program(&path));
        assert!(!is_program(dir.path()), "a directory is none either");
    }

    #[test]
    fn a_missing_tool_is_told_with_the_line_that_brings_it() {
        assert_eq!(Tool::Bubblewrap.how(), "apt-get install bubblewrap");
        assert!(Tool::CargoDeny.how().starts_with("cargo install --locked cargo-deny@"));
        assert_eq!(Tool::PlaywrightCore.how(), "npm ci --prefix tests/browser");
    }
}

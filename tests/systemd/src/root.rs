//! The Debian root, and above it the layer with the package: made below cargo's target directory, once for all tests.
//!
//! Each test is a process, so a lock of the kernel decides who makes them. The root is kept between runs; the layer is
//! made anew when what is installed changed. What a killed test left is removed by the next one that asks.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::container;

/// The variable with Debian's suite.
const SUITE_VARIABLE: &str = "BOARD_TEST_SUITE";
/// The suite without it: systemd 252, the oldest that the units are for.
const SUITE: &str = "bookworm";
/// What the root has beyond the least.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,git,bubblewrap,procps,libfaketime,nix-bin";
/// The programs that the package brings.
const PROGRAMS: [&str; 4] = ["board-trigger", "board-watcher", "board-worker", "boardctl"];

/// What containers stand on.
#[derive(Debug, Clone)]
pub struct Root {
    /// The Debian root.
    pub base: PathBuf,
    /// The directory of the layer above it.
    pub layer: PathBuf,
    /// Where containers have their own layers.
    pub runs: PathBuf,
}

impl Root {
    /// The `lowerdir` of an overlay of both.
    pub fn lower(&self) -> OsString {
        let mut lower = self.layer.join("upper").into_os_string();
        lower.push(":");
        lower.push(&self.base);
        lower
    }

    /// The root with the package installed; whoever comes first makes it, the others wait.
    ///
    /// # Errors
    /// With the end of what the making said.
    pub fn installed() -> anyhow::Result<Root> {
        let suite = std::env::var(SUITE_VARIABLE).unwrap_or_else(|_| SUITE.to_owned());
        let place = target()?.join("systemd");
        let runs = place.join("runs");
        std::fs::create_dir_all(&runs).with_context(|| runs.display().to_string())?;
        let _lock = lock(&place.join(format!("{suite}.lock")))?;
        remove_left(&runs)?;
        let base = place.join(&suite);
        let packages = place.join(format!("{suite}.packages"));
        if !base.exists() || std::fs::read_to_string(&packages).ok().as_deref() != Some(PACKAGES) {
            remove(&base)?;
            debootstrap(&suite, &base)?;
            std::fs::write(&packages, PACKAGES).with_context(|| packages.display().to_string())?;
        }
        let package = package()?;
        let layer = place.join(format!("{suite}-layer"));
        let stamp = layer.join("stamp");
        let wanted = fingerprint(&package)?;
        if std::fs::read_to_string(&stamp).ok().as_deref() != Some(&wanted) {
            remove(&layer)?;
            say(
                "sh",
                Command::new("unshare").args(["--mount", "--propagation", "private", "sh"]).args([
                    support("provision.sh").as_path(),
                    &base,
                    &layer,
                    &package,
                    &support(""),
                ]),
            )?;
            std::fs::write(&stamp, wanted).with_context(|| stamp.display().to_string())?;
        }
        Ok(Root { base, layer, runs })
    }
}

/// A file's lock, once nobody else holds it.
pub(crate) fn lock(path: &Path) -> anyhow::Result<Flock<File>> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, error)| error)
        .with_context(|| path.display().to_string())
}

/// A file of this package.
pub fn support(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// cargo's target directory.
fn target() -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe().context("the test's own path")?;
    Ok(test.ancestors().nth(3).context("a target directory")?.to_owned())
}

/// The programs with fault points, which the loop tests are built with.
pub fn armed_programs() -> anyhow::Result<PathBuf> {
    let dir = std::env::var_os("BOARD_TEST_BIN").map(PathBuf::from);
    let dir = dir.map_or_else(|| target().map(|target| target.join("debug")), Ok)?;
    for name in PROGRAMS {
        anyhow::ensure!(dir.join(name).exists(), "{name} is not built; run `cargo xtask test systemd`");
    }
    Ok(dir)
}

fn debootstrap(suite: &str, base: &Path) -> anyhow::Result<()> {
    let part = base.with_extension("part");
    remove(&part)?;
    let mut command = Command::new("mmdebstrap");
    command.arg("--variant=minbase").arg(format!("--include={PACKAGES}")).arg(suite).arg(&part);
    say("mmdebstrap", &mut command)?;
    std::fs::rename(&part, base).with_context(|| base.display().to_string())
}

/// The package that `cargo xtask dist` made.
///
/// # Errors
/// If there is none.
pub fn package() -> anyhow::Result<PathBuf> {
    let dist = target()?.join("dist");
    let made = std::fs::read_dir(&dist).with_context(|| dist.display().to_string())?.flatten();
    let is_package = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "deb");
    made.map(|entry| entry.path())
        .find(is_package)
        .context("no package; run `cargo xtask dist --profile dev`")
}

/// Names, sizes and times of all that goes into the layer.
fn fingerprint(package: &Path) -> anyhow::Result<String> {
    let mut hasher = DefaultHasher::new();
    let mut todo = vec![package.to_owned(), support("")];
    while let Some(path) = todo.pop() {
        let file = std::fs::metadata(&path).with_context(|| path.display().to_string())?;
        if file.is_dir() {
            // The tests themselves are not installed.
            let entries = std::fs::read_dir(&path).with_context(|| path.display().to_string())?;
            let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            names.retain(|path| !path.ends_with("src") && !path.ends_with("tests"));
            names.sort();
            todo.extend(names);
        } else {
            (path, file.len(), file.mtime(), file.mtime_nsec()).hash(&mut hasher);
        }
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Removes the layers of tests that are gone: each holds the lock of its own while it lives.
fn remove_left(runs: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(runs).with_context(|| runs.display().to_string())?.flatten() {
        let path = entry.path();
        let Ok(lock) = File::open(path.join("lock")) else { continue };
        match Flock::lock(lock, FlockArg::LockExclusiveNonblock) {
            Ok(_lock) => {
                container::remove_groups(&entry.file_name().to_string_lossy());
                remove(&path)?;
            }
            Err((_, Errno::EWOULDBLOCK)) => {}
            Err((_, error)) => return Err(error).context(path.display().to_string()),
        }
    }
    Ok(())
}

/// Removes a directory with all below it; none there is fine.
pub fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).context(path.display().to_string()),
    }
}

/// Runs a command; what it said is told if it fails.
fn say(name: &str, command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    anyhow::ensure!(
        output.status.success(),
        "{name} ended with {}:\n{}",
        output.status,
        lines[lines.len().saturating_sub(30)..].join("\n")
    );
    Ok(())
}

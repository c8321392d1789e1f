//! What the tests of files, store and queue share: processes of their own, full disks, trees to compare.
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};

/// Name of the variable that tells a test that it is the child.
pub(crate) const CHILD: &str = "BOARD_TEST_CHILD";

/// Runs one test of this program in a process of its own; it finds `argument` in [`CHILD`].
pub(crate) fn child(test: &str, argument: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(CHILD, argument).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

/// The argument of a child; `None` in an ordinary run, where the test has nothing to do.
pub(crate) fn argument() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Records that a test could not run here.
pub(crate) fn skip(line: &str) {
    eprintln!("skipped: {line}");
    if let Some(path) = std::env::var_os("BOARD_TEST_SKIPS") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }
}

/// Runs `test` with an empty file system of 1 MiB, which no other process sees; without the right to mount the
/// test is recorded as skipped.
pub(crate) fn on_a_small_disk(name: &str, test: impl FnOnce(&Path) + Send) {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    std::thread::scope(|scope| {
        let mounted = move || -> Result<(), Errno> {
            // The mounts of this thread alone; they end with it.
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
            mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), Some("size=1m,mode=700"))
        };
        let run = move || match mounted() {
            Ok(()) => test(dir),
            Err(_) => skip(&format!("{name}: needs root")),
        };
        if let Err(panic) = scope.spawn(run).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Fills the disk to its last page.
pub(crate) fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[7; 4096]).is_ok() {}
}

/// The names in a directory.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = super::list_dir(dir).unwrap();
    entries.into_iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect()
}

/// All files below a directory, relative and sorted.
pub(crate) fn tree(dir: &Path) -> Vec<String> {
    fn walk(dir: &Path, above: &str, into: &mut Vec<String>) {
        for entry in super::list_dir(dir).unwrap() {
            let name = format!("{above}{}", entry.name.to_string_lossy());
            match entry.kind {
                super::Kind::Directory => walk(&dir.join(&entry.name), &format!("{name}/"), into),
                super::Kind::File | super::Kind::Link | super::Kind::Special => into.push(name),
            }
        }
    }
    let mut all = Vec::new();
    walk(dir, "", &mut all);
    all
}

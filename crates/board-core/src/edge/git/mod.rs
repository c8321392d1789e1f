//! The git repository of the board, through the `git` program.
//!
//! One module calls it: `invoke` starts the program, `parse` reads what it prints, the others know what to
//! ask. Nothing here knows a card or a job, and nothing takes a lock of ours: **the caller of a method that writes
//! holds the repository lock** ([`repo_lock_name`]).
//!
//! | file | what |
//! | --- | --- |
//! | `refs` | branches, checkouts, history, differences |
//! | `objects` | trees and blobs, read and written |
//! | `commit` | one commit on a branch that touches its own paths only |
//! | `index` | the operator's index after such a commit |
//! | `state` | why a commit has to wait; a lock that a killed git left |
use std::{
    fs::File,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use sha1::{Digest, Sha1};

mod commit;
#[cfg(test)]
mod commit_tests;
mod error;
mod index;
mod invoke;
mod memory;
mod objects;
mod oid;
mod parse;
mod process;
mod ref_locks;
mod refs;
#[cfg(test)]
mod repository_tests;
mod session;
mod state;
#[cfg(test)]
pub(crate) mod testing;
mod trees;

pub use commit::{CommitError, CommitOutcome, CommitRequest, Content, Expectation, FileChange};
pub use error::GitError;
pub(crate) use error::at;
pub(crate) use index::PrivateIndex;
pub use invoke::CALL_SECONDS;
pub(crate) use invoke::{Call, Place};
pub(crate) use objects::Objects;
pub use objects::{BlobAt, EntryKind, TreeEntry};
pub use oid::{Oid, OidError};
pub use parse::{CommitInfo, Head};
pub(crate) use parse::{DiffEntry, parse_diff, parse_index, parse_nul_paths, parse_oid};
pub use ref_locks::RefLocks;
pub use refs::{Checkout, Cut};
pub(crate) use refs::{understood, work_tree_of};
pub use state::{CommitBlock, IndexLock, Operation, Reaped};

/// Where a checkout and its repository lie, as git is asked.
const PLACES: [&str; 3] = ["--show-toplevel", "--git-dir", "--git-common-dir"];

/// The technical identity: author and committer of every commit of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name, without `<`, `>` and line ends.
    pub name: String,
    /// The address, without `<`, `>`, blanks and line ends.
    pub email: String,
}

/// How a repository is used.
#[derive(Debug, Clone)]
pub struct GitOptions {
    /// `board.allow_filters`: take a repository that configures `filter.*`.
    pub allow_filters: bool,
    /// Author and committer.
    pub identity: Identity,
    /// A directory of ours for notes about locks and for private indexes; made if it is missing.
    pub lock_note_dir: PathBuf,
    /// The git program; `git` is looked for in `PATH`.
    pub program: PathBuf,
}

/// A repository with a checkout.
#[derive(Debug, Clone)]
pub struct Git {
    options: GitOptions,
    /// Top level of the checkout that was opened.
    top_level: PathBuf,
    /// Git directory of that checkout.
    git_dir: PathBuf,
    /// The directory that all linked worktrees share.
    common_dir: PathBuf,
    /// Digits of an object name: 40 or 64.
    pub(in crate::edge) digits: usize,
    /// Names of configured merge drivers, which must not run.
    merge_drivers: Vec<String>,
    memory: memory::Memory,
}

impl Git {
    /// Opens the repository that has `repository` as, or inside, a work tree. A linked worktree will do.
    ///
    /// # Errors
    /// No repository, a bare one, one that git does not trust, one with `filter.*` while they are not allowed, or
    /// an identity that git would not take.
    pub fn open(repository: &Path, options: GitOptions) -> Result<Self, GitError> {
        check_identity(&options.identity)?;
        let start = repository.canonicalize().map_err(at(repository))?;
        // git compares safe.directory with the top level that it finds, so it is looked for the same way.
        let trusted = start.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(&start);
        let ask = |questions: &[&str]| {
            let call = Call::discover(&options.program, &start).config(safe_directory(trusted));
            call.arg("rev-parse").args(questions).read().run()
        };
        // All in one call, since every process costs more than its answer.
        let kind = ["--is-bare-repository", "--is-inside-work-tree", "--show-object-format"];
        let reply = ask(&[&kind[..], &["--path-format=absolute"], &PLACES].concat())?;
        let answer = String::from_utf8_lossy(&reply.stdout).into_owned();
        let digits = match answer.lines().take(kind.len()).collect::<Vec<_>>().as_slice() {
            // It has no top level to tell, so the code is not 0.
            ["true", ..] => return Err(GitError::Bare { path: start }),
            _ if reply.code != 0 && !answer.starts_with("false\nfalse\n") => {
                return Err(GitError::NotARepository { path: start, reason: reply.stderr });
            }
            [_, "true", "sha1"] => 40,
            [_, "true", "sha256"] => 64,
            other => {
                let reason = format!("it is not inside a work tree ({})", other.join(" "));
                return Err(GitError::NotARepository { path: start, reason });
            }
        };
        let places: Vec<&[u8]> = reply.stdout.split(|byte| *byte == b'\n').skip(kind.len()).collect();
        let [top_level, git_dir, common_dir] = match places.as_slice() {
            [top_level, git_dir, common_dir, []] => {
                [top_level.to_vec(), git_dir.to_vec(), common_dir.to_vec()]
            }
            // A path with a line end in it: one question for each.
            _ => {
                let alone = |question: &str| -> Result<Vec<u8>, GitError> {
                    let mut line = ask(&["--path-format=absolute", question])?.success()?;
                    line.pop();
                    Ok(line)
                };
                let [top_level, git_dir, common_dir] = PLACES;
                [alone(top_level)?, alone(git_dir)?, alone(common_dir)?]
            }
        };
        let real = |line: Vec<u8>| {
            let path = PathBuf::from(std::ffi::OsString::from_vec(line));
            path.canonicalize().map_err(at(&path))
        };
        let mut git = Self {
            top_level: real(top_level)?,
            git_dir: real(git_dir)?,
            common_dir: real(common_dir)?,
            digits,
            merge_drivers: Vec::new(),
            memory: memory::Memory::default(),
            options,
        };
        git.read_dangerous_config()?;
        let notes = &git.options.lock_note_dir;
        std::fs::create_dir_all(notes).map_err(at(notes))?;
        // git gets paths below it from other current directories.
        git.options.lock_note_dir = notes.canonicalize().map_err(at(notes))?;
        Ok(git)
    }

    /// Top level of the checkout that was opened.
    #[must_use]
    pub fn top_level(&self) -> &Path {
        &self.top_level
    }

    /// The git directory that all worktrees of the repository share.
    #[must_use]
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The identity that commits are made with.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.options.identity
    }

    /// The directory for notes and private indexes.
    pub(crate) fn note_dir(&self) -> &Path {
        &self.options.lock_note_dir
    }

    /// Waits until all that was written to the file system of the repository is on the disk.
    ///
    /// # Errors
    /// If the directory cannot be opened or the disk reports a fault.
    pub fn sync(&self) -> Result<(), GitError> {
        sync_file_system(&self.common_dir)
    }

    /// The place of the checkout that was opened.
    pub(crate) fn place(&self) -> Place {
        Place { git_dir: self.git_dir.clone(), work_tree: self.top_level.clone() }
    }

    /// A call that reads objects alone. Some of those commands look into the index for attributes, and the operator's
    /// may be broken: they get one that is not there, which counts as empty.
    pub(crate) fn call_without_index<S: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Call {
        self.call(args).index(&self.note_dir().join("no-index"))
    }

    /// A call for the checkout that was opened.
    pub(crate) fn call<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Call {
        self.call_at(&self.place(), args)
    }

    /// A call for another work tree of the repository.
    pub(crate) fn call_at<S: AsRef<std::ffi::OsStr>>(
        &self,
        place: &Place,
        args: impl IntoIterator<Item = S>,
    ) -> Call {
        Call::at(&self.options.program, place).config(safe_directory(&place.work_tree)).args(args)
    }

    /// Refuses filters that were configured since the repository was opened: asked before git reads or writes files
    /// that an agent wrote, which is when it would run them.
    ///
    /// # Errors
    /// [`GitError::FiltersConfigured`], or git fails.
    pub(crate) fn refuse_new_filters(&self) -> Result<(), GitError> {
        self.dangerous_config().map(drop)
    }

    /// What the repository's own configuration would have git run, as far as no option turns it off.
    fn read_dangerous_config(&mut self) -> Result<(), GitError> {
        self.merge_drivers = self.dangerous_config()?;
        Ok(())
    }

    /// The configured merge drivers; filters are refused.
    fn dangerous_config(&self) -> Result<Vec<String>, GitError> {
        let pattern = r"^(filter\..*\.(clean|smudge|process)|merge\..*\.driver)$";
        let reply = self.call(["config", "--null", "--name-only", "--get-regexp", pattern]).read().run()?;
        let names = match reply.code {
            // 1: no such key.
            0 | 1 => String::from_utf8_lossy(&reply.stdout).into_owned(),
            _ => return Err(reply.failure()),
        };
        let (mut filters, mut drivers) = (Vec::new(), Vec::new());
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            match name.strip_prefix("merge.").and_then(|rest| rest.strip_suffix(".driver")) {
                Some(driver) => drivers.push(driver.to_owned()),
                None => filters.push(name.to_owned()),
            }
        }
        if !filters.is_empty() && !self.options.allow_filters {
            return Err(GitError::FiltersConfigured { path: self.top_level.clone(), keys: filters });
        }
        Ok(drivers)
    }
}

/// File name of the lock that serialises our writes to a repository, below `locks/`: `repo-<hash>.lock`.
///
/// The hash is of the common git directory, so that all worktrees of a repository share one lock.
#[must_use]
pub fn repo_lock_name(common_dir: &Path) -> String {
    let digest = Sha1::digest(common_dir.as_os_str().as_encoded_bytes());
    format!("repo-{}.lock", &Oid::from_raw(&digest).as_str()[..16])
}

/// `syncfs` on the file system that holds `dir`.
pub(crate) fn sync_file_system(dir: &Path) -> Result<(), GitError> {
    let file = File::open(dir).map_err(at(dir))?;
    nix::unistd::syncfs(&file).map_err(|errno| at(dir)(errno.into()))
}

/// The full name of a branch, `refs/heads/<branch>`.
///
/// # Errors
/// If git would not take the name, or could read it as something else than a branch.
pub(crate) fn branch_ref(branch: &str) -> Result<String, GitError> {
    let name = format!("refs/heads/{branch}");
    if branch.starts_with('-') || branch == "HEAD" {
        return Err(GitError::BadName { what: "branch", name: branch.to_owned() });
    }
    check_ref(&name).map_err(|_| GitError::BadName { what: "branch", name: branch.to_owned() })?;
    Ok(name)
}

/// The rules of `git check-ref-format` for a full name below `refs/`.
pub(crate) fn check_ref(name: &str) -> Result<(), GitError> {
    let forbidden = |character: char| character <= ' ' || "\u{7f}~^:?*[\\".contains(character);
    let good_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let good = name.starts_with("refs/")
        && name.len() <= 1024
        && !name.chars().any(forbidden)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && name.split('/').count() >= 3
        && name.split('/').all(good_part);
    if good { Ok(()) } else { Err(GitError::BadName { what: "ref", name: name.to_owned() }) }
}

fn check_identity(identity: &Identity) -> Result<(), GitError> {
    for text in [&identity.name, &identity.email] {
        let bad = |character: char| character.is_control() || matches!(character, '<' | '>');
        if text.trim().is_empty() || text.chars().any(bad) {
            return Err(GitError::BadName { what: "identity", name: text.clone() });
        }
    }
    Ok(())
}

fn safe_directory(dir: &Path) -> std::ffi::OsString {
    let mut setting = std::ffi::OsString::from("safe.directory=");
    setting.push(dir);
    setting
}

#[cfg(test)]
mod tests {
    use super::{testing::Fixture, *};

    #[test]
    fn a_directory_without_a_repository_and_a_bare_one_are_refused_with_a_sentence() {
        let fixture = Fixture::new();
        let plain = fixture.dir().join("plain");
        std::fs::create_dir(&plain).unwrap();
        let error = Git::open(&plain, fixture.options()).unwrap_err();
        assert!(matches!(error, GitError::NotARepository { .. }), "{error}");
        let bare = fixture.dir().join("bare.git");
        fixture.run(&["init", "-q", "--bare", bare.to_str().unwrap()]);
        let error = Git::open(&bare, fixture.options()).unwrap_err();
        assert!(error.to_string().contains("bare"), "{error}");
        assert!(matches!(Git::open(Path::new("/nonexistent"), fixture.options()), Err(GitError::Io { .. })));
    }

    #[test]
    fn a_subdirectory_and_a_linked_worktree_find_the_same_repository() {
        let fixture = Fixture::with_commit();
        let git = fixture.git();
        let inner = fixture.repo().join("docs");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(Git::open(&inner, fixture.options()).unwrap().top_level(), git.top_level());
        let linked = fixture.dir().join("linked");
        fixture.run(&["worktree", "add", "-q", "-b", "other", linked.to_str().unwrap()]);
        let other = Git::open(&linked, fixture.options()).unwrap();
        assert_eq!(other.common_dir(), git.common_dir());
        assert_eq!(other.top_level(), linked.canonicalize().unwrap());
        assert_eq!(repo_lock_name(other.common_dir()), repo_lock_name(git.common_dir()));
    }

    #[test]
    fn a_path_with_a_line_end_is_one_path() {
        let fixture = Fixture::with_commit();
        let odd = fixture.dir().join("two\nlines");
        std::fs::rename(fixture.repo(), &odd).unwrap();
        let git = Git::open(&odd, fixture.options()).unwrap();
        assert_eq!(git.top_level(), odd.canonicalize().unwrap());
        assert_eq!(git.common_dir(), git.top_level().join(".git"));
    }

    #[test]
    fn a_filter_that_is_configured_later_is_refused_when_it_would_be_run() {
        let fixture = Fixture::new();
        let git = fixture.git();
        git.refuse_new_filters().unwrap();
        fixture.run(&["config", "filter.x.clean", "cat"]);
        assert!(matches!(git.refuse_new_filters(), Err(GitError::FiltersConfigured { .. })));
    }

    #[test]
    fn a_configured_filter_is_refused_unless_it_is_allowed() {
        let fixture = Fixture::with_commit();
        fixture.run(&["config", "filter.lfs.smudge", "touch /tmp/never"]);
        let error = Git::open(&fixture.repo(), fixture.options()).unwrap_err();
        assert!(error.to_string().contains("filter.lfs.smudge"), "{error}");
        Git::open(&fixture.repo(), GitOptions { allow_filters: true, ..fixture.options() }).unwrap();
    }

    #[test]
    fn names_that_git_could_read_otherwise_are_no_branches() {
        for good in ["main", "board/a-b/1", "würfel", "a.b", "feature/ä"] {
            branch_ref(good).unwrap();
        }
        for bad in [
            "",
            "-u",
            "--upload-pack=x",
            "a b",
            "a..b",
            "a~1",
            "a^",
            "a:b",
            "x.lock",
            "a//b",
            "/a",
            "a/",
            "@{-1}",
            "a\nb",
            "HEAD",
            ".a",
            "a.",
        ] {
            assert!(branch_ref(bad).is_err(), "{bad:?}");
        }
        assert!(check_ref("refs/board/saved/0b.1").is_ok());
        assert!(check_ref("HEAD").is_err() && check_ref("refs/heads").is_err());
    }

    #[test]
    fn an_identity_that_git_would_change_is_refused() {
        for (name, email) in [("", "a@b"), ("board", " "), ("a\nb", "a@b"), ("a<b", "a@b")] {
            let identity = Identity { name: name.to_owned(), email: email.to_owned() };
            assert!(check_identity(&identity).is_err(), "{name:?} {email:?}");
        }
    }
}

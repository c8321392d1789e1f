//! Branches, checkouts, history and differences: what the repository says about commits.
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use crate::model::time::Timestamp;

use super::{
    Call, CommitInfo, Git, GitError, Head, Oid, Place, at, branch_ref, check_ref,
    invoke::Reply,
    parse::{self, COMMIT_FORMAT, ParseResult},
};

/// A work tree of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// Its top level.
    pub path: PathBuf,
    /// Its git directory: the common one, or one below `worktrees/`.
    pub git_dir: PathBuf,
    /// What it has checked out.
    pub head: Head,
    /// The reason (maybe empty), if it is locked.
    pub locked: Option<String>,
}

/// Output that may have been cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The bytes, at most as many as asked for.
    pub bytes: Vec<u8>,
    /// Whether there was more.
    pub more: bool,
}

impl Checkout {
    pub(crate) fn place(&self) -> Place {
        Place { git_dir: self.git_dir.clone(), work_tree: self.path.clone() }
    }
}

/// Reads an answer; what is not understood becomes an error with the command.
pub(crate) fn understood<T>(git: &Git, command: &str, result: ParseResult<T>) -> Result<T, GitError> {
    result.map_err(|what| GitError::Unreadable {
        repository: git.top_level.clone(),
        command: command.to_owned(),
        what,
    })
}

impl Git {
    /// The commit of a branch, if it has one.
    ///
    /// # Errors
    /// A name that is no branch name, or git fails.
    pub fn branch_tip(&self, branch: &str) -> Result<Option<Oid>, GitError> {
        self.resolve(&branch_ref(branch)?)
    }

    /// The commit of a full ref name, if there is one.
    ///
    /// # Errors
    /// A name that is no ref name, or git fails.
    pub fn ref_tip(&self, name: &str) -> Result<Option<Oid>, GitError> {
        check_ref(name)?;
        self.resolve(name)
    }

    fn resolve(&self, name: &str) -> Result<Option<Oid>, GitError> {
        let file = self.ref_file(name);
        if let Some(known) = file.as_deref().and_then(|file| self.known_tip(name, file)) {
            return Ok(Some(known));
        }
        let commit = format!("{name}^{{commit}}");
        let reply =
            self.call(["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).read().run()?;
        match reply.code {
            0 => {
                let tip = understood(self, "git rev-parse", parse::parse_oid(&reply.stdout))?;
                if let Some(file) = file {
                    self.remember_tip(name, file, &tip);
                }
                Ok(Some(tip))
            }
            1 => Ok(None),
            _ => Err(reply.failure()),
        }
    }

    /// Whether the repository has this commit.
    ///
    /// # Errors
    /// If git fails.
    pub fn commit_exists(&self, commit: &Oid) -> Result<bool, GitError> {
        Ok(self.call(["cat-file", "-e", &format!("{commit}^{{commit}}")]).read().run()?.code == 0)
    }

    /// The tree of a commit.
    pub(crate) fn tree_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        let tree = format!("{commit}^{{tree}}");
        let output =
            self.call(["rev-parse", "--verify", "--quiet", "--end-of-options", &tree]).read().success()?;
        understood(self, "git rev-parse", parse::parse_oid(&output))
    }

    /// What the opened checkout has checked out.
    ///
    /// # Errors
    /// If git fails.
    pub fn head_state(&self) -> Result<Head, GitError> {
        let checkouts = self.checkouts()?;
        let own = checkouts.into_iter().find(|checkout| checkout.path == self.top_level);
        let missing = || Err(format!("it does not list {}", self.top_level.display()));
        understood(self, "git worktree list", own.map(|checkout| checkout.head).map_or_else(missing, Ok))
    }

    /// The top level of the work tree, linked ones too, that has the branch checked out.
    ///
    /// # Errors
    /// A name that is no branch name, or git fails.
    pub fn checked_out_at(&self, branch: &str) -> Result<Option<PathBuf>, GitError> {
        Ok(self.checkout_of(branch)?.map(|checkout| checkout.path))
    }

    pub(crate) fn checkout_of(&self, branch: &str) -> Result<Option<Checkout>, GitError> {
        branch_ref(branch)?;
        let has = |checkout: &Checkout| match &checkout.head {
            Head::Branch(name) | Head::Unborn(name) => name == branch,
            Head::Detached(_) => false,
        };
        Ok(self.checkouts()?.into_iter().find(has))
    }

    /// All work trees of the repository, the main one first; also those whose directory is gone.
    ///
    /// # Errors
    /// If git fails.
    pub fn checkouts(&self) -> Result<Vec<Checkout>, GitError> {
        let stamp = self.checkouts_stamp()?;
        if let Some(known) = self.known_checkouts(&stamp) {
            return Ok(known);
        }
        let output = self.call(["worktree", "list", "--porcelain", "-z"]).read().success()?;
        let records = understood(self, "git worktree list", parse::parse_worktrees(&output))?;
        let mut linked = self.linked_git_dirs()?;
        let mut checkouts = Vec::new();
        for (position, record) in records.into_iter().enumerate() {
            let git_dir =
                if position == 0 { Some(self.common_dir.clone()) } else { linked.remove(&record.path) };
            // A bare repository has no head. One without a git directory was removed in between.
            if let (Some(head), Some(git_dir)) = (record.head, git_dir) {
                checkouts.push(Checkout { path: record.path, git_dir, head, locked: record.locked });
            }
        }
        if self.checkouts_stamp()? == stamp {
            self.remember_checkouts(stamp, &checkouts);
        }
        Ok(checkouts)
    }

    /// The git directories below `worktrees/`, by the work tree that each names.
    fn linked_git_dirs(&self) -> Result<HashMap<PathBuf, PathBuf>, GitError> {
        let parent = self.common_dir.join("worktrees");
        let entries = match std::fs::read_dir(&parent) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
            Err(error) => return Err(at(&parent)(error)),
        };
        let mut found = HashMap::new();
        for entry in entries {
            let git_dir = entry.map_err(at(&parent))?.path();
            if let Some(path) = work_tree_of(&git_dir) {
                found.insert(path, git_dir);
            }
        }
        Ok(found)
    }

    /// The newest commit of a branch.
    ///
    /// # Errors
    /// A name that is no branch name, or git fails.
    pub fn tip_info(&self, branch: &str) -> Result<Option<CommitInfo>, GitError> {
        match self.branch_tip(branch)? {
            Some(tip) => Ok(self.log(&[tip.as_str()], 1)?.pop()),
            None => Ok(None),
        }
    }

    /// Whether `ancestor` is `commit` or lies before it.
    ///
    /// # Errors
    /// If one of them is no commit here, or git fails.
    pub fn is_ancestor(&self, ancestor: &Oid, commit: &Oid) -> Result<bool, GitError> {
        yes_or_no(
            self.call(["merge-base", "--is-ancestor", ancestor.as_str(), commit.as_str()]).read().run()?,
        )
    }

    /// The commits that `commit` has and `base` has not, newest first, at most `max`.
    ///
    /// # Errors
    /// If one of them is no commit here, or git fails.
    pub fn log_between(&self, base: &Oid, commit: &Oid, max: usize) -> Result<Vec<CommitInfo>, GitError> {
        self.log(&[commit.as_str(), &format!("^{base}")], max)
    }

    /// The commits up to and including `commit`, newest first, at most `max`.
    ///
    /// # Errors
    /// If it is no commit here, or git fails.
    pub fn log_of(&self, commit: &Oid, max: usize) -> Result<Vec<CommitInfo>, GitError> {
        self.log(&[commit.as_str()], max)
    }

    fn log(&self, revisions: &[&str], max: usize) -> Result<Vec<CommitInfo>, GitError> {
        let count = format!("--max-count={max}");
        let call =
            self.call(["log", "-z", "--no-color", "--no-decorate", "--no-mailmap", COMMIT_FORMAT, &count]);
        let output = call.arg("--end-of-options").args(revisions).arg("--").read().success()?;
        understood(self, "git log", parse::parse_commits(&output))
    }

    /// The log of a commit as a reader gets it, at most `max` commits and `limit` bytes.
    ///
    /// # Errors
    /// If it is no commit here, or git fails.
    pub fn log_text(&self, commit: &Oid, max: usize, limit: usize) -> Result<Cut, GitError> {
        let count = format!("--max-count={max}");
        let call = self.call_without_index([
            "log",
            "--no-color",
            "--no-decorate",
            "--date=iso-strict",
            "--stat",
            &count,
        ]);
        let call = call.args(["--no-ext-diff", "--no-textconv", "--end-of-options", commit.as_str(), "--"]);
        cut_output(call.read(), limit)
    }

    /// The difference from `base` to `commit` as a patch with renames found, at most `limit` bytes.
    ///
    /// # Errors
    /// If one of them is no commit here, or git fails.
    pub fn diff(&self, base: &Oid, commit: &Oid, limit: usize) -> Result<Cut, GitError> {
        let call = self.call_without_index([
            "diff-tree",
            "-r",
            "-p",
            "-M",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
        ]);
        let call = call.args([
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "--end-of-options",
            base.as_str(),
            commit.as_str(),
        ]);
        cut_output(call.read(), limit)
    }

    /// The values of the trailer `Board-Transition` of the newest `max` commits of a branch, newest first.
    ///
    /// One call for a whole pass; commits without the trailer have an empty list.
    ///
    /// # Errors
    /// A name that is no branch name, or git fails.
    pub fn transitions(&self, branch: &str, max: usize) -> Result<Vec<(Oid, Vec<String>)>, GitError> {
        let Some(tip) = self.branch_tip(branch)? else { return Ok(Vec::new()) };
        let format = "--format=%H%x1f%(trailers:key=Board-Transition,valueonly,separator=%x1f)";
        let count = format!("--max-count={max}");
        let call =
            self.call(["log", "-z", "--no-color", "--no-decorate", format, &count, "--end-of-options"]);
        let output = call.args([tip.as_str(), "--"]).read().success()?;
        understood(self, "git log", parse::parse_trailers(&output))
    }

    /// The commit that carries `Board-Transition: <uuid>`, among the newest `max` commits of the branch.
    ///
    /// # Errors
    /// A name that is no branch name, or git fails.
    pub fn find_transition(&self, branch: &str, uuid: &str, max: usize) -> Result<Option<Oid>, GitError> {
        let commits = self.transitions(branch, max)?;
        let found = commits.into_iter().find(|(_, values)| values.iter().any(|value| value == uuid));
        Ok(found.map(|(oid, _)| oid))
    }

    /// Whether `commit` could be merged into the branch without a conflict. Touches no work tree and no index.
    ///
    /// # Errors
    /// The branch has no commit, there is no common history, or git fails.
    pub fn merges_cleanly(&self, branch: &str, commit: &Oid) -> Result<bool, GitError> {
        let name = branch_ref(branch)?;
        let Some(tip) = self.resolve(&name)? else {
            return Err(GitError::BadName { what: "branch with a commit", name: branch.to_owned() });
        };
        let mut call = self.call(["merge-tree", "--write-tree", "--no-messages", "--name-only", "-z"]);
        for driver in &self.merge_drivers {
            // The attributes that choose a driver may be an agent's; a conflict is the careful answer.
            call = call.config(format!("merge.{driver}.driver=false"));
        }
        yes_or_no(call.args(["--end-of-options", tip.as_str(), commit.as_str()]).run()?)
    }

    /// What a branch was at a moment: its newest commit from before, along the first parents, so that a side branch
    /// that was merged later does not count.
    ///
    /// # Errors
    /// A name that is no branch name, or git fails.
    pub fn tip_before(&self, branch: &str, at: Timestamp) -> Result<Option<Oid>, GitError> {
        // In seconds: what git makes of a date that it reads depends on more than the date.
        let (name, before) = (branch_ref(branch)?, format!("--min-age={}", at.as_millis() / 1000));
        if self.resolve(&name)?.is_none() {
            return Ok(None);
        }
        let call =
            self.call(["rev-list", "-1", "--first-parent", &before, "--end-of-options", name.as_str()]);
        match call.read().success()? {
            output if output.is_empty() => Ok(None),
            output => understood(self, "git rev-list", parse::parse_oid(&output)).map(Some),
        }
    }

    /// All refs with their objects, to be compared before and after a run.
    ///
    /// # Errors
    /// If git fails.
    pub fn all_refs(&self) -> Result<BTreeMap<String, Oid>, GitError> {
        self.refs_below("refs/")
    }

    /// The refs below a prefix that ends with `/`.
    ///
    /// # Errors
    /// If git fails.
    pub fn refs_below(&self, prefix: &str) -> Result<BTreeMap<String, Oid>, GitError> {
        let call =
            self.call(["for-each-ref", "--format=%(objectname)%00%(refname)", "--end-of-options", prefix]);
        let refs = understood(self, "git for-each-ref", parse::parse_refs(&call.read().success()?))?;
        Ok(refs.into_iter().collect())
    }

    /// Sets a ref, if it is still what the caller saw (`None`: not there). Answers whether it was.
    ///
    /// # Errors
    /// A name that is no ref name, or git fails for another reason than that the ref moved.
    pub fn update_ref(
        &self,
        name: &str,
        new: &Oid,
        old: Option<&Oid>,
        reason: &str,
    ) -> Result<bool, GitError> {
        check_ref(name)?;
        let zero = Oid::zero(self.digits);
        let old = old.unwrap_or(&zero);
        let call =
            self.call(["update-ref", "-m", reason, "--end-of-options", name, new.as_str(), old.as_str()]);
        self.moved_or_failed(call, name, old, Some(new))
    }

    /// Deletes a ref, if it is still what the caller saw. Answers whether it is gone.
    ///
    /// # Errors
    /// A name that is no ref name, or git fails for another reason than that the ref moved.
    pub fn delete_ref(&self, name: &str, old: &Oid) -> Result<bool, GitError> {
        check_ref(name)?;
        let call = self.call(["update-ref", "-d", "--end-of-options", name, old.as_str()]);
        self.moved_or_failed(call, name, old, None)
    }

    /// Tells a ref that moved from a ref that cannot be written, by looking and not by git's words. A git that was
    /// killed after it had written the ref has done what was asked.
    fn moved_or_failed(
        &self,
        call: Call,
        name: &str,
        old: &Oid,
        wanted: Option<&Oid>,
    ) -> Result<bool, GitError> {
        let identity = self.identity();
        let call = call.env("GIT_COMMITTER_NAME", &identity.name).env("GIT_COMMITTER_EMAIL", &identity.email);
        let Err(error) = call.success() else { return Ok(true) };
        let current = self.resolve(name)?;
        let expected = Some(old).filter(|oid| **oid != Oid::zero(self.digits));
        if current.as_ref() == wanted {
            Ok(true)
        } else if current.as_ref() == expected {
            Err(error)
        } else {
            Ok(false)
        }
    }
}

/// The work tree that a git directory below `worktrees/` names in its file `gitdir`.
pub(crate) fn work_tree_of(git_dir: &Path) -> Option<PathBuf> {
    let mut bytes = std::fs::read(git_dir.join("gitdir")).ok()?;
    while bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    let file = git_dir.join(parse::path_of(&bytes));
    let parent = file.parent()?;
    // git lists the path as written; only a relative one has to be resolved first.
    Some(if bytes.starts_with(b"/") { parent.to_owned() } else { parent.canonicalize().ok()? })
}

fn yes_or_no(reply: Reply) -> Result<bool, GitError> {
    match reply.code {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(reply.failure()),
    }
}

fn cut_output(call: Call, limit: usize) -> Result<Cut, GitError> {
    let reply = call.cut_at(limit).run()?;
    let more = reply.cut;
    Ok(Cut { bytes: reply.success()?, more })
}

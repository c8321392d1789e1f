//! The roles: what each is shown, what it is told, and what its answer becomes.

mod build;
mod reader;

use board_core::edge::git::{Git, GitError, GitOptions, Identity, Oid, repo_lock_name};
use board_core::edge::lock::{Lock, LockClass, repository_lock};
use board_core::edge::secrets::Secrets;
use board_core::edge::settings::Settings;
use board_core::edge::worktree::Worktrees;
use board_core::model::job::{DocumentText, Job, JobType};
use board_core::model::outcome::{Outcome, SavedWork};

use minijinja::{Value, context};

use crate::play::Stage;

/// The repository of a board, opened when a role needs it.
#[derive(Debug)]
pub(crate) struct Repository {
    pub(crate) git: Git,
    pub(crate) worktrees: Worktrees,
    state_dir: std::path::PathBuf,
}

impl Repository {
    pub(crate) fn open(settings: &Settings) -> Result<Repository, GitError> {
        let state_dir = settings.board.state_dir.clone();
        let git = Git::open(
            &settings.board.repository,
            GitOptions {
                allow_filters: settings.board.allow_filters,
                identity: Identity { name: settings.audit.name.clone(), email: settings.audit.email.clone() },
                lock_note_dir: state_dir.join("locks"),
                program: "git".into(),
            },
        )?;
        let worktrees = Worktrees::new(&state_dir.join("worktrees"), git.clone())?;
        let worktrees = worktrees.keeping_out(Secrets::of(settings));
        Ok(Repository { git, worktrees, state_dir })
    }

    /// Everything that writes the repository happens under this lock.
    pub(crate) fn lock(&self) -> anyhow::Result<Lock> {
        let name = repo_lock_name(self.git.common_dir());
        let hash = name.strip_prefix("repo-").and_then(|name| name.strip_suffix(".lock")).unwrap_or(&name);
        Ok(Lock::acquire(&repository_lock(&self.state_dir, hash), LockClass::Repository)?)
    }
}

/// Plays the job's role to its end. Always gives an outcome unless what is ours to provide fails.
pub(crate) fn play(stage: &Stage<'_>, job: &Job) -> anyhow::Result<Outcome> {
    match job.kind {
        JobType::Builder => build::play(stage, job),
        JobType::Review | JobType::Research | JobType::Split | JobType::Draft => reader::play(stage, job),
    }
}

/// The prompt that a run of this job is given, word for word. Reads the repository and writes nothing.
///
/// # Errors
/// A template that cannot be used, or a commit of the job that is not in the repository.
pub fn prompt(settings: &Settings, job: &Job) -> anyhow::Result<String> {
    match job.kind {
        JobType::Builder => build::prompt(settings, job),
        JobType::Review | JobType::Research | JobType::Split | JobType::Draft => {
            reader::prompt(settings, job)
        }
    }
}

/// Keeps the work of a run that died, under its ref; only a build has any.
pub(crate) fn save(settings: &Settings, job: &Job) -> anyhow::Result<Option<SavedWork>> {
    match job.kind {
        JobType::Builder => build::save_orphan(settings, job).map(Some),
        JobType::Review | JobType::Research | JobType::Split | JobType::Draft => Ok(None),
    }
}

/// A commit of a payload as an object name.
pub(crate) fn oid(text: &str) -> anyhow::Result<Oid> {
    text.parse().map_err(|error| anyhow::anyhow!("{text}: {error}"))
}

/// A document as a prompt quotes it.
fn document(document: &DocumentText) -> Value {
    context! { path => document.path.clone(), text => document.text.clone() }
}

//! Transitions become commits: the outbox of the state is worked off, one local commit after the other.
//!
//! Under the repository lock alone. A crash at any point is repeated from the beginning: a commit that was
//! made is found again by its trailer `Board-Transition`, a file that was written is known by its hash. An
//! entry leaves the outbox only when its commit is durable, and the newest one of a card stays marked, so
//! that a rebase, a squash or a reset of the operator is noticed (storage.md).
//!
//! - here: the pass, its waits, one commit
//! - `message`: subject and trailers
//! - `select`: which transitions go into the next commit
//! - `edits`: records that somebody edited by hand
//! - `history`: commits found again, taken away by the operator, and cards that leave the state

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use uuid::Uuid;

use super::documents::{Bytes, Documents, MAX_REPORT_BYTES, Place};
use super::files::beneath::replace_beneath;
use super::git::{
    CommitBlock, CommitError, CommitRequest, Content, Expectation, FileChange, Git, Oid, Operation, Reaped,
    RefLocks, repo_lock_name,
};
use super::lock::{Lock, LockClass, LockError};
use super::settings::AuditSettings;
use super::store::Store;
use super::waits::{Edit, Wait};
use crate::fault_point;
use crate::model::board::{Board, Committed, OutboxEntry};
use crate::model::slug::Slug;
use crate::model::time::Timestamp;

mod edits;
mod history;
mod message;
mod select;

pub use edits::{Edited, edited, recorded_text};

/// Commits of one pass at most; the rest is for the next one, so that outcomes do not wait for a long outbox.
const MAX_COMMITS: usize = 32;

/// The lock that serialises all writes of the board into this repository.
///
/// # Errors
/// [`LockError::Busy`] if a worker, the sweep or another pass has it.
pub fn try_lock_repository(state_dir: &Path, git: &Git) -> Result<Lock, LockError> {
    Lock::try_acquire(&state_dir.join("locks").join(repo_lock_name(git.common_dir())), LockClass::Repository)
}

/// What a pass works with.
#[derive(Debug, Clone, Copy)]
pub struct Audit<'a> {
    /// The state.
    pub store: &'a Store,
    /// The repository and its branch.
    pub documents: &'a Documents,
    /// `[audit]`
    pub settings: &'a AuditSettings,
}

/// What a process remembers from one pass to the next; a fresh one is always right, only slower.
#[derive(Debug, Default)]
pub struct Memory {
    /// The tip at which every committed entry was on the branch, our own newest commit included.
    verified: Option<Oid>,
    /// Tip and generation after a pass that left nothing to do.
    idle: Option<(Option<Oid>, u64)>,
    /// Locks of refs that may have been left by a git that was killed.
    locks: RefLocks,
    /// Whether the last pass came to its end: else such a lock may be why.
    ended: bool,
}

/// What a pass did.
#[derive(Debug, Default)]
pub struct AuditPass {
    /// Transitions that were committed.
    pub committed: usize,
    /// Why the rest waits.
    pub waiting: Option<Wait>,
    /// Cards whose record was edited by hand; only their transitions wait.
    pub edits: BTreeMap<Slug, Edit>,
    /// Paths of which the operator has a staged version, which stays.
    pub staged: Vec<String>,
    /// When the wait ends by itself, where that is known.
    pub next: Option<Timestamp>,
    /// Whether something was left undone that no event tells of.
    pub undone: bool,
}

impl AuditPass {
    fn wait(&mut self, since: Timestamp, reason: impl Into<String>) {
        self.waiting = Some(Wait { since, reason: reason.into() });
        self.undone = true;
    }
}

/// How one commit ended.
enum Step {
    /// It was made.
    Made {
        /// The commit.
        commit: Oid,
        /// The tip that it was made on.
        parent: Option<Oid>,
    },
    /// These cards wait; the others go on.
    Skip(BTreeMap<Slug, Edit>),
    /// Everything waits.
    Wait(String),
}

impl Audit<'_> {
    /// Commits what is in the outbox, as far as it may be committed now.
    ///
    /// # Errors
    /// If the state, git or the disk fails; to be repeated later.
    pub fn pass(&self, memory: &mut Memory, now: Timestamp) -> anyhow::Result<AuditPass> {
        let mut pass = AuditPass::default();
        let board = self.store.read()?;
        let tip = self.documents.tip()?;
        let pending = board.outbox.iter().any(|entry| entry.committed.is_none());
        if !pending && memory.idle == Some((tip.clone(), board.generation)) {
            return Ok(pass);
        }
        memory.idle = None;
        let lock = match try_lock_repository(self.store.dir(), self.documents.git()) {
            Ok(lock) => lock,
            Err(LockError::Busy { .. }) => {
                pass.wait(now, "Das Repository ist gerade belegt.");
                return Ok(pass);
            }
            Err(error) => return Err(error.into()),
        };
        let ended = std::mem::take(&mut memory.ended);
        if !ended || !memory.locks.is_empty() {
            for path in self.documents.git().reap_ref_locks(&mut memory.locks, Instant::now())? {
                tracing::warn!("{}: the lock of a git of ours that was killed is removed", path.display());
            }
            pass.undone |= !memory.locks.is_empty();
        }
        if self.settings.commit {
            // First: a lock that a killed commit of ours left would also stop the look back, which mends the
            // index of such a commit.
            let block = self.block(now)?;
            if let Some(block @ CommitBlock::IndexLocked(_)) = &block {
                Self::wait_for(block, &mut pass, now);
                return Ok(pass);
            }
            self.recall(memory, now)?;
            if self.store.read()?.outbox.iter().any(|entry| entry.committed.is_none()) {
                match &block {
                    Some(block) => Self::wait_for(block, &mut pass, now),
                    None => self.commit_all(memory, &mut pass, now)?,
                }
            }
            self.retire(now)?;
        } else {
            self.write_records(&mut pass, now)?;
        }
        drop(lock);
        memory.ended = true;
        if pass.waiting.is_none() && pass.edits.is_empty() && !pass.undone {
            memory.idle = Some((self.documents.tip()?, self.store.read()?.generation));
        }
        Ok(pass)
    }

    fn wait_for(block: &CommitBlock, pass: &mut AuditPass, now: Timestamp) {
        let (since, reason, until) = told(block, now);
        pass.wait(since, reason);
        // A quiet time ends by itself; there is nothing to look for before.
        pass.undone = until.is_none();
        pass.next = until;
    }

    fn commit_all(&self, memory: &mut Memory, pass: &mut AuditPass, now: Timestamp) -> anyhow::Result<()> {
        for _ in 0..MAX_COMMITS {
            let board = self.store.read_synced()?;
            let chosen = select::next(&board.outbox, &|card| pass.edits.contains_key(card));
            if chosen.is_empty() {
                pass.undone |= !pass.edits.is_empty();
                return Ok(());
            }
            match self.commit(&board, &chosen, pass, now)? {
                Step::Made { commit, parent } => {
                    pass.committed += chosen.len();
                    // Only if nobody moved the branch in between: else the next pass looks at all of them.
                    memory.verified = (parent == memory.verified).then_some(commit);
                }
                Step::Skip(edits) => pass.edits.extend(edits),
                Step::Wait(reason) => {
                    pass.wait(now, reason);
                    return Ok(());
                }
            }
        }
        pass.undone = true;
        Ok(())
    }

    /// Why no commit may be made now, after a lock that a killed git of ours left was removed.
    fn block(&self, now: Timestamp) -> anyhow::Result<Option<CommitBlock>> {
        let git = self.documents.git();
        let quiet = Duration::from_secs(u64::from(self.settings.quiet_seconds));
        let look = || git.commit_block(self.documents.branch(), quiet, system_time(now));
        let block = look()?;
        if let (Some(CommitBlock::IndexLocked(_)), Some(checkout)) =
            (&block, git.checked_out_at(self.documents.branch())?)
            && let Reaped::Removed(path) = git.reap_stale_index_lock(&checkout)?
        {
            tracing::warn!("{}: the lock of a git of ours that was killed is removed", path.display());
            return Ok(look()?);
        }
        Ok(block)
    }

    /// One commit of the chosen transitions: the records' files, the commit, the mark in the state.
    fn commit(
        &self,
        board: &Board,
        chosen: &[OutboxEntry],
        pass: &mut AuditPass,
        now: Timestamp,
    ) -> anyhow::Result<Step> {
        let (place, tip) = (self.documents.place()?, self.documents.tip()?);
        let mut records: BTreeMap<&Slug, &OutboxEntry> = BTreeMap::new();
        for entry in chosen {
            records.insert(&entry.card, entry);
        }
        let mut edits = BTreeMap::new();
        let mut expected = Vec::new();
        let mut files: BTreeMap<String, Content> = BTreeMap::new();
        let mut stale_files = Vec::new();
        for (card, entry) in &records {
            let seen = self.look(board, card, &place, tip.as_ref())?;
            match seen.edit() {
                Some(edit) => {
                    edits.insert((*card).clone(), edit);
                }
                None => {
                    let path = edits::path_of(card);
                    expected.push(Expectation { path: path.clone(), blob: seen.tip_blob.clone() });
                    if !seen.file_is(&entry.record) {
                        stale_files.push((path.clone(), entry.record.as_bytes()));
                    }
                    files.insert(path, Content::Bytes(entry.record.clone().into_bytes()));
                }
            }
        }
        if !edits.is_empty() {
            return Ok(Step::Skip(edits));
        }
        for document in chosen.iter().flat_map(|entry| &entry.documents) {
            if let Some(content) = self.content(&place, &document.path, &document.blob)? {
                files.insert(document.path.clone(), content);
            }
        }
        if let Place::WorkTree(root) = &place {
            for (path, bytes) in stale_files {
                replace_beneath(root, Path::new(&path), bytes)?;
            }
        }
        fault_point!("audit.files");
        let message = message::of(chosen);
        let request = CommitRequest {
            branch: self.documents.branch(),
            files: files.into_iter().map(|(path, content)| FileChange { path, content }).collect(),
            message: &message,
            expected,
        };
        let outcome = match self.documents.git().commit_on_branch(&request) {
            Ok(outcome) => outcome,
            Err(error) => return self.not_committed(error, chosen),
        };
        fault_point!("audit.committed");
        pass.staged.extend(outcome.left_staged);
        self.mark(chosen, outcome.oid.as_str(), now)?;
        fault_point!("audit.marked");
        Ok(Step::Made { commit: outcome.oid, parent: outcome.parent })
    }

    /// The bytes of a document for the commit: the file if it is there, else the blob; none if neither is.
    fn content(&self, place: &Place, path: &str, blob: &str) -> anyhow::Result<Option<Content>> {
        if matches!(place, Place::WorkTree(_))
            && let Bytes::There(bytes, _) = self.documents.bytes_at(place, path, MAX_REPORT_BYTES)?
        {
            return Ok(Some(Content::Bytes(bytes)));
        }
        let oid = Oid::parse(blob).with_context(|| format!("the outbox names a blob of {path}"))?;
        let there = self.documents.git().read_blobs(std::slice::from_ref(&oid), MAX_REPORT_BYTES)?;
        if there.contains_key(&oid) {
            return Ok(Some(Content::Blob(oid)));
        }
        tracing::error!("{path}: neither the file nor its blob {oid} is there; it is committed without it");
        Ok(None)
    }

    fn not_committed(&self, error: CommitError, chosen: &[OutboxEntry]) -> anyhow::Result<Step> {
        Ok(match error {
            CommitError::InTheWay { path, what } => {
                let of_path = |entry: &&OutboxEntry| {
                    edits::path_of(&entry.card) == path || entry.documents.iter().any(|d| d.path == path)
                };
                let reason = format!("{path} kann nicht geschrieben werden: Dort ist {what}.");
                let edit = Edit { path: path.clone(), hash: None, reason };
                let cards: BTreeSet<&Slug> = chosen.iter().filter(of_path).map(|entry| &entry.card).collect();
                Step::Skip(cards.into_iter().map(|card| (card.clone(), edit.clone())).collect())
            }
            CommitError::BranchMissing { branch } => {
                Step::Wait(format!("Den Branch „{branch}“ gibt es nicht; der Commit wartet."))
            }
            CommitError::IndexLocked(lock) => Step::Wait(index_locked(&lock.path)),
            CommitError::KeepsMoving { .. } | CommitError::Changed { .. } => {
                Step::Wait("Der Branch bewegt sich gerade; der Commit wartet.".into())
            }
            CommitError::Git(error) => return Err(error.into()),
        })
    }

    /// Marks transitions as committed and drops what is no longer needed to notice a rewritten history.
    fn mark(&self, chosen: &[OutboxEntry], commit: &str, now: Timestamp) -> anyhow::Result<()> {
        let done: BTreeSet<Uuid> = chosen.iter().map(|entry| entry.step.transition).collect();
        self.change(|board| {
            for entry in &mut board.outbox {
                if done.contains(&entry.step.transition) && entry.committed.is_none() {
                    entry.committed = Some(Committed { commit: commit.to_owned(), at: now });
                }
            }
            history::drop_older(board);
        })
    }

    fn change(&self, change: impl FnOnce(&mut Board)) -> anyhow::Result<()> {
        self.store
            .update(|board| {
                change(board);
                Ok::<(), std::convert::Infallible>(())
            })
            .map_err(Into::into)
    }

    /// With `audit.commit = false`: the records are written as files, and the operator commits them or not.
    fn write_records(&self, pass: &mut AuditPass, now: Timestamp) -> anyhow::Result<()> {
        let board = self.store.read_synced()?;
        let (place, tip) = (self.documents.place()?, self.documents.tip()?);
        let mut written = Vec::new();
        for entry in board.outbox.iter().filter(|entry| entry.committed.is_none()) {
            if pass.edits.contains_key(&entry.card) {
                continue;
            }
            let seen = self.look(&board, &entry.card, &place, tip.as_ref())?;
            if let Some(edit) = seen.edit() {
                pass.edits.insert(entry.card.clone(), edit);
                continue;
            }
            if let Place::WorkTree(root) = &place
                && !seen.file_is(&entry.record)
            {
                let path = edits::path_of(&entry.card);
                replace_beneath(root, Path::new(&path), entry.record.as_bytes())?;
            }
            written.push(entry.clone());
        }
        pass.undone |= !pass.edits.is_empty();
        // No commit holds them: if commits are switched on later, they are missed on the branch and made up for.
        if written.is_empty() { Ok(()) } else { self.mark(&written, "", now) }
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0))
}

fn timestamp(at: SystemTime) -> Timestamp {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn index_locked(path: &Path) -> String {
    format!("{} ist da: Ein anderes git arbeitet dort, oder eines wurde abgebrochen.", path.display())
}

/// Since when and why a commit waits, and until when where that is known.
fn told(block: &CommitBlock, now: Timestamp) -> (Timestamp, String, Option<Timestamp>) {
    match block {
        CommitBlock::IndexLocked(lock) => (timestamp(lock.since), index_locked(&lock.path), None),
        CommitBlock::Operation { operation, since, worktree } => {
            let what = match operation {
                Operation::Rebase => "Ein Rebase",
                Operation::Merge => "Ein Merge",
                Operation::CherryPick => "Ein Cherry-Pick",
                Operation::Revert => "Ein Revert",
                Operation::Bisect => "Ein Bisect",
            };
            (timestamp(*since), format!("{what} läuft in {}; der Commit wartet.", worktree.display()), None)
        }
        CommitBlock::TipIsOperatorsAndYoung { until } => {
            let reason = "Der neueste Commit ist ganz frisch; er wird nicht überbaut, solange er noch geändert \
                          werden könnte.";
            // A moment later, so that rounding does not find the quiet time not quite over.
            (now, reason.into(), Some(timestamp(*until).plus_seconds(1)))
        }
    }
}

#[cfg(test)]
mod tests;

//! Makes the repository agree with the board: what transitions write, in the three steps of storage.md.
//!
//! 1. the state: `applying`, with the documents' bytes; their paths are taken from here on
//! 2. the files, under the repository lock and no other
//! 3. the state: the transition, its outbox entry, no `applying`
//!
//! A crash between them is gone on with from step 2, with the recorded bytes. Step 3 belongs to whoever knows
//! the cause: [`pass`] for a synthesis and for the editor's orders, the completion for an outcome. Everything
//! here is called under the repository lock.

use super::super::audit;
use super::super::clock;
use super::super::documents::{Documents, DocumentsError, Seed, WriteError};
use super::super::git::{GitError, Oid};
use super::super::lock::{Lock, LockError};
use super::super::queue::{Queue, QueueError};
use super::super::store::{Store, StoreError, UpdateError};
use super::super::worktree::{Worktree, WorktreeError, Worktrees};
use crate::fault_point;
use crate::model::apply::BOARD_ACTOR;
use crate::model::board::{Board, Policy, Stamp, WrittenDocument};
use crate::model::card::{Applying, ApplyingFor, Card, CardId, PlannedDocument, Source, WriteKind};
use crate::model::documents as texts;
use crate::model::event::{Applied, Refusal};
use crate::model::phase::Phase;
use crate::model::slug::Slug;
use crate::model::synthesis;
use crate::model::time::Timestamp;

/// What the writing of documents works with.
#[derive(Debug, Clone, Copy)]
pub struct Desk<'a> {
    /// The state.
    pub store: &'a Store,
    /// The queue.
    pub queue: &'a Queue,
    /// The repository and its branch.
    pub documents: &'a Documents,
    /// The worktrees of builds.
    pub worktrees: &'a Worktrees,
    /// What the configuration lets the model decide on.
    pub policy: &'a Policy,
}

/// Why documents could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// They never can: a name is taken, or a text was changed meanwhile. A German sentence for the card.
    /// `applying` is still there; the caller ends it together with what follows.
    #[error("{0}")]
    Never(String),
    /// They can be later. A German sentence for the card.
    #[error("{0}")]
    Later(String),
    /// The card is not in the state any more, or has something else to finish first.
    #[error(transparent)]
    Refused(Refusal),
    /// The state could not be read or written.
    #[error(transparent)]
    Store(StoreError),
}

impl From<UpdateError<Refusal>> for Obstacle {
    fn from(error: UpdateError<Refusal>) -> Self {
        match error {
            UpdateError::Refused(refusal) => Obstacle::Refused(refusal),
            UpdateError::Store(error) => Obstacle::Store(error),
        }
    }
}

impl From<StoreError> for Obstacle {
    fn from(error: StoreError) -> Self {
        Obstacle::Store(error)
    }
}

impl From<DocumentsError> for Obstacle {
    fn from(error: DocumentsError) -> Self {
        Obstacle::Later(format!("Das Repository ist nicht lesbar: {error}"))
    }
}

/// Why a pass had to stop. It may be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The repository's documents.
    #[error(transparent)]
    Documents(#[from] DocumentsError),
    /// git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The lock of the repository.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// What a pass did.
#[derive(Debug, Default)]
pub struct Pass {
    /// What happened, for the journal.
    pub applied: Vec<Applied>,
    /// Cards that wait, with a German sentence.
    pub waits: Vec<(CardId, String)>,
    /// Whether something was left undone that no event tells of.
    pub undone: bool,
}

impl Pass {
    fn wait(&mut self, card: &CardId, reason: impl Into<String>) {
        self.waits.push((card.clone(), reason.into()));
        self.undone = true;
    }
}

/// A stamp for what the board does by itself.
pub fn board_stamp(now: Timestamp) -> Stamp {
    Stamp { now, park: false, ..clock::stamp(BOARD_ACTOR) }
}

impl Desk<'_> {
    /// Takes the repository lock if it is free.
    ///
    /// # Errors
    /// [`LockError::Busy`] if it is not.
    pub fn try_lock(&self) -> Result<Lock, LockError> {
        audit::try_lock_repository(self.store.dir(), self.documents.git())
    }

    /// Steps 1 and 2 of a transition that begins now. `still` is asked under the state lock whether the cause
    /// is still there.
    ///
    /// # Errors
    /// [`Obstacle`]; after [`Obstacle::Later`] the next pass goes on with [`Desk::go_on`].
    pub fn begin(
        &self,
        card: &CardId,
        what: ApplyingFor,
        documents: Vec<PlannedDocument>,
        now: Timestamp,
        still: impl FnOnce(&Board) -> Result<(), Refusal>,
    ) -> Result<Vec<WrittenDocument>, Obstacle> {
        self.check_free(&documents)?;
        let applying = Applying { what, since: now, documents, begun: false, blocked: None };
        let copy = applying.clone();
        self.store.update(|board| {
            still(board)?;
            board.begin_applying(card, copy)
        })?;
        fault_point!("applying.begun");
        self.write(card, &applying, true)
    }

    /// Step 2 again, for `applying` that an earlier pass or a crash left.
    ///
    /// # Errors
    /// [`Obstacle`]
    pub fn go_on(&self, card: &Card) -> Result<Vec<WrittenDocument>, Obstacle> {
        match &card.applying {
            Some(applying) => self.write(&card.id, applying, false),
            None => Ok(Vec::new()),
        }
    }

    /// Before anything is recorded: whether a new document's name is taken by a file or a record.
    fn check_free(&self, documents: &[PlannedDocument]) -> Result<(), Obstacle> {
        for document in documents.iter().filter(|document| document.kind == WriteKind::New) {
            if let Some(slug) = texts::slug_of(&document.path)
                && self.documents.is_taken(&slug)?
            {
                return Err(Obstacle::Never(texts::taken_sentence(&slug)));
            }
        }
        Ok(())
    }

    /// Step 2. In a repetition a new file that is there is its own: between step 1 and now its path was taken.
    fn write(
        &self,
        card: &CardId,
        applying: &Applying,
        first: bool,
    ) -> Result<Vec<WrittenDocument>, Obstacle> {
        let mut written: Vec<WrittenDocument> = Vec::new();
        let mut own: Vec<&PlannedDocument> = Vec::new();
        for planned in &applying.documents {
            match self.documents.write(planned, !first) {
                Ok(done) => {
                    if done.changed && planned.kind == WriteKind::New {
                        own.push(planned);
                    }
                    written.push(done.document);
                }
                Err(error) => {
                    let obstacle = obstacle(planned, &error, first);
                    match &obstacle {
                        // All or none: what this pass made of the others goes again.
                        Obstacle::Never(_) => {
                            for document in own {
                                self.documents.remove_own(&document.path, &document.hash)?;
                            }
                        }
                        Obstacle::Later(reason) => self.note_blocked(card, Some(reason))?,
                        Obstacle::Refused(_) | Obstacle::Store(_) => {}
                    }
                    return Err(obstacle);
                }
            }
        }
        fault_point!("applying.written");
        Ok(written)
    }

    /// Records why `applying` does not go on, if that is not recorded yet.
    fn note_blocked(&self, card: &CardId, reason: Option<&str>) -> Result<(), StoreError> {
        let changed = self.store.update(|board| {
            if let Some(applying) = board.cards.get_mut(card).and_then(|card| card.applying.as_mut()) {
                applying.blocked = reason.map(ToOwned::to_owned);
            }
            Ok::<(), std::convert::Infallible>(())
        });
        changed.map_err(|error| match error {
            UpdateError::Refused(never) => match never {},
            UpdateError::Store(error) => error,
        })
    }
}

fn obstacle(planned: &PlannedDocument, error: &WriteError, first: bool) -> Obstacle {
    match error {
        WriteError::Taken { path } if first => Obstacle::Never(match texts::slug_of(path) {
            Some(slug) => texts::taken_sentence(&slug),
            None => format!("{path} ist vergeben; der Text bleibt bei der Karte."),
        }),
        WriteError::Changed { .. } if matches!(planned.kind, WriteKind::Replace { .. }) => {
            Obstacle::Never(texts::changed_sentence())
        }
        WriteError::Taken { path } | WriteError::Changed { path, .. } => {
            Obstacle::Later(format!("{path} lässt sich gerade nicht schreiben; es wird erneut versucht."))
        }
        WriteError::File(error) => Obstacle::Later(format!("Das Dokument ist nicht geschrieben: {error}")),
        WriteError::Documents(error) => {
            Obstacle::Later(format!("Das Dokument ist nicht geschrieben: {error}"))
        }
    }
}

/// Carries out what the board has to do in the repository besides outcomes: children whose files are gone,
/// syntheses that are due, the editor's orders, worktrees that were given up.
///
/// The caller holds the repository lock (`_lock`) and no state lock.
///
/// # Errors
/// [`ReconcileError`]; what waits for one card is a value in [`Pass`].
pub fn pass(desk: &Desk<'_>, _lock: &Lock, now: Timestamp) -> Result<Pass, ReconcileError> {
    let mut pass = Pass::default();
    note_missing(desk, now)?;
    let board = desk.store.read_synced()?;
    for card in board.cards.values() {
        match card.applying.as_ref().map(|applying| &applying.what) {
            Some(ApplyingFor::Outcome(_)) => continue,
            Some(ApplyingFor::Synthesis(slug)) => finish_synthesis(desk, card, slug, None, now, &mut pass)?,
            Some(ApplyingFor::Order) => finish_order(desk, card, None, now, &mut pass)?,
            None if card.order.as_ref().is_some_and(|order| order.conflict.is_none()) => {
                let planned = texts::plan_order(card);
                finish_order(desk, card, Some(planned), now, &mut pass)?;
            }
            // A parked start may yet be taken back, and with it the whole entry.
            None if card.synthesis_due.is_some() && card.parked.is_none() && card.order.is_none() => {
                write_synthesis(desk, &board, card, now, &mut pass)?;
            }
            None => {}
        }
    }
    for card in board.cards.values() {
        give_up_worktree(desk, card, &mut pass)?;
    }
    Ok(pass)
}

/// Whether [`pass`] could have something to do, without a look at the repository.
pub fn is_due(board: &Board) -> bool {
    board.cards.values().any(|card| {
        let given_up = card.build.as_ref().is_some_and(|build| build.given_up && build.worktree.is_some());
        let applying = card.applying.as_ref().is_some_and(|a| !matches!(a.what, ApplyingFor::Outcome(_)));
        let order = card.order.as_ref().is_some_and(|order| order.conflict.is_none());
        applying || order || card.synthesis_due.is_some() || given_up || waits_for_child(board, card)
    })
}

/// Whether a missing file of this card could end a fan-out.
fn waits_for_child(board: &Board, card: &Card) -> bool {
    let parent = card.parent.as_ref().and_then(|parent| board.cards.get(&CardId::Slug(parent.clone())));
    parent.is_some_and(|parent| parent.synthesis.is_none() && parent.synthesis_due.is_none())
}

/// Marks children whose file disappeared, and those whose file came back. A child that is gone counts as
/// failed and may make a synthesis due.
fn note_missing(desk: &Desk<'_>, now: Timestamp) -> Result<(), ReconcileError> {
    let board = desk.store.read()?;
    let children: Vec<&Card> = board.cards.values().filter(|card| waits_for_child(&board, card)).collect();
    let missing = desk.documents.missing(children.iter().copied())?;
    let changed: Vec<CardId> = children
        .iter()
        .filter(|card| card.document_path().is_some_and(|path| missing.contains(&path)) != card.file_missing)
        .map(|card| card.id.clone())
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    update(desk, |board| {
        for id in &changed {
            if let Some(card) = board.cards.get_mut(id) {
                card.file_missing = !card.file_missing;
            }
            board.note_terminal(id, now);
        }
    })
}

fn update(desk: &Desk<'_>, change: impl FnOnce(&mut Board)) -> Result<(), ReconcileError> {
    let changed = desk.store.update(|board| {
        change(board);
        Ok::<(), std::convert::Infallible>(())
    });
    changed.map_err(|error| match error {
        UpdateError::Refused(never) => match never {},
        UpdateError::Store(error) => error.into(),
    })
}

fn write_synthesis(
    desk: &Desk<'_>,
    board: &Board,
    parent: &Card,
    now: Timestamp,
    pass: &mut Pass,
) -> Result<(), ReconcileError> {
    let Some(parent_slug) = parent.id.slug() else { return Ok(()) };
    let mut children = Vec::with_capacity(parent.children.len());
    for child in &parent.children {
        let entry = board.cards.get(&CardId::Slug(child.clone())).cloned();
        let card = match entry {
            Some(card) => card,
            None => match desk.documents.seed_card(child)? {
                Seed::Card(card) => *card,
                Seed::Nothing | Seed::Broken(_) => missing_child(child, now),
            },
        };
        children.push(card);
    }
    let mut taken = board.taken_slugs();
    let slug = loop {
        let Ok(slug) = synthesis::slug(parent_slug, |name| taken.contains(name)) else {
            pass.wait(&parent.id, "Für die Synthese ist kein Name mehr frei.");
            return Ok(());
        };
        if !desk.documents.is_taken(&slug)? {
            break slug;
        }
        taken.insert(slug.to_string());
    };
    let document = synthesis::plan(&slug, parent, &children);
    finish_synthesis(desk, parent, &slug, Some(vec![document]), now, pass)
}

/// A child of which neither an entry nor a file is left.
fn missing_child(slug: &Slug, now: Timestamp) -> Card {
    let id = CardId::Slug(slug.clone());
    let mut card = Card::new(id, Source::Intent, slug.as_str(), Phase::Geplant, now);
    card.file_missing = true;
    card
}

/// A synthesis that begins now (`planned`) or goes on after a crash.
fn finish_synthesis(
    desk: &Desk<'_>,
    parent: &Card,
    slug: &Slug,
    planned: Option<Vec<PlannedDocument>>,
    now: Timestamp,
    pass: &mut Pass,
) -> Result<(), ReconcileError> {
    let text = match (&planned, &parent.applying) {
        (Some(documents), _) => documents.first(),
        (None, Some(applying)) => applying.documents.first(),
        (None, None) => None,
    };
    let title = text.and_then(|document| texts::title(&document.text)).unwrap_or_else(|| slug.to_string());
    let written = match planned {
        Some(documents) => {
            let what = ApplyingFor::Synthesis(slug.clone());
            desk.begin(&parent.id, what, documents, now, |board| still_due(board, &parent.id))
        }
        None => desk.go_on(parent),
    };
    let done = written.and_then(|documents| {
        let stamp = board_stamp(now);
        let finish = |board: &mut Board| board.finish_synthesis(&parent.id, slug, &title, &documents, &stamp);
        Ok(desk.store.update(finish)?)
    });
    match done {
        Ok(applied) => pass.applied.push(applied),
        // Taken between the look and the write: the next pass takes the next number.
        Err(Obstacle::Never(_) | Obstacle::Refused(Refusal::Taken(_))) => {
            update(desk, |board| {
                if let Some(card) = board.cards.get_mut(&parent.id) {
                    card.applying = None;
                }
            })?;
            pass.undone = true;
        }
        Err(Obstacle::Later(reason)) => pass.wait(&parent.id, reason),
        // Not due any more, or the card has something else to finish first.
        Err(Obstacle::Refused(_)) => {}
        Err(Obstacle::Store(error)) => return Err(error.into()),
    }
    Ok(())
}

fn still_due(board: &Board, parent: &CardId) -> Result<(), Refusal> {
    let card = board.cards.get(parent).ok_or_else(|| Refusal::UnknownCard(parent.clone()))?;
    if card.synthesis_due.is_none() || card.parked.is_some() || card.order.is_some() {
        return Err(Refusal::Fault(format!("no synthesis is due on {parent}")));
    }
    Ok(())
}

/// An order of the editor that begins now (`planned`) or goes on after a crash.
fn finish_order(
    desk: &Desk<'_>,
    card: &Card,
    planned: Option<Vec<PlannedDocument>>,
    now: Timestamp,
    pass: &mut Pass,
) -> Result<(), ReconcileError> {
    let written = match planned {
        Some(documents) => desk.begin(&card.id, ApplyingFor::Order, documents, now, |board| {
            let there = board.cards.get(&card.id).and_then(|now| now.order.as_ref());
            // Another text by now: the next pass takes that one.
            if there == card.order.as_ref() { Ok(()) } else { Err(Refusal::Saving) }
        }),
        None => desk.go_on(card),
    };
    let done = written.and_then(|documents| {
        let stamp = board_stamp(now);
        Ok(desk.store.update(|board| board.finish_order(&card.id, &documents, &stamp))?)
    });
    let conflict = match done {
        Ok(applied) => {
            pass.applied.push(applied);
            return Ok(());
        }
        Err(Obstacle::Never(sentence)) => sentence,
        Err(Obstacle::Refused(Refusal::Taken(slug))) => texts::taken_sentence(&slug),
        Err(Obstacle::Later(reason)) => {
            pass.wait(&card.id, reason);
            return Ok(());
        }
        Err(Obstacle::Refused(_)) => {
            pass.undone = true;
            return Ok(());
        }
        Err(Obstacle::Store(error)) => return Err(error.into()),
    };
    // It is not tried again: both texts stay until the operator says which.
    update(desk, |board| {
        if let Some(card) = board.cards.get_mut(&card.id) {
            card.applying = None;
            if let Some(order) = &mut card.order {
                order.conflict = Some(conflict);
            }
        }
    })
}

/// Removes the worktree of a build that the operator gave up; its work is kept as a ref first, whatever
/// became of it since the run.
fn give_up_worktree(desk: &Desk<'_>, card: &Card, pass: &mut Pass) -> Result<(), ReconcileError> {
    let (Some(build), Some(slug)) = (&card.build, card.id.slug()) else { return Ok(()) };
    if !build.given_up || build.worktree.is_none() {
        return Ok(());
    }
    let view = desk.queue.view(&[], false)?;
    if view.running.iter().any(|file| file.card_id.as_ref() == Some(&card.id)) {
        pass.wait(&card.id, "Ein Lauf der Karte ist noch nicht zu Ende.");
        return Ok(());
    }
    let Ok(base) = Oid::parse(&build.base_commit) else { return Ok(()) };
    let worktree = desk.worktrees.worktree(slug, build.number);
    let mut kept: Vec<String> = build.saved_refs.clone();
    let removed = match remove(desk, &worktree, &base, &kept) {
        Err(WorktreeError::NotKept { .. }) => {
            let name = format!("refs/board/saved/given-up/{slug}-{}", build.number);
            let message = format!("board: work of {slug} that was given up\n");
            match desk.worktrees.save(&worktree, &base, &name, &message) {
                Ok(Some(_)) => kept.push(name),
                Ok(None) => {}
                Err(error) => return wait_for_worktree(card, &error, pass),
            }
            remove(desk, &worktree, &base, &kept)
        }
        other => other,
    };
    match removed {
        // Removed by hand: there is nothing left to do.
        Ok(()) | Err(WorktreeError::Missing { .. }) => {}
        Err(error) => return wait_for_worktree(card, &error, pass),
    }
    fault_point!("worktree.removed");
    update(desk, |board| {
        if let Some(build) = board.cards.get_mut(&card.id).and_then(|card| card.build.as_mut()) {
            build.worktree = None;
            build.given_up = false;
            build.saved_refs = kept;
        }
    })
}

fn remove(desk: &Desk<'_>, worktree: &Worktree, base: &Oid, kept: &[String]) -> Result<(), WorktreeError> {
    let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
    desk.worktrees.remove(worktree, base, &kept)
}

fn wait_for_worktree(card: &Card, error: &WorktreeError, pass: &mut Pass) -> Result<(), ReconcileError> {
    pass.wait(&card.id, format!("Das Arbeitsverzeichnis bleibt vorerst: {error}"));
    Ok(())
}

#[cfg(test)]
mod tests;

//! Outcomes become transitions, in the order of queue.md.
//!
//! Applied at most once, and only if job and attempt are the card's current ones: the state that says so is
//! written before the outcome goes to `done/`, and what was applied is recognised when it is found again.
use board_core::edge::files::{create_dirs_private, replace_durable};
use board_core::edge::lock::{Lock, LockError};
use board_core::edge::queue::outcomes::FoundOutcomes;
use board_core::edge::reconcile::documents::{Desk, Obstacle, board_stamp};
use board_core::edge::reconcile::queue as publishing;
use board_core::edge::store::UpdateError;
use board_core::fault_point;
use board_core::model::apply::Standing;
use board_core::model::board::{Board, WrittenDocument};
use board_core::model::card::{ApplyingFor, CardId};
use board_core::model::documents::{self as texts};
use board_core::model::event::{Applied, Refusal};
use board_core::model::outcome::{Outcome, RunResult};
use board_core::model::time::Timestamp;

use crate::life;

/// What a card says whose outcome waits for the repository.
const WAITS_FOR_REPOSITORY: &str = "Das Ergebnis wartet auf das Repository.";

/// What a pass did.
#[derive(Debug, Default)]
pub struct Pass {
    /// Transitions.
    pub applied: Vec<Applied>,
    /// Cards whose outcome waits, with a German sentence.
    pub waits: Vec<(CardId, String)>,
    /// Whether something was left undone that no event tells of.
    pub undone: bool,
}

/// What became of one outcome.
enum Fate {
    /// Applied; the transition, and whether what follows from it is done as well.
    Applied(Applied, bool),
    /// It stays where it is, with a sentence for the card.
    Waits(String),
}

/// One pass over all outcomes.
///
/// # Errors
/// If the queue or the state cannot be read or written; what was done until then stays.
pub fn pass(desk: &Desk<'_>, now: Timestamp) -> anyhow::Result<Pass> {
    let mut pass = Pass::default();
    let found = desk.queue.read_outcomes()?;
    tell(&found, &mut pass);
    orphaned_applying(desk, &found.outcomes, &mut pass)?;
    for outcome in &found.outcomes {
        match one(desk, outcome, now) {
            Ok(None) => {}
            Ok(Some(Fate::Applied(applied, whole))) => {
                life::applied(&applied, Some(outcome));
                pass.undone |= !whole;
                pass.applied.push(applied);
            }
            Ok(Some(Fate::Waits(reason))) => {
                pass.waits.push((outcome.card_id.clone(), reason));
                pass.undone = true;
            }
            Err(error) => {
                tracing::error!(
                    CARD_ID = %outcome.card_id,
                    JOB_ID = %outcome.job_id,
                    "the outcome cannot be applied now: {error:#}"
                );
                let reason = format!("Das Ergebnis kann gerade nicht übernommen werden: {error:#}");
                pass.waits.push((outcome.card_id.clone(), reason));
                pass.undone = true;
            }
        }
    }
    Ok(pass)
}

fn tell(found: &FoundOutcomes, pass: &mut Pass) {
    for thrown in &found.thrown_out {
        tracing::warn!(
            "{} is no outcome: {}; it lies in rejected/",
            thrown.reason.name,
            thrown.reason.reason
        );
    }
    for error in &found.stuck {
        tracing::error!("a file that is no outcome cannot be moved away: {error}");
        pass.undone = true;
    }
}

/// `applying` whose outcome is not there: it is looked for in `done/`, else taken back, so that the card is not
/// locked for ever.
fn orphaned_applying(desk: &Desk<'_>, outcomes: &[Outcome], pass: &mut Pass) -> anyhow::Result<()> {
    let board = desk.store.read_synced()?;
    for card in board.cards.values() {
        let Some(ApplyingFor::Outcome(job)) = card.applying.as_ref().map(|applying| &applying.what) else {
            continue;
        };
        if outcomes.iter().any(|outcome| outcome.reference() == *job) {
            continue;
        }
        pass.undone = true;
        if desk.queue.bring_back(*job)? {
            continue;
        }
        tracing::error!(CARD_ID = %card.id, JOB_ID = %job.job, "the outcome that was being applied is gone");
        crate::change(desk.store.update(|board| {
            if let Some(card) = board.cards.get_mut(&card.id) {
                card.applying = None;
            }
            Ok(())
        }))?;
    }
    Ok(())
}

fn one(desk: &Desk<'_>, outcome: &Outcome, now: Timestamp) -> anyhow::Result<Option<Fate>> {
    let job = outcome.reference();
    let board = desk.store.read_synced()?;
    match board.standing(&outcome.card_id, job) {
        Standing::Current => {}
        Standing::Applied => {
            desk.queue.retire_outcome(job, None)?;
            return Ok(None);
        }
        // A draft that became an intent: its last outcome is known under the new name.
        Standing::Stale if is_of_renamed(&board, outcome) => {
            desk.queue.retire_outcome(job, None)?;
            return Ok(None);
        }
        Standing::Stale => {
            let why = match board.cards.get(&outcome.card_id) {
                None => "its card is gone",
                Some(_) => "its job and attempt are not the card's current ones",
            };
            life::stale(outcome, why);
            desk.queue.retire_outcome(job, Some(why))?;
            return Ok(None);
        }
    }
    fault_point!("complete.found");
    match documents_of(desk, &board, outcome, now)? {
        // The repository lock is held until the third step is done.
        Documents::Written(written, _lock) => finish(desk, outcome, &written, now).map(Some),
        Documents::Never(sentence) => refuse(desk, outcome, &sentence, now).map(Some),
        Documents::Later(sentence) => Ok(Some(Fate::Waits(sentence))),
    }
}

fn is_of_renamed(board: &Board, outcome: &Outcome) -> bool {
    let renamed = board.redirect(&outcome.card_id).and_then(|id| board.cards.get(id));
    renamed.is_some_and(|card| card.applied == Some(outcome.reference()))
}

/// What became of the documents of an outcome.
enum Documents {
    /// They are there, and the repository is still locked; none if it brings none.
    Written(Vec<WrittenDocument>, Option<Lock>),
    /// They cannot be written: the outcome is refused with this sentence.
    Never(String),
    /// They cannot be written now.
    Later(String),
}

/// Steps 1 and 2 of storage.md.
fn documents_of(
    desk: &Desk<'_>,
    board: &Board,
    outcome: &Outcome,
    now: Timestamp,
) -> anyhow::Result<Documents> {
    let job = outcome.reference();
    let Some(card) = board.cards.get(&outcome.card_id) else {
        return Ok(Documents::Written(Vec::new(), None));
    };
    let begun = match card.applying.as_ref().map(|applying| &applying.what) {
        None => false,
        Some(ApplyingFor::Outcome(of)) if *of == job => true,
        Some(_) => return Ok(Documents::Later("Die Karte schreibt gerade ein anderes Dokument.".into())),
    };
    let planned = if begun {
        Vec::new()
    } else {
        match texts::plan(board, outcome) {
            Ok(planned) if planned.is_empty() => return Ok(Documents::Written(Vec::new(), None)),
            Ok(planned) => planned,
            Err(sentence) => return Ok(Documents::Never(sentence)),
        }
    };
    // Never waited for: a worker may hold it while it makes a check commit.
    let lock = match desk.try_lock() {
        Ok(lock) => lock,
        Err(LockError::Busy { .. }) => return Ok(Documents::Later(WAITS_FOR_REPOSITORY.into())),
        Err(error) => return Err(error.into()),
    };
    let written = if begun {
        desk.go_on(card)
    } else {
        desk.begin(&card.id, ApplyingFor::Outcome(job), planned, now, |board| {
            match board.standing(&outcome.card_id, job) {
                Standing::Current => Ok(()),
                Standing::Applied | Standing::Stale => Err(Refusal::Fault(format!("{job} is not current"))),
            }
        })
    };
    Ok(match written {
        Ok(written) => Documents::Written(written, Some(lock)),
        Err(Obstacle::Never(sentence)) => Documents::Never(sentence),
        Err(Obstacle::Later(sentence)) => Documents::Later(sentence),
        // Cancelled, undone or begun otherwise between the look and the lock: looked at again.
        Err(Obstacle::Refused(refusal)) => Documents::Later(format!("Wird erneut angesehen: {refusal}")),
        Err(Obstacle::Store(error)) => return Err(error.into()),
    })
}

/// Step 3: the transition with `applied`, the next job and the outbox entry in one write; then the queue is made
/// to agree under the same hold, and the outcome is put away.
fn finish(
    desk: &Desk<'_>,
    outcome: &Outcome,
    written: &[WrittenDocument],
    now: Timestamp,
) -> anyhow::Result<Fate> {
    let applied = transition(desk, outcome, now, |board| {
        board.apply_outcome(outcome, written, &board_stamp(now), desk.policy)
    });
    match applied {
        Ok((applied, whole)) => Ok(Fate::Applied(applied, whole)),
        Err(UpdateError::Store(error)) => Err(error.into()),
        // It does not fit its job, for example a review of another commit: the run failed with that.
        Err(UpdateError::Refused(refusal)) => {
            tracing::error!(
                CARD_ID = %outcome.card_id,
                JOB_ID = %outcome.job_id,
                "the outcome does not fit its job: {refusal}"
            );
            refuse(desk, outcome, &format!("Das Ergebnis passt nicht zum Auftrag: {refusal}"), now)
        }
    }
}

/// The card fails with this sentence; what was proposed is kept: an intent in the draft, else as a file beside the
/// log, written before the transition that names it.
fn refuse(desk: &Desk<'_>, outcome: &Outcome, sentence: &str, now: Timestamp) -> anyhow::Result<Fate> {
    let mut kept = outcome.clone();
    if let Some(text) = outcome.produced.as_ref().and_then(|produced| produced.as_block(&outcome.job_id)) {
        let name = outcome.reference().reply_file();
        let logs = desk.store.dir().join("logs");
        create_dirs_private(&logs)?;
        replace_durable(&logs.join(&name), text.as_bytes())?;
        kept.reply = Some(name);
    }
    let refused = transition(desk, outcome, now, |board| {
        board.refuse_documents(&kept, sentence, &board_stamp(now), desk.policy)
    });
    match refused {
        Ok((applied, whole)) => Ok(Fate::Applied(applied, whole)),
        Err(UpdateError::Store(error)) => Err(error.into()),
        Err(UpdateError::Refused(refusal)) => {
            let what = if outcome.result == RunResult::Succeeded { "Ergebnis" } else { "Ende" };
            Ok(Fate::Waits(format!("Das {what} des Laufs kann nicht übernommen werden: {refusal}")))
        }
    }
}

fn transition(
    desk: &Desk<'_>,
    outcome: &Outcome,
    now: Timestamp,
    change: impl FnOnce(&mut Board) -> Result<Applied, Refusal>,
) -> Result<(Applied, bool), UpdateError<Refusal>> {
    let mut held = desk.store.hold()?;
    let applied = held.update(change)?;
    fault_point!("complete.applied");
    if desk.policy.external_builder
        && let Err(error) = desk.queue.extern_to_done(outcome.reference())
    {
        // Every pass looks for it again.
        tracing::error!(JOB_ID = %outcome.job_id, "the applied job of the builder cannot be put away: {error}");
    }
    let published = publishing::pass(&held, desk.queue, now);
    drop(held);
    fault_point!("complete.published");
    // From here on a repetition finds everything done; nothing of it takes the transition back.
    let mut whole = true;
    match published {
        Ok(pass) => life::reconciled(&pass.done),
        Err(error) => {
            whole = false;
            tracing::error!(JOB_ID = %outcome.job_id, "the queue cannot be reconciled: {error}");
        }
    }
    if let Err(error) = desk.queue.retire_outcome(outcome.reference(), None) {
        whole = false;
        tracing::error!(JOB_ID = %outcome.job_id, "the applied outcome cannot be put away: {error}");
    }
    Ok((applied, whole))
}

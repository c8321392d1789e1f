//! Makes the queue agree with the board: looks, lets [`crate::model::pending`] decide, acts.
//!
//! Runs under the state lock, so that nothing it decided on can change meanwhile but by a worker's claim or
//! finish, and those only move files forward. May be repeated at any time; a pass that finds nothing to do
//! changes nothing.

use crate::edge::queue::{Queue, QueueError};
use crate::edge::store::Held;
use crate::fault_point;
use crate::model::board::Board;
use crate::model::job::JobRef;
use crate::model::outcome::{Outcome, RunResult};
use crate::model::pending::{self, QueueView, Step, Withdrawn};
use crate::model::time::Timestamp;

/// Looks of one pass at most: a withdrawn job gets its outcome by the second, the third finds nothing. After a
/// mere publication none follows.
const LOOKS: usize = 4;

/// What a pass did.
#[derive(Debug, Default)]
pub struct Pass {
    /// What was carried out, for the journal.
    pub done: Vec<Step>,
    /// What lay where at the last look, and what was published since.
    pub view: QueueView,
    /// When the next pass has something to do by itself: the end of a pause.
    pub next: Option<Timestamp>,
}

/// One pass, under the state lock.
///
/// # Errors
/// [`QueueError`]; what was done until then stays, and the next pass goes on from there.
pub fn pass(held: &Held<'_>, queue: &Queue, now: Timestamp) -> Result<Pass, QueueError> {
    let board = held.board();
    let current: Vec<JobRef> = board.running().map(|(_, job)| job.reference()).collect();
    let mut pass = Pass { next: board.next_pause_end(now), ..Pass::default() };
    for _ in 0..LOOKS {
        pass.view = queue.view(&current, true)?;
        let steps = pending::steps(board, &pass.view, now);
        if steps.is_empty() {
            break;
        }
        let mut moved = false;
        for step in steps {
            let was_there = act(board, queue, &step, now)?;
            fault_point!("reconcile.step");
            moved |= !note(board, &mut pass.view, &step);
            // A file that a worker claimed between the looks at two directories was seen in both.
            if was_there {
                pass.done.push(step);
            }
        }
        if !moved {
            break;
        }
    }
    Ok(pass)
}

/// Puts into the view what a step did; `false` if only another look can tell what follows from it. A look
/// syncs every directory, which costs as much as the publication itself.
fn note(board: &Board, view: &mut QueueView, step: &Step) -> bool {
    match step {
        Step::Publish(job) => {
            let lane = board.card_of(*job).and_then(|card| card.current_job()).map(|job| job.kind.lane());
            view.inbox.extend(lane.map(|lane| (lane, *job)));
            true
        }
        Step::AskCancel(job) => {
            view.cancels.insert(*job);
            true
        }
        Step::ClearCancel(job) => {
            view.cancels.remove(job);
            true
        }
        Step::Withdraw { .. } | Step::LeaveOutcome { .. } | Step::BringBack(_) | Step::Reject { .. } => false,
    }
}

/// Carries a step out; `false` if the file that it is about had moved on by itself.
fn act(board: &Board, queue: &Queue, step: &Step, now: Timestamp) -> Result<bool, QueueError> {
    match step {
        Step::Publish(job) => {
            if let Some(job) = board.card_of(*job).and_then(|card| card.current_job()) {
                queue.publish(job)?;
            }
        }
        Step::Withdraw { lane, job, why } => {
            let why = match why {
                Withdrawn::Superseded => "superseded: it is the current job of no card",
                Withdrawn::Cancelled => "cancelled before it was claimed",
            };
            return queue.inbox_to_done(*lane, *job, why);
        }
        Step::LeaveOutcome { job, result } => {
            if let Some(job) = board.card_of(*job).and_then(|card| card.current_job()) {
                let sentence = if *result == RunResult::Cancelled {
                    "abgebrochen, bevor der Lauf begann"
                } else {
                    "unterbrochen: der Lauf endete ohne Ergebnis"
                };
                queue.leave_outcome(&Outcome::without_run(job, *result, sentence, now))?;
            }
        }
        Step::BringBack(job) => {
            return queue.bring_back(*job);
        }
        Step::Reject { lane, job } => {
            return queue.reject_inbox(*lane, *job, "duplicate: this job and attempt is further on already");
        }
        Step::AskCancel(job) => queue.ask_cancel(*job)?,
        Step::ClearCancel(job) => queue.clear_cancel(*job)?,
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::edge::clock;
    use crate::edge::store::Store;
    use crate::model::board::{Policy, RolePolicy};
    use crate::model::card::CardId;
    use crate::model::event::Event;
    use crate::model::pending::Place;
    use crate::model::profile::RoleName;

    fn policy() -> Policy {
        let role = RolePolicy { profile: "standard".into(), iterations: None };
        Policy {
            undo_seconds: 0,
            profiles: [("standard".to_owned(), None)].into(),
            roles: RoleName::ALL.into_iter().map(|name| (name, role.clone())).collect(),
            iteration_cap: 20,
            external_builder: false,
            guidance: std::collections::BTreeMap::new(),
        }
    }

    fn with_draft(dir: &std::path::Path) -> (Store, Queue, CardId, JobRef) {
        let (store, _) = Store::init(dir).unwrap();
        let queue = Queue::open(dir, true).unwrap();
        let stamp = clock::stamp("lukas");
        let applied =
            store.update(|board| board.create_draft(Uuid::from_u128(1), "Thema", &stamp, &policy())).unwrap();
        (store, queue, applied.card, applied.job.unwrap())
    }

    #[test]
    fn a_pass_publishes_and_a_second_one_finds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (store, queue, _, job) = with_draft(dir.path());
        let held = store.hold().unwrap();
        assert_eq!(pass(&held, &queue, clock::now()).unwrap().done, vec![Step::Publish(job)]);
        let second = pass(&held, &queue, clock::now()).unwrap();
        assert_eq!(second.done, vec![]);
        assert_eq!(second.view.place(job), Place::Inbox);
    }

    #[test]
    fn a_cancelled_job_in_the_inbox_leaves_its_outcome_in_one_pass() {
        let dir = tempfile::tempdir().unwrap();
        let (store, queue, card, job) = with_draft(dir.path());
        let mut held = store.hold().unwrap();
        pass(&held, &queue, clock::now()).unwrap();
        held.update(|board| board.apply(&card, Event::CancelAsked, &clock::stamp("lukas"), &policy()))
            .unwrap();
        let done = pass(&held, &queue, clock::now()).unwrap();
        assert_eq!(done.view.place(job), Place::Outcomes);
        let found = queue.read_outcomes().unwrap().outcomes;
        assert_eq!(found.iter().map(|o| o.result).collect::<Vec<_>>(), [RunResult::Cancelled]);
    }

    #[test]
    fn a_step_about_a_file_that_moved_on_is_not_told_as_done() {
        let dir = tempfile::tempdir().unwrap();
        let (store, queue, _, job) = with_draft(dir.path());
        let held = store.hold().unwrap();
        let reject = Step::Reject { lane: crate::model::job::Lane::Draft, job };
        assert!(!act(held.board(), &queue, &reject, clock::now()).unwrap());
        pass(&held, &queue, clock::now()).unwrap();
        assert!(act(held.board(), &queue, &reject, clock::now()).unwrap());
    }

    #[test]
    fn an_outcome_that_reached_done_before_it_was_applied_is_brought_back() {
        let dir = tempfile::tempdir().unwrap();
        let (store, queue, card, job) = with_draft(dir.path());
        let held = store.hold().unwrap();
        pass(&held, &queue, clock::now()).unwrap();
        let left = held.board().cards[&card].current_job().unwrap();
        let outcome = Outcome::without_run(left, RunResult::Failed, "kaputt", clock::now());
        queue.leave_outcome(&outcome).unwrap();
        queue.retire_outcome(job, None).unwrap();
        queue.inbox_to_done(left.kind.lane(), job, "test").unwrap();
        let done = pass(&held, &queue, clock::now()).unwrap();
        assert_eq!(done.done, vec![Step::BringBack(job)]);
    }
}

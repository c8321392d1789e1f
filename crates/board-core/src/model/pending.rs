//! What the queue still has to do so that it agrees with the board, derived from both.
//!
//! Nothing here depends on having seen an event: the same board and the same files give the same steps,
//! and a pass that carried them out leaves none. The edge looks (`Queue::view`), this module decides, the
//! edge acts (`edge::reconcile::queue`).

use std::collections::BTreeSet;

use uuid::Uuid;

use super::board::{Board, Pause};
use super::card::{Card, CardId};
use super::job::{Job, JobRef, Lane};
use super::outcome::RunResult;
use super::time::Timestamp;

/// What lies in the queue's directories. Job and attempt are those of a file's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Published jobs, by lane, oldest first.
    pub inbox: Vec<(Lane, JobRef)>,
    /// Claimed jobs.
    pub running: Vec<RunningFile>,
    /// Outcomes that wait for the watcher.
    pub outcomes: BTreeSet<JobRef>,
    /// Of the jobs asked for and those in the inbox: which are in `done/`.
    pub done_jobs: BTreeSet<JobRef>,
    /// Of these: which have their outcome in `done/`.
    pub done_outcomes: BTreeSet<JobRef>,
    /// Jobs whose run is asked to stop.
    pub cancels: BTreeSet<Uuid>,
}

/// A claimed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningFile {
    /// Name of the slot, `<lane>-<n>`, or `extern`.
    pub place: String,
    /// Job and attempt.
    pub job: JobRef,
    /// The card that the file names; none if it cannot be read.
    pub card_id: Option<CardId>,
}

/// The furthest place where a file of a job and attempt lies. Files only ever move forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// `state.json` alone holds it.
    Nowhere,
    /// `inbox/<lane>/`
    Inbox,
    /// `running/<lane>-<slot>/`
    Running,
    /// `outcomes/`
    Outcomes,
    /// `done/`
    Done,
}

impl QueueView {
    /// Where this job and attempt is, counted by the furthest file.
    pub fn place(&self, job: JobRef) -> Place {
        if self.outcomes.contains(&job) {
            // An outcome that was brought back from `done/` is to be applied.
            Place::Outcomes
        } else if self.done_jobs.contains(&job) || self.done_outcomes.contains(&job) {
            Place::Done
        } else if self.running.iter().any(|file| file.job == job) {
            Place::Running
        } else if self.inbox.iter().any(|(_, inbox)| *inbox == job) {
            Place::Inbox
        } else {
            Place::Nowhere
        }
    }

    /// Place in the lane's inbox, from 1.
    pub fn position(&self, job: JobRef) -> Option<usize> {
        let lane = self.inbox.iter().find(|(_, inbox)| *inbox == job)?.0;
        self.inbox.iter().filter(|(l, _)| *l == lane).position(|(_, inbox)| *inbox == job).map(|at| at + 1)
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write the job's file into its inbox.
    Publish(JobRef),
    /// Take a job out of its inbox, to `done/`; if a worker claimed it meanwhile nothing happens.
    Withdraw {
        /// The lane.
        lane: Lane,
        /// The job.
        job: JobRef,
        /// Why.
        why: Withdrawn,
    },
    /// Leave an outcome without a run.
    LeaveOutcome {
        /// The job.
        job: JobRef,
        /// `cancelled` or `interrupted`.
        result: RunResult,
    },
    /// Bring an outcome back from `done/`.
    BringBack(JobRef),
    /// A second file of a job that is further on, to `rejected/`.
    Reject {
        /// The lane.
        lane: Lane,
        /// The job.
        job: JobRef,
    },
    /// Ask the run of this job to stop.
    AskCancel(Uuid),
    /// Nobody is asked any more.
    ClearCancel(Uuid),
}

/// Why a job was taken out of its inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawn {
    /// It is nobody's current job.
    Superseded,
    /// The operator cancelled it.
    Cancelled,
}

/// Why a current job is not published now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldBack<'a> {
    /// The start can still be taken back.
    Parked,
    /// Another run of the card has not ended.
    OtherRun(JobRef),
    /// Its lane or profile is paused.
    Paused(&'a Pause),
}

/// Why this card's current job is not published now; none if it may be.
pub fn held_back<'a>(
    board: &'a Board,
    card: &Card,
    job: &Job,
    view: &QueueView,
    now: Timestamp,
) -> Option<HeldBack<'a>> {
    if card.parked.is_some() {
        return Some(HeldBack::Parked);
    }
    let other = view
        .running
        .iter()
        .find(|file| {
            file.job != job.reference() && (file.job.job == job.id || file.card_id.as_ref() == Some(&card.id))
        })
        .map(|file| HeldBack::OtherRun(file.job));
    other.or_else(|| board.pause_of(job, now).map(HeldBack::Paused))
}

/// Everything that the queue has to do now, in an order in which it can be done.
pub fn steps(board: &Board, view: &QueueView, now: Timestamp) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut current = BTreeSet::new();
    for (card, job) in board.running() {
        let reference = job.reference();
        current.insert(reference);
        if card.parked.is_none() {
            card_steps(board, card, job, view, now, &mut steps);
        }
    }
    let running: BTreeSet<Uuid> = view.running.iter().map(|file| file.job.job).collect();
    for (lane, job) in &view.inbox {
        if view.place(*job) > Place::Inbox {
            steps.push(Step::Reject { lane: *lane, job: *job });
        } else if !current.contains(job) {
            steps.push(Step::Withdraw { lane: *lane, job: *job, why: Withdrawn::Superseded });
        }
    }
    for file in &view.running {
        let asked = view.cancels.contains(&file.job.job) || steps.contains(&Step::AskCancel(file.job.job));
        if !current.contains(&file.job) && !asked {
            steps.push(Step::AskCancel(file.job.job));
        }
    }
    for job in &view.cancels {
        let wanted = running.contains(job) || current.iter().any(|c| c.job == *job);
        if !wanted {
            steps.push(Step::ClearCancel(*job));
        }
    }
    steps
}

fn card_steps(
    board: &Board,
    card: &Card,
    job: &Job,
    view: &QueueView,
    now: Timestamp,
    steps: &mut Vec<Step>,
) {
    let reference = job.reference();
    let cancelled = card.cancel_asked.is_some();
    match view.place(reference) {
        Place::Outcomes => {}
        Place::Done if view.done_outcomes.contains(&reference) => steps.push(Step::BringBack(reference)),
        Place::Done => {
            let result = if cancelled { RunResult::Cancelled } else { RunResult::Interrupted };
            steps.push(Step::LeaveOutcome { job: reference, result });
        }
        Place::Running => {
            if cancelled && !view.cancels.contains(&job.id) {
                steps.push(Step::AskCancel(job.id));
            }
        }
        Place::Inbox => {
            if cancelled {
                // The outcome is left by the next look, once the file is in `done/`: if a worker claimed it
                // meanwhile, that look finds it running.
                steps.push(Step::Withdraw {
                    lane: job.kind.lane(),
                    job: reference,
                    why: Withdrawn::Cancelled,
                });
            }
        }
        Place::Nowhere => {
            if cancelled {
                steps.push(Step::LeaveOutcome { job: reference, result: RunResult::Cancelled });
            } else if held_back(board, card, job, view, now).is_none() {
                steps.push(Step::Publish(reference));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::card::{Mark, Source};
    use crate::model::job::{DraftPayload, JOB_SCHEMA, JobType, Payload};
    use crate::model::phase::Phase;
    use proptest::prelude::*;

    fn job(n: u128) -> Job {
        Job {
            schema: JOB_SCHEMA,
            id: Uuid::from_u128(n),
            attempt: 2,
            kind: JobType::Draft,
            card_id: CardId::Draft(Uuid::from_u128(n)),
            created_at: Timestamp::MIN,
            requested_by: "lukas".into(),
            profile: "standard".into(),
            iteration_limit: 20,
            guidance: None,
            payload: Payload::Draft(DraftPayload { round: 1, conversation: Vec::new(), revises: None }),
        }
    }

    fn board(cancelled: bool) -> Board {
        let mut board = Board::empty();
        let job = job(1);
        let mut card =
            Card::new(job.card_id.clone(), Source::Draft, "Thema", Phase::EntwurfLaeuft, Timestamp::MIN);
        card.job = Some(job);
        card.cancel_asked = cancelled.then(|| Mark { by: "lukas".into(), at: Timestamp::MIN });
        board.cards.insert(card.id.clone(), card);
        board
    }

    /// Carries the steps out on the view, as the edge does on the directories.
    fn act(view: &mut QueueView, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Publish(job) => view.inbox.push((Lane::Draft, *job)),
                Step::Withdraw { job, .. } => {
                    view.inbox.retain(|(_, inbox)| inbox != job);
                    view.done_jobs.insert(*job);
                }
                Step::LeaveOutcome { job, .. } => {
                    view.outcomes.insert(*job);
                }
                Step::BringBack(job) => {
                    view.done_outcomes.remove(job);
                    view.outcomes.insert(*job);
                }
                Step::Reject { lane, job } => {
                    let at = view.inbox.iter().position(|entry| entry == &(*lane, *job)).unwrap();
                    view.inbox.remove(at);
                }
                Step::AskCancel(job) => {
                    view.cancels.insert(*job);
                }
                Step::ClearCancel(job) => {
                    view.cancels.remove(job);
                }
            }
        }
    }

    #[test]
    fn a_job_that_is_nowhere_is_published_once() {
        let board = board(false);
        let mut view = QueueView::default();
        let first = steps(&board, &view, Timestamp::MIN);
        assert_eq!(first, vec![Step::Publish(JobRef { job: Uuid::from_u128(1), attempt: 2 })]);
        act(&mut view, &first);
        assert_eq!(steps(&board, &view, Timestamp::MIN), vec![]);
    }

    #[test]
    fn a_job_waits_while_another_attempt_of_it_runs() {
        let board = board(false);
        let view = QueueView {
            running: vec![RunningFile {
                place: "draft-1".into(),
                job: JobRef { job: Uuid::from_u128(1), attempt: 1 },
                card_id: None,
            }],
            ..QueueView::default()
        };
        assert_eq!(steps(&board, &view, Timestamp::MIN), vec![Step::AskCancel(Uuid::from_u128(1))]);
    }

    #[test]
    fn a_copy_of_a_finished_job_is_rejected_and_its_outcome_stays() {
        let board = board(false);
        let reference = JobRef { job: Uuid::from_u128(1), attempt: 2 };
        let view = QueueView {
            inbox: vec![(Lane::Draft, reference)],
            outcomes: BTreeSet::from([reference]),
            done_jobs: BTreeSet::from([reference]),
            ..QueueView::default()
        };
        assert_eq!(
            steps(&board, &view, Timestamp::MIN),
            vec![Step::Reject { lane: Lane::Draft, job: reference }]
        );
    }

    #[test]
    fn a_job_that_is_done_without_an_outcome_is_interrupted_and_a_cancelled_one_cancelled() {
        let reference = JobRef { job: Uuid::from_u128(1), attempt: 2 };
        let view = QueueView { done_jobs: BTreeSet::from([reference]), ..QueueView::default() };
        for (cancelled, result) in [(false, RunResult::Interrupted), (true, RunResult::Cancelled)] {
            assert_eq!(
                steps(&board(cancelled), &view, Timestamp::MIN),
                vec![Step::LeaveOutcome { job: reference, result }]
            );
        }
    }

    fn any_ref() -> impl Strategy<Value = JobRef> {
        (1_u128..4, 1_u32..4).prop_map(|(n, attempt)| JobRef { job: Uuid::from_u128(n), attempt })
    }

    fn any_view() -> impl Strategy<Value = QueueView> {
        let refs = || proptest::collection::btree_set(any_ref(), 0..3);
        (
            proptest::collection::btree_set(any_ref(), 0..3),
            refs(),
            refs(),
            refs(),
            refs(),
            proptest::collection::btree_set((1_u128..5).prop_map(Uuid::from_u128), 0..3),
        )
            .prop_map(|(inbox, running, outcomes, done_jobs, done_outcomes, cancels)| QueueView {
                inbox: inbox.into_iter().map(|job| (Lane::Draft, job)).collect(),
                running: running
                    .into_iter()
                    .map(|job| RunningFile { place: "draft-1".into(), job, card_id: None })
                    .collect(),
                outcomes,
                done_jobs,
                done_outcomes,
                cancels,
            })
    }

    proptest! {
        #[test]
        fn reconciling_again_finds_nothing_to_do(mut view in any_view(), cancelled: bool) {
            let board = board(cancelled);
            // A withdrawn job gets its outcome by the second look.
            for _ in 0..2 {
                let found = steps(&board, &view, Timestamp::MIN);
                act(&mut view, &found);
            }
            prop_assert_eq!(steps(&board, &view, Timestamp::MIN), vec![]);
        }

        #[test]
        fn the_current_job_is_never_lost_and_never_published_beside_itself(view in any_view(), cancelled: bool) {
            let board = board(cancelled);
            let reference = JobRef { job: Uuid::from_u128(1), attempt: 2 };
            let found = steps(&board, &view, Timestamp::MIN);
            let published = found.iter().filter(|s| **s == Step::Publish(reference)).count();
            let mut after = view.clone();
            act(&mut after, &found);
            if published > 0 {
                prop_assert_eq!(view.place(reference), Place::Nowhere);
            }
            let held = view.running.iter().any(|f| f.job.job == reference.job && f.job != reference);
            prop_assert!(held || after.place(reference) != Place::Nowhere);
        }
    }
}

//! What the watcher did, told to the journal with the fields that find it again.
use board_core::edge::journal::{self, Life};
use board_core::model::card::Card;
use board_core::model::event::Applied;
use board_core::model::job::{JobRef, JobType};
use board_core::model::outcome::Outcome;
use board_core::model::pending::Step;
use uuid::Uuid;

/// A transition, with the outcome that caused it where one did.
pub(crate) fn applied(applied: &Applied, outcome: Option<&Outcome>) {
    let from = applied.from.map_or("-", |phase| phase.id());
    let to = applied.to.map_or("-", |phase| phase.id());
    let mut message = format!("{from} → {to} ({})", applied.event);
    if let Some(outcome) = outcome {
        message.push_str(&format!(", {}", outcome.result.id()));
        if !outcome.sentence.is_empty() {
            message.push_str(&format!(": {}", outcome.sentence));
        }
    }
    journal::life(&Life {
        job: outcome.map(|outcome| outcome.job_id).or(applied.job.map(|job| job.job)),
        card: &applied.card,
        job_type: outcome.map(|outcome| outcome.kind),
        phase: applied.to,
        message: &message,
    });
    let (Some(outcome), Some(next)) = (outcome, applied.job) else { return };
    if next.job != outcome.job_id {
        let message = format!("made by the outcome of {}", outcome.reference());
        let job_type = applied.to.and_then(|phase| phase.work());
        step(next.job, applied, job_type, &message);
    }
}

fn step(job: Uuid, applied: &Applied, job_type: Option<JobType>, message: &str) {
    journal::life(&Life { job: Some(job), card: &applied.card, job_type, phase: applied.to, message });
}

/// A parked start that can no longer be taken back.
pub(crate) fn released(card: &Card) {
    journal::life(&Life {
        job: card.job.as_ref().map(|job| job.id),
        card: &card.id,
        job_type: card.job.as_ref().map(|job| job.kind),
        phase: Some(card.phase),
        message: "the time to take the start back is over",
    });
}

/// What was done to the queue.
pub(crate) fn reconciled(steps: &[Step]) {
    for step in steps {
        let (job, what) = match step {
            Step::Publish(job) => (job.job, "published"),
            Step::Withdraw { job, .. } => (job.job, "taken out of the inbox"),
            Step::LeaveOutcome { job, .. } => (job.job, "an outcome is left for it, it will not run"),
            Step::BringBack(job) => (job.job, "its outcome is brought back to be applied"),
            Step::Reject { job, .. } => (job.job, "a second file of it is rejected"),
            Step::AskCancel(job) => (*job, "its run is asked to stop"),
            Step::ClearCancel(job) => (*job, "its run is no longer asked to stop"),
        };
        tracing::info!(JOB_ID = %job, "{job}: {what}");
    }
}

/// An outcome that is not applied.
pub(crate) fn stale(outcome: &Outcome, why: &str) {
    tracing::warn!(
        CARD_ID = %outcome.card_id,
        JOB_ID = %outcome.job_id,
        JOB_TYPE = outcome.kind.id(),
        "the outcome of attempt {} is stale: {why}; it is kept in done/",
        outcome.attempt
    );
}

/// A run whose worker was gone.
pub(crate) fn recovered(job: JobRef) {
    tracing::warn!(JOB_ID = %job.job, "attempt {} was orphaned and counts as interrupted", job.attempt);
}

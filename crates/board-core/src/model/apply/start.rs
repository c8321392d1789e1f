//! Paid starts: made with their job in one write, parked for the undo window, cancelled or taken back.

use super::{derived_id, step};
use crate::model::board::{Board, Policy, Stamp};
use crate::model::card::{Build, Card, CardId, Failure, Mark, Parked, Step};
use crate::model::event::{Applied, EventKind, Refusal};
use crate::model::job::{BuilderPayload, JobRef, Payload};
use crate::model::outcome::RunResult;
use crate::model::phase::Phase;
use crate::model::time::Timestamp;
use crate::model::transition;

/// Of a build that another service has: it cannot be asked to stop.
const GIVEN_UP: &str = "aufgegeben; der Builder arbeitet vielleicht noch daran";

impl Board {
    /// A paid start: phase and job in one write, parked for the undo window.
    pub(super) fn start(
        &mut self,
        id: &CardId,
        event: EventKind,
        payload: Payload,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let before = self.card(id)?.clone();
        let row = transition::find(before.phase, before.source, event);
        let to = row
            .and_then(|row| transition::target(row, before.phase))
            .ok_or_else(|| Refusal::Fault(format!("{event} has no target")))?;
        let kind = to.work().ok_or_else(|| Refusal::Fault(format!("{to} has no work")))?;
        let build = match &payload {
            Payload::Builder(payload) => Some(begin_build(&before, payload)?),
            Payload::Review(_) | Payload::Research(_) | Payload::Split(_) | Payload::Draft(_) => None,
        };
        let job = self.new_job(&before, kind, payload, stamp, policy)?;
        let reference = job.reference();
        let mut step = step(Some(before.phase), to, event, stamp);
        step.job = Some(reference);
        step.profile = Some(job.profile.clone());
        let card = self.card_mut(id)?;
        card.phase = to;
        card.job = Some(job);
        card.interruptions = 0;
        card.waiting = None;
        card.cancel_asked = None;
        card.error = None;
        card.used = None;
        if let Some(build) = build {
            card.build = Some(build);
            card.note = None;
        }
        let from = before.phase;
        let parked_until = self.park_or_commit(id, step, before, stamp, policy);
        Ok(Applied {
            card: id.clone(),
            event,
            from: Some(from),
            to: Some(to),
            job: Some(reference),
            parked_until,
            repeated: false,
        })
    }

    /// Parks a start for the undo window, or makes it real at once where there is none.
    pub(super) fn park_or_commit(
        &mut self,
        id: &CardId,
        step: Step,
        before: Card,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Option<Timestamp> {
        if !stamp.park || policy.undo_seconds == 0 {
            self.commit_step(id, step, Vec::new());
            return None;
        }
        let not_before = stamp.now.plus_seconds(i64::from(policy.undo_seconds));
        let card = self.cards.get_mut(id)?;
        card.changed_at = stamp.now;
        card.parked = Some(Parked {
            not_before,
            window_s: policy.undo_seconds,
            // Revision 0 is a card that was read from the repository and has no entry yet.
            // A parent is kept as it was: a child that ends meanwhile may make its synthesis due.
            before: (before.rev > 0 || !before.children.is_empty()).then(|| Box::new(before)),
            step,
        });
        Some(not_before)
    }

    pub(super) fn ask_cancel(
        &mut self,
        id: &CardId,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let external = policy.external_builder && self.card(id)?.phase == Phase::InUmsetzung;
        let card = self.card_mut(id)?;
        let (from, parked) = (card.phase, card.parked.is_some());
        card.cancel_asked = Some(Mark { by: stamp.actor.clone(), at: stamp.now });
        card.changed_at = stamp.now;
        let job = card.current_job().map(|job| job.reference());
        // Nothing of a parked job is in the queue, and an external builder cannot be asked: no outcome
        // would come.
        let to = if parked || external {
            self.release(id);
            let sentence = if parked { "vor dem Start abgebrochen" } else { GIVEN_UP };
            self.fail(id, EventKind::Cancelled, RunResult::Cancelled, sentence, job, stamp)?
        } else {
            from
        };
        Ok(Applied {
            card: id.clone(),
            event: EventKind::CancelAsked,
            from: Some(from),
            to: Some(to),
            job,
            parked_until: None,
            repeated: false,
        })
    }

    /// Moves a running card to its failure phase without an outcome.
    fn fail(
        &mut self,
        id: &CardId,
        event: EventKind,
        result: RunResult,
        sentence: &str,
        job: Option<JobRef>,
        stamp: &Stamp,
    ) -> Result<Phase, Refusal> {
        let card = self.card_mut(id)?;
        let from = card.phase;
        let to = from.failure().ok_or_else(|| Refusal::Fault(format!("{from} cannot fail")))?;
        card.phase = to;
        card.cancel_asked = None;
        card.waiting = None;
        card.error = Some(Failure {
            result,
            sentence: sentence.to_owned(),
            at: stamp.now,
            job,
            log: None,
            reply: None,
        });
        let mut step = step(Some(from), to, event, stamp);
        step.transition = derived_id(stamp, event.id());
        step.job = job;
        self.commit_step(id, step, Vec::new());
        Ok(to)
    }

    pub(super) fn undo(&mut self, id: &CardId, in_queue: bool) -> Result<Applied, Refusal> {
        if in_queue {
            return Err(Refusal::TooLateToUndo);
        }
        let card = self.card_mut(id)?;
        let from = card.phase;
        let parked = card.parked.take().ok_or(Refusal::TooLateToUndo)?;
        let due = card.synthesis_due;
        let revises = card.draft.as_ref().and_then(|d| d.revises.as_ref()).map(|r| r.card.clone());
        let to = parked.before.as_ref().map(|before| before.phase).or(parked.step.from);
        match parked.before {
            Some(mut before) => {
                // A child that ended meanwhile ended all the same.
                before.synthesis_due = due;
                self.cards.insert(id.clone(), *before);
            }
            None => {
                self.cards.remove(id);
            }
        }
        if let Some(revised) = revises.and_then(|revised| self.cards.get_mut(&revised)) {
            revised.open_draft = None;
        }
        Ok(Applied {
            card: id.clone(),
            event: EventKind::Undone,
            from: Some(from),
            to,
            job: None,
            parked_until: None,
            repeated: false,
        })
    }
}

/// The build that a start begins or goes on with.
fn begin_build(card: &Card, payload: &BuilderPayload) -> Result<Build, Refusal> {
    let slug = card.id.slug().ok_or_else(|| Refusal::Fault("only intents are built".into()))?;
    let old = card.build.as_ref();
    if payload.resume.is_some() {
        let old = old.ok_or_else(|| Refusal::Fault("there is no build to go on with".into()))?;
        if old.number != payload.number {
            return Err(Refusal::Fault(format!(
                "the newest build is {}, not {}",
                old.number, payload.number
            )));
        }
        return Ok(Build { intent_blob: payload.intent.blob.clone(), ..old.clone() });
    }
    if old.is_some_and(|old| payload.number <= old.number) {
        return Err(Refusal::Fault(format!("the number {} was used already", payload.number)));
    }
    Ok(Build {
        number: payload.number,
        branch: format!("board/{slug}/{}", payload.number),
        worktree: Some(format!("{slug}-{}", payload.number)),
        base_commit: payload.base_commit.clone(),
        diff_base: payload.diff_base.clone().unwrap_or_else(|| payload.base_commit.clone()),
        check_commit: None,
        earlier_check: old.and_then(|old| old.check_commit.clone().or_else(|| old.earlier_check.clone())),
        given_up: false,
        intent_blob: payload.intent.blob.clone(),
        saved_refs: old.map(|old| old.saved_refs.clone()).unwrap_or_default(),
    })
}

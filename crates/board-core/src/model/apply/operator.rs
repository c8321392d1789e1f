//! Events of the operator on cards that exist.

use super::{checked_text, step};
use crate::model::board::{Board, Policy, Stamp};
use crate::model::card::{CardId, Source};
use crate::model::event::{Applied, Event, EventKind, Refusal};
use crate::model::phase::Phase;
use crate::model::transition;

impl Board {
    /// An operator's event on a card that has an entry.
    ///
    /// # Errors
    /// A [`Refusal`]; the caller throws this board away then, as `Held::update` does.
    pub fn apply(
        &mut self,
        id: &CardId,
        event: Event,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let kind = event.kind();
        if let Some(answer) = self.repeated(kind, stamp) {
            return Ok(answer);
        }
        if let Event::Answered { round, .. } = &event {
            self.check_round(id, *round)?;
        }
        self.check_fits(id, kind)?;
        let applied = self.carry_out(id, event, stamp, policy)?;
        self.note_terminal(&applied.card, stamp.now);
        self.remember(&applied, stamp);
        Ok(applied)
    }

    fn check_fits(&self, id: &CardId, kind: EventKind) -> Result<(), Refusal> {
        let card = self.card(id)?;
        if card.applying.is_some() {
            return Err(Refusal::Applying);
        }
        if card.order.is_some() {
            return Err(Refusal::Saving);
        }
        let one_draft_only = card.source == Source::Idea || kind == EventKind::Revised;
        if let Some(draft) = card.open_draft.as_ref().filter(|_| one_draft_only) {
            return Err(Refusal::InDraft(draft.clone()));
        }
        if kind == EventKind::Undone && card.parked.is_none() && card.current_job().is_some() {
            return Err(Refusal::TooLateToUndo);
        }
        let allowed = self.allowed(card);
        if transition::find(card.phase, card.source, kind).is_none() || !allowed.contains(&kind) {
            return Err(Refusal::NotAllowed {
                event: kind,
                phase: card.phase,
                allowed,
                job: card.current_job().map(|job| job.reference()),
            });
        }
        if card.unread && matches!(kind, EventKind::Started | EventKind::SplitStarted) {
            return Err(Refusal::Unread);
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        id: &CardId,
        event: Event,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let kind = event.kind();
        match event {
            Event::Started { payload }
            | Event::SplitStarted { payload }
            | Event::Resumed { payload }
            | Event::StartedAfresh { payload }
            | Event::ReviewRetried { payload }
            | Event::AskedAgain { payload }
            | Event::SplitRetried { payload } => self.start(id, kind, payload, stamp, policy),
            Event::DoneOutside { reason } => {
                let reason = checked_text("reason", &reason, true)?;
                self.card_mut(id)?.deployed_from = Some(Phase::Geplant);
                self.go(id, kind, Some(reason), stamp)
            }
            Event::Discarded => {
                if let Some(build) = &mut self.card_mut(id)?.build {
                    build.given_up = true;
                }
                self.go(id, kind, None, stamp)
            }
            Event::SentBack { note } => {
                let note = checked_text("note", &note, false)?;
                let note = (!note.is_empty()).then_some(note);
                self.card_mut(id)?.note.clone_from(&note);
                self.go(id, kind, note, stamp)
            }
            Event::AcceptedByHand { reason } => {
                let reason = checked_text("reason", &reason, true)?;
                self.go(id, kind, Some(reason), stamp)
            }
            Event::Deployed => {
                let card = self.card_mut(id)?;
                card.deployed_from = Some(card.phase);
                self.go(id, kind, None, stamp)
            }
            Event::TakenBack { reason } => {
                let reason = checked_text("reason", &reason, true)?;
                let back = self.card_mut(id)?.deployed_from.take().unwrap_or(Phase::BereitFuerDeployment);
                self.go_to(id, kind, back, Some(reason), stamp)
            }
            Event::Replanned | Event::PlannedAgain => self.go(id, kind, None, stamp),
            Event::Archived => {
                let card = self.card_mut(id)?;
                card.archived_from = Some(card.phase);
                self.go(id, kind, None, stamp)
            }
            Event::BroughtBack => {
                let back = self.card_mut(id)?.archived_from.take().unwrap_or(Phase::Geplant);
                self.go_to(id, kind, back, None, stamp)
            }
            Event::CancelAsked => self.ask_cancel(id, stamp, policy),
            Event::Undone { in_queue } => self.undo(id, in_queue),
            Event::Deleted => self.delete(id, stamp),
            Event::MadeIntent { slug, text, taken } => self.order_intent(id, &slug, text, taken, stamp),
            Event::ProposalAccepted { slug, taken } => self.order_proposal(id, &slug, taken, stamp),
            Event::Revised { draft, intent, reports } => {
                self.begin_revision(id, draft, intent, reports, stamp, policy)
            }
            Event::PlannedOut { draft } => self.plan_out(id, draft, stamp, policy),
            Event::Answered { answer, option, round } => {
                self.answer(id, &answer, option, round, stamp, policy)
            }
            Event::DraftRetried { note, revision } => self.retry_draft(id, note, revision, stamp, policy),
        }
    }

    /// Moves a card to where the table says, without a job.
    fn go(
        &mut self,
        id: &CardId,
        event: EventKind,
        note: Option<String>,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let card = self.card(id)?;
        let to = transition::find(card.phase, card.source, event)
            .and_then(|row| transition::target(row, card.phase))
            .ok_or_else(|| Refusal::Fault(format!("{event} has no target")))?;
        self.go_to(id, event, to, note, stamp)
    }

    fn go_to(
        &mut self,
        id: &CardId,
        event: EventKind,
        to: Phase,
        note: Option<String>,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let card = self.card_mut(id)?;
        let from = card.phase;
        card.phase = to;
        // What failed stays with the card while another run or the archive can still end it.
        if to != Phase::Archiviert && from != Phase::Archiviert {
            card.error = None;
            card.job = None;
        }
        let mut step = step(Some(from), to, event, stamp);
        step.note = note;
        self.commit_step(id, step, Vec::new());
        Ok(Applied {
            card: id.clone(),
            event,
            from: Some(from),
            to: Some(to),
            job: None,
            parked_until: None,
            repeated: false,
        })
    }
}

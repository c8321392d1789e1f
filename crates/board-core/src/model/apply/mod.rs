//! The one way into the board: events of the operator and outcomes of runs.
//!
//! Each function changes the board in one go or refuses; the caller writes the result under the state
//! lock, so phase, job, links and the entry in the outbox are durable together or not at all.

pub mod adopted;
mod choice;
mod draft;
mod ideas;
pub mod old;
mod operator;
mod outcome;
pub mod rank;
mod start;
#[cfg(test)]
mod tests;
mod text;

use uuid::Uuid;

use super::board::{Board, OutboxEntry, Policy, Request, Stamp, WrittenDocument};
use super::card::{Applying, Card, CardId, Parked, Source, Step};
use super::event::{Applied, EventKind, Refusal, Said};
use super::job::{JOB_SCHEMA, Job, JobRef, JobType, Payload};
use super::phase::Phase;
use super::slug::Slug;
use super::time::Timestamp;
use super::{record, transition};

/// Longest reason or note of the operator, in characters.
pub const MAX_NOTE_CHARS: usize = 4_000;

/// Actor of what the board does by itself.
pub const BOARD_ACTOR: &str = "board";

/// What an outcome is to the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Of the card's current job and attempt: to be applied.
    Current,
    /// It was applied already: finished business.
    Applied,
    /// Of another job or attempt, or of a card that is gone: kept and marked stale.
    Stale,
}

impl Board {
    /// What an outcome of this job and attempt is to the board.
    pub fn standing(&self, card: &CardId, job: JobRef) -> Standing {
        let Some(card) = self.cards.get(card) else { return Standing::Stale };
        if card.current_job().is_some_and(|current| current.reference() == job) {
            Standing::Current
        } else if card.applied == Some(job) {
            Standing::Applied
        } else {
            Standing::Stale
        }
    }

    /// First step of a transition that writes documents.
    ///
    /// # Errors
    /// [`Refusal::Applying`] if the card has one already, [`Refusal::UnknownCard`] if it is gone.
    pub fn begin_applying(&mut self, id: &CardId, applying: Applying) -> Result<(), Refusal> {
        let card = self.card_mut(id)?;
        if card.applying.is_some() {
            return Err(Refusal::Applying);
        }
        card.changed_at = applying.since;
        card.applying = Some(applying);
        Ok(())
    }

    /// Third step for a synthesis: the new card in `geplant`, unread, recorded on its parent.
    ///
    /// # Errors
    /// A [`Refusal`] if the parent is gone or the slug is a card already.
    pub fn finish_synthesis(
        &mut self,
        parent: &CardId,
        slug: &Slug,
        title: &str,
        documents: &[WrittenDocument],
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let id = CardId::Slug(slug.clone());
        if self.cards.contains_key(&id) {
            return Err(Refusal::Taken(slug.clone()));
        }
        let parent_card = self.card_mut(parent)?;
        parent_card.synthesis = Some(slug.clone());
        parent_card.synthesis_due = None;
        parent_card.applying = None;
        let mut card = Card::new(id.clone(), Source::Intent, title, Phase::Geplant, stamp.now);
        card.unread = true;
        self.cards.insert(id.clone(), card);
        let step = step(None, Phase::Geplant, EventKind::SynthesisWritten, stamp);
        self.commit_step(&id, step, documents.to_vec());
        self.record_change(parent, EventKind::SynthesisWritten.id(), stamp);
        // The parent of a parent may have waited for just this (`aufgeteilt` ends with its own synthesis).
        self.note_terminal(parent, stamp.now);
        Ok(Applied {
            card: id,
            event: EventKind::SynthesisWritten,
            from: None,
            to: Some(Phase::Geplant),
            job: None,
            parked_until: None,
            repeated: false,
        })
    }

    /// Parked starts that are due become real: no longer parked, outbox entry made. True if one did.
    ///
    /// Due is what lies behind, and also what the clock cannot have meant: a job made after now, or a
    /// moment further off than the undo window (the clock was changed).
    pub fn release_due(&mut self, now: Timestamp) -> bool {
        let due: Vec<CardId> = self
            .cards
            .values()
            .filter(|card| card.parked.as_ref().is_some_and(|parked| is_due(card, parked, now)))
            .map(|card| card.id.clone())
            .collect();
        for id in &due {
            self.release(id);
        }
        !due.is_empty()
    }

    /// Makes one parked start real.
    fn release(&mut self, id: &CardId) {
        let Some(parked) = self.cards.get_mut(id).and_then(|card| card.parked.take()) else { return };
        self.commit_step(id, parked.step, Vec::new());
    }

    fn card_mut(&mut self, id: &CardId) -> Result<&mut Card, Refusal> {
        self.cards.get_mut(id).ok_or_else(|| Refusal::UnknownCard(id.clone()))
    }

    fn card(&self, id: &CardId) -> Result<&Card, Refusal> {
        self.cards.get(id).ok_or_else(|| Refusal::UnknownCard(id.clone()))
    }

    /// Puts a step into the card's history and, for cards with a document, into the outbox.
    fn commit_step(&mut self, id: &CardId, step: Step, documents: Vec<WrittenDocument>) {
        let Some(card) = self.cards.get_mut(id) else { return };
        card.changed_at = step.at;
        card.record_step(step.clone());
        if let CardId::Slug(slug) = id {
            let record = record::render(card);
            self.outbox.push(OutboxEntry { card: slug.clone(), step, record, documents, committed: None });
        }
    }

    /// Records a change that is no transition (a link, a profile): the phase stays.
    pub(super) fn record_change(&mut self, id: &CardId, event: &str, stamp: &Stamp) {
        self.record_noted(id, event, None, stamp);
    }

    /// The same with a note.
    fn record_noted(&mut self, id: &CardId, event: &str, note: Option<String>, stamp: &Stamp) {
        let Some(card) = self.cards.get(id) else { return };
        let step = Step {
            transition: derived_id(stamp, &format!("{event} {id}")),
            from: Some(card.phase),
            to: card.phase,
            event: event.to_owned(),
            actor: stamp.actor.clone(),
            at: stamp.now,
            job: None,
            profile: None,
            note,
        };
        self.commit_step(id, step, Vec::new());
    }

    /// Keeps the key of a request that was carried out.
    fn remember(&mut self, applied: &Applied, stamp: &Stamp) {
        if let Some(key) = stamp.request {
            self.requests.push(Request {
                key,
                at: stamp.now,
                card: applied.card.clone(),
                job: applied.job.map(|job| job.job),
                event: applied.event.id().to_owned(),
            });
        }
    }

    /// The answer to a request whose key is known.
    fn repeated(&self, event: EventKind, stamp: &Stamp) -> Option<Applied> {
        let request = self.request(stamp.request?)?;
        let card = self.cards.get(&request.card);
        Some(Applied {
            card: request.card.clone(),
            event,
            from: None,
            to: card.map(|card| card.phase),
            job: request.job.map(|job| JobRef { job, attempt: 1 }),
            parked_until: card.and_then(|card| card.parked.as_ref()).map(|parked| parked.not_before),
            repeated: true,
        })
    }

    /// A new job of this card. A retry runs what the failed job ran, unless the operator changed it: what
    /// is shown is what runs. The board stays as it is, so this also tells what would be run.
    ///
    /// # Errors
    /// [`Refusal::Fault`] if the payload is not one of this kind of job.
    pub fn new_job(
        &self,
        card: &Card,
        kind: JobType,
        payload: Payload,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Job, Refusal> {
        let (profile, iteration_limit) = match &card.job {
            Some(old) if old.kind == kind && policy.profiles.contains_key(&old.profile) => {
                (old.profile.clone(), old.iteration_limit)
            }
            _ => self.resolve(kind.role(), &card.choice, policy),
        };
        if !fits(kind, &payload) {
            return Err(Refusal::Fault(format!("the payload is not one of a {} job", kind.id())));
        }
        Ok(Job {
            schema: JOB_SCHEMA,
            id: stamp.job,
            attempt: 1,
            kind,
            card_id: card.id.clone(),
            created_at: stamp.now,
            requested_by: stamp.actor.clone(),
            profile,
            iteration_limit,
            guidance: policy.guidance.get(&kind.role()).cloned(),
            payload,
        })
    }

    /// The events that fit this card now, for menus and for refusals.
    pub fn allowed(&self, card: &Card) -> Vec<EventKind> {
        if card.applying.is_some() || card.order.is_some() {
            return Vec::new();
        }
        if card.source == Source::Idea && card.open_draft.is_some() {
            return Vec::new();
        }
        transition::allowed(card.phase, card.source)
            .into_iter()
            .filter(|event| {
                let has_proposal = || card.draft.as_ref().is_some_and(|d| d.proposal.is_some());
                let has_worktree = || card.build.as_ref().is_some_and(|b| b.worktree.is_some());
                let not_now = (*event == EventKind::Undone && card.parked.is_none())
                    || (*event == EventKind::CancelAsked && card.cancel_asked.is_some())
                    || (*event == EventKind::Revised && card.open_draft.is_some())
                    || (*event == EventKind::ProposalAccepted && !has_proposal())
                    || (*event == EventKind::Resumed && !has_worktree());
                !not_now
            })
            .collect()
    }
}

fn fits(kind: JobType, payload: &Payload) -> bool {
    match payload {
        Payload::Builder(_) => kind == JobType::Builder,
        Payload::Review(_) => kind == JobType::Review,
        Payload::Research(_) => kind == JobType::Research,
        Payload::Split(_) => kind == JobType::Split,
        Payload::Draft(_) => kind == JobType::Draft,
    }
}

fn is_due(card: &Card, parked: &Parked, now: Timestamp) -> bool {
    let made = card.job.as_ref().map_or(parked.step.at, |job| job.created_at);
    now >= parked.not_before
        || now < made
        || parked.not_before.seconds_since(now) > i64::from(parked.window_s)
}

fn step(from: Option<Phase>, to: Phase, event: EventKind, stamp: &Stamp) -> Step {
    Step {
        transition: stamp.transition,
        from,
        to,
        event: event.id().to_owned(),
        actor: stamp.actor.clone(),
        at: stamp.now,
        job: None,
        profile: None,
        note: None,
    }
}

/// An id that follows from the transition, for its further steps: the same after a repetition.
fn derived_id(stamp: &Stamp, name: &str) -> Uuid {
    Uuid::new_v5(&stamp.transition, name.as_bytes())
}

/// A required or optional text of the operator.
fn checked_text(field: &'static str, text: &str, required: bool) -> Result<String, Refusal> {
    let text = text.trim();
    if required && text.is_empty() {
        return Err(Refusal::Invalid {
            field,
            problem: Said::new(
                "fehlt; begründe es mit wenigen Worten",
                "is required; say why in a few words",
            ),
        });
    }
    let chars = text.chars().count();
    if chars > MAX_NOTE_CHARS {
        return Err(Refusal::Invalid { field, problem: Said::too_long(chars, MAX_NOTE_CHARS) });
    }
    Ok(text.to_owned())
}

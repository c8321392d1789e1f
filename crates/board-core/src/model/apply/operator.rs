//! Events of the operator on cards that exist, and the making of ideas.

use uuid::Uuid;

use super::{checked_text, step};
use crate::model::board::{Board, Deleted, Policy, Stamp};
use crate::model::card::{
    Build, Card, CardId, Failure, MAX_DOCUMENT_BYTES, MAX_TITLE_CHARS, Mark, Order, Parked, Source,
};
use crate::model::event::{Applied, Event, EventKind, Refusal};
use crate::model::job::{BuilderPayload, Payload};
use crate::model::outcome::RunResult;
use crate::model::phase::Phase;
use crate::model::profile::Choice;
use crate::model::slug::Slug;
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
        if card.source == Source::Idea || kind == EventKind::Revised {
            if let Some(draft) = &card.open_draft {
                return Err(Refusal::InDraft(draft.clone()));
            }
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
            Event::MadeIntent { slug, text, taken } => self.order_intent(id, kind, slug, text, taken, stamp),
            Event::ProposalAccepted { slug, taken } => self.order_proposal(id, kind, slug, taken, stamp),
            Event::Revised { draft, intent, reports } => {
                self.begin_revision(id, draft, intent, reports, stamp, policy)
            }
            Event::PlannedOut { draft } => self.plan_out(id, draft, stamp, policy),
            Event::Answered { answer, option, round } => {
                self.answer(id, &answer, option, round, stamp, policy)
            }
            Event::DraftRetried { note } => self.retry_draft(id, note, stamp, policy),
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

    /// A paid start: phase and job in one write, parked for the undo window.
    fn start(
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
        step: crate::model::card::Step,
        before: Card,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Option<crate::model::time::Timestamp> {
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
            before: (before.rev > 0).then(|| Box::new(before)),
            step,
        });
        Some(not_before)
    }

    fn ask_cancel(&mut self, id: &CardId, stamp: &Stamp, policy: &Policy) -> Result<Applied, Refusal> {
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
            let sentence = if parked { "vor dem Start abgebrochen" } else { "aufgegeben" };
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
        job: Option<crate::model::job::JobRef>,
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
        step.transition = super::derived_id(stamp, event.id());
        step.job = job;
        self.commit_step(id, step, Vec::new());
        Ok(to)
    }

    fn undo(&mut self, id: &CardId, in_queue: bool) -> Result<Applied, Refusal> {
        if in_queue {
            return Err(Refusal::TooLateToUndo);
        }
        let card = self.card_mut(id)?;
        let from = card.phase;
        let parked = card.parked.take().ok_or(Refusal::TooLateToUndo)?;
        let revises = card.draft.as_ref().and_then(|d| d.revises.as_ref()).map(|r| r.card.clone());
        let to = parked.before.as_ref().map(|before| before.phase).or(parked.step.from);
        match parked.before {
            Some(before) => {
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

    fn delete(&mut self, id: &CardId, stamp: &Stamp) -> Result<Applied, Refusal> {
        let card = self.cards.remove(id).ok_or_else(|| Refusal::UnknownCard(id.clone()))?;
        let from = card.phase;
        let draft = card.draft.as_ref();
        let outer = [
            draft.and_then(|d| d.from_idea.clone()),
            draft.and_then(|d| d.revises.as_ref()).map(|r| r.card.clone()),
        ];
        for outer in outer.into_iter().flatten() {
            if let Some(outer) = self.cards.get_mut(&outer) {
                outer.open_draft = None;
                outer.changed_at = stamp.now;
            }
        }
        self.deleted.push(Deleted { card, at: stamp.now, by: stamp.actor.clone() });
        Ok(Applied {
            card: id.clone(),
            event: EventKind::Deleted,
            from: Some(from),
            to: None,
            job: None,
            parked_until: None,
            repeated: false,
        })
    }

    /// Brings a deleted idea or draft back: as it was, or as a failed draft if a round ran.
    ///
    /// # Errors
    /// [`Refusal::UnknownCard`] if nothing of this id was deleted within the window, [`Refusal::InDraft`]
    /// if its idea or card has another draft by now.
    pub fn restore(&mut self, id: &CardId, stamp: &Stamp) -> Result<Applied, Refusal> {
        if let Some(answer) = self.repeated(EventKind::Restored, stamp) {
            return Ok(answer);
        }
        let at = self
            .deleted
            .iter()
            .rposition(|deleted| deleted.card.id == *id)
            .ok_or_else(|| Refusal::UnknownCard(id.clone()))?;
        let mut card = self.deleted[at].card.clone();
        let draft = card.draft.as_ref();
        let outer = draft
            .and_then(|d| d.from_idea.clone())
            .or_else(|| draft.and_then(|d| d.revises.as_ref()).map(|r| r.card.clone()));
        if let Some(outer) = &outer {
            let outer = self.card_mut(outer)?;
            if let Some(other) = &outer.open_draft {
                return Err(Refusal::InDraft(other.clone()));
            }
            outer.open_draft = Some(id.clone());
        }
        if let (Some(_), Some(failure)) = (card.phase.work(), card.phase.failure()) {
            card.phase = failure;
            card.error = Some(Failure {
                result: RunResult::Cancelled,
                sentence: "abgebrochen".into(),
                at: stamp.now,
                job: card.job.as_ref().map(|job| job.reference()),
                log: None,
                reply: None,
            });
            card.cancel_asked = None;
            card.waiting = None;
            card.parked = None;
        }
        card.changed_at = stamp.now;
        let to = card.phase;
        self.deleted.remove(at);
        self.cards.insert(id.clone(), card);
        let applied = Applied {
            card: id.clone(),
            event: EventKind::Restored,
            from: None,
            to: Some(to),
            job: None,
            parked_until: None,
            repeated: false,
        };
        self.remember(&applied, stamp);
        Ok(applied)
    }

    /// A new idea.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for an empty or too long title or text.
    pub fn create_idea(
        &mut self,
        id: Uuid,
        title: &str,
        text: &str,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        if let Some(answer) = self.repeated(EventKind::IdeaCreated, stamp) {
            return Ok(answer);
        }
        let title = title.trim();
        if title.is_empty() {
            return Err(Refusal::Invalid {
                field: "title",
                problem: "is empty; an idea needs a title".into(),
            });
        }
        let chars = title.chars().count();
        if chars > MAX_TITLE_CHARS {
            return Err(Refusal::Invalid {
                field: "title",
                problem: format!("has {chars} characters; at most {MAX_TITLE_CHARS} are allowed"),
            });
        }
        check_document("text", text)?;
        let id = CardId::Idea(id);
        if self.cards.contains_key(&id) {
            return Err(Refusal::Invalid { field: "id", problem: "there is such an idea already".into() });
        }
        let mut card = Card::new(id.clone(), Source::Idea, title, Phase::Idee, stamp.now);
        text.clone_into(&mut card.text);
        self.cards.insert(id.clone(), card);
        self.commit_step(&id, step(None, Phase::Idee, EventKind::IdeaCreated, stamp), Vec::new());
        let applied = Applied {
            card: id,
            event: EventKind::IdeaCreated,
            from: None,
            to: Some(Phase::Idee),
            job: None,
            parked_until: None,
            repeated: false,
        };
        self.remember(&applied, stamp);
        Ok(applied)
    }

    /// The operator's choice of profile and budget for a card; also what a retry of its failed job runs.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for a profile that is not configured or a budget outside 1 to the cap.
    pub fn set_choice(
        &mut self,
        id: &CardId,
        choice: Choice,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<(), Refusal> {
        if let Some(profile) = choice.profile.as_ref().filter(|name| !policy.profiles.contains_key(*name)) {
            let known: Vec<&str> = policy.profiles.keys().map(String::as_str).collect();
            return Err(Refusal::Invalid {
                field: "profile",
                problem: format!("„{profile}“ is not configured; there are: {}", known.join(", ")),
            });
        }
        let cap = policy.iteration_cap;
        if let Some(given) = choice.iterations.filter(|n| !(1..=cap).contains(n)) {
            return Err(Refusal::Invalid {
                field: "iterations",
                problem: format!("{given} is not between 1 and {cap}"),
            });
        }
        if let Some(reason) = &choice.reason {
            checked_text("reason", reason, false)?;
        }
        let card = self.card(id)?;
        if !card.source.has_document() {
            return Err(Refusal::Invalid {
                field: "profile",
                problem: "only intents and research questions have a profile of their own".into(),
            });
        }
        let changed = card
            .job
            .as_ref()
            .filter(|_| card.phase.work().is_none())
            .map(|job| (job.kind, self.resolve(job.kind.role(), &choice, policy)));
        let card = self.card_mut(id)?;
        card.choice = choice;
        if let (Some(job), Some((_, (profile, limit)))) = (&mut card.job, changed) {
            job.profile = profile;
            job.iteration_limit = limit;
        }
        self.record_change(id, "profile_chosen", stamp);
        Ok(())
    }

    /// The operator said that he has read a synthesis.
    ///
    /// # Errors
    /// [`Refusal::UnknownCard`]
    pub fn mark_read(&mut self, id: &CardId, stamp: &Stamp) -> Result<(), Refusal> {
        let card = self.card_mut(id)?;
        if card.unread {
            card.unread = false;
            card.read_by = Some(Mark { by: stamp.actor.clone(), at: stamp.now });
            self.record_change(id, "read", stamp);
        }
        Ok(())
    }

    fn order_intent(
        &mut self,
        id: &CardId,
        event: EventKind,
        slug: Slug,
        text: Option<String>,
        taken: bool,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let card = self.card(id)?;
        let text = text.unwrap_or_else(|| format!("# Intent: {}\n\n{}\n", card.title, card.text.trim_end()));
        self.order(id, event, slug, text, taken, stamp)
    }

    fn order_proposal(
        &mut self,
        id: &CardId,
        event: EventKind,
        slug: Slug,
        taken: bool,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let proposal = self.card(id)?.draft.as_ref().and_then(|draft| draft.proposal.clone());
        let text = proposal.ok_or_else(|| Refusal::Fault("there is no kept proposal".into()))?.body;
        self.order(id, event, slug, text, taken, stamp)
    }

    /// An order to the watcher to write an intent; the phase changes when it is carried out.
    fn order(
        &mut self,
        id: &CardId,
        event: EventKind,
        slug: Slug,
        text: String,
        taken: bool,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        check_document("text", &text)?;
        if taken || self.taken_slugs().contains(slug.as_str()) {
            return Err(Refusal::Taken(slug));
        }
        let path = format!("docs/intent/{slug}.md");
        let card = self.card_mut(id)?;
        card.changed_at = stamp.now;
        card.order = Some(Order {
            text,
            path,
            base_blob: None,
            mark: Mark { by: stamp.actor.clone(), at: stamp.now },
            conflict: None,
        });
        let from = card.phase;
        Ok(Applied {
            card: id.clone(),
            event,
            from: Some(from),
            to: Some(from),
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

fn check_document(field: &'static str, text: &str) -> Result<(), Refusal> {
    if text.len() > MAX_DOCUMENT_BYTES {
        return Err(Refusal::Invalid {
            field,
            problem: format!("has {} bytes; at most {MAX_DOCUMENT_BYTES} are allowed", text.len()),
        });
    }
    Ok(())
}

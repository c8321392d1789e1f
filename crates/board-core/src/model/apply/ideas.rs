//! Ideas: made, edited, deleted, brought back.

use uuid::Uuid;

use super::step;
use super::text::check_document;
use crate::model::board::{Board, Deleted, Stamp};
use crate::model::card::{Card, CardId, Failure, MAX_TITLE_CHARS, Source};
use crate::model::event::{Applied, EventKind, Refusal, Said};
use crate::model::outcome::RunResult;
use crate::model::phase::Phase;

impl Board {
    pub(super) fn delete(&mut self, id: &CardId, stamp: &Stamp) -> Result<Applied, Refusal> {
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
    /// [`Refusal::UnknownCard`] if nothing of this id was deleted within the window, [`Refusal::NotAllowed`] if it
    /// is back already, [`Refusal::InDraft`] if its idea or card has another draft by now.
    pub fn restore(&mut self, id: &CardId, stamp: &Stamp) -> Result<Applied, Refusal> {
        if let Some(answer) = self.repeated(EventKind::Restored, stamp) {
            return Ok(answer);
        }
        let at = self.deleted.iter().rposition(|deleted| deleted.card.id == *id);
        let at = at.ok_or_else(|| match self.cards.get(id) {
            // Somebody else brought it back.
            Some(card) => Refusal::NotAllowed {
                event: EventKind::Restored,
                phase: card.phase,
                allowed: self.allowed(card),
                job: card.current_job().map(|job| job.reference()),
            },
            None => Refusal::UnknownCard(id.clone()),
        })?;
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
        let title = check_title(title)?;
        check_document("text", text)?;
        let id = CardId::Idea(id);
        if self.cards.contains_key(&id) {
            return Err(Refusal::Invalid {
                field: "id",
                problem: Said::new("diese Idee gibt es schon", "there is such an idea already"),
            });
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

    /// Other words of an idea, which has no file: they count at once.
    ///
    /// # Errors
    /// [`Refusal::Saving`] while it is written as an intent, [`Refusal::InDraft`] while it is worked out,
    /// [`Refusal::Invalid`] as for a new one.
    pub fn edit_idea(&mut self, id: &CardId, title: &str, text: &str, stamp: &Stamp) -> Result<(), Refusal> {
        let title = check_title(title)?;
        check_document("text", text)?;
        let card = self.card_mut(id)?;
        if card.order.is_some() {
            return Err(Refusal::Saving);
        }
        if let Some(draft) = &card.open_draft {
            return Err(Refusal::InDraft(draft.clone()));
        }
        if card.title != title || card.text != text {
            title.clone_into(&mut card.title);
            text.clone_into(&mut card.text);
            self.record_change(id, "edited", stamp);
        }
        Ok(())
    }
}

/// A usable title, trimmed.
fn check_title(title: &str) -> Result<&str, Refusal> {
    let title = title.trim();
    let problem = match title.chars().count() {
        0 => Said::new("ist leer; eine Idee braucht einen Titel", "is empty; an idea needs a title"),
        1..=MAX_TITLE_CHARS => return Ok(title),
        chars => Said::too_long(chars, MAX_TITLE_CHARS),
    };
    Err(Refusal::Invalid { field: "title", problem })
}

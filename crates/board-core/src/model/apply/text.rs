//! The editor's orders: texts that the watcher writes into the repository.
//!
//! The trigger never writes the repository, so what is typed waits in the state, with its text, until the
//! watcher has written it (storage.md). An order that cannot be carried out stays with its card until the
//! operator says what becomes of the text: another slug, over what is there, or away with it.

use super::outcome::choice_of;
use super::step;
use crate::model::board::{Board, Stamp, WrittenDocument};
use crate::model::card::{Card, CardId, MAX_DOCUMENT_BYTES, Mark, Order, Source};
use crate::model::documents::{self, document_path};
use crate::model::event::{Applied, EventKind, Refusal, Said};
use crate::model::phase::Phase;
use crate::model::slug::Slug;

impl Board {
    /// An intent or a question that is written in the editor: a card in `geplant` whose file the watcher makes.
    /// `taken` tells that something outside the board has the slug: a file or a record.
    ///
    /// # Errors
    /// [`Refusal::Taken`], or [`Refusal::Invalid`] for an empty or too long text.
    pub fn write_document(
        &mut self,
        slug: Slug,
        source: Source,
        text: &str,
        taken: bool,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let event = EventKind::DocumentWritten;
        if let Some(answer) = self.repeated(event, stamp) {
            return Ok(answer);
        }
        self.check_new(&slug, text, taken)?;
        let path = document_path(source, &slug)
            .ok_or_else(|| Refusal::Fault(format!("a card with the source {} has no file", source.id())))?;
        let id = CardId::Slug(slug.clone());
        let title = documents::title(text).unwrap_or_else(|| slug.to_string());
        let mut card = Card::new(id.clone(), source, title, Phase::Geplant, stamp.now);
        card.order = Some(new_order(path, None, text, stamp));
        self.cards.insert(id.clone(), card);
        let applied = ordered(&id, event, None, Phase::Geplant);
        self.remember(&applied, stamp);
        Ok(applied)
    }

    /// Another text for the file of a card; `base_blob` is what was edited. Only the file changes, never the
    /// phase: a run keeps the text that its job froze.
    ///
    /// # Errors
    /// [`Refusal::Applying`] or [`Refusal::Saving`] while another text is written, [`Refusal::NotAllowed`] for
    /// a card without a file and while a start can be taken back, [`Refusal::Invalid`] for the text.
    pub fn edit_document(
        &mut self,
        id: &CardId,
        text: &str,
        base_blob: &str,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let event = EventKind::DocumentWritten;
        if let Some(answer) = self.repeated(event, stamp) {
            return Ok(answer);
        }
        let card = self.card(id)?;
        let phase = card.phase;
        if card.applying.is_some() {
            return Err(Refusal::Applying);
        }
        if card.order.as_ref().is_some_and(|order| order.conflict.is_none()) {
            return Err(Refusal::Saving);
        }
        // An undo gives the whole entry back as it was, and would take the text with it.
        let path = card.document_path().filter(|_| card.parked.is_none());
        let Some(path) = path else {
            let allowed = self.allowed(card);
            let job = card.current_job().map(|job| job.reference());
            return Err(Refusal::NotAllowed { event, phase, allowed, job });
        };
        check_text(text)?;
        let card = self.card_mut(id)?;
        card.changed_at = stamp.now;
        card.order = Some(new_order(path, Some(base_blob.to_owned()), text, stamp));
        let applied = ordered(id, event, Some(phase), phase);
        self.remember(&applied, stamp);
        Ok(applied)
    }

    /// The text that could not be written is given up. A card that was to be made by it is gone, unless
    /// somebody else's file of its name is there, which is then a card of its own. True if the card stays.
    ///
    /// # Errors
    /// [`Refusal::Saving`] while it may still be written, [`Refusal::Invalid`] if there is none.
    pub fn drop_order(&mut self, id: &CardId, stamp: &Stamp) -> Result<bool, Refusal> {
        self.failed_order(id)?;
        let card = self.card_mut(id)?;
        if card.is_only_ordered() {
            self.cards.remove(id);
            return Ok(false);
        }
        card.order = None;
        card.changed_at = stamp.now;
        Ok(true)
    }

    /// The text of an intent or a question that could not be written becomes a card under another slug.
    ///
    /// # Errors
    /// As [`Board::drop_order`] and [`Board::write_document`].
    pub fn write_elsewhere(
        &mut self,
        id: &CardId,
        slug: Slug,
        taken: bool,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let event = EventKind::DocumentWritten;
        if let Some(answer) = self.repeated(event, stamp) {
            return Ok(answer);
        }
        let order = self.failed_order(id)?;
        let source = self.card(id)?.source;
        self.drop_order(id, stamp)?;
        self.write_document(slug, source, &order.text, taken, stamp)
    }

    /// The order that failed.
    fn failed_order(&self, id: &CardId) -> Result<Order, Refusal> {
        let card = self.card(id)?;
        match &card.order {
            _ if card.applying.is_some() => Err(Refusal::Applying),
            Some(order) if order.conflict.is_some() => Ok(order.clone()),
            Some(_) => Err(Refusal::Saving),
            None => Err(Refusal::Invalid {
                field: "text",
                problem: Said::new(
                    "es gibt keinen Text, der nicht gespeichert werden konnte",
                    "there is no text that could not be saved",
                ),
            }),
        }
    }

    /// Whether a card can be linked and be given a profile: not before its file is written, and not while its
    /// start can be taken back (an undo would take that with it, and leave its record in the outbox).
    ///
    /// # Errors
    /// [`Refusal::Saving`], [`Refusal::Parked`]
    pub fn check_written(&self, id: &CardId) -> Result<(), Refusal> {
        match self.cards.get(id) {
            Some(card) if card.is_only_ordered() => Err(Refusal::Saving),
            Some(card) if card.parked.is_some() => Err(Refusal::Parked),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn order_intent(
        &mut self,
        id: &CardId,
        slug: &Slug,
        text: Option<String>,
        taken: bool,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let card = self.card(id)?;
        let text = text.unwrap_or_else(|| documents::idea_as_intent(&card.title, &card.text));
        self.order(id, EventKind::DocumentWritten, slug, &text, taken, stamp)
    }

    pub(super) fn order_proposal(
        &mut self,
        id: &CardId,
        slug: &Slug,
        taken: bool,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let proposal = self.card(id)?.draft.as_ref().and_then(|draft| draft.proposal.clone());
        let text = proposal.ok_or_else(|| Refusal::Fault("there is no kept proposal".into()))?.body;
        self.order(id, EventKind::ProposalAccepted, slug, &text, taken, stamp)
    }

    /// An order to write an idea or a proposal as an intent; the phase changes when it is carried out.
    fn order(
        &mut self,
        id: &CardId,
        event: EventKind,
        slug: &Slug,
        text: &str,
        taken: bool,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        self.check_new(slug, text, taken)?;
        let path = format!("{}/{slug}.md", documents::INTENT_DIR);
        let card = self.card_mut(id)?;
        card.changed_at = stamp.now;
        card.order = Some(new_order(path, None, text, stamp));
        Ok(ordered(id, event, Some(card.phase), card.phase))
    }

    fn check_new(&self, slug: &Slug, text: &str, taken: bool) -> Result<(), Refusal> {
        check_text(text)?;
        if taken || self.taken_slugs().contains(slug.as_str()) {
            return Err(Refusal::Taken(slug.clone()));
        }
        Ok(())
    }

    /// The editor's order of this card is carried out: an idea or a kept proposal is an intent now, an
    /// edited document is saved, a new one is there.
    ///
    /// # Errors
    /// A [`Refusal`] if there is no order, or its slug is a card by now.
    pub fn finish_order(
        &mut self,
        id: &CardId,
        documents: &[WrittenDocument],
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let card = self.card_mut(id)?;
        let order = card.order.clone().ok_or_else(|| Refusal::Fault("there is no order".into()))?;
        let event = match card.source {
            Source::Draft => EventKind::ProposalAccepted,
            Source::Idea | Source::Intent | Source::Research => EventKind::DocumentWritten,
        };
        let by = Stamp { actor: order.mark.by.clone(), ..stamp.clone() };
        let at = card.phase;
        if card.source.has_document() {
            let from = (!card.is_only_ordered()).then_some(at);
            card.order = None;
            card.applying = None;
            card.unread = false;
            if let Some(title) = documents::title(&order.text) {
                card.title = title;
            }
            self.commit_step(id, step(from, at, event, &by), documents.to_vec());
            return Ok(ordered(id, event, from, at));
        }
        let slug = documents::slug_of(&order.path)
            .ok_or_else(|| Refusal::Fault(format!("{} is not a document of a card", order.path)))?;
        let new_id = CardId::Slug(slug.clone());
        if self.cards.contains_key(&new_id) {
            return Err(Refusal::Taken(slug));
        }
        let old = self.cards.remove(id).ok_or_else(|| Refusal::UnknownCard(id.clone()))?;
        self.redirects.insert(id.clone(), new_id.clone());
        let title = documents::title(&order.text).unwrap_or_else(|| slug.to_string());
        let mut card = Card::new(new_id.clone(), Source::Intent, title, Phase::Geplant, stamp.now);
        if let Some(draft) = &old.draft {
            card.draft_origin = Some(id.clone());
            if let Some(proposal) = &draft.proposal {
                card.choice = choice_of(proposal.profile.as_ref(), proposal.iterations);
            }
            if let Some(idea) = &draft.from_idea {
                self.cards.remove(idea);
                self.redirects.insert(idea.clone(), new_id.clone());
            }
            // A revision that became an intent of its own revises nothing any more.
            if let Some(revised) = draft.revises.as_ref().and_then(|r| self.cards.get_mut(&r.card)) {
                revised.open_draft = None;
                revised.changed_at = stamp.now;
            }
        }
        self.cards.insert(new_id.clone(), card);
        self.commit_step(&new_id, step(None, Phase::Geplant, event, &by), documents.to_vec());
        Ok(ordered(&new_id, event, Some(at), Phase::Geplant))
    }
}

fn new_order(path: String, base_blob: Option<String>, text: &str, stamp: &Stamp) -> Order {
    let mark = Mark { by: stamp.actor.clone(), at: stamp.now };
    Order { text: text.to_owned(), path, base_blob, mark, conflict: None }
}

fn ordered(id: &CardId, event: EventKind, from: Option<Phase>, to: Phase) -> Applied {
    Applied { card: id.clone(), event, from, to: Some(to), job: None, parked_until: None, repeated: false }
}

/// A text that can be a document: something, and not too much.
fn check_text(text: &str) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::Invalid {
            field: "text",
            problem: Said::new(
                "ist leer; schreibe, was getan werden soll",
                "is empty; say what is to be done",
            ),
        });
    }
    check_document("text", text)
}

pub(super) fn check_document(field: &'static str, text: &str) -> Result<(), Refusal> {
    if text.len() > MAX_DOCUMENT_BYTES {
        return Err(Refusal::Invalid {
            field,
            problem: Said::new(
                format!("hat {} Bytes, erlaubt sind {MAX_DOCUMENT_BYTES}", text.len()),
                format!("has {} bytes; at most {MAX_DOCUMENT_BYTES} are allowed", text.len()),
            ),
        });
    }
    Ok(())
}

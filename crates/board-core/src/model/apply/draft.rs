//! The planner's conversation: drafts, their rounds, and how they become intents.

use uuid::Uuid;

use super::outcome::{Ending, choice_of};
use super::{checked_text, derived_id, step};
use crate::model::board::{Board, Policy, Stamp, WrittenDocument};
use crate::model::card::{Card, CardId, Draft, Revises, Source};
use crate::model::documents;
use crate::model::draft::{MAX_ANSWER_CHARS, MAX_OPEN_DRAFT_BYTES, MAX_ROUNDS, check_topic, open_bytes};
use crate::model::event::{Applied, EventKind, Refusal, Said};
use crate::model::job::{DocumentText, DraftPayload, JobType, Payload, Revision, Speaker, Turn};
use crate::model::marker::draft::{ProposedIntent, Question};
use crate::model::phase::Phase;

/// Longest title that a topic gives its draft, in characters.
const MAX_DRAFT_TITLE: usize = 80;

impl Board {
    /// A new draft with its first round.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for the topic, [`Refusal::Limit`] if open drafts fill the state.
    pub fn create_draft(
        &mut self,
        id: Uuid,
        topic: &str,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        if let Some(answer) = self.repeated(EventKind::DraftCreated, stamp) {
            return Ok(answer);
        }
        let topic = check_topic(topic)?;
        let draft = Draft {
            round: 1,
            conversation: vec![operator_turn(&topic, None, stamp)],
            from_idea: None,
            revises: None,
            proposal: None,
        };
        let applied = self.begin_draft(id, &topic, draft, None, EventKind::DraftCreated, stamp, policy)?;
        self.remember(&applied, stamp);
        Ok(applied)
    }

    /// The draft's card and first job; not yet in the outbox of anybody, since drafts have no document.
    #[expect(clippy::too_many_arguments, reason = "one private constructor of three kinds of draft")]
    fn begin_draft(
        &mut self,
        id: Uuid,
        title: &str,
        draft: Draft,
        revision: Option<Revision>,
        event: EventKind,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let id = CardId::Draft(id);
        if self.cards.contains_key(&id) {
            return Err(Refusal::Invalid {
                field: "id",
                problem: Said::new("diesen Entwurf gibt es schon", "there is such a draft already"),
            });
        }
        if open_bytes(self) + title.len() > MAX_OPEN_DRAFT_BYTES {
            return Err(drafts_full());
        }
        let title = title_of(title);
        let mut card = Card::new(id.clone(), Source::Draft, title, Phase::EntwurfLaeuft, stamp.now);
        let payload =
            DraftPayload { round: draft.round, conversation: draft.conversation.clone(), revises: revision };
        card.draft = Some(draft);
        let job = self.new_job(&card, JobType::Draft, Payload::Draft(payload), stamp, policy)?;
        let reference = job.reference();
        let mut made = step(None, Phase::EntwurfLaeuft, event, stamp);
        made.job = Some(reference);
        made.profile = Some(job.profile.clone());
        let before = card.clone();
        card.job = Some(job);
        self.cards.insert(id.clone(), card);
        // Only a revision is parked: it is a paid start from a card, and undo leaves no draft behind.
        let parked_until = if event == EventKind::Revised {
            self.park_or_commit(&id, made, before, stamp, policy)
        } else {
            self.commit_step(&id, made, Vec::new());
            None
        };
        Ok(Applied {
            card: id,
            event,
            from: None,
            to: Some(Phase::EntwurfLaeuft),
            job: Some(reference),
            parked_until,
            repeated: false,
        })
    }

    pub(super) fn begin_revision(
        &mut self,
        id: &CardId,
        draft: Uuid,
        intent: DocumentText,
        reports: Vec<String>,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let title = self.card(id)?.title.clone();
        let new = Draft {
            round: 1,
            conversation: vec![operator_turn(&format!("Überarbeite den Intent „{title}“."), None, stamp)],
            from_idea: None,
            revises: Some(Revises { card: id.clone(), blob: intent.blob.clone() }),
            proposal: None,
        };
        let revision = Revision { card: id.clone(), intent, reports };
        let applied =
            self.begin_draft(draft, &title, new, Some(revision), EventKind::Revised, stamp, policy)?;
        let card = self.card_mut(id)?;
        card.open_draft = Some(applied.card.clone());
        card.changed_at = stamp.now;
        Ok(applied)
    }

    pub(super) fn plan_out(
        &mut self,
        id: &CardId,
        draft: Uuid,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let idea = self.card(id)?;
        let mut topic = format!("{}\n\n{}", idea.title, idea.text).trim().to_owned();
        if let Some((at, _)) = topic.char_indices().nth(MAX_ANSWER_CHARS) {
            topic.truncate(at);
        }
        let new = Draft {
            round: 1,
            conversation: vec![operator_turn(&topic, None, stamp)],
            from_idea: Some(id.clone()),
            revises: None,
            proposal: None,
        };
        let applied = self.begin_draft(draft, &topic, new, None, EventKind::PlannedOut, stamp, policy)?;
        let card = self.card_mut(id)?;
        card.open_draft = Some(applied.card.clone());
        card.changed_at = stamp.now;
        Ok(applied)
    }

    /// Whether the round that an answer names is the current one. Asked before the phase: whoever answers what
    /// another tab answered is told so, whatever became of the draft since.
    pub(super) fn check_round(&self, id: &CardId, round: Option<u32>) -> Result<(), Refusal> {
        let current = self.card(id)?.draft.as_ref().map(|draft| draft.round);
        match (round, current) {
            (Some(given), Some(current)) if given != current => Err(Refusal::OldRound { given, current }),
            _ => Ok(()),
        }
    }

    pub(super) fn answer(
        &mut self,
        id: &CardId,
        answer: &str,
        option: Option<String>,
        round: Option<u32>,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        self.check_round(id, round)?;
        let draft = self.card(id)?.draft.as_ref().ok_or_else(no_draft)?;
        if draft.round >= MAX_ROUNDS {
            return Err(Refusal::Limit(Said::new(
                format!(
                    "Das Gespräch hat {MAX_ROUNDS} Runden erreicht; lösche den Entwurf und beginne mit einem engeren \
                     Thema von vorn, oder schreibe den Intent von Hand"
                ),
                format!(
                    "the conversation has reached {MAX_ROUNDS} rounds; delete the draft and begin again with a \
                     narrower topic, or write the intent by hand"
                ),
            )));
        }
        let answer = answer.trim();
        let option = option.map(|o| o.trim().to_owned()).filter(|o| !o.is_empty());
        let chars = answer.chars().count() + option.as_ref().map_or(0, |o| o.chars().count());
        if chars == 0 {
            return Err(Refusal::Invalid {
                field: "answer",
                problem: Said::new(
                    "ist leer; wähle eine Möglichkeit oder schreibe eine eigene",
                    "is empty; choose an option or write one",
                ),
            });
        }
        if chars > MAX_ANSWER_CHARS {
            return Err(Refusal::Invalid {
                field: "answer",
                problem: Said::too_long(chars, MAX_ANSWER_CHARS),
            });
        }
        if open_bytes(self) + answer.len() > MAX_OPEN_DRAFT_BYTES {
            return Err(drafts_full());
        }
        let turn = operator_turn(answer, option, stamp);
        self.next_round(id, EventKind::Answered, Some(turn), true, stamp, policy)
    }

    /// The same round once more. A revision takes its intent as it is now (`fresh`): the one that it began with
    /// could never be replaced if somebody changed the file since.
    pub(super) fn retry_draft(
        &mut self,
        id: &CardId,
        note: Option<String>,
        fresh: Option<Revision>,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let note = checked_text("note", note.as_deref().unwrap_or_default(), false)?;
        let card = self.card_mut(id)?;
        let draft = card.draft.as_mut().ok_or_else(no_draft)?;
        let mut board_says = |text: String| {
            let (options, chosen) = (Vec::new(), None);
            draft.conversation.push(Turn { who: Speaker::Board, at: stamp.now, text, options, chosen });
        };
        // Without such a line the planner would answer the same again.
        match (draft.proposal.take(), &mut draft.revises) {
            (None, None) => {}
            (Some(proposal), None) => {
                board_says(format!("Der Slug „{}“ ist vergeben. Schlage einen anderen vor.", proposal.slug));
            }
            (proposal, Some(revises)) => {
                if proposal.is_some_and(|proposal| revises.card.slug() != Some(&proposal.slug)) {
                    board_says(format!("Die Überarbeitung muss den Slug „{}“ tragen.", revises.card));
                }
                if let Some(fresh) = fresh.as_ref().filter(|fresh| fresh.intent.blob != revises.blob) {
                    revises.blob.clone_from(&fresh.intent.blob);
                    board_says("Der Intent wurde inzwischen geändert; es gilt der jetzige Stand.".into());
                }
            }
        }
        if let (Some(fresh), Some(Payload::Draft(payload))) =
            (fresh, card.job.as_mut().map(|job| &mut job.payload))
        {
            payload.revises = Some(fresh);
        }
        let turn = (!note.is_empty()).then(|| operator_turn(&note, None, stamp));
        self.next_round(id, EventKind::DraftRetried, turn, false, stamp, policy)
    }

    fn next_round(
        &mut self,
        id: &CardId,
        event: EventKind,
        turn: Option<Turn>,
        answered: bool,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let card = self.card_mut(id)?;
        let from = card.phase;
        let revises = match card.job.as_ref().map(|job| &job.payload) {
            Some(Payload::Draft(payload)) => payload.revises.clone(),
            _ => None,
        };
        let draft = card.draft.as_mut().ok_or_else(no_draft)?;
        draft.conversation.extend(turn);
        if answered {
            draft.round += 1;
        }
        let payload = DraftPayload { round: draft.round, conversation: draft.conversation.clone(), revises };
        let card = self.card(id)?.clone();
        let job = self.new_job(&card, JobType::Draft, Payload::Draft(payload), stamp, policy)?;
        let reference = job.reference();
        let mut made = step(Some(from), Phase::EntwurfLaeuft, event, stamp);
        made.job = Some(reference);
        made.profile = Some(job.profile.clone());
        let card = self.card_mut(id)?;
        card.phase = Phase::EntwurfLaeuft;
        card.job = Some(job);
        card.interruptions = 0;
        card.error = None;
        card.used = None;
        self.commit_step(id, made, Vec::new());
        Ok(Applied {
            card: id.clone(),
            event,
            from: Some(from),
            to: Some(Phase::EntwurfLaeuft),
            job: Some(reference),
            parked_until: None,
            repeated: false,
        })
    }

    pub(super) fn asked(
        &mut self,
        mut ending: Ending,
        question: &Question,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let draft = self.card_mut(&ending.id)?.draft.as_mut().ok_or_else(no_draft)?;
        draft.conversation.push(Turn {
            who: Speaker::Planner,
            at: stamp.now,
            text: question.text.clone(),
            options: question.options.clone(),
            chosen: None,
        });
        ending.event = EventKind::Question;
        ending.to = Phase::EntwurfFrage;
        self.finish(ending, None, None, Vec::new(), stamp)
    }

    /// The proposed intent is written: the draft becomes a card under the new slug, or the revision ends.
    pub(super) fn proposed(
        &mut self,
        mut ending: Ending,
        intent: &ProposedIntent,
        documents: &[WrittenDocument],
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let card = self.card(&ending.id)?;
        let revises = card.draft.as_ref().and_then(|draft| draft.revises.clone());
        let new_id = CardId::Slug(intent.slug.clone());
        match &revises {
            Some(revises) if revises.card != new_id => {
                return Err(Refusal::Fault(format!("the revision is of {}, not of {new_id}", revises.card)));
            }
            None if self.cards.contains_key(&new_id) => return Err(Refusal::Taken(intent.slug.clone())),
            Some(_) | None => {}
        }
        let draft_id = ending.id.clone();
        let choice = choice_of(intent.profile.as_ref(), intent.iterations);
        let title = documents::title(&intent.body).unwrap_or_else(|| intent.slug.to_string());
        let from_idea = card.draft.as_ref().and_then(|draft| draft.from_idea.clone());
        self.cards.remove(&draft_id);
        self.redirects.insert(draft_id.clone(), new_id.clone());
        let (from, to) = if revises.is_some() {
            let card = self.card_mut(&new_id)?;
            card.open_draft = None;
            card.title = title;
            card.draft_origin = Some(draft_id);
            (Some(card.phase), card.phase)
        } else {
            if let Some(idea) = from_idea {
                self.cards.remove(&idea);
                self.redirects.insert(idea, new_id.clone());
            }
            let mut card = Card::new(new_id.clone(), Source::Intent, title, Phase::Geplant, stamp.now);
            card.choice = choice;
            card.draft_origin = Some(draft_id);
            self.cards.insert(new_id.clone(), card);
            (None, Phase::Geplant)
        };
        ending.event = EventKind::IntentProposed;
        // A late copy of the outcome is recognised as finished business on the new card.
        self.card_mut(&new_id)?.applied = Some(ending.reference);
        let mut made = step(from, to, EventKind::IntentProposed, stamp);
        made.transition = derived_id(stamp, "intent");
        made.job = Some(ending.reference);
        made.profile = Some(ending.profile);
        self.commit_step(&new_id, made, documents.to_vec());
        Ok(Applied {
            card: new_id,
            event: EventKind::IntentProposed,
            from,
            to: Some(to),
            job: None,
            parked_until: None,
            repeated: false,
        })
    }
}

/// The title of a draft: the first line of its topic, cut between two words.
fn title_of(topic: &str) -> String {
    let line = topic.lines().next().unwrap_or_default();
    let Some((at, _)) = line.char_indices().nth(MAX_DRAFT_TITLE) else { return line.to_owned() };
    let cut = line[..at].rsplit_once(char::is_whitespace).map_or(&line[..at], |(words, _)| words.trim_end());
    format!("{cut} …")
}

fn no_draft() -> Refusal {
    Refusal::Fault("the card has no conversation".into())
}

fn operator_turn(text: &str, chosen: Option<String>, stamp: &Stamp) -> Turn {
    Turn { who: Speaker::Operator, at: stamp.now, text: text.to_owned(), options: Vec::new(), chosen }
}

/// The open drafts fill what they may take of the state.
fn drafts_full() -> Refusal {
    Refusal::Limit(Said::new(
        format!("Die offenen Entwürfe füllen {MAX_OPEN_DRAFT_BYTES} Bytes; beende oder lösche zuerst einen"),
        format!("the open drafts fill {MAX_OPEN_DRAFT_BYTES} bytes; finish or delete one first"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_of_the_topic_cut_between_two_words() {
        assert_eq!(title_of("Kartenlimit\n\nZehn Karten."), "Kartenlimit");
        let line = format!("{} ende", "w".repeat(75));
        assert_eq!(line.chars().count(), MAX_DRAFT_TITLE);
        assert_eq!(title_of(&line), line);
        assert_eq!(title_of(&format!("{line}n")), format!("{} …", "w".repeat(75)));
        assert_eq!(title_of(&"ä".repeat(81)), format!("{} …", "ä".repeat(80)));
    }
}

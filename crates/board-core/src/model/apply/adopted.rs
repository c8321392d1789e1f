//! A card's record that somebody edited by hand: the operator says whether the file counts or the board.
//!
//! Both are recorded with the hash of the file that was shown, and the commit that follows replaces exactly
//! that file. Of the file only what an operator could have set by a click is taken: no path, no commit, no
//! report, and no link, whose other end stands in another file.

use super::{Refusal, checked_text};
use crate::model::board::{Board, Policy, Stamp};
use crate::model::card::{Card, CardId, Source};
use crate::model::event::Said;
use crate::model::phase::Phase;
use crate::model::record::{Record, RecordedPhase};

/// Event of a record that replaces an edited file with what the board knows; its note is the file's hash.
pub const OVERRULED: &str = "file_overruled";
/// Event of a record that took over what an edited file says; its note is the file's hash.
pub const TAKEN: &str = "file_taken";

impl Board {
    /// The board counts: the edited file with this hash may be replaced.
    ///
    /// # Errors
    /// [`Refusal::UnknownCard`], [`Refusal::Saving`], [`Refusal::Parked`].
    pub fn overrule_file(&mut self, id: &CardId, hash: &str, stamp: &Stamp) -> Result<(), Refusal> {
        self.card(id)?;
        self.check_written(id)?;
        self.record_noted(id, OVERRULED, Some(hash.to_owned()), stamp);
        Ok(())
    }

    /// The file counts: phase, profile, reason, limit, rank and note of the record with this hash are taken,
    /// between waiting phases only. Never makes a job.
    ///
    /// # Errors
    /// [`Refusal::File`] for what cannot be taken, [`Refusal::Invalid`] for a profile, limit or note that the
    /// board would not accept either, [`Refusal::Applying`], [`Refusal::Saving`], [`Refusal::Parked`].
    pub fn take_file(
        &mut self,
        id: &CardId,
        record: &Record,
        hash: &str,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<(), Refusal> {
        self.check_written(id)?;
        let card = self.card(id)?;
        if card.applying.is_some() {
            return Err(Refusal::Applying);
        }
        if card.order.is_some() {
            return Err(Refusal::Saving);
        }
        if let Some(draft) = &card.open_draft {
            return Err(Refusal::InDraft(draft.clone()));
        }
        let file = readable(id, card, record)?;
        if let Some(note) = &file.note {
            checked_text("note", note, false)?;
        }
        if file.choice != card.choice {
            self.set_choice(id, file.choice.clone(), stamp, policy)?;
        }
        let card = self.card_mut(id)?;
        let from = card.phase;
        card.rank = file.rank;
        card.note = file.note;
        if file.phase != from {
            card.phase = file.phase;
            card.error = file.error.filter(|_| file.phase.terminal().is_some());
            card.archived_from =
                (file.phase == Phase::Archiviert).then(|| file.archived_from.unwrap_or(from));
            card.deployed_from = (file.phase == Phase::Deployed).then(|| file.deployed_from.unwrap_or(from));
        }
        self.record_noted(id, TAKEN, Some(hash.to_owned()), stamp);
        if file.phase != from {
            self.note_terminal(id, stamp.now);
        }
        Ok(())
    }
}

/// The card that the file describes, if it can be taken from where the card stands.
fn readable(id: &CardId, card: &Card, record: &Record) -> Result<Card, Refusal> {
    let slug = id.slug().ok_or_else(|| {
        no(
            "Nur Intents und Recherchen haben eine Akte.",
            "Only intents and research questions have a record.",
        )
    })?;
    if card.phase.work().is_some() {
        return Err(no(
            "Die Karte läuft gerade. Warte auf das Ende des Laufs, oder übernimm den Stand des Boards.",
            "The card is running. Wait for the end of the run, or take what the board has.",
        ));
    }
    if record.source != card.source {
        return Err(no(
            "Die Datei nennt eine andere Art von Karte (source). Stelle sie richtig, oder übernimm den Stand des Boards.",
            "The file names another kind of card (source). Put it right, or take what the board has.",
        ));
    }
    let built = card.build.as_ref().is_some_and(|build| build.check_commit.is_some());
    let fits = match &record.phase {
        RecordedPhase::Known(phase) => can_stand(*phase, card.source, built),
        RecordedPhase::Unknown(_) => false,
    };
    if !fits {
        return Err(no(
            "In der Phase der Datei (phase) kann diese Karte nicht stehen: Erlaubt ist nur eine wartende Phase ihrer \
             Art, nach einem Bau auch die des Reviews.",
            "The card cannot stand in the phase of the file (phase): only a waiting phase of its kind is allowed, \
             after a build also those of the review.",
        ));
    }
    record.to_card(slug).map_err(|error| Refusal::Fault(format!("{id}: {error:?}")))
}

/// Whether a card of this source can wait in this phase.
fn can_stand(phase: Phase, source: Source, built: bool) -> bool {
    match phase {
        Phase::Geplant | Phase::Deployed | Phase::Archiviert => true,
        Phase::UmsetzungFehlgeschlagen | Phase::Aufgeteilt | Phase::AufteilungFehlgeschlagen => {
            source == Source::Intent
        }
        Phase::ReviewFehlgeschlagen | Phase::PlanungMitFeedback | Phase::BereitFuerDeployment => {
            source == Source::Intent && built
        }
        Phase::RechercheFertig | Phase::RechercheFehlgeschlagen => source == Source::Research,
        Phase::Idee
        | Phase::EntwurfLaeuft
        | Phase::EntwurfFrage
        | Phase::EntwurfFehlgeschlagen
        | Phase::InUmsetzung
        | Phase::Review
        | Phase::RechercheLaeuft
        | Phase::AufteilungLaeuft => false,
    }
}

fn no(de: &str, en: &str) -> Refusal {
    Refusal::File(Said::new(de, en))
}

//! What the operator sets on a card without moving it: profile and budget, and that he read a synthesis.

use super::checked_text;
use crate::model::board::{Board, Policy, Stamp};
use crate::model::card::{CardId, Mark};
use crate::model::event::{Refusal, Said};
use crate::model::profile::Choice;

impl Board {
    /// The operator's choice of profile and budget for a card; also what a retry of its failed job runs.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for a profile that is not configured or a budget outside 1 to the cap,
    /// [`Refusal::Saving`] before its file is written, [`Refusal::Parked`] while its start can be taken back.
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
                problem: Said::new(
                    format!("„{profile}“ ist nicht konfiguriert; es gibt: {}", known.join(", ")),
                    format!("{profile} is not configured; there are: {}", known.join(", ")),
                ),
            });
        }
        let cap = policy.iteration_cap;
        if let Some(given) = choice.iterations.filter(|n| !(1..=cap).contains(n)) {
            return Err(Refusal::Invalid {
                field: "iterations",
                problem: Said::new(
                    format!("{given} liegt nicht zwischen 1 und {cap}"),
                    format!("{given} is not between 1 and {cap}"),
                ),
            });
        }
        if let Some(reason) = &choice.reason {
            checked_text("reason", reason, false)?;
        }
        self.check_written(id)?;
        let card = self.card(id)?;
        if !card.source.has_document() {
            return Err(Refusal::Invalid {
                field: "profile",
                problem: Said::new(
                    "nur Intents und Recherchen haben ein eigenes Profil",
                    "only intents and research questions have a profile of their own",
                ),
            });
        }
        // A job that runs is frozen; the one that failed is what a retry would run.
        let retry = card
            .job
            .as_ref()
            .filter(|_| card.phase.work().is_none())
            .map(|job| self.resolve(job.kind.role(), &choice, policy));
        let card = self.card_mut(id)?;
        card.choice = choice;
        if let (Some(job), Some((profile, limit))) = (&mut card.job, retry) {
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
}

//! What runs left, applied to the board.
//!
//! The role proposes, the wrapper applies: nothing here takes a phase, a path, a profile or a limit from
//! an agent's text, but the two decisions of a review and what a marker block's headers may ask for.

use super::{BOARD_ACTOR, derived_id, step};
use crate::model::board::{Board, PAUSE_MINUTES, Pause, PauseTarget, Policy, Stamp, WrittenDocument};
use crate::model::card::{Card, CardId, Failure, Report, Source, Used, Waiting};
use crate::model::documents;
use crate::model::event::{Applied, EventKind, Refusal};
use crate::model::job::{JobRef, JobType, MAX_ATTEMPT, Payload, ReviewPayload};
use crate::model::marker::draft::ProfileRequest;
use crate::model::marker::review::Decision;
use crate::model::marker::split::{ChildKind, ProposedChild};
use crate::model::outcome::{Built, Outcome, Produced, RunResult, cut_sentence};
use crate::model::phase::Phase;
use crate::model::profile::Choice;

impl Board {
    /// Applies an outcome whose documents, if it brings any, are written. Applied at most once, and only
    /// if its job and attempt are the card's current ones.
    ///
    /// # Errors
    /// A [`Refusal`] if it is not current or does not fit its job; the caller throws this board away then, as
    /// `Held::update` does.
    pub fn apply_outcome(
        &mut self,
        outcome: &Outcome,
        documents: &[WrittenDocument],
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let card = self.card(&outcome.card_id)?;
        let reference = outcome.reference();
        let job = card
            .current_job()
            .filter(|job| job.reference() == reference && job.kind == outcome.kind)
            .ok_or_else(|| Refusal::Fault(format!("{reference} is not the card's current job")))?
            .clone();
        let mut ending = Ending {
            id: card.id.clone(),
            from: card.phase,
            event: EventKind::BuildEnded,
            to: card.phase,
            applied: reference,
            reference,
            profile: job.profile.clone(),
        };
        let result = effective_result(card, outcome);
        if outcome.started_at != outcome.finished_at || outcome.usage.iterations > 0 {
            let seconds = outcome.finished_at.seconds_since(outcome.started_at).max(0);
            let tokens = match (outcome.usage.input_tokens, outcome.usage.output_tokens) {
                (None, None) => None,
                (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
            };
            self.card_mut(&ending.id)?.used = Some(Used {
                iterations: outcome.usage.iterations,
                limit: job.iteration_limit,
                seconds: u64::try_from(seconds).unwrap_or(0),
                tokens,
            });
        }
        let repeatable = ending.from != Phase::InUmsetzung;
        match result {
            RunResult::Succeeded => {
                self.pauses.retain(|p| {
                    !(p.by == BOARD_ACTOR && p.target == PauseTarget::Profile(outcome.profile.clone()))
                });
                return self.succeed(ending, outcome, documents, stamp, policy);
            }
            RunResult::Interrupted if repeatable && job.attempt < MAX_ATTEMPT => {
                if self.card(&ending.id)?.interruptions == 0 {
                    ending.event = EventKind::InterruptedOnce;
                    return self.again(ending, stamp, None);
                }
                ending.event = EventKind::InterruptedTwice;
                return self.end_badly(ending, outcome, result, "zweimal unterbrochen", stamp);
            }
            RunResult::Unavailable
                if (repeatable || outcome.usage.iterations == 0) && job.attempt < MAX_ATTEMPT =>
            {
                self.pause_profile(outcome, stamp);
                ending.event = EventKind::Unavailable;
                return self.again(ending, stamp, Some(outcome.sentence.clone()));
            }
            RunResult::Cancelled => ending.event = EventKind::Cancelled,
            RunResult::Unavailable => {
                self.pause_profile(outcome, stamp);
                ending.event = failed_event(outcome.kind);
            }
            RunResult::Interrupted
            | RunResult::Failed
            | RunResult::NoChange
            | RunResult::Limit
            | RunResult::Timeout
            | RunResult::Stalled
            | RunResult::Oom
            | RunResult::InvalidReply => ending.event = failed_event(outcome.kind),
        }
        let sentence = outcome.sentence.clone();
        self.end_badly(ending, outcome, result, &sentence, stamp)
    }

    /// A successful outcome whose documents cannot be written, for example because a slug is taken: the
    /// card fails with that sentence and what was proposed is kept.
    ///
    /// # Errors
    /// As [`Board::apply_outcome`].
    pub fn refuse_documents(
        &mut self,
        outcome: &Outcome,
        sentence: &str,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let mut refused = outcome.clone();
        refused.result = RunResult::InvalidReply;
        sentence.clone_into(&mut refused.sentence);
        let proposal = match refused.produced.take() {
            Some(Produced::Intent(intent)) => Some(intent),
            Some(_) | None => None,
        };
        let applied = self.apply_outcome(&refused, &[], stamp, policy)?;
        if let Some(draft) = self.card_mut(&applied.card)?.draft.as_mut() {
            draft.proposal = proposal;
        }
        Ok(applied)
    }

    /// The next attempt of the same job becomes current; the phase stays.
    fn again(
        &mut self,
        mut ending: Ending,
        stamp: &Stamp,
        waiting: Option<String>,
    ) -> Result<Applied, Refusal> {
        let card = self.card_mut(&ending.id)?;
        match waiting {
            Some(reason) => card.waiting = Some(Waiting { since: stamp.now, reason: cut_sentence(reason) }),
            None => {
                card.waiting = None;
                card.interruptions = card.interruptions.saturating_add(1);
            }
        }
        if let Some(job) = &mut card.job {
            job.attempt += 1;
            ending.reference = job.reference();
        }
        let job = Some(ending.reference);
        self.finish(ending, job, None, Vec::new(), stamp)
    }

    fn end_badly(
        &mut self,
        mut ending: Ending,
        outcome: &Outcome,
        result: RunResult,
        sentence: &str,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let from = ending.from;
        ending.to = from.failure().ok_or_else(|| Refusal::Fault(format!("{from} cannot fail")))?;
        let card = self.card_mut(&ending.id)?;
        card.waiting = None;
        card.error = Some(Failure {
            result,
            sentence: cut_sentence(sentence.to_owned()),
            at: stamp.now,
            job: Some(ending.reference),
            log: outcome.log.clone(),
            reply: outcome.reply.clone(),
        });
        if let (Some(saved), Some(build)) = (&outcome.saved, &mut card.build) {
            // The name is the wrapper's own: a worker's file cannot name another ref.
            let own = format!("refs/board/saved/{}", ending.reference);
            if saved.reference.as_deref() == Some(own.as_str()) && !build.saved_refs.contains(&own) {
                build.saved_refs.push(own);
            }
            if !saved.worktree {
                build.worktree = None;
            }
        }
        let note = Some(sentence.to_owned());
        self.finish(ending, None, note, Vec::new(), stamp)
    }

    fn succeed(
        &mut self,
        ending: Ending,
        outcome: &Outcome,
        documents: &[WrittenDocument],
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let produced =
            outcome.produced.as_ref().ok_or_else(|| Refusal::Fault("a success without an answer".into()))?;
        match produced {
            Produced::Build(built) => self.built(ending, built, stamp, policy),
            Produced::Review { commit, decision, report } => {
                self.reviewed(ending, outcome, (commit, *decision, report), documents, stamp)
            }
            Produced::Research { report } => self.researched(ending, outcome, report, documents, stamp),
            Produced::Split { children } => self.split_up(ending, children, documents, stamp),
            Produced::Question(question) => self.asked(ending, question, stamp),
            Produced::Intent(intent) => self.proposed(ending, intent, documents, stamp),
        }
    }

    /// One successful build gives exactly one review job, bound to its commit.
    fn built(
        &mut self,
        mut ending: Ending,
        built: &Built,
        stamp: &Stamp,
        policy: &Policy,
    ) -> Result<Applied, Refusal> {
        let card = self.card_mut(&ending.id)?;
        let intent = match card.job.as_ref().map(|job| &job.payload) {
            Some(Payload::Builder(payload)) => payload.intent.clone(),
            _ => return Err(Refusal::Fault("the job is not a builder's".into())),
        };
        let build = card.build.as_mut().ok_or_else(|| Refusal::Fault("there is no build".into()))?;
        if built.branch != build.branch {
            return Err(Refusal::Fault(format!("the branch is {}, not {}", build.branch, built.branch)));
        }
        build.check_commit = Some(built.commit.clone());
        let base = build.diff_base.clone();
        let payload = ReviewPayload { intent, commit: built.commit.clone(), base };
        let card = self.card(&ending.id)?.clone();
        let job = self.new_job(&card, JobType::Review, Payload::Review(payload), stamp, policy)?;
        let reference = job.reference();
        let card = self.card_mut(&ending.id)?;
        card.job = Some(job);
        card.interruptions = 0;
        ending.event = EventKind::Built;
        ending.to = Phase::Review;
        let note = (!built.put_back.is_empty())
            .then(|| cut_sentence(format!("zurückgesetzt: {}", built.put_back.join(", "))));
        self.finish(ending, Some(reference), note, Vec::new(), stamp)
    }

    fn reviewed(
        &mut self,
        mut ending: Ending,
        outcome: &Outcome,
        (commit, decision, report): (&str, Decision, &str),
        documents: &[WrittenDocument],
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let card = self.card_mut(&ending.id)?;
        let bound = match card.job.as_ref().map(|job| &job.payload) {
            Some(Payload::Review(payload)) => payload.commit == commit,
            _ => false,
        };
        if !bound {
            return Err(Refusal::Fault(format!(
                "the review is not of the commit under review but of {commit}"
            )));
        }
        let path = format!("docs/review/{}.md", ending.id);
        card.reports.push(Report {
            path,
            job: ending.reference.job,
            at: outcome.finished_at,
            profile: outcome.profile.clone(),
            commit: Some(commit.to_owned()),
            decision: Some(decision),
            missing_headings: documents::missing_headings(report),
        });
        card.job = None;
        (ending.event, ending.to) = match decision {
            Decision::Ready => (EventKind::ReviewedReady, Phase::BereitFuerDeployment),
            Decision::Back => (EventKind::ReviewedBack, Phase::PlanungMitFeedback),
        };
        self.finish(ending, None, None, documents.to_vec(), stamp)
    }

    fn researched(
        &mut self,
        mut ending: Ending,
        outcome: &Outcome,
        _report: &str,
        documents: &[WrittenDocument],
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let card = self.card_mut(&ending.id)?;
        card.reports.push(Report {
            path: format!("docs/research-report/{}.md", ending.id),
            job: ending.reference.job,
            at: outcome.finished_at,
            profile: outcome.profile.clone(),
            commit: None,
            decision: None,
            missing_headings: Vec::new(),
        });
        card.job = None;
        ending.event = EventKind::Reported;
        ending.to = Phase::RechercheFertig;
        self.finish(ending, None, None, documents.to_vec(), stamp)
    }

    /// All children or none: each a linked card in `geplant`; nothing starts by itself.
    fn split_up(
        &mut self,
        mut ending: Ending,
        children: &[ProposedChild],
        documents: &[WrittenDocument],
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        if let Some(taken) =
            children.iter().find(|child| self.cards.contains_key(&CardId::Slug(child.slug.clone())))
        {
            return Err(Refusal::Taken(taken.slug.clone()));
        }
        let parent =
            ending.id.slug().cloned().ok_or_else(|| Refusal::Fault("only intents are split".into()))?;
        for child in children {
            let source = match child.kind {
                ChildKind::Intent => Source::Intent,
                ChildKind::Research => Source::Research,
            };
            let id = CardId::Slug(child.slug.clone());
            let title = documents::title(&child.body).unwrap_or_else(|| child.slug.to_string());
            let mut card = Card::new(id.clone(), source, title, Phase::Geplant, stamp.now);
            card.choice = choice_of(child.profile.as_ref(), child.iterations);
            card.parent = Some(parent.clone());
            self.cards.insert(id.clone(), card);
            let mut made = step(None, Phase::Geplant, EventKind::ChildrenWritten, stamp);
            made.transition = derived_id(stamp, child.slug.as_str());
            let own: Vec<WrittenDocument> = documents
                .iter()
                .filter(|d| d.path.ends_with(&format!("/{}.md", child.slug)))
                .cloned()
                .collect();
            self.commit_step(&id, made, own);
        }
        let card = self.card_mut(&ending.id)?;
        card.children.extend(children.iter().map(|child| child.slug.clone()));
        card.job = None;
        ending.event = EventKind::ChildrenWritten;
        ending.to = Phase::Aufgeteilt;
        self.finish(ending, None, None, Vec::new(), stamp)
    }

    /// What every applied outcome does at its end, in the same write.
    pub(super) fn finish(
        &mut self,
        ending: Ending,
        job: Option<JobRef>,
        note: Option<String>,
        documents: Vec<WrittenDocument>,
        stamp: &Stamp,
    ) -> Result<Applied, Refusal> {
        let card = self.card_mut(&ending.id)?;
        card.applied = Some(ending.applied);
        card.phase = ending.to;
        card.cancel_asked = None;
        card.applying = None;
        if ending.event != EventKind::Unavailable {
            card.waiting = None;
        }
        let mut made = step(Some(ending.from), ending.to, ending.event, stamp);
        made.job = Some(job.unwrap_or(ending.reference));
        made.profile = Some(ending.profile);
        made.note = note;
        self.commit_step(&ending.id, made, documents);
        self.note_terminal(&ending.id, stamp.now);
        Ok(Applied {
            card: ending.id,
            event: ending.event,
            from: Some(ending.from),
            to: Some(ending.to),
            job,
            parked_until: None,
            repeated: false,
        })
    }

    /// Pauses the profile of an `unavailable` outcome: 1, 5, 15, 60 minutes, or what the runtime named.
    fn pause_profile(&mut self, outcome: &Outcome, stamp: &Stamp) {
        let target = PauseTarget::Profile(outcome.profile.clone());
        let old = self.pauses.iter().find(|p| p.target == target && p.by == BOARD_ACTOR);
        // Several runs of one outage count once.
        if old.is_some_and(|p| p.until.is_some_and(|until| stamp.now < until)) {
            return;
        }
        let strikes = old.map_or(0, |p| p.strikes.saturating_add(1));
        let step = usize::try_from(strikes).unwrap_or(usize::MAX).min(PAUSE_MINUTES.len() - 1);
        let seconds = outcome.retry_after_s.map_or(PAUSE_MINUTES[step] * 60, i64::from).clamp(1, 24 * 3600);
        self.pauses.retain(|p| !(p.target == target && p.by == BOARD_ACTOR));
        self.pauses.push(Pause {
            target,
            since: stamp.now,
            until: Some(stamp.now.plus_seconds(seconds)),
            by: BOARD_ACTOR.to_owned(),
            reason: cut_sentence(outcome.sentence.clone()),
            strikes,
        });
    }
}

/// How a card's run ends: what is common to all outcomes.
pub(super) struct Ending {
    pub(super) id: CardId,
    pub(super) from: Phase,
    pub(super) event: EventKind,
    pub(super) to: Phase,
    /// The job and attempt that the outcome is of.
    pub(super) applied: JobRef,
    /// The same; in a repetition the next attempt.
    pub(super) reference: JobRef,
    pub(super) profile: String,
}

/// Another outcome that was there before the cancel counts as itself; these two then count as cancelled.
fn effective_result(card: &Card, outcome: &Outcome) -> RunResult {
    let gives_way = matches!(outcome.result, RunResult::Interrupted | RunResult::Unavailable);
    if gives_way && card.cancel_asked.is_some() { RunResult::Cancelled } else { outcome.result }
}

fn failed_event(kind: JobType) -> EventKind {
    match kind {
        JobType::Builder => EventKind::BuildEnded,
        JobType::Review => EventKind::ReviewFailed,
        JobType::Research => EventKind::ResearchFailed,
        JobType::Split => EventKind::SplitFailed,
        JobType::Draft => EventKind::DraftFailed,
    }
}

/// The planner's request, from the headers of its block, as the card's choice.
pub(super) fn choice_of(profile: Option<&ProfileRequest>, iterations: Option<u32>) -> Choice {
    Choice {
        profile: profile.map(|p| p.profile.clone()),
        reason: profile.map(|p| p.reason.clone()),
        iterations,
    }
}

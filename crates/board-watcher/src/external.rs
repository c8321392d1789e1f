//! The external builder: another service that builds, reached through two directories (queue.md, "Builder inbox").
//!
//! Jobs go out by copy and stay in `running/extern/` until their result is applied or they are given up. A result is
//! looked at as a stranger's: what it names is checked against the card, paths in it are ignored, and the commit that
//! it brings passes the limits of our own check commits. Then it is an outcome like any other.
use std::time::Duration;

use anyhow::Context as _;
use board_core::edge::clock;
use board_core::edge::files::read::{Read, Regular};
use board_core::edge::git::Oid;
use board_core::edge::queue::external::Delivered;
use board_core::edge::queue::outcomes::Left;
use board_core::edge::settings::ExternalBuilder;
use board_core::edge::worktree::{CheckRefusal, DeliveryRefusal};
use board_core::model::apply::Standing;
use board_core::model::board::Board;
use board_core::model::card::CardId;
use board_core::model::job::{Job, JobRef, JobType, Lane, Payload};
use board_core::model::outcome::{
    Built, MAX_OUTCOME_BYTES, Outcome, Produced, RunResult, cut_sentence, parse_outcome,
};
use board_core::model::time::Timestamp;
use nix::unistd::{Uid, User, geteuid};

use crate::Watcher;

/// Age in seconds from which a result that does not parse is no longer being written.
const SETTLED: i64 = 2;
/// How long after the limit of a run an answer may still come.
const GRACE: Duration = Duration::from_secs(3_600);
/// What a card says whose builder does not answer.
const NO_ANSWER: &str = "Keine Antwort vom Builder: Der Auftrag kann aufgegeben werden.";
/// Why a second result is not taken.
const ANSWERED: &str = "this job and attempt has an outcome already";
/// What stands for the runtime of such a run.
const RUNTIME: &str = "extern";

/// What a pass found.
#[derive(Debug, Default)]
pub struct Pass {
    /// Whether something was left undone that no event tells of.
    pub undone: bool,
    /// When there is something to look at by itself.
    pub next: Option<Timestamp>,
    /// Cards that wait for an answer that is overdue, with a German sentence.
    pub waits: Vec<(CardId, String)>,
}

impl Pass {
    fn at(&mut self, at: Timestamp) {
        self.next = [self.next, Some(at)].into_iter().flatten().min();
    }
}

/// What becomes of a file.
enum Verdict {
    /// It is this outcome.
    Take(Box<Outcome>),
    /// It is nothing of ours: the field at fault, where it is one, and why.
    Refuse(Option<&'static str>, String),
    /// It is perhaps still being written.
    Later(Timestamp),
}

/// One pass; nothing where no external builder is configured.
///
/// # Errors
/// If one of the two directories, the queue or the repository cannot be used.
pub fn pass(watcher: &Watcher, now: Timestamp) -> anyhow::Result<Pass> {
    let mut pass = Pass::default();
    let Some(builder) = &watcher.settings.builder else { return Ok(pass) };
    take_results(watcher, builder, now, &mut pass)?;
    let board = watcher.store.read_synced()?;
    for job in watcher.queue.handed_over()? {
        match current(&board, job) {
            // Applied, or given up.
            None => drop(watcher.queue.extern_to_done(job)?),
            Some((card, job)) => {
                let limit = watcher.settings.limits.wall_time + GRACE;
                let due = job.created_at.plus_seconds(i64::try_from(limit.as_secs()).unwrap_or(i64::MAX));
                if now < due { pass.at(due) } else { pass.waits.push((card.clone(), NO_ANSWER.to_owned())) }
            }
        }
    }
    let published = watcher.queue.view(&[], true)?.inbox;
    for (_, job) in published.into_iter().filter(|(lane, _)| *lane == Lane::Build) {
        let Some((card, of_card)) = current(&board, job) else { continue };
        if board.pause_of(of_card, now).is_none() && watcher.queue.hand_over(&builder.inbox, job)? {
            tracing::info!(JOB_ID = %job.job, CARD_ID = %card, "{card}: handed over to {}", builder.inbox.display());
        }
    }
    Ok(pass)
}

/// The card and the job of a reference, where it is the current one.
fn current(board: &Board, job: JobRef) -> Option<(&CardId, &Job)> {
    let card = board.card_of(job)?;
    card.current_job().filter(|of| of.reference() == job).map(|of| (&card.id, of))
}

fn take_results(
    watcher: &Watcher,
    builder: &ExternalBuilder,
    now: Timestamp,
    pass: &mut Pass,
) -> anyhow::Result<()> {
    for delivered in watcher.queue.read_delivered(&builder.results)? {
        let name = delivered.name.to_string_lossy().into_owned();
        let board = watcher.store.read_synced()?;
        let verdict = match judge(watcher, builder, &board, &delivered, now) {
            Ok(verdict) => verdict,
            Err(error) => {
                tracing::error!("the result {name} cannot be looked at now: {error:#}");
                pass.undone = true;
                continue;
            }
        };
        let refused = match verdict {
            Verdict::Later(at) => {
                pass.at(at);
                continue;
            }
            Verdict::Refuse(field, why) => Some((field, why)),
            Verdict::Take(outcome) => match watcher.queue.leave_outcome(&outcome)? {
                Left::New => {
                    tracing::info!(JOB_ID = %outcome.job_id, CARD_ID = %outcome.card_id, "the builder answered: {}", outcome.result.id());
                    None
                }
                Left::AnotherWasFirst => Some((None, ANSWERED.to_owned())),
            },
        };
        match refused {
            None => watcher.queue.remove_delivered(&builder.results, &delivered.name)?,
            Some((field, why)) => {
                tracing::warn!("the result {name} is not taken: {why}; it lies in rejected/");
                watcher.queue.reject_delivered(&builder.results, &delivered, &why, field)?;
            }
        }
    }
    Ok(())
}

fn judge(
    watcher: &Watcher,
    builder: &ExternalBuilder,
    board: &Board,
    delivered: &Delivered,
    now: Timestamp,
) -> anyhow::Result<Verdict> {
    let refuse = |field: Option<&'static str>, why: String| Ok(Verdict::Refuse(field, why));
    let file = match &delivered.read {
        Read::Bytes(file) => file,
        Read::NotRegular(kind) => {
            return refuse(None, format!("it is {}, a result is a regular file", kind.words()));
        }
        Read::TooLarge { .. } => {
            return refuse(None, format!("it has more than {MAX_OUTCOME_BYTES} bytes"));
        }
        Read::Missing | Read::Denied => return refuse(None, "the service user may not read it".to_owned()),
    };
    if let Some(why) = foreign(builder, file)? {
        return refuse(None, why);
    }
    let given = match parse_outcome(&file.bytes) {
        Ok(given) => given,
        Err(error) => {
            // A clock that was set back makes no file wait for ever.
            return if (0..SETTLED).contains(&now.seconds_since(file.modified)) {
                Ok(Verdict::Later(file.modified.plus_seconds(SETTLED)))
            } else {
                refuse(None, error.to_string())
            };
        }
    };
    let reference = given.reference();
    if delivered.name.to_str() != Some(reference.outcome_file().as_str()) {
        return refuse(
            None,
            format!("its name is not the one of its job and attempt, {}", reference.outcome_file()),
        );
    }
    if given.kind != JobType::Builder {
        return refuse(
            Some("type"),
            format!("it is of type {}; a builder leaves results of builds", given.kind.id()),
        );
    }
    match board.standing(&given.card_id, reference) {
        Standing::Current => {}
        Standing::Applied => return refuse(Some("job_id"), ANSWERED.to_owned()),
        Standing::Stale if watcher.queue.view(&[reference], false)?.done_outcomes.contains(&reference) => {
            return refuse(Some("job_id"), ANSWERED.to_owned());
        }
        Standing::Stale => {
            let why = match board.cards.get(&given.card_id) {
                None => "there is no such card",
                Some(_) => {
                    "its job and attempt are not the card's current ones: it comes too late, or was given up"
                }
            };
            let field = if board.cards.contains_key(&given.card_id) { "job_id" } else { "card_id" };
            return refuse(Some(field), why.to_owned());
        }
    }
    let Some((_, job)) = current(board, reference) else {
        return refuse(Some("job_id"), "it is the current job of no card".to_owned());
    };
    let Payload::Builder(payload) = &job.payload else {
        return refuse(Some("type"), "the card does not wait for a build".to_owned());
    };
    let mut ours = Outcome::without_run(job, given.result, given.sentence, clock::now());
    ours.started_at = given.started_at;
    ours.finished_at = given.finished_at;
    ours.runtime = Some(RUNTIME.to_owned());
    ours.model = given.model.map(cut_sentence);
    ours.usage = given.usage;
    ours.retry_after_s = given.retry_after_s;
    if let Some(Produced::Build(built)) = given.produced {
        let Some(build) = board.cards.get(&given.card_id).and_then(|card| card.build.as_ref()) else {
            return refuse(Some("card_id"), "the card has no build".to_owned());
        };
        let commit = match Oid::parse(&built.commit) {
            Ok(commit) => commit,
            Err(error) => return refuse(Some("produced.build.commit"), error.to_string()),
        };
        let base = Oid::parse(&payload.base_commit).context("the job's base")?;
        match watcher.worktrees.check_delivered(&build.branch, &base, &commit) {
            Ok(files) => {
                ours.produced = Some(Produced::Build(Built {
                    branch: build.branch.clone(),
                    base: payload.base_commit.clone(),
                    commit: commit.to_string(),
                    files_changed: u32::try_from(files).unwrap_or(u32::MAX),
                    summary: cut_sentence(built.summary),
                    put_back: Vec::new(),
                }));
            }
            Err(DeliveryRefusal::Content(CheckRefusal::NoChange { .. })) => {
                ours.result = RunResult::NoChange;
                ours.sentence = cut_sentence(format!(
                    "Der Builder hat nichts geändert. Er sagt: {}",
                    built.summary.trim()
                ));
            }
            Err(DeliveryRefusal::Content(CheckRefusal::Worktree(error))) => return Err(error.into()),
            Err(refusal) => {
                ours.result = RunResult::Failed;
                let why = refusal.sentence_de();
                ours.sentence = cut_sentence(format!("Der Commit des Builders wird nicht übernommen: {why}"));
            }
        }
    }
    Ok(Verdict::Take(Box::new(ours)))
}

/// Why a file's owner is not believed; none if he is.
fn foreign(builder: &ExternalBuilder, file: &Regular) -> anyhow::Result<Option<String>> {
    let named = match &builder.user {
        Some(name) => {
            let user = User::from_name(name).with_context(|| format!("the user {name}"))?;
            user.map(|user| user.uid)
        }
        None => Some(geteuid()),
    };
    let owner = Uid::from_raw(file.uid);
    if owner.is_root() || Some(owner) == named {
        return Ok(None);
    }
    let who = builder.user.as_deref().unwrap_or("the service's own user");
    Ok(Some(format!("it belongs to uid {owner}; results of {who} and of root are taken")))
}

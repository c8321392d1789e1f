//! The builder: a worktree of its own, and one check commit by the wrapper of what it left there.

use std::path::PathBuf;

use anyhow::Context as _;
use board_core::edge::settings::Settings;
use board_core::edge::worktree::{CheckCommitRequest, CheckRefusal, Worktree};
use board_core::model::job::{BuilderPayload, Job, Payload};
use board_core::model::outcome::{Built, Outcome, Produced, RunResult, SavedWork, cut_sentence};
use board_core::model::redact::Redactor;
use minijinja::{Value, context};

use super::{Repository, document, oid};
use crate::play::{Played, Stage, View};
use crate::prompts::{self, Task};
use crate::sandbox::Bind;
use crate::words::pick;

pub(super) fn play(stage: &Stage<'_>, job: &Job) -> anyhow::Result<Outcome> {
    let payload = payload(job)?;
    let repository = Repository::open(stage.settings)?;
    let base = oid(&payload.base_commit)?;
    let slug = job.card_id.slug().context("a build of a card without a slug")?;
    let worktree = {
        let _lock = repository.lock()?;
        let worktree = repository.worktrees.create(slug, payload.number, &base)?;
        repository.worktrees.verify(&worktree, &base)?;
        worktree
    };
    let view = View {
        write: vec![Bind::same(&worktree.path)],
        // The file that names the git directory is not the agent's to change.
        read: vec![Bind::same(worktree.path.join(".git"))],
        directory: worktree.path.clone(),
        measured: Some(worktree.path.clone()),
        env: vec![("BOARD_COMMIT".to_owned(), payload.base_commit.clone())],
    };
    let prompt = prompt(stage.settings, job)?;
    let played = stage.play(job, &view, &prompt)?;
    finish(&repository, &worktree, job, payload, played, stage)
}

/// The prompt of a builder's job.
pub(super) fn prompt(settings: &Settings, job: &Job) -> anyhow::Result<String> {
    prompts::render(
        Task::Build,
        settings.board.language,
        settings.roles.builder.template.as_deref(),
        &values(settings, job, payload(job)?),
    )
}

fn finish(
    repository: &Repository,
    worktree: &Worktree,
    job: &Job,
    payload: &BuilderPayload,
    played: Played,
    stage: &Stage<'_>,
) -> anyhow::Result<Outcome> {
    let _lock = repository.lock()?;
    let base = oid(&payload.base_commit)?;
    let mut outcome = played.outcome;
    if played.conclusion.result == RunResult::Succeeded {
        let summary = played.reading.final_message.unwrap_or_default();
        let (card, id) = (job.card_id.to_string(), job.reference().to_string());
        let request = CheckCommitRequest {
            base: &base,
            summary: &summary,
            trailers: &[("Board-Card", &card), ("Board-Job", &id), ("Board-Profile", &job.profile)],
            secrets: &played.redactor,
            saved_ref: &saved_ref(job),
        };
        match repository.worktrees.check_commit(worktree, &request) {
            Ok(commit) => {
                outcome.sentence = pick(
                    stage.language(),
                    match commit.files_changed {
                        1 => "1 Datei geändert".to_owned(),
                        many => format!("{many} Dateien geändert"),
                    },
                    match commit.files_changed {
                        1 => "1 file changed".to_owned(),
                        many => format!("{many} files changed"),
                    },
                );
                outcome.produced = Some(Produced::Build(Built {
                    branch: worktree.branch.clone(),
                    base: payload.base_commit.clone(),
                    commit: commit.oid.to_string(),
                    files_changed: u32::try_from(commit.files_changed).unwrap_or(u32::MAX),
                    summary: cut_sentence(summary),
                    put_back: named(&commit.reverted, &played.redactor),
                }));
                return Ok(outcome);
            }
            Err(CheckRefusal::NoChange { .. }) => {
                outcome.result = RunResult::NoChange;
                outcome.sentence = pick(
                    stage.language(),
                    format!("Der Builder hat nichts geändert. Er sagt: {}", summary.trim()),
                    format!("The builder changed nothing. It says: {}", summary.trim()),
                );
                outcome.sentence = cut_sentence(outcome.sentence);
            }
            Err(refusal) => {
                outcome.result = RunResult::Failed;
                // It names files, and an agent names them.
                let said = pick(
                    stage.language(),
                    format!("Kein Prüf-Commit: {}", refusal.sentence_de()),
                    format!("No check commit: {refusal}"),
                );
                outcome.sentence = cut_sentence(played.redactor.clean(&said).into_owned());
            }
        }
    }
    outcome.saved = Some(save(repository, worktree, job, payload)?);
    Ok(outcome)
}

/// Paths as they are told: an agent names them.
fn named(paths: &[PathBuf], redactor: &Redactor) -> Vec<String> {
    paths.iter().map(|path| redactor.clean(&path.display().to_string()).into_owned()).collect()
}

/// Keeps what a build left under its ref. The worktree stays.
fn save(
    repository: &Repository,
    worktree: &Worktree,
    job: &Job,
    payload: &BuilderPayload,
) -> anyhow::Result<SavedWork> {
    let base = oid(&payload.base_commit)?;
    let name = saved_ref(job);
    let message = format!(
        "board: saved work of {}\n\nBoard-Card: {}\nBoard-Job: {}\n",
        job.card_id,
        job.card_id,
        job.reference()
    );
    let saved = repository.worktrees.save(worktree, &base, &name, &message)?;
    Ok(SavedWork { reference: saved.map(|_| name), worktree: true })
}

/// Keeps the work of a build whose worker died.
pub(super) fn save_orphan(settings: &Settings, job: &Job) -> anyhow::Result<SavedWork> {
    let payload = payload(job)?;
    let repository = Repository::open(settings)?;
    let slug = job.card_id.slug().context("a build of a card without a slug")?;
    let _lock = repository.lock()?;
    let worktree = repository.worktrees.worktree(slug, payload.number);
    if !worktree.path.exists() {
        return Ok(SavedWork { reference: None, worktree: false });
    }
    match save(&repository, &worktree, job, payload) {
        Ok(saved) => Ok(saved),
        // Half-made, or no longer what it was: nothing of it can be kept as a commit, and it stays as it is.
        Err(error) => {
            tracing::warn!("{}: {error:#}; the worktree is left as it is", worktree.path.display());
            Ok(SavedWork { reference: None, worktree: true })
        }
    }
}

fn saved_ref(job: &Job) -> String {
    format!("refs/board/saved/{}", job.reference())
}

fn payload(job: &Job) -> anyhow::Result<&BuilderPayload> {
    match &job.payload {
        Payload::Builder(payload) => Ok(payload),
        Payload::Review(_) | Payload::Research(_) | Payload::Split(_) | Payload::Draft(_) => {
            anyhow::bail!("{}: the payload is not a builder's", job.reference())
        }
    }
}

fn values(settings: &Settings, job: &Job, payload: &BuilderPayload) -> Value {
    let feedback = payload.feedback.clone().unwrap_or_default();
    context! {
        iterations => job.iteration_limit,
        wall_time => crate::words::span(settings.limits.wall_time),
        idle_time => crate::words::span(settings.limits.idle_time),
        guidance => job.guidance.as_ref().map(|guidance| guidance.text.clone()),
        base_commit => payload.base_commit.clone(),
        intent => document(&payload.intent),
        resume => payload.resume.as_ref().map(|resume| resume.before.clone()),
        note => feedback.note,
        reports => feedback.reports,
    }
}

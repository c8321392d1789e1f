//! The readers (reviewer, researcher, planner): a clean read-only view, one well-formed block as answer.
//!
//! The view is compared before and after; nothing is taken from a run that changed it.

use std::path::Path;

use anyhow::Context as _;
use board_core::edge::files::create_dirs_private;
use board_core::edge::git::Cut;
use board_core::edge::settings::Settings;
use board_core::edge::worktree::{Fingerprint, readers_tree, tree_fingerprint};
use board_core::model::job::{DraftPayload, Job, Payload, ReviewPayload, Speaker};
use board_core::model::marker::draft::{DraftReply, ProposedIntent, Question};
use board_core::model::marker::research::ResearchReply;
use board_core::model::marker::review::{Decision, ReviewReply};
use board_core::model::marker::split::{ChildKind, ProposedChild};
use board_core::model::marker::{MarkerError, ReplyRules, draft, research, review, split};
use board_core::model::outcome::{Outcome, Produced, RunResult, cut_sentence};
use board_core::model::profile::ITERATION_CAP;
use board_core::model::slug::Slug;
use minijinja::{Value, context};

use super::{Repository, document, oid};
use crate::play::{Stage, View};
use crate::prompts::{self, Task};
use crate::sandbox::Bind;
use crate::words::{Language, pick};

/// Longest diff that a reviewer is given, in bytes.
const MAX_DIFF_BYTES: usize = 16 << 20;
/// Commits of the log that a reader is given.
const MAX_LOG_COMMITS: usize = 200;
/// Longest log, in bytes.
const MAX_LOG_BYTES: usize = 1 << 20;
/// Differences that are named.
const MAX_NAMED: usize = 20;

pub(super) fn play(stage: &Stage<'_>, job: &Job) -> anyhow::Result<Outcome> {
    let directory = stage.directory.join("view");
    create_dirs_private(&directory)?;
    let diff_cut = fill(stage.settings, job, &directory)?;
    let before = tree_fingerprint(&directory)?;
    let view = View {
        read: vec![Bind::same(&directory)],
        directory: directory.clone(),
        env: env(&job.payload),
        ..View::default()
    };
    let prompt = told(stage.settings, job, diff_cut)?;
    let played = stage.play(job, &view, &prompt)?;
    let mut outcome = played.outcome;
    if let Some(list) = changed(&before, &tree_fingerprint(&directory)?) {
        let list = played.redactor.clean(&list);
        outcome.result = RunResult::Failed;
        outcome.sentence = cut_sentence(pick(
            stage.language(),
            format!("Der Lauf hat seinen Lesebaum verändert und zählt nicht: {list}"),
            format!("The run changed the tree that it may only read and does not count: {list}"),
        ));
        return Ok(outcome);
    }
    if played.conclusion.result != RunResult::Succeeded {
        return Ok(outcome);
    }
    let message = played.reading.final_message.unwrap_or_default();
    let reply = if played.reading.cut {
        Err(pick(
            stage.language(),
            "Die Schlussnachricht ist zu lang; ihr Anfang fehlt",
            "The final message is too long; its beginning is missing",
        ))
    } else {
        parse(stage, job, &message).map_err(|error| match stage.language() {
            Language::De => error.sentence_de(),
            Language::En => error.sentence_en(),
        })
    };
    match reply {
        Ok(produced) => outcome.produced = Some(produced),
        Err(sentence) => {
            outcome.result = RunResult::InvalidReply;
            outcome.sentence = cut_sentence(sentence);
            outcome.reply = keep(stage, job, &message)?;
        }
    }
    Ok(outcome)
}

/// Keeps the text of a refused reply beside the log.
fn keep(stage: &Stage<'_>, job: &Job, message: &str) -> anyhow::Result<Option<String>> {
    let name = format!("{}.reply.md", job.reference());
    let path = stage.settings.board.state_dir.join("logs").join(&name);
    board_core::edge::files::replace_durable(&path, message.as_bytes())?;
    Ok(Some(name))
}

fn changed(before: &Fingerprint, after: &Fingerprint) -> Option<String> {
    let differences = before.differences(after);
    if differences.is_empty() {
        return None;
    }
    let named: Vec<String> =
        differences.iter().take(MAX_NAMED).map(|difference| format!("{difference:?}")).collect();
    Some(named.join(", "))
}

fn parse(stage: &Stage<'_>, job: &Job, message: &str) -> Result<Produced, MarkerError> {
    let profiles: Vec<String> = stage.settings.profiles.keys().cloned().collect();
    let rules = ReplyRules {
        profiles: &profiles,
        iteration_cap: stage.settings.limits.iterations.min(ITERATION_CAP),
    };
    match &job.payload {
        Payload::Review(payload) => review::parse(message, &payload.commit).map(|reply| Produced::Review {
            commit: payload.commit.clone(),
            decision: reply.decision,
            report: reply.report,
        }),
        Payload::Research(_) => {
            research::parse(message, &job.id).map(|reply| Produced::Research { report: reply.report })
        }
        Payload::Split(_) => {
            split::parse(message, &job.id, &rules).map(|children| Produced::Split { children })
        }
        Payload::Draft(_) | Payload::Builder(_) => draft::parse(message, &rules).map(|reply| match reply {
            DraftReply::Question(question) => Produced::Question(question),
            DraftReply::Intent(intent) => Produced::Intent(intent),
        }),
    }
}

/// The prompt of a reader's job, without its view. Writes nothing.
pub(super) fn prompt(settings: &Settings, job: &Job) -> anyhow::Result<String> {
    let diff_cut = match &job.payload {
        Payload::Review(payload) => diff(&Repository::open(settings)?, payload)?.more,
        Payload::Research(_) | Payload::Split(_) | Payload::Draft(_) | Payload::Builder(_) => false,
    };
    told(settings, job, diff_cut)
}

/// The prompt; `diff_cut` tells whether the diff beside it is whole.
fn told(settings: &Settings, job: &Job, diff_cut: bool) -> anyhow::Result<String> {
    let (task, values) = values(settings, job, diff_cut)?;
    let template = settings.roles.get(task.role()).template.as_deref();
    prompts::render(task, settings.board.language, template, &values)
}

/// Environment beyond the common one.
fn env(payload: &Payload) -> Vec<(String, String)> {
    let commit = match payload {
        Payload::Review(payload) => &payload.commit,
        Payload::Research(payload) => &payload.commit,
        Payload::Split(payload) => &payload.commit,
        Payload::Draft(_) | Payload::Builder(_) => return Vec::new(),
    };
    vec![("BOARD_COMMIT".to_owned(), commit.clone())]
}

/// Fills the view. True if the diff had to be cut.
fn fill(settings: &Settings, job: &Job, directory: &Path) -> anyhow::Result<bool> {
    match &job.payload {
        Payload::Review(payload) => {
            let repository = Repository::open(settings)?;
            tree(&repository, &payload.commit, directory)?;
            let diff = diff(&repository, payload)?;
            write(directory, "diff.patch", &diff.bytes)?;
            write(directory, "intent.md", payload.intent.text.as_bytes())?;
            return Ok(diff.more);
        }
        Payload::Research(payload) => {
            tree(&Repository::open(settings)?, &payload.commit, directory)?;
            write(directory, "question.md", payload.question.text.as_bytes())?;
        }
        Payload::Split(payload) => {
            tree(&Repository::open(settings)?, &payload.commit, directory)?;
            write(directory, "intent.md", payload.intent.text.as_bytes())?;
        }
        Payload::Draft(_) => {}
        Payload::Builder(_) => anyhow::bail!("{}: a builder's payload in a reader's job", job.reference()),
    }
    Ok(false)
}

fn diff(repository: &Repository, payload: &ReviewPayload) -> anyhow::Result<Cut> {
    let (base, commit) = (oid(&payload.base)?, oid(&payload.commit)?);
    Ok(repository.git.diff(&base, &commit, MAX_DIFF_BYTES)?)
}

/// The task and what its template is given.
fn values(settings: &Settings, job: &Job, diff_cut: bool) -> anyhow::Result<(Task, Value)> {
    let common = context! {
        iterations => job.iteration_limit,
        wall_time => crate::words::span(settings.limits.wall_time),
        idle_time => crate::words::span(settings.limits.idle_time),
        guidance => job.guidance.as_ref().map(|guidance| guidance.text.clone()),
        iteration_cap => settings.limits.iterations.min(ITERATION_CAP),
        profiles => settings.profiles.iter().map(|(name, profile)| {
            context! { name => name, description => profile.description.clone() }
        }).collect::<Vec<_>>(),
    };
    Ok(match &job.payload {
        Payload::Review(payload) => {
            let example = ReviewReply { decision: Decision::Ready, report: "# Review …\n".to_owned() };
            let values = context! {
                commit => payload.commit.clone(), base => payload.base.clone(), diff_cut => diff_cut,
                intent => document(&payload.intent),
                example => example.to_block(&payload.commit),
                ..common
            };
            (Task::Review, values)
        }
        Payload::Research(payload) => {
            let values = context! {
                commit => payload.commit.clone(),
                question => document(&payload.question),
                example => ResearchReply { report: "# …\n".to_owned() }.to_block(&job.id),
                ..common
            };
            (Task::Research, values)
        }
        Payload::Split(payload) => {
            let child = ProposedChild {
                slug: example_slug()?,
                kind: ChildKind::Intent,
                profile: None,
                iterations: None,
                body: "# Intent: …\n".to_owned(),
            };
            let values = context! {
                commit => payload.commit.clone(),
                intent => document(&payload.intent),
                example => split::to_block(&job.id, &[child]),
                ..common
            };
            (Task::Split, values)
        }
        Payload::Draft(payload) => (Task::Draft, draft_values(payload, &common)?),
        Payload::Builder(_) => anyhow::bail!("{}: a builder's payload in a reader's job", job.reference()),
    })
}

fn draft_values(payload: &DraftPayload, common: &Value) -> anyhow::Result<Value> {
    let question = Question { text: "…?".to_owned(), options: vec!["…".to_owned(), "…".to_owned()] };
    let intent = ProposedIntent {
        slug: example_slug()?,
        profile: None,
        iterations: None,
        body: "# Intent: …\n".to_owned(),
    };
    let conversation: Vec<String> = payload
        .conversation
        .iter()
        .map(|turn| {
            let who = match turn.who {
                Speaker::Operator => "Operator",
                Speaker::Planner => "Planner",
                Speaker::Board => "Board",
            };
            let options = match turn.options.as_slice() {
                [] => String::new(),
                options => format!("\n(optionen: {})", options.join(" | ")),
            };
            let chosen = turn.chosen.as_ref().map(|chosen| format!("[{chosen}] ")).unwrap_or_default();
            format!("{who}: {chosen}{}{options}", turn.text)
        })
        .collect();
    let revises = payload.revises.as_ref();
    Ok(context! {
        round => payload.round,
        conversation => conversation.join("\n\n"),
        question_example => question.to_block(),
        intent_example => intent.to_block(),
        slug => revises.map(|revision| revision.card.to_string()),
        intent => revises.map(|revision| document(&revision.intent)),
        reports => revises.map(|revision| revision.reports.clone()).unwrap_or_default(),
        ..common.clone()
    })
}

fn example_slug() -> anyhow::Result<Slug> {
    Slug::parse("kurzer-name").context("the example's slug")
}

/// The clean tree of a commit and its history beside it.
fn tree(repository: &Repository, commit: &str, directory: &Path) -> anyhow::Result<()> {
    let commit = oid(commit)?;
    let tree = directory.join("tree");
    // The private index lies in the repository's own lock directory, so this is a write of ours.
    let _lock = repository.lock()?;
    let (git, commit) = (&repository.git, &commit);
    let log = std::thread::scope(|scope| {
        let log = scope.spawn(|| git.log_text(commit, MAX_LOG_COMMITS, MAX_LOG_BYTES));
        readers_tree(git, commit, &tree)?;
        log.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    write(directory, "log.txt", &log.bytes)
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let path = directory.join(name);
    std::fs::write(&path, bytes).with_context(|| path.display().to_string())
}

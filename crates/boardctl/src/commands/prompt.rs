//! `boardctl prompt CARD ROLE`: what the role's agent would be told, word for word.
//!
//! Of a card that has a job of this role it is that job's prompt, else that of the job which a start would make now.
//! The worker renders both, so what is printed is what is sent. It reads the state and the repository, and needs no
//! running board.
use anyhow::Context as _;
use board_core::edge::clock;
use board_core::edge::documents::{Documents, Seed};
use board_core::edge::git::Head;
use board_core::edge::orders::{OrderError, Orders, StartFrom};
use board_core::edge::settings::{Language, Settings};
use board_core::edge::store::Store;
use board_core::model::board::{Board, Policy};
use board_core::model::card::{Card, CardId, Source};
use board_core::model::job::{Job, JobType, Payload};
use board_core::model::profile::RoleName;
use serde_json::json;

use super::sweep::open_git;
use crate::output::Out;
use crate::words;

/// Who asks, for jobs that are never made.
const ASKER: &str = "boardctl";

/// Prints a prompt.
///
/// # Errors
/// An unknown card, one on which the role has nothing to do, a state or a repository that cannot be read.
pub(crate) fn run(settings: &Settings, id: &CardId, role: RoleName, out: Out) -> anyhow::Result<()> {
    let board = Store::look_at(&settings.board.state_dir).read()?;
    let documents = documents(settings, &board)?;
    let card =
        card(&board, &documents, id)?.with_context(|| words::no_such_card(out.language, &id.to_string()))?;
    let job = job(settings, &board, &documents, &card, role, out.language)?;
    let prompt = board_worker::prompt(settings, &job)?;
    if out.json {
        let value = json!({
            "card": id.to_string(), "role": role.id(), "type": job.kind.id(), "profile": job.profile,
            "iterations": job.iteration_limit, "prompt": prompt,
        });
        return Ok(out.value(&value)?);
    }
    Ok(out.line(prompt.trim_end_matches('\n'))?)
}

fn documents(settings: &Settings, board: &Board) -> anyhow::Result<Documents> {
    let git = open_git(settings)?;
    let branch = match board.branch.as_ref().or(settings.board.branch.as_ref()) {
        Some(branch) => branch.clone(),
        None => match git.head_state()? {
            Head::Branch(branch) | Head::Unborn(branch) => branch,
            Head::Detached(_) => anyhow::bail!("the checkout is on no branch; set board.branch"),
        },
    };
    Ok(Documents::new(git, branch))
}

/// The card: its entry, else what its file and its record make of it.
fn card(board: &Board, documents: &Documents, id: &CardId) -> anyhow::Result<Option<Card>> {
    if let Some(card) = board.cards.get(id) {
        return Ok(Some(card.clone()));
    }
    let Some(slug) = id.slug() else { return Ok(None) };
    Ok(match documents.seed_card(slug)? {
        Seed::Card(card) => Some(*card),
        Seed::Nothing => None,
        Seed::Broken(why) => anyhow::bail!("{id}: {why}"),
    })
}

/// The card's job of this role, or the one that a start would make.
fn job(
    settings: &Settings,
    board: &Board,
    documents: &Documents,
    card: &Card,
    role: RoleName,
    language: Language,
) -> anyhow::Result<Job> {
    // A draft that waits for an answer shows its last round: what comes next is not written yet.
    let there = if card.source == Source::Draft { card.job.as_ref() } else { card.current_job() };
    if let Some(job) = there.filter(|job| job.kind.role() == role) {
        return Ok(job.clone());
    }
    let nothing = |why: &str| words::no_such_prompt(language, &card.id.to_string(), role.id(), why);
    let orders = Orders::new(documents);
    let (kind, payload) = match payload(&orders, card, role) {
        Ok(Some(made)) => made,
        Ok(None) => anyhow::bail!(nothing(&words::no_round(language))),
        Err(OrderError::Documents(error)) => return Err(error.into()),
        Err(error) => anyhow::bail!(nothing(&match language {
            Language::De => error.sentence_de(),
            Language::En => error.to_string(),
        })),
    };
    let (guidance, missing) = orders.guidance(&settings.roles)?;
    for sentence in missing {
        crate::output::complain(&words::failed(language, &sentence));
    }
    let policy = Policy { guidance, ..settings.policy() };
    Ok(board.new_job(card, kind, payload, &clock::stamp(ASKER), &policy)?)
}

/// What a start would order now, with the same choices as a click; none for a draft without a round.
fn payload(
    orders: &Orders<'_>,
    card: &Card,
    role: RoleName,
) -> Result<Option<(JobType, Payload)>, OrderError> {
    Ok(Some(match role {
        RoleName::Builder if card.source == Source::Intent => {
            let built = card.build.as_ref().is_some_and(|build| build.check_commit.is_some());
            let from = if built { StartFrom::Commit } else { StartFrom::Branch };
            (JobType::Builder, orders.start_payload(card, from)?)
        }
        RoleName::Builder => return Err(OrderError::WrongSource(card.source.id())),
        RoleName::Reviewer => (JobType::Review, orders.review_payload(card)?),
        RoleName::Researcher => (JobType::Research, orders.research_payload(card)?),
        RoleName::Planner if card.source == Source::Draft => return Ok(None),
        RoleName::Planner => (JobType::Split, orders.split_payload(card)?),
    }))
}

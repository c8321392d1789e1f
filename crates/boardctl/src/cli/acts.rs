//! The board's use-cases as commands: what a click on a card, or on the page of the system, does as well.
use std::path::PathBuf;

use board_core::model::apply::old::Belongs;
use board_core::model::card::CardId;
use board_core::model::job::Lane;
use board_core::model::phase::Phase;
use clap::{Args, Subcommand};

/// A use-case of the board.
#[derive(Debug, Subcommand)]
pub(crate) enum Act {
    /// Write down a new idea, or write a file as an intent or a research question
    New(New),
    /// Work out an intent with the planner
    Draft {
        /// What it is about
        #[arg(value_name = "TOPIC")]
        topic: String,
    },
    /// Answer the planner's question
    Answer {
        /// Id of the draft
        #[arg(value_name = "CARD", value_parser = super::card)]
        card: CardId,
        /// The answer; with --option a note to it
        #[arg(value_name = "TEXT", default_value = "", required_unless_present = "option")]
        text: String,
        /// One of the options of the question
        #[arg(long, value_name = "OPTION")]
        option: Option<String>,
        /// Only if this round is asked
        #[arg(long, value_name = "N")]
        round: Option<u32>,
    },
    /// Move a card to another phase
    Move {
        /// Its id
        #[arg(value_name = "CARD", value_parser = super::card)]
        card: CardId,
        /// Id of the phase
        #[arg(value_name = "PHASE", value_parser = phase)]
        to: Phase,
        #[command(flatten)]
        with: With,
    },
    /// Stop the run of a card
    Cancel(OnCard),
    /// Try again what failed; after a failed build it starts afresh
    Retry(OnCard),
    /// Go on with a failed or interrupted build in its worktree
    Resume(OnCard),
    /// Give a failed build up; its work is kept as a ref
    Discard(OnCard),
    /// Take a start back that is not published yet
    Undo(OnCard),
    /// Put a card away
    Archive(OnCard),
    /// Bring a card back from the archive, or a deleted idea or draft
    Restore(OnCard),
    /// Delete an idea or a draft; it can be brought back for 24 hours
    Delete(OnCard),
    /// Split an intent into children with the planner
    Split(OnCard),
    /// Put planned cards from before the board where they belong, in one go
    Adopt {
        /// Those that were in the repository before this day or moment, as 2026-09-01
        #[arg(long, value_name = "DATE")]
        all_before: String,
        /// Id of the phase: deployed or archiviert
        #[arg(long = "as", value_name = "PHASE", value_parser = belongs)]
        belongs: Belongs,
        /// Only say which they are
        #[arg(long)]
        dry_run: bool,
    },
    /// Link a card to a parent, or unlink it
    Link {
        /// Id of the child
        #[arg(value_name = "CARD", value_parser = super::card)]
        card: CardId,
        /// Id of the parent; without one it is unlinked
        #[arg(value_name = "PARENT", value_parser = super::card)]
        parent: Option<CardId>,
    },
    /// Say that a synthesis was read, so that it can be started
    Read(OnlyCard),
    /// Write the synthesis of a card whose children have all ended
    Synthesise(OnlyCard),
    /// Put a card before another of its column, or at its end
    Rank {
        /// Its id
        #[arg(value_name = "CARD", value_parser = super::card)]
        card: CardId,
        /// Id of the other one
        #[arg(long, value_name = "CARD", value_parser = super::card)]
        before: Option<CardId>,
    },
    /// Say which counts where a card's record was edited by hand
    AdoptFile {
        /// Its id
        #[arg(value_name = "CARD", value_parser = super::card)]
        card: CardId,
        /// The file in the repository, or what the board knows
        #[arg(long, value_name = "file|board", value_parser = ["file", "board"])]
        take: String,
    },
    /// Start nothing new: nothing at all, or nothing of a lane or a profile; what runs goes on
    Pause {
        #[command(flatten)]
        what: What,
        /// Why, for the board's first line
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Go on after a pause, also after one that a run made
    ResumeLanes {
        #[command(flatten)]
        what: What,
    },
}

/// A new card.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// Its title; a file may have it as its heading
    #[arg(value_name = "TITLE", required_unless_present_any = ["intent", "question"])]
    pub(crate) title: Option<String>,
    /// Its text, Markdown
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["intent", "question"])]
    pub(crate) text: Option<String>,
    /// Write this file as an intent; - reads it from the input
    #[arg(long, value_name = "FILE", conflicts_with = "question")]
    pub(crate) intent: Option<PathBuf>,
    /// Write this file as a research question; - reads it from the input
    #[arg(long, value_name = "FILE")]
    pub(crate) question: Option<PathBuf>,
    /// Slug of an intent or a question; otherwise it is made of the title
    #[arg(long, value_name = "SLUG")]
    pub(crate) slug: Option<String>,
}

/// A card.
#[derive(Debug, Args)]
pub(crate) struct OnlyCard {
    /// Its id
    #[arg(value_name = "CARD", value_parser = super::card)]
    pub(crate) card: CardId,
}

/// A card and what goes with the event.
#[derive(Debug, Args)]
pub(crate) struct OnCard {
    /// Its id
    #[arg(value_name = "CARD", value_parser = super::card)]
    pub(crate) card: CardId,
    #[command(flatten)]
    pub(crate) with: With,
}

/// What goes with an event.
#[derive(Debug, Args)]
pub(crate) struct With {
    /// Why, where it has to be justified
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// A note to the next builder
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Where a build begins: at the newest check commit, or anew from the branch
    #[arg(long, value_name = "commit|branch", value_parser = from)]
    pub(crate) from: Option<From>,
    /// The synthesis was read
    #[arg(long)]
    pub(crate) confirm: bool,
}

/// Where a build begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From {
    /// At the newest check commit
    Commit,
    /// Anew from the branch
    Branch,
}

/// What is paused; everything if nothing is named.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct What {
    /// A lane: draft, read, research or build
    #[arg(long, value_name = "LANE", value_parser = super::lane)]
    pub(crate) lane: Option<Lane>,
    /// A profile of the configuration
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<String>,
}

fn phase(text: &str) -> Result<Phase, String> {
    Phase::from_id(text).ok_or_else(|| Phase::ALL.map(Phase::id).join(" | "))
}

fn belongs(text: &str) -> Result<Belongs, String> {
    let known = [Belongs::Deployed, Belongs::Archived].map(|belongs| belongs.phase().id());
    Belongs::from_id(text).ok_or_else(|| known.join(" | "))
}

fn from(text: &str) -> Result<From, String> {
    match text {
        "commit" => Ok(From::Commit),
        "branch" => Ok(From::Branch),
        _ => Err("commit | branch".to_owned()),
    }
}

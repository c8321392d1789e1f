//! The command line: what `boardctl` can be asked for.
//!
//! The doc comments are the English help. What the operator sees speaks German first, so [`german`] holds the
//! same texts in German, and a test holds both together.
mod acts;
mod german;
pub(crate) mod pages;

use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) use acts::{Act, From, New, OnCard, What, With};
use board_core::edge::settings::Language;
use board_core::model::card::CardId;
use board_core::model::job::Lane;
use board_core::model::profile::RoleName;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Operates a board of board-agent, or runs one to try out.
#[derive(Debug, Parser)]
#[command(name = "boardctl", version, disable_help_subcommand = true, arg_required_else_help = true)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed, or something was found; 2 wrong command line; \
    3 the board cannot be reached; 4 the board refused";

/// Flags of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Configuration file; else $BOARD_AGENT_CONFIG, else /etc/board-agent/config.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Control socket; else that of the configured state directory, else /run/board-agent/control.sock
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    /// Print values as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Language: de or en; else that of the configuration
    #[arg(long, global = true, value_name = "de|en", value_parser = language)]
    pub(crate) language: Option<Language>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole system on a throw-away repository with a scripted agent
    Demo(Demo),
    /// Run the whole system in the foreground, without systemd
    Dev(Dev),
    /// List the cards
    List,
    /// Show a card
    Show {
        /// Its id, as in the address of its page
        #[arg(value_name = "CARD", value_parser = card)]
        card: CardId,
    },
    /// Start the work of a planned card, at once
    Start {
        /// Its id
        #[arg(value_name = "CARD", value_parser = card)]
        card: CardId,
    },
    #[command(flatten)]
    Act(Act),
    /// The prompt that a role would be given for a card, word for word
    Prompt {
        /// Its id
        #[arg(value_name = "CARD", value_parser = card)]
        card: CardId,
        /// builder, reviewer, researcher or planner
        #[arg(value_name = "ROLE", value_parser = role)]
        role: RoleName,
    },
    /// Log a runtime in: its own login, in the home that it keeps, as the service user
    Login {
        /// Its name in the configuration
        #[arg(value_name = "RUNTIME")]
        runtime: String,
        /// Further arguments of its login, after --
        #[arg(value_name = "ARGUMENTS", last = true)]
        arguments: Vec<String>,
    },
    /// What is where in the queue, since when, and who holds which lock
    Queue(Queue),
    /// Check the state, show it, or bring an earlier one back
    State(State),
    /// Check the whole installation; every finding with its remedy
    Doctor(Doctor),
    /// What the units need to know of this host: where the checkout is, and who may do what with it
    DropIns {
        /// Write it below /etc/systemd/system
        #[arg(long)]
        install: bool,
    },
    /// Look after the queue, as the timer does: failed units, what waits too long, what is old
    Sweep,
    /// Raise the alarm for a unit that failed, as systemd does
    Alarm {
        /// The unit
        #[arg(value_name = "UNIT")]
        unit: String,
    },
    /// End all runs unless the target starts again, as systemd does when it stops
    EndRuns,
    /// Check the configuration file: everything that is wrong, at once
    CheckConfig(CheckConfig),
    /// Check a job file or one to be dropped: everything that is wrong, at once
    CheckJob {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// The JSON Schemas of all files, or the transitions as a page
    Schema(Schema),
    /// One of the daemons, in this process; for dev
    #[command(hide = true)]
    Run(Run),
    /// Write man pages and completions of the shells below a directory; for packages
    #[command(hide = true)]
    Generate {
        /// The directory
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// `doctor`
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(subcommand)]
    pub(crate) command: Option<DoctorCommand>,
}

/// What else to check.
#[derive(Debug, Subcommand)]
pub(crate) enum DoctorCommand {
    /// Send the board forged requests; each must be refused
    Auth,
}

/// `check-config`
#[derive(Debug, Args)]
pub(crate) struct CheckConfig {
    /// The file is for another host: its directories need not be there
    #[arg(long)]
    pub(crate) elsewhere: bool,
}

/// `demo`
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Drive one card from planned to ready for deployment, print what came of it, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Show the whole cycle: a topic, the planner, split, parallel work, synthesis; with --once end after it
    #[arg(long)]
    pub(crate) tour: bool,
    /// Port of the board; 0 picks one
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub(crate) port: u16,
    /// A new or empty directory for everything; else one below the build directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Keep the directory; else the next demo removes it
    #[arg(long)]
    pub(crate) keep: bool,
}

/// `dev`
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Port of the board instead of the configured one; 0 picks one
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
}

/// `queue`
#[derive(Debug, Args)]
pub(crate) struct Queue {
    #[command(subcommand)]
    pub(crate) command: Option<QueueCommand>,
}

/// What to do with the queue.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Drop a job file by hand, as queue/drop takes it
    Drop {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// `state`
#[derive(Debug, Args)]
pub(crate) struct State {
    #[command(subcommand)]
    pub(crate) command: StateCommand,
}

/// What to do with the state.
#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Whether the state can be read, and which earlier ones are kept
    Check,
    /// Print the state
    Show,
    /// Bring an earlier state back; what is there is kept beside it
    Restore {
        /// Name of the snapshot; else the newest that can be read
        #[arg(value_name = "SNAPSHOT")]
        snapshot: Option<String>,
        /// Also if the state that is there can be read; what happened since the snapshot is given up
        #[arg(long)]
        force: bool,
    },
}

/// `schema`
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Write one file per schema into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The page of the phases and transitions instead (docs/phases.md)
    #[arg(long, conflicts_with = "out")]
    pub(crate) phases: bool,
}

/// `run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Which daemon: trigger, watcher or worker
    #[command(subcommand)]
    pub(crate) daemon: Daemon,
    /// End with the process of this number
    #[arg(long, global = true, value_name = "PID")]
    pub(crate) parent: Option<i32>,
}

/// One of the daemons.
#[derive(Debug, Subcommand)]
pub(crate) enum Daemon {
    /// The board
    Trigger,
    /// What applies outcomes
    Watcher,
    /// One activation of a slot
    Worker {
        /// Lane
        #[arg(long, value_parser = lane)]
        lane: Lane,
        /// Number of the slot within it
        #[arg(long)]
        slot: u32,
    },
}

fn language(text: &str) -> Result<Language, String> {
    match text {
        "de" => Ok(Language::De),
        "en" => Ok(Language::En),
        _ => Err("de | en".to_owned()),
    }
}

fn card(text: &str) -> Result<CardId, String> {
    text.parse().map_err(|error: board_core::model::slug::SlugError| error.to_string())
}

fn role(text: &str) -> Result<RoleName, String> {
    let found = RoleName::ALL.into_iter().find(|role| role.id() == text);
    found.ok_or_else(|| RoleName::ALL.map(RoleName::id).join(" | "))
}

fn lane(text: &str) -> Result<Lane, String> {
    Lane::from_id(text).ok_or_else(|| Lane::ALL.map(Lane::id).join(" | "))
}

impl Cli {
    /// The language of what is printed, as far as the command line alone tells.
    pub(crate) fn language(&self) -> Language {
        self.global.language.unwrap_or(Language::De)
    }
}

/// Reads a command line.
///
/// # Errors
/// What clap has to say about it; `--help` among them.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // The language of the help has to be known before anything is read.
    let english = arguments.windows(2).any(|pair| pair[0] == "--language" && pair[1] == "en")
        || arguments.iter().any(|argument| argument == "--language=en");
    let command = if english { Cli::command() } else { german::translate(Cli::command()) };
    Cli::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Cli, clap::Error> {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
        german::translate(Cli::command()).debug_assert();
    }

    #[test]
    fn global_flags_stand_before_or_after_the_command() {
        for line in ["boardctl --language en --json list", "boardctl list --json --language=en"] {
            let cli = read(line).unwrap();
            assert!(cli.global.json && cli.language() == Language::En, "{line}");
        }
        assert_eq!(read("boardctl list").unwrap().language(), Language::De);
    }

    #[test]
    fn the_help_speaks_german_unless_english_is_asked_for() {
        let help = |line: &str| read(line).unwrap_err().to_string();
        assert!(help("boardctl --help").contains("Zeigt die Karten"));
        assert!(help("boardctl --language en --help").contains("List the cards"));
        assert!(
            help("boardctl demo --help").contains("Exit-Codes")
                || help("boardctl --help").contains("Exit-Codes")
        );
    }

    #[test]
    fn what_is_no_card_no_language_and_no_lane_is_refused() {
        for line in [
            "boardctl show ../x",
            "boardctl list --language fr",
            "boardctl run worker --lane x --slot 1",
            "boardctl prompt eins operator",
            "boardctl",
            "boardctl schema --phases --out x",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
        assert!(read("boardctl run worker --lane build --slot 2 --config x --parent 7").is_ok());
    }
}

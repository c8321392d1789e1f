//! The commands, one module each; here only which is which, and what several of them need.
pub(crate) mod act;
pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod drop_ins;
pub(crate) mod list;
pub(crate) mod login;
pub(crate) mod phases;
pub(crate) mod prompt;
pub(crate) mod queue;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod slots;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod sweep;

use std::path::PathBuf;

use board_core::edge::settings::{DirectoryCheck, Language, Settings};
use board_core::model::event::EventKind;
use board_core::model::phase::{Column, Phase, Terminal};
use serde_json::Value;

use crate::cli::{self, Cli, Command, DoctorCommand, Global, QueueCommand};
use crate::control::Control;
use crate::output::{Out, Style};
use crate::{demo, dev};

/// Carries out what the command line asks for.
///
/// # Errors
/// What the command says; [`crate::output::report`] turns it into a sentence and an exit code.
pub(crate) fn run(line: &Cli) -> anyhow::Result<()> {
    let global = &line.global;
    // Without looking at its directories: whoever operates a board need not be able to.
    let settings = Settings::load_with(&config(global), DirectoryCheck::Skip);
    let configured = settings.as_ref().map_or(Language::De, |settings| settings.board.language);
    let language = global.language.unwrap_or(configured);
    let out = Out::new(global.json, language);
    let control = || {
        let state_dir = settings.as_ref().ok().map(|settings| settings.board.state_dir.as_path());
        Control::locate(global.socket.as_deref(), state_dir, language)
    };
    match &line.command {
        Command::List => list::run(&control(), out),
        Command::Show { card } => show::run(&control(), card, out),
        Command::Start { card } => start::run(&control(), card, out),
        Command::Act(act) => act::run(&control(), act, out),
        Command::Login { runtime, arguments } => login::run(&settings.clone()?, runtime, arguments, out),
        Command::Prompt { card, role } => prompt::run(&settings.clone()?, card, *role, out),
        Command::Queue(arguments) => match &arguments.command {
            None => queue::show(&settings.clone()?, out),
            Some(QueueCommand::Drop { file }) => queue::drop_file(&settings.clone()?, file, out),
        },
        Command::State(arguments) => state::run(&settings.clone()?, &arguments.command, out),
        Command::CheckConfig(arguments) => {
            let directories = if arguments.elsewhere { DirectoryCheck::Skip } else { DirectoryCheck::Check };
            check::config(&config(global), directories, out)
        }
        Command::Sweep => sweep::run(&settings.clone()?, out),
        Command::Alarm { unit } => sweep::alarm(&settings.clone()?, unit, out),
        Command::EndRuns => sweep::end_runs(),
        Command::DropIns { install } => drop_ins::run(&settings.clone()?, *install, out),
        Command::Doctor(arguments) => match arguments.command {
            None => doctor::run(&config(global), settings.clone(), &control(), out),
            Some(DoctorCommand::Auth) => doctor::auth(&settings.clone()?, out),
        },
        Command::CheckJob { file } => check::job_file(file, out),
        Command::Schema(arguments) => schema::run(arguments, out),
        Command::Dev(arguments) => {
            dev::run(&Settings::load(&config(global))?, &config(global), arguments.port, out)
        }
        Command::Demo(arguments) => demo::run(arguments, out),
        Command::Generate { dir } => cli::pages::write(dir),
        Command::Run(arguments) => dev::run::run(arguments, &config(global)),
    }
}

fn config(global: &Global) -> PathBuf {
    Settings::locate(global.config.as_deref())
}

/// The label of a card's phase and how it looks: what waits for the operator stands out.
pub(crate) fn phase(out: Out, card: &Value) -> (String, Style) {
    let id = card.get("phase").and_then(Value::as_str).unwrap_or_default();
    let Some(phase) = Phase::from_id(id) else { return (id.to_owned(), Style::Plain) };
    let style = match (phase.column(), phase.terminal()) {
        (Some(Column::BrauchtDich), _) => Style::Notice,
        (_, Some(Terminal::Success | Terminal::SuccessWithSynthesis)) => Style::Good,
        (_, Some(Terminal::Failure)) => Style::Bad,
        (_, Some(Terminal::Ended) | None) => Style::Plain,
    };
    (label(out.language, phase).to_owned(), style)
}

/// What a card may do next, in words: the API names the phase that it leads to, or the event.
pub(crate) fn target(language: Language, id: &str) -> String {
    match Phase::from_id(id) {
        Some(phase) => label(language, phase).to_owned(),
        None => event(language, id),
    }
}

/// The label of a phase.
pub(crate) fn label(language: Language, phase: Phase) -> &'static str {
    match language {
        Language::De => phase.label_de(),
        Language::En => phase.label_en(),
    }
}

/// The label of an event; the id of one that another version knows.
pub(crate) fn event(language: Language, id: &str) -> String {
    let Some(kind) = EventKind::ALL.iter().find(|kind| kind.id() == id) else { return id.to_owned() };
    match language {
        Language::De => kind.label_de().to_owned(),
        Language::En => kind.label_en().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_said_as_its_phase_or_its_event() {
        assert_eq!(target(Language::De, Phase::InUmsetzung.id()), "In Umsetzung");
        assert_eq!(target(Language::En, EventKind::CancelAsked.id()), "cancel");
    }

    #[test]
    fn an_event_has_its_label_and_an_unknown_one_its_id() {
        assert_eq!(event(Language::De, "built"), "Gebaut");
        assert_eq!(event(Language::En, "built"), "built");
        assert_eq!(event(Language::De, "of_another_version"), "of_another_version");
    }
}

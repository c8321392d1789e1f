//! `board-trigger`: the HTTP board of board-agent as a daemon.
use std::path::PathBuf;
use std::process::ExitCode;

use board_core::edge::journal;
use board_core::edge::settings::Settings;
use board_trigger::{Hooks, Stop, run};

fn main() -> ExitCode {
    let config = match config_argument() {
        Ok(config) => config,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    let settings = match Settings::load(&Settings::locate(config.as_deref())) {
        Ok(settings) => settings,
        Err(errors) => {
            eprintln!("{errors}");
            return ExitCode::from(78);
        }
    };
    journal::init("board-trigger");
    match run(settings, Hooks::daemon(Stop::new())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `--config FILE`, or nothing.
fn config_argument() -> Result<Option<PathBuf>, &'static str> {
    let usage = "usage: board-trigger [--config FILE]";
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next(), arguments.next()) {
        (None, ..) => Ok(None),
        (Some(flag), Some(file), None) if flag == "--config" => Ok(Some(file.into())),
        (Some(_), ..) => Err(usage),
    }
}

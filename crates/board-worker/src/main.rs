//! `board-worker --config FILE --lane LANE --slot N`: one activation, one job.
use std::path::PathBuf;
use std::process::ExitCode;

use board_core::edge::journal;
use board_core::edge::settings::Settings;
use board_core::model::job::Lane;

fn main() -> ExitCode {
    journal::init("board-worker");
    let (mut config, mut lane, mut slot) = (None, None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match name.as_str() {
            "--config" => config = Some(PathBuf::from(value)),
            "--lane" => lane = Lane::from_id(&value),
            "--slot" => slot = value.parse().ok().filter(|slot| *slot > 0),
            _ => break,
        }
    }
    let (Some(lane), Some(slot)) = (lane, slot) else {
        tracing::error!("usage: board-worker [--config FILE] --lane draft|read|research|build --slot N");
        return ExitCode::from(2);
    };
    let result = Settings::load(&Settings::locate(config.as_deref()))
        .map_err(anyhow::Error::from)
        .and_then(|settings| board_worker::run(&settings, lane, slot));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

//! Helpers of the runtimes' tests: a run from lines, without a process.

use std::path::PathBuf;

use board_core::model::outcome::RunResult;
use board_core::model::profile::RoleName;

use super::{Adapter, Event, ExitInfo, Reading, RunSpec, conclude};
use crate::words::Language;

/// What a run of lines came to.
pub(crate) struct Read {
    pub(crate) reading: Reading,
    pub(crate) result: RunResult,
    pub(crate) iterations: u32,
    pub(crate) activities: Vec<String>,
}

pub(crate) fn read(mut adapter: impl Adapter, lines: &[&str], exit: ExitInfo) -> Read {
    let (mut iterations, mut activities) = (0, Vec::new());
    for line in lines {
        for event in adapter.event(line.as_bytes()) {
            match event {
                Event::Iteration => iterations += 1,
                Event::Activity(said) => activities.push(said),
                Event::Tokens(_) | Event::Send(_) | Event::Over => {}
            }
        }
    }
    let reading = adapter.reading(exit);
    let result = conclude(&reading, exit, None, "", Language::De).result;
    Read { reading, result, iterations, activities }
}

pub(crate) fn spec(role: RoleName) -> RunSpec {
    RunSpec {
        program: vec!["agent".into()],
        args: Vec::new(),
        env: Vec::new(),
        role,
        model: None,
        effort: None,
        directory: PathBuf::from("/view"),
        home: PathBuf::from("/home/agent"),
        sandboxed: true,
    }
}

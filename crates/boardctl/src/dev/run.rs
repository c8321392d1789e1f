//! `boardctl run …`: one of the daemons in this process, as a child of `dev`.
use std::path::Path;

use anyhow::Context as _;
use board_core::edge::journal;
use board_core::edge::settings::Settings;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::getppid;

use crate::cli::{Daemon, Run};

/// Runs it until it ends.
///
/// # Errors
/// What the daemon says.
pub(crate) fn run(arguments: &Run, config: &Path) -> anyhow::Result<()> {
    // Inherited from `dev`, which keeps its signals for itself.
    SigSet::empty().thread_set_mask().context("signals")?;
    if let Some(parent) = arguments.parent {
        // SIGTERM and not SIGKILL: a worker then saves the work and leaves `interrupted`.
        set_pdeathsig(Signal::SIGTERM).context("pdeathsig")?;
        anyhow::ensure!(getppid().as_raw() == parent, "the process that started this one is gone");
    }
    let settings = Settings::load(config)?;
    match arguments.daemon {
        Daemon::Trigger => {
            journal::init("board-trigger");
            let hooks = board_trigger::Hooks {
                // Whoever runs `dev` in a terminal is its operator.
                own_uid_is_operator: true,
                // `dev` says where the board is; the token has no place in a log.
                announce: Box::new(|address| tracing::info!(url = address.url, "ready")),
                ..board_trigger::Hooks::daemon(board_trigger::Stop::new())
            };
            board_trigger::run(settings, hooks)
        }
        Daemon::Watcher => {
            journal::init("board-watcher");
            board_watcher::run(settings, board_watcher::Hooks::dev())
        }
        Daemon::Worker { lane, slot } => {
            journal::init("board-worker");
            board_worker::run(&settings, lane, slot)
        }
    }
}

//! Man pages and completions, made of the same definitions that read a command line.
//!
//! The daemons have no command line of their own to speak of; theirs are the definitions of `boardctl run`.
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::{Arg, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{Cli, german};

/// The daemons: their programs, and what they are called behind `boardctl run`.
const DAEMONS: [(&str, &str); 3] =
    [("board-trigger", "trigger"), ("board-watcher", "watcher"), ("board-worker", "worker")];

/// Writes everything below a directory, laid out as below `/usr/share`.
///
/// # Errors
/// A directory that cannot be written.
pub(crate) fn write(share: &Path) -> anyhow::Result<()> {
    man_pages(Cli::command(), &share.join("man/man1"))?;
    man_pages(german::translate(Cli::command()), &share.join("man/de/man1"))?;
    for page in daemons() {
        man_page(page, "8", &share.join("man/man8"))?;
    }
    for (shell, path) in [
        (Shell::Bash, "bash-completion/completions/boardctl"),
        (Shell::Zsh, "zsh/vendor-completions/_boardctl"),
        (Shell::Fish, "fish/vendor_completions.d/boardctl.fish"),
    ] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "boardctl", &mut script);
        store(&share.join(path), &script)?;
    }
    Ok(())
}

/// A page for the command and one for each of its commands, `boardctl-queue-drop` and so on.
fn man_pages(command: Command, dir: &Path) -> anyhow::Result<()> {
    fn each(command: &Command, dir: &Path) -> anyhow::Result<()> {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            each(sub, dir)?;
        }
        man_page(command.clone(), "1", dir)
    }
    // Only a built command knows the names of its commands in full, and what is global.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    each(&command, dir)
}

fn daemons() -> impl Iterator<Item = Command> {
    let cli = Cli::command();
    let run = cli.find_subcommand("run").cloned().unwrap_or_default();
    DAEMONS.into_iter().filter_map(move |(program, name)| {
        let daemon = run.find_subcommand(name)?.clone();
        let config = Cli::command().get_arguments().find(|arg| arg.get_id() == "config").cloned();
        let config = config.unwrap_or_else(|| Arg::new("config"));
        Some(daemon.name(program).display_name(program).version(env!("CARGO_PKG_VERSION")).arg(config))
    })
}

fn man_page(command: Command, section: &str, dir: &Path) -> anyhow::Result<()> {
    let man = Man::new(command).section(section).manual("board-agent");
    let mut page = Vec::new();
    man.render(&mut page).context("man page")?;
    store(&dir.join(man.get_filename()), &page)
}

fn store(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_shown_has_a_page_in_both_languages_and_every_daemon_one() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        let read = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap();
        for sub in Cli::command().get_subcommands() {
            let page = dir.path().join(format!("man/man1/boardctl-{}.1", sub.get_name()));
            assert_eq!(page.exists(), !sub.is_hide_set(), "{}", page.display());
        }
        assert!(read("man/man1/boardctl-queue-drop.1").contains("Drop a job file by hand"));
        assert!(read("man/de/man1/boardctl-queue-drop.1").contains("Legt eine Auftragsdatei"));
        for (program, _) in DAEMONS {
            let page = read(&format!("man/man8/{program}.8"));
            assert!(page.contains("config") && page.contains(program), "{page}");
        }
        assert!(read("man/man8/board-worker.8").contains("lane"));
        assert!(read("bash-completion/completions/boardctl").contains("check-config"));
    }
}

//! The login of a runtime: how its own program is asked for it, and where the login lies afterwards.
//!
//! Apart from the runs because a person sits in front of it. The program works in the home that the runtime keeps,
//! with the same environment of its adapter as in a run, so that what it leaves there is what the runs are given.

use std::path::PathBuf;

use board_core::edge::settings::{Runtime, RuntimeKind, Settings};
use board_core::model::profile::RoleName;

use crate::play::{PATH, adapter};
use crate::runtimes::RunSpec;
use crate::sandbox::resolve_program;
use crate::words::{Language, pick};

/// A login that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginCommand {
    /// The program, absolute, and its arguments.
    pub argv: Vec<String>,
    /// What its environment has to hold, `HOME` and `PATH` among it.
    pub env: Vec<(String, String)>,
    /// The home that the runtime keeps.
    pub home: PathBuf,
    /// Directories that have to be there, the home the first of them.
    pub directories: Vec<PathBuf>,
    /// The file that holds the login afterwards, where that is known.
    pub credential: Option<PathBuf>,
}

/// How a program is asked to log in; none for a kind whose programs have no way in common.
fn asked(kind: RuntimeKind) -> Option<&'static [&'static str]> {
    match kind {
        RuntimeKind::Codex => Some(&["login"]),
        RuntimeKind::Claude | RuntimeKind::Opencode => Some(&["auth", "login"]),
        // It asks by itself when it is started without a login.
        RuntimeKind::Gemini => Some(&[]),
        RuntimeKind::Acp | RuntimeKind::Command => None,
    }
}

/// The login of a runtime of the configuration, with further arguments.
///
/// # Errors
/// A sentence: the program is missing, or how it logs in is not known and no arguments say so.
pub fn login(
    settings: &Settings,
    name: &str,
    runtime: &Runtime,
    arguments: &[String],
    language: Language,
) -> Result<LoginCommand, String> {
    let named = runtime.program.as_ref().or(runtime.argv.first()).cloned().unwrap_or_default();
    let known = asked(runtime.kind);
    if known.is_none() && arguments.is_empty() {
        return Err(pick(
            language,
            format!(
                "Wie sich {named} anmeldet, ist nicht bekannt; sage es: boardctl login {name} -- ARGUMENTE"
            ),
            format!("How {named} logs in is not known; say it: boardctl login {name} -- ARGUMENTS"),
        ));
    }
    let program = resolve_program(&named, PATH).map_err(|why| format!("{named}: {why}"))?;
    let home = settings.board.state_dir.join("runtimes").join(name);
    let spec = RunSpec {
        program: vec![named],
        args: Vec::new(),
        env: runtime.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        role: RoleName::Builder,
        model: None,
        effort: None,
        directory: home.clone(),
        home: home.clone(),
        sandboxed: false,
    };
    let command = adapter(runtime, &spec).command(&spec);
    let mut argv = vec![program.display().to_string()];
    argv.extend(known.unwrap_or_default().iter().map(|word| (*word).to_owned()));
    argv.extend_from_slice(arguments);
    let mut env = vec![("PATH".to_owned(), PATH.to_owned()), ("HOME".to_owned(), home.display().to_string())];
    env.extend(command.env);
    let below = command.home_directories.iter().map(|directory| home.join(directory));
    Ok(LoginCommand {
        argv,
        env,
        directories: std::iter::once(home.clone()).chain(below).collect(),
        credential: runtime.kind.login_files().first().map(|file| home.join(file)),
        home,
    })
}

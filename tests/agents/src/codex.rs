//! The real codex in a world of its own, with a stand-in for its model.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use loop_tests::{Options, World};
use serde_json::Value;

use crate::{Reply, Request, StandIn};

/// A world whose builder and reviewer are codex.
pub struct Codex {
    /// Repository, board and daemons.
    pub world: World,
    /// What codex takes for its model.
    pub standin: StandIn,
}

/// What differs between the tests.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Lines of `[limits]` instead of the usual ones.
    pub limits: String,
    /// Further lines of the configuration, each a whole table.
    pub extra: String,
}

impl Codex {
    /// Makes a world; nothing runs yet.
    ///
    /// # Errors
    /// If codex is not installed or the world cannot be made.
    pub fn new(
        wish: Wish,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> anyhow::Result<Codex> {
        let standin = StandIn::start(script)?;
        let provider = [
            "name=\"stand-in\"".to_owned(),
            format!("base_url=\"{}\"", standin.url()),
            "wire_api=\"responses\"".to_owned(),
            "env_key=\"STANDIN_KEY\"".to_owned(),
            "request_max_retries=0".to_owned(),
            "stream_max_retries=0".to_owned(),
            "supports_websockets=false".to_owned(),
        ];
        let mut args = vec!["-c".to_owned(), "model_provider=\"standin\"".to_owned()];
        for setting in provider {
            args.extend(["-c".to_owned(), format!("model_providers.standin.{setting}")]);
        }
        let world = World::with(|world| {
            let program = world.join("agent/node_modules/.bin/codex");
            Options {
                profile: "codex".to_owned(),
                limits: wish.limits.clone(),
                extra: format!(
                    "[runtimes.codex]\nkind = \"codex\"\nprogram = {}\nargs = {}\nenv = {{ STANDIN_KEY = \"no-key\" }}\n\
                     [profiles.codex]\nruntime = \"codex\"\nmodel = \"stand-in\"\ndescription = \"der echte\"\n{}",
                    Value::from(program.display().to_string()),
                    Value::from(args.clone()),
                    wish.extra
                ),
                ..Options::default()
            }
        })?;
        link_tree(&installed()?, &world.path("agent/node_modules"))?;
        Ok(Codex { world, standin })
    }

    /// The same, with one card that is started.
    ///
    /// # Errors
    /// As [`Codex::new`], and if the board does not take the card.
    pub fn started(
        card: &str,
        wish: Wish,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> anyhow::Result<Codex> {
        let mut codex = Codex::new(wish, script)?;
        codex.world.intent(card)?;
        codex.world.start()?;
        let answer = codex.world.move_to(card, "in_umsetzung");
        anyhow::ensure!(answer.status == 202, "{}", answer.body);
        Ok(codex)
    }

    /// The lines of a stream in the log of a card's last run: `out` for what the agent printed.
    ///
    /// # Errors
    /// If there is none.
    pub fn log(&self, stream: &str) -> anyhow::Result<Vec<String>> {
        let logs = std::fs::read_dir(self.world.path("state/logs"))?;
        let mut names: Vec<PathBuf> = logs
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.extension().is_some_and(|ending| ending == "jsonl") && !path.ends_with("audit.jsonl")
            })
            .collect();
        names.sort();
        let text = std::fs::read_to_string(names.last().context("no log")?)?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines = lines.filter(|line| line["s"] == stream);
        Ok(lines.filter_map(|line| line["l"].as_str().map(str::to_owned)).collect())
    }
}

/// A builder that does this round by round, the last of it again and again; a reviewer who is content.
pub fn builds(rounds: Vec<Reply>) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    move |request| {
        if request.is_review() {
            return ready(request);
        }
        rounds.get(request.round()).or(rounds.last()).cloned().unwrap_or(Reply::Cut)
    }
}

/// Where npm put it.
fn installed() -> anyhow::Result<PathBuf> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("node_modules");
    anyhow::ensure!(modules.join(".bin/codex").exists(), "codex is missing: npm ci --prefix tests/agents");
    Ok(modules)
}

/// The same files under another directory, where the unprivileged user can reach them. Codex has 400 MB, so
/// they are linked where that is possible.
fn link_tree(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(to).with_context(|| to.display().to_string())?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            link_tree(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&source)?, &target)?;
        } else if std::fs::hard_link(&source, &target).is_err() {
            std::fs::copy(&source, &target).with_context(|| target.display().to_string())?;
        }
    }
    Ok(())
}

/// The answer of a reviewer who finds the commit ready.
pub fn ready(request: &Request) -> Reply {
    Reply::Say(format!(
        "===REVIEW-REPORT===\ncommit: {}\nentscheidung: bereit\n---\n# Review\n\n## Umfang und Vorgehen\n\nGelesen.\n\n\
         ## Befunde nach Priorität\n\nKeine.\n\n## Unsicherheiten\n\nKeine.\n\n## Entscheidung\n\nbereit\n\n\
         ## Empfehlungen\n\nKeine.\n===END-REVIEW-REPORT===",
        request.commit()
    ))
}

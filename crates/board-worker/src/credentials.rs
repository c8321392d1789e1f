//! The login of a runtime in the throw-away home of a run: what of it comes back.
//!
//! A runtime renews its login while it works, and some services take the old one back then, so it must not be thrown
//! away with the home. Nothing else comes back, so nothing that an agent writes into its home reaches the next run:
//! only the named files, if they were there, still are regular files of JSON, and the run was not killed while it
//! wrote them. If the kept login was changed meanwhile, by another run or by `boardctl login`, that one counts.

use std::path::{Path, PathBuf};

use board_core::edge::files::beneath::{read_beneath, replace_beneath};
use board_core::edge::files::read::Read;
use board_core::edge::lock::{Lock, LockClass, credential_lock};
use board_core::edge::secrets::{MAX_SECRET_FILE_BYTES, in_login};

/// The login files of a run.
#[derive(Debug)]
pub(crate) struct Credentials {
    /// The home that the runtime keeps.
    kept: PathBuf,
    lock: PathBuf,
    /// Each file that was there, below the home, and what the run was given.
    given: Vec<(&'static str, Vec<u8>)>,
}

impl Credentials {
    /// What a home that was just made holds of them.
    pub(crate) fn of(home: &Path, state_dir: &Path, runtime: &str, files: &[&'static str]) -> Credentials {
        let given = files.iter().filter_map(|file| Some((*file, content(home, file)?))).collect();
        Credentials {
            kept: state_dir.join("runtimes").join(runtime),
            lock: credential_lock(state_dir, runtime),
            given,
        }
    }

    /// Brings the files back that the run renewed; gives the secrets in them, which came after the run's beginning.
    /// What cannot be brought back is told to the journal: the run counts, and the next one may need a login.
    pub(crate) fn bring_back(&self, home: &Path) -> Vec<String> {
        let mut secrets = Vec::new();
        for (file, given) in &self.given {
            let Some(now) = content(home, file).filter(|now| now != given) else { continue };
            if !serde_json::from_slice::<serde_json::Value>(&now).is_ok_and(|value| value.is_object()) {
                tracing::warn!("{file}: what the run left is no login; the kept one stays");
                continue;
            }
            secrets.extend(in_login(&now));
            if let Err(why) = self.replace(file, given, &now) {
                tracing::warn!("{}: the renewed login is not kept: {why}", self.kept.join(file).display());
            }
        }
        secrets
    }

    fn replace(&self, file: &str, given: &[u8], now: &[u8]) -> Result<(), String> {
        let _lock = Lock::acquire(&self.lock, LockClass::Credential).map_err(|error| error.to_string())?;
        if content(&self.kept, file).as_deref() != Some(given) {
            tracing::info!("{}: was renewed elsewhere meanwhile, and stays", self.kept.join(file).display());
            return Ok(());
        }
        replace_beneath(&self.kept, Path::new(file), now).map_err(|error| error.to_string())
    }
}

/// A regular file below a home; nothing leads out of it.
fn content(home: &Path, file: &str) -> Option<Vec<u8>> {
    match read_beneath(home, Path::new(file), MAX_SECRET_FILE_BYTES) {
        Ok(Read::Bytes(regular)) => Some(regular.bytes),
        Ok(Read::NotRegular(_) | Read::TooLarge { .. } | Read::Denied | Read::Missing) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const FILE: &str = ".codex/auth.json";
    const FIRST: &str = r#"{"token":"first-token"}"#;
    const SECOND: &str = r#"{"token":"second-token"}"#;

    struct World(tempfile::TempDir);

    impl World {
        /// A kept login, and a run's home with a copy of it.
        fn new() -> (World, Credentials) {
            let world = World(tempfile::tempdir().unwrap());
            for file in [world.kept(), world.home().join(FILE)] {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(&file, FIRST).unwrap();
            }
            let credentials = Credentials::of(&world.home(), world.0.path(), "codex", &[FILE, ".other.json"]);
            (world, credentials)
        }

        fn home(&self) -> PathBuf {
            self.0.path().join("home")
        }

        fn kept(&self) -> PathBuf {
            self.0.path().join("runtimes/codex").join(FILE)
        }

        fn is_kept(&self, text: &str) -> bool {
            std::fs::read_to_string(self.kept()).unwrap() == text
        }
    }

    #[test]
    fn a_renewed_login_comes_back_and_its_secrets_are_known() {
        let (world, credentials) = World::new();
        assert!(credentials.bring_back(&world.home()).is_empty() && world.is_kept(FIRST));
        std::fs::write(world.home().join(FILE), SECOND).unwrap();
        assert_eq!(credentials.bring_back(&world.home()), ["second-token"]);
        assert!(world.is_kept(SECOND));
    }

    #[test]
    fn nothing_else_comes_back() {
        let (world, credentials) = World::new();
        for name in [".other.json", ".codex/config.toml"] {
            std::fs::write(world.home().join(name), SECOND).unwrap();
        }
        for broken in ["", "{\"token\":", "[1]", "x"] {
            std::fs::write(world.home().join(FILE), broken).unwrap();
            credentials.bring_back(&world.home());
            assert!(world.is_kept(FIRST), "{broken}");
        }
        std::fs::write(
            world.home().join(FILE),
            vec![b' '; usize::try_from(MAX_SECRET_FILE_BYTES).unwrap() + 1],
        )
        .unwrap();
        credentials.bring_back(&world.home());
        assert!(world.is_kept(FIRST));
        assert_eq!(std::fs::read_dir(world.kept().parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_that_an_agent_puts_there_leads_nowhere() {
        let (world, credentials) = World::new();
        let outside = world.0.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("auth.json"), SECOND).unwrap();
        std::fs::remove_file(world.home().join(FILE)).unwrap();
        symlink(outside.join("auth.json"), world.home().join(FILE)).unwrap();
        credentials.bring_back(&world.home());
        std::fs::remove_dir_all(world.home().join(".codex")).unwrap();
        symlink(&outside, world.home().join(".codex")).unwrap();
        credentials.bring_back(&world.home());
        assert!(world.is_kept(FIRST));
    }

    #[test]
    fn of_two_that_renew_at_once_the_first_counts_and_a_login_by_hand_too() {
        let (world, credentials) = World::new();
        std::fs::write(world.kept(), SECOND).unwrap();
        std::fs::write(world.home().join(FILE), r#"{"token":"third-token"}"#).unwrap();
        credentials.bring_back(&world.home());
        assert!(world.is_kept(SECOND));
    }
}

//! A real repository in a temporary directory, used by the operator of a test.
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::{Git, GitOptions, Identity};

/// A temporary directory with a repository.
pub(crate) struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    /// An empty repository on branch `main`.
    pub(crate) fn new() -> Self {
        Self::with_init(&[])
    }

    pub(crate) fn with_init(options: &[&str]) -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(fixture.repo()).unwrap();
        fixture.run(&[&["init", "-q", "-b", "main"], options].concat());
        fixture
    }

    /// With one commit that has `README` and `docs/board/a.yaml`.
    pub(crate) fn with_commit() -> Self {
        Self::new().and_commit()
    }

    pub(crate) fn and_commit(self) -> Self {
        self.write("README", "one\n");
        self.write("docs/board/a.yaml", "phase: geplant\n");
        self.run(&["add", "-A"]);
        self.run(&["commit", "-q", "-m", "first"]);
        self
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.dir().join("repo")
    }

    pub(crate) fn options(&self) -> GitOptions {
        GitOptions {
            allow_filters: false,
            identity: Identity { name: "Board".to_owned(), email: "board@example.org".to_owned() },
            lock_note_dir: self.dir().join("locks"),
            program: "git".into(),
        }
    }

    pub(crate) fn git(&self) -> Git {
        Git::open(&self.repo(), self.options()).unwrap()
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.repo().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// A git of the operator that may fail.
    pub(crate) fn attempt_in(&self, dir: &Path, args: &[&str]) -> Output {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_"))
        {
            command.env_remove(name);
        }
        command.env("HOME", self.dir()).env("GIT_CONFIG_NOSYSTEM", "1").env_remove("XDG_CONFIG_HOME");
        for person in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{person}_NAME"), "Operator")
                .env(format!("GIT_{person}_EMAIL"), "op@example.org");
        }
        command.args(args).current_dir(dir).output().unwrap()
    }

    /// A git of the operator that must succeed; its output.
    pub(crate) fn run_in(&self, dir: &Path, args: &[&str]) -> String {
        let output = self.attempt_in(dir, args);
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub(crate) fn run(&self, args: &[&str]) -> String {
        self.run_in(&self.repo(), args)
    }
}

/// Says that this machine cannot carry a test; `cargo xtask test` counts the lines.
pub(crate) fn skip(id: &str, reason: &str) {
    use std::io::Write;
    eprintln!("skipped: {id}: {reason}");
    if let Some(file) = std::env::var_os("BOARD_TEST_SKIPS") {
        let mut file = std::fs::File::options().append(true).create(true).open(file).unwrap();
        writeln!(file, "{id}: {reason}").unwrap();
    }
}

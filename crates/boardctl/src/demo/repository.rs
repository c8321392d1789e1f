//! The repository of the demo: a small project with a history, three intents and a question.
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

/// A file of the demo's repository.
struct File {
    path: &'static str,
    text: &'static str,
}

macro_rules! files {
    ($($path:literal from $asset:literal,)*) => {
        &[$(File { path: $path, text: include_str!(concat!("assets/", $asset)) },)*]
    };
}

/// What each commit adds, oldest first.
const COMMITS: &[(&str, &[File])] = &[
    (
        "Werkstatt-Tagebuch: Einträge schreiben und auflisten",
        files! {
            "README.md" from "projekt/README.md",
            "bin/tagebuch" from "projekt/bin/tagebuch",
            "befehle/neu.sh" from "projekt/befehle/neu.sh",
            "befehle/liste.sh" from "projekt/befehle/liste.sh",
            "beispiel/tagebuch.txt" from "projekt/beispiel/tagebuch.txt",
        },
    ),
    ("Prüfungen für neu und liste", files! { "tests/pruefe.sh" from "projekt/tests/pruefe.sh", }),
    (
        "Drei Intents und eine offene Frage",
        files! {
            "docs/intent/tagebuch-monatssumme.md" from "intent/tagebuch-monatssumme.md",
            "docs/intent/tagebuch-suche.md" from "intent/tagebuch-suche.md",
            "docs/intent/tagebuch-csv-export.md" from "intent/tagebuch-csv-export.md",
            "docs/research/tagebuch-ablage.md" from "research/tagebuch-ablage.md",
        },
    ),
];

/// The card that `demo --once` drives.
pub(crate) const FIRST_CARD: &str = "tagebuch-monatssumme";

/// Makes the repository in a directory that is not there yet.
///
/// # Errors
/// No git, or a directory that cannot be written.
pub(crate) fn make(repository: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(repository).with_context(|| repository.display().to_string())?;
    git(repository, ["init", "--quiet", "--initial-branch=main"])?;
    // Of this repository alone, so that it works where git knows nobody.
    git(repository, ["config", "user.name", "Mara Demo"])?;
    git(repository, ["config", "user.email", "mara@demo.invalid"])?;
    for (subject, files) in COMMITS {
        for file in *files {
            let path = repository.join(file.path);
            let dir = path.parent().unwrap_or(repository);
            std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
            std::fs::write(&path, file.text).with_context(|| path.display().to_string())?;
        }
        git(repository, ["add", "--all"])?;
        git(repository, ["commit", "--quiet", "--message", subject])?;
    }
    Ok(())
}

/// Runs git in the demo's repository, untouched by the configuration of whoever runs the demo.
///
/// # Errors
/// No git, or what it says on stderr.
pub(crate) fn git<I, S>(repository: &Path, arguments: I) -> anyhow::Result<String>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_PAGER", "cat");
    let output = command
        .arg("-C")
        .arg(repository)
        .args(arguments)
        .output()
        .context("git cannot be started; install it")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "git: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_has_a_history_and_its_own_tests_pass() {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("r");
        make(&repository).unwrap();
        assert_eq!(git(&repository, ["log", "--format=%an"]).unwrap().lines().count(), COMMITS.len());
        assert_eq!(git(&repository, ["status", "--porcelain"]).unwrap(), "");
        let tests = Command::new("sh").arg("tests/pruefe.sh").current_dir(&repository).output().unwrap();
        assert!(tests.status.success(), "{}", String::from_utf8_lossy(&tests.stdout));
    }

    #[test]
    fn an_intent_has_the_sections_that_the_board_knows() {
        let intents =
            COMMITS.iter().flat_map(|(_, files)| *files).filter(|f| f.path.starts_with("docs/intent/"));
        for intent in intents {
            assert!(intent.text.starts_with("# Intent: "), "{}", intent.path);
            for section in [
                "Ziel",
                "Umfang",
                "Explizit ausgeschlossen",
                "Annahmen",
                "Offene Risiken",
                "Erfolgskriterien",
            ] {
                assert!(intent.text.contains(&format!("\n## {section}\n")), "{}: {section}", intent.path);
            }
        }
    }
}

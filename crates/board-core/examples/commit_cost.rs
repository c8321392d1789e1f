//! Measures a commit of the board in a repository of 10,000 files beside `git commit --only` of the same file with
//! everything synced. Ours should stay below one and a half of git's.
use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use board_core::edge::git::{CommitRequest, Content, FileChange, Git, GitOptions, Identity};

/// Files of the repository.
const FILES: u32 = 10_000;
/// Commits of each kind.
const ROUNDS: usize = 40;

fn main() -> anyhow::Result<()> {
    // Not /tmp, which may lie in memory, where a sync costs nothing.
    let dir = tempfile::Builder::new().prefix("commit-cost-").tempdir_in("/var/tmp")?;
    let repo = dir.path().join("repo");
    write(&repo.join("docs/board/a.yaml"), "phase: geplant\n")?;
    for n in 0..FILES {
        write(&repo.join(format!("src/{}/{n}", n / 100)), &format!("{n}\n"))?;
    }
    run(&repo, &["init", "-q", "-b", "main"])?;
    run(&repo, &["add", "-A"])?;
    run(&repo, &["commit", "-q", "-m", "first"])?;
    let identity = Identity { name: "Board".to_owned(), email: "board@example.org".to_owned() };
    let options = GitOptions {
        allow_filters: false,
        identity,
        lock_note_dir: dir.path().join("locks"),
        program: "git".into(),
    };
    let git = Git::open(&repo, options)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let text = format!("round: {round}\n");
        write(&repo.join("docs/board/a.yaml"), &text)?;
        let file =
            FileChange { path: "docs/board/a.yaml".to_owned(), content: Content::Bytes(text.into_bytes()) };
        let request =
            CommitRequest { branch: "main", files: vec![file], message: "board: a\n", expected: Vec::new() };
        let start = Instant::now();
        git.commit_on_branch(&request)?;
        ours.push(start.elapsed());
        write(&repo.join("docs/board/a.yaml"), &format!("by hand: {round}\n"))?;
        let start = Instant::now();
        run(&repo, &["-c", "core.fsync=all", "commit", "-q", "-m", "x", "--only", "docs/board/a.yaml"])?;
        let synced = Command::new("sync").arg("-f").arg(&repo).status().context("sync")?;
        ensure!(synced.success(), "sync failed");
        theirs.push(start.elapsed());
    }
    let (ours, theirs) = (median(ours), median(theirs));
    eprintln!("median of {ROUNDS}: board commit {ours:?}, git commit --only and sync {theirs:?}");
    println!(
        "audit commit : git commit --only and sync | {:.2} | 1.5",
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let dir = path.parent().context("a file without a directory")?;
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

fn run(repo: &Path, args: &[&str]) -> anyhow::Result<()> {
    let identity = ["-c", "user.name=Operator", "-c", "user.email=op@example.org", "-c", "gc.auto=0"];
    let status = Command::new("git").args(identity).args(args).current_dir(repo).status().context("git")?;
    ensure!(status.success(), "git {args:?} failed");
    Ok(())
}

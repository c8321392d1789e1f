//! Check commits, saved commits and their refusals, with a real git.
use std::{os::unix::fs::PermissionsExt, path::Path};

use super::*;
use crate::edge::git::testing::Fixture;
use crate::edge::secrets::Secrets;
use crate::model::redact::Redactor;

const SAVED: &str = "refs/board/saved/0b.1";

/// A repository with a worktree of a build, as an agent finds it.
struct Build {
    fixture: Fixture,
    worktrees: Worktrees,
    worktree: Worktree,
    base: Oid,
}

impl Build {
    fn new() -> Self {
        Self::of(Fixture::with_commit(), CheckLimits::default())
    }

    fn of(fixture: Fixture, limits: CheckLimits) -> Self {
        let git = fixture.git();
        let base = git.branch_tip("main").unwrap().unwrap();
        let worktrees = Worktrees::new(&fixture.dir().join("worktrees"), git).unwrap().with_limits(limits);
        let worktree = worktrees.create(&Slug::parse("a-card").unwrap(), 1, &base).unwrap();
        Self { fixture, worktrees, worktree, base }
    }

    /// With these files in the base commit.
    fn with(files: &[(&str, &str)]) -> Self {
        let fixture = Fixture::new();
        for (path, text) in files {
            fixture.write(path, text);
        }
        fixture.run(&["add", "-A", "-f"]);
        Self::of(fixture.and_commit(), CheckLimits::default())
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.worktree.path.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn remove(&self, path: &str) {
        std::fs::remove_file(self.worktree.path.join(path)).unwrap();
    }

    fn check_with(&self, summary: &str, secrets: &Redactor) -> Result<CheckCommit, CheckRefusal> {
        let trailers = [("Board-Card", "a-card"), ("Board-Job", "0b")];
        let request =
            CheckCommitRequest { base: &self.base, summary, trailers: &trailers, secrets, saved_ref: SAVED };
        self.worktrees.check_commit(&self.worktree, &request)
    }

    fn check(&self) -> Result<CheckCommit, CheckRefusal> {
        self.check_with("work done", &Redactor::new(["sk-secret-1"]))
    }

    fn save(&self) -> Option<Oid> {
        self.worktrees.save(&self.worktree, &self.base, SAVED, "saved").unwrap()
    }

    /// Paths of a commit below `docs` and elsewhere.
    fn files_of(&self, commit: &Oid) -> Vec<String> {
        let list = self.fixture.run(&["ls-tree", "-r", "-z", "--name-only", commit.as_str()]);
        list.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    fn status(&self) -> String {
        self.fixture.run_in(&self.worktree.path, &["status", "--porcelain=v2"])
    }
}

#[test]
fn what_an_agent_left_becomes_one_commit_on_the_branch() {
    let build = Build::new();
    build.write("README", "two\n");
    build.write("src/-new ü.rs", "fn main() {}\n");
    build.write("run", "#!/bin/sh\n");
    std::fs::set_permissions(build.worktree.path.join("run"), PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", build.worktree.path.join("link")).unwrap();
    let commit = build.check().unwrap();
    assert_eq!((commit.files_changed, commit.reverted.len()), (4, 0));
    let git = build.worktrees.git();
    assert_eq!(git.branch_tip("board/a-card/1").unwrap(), Some(commit.oid.clone()));
    assert_eq!(git.branch_tip("main").unwrap(), Some(build.base.clone()));
    let shown =
        build.fixture.run(&["show", "--format=%an|%P|%B", "--name-status", commit.oid.as_str(), "-z"]);
    assert!(
        shown.starts_with(&format!("Board|{}|work done\n\nBoard-Card: a-card\nBoard-Job: 0b", build.base)),
        "{shown}"
    );
    let modes = build.fixture.run(&["ls-tree", commit.oid.as_str(), "run", "link"]);
    assert!(modes.contains("120000") && modes.contains("100755"), "{modes}");
    assert_eq!(build.status(), "");
    assert_eq!(git.ref_tip(SAVED).unwrap(), None);
    build.fixture.run(&["fsck", "--strict"]);
}

#[test]
fn once_more_gives_the_same_commit_and_no_change_is_told() {
    let build = Build::new();
    assert!(matches!(build.check(), Err(CheckRefusal::NoChange { .. })));
    build.write("README", "two\n");
    let first = build.check().unwrap();
    assert_eq!(build.check().unwrap(), first);
    // A resumed build goes on from its check commit.
    build.write("more", "x\n");
    let second = build.check().unwrap();
    let git = build.worktrees.git();
    assert_eq!(git.log_between(&build.base, &second.oid, 9).unwrap().len(), 2);
    assert_eq!(second.files_changed, 2);
    build.write("README", "one\n");
    build.remove("more");
    assert!(matches!(build.check(), Err(CheckRefusal::NoChange { .. })), "all of it was taken back");
}

#[test]
fn ignored_files_stay_out_by_the_rules_of_the_base_commit() {
    let build = Build::with(&[
        (".gitignore", "target/\n*.log\n!keep.log\n"),
        ("sub/.gitignore", "/local\n"),
        ("tracked.log", "x\n"),
    ]);
    build.write("target/big", "x");
    build.write("a.log", "x");
    build.write("keep.log", "x");
    build.write("sub/local", "x");
    build.write("deep/sub/local", "x");
    build.write("tracked.log", "y\n");
    // The agent's rules would hide its work and let in the target.
    build.write(".gitignore", "*\n");
    build.write("sub/.gitignore", "");
    build.write("new/.gitignore", "*\n");
    build.write("new/file", "x");
    let commit = build.check().unwrap();
    let expected = [
        ".gitignore",
        "README",
        "deep/sub/local",
        "docs/board/a.yaml",
        "keep.log",
        "new/.gitignore",
        "new/file",
        "sub/.gitignore",
        "tracked.log",
    ];
    assert_eq!(build.files_of(&commit.oid), expected);
}

#[test]
fn the_operators_own_exclude_file_counts() {
    let build = Build::new();
    std::fs::write(build.fixture.repo().join(".git/info/exclude"), "scratch\n").unwrap();
    build.write("scratch", "x");
    assert!(matches!(build.check(), Err(CheckRefusal::NoChange { .. })));
}

#[test]
fn directories_files_and_links_may_change_places() {
    let build = Build::with(&[("dir/a", "1"), ("dir/b", "2"), ("file", "3"), ("x", "4")]);
    std::fs::remove_dir_all(build.worktree.path.join("dir")).unwrap();
    build.write("dir", "a file now");
    build.remove("file");
    build.write("file/inside", "a directory now");
    build.remove("x");
    std::os::unix::fs::symlink("/etc", build.worktree.path.join("x")).unwrap();
    let fifo = build.worktree.path.join("pipe");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let commit = build.check().unwrap();
    assert_eq!(build.files_of(&commit.oid), ["README", "dir", "docs/board/a.yaml", "file/inside", "x"]);
    std::fs::remove_file(fifo).unwrap();
    assert_eq!(build.status(), "");
}

#[test]
fn a_directory_replaced_by_a_link_to_outside_is_a_link_and_nothing_outside_is_read() {
    let build = Build::with(&[("dir/passwd", "1")]);
    std::fs::remove_dir_all(build.worktree.path.join("dir")).unwrap();
    std::os::unix::fs::symlink("/etc", build.worktree.path.join("dir")).unwrap();
    let commit = build.check().unwrap();
    assert_eq!(build.files_of(&commit.oid), ["README", "dir", "docs/board/a.yaml"]);
}

#[test]
fn changes_in_the_boards_directories_are_put_back_named_and_kept() {
    let build = Build::with(&[("docs/review/old.md", "old\n"), ("docs/x.md", "x\n")]);
    build.write("docs/board/a.yaml", "phase: deployed\n");
    build.write("docs/board/planted.yaml", "x\n");
    build.write("docs/research-report/r.md", "x\n");
    build.remove("docs/review/old.md");
    build.write("docs/x.md", "changed\n");
    let commit = build.check().unwrap();
    let reverted: Vec<_> = commit.reverted.iter().map(|path| path.to_str().unwrap()).collect();
    let expected =
        ["docs/board/a.yaml", "docs/board/planted.yaml", "docs/research-report/r.md", "docs/review/old.md"];
    assert_eq!(reverted, expected);
    assert_eq!(commit.files_changed, 1);
    let changed = build.fixture.run(&["diff", "--name-only", build.base.as_str(), commit.oid.as_str()]);
    assert_eq!(changed, "docs/x.md");
    assert_eq!(build.status(), "", "the work tree is put back too");
    assert_eq!(std::fs::read_to_string(build.worktree.path.join("docs/review/old.md")).unwrap(), "old\n");
    let git = build.worktrees.git();
    let saved = git.ref_tip(SAVED).unwrap().unwrap();
    assert_eq!(git.read_path(&saved, "docs/board/a.yaml", 99).unwrap().unwrap().bytes, b"phase: deployed\n");
    assert!(git.is_ancestor(&commit.oid, &saved).unwrap());
    // Once more after a crash: the commit is there, and nothing is left to put back.
    assert_eq!(build.check().unwrap().oid, commit.oid);
}

#[test]
fn the_boards_directory_replaced_by_a_link_or_a_file_comes_back() {
    for path in ["docs/board", "docs"] {
        let build = Build::new();
        std::fs::remove_dir_all(build.worktree.path.join(path)).unwrap();
        std::os::unix::fs::symlink("/etc", build.worktree.path.join(path)).unwrap();
        build.write("work", "x\n");
        let commit = build.check().unwrap();
        assert_eq!(build.files_of(&commit.oid), ["README", "docs/board/a.yaml", "work"]);
        assert_eq!(build.status(), "");
        let metadata = std::fs::symlink_metadata(build.worktree.path.join(path)).unwrap();
        assert!(metadata.is_dir(), "{path}");
    }
}

#[test]
fn only_the_boards_directories_changed_is_no_change_and_stays_in_the_work_tree() {
    let build = Build::new();
    build.write("docs/board/a.yaml", "phase: deployed\n");
    let refusal = build.check().unwrap_err();
    assert!(
        matches!(refusal, CheckRefusal::NoChange { reverted } if reverted == [Path::new("docs/board/a.yaml")])
    );
    assert!(build.save().is_some());
}

#[test]
fn limits_hold_at_n_and_refuse_at_n_plus_one() {
    let limits = CheckLimits { files: 3, total: 100, blob: 60, entries: 1000 };
    let build = Build::of(Fixture::with_commit(), limits.clone());
    build.write("a", "x".repeat(60));
    build.write("b", "x".repeat(40));
    build.remove("README");
    build.check().unwrap();

    let build = Build::of(Fixture::with_commit(), limits.clone());
    build.write("a", "x".repeat(61));
    let refusal = build.check().unwrap_err();
    assert!(
        matches!(&refusal, CheckRefusal::BlobTooLarge { files, .. } if files == &[("a".into(), 61)]),
        "{refusal}"
    );

    let build = Build::of(Fixture::with_commit(), limits.clone());
    build.write("a", "x".repeat(60));
    build.write("b", "x".repeat(41));
    assert!(matches!(build.check(), Err(CheckRefusal::TooLarge { bytes: 101, .. })));

    let build = Build::of(Fixture::with_commit(), limits);
    for name in ["a", "b", "c", "docs/board/counts-too"] {
        build.write(name, "x");
    }
    let refusal = build.check().unwrap_err();
    assert!(
        matches!(&refusal, CheckRefusal::TooManyFiles { count: 4, first, .. } if first.len() == 4),
        "{refusal}"
    );
    let git = build.worktrees.git();
    assert_eq!(git.branch_tip("board/a-card/1").unwrap(), Some(build.base.clone()));
    assert!(build.worktree.path.join("docs/board/counts-too").exists());
}

#[test]
fn the_entries_that_are_looked_at_are_limited_at_n_and_n_plus_one() {
    // .git, README, docs, docs/board, docs/board/a.yaml
    for (entries, fits) in [(5, true), (4, false)] {
        let limits = CheckLimits { entries, ..CheckLimits::default() };
        let build = Build::of(Fixture::with_commit(), limits);
        let found = build.worktrees.verify(&build.worktree, &build.base);
        assert_eq!(found.is_ok(), fits, "{found:?}");
    }
}

#[test]
fn a_known_secret_in_a_file_a_name_or_the_message_is_refused() {
    let build = Build::new();
    build.write("config", "key = sk-secret-1\n");
    build.write("fine", "sk-secret\n");
    let refusal = build.check().unwrap_err();
    assert!(
        matches!(&refusal, CheckRefusal::SecretInFile { files } if files == &[Path::new("config")]),
        "{refusal}"
    );
    assert!(!refusal.to_string().contains("sk-secret-1"));
    build.remove("config");
    build.write("sk-secret-1.txt", "x");
    assert!(matches!(build.check(), Err(CheckRefusal::SecretInFile { .. })));
    build.remove("sk-secret-1.txt");
    std::os::unix::fs::symlink("sk-secret-1", build.worktree.path.join("link")).unwrap();
    assert!(matches!(build.check(), Err(CheckRefusal::SecretInFile { .. })));
    build.remove("link");
    assert!(matches!(
        build.check_with("used sk-secret-1", &Redactor::new(["sk-secret-1"])),
        Err(CheckRefusal::SecretInMessage)
    ));
    build.check_with("fine", &Redactor::new(["sk-secret-1", ""])).unwrap();
}

#[test]
fn a_saved_commit_has_everything_but_known_secrets_and_counts_as_all_of_the_work() {
    let mut build = Build::with(&[("old", "old\n")]);
    let key = build.fixture.dir().join("key");
    std::fs::write(&key, "sk-secret-1\n").unwrap();
    build.worktrees = build.worktrees.clone().keeping_out(Secrets::of_key(key));
    build.write("old", "key = sk-secret-1\n");
    build.write("docs/board/x.yaml", "sk-secret-1\n");
    build.write("binary", b"\xff sk-secret-1 \x00");
    build.write("fine", "sk-secret\n");
    build.write("sk-secret-1.txt", "x");
    std::os::unix::fs::symlink("sk-secret-1", build.worktree.path.join("link")).unwrap();
    let saved = build.save().unwrap();
    let files = build.files_of(&saved);
    assert!(
        files.iter().any(|file| file == "fine") && !files.iter().any(|file| file.contains("sk-secret-1"))
    );
    let show = |path: &str| build.fixture.run(&["show", &format!("{saved}:{path}")]);
    assert_eq!((show("old").as_str(), show("link").as_str()), ("key = [entfernt]", "[entfernt]"));
    assert_eq!(show("docs/board/x.yaml"), "[entfernt]");
    let all = build.fixture.run(&["log", "-p", "-a", "--binary", "--format=%B", "--all"]);
    assert!(!all.contains("sk-secret-1") && all.contains("+sk-secret"), "{all}");
    // The file itself is as the agent left it, and its worktree can be given up.
    assert_eq!(std::fs::read_to_string(build.worktree.path.join("old")).unwrap(), "key = sk-secret-1\n");
    assert_eq!(build.save(), Some(saved));
    build.worktrees.remove(&build.worktree, &build.base, &[SAVED]).unwrap();
}

#[test]
fn what_is_put_back_is_kept_without_known_secrets() {
    let build = Build::new();
    build.write("README", "two\n");
    build.write("docs/board/x.yaml", "sk-secret-1\n");
    build.check().unwrap();
    assert_eq!(build.fixture.run(&["show", &format!("{SAVED}:docs/board/x.yaml")]), "[entfernt]");
}

#[test]
fn a_repository_planted_inside_fails_and_its_files_are_saved() {
    let build = Build::with(&[(".gitignore", "vendor/\n"), ("src/a.rs", "x\n")]);
    let git_dir = |path: &str| {
        std::fs::create_dir_all(build.worktree.path.join(path)).unwrap();
        build.fixture.run_in(&build.worktree.path.join(path), &["init", "-q"]);
    };
    build.write("vendor/lib/x", "ignored\n");
    git_dir("vendor/lib");
    build.worktrees.verify(&build.worktree, &build.base).unwrap();
    build.write("inner/deep/work", "work\n");
    git_dir("inner/deep");
    let error = build.worktrees.verify(&build.worktree, &build.base).unwrap_err();
    assert!(
        matches!(&error, WorktreeError::Planted { found, .. } if found == &[Path::new("inner/deep/.git")]),
        "{error}"
    );
    assert!(matches!(build.check(), Err(CheckRefusal::Worktree(WorktreeError::Planted { .. }))));
    let saved = build.save().unwrap();
    assert!(build.files_of(&saved).contains(&"inner/deep/work".to_owned()));
    assert!(!build.files_of(&saved).iter().any(|path| path.contains("vendor") || path.contains(".git/")));
    std::fs::remove_dir_all(build.worktree.path.join("inner")).unwrap();
    // Also where git would not notice: beside tracked files, as a file, in another spelling.
    build.write("src/.Git", "gitdir: /elsewhere\n");
    assert!(matches!(build.check(), Err(CheckRefusal::Worktree(WorktreeError::Planted { .. }))));
}

#[test]
fn nothing_that_is_planted_for_git_runs() {
    let build = Build::with(&[("src/a", "x\n")]);
    let marker = build.fixture.dir().join("ran");
    let evil = format!("touch {}", marker.display());
    let inner = build.worktree.path.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    build.fixture.run_in(&inner, &["init", "-q"]);
    build.fixture.run_in(&inner, &["config", "core.fsmonitor", &evil]);
    build.write("inner/f", "x");
    build.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    build.write(".gitconfig", format!("[core]\n\tfsmonitor = {evil}\n"));
    build.write("src/a", "y\n");
    assert!(build.check().is_err());
    assert!(build.save().is_some());
    std::fs::remove_dir_all(&inner).unwrap();
    build.check().unwrap();
    assert!(!marker.exists());
}

#[test]
fn a_replaced_git_file_is_found_and_the_work_is_saved_all_the_same() {
    let build = Build::new();
    build.write("work", "x\n");
    let file = build.worktree.path.join(".git");
    let untouched = std::fs::read(&file).unwrap();
    let elsewhere = build.fixture.dir().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    build.fixture.run_in(&elsewhere, &["init", "-q"]);
    let mutations: [&dyn Fn(); 4] = [
        &|| std::fs::write(&file, format!("gitdir: {}\n", elsewhere.join(".git").display())).unwrap(),
        &|| std::fs::write(&file, [untouched.as_slice(), b"\n"].concat()).unwrap(),
        &|| std::os::unix::fs::symlink(elsewhere.join(".git"), &file).unwrap(),
        &|| std::fs::create_dir(&file).unwrap(),
    ];
    for change in mutations {
        std::fs::remove_file(&file).unwrap();
        change();
        let error = build.worktrees.verify(&build.worktree, &build.base).unwrap_err();
        assert!(matches!(error, WorktreeError::GitFileChanged { .. }), "{error}");
        assert!(matches!(build.check(), Err(CheckRefusal::Worktree(WorktreeError::GitFileChanged { .. }))));
        let saved = build.save().unwrap();
        assert_eq!(build.files_of(&saved), ["README", "docs/board/a.yaml", "work"]);
        let strays = build.worktrees.strays().unwrap();
        assert_eq!(strays[0].kind, StrayKind::GitFileChanged);
    }
}

#[test]
fn a_worktree_on_another_branch_or_from_another_base_is_refused() {
    let build = Build::new();
    build.fixture.run(&["commit", "-q", "--allow-empty", "-m", "later"]);
    let later = build.worktrees.git().branch_tip("main").unwrap().unwrap();
    build.write("work", "x\n");
    let request = CheckCommitRequest {
        base: &later,
        summary: "x",
        trailers: &[],
        secrets: &Redactor::default(),
        saved_ref: SAVED,
    };
    let refusal = build.worktrees.check_commit(&build.worktree, &request).unwrap_err();
    assert!(matches!(refusal, CheckRefusal::Worktree(WorktreeError::WrongBranch { .. })));
    build.fixture.run_in(&build.worktree.path, &["checkout", "-q", "-b", "elsewhere"]);
    assert!(matches!(build.check(), Err(CheckRefusal::Worktree(WorktreeError::WrongBranch { .. }))));
}

#[test]
fn saved_work_is_kept_once_and_later_work_beside_the_earlier() {
    let build = Build::new();
    assert_eq!(build.save(), None);
    build.write("work", "x\n");
    let first = build.save().unwrap();
    assert_eq!(build.save(), Some(first.clone()));
    build.write("work", "y\n");
    let second = build.save().unwrap();
    let git = build.worktrees.git();
    assert!(git.is_ancestor(&first, &second).unwrap() && git.is_ancestor(&build.base, &second).unwrap());
    assert_eq!(git.ref_tip(SAVED).unwrap(), Some(second));
    assert_eq!(build.status(), "? work", "the work tree and its index are as they were");
}

#[test]
fn staged_flags_of_the_agents_index_do_not_hide_work() {
    let build = Build::new();
    build.write("README", "hidden\n");
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        build.fixture.run_in(&build.worktree.path, &["update-index", flag, "README"]);
    }
    let commit = build.check().unwrap();
    let git = build.worktrees.git();
    assert_eq!(git.read_path(&commit.oid, "README", 99).unwrap().unwrap().bytes, b"hidden\n");
}

#[test]
fn the_operators_sparse_checkout_does_not_remove_files_from_a_build() {
    let fixture = Fixture::new();
    fixture.write("other/x", "x\n");
    let fixture = fixture.and_commit();
    fixture.run(&["sparse-checkout", "set", "docs"]);
    let build = Build::of(fixture, CheckLimits::default());
    assert!(build.worktree.path.join("other/x").exists());
    build.write("work", "x\n");
    let commit = build.check().unwrap();
    assert_eq!(build.files_of(&commit.oid), ["README", "docs/board/a.yaml", "other/x", "work"]);
    // And a commit of the board keeps it as it is.
    assert!(!build.fixture.repo().join("other/x").exists());
}

#[test]
fn a_submodule_of_the_base_stays_and_a_sha256_repository_works() {
    let fixture = Fixture::with_init(&["--object-format=sha256"]).and_commit();
    let tip = fixture.run(&["rev-parse", "HEAD"]);
    fixture.run(&["update-index", "--add", "--cacheinfo", &format!("160000,{tip},module")]);
    fixture.run(&["commit", "-q", "-m", "module"]);
    let build = Build::of(fixture, CheckLimits::default());
    build.write("work", "x\n");
    let commit = build.check().unwrap();
    assert_eq!(build.files_of(&commit.oid), ["README", "docs/board/a.yaml", "module", "work"]);
    assert_eq!(commit.files_changed, 1);
}

#[test]
fn hooks_of_the_operator_do_not_run_for_a_worktree() {
    let fixture = Fixture::with_commit();
    let marker = fixture.dir().join("ran");
    for hook in ["post-checkout", "pre-commit", "reference-transaction", "post-index-change"] {
        let file = fixture.repo().join(".git/hooks").join(hook);
        std::fs::write(&file, format!("#!/bin/sh\ntouch {}\nexit 1\n", marker.display())).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let build = Build::of(fixture, CheckLimits::default());
    build.write("work", "x\n");
    build.check().unwrap();
    assert!(!marker.exists());
}

//! `login` with a program that logs in as the real ones do: it leaves a file in the home that it is given.
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use crate::files::Board;

/// Says what it was given and leaves a login.
const LOGS_IN: &str =
    "echo \"$* in $PWD, $CODEX_HOME, secret=$SECRET.\"\necho '{\"token\":\"t\"}' >\"$CODEX_HOME/auth.json\"";

/// A board with a runtime `codex` whose program is this script.
fn board(script: &str) -> Board {
    let board = Board::new();
    let program = board.path().join("agent");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = fs::read_to_string(board.config()).unwrap();
    let runtimes = format!(
        "[runtimes.codex]\nkind = \"codex\"\nprogram = {program:?}\n[runtimes.other]\nkind = \"acp\"\nprogram = {program:?}\n"
    );
    fs::write(board.config(), config + &runtimes).unwrap();
    board
}

#[test]
fn a_login_lies_in_the_home_of_the_runtime_for_the_service_alone() {
    let board = board(LOGS_IN);
    let (code, said, complained) = board.run(&["login", "codex", "--", "--device-auth"]);
    let home = board.state().join("runtimes/codex");
    assert_eq!(code, Some(0), "{said}{complained}");
    let given = format!("login --device-auth in {0}, {0}/.codex, secret=.", home.display());
    assert!(said.contains(&given) && said.contains("codex ist angemeldet"), "{said}");
    let file = fs::metadata(home.join(".codex/auth.json")).unwrap();
    assert_eq!(file.mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&home).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn root_logs_in_as_the_service_user() {
    if !nix::unistd::geteuid().is_root() {
        return crate::skipped("boardctl/login-as-root", "only root can be another user");
    }
    /// `nobody`
    const SERVICE: u32 = 65_534;
    let board = board(LOGS_IN);
    fs::set_permissions(board.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(board.state(), Some(SERVICE), Some(SERVICE)).unwrap();
    let (code, _, complained) = board.run(&["login", "codex"]);
    assert_eq!(code, Some(0), "{complained}");
    for name in ["runtimes", "runtimes/codex", "runtimes/codex/.codex", "runtimes/codex/.codex/auth.json"] {
        assert_eq!(fs::metadata(board.state().join(name)).unwrap().uid(), SERVICE, "{name}");
    }
}

#[test]
fn a_login_that_fails_or_leaves_nothing_says_so() {
    for (script, why) in [
        ("exit 3", "exit status: 3"),
        ("exit 0", "keine Anmeldung"),
        ("echo x >\"$CODEX_HOME/auth.json\"", "keine Anmeldung"),
    ] {
        let (code, _, complained) = board(script).run(&["login", "codex"]);
        assert!(code == Some(1) && complained.contains(why), "{script}: {complained}");
    }
}

#[test]
fn one_that_cannot_be_asked_says_what_would_be_right() {
    let board = board("echo \"$*\"");
    for (line, why) in [
        (&["login", "nowhere"][..], "codex, other, script"),
        (&["login", "other"], "boardctl login other -- "),
        (&["login", "script"], "boardctl login script -- "),
    ] {
        let (code, _, complained) = board.run(line);
        assert!(code == Some(1) && complained.contains(why), "{line:?}: {complained}");
    }
    let (code, said, _) = board.run(&["login", "other", "--", "sign", "in"]);
    assert!(code == Some(0) && said.starts_with("sign in\n"), "{said}");
}

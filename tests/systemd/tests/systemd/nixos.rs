//! Row 18 and what belongs to it: a host of NixOS with the units that its module renders, switched while a run goes on.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use systemd_tests::board::request;
use systemd_tests::nixos::{self, BOARDCTL};
use systemd_tests::skip::skip;
use systemd_tests::{Board, nixos::host};

use crate::help::{building, is_alive, result, unit_of};

/// Another package with the same programs, as after an update.
const NEWER: &str = "services.board-agent.package = pkgs.board-agent // { outPath = pkgs.board-agent.outPath + \"-newer\"; };";

/// Whether this machine can evaluate a host; else it is told.
fn can_evaluate(id: &str) -> bool {
    if !nixos::is_there() {
        skip(id, "needs nix-instantiate: apt-get install nix-bin");
    }
    nixos::is_there()
}

/// A copy of a checkout that is one user's alone.
fn own_checkout(from: &Path, to: &Path, owner: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(to.parent().unwrap())?;
    let script = "cp -a \"$1\" \"$2\"; git config --file \"$2/.git/config\" --unset core.sharedRepository; \
                  chmod -R g-ws \"$2\"; chown -R \"$3\" \"$2\"";
    let mut command = std::process::Command::new("sh");
    let done = command.args(["-euc", script, "sh"]).arg(from).arg(to).arg(owner).status()?;
    anyhow::ensure!(done.success(), "{}: {done}", to.display());
    Ok(())
}

fn program_of(board: &Board, unit: &str) -> String {
    let pid = board.property(unit, "MainPID");
    board.sh(&format!("readlink /proc/{pid}/exe"))
}

#[test]
fn the_main_loop_runs_on_the_units_that_the_module_renders() {
    if !can_evaluate("systemd nixos loop") {
        return;
    }
    let host = host("");
    let board = nixos::start(&host);
    for gone in ["boardctl", "bwrap"] {
        assert!(!board.path("/usr/bin").join(gone).exists(), "{gone} is where NixOS has it");
    }
    for daemon in ["board-agent-trigger.service", "board-agent-watcher.service"] {
        assert!(program_of(&board, daemon).starts_with(host.package()), "{daemon}");
    }
    // The slots are those of the module; an instance that only the target's wants name is a whole unit.
    board.assert_paths_active();
    board.intents(&["ok-eins"]);
    board.build("ok-eins");
    let card = board.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
    let commit = card["check_commit"].as_str().unwrap().to_owned();
    assert_eq!(board.op("git rev-parse board/ok-eins/1"), commit);
    assert_eq!(board.move_to("ok-eins", "deployed").status, 200);
    board.questions(&["ok-zwei"]);
    board.research("ok-zwei");
    board.wait_phase("ok-zwei", &["recherche_fertig"]);
    board.wait_committed();
    assert_eq!(board.runs(), 3);
    board.assert_paths_active();
    // What the configuration needs of the units is there.
    let said = board.sh(&format!("{BOARDCTL} doctor --language en || true"));
    let units = said.lines().find(|line| line.contains("what units may do")).unwrap_or(&said);
    assert!(units.contains("as the configuration needs it"), "{said}");
}

#[test]
fn row_18_a_switch_in_mid_run_ends_no_run_and_refuses_nobody_and_the_next_job_is_the_new_one_s() {
    if !can_evaluate("systemd row_18") {
        return;
    }
    let old = host("");
    let board = nixos::start(&old);
    let (unit, agent) = building(&board, "gate-eins");
    let worker = board.property(&unit, "MainPID");
    let trigger = board.property("board-agent-trigger.service", "MainPID");

    // Another package, another unit, another configuration, all at once.
    let new = host(&format!(
        "{NEWER} services.board-agent.worker.memoryMax = \"7G\"; services.board-agent.slots.read = 3; \
         services.board-agent.settings.board.language = \"en\";"
    ));
    let (stop, answered) = (AtomicBool::new(false), AtomicU32::new(0));
    let done = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let answer =
                        board.send("GET", "/api/board", None).unwrap_or_else(|error| panic!("{error:#}"));
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let done = nixos::switch(&board, &new);
        let before = answered.load(Ordering::Relaxed);
        board.wait("answers", || (answered.load(Ordering::Relaxed) >= before + 20).then_some(()));
        stop.store(true, Ordering::Relaxed);
        done
    });
    assert!(done.stop.is_empty(), "{done:?}");
    let mut restarted = done.restart.clone();
    // The sweep may just have been at work.
    restarted.retain(|unit| !unit.contains("sweep"));
    assert_eq!(restarted, ["board-agent-trigger.service", "board-agent-watcher.service"]);

    // The run goes on with the program that it was started with.
    assert_eq!(board.property(&unit, "MainPID"), worker);
    assert!(is_alive(agent));
    assert_eq!(program_of(&board, &unit), format!("{}/bin/board-worker", old.package()));
    assert_ne!(board.property("board-agent-trigger.service", "MainPID"), trigger);
    for daemon in ["board-agent-trigger.service", "board-agent-watcher.service"] {
        assert!(program_of(&board, daemon).starts_with(new.package()), "{daemon}");
    }
    assert_eq!(board.property("board-agent-read@3.path", "ActiveState"), "active", "a new slot");

    // The next one is started by the new unit.
    board.intents(&["gate-zwei"]);
    board.build("gate-zwei");
    let other = board.wait("the second agent", || {
        board.agents().into_iter().map(|process| process.pid).find(|pid| *pid != agent)
    });
    let other = unit_of(&board, other);
    assert_eq!(program_of(&board, &other), format!("{}/bin/board-worker", new.package()));
    assert_eq!(board.property(&other, "MemoryMax"), (7_u64 << 30).to_string());
    for card in ["gate-eins", "gate-zwei"] {
        board.open(card);
        board.wait_phase(card, &["bereit_fuer_deployment"]);
    }
    assert_eq!(board.runs(), 4);

    // The same host once more changes nothing at all.
    let done = nixos::switch(&board, &new);
    assert_eq!((done.stop, done.restart), (Vec::new(), Vec::new()));
}

#[test]
fn the_owner_of_a_checkout_in_his_home_is_the_service_with_a_state_directory_of_his_own_and_a_key() {
    if !can_evaluate("systemd nixos owner") {
        return;
    }
    let host = host(
        "services.board-agent = { user = \"op\"; group = \"op\"; stateDir = \"/srv/board-agent\"; \
         repository = lib.mkForce \"/home/op/repo\"; credentials.test = \"/var/lib/secrets/test-key\"; \
         credentials.proxy-secret = \"/var/lib/secrets/board-proxy\"; \
         settings = { sandbox.allow_api_keys = true; \
         runtimes.script.credential = { env = \"TEST_KEY\"; file = \"/run/board-agent-keys/test\"; }; }; };",
    );
    let board = nixos::start_with(&host, |installed, upper| {
        own_checkout(&installed.join("srv/repo"), &upper.join("home/op/repo"), "1000:1000")?;
        let secrets = upper.join("var/lib/secrets");
        std::fs::create_dir_all(&secrets)?;
        std::fs::write(secrets.join("test-key"), "sk-0123456789abcdef\n")?;
        let proxy = installed.join("etc/credstore/board-agent.proxy-secret");
        std::fs::copy(proxy, secrets.join("board-proxy"))?;
        Ok(())
    });
    board.sh("chown op: /home/op; chmod 0700 /home/op /var/lib/secrets; chmod 0600 /var/lib/secrets/*");
    for unit in ["board-agent-trigger.service", "board-agent-watcher.service"] {
        assert_eq!(board.property(unit, "User"), "op");
    }
    board.sh_as(
        "op",
        "printf '# Schlüssel\\n\\nDie Datei ergänzen.\\n' >/home/op/repo/docs/intent/key-eins.md",
    );
    board.build("key-eins");
    board.wait_phase("key-eins", &["bereit_fuer_deployment"]);
    let built =
        |name: &str| board.sh_as("op", &format!("git -C /home/op/repo show board/key-eins/1:src/{name}"));
    assert_eq!(built("key.txt"), "19", "the key came through");
    assert!(!built("home.txt").contains("repo/docs"), "{}", built("home.txt"));
    assert!(!built("home.txt").contains(".bashrc"), "{}", built("home.txt"));
    let owner = board.sh("stat --format='%U %a' /srv/board-agent/queue /srv/board-agent/state.json");
    assert_eq!(owner, "op 711\nop 600");
    assert!(!board.path("/var/lib/board-agent").exists(), "nothing is made at the default");
    let said = board.sh(&format!("{BOARDCTL} doctor --language en || true"));
    let units =
        said.lines().find(|line| line.contains("what units may do")).unwrap_or_else(|| panic!("{said}"));
    // Conditions are nothing that systemd 252 prints the values of, so what is said of them counts for nothing here.
    let missing: Vec<&str> = units.split_once("missing: ").map_or("", |(_, list)| list).split("; ").collect();
    let missing: Vec<&str> =
        missing.into_iter().filter(|line| !line.is_empty() && !line.contains("Condition")).collect();
    assert_eq!(missing, [""; 0], "{said}");
    let conditions = board.systemctl("cat board-agent-backlog.service");
    assert!(
        conditions.contains("\nConditionPathExistsGlob=|/srv/board-agent/queue/inbox/*/*.json\n"),
        "{conditions}"
    );
    let secret = said.lines().find(|line| line.contains("identity")).unwrap_or(&said);
    assert!(secret.contains("proxy with a secret"), "{said}");
}

#[test]
fn a_host_that_gives_the_board_up_ends_its_runs_and_keeps_its_state() {
    if !can_evaluate("systemd nixos off") {
        return;
    }
    let board = nixos::start(&host(""));
    let (_, agent) = building(&board, "gate-eins");
    nixos::switch(&board, &host("services.board-agent.enable = lib.mkForce false;"));
    board.wait("the end of the run", || (!is_alive(agent)).then_some(()));
    board.wait("everything to be stopped", || {
        let units = board.systemctl(
            "list-units --plain --no-legend --state=active,activating,deactivating,reloading 'board-agent*'",
        );
        // The slice goes with its last process.
        units.lines().all(|line| line.contains(".slice")).then_some(())
    });
    assert!(board.path("/var/lib/board-agent/state.json").exists());
    // Taken back, it goes on from there.
    nixos::switch(&board, &host(""));
    board.systemctl("start multi-user.target");
    let card = board.wait_phase("gate-eins", &["umsetzung_fehlgeschlagen"]);
    assert_eq!(result(&card), "interrupted");
    board.open("gate-eins");
    assert_eq!(board.call("gate-eins", "resume").status, 202);
    board.wait_phase("gate-eins", &["bereit_fuer_deployment"]);
    board.assert_paths_active();
}

/// The default host on a unix socket whose proxy is the test, root of the host.
fn on_a_socket(path: &str) -> nix_tests::Host {
    host(&format!(
        "services.board-agent = {{ listen = \"{path}\"; socketGroup = \"op\"; \
         settings.auth.trusted_peers = [ \"root\" ]; }};"
    ))
}

/// Waits until the board answers on a unix socket.
fn wait_answer(board: &Board, socket: &str) {
    let answer = board.wait("an answer on the socket", || {
        let mut stream = UnixStream::connect(board.path(socket)).ok()?;
        stream.set_read_timeout(Some(systemd_tests::PATIENCE)).ok()?;
        stream.write_all(&request("GET", "/api/board", None, "")).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    });
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn another_address_is_taken_by_a_switch_where_the_socket_was_stopped_before() {
    if !can_evaluate("systemd nixos socket") {
        return;
    }
    let board = nixos::start(&host(""));
    // As the page says.
    board.systemctl("stop board-agent-trigger.socket");
    let socket = "/run/board-agent/http.sock";
    nixos::switch(&board, &on_a_socket(socket));
    assert_eq!(board.sh(&format!("stat --format='%G %a' {socket}")), "op 660");
    wait_answer(&board, socket);
    assert!(board.send("GET", "/healthz", None).is_err(), "nobody is left at the old address");
    // Forgotten, the trigger cannot come back, and the switch says so, until the socket is restarted.
    let socket = "/run/board-agent/other.sock";
    let (_, failed) = nixos::switch_whatever_fails(&board, &on_a_socket(socket));
    assert!(matches!(&failed[..], [one] if one.contains("board-agent-trigger.service")), "{failed:?}");
    board.systemctl("restart board-agent-trigger.socket");
    wait_answer(&board, socket);
}

#[test]
fn a_builder_evaluates_a_flake_in_its_sandbox_by_the_socket_of_the_nix_daemon() {
    if !can_evaluate("systemd nixos builder") {
        return;
    }
    let socket = "/nix/var/nix/daemon-socket/socket";
    // By `sandbox.read`, which every role sees: what the workers make of `sandbox.sockets` is not decided here.
    let board = nixos::start(&host(
        "services.board-agent.settings.sandbox.read = [ \"/nix/var/nix/daemon-socket\" ]; \
         services.board-agent.settings.runtimes.script.env.NIX_REMOTE = \"daemon\"; \
         systemd.tmpfiles.rules = [ \"d /nix/var/nix/daemon-socket 0755 root root -\" ];",
    ));
    board.sh(&format!(
        "systemd-run --quiet --unit=nix-daemon --setenv=NIX_CONFIG='build-users-group =' nix-daemon; \
         until [ -S {socket} ]; do sleep 0.1; done"
    ));
    let flake = nix_tests::eval::file("demo-flake");
    for name in ["flake.nix", "hostname"] {
        let text = std::fs::read_to_string(flake.join(name)).unwrap();
        std::fs::write(board.path("/srv/repo").join(name), text).unwrap();
    }
    board.sh("chown op: /srv/repo/flake.nix /srv/repo/hostname");
    board.op("git add flake.nix hostname; git commit --quiet -m Flake");
    board.intents(&["nix-eins"]);
    board.build("nix-eins");
    let card = board.wait_phase("nix-eins", &["bereit_fuer_deployment", "umsetzung_fehlgeschlagen"]);
    assert_eq!(
        card["phase"],
        "bereit_fuer_deployment",
        "{card}\n{}",
        board.sh("cat /var/lib/board-agent/logs/*.jsonl")
    );
    let built = |name: &str| board.op(&format!("git show board/nix-eins/1:src/{name}"));
    assert_eq!(built("eval.txt"), "\"demo\"");
    assert_eq!(built("flake.txt"), "demo");
    assert!(built("store.txt").starts_with("sha256:"), "{}", built("store.txt"));
    // It was the daemon that put it there: the agent's own user cannot.
    assert_eq!(board.sh("stat --format=%U /nix/store/*-flake.nix"), "root");
    assert_eq!(board.runs(), 2);
}

#[test]
fn row_18_the_same_by_the_switch_of_nixos_itself() {
    skip("systemd row_18 vm", "a switch in a virtual machine needs nixpkgs and KVM: tests/nix/vm.nix");
}

#[test]
fn who_follows_the_page_has_a_board_that_lacks_nothing_but_the_agent() {
    if !can_evaluate("systemd nixos page") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let module = nix_tests::page::host_of(&["board.nix"], dir.path()).unwrap();
    let host = nix_tests::Host::of(&module).unwrap();
    let board = nixos::start_with(&host, |installed, upper| {
        let users = upper.join("etc/sysusers.d");
        std::fs::create_dir_all(&users)?;
        std::fs::write(users.join("lukas.conf"), "u lukas 1500:100 \"Lukas\" /home/lukas /bin/sh\n")?;
        // The first two sections of the page.
        let script = format!(
            "install -d -m 0700 {upper}/var/lib/secrets; \
             umask 077; head -c 24 /dev/urandom | base64 > {upper}/var/lib/secrets/board-proxy",
            upper = upper.display()
        );
        own_checkout(&installed.join("srv/repo"), &upper.join("srv/nixos-config"), "1500:100")?;
        let done = std::process::Command::new("sh").args(["-euc", &script]).status()?;
        anyhow::ensure!(done.success(), "{done}");
        Ok(())
    });
    let ctl = |words: &str| board.try_sh_as("root", &format!("{BOARDCTL} {words}"));
    board.wait("a doctor who misses the agent alone", || {
        let said = ctl("doctor").unwrap_or_else(|said| said);
        let failures: Vec<&str> = said.lines().filter(|line| line.contains("fail ")).collect();
        matches!(&failures[..], [one] if one.contains("runtime codex")).then_some(())
    });
    board.sh_as(
        "lukas",
        "printf '# Greeting\\n\\nA file GREETING with one friendly line.\\n' >/srv/nixos-config/docs/intent/greeting.md",
    );
    assert!(ctl("list").unwrap().contains("greeting  Planned  Greeting"));
    ctl("start greeting").unwrap();
    board.wait("the run that misses its agent", || {
        let told = board.journal("--unit=board-agent-watcher.service");
        told.iter().any(|line| line.contains("codex: not found in PATH")).then_some(())
    });
}

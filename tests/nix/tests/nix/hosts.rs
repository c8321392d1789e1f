//! Hosts that evaluate, and hosts that are refused, each with its sentence.

use std::process::Command;

use nix_tests::{Host, eval, root};

use crate::{hosts, name_of};

#[test]
fn every_file_parses() {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.nix"])
        .current_dir(root())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<&str> = listed.split_terminator('\0').collect();
    assert!(files.contains(&"nixos-module.nix") && files.contains(&"flake.nix"), "{files:?}");
    for file in files {
        eval::parse(&root().join(file)).unwrap_or_else(|error| panic!("{file}: {error:#}"));
    }
}

#[test]
fn the_hosts_evaluate_and_warn_of_nothing() {
    let hosts = hosts();
    assert!(hosts.len() >= 6, "{}", hosts.len());
    for (name, host) in hosts {
        assert_eq!(host.warnings(), [""; 0], "{name}");
        assert!(!host.unit("board-agent-watcher.service").is_empty(), "{name}");
    }
}

#[test]
fn a_wrong_host_is_refused_with_the_sentence_that_helps() {
    let files = eval::files("wrong");
    assert!(files.len() >= 10);
    for file in files {
        let name = name_of(&file);
        let text = std::fs::read_to_string(&file).unwrap();
        let sentence = text.lines().next().unwrap().strip_prefix("# ").unwrap();
        match Host::read(&file) {
            // What evaluates is refused by one assertion, and by that one alone.
            Ok(host) => {
                let refused = host.refused();
                assert_eq!(refused.len(), 1, "{name}: {refused:?}");
                assert!(refused[0].contains(sentence), "{name}: {refused:?}");
                assert!(refused[0].starts_with("services.board-agent."), "{name}: {refused:?}");
            }
            Err(error) => {
                assert!(format!("{error:#}").contains(sentence), "{name}: {error:#}");
            }
        }
    }
}

#[test]
fn what_is_likely_a_mistake_is_warned_of() {
    let host = |lines: &str| {
        let common = "enable = true; repository = \"/srv/repo\";";
        Host::of(&format!("{{ services.board-agent = {{ {common} {lines} }}; }}")).unwrap()
    };
    for (lines, warning) in [
        (
            "listen = \"0.0.0.0:80\"; settings.http.allow_non_loopback = true; settings.auth.mode = \"open\";",
            "asks nobody who he is",
        ),
        ("openFirewall = true;", "is loopback, which no other host reaches"),
        ("listen = \"/run/x.sock\";", "nobody may speak as the proxy until its user is named"),
    ] {
        let host = host(lines);
        let warnings = host.warnings();
        assert!(matches!(&warnings[..], [one] if one.contains(warning)), "{lines}: {warnings:?}");
    }
    assert!(host("").warnings().is_empty());
}

#[test]
fn a_host_without_the_board_gets_nothing_of_it() {
    let text = "{ config, ... }: { services.board-agent.enable = false; }";
    let expression = format!(
        "let lib = import {0}/tests/nix/lib.nix; pkgs = import {0}/tests/nix/pkgs.nix {{ inherit lib; }}; in \
         (lib.evalModules {{ args = {{ inherit pkgs; }}; modules = [ {0}/tests/nix/nixos.nix {0}/nixos-module.nix ({text}) ]; }})\
         .config.rendered.units",
        root().display()
    );
    assert_eq!(eval::expression(&expression).unwrap(), serde_json::json!({}));
}

#[test]
fn users_groups_and_directories_are_made_for_who_needs_them() {
    let host = Host::named("default");
    assert_eq!(host.value["users"]["board-agent"]["home"], "/var/lib/board-agent");
    assert!(host.value["groups"]["board-agent-drop"].is_object());
    assert_eq!(host.value["tmpfiles"][0], "d /var/lib/board-agent 0711 board-agent board-agent -");
    assert_eq!(host.value["tmpfiles"].as_array().unwrap().len(), 8, "as many as systemd/tmpfiles.d has");

    let host = Host::named("own-user");
    assert!(host.value["users"]["board-agent"].is_null(), "it has another owner");
    assert_eq!(host.value["tmpfiles"][7], "d /srv/board-agent/queue/drop 0730 lukas board-agent-drop -");

    let host = Host::named("everything");
    let open = &host.value["firewall"]["interfaces"]["tailscale0"]["allowedTCPPorts"];
    assert_eq!(*open, serde_json::json!([8080]));
    assert_eq!(host.value["firewall"]["allowedTCPPorts"], serde_json::json!([]));
    let programs = host.value["systemPackages"].to_string();
    for program in ["board-agent", "bubblewrap", "git", "codex", "nix"] {
        assert!(programs.contains(&format!("-{program}\"")), "{program}: {programs}");
    }
}

#[test]
fn what_the_list_of_lib_does_not_have_stops_the_evaluation_by_its_name() {
    let host = "{ lib, ... }: { services.board-agent = { enable = true; repository = lib.getExe 1; }; }";
    let error = format!("{:#}", Host::of(host).unwrap_err());
    assert!(error.contains("attribute 'getExe' missing"), "{error}");
}

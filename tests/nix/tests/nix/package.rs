//! package.nix and flake.nix, as far as evaluation goes, and the script that installs the units.

use std::fs;

use nix_tests::tree::{all_files, install_package};
use nix_tests::{eval, root};
use serde_json::Value;

/// The attributes that package.nix hands to the builder.
fn package() -> Value {
    let expression = format!(
        "let lib = import {0}/tests/nix/lib.nix; pkgs = import {0}/tests/nix/pkgs.nix {{ inherit lib; }}; in \
         builtins.mapAttrs (name: value: if name == \"src\" then map toString value.fileset \
         else if name == \"cargoLock\" then toString value.lockFile else value) \
         (import {0}/package.nix {{ inherit lib; inherit (pkgs) rustPlatform stdenv; }}).arguments",
        root().display()
    );
    eval::expression(&expression).unwrap()
}

#[test]
fn the_package_has_the_version_of_the_crates_and_what_cargo_reads() {
    let package = package();
    let manifest: toml::Table =
        toml::from_str(&fs::read_to_string(root().join("Cargo.toml")).unwrap()).unwrap();
    assert_eq!(package["version"], manifest["workspace"]["package"]["version"].as_str().unwrap());
    let sources: Vec<String> = package["src"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap().replace(&format!("{}/", root().display()), ""))
        .collect();
    for source in &sources {
        assert!(root().join(source).exists(), "{source}");
    }
    // cargo refuses to begin without every member.
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        let top = member.as_str().unwrap().split('/').next().unwrap();
        assert!(sources.iter().any(|source| source == top), "{top}: {sources:?}");
    }
    // No hash is kept, so every crate must come from the registry.
    let lock = fs::read_to_string(package["cargoLock"].as_str().unwrap()).unwrap();
    let strange = lock.lines().find(|line| line.starts_with("source = ") && !line.contains("\"registry+"));
    assert_eq!(strange, None);
    // Whatever a program includes at compile time lies in the source.
    for file in ["systemd", "packaging/nix", "docs", "crates"] {
        assert!(sources.iter().any(|source| source == file), "{file}");
    }
}

#[test]
fn the_installed_units_name_only_what_the_package_has() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = "/nix/store/abc-board-agent";
    install_package(prefix, dir.path()).unwrap();
    let there: Vec<String> = all_files(&dir.path().join("lib/systemd/system"))
        .unwrap()
        .iter()
        .map(|file| file.strip_prefix(dir.path().join("lib/systemd/system")).unwrap().display().to_string())
        .collect();
    let mut expected = Vec::new();
    for file in all_files(&root().join("systemd")).unwrap() {
        let file = file.strip_prefix(root().join("systemd")).unwrap().display().to_string();
        if file.starts_with("board-agent") {
            expected.push(file);
        }
    }
    assert_eq!(there, expected);
    let built = ["board-trigger", "board-watcher", "board-worker", "boardctl"];
    for file in &there {
        let text = fs::read_to_string(dir.path().join("lib/systemd/system").join(file)).unwrap();
        assert!(!text.contains("/usr/"), "{file}");
        for line in text.lines().filter(|line| line.starts_with("Exec")) {
            let program = line.split_once('=').unwrap().1.trim_start_matches('!').split(' ').next().unwrap();
            let name = program.strip_prefix(&format!("{prefix}/bin/")).unwrap_or_else(|| panic!("{line}"));
            assert!(built.contains(&name), "{line}");
        }
    }
    assert!(dir.path().join("share/doc/board-agent/README.systemd.md").is_file());
}

#[test]
fn the_flake_has_package_module_overlay_and_checks_for_both_architectures() {
    let expression = format!(
        "let lib = import {0}/tests/nix/lib.nix; \
         for = system: let base = import {0}/tests/nix/pkgs.nix {{ inherit lib; }}; pkgs = base // {{ \
         callPackage = file: _: import file {{ inherit lib; inherit (pkgs) rustPlatform stdenv; }}; \
         stdenv = base.stdenv // {{ hostPlatform = base.stdenv.hostPlatform // {{ inherit system; }}; }}; }}; in pkgs; \
         flake = import {0}/flake.nix; \
         self = flake.outputs {{ inherit self; nixpkgs.legacyPackages = lib.genAttrs [ \"x86_64-linux\" \"aarch64-linux\" ] for; }}; \
         names = set: builtins.mapAttrs (_: builtins.attrNames) set; in \
         {{ packages = names self.packages; checks = names self.checks; modules = map builtins.isFunction \
         [ (import self.nixosModules.default) ]; package = self.packages.aarch64-linux.default.name; \
         check = self.checks.x86_64-linux.package.name; \
         overlay = (self.overlays.default (for \"x86_64-linux\") {{ }}).board-agent.name; }}",
        root().display()
    );
    let flake = eval::expression(&expression).unwrap();
    for system in ["x86_64-linux", "aarch64-linux"] {
        assert_eq!(flake["packages"][system], serde_json::json!(["board-agent", "default"]));
        assert_eq!(flake["checks"][system], serde_json::json!(["package", "vm"]));
    }
    assert_eq!(flake["modules"], serde_json::json!([true]));
    for name in ["package", "check", "overlay"] {
        assert!(flake[name].as_str().unwrap().starts_with("board-agent-"), "{flake}");
    }
}

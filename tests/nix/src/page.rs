//! The examples of `docs/nixos.md`, so that what people copy is what is tested.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use crate::eval;

/// The page.
const PAGE: &str = include_str!("../../../docs/nixos.md");

/// Options of other modules that the examples set. nixpkgs would check them; here anything goes.
const OTHERS: &str = "{ lib, ... }: { options.services = lib.genAttrs \
    [ \"caddy\" \"dex\" \"nginx\" \"oauth2-proxy\" \"tailscale\" \"traefik\" ] \
    (_: lib.mkOption { type = lib.types.anything; default = { }; description = \"As in NixOS.\"; }); }";

/// Every example by the name behind its fence.
///
/// # Panics
/// If two have the same, or one has none.
pub fn examples() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for part in PAGE.split("```nix").skip(1) {
        let (name, rest) = part.split_once('\n').unwrap_or_default();
        let Some((text, _)) = rest.split_once("```") else { panic!("{name} does not end") };
        assert!(name.starts_with(' ') && name.ends_with(".nix"), "an example without a name: {name:?}");
        let twice = found.insert(name.trim().to_owned(), text.to_owned());
        assert!(twice.is_none(), "two examples {name}");
    }
    found
}

/// Writes them as files, and answers a module that imports those of the names.
///
/// # Errors
/// A file that cannot be written.
pub fn host_of(names: &[&str], dir: &Path) -> anyhow::Result<String> {
    for (name, text) in examples() {
        let file = dir.join(name);
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    let files: Vec<String> = names.iter().map(|name| dir.join(name).display().to_string()).collect();
    Ok(format!("{{ imports = [ ({OTHERS}) {} ]; }}", files.join(" ")))
}

/// The modules that the example of a host's flake names, by this project's flake.
///
/// # Errors
/// What Nix says, if it does not evaluate.
pub fn host_of_the_flake(dir: &Path) -> anyhow::Result<String> {
    host_of(&[], dir)?;
    std::fs::write(dir.join("configuration.nix"), "{ }").context("configuration.nix")?;
    let expression = format!(
        "let flake = import {}/flake.nix; ours = import {}/flake.nix; \
         board-agent = ours.outputs {{ self = board-agent; nixpkgs.legacyPackages = {{ }}; }}; \
         nixpkgs.lib.nixosSystem = system: map toString system.modules; in \
         (flake.outputs {{ inherit nixpkgs board-agent; }}).nixosConfigurations.host",
        dir.display(),
        crate::root().display()
    );
    let modules = eval::expression(&expression)?;
    let files: Vec<&str> =
        modules.as_array().into_iter().flatten().filter_map(|file| file.as_str()).collect();
    anyhow::ensure!(files.len() == 3, "{modules}");
    // The stand-in has our module already.
    let files: Vec<&str> = files.into_iter().filter(|file| !file.ends_with("nixos-module.nix")).collect();
    Ok(format!("{{ imports = [ ({OTHERS}) {} ]; }}", files.join(" ")))
}

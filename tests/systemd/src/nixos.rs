//! A host of NixOS in the container: the units that the module renders in the place of the package's, the real programs in
//! a store, and what a switch does.
//!
//! The rest is Debian's: its systemd, git and bubblewrap. The operator, the checkout and the proxy's secret are those of the
//! other tests.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use nix_tests::Host;
use nix_tests::switch::{Plan, plan};
use nix_tests::tree::{all_files, install_package, write_units};

use crate::Board;
use crate::root::Root;

/// The programs of the package.
const PROGRAMS: [&str; 4] = ["board-trigger", "board-watcher", "board-worker", "boardctl"];
/// Where NixOS has the units.
const UNITS: &str = "etc/systemd/system";
/// The link that is the system.
const SYSTEM: &str = "/nix/store/00000000000000000000000000000000-nixos-system";
/// The operator's tool, where the path of runs finds it too.
pub const BOARDCTL: &str = "/run/current-system/sw/bin/boardctl";

/// Whether hosts can be evaluated here.
pub fn is_there() -> bool {
    nix_tests::eval::is_there()
}

/// A host that is `booted.nix` with these lines more, as a module.
///
/// # Panics
/// If it does not evaluate.
pub fn host(more: &str) -> Host {
    let booted = nix_tests::eval::file("hosts/booted.nix");
    let module = format!("{{ lib, pkgs, ... }}: {{ imports = [ {} ]; {more} }}", booted.display());
    let host = Host::of(&module).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(host.refused(), [""; 0]);
    host
}

/// Boots a container with this host.
///
/// # Panics
/// If it does not come up.
pub fn start(host: &Host) -> Board {
    start_with(host, |_, _| Ok(()))
}

/// The same; `more` gets the directory of the layer below and that of the container, and may write into the second.
///
/// # Panics
/// If it does not come up.
pub fn start_with(host: &Host, more: impl FnOnce(&Path, &Path) -> anyhow::Result<()>) -> Board {
    Board::start_with(|upper| {
        let made = Root::installed().and_then(|root| {
            let installed = root.layer.join("upper");
            prepare(host, &installed, upper)?;
            bubblewrap_of_the_system(host, &root.base, upper)?;
            more(&installed, upper)
        });
        made.unwrap_or_else(|error| panic!("{error:#}"));
    })
}

/// Hides what the Debian package installed, and writes what NixOS would have.
fn prepare(host: &Host, installed: &Path, upper: &Path) -> anyhow::Result<()> {
    write_host(host, installed, upper)?;
    let tmpfiles: Vec<&str> =
        host.value["tmpfiles"].as_array().into_iter().flatten().filter_map(|rule| rule.as_str()).collect();
    let rules = format!("{}\nL+ /run/current-system - - - - {SYSTEM}\n", tmpfiles.join("\n"));
    put(&upper.join("etc/tmpfiles.d/00-nixos.conf"), &rules)?;
    for dir in ["usr/bin", "usr/lib/systemd/system", "usr/lib/tmpfiles.d", UNITS] {
        hide(&installed.join(dir), &upper.join(dir))?;
    }
    Ok(())
}

/// The store, the units, the configuration.
fn write_host(host: &Host, installed: &Path, to: &Path) -> anyhow::Result<()> {
    let below = |path: &str| to.join(path.trim_start_matches('/'));
    let package = below(host.package());
    if !package.exists() {
        install_package(host.package(), &package)?;
        let bin = package.join("bin");
        std::fs::create_dir_all(&bin).with_context(|| bin.display().to_string())?;
        for program in PROGRAMS {
            let from = installed.join("usr/bin").join(program);
            std::fs::copy(&from, bin.join(program)).with_context(|| from.display().to_string())?;
        }
    }
    // What every other package of the host would bring is Debian's.
    let file = host.value["configFile"].as_str().unwrap_or_default();
    for path in host.store_paths().iter().filter(|path| *path != host.package() && *path != file) {
        link("/usr/bin", &below(path).join("bin"))?;
    }
    let sw = below(SYSTEM).join("sw/bin");
    for program in PROGRAMS {
        let _ = std::fs::remove_file(sw.join(program));
        link(&format!("{}/bin/{program}", host.package()), &sw.join(program))?;
    }
    put(&below(file), &host.config()?)?;
    for (name, target) in host.value["etc"].as_object().into_iter().flatten() {
        let place = to.join("etc").join(name);
        let _ = std::fs::remove_file(&place);
        link(target.as_str().unwrap_or_default(), &place)?;
    }
    write_units(host, &package, &to.join(UNITS))
}

/// Takes bubblewrap away from where Debian has it: the workers have to look where NixOS has what a host installs.
fn bubblewrap_of_the_system(host: &Host, base: &Path, upper: &Path) -> anyhow::Result<()> {
    let mut packages =
        host.value["systemPackages"].as_array().into_iter().flatten().filter_map(|path| path.as_str());
    let package =
        packages.find(|path| path.ends_with("-bubblewrap")).context("no bubblewrap is installed")?;
    let store = upper.join(package.trim_start_matches('/')).join("bin");
    std::fs::create_dir_all(&store).with_context(|| store.display().to_string())?;
    std::fs::copy(base.join("usr/bin/bwrap"), store.join("bwrap")).context("bwrap")?;
    let link_in_path = upper.join(SYSTEM.trim_start_matches('/')).join("sw/bin/bwrap");
    link(&format!("{package}/bin/bwrap"), &link_in_path)?;
    cover(&upper.join("usr/bin/bwrap"))
}

/// What an overlay takes for a file that is gone.
fn cover(file: &Path) -> anyhow::Result<()> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let made = Command::new("mknod").arg(file).args(["c", "0", "0"]).status().context("mknod")?;
    ensure!(made.success(), "mknod {}: {made}", file.display());
    Ok(())
}

fn put(file: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    std::fs::write(file, text).with_context(|| file.display().to_string())
}

fn link(target: &str, file: &Path) -> anyhow::Result<()> {
    if file.is_symlink() || file.exists() {
        return Ok(());
    }
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    symlink(target, file).with_context(|| file.display().to_string())
}

/// Covers every file of ours in a directory of the layer below, but those that the host has in its place.
fn hide(lower: &Path, upper: &Path) -> anyhow::Result<()> {
    let files = all_files(lower).unwrap_or_default();
    for file in files {
        let name = file.strip_prefix(lower).unwrap_or(&file);
        if !name.to_string_lossy().contains("board-") && !name.ends_with("boardctl") {
            continue;
        }
        let place = upper.join(name);
        if !place.is_symlink() && !place.exists() {
            cover(&place)?;
        }
    }
    Ok(())
}

/// Switches to another host as `nixos-rebuild switch` would, and answers what was done.
///
/// # Panics
/// If a step fails.
pub fn switch(board: &Board, host: &Host) -> Plan {
    let (done, failed) = switch_whatever_fails(board, host);
    assert!(failed.is_empty(), "{failed:?}");
    done
}

/// The same; what could not be restarted or started is told, and the switch goes on.
///
/// # Panics
/// If a file cannot be put in its place.
pub fn switch_whatever_fails(board: &Board, host: &Host) -> (Plan, Vec<String>) {
    let done = try_switch(board, host).unwrap_or_else(|error| panic!("{error:#}"));
    let mut failed = Vec::new();
    for (verb, units) in [("restart", &done.restart), ("start", &done.start)] {
        if !units.is_empty() {
            failed.extend(board.try_sh_as("root", &format!("systemctl {verb} -- {}", quoted(units))).err());
        }
    }
    (done, failed)
}

fn try_switch(board: &Board, host: &Host) -> anyhow::Result<Plan> {
    let listed =
        board.systemctl("list-units --plain --no-legend --all --state=active,activating 'board-agent*'");
    let active: BTreeSet<String> =
        listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    let active: Vec<String> = active.into_iter().collect();
    // Beside each other, as both systems lie in the store.
    let (old, new) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let installed = Root::installed()?.layer.join("upper");
    std::fs::create_dir_all(new.path().join(UNITS))?;
    // A host without the board has no unit of it.
    if !host.units().is_empty() {
        write_host(host, &installed, new.path())?;
    }
    let units = board.path("/").join(UNITS);
    copy_ours(&units, &old.path().join(UNITS))?;
    let plan = plan(&old.path().join(UNITS), &new.path().join(UNITS), &active)?;
    if !plan.stop.is_empty() {
        board.systemctl(&format!("stop -- {}", quoted(&plan.stop)));
    }
    // Activation: /etc is the new one's.
    for file in ours(&units)? {
        std::fs::remove_file(&file).with_context(|| file.display().to_string())?;
    }
    let copied = Command::new("cp")
        .args(["--archive", "--remove-destination"])
        .arg(format!("{}/.", new.path().display()))
        .arg(board.path("/"))
        .status()
        .context("cp")?;
    ensure!(copied.success(), "cp: {copied}");
    board.systemctl("reset-failed");
    board.systemctl("daemon-reload");
    board.sh("systemd-tmpfiles --create /etc/tmpfiles.d/00-nixos.conf");
    Ok(plan)
}

/// The files of our units below a directory; not those of others.
fn ours(units: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = all_files(units)?;
    found.retain(|file| {
        file.strip_prefix(units).is_ok_and(|name| name.to_string_lossy().contains("board-agent"))
    });
    Ok(found)
}

fn copy_ours(from: &Path, to: &Path) -> anyhow::Result<()> {
    for file in ours(from)?.into_iter().filter(|file| !file.is_symlink()) {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        put(&to.join(file.strip_prefix(from).unwrap_or(&file)), &text)?;
    }
    Ok(())
}

fn quoted(units: &[String]) -> String {
    units.iter().map(|unit| format!("'{unit}'")).collect::<Vec<_>>().join(" ")
}

//! The directory of units as NixOS makes it: the packages' files, and the module's beside or into them.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{Host, root};

/// The drop-in that NixOS writes for a unit that a package brings.
pub const OVERRIDES: &str = "overrides.conf";

/// Installs the units as package.nix does, with the programs below `prefix`, to `dir`, which stands for it.
///
/// # Errors
/// With what the script said.
pub fn install_package(prefix: &str, dir: &Path) -> anyhow::Result<()> {
    let made = Command::new("sh")
        .arg(root().join("packaging/nix/install-units.sh"))
        .arg(root().join("systemd"))
        .arg(dir)
        .output()
        .context("sh")?;
    ensure!(made.status.success(), "install-units.sh: {}", String::from_utf8_lossy(&made.stderr));
    // The script knows one prefix: where it writes is where the programs are.
    for file in all_files(&dir.join("lib"))? {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let text = text.replace(&dir.display().to_string(), prefix);
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Writes the units of a host, with those of the package at `package`, below `dir`.
///
/// # Errors
/// A file that cannot be read or written.
pub fn write_units(host: &Host, package: &Path, dir: &Path) -> anyhow::Result<()> {
    let of_package = package.join("lib/systemd/system");
    for file in all_files(&of_package)? {
        let target = dir.join(file.strip_prefix(&of_package).unwrap_or(&file));
        put(&target, &std::fs::read_to_string(&file).with_context(|| file.display().to_string())?)?;
    }
    for (name, unit) in host.units() {
        let whole = dir.join(&name);
        let is_drop_in = unit.is_drop_in || whole.exists();
        let file = if is_drop_in { dir.join(format!("{name}.d")).join(OVERRIDES) } else { whole };
        put(&file, &unit.text)?;
        for target in unit.wanted_by {
            let wants = dir.join(format!("{target}.wants"));
            std::fs::create_dir_all(&wants).with_context(|| wants.display().to_string())?;
            let link = wants.join(&name);
            symlink(Path::new("..").join(&name), &link).with_context(|| link.display().to_string())?;
        }
    }
    Ok(())
}

fn put(file: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    std::fs::write(file, text).with_context(|| file.display().to_string())
}

/// All files below a directory.
///
/// # Errors
/// A directory that cannot be read.
pub fn all_files(dir: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())?.flatten() {
            let path = entry.path();
            if path.is_dir() { todo.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

/// The directives of a unit or a drop-in: section, key, value.
pub fn directives(text: &str) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once('=') {
            found.push((section.clone(), key.to_owned(), value.to_owned()));
        }
    }
    found
}

/// Directives of a drop-in that the unit has already. After an empty value of a key everything of it has to be said again.
pub fn repeated(unit: &str, drop_in: &str) -> Vec<String> {
    let known = directives(unit);
    let mut reset = Vec::new();
    let mut found = Vec::new();
    for (section, key, value) in directives(drop_in) {
        if value.is_empty() {
            reset.push((section.clone(), key.clone()));
        }
        let is_reset = reset.contains(&(section.clone(), key.clone()));
        if !is_reset && known.contains(&(section.clone(), key.clone(), value.clone())) {
            found.push(format!("[{section}] {key}={value}"));
        }
    }
    found
}

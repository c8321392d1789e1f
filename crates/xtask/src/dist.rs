//! `cargo xtask dist`: the Debian package, `target/dist/board-agent_<version>_<architecture>.deb`.
//!
//! cargo-deb packs (its list stands in `crates/boardctl/Cargo.toml`); here is what comes before: the programs of all
//! crates in one build, man pages and completions by the `boardctl` that was just built, and the list of the crates
//! whose code is in the programs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};

use crate::install::{self, Tool};
use crate::{root, target_dir};

/// The crates with a program that is installed.
const PROGRAMS: [&str; 4] = ["board-trigger", "board-watcher", "board-worker", "boardctl"];

/// What `cargo xtask dist` is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The version of the package instead of that of the crates, for example 0.2.0~test1
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// How the programs are built; `dev` is quick, for trying out the package itself
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,
    /// Take the programs that were built before
    #[arg(long)]
    no_build: bool,
}

/// Makes the package and prints its path.
///
/// # Errors
/// A build that fails, and cargo-deb if it cannot be installed.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    // dpkg-dev finds the libraries that the programs need.
    install::install(&BTreeSet::from([Tool::CargoDeb, Tool::DpkgDev]))?;
    if !options.no_build {
        let mut arguments = vec!["build", "--profile", &options.profile, "--locked", "--bins"];
        arguments.extend(PROGRAMS.iter().flat_map(|program| ["-p", program]));
        cargo(&arguments)?;
    }
    let dist = target_dir().join("dist");
    let share = share(&dist)?;
    // The one profile whose directory has another name.
    let directory = if options.profile == "dev" { "debug" } else { &options.profile };
    let boardctl = target_dir().join(directory).join("boardctl");
    call(Command::new(&boardctl).arg("generate").arg(&share))?;
    let list = share.join("third-party.txt");
    std::fs::write(&list, third_party()?).with_context(|| format!("cannot write {}", list.display()))?;

    let mut deb = Command::new("cargo");
    deb.args(["deb", "--quiet", "--no-build", "--no-strip", "--package", "boardctl"]);
    deb.args(["--profile", &options.profile, "--output"]).arg(&dist);
    if options.profile != "release" {
        // Nobody keeps it, so it need not be small.
        deb.arg("--fast");
    }
    if let Some(version) = &options.version {
        deb.args(["--deb-version", version]);
    }
    let before = packages(&dist)?;
    for package in &before {
        // An older one beside the new one would be taken for it.
        std::fs::remove_file(package).with_context(|| format!("cannot remove {}", package.display()))?;
    }
    call(&mut deb)?;
    let made = packages(&dist)?;
    let [package] = made.as_slice() else { bail!("{} holds {} packages", dist.display(), made.len()) };
    println!("{}", package.display());
    Ok(ExitCode::SUCCESS)
}

/// The directory of what is generated, empty. The manifest names it below `target`.
fn share(dist: &Path) -> anyhow::Result<PathBuf> {
    let named = root().join("target/dist");
    ensure!(
        *dist == named,
        "the package is made below {}; CARGO_TARGET_DIR must not lead elsewhere",
        named.display()
    );
    let share = dist.join("share");
    if share.exists() {
        std::fs::remove_dir_all(&share).with_context(|| format!("cannot remove {}", share.display()))?;
    }
    std::fs::create_dir_all(&share).with_context(|| format!("cannot make {}", share.display()))?;
    Ok(share)
}

/// Packages that lie in the directory.
fn packages(dist: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dist).with_context(|| format!("cannot read {}", dist.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", dist.display()))?.path();
        if path.extension() == Some(OsStr::new("deb")) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The crates of others whose code is in the programs, with version and licence.
fn third_party() -> anyhow::Result<String> {
    let mut arguments = vec!["tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none"];
    arguments.extend(["--format", "{p}|{l}"]);
    arguments.extend(PROGRAMS.iter().flat_map(|program| ["-p", program]));
    let output = Command::new("cargo")
        .args(&arguments)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start `cargo tree`")?;
    ensure!(output.status.success(), "`cargo {}` ended with {}", arguments.join(" "), output.status);
    Ok(list(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads `name vVERSION[ (path)][ (*)]|LICENCE` lines. Our own crates are those with a path.
fn list(tree: &str) -> String {
    let mut crates = BTreeSet::new();
    for line in tree.lines().filter(|line| !line.contains("(/")) {
        if let Some((package, licence)) = line.split_once('|') {
            let (package, licence) = (package.trim_end_matches(" (*)"), licence.trim_end_matches(" (*)"));
            crates.insert(format!("{package}: {licence}\n"));
        }
    }
    crates.into_iter().collect()
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    call(Command::new("cargo").args(arguments).current_dir(root()))
}

fn call(command: &mut Command) -> anyhow::Result<()> {
    println!("== {command:?}");
    let status = command
        .current_dir(root())
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_each_crate_of_others_once_with_its_licence() {
        let tree = "boardctl v0.1.0 (/home/x/crates/boardctl)|MIT OR Apache-2.0\n\
                    anyhow v1.0.1|MIT OR Apache-2.0\nnix v0.32.0|MIT\nnix v0.32.0|MIT (*)\n\n";
        assert_eq!(list(tree), "anyhow v1.0.1: MIT OR Apache-2.0\nnix v0.32.0: MIT\n");
    }

    #[test]
    fn what_the_package_holds_is_there_and_every_unit_is_in_it() {
        let manifest = std::fs::read_to_string(root().join("crates/boardctl/Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().unwrap();
        let assets: Vec<(&str, &str)> =
            assets.iter().map(|asset| (asset[0].as_str().unwrap(), asset[1].as_str().unwrap())).collect();
        for program in PROGRAMS {
            assert!(assets.contains(&(&format!("target/release/{program}"), "usr/bin/")), "{program}");
        }
        let sources = assets.iter().filter_map(|(source, _)| source.strip_prefix("../../"));
        for source in sources.filter(|source| !source.starts_with("target/") && !source.contains('*')) {
            assert!(root().join(source).is_file(), "{source}");
        }
        // A drop-in lies at its place, a unit below the others.
        for entry in std::fs::read_dir(root().join("systemd")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if let Some(kind) = name.strip_prefix("board-agent").and_then(|rest| rest.rsplit('.').next()) {
                if kind == "d" {
                    for link in std::fs::read_dir(entry.path()).unwrap() {
                        let file = link.unwrap().file_name().into_string().unwrap();
                        let asset =
                            (&*format!("../../systemd/{file}"), &*format!("usr/lib/systemd/system/{name}/"));
                        assert!(assets.contains(&asset), "{asset:?}");
                    }
                } else {
                    let pattern = format!("../../systemd/board-agent*.{kind}");
                    assert!(assets.contains(&(&pattern, "usr/lib/systemd/system/")), "{name}");
                }
            }
        }
    }
}

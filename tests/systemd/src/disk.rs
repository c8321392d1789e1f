//! Disks of a container that lose power: each an ext4 in a file, mounted by `boot.sh`. What a program wrote and did not
//! sync is not in the file yet, so a copy of it, made while everything stands still, is what a power cut leaves.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::container::{Container, groups};

/// Size of a disk, bytes: no build begins where less than 1 GiB is free. It takes the room of what is on it.
const SIZE: u64 = 2 << 30;

/// Copies of all disks of a container, made at one moment.
#[derive(Debug)]
pub struct Copies {
    /// Of each disk where it lies, and its copy.
    files: Vec<(PathBuf, PathBuf)>,
}

impl Copies {
    /// The same, with the disk at this place taken from another moment.
    #[must_use]
    pub fn with(mut self, at: &str, other: &Copies) -> Copies {
        let name = file_name(at);
        for (disk, copy) in &mut self.files {
            if disk.ends_with(&name)
                && let Some((_, from)) = other.files.iter().find(|(disk, _)| disk.ends_with(&name))
            {
                copy.clone_from(from);
            }
        }
        self
    }
}

impl Container {
    /// Gives it a disk at this place, before it boots; what the root has there is copied onto it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn add_disk(&self, at: &str, size: Option<u64>) -> anyhow::Result<()> {
        let path = self.dir().join("disks").join(file_name(at));
        let file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
        file.set_len(size.unwrap_or(SIZE)).with_context(|| path.display().to_string())?;
        let made = Command::new("mkfs.ext4").arg("-q").arg("-F").arg(&path).status().context("mkfs.ext4")?;
        anyhow::ensure!(made.success(), "mkfs.ext4: {made}");
        Ok(())
    }

    /// Copies its disks as they are, while all its processes stand still.
    ///
    /// # Errors
    /// If a disk cannot be copied.
    pub fn copy_disks(&self) -> anyhow::Result<Copies> {
        self.freeze(true)?;
        let copied = self.copy_frozen();
        self.freeze(false)?;
        copied
    }

    fn copy_frozen(&self) -> anyhow::Result<Copies> {
        let mut files = Vec::new();
        let disks = self.dir().join("disks");
        for entry in std::fs::read_dir(&disks).with_context(|| disks.display().to_string())?.flatten() {
            let disk = entry.path();
            if disk.extension().is_none_or(|ending| ending != "img") {
                continue;
            }
            let copy = disks.join(format!("{}.copy", uuid::Uuid::new_v4().simple()));
            let done =
                Command::new("cp").arg("--sparse=always").args([&disk, &copy]).status().context("cp")?;
            anyhow::ensure!(done.success(), "{}: {done}", disk.display());
            files.push((disk, copy));
        }
        Ok(Copies { files })
    }

    /// Cuts the power of disks and processes at this moment.
    ///
    /// # Errors
    /// If a disk cannot be copied.
    pub fn lose_power(&mut self) -> anyhow::Result<()> {
        self.freeze(true)?;
        let copies = self.copy_frozen()?;
        self.cut();
        self.take_disks(&copies)
    }

    /// Puts these copies where the disks lie; it must not run.
    ///
    /// # Errors
    /// If they cannot be put there.
    pub fn take_disks(&self, copies: &Copies) -> anyhow::Result<()> {
        for (disk, copy) in &copies.files {
            // A new file: the old one may still be held for a moment.
            std::fs::rename(copy, disk).with_context(|| disk.display().to_string())?;
        }
        Ok(())
    }

    fn freeze(&self, frozen: bool) -> anyhow::Result<()> {
        let group = groups(self.name()).into_iter().next().context("no control group")?;
        let file = group.join("cgroup.freeze");
        std::fs::write(&file, if frozen { "1" } else { "0" }).with_context(|| file.display().to_string())?;
        let wanted = format!("frozen {}", u8::from(frozen));
        self.wait(&wanted, || {
            let events = std::fs::read_to_string(group.join("cgroup.events")).ok()?;
            events.contains(&wanted).then_some(())
        });
        Ok(())
    }
}

/// The name of a disk's file says where it is mounted.
fn file_name(at: &str) -> PathBuf {
    Path::new(&at.trim_start_matches('/').replace('/', "+")).with_extension("img")
}

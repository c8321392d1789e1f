//! What lies on the disk: the state, the queue, room, and the checkout with its owner.
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use board_core::edge::alarms;
use board_core::edge::clock;
use board_core::edge::files::exists;
use board_core::edge::queue::Queue;
use board_core::edge::settings::Settings;
use board_core::edge::space;
use board_core::edge::store::{Store, StoreError};
use board_core::edge::waits::Waits;
use board_core::edge::worktree::Worktrees;
use board_core::model::job::Lane;
use nix::sys::statfs::statfs;
use nix::unistd::{Group, Uid, User};

use super::Report;
use crate::commands::slots;
use crate::commands::sweep::open_git;
use crate::when;

/// The group whose members may drop files.
const DROP_GROUP: &str = "board-agent-drop";
/// File systems whose rename is atomic over a power cut, by their magic numbers (statfs(2)).
const ATOMIC: [(i64, &str); 3] = [(0xEF53, "ext4"), (0x5846_5342, "xfs"), (0x9123_683E, "btrfs")];
/// The oldest git that `-c safe.directory` works with.
const OLDEST_GIT: (u32, u32) = (2, 36);

/// The state directory, its file system and the state.
pub(super) fn state(report: &mut Report, settings: &Settings) {
    let state_dir = &settings.board.state_dir;
    let shown = state_dir.display().to_string();
    let what = report.say("Zustand", "state");
    let Ok(about) = std::fs::metadata(state_dir) else {
        let missing = report.say(format!("{shown} fehlt"), format!("{shown} is missing"));
        return report.bad(&what, missing, "systemd-tmpfiles --create board-agent.conf");
    };
    match statfs(state_dir).map(|fs| fs.filesystem_type().0) {
        Ok(magic) => match ATOMIC.iter().find(|(known, _)| *known == magic) {
            Some((_, name)) => report.good(&what, format!("{shown} ({name}, {})", user_name(about.uid()))),
            None => {
                let found = report.say(
                    format!("{shown}: Dateisystem {magic:#x}, dessen rename vielleicht keinen Stromausfall übersteht"),
                    format!("{shown}: file system {magic:#x}, whose rename may not survive a power cut"),
                );
                let remedy = report.say("auf ext4, xfs oder btrfs legen", "put it on ext4, xfs or btrfs");
                report.warn(&what, found, remedy);
            }
        },
        Err(error) => report.bad(&what, format!("{shown}: {error}"), ""),
    }
    match Store::look_at(state_dir).read() {
        Ok(board) => {
            let waiting = board.outbox.iter().filter(|entry| entry.committed.is_none()).count();
            let found = report.say(
                format!(
                    "Stand {}, {} Karten, {waiting} Übergänge ohne Commit",
                    board.generation,
                    board.cards.len()
                ),
                format!(
                    "generation {}, {} cards, {waiting} transitions not committed",
                    board.generation,
                    board.cards.len()
                ),
            );
            report.good(&what, found);
        }
        Err(StoreError::Missing { .. }) => {
            let found =
                report.say("noch keiner; der erste Start macht ihn", "none yet; the first start makes it");
            report.good(&what, found);
        }
        Err(error) => report.bad(&what, error.to_string(), "boardctl state restore"),
    }
    let waits = Waits::read(state_dir);
    if let Some(wait) = waits.commit {
        let since = when::span(clock::now().seconds_since(wait.since));
        let found =
            report.say(format!("{} (seit {since})", wait.reason), format!("{} (for {since})", wait.reason));
        report.warn(&report.say("Commits", "commits"), found, "");
    }
    for (name, alarm) in alarms::all(state_dir) {
        let remedy = report.say(
            format!(
                "systemctl status {name}; die Aufräumrunde nimmt den Alarm zurück, wenn die Ursache weg ist"
            ),
            format!("systemctl status {name}; the sweep takes the alarm back when its cause is gone"),
        );
        report.bad(&report.say("Alarm", "alarm"), alarm.reason, remedy);
    }
}

/// The directories of the queue, who owns them, and what waits.
pub(super) fn queue(report: &mut Report, settings: &Settings) {
    let state_dir = &settings.board.state_dir;
    let what = report.say("Warteschlange", "queue");
    let queue = Queue::look_at(state_dir);
    let Ok(owner) = std::fs::metadata(state_dir).map(|about| about.uid()) else { return };
    let mut wrong = Vec::new();
    for dir in queue.directories() {
        match std::fs::symlink_metadata(&dir) {
            Ok(about) if !about.is_dir() || about.uid() != owner => wrong.push(dir.display().to_string()),
            Ok(_) => {}
            // The first start makes them, and the sweep those that somebody removed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => wrong.push(format!("{}: {error}", dir.display())),
        }
    }
    if wrong.is_empty() {
        report.good(&what, report.say("gehört dem Dienst", "belongs to the service"));
    } else {
        let found = report.say(
            format!("gehört nicht {}: {}", user_name(owner), wrong.join(", ")),
            format!("does not belong to {}: {}", user_name(owner), wrong.join(", ")),
        );
        report.bad(&what, found, format!("chown -R {}: {}/queue", user_name(owner), state_dir.display()));
    }
    if let Ok(Some(group)) = Group::from_name(DROP_GROUP)
        && let Ok(about) = std::fs::metadata(queue.drop_dir())
        && (about.gid() != group.gid.as_raw() || about.mode() & 0o777 != 0o730)
    {
        let found = report.say(
            format!("{} ist für die Gruppe {DROP_GROUP} nicht offen", queue.drop_dir().display()),
            format!("{} is not open to the group {DROP_GROUP}", queue.drop_dir().display()),
        );
        report.warn(&what, found, "systemd-tmpfiles --create board-agent.conf");
    }
    match slots::backlogs(&queue, &slots::of_lanes(settings, None), clock::now()) {
        Ok(backlogs) => {
            for backlog in backlogs {
                let (lane, age) = (backlog.lane.id(), when::span(backlog.age));
                let found = report.say(
                    format!("{lane}: ein Auftrag wartet seit {age}, obwohl ein Platz frei ist"),
                    format!("{lane}: a job has waited for {age} although a slot is free"),
                );
                let remedy = report.say(
                    "boardctl sweep startet einen Worker; sonst: systemctl status 'board-agent-*'",
                    "boardctl sweep starts a worker; else: systemctl status 'board-agent-*'",
                );
                report.bad(&what, found, remedy);
            }
        }
        Err(error) if exists(&queue.inbox_dir(Lane::Build)).unwrap_or(true) => {
            report.bad(&what, error.to_string(), report.say("als root aufrufen", "call it as root"));
        }
        Err(_) => {}
    }
}

/// Room on the disk.
pub(super) fn disk(report: &mut Report, settings: &Settings) {
    let what = report.say("Platz", "disk");
    let Some(free) = space::free(&settings.board.state_dir) else { return };
    let mib = free >> 20;
    let found = report.say(format!("{mib} MiB frei"), format!("{mib} MiB free"));
    if free < space::MIN_FREE {
        let remedy = report.say(
            "Builds warten, bis 1 GiB frei ist: Worktrees und Logs aufräumen",
            "builds wait until 1 GiB is free: tidy up worktrees and logs",
        );
        report.bad(&what, found, remedy);
    } else {
        report.good(&what, found);
    }
}

/// git, the checkout, its branch and its owner.
pub(super) fn repository(report: &mut Report, settings: &Settings) {
    match git_version() {
        Some(version) if version >= OLDEST_GIT => report.good("git", format!("{}.{}", version.0, version.1)),
        Some(version) => {
            let (major, minor) = OLDEST_GIT;
            let found = format!("{}.{}", version.0, version.1);
            let remedy =
                report.say(format!("nötig ist {major}.{minor}"), format!("{major}.{minor} is needed"));
            report.bad("git", found, remedy);
        }
        None => return report.bad("git", report.say("fehlt", "is missing"), "apt-get install git"),
    }
    let what = report.say("Checkout", "checkout");
    let git = match open_git(settings) {
        Ok(git) => git,
        Err(error) => return report.bad(&what, format!("{error:#}"), ""),
    };
    let stated = Store::look_at(&settings.board.state_dir).read().ok().and_then(|board| board.branch.clone());
    match stated.or_else(|| settings.board.branch.clone()) {
        Some(branch) => match git.branch_tip(&branch) {
            Ok(Some(tip)) => {
                let tip = tip.to_string();
                let short = tip.get(..9).unwrap_or(&tip);
                report.good(&what, format!("{} ({branch}, {short})", git.top_level().display()));
            }
            Ok(None) => {
                let found = report
                    .say(format!("es gibt keinen Branch {branch}"), format!("there is no branch {branch}"));
                report.bad(&what, found, format!("git branch {branch}"));
            }
            Err(error) => report.bad(&what, error.to_string(), ""),
        },
        None => report.good(&what, git.top_level().display().to_string()),
    }
    owner(report, settings, git.common_dir());
    let Ok(worktrees) = Worktrees::new(&settings.board.state_dir.join("worktrees"), git) else { return };
    for stray in worktrees.strays().unwrap_or_default() {
        let what = report.say("Worktrees", "worktrees");
        let found = format!("{}: {:?}", stray.path.display(), stray.kind);
        let remedy = report.say(
            "ansehen; die Aufräumrunde entfernt nur, was keine Arbeit enthält",
            "look at it; the sweep removes only what holds no work",
        );
        report.warn(&what, found, remedy);
    }
}

/// Two ways are supported: the service is the owner of the checkout, or both are in a group that shares it.
fn owner(report: &mut Report, settings: &Settings, git_dir: &Path) {
    let what = report.say("Eigentümer", "owner");
    let service = std::fs::metadata(&settings.board.state_dir).map(|about| about.uid());
    let (Ok(service), Ok(about)) = (service, std::fs::metadata(git_dir)) else { return };
    let (checkout, user) = (user_name(about.uid()), user_name(service));
    if about.uid() == service {
        return report.good(&what, report.say(format!("beide {user}"), format!("both are {user}")));
    }
    let objects = std::fs::metadata(git_dir.join("objects")).map_or(0, |about| about.mode());
    let group = Group::from_gid(about.gid().into()).ok().flatten();
    let is_member = group.as_ref().is_some_and(|group| {
        let primary = User::from_uid(Uid::from_raw(service)).ok().flatten().map(|user| user.gid);
        primary == Some(group.gid) || group.mem.contains(&user)
    });
    let name = group.map_or_else(|| about.gid().to_string(), |group| group.name);
    if is_member && about.mode() & objects & 0o2020 == 0o2020 {
        let found = report.say(
            format!("{checkout} und {user} teilen über die Gruppe {name}"),
            format!("{checkout} and {user} share by the group {name}"),
        );
        return report.good(&what, found);
    }
    let found = report.say(
        format!("das Checkout gehört {checkout}, der Dienst ist {user}; keiner könnte die Dateien des anderen ändern"),
        format!("the checkout is {checkout}'s, the service is {user}; neither could change the other's files"),
    );
    let top = settings.board.repository.display();
    if about.uid() == 0 {
        // Not the other way round: agents would run as root.
        return report.bad(&what, found, format!("chown -R {user}: {top}"));
    }
    let remedy = report.say(
        format!(
            "entweder den Dienst als {checkout} laufen lassen (README.systemd.md),\noder teilen: usermod -aG {name} {user}; \
             git -C {top} config core.sharedRepository group; chgrp -R {name} {top}; chmod -R g+rwX {top}; \
             find {top} -type d -exec chmod g+s {{}} +; und boardctl drop-ins --install"
        ),
        format!(
            "either run the service as {checkout} (README.systemd.md),\nor share: usermod -aG {name} {user}; \
             git -C {top} config core.sharedRepository group; chgrp -R {name} {top}; chmod -R g+rwX {top}; \
             find {top} -type d -exec chmod g+s {{}} +; and boardctl drop-ins --install"
        ),
    );
    report.bad(&what, found, remedy);
}

fn git_version() -> Option<(u32, u32)> {
    let output = Command::new("git").arg("--version").output().ok()?;
    version(&String::from_utf8_lossy(&output.stdout))
}

/// The first two numbers of the first word that begins with one: `git version 2.39.5`.
fn version(text: &str) -> Option<(u32, u32)> {
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = word.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// The name of a user, or its number.
fn user_name(uid: u32) -> String {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_git_is_its_first_two_numbers() {
        assert_eq!(version("git version 2.39.5"), Some((2, 39)));
        assert_eq!(version("git version 2.50.1 (Apple Git-155)"), Some((2, 50)));
        assert_eq!(version("nonsense"), None);
        assert!((2, 36) >= OLDEST_GIT && (2, 35) < OLDEST_GIT);
    }
}

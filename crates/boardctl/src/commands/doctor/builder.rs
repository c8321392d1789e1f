//! The two directories of an external builder: whether the board and the builder can both use them, and whether
//! somebody takes the jobs out.
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use board_core::edge::settings::{ExternalBuilder, Settings};
use nix::unistd::{Gid, Uid, User, getgrouplist};

use super::Report;

/// Bits of a mode by which somebody may list a directory and change what lies in it.
const USABLE: u32 = 0o7;
/// Age from which a job that lies in the inbox says that nobody takes it.
const UNCLAIMED: Duration = Duration::from_secs(600);

/// Checks them; nothing where the board builds itself.
pub(super) fn check(report: &mut Report, settings: &Settings) {
    let Some(builder) = &settings.builder else { return };
    let what = report.say("externer Builder", "external builder");
    let Some(own) = std::fs::metadata(&settings.board.state_dir).ok().map(|about| about.uid()) else {
        // Told of the state directory already.
        return;
    };
    let mut users = vec![Uid::from_raw(own)];
    match named(builder) {
        Ok(user) => users.extend(user.map(|user| user.uid)),
        Err(name) => {
            let found =
                report.say(format!("den Benutzer {name} gibt es nicht"), format!("there is no user {name}"));
            report.bad(&what, found, format!("builder.user = \"…\"; useradd --system {name}"));
        }
    }
    for directory in [&builder.inbox, &builder.results] {
        usable(report, &what, directory, &users);
    }
    let waiting = unclaimed(&builder.inbox, SystemTime::now());
    if waiting > 0 {
        let minutes = UNCLAIMED.as_secs() / 60;
        let found = report.say(
            format!("{waiting} Aufträge liegen länger als {minutes} min im Eingang des Builders"),
            format!("{waiting} jobs have lain in the builder's inbox for more than {minutes} min"),
        );
        let remedy = report.say("läuft der Dienst des Builders?", "does the builder's service run?");
        report.warn(&what, found, remedy);
    }
}

/// The user whose results are taken; the name where there is no such user.
fn named(builder: &ExternalBuilder) -> Result<Option<User>, String> {
    let Some(name) = &builder.user else { return Ok(None) };
    User::from_name(name).ok().flatten().map(Some).ok_or_else(|| name.clone())
}

fn usable(report: &mut Report, what: &str, directory: &Path, users: &[Uid]) {
    let shown = directory.display().to_string();
    let about = match std::fs::metadata(directory) {
        Ok(about) if about.is_dir() => about,
        Ok(_) => {
            let found =
                report.say(format!("{shown} ist kein Verzeichnis"), format!("{shown} is no directory"));
            return report.bad(what, found, "docs/builder.md");
        }
        Err(error) => return report.bad(what, format!("{shown}: {error}"), "docs/builder.md"),
    };
    let (owner, group, mode) = (about.uid(), about.gid(), about.mode());
    let locked_out: Vec<String> = users
        .iter()
        .filter(|user| !may_use(**user, &groups_of(**user), (owner, group, mode)))
        .map(|user| name_of(*user))
        .collect();
    if locked_out.is_empty() {
        let found = report.say(format!("{shown} ist für beide benutzbar"), format!("both can use {shown}"));
        return report.good(what, found);
    }
    let who = locked_out.join(", ");
    let found = report.say(
        format!("{shown} ({:o}) ist nicht zu lesen und zu beschreiben für {who}", mode & 0o7777),
        format!("{shown} ({:o}) cannot be read and written by {who}", mode & 0o7777),
    );
    let remedy = report.say(
        format!("beide in eine Gruppe, dann: chmod 2770 {shown} (docs/builder.md)"),
        format!("both into one group, then: chmod 2770 {shown} (docs/builder.md)"),
    );
    report.bad(what, found, remedy);
}

/// Whether a user may list a directory of this owner, group and mode and change what lies in it.
fn may_use(user: Uid, groups: &[Gid], (owner, group, mode): (u32, u32, u32)) -> bool {
    let bits = if user.as_raw() == owner {
        mode >> 6
    } else if groups.contains(&Gid::from_raw(group)) {
        mode >> 3
    } else {
        mode
    };
    user.is_root() || bits & USABLE == USABLE
}

fn groups_of(user: Uid) -> Vec<Gid> {
    let Ok(Some(account)) = User::from_uid(user) else { return Vec::new() };
    let name = std::ffi::CString::new(account.name).unwrap_or_default();
    getgrouplist(&name, account.gid).unwrap_or_default()
}

fn name_of(user: Uid) -> String {
    User::from_uid(user).ok().flatten().map_or_else(|| user.to_string(), |account| account.name)
}

/// Job files in the inbox that nobody took.
fn unclaimed(inbox: &Path, now: SystemTime) -> usize {
    let Ok(entries) = std::fs::read_dir(inbox) else { return 0 };
    let is_old = |entry: &std::fs::DirEntry| {
        let modified = entry.metadata().and_then(|about| about.modified());
        let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
        entry.path().extension().is_some_and(|ending| ending == "json")
            && age.is_some_and(|age| age > UNCLAIMED)
    };
    entries.flatten().filter(is_old).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_usable_as_owner_by_group_or_by_everybody() {
        let (user, of_group) = (Uid::from_raw(1000), [Gid::from_raw(50)]);
        for (about, usable) in [
            ((1000, 9, 0o700), true),
            ((1000, 9, 0o077), false),
            ((7, 50, 0o770), true),
            ((7, 50, 0o2770), true),
            ((7, 50, 0o750), false),
            ((7, 50, 0o707), false),
            ((7, 9, 0o770), false),
            ((7, 9, 0o777), true),
        ] {
            assert_eq!(may_use(user, &of_group, about), usable, "{about:?}");
            assert!(may_use(Uid::from_raw(0), &[], about));
        }
    }

    #[test]
    fn a_job_that_nobody_takes_is_counted_when_it_is_old() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.1.json", "b.1.json", ".tmp-x"] {
            std::fs::write(dir.path().join(name), "{}").unwrap();
        }
        let now = SystemTime::now();
        assert_eq!(unclaimed(dir.path(), now), 0);
        assert_eq!(unclaimed(dir.path(), now + UNCLAIMED + Duration::from_secs(60)), 2);
        assert_eq!(unclaimed(&dir.path().join("fehlt"), now), 0);
    }
}

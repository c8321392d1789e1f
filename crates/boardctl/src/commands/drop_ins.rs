//! `boardctl drop-ins`: what the units need to know of this host's configuration.
//!
//! The units are written once and know no checkout; on NixOS the module adds what depends on options, elsewhere this
//! does. It says what each unit may do with the checkout, so it is the second half of the table in `systemd/README.md`.
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use board_core::edge::files::replace_durable;
use board_core::edge::queue::view::path_globs;
use board_core::edge::settings::{Listen, Settings};
use board_core::edge::systemd::{self, BACKLOG, SWEEP, Systemctl, TRIGGER, TRIGGER_SOCKET, WATCHER};
use board_core::model::job::Lane;

use crate::output::{Out, Style};
use crate::words;

/// Where an administrator's units lie.
pub(crate) const SYSTEM: &str = "/etc/systemd/system";
/// The name of each file: after the packaged ones, before those that `systemctl edit` makes.
const FILE: &str = "50-host.conf";
/// The state directory that the units know.
const STATE_DIR: &str = "/var/lib/board-agent";
/// The address that the socket unit knows.
const LISTEN: &str = "127.0.0.1:8787";
/// The control socket, which every socket unit has.
const CONTROL: &str = "/run/board-agent/control.sock";
/// What the hardening hides; only a bind leads below it.
const HIDDEN: [&str; 3] = ["/home", "/root", "/run/user"];

/// A drop-in of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DropIn {
    /// The unit.
    pub(crate) unit: String,
    /// The text.
    pub(crate) text: String,
}

impl DropIn {
    /// Where it lies below [`SYSTEM`].
    pub(crate) fn path(&self, system: &Path) -> PathBuf {
        system.join(format!("{}.d", self.unit)).join(FILE)
    }
}

/// Prints or installs them.
///
/// # Errors
/// A path that no unit file can name; a directory that cannot be written.
pub(crate) fn run(settings: &Settings, install: bool, out: Out) -> anyhow::Result<()> {
    let needed = needed(settings)?;
    let system = Path::new(SYSTEM);
    if !install {
        for drop_in in &needed {
            out.line(out.paint(Style::Faint, format!("# {}", drop_in.path(system).display())))?;
            out.line(&drop_in.text)?;
        }
        return Ok(());
    }
    for path in write(&needed, system)? {
        out.line(path.display())?;
    }
    if systemd::is_booted() {
        Systemctl::default().daemon_reload()?;
    }
    Ok(out.line(words::drop_ins_installed(out.language))?)
}

/// Writes what is needed and removes what is no longer; answers what changed.
fn write(needed: &[DropIn], system: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    for drop_in in needed {
        let path = drop_in.path(system);
        if std::fs::read_to_string(&path).is_ok_and(|there| there == drop_in.text) {
            continue;
        }
        let dir = path.parent().unwrap_or(system);
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        replace_durable(&path, drop_in.text.as_bytes())?;
        // For everybody to read, as unit files are.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&path, open).with_context(|| path.display().to_string())?;
        changed.push(path);
    }
    for unit in all_units() {
        let drop_in = DropIn { unit, text: String::new() };
        let path = drop_in.path(system);
        if needed.iter().all(|other| other.unit != drop_in.unit) && path.exists() {
            std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
            changed.push(path);
        }
    }
    Ok(changed)
}

fn all_units() -> Vec<String> {
    let mut units: Vec<String> =
        [TRIGGER_SOCKET, TRIGGER, WATCHER, SWEEP, BACKLOG, "board-agent-alarm@.service"]
            .map(str::to_owned)
            .into();
    for lane in Lane::ALL {
        units.extend(["path", "service"].map(|kind| format!("board-agent-{}@.{kind}", lane.id())));
    }
    units
}

/// What the units need for a configuration.
///
/// # Errors
/// A path that no unit file can name.
pub(crate) fn needed(settings: &Settings) -> anyhow::Result<Vec<DropIn>> {
    let repository = &settings.board.repository;
    let git_dir = git_dir(repository);
    let mut found = Vec::new();
    for unit in all_units() {
        let lines = lines(settings, &unit, repository, &git_dir)?;
        if !lines.is_empty() {
            let text = format!("# By `boardctl drop-ins`, from {}.\n{lines}", settings.path.display());
            found.push(DropIn { unit, text });
        }
    }
    Ok(found)
}

fn lines(settings: &Settings, unit: &str, repository: &Path, git_dir: &Path) -> anyhow::Result<String> {
    let mut sections: [(&str, Vec<String>); 4] =
        [("Unit", Vec::new()), ("Service", Vec::new()), ("Path", Vec::new()), ("Socket", Vec::new())];
    let [(_, in_unit), (_, service), (_, path), (_, socket)] = &mut sections;
    let state_dir = &settings.board.state_dir;
    let moved = state_dir != Path::new(STATE_DIR);
    let lane = Lane::ALL.into_iter().find(|lane| unit.starts_with(&format!("board-agent-{}@", lane.id())));
    let (repository_word, git_word) = (word(repository)?, word(git_dir)?);
    let hidden = HIDDEN.iter().any(|hidden| repository.starts_with(hidden) || git_dir.starts_with(hidden));
    match (unit, lane) {
        (TRIGGER_SOCKET, _) => {
            let listen = match &settings.http.listen {
                Listen::Tcp(address) => address.to_string(),
                Listen::Unix(path) => path.display().to_string(),
            };
            if listen != LISTEN {
                socket.extend(["ListenStream=".to_owned(), format!("ListenStream={listen}")]);
                socket.push(format!("ListenStream={CONTROL}"));
            }
        }
        (TRIGGER, _) if hidden => {
            service.push(format!("BindReadOnlyPaths={repository_word}"));
            if !git_dir.starts_with(repository) {
                service.push(format!("BindReadOnlyPaths={git_word}"));
            }
        }
        (WATCHER, _) => {
            in_unit.push(format!("RequiresMountsFor={repository_word}"));
            let allow = if hidden { "BindPaths" } else { "ReadWritePaths" };
            service.push(format!("{allow}={repository_word}"));
            if !git_dir.starts_with(repository) {
                service.push(format!("{allow}={git_word}"));
            }
            for dir in settings.builder.iter().flat_map(|builder| [&builder.inbox, &builder.results]) {
                service.push(format!("ReadWritePaths={}", word(dir)?));
            }
        }
        // The sweep removes what is left of worktrees.
        (SWEEP, _) => {
            let allow = if hidden { "BindPaths" } else { "ReadWritePaths" };
            service.push(format!("{allow}={git_word}"));
        }
        (BACKLOG, _) if moved => {
            in_unit.push("ConditionPathExistsGlob=".to_owned());
            for glob in ["queue/inbox/*/*.json", "alarms/*"] {
                in_unit.push(format!("ConditionPathExistsGlob=|{}", word(&state_dir.join(glob))?));
            }
        }
        (_, Some(lane)) if unit.ends_with(".path") && moved => {
            in_unit.push(format!("RequiresMountsFor={}", word(state_dir)?));
            path.push("PathExistsGlob=".to_owned());
            path.extend(path_globs(state_dir, lane).map(|glob| format!("PathExistsGlob={glob}")));
        }
        (_, Some(lane)) if unit.ends_with(".service") => {
            if hidden && lane != Lane::Build {
                service.push("ProtectHome=tmpfs".to_owned());
            }
            match lane {
                // An empty directory in its place: the programs want to see that there is one.
                Lane::Draft => service.push(format!("TemporaryFileSystem={repository_word}:ro")),
                Lane::Read | Lane::Research => {
                    service.push(format!("TemporaryFileSystem={repository_word}:ro"));
                    service.push(format!("BindReadOnlyPaths={git_word}"));
                }
                Lane::Build if hidden => service.push(format!("BindPaths={git_word}")),
                Lane::Build => service.push(format!("ReadWritePaths={git_word}")),
            }
        }
        _ => {}
    }
    let writes = matches!(unit, WATCHER | SWEEP) || lane == Some(Lane::Build);
    if writes && unit.ends_with(".service") && is_shared(git_dir, state_dir) {
        // What it writes stays the group's, as what the other user writes does.
        service.push("UMask=0007".to_owned());
    }
    if moved && unit.ends_with(".service") && unit != BACKLOG {
        let state = word(state_dir)?;
        let below = |name: &str| word(&state_dir.join(name)).map(|path| format!("-{path}"));
        match lane {
            None => service.push(format!("ReadWritePaths={state}")),
            Some(lane) => {
                for name in ["queue", "locks", "logs", "runs", "runtimes"] {
                    service.push(format!("ReadWritePaths={}", below(name)?));
                }
                let key = if lane == Lane::Build { "ReadWritePaths" } else { "InaccessiblePaths" };
                service.push(format!("{key}={}", below("worktrees")?));
            }
        }
    }
    let sections = sections.iter().filter(|(_, lines)| !lines.is_empty());
    Ok(sections.map(|(name, lines)| format!("[{name}]\n{}\n", lines.join("\n"))).collect())
}

/// Whether a git directory is another user's than the service, whose the state is, and shared by its group, as
/// `core.sharedRepository` makes it.
fn is_shared(git_dir: &Path, state_dir: &Path) -> bool {
    let is_owner = |uid| std::fs::metadata(state_dir).is_ok_and(|about| about.uid() == uid);
    std::fs::metadata(git_dir).is_ok_and(|about| about.mode() & 0o2020 == 0o2020 && !is_owner(about.uid()))
}

/// The directory that all worktrees of a repository share: below it, or where the file `.git` of a linked worktree leads.
fn git_dir(repository: &Path) -> PathBuf {
    let plain = repository.join(".git");
    if plain.is_dir() {
        return plain;
    }
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let linked = read(&plain).and_then(|text| Some(PathBuf::from(text.strip_prefix("gitdir: ")?.trim_end())));
    let Some(linked) = linked.filter(|linked| linked.is_absolute()) else { return plain };
    match read(&linked.join("commondir")) {
        Some(common) => std::fs::canonicalize(linked.join(common.trim_end())).unwrap_or(linked),
        None => linked,
    }
}

/// Whether systemd's answer for a property says what a line of a drop-in says; one that it does not give is not missed
/// here.
pub(crate) fn is_said(answer: &str, value: &str) -> bool {
    let value = value.trim_start_matches('-').trim_matches('"').replace("%%", "%").replace("%i", "1");
    answer.contains(&value)
}

/// The property in which systemd answers for a key of a unit file; none for one that it does not tell.
pub(crate) fn property_of(key: &str) -> Option<&str> {
    match key {
        "PathExistsGlob" => Some("Paths"),
        "ListenStream" => Some("Listen"),
        "ConditionPathExistsGlob" => None,
        other => Some(other),
    }
}

/// A path as a word of a unit file.
fn word(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().filter(|text| !text.chars().any(|c| c.is_control() || "\"'\\:".contains(c)));
    let text = text.with_context(|| format!("{}: no unit file can name this path", path.display()))?;
    // A percent sign begins a specifier.
    let text = text.replace('%', "%%");
    Ok(if text.contains(' ') { format!("\"{text}\"") } else { text })
}

#[cfg(test)]
mod tests {
    use board_core::edge::settings::DirectoryCheck;

    use super::*;

    const EXAMPLE: &str = include_str!("../../../../docs/config.example.toml");

    fn drop_ins(change: impl Fn(String) -> String) -> Vec<DropIn> {
        let text = change(EXAMPLE.to_owned());
        let path = Path::new("/etc/board-agent/config.toml");
        needed(&Settings::load_from_str(path, &text, DirectoryCheck::Skip).unwrap()).unwrap()
    }

    fn of<'a>(drop_ins: &'a [DropIn], unit: &str) -> &'a str {
        drop_ins.iter().find(|drop_in| drop_in.unit == unit).map_or("", |drop_in| &drop_in.text)
    }

    #[test]
    fn each_unit_gets_of_the_checkout_what_it_may_have() {
        let all = drop_ins(|text| text);
        let units: Vec<&str> = all.iter().map(|drop_in| drop_in.unit.as_str()).collect();
        assert_eq!(
            units,
            [
                WATCHER,
                SWEEP,
                "board-agent-draft@.service",
                "board-agent-read@.service",
                "board-agent-research@.service",
                "board-agent-build@.service"
            ]
        );
        assert!(of(&all, WATCHER).ends_with(
            "[Unit]\nRequiresMountsFor=/srv/repository\n[Service]\nReadWritePaths=/srv/repository\n"
        ));
        assert!(of(&all, "board-agent-build@.service").ends_with("\nReadWritePaths=/srv/repository/.git\n"));
        assert!(
            of(&all, "board-agent-draft@.service").ends_with("\nTemporaryFileSystem=/srv/repository:ro\n")
        );
        let reads = of(&all, "board-agent-read@.service");
        assert!(reads.ends_with("repository:ro\nBindReadOnlyPaths=/srv/repository/.git\n"), "{reads}");
    }

    #[test]
    fn a_checkout_in_a_home_is_bound() {
        let all = drop_ins(|text| text.replace("/srv/repository", "/home/op/my repo"));
        assert!(of(&all, WATCHER).contains("BindPaths=\"/home/op/my repo\""));
        assert!(of(&all, TRIGGER).contains("BindReadOnlyPaths=\"/home/op/my repo\""));
        assert!(of(&all, "board-agent-build@.service").contains("BindPaths=\"/home/op/my repo/.git\""));
        assert!(of(&all, "board-agent-draft@.service").contains("ProtectHome=tmpfs"));
    }

    #[test]
    fn another_state_directory_and_another_address_are_told_to_their_units() {
        let all = drop_ins(|text| {
            text.replace("\"/var/lib/board-agent\"", "\"/srv/state\"")
                .replace("127.0.0.1:8787", "unix:/run/board-agent/http.sock")
        });
        assert!(of(&all, "board-agent-read@.path").contains(
            "PathExistsGlob=\nPathExistsGlob=/srv/state/queue/inbox/read/*.json\n\
             PathExistsGlob=/srv/state/queue/running/read-%i/*.json\n"
        ));
        assert!(of(&all, TRIGGER).contains("ReadWritePaths=/srv/state\n"));
        assert!(of(&all, BACKLOG).ends_with(
            "[Unit]\nConditionPathExistsGlob=\nConditionPathExistsGlob=|/srv/state/queue/inbox/*/*.json\n\
             ConditionPathExistsGlob=|/srv/state/alarms/*\n"
        ));
        assert!(of(&all, "board-agent-read@.service").contains("InaccessiblePaths=-/srv/state/worktrees\n"));
        assert!(of(&all, TRIGGER_SOCKET).contains(
            "ListenStream=\nListenStream=/run/board-agent/http.sock\nListenStream=/run/board-agent/control.sock\n"
        ));
    }

    #[test]
    fn who_writes_a_checkout_of_two_users_leaves_its_files_to_their_group() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        std::fs::create_dir(&git).unwrap();
        let top = dir.path().to_str().unwrap();
        let all = || drop_ins(|text| text.replace("/srv/repository", top));
        assert!(all().iter().all(|drop_in| !drop_in.text.contains("UMask")));
        std::fs::set_permissions(&git, std::os::unix::fs::PermissionsExt::from_mode(0o2770)).unwrap();
        let shared = all();
        let with: Vec<&str> = shared
            .iter()
            .filter(|drop_in| drop_in.text.contains("[Service]\n") && drop_in.text.contains("\nUMask=0007\n"))
            .map(|drop_in| drop_in.unit.as_str())
            .collect();
        assert_eq!(with, [WATCHER, SWEEP, "board-agent-build@.service"]);
        // The owner shares nothing with himself.
        let own = drop_ins(|text| {
            text.replace("/srv/repository", top).replace("\"/var/lib/board-agent\"", &format!("{top:?}"))
        });
        assert!(own.iter().all(|drop_in| !drop_in.text.contains("UMask")));
    }

    #[test]
    fn what_is_no_longer_needed_is_removed_and_what_is_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let all = drop_ins(|text| text);
        let written = write(&all, dir.path()).unwrap();
        assert_eq!(written.len(), all.len());
        assert!(write(&all, dir.path()).unwrap().is_empty());
        let fewer = write(&all[..1], dir.path()).unwrap();
        assert_eq!(fewer, written[1..]);
    }

    #[test]
    fn what_systemd_answers_is_recognised() {
        assert!(is_said("/srv/a /srv/b", "/srv/b"));
        assert!(is_said("/home/op/my repo:/home/op/my repo:rbind", "\"/home/op/my repo\""));
        assert!(is_said("/srv/state/queue/running/read-1/*.json", "/srv/state/queue/running/read-%i/*.json"));
        assert!(!is_said("", "-/srv/a"));
        assert_eq!(property_of("PathExistsGlob"), Some("Paths"));
    }

    #[test]
    fn a_path_is_a_word_or_it_is_refused() {
        assert_eq!(word(Path::new("/a/100%")).unwrap(), "/a/100%%");
        for path in ["/a\nb", "/a\"b", "/a:b", "/a\\b"] {
            assert!(word(Path::new(path)).is_err(), "{path:?}");
        }
    }

    #[test]
    fn the_git_directory_of_a_linked_worktree_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(dir.path()).unwrap();
        let own = base.join("main/.git/worktrees/x");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("commondir"), "../..\n").unwrap();
        std::fs::create_dir(base.join("x")).unwrap();
        std::fs::write(base.join("x/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(git_dir(&base.join("x")), base.join("main/.git"));
        assert_eq!(git_dir(&base.join("main")), base.join("main/.git"));
    }
}

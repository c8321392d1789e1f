//! What concerns several sections at once, or the host.
//!
//! Apart from reading, because a value here is right by itself and wrong beside another. Nothing is said
//! of a key that was refused before.
use std::path::Path;

use crate::model::profile::RoleName;

use super::reader::{Document, nearest, quoted};
use super::{AuthMode, Listen, Settings};

/// Whether the directories that the file names are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryCheck {
    /// As every daemon does at its start.
    Check,
    /// The file is not read on the host that it is for.
    Skip,
}

pub(super) fn settings(settings: &Settings, document: &Document<'_>, directories: DirectoryCheck) {
    agents(settings, document);
    identity(settings, document);
    credentials(settings, document);
    match directories {
        DirectoryCheck::Check => paths(settings, document),
        DirectoryCheck::Skip => {}
    }
}

fn agents(settings: &Settings, document: &Document<'_>) {
    if settings.runtimes.is_empty() && !document.has_below("runtimes") {
        document.refuse(
            "runtimes",
            "there is no program that could be an agent",
            "write a section such as [runtimes.codex] with kind = \"codex\" and program = \"codex\"",
        );
    }
    if settings.profiles.is_empty() && !document.has_below("profiles") {
        document.refuse(
            "profiles",
            "there is no profile, so no job could be given to an agent",
            "write a section such as [profiles.standard] with runtime = \"codex\", and name it in \
             [roles.builder], [roles.reviewer], [roles.researcher] and [roles.planner] as profile = \"standard\"",
        );
    }
    let runtimes: Vec<&str> = settings.runtimes.keys().map(String::as_str).collect();
    for (name, profile) in &settings.profiles {
        known(document, &format!("profiles.{name}.runtime"), &profile.runtime, "runtimes", &runtimes);
    }
    let profiles: Vec<&str> = settings.profile_names().collect();
    for role in RoleName::ALL {
        let key = format!("roles.{}.profile", role.id());
        known(document, &key, &settings.roles.get(role).profile, "profiles", &profiles);
    }
}

/// `name` is one of `there`, the sections below `section`; one that was refused is not missed.
fn known(document: &Document<'_>, key: &str, name: &str, section: &str, there: &[&str]) {
    if name.is_empty() || there.contains(&name) || document.is_refused(&format!("{section}.{name}")) {
        return;
    }
    let remedy = match nearest(name, there) {
        Some(near) => format!("did you mean {near:?}?"),
        None if there.is_empty() => format!("write a section [{section}.{name}]"),
        None => format!("name one of {} or write a section [{section}.{name}]", quoted(there)),
    };
    document.refuse(key, format!("there is no [{section}.{name}]"), remedy);
}

fn identity(settings: &Settings, document: &Document<'_>) {
    let (http, auth) = (&settings.http, &settings.auth);
    let loopback = "listen on loopback (\"127.0.0.1:8787\") or on a unix socket behind the proxy, \
                    or set http.allow_non_loopback = true";
    if !http.listen.is_local() && !http.allow_non_loopback {
        document.refuse("http.listen", "can be reached from other hosts", loopback);
    }
    if let Some(address) = settings.metrics.listen
        && !address.ip().is_loopback()
        && !http.allow_non_loopback
    {
        document.refuse(
            "metrics.listen",
            "can be reached from other hosts",
            "listen on loopback (\"127.0.0.1:9187\") or set http.allow_non_loopback = true",
        );
    }
    match auth.mode {
        AuthMode::Open => {
            let safe = match &http.listen {
                Listen::Tcp(address) => address.ip().is_loopback(),
                Listen::Unix(_) => false,
            };
            if !safe {
                document.refuse(
                    "auth.mode",
                    "\"open\" is for trying out on this host alone",
                    "set http.listen to a loopback address (\"127.0.0.1:8787\") or auth.mode = \"proxy\"",
                );
            }
        }
        AuthMode::Proxy => {
            for (key, groups) in [("operators", &auth.operators.groups), ("viewers", &auth.viewers.groups)] {
                if !groups.is_empty() && auth.groups_header.is_none() {
                    document.refuse(
                        &format!("auth.{key}.groups"),
                        "no header is named that groups are read from",
                        "set auth.groups_header, as in \"X-Auth-Request-Groups\", or list users",
                    );
                }
            }
        }
        AuthMode::Oidc => {}
    }
    if auth.groups_header.as_ref().is_some_and(|groups| groups.eq_ignore_ascii_case(&auth.user_header)) {
        document.refuse("auth.groups_header", "is also the header of the user", "name two headers");
    }
}

fn credentials(settings: &Settings, document: &Document<'_>) {
    for (name, runtime) in &settings.runtimes {
        if runtime.credential.is_some() && !settings.sandbox.allow_api_keys {
            document.refuse(
                &format!("runtimes.{name}.credential"),
                "a raw key would be given to an agent",
                format!(
                    "use the runtime's own login (boardctl login {name}), \
                     or set sandbox.allow_api_keys = true"
                ),
            );
        }
    }
}

fn paths(settings: &Settings, document: &Document<'_>) {
    apart(settings, document);
    directory(document, "board.repository", &settings.board.repository, "clone the repository there");
    directory(
        document,
        "board.state_dir",
        &settings.board.state_dir,
        "create it for the service user (under systemd StateDirectory= does)",
    );
    if let Some(builder) = &settings.builder {
        directory(document, "builder.inbox", &builder.inbox, "create it or start the builder's service once");
        directory(
            document,
            "builder.results",
            &builder.results,
            "create it or start the builder's service once",
        );
    }
    for (number, path) in settings.sandbox.read.iter().enumerate() {
        if !path.exists() {
            refuse_missing(document, &format!("sandbox.read[{number}]"), path, "remove it from the list");
        }
    }
    for role in RoleName::ALL {
        if let Some(template) = &settings.roles.get(role).template
            && !template.is_file()
        {
            let key = format!("roles.{}.template", role.id());
            refuse_missing(document, &key, template, "put the template there or remove the key");
        }
    }
}

/// The state directory has the token and the logs: in the checkout, the operator's `git add .` would commit them.
fn apart(settings: &Settings, document: &Document<'_>) {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (state, repository) = (real(&settings.board.state_dir), real(&settings.board.repository));
    if settings.board.state_dir.as_os_str().is_empty() || settings.board.repository.as_os_str().is_empty() {
        return;
    }
    if state == Path::new("/") || state.starts_with(&repository) || repository.starts_with(&state) {
        document.refuse(
            "board.state_dir",
            format!("{} and the repository {} lie in each other", state.display(), repository.display()),
            "name a directory of its own, as in \"/var/lib/board-agent\"",
        );
    }
}

fn directory(document: &Document<'_>, key: &str, path: &Path, remedy: &str) {
    if path.as_os_str().is_empty() || path.is_dir() || document.is_refused(key) {
        return;
    }
    if path.exists() {
        document.refuse(key, format!("{} is no directory", path.display()), "name a directory");
    } else {
        refuse_missing(document, key, path, remedy);
    }
}

fn refuse_missing(document: &Document<'_>, key: &str, path: &Path, remedy: &str) {
    document.refuse(key, format!("{} is not there or not to be seen by this user", path.display()), remedy);
}

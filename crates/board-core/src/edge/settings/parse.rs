//! From the sections of the file to [`Settings`].
//!
//! Apart from the reader, which knows TOML and not the keys, and from the check, which looks at several
//! sections at once. A value that was refused is stood in for by its default and reading goes on, so that
//! all errors are told together; such settings never leave this module.
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;

use crate::model::profile::{ITERATION_CAP, RoleName};

use super::check::{self, DirectoryCheck};
use super::errors::{SettingsError, SettingsErrors};
use super::reader::{Document, Section, refusal};
use super::values::{
    absolute, branch, disk, environment, git_identity, header_name, host, identity, listen, program,
    public_url, relative, socket_address, text, time, time_zone, trusted_peer, variable, word,
};
use super::{
    AuditSettings, AuthMode, AuthSettings, BoardSettings, Credential, EventsFormat, ExternalBuilder,
    HttpSettings, Language, LimitSettings, Listen, MetricsSettings, NotifySettings, Operators, Profile,
    Require, RetentionSettings, Role, Roles, Runtime, RuntimeKind, SandboxMode, SandboxNetwork,
    SandboxSettings, Settings, SlotSettings, Viewers, units,
};

/// A configuration file is not greater than this, in bytes; what is greater is some other file.
const MAX_FILE: usize = 1 << 20;
const MAX_UNDO_SECONDS: u32 = 30;
const MAX_QUIET_SECONDS: u32 = 600;
const MAX_SLOTS: u32 = 16;
const MAX_DAYS: u32 = 3650;
/// The greatest number that TOML promises to hold.
const MAX_TOKENS: u64 = i64::MAX as u64;

pub(super) fn read_file(path: &Path) -> Result<String, SettingsErrors> {
    let wrong = |problem: String, remedy: &str| {
        SettingsErrors(vec![SettingsError {
            file: path.to_owned(),
            line: 0,
            key: String::new(),
            problem,
            remedy: remedy.to_owned(),
        }])
    };
    // Links are fine, a configuration is often one; what is no file in the end would never end to be read.
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Err(wrong("is no regular file".to_owned(), "name the configuration file"));
    }
    let bytes = fs::read(path).map_err(|error| {
        let remedy = if error.kind() == io::ErrorKind::NotFound {
            "write one (docs/config.example.toml is an example) or name it with --config"
        } else {
            "make it a file that this user may read"
        };
        wrong(format!("cannot be read: {error}"), remedy)
    })?;
    if bytes.len() > MAX_FILE {
        return Err(wrong(
            format!("is greater than {}", units::show_size(MAX_FILE as u64)),
            "name the configuration file",
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        wrong(format!("is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()), "save it as UTF-8")
    })
}

pub(super) fn settings(
    file: &Path,
    text: &str,
    directories: DirectoryCheck,
) -> Result<Settings, SettingsErrors> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let document = Document::new(file, text, root.get_ref());
    if !errors.is_empty() {
        // What follows from half a file would only hide what is wrong with it.
        let found = errors.iter().map(|error| SettingsError {
            file: file.to_owned(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            key: String::new(),
            problem: format!("is not TOML: {}", error.message()),
            remedy: syntax_remedy(error.message()).to_owned(),
        });
        return Err(SettingsErrors(found.collect()));
    }
    let settings = read(file, &document, root.get_ref());
    check::settings(&settings, &document, directories);
    document.finish(settings)
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

fn syntax_remedy(message: &str) -> &'static str {
    if message.contains("duplicate") {
        "write each key and each [section] once"
    } else {
        "write it as in docs/config.example.toml; texts stand in double quotes"
    }
}

pub(super) fn read<'d>(file: &Path, document: &'d Document<'d>, root: &'d DeTable<'d>) -> Settings {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    Section::root(document, root, |top| {
        let builder = builder(top);
        Settings {
            board: top.section("board", board),
            http: top.section("http", http),
            auth: top.section("auth", auth),
            audit: top.section("audit", audit),
            limits: top.section("limits", limits),
            slots: top.section("slots", |section| slots(section, builder.is_some())),
            sandbox: top.section("sandbox", sandbox),
            runtimes: top.named("runtimes", |_, section| runtime(section)),
            profiles: top.named("profiles", |_, section| profile(section)),
            roles: top.section("roles", |section| roles(section, &path)),
            retention: top.section("retention", retention),
            metrics: top.section("metrics", |section| MetricsSettings {
                listen: section.text("listen", socket_address),
            }),
            notify: top.section("notify", notify),
            builder,
            path,
        }
    })
}

fn board(section: &Section<'_>) -> BoardSettings {
    BoardSettings {
        repository: section.required(
            "repository",
            "write the checkout with docs/intent, as in repository = \"/srv/repository\"",
            absolute,
        ),
        branch: section.text("branch", branch),
        state_dir: section.text("state_dir", absolute).unwrap_or_else(|| "/var/lib/board-agent".into()),
        language: section
            .choice("language", &[("de", Language::De), ("en", Language::En)])
            .unwrap_or(Language::De),
        timezone: section.text("timezone", time_zone).unwrap_or_else(|| "Europe/Berlin".to_owned()),
        undo_seconds: section.count("undo_seconds", 0..=MAX_UNDO_SECONDS, 5),
        allow_filters: section.flag("allow_filters", false),
    }
}

fn http(section: &Section<'_>) -> HttpSettings {
    HttpSettings {
        listen: section
            .text("listen", listen)
            .unwrap_or(Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 8787)))),
        public_url: section.text("public_url", public_url),
        hosts: section.texts("hosts", host),
        allow_non_loopback: section.flag("allow_non_loopback", false),
    }
}

fn auth(section: &Section<'_>) -> AuthSettings {
    AuthSettings {
        mode: section
            .choice("mode", &[("proxy", AuthMode::Proxy), ("open", AuthMode::Open), ("oidc", AuthMode::Oidc)])
            .unwrap_or(AuthMode::Proxy),
        user_header: section
            .text("user_header", header_name)
            .unwrap_or_else(|| "X-Auth-Request-Preferred-Username".to_owned()),
        groups_header: section.text("groups_header", header_name),
        secret_file: section.text("secret_file", absolute),
        trusted_peers: section.texts("trusted_peers", trusted_peer),
        operators: section.section("operators", |section| Operators {
            users: section.texts("users", identity),
            groups: section.texts("groups", identity),
            require: section
                .choice("require", &[("any", Require::Any), ("all", Require::All)])
                .unwrap_or(Require::Any),
        }),
        viewers: section.section("viewers", |section| Viewers {
            users: section.texts("users", identity),
            groups: section.texts("groups", identity),
        }),
    }
}

fn audit(section: &Section<'_>) -> AuditSettings {
    AuditSettings {
        commit: section.flag("commit", true),
        name: section.text("name", git_identity).unwrap_or_else(|| "board-agent".to_owned()),
        email: section.text("email", git_identity).unwrap_or_else(|| "board-agent@localhost".to_owned()),
        quiet_seconds: section.count("quiet_seconds", 0..=MAX_QUIET_SECONDS, 30),
    }
}

fn limits(section: &Section<'_>) -> LimitSettings {
    LimitSettings {
        iterations: section.count("iterations", 1..=ITERATION_CAP, ITERATION_CAP),
        wall_time: section.text("wall_time", time).unwrap_or(Duration::from_secs(2 * 3600)),
        idle_time: section.text("idle_time", time).unwrap_or(Duration::from_secs(600)),
        worktree_disk: section.text("worktree_disk", disk).unwrap_or(20 << 30),
        tokens_per_job: section.number("tokens_per_job", 1..=MAX_TOKENS),
        tokens_per_day: section.number("tokens_per_day", 1..=MAX_TOKENS),
    }
}

fn slots(section: &Section<'_>, external_builder: bool) -> SlotSettings {
    let build = section.optional_count("build", if external_builder { 0..=0 } else { 1..=MAX_SLOTS });
    SlotSettings {
        draft: section.count("draft", 1..=MAX_SLOTS, 2),
        read: section.count("read", 1..=MAX_SLOTS, 2),
        research: section.count("research", 1..=1, 1),
        build: build.unwrap_or(if external_builder { 0 } else { 2 }),
    }
}

/// An empty `[builder]` is none, so that the section can stay in the file with its keys commented out.
fn builder(top: &Section<'_>) -> Option<ExternalBuilder> {
    top.section("builder", |section| {
        let inbox = section.text("inbox", absolute);
        let results = section.text("results", absolute);
        let user = section.text("user", word);
        for (name, other) in [("inbox", "results"), ("results", "inbox")] {
            if (section.has(other) || section.has("user")) && !section.has(name) {
                section.refuse(
                    name,
                    refusal("is missing", "name both directories of the external builder, or none"),
                );
            }
        }
        Some(ExternalBuilder { inbox: inbox?, results: results?, user })
    })
}

fn sandbox(section: &Section<'_>) -> SandboxSettings {
    SandboxSettings {
        mode: section
            .choice("mode", &[("bubblewrap", SandboxMode::Bubblewrap), ("none", SandboxMode::None)])
            .unwrap_or(SandboxMode::Bubblewrap),
        network: section
            .choice(
                "network",
                &[
                    ("host", SandboxNetwork::Host),
                    ("outside", SandboxNetwork::Outside),
                    ("none", SandboxNetwork::None),
                ],
            )
            .unwrap_or(SandboxNetwork::Host),
        read: section.texts("read", absolute),
        sockets: section.texts("sockets", absolute),
        allow_api_keys: section.flag("allow_api_keys", false),
    }
}

fn runtime(section: &Section<'_>) -> Runtime {
    let kinds = RuntimeKind::ALL.map(|kind| (kind.id(), kind));
    let kind = section.choice("kind", &kinds);
    if !section.has("kind") {
        section.refuse(
            "kind",
            refusal("is missing", "say how the program is spoken to, as in kind = \"codex\""),
        );
    }
    let program = section.text("program", program);
    let argv = section.texts("argv", text);
    match kind {
        Some(RuntimeKind::Command) => {
            if argv.is_empty() && !section.document().is_refused(&section.path("argv")) {
                section.refuse(
                    "argv",
                    refusal(
                        "is missing",
                        "name program and arguments, as in argv = [\"/usr/local/bin/agent\"]",
                    ),
                );
            }
            if section.has("program") {
                section.refuse("program", refusal("does not go with kind = \"command\"", "use argv instead"));
            }
        }
        Some(kind) => {
            if !section.has("program") {
                let like = format!("name it, as in program = \"{}\"", kind.id());
                section.refuse("program", refusal("is missing", like));
            }
            for name in ["argv", "events"].into_iter().filter(|name| section.has(name)) {
                section.refuse(
                    name,
                    refusal(
                        "goes with kind = \"command\" only",
                        "remove it; program and args are for this kind",
                    ),
                );
            }
        }
        None => {}
    }
    Runtime {
        kind: kind.unwrap_or(RuntimeKind::Command),
        program,
        argv,
        args: section.texts("args", text),
        env: section.text_table("env", environment),
        events: section
            .choice(
                "events",
                &[
                    ("text", EventsFormat::Text),
                    ("codex", EventsFormat::Codex),
                    ("claude", EventsFormat::Claude),
                ],
            )
            .unwrap_or(EventsFormat::Text),
        credential: section.section("credential", |credential| {
            let env = credential.text("env", |name| variable(name).map(|()| name.to_owned()));
            let file = credential.text("file", absolute);
            for name in ["env", "file"] {
                if credential.is_there() && !credential.has(name) {
                    credential.refuse(
                        name,
                        refusal("is missing", "write credential = { env = \"VARIABLE\", file = \"/path\" }"),
                    );
                }
            }
            Some(Credential { env: env?, file: file? })
        }),
    }
}

fn profile(section: &Section<'_>) -> Profile {
    Profile {
        runtime: section.required("runtime", "name one of [runtimes.…]", word),
        model: section.text("model", word),
        effort: section.text("effort", word),
        description: section.text("description", text).unwrap_or_default(),
        iterations: section.optional_count("iterations", 1..=ITERATION_CAP),
    }
}

fn roles(section: &Section<'_>, file: &Path) -> Roles {
    let role = |name: RoleName| section.section(name.id(), |section| role(section, file));
    Roles {
        builder: role(RoleName::Builder),
        reviewer: role(RoleName::Reviewer),
        researcher: role(RoleName::Researcher),
        planner: role(RoleName::Planner),
    }
}

fn role(section: &Section<'_>, file: &Path) -> Role {
    Role {
        profile: section.required("profile", "name one of [profiles.…]", word),
        iterations: section.optional_count("iterations", 1..=ITERATION_CAP),
        guidance: section.text("guidance", |text| relative(text).map(|_| text.to_owned())),
        template: section.text("template", |text| {
            relative(text).map(|path| file.parent().unwrap_or(Path::new("/")).join(path))
        }),
    }
}

fn retention(section: &Section<'_>) -> RetentionSettings {
    let days = |name, default| section.count(name, 0..=MAX_DAYS, default);
    RetentionSettings {
        done: days("done", 30),
        rejected: days("rejected", 30),
        logs: days("logs", 90),
        saved_refs: days("saved_refs", 90),
        worktrees_of_deployed: days("worktrees_of_deployed", 7),
    }
}

fn notify(section: &Section<'_>) -> NotifySettings {
    let exec = section.texts("exec", text);
    if exec.first().is_some_and(|program| !program.starts_with('/')) {
        section
            .refuse("exec", refusal("begins with no absolute path", "name the program with its whole path"));
    }
    NotifySettings { exec }
}

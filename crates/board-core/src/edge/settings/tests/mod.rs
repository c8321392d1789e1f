//! The settings as a whole: what is read, and what is said of what is wrong.
//!
//! A file of its own, because these tests go through all parts of the module.
mod sections;

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

const FILE: &str = "/etc/board-agent/config.toml";

/// The least that is accepted.
const LEAST: &str = r#"
[board]
repository = "/srv/repository"
[runtimes.codex]
kind = "codex"
program = "codex"
[profiles.standard]
runtime = "codex"
[roles.builder]
profile = "standard"
[roles.reviewer]
profile = "standard"
[roles.researcher]
profile = "standard"
[roles.planner]
profile = "standard"
"#;

/// The example of the design, word by word but for the names.
const EXAMPLE: &str = include_str!("../../../../../../docs/config.example.toml");

fn load(text: &str) -> Result<Settings, SettingsErrors> {
    Settings::load_from_str(Path::new(FILE), text, DirectoryCheck::Skip)
}

/// [`LEAST`] with one section said in other words, or a further one.
fn with(section: &str, body: &str) -> String {
    let header = format!("[{section}]\n");
    match LEAST.split_once(&header) {
        Some((before, after)) => {
            let rest = after.find("\n[").map_or("", |end| &after[end..]);
            format!("{before}{header}{body}{rest}")
        }
        None => format!("{LEAST}{header}{body}\n"),
    }
}

/// What is said of `text`, without the name of the file.
fn said(text: &str) -> Vec<String> {
    let errors = load(text).expect_err("refused").to_string();
    errors.lines().map(|line| line.strip_prefix(&format!("{FILE}:")).expect("file").to_owned()).collect()
}

/// `[section] key = value` is refused with exactly this one problem and remedy.
fn refused(section: &str, body: &str, problem_and_remedy: &str) {
    let said = said(&with(section, body));
    assert_eq!(said.len(), 1, "{section} {body}: {said:#?}");
    let (_, rest) = said[0].split_once(": ").expect("line");
    assert_eq!(rest, problem_and_remedy, "{section} {body}");
}

fn accepted(section: &str, body: &str) -> Settings {
    load(&with(section, body)).unwrap_or_else(|errors| panic!("{section} {body}: {errors}"))
}

#[test]
fn the_least_file_gets_the_documented_defaults() {
    let settings = load(LEAST).expect("accepted");
    let role = Role { profile: "standard".to_owned(), iterations: None, guidance: None, template: None };
    let expected = Settings {
        path: FILE.into(),
        board: BoardSettings {
            repository: "/srv/repository".into(),
            branch: None,
            state_dir: "/var/lib/board-agent".into(),
            language: Language::De,
            timezone: "Europe/Berlin".to_owned(),
            undo_seconds: 5,
            allow_filters: false,
        },
        http: HttpSettings {
            listen: Listen::Tcp(([127, 0, 0, 1], 8787).into()),
            public_url: None,
            hosts: vec![],
            allow_non_loopback: false,
        },
        auth: AuthSettings {
            mode: AuthMode::Proxy,
            user_header: "X-Auth-Request-Preferred-Username".to_owned(),
            groups_header: None,
            secret_file: None,
            trusted_peers: vec![],
            operators: Operators { users: vec![], groups: vec![], require: Require::Any },
            viewers: Viewers { users: vec![], groups: vec![] },
        },
        audit: AuditSettings {
            commit: true,
            name: "board-agent".to_owned(),
            email: "board-agent@localhost".to_owned(),
            quiet_seconds: 30,
        },
        limits: LimitSettings {
            iterations: 20,
            wall_time: Duration::from_secs(7200),
            idle_time: Duration::from_secs(600),
            worktree_disk: 20 << 30,
            tokens_per_job: None,
            tokens_per_day: None,
        },
        slots: SlotSettings { draft: 2, read: 2, research: 1, build: 2 },
        builder: None,
        sandbox: SandboxSettings {
            mode: SandboxMode::Bubblewrap,
            network: SandboxNetwork::Host,
            read: vec![],
            sockets: vec![],
            allow_api_keys: false,
        },
        runtimes: BTreeMap::from([(
            "codex".to_owned(),
            Runtime {
                kind: RuntimeKind::Codex,
                program: Some("codex".to_owned()),
                argv: vec![],
                args: vec![],
                env: BTreeMap::new(),
                events: EventsFormat::Text,
                credential: None,
            },
        )]),
        profiles: BTreeMap::from([(
            "standard".to_owned(),
            Profile {
                runtime: "codex".to_owned(),
                model: None,
                effort: None,
                description: String::new(),
                iterations: None,
            },
        )]),
        roles: Roles {
            builder: role.clone(),
            reviewer: role.clone(),
            researcher: role.clone(),
            planner: role,
        },
        retention: RetentionSettings {
            done: 30,
            rejected: 30,
            logs: 90,
            saved_refs: 90,
            worktrees_of_deployed: 7,
        },
        metrics: MetricsSettings { listen: None },
        notify: NotifySettings { exec: vec![] },
    };
    assert_eq!(settings, expected);
}

#[test]
fn the_example_is_the_defaults_and_what_has_none() {
    let settings = load(EXAMPLE).expect("accepted");
    let mut expected = load(LEAST).expect("accepted");
    expected.board.branch = Some("main".to_owned());
    expected.http.public_url = Some("https://board.example.org".to_owned());
    expected.auth.operators.users = vec!["operator".to_owned()];
    expected.audit.email = "board-agent@example.org".to_owned();
    expected.runtimes.insert(
        "script".to_owned(),
        Runtime {
            kind: RuntimeKind::Command,
            program: None,
            argv: vec!["/usr/local/bin/agent.sh".to_owned()],
            ..expected.runtimes["codex"].clone()
        },
    );
    let standard = expected.profiles.get_mut("standard").expect("profile");
    standard.model = Some("standard-model".to_owned());
    standard.description = "für die meisten Aufträge".to_owned();
    expected.roles.builder.iterations = Some(20);
    assert_eq!(settings, expected);
}

#[test]
fn every_commented_key_of_the_example_is_accepted() {
    // A line `# key = …` is an offer, a line `# Text` a comment.
    let offered = |line: &str| -> Option<String> {
        let line = line.strip_prefix("# ")?;
        let (key, _) = line.split_once(" = ")?;
        key.chars().all(|c| c.is_ascii_lowercase() || c == '_').then(|| line.to_owned())
    };
    let text: String = EXAMPLE
        .lines()
        .map(|line| offered(line).unwrap_or_else(|| line.to_owned()) + "\n")
        // Two that exclude their neighbours.
        .map(|line| if line.starts_with("build    = 2") { "build = 0\n".to_owned() } else { line })
        .collect();
    let settings = load(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert!(settings.builder.is_some() && settings.sandbox.allow_api_keys);
    assert_eq!(settings.roles.builder.template, Some("/etc/board-agent/prompts/builder.de.md".into()));
}

#[test]
fn an_error_shows_file_line_key_problem_and_remedy() {
    let errors = load(&LEAST.replace("kind = \"codex\"", "kind = \"kodex\"")).expect_err("refused");
    assert_eq!(
        errors.to_string(),
        "/etc/board-agent/config.toml:5: runtimes.codex.kind: \"kodex\" is not known; write one of \
         \"codex\", \"claude\", \"acp\", \"command\", \"opencode\" and \"gemini\""
    );
    assert_eq!(errors.0[0].line, 5);
    assert_eq!(errors.0[0].key, "runtimes.codex.kind");
}

#[test]
fn everything_that_is_wrong_is_told_at_once_in_the_order_of_the_lines() {
    let text = r#"
[board]
repository = "srv"
undo_seconds = 31
langauge = "en"
[http]
listen = "0.0.0.0:80"
[limits]
wall_time = 7200
[profiles.standard]
runtime = "codex"
[roles.builder]
profile = "standart"
[roles.planner]
profile = "standard"
[colours]
red = 1
"#;
    assert_eq!(
        said(text),
        [
            "1: runtimes: there is no program that could be an agent; write a section such as \
             [runtimes.codex] with kind = \"codex\" and program = \"codex\"",
            "3: board.repository: srv is no absolute path; write the whole path from / on, without ..",
            "4: board.undo_seconds: 31 is out of range; write a number from 0 to 30",
            "5: board.langauge: is not a known key; did you mean board.language?",
            "7: http.listen: can be reached from other hosts; listen on loopback (\"127.0.0.1:8787\") or \
             on a unix socket behind the proxy, or set http.allow_non_loopback = true",
            "9: limits.wall_time: is a whole number; write a string",
            "11: profiles.standard.runtime: there is no [runtimes.codex]; write a section [runtimes.codex]",
            "12: roles.reviewer.profile: is missing; name one of [profiles.…]",
            "12: roles.researcher.profile: is missing; name one of [profiles.…]",
            "13: roles.builder.profile: there is no [profiles.standart]; did you mean \"standard\"?",
            "16: colours: is not a known key; remove it; there are \"audit\", \"auth\", \"board\", \
             \"builder\", \"http\", \"limits\", \"metrics\", \"notify\", \"profiles\", \"retention\", \
             \"roles\", \"runtimes\", \"sandbox\" and \"slots\"",
        ]
    );
}

#[test]
fn an_empty_file_is_told_what_is_needed() {
    let said = said("").join("\n");
    for needed in ["board.repository", "[runtimes.codex]", "[profiles.standard]", "roles.planner.profile"] {
        assert!(said.contains(needed), "{needed} in {said}");
    }
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    assert_eq!(
        said("[board]\nrepository = /srv\n"),
        ["2: is not TOML: string values must be quoted, expected literal string; \
          write it as in docs/config.example.toml; texts stand in double quotes"]
    );
    for (text, line) in [
        ("[board]\nlanguage = \"de\"\nlanguage = \"en\"\n", "3: "),
        ("[board]\n[http]\n[board]\n", "3: "),
        ("board = 1\n[board]\n", "2: "),
    ] {
        let said = said(text);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with(line), "{said:?}");
        assert!(said[0].ends_with("; write each key and each [section] once"), "{said:?}");
    }
}

#[test]
fn wrong_types_are_named() {
    refused("audit", "commit = \"yes\"", "audit.commit: is a string; write true or false, without quotes");
    refused("audit", "quiet_seconds = \"30\"", "audit.quiet_seconds: is a string; write a whole number");
    refused(
        "audit",
        "quiet_seconds = 1.5",
        "audit.quiet_seconds: is a number with a fraction; write a whole number",
    );
    refused("audit", "name = 3", "audit.name: is a whole number; write a string");
    refused("audit", "name = true", "audit.name: is true or false; write a string");
    refused("audit", "name = 2026-01-01", "audit.name: is a date or time; write a string");
    refused(
        "notify",
        "exec = \"x\"",
        "notify.exec: is a string; write a list of strings, as in [\"a\", \"b\"]",
    );
    refused("http", "hosts = [\"a\", 2]", "http.hosts[1]: is a whole number; write a string");
    refused(
        "auth",
        "operators = [\"a\"]",
        "auth.operators: is a list; write a table, as in [auth.operators]",
    );
    refused(
        "runtimes",
        "other = \"x\"",
        "runtimes.other: is a string; write a table, as in [runtimes.other]",
    );
    let codex = "kind = \"codex\"\nprogram = \"codex\"\n";
    refused(
        "runtimes.codex",
        &format!("{codex}env = [\"A=1\"]"),
        "runtimes.codex.env: is a list; write a table, as in env = { … }",
    );
    refused(
        "runtimes.codex",
        &format!("{codex}credential = \"x\""),
        "runtimes.codex.credential: is a string; write a table, as in [runtimes.codex.credential]",
    );
    let said = said(&format!("metrics = 1\n{LEAST}"));
    assert_eq!(said, ["1: metrics: is a whole number; write a table, as in [metrics]"]);
}

#[test]
fn the_line_of_an_element_is_its_own() {
    let text = with("http", "hosts = [\n  \"good\",\n  \"not good\",\n]");
    let line = text.lines().position(|line| line.contains("not good")).expect("line") + 1;
    assert_eq!(
        said(&text),
        [format!(
            "{line}: http.hosts[1]: \"not good\" is no host name; write a name as in \"board.example.org\""
        )]
    );
}

#[test]
fn every_range_ends_where_it_says() {
    let ranges = [
        ("audit", "quiet_seconds", 0, 600),
        ("limits", "iterations", 1, 20),
        ("limits", "tokens_per_job", 1, i64::MAX),
        ("limits", "tokens_per_day", 1, i64::MAX),
        ("slots", "draft", 1, 16),
        ("slots", "read", 1, 16),
        ("slots", "research", 1, 1),
        ("slots", "build", 1, 16),
        ("retention", "done", 0, 3650),
        ("retention", "rejected", 0, 3650),
        ("retention", "logs", 0, 3650),
        ("retention", "saved_refs", 0, 3650),
        ("retention", "worktrees_of_deployed", 0, 3650),
        ("board", "undo_seconds", 0, 30),
        ("profiles.standard", "iterations", 1, 20),
        ("roles.builder", "iterations", 1, 20),
    ];
    for (section, key, least, most) in ranges {
        let rest = match section {
            "board" => "repository = \"/srv/repository\"\n",
            "profiles.standard" => "runtime = \"codex\"\n",
            "roles.builder" => "profile = \"standard\"\n",
            _ => "",
        };
        let body = |number: i128| format!("{rest}{key} = {number}\n");
        accepted(section, &body(least.into()));
        accepted(section, &body(most.into()));
        for number in [i128::from(least) - 1, i128::from(most) + 1] {
            let said = said(&with(section, &body(number)));
            assert_eq!(said.len(), 1, "{said:?}");
            let wanted = format!("{section}.{key}: {number} is out of range; ");
            assert!(said[0].contains(&wanted), "{said:?}");
        }
    }
}

#[test]
fn times_and_sizes_end_where_they_say() {
    for key in ["wall_time", "idle_time"] {
        for good in ["1s", "7d", "1h30m"] {
            accepted("limits", &format!("{key} = \"{good}\""));
        }
        for bad in ["0s", "604801s", "2 hours", "10"] {
            refused(
                "limits",
                &format!("{key} = \"{bad}\""),
                &format!(
                    "limits.{key}: \"{bad}\" is no time from 1s to 7d; write it as in \"2h\", \"10m\" or \"90s\""
                ),
            );
        }
    }
    for good in ["1MiB", "1024TiB"] {
        accepted("limits", &format!("worktree_disk = \"{good}\""));
    }
    for bad in ["1048575B", "1025TiB", "20GB", "20"] {
        refused(
            "limits",
            &format!("worktree_disk = \"{bad}\""),
            &format!(
                "limits.worktree_disk: \"{bad}\" is no size from 1MiB to 1024TiB; \
                 write it as in \"20GiB\" or \"512MiB\""
            ),
        );
    }
}

#[test]
fn texts_have_a_greatest_length() {
    let description = |length| format!("runtime = \"codex\"\ndescription = \"{}\"", "x".repeat(length));
    accepted("profiles.standard", &description(4096));
    refused(
        "profiles.standard",
        &description(4097),
        "profiles.standard.description: has 4097 bytes; write at most 4096",
    );
    accepted("auth", &format!("viewers = {{ users = [\"{}\"] }}", "u".repeat(256)));
    let said = said(&with("auth", &format!("viewers = {{ users = [\"{}\"] }}", "u".repeat(257))));
    assert!(said[0].contains("auth.viewers.users[0]: "), "{said:?}");
}

#[test]
fn an_unknown_key_is_told_what_was_probably_meant() {
    refused("http", "lisen = \"x\"", "http.lisen: is not a known key; did you mean http.listen?");
    refused(
        "metrics",
        "colour = 1",
        "metrics.colour: is not a known key; remove it; [metrics] knows \"listen\"",
    );
    refused(
        "auth.operators",
        "user = [\"x\"]",
        "auth.operators.user: is not a known key; did you mean auth.operators.users?",
    );
    refused(
        "metrics",
        "\"a b\" = 1",
        "metrics.\"a b\": is not a known key; remove it; [metrics] knows \"listen\"",
    );
    let said = said(&format!("{LEAST}[role.builder]\n"));
    assert!(said[0].ends_with("role: is not a known key; did you mean roles?"), "{said:?}");
}

#[test]
fn directories_that_are_not_there_are_refused_on_their_host() {
    let there = tempfile::tempdir().expect("directory");
    let root = there.path().display();
    let file = there.path().join("config.toml");
    let text = LEAST
        .replace("\"/srv/repository\"", &format!("\"{root}/checkout\"\nstate_dir = \"{root}/state\""))
        .replace("[roles.builder]\n", "[roles.builder]\ntemplate = \"builder.md\"\n")
        + &format!(
            "[builder]\ninbox = \"{root}\"\nresults = \"{root}/config.toml\"\n[sandbox]\nread = [\"{root}/tools\"]\n"
        );
    std::fs::create_dir(there.path().join("checkout")).expect("checkout");
    std::fs::write(&file, &text).expect("file");
    let errors = Settings::load(&file).expect_err("refused");
    let said: Vec<String> =
        errors.0.iter().map(|error| format!("{} {}", error.line, error.problem)).collect();
    let missing = "is not there or not to be seen by this user";
    assert_eq!(
        said,
        [
            format!("4 {root}/state {missing}"),
            format!("11 {root}/builder.md {missing}"),
            format!("21 {root}/config.toml is no directory"),
            format!("23 {root}/tools {missing}"),
        ]
    );
    std::fs::create_dir(there.path().join("state")).expect("state");
    std::fs::create_dir(there.path().join("tools")).expect("tools");
    std::fs::write(there.path().join("builder.md"), "").expect("template");
    std::fs::write(&file, text.replace("/config.toml\"", "\"")).expect("file");
    assert_eq!(Settings::load(&file).expect("accepted").path, file);
    assert!(Settings::load_with(&file, DirectoryCheck::Skip).is_ok());
}

#[test]
fn state_and_repository_lie_apart_also_behind_a_link() {
    let there = tempfile::tempdir().expect("directory");
    let root = there.path().canonicalize().expect("path");
    let file = root.join("config.toml");
    for dir in ["repo/.git/x", "state/repo", "beside"] {
        std::fs::create_dir_all(root.join(dir)).expect("directory");
    }
    std::os::unix::fs::symlink(root.join("repo/.git/x"), root.join("link")).expect("link");
    let refused = |repository: &str, state: &str| {
        let (repository, state) = (root.join(repository), root.join(state));
        let paths = format!("\"{}\"\nstate_dir = \"{}\"", repository.display(), state.display());
        std::fs::write(&file, LEAST.replace("\"/srv/repository\"", &paths)).expect("file");
        let errors = Settings::load(&file).err().map_or(Vec::new(), |errors| errors.0);
        errors.iter().any(|error| error.key == "board.state_dir")
    };
    for (repository, state) in
        [("repo", "repo"), ("repo", "repo/.git/x"), ("repo", "link"), ("state/repo", "state"), ("repo", "/")]
    {
        assert!(refused(repository, state), "{repository} {state}");
    }
    assert!(!refused("repo", "beside"));
}

#[test]
fn a_configuration_that_is_no_file_is_refused_and_not_waited_for() {
    let there = tempfile::tempdir().expect("directory");
    let pipe = there.path().join("config.toml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("fifo");
    assert!(Settings::load(&pipe).expect_err("refused").to_string().contains("is no regular file"));
}

#[test]
fn a_file_that_cannot_be_read_is_one_error_without_a_line() {
    let there = tempfile::tempdir().expect("directory");
    let file = there.path().join("config.toml");
    let said = |file: &Path| Settings::load(file).expect_err("refused").to_string();
    assert_eq!(
        said(&file),
        format!(
            "{}: cannot be read: No such file or directory (os error 2); write one \
             (docs/config.example.toml is an example) or name it with --config",
            file.display()
        )
    );
    std::fs::write(&file, b"[board]\n\xff").expect("file");
    assert!(said(&file).ends_with("config.toml: is not UTF-8 from byte 8 on; save it as UTF-8"));
    // n and n + 1: the first is read and found wrong for what it says, not for its size.
    std::fs::write(&file, "#".repeat(1 << 20)).expect("file");
    assert!(said(&file).contains("board.repository"));
    std::fs::write(&file, "#".repeat((1 << 20) + 1)).expect("file");
    assert!(said(&file).contains("is greater than 1MiB"));
}

#[test]
fn the_flag_wins_over_the_variable_and_that_over_the_default() {
    let flag = Path::new("/flag.toml");
    let variable = || Some(PathBuf::from("/variable.toml"));
    assert_eq!(choose(Some(flag), variable()), flag);
    assert_eq!(choose(None, variable()), Path::new("/variable.toml"));
    assert_eq!(choose(None, Some(PathBuf::new())), Path::new(DEFAULT_PATH));
    assert_eq!(choose(None, None), Path::new(DEFAULT_PATH));
}

#[test]
fn the_model_is_told_what_it_decides_on() {
    let policy = load(EXAMPLE).expect("accepted").policy();
    let role = |iterations| RolePolicy { profile: "standard".to_owned(), iterations };
    assert_eq!(
        policy,
        Policy {
            undo_seconds: 5,
            profiles: BTreeMap::from([("standard".to_owned(), None)]),
            roles: BTreeMap::from([
                (RoleName::Builder, role(Some(20))),
                (RoleName::Reviewer, role(None)),
                (RoleName::Researcher, role(None)),
                (RoleName::Planner, role(None)),
            ]),
            iteration_cap: 20,
            external_builder: false,
            guidance: BTreeMap::new(),
        }
    );
}

#[test]
fn the_iteration_limit_is_the_least_that_applies() {
    let mut settings = load(LEAST).expect("accepted");
    let limit = |settings: &Settings, card| settings.iteration_limit(RoleName::Builder, "standard", card);
    assert_eq!(limit(&settings, None), 20);
    assert_eq!(limit(&settings, Some(21)), 20);
    assert_eq!(limit(&settings, Some(19)), 19);
    assert_eq!(limit(&settings, Some(0)), 1);
    settings.roles.builder.iterations = Some(15);
    assert_eq!(limit(&settings, Some(19)), 15);
    settings.profiles.get_mut("standard").expect("profile").iterations = Some(12);
    assert_eq!(limit(&settings, None), 12);
    assert_eq!(settings.iteration_limit(RoleName::Builder, "gone", None), 15);
    assert_eq!(settings.iteration_limit(RoleName::Reviewer, "gone", None), 20);
    settings.limits.iterations = 3;
    assert_eq!(limit(&settings, Some(19)), 3);
}

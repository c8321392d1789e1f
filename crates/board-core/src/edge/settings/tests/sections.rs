//! Section by section: what is taken as it is written, and what is refused with which words.
use super::*;

#[test]
fn listeners_are_addresses_and_stay_on_this_host() {
    let unix = accepted("http", "listen = \"unix:/run/board-agent/http.sock\"");
    assert_eq!(unix.http.listen, Listen::Unix("/run/board-agent/http.sock".into()));
    accepted("http", "listen = \"[::1]:0\"");
    accepted("http", "listen = \"0.0.0.0:80\"\nallow_non_loopback = true");
    refused(
        "http",
        "listen = \"localhost\"",
        "http.listen: \"localhost\" is no address; \
         write \"127.0.0.1:8787\" or \"unix:/run/board-agent/http.sock\"",
    );
    refused(
        "http",
        "listen = \"unix:http.sock\"",
        "http.listen: http.sock is no absolute path; write the whole path from / on, without ..",
    );
    refused(
        "metrics",
        "listen = \"0.0.0.0:9187\"",
        "metrics.listen: can be reached from other hosts; listen on loopback (\"127.0.0.1:9187\") or set \
         http.allow_non_loopback = true",
    );
    accepted("auth", "mode = \"open\"");
    let open = |listen: &str| said(&format!("{LEAST}[auth]\nmode = \"open\"\n[http]\n{listen}\n"));
    for listen in ["listen = \"unix:/run/x\"", "listen = \"10.0.0.1:80\"\nallow_non_loopback = true"] {
        assert!(open(listen)[0].contains("auth.mode: \"open\" is for trying out on this host alone; "));
    }
}

#[test]
fn host_names_have_a_greatest_length() {
    let host = |length| format!("hosts = [\"{}\"]", "h".repeat(length));
    accepted("http", &host(253));
    assert_eq!(said(&with("http", &host(254))).len(), 1);
}

#[test]
fn addresses_of_the_board_are_an_origin() {
    for (url, kept) in [
        ("https://board.example.org", "https://board.example.org"),
        ("https://board.example.org/", "https://board.example.org"),
        ("http://127.0.0.1:8787", "http://127.0.0.1:8787"),
        ("http://[::1]:8787", "http://[::1]:8787"),
    ] {
        let settings = accepted("http", &format!("public_url = \"{url}\""));
        assert_eq!(settings.http.public_url.as_deref(), Some(kept));
    }
    for url in
        ["board", "https://", "ftp://a", "https://a/b", "https://a@b", "https://a:99999", "https://a b"]
    {
        refused(
            "http",
            &format!("public_url = \"{url}\""),
            &format!(
                "http.public_url: {url:?} is not scheme and host; write it as the browser shows it, \
                 without a path, as in \"https://board.example.org\""
            ),
        );
    }
}

#[test]
fn who_may_operate_is_read_as_written() {
    let auth = accepted(
        "auth",
        "user_header = \"X-Board-User\"\ngroups_header = \"X-Board-Groups\"\n\
         trusted_peers = [\"127.0.0.1\", \"traefik\", \"990\"]\n\
         operators = { users = [\"Ada\"], groups = [\"admins\"], require = \"all\" }\n\
         viewers = { groups = [\"staff\"] }",
    )
    .auth;
    assert_eq!(auth.operators.require, Require::All);
    assert_eq!(auth.operators.users, ["Ada"]);
    assert_eq!(auth.viewers.groups, ["staff"]);
    assert_eq!(
        auth.trusted_peers,
        [
            TrustedPeer::Ip([127, 0, 0, 1].into()),
            TrustedPeer::User("traefik".to_owned()),
            TrustedPeer::User("990".to_owned())
        ]
    );
    refused(
        "auth",
        "trusted_peers = [\"10.0.0.0/8\"]",
        "auth.trusted_peers[0]: \"10.0.0.0/8\" is neither an IP address nor a user; write one address \
         (no network) for TCP, or a user's name or number for a unix socket",
    );
    refused(
        "auth",
        "operators = { groups = [\"admins\"] }",
        "auth.operators.groups: no header is named that groups are read from; set auth.groups_header, as \
         in \"X-Auth-Request-Groups\", or list users",
    );
    refused(
        "auth",
        "user_header = \"X-User\"\ngroups_header = \"x-user\"",
        "auth.groups_header: is also the header of the user; name two headers",
    );
    refused(
        "auth",
        "user_header = \"X_User\"",
        "auth.user_header: \"X_User\" is no name of a header; write letters, digits and hyphens, as in \
         \"X-Auth-Request-Email\"",
    );
    refused(
        "auth",
        "operators = { users = [\"a,b\"] }",
        "auth.operators.users[0]: \"a,b\" cannot be a user or a group; write it without a comma and \
         without spaces around it, in at most 256 bytes",
    );
}

#[test]
fn a_runtime_has_what_its_kind_needs_and_nothing_else() {
    for kind in ["codex", "claude", "acp", "opencode", "gemini"] {
        accepted("runtimes.codex", &format!("kind = \"{kind}\"\nprogram = \"/opt/agent\""));
        refused(
            "runtimes.codex",
            &format!("kind = \"{kind}\""),
            &format!("runtimes.codex.program: is missing; name it, as in program = \"{kind}\""),
        );
        refused(
            "runtimes.codex",
            &format!("kind = \"{kind}\"\nprogram = \"x\"\nargv = [\"x\"]"),
            "runtimes.codex.argv: goes with kind = \"command\" only; remove it; program and args are for \
             this kind",
        );
    }
    refused(
        "runtimes.codex",
        "kind = \"command\"",
        "runtimes.codex.argv: is missing; name program and arguments, as in argv = [\"/usr/local/bin/agent\"]",
    );
    refused(
        "runtimes.codex",
        "kind = \"command\"\nargv = [\"x\"]\nprogram = \"x\"",
        "runtimes.codex.program: does not go with kind = \"command\"; use argv instead",
    );
    refused(
        "runtimes.codex",
        "program = \"codex\"",
        "runtimes.codex.kind: is missing; say how the program is spoken to, as in kind = \"codex\"",
    );
    refused(
        "runtimes.codex",
        "kind = \"codex\"\nprogram = \"./codex\"",
        "runtimes.codex.program: ./codex is a relative path; write its name alone or the whole path",
    );
    refused(
        "runtimes.codex",
        "kind = \"codex\"\nprogram = \"codex\"\nenv = { BOARD_JOB_ID = \"1\" }",
        "runtimes.codex.env.BOARD_JOB_ID: BOARD_* is set by the worker itself; use another name",
    );
    let refused_name = said(&format!("{LEAST}[runtimes.\"../x\"]\nkind = \"codex\"\nprogram = \"x\"\n"));
    assert!(refused_name[0].contains("runtimes.\"../x\": \"../x\" is no name; "), "{refused_name:?}");
}

#[test]
fn a_raw_key_needs_the_operators_word() {
    let body = "kind = \"codex\"\nprogram = \"codex\"\n\
                credential = { env = \"OPENAI_API_KEY\", file = \"/run/key\" }\n";
    refused(
        "runtimes.codex",
        body,
        "runtimes.codex.credential: a raw key would be given to an agent; use the runtime's own login \
         (boardctl login codex), or set sandbox.allow_api_keys = true",
    );
    let text = with("runtimes.codex", &format!("{body}[sandbox]\nallow_api_keys = true\n"));
    let settings = load(&text).expect("accepted");
    assert_eq!(
        settings.runtimes["codex"].credential,
        Some(Credential { env: "OPENAI_API_KEY".to_owned(), file: "/run/key".into() })
    );
    refused(
        "runtimes.codex",
        "kind = \"codex\"\nprogram = \"codex\"\ncredential = { env = \"KEY\" }",
        "runtimes.codex.credential.file: is missing; write credential = { env = \"VARIABLE\", file = \"/path\" }",
    );
}

#[test]
fn an_external_builder_is_two_directories_and_no_build_slots() {
    let builder = "inbox = \"/var/inbox\"\nresults = \"/var/results\"\nuser = \"builder\"";
    let settings = accepted("builder", builder);
    assert_eq!(settings.slots.build, 0);
    assert_eq!(
        settings.builder,
        Some(ExternalBuilder {
            inbox: "/var/inbox".into(),
            results: "/var/results".into(),
            user: Some("builder".to_owned())
        })
    );
    assert_eq!(accepted("builder", "").builder, None);
    accepted("builder", &format!("{builder}\n[slots]\nbuild = 0"));
    refused("slots", "build = 0", "slots.build: 0 is out of range; write a number from 1 to 16");
    refused(
        "builder",
        &format!("{builder}\n[slots]\nbuild = 1"),
        "slots.build: 1 is out of range; only 0 is possible",
    );
    refused(
        "builder",
        "inbox = \"/var/inbox\"",
        "builder.results: is missing; name both directories of the external builder, or none",
    );
}

#[test]
fn paths_of_a_role_stay_in_their_directory() {
    let role =
        accepted("roles.builder", "profile = \"standard\"\ntemplate = \"a/b.md\"\nguidance = \"c.md\"").roles;
    assert_eq!(role.builder.template, Some("/etc/board-agent/a/b.md".into()));
    assert_eq!(role.builder.guidance.as_deref(), Some("c.md"));
    for key in ["template", "guidance"] {
        for path in ["../b.md", "/etc/passwd", "a/../../b"] {
            refused(
                "roles.builder",
                &format!("profile = \"standard\"\n{key} = \"{path}\""),
                &format!(
                    "roles.builder.{key}: {path} leads out of its directory; write a path below it, \
                     without / at the start and without .."
                ),
            );
        }
    }
}

#[test]
fn other_values_are_checked_where_they_are_read() {
    let board = |line: &str| format!("repository = \"/srv/repository\"\n{line}");
    refused(
        "board",
        &board("timezone = \"Europe/Atlantis\""),
        "board.timezone: \"Europe/Atlantis\" is no time zone that this host knows; write a name such as \
         \"Europe/Berlin\" or \"UTC\"",
    );
    refused(
        "board",
        &board("language = \"fr\""),
        "board.language: \"fr\" is not known; write one of \"de\" and \"en\"",
    );
    for branch in ["-x", "a b", "a..b", "refs/heads/main", "a~1", "x.lock", ""] {
        let said = said(&with("board", &board(&format!("branch = \"{branch}\""))));
        assert!(said[0].contains("board.branch: "), "{said:?}");
    }
    accepted("board", &board("branch = \"feature/board-2\""));
    refused(
        "audit",
        "name = \"a <b>\"",
        "audit.name: \"a <b>\" cannot stand in a commit; write it without <, > and outer spaces",
    );
    refused(
        "notify",
        "exec = [\"notify\"]",
        "notify.exec: begins with no absolute path; name the program with its whole path",
    );
    refused("audit", "name = \"a\\nb\"", "audit.name: \"a\\nb\" has a control character; remove it");
}

//! The description of every key, for `boardctl schema` and the documents.
//!
//! Apart from the parser, where the words would hide the checks; a test compares its keys with those that
//! the parser asks for, so neither can forget one.

/// A key, its type, its default and what it means.
type Entry = (&'static str, &'static str, &'static str, &'static str);

/// Every key in the order of the example; `<name>` and `<role>` stand for any.
const ENTRIES: &[Entry] = &[
    ("board.repository", "path", "required", "the checkout with `docs/intent`"),
    ("board.branch", "text", "the branch at the first start", "the branch that holds the board"),
    ("board.state_dir", "path", "`/var/lib/board-agent`", "state, queue, logs and worktrees"),
    ("board.language", "`de`, `en`", "`de`", "the language of the board and of the prompts"),
    ("board.timezone", "text", "`Europe/Berlin`", "the time zone of the times that people read"),
    ("board.undo_seconds", "0 to 30", "5", "how long a click can be taken back"),
    (
        "board.allow_filters",
        "true, false",
        "false",
        "accept a repository with `filter.*` configured; such a filter runs outside the sandbox",
    ),
    (
        "http.listen",
        "address, `unix:` and path",
        "`127.0.0.1:8787`",
        "where the board listens; an inherited socket wins; port 0 picks one",
    ),
    ("http.public_url", "URL without a path", "none", "what the browser calls the board"),
    ("http.hosts", "list of names", "empty", "further names that are right in `Host`"),
    ("http.allow_non_loopback", "true, false", "false", "accept addresses that other hosts can reach"),
    ("auth.mode", "`proxy`, `open`, `oidc`", "`proxy`", "where identity comes from"),
    (
        "auth.user_header",
        "name of a header",
        "`X-Auth-Request-Preferred-Username`",
        "the one header that names the user",
    ),
    ("auth.groups_header", "name of a header", "none", "the header with the groups, separated by commas"),
    ("auth.secret_file", "path", "the systemd credential", "the secret that the proxy sends along"),
    (
        "auth.trusted_peers",
        "list of addresses or users",
        "loopback",
        "who may speak as the proxy: addresses for TCP, users for a unix socket",
    ),
    ("auth.operators.users", "list of names", "empty", "who may change things"),
    ("auth.operators.groups", "list of names", "empty", "whose members may change things"),
    ("auth.operators.require", "`any`, `all`", "`any`", "whether one of the two lists must match or both"),
    ("auth.viewers.users", "list of names", "empty", "who may look"),
    ("auth.viewers.groups", "list of names", "empty", "whose members may look"),
    ("audit.commit", "true, false", "true", "commit transitions to the branch"),
    ("audit.name", "text", "`board-agent`", "name of author and committer"),
    ("audit.email", "text", "`board-agent@localhost`", "address of author and committer"),
    ("audit.quiet_seconds", "0 to 600", "30", "how long a fresh commit of the operator is left alone"),
    ("limits.iterations", "1 to 20", "20", "iterations per job"),
    ("limits.wall_time", "1s to 7d", "`2h`", "wall time per job"),
    ("limits.idle_time", "1s to 7d", "`10m`", "time without any event of the agent"),
    ("limits.worktree_disk", "1MiB to 1024TiB", "`20GiB`", "size of one worktree"),
    ("limits.tokens_per_job", "number from 1", "none", "tokens per job, where the runtime reports them"),
    ("limits.tokens_per_day", "number from 1", "none", "tokens of all jobs per day"),
    ("slots.draft", "1 to 16", "2", "drafts at once; under systemd the enabled instances decide"),
    ("slots.read", "1 to 16", "2", "reviews and splits at once"),
    ("slots.research", "1", "1", "researches at once"),
    ("slots.build", "1 to 16", "2", "builds at once; 0 with an external builder"),
    ("builder.inbox", "path", "none", "where an external builder gets its jobs"),
    ("builder.results", "path", "none", "where an external builder leaves its results"),
    ("builder.user", "text", "root alone", "the user whose results are accepted, besides root"),
    (
        "sandbox.mode",
        "`bubblewrap`, `none`",
        "`bubblewrap`",
        "what stands around every run; `none` is shown on every page",
    ),
    ("sandbox.network", "`host`, `outside`, `none`", "`host`", "which network a run sees"),
    ("sandbox.read", "list of paths", "empty", "further paths that every run may read"),
    ("sandbox.sockets", "list of paths", "empty", "sockets that a builder may use"),
    ("sandbox.allow_api_keys", "true, false", "false", "allow `credential`"),
    (
        "runtimes.<name>.kind",
        "`codex`, `claude`, `acp`, `command`, `opencode`, `gemini`",
        "required",
        "how the program is spoken to",
    ),
    ("runtimes.<name>.program", "name or path", "required, but for `command`", "the program"),
    ("runtimes.<name>.argv", "list of texts", "required for `command`", "program and arguments"),
    ("runtimes.<name>.args", "list of texts", "empty", "further arguments"),
    ("runtimes.<name>.env", "table of texts", "empty", "further environment"),
    (
        "runtimes.<name>.events",
        "`text`, `codex`, `claude`",
        "`text`",
        "what a `command` prints; with `text` only time limits apply",
    ),
    ("runtimes.<name>.credential.env", "name of a variable", "none", "where the program expects a raw key"),
    ("runtimes.<name>.credential.file", "path", "none", "the file that holds the key"),
    ("profiles.<name>.runtime", "name", "required", "one of the runtimes"),
    ("profiles.<name>.model", "text", "the runtime's", "the model, in the words of the runtime"),
    ("profiles.<name>.effort", "text", "the runtime's", "the effort, in the words of the runtime"),
    ("profiles.<name>.description", "text", "empty", "what the planner and the operator are shown"),
    ("profiles.<name>.iterations", "1 to 20", "none", "iterations per job of this profile"),
    ("roles.<role>.profile", "name", "required", "one of the profiles"),
    ("roles.<role>.iterations", "1 to 20", "none", "iterations per job of this role"),
    (
        "roles.<role>.guidance",
        "path in the repository",
        "none",
        "a role description that is quoted into the prompt",
    ),
    (
        "roles.<role>.template",
        "path below this file's directory",
        "none",
        "a template that replaces the built-in prompt",
    ),
    ("retention.done", "0 to 3650", "30", "days that applied jobs are kept; 0 keeps them"),
    ("retention.rejected", "0 to 3650", "30", "days that refused files are kept; 0 keeps them"),
    ("retention.logs", "0 to 3650", "90", "days that logs of runs are kept; 0 keeps them"),
    ("retention.saved_refs", "0 to 3650", "90", "days that saved work is kept; 0 keeps it"),
    (
        "retention.worktrees_of_deployed",
        "0 to 3650",
        "7",
        "days that worktrees of deployed cards are kept; 0 keeps them",
    ),
    ("metrics.listen", "address", "none", "a further listener for `/metrics` alone"),
    ("notify.exec", "list of texts", "none", "a program that gets an event as JSON on stdin"),
];

/// Every key of the configuration file with type, default and meaning, as a Markdown table. Roles are
/// `builder`, `reviewer`, `researcher` and `planner`.
pub fn option_reference() -> String {
    let mut table = String::from("| key | type | default | what |\n| --- | --- | --- | --- |\n");
    for (key, kind, default, what) in ENTRIES {
        table.push_str(&format!("| `{key}` | {kind} | {default} | {what} |\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use toml::de::DeTable;

    use super::super::{parse, reader::Document};
    use super::*;

    #[test]
    fn the_reference_names_exactly_the_keys_that_are_read() {
        let text = "[runtimes.r]\n[profiles.p]\n";
        let root = DeTable::parse(text).expect("TOML");
        let document = Document::new(Path::new("/config.toml"), text, root.get_ref());
        parse::read(Path::new("/config.toml"), &document, root.get_ref());
        let general = |key: String| {
            let key =
                key.replace("runtimes.r.", "runtimes.<name>.").replace("profiles.p.", "profiles.<name>.");
            match key.strip_prefix("roles.").and_then(|rest| rest.split_once('.')) {
                Some((_, rest)) => format!("roles.<role>.{rest}"),
                None => key,
            }
        };
        let read: BTreeSet<String> = document.asked().into_iter().map(general).collect();
        let described: BTreeSet<String> = ENTRIES.iter().map(|(key, ..)| (*key).to_owned()).collect();
        assert_eq!(read, described);
        assert_eq!(described.len(), ENTRIES.len());
    }

    #[test]
    fn the_reference_is_a_table_with_a_row_per_key() {
        let table = option_reference();
        assert_eq!(table.lines().count(), ENTRIES.len() + 2);
        assert!(table.contains("\n| `audit.quiet_seconds` | 0 to 600 | 30 | how long a fresh commit"));
        assert!(table.lines().all(|row| row.matches('|').count() == 5), "{table}");
    }
}

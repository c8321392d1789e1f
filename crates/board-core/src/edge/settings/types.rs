//! What the configuration file says, as plain data.
//!
//! Apart from the reading, since every daemon holds these and none of them reads.
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::model::job::Lane;
use crate::model::profile::RoleName;

/// Everything the configuration file says, with its defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file that was read, absolute.
    pub path: PathBuf,
    /// `[board]`
    pub board: BoardSettings,
    /// `[http]`
    pub http: HttpSettings,
    /// `[auth]`
    pub auth: AuthSettings,
    /// `[audit]`
    pub audit: AuditSettings,
    /// `[limits]`
    pub limits: LimitSettings,
    /// `[slots]`
    pub slots: SlotSettings,
    /// `[builder]`, where another service builds.
    pub builder: Option<ExternalBuilder>,
    /// `[sandbox]`
    pub sandbox: SandboxSettings,
    /// `[runtimes.<name>]`; never empty.
    pub runtimes: BTreeMap<String, Runtime>,
    /// `[profiles.<name>]`; never empty, and each one's runtime is in `runtimes`.
    pub profiles: BTreeMap<String, Profile>,
    /// `[roles.<role>]`; each one's profile is in `profiles`.
    pub roles: Roles,
    /// `[retention]`
    pub retention: RetentionSettings,
    /// `[metrics]`
    pub metrics: MetricsSettings,
    /// `[notify]`
    pub notify: NotifySettings,
}

/// `[board]`: the repository and how the board speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardSettings {
    /// The checkout with `docs/intent`, absolute.
    pub repository: PathBuf,
    /// The branch that holds the board; without it the one that is checked out at the first start.
    pub branch: Option<String>,
    /// The state directory, absolute.
    pub state_dir: PathBuf,
    /// The language of the board and of the prompts.
    pub language: Language,
    /// Name of a time zone (IANA), for the times that people read.
    pub timezone: String,
    /// How long a click can be taken back, in seconds; 0 to 30.
    pub undo_seconds: u32,
    /// A repository with `filter.*` configured is accepted (such a filter runs outside the sandbox).
    pub allow_filters: bool,
}

/// A language of the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// German, the default.
    De,
    /// English.
    En,
}

impl Language {
    /// The id, as in the file and in the catalogues' names.
    pub fn id(self) -> &'static str {
        match self {
            Self::De => "de",
            Self::En => "en",
        }
    }
}

/// `[http]`: where the board listens and under which names it is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// The address; a socket inherited from systemd wins.
    pub listen: Listen,
    /// What the browser calls the board: scheme and host (and port), no slash at the end.
    pub public_url: Option<String>,
    /// Further names that are right in `Host`, with or without a port.
    pub hosts: Vec<String>,
    /// A TCP address that is not loopback is accepted.
    pub allow_non_loopback: bool,
}

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// `"127.0.0.1:8787"`; port 0 picks one.
    Tcp(SocketAddr),
    /// `"unix:/run/board-agent/http.sock"`, absolute.
    Unix(PathBuf),
}

impl Listen {
    /// Whether only this host can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

/// `[auth]`: who may see and who may operate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSettings {
    /// Where identity comes from.
    pub mode: AuthMode,
    /// The one header that names the user; others are never looked at.
    pub user_header: String,
    /// The header with the comma-separated groups; without it groups are not read.
    pub groups_header: Option<String>,
    /// File with the proxy's secret, a second line being accepted during a rotation. Without it the
    /// trigger looks for the systemd credential.
    pub secret_file: Option<PathBuf>,
    /// Who may speak as the proxy. Default on TCP: loopback.
    pub trusted_peers: Vec<TrustedPeer>,
    /// Who may change things.
    pub operators: Operators,
    /// Who may look.
    pub viewers: Viewers,
}

/// Where identity comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// Headers of an authenticating proxy.
    Proxy,
    /// A token, loopback only, for trying out.
    Open,
    /// A native OIDC login; only in builds with that feature.
    Oidc,
}

/// A peer that may set identity headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedPeer {
    /// A TCP peer.
    Ip(IpAddr),
    /// The peer of a unix socket: a user's name or its number.
    User(String),
}

/// Who may change things; users and groups are compared exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operators {
    /// Names as the proxy gives them.
    pub users: Vec<String>,
    /// Groups as the proxy gives them.
    pub groups: Vec<String>,
    /// Whether one of the two lists must match or both.
    pub require: Require,
}

/// How the two lists of [`Operators`] are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Require {
    /// A listed user or a member of a listed group.
    Any,
    /// A listed user who is also a member of a listed group.
    All,
}

/// Who may look without changing anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewers {
    /// Names as the proxy gives them.
    pub users: Vec<String>,
    /// Groups as the proxy gives them.
    pub groups: Vec<String>,
}

/// `[audit]`: the commits of the board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// Whether transitions are committed at all.
    pub commit: bool,
    /// Name of author and committer.
    pub name: String,
    /// Address of author and committer.
    pub email: String,
    /// No commit on top of one of the operator's that is younger, in seconds; 0 to 600.
    pub quiet_seconds: u32,
}

/// `[limits]`: what a job may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSettings {
    /// Iterations per job, 1 to [`ITERATION_CAP`](crate::model::profile::ITERATION_CAP).
    pub iterations: u32,
    /// Wall time per job.
    pub wall_time: Duration,
    /// Time without any event of the runtime.
    pub idle_time: Duration,
    /// Size of one worktree in bytes.
    pub worktree_disk: u64,
    /// Tokens per job, where the runtime reports them.
    pub tokens_per_job: Option<u64>,
    /// Tokens of all jobs per day, where the runtime reports them.
    pub tokens_per_day: Option<u64>,
}

/// `[slots]`: how many jobs of each lane run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotSettings {
    /// Drafts of the planner.
    pub draft: u32,
    /// Reviews and splits.
    pub read: u32,
    /// Research; always 1.
    pub research: u32,
    /// Builds; 0 only where another service builds.
    pub build: u32,
}

impl SlotSettings {
    /// The number of slots of one lane.
    pub fn of(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Draft => self.draft,
            Lane::Read => self.read,
            Lane::Research => self.research,
            Lane::Build => self.build,
        }
    }
}

/// `[builder]`: another service that builds, reached through two directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalBuilder {
    /// Where job files are put for it, absolute.
    pub inbox: PathBuf,
    /// Where it leaves outcomes, absolute.
    pub results: PathBuf,
    /// The user whose outcomes are accepted, besides root.
    pub user: Option<String>,
}

/// `[sandbox]`: what an agent may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    /// What stands around every run.
    pub mode: SandboxMode,
    /// Which network a run sees.
    pub network: SandboxNetwork,
    /// Further paths that every run may read, absolute.
    pub read: Vec<PathBuf>,
    /// Sockets that a builder may use, absolute.
    pub sockets: Vec<PathBuf>,
    /// A runtime may be given a raw key ([`Runtime::credential`]).
    pub allow_api_keys: bool,
}

/// What stands around every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxMode {
    /// bubblewrap.
    Bubblewrap,
    /// Nothing; shown on every page of the board.
    None,
}

/// Which network a run sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxNetwork {
    /// The host's, its loopback included.
    Host,
    /// The outside only, through pasta.
    Outside,
    /// None.
    None,
}

/// `[runtimes.<name>]`: a program that can be an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// How it is spoken to.
    pub kind: RuntimeKind,
    /// A name that is looked up in `PATH`, or an absolute path; always there except for
    /// [`RuntimeKind::Command`].
    pub program: Option<String>,
    /// The whole command line of [`RuntimeKind::Command`], empty for the others.
    pub argv: Vec<String>,
    /// Further arguments.
    pub args: Vec<String>,
    /// Further environment.
    pub env: BTreeMap<String, String>,
    /// The shape of stdout; counts for [`RuntimeKind::Command`] only.
    pub events: EventsFormat,
    /// A raw key; only with [`SandboxSettings::allow_api_keys`].
    pub credential: Option<Credential>,
}

/// How a runtime is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// `codex exec --json`
    Codex,
    /// `claude -p --output-format stream-json`
    Claude,
    /// The Agent Client Protocol on stdin and stdout.
    Acp,
    /// Any program with the prompt on stdin.
    Command,
    /// `opencode run --format json`
    Opencode,
    /// `gemini -o stream-json`
    Gemini,
}

impl RuntimeKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Codex, Self::Claude, Self::Acp, Self::Command, Self::Opencode, Self::Gemini];

    /// The files below its home in which a runtime keeps its login, JSON all of them; the first tells whether there is
    /// one. None where that is the program's own business.
    pub fn login_files(self) -> &'static [&'static str] {
        match self {
            Self::Codex => &[".codex/auth.json"],
            Self::Claude => &[".claude/.credentials.json"],
            Self::Opencode => &[".local/share/opencode/auth.json"],
            Self::Gemini => &[".gemini/oauth_creds.json", ".gemini/google_accounts.json"],
            Self::Acp | Self::Command => &[],
        }
    }

    /// The id, as in the file.
    pub fn id(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Claude => "claude",
            Self::Acp => "acp",
            Self::Command => "command",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
        }
    }
}

/// What a [`RuntimeKind::Command`] prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsFormat {
    /// Text; all of it is the final message.
    Text,
    /// The events of `codex exec --json`.
    Codex,
    /// The events of `claude -p --output-format stream-json`.
    Claude,
}

/// A raw key for a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The environment variable in which the runtime expects it.
    pub env: String,
    /// The file that holds it, absolute.
    pub file: PathBuf,
}

/// `[profiles.<name>]`: a runtime and a model under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// A key of [`Settings::runtimes`].
    pub runtime: String,
    /// The model's name, in the words of the runtime; without it the runtime's default.
    pub model: Option<String>,
    /// The effort, in the words of the runtime.
    pub effort: Option<String>,
    /// What the planner and the operator are shown.
    pub description: String,
    /// Iterations per job of this profile, 1 to [`ITERATION_CAP`](crate::model::profile::ITERATION_CAP).
    pub iterations: Option<u32>,
}

/// `[roles.<role>]`, all four of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// Builds.
    pub builder: Role,
    /// Reviews.
    pub reviewer: Role,
    /// Researches.
    pub researcher: Role,
    /// Drafts and splits.
    pub planner: Role,
}

impl Roles {
    /// Where the descriptions of roles lie in the repository.
    pub fn guidance(&self) -> impl Iterator<Item = (RoleName, &str)> {
        RoleName::ALL.into_iter().filter_map(|name| Some((name, self.get(name).guidance.as_deref()?)))
    }

    /// The settings of one role.
    pub fn get(&self, role: RoleName) -> &Role {
        match role {
            RoleName::Builder => &self.builder,
            RoleName::Reviewer => &self.reviewer,
            RoleName::Researcher => &self.researcher,
            RoleName::Planner => &self.planner,
        }
    }
}

/// What is configured for one role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// A key of [`Settings::profiles`].
    pub profile: String,
    /// Iterations per job of this role, 1 to [`ITERATION_CAP`](crate::model::profile::ITERATION_CAP).
    pub iterations: Option<u32>,
    /// A role description in the repository, relative to its top.
    pub guidance: Option<String>,
    /// A template that replaces the built-in prompt, absolute, below the directory of the file.
    pub template: Option<PathBuf>,
}

/// `[retention]`: days that things are kept; 0 keeps them for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionSettings {
    /// Applied jobs with their outcomes.
    pub done: u32,
    /// What could not be accepted.
    pub rejected: u32,
    /// Logs of runs.
    pub logs: u32,
    /// Refs with saved work.
    pub saved_refs: u32,
    /// Worktrees of cards that are deployed.
    pub worktrees_of_deployed: u32,
}

/// `[metrics]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsSettings {
    /// A further listener for `/metrics` alone.
    pub listen: Option<SocketAddr>,
}

/// `[notify]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifySettings {
    /// A program and its arguments that gets an event as JSON on stdin; empty for none.
    pub exec: Vec<String>,
}

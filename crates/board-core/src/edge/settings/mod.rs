//! The one configuration file of all daemons, read and checked as a whole.
//!
//! Apart from the daemons because they all read the same file: what one of them would refuse, all
//! refuse, and `boardctl check-config` says beforehand. Everything that is wrong is told at once, each
//! with file, line, key and what would be right ([`SettingsErrors`]). Secrets never stand in the file.
//!
//! `reader` walks the TOML with its lines, `parse` turns sections into `types`, `values` and `units` read
//! single values, `check` looks at what concerns several of them or the host, `reference` describes every
//! key.
mod check;
mod errors;
mod parse;
mod reader;
mod reference;
#[cfg(test)]
mod tests;
mod types;
mod units;
mod values;

use std::path::{Path, PathBuf};

use crate::model::board::{Policy, RolePolicy};
use crate::model::profile::{ITERATION_CAP, RoleName};

pub use check::DirectoryCheck;
pub use errors::{SettingsError, SettingsErrors};
pub use reference::option_reference;
pub use types::{
    AuditSettings, AuthMode, AuthSettings, BoardSettings, Credential, EventsFormat, ExternalBuilder,
    HttpSettings, Language, LimitSettings, Listen, MetricsSettings, NotifySettings, Operators, Profile,
    Require, RetentionSettings, Role, Roles, Runtime, RuntimeKind, SandboxMode, SandboxNetwork,
    SandboxSettings, Settings, SlotSettings, TrustedPeer, Viewers,
};

/// Where the file is when neither the flag nor [`CONFIG_VARIABLE`] says otherwise.
pub const DEFAULT_PATH: &str = "/etc/board-agent/config.toml";

/// The environment variable that names the configuration file.
pub const CONFIG_VARIABLE: &str = "BOARD_AGENT_CONFIG";

impl Settings {
    /// The file to read: the flag, else [`CONFIG_VARIABLE`], else [`DEFAULT_PATH`].
    pub fn locate(cli: Option<&Path>) -> PathBuf {
        choose(cli, std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from))
    }

    /// Reads and checks the file, directories included.
    ///
    /// # Errors
    /// Everything that is wrong with it, all at once.
    pub fn load(path: &Path) -> Result<Self, SettingsErrors> {
        Self::load_with(path, DirectoryCheck::Check)
    }

    /// Reads and checks the file; [`DirectoryCheck::Skip`] where it is not read on its host (a build).
    ///
    /// # Errors
    /// Everything that is wrong with it, all at once.
    pub fn load_with(path: &Path, directories: DirectoryCheck) -> Result<Self, SettingsErrors> {
        let text = parse::read_file(path)?;
        Self::load_from_str(path, &text, directories)
    }

    /// Checks the text of a file that stands, or would stand, at `path`.
    ///
    /// # Errors
    /// Everything that is wrong with it, all at once.
    pub fn load_from_str(
        path: &Path,
        text: &str,
        directories: DirectoryCheck,
    ) -> Result<Self, SettingsErrors> {
        parse::settings(path, text, directories)
    }

    /// The iterations that a job of this role may have: the least of file, role, profile and card, never
    /// more than [`ITERATION_CAP`], never less than 1. A profile that is no longer configured adds none.
    pub fn iteration_limit(&self, role: RoleName, profile: &str, card: Option<u32>) -> u32 {
        [
            Some(self.limits.iterations),
            self.roles.get(role).iterations,
            self.profiles.get(profile).and_then(|profile| profile.iterations),
            card,
        ]
        .into_iter()
        .flatten()
        .fold(ITERATION_CAP, u32::min)
        .max(1)
    }

    /// What of it the model decides on.
    pub fn policy(&self) -> Policy {
        let role = |name| {
            let role = self.roles.get(name);
            (name, RolePolicy { profile: role.profile.clone(), iterations: role.iterations })
        };
        Policy {
            undo_seconds: self.board.undo_seconds,
            profiles: self.profiles.iter().map(|(name, it)| (name.clone(), it.iterations)).collect(),
            roles: RoleName::ALL.into_iter().map(role).collect(),
            iteration_cap: self.limits.iterations,
            external_builder: self.builder.is_some(),
            // Read from the repository when a job is made: `Orders::guided`.
            guidance: std::collections::BTreeMap::new(),
        }
    }

    /// The names of the profiles, sorted.
    pub fn profile_names(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }
}

fn choose(cli: Option<&Path>, variable: Option<PathBuf>) -> PathBuf {
    match (cli, variable) {
        (Some(path), _) => path.to_owned(),
        // An empty variable is one that somebody meant to unset.
        (None, Some(path)) if !path.as_os_str().is_empty() => path,
        (None, _) => PathBuf::from(DEFAULT_PATH),
    }
}

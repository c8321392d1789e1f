//! Who speaks to the board: where an identity can come from and what it may do.
//!
//! Apart from the checks, which only ask for a verdict. Everything here denies by default: an identity is
//! made in three places (`open`, `proxy`, `control`) and nowhere else.
pub(crate) mod control;
pub(crate) mod open;
pub(crate) mod proxy;

use std::net::SocketAddr;

use board_core::edge::settings::{AuthMode, AuthSettings, Require};

use crate::reply::Problem;

/// The other end of a connection, as the kernel tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A TCP connection.
    Tcp(SocketAddr),
    /// A connection to the board's own unix socket, with the uid from `SO_PEERCRED`.
    Unix {
        /// Who holds the other end.
        uid: u32,
    },
    /// A connection to the control socket.
    Control {
        /// Who holds the other end.
        uid: u32,
    },
}

/// What an identity may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Look and change.
    Operator,
    /// Look only.
    Viewer,
}

impl Role {
    /// The id, as in the audit log.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Role::Operator => "operator",
            Role::Viewer => "viewer",
        }
    }
}

/// Where an identity comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthSource {
    /// The token of mode `open`, from the cookie.
    Cookie,
    /// The token of mode `open`, as a bearer.
    Bearer,
    /// The headers of the proxy.
    Proxy,
    /// The control socket.
    Control,
}

impl AuthSource {
    /// The id, as in the audit log.
    pub(crate) fn id(self) -> &'static str {
        match self {
            AuthSource::Cookie => "open-cookie",
            AuthSource::Bearer => "open-bearer",
            AuthSource::Proxy => "proxy",
            AuthSource::Control => "control-socket",
        }
    }

    /// Whether a browser can be made to send it without the user's will; what is not ambient needs no proof
    /// of origin where the browser's headers are both absent (web.md, 5.2.8).
    pub(crate) fn is_ambient(self) -> bool {
        match self {
            AuthSource::Cookie | AuthSource::Proxy => true,
            AuthSource::Bearer | AuthSource::Control => false,
        }
    }
}

/// Somebody the board knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The name, as it stands in histories and commits.
    pub(crate) name: String,
    /// What they may do.
    pub(crate) role: Role,
    /// Where that is known from.
    pub(crate) source: AuthSource,
}

/// How the identities of a running board are found.
#[derive(Debug)]
pub(crate) struct Auth {
    /// The configuration.
    pub(crate) settings: AuthSettings,
    /// The token, in mode `open`.
    pub(crate) token: Option<open::Token>,
    /// The proxy's secrets, in mode `proxy`; two during a rotation.
    pub(crate) secrets: Vec<proxy::Secret>,
    /// The uid of this process.
    pub(crate) own_uid: u32,
    /// Whether this uid is the operator on the control socket: only where no agents share it.
    pub(crate) own_uid_allowed: bool,
}

impl Auth {
    /// Whether anybody with the token may operate.
    pub(crate) fn is_open(&self) -> bool {
        match self.settings.mode {
            AuthMode::Open => true,
            AuthMode::Proxy | AuthMode::Oidc => false,
        }
    }

    /// The chain of trust in one line, for the start and for `/system`.
    pub(crate) fn chain(&self) -> &'static str {
        match self.settings.mode {
            AuthMode::Open => "open: loopback + token",
            AuthMode::Proxy => "proxy: peer + secret + header",
            AuthMode::Oidc => "oidc",
        }
    }

    /// The role of a user with these groups; none is a refusal.
    pub(crate) fn role(&self, user: &str, groups: &[&str]) -> Option<Role> {
        let listed = |users: &[String]| users.iter().any(|name| name == user);
        let member = |wanted: &[String]| wanted.iter().any(|group| groups.contains(&group.as_str()));
        let operators = &self.settings.operators;
        let operator = match operators.require {
            Require::Any => listed(&operators.users) || member(&operators.groups),
            Require::All => listed(&operators.users) && member(&operators.groups),
        };
        if operator {
            return Some(Role::Operator);
        }
        let viewers = &self.settings.viewers;
        (listed(&viewers.users) || member(&viewers.groups)).then_some(Role::Viewer)
    }
}

/// The name of a uid's user, or `uid:<n>` where there is none.
pub(crate) fn user_name(uid: u32) -> String {
    match nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        Ok(None) | Err(_) => format!("uid:{uid}"),
    }
}

/// The refusal of somebody who is known and not allowed.
pub(crate) fn forbidden(name: &str) -> Problem {
    Problem::new(403, "forbidden").detail_key("problem.forbidden.detail", &[("name", name)])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use board_core::edge::settings::{Operators, Viewers};

    pub(crate) fn settings(mode: AuthMode) -> AuthSettings {
        AuthSettings {
            mode,
            user_header: "X-Auth-Request-User".into(),
            groups_header: Some("X-Auth-Request-Groups".into()),
            secret_file: None,
            trusted_peers: Vec::new(),
            operators: Operators { users: vec!["lukas".into()], groups: vec![], require: Require::Any },
            viewers: Viewers { users: vec!["gast".into()], groups: vec!["lesen".into()] },
        }
    }

    pub(crate) fn auth(mode: AuthMode) -> Auth {
        Auth {
            settings: settings(mode),
            token: None,
            secrets: vec![proxy::Secret::new("geheim-geheim-geheim")],
            own_uid: 4_000_000,
            own_uid_allowed: false,
        }
    }

    #[test]
    fn who_is_on_no_list_gets_no_role_and_names_are_compared_exactly() {
        let auth = auth(AuthMode::Proxy);
        assert_eq!(auth.role("lukas", &[]), Some(Role::Operator));
        assert_eq!(auth.role("gast", &[]), Some(Role::Viewer));
        assert_eq!(auth.role("anna", &["lesen"]), Some(Role::Viewer));
        for stranger in ["", "Lukas", "lukas ", "evil", "lukas,evil"] {
            assert_eq!(auth.role(stranger, &[]), None, "{stranger:?}");
        }
    }

    #[test]
    fn with_require_all_a_user_must_also_be_in_a_group() {
        let mut auth = auth(AuthMode::Proxy);
        auth.settings.operators.groups = vec!["admins".into()];
        auth.settings.operators.require = Require::All;
        assert_eq!(auth.role("lukas", &[]), None);
        assert_eq!(auth.role("lukas", &["admins"]), Some(Role::Operator));
        assert_eq!(auth.role("anna", &["admins"]), None);
    }
}

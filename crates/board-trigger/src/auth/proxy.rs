//! Mode `proxy`: a reverse proxy has authenticated, and proves that it is the proxy.
//!
//! Three things together: the peer, a shared secret, and one configured header with exactly one value. No
//! other family of headers is ever looked at, since every proxy passes on headers that it does not manage.
use std::path::Path;

use anyhow::Context;
use axum::http::{HeaderMap, HeaderName};
use board_core::edge::settings::{AuthSettings, TrustedPeer};
use subtle::ConstantTimeEq;

use super::{Auth, AuthSource, Identity, Peer, forbidden, user_name};
use crate::reply::Problem;

/// The header with the proxy's secret.
pub(crate) const SECRET_HEADER: &str = "x-board-proxy-secret";

/// Name of the systemd credential that holds the secret where no file is configured.
const CREDENTIAL: &str = "proxy-secret";

/// Shortest secret, in bytes.
const MIN_SECRET: usize = 16;

/// Longest value of an identity header, in bytes.
pub(crate) const MAX_VALUE: usize = 256;

/// A secret of the proxy; never printed.
#[derive(Clone)]
pub(crate) struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    #[cfg(test)]
    pub(crate) fn new(text: &str) -> Secret {
        Secret(text.as_bytes().to_vec())
    }
}

/// Reads the secret, and a second one during a rotation: one a line.
///
/// # Errors
/// If there is no file, or no secret of a useful length in it: without one the board does not start.
pub(crate) fn load_secrets(settings: &AuthSettings) -> anyhow::Result<Vec<Secret>> {
    let path = match (&settings.secret_file, std::env::var_os("CREDENTIALS_DIRECTORY")) {
        (Some(path), _) => path.clone(),
        (None, Some(dir)) => Path::new(&dir).join(CREDENTIAL),
        (None, None) => anyhow::bail!(
            "auth.mode = \"proxy\" needs auth.secret_file or the systemd credential {CREDENTIAL}"
        ),
    };
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let secrets: Vec<Secret> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| Secret(line.as_bytes().to_vec()))
        .collect();
    let good = (1..=2).contains(&secrets.len()) && secrets.iter().all(|s| s.0.len() >= MIN_SECRET);
    anyhow::ensure!(good, "{}: expected one or two lines of at least {MIN_SECRET} bytes", path.display());
    Ok(secrets)
}

impl Auth {
    /// Checks 2, 3, 5, 6 and 7 of web.md 5.2.
    ///
    /// # Errors
    /// The first check that fails, as the problem that the client sees.
    pub(crate) fn identify_proxy(&self, peer: Peer, headers: &HeaderMap) -> Result<Identity, Problem> {
        if !self.trusts(peer) {
            return Err(Problem::new(401, "untrusted-peer").audited());
        }
        self.check_secret(headers)?;
        self.check_aliases(headers)?;
        let user =
            single(headers, &self.settings.user_header)?.ok_or_else(|| Problem::new(401, "no-identity"))?;
        if user.is_empty() || user.contains(',') {
            return Err(Problem::new(401, "no-identity").audited());
        }
        let groups = match &self.settings.groups_header {
            Some(name) => single(headers, name)?.unwrap_or_default(),
            None => "",
        };
        let groups: Vec<&str> = groups.split(',').map(str::trim).filter(|g| !g.is_empty()).collect();
        let role = self.role(user, &groups).ok_or_else(|| forbidden(user).audited())?;
        Ok(Identity { name: user.to_owned(), role, source: AuthSource::Proxy })
    }

    fn trusts(&self, peer: Peer) -> bool {
        let peers = &self.settings.trusted_peers;
        match peer {
            Peer::Tcp(address) => {
                let mut named = peers.iter().filter_map(|peer| match peer {
                    TrustedPeer::Ip(ip) => Some(*ip),
                    TrustedPeer::User(_) => None,
                });
                match named.next() {
                    Some(first) => {
                        let ip = address.ip().to_canonical();
                        first == ip || named.any(|other| other == ip)
                    }
                    None => address.ip().is_loopback(),
                }
            }
            Peer::Unix { uid } => peers.iter().any(|peer| match peer {
                TrustedPeer::Ip(_) => false,
                TrustedPeer::User(user) => *user == uid.to_string() || *user == user_name(uid),
            }),
            Peer::Control { .. } => false,
        }
    }

    fn check_secret(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let wrong = || Problem::new(401, "no-proxy-secret").audited();
        let mut values = headers.get_all(SECRET_HEADER).iter();
        let (Some(given), None) = (values.next(), values.next()) else { return Err(wrong()) };
        // Every secret is compared, so that the time does not tell which one was nearly right.
        let mut right = subtle::Choice::from(0);
        for secret in &self.secrets {
            right |= secret.0.as_slice().ct_eq(given.as_bytes());
        }
        if bool::from(right) { Ok(()) } else { Err(wrong()) }
    }

    /// A name that some proxies take for a configured one (`X_Auth_Request_User`) is an attempt to be
    /// somebody else.
    fn check_aliases(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let configured = [Some(self.settings.user_header.as_str()), self.settings.groups_header.as_deref()];
        let is_alias = |name: &HeaderName| {
            let plain = name.as_str().replace(['_', '.'], "-");
            configured.iter().flatten().copied().chain([SECRET_HEADER]).any(|own| {
                plain.eq_ignore_ascii_case(&own.replace(['_', '.'], "-"))
                    && !name.as_str().eq_ignore_ascii_case(own)
            })
        };
        match headers.keys().any(is_alias) {
            true => Err(Problem::new(400, "header-alias").audited()),
            false => Ok(()),
        }
    }
}

/// The one value of a header, or none; two values are never „the first" or „the last".
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bad = || Problem::new(400, "header-value").audited();
    if values.next().is_some() || value.len() > MAX_VALUE {
        return Err(bad());
    }
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| bad())?;
    if text.chars().any(char::is_control) { Err(bad()) } else { Ok(Some(text.trim())) }
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::super::tests::auth;
    use super::*;
    use board_core::edge::settings::AuthMode;

    const LOCAL: Peer =
        Peer::Tcp(std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 5000));

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        map
    }

    const SECRET: (&str, &str) = ("X-Board-Proxy-Secret", "geheim-geheim-geheim");
    const USER: (&str, &str) = ("X-Auth-Request-User", "lukas");

    fn code(pairs: &[(&str, &str)]) -> (u16, &'static str) {
        let problem = auth(AuthMode::Proxy).identify_proxy(LOCAL, &headers(pairs)).unwrap_err();
        (problem.status, problem.code)
    }

    #[test]
    fn peer_secret_and_header_together_make_an_identity() {
        let who = auth(AuthMode::Proxy).identify_proxy(LOCAL, &headers(&[SECRET, USER])).unwrap();
        assert_eq!((who.name.as_str(), who.role), ("lukas", Role::Operator));
    }

    #[test]
    fn t1_a_forged_user_header_without_the_secret_is_nobody() {
        assert_eq!(code(&[USER]), (401, "no-proxy-secret"));
        assert_eq!(code(&[USER, ("X-Board-Proxy-Secret", "falsch")]), (401, "no-proxy-secret"));
        assert_eq!(code(&[USER, SECRET, SECRET]), (401, "no-proxy-secret"));
        let far = Peer::Tcp("192.0.2.7:99".parse().unwrap());
        let problem = auth(AuthMode::Proxy).identify_proxy(far, &headers(&[SECRET, USER])).unwrap_err();
        assert_eq!((problem.status, problem.code), (401, "untrusted-peer"));
    }

    #[test]
    fn t2_a_look_alike_of_an_identity_header_is_refused() {
        for alias in
            ["X_Auth_Request_User", "X.Auth.Request.User", "X-Auth_Request-Groups", "x_board_proxy_secret"]
        {
            assert_eq!(code(&[SECRET, USER, (alias, "evil")]), (400, "header-alias"), "{alias}");
        }
    }

    #[test]
    fn t3_two_values_never_make_an_identity() {
        assert_eq!(code(&[SECRET, USER, ("X-Auth-Request-User", "evil")]), (400, "header-value"));
        assert_eq!(code(&[SECRET, ("X-Auth-Request-User", "lukas,evil")]), (401, "no-identity"));
    }

    #[test]
    fn t5_a_missing_or_empty_header_is_nobody_and_other_families_are_not_read() {
        assert_eq!(code(&[SECRET]), (401, "no-identity"));
        assert_eq!(code(&[SECRET, ("X-Auth-Request-User", "")]), (401, "no-identity"));
        assert_eq!(
            code(&[SECRET, ("X-Forwarded-User", "lukas"), ("Tailscale-User-Login", "lukas")]),
            (401, "no-identity")
        );
        assert_eq!(code(&[SECRET, ("X-Auth-Request-User", "evil")]), (403, "forbidden"));
    }

    #[test]
    fn a_value_has_at_most_256_bytes() {
        let long = "x".repeat(MAX_VALUE);
        assert_eq!(code(&[SECRET, ("X-Auth-Request-User", &long)]), (403, "forbidden"));
        assert_eq!(code(&[SECRET, ("X-Auth-Request-User", &format!("{long}x"))]), (400, "header-value"));
    }
}

//! Mode `open`, for trying the board out on one host: a token that the browser swaps for a cookie.
//!
//! An agent on the same loopback can reach the port but has no token: it lies 0600 in the state directory,
//! which no agent sees.
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE};
use subtle::ConstantTimeEq;

/// File name of the token below the state directory.
pub(crate) const TOKEN_FILE: &str = "open.token";

/// Random bytes of a token; its text has two digits for each.
const TOKEN_BYTES: usize = 32;

/// Begin of the cookie's name. The port follows, because cookies of one host are shared by its ports.
const COOKIE_PREFIX: &str = "board_open_";

/// The token, 64 hexadecimal digits.
#[derive(Clone)]
pub(crate) struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The token of this state directory. One that is there and ours alone is kept, so that open tabs
    /// survive a restart; anything else is replaced.
    ///
    /// # Errors
    /// If no chance can be had from the kernel or the file cannot be written.
    pub(crate) fn load_or_make(state_dir: &Path) -> anyhow::Result<Token> {
        let path = state_dir.join(TOKEN_FILE);
        if let Some(token) = Self::read(&path) {
            return Ok(token);
        }
        let mut bytes = [0_u8; TOKEN_BYTES];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut bytes))
            .context("/dev/urandom")?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        // A new file under its final name only when it is whole: a reader never sees half a token.
        let staged = state_dir.join(format!("{TOKEN_FILE}.{}.tmp", std::process::id()));
        let write = || -> std::io::Result<()> {
            let _ = std::fs::remove_file(&staged);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&staged, &path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Token(text))
    }

    fn read(path: &Path) -> Option<Token> {
        let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW).open(path).ok()?;
        let about = file.metadata().ok()?;
        let ours = about.is_file()
            && about.uid() == nix::unistd::geteuid().as_raw()
            && about.mode() & 0o077 == 0
            && about.nlink() == 1;
        let mut text = String::new();
        file.take(200).read_to_string(&mut text).ok()?;
        let text = text.trim_end();
        let shaped = text.len() == 2 * TOKEN_BYTES && text.bytes().all(|b| b.is_ascii_hexdigit());
        (ours && shaped).then(|| Token(text.to_owned()))
    }

    /// Whether `given` is the token; takes the same time wherever it differs.
    pub(crate) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// The text, for the address that `dev` and `demo` print.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether the request carries it as a bearer.
    pub(crate) fn in_authorization(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        let Ok(value) = value.to_str() else { return false };
        match value.split_once(' ') {
            Some((scheme, given)) => scheme.eq_ignore_ascii_case("bearer") && self.is(given.trim()),
            None => false,
        }
    }

    /// Whether the request carries it as the cookie of this port.
    pub(crate) fn in_cookie(&self, headers: &HeaderMap, port: u16) -> bool {
        let name = cookie_name(port);
        cookies(headers).any(|(key, value)| key == name && self.is(value))
    }

    /// The `Set-Cookie` that makes the browser send it from here on, only from pages of the board itself.
    pub(crate) fn set_cookie(&self, port: u16) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_name(port), self.0)
    }
}

fn cookie_name(port: u16) -> String {
    format!("{COOKIE_PREFIX}{port}")
}

/// The cookies of a request, in order.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_0600_kept_over_a_restart_and_replaced_when_others_could_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = Token::load_or_make(dir.path()).unwrap();
        let path = dir.path().join(TOKEN_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(first.text().len(), 64);
        assert!(first.is(Token::load_or_make(dir.path()).unwrap().text()));
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let second = Token::load_or_make(dir.path()).unwrap();
        assert!(!first.is(second.text()));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn only_the_whole_token_in_the_right_place_counts() {
        let token = Token("ab".repeat(32));
        let with = |name: &'static str, value: String| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            headers
        };
        assert!(token.in_authorization(&with("authorization", format!("Bearer {}", token.text()))));
        assert!(!token.in_authorization(&with("authorization", format!("Basic {}", token.text()))));
        assert!(!token.in_authorization(&with("authorization", format!("Bearer {}", "ab".repeat(31)))));
        assert!(token.in_cookie(&with("cookie", format!("x=1; board_open_80={}", token.text())), 80));
        assert!(!token.in_cookie(&with("cookie", format!("board_open_81={}", token.text())), 80));
        let mut two = with("authorization", format!("Bearer {}", token.text()));
        two.append("authorization", "Bearer x".parse().unwrap());
        assert!(!token.in_authorization(&two));
    }
}

//! What must come out nowhere: keys, logins, the board's own token, and what the environment calls a secret.
//!
//! Apart from the run, because what an agent left is saved by the watcher too. Read each time anew: a login is
//! refreshed while the daemons run. A file that cannot be read holds no secret that an agent of ours could have.

use std::path::PathBuf;

use super::files::read::{Read, open_regular_nofollow};
use super::settings::Settings;
use crate::model::redact::{MIN_SECRET_CHARS, Redactor};

/// Largest file that is read for secrets, in bytes; logins have some kilobytes.
pub const MAX_SECRET_FILE_BYTES: u64 = 1 << 20;

/// Characters from which on a text without a space counts as a secret, whatever its name in a login is.
const LONG: usize = 20;

/// Where the secrets of a configuration stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Secrets {
    /// Each is a secret as a whole.
    keys: Vec<PathBuf>,
    /// JSON that holds some.
    logins: Vec<PathBuf>,
    /// From the configuration itself, where they have no place.
    configured: Vec<String>,
}

impl Secrets {
    /// Those of this configuration and its state directory.
    pub fn of(settings: &Settings) -> Secrets {
        let state_dir = &settings.board.state_dir;
        let mut secrets = Secrets::default();
        secrets.keys.push(state_dir.join("open.token"));
        secrets.keys.extend(settings.auth.secret_file.clone());
        for (name, runtime) in &settings.runtimes {
            secrets.keys.extend(runtime.credential.as_ref().map(|credential| credential.file.clone()));
            let home = state_dir.join("runtimes").join(name);
            secrets.logins.extend(runtime.kind.login_files().iter().map(|file| home.join(file)));
            secrets
                .configured
                .extend(in_environment(runtime.env.iter().map(|(k, v)| (k.clone(), v.clone()))));
        }
        secrets
    }

    /// The one of a file.
    #[cfg(test)]
    pub(crate) fn of_key(file: PathBuf) -> Secrets {
        Secrets { keys: vec![file], ..Secrets::default() }
    }

    /// All of them, as they are now, with those of this process's environment.
    pub fn read(&self) -> Vec<String> {
        let mut found = self.configured.clone();
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        found.extend(in_environment(variables));
        for file in &self.keys {
            let text = bytes_of(file).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
            let whole = text.trim();
            found.extend((!whole.is_empty()).then(|| whole.to_owned()));
            // The proxy's file has two of them during a rotation.
            found.extend(text.lines().filter(|line| !line.starts_with("-----")).map(str::to_owned));
        }
        for file in &self.logins {
            found.extend(bytes_of(file).map(|bytes| in_login(&bytes)).unwrap_or_default());
        }
        found
    }

    /// What takes them out of a text.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(self.read())
    }
}

fn bytes_of(file: &std::path::Path) -> Option<Vec<u8>> {
    match open_regular_nofollow(file, MAX_SECRET_FILE_BYTES) {
        Ok(Read::Bytes(regular)) => Some(regular.bytes),
        Ok(Read::NotRegular(_) | Read::TooLarge { .. } | Read::Denied | Read::Missing) | Err(_) => None,
    }
}

/// The secrets in the file of a login: what its name calls one, and every long text without a space that is no
/// address. Nothing if it is no JSON.
pub fn in_login(bytes: &[u8]) -> Vec<String> {
    fn collect(name: &str, value: &serde_json::Value, found: &mut Vec<String>) {
        use serde_json::Value;
        match value {
            Value::String(text) => {
                let chars = text.chars().count();
                let plain = text.contains("://") || text.contains(char::is_whitespace);
                let key = text.starts_with("-----BEGIN ");
                if key || (!plain && (chars >= LONG || (names_a_secret(name) && chars >= MIN_SECRET_CHARS))) {
                    found.push(text.clone());
                }
            }
            Value::Array(list) => list.iter().for_each(|value| collect(name, value, found)),
            Value::Object(map) => map.iter().for_each(|(name, value)| collect(name, value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_slice(bytes) {
        collect("", &value, &mut found);
    }
    found
}

/// The secrets among these variables, by their names. A path is none, it only leads to one.
pub fn in_environment(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    variables
        .filter(|(name, value)| names_a_secret(name) && !value.starts_with('/') && !value.contains("://"))
        .map(|(_, value)| value)
        .collect()
}

/// Whether a name says that its value is a secret: `OPENAI_API_KEY`, `accessToken`, `refresh`.
fn names_a_secret(name: &str) -> bool {
    const PARTS: [&str; 6] = ["token", "secret", "passw", "passphrase", "credential", "apikey"];
    const WHOLE: [&str; 4] = ["key", "pat", "access", "refresh"];
    let lower = name.to_ascii_lowercase();
    PARTS.iter().any(|part| lower.contains(part))
        || lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WHOLE.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_gives_its_tokens_and_not_its_plain_words() {
        let login = br#"{"auth_mode":"chatgpt","OPENAI_API_KEY":"sk-12345","tokens":{"access_token":"abcdefgh",
            "id":"0123456789abcdefghij"},"scopes":["user:inference"],"token_uri":"https://example.org/token/long",
            "claudeAiOauth":{"refreshToken":"rrrrrrrr"},"note":"a text with spaces and more of them","expires":1}"#;
        let mut found = in_login(login);
        found.sort();
        assert_eq!(found, ["0123456789abcdefghij", "abcdefgh", "rrrrrrrr", "sk-12345"]);
        assert!(in_login(b"no JSON").is_empty());
    }

    #[test]
    fn a_variable_is_a_secret_by_its_name_and_a_path_is_none() {
        let of = |name: &str, value: &str| {
            !in_environment([(name.to_owned(), value.to_owned())].into_iter()).is_empty()
        };
        for name in ["OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "my_secret", "AWS_SECRET_ACCESS_KEY"] {
            assert!(of(name, "something"), "{name}");
        }
        for (name, value) in [
            ("HOME", "/root"),
            ("KEYBOARD", "german-layout"),
            ("CREDENTIALS_DIRECTORY", "/run/x"),
            ("PATH", "x"),
        ] {
            assert!(!of(name, value), "{name}");
        }
    }

    #[test]
    fn files_are_read_anew_and_one_that_is_missing_holds_none() {
        let dir = tempfile::tempdir().unwrap();
        let (key, login) = (dir.path().join("key"), dir.path().join("auth.json"));
        let secrets = Secrets {
            keys: vec![key.clone()],
            logins: vec![login.clone()],
            configured: vec!["configured".into()],
        };
        let has = |text: &str| secrets.read().iter().any(|secret| secret == text);
        assert!(has("configured") && !has("key-12345"));
        std::fs::write(&key, "key-12345\n").unwrap();
        std::fs::write(&login, r#"{"token":"tok-12345"}"#).unwrap();
        assert!(has("key-12345") && has("tok-12345"));
        assert_eq!(secrets.redactor().clean("tok-12345"), "[entfernt]");
        std::fs::write(&key, vec![b'x'; usize::try_from(MAX_SECRET_FILE_BYTES).unwrap() + 1]).unwrap();
        assert!(!secrets.read().iter().any(|secret| secret.starts_with("xx")));
    }
}

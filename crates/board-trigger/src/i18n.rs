//! What the operator reads, in German and English: two catalogues in the binary.
//!
//! Apart from the templates so that a test can hold the catalogues and their users together: no key is
//! missing, none is unused, both languages have the same ones.
use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT_LANGUAGE;
use board_core::edge::settings::Language;

use crate::auth::open::cookies;

/// The cookie that holds the language that somebody chose.
pub(crate) const LANGUAGE_COOKIE: &str = "board_lang";

type Catalogue = BTreeMap<String, String>;

static DE: LazyLock<Catalogue> = LazyLock::new(|| parse(include_str!("../i18n/de.toml")));
static EN: LazyLock<Catalogue> = LazyLock::new(|| parse(include_str!("../i18n/en.toml")));

/// The catalogue of a language.
pub(crate) fn catalogue(language: Language) -> &'static Catalogue {
    match language {
        Language::De => &DE,
        Language::En => &EN,
    }
}

/// The text of a key with its `{name}` replaced; the key itself where there is none, which a test excludes.
pub(crate) fn t(language: Language, key: &str, args: &[(&str, &str)]) -> String {
    let Some(text) = catalogue(language).get(key) else { return key.to_owned() };
    fill(text, |name| args.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
}

/// `text` with each `{name}` replaced by what `value` says; what it does not know stays.
pub(crate) fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        match after.split_once('}').and_then(|(name, tail)| value(name).map(|v| (v, tail))) {
            Some((value, tail)) => {
                out.push_str(&value);
                rest = tail;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out + rest
}

/// The language of a request: cookie, else `Accept-Language`, else the configured one.
pub(crate) fn choose(headers: &HeaderMap, configured: Language) -> Language {
    let chosen = cookies(headers).find(|(name, _)| *name == LANGUAGE_COOKIE).and_then(|(_, id)| from_id(id));
    chosen.or_else(|| accepted(headers)).unwrap_or(configured)
}

/// The language of an id.
pub(crate) fn from_id(id: &str) -> Option<Language> {
    [Language::De, Language::En].into_iter().find(|language| language.id() == id)
}

/// The best of ours in `Accept-Language`; none if it names neither.
fn accepted(headers: &HeaderMap) -> Option<Language> {
    let line = headers.get(ACCEPT_LANGUAGE)?.to_str().ok()?;
    let mut best: Option<(u32, Language)> = None;
    for part in line.split(',').take(32) {
        let (tag, weight) = part.split_once(';').unwrap_or((part, "q=1"));
        let primary = tag.trim().split('-').next().unwrap_or_default().to_ascii_lowercase();
        let quality = weight.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()).unwrap_or(0.0);
        // Thousandths, as the header has at most three digits.
        let thousandths = (quality.clamp(0.0, 1.0) * 1000.0) as u32;
        if let Some(language) = from_id(&primary)
            && thousandths > best.map_or(0, |(q, _)| q)
        {
            best = Some((thousandths, language));
        }
    }
    best.map(|(_, language)| language)
}

fn parse(text: &str) -> Catalogue {
    let mut out = Catalogue::new();
    // The files are part of the program; a test reads them, so a fault cannot reach a user.
    if let Ok(table) = text.parse::<toml::Table>() {
        flatten("", &table, &mut out);
    }
    out
}

fn flatten(prefix: &str, table: &toml::Table, out: &mut Catalogue) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, out),
            toml::Value::String(text) => {
                out.insert(key, text.clone());
            }
            toml::Value::Integer(_)
            | toml::Value::Float(_)
            | toml::Value::Boolean(_)
            | toml::Value::Datetime(_)
            | toml::Value::Array(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn sources() -> Vec<(String, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut out = Vec::new();
        let mut dirs = vec![root.join("src"), root.join("templates")];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    let text = std::fs::read_to_string(&path).unwrap();
                    out.push((path.display().to_string(), text));
                }
            }
        }
        out
    }

    /// Keys that are put together from an id: these prefixes and the ids that may follow.
    fn composed() -> BTreeSet<String> {
        use board_core::model::{
            card::Source,
            job::{JobType, Lane},
            outcome::RunResult,
            phase::Column,
            profile::RoleName,
        };
        let mut keys: BTreeSet<String> =
            crate::reply::CODES.iter().map(|c| format!("problem.{c}.title")).collect();
        keys.extend(Column::ALL.iter().map(|c| format!("column.{}", c.id())));
        keys.extend(Lane::ALL.iter().map(|l| format!("lane.{}", l.id())));
        keys.extend(RoleName::ALL.iter().map(|r| format!("role.{}", r.id())));
        keys.extend(JobType::ALL.iter().map(|j| format!("job.type.{}", j.id())));
        keys.extend(RunResult::ALL.iter().map(|r| format!("result.{}", r.id())));
        keys.extend(
            [Source::Intent, Source::Research, Source::Idea, Source::Draft]
                .iter()
                .map(|s| format!("source.{}", s.id())),
        );
        keys.extend(crate::view::actions::HINTED.iter().map(|e| format!("hint.{}", e.id())));
        keys.extend(crate::view::job::PLACES.iter().map(|p| format!("place.{p}")));
        keys
    }

    #[test]
    fn both_languages_have_the_same_keys_and_the_same_placeholders() {
        let (de, en) = (catalogue(Language::De), catalogue(Language::En));
        assert!(de.len() > 50, "the catalogue could not be read");
        let names = |text: &str| {
            let mut names: Vec<String> = text
                .split('{')
                .skip(1)
                .filter_map(|p| p.split_once('}'))
                .map(|(n, _)| n.to_owned())
                .collect();
            names.sort();
            names
        };
        assert_eq!(de.keys().collect::<Vec<_>>(), en.keys().collect::<Vec<_>>());
        for (key, text) in de {
            assert_eq!(names(text), names(&en[key]), "{key}");
            assert!(!text.trim().is_empty() && !en[key].trim().is_empty(), "{key}");
        }
    }

    #[test]
    fn no_key_is_missing_and_none_is_unused() {
        let sources = sources();
        let all: String = sources.iter().map(|(_, text)| text.as_str()).collect();
        let composed = composed();
        let catalogue = catalogue(Language::De);
        let unused: Vec<&String> = catalogue
            .keys()
            .filter(|key| !composed.contains(*key) && !all.contains(&format!("\"{key}\"")))
            .collect();
        assert!(unused.is_empty(), "unused: {unused:?}");
        let absent: Vec<&String> = composed.iter().filter(|key| !catalogue.contains_key(*key)).collect();
        assert!(absent.is_empty(), "missing: {absent:?}");
        let mut missing = BTreeSet::new();
        for (path, text) in &sources {
            let calls = ["t(\"", "t(language, \"", "detail_key(\"", "tn(\""];
            for call in calls {
                for piece in text.split(call).skip(1) {
                    let key = piece.split('"').next().unwrap_or_default();
                    // The end of a longer name (`host("127.0.0.1")`) is no call of ours.
                    let area = key.split('.').next().unwrap_or_default();
                    let known = catalogue.keys().any(|own| own.split('.').next() == Some(area));
                    let whole = known && key.contains('.') && !key.ends_with('.');
                    if whole
                        && !key.contains(' ')
                        && !key.contains('{')
                        && !catalogue.contains_key(key)
                        && !catalogue.contains_key(&format!("{key}.one"))
                    {
                        missing.insert(format!("{key} in {path}"));
                    }
                }
            }
        }
        assert!(missing.is_empty(), "missing: {missing:#?}");
    }

    #[test]
    fn the_cookie_wins_over_the_header_and_the_header_over_the_configuration() {
        let headers = |pairs: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in pairs {
                map.insert(*name, value.parse().unwrap());
            }
            map
        };
        assert_eq!(choose(&headers(&[]), Language::De), Language::De);
        assert_eq!(
            choose(&headers(&[("accept-language", "fr, en-GB;q=0.8, de;q=0.3")]), Language::De),
            Language::En
        );
        assert_eq!(choose(&headers(&[("accept-language", "fr, ja")]), Language::De), Language::De);
        let both = headers(&[("accept-language", "en"), ("cookie", "a=b; board_lang=de")]);
        assert_eq!(choose(&both, Language::En), Language::De);
    }

    #[test]
    fn placeholders_are_filled_and_unknown_ones_stay() {
        assert_eq!(fill("{a} von {b}", |n| (n == "a").then(|| "1".into())), "1 von {b}");
        assert_eq!(fill("offen {", |_| None), "offen {");
    }
}

//! A typed reader over the spanned tables of the `toml` crate.
//!
//! By hand and not by serde, because serde stops at the first error and forgets the lines. A section
//! remembers every key that it was asked for; what is in the file and was never asked for is unknown, so
//! no second list of keys has to be kept in step.
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::errors::{SettingsError, SettingsErrors};

/// A value that cannot be taken: what is wrong, and what would be right.
pub(super) struct Refusal {
    pub(super) problem: String,
    pub(super) remedy: String,
}

/// A refusal from two sentences.
pub(super) fn refusal(problem: impl Into<String>, remedy: impl Into<String>) -> Refusal {
    Refusal { problem: problem.into(), remedy: remedy.into() }
}

/// The file while it is read: where each key stands, and what was found wrong so far.
pub(super) struct Document<'a> {
    file: &'a Path,
    lines: BTreeMap<String, usize>,
    found: RefCell<Vec<SettingsError>>,
    asked: RefCell<BTreeSet<String>>,
}

impl<'a> Document<'a> {
    /// A document of `text`, whose lines are counted for the keys of `root`.
    pub(super) fn new(file: &'a Path, text: &str, root: &DeTable<'_>) -> Self {
        let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        let mut lines = BTreeMap::new();
        index_table("", root, &|at| ends.partition_point(|end| *end < at) + 1, &mut lines);
        Self { file, lines, found: RefCell::default(), asked: RefCell::default() }
    }

    /// Notes that `key` cannot stay as it is. The line is that of the key, else of the nearest section
    /// around it that is there.
    pub(super) fn refuse(&self, key: &str, problem: impl Into<String>, remedy: impl Into<String>) {
        self.found.borrow_mut().push(SettingsError {
            file: self.file.to_owned(),
            line: self.line(key),
            key: key.to_owned(),
            problem: problem.into(),
            remedy: remedy.into(),
        });
    }

    /// Whether this very key was refused already, so that nothing more need be said of it.
    pub(super) fn is_refused(&self, key: &str) -> bool {
        self.found.borrow().iter().any(|error| error.key == key)
    }

    /// Whether the file says anything below `key`, right or wrong.
    pub(super) fn has_below(&self, key: &str) -> bool {
        self.lines.keys().any(|known| known.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Every key that was asked for so far, sections left out.
    #[cfg(test)]
    pub(super) fn asked(&self) -> BTreeSet<String> {
        self.asked.borrow().clone()
    }

    /// `value`, if nothing was refused.
    pub(super) fn finish<T>(self, value: T) -> Result<T, SettingsErrors> {
        let mut found = self.found.into_inner();
        if found.is_empty() {
            return Ok(value);
        }
        found.sort_by_key(|error| error.line);
        Err(SettingsErrors(found))
    }

    fn line(&self, key: &str) -> usize {
        let mut key = key;
        loop {
            if let Some(line) = self.lines.get(key) {
                return *line;
            }
            match key.rfind(['.', '[']) {
                Some(at) => key = &key[..at],
                None => return 1,
            }
        }
    }
}

fn index_table(
    prefix: &str,
    table: &DeTable<'_>,
    line: &dyn Fn(usize) -> usize,
    lines: &mut BTreeMap<String, usize>,
) {
    for (name, value) in table {
        let key = join(prefix, name.get_ref());
        lines.insert(key.clone(), line(name.span().start));
        index_value(&key, value, line, lines);
    }
}

fn index_value(
    key: &str,
    value: &Spanned<DeValue<'_>>,
    line: &dyn Fn(usize) -> usize,
    lines: &mut BTreeMap<String, usize>,
) {
    match value.get_ref() {
        DeValue::Table(table) => index_table(key, table, line, lines),
        DeValue::Array(array) => {
            for (number, element) in array.iter().enumerate() {
                let key = format!("{key}[{number}]");
                lines.insert(key.clone(), line(element.span().start));
                index_value(&key, element, line, lines);
            }
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {}
    }
}

/// `section.name`, the name quoted where TOML would want that.
fn join(prefix: &str, name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let name = if bare { name.to_owned() } else { format!("{name:?}") };
    if prefix.is_empty() { name } else { format!("{prefix}.{name}") }
}

/// One table of the file, or the place where it would be.
pub(super) struct Section<'d> {
    document: &'d Document<'d>,
    key: String,
    table: Option<&'d DeTable<'d>>,
    known: RefCell<BTreeSet<String>>,
}

impl<'d> Section<'d> {
    /// Reads the top of the file by `read`; keys that it did not ask for are refused.
    pub(super) fn root<T>(
        document: &'d Document<'d>,
        table: &'d DeTable<'d>,
        read: impl FnOnce(&Self) -> T,
    ) -> T {
        Self::open(document, String::new(), Some(table), read)
    }

    fn open<T>(
        document: &'d Document<'d>,
        key: String,
        table: Option<&'d DeTable<'d>>,
        read: impl FnOnce(&Self) -> T,
    ) -> T {
        let section = Self { document, key, table, known: RefCell::default() };
        let value = read(&section);
        section.refuse_unknown();
        value
    }

    /// The file that this is a part of.
    pub(super) fn document(&self) -> &'d Document<'d> {
        self.document
    }

    /// The dotted key of `name` in this section.
    pub(super) fn path(&self, name: &str) -> String {
        join(&self.key, name)
    }

    /// Whether the file has this section at all.
    pub(super) fn is_there(&self) -> bool {
        self.table.is_some()
    }

    /// Whether the file says anything under `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(name))
    }

    /// Refuses the key `name` of this section.
    pub(super) fn refuse(&self, name: &str, refusal: Refusal) {
        self.document.refuse(&self.path(name), refusal.problem, refusal.remedy);
    }

    /// Reads the section `name`, which need not be there.
    pub(super) fn section<T>(&self, name: &str, read: impl FnOnce(&Self) -> T) -> T {
        let table = self.table(name, false);
        Self::open(self.document, self.path(name), table, read)
    }

    /// Reads every table below the section `name`, by its name. Names are up to 64 letters, digits,
    /// `-` and `_`, since they become names of directories.
    pub(super) fn named<T>(&self, name: &str, mut read: impl FnMut(&str, &Self) -> T) -> BTreeMap<String, T> {
        let mut all = BTreeMap::new();
        let Some(table) = self.table(name, false) else { return all };
        for (child, value) in table {
            let child = child.get_ref().as_ref();
            let key = join(&self.path(name), child);
            if !is_name(child) {
                self.document.refuse(
                    &key,
                    format!("{child:?} is no name"),
                    "use up to 64 letters, digits, - and _, the first a letter or digit",
                );
                continue;
            }
            let Some(table) = value.get_ref().as_table() else {
                let refusal = wrong_type(value.get_ref(), &format!("a table, as in [{key}]"));
                self.document.refuse(&key, refusal.problem, refusal.remedy);
                continue;
            };
            let value = Self::open(self.document, key, Some(table), |section| read(child, section));
            all.insert(child.to_owned(), value);
        }
        all
    }

    /// A value read by `parse` from text; `None` where it is absent or was refused.
    pub(super) fn text<T>(&self, name: &str, parse: impl FnOnce(&str) -> Result<T, Refusal>) -> Option<T> {
        self.value(name, |value| parse(as_text(value)?))
    }

    /// As [`Section::text`], but the key must be there; `remedy` says what to write. The default of `T`
    /// stands in for what was refused, nobody sees it.
    pub(super) fn required<T: Default>(
        &self,
        name: &str,
        remedy: &str,
        parse: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> T {
        let value = self.text(name, parse);
        if !self.has(name) && !self.document.is_refused(&self.key) {
            self.refuse(name, refusal("is missing", remedy));
        }
        value.unwrap_or_default()
    }

    /// A list of texts, each read by `parse`; empty where it is absent.
    pub(super) fn texts<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, Refusal>) -> Vec<T> {
        let key = self.path(name);
        let elements = self.value(name, |value| {
            value.as_array().ok_or_else(|| wrong_type(value, "a list of strings, as in [\"a\", \"b\"]"))
        });
        let mut all = Vec::new();
        for (number, element) in elements.into_iter().flat_map(|array| array.iter()).enumerate() {
            match as_text(element.get_ref()).and_then(&parse) {
                Ok(value) => all.push(value),
                Err(Refusal { problem, remedy }) => {
                    self.document.refuse(&format!("{key}[{number}]"), problem, remedy);
                }
            }
        }
        all
    }

    /// A table of texts under free names.
    pub(super) fn text_table(
        &self,
        name: &str,
        parse: impl Fn(&str, &str) -> Result<String, Refusal>,
    ) -> BTreeMap<String, String> {
        self.note(name);
        let mut all = BTreeMap::new();
        for (child, value) in self.table(name, true).into_iter().flatten() {
            let child = child.get_ref().as_ref();
            match as_text(value.get_ref()).and_then(|text| parse(child, text)) {
                Ok(text) => {
                    all.insert(child.to_owned(), text);
                }
                Err(Refusal { problem, remedy }) => {
                    self.document.refuse(&join(&self.path(name), child), problem, remedy);
                }
            }
        }
        all
    }

    /// One of `choices`.
    pub(super) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        self.text(name, |text| {
            choices.iter().find(|(id, _)| *id == text).map(|(_, value)| *value).ok_or_else(|| {
                let ids: Vec<&str> = choices.iter().map(|(id, _)| *id).collect();
                refusal(format!("{text:?} is not known"), format!("write one of {}", quoted(&ids)))
            })
        })
    }

    /// A whole number in `range`; `None` where it is absent or was refused.
    pub(super) fn number(&self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        self.value(name, |value| {
            let number = value.as_integer().ok_or_else(|| wrong_type(value, "a whole number"))?;
            i128::from_str_radix(number.as_str(), number.radix())
                .ok()
                .and_then(|number| u64::try_from(number).ok())
                .filter(|number| range.contains(number))
                .ok_or_else(|| refusal(format!("{number} is out of range"), in_range(&range)))
        })
    }

    /// As [`Section::number`] for what fits 32 bits, with the default for an absent key.
    pub(super) fn count(&self, name: &str, range: RangeInclusive<u32>, default: u32) -> u32 {
        self.optional_count(name, range).unwrap_or(default)
    }

    /// As [`Section::count`] without a default.
    pub(super) fn optional_count(&self, name: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let number = self.number(name, u64::from(*range.start())..=u64::from(*range.end()))?;
        u32::try_from(number).ok()
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, name: &str, default: bool) -> bool {
        self.value(name, |value| {
            value.as_bool().ok_or_else(|| wrong_type(value, "true or false, without quotes"))
        })
        .unwrap_or(default)
    }

    fn value<T>(&self, name: &str, read: impl FnOnce(&'d DeValue<'d>) -> Result<T, Refusal>) -> Option<T> {
        self.note(name);
        match read(self.table?.get(name)?.get_ref()) {
            Ok(value) => Some(value),
            Err(refusal) => {
                self.refuse(name, refusal);
                None
            }
        }
    }

    fn table(&self, name: &str, inline: bool) -> Option<&'d DeTable<'d>> {
        self.known.borrow_mut().insert(name.to_owned());
        let value = self.table?.get(name)?.get_ref();
        if value.as_table().is_none() {
            let like = if inline { format!("{name} = {{ … }}") } else { format!("[{}]", self.path(name)) };
            self.refuse(name, wrong_type(value, &format!("a table, as in {like}")));
        }
        value.as_table()
    }

    fn note(&self, name: &str) {
        self.known.borrow_mut().insert(name.to_owned());
        self.document.asked.borrow_mut().insert(self.path(name));
    }

    fn refuse_unknown(&self) {
        let known = self.known.borrow();
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        let found = self.table.into_iter().flat_map(|table| table.keys());
        for name in found.map(|name| name.get_ref()).filter(|name| !known.contains(name.as_ref())) {
            let remedy = match nearest(name, &names) {
                Some(near) => format!("did you mean {}?", self.path(near)),
                None if self.key.is_empty() => format!("remove it; there are {}", quoted(&names)),
                None => format!("remove it; [{}] knows {}", self.key, quoted(&names)),
            };
            self.refuse(name, refusal("is not a known key", remedy));
        }
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

fn as_text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, Refusal> {
    value.as_str().ok_or_else(|| wrong_type(value, "a string"))
}

fn wrong_type(value: &DeValue<'_>, wanted: &str) -> Refusal {
    let is = match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    refusal(format!("is {is}"), format!("write {wanted}"))
}

fn in_range(range: &RangeInclusive<u64>) -> String {
    match (*range.start(), *range.end()) {
        (start, end) if start == end => format!("only {start} is possible"),
        // No upper limit but that of the format.
        (start, end) if end >= i64::MAX as u64 => format!("write a number from {start} on"),
        (start, end) => format!("write a number from {start} to {end}"),
    }
}

/// `"a", "b" and "c"`
pub(super) fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    match quoted.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// The name that was probably meant: at most a third of it is different.
pub(super) fn nearest<'n>(name: &str, names: &[&'n str]) -> Option<&'n str> {
    let allowed = (name.chars().count() / 3).max(1);
    names
        .iter()
        .map(|known| (distance(&name.to_lowercase(), known), *known))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, known)| known)
}

/// Insertions, deletions and replacements between two words (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (cell, b) in row[1..].iter_mut().zip(&right) {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = *cell;
            *cell = replaced.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
        row[0] = i + 1;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_two_words_counts_edits() {
        for (left, right, edits) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("listn", "listen", 1)]
        {
            assert_eq!(distance(left, right), edits, "{left} {right}");
            assert_eq!(distance(right, left), edits, "{right} {left}");
        }
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        let names = ["listen", "hosts", "public_url"];
        assert_eq!(nearest("lisen", &names), Some("listen"));
        assert_eq!(nearest("publicurl", &names), Some("public_url"));
        assert_eq!(nearest("Listen", &names), Some("listen"));
        assert_eq!(nearest("colour", &names), None);
    }

    #[test]
    fn names_become_directories_and_so_are_plain() {
        assert!(is_name("codex-2_b") && is_name(&"x".repeat(64)));
        for name in ["", "-x", "a.b", "a/b", "..", "ä", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}

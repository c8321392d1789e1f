//! `boardctl doctor`: everything that an installation needs, one line each, with what to do where something is missing.
//!
//! It only looks. Each check is a function that answers with lines; both languages of a line stand side by side where
//! the check is, since a line makes sense only beside it.
mod agents;
mod builder;
mod forged;
mod host;
mod units;
mod ways;

use std::path::Path;

use board_core::edge::settings::{Language, Settings, SettingsErrors};
use serde_json::json;

use crate::control::Control;
use crate::output::{Ended, Out, Style};
use crate::words;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// As it should be.
    Good,
    /// Worth a look; the board works.
    Warn,
    /// Something does not work.
    Bad,
}

impl Level {
    fn id(self) -> &'static str {
        match self {
            Level::Good => "ok",
            Level::Warn => "warn",
            Level::Bad => "fail",
        }
    }

    fn style(self) -> Style {
        match self {
            Level::Good => Style::Good,
            Level::Warn => Style::Notice,
            Level::Bad => Style::Bad,
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Check {
    level: Level,
    /// What was looked at.
    what: String,
    /// What was found.
    found: String,
    /// What to do; empty where nothing is.
    remedy: String,
}

/// The lines so far.
#[derive(Debug)]
struct Report {
    language: Language,
    checks: Vec<Check>,
}

impl Report {
    fn new(language: Language) -> Report {
        Report { language, checks: Vec::new() }
    }

    /// One of two texts, by the language.
    fn say(&self, de: impl Into<String>, en: impl Into<String>) -> String {
        match self.language {
            Language::De => de.into(),
            Language::En => en.into(),
        }
    }

    fn good(&mut self, what: &str, found: impl Into<String>) {
        self.put(Level::Good, what, found, "");
    }

    fn warn(&mut self, what: &str, found: impl Into<String>, remedy: impl Into<String>) {
        self.put(Level::Warn, what, found, remedy);
    }

    fn bad(&mut self, what: &str, found: impl Into<String>, remedy: impl Into<String>) {
        self.put(Level::Bad, what, found, remedy);
    }

    fn put(&mut self, level: Level, what: &str, found: impl Into<String>, remedy: impl Into<String>) {
        self.checks.push(Check { level, what: what.to_owned(), found: found.into(), remedy: remedy.into() });
    }

    fn worst(&self) -> Level {
        self.checks.iter().map(|check| check.level).max().unwrap_or(Level::Good)
    }

    fn print(&self, out: Out) -> anyhow::Result<()> {
        if out.json {
            let checks: Vec<_> = self
                .checks
                .iter()
                .map(|check| {
                    json!({"level": check.level.id(), "what": check.what, "found": check.found,
                           "remedy": check.remedy})
                })
                .collect();
            return Ok(out.value(&json!({"ok": self.worst() < Level::Bad, "checks": checks}))?);
        }
        let width = self.checks.iter().map(|check| check.what.chars().count()).max().unwrap_or(0);
        for check in &self.checks {
            let level = out.cell(check.level.style(), check.level.id(), 5);
            out.line(format_args!(
                "{level} {}  {}",
                out.cell(Style::Strong, &check.what, width),
                check.found
            ))?;
            for line in check.remedy.lines() {
                out.line(format_args!("      {:width$}  → {line}", ""))?;
            }
        }
        let count = |level| self.checks.iter().filter(|check| check.level == level).count().to_string();
        let line =
            words::doctor_end(out.language, &count(Level::Good), &count(Level::Warn), &count(Level::Bad));
        Ok(out.line(out.paint(self.worst().style(), line))?)
    }
}

/// Checks everything.
///
/// # Errors
/// [`Ended::Findings`] if anything is bad.
pub(crate) fn run(
    path: &Path,
    settings: Result<Settings, SettingsErrors>,
    control: &Control,
    out: Out,
) -> anyhow::Result<()> {
    let mut report = Report::new(out.language);
    let name = report.say("Konfiguration", "configuration");
    match settings {
        Err(errors) => report.bad(&name, errors.to_string(), "boardctl check-config"),
        Ok(settings) => {
            // Again, with the directories that it names.
            match Settings::load(path) {
                Ok(_) => report.good(&name, path.display().to_string()),
                Err(errors) => report.bad(&name, errors.to_string(), "boardctl check-config"),
            }
            host::state(&mut report, &settings);
            host::queue(&mut report, &settings);
            host::disk(&mut report, &settings);
            host::repository(&mut report, &settings);
            units::check(&mut report, &settings);
            agents::sandbox(&mut report, &settings);
            agents::runtimes(&mut report, &settings);
            builder::check(&mut report, &settings);
            ways::check(&mut report, &settings, control);
        }
    }
    report.print(out)?;
    if report.worst() == Level::Bad { Err(Ended::Findings.into()) } else { Ok(()) }
}

/// Sends the board forged requests; each must be refused.
///
/// # Errors
/// [`Ended::Findings`] if one was not.
pub(crate) fn auth(settings: &Settings, out: Out) -> anyhow::Result<()> {
    let mut report = Report::new(out.language);
    forged::check(&mut report, settings);
    report.print(out)?;
    if report.worst() == Level::Bad { Err(Ended::Findings.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_as_bad_as_its_worst_line() {
        let mut report = Report::new(Language::De);
        assert_eq!(report.worst(), Level::Good);
        report.good("a", "b");
        report.warn("a", "b", "c");
        assert_eq!(report.worst(), Level::Warn);
        report.bad("a", "b", "c");
        assert_eq!(report.worst(), Level::Bad);
    }
}

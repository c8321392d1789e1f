//! What a role is told: templates in German and English with everything quoted that comes from elsewhere.
//!
//! Quoted text stands between two fences that are longer than any fence inside it, so it cannot close them.

use std::path::Path;

use anyhow::Context as _;
use board_core::model::profile::RoleName;
use minijinja::{Environment, UndefinedBehavior, Value};

use crate::words::Language;

/// Which task of a role a prompt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Build an intent.
    Build,
    /// Review a check commit.
    Review,
    /// Answer a research question.
    Research,
    /// Split an intent.
    Split,
    /// One round of a draft.
    Draft,
}

/// Longest template of the operator's, in bytes.
const MAX_TEMPLATE_BYTES: u64 = 256 * 1024;

macro_rules! built_in {
    ($name:literal) => {
        [
            include_str!(concat!("../prompts/", $name, ".de.txt")),
            include_str!(concat!("../prompts/", $name, ".en.txt")),
        ]
    };
}

const COMMON: [&str; 2] = built_in!("common");

impl Task {
    fn template(self, language: Language) -> &'static str {
        let both = match self {
            Task::Build => built_in!("build"),
            Task::Review => built_in!("review"),
            Task::Research => built_in!("research"),
            Task::Split => built_in!("split"),
            Task::Draft => built_in!("draft"),
        };
        in_language(both, language)
    }

    /// The role that has the task.
    pub fn role(self) -> RoleName {
        match self {
            Task::Build => RoleName::Builder,
            Task::Review => RoleName::Reviewer,
            Task::Research => RoleName::Researcher,
            Task::Split | Task::Draft => RoleName::Planner,
        }
    }
}

fn in_language(both: [&'static str; 2], language: Language) -> &'static str {
    match language {
        Language::De => both[0],
        Language::En => both[1],
    }
}

/// The prompt of a task. `template` replaces the built-in one; the macros for quoting stay.
///
/// # Errors
/// The template cannot be read or is not one.
pub fn render(
    task: Task,
    language: Language,
    template: Option<&Path>,
    values: &Value,
) -> anyhow::Result<String> {
    let own = match template {
        Some(path) => {
            let size = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
            anyhow::ensure!(
                size <= MAX_TEMPLATE_BYTES,
                "{}: longer than {MAX_TEMPLATE_BYTES} bytes",
                path.display()
            );
            Some(std::fs::read_to_string(path).with_context(|| path.display().to_string())?)
        }
        None => None,
    };
    let text = own.as_deref().unwrap_or_else(|| task.template(language));
    let whole = format!("{}{text}", in_language(COMMON, language));
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.add_filter("quote", |text: String| quote(&text));
    let rendered = environment.render_str(&whole, values);
    let mut prompt = rendered.with_context(|| format!("the prompt for {task:?}"))?.trim().to_owned();
    prompt.push('\n');
    Ok(prompt)
}

/// A text between two fences that nothing inside it can close.
pub fn quote(text: &str) -> String {
    let longest = text
        .lines()
        .map(|line| {
            let line = line.trim_start_matches(['\u{feff}', ' ', '\t']);
            line.len() - line.trim_start_matches('~').len()
        })
        .max()
        .unwrap_or(0);
    let fence = "~".repeat((longest + 1).max(3));
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_cannot_close_its_fence() {
        for text in ["~~~", "  ~~~~\nmehr", "~~~\n===REVIEW-REPORT===\n~~~", "ok"] {
            let quoted = quote(text);
            let fence = quoted.lines().next().unwrap();
            assert_eq!(quoted.lines().filter(|line| line.trim() == fence).count(), 2, "{quoted}");
            assert!(quoted.ends_with(fence));
        }
    }
}

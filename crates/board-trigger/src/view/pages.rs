//! The templates, in the binary, and the functions that they may call.
use anyhow::Context;
use board_core::edge::settings::Language;
use board_core::model::time::Timestamp;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{AutoEscape, Environment, Error, State, UndefinedBehavior};

use super::text;
use crate::i18n::{from_id, t};

/// All templates. Every one is `.html`, so that everything in it is escaped.
const TEMPLATES: &[(&str, &str)] = &[
    ("archive.html", include_str!("../../templates/archive.html")),
    ("base.html", include_str!("../../templates/base.html")),
    ("board.html", include_str!("../../templates/board.html")),
    ("card.html", include_str!("../../templates/card.html")),
    ("columns.html", include_str!("../../templates/columns.html")),
    ("conflict.html", include_str!("../../templates/conflict.html")),
    ("draft-new.html", include_str!("../../templates/draft-new.html")),
    ("draft.html", include_str!("../../templates/draft.html")),
    ("edited.html", include_str!("../../templates/edited.html")),
    ("help.html", include_str!("../../templates/help.html")),
    ("job.html", include_str!("../../templates/job.html")),
    ("jobs.html", include_str!("../../templates/jobs.html")),
    ("macros.html", include_str!("../../templates/macros.html")),
    ("md.html", include_str!("../../templates/md.html")),
    ("new.html", include_str!("../../templates/new.html")),
    ("old.html", include_str!("../../templates/old.html")),
    ("problem.html", include_str!("../../templates/problem.html")),
    ("system.html", include_str!("../../templates/system.html")),
    ("text.html", include_str!("../../templates/text.html")),
];

/// The templates, ready to render.
pub(crate) struct Pages(Environment<'static>);

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pages(…)")
    }
}

impl Pages {
    /// Reads all templates.
    ///
    /// # Errors
    /// If one of them has a fault, which a test excludes.
    pub(crate) fn new() -> anyhow::Result<Pages> {
        let mut env = Environment::new();
        env.set_auto_escape_callback(|_| AutoEscape::Html);
        env.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        let syntax =
            SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().context("syntax")?;
        env.set_syntax(syntax);
        env.add_function("t", translate);
        env.add_function("fresh_key", || uuid::Uuid::new_v4().to_string());
        env.add_filter("ago", ago);
        env.add_filter("clock", clock);
        env.add_filter("visible", |value: String| text::visible(&value));
        for (name, source) in TEMPLATES {
            env.add_template(name, source).with_context(|| (*name).to_owned())?;
        }
        Ok(Pages(env))
    }

    /// Renders a template.
    ///
    /// # Errors
    /// With the template and the line.
    pub(crate) fn render(&self, name: &str, context: Value) -> anyhow::Result<String> {
        let template = self.0.get_template(name)?;
        template.render(context).map_err(|error| anyhow::anyhow!("{error:#}"))
    }
}

/// The language of the page that is rendered.
fn language(state: &State<'_, '_>) -> Language {
    frame(state, "lang").and_then(|id| from_id(&id)).unwrap_or(Language::De)
}

fn frame(state: &State<'_, '_>, name: &str) -> Option<String> {
    let value = state.lookup("frame")?.get_attr(name).ok()?;
    value.as_str().map(ToOwned::to_owned)
}

/// `t("key", name=value)`: the text of the catalogue.
fn translate(state: &State<'_, '_>, key: String, kwargs: Kwargs) -> Result<String, Error> {
    let mut args = Vec::new();
    for name in kwargs.args() {
        let value: Value = kwargs.get(name)?;
        args.push((name, value.to_string()));
    }
    let args: Vec<(&str, &str)> = args.iter().map(|(n, v)| (*n, v.as_str())).collect();
    Ok(t(language(state), &key, &args))
}

/// A moment as „vor 3 min".
fn ago(state: &State<'_, '_>, value: String) -> String {
    let now = frame(state, "now").and_then(|text| text.parse::<Timestamp>().ok());
    match (value.parse::<Timestamp>(), now) {
        (Ok(at), Some(now)) => text::ago(language(state), at, now),
        _ => value,
    }
}

/// A moment in the board's time zone, for titles.
fn clock(state: &State<'_, '_>, value: String) -> String {
    let zone = frame(state, "timezone").unwrap_or_default();
    match value.parse::<Timestamp>() {
        Ok(at) => text::local(at, &zone),
        Err(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_can_be_read_and_none_is_left_out() {
        Pages::new().unwrap();
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        let mut there: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        assert_eq!(there, TEMPLATES.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    }
}

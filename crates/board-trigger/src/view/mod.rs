//! What pages and the API show, computed from the state; templates only lay it out.
pub(crate) mod actions;
pub(crate) mod board;
pub(crate) mod card;
pub(crate) mod diff;
pub(crate) mod family;
pub(crate) mod job;
pub(crate) mod markdown;
pub(crate) mod pages;
pub(crate) mod text;

use axum::http::Uri;
use board_core::edge::settings::{Language, SandboxMode};
use board_core::model::phase::{Column, Phase};
use minijinja::value::Value;
use serde::Serialize;

use crate::app::App;
use crate::auth::{Identity, Role};
use crate::i18n::t;
use crate::reply::Problem;

pub(crate) use pages::Pages;

/// The label of a phase.
pub(crate) fn phase_label(phase: Phase, language: Language) -> &'static str {
    match language {
        Language::De => phase.label_de(),
        Language::En => phase.label_en(),
    }
}

/// The label of a column.
pub(crate) fn column_label(column: Column, language: Language) -> String {
    t(language, &format!("column.{}", column.id()), &[])
}

/// Something that every page says at its top.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Banner {
    /// `info`, `warn` or `bad`.
    pub(crate) tone: &'static str,
    /// The sentence.
    pub(crate) text: String,
    /// Where it can be mended.
    pub(crate) href: Option<&'static str>,
}

/// What the frame of a page shows.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Frame {
    /// Id of the language.
    pub(crate) lang: &'static str,
    /// Name of who asks; none before anybody is known.
    pub(crate) user: Option<String>,
    /// May change things.
    pub(crate) operator: bool,
    /// The page's own address, without its query.
    pub(crate) path: String,
    /// Time zone of the times shown.
    pub(crate) timezone: String,
    /// Hash of the assets, in their addresses.
    pub(crate) assets: &'static str,
    /// Now, RFC 3339.
    pub(crate) now: String,
    /// What stands above everything.
    pub(crate) banners: Vec<Banner>,
}

impl Frame {
    /// The frame of a page for somebody.
    pub(crate) fn new(app: &App, language: Language, who: Option<&Identity>, uri: &Uri) -> Frame {
        let mut banners = Vec::new();
        if who.is_some() {
            if app.auth.is_open() {
                banners.push(Banner {
                    tone: "warn",
                    text: t(language, "banner.open", &[]),
                    href: Some("/system"),
                });
            }
            match app.settings.sandbox.mode {
                SandboxMode::Bubblewrap => {}
                SandboxMode::None => banners.push(Banner {
                    tone: "warn",
                    text: t(language, "banner.sandbox-none", &[]),
                    href: Some("/system"),
                }),
            }
        }
        Frame {
            lang: language.id(),
            user: who.map(|who| who.name.clone()),
            operator: who.is_some_and(|who| who.role == Role::Operator),
            path: uri.path().to_owned(),
            timezone: app.settings.board.timezone.clone(),
            assets: crate::handlers::assets::version(),
            now: board_core::edge::clock::now().to_string(),
            banners,
        }
    }
}

/// A problem as a page, with what was typed still in it.
pub(crate) fn problem_page(
    app: &App,
    problem: &Problem,
    language: Language,
    who: Option<&Identity>,
    uri: &Uri,
) -> String {
    let fields: Vec<Value> = problem
        .typed()
        .iter()
        .filter(|(name, _)| name != "rev")
        .map(|(name, value)| {
            minijinja::context! {
                name => name,
                value => value,
                hidden => actions::HIDDEN_FIELDS.contains(&name.as_str()),
            }
        })
        .collect();
    let context = minijinja::context! {
        frame => minijinja::value::Serde(Frame::new(app, language, who, uri)),
        status => problem.status,
        code => problem.code,
        title => problem.title(language),
        detail => problem.sentence(language),
        job => problem.blocking_job().map(|job| job.to_string()),
        fields => fields,
        action => uri.path(),
        back => crate::route::card_of_path(uri.path()),
        search => problem.status == 404 && who.is_some(),
    };
    app.pages.render("problem.html", context).unwrap_or_else(|error| {
        tracing::error!("problem page: {error:#}");
        problem.title(language)
    })
}

//! What each address does: read the request, call the view or the change, answer.
pub(crate) mod assets;
pub(crate) mod board;
pub(crate) mod card_pages;
pub(crate) mod cards;
pub(crate) mod draft_pages;
pub(crate) mod drafts;
pub(crate) mod events;
pub(crate) mod jobs;
pub(crate) mod old;
pub(crate) mod pages;
pub(crate) mod settings;
pub(crate) mod text_pages;
pub(crate) mod texts;

use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_core::model::card::CardId;
use minijinja::value::Value;

use crate::app::App;
use crate::middleware::Ctx;
use crate::reply::Problem;
use crate::view::{Banner, Frame};
use crate::world::World;

/// Runs blocking work beside the loop that serves.
///
/// # Errors
/// What the work says; 500 if it panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&Arc<App>) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let app = app.clone();
    match tokio::task::spawn_blocking(move || work(&app)).await {
        Ok(result) => result,
        Err(error) => Err(Problem::from(anyhow::Error::from(error))),
    }
}

/// The card of an address; whatever is no id is not found, and never a path.
///
/// # Errors
/// 404.
pub(crate) fn card_id(text: &str) -> Result<CardId, Problem> {
    text.parse().map_err(|_| Problem::new(404, "not-found"))
}

/// A page.
///
/// # Errors
/// If the template has a fault.
pub(crate) fn html(app: &App, template: &str, context: Value) -> Result<Response, Problem> {
    html_with(app, StatusCode::OK, template, context)
}

/// A page with this status.
///
/// # Errors
/// If the template has a fault.
pub(crate) fn html_with(
    app: &App,
    status: StatusCode,
    template: &str,
    context: Value,
) -> Result<Response, Problem> {
    let page = app.pages.render(template, context)?;
    Ok((status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response())
}

/// Why a form was refused, for the page that shows it again with everything that was typed.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Failed {
    title: String,
    detail: Option<String>,
    field: Option<&'static str>,
}

impl Failed {
    /// Whether the form's own page says this, at the field that it is about.
    fn is_for(problem: &Problem) -> bool {
        matches!(problem.status, 409 | 412 | 422)
    }

    fn status(problem: &Problem) -> StatusCode {
        StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn new(problem: &Problem, language: board_core::edge::settings::Language) -> Failed {
        let field = match problem.code {
            "taken" => Some("slug"),
            _ => problem.wrong_field(),
        };
        Failed { title: problem.title(language), detail: problem.sentence(language), field }
    }
}

/// The frame of a page with what the whole board has to say.
pub(crate) fn frame(app: &App, ctx: &Ctx, world: &World) -> Frame {
    let mut frame = Frame::new(app, ctx.language, Some(&ctx.identity), &ctx.uri);
    let say = |key: &str, args: &[(&str, &str)]| crate::i18n::t(ctx.language, key, args);
    if let Some(trouble) = &world.documents.trouble {
        let first = trouble.lines().next().unwrap_or_default();
        let text = say("banner.repository", &[("why", &crate::view::text::excerpt(first, 200))]);
        frame.banners.insert(0, Banner { tone: "bad", text, href: Some("/system") });
    }
    if world.documents.is_elsewhere() {
        let branch = world.documents.branch.as_deref().unwrap_or_default();
        let text = say("banner.elsewhere", &[("branch", branch)]);
        frame.banners.push(Banner { tone: "info", text, href: Some("/system") });
    }
    let waiting = world.board.outbox.iter().filter(|entry| entry.committed.is_none());
    let oldest = waiting.map(|entry| entry.step.at).min();
    if let Some(oldest) =
        oldest.filter(|at| app.settings.audit.commit && world.now.seconds_since(*at) > GIT_WAITS_S)
    {
        let age = crate::view::text::ago(ctx.language, oldest, world.now);
        let why = world.waits.commit.as_ref().map_or("", |wait| wait.reason.as_str());
        let why = crate::view::text::excerpt(why, 300);
        frame.banners.push(Banner {
            tone: "warn",
            text: say("banner.git-waits", &[("age", &age), ("why", &why)]).trim_end().to_owned(),
            href: Some("/system"),
        });
    }
    if let Some(free) = board_core::edge::space::short(&app.settings.board.state_dir) {
        let mib = |bytes: u64| (bytes >> 20).to_string();
        let limit = mib(board_core::edge::space::MIN_FREE);
        let text = say("banner.disk", &[("free", &mib(free)), ("limit", &limit)]);
        frame.banners.insert(0, Banner { tone: "bad", text, href: Some("/system") });
    }
    for alarm in board_core::edge::alarms::all(&app.settings.board.state_dir).into_values() {
        let age = crate::view::text::ago(ctx.language, alarm.since, world.now);
        let text = say("banner.alarm", &[("age", &age), ("why", &alarm.reason)]);
        frame.banners.insert(0, Banner { tone: "bad", text, href: Some("/system") });
    }
    for pause in crate::view::job::pauses(world) {
        let what = pause_words(&pause, ctx.language);
        let text = say("banner.paused", &[("what", &what), ("why", &pause.reason)]);
        frame.banners.push(Banner { tone: "warn", text, href: Some("/system") });
    }
    if let Some(count) = crate::change::old::offered(world) {
        let text = say("banner.old", &[("n", &count.to_string())]);
        frame.banners.push(Banner { tone: "info", text, href: Some("/altbestand") });
    }
    if !ctx_is_operator(ctx) {
        let text = say("banner.viewer", &[("name", &ctx.identity.name)]);
        frame.banners.push(Banner { tone: "info", text, href: None });
        // The page of the machine is the operator's alone.
        frame.banners.iter_mut().for_each(|banner| banner.href = None);
    }
    frame
}

/// Transitions that are uncommitted for longer than this are worth a word, in seconds: the quiet time after a
/// commit of the operator is 30 s by default.
const GIT_WAITS_S: i64 = 45;

fn ctx_is_operator(ctx: &Ctx) -> bool {
    ctx.operator().is_ok()
}

/// What a pause holds back, in words.
pub(crate) fn pause_words(
    pause: &crate::view::job::PauseJson,
    language: board_core::edge::settings::Language,
) -> String {
    match (pause.what, &pause.name) {
        ("lane", Some(lane)) => crate::i18n::t(language, &format!("lane.{lane}"), &[]),
        (_, Some(profile)) => profile.clone(),
        (_, None) => crate::i18n::t(language, "pause.all", &[]),
    }
}

//! The other pages: jobs, archive, system, help, language.
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use board_core::edge::settings::SandboxMode;
use board_core::model::job::JobRef;
use board_core::model::phase::Phase;
use minijinja::value::Serde;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::settings::{PauseBody, do_pause, do_resume};
use super::{blocking, frame, html, pause_words};
use crate::app::App;
use crate::i18n::{LANGUAGE_COOKIE, from_id};
use crate::middleware::Ctx;
use crate::reply::{Form, FormBody, Problem, see_other};
use crate::view::card::CardLink;
use crate::view::job::{self, MAX_LOG_PART};
use crate::view::{column_label, phase_label};

/// Archived cards on one page.
const MAX_ARCHIVED: usize = 500;
/// How long the language is remembered, seconds.
const LANGUAGE_SECONDS: u32 = 365 * 24 * 3600;

/// What the address of a page may ask.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    q: String,
    offset: Option<u64>,
}

/// `GET /jobs`
pub(crate) async fn jobs(State(app): State<Arc<App>>, ctx: Ctx) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let world = app.world()?;
        let all = job::jobs(&world, ctx.language);
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            jobs => Serde(all.jobs),
            ended => Serde(all.ended),
        };
        html(app, "jobs.html", context)
    })
    .await
}

/// `GET /jobs/{id}`
pub(crate) async fn job(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let id = Uuid::try_parse(&id).map_err(|_| Problem::new(404, "not-found"))?;
    blocking(&app, move |app| {
        let world = app.world()?;
        let card = job::card_of_job(&world, id).ok_or_else(|| Problem::new(404, "not-found"))?;
        let logs = app.settings.board.state_dir.join("logs");
        let newest = job::newest_log(&logs, id).unwrap_or(JobRef { job: id, attempt: 1 });
        let log = job::read_log(&logs, newest, asked.offset)?;
        let older = log.offset.saturating_sub(MAX_LOG_PART);
        let current = card.current_job().filter(|own| own.id == id);
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            id => id.to_string(),
            card => Serde(CardLink::new(&world, &card.id, ctx.language)),
            job => Serde(current.map(|own| job::line(&world, card, own, ctx.language))),
            log => Serde(log),
            older => older,
        };
        html(app, "job.html", context)
    })
    .await
}

/// `GET /archiv`
pub(crate) async fn archive(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let world = app.world()?;
        let word = asked.q.trim().to_lowercase();
        let mut found: Vec<_> = world
            .cards()
            .filter(|card| card.phase == Phase::Archiviert)
            .filter(|card| format!("{} {}", world.title(card), card.id).to_lowercase().contains(&word))
            .collect();
        found.sort_by(|a, b| b.changed_at.cmp(&a.changed_at).then(a.id.cmp(&b.id)));
        let cards: Vec<CardLink> = found
            .iter()
            .take(MAX_ARCHIVED)
            .map(|card| CardLink::new(&world, &card.id, ctx.language))
            .collect();
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            q => asked.q,
            cards => Serde(cards),
        };
        html(app, "archive.html", context)
    })
    .await
}

/// A pause with its words.
#[derive(Debug, Serialize)]
struct PauseLine {
    what: &'static str,
    name: Option<String>,
    words: String,
    reason: String,
    since: String,
}

/// `GET /system`
pub(crate) async fn system(State(app): State<Arc<App>>, ctx: Ctx) -> Result<Response, Problem> {
    ctx.operator()?;
    blocking(&app, move |app| {
        let world = app.world()?;
        let pauses: Vec<PauseLine> = job::pauses(&world)
            .into_iter()
            .map(|pause| PauseLine {
                words: pause_words(&pause, ctx.language),
                what: pause.what,
                name: pause.name,
                reason: pause.reason,
                since: pause.since,
            })
            .collect();
        let open = world.board.outbox.iter().filter(|entry| entry.committed.is_none()).count();
        let sandbox = match app.settings.sandbox.mode {
            SandboxMode::Bubblewrap => "bubblewrap",
            SandboxMode::None => "none",
        };
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            trouble => world.documents.trouble.clone(),
            branch => world.documents.branch.clone(),
            generation => world.board.generation,
            open => open,
            trust => app.auth.chain(),
            sandbox => sandbox,
            version => env!("CARGO_PKG_VERSION"),
            pauses => Serde(pauses),
        };
        html(app, "system.html", context)
    })
    .await
}

fn pause_body(form: &Form) -> PauseBody {
    let name = form.text("name");
    let of = |what: &str| if form.get("what") == Some(what) { name.clone() } else { None };
    PauseBody { lane: of("lane"), profile: of("profile"), reason: form.text("reason") }
}

/// `POST /system/anhalten`
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    FormBody(form): FormBody,
) -> Result<Response, Problem> {
    let body = pause_body(&form);
    blocking(&app, move |app| do_pause(app, &ctx, &body)).await?;
    Ok(see_other("/system"))
}

/// `POST /system/weiter`
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    FormBody(form): FormBody,
) -> Result<Response, Problem> {
    let body = pause_body(&form);
    blocking(&app, move |app| do_resume(app, &ctx, &body)).await?;
    Ok(see_other("/system"))
}

/// `GET /hilfe`
pub(crate) async fn help(State(app): State<Arc<App>>, ctx: Ctx) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let world = app.world()?;
        let phases: Vec<(&str, &str, String)> = Phase::ALL
            .into_iter()
            .map(|phase| {
                let column = phase.column().map(|column| column_label(column, ctx.language));
                (phase.id(), phase_label(phase, ctx.language), column.unwrap_or_default())
            })
            .collect();
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            phases => Serde(phases),
        };
        html(app, "help.html", context)
    })
    .await
}

/// `POST /sprache`: remembers the language in a cookie and goes back to a page of the board.
pub(crate) async fn language(_: Ctx, FormBody(form): FormBody) -> Result<Response, Problem> {
    let wanted =
        form.get("sprache").and_then(from_id).ok_or_else(|| Problem::new(422, "invalid").field("sprache"))?;
    let back = form.get("zurueck").and_then(crate::route::own_page).unwrap_or("/");
    let mut response = see_other(back);
    let cookie = format!(
        "{LANGUAGE_COOKIE}={}; Path=/; Max-Age={LANGUAGE_SECONDS}; SameSite=Lax; HttpOnly",
        wanted.id()
    );
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    Ok(response)
}

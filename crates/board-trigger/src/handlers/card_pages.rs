//! The pages of cards, and the forms on them.
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use board_core::edge::documents::Found;
use board_core::edge::git::Oid;
use board_core::model::card::{Card, CardId};
use board_core::model::documents::find_section;
use board_core::model::event::EventKind;
use board_core::model::profile::Choice;
use minijinja::value::Serde;

use super::cards::{moved, start_from};
use super::{blocking, card_id, frame, html};
use crate::app::App;
use crate::change::{self, Ask, Wanted};
use crate::middleware::Ctx;
use crate::middleware::headers::CSP_SANDBOX;
use crate::reply::{Form, FormBody, Problem, TEXT_BODY_CAP, see_other};
use crate::view::actions::event_of;
use crate::view::board::card_rev;
use crate::view::card::{ReportPage, page, report_page};
use crate::view::diff::{self, Diff};
use crate::view::markdown;
use crate::world::World;

/// Longest diff that a page reads, in bytes.
const MAX_DIFF_BYTES: usize = 4 << 20;
/// Longest report file that a page reads, in bytes.
const MAX_REPORT_BYTES: usize = 4 << 20;
/// Reports that a page shows, newest first.
const MAX_REPORTS: usize = 10;

/// `GET /karten/{id}`
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| {
        let world = app.world()?;
        if let Some(moved) = moved(&world, &id, "/karten") {
            return Ok(moved);
        }
        let card = change::known(&world, &id)?;
        let text = text(app, &world, card);
        let rendered = text.as_deref().and_then(markdown::render);
        let raw = if rendered.is_none() { text } else { None };
        let profiles: Vec<String> = app.policy.profiles.keys().cloned().collect();
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            rev => card_rev(&world, card),
            page => Serde(page(&world, card, &app.policy, ctx.language, reports(app, &world, card, &ctx))),
            intent_html => rendered,
            intent_raw => raw,
            diff => Serde(diff_of(app, &world, card)),
            profiles => profiles,
        };
        html(app, "card.html", context)
    })
    .await
}

/// The text that a card shows: its document's, or an idea's own.
fn text(app: &App, world: &World, card: &Card) -> Option<String> {
    if !card.source.has_document() {
        return (!card.text.is_empty()).then(|| card.text.clone());
    }
    let reader = app.repository.reader(&world.board).ok()?;
    match reader.load(card.source, card.id.slug()?).ok()? {
        Found::Document(document) => Some(document.text),
        Found::Missing | Found::Broken(_) => None,
    }
}

fn reports(app: &App, world: &World, card: &Card, ctx: &Ctx) -> Vec<ReportPage> {
    let reader = app.repository.reader(&world.board).ok();
    let file = |path: &str| -> Option<String> {
        let reader = reader.as_ref()?;
        let tip = reader.git().branch_tip(reader.branch()).ok()??;
        let blob = reader.git().read_path(&tip, path, MAX_REPORT_BYTES).ok()??;
        String::from_utf8(blob.bytes).ok()
    };
    let newest = card.reports.iter().rev().take(MAX_REPORTS);
    newest
        .map(|report| {
            let whole = file(&report.path);
            let section =
                whole.as_deref().and_then(|text| find_section(text, report.job)).map(ToOwned::to_owned);
            report_page(card, report, section, ctx.language)
        })
        .collect()
}

fn diff_of(app: &App, world: &World, card: &Card) -> Option<Diff> {
    let build = card.build.as_ref()?;
    let reader = app.repository.reader(&world.board).ok()?;
    let base: Oid = build.diff_base.parse().ok()?;
    let commit: Oid = build.check_commit.as_ref()?.parse().ok()?;
    let cut = reader.git().diff(&base, &commit, MAX_DIFF_BYTES).ok()?;
    Some(diff::parse(&String::from_utf8_lossy(&cut.bytes), cut.more))
}

/// `GET /karten/{id}/rohtext`: as a download, so that nothing of it is ever taken for a page.
pub(crate) async fn raw(
    State(app): State<Arc<App>>,
    _: Ctx,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| {
        let world = app.world()?;
        let card = change::known(&world, &id)?;
        let text = text(app, &world, card).unwrap_or_default();
        let name = HeaderValue::from_str(&format!("attachment; filename=\"{id}.md\""))
            .unwrap_or(HeaderValue::from_static("attachment"));
        let head = [
            (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
            (header::CONTENT_DISPOSITION, name),
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CSP_SANDBOX)),
        ];
        Ok((head, text).into_response())
    })
    .await
}

/// `POST /karten/{id}`: what a button on the page means.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    FormBody(form): FormBody,
) -> Result<Response, Problem> {
    let ctx = ctx.with_form(&form);
    let done = act_on(&app, ctx, id, &form).await;
    done.map_err(|problem| problem.form(form.0))
}

async fn act_on(app: &Arc<App>, ctx: Ctx, id: String, form: &Form) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    let wanted = match form.get("event").unwrap_or_default() {
        "restore" => Wanted::Restore,
        name => Wanted::Event(event_of(name).ok_or_else(|| Problem::new(422, "invalid").field("event"))?),
    };
    let ask = Ask {
        from: start_from(form.get("from"))?,
        reason: form.text("reason"),
        note: form.text("note"),
        confirm: form.get("confirm").is_some(),
        rev: form.get("rev").and_then(|rev| rev.parse().ok()),
    };
    blocking(app, move |app| {
        let done = change::on_card(app, &ctx, &id, wanted, &ask)?;
        let to = if done.applied.event == EventKind::Deleted {
            format!("/?geloescht={id}")
        } else {
            format!("/karten/{}", done.applied.card)
        };
        Ok(see_other(&to))
    })
    .await
}

async fn change_and_return(
    app: Arc<App>,
    ctx: Ctx,
    id: String,
    form: Form,
    change: impl FnOnce(&App, &Ctx, &CardId, &Form) -> Result<(), Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let typed = form.0.clone();
    let ctx = ctx.with_form(&form);
    let id = card_id(&id)?;
    let done = blocking(&app, move |app| {
        change(app, &ctx, &id, &form)?;
        Ok(see_other(&format!("/karten/{id}")))
    });
    done.await.map_err(|problem| problem.form(typed))
}

/// `POST /karten/{id}/parent`
pub(crate) async fn parent(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    FormBody(form): FormBody,
) -> Result<Response, Problem> {
    change_and_return(app, ctx, id, form, |app, ctx, id, form| {
        let parent = change::parent_id(form.get("parent_id").unwrap_or_default().trim())?;
        change::set_parent(app, ctx, id, parent.as_ref())
    })
    .await
}

/// `POST /karten/{id}/profil`
pub(crate) async fn profile(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    FormBody(form): FormBody,
) -> Result<Response, Problem> {
    change_and_return(app, ctx, id, form, |app, ctx, id, form| {
        let iterations = match form.text("iterations") {
            Some(text) => Some(text.parse().map_err(|_| Problem::new(422, "invalid").field("iterations"))?),
            None => None,
        };
        let choice = Choice { profile: form.text("profile"), reason: form.text("reason"), iterations };
        change::set_choice(app, ctx, id, choice)
    })
    .await
}

/// `GET /karten/neu`
pub(crate) async fn new(State(app): State<Arc<App>>, ctx: Ctx) -> Result<Response, Problem> {
    ctx.operator()?;
    blocking(&app, move |app| {
        let world = app.world()?;
        html(app, "new.html", minijinja::context! { frame => Serde(frame(app, &ctx, &world)) })
    })
    .await
}

/// `POST /karten/neu`
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    FormBody(form): FormBody<TEXT_BODY_CAP>,
) -> Result<Response, Problem> {
    let ctx = ctx.with_form(&form);
    let (title, text) = (form.text("title").unwrap_or_default(), form.text("text").unwrap_or_default());
    let done = blocking(&app, move |app| {
        let done = change::create_idea(app, &ctx, &title, &text)?;
        Ok(see_other(&format!("/karten/{}", done.applied.card)))
    });
    done.await.map_err(|problem| problem.form(form.0))
}

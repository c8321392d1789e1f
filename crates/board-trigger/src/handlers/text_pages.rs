//! The editor: a new card, the text of one that is there, and what becomes of a text that could not be saved.
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use board_core::edge::documents::Documents as Reader;
use board_core::model::card::{Card, CardId, MAX_TITLE_CHARS, Source};
use board_core::model::documents::{idea_as_intent, without_front_matter};
use board_core::model::event::EventKind;
use board_core::model::phase::Phase;
use board_core::model::slug::{MAX_SLUG, Slug};
use minijinja::value::Serde;
use serde::{Deserialize, Serialize};

use super::card_pages::{shown, source_text};
use super::cards::moved;
use super::{Failed, blocking, card_id, frame, html_with};
use crate::app::App;
use crate::change::texts::{self, NewDocument, Written};
use crate::change::{self, Ask, Wanted};
use crate::handlers::texts::{accept, kind};
use crate::middleware::Ctx;
use crate::reply::{Form, FormBody, Problem, TEXT_BODY_CAP, see_other};
use crate::route::page_of;
use crate::view::{markdown, text};

/// A text that could not be saved, beside the one that is in its place.
#[derive(Debug, Serialize)]
pub(crate) struct Conflict {
    why: String,
    by: String,
    at: String,
    mine: String,
    theirs: Option<String>,
    path: String,
    /// It was to be a new document, so it can go elsewhere or be given up, but there is nothing to merge.
    new: bool,
    slug: String,
}

/// The conflict of a card's order, if it has one.
pub(crate) fn conflict(reader: Option<&Reader>, card: &Card) -> Option<Conflict> {
    let order = card.order.as_ref()?;
    let why = order.conflict.clone()?;
    let theirs = match reader {
        Some(reader) if card.source.has_document() => source_text(Some(reader), card).ok().flatten(),
        Some(_) | None => None,
    };
    let path = order.path.clone();
    let slug =
        path.rsplit('/').next().and_then(|name| name.strip_suffix(".md")).unwrap_or_default().to_owned();
    Some(Conflict {
        why,
        by: order.mark.by.clone(),
        at: order.mark.at.to_string(),
        mine: order.text.clone(),
        new: theirs.is_none(),
        theirs,
        path,
        slug,
    })
}

/// What the address of a new card may say.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewQuery {
    /// `idee`, `intent` or `recherche`.
    art: String,
}

/// `GET /karten/neu`
pub(crate) async fn new(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Query(query): Query<NewQuery>,
) -> Result<Response, Problem> {
    let form = Form(vec![("kind".to_owned(), query.art)]);
    blocking(&app, move |app| render_new(app, &ctx, &form, None)).await
}

/// The text of a form as a reader would see it, where that is asked for.
fn preview(form: &Form) -> Option<String> {
    let wanted = form.get("vorschau").is_some();
    let source = form.get("text").filter(|_| wanted)?;
    let (_, body) = without_front_matter(source);
    Some(markdown::render(body).unwrap_or_default())
}

fn render_new(app: &App, ctx: &Ctx, form: &Form, failed: Option<&Problem>) -> Result<Response, Problem> {
    let chosen =
        form.get("kind").filter(|kind| ["intent", "recherche"].contains(kind)).unwrap_or(Phase::Idee.id());
    let context = minijinja::context! {
        frame => Serde(frame(app, ctx, &app.world()?)),
        kind => chosen,
        title => form.get("title"),
        slug => form.get("slug"),
        text => form.get("text"),
        key => form.get("key"),
        preview => preview(form),
        max_title => MAX_TITLE_CHARS,
        max_slug => MAX_SLUG,
        failed => failed.map(|problem| Serde(Failed::new(problem, ctx.language))),
    };
    html_with(app, failed.map_or(StatusCode::OK, Failed::status), "new.html", context)
}

/// `POST /karten/neu`
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    FormBody(form): FormBody<TEXT_BODY_CAP>,
) -> Result<Response, Problem> {
    let ctx = ctx.with_form(&form);
    blocking(&app, move |app| {
        if form.get("vorschau").is_some() {
            return render_new(app, &ctx, &form, None);
        }
        match do_create(app, &ctx, &form) {
            Err(problem) if Failed::is_for(&problem) => render_new(app, &ctx, &form, Some(&problem)),
            done => done.map_err(|problem| problem.form(form.0.clone())),
        }
    })
    .await
}

fn do_create(app: &App, ctx: &Ctx, form: &Form) -> Result<Response, Problem> {
    let title = form.text("title").unwrap_or_default();
    let text = form.get("text").unwrap_or_default();
    let id = match kind(form.get("kind"))? {
        None => change::create_idea(app, ctx, &title, text)?.applied.card,
        Some(source) => {
            let new = NewDocument { source, slug: form.text("slug"), title, text: text.to_owned() };
            let id = texts::create_document(app, ctx, &new)?.applied.card;
            // What is not written yet, or cannot be, the card says.
            texts::wait(app, &id)?;
            id
        }
    };
    if form.get("weiter").is_some() {
        return Ok(see_other(&format!("/karten/neu?art={}", form.get("kind").unwrap_or(Phase::Idee.id()))));
    }
    Ok(see_other(&page_of(&id)))
}

/// What the address of a text may say.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TextQuery {
    /// `intent`: an idea is to be written as one.
    als: String,
}

/// What the editor holds when it opens.
#[derive(Debug, Default)]
struct Open {
    title: String,
    slug: String,
    text: String,
    base_blob: String,
    theirs: Option<String>,
    as_intent: bool,
}

/// What a card's text is now; of an idea that becomes an intent what it would be.
fn open(app: &App, card: &Card, world: &crate::world::World, as_intent: bool) -> Result<Open, Problem> {
    let title = world.title(card).to_owned();
    if card.source == Source::Draft {
        return Err(Problem::new(404, "not-found"));
    }
    let as_intent = as_intent && card.source == Source::Idea;
    let (current, base_blob) = texts::text_of(app, world, card)?;
    let failed = card.order.as_ref().filter(|order| order.conflict.is_some());
    let slug = Slug::of_title(&title).map(|slug| slug.to_string()).unwrap_or_default();
    let (text, theirs) = match failed {
        Some(order) if card.source.has_document() => (order.text.clone(), Some(current)),
        Some(order) if as_intent => (order.text.clone(), None),
        Some(_) | None if as_intent => (idea_as_intent(&title, &current), None),
        Some(_) | None => (current, None),
    };
    Ok(Open { title, slug, text, base_blob, theirs, as_intent })
}

/// `GET /karten/{id}/text`
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    Query(query): Query<TextQuery>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| {
        let world = app.world_of(&[&id])?;
        if let Some(moved) = moved(&world, &id, "/karten") {
            return Ok(moved);
        }
        let card = shown(&world, &id)?;
        let open = open(app, card, &world, query.als == "intent")?;
        render(app, &ctx, card, &open, &Form::default(), None)
    })
    .await
}

fn render(
    app: &App,
    ctx: &Ctx,
    card: &Card,
    open: &Open,
    form: &Form,
    failed: Option<&Problem>,
) -> Result<Response, Problem> {
    let typed = |name: &str, own: &str| form.get(name).unwrap_or(own).to_owned();
    let context = minijinja::context! {
        frame => Serde(frame(app, ctx, &app.world()?)),
        id => card.id.to_string(),
        source => card.source.id(),
        document => card.document_path(),
        as_intent => open.as_intent,
        card_title => &open.title,
        title => typed("title", &open.title),
        slug => typed("slug", &open.slug),
        text => typed("text", &open.text),
        // What is there now: whoever saves again has seen it.
        base_blob => &open.base_blob,
        theirs => open.theirs.as_deref().map(text::visible),
        key => form.get("key"),
        preview => preview(form),
        max_title => MAX_TITLE_CHARS,
        max_slug => MAX_SLUG,
        failed => failed.map(|problem| Serde(Failed::new(problem, ctx.language))),
    };
    html_with(app, failed.map_or(StatusCode::OK, Failed::status), "text.html", context)
}

/// `POST /karten/{id}/text`
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    FormBody(form): FormBody<TEXT_BODY_CAP>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    let ctx = ctx.with_form(&form);
    blocking(&app, move |app| {
        if form.get("vorschau").is_some() {
            return again(app, &ctx, &id, &form, None);
        }
        match do_save(app, &ctx, &id, &form) {
            Err(problem) if Failed::is_for(&problem) => again(app, &ctx, &id, &form, Some(&problem)),
            done => done.map_err(|problem| problem.form(form.0.clone())),
        }
    })
    .await
}

/// The editor with what was typed.
fn again(
    app: &App,
    ctx: &Ctx,
    id: &CardId,
    form: &Form,
    failed: Option<&Problem>,
) -> Result<Response, Problem> {
    let world = app.world_of(&[id])?;
    let card = shown(&world, id)?;
    let mut open = open(app, card, &world, form.get("als") == Some("intent"))?;
    match failed {
        Some(problem) if problem.status == 412 => {
            let there = problem.what_is_there().and_then(|there| there.get("text")).and_then(|t| t.as_str());
            open.theirs = there.map(ToOwned::to_owned).or(open.theirs);
        }
        // Nothing was shown that would have been compared: what was edited is still the base.
        Some(_) | None => open.base_blob = form.get("base_blob").unwrap_or(&open.base_blob).to_owned(),
    }
    render(app, ctx, card, &open, form, failed)
}

fn do_save(app: &App, ctx: &Ctx, id: &CardId, form: &Form) -> Result<Response, Problem> {
    let text = form.get("text").unwrap_or_default();
    if form.get("als") == Some("intent") {
        let ask = Ask { slug: form.text("slug"), text: Some(text.to_owned()), ..Ask::default() };
        change::on_card(app, ctx, id, Wanted::Event(EventKind::DocumentWritten), &ask)?;
    } else {
        let title = form.text("title");
        texts::edit(app, ctx, id, title.as_deref(), text, form.get("base_blob"))?;
    }
    Ok(see_other(&page_after(app, id)?))
}

/// Where one looks once an order is given: the card, under its new id if it is written by then.
pub(super) fn page_after(app: &App, id: &CardId) -> Result<String, Problem> {
    Ok(match texts::wait(app, id)? {
        Written::Done(now) => page_of(&now),
        Written::Pending | Written::Conflict(_) => page_of(id),
    })
}

/// `POST /karten/{id}/konflikt`: what becomes of a text that could not be saved.
pub(crate) async fn settle(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    FormBody(form): FormBody,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    let ctx = ctx.with_form(&form);
    blocking(&app, move |app| {
        do_settle(app, &ctx, &id, &form).map_err(|problem| problem.form(form.0.clone()))
    })
    .await
}

fn do_settle(app: &App, ctx: &Ctx, id: &CardId, form: &Form) -> Result<Response, Problem> {
    if form.get("was") == Some("verwerfen") {
        texts::drop_text(app, ctx, id)?;
        // A card that was only ordered is gone, unless somebody else's file has its name.
        let there = app.world_of(&[id])?.card(id).is_some();
        return Ok(see_other(&if there { page_of(id) } else { "/".to_owned() }));
    }
    let slug = form.text("slug").unwrap_or_default();
    let done = accept(app, ctx, id, slug)?;
    Ok(see_other(&page_after(app, &done.applied.card)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_made_where_it_is_asked_for_and_without_front_matter() {
        let form = |pairs: &[(&str, &str)]| {
            Form(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        assert_eq!(preview(&form(&[("text", "# A")])), None);
        let html = preview(&form(&[("text", "---\nprofil: x\n---\n# A\n"), ("vorschau", "1")])).unwrap();
        assert!(html.contains("<h1>A</h1>") && !html.contains("profil"), "{html}");
    }
}

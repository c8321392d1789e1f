//! The pages of a card, and the forms on them. Every form calls what the API calls, and leads back to a page.
use std::io::Read as _;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_core::edge::documents::{Documents as Reader, Found};
use board_core::edge::git::Oid;
use board_core::model::board::Board;
use board_core::model::card::{Card, CardId, Source};
use board_core::model::documents::{Proposals, find_section, proposals, without_front_matter};
use board_core::model::event::EventKind;
use board_core::model::phase::Phase;
use board_core::model::profile::Choice;
use board_core::model::slug::Slug;
use minijinja::value::Serde;
use serde::Serialize;

use super::cards::{moved, start_from};
use super::{blocking, card_id, draft_pages, frame, html, text_pages};
use crate::app::App;
use crate::change::marks::{self, Take};
use crate::change::{self, Ask, Wanted};
use crate::middleware::Ctx;
use crate::middleware::headers::CSP_SANDBOX;
use crate::reply::{Form, FormBody, Problem, TEXT_BODY_CAP, see_other};
use crate::route::{own_page, page_of};
use crate::view::{actions, card as view, diff, family, markdown, text};
use crate::world::World;

/// Reports that a card's page renders; older ones are in the repository.
const REPORTS_SHOWN: usize = 10;
/// Bytes of a diff that are asked of git.
const MAX_DIFF_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a refused reply that a page shows.
const MAX_REPLY_BYTES: u64 = 64 * 1024;
/// Cards that the field for a parent proposes.
const PARENTS_PROPOSED: usize = 200;

/// A card's document as the page shows it.
#[derive(Debug, Default, Serialize)]
struct Document {
    /// Rendered, without front matter.
    html: Option<String>,
    /// The text as it is, where it is too large to be rendered.
    raw: Option<String>,
    /// The front matter; shown, never obeyed.
    front: Option<String>,
    /// Why there is none.
    trouble: Option<String>,
    /// What the front matter proposes for the work.
    profile: Option<String>,
    reason: Option<String>,
    iterations: Option<u32>,
    parent: Option<String>,
}

impl Document {
    fn of(source: &str) -> Document {
        let (front, body) = without_front_matter(source);
        let html = markdown::render(body);
        let Proposals { profile, reason, iterations, parent } = proposals(source).unwrap_or_default();
        Document {
            raw: html.is_none().then(|| text::visible(body)),
            html,
            front: front.map(text::visible),
            trouble: None,
            profile,
            reason,
            iterations,
            parent,
        }
    }

    fn trouble(why: String) -> Document {
        Document { trouble: Some(why), ..Document::default() }
    }
}

/// The text of a card: of its document, else what was typed.
pub(super) fn source_text(reader: Option<&Reader>, card: &Card) -> Result<Option<String>, String> {
    let (Some(slug), true) = (card.id.slug(), card.source.has_document()) else {
        return Ok((!card.text.is_empty()).then(|| card.text.clone()));
    };
    let Some(reader) = reader else { return Ok(None) };
    match reader.load(card.source, slug) {
        Ok(Found::Document(loaded)) => Ok(Some(loaded.text)),
        Ok(Found::Broken(why)) => Err(why),
        Ok(Found::Missing) => Ok(None),
        Err(error) => {
            tracing::warn!("the document of {} cannot be read: {error}", card.id);
            Ok(None)
        }
    }
}

/// The card, or a problem that offers to bring a deleted one back.
pub(super) fn shown<'a>(world: &'a World, id: &CardId) -> Result<&'a Card, Problem> {
    change::known(world, id).map_err(|problem| match problem.status {
        410 => problem.form(vec![
            ("event".to_owned(), EventKind::Restored.id().to_owned()),
            ("key".to_owned(), uuid::Uuid::new_v4().to_string()),
        ]),
        _ => problem,
    })
}

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
        let card = shown(&world, &id)?;
        if card.source == Source::Draft {
            return Ok(see_other(&page_of(&id)));
        }
        let reader = app.repository.reader(&world.board).ok();
        let document = match source_text(reader.as_ref(), card) {
            Ok(Some(source)) => Document::of(&source),
            Ok(None) => Document::default(),
            Err(why) => Document::trouble(why),
        };
        let reports = reports(reader.as_ref(), card, &ctx);
        let (changes, changes_gone) = changes(reader.as_ref(), card);
        let page = view::page(&world, card, &app.policy, ctx.language, reports);
        let profiles: Vec<&String> = app.policy.profiles.keys().collect();
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            page => Serde(page),
            document => Serde(document),
            reply => refused_reply(app, card).map(|reply| text::visible(&reply)),
            conflict => Serde(text_pages::conflict(reader.as_ref(), card)),
            changes => Serde(changes),
            changes_gone => changes_gone,
            merges => merges(reader.as_ref(), card),
            profiles => Serde(profiles),
            parents => Serde(parents(&world, card)),
            places => Serde(family::places(&world, card)),
            edited => marks::edited(app, &world, card).ok().flatten().map(|edited| minijinja::context! {
                file => edited.file,
                hash => edited.hash,
                board => edited.board,
            }),
            older_reports => card.reports.len().saturating_sub(REPORTS_SHOWN),
            slug => Slug::of_title(world.title(card)).map(|slug| slug.to_string()),
        };
        html(app, "card.html", context)
    })
    .await
}

fn reports(reader: Option<&Reader>, card: &Card, ctx: &Ctx) -> Vec<view::ReportPage> {
    let newest = card.reports.iter().rev().take(REPORTS_SHOWN);
    newest
        .map(|report| {
            let file = reader.and_then(|reader| reader.text_of(&report.path).ok().flatten());
            let section =
                file.as_deref().and_then(|file| find_section(file, report.job)).map(ToOwned::to_owned);
            view::report_page(card, report, section, ctx.language)
        })
        .collect()
}

/// What the newest build changed; the flag says that git does not have it any more.
fn changes(reader: Option<&Reader>, card: &Card) -> (Option<diff::Diff>, bool) {
    let Some((build, commit)) =
        card.build.as_ref().and_then(|build| Some((build, build.check_commit.as_ref()?)))
    else {
        return (None, false);
    };
    let read = || {
        let (base, commit) = (Oid::parse(&build.diff_base).ok()?, Oid::parse(commit).ok()?);
        let cut = reader?.git().diff(&base, &commit, MAX_DIFF_BYTES).ok()?;
        Some(diff::parse(&String::from_utf8_lossy(&cut.bytes), cut.more))
    };
    let changes = read();
    let gone = changes.is_none();
    (changes, gone)
}

/// Whether a finished build merges without a conflict now; none where that is no question.
fn merges(reader: Option<&Reader>, card: &Card) -> Option<bool> {
    if card.phase != Phase::BereitFuerDeployment {
        return None;
    }
    let commit = Oid::parse(card.build.as_ref()?.check_commit.as_ref()?).ok()?;
    let reader = reader?;
    reader.git().merges_cleanly(reader.branch(), &commit).ok()
}

/// Cards that could be the parent of this one, for the field's proposals.
fn parents(world: &World, card: &Card) -> Vec<(String, String)> {
    world
        .cards()
        .filter(|other| other.source.has_document() && other.id != card.id && other.phase.column().is_some())
        .take(PARENTS_PROPOSED)
        .map(|other| (other.id.to_string(), text::excerpt(world.title(other), 80)))
        .collect()
}

/// `POST /karten/{id}` and `POST /entwuerfe/{id}`: one event.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    FormBody(form): FormBody<TEXT_BODY_CAP>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    let ctx = ctx.with_form(&form);
    blocking(&app, move |app| {
        let failed = match do_act(app, &ctx, &id, &form) {
            Ok(response) => return Ok(response),
            Err(problem) => problem.form(form.0.clone()),
        };
        // A question that is still open is shown with what was typed and what is wrong with it.
        match draft_pages::again(app, &ctx, &id, &form, &failed)? {
            Some(page) => Ok(page),
            None => Err(failed),
        }
    })
    .await
}

fn do_act(app: &App, ctx: &Ctx, id: &CardId, form: &Form) -> Result<Response, Problem> {
    let event = form.get("event").and_then(actions::event_of);
    let Some(event) = event else { return Err(Problem::new(422, "invalid").field("event").detail("event")) };
    let wanted = if event == EventKind::Restored { Wanted::Restore } else { Wanted::Event(event) };
    let ask = Ask {
        reason: form.text("reason"),
        note: form.text("note"),
        from: start_from(form.get("from"))?,
        confirm: form.get("confirm").is_some(),
        rev: form.get("rev").and_then(|text| text.parse().ok()),
        slug: form.text("slug"),
        text: form.text("text"),
        answer: form.text("answer"),
        option: form.text("antwort"),
        round: form.get("round").and_then(|text| text.parse().ok()),
    };
    let revised = revised_by(app.board()?.as_ref(), id);
    let done = change::on_card(app, ctx, id, wanted, &ask)?;
    let writes = matches!(event, EventKind::DocumentWritten | EventKind::ProposalAccepted);
    let to = match (event, revised, form.get("zu").and_then(own_page)) {
        (EventKind::Deleted, _, _) => format!("/?geloescht={id}"),
        // The draft of a revision that was taken back is gone.
        (EventKind::Undone, Some(revised), _) => page_of(&revised),
        (_, _, Some(page)) => page.to_owned(),
        // What is not written yet, or cannot be, the card says.
        _ if writes => text_pages::page_after(app, id)?,
        _ => page_of(&done.applied.card),
    };
    Ok(see_other(&to))
}

/// The card whose intent this draft revises.
fn revised_by(board: &Board, id: &CardId) -> Option<CardId> {
    Some(board.cards.get(id)?.draft.as_ref()?.revises.as_ref()?.card.clone())
}

/// What a role said that could not be read as its answer; kept beside the log.
pub(super) fn refused_reply(app: &App, card: &Card) -> Option<String> {
    let error = card.error.as_ref().filter(|error| error.reply.is_some())?;
    // The name follows from the job: no outcome names another file.
    let path = app.settings.board.state_dir.join("logs").join(error.job?.reply_file());
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_REPLY_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// `POST /karten/{id}/parent`
pub(crate) async fn parent(
    state: State<Arc<App>>,
    ctx: Ctx,
    path: Path<String>,
    form: FormBody,
) -> Result<Response, Problem> {
    and_back(state, ctx, path, form, |app, ctx, id, form| {
        let parent = change::parent_id(form.get("parent_id").unwrap_or_default())?;
        change::set_parent(app, ctx, id, parent.as_ref())
    })
    .await
}

/// `POST /karten/{id}/gelesen`
pub(crate) async fn read(
    state: State<Arc<App>>,
    ctx: Ctx,
    path: Path<String>,
    form: FormBody,
) -> Result<Response, Problem> {
    and_back(state, ctx, path, form, |app, ctx, id, _| marks::mark_read(app, ctx, id)).await
}

/// `POST /karten/{id}/synthese`
pub(crate) async fn synthesise(
    state: State<Arc<App>>,
    ctx: Ctx,
    path: Path<String>,
    form: FormBody,
) -> Result<Response, Problem> {
    and_back(state, ctx, path, form, |app, ctx, id, _| marks::synthesise(app, ctx, id)).await
}

/// `POST /karten/{id}/platz`
pub(crate) async fn rank(
    state: State<Arc<App>>,
    ctx: Ctx,
    path: Path<String>,
    form: FormBody,
) -> Result<Response, Problem> {
    and_back(state, ctx, path, form, |app, ctx, id, form| {
        marks::rank(app, ctx, id, marks::before(form.get("before"))?.as_ref())
    })
    .await
}

/// `POST /karten/{id}/datei`
pub(crate) async fn adopt_file(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    FormBody(form): FormBody,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    let ctx = ctx.with_form(&form);
    blocking(&app, move |app| {
        // Without the fields: another file is looked at first, not said again of unseen.
        marks::adopt_file(app, &ctx, &id, Take::parse(form.get("take"))?, form.get("hash"))?;
        Ok(see_other(&page_of(&id)))
    })
    .await
}

/// A form that changes a card, and back to it; where it is refused, its fields are kept.
async fn and_back(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    FormBody(form): FormBody,
    change: fn(&App, &Ctx, &CardId, &Form) -> Result<(), Problem>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    let ctx = ctx.with_form(&form);
    blocking(&app, move |app| {
        change(app, &ctx, &id, &form).map_err(|problem| problem.form(form.0.clone()))?;
        Ok(see_other(&page_of(&id)))
    })
    .await
}

/// `POST /karten/{id}/profile`
pub(crate) async fn profile(
    state: State<Arc<App>>,
    ctx: Ctx,
    path: Path<String>,
    form: FormBody,
) -> Result<Response, Problem> {
    and_back(state, ctx, path, form, |app, ctx, id, form| change::set_choice(app, ctx, id, choice(form)?))
        .await
}

fn choice(form: &Form) -> Result<Choice, Problem> {
    let iterations = match form.text("iterations").map(|text| text.parse()) {
        None => None,
        Some(Ok(number)) => Some(number),
        Some(Err(_)) => {
            return Err(Problem::new(422, "invalid")
                .field("iterations")
                .detail_key("problem.iterations", &[]));
        }
    };
    Ok(Choice { profile: form.text("profile"), reason: form.text("reason"), iterations })
}

/// `GET /karten/{id}/rohtext`: somebody else's text, as a file that can do nothing.
pub(crate) async fn raw(
    State(app): State<Arc<App>>,
    _: Ctx,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| {
        let world = app.world()?;
        let card = change::known(&world, &id)?;
        let reader = app.repository.reader(&world.board).ok();
        let source = source_text(reader.as_ref(), card).ok().flatten();
        let source = source.ok_or_else(|| Problem::new(404, "not-found"))?;
        Ok(attachment(&format!("{id}.md"), source))
    })
    .await
}

/// A text that is downloaded, never opened as a page. `name` is of ASCII letters, digits, `-` and `.`.
fn attachment(name: &str, text: String) -> Response {
    let mut response = (StatusCode::OK, text).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CSP_SANDBOX));
    let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_shown_and_not_rendered_as_text() {
        let document = Document::of("---\nprofil: stark\nparent: ziel\n---\n# Titel\n\nText.\n");
        assert_eq!(document.profile.as_deref(), Some("stark"));
        assert_eq!(document.parent.as_deref(), Some("ziel"));
        assert!(document.front.unwrap().contains("profil: stark"));
        let html = document.html.unwrap();
        assert!(html.contains("<h1>Titel</h1>") && !html.contains("profil"), "{html}");
    }

    #[test]
    fn a_raw_text_is_a_file_and_not_a_page() {
        let response = attachment("board-limit.md", "<script>".to_owned());
        let header = |name| response.headers().get(name).unwrap().to_str().unwrap();
        assert_eq!(header("content-disposition"), "attachment; filename=\"board-limit.md\"");
        assert_eq!(header("content-type"), "text/plain; charset=utf-8");
        assert!(header("content-security-policy").contains("sandbox"));
    }

    #[test]
    fn a_budget_is_a_number_or_nothing() {
        let form =
            |text: &str| Form(vec![("iterations".into(), text.into()), ("profile".into(), " ".into())]);
        assert_eq!(choice(&form("")).unwrap(), Choice::default());
        assert_eq!(choice(&form(" 7 ")).unwrap().iterations, Some(7));
        assert_eq!(choice(&form("viele")).unwrap_err().status, 422);
    }
}

//! The API of cards.
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use board_core::edge::orders::StartFrom;
use board_core::model::card::CardId;
use board_core::model::event::EventKind;
use board_core::model::phase::Phase;
use board_core::model::profile::Choice;
use serde::{Deserialize, Serialize};

use super::{blocking, card_id};
use crate::app::App;
use crate::change::marks::{self, Take};
use crate::change::{self, Ask, Done, Wanted};
use crate::middleware::Ctx;
use crate::reply::{JsonBody, Problem, json_response, json_with_etag};
use crate::view::board::card_rev;
use crate::view::card::CardJson;
use crate::world::World;

/// A move.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MoveTo {
    /// Id of the phase.
    to: String,
    /// Why, where the move has to be justified.
    reason: Option<String>,
    /// A note to the next builder.
    note: Option<String>,
    /// `commit` goes on from the newest check commit, `branch` begins anew.
    from: Option<String>,
    /// The operator has read the synthesis.
    confirm: Option<bool>,
}

/// What a call on a card may be given; none needs a body.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CallBody {
    /// Why.
    reason: Option<String>,
    /// A note.
    note: Option<String>,
    /// `commit` or `branch`.
    from: Option<String>,
    /// The operator has read the synthesis.
    confirm: Option<bool>,
}

/// Another parent.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParentBody {
    /// The parent, or null for none.
    #[serde(default, deserialize_with = "given")]
    parent_id: Option<Option<String>>,
}

/// What was read.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReadBody {
    /// The operator has read it; must be true.
    confirm: bool,
}

/// Another place in the column.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RankBody {
    /// The card that it comes to stand before; without one it stands last.
    before: Option<String>,
}

/// Which counts.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AdoptBody {
    /// `file` or `board`.
    take: Option<String>,
}

/// A call that takes nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoBody {}

/// Tells an absent field from null.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// A card's profile and budget.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProfileBody {
    /// Name of a configured profile, or null for that of the role.
    profile: Option<String>,
    /// Iterations per job, or null for those of the role.
    iterations: Option<u32>,
    /// Why.
    reason: Option<String>,
}

/// What an event did.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DoneJson {
    /// The card.
    id: String,
    /// Id of the event.
    event: &'static str,
    /// Where it stood.
    from: Option<&'static str>,
    /// Where it stands; null if it is gone.
    phase: Option<&'static str>,
    /// The job that was made.
    job: Option<DoneJob>,
    /// The same request was carried out before; nothing was done now.
    repeated: bool,
    /// The card as it is now.
    card: Option<CardJson>,
}

/// The job of a start.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DoneJob {
    /// Its id.
    id: String,
    /// The n-th file of it.
    attempt: u32,
    /// The start can be taken back until then.
    parked_until: Option<String>,
    /// Place in its lane's inbox, from 1, once it is there.
    position: Option<usize>,
}

/// Where a build begins.
pub(crate) fn start_from(text: Option<&str>) -> Result<Option<StartFrom>, Problem> {
    match text {
        None | Some("") => Ok(None),
        Some("commit") => Ok(Some(StartFrom::Commit)),
        Some("branch") => Ok(Some(StartFrom::Branch)),
        Some(_) => Err(Problem::new(422, "invalid").field("from").detail("from: commit | branch")),
    }
}

fn done_json(app: &App, world: &World, done: &Done) -> DoneJson {
    let applied = &done.applied;
    DoneJson {
        id: applied.card.to_string(),
        event: applied.event.id(),
        from: applied.from.map(Phase::id),
        phase: applied.to.map(Phase::id),
        job: applied.job.map(|job| DoneJob {
            id: job.job.to_string(),
            attempt: job.attempt,
            parked_until: applied.parked_until.map(|until| until.to_string()),
            position: done.position,
        }),
        repeated: applied.repeated,
        card: world.card(&applied.card).map(|card| crate::view::card::json(world, card, &app.policy)),
    }
}

/// 202 with a job, else 200; the `ETag` is that of the card.
pub(super) fn answer(app: &App, done: &Done) -> Result<Response, Problem> {
    let world = app.world_of(&[&done.applied.card])?;
    let status = if done.applied.job.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
    answer_with(app, &world, status, done)
}

/// The same with this status.
pub(super) fn answer_with(
    app: &App,
    world: &World,
    status: StatusCode,
    done: &Done,
) -> Result<Response, Problem> {
    let mut response = json_response(status, &done_json(app, world, done))?;
    if let Some(card) = world.card(&done.applied.card) {
        response.headers_mut().insert(header::ETAG, crate::reply::etag(card_rev(world, card)));
    }
    Ok(response)
}

async fn call(
    app: Arc<App>,
    ctx: Ctx,
    id: &str,
    wanted: Wanted,
    body: CallBody,
) -> Result<Response, Problem> {
    let id = card_id(id)?;
    let ask = Ask {
        from: start_from(body.from.as_deref())?,
        reason: body.reason,
        note: body.note,
        confirm: body.confirm.unwrap_or(false),
        ..Ask::default()
    };
    blocking(&app, move |app| {
        let done = change::on_card(app, &ctx, &id, wanted, &ask)?;
        answer(app, &done)
    })
    .await
}

/// 308 to the id that a card has now.
pub(crate) fn moved(world: &World, id: &CardId, base: &str) -> Option<Response> {
    let now = world.board.redirect(id)?;
    let location = HeaderValue::from_str(&format!("{base}/{now}")).ok()?;
    Some((StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, location)]).into_response())
}

/// One card in full.
#[utoipa::path(get, path = "/api/board/cards/{id}", tag = "cards", params(("id" = String, Path, description = "a slug, idea-<uuid> or draft-<uuid>")), responses(
    (status = 200, body = CardJson), (status = 304, description = "If-None-Match names the revision"),
    (status = 308, description = "the card has another id now"), (status = 404, description = "not-found"),
    (status = 410, description = "gone: deleted within the last 24 hours"),
))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| {
        let world = app.world_of(&[&id])?;
        if let Some(moved) = moved(&world, &id, "/api/board/cards") {
            return Ok(moved);
        }
        let card = change::known(&world, &id)?;
        json_with_etag(&ctx, card_rev(&world, card), &crate::view::card::json(&world, card, &app.policy))
    })
    .await
}

/// Moves a card to another phase, where exactly one event leads there.
#[utoipa::path(post, path = "/api/board/cards/{id}/move", tag = "cards", params(("id" = String, Path)), request_body = MoveTo, responses(
    (status = 200, body = DoneJson), (status = 202, body = DoneJson, description = "a job was made"),
    (status = 409, description = "not-allowed, several-events, applying, saving, in-draft, conflict"),
    (status = 412, description = "precondition"), (status = 422, description = "invalid"),
    (status = 428, description = "synthesis-unread"),
))]
pub(crate) async fn move_to(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<MoveTo>,
) -> Result<Response, Problem> {
    let Some(to) = Phase::from_id(&body.to) else {
        let known: Vec<&str> = Phase::ALL.iter().map(|phase| phase.id()).collect();
        let detail = format!("to: {}", known.join(" | "));
        return Err(Problem::new(422, "invalid").field("to").detail(detail));
    };
    let rest = CallBody { reason: body.reason, note: body.note, from: body.from, confirm: body.confirm };
    call(app, ctx, &id, Wanted::Move(to), rest).await
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $path:literal, $wanted:expr;)*) => {$(
        $(#[$doc])*
        #[utoipa::path(post, path = $path, tag = "cards", params(("id" = String, Path)), request_body = Option<CallBody>, responses(
            (status = 200, body = DoneJson), (status = 202, body = DoneJson, description = "a job was made"),
            (status = 409, description = "not-allowed, applying, saving, in-draft, conflict, too-late"),
            (status = 412, description = "precondition"), (status = 422, description = "invalid"),
        ))]
        pub(crate) async fn $name(
            State(app): State<Arc<App>>,
            ctx: Ctx,
            Path(id): Path<String>,
            JsonBody(body): JsonBody<CallBody>,
        ) -> Result<Response, Problem> {
            call(app, ctx, &id, $wanted, body).await
        }
    )*};
}

calls! {
    /// Splits an intent into children with the planner.
    split = "/api/board/cards/{id}/split", Wanted::Event(EventKind::SplitStarted);
    /// Tries again what failed; after a failed build it starts afresh.
    retry = "/api/board/cards/{id}/retry", Wanted::Retry;
    /// Goes on with a failed build in its worktree.
    resume = "/api/board/cards/{id}/resume", Wanted::Event(EventKind::Resumed);
    /// Gives a failed build up; its work is kept as a ref.
    discard = "/api/board/cards/{id}/discard", Wanted::Event(EventKind::Discarded);
    /// Asks a run to stop.
    cancel = "/api/board/cards/{id}/cancel", Wanted::Event(EventKind::CancelAsked);
    /// Takes a start back that is not published yet.
    undo = "/api/board/cards/{id}/undo", Wanted::Event(EventKind::Undone);
    /// Puts a card away.
    archive = "/api/board/cards/{id}/archive", Wanted::Event(EventKind::Archived);
    /// Brings a card back from the archive, or a deleted idea or draft.
    restore = "/api/board/cards/{id}/restore", Wanted::Restore;
    /// Works an idea out with the planner; the draft that begins is the answer's card.
    plan = "/api/board/cards/{id}/plan", Wanted::Event(EventKind::PlannedOut);
    /// Has the planner revise an intent that came back with feedback; the draft is the answer's card.
    revise = "/api/board/cards/{id}/revise", Wanted::Event(EventKind::Revised);
    /// Has the planner try the round again; a revision works from the intent as it is now.
    draft_retry = "/api/board/cards/{id}/draft-retry", Wanted::Event(EventKind::DraftRetried);
}

/// Deletes an idea or a draft; it can be brought back for 24 hours.
#[utoipa::path(delete, path = "/api/board/cards/{id}", tag = "cards", params(("id" = String, Path)), responses(
    (status = 204, description = "deleted"), (status = 404, description = "not-found"), (status = 409, description = "not-allowed"),
))]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = card_id(&id)?;
    blocking(&app, move |app| {
        change::on_card(app, &ctx, &id, Wanted::Event(EventKind::Deleted), &Ask::default())?;
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

async fn card_after(
    app: Arc<App>,
    ctx: Ctx,
    id: &str,
    change: impl FnOnce(&App, &Ctx, &CardId) -> Result<(), Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let id = card_id(id)?;
    blocking(&app, move |app| {
        change(app, &ctx, &id)?;
        let world = app.world_of(&[&id])?;
        let card = change::known(&world, &id)?;
        let mut response =
            json_response(StatusCode::OK, &crate::view::card::json(&world, card, &app.policy))?;
        response.headers_mut().insert(header::ETAG, crate::reply::etag(card_rev(&world, card)));
        Ok(response)
    })
    .await
}

/// Says that a synthesis was read, so that it can be started.
#[utoipa::path(post, path = "/api/board/cards/{id}/read", tag = "cards", params(("id" = String, Path)), request_body = ReadBody, responses(
    (status = 200, body = CardJson), (status = 409, description = "gone"), (status = 412, description = "precondition"),
    (status = 422, description = "invalid: `confirm` is not true"),
))]
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<ReadBody>,
) -> Result<Response, Problem> {
    if !body.confirm {
        return Err(Problem::new(422, "invalid").field("confirm").detail_key("problem.confirm", &[]));
    }
    card_after(app, ctx, &id, marks::mark_read).await
}

/// Has the synthesis of a card's children written, the first or a further one; all of them must have ended.
#[utoipa::path(post, path = "/api/board/cards/{id}/synthesise", tag = "cards", params(("id" = String, Path)), responses(
    (status = 200, body = CardJson, description = "it is due; the watcher writes it"),
    (status = 409, description = "synthesis, parked, applying, saving"), (status = 412, description = "precondition"),
))]
pub(crate) async fn synthesise(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(_): JsonBody<NoBody>,
) -> Result<Response, Problem> {
    card_after(app, ctx, &id, marks::synthesise).await
}

/// Puts a card of Backlog or Geplant before another of its column, or last.
#[utoipa::path(post, path = "/api/board/cards/{id}/rank", tag = "cards", params(("id" = String, Path)), request_body = Option<RankBody>, responses(
    (status = 200, body = CardJson), (status = 412, description = "precondition"),
    (status = 422, description = "invalid: another column, or `before` is not in it; limit"),
))]
pub(crate) async fn rank(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<RankBody>,
) -> Result<Response, Problem> {
    let before = marks::before(body.before.as_deref())?;
    card_after(app, ctx, &id, move |app, ctx, id| marks::rank(app, ctx, id, before.as_ref())).await
}

/// Says which counts where a card's record was edited by hand: the file, between waiting phases, or the board.
#[utoipa::path(post, path = "/api/board/cards/{id}/adopt-file", tag = "cards", params(("id" = String, Path)), request_body = AdoptBody, responses(
    (status = 200, body = CardJson), (status = 409, description = "file, parked, applying, saving, in-draft"),
    (status = 412, description = "precondition"), (status = 422, description = "invalid"),
))]
pub(crate) async fn adopt_file(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<AdoptBody>,
) -> Result<Response, Problem> {
    let take = Take::parse(body.take.as_deref())?;
    card_after(app, ctx, &id, move |app, ctx, id| marks::adopt_file(app, ctx, id, take, None)).await
}

/// Links a card to a parent, or unlinks it.
#[utoipa::path(patch, path = "/api/board/cards/{id}/parent", tag = "cards", params(("id" = String, Path)), request_body = ParentBody, responses(
    (status = 200, body = CardJson), (status = 409, description = "link, parked, saving"), (status = 422, description = "invalid"),
))]
pub(crate) async fn parent(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<ParentBody>,
) -> Result<Response, Problem> {
    let Some(parent) = body.parent_id else {
        return Err(Problem::new(422, "invalid").field("parent_id").detail("parent_id: string | null"));
    };
    let parent = change::parent_id(parent.as_deref().unwrap_or_default())?;
    card_after(app, ctx, &id, move |app, ctx, id| change::set_parent(app, ctx, id, parent.as_ref())).await
}

/// Chooses profile and budget of a card.
#[utoipa::path(patch, path = "/api/board/cards/{id}/profile", tag = "cards", params(("id" = String, Path)), request_body = ProfileBody, responses(
    (status = 200, body = CardJson), (status = 422, description = "invalid"),
))]
pub(crate) async fn profile(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<ProfileBody>,
) -> Result<Response, Problem> {
    let choice = Choice { profile: body.profile, reason: body.reason, iterations: body.iterations };
    card_after(app, ctx, &id, move |app, ctx, id| change::set_choice(app, ctx, id, choice)).await
}

//! The API of the board's settings: the profile of each role, and pauses.
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use board_core::edge::clock;
use board_core::model::board::{Pause, PauseTarget};
use board_core::model::event::{Refusal, Said};
use board_core::model::job::Lane;
use board_core::model::profile::{Choice, RoleName};
use serde::{Deserialize, Serialize};

use super::blocking;
use crate::app::App;
use crate::change::on_board;
use crate::middleware::Ctx;
use crate::reply::{JsonBody, Problem, json_response};

/// Longest reason of a pause, in characters.
const MAX_REASON_CHARS: usize = 500;

/// The profile of a role.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct RoleJson {
    /// The role.
    role: &'static str,
    /// The profile that a new job of it gets.
    profile: String,
    /// Iterations that it may use.
    iterations: u32,
    /// The configured profiles.
    profiles: Vec<String>,
    /// Whether the profile can be chosen here; the planner's is configuration only.
    choosable: bool,
}

/// Another profile for a role.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RoleBody {
    /// A configured profile; null goes back to the configuration.
    profile: Option<String>,
}

/// What is paused or goes on.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PauseBody {
    /// A lane; with neither lane nor profile everything.
    pub(crate) lane: Option<String>,
    /// A profile.
    pub(crate) profile: Option<String>,
    /// Why.
    pub(crate) reason: Option<String>,
}

fn role_json(app: &App, role: RoleName) -> Result<RoleJson, Problem> {
    let (profile, iterations) = app.board()?.resolve(role, &Choice::default(), &app.policy);
    let profiles = app.policy.profiles.keys().cloned().collect();
    Ok(RoleJson { role: role.id(), profile, iterations, profiles, choosable: role != RoleName::Planner })
}

fn role_of(id: &str) -> Result<RoleName, Problem> {
    super::events::role(id)
}

/// The profile of a role.
#[utoipa::path(get, path = "/api/board/roles/{role}", tag = "settings", params(("role" = String, Path)), responses(
    (status = 200, body = RoleJson), (status = 404, description = "not-found"),
))]
pub(crate) async fn role(
    State(app): State<Arc<App>>,
    _: Ctx,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let role = role_of(&id)?;
    blocking(&app, move |app| json_response(StatusCode::OK, &role_json(app, role)?)).await
}

/// Chooses the profile of a role.
#[utoipa::path(put, path = "/api/board/roles/{role}", tag = "settings", params(("role" = String, Path)), request_body = RoleBody, responses(
    (status = 200, body = RoleJson), (status = 404, description = "not-found"), (status = 422, description = "invalid"),
))]
pub(crate) async fn set_role(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<RoleBody>,
) -> Result<Response, Problem> {
    let role = role_of(&id)?;
    blocking(&app, move |app| {
        let known: Vec<&str> = app.policy.profiles.keys().map(String::as_str).collect();
        let invalid = |problem: Said| Refusal::Invalid { field: "profile", problem };
        on_board(app, &ctx, "role", body.profile.as_deref(), |board| {
            if role == RoleName::Planner {
                return Err(invalid(Said::new(
                    "das Profil des Planers steht allein in der Konfiguration",
                    "the planner's profile is set in the configuration only",
                )));
            }
            match &body.profile {
                Some(profile) if known.contains(&profile.as_str()) => {
                    board.roles.insert(role, profile.clone());
                }
                Some(profile) => {
                    return Err(invalid(Said::new(
                        format!("„{profile}“ ist nicht konfiguriert; es gibt: {}", known.join(", ")),
                        format!("{profile} is not configured; there are: {}", known.join(", ")),
                    )));
                }
                None => {
                    board.roles.remove(&role);
                }
            }
            Ok(())
        })?;
        json_response(StatusCode::OK, &role_json(app, role)?)
    })
    .await
}

fn target(app: &App, body: &PauseBody) -> Result<PauseTarget, Problem> {
    match (&body.lane, &body.profile) {
        (None, None) => Ok(PauseTarget::All),
        (Some(lane), None) => Lane::from_id(lane).map(PauseTarget::Lane).ok_or_else(|| {
            let known: Vec<&str> = Lane::ALL.iter().map(|lane| lane.id()).collect();
            Problem::new(422, "invalid").field("lane").detail(format!("lane: {}", known.join(" | ")))
        }),
        (None, Some(profile)) if app.policy.profiles.contains_key(profile) => {
            Ok(PauseTarget::Profile(profile.clone()))
        }
        (None, Some(_)) => {
            Err(Problem::new(422, "invalid").field("profile").detail("profile: not configured"))
        }
        (Some(_), Some(_)) => Err(Problem::new(422, "invalid").field("lane").detail("lane | profile")),
    }
}

/// Pauses a lane, a profile or everything until it is told to go on. Idempotent.
pub(crate) fn do_pause(app: &App, ctx: &Ctx, body: &PauseBody) -> Result<(), Problem> {
    let target = target(app, body)?;
    let reason = body.reason.as_deref().unwrap_or_default().trim();
    if reason.chars().count() > MAX_REASON_CHARS {
        return Err(Problem::new(422, "invalid")
            .field("reason")
            .detail(format!("reason: ≤ {MAX_REASON_CHARS}")));
    }
    let by = ctx.identity.name.clone();
    on_board(app, ctx, "pause", Some(reason), |board| {
        board.pauses.retain(|pause| !(pause.target == target && pause.until.is_none()));
        let reason = if reason.is_empty() { format!("angehalten von {by}") } else { reason.to_owned() };
        board.pauses.push(Pause { target, since: clock::now(), until: None, by, reason, strikes: 0 });
        Ok(())
    })
}

/// Lets a lane, a profile or everything go on. Idempotent.
pub(crate) fn do_resume(app: &App, ctx: &Ctx, body: &PauseBody) -> Result<(), Problem> {
    let target = target(app, body)?;
    on_board(app, ctx, "resume-lanes", None, |board| {
        board.pauses.retain(|pause| target != PauseTarget::All && pause.target != target);
        Ok(())
    })
}

/// Pauses a lane, a profile or everything.
#[utoipa::path(post, path = "/api/board/pause", tag = "settings", request_body = Option<PauseBody>, responses(
    (status = 204), (status = 422, description = "invalid"),
))]
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    JsonBody(body): JsonBody<PauseBody>,
) -> Result<StatusCode, Problem> {
    blocking(&app, move |app| do_pause(app, &ctx, &body)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lets a lane, a profile or everything go on.
#[utoipa::path(post, path = "/api/board/resume-lanes", tag = "settings", request_body = Option<PauseBody>, responses(
    (status = 204), (status = 422, description = "invalid"),
))]
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    JsonBody(body): JsonBody<PauseBody>,
) -> Result<StatusCode, Problem> {
    blocking(&app, move |app| do_resume(app, &ctx, &body)).await?;
    Ok(StatusCode::NO_CONTENT)
}

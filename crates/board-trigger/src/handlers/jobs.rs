//! The API of jobs and their logs.
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use board_core::model::job::JobRef;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::blocking;
use crate::app::App;
use crate::middleware::Ctx;
use crate::reply::{Problem, json_response, json_with_etag};
use crate::view::job::{self, JobLine, JobsJson, LogPart};

/// One job: where it is, and what came of it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct JobDetail {
    /// Its id.
    id: String,
    /// The card.
    card_id: String,
    /// Where it is, while it is current.
    job: Option<JobLine>,
    /// The newest attempt that left a log.
    log: Option<String>,
    /// Its transitions, oldest first.
    history: Vec<crate::view::card::StepJson>,
}

/// From where a log is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LogQuery {
    /// In bytes; without it the end of the log.
    offset: Option<u64>,
}

fn id(text: &str) -> Result<Uuid, Problem> {
    Uuid::try_parse(text).map_err(|_| Problem::new(404, "not-found"))
}

/// All current jobs with their places, and those that ended last.
#[utoipa::path(get, path = "/api/board/jobs", tag = "jobs", responses((status = 200, body = JobsJson), (status = 304)))]
pub(crate) async fn list(State(app): State<Arc<App>>, ctx: Ctx) -> Result<Response, Problem> {
    let language = ctx.language;
    let jobs = blocking(&app, move |app| Ok(job::jobs(&app.world()?, language))).await?;
    json_with_etag(&ctx, jobs.rev, &jobs)
}

/// One job.
#[utoipa::path(get, path = "/api/board/jobs/{id}", tag = "jobs", params(("id" = String, Path)), responses(
    (status = 200, body = JobDetail), (status = 404, description = "not-found"),
))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(text): Path<String>,
) -> Result<Response, Problem> {
    let job = id(&text)?;
    blocking(&app, move |app| {
        let world = app.world()?;
        let card = job::card_of_job(&world, job).ok_or_else(|| Problem::new(404, "not-found"))?;
        let current = card.current_job().filter(|own| own.id == job);
        let logs = app.settings.board.state_dir.join("logs");
        let steps = card.history.iter().filter(|step| step.job.is_some_and(|own| own.job == job));
        let detail = JobDetail {
            id: job.to_string(),
            card_id: card.id.to_string(),
            job: current.map(|own| job::line(&world, card, own, ctx.language)),
            log: job::newest_log(&logs, job).map(|log| log.to_string()),
            history: steps.map(crate::view::card::StepJson::from).collect(),
        };
        json_response(StatusCode::OK, &detail)
    })
    .await
}

/// A part of a job's log, by whole lines.
#[utoipa::path(get, path = "/api/board/jobs/{id}/log", tag = "jobs",
    params(("id" = String, Path), ("offset" = Option<u64>, Query, description = "bytes; without it the end")),
    responses((status = 200, body = LogPart), (status = 404, description = "not-found")))]
pub(crate) async fn log(
    State(app): State<Arc<App>>,
    _: Ctx,
    Path(text): Path<String>,
    Query(query): Query<LogQuery>,
) -> Result<Response, Problem> {
    let job = id(&text)?;
    blocking(&app, move |app| {
        let world = app.world()?;
        job::card_of_job(&world, job).ok_or_else(|| Problem::new(404, "not-found"))?;
        let logs = app.settings.board.state_dir.join("logs");
        let newest = job::newest_log(&logs, job).unwrap_or(JobRef { job, attempt: 1 });
        json_response(StatusCode::OK, &job::read_log(&logs, newest, query.offset)?)
    })
    .await
}

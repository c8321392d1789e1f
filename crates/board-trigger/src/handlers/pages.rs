//! The pages beside the board: jobs, archive, system, help; and the small forms on them.
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use board_core::edge::lock::{holder, watcher_lock};
use board_core::edge::settings::{Language, SandboxMode};
use board_core::model::card::Card;
use board_core::model::job::{JobRef, JobType, Lane};
use board_core::model::phase::Phase;
use board_core::model::profile::{Choice, RoleName};
use minijinja::value::Serde;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::settings::{PauseBody, do_pause, do_resume};
use super::{blocking, frame, html, pause_words};
use crate::app::App;
use crate::i18n::{LANGUAGE_COOKIE, from_id, t};
use crate::middleware::Ctx;
use crate::reply::{Form, FormBody, Problem, see_other};
use crate::route::own_page;
use crate::view::job::{self, JobLine, LogPart, MAX_LOG_LINES, MAX_LOG_PART, PauseJson};
use crate::view::{card as card_view, column_label, phase_label, text};
use crate::world::World;

/// Archived cards that the page lists at once.
const ARCHIVE_SHOWN: usize = 500;
/// How long a chosen language is kept, in seconds: a year.
const LANGUAGE_AGE_S: u32 = 31_536_000;
/// Free bytes below which the disk is worth a word.
const DISK_LOW: u64 = 1024 * 1024 * 1024;

/// A job with its words.
#[derive(Debug, Serialize)]
struct JobRow {
    #[serde(flatten)]
    line: JobLine,
    kind_label: String,
    lane_label: String,
    place_label: String,
}

fn row(line: JobLine, language: Language) -> JobRow {
    let kind = JobType::ALL.into_iter().find(|kind| kind.id() == line.kind);
    JobRow {
        kind_label: kind.map_or_else(|| line.kind.to_owned(), |kind| card_view::job_label(kind, language)),
        lane_label: t(language, &format!("lane.{}", line.lane), &[]),
        place_label: job::place_label(line.place, language),
        line,
    }
}

/// `GET /jobs`
pub(crate) async fn jobs(State(app): State<Arc<App>>, ctx: Ctx) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let world = app.world()?;
        let jobs = job::jobs(&world, ctx.language);
        let rows: Vec<JobRow> = jobs.jobs.into_iter().map(|line| row(line, ctx.language)).collect();
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            jobs => Serde(rows),
            ended => Serde(jobs.ended),
        };
        html(app, "jobs.html", context)
    })
    .await
}

/// Which part of a log is wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LogQuery {
    /// In bytes; without it the end.
    offset: Option<u64>,
}

/// The part of a log that a page shows. An offset need not be the beginning of a line: what is left of a cut
/// one is not shown.
fn log_part(app: &App, reference: JobRef, offset: Option<u64>) -> Result<LogPart, Problem> {
    let logs = app.settings.board.state_dir.join("logs");
    let mut part = job::read_log(&logs, reference, offset)?;
    if offset.is_some_and(|offset| offset > 0) && part.lines.first().is_some_and(|line| line.t.is_empty()) {
        part.lines.remove(0);
    }
    let surplus = part.lines.len().saturating_sub(MAX_LOG_LINES);
    part.lines.drain(..surplus);
    Ok(part)
}

/// `GET /jobs/{id}`
pub(crate) async fn job(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Path(id): Path<String>,
    Query(query): Query<LogQuery>,
) -> Result<Response, Problem> {
    let id = Uuid::try_parse(&id).map_err(|_| Problem::new(404, "not-found"))?;
    blocking(&app, move |app| {
        let world = app.world()?;
        let card = job::card_of_job(&world, id).ok_or_else(|| Problem::new(404, "not-found"))?;
        let own = card.job.as_ref().filter(|own| own.id == id);
        let line = own.map(|own| row(job::line(&world, card, own, ctx.language), ctx.language));
        let newest = job::newest_log(&app.settings.board.state_dir.join("logs"), id);
        let part = log_part(app, newest.unwrap_or(JobRef { job: id, attempt: 1 }), query.offset)?;
        let page = card_view::page(&world, card, &app.policy, ctx.language, Vec::new());
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            id => id.to_string(),
            job => Serde(line),
            page => Serde(page),
            attempt => newest.map(|newest| newest.attempt),
            older => (part.offset > 0).then(|| part.offset.saturating_sub(MAX_LOG_PART)),
            newer => (part.next_offset < part.size && query.offset.is_some()).then_some(part.next_offset),
            log => Serde(part),
        };
        html(app, "job.html", context)
    })
    .await
}

/// What the archive is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ArchiveQuery {
    /// Words that title or id contain.
    q: String,
}

/// A card in the archive.
#[derive(Debug, Serialize)]
struct ArchiveRow {
    id: String,
    title: String,
    source_label: String,
    from: Option<&'static str>,
    changed_at: String,
}

/// `GET /archiv`
pub(crate) async fn archive(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    Query(query): Query<ArchiveQuery>,
) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let world = app.world()?;
        let words = query.q.to_lowercase();
        let fits = |card: &&Card| {
            let hay = format!("{} {}", world.title(card), card.id).to_lowercase();
            card.phase == Phase::Archiviert && words.split_whitespace().all(|word| hay.contains(word))
        };
        let mut cards: Vec<&Card> = world.cards().filter(fits).collect();
        cards.sort_by(|a, b| b.changed_at.cmp(&a.changed_at).then(a.id.cmp(&b.id)));
        let total = cards.len();
        let rows: Vec<ArchiveRow> = cards
            .into_iter()
            .take(ARCHIVE_SHOWN)
            .map(|card| ArchiveRow {
                id: card.id.to_string(),
                title: text::excerpt(world.title(card), 120),
                source_label: t(ctx.language, &format!("source.{}", card.source.id()), &[]),
                from: card.archived_from.map(|from| phase_label(from, ctx.language)),
                changed_at: card.changed_at.to_string(),
            })
            .collect();
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            cards => Serde(rows),
            total => total,
            q => query.q,
        };
        html(app, "archive.html", context)
    })
    .await
}

/// One thing that the system page says.
#[derive(Debug, Serialize)]
struct Check {
    /// `good`, `warn`, `bad` or `info`.
    tone: &'static str,
    name: String,
    value: String,
    remedy: Option<String>,
}

fn checks(app: &App, world: &World, language: Language) -> Vec<Check> {
    let say = |key: &str, args: &[(&str, &str)]| t(language, key, args);
    let mut out = Vec::new();
    let mut put = |tone: &'static str, name: String, value: String, remedy: Option<String>| {
        out.push(Check { tone, name, value, remedy });
    };
    let documents = &world.documents;
    let repository = app.settings.board.repository.display().to_string();
    match &documents.trouble {
        Some(why) => put(
            "bad",
            say("system.repository", &[]),
            text::excerpt(why, 300),
            Some(say("system.repository.remedy", &[("path", &repository)])),
        ),
        None => put("good", say("system.repository", &[]), repository, None),
    }
    let branch = documents.branch.clone().unwrap_or_else(|| "–".to_owned());
    let elsewhere = documents.is_elsewhere().then(|| say("system.branch.remedy", &[("branch", &branch)]));
    put(if elsewhere.is_some() { "warn" } else { "good" }, say("system.branch", &[]), branch, elsewhere);
    let broken = documents.broken().len();
    put(
        if broken > 0 { "warn" } else { "good" },
        say("system.broken", &[]),
        broken.to_string(),
        (broken > 0).then(|| say("system.broken.remedy", &[])),
    );
    let waiting = world.board.outbox.iter().filter(|entry| entry.committed.is_none()).count();
    let audit = match (app.settings.audit.commit, waiting) {
        (false, _) => say("system.commits.off", &[]),
        (true, 0) => say("system.commits.none", &[]),
        (true, n) => say("system.commits.waiting", &[("n", &n.to_string())]),
    };
    put("info", say("system.commits", &[]), audit, None);
    let state_dir = &app.settings.board.state_dir;
    match holder(&watcher_lock(state_dir)) {
        Some(holder) => put("info", say("system.watcher", &[]), holder.to_string(), None),
        None => put(
            "warn",
            say("system.watcher", &[]),
            say("system.watcher.none", &[]),
            Some(say("system.watcher.remedy", &[])),
        ),
    }
    let place = state_dir.display().to_string();
    match nix::sys::statvfs::statvfs(state_dir.as_path()) {
        Ok(about) => {
            let free = about.blocks_available() * about.fragment_size();
            let low = free < DISK_LOW;
            let gib = format!("{:.1}", free as f64 / f64::from(1 << 30));
            put(
                if low { "warn" } else { "good" },
                say("system.state", &[]),
                say("system.state.free", &[("path", &place), ("gib", &gib)]),
                low.then(|| say("system.state.remedy", &[])),
            );
        }
        Err(error) => put("bad", say("system.state", &[]), format!("{place}: {error}"), None),
    }
    let open = app.auth.is_open();
    put(
        if open { "warn" } else { "good" },
        say("system.identity", &[]),
        app.auth.chain().to_owned(),
        open.then(|| say("system.identity.remedy", &[])),
    );
    match app.settings.sandbox.mode {
        SandboxMode::Bubblewrap => put("good", say("system.sandbox", &[]), "bubblewrap".to_owned(), None),
        SandboxMode::None => put(
            "warn",
            say("system.sandbox", &[]),
            say("system.sandbox.none", &[]),
            Some(say("system.sandbox.remedy", &[])),
        ),
    }
    put("info", say("system.version", &[]), format!("board-agent {}", env!("CARGO_PKG_VERSION")), None);
    out
}

/// A role with the profile that a new job of it gets.
#[derive(Debug, Serialize)]
struct RoleRow {
    label: String,
    profile: String,
    iterations: u32,
    about: String,
}

/// Something that can be paused.
#[derive(Debug, Serialize)]
struct PauseRow {
    what: &'static str,
    name: String,
    label: String,
    pause: Option<PauseJson>,
}

fn pausable(app: &App, world: &World, language: Language) -> Vec<PauseRow> {
    let pauses = job::pauses(world);
    let row = |what: &'static str, name: &str, label: String| PauseRow {
        what,
        name: name.to_owned(),
        label,
        pause: pauses
            .iter()
            .find(|pause| pause.what == what && pause.name.as_deref().unwrap_or_default() == name)
            .cloned(),
    };
    let mut rows = vec![row("all", "", t(language, "pause.all", &[]))];
    rows.extend(
        Lane::ALL
            .into_iter()
            .map(|lane| row("lane", lane.id(), t(language, &format!("lane.{}", lane.id()), &[]))),
    );
    rows.extend(
        app.policy
            .profiles
            .keys()
            .map(|name| row("profile", name, t(language, "pause.profile", &[("name", name)]))),
    );
    rows
}

/// `GET /system`: tells of the machine, so it is the operator's alone.
pub(crate) async fn system(State(app): State<Arc<App>>, ctx: Ctx) -> Result<Response, Problem> {
    ctx.operator()?;
    blocking(&app, move |app| {
        let world = app.world()?;
        let roles: Vec<RoleRow> = RoleName::ALL
            .into_iter()
            .map(|role| {
                let (profile, iterations) = world.board.resolve(role, &Choice::default(), &app.policy);
                let about = app.settings.profiles.get(&profile);
                RoleRow {
                    label: t(ctx.language, &format!("role.{}", role.id()), &[]),
                    about: about.map(|about| about.description.clone()).unwrap_or_default(),
                    profile,
                    iterations,
                }
            })
            .collect();
        let paused: Vec<String> =
            job::pauses(&world).iter().map(|pause| pause_words(pause, ctx.language)).collect();
        let context = minijinja::context! {
            frame => Serde(frame(app, &ctx, &world)),
            checks => Serde(checks(app, &world, ctx.language)),
            roles => Serde(roles),
            pausable => Serde(pausable(app, &world, ctx.language)),
            paused => paused.len(),
        };
        html(app, "system.html", context)
    })
    .await
}

/// `GET /hilfe`
pub(crate) async fn help(State(app): State<Arc<App>>, ctx: Ctx) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let world = app.world()?;
        let phases: Vec<(&str, &str, String)> = Phase::ALL
            .into_iter()
            .map(|phase| {
                let column = phase.column().map(|column| column_label(column, ctx.language));
                (phase.id(), phase_label(phase, ctx.language), column.unwrap_or_else(|| "–".to_owned()))
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

/// What a pause's form means; `all` needs no name.
fn pause_of(form: &Form) -> Result<PauseBody, Problem> {
    let (what, name) = (form.get("what").unwrap_or_default(), form.text("name"));
    let mut body = PauseBody { reason: form.text("reason"), ..PauseBody::default() };
    match (what, name) {
        ("all", _) => {}
        ("lane", Some(name)) => body.lane = Some(name),
        ("profile", Some(name)) => body.profile = Some(name),
        _ => {
            return Err(Problem::new(422, "invalid").field("what").detail("what: all | lane | profile"));
        }
    }
    Ok(body)
}

/// `POST /system/pause`
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    FormBody(form): FormBody,
) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let done = pause_of(&form).and_then(|body| do_pause(app, &ctx, &body));
        done.map_err(|problem| problem.form(form.0.clone()))?;
        Ok(see_other("/system"))
    })
    .await
}

/// `POST /system/resume`
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    ctx: Ctx,
    FormBody(form): FormBody,
) -> Result<Response, Problem> {
    blocking(&app, move |app| {
        let done = pause_of(&form).and_then(|body| do_resume(app, &ctx, &body));
        done.map_err(|problem| problem.form(form.0.clone()))?;
        Ok(see_other("/system"))
    })
    .await
}

/// `POST /sprache`: a cookie, and back to where the form stood.
pub(crate) async fn language(_: Ctx, FormBody(form): FormBody) -> Result<Response, Problem> {
    let Some(language) = form.get("lang").and_then(from_id) else {
        return Err(Problem::new(422, "invalid").field("lang").detail("lang: de | en"));
    };
    let mut response = see_other(form.get("zu").and_then(own_page).unwrap_or("/"));
    let id = language.id();
    let cookie = format!("{LANGUAGE_COOKIE}={id}; Path=/; Max-Age={LANGUAGE_AGE_S}; HttpOnly; SameSite=Lax");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(&str, &str)]) -> Form {
        Form(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_pause_names_what_it_holds_back() {
        let lane = pause_of(&form(&[("what", "lane"), ("name", "build"), ("reason", " Pause ")])).unwrap();
        assert_eq!(
            (lane.lane.as_deref(), lane.profile, lane.reason.as_deref()),
            (Some("build"), None, Some("Pause"))
        );
        let all = pause_of(&form(&[("what", "all"), ("name", "build")])).unwrap();
        assert_eq!((all.lane, all.profile), (None, None));
        for wrong in [&[("what", "lane")][..], &[("what", "alles")], &[]] {
            assert_eq!(pause_of(&form(wrong)).unwrap_err().status, 422);
        }
    }
}

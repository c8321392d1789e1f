//! Changes of the board: one way for the pages, the API and the control socket.
//!
//! What has to be read from the repository is read before the state lock is taken; under it the model
//! decides, the state is written, and the queue is made to agree. Every change leaves a line in the audit
//! log. All of this is blocking work.
use board_core::edge::clock;
use board_core::edge::journal::{self, Life};
use board_core::edge::orders::StartFrom;
use board_core::edge::store::{Held, StoreError, UpdateError};
use board_core::model::board::{Board, Stamp};
use board_core::model::card::{Card, CardId};
use board_core::model::event::{Applied, Event, EventKind, Refusal};
use board_core::model::phase::Phase;
use board_core::model::slug::Slug;
use uuid::Uuid;

pub(crate) mod marks;
pub(crate) mod old;
mod prepare;
mod problems;
pub(crate) mod texts;

use problems::refusal_problem;
pub(crate) use problems::{disk_failing, disk_full, store_problem};

use crate::app::App;
use crate::audit_log::Entry;
use crate::middleware::Ctx;
use crate::reply::Problem;
use crate::view::{actions, board::card_rev};
use crate::world::World;

/// What is asked of a card.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    /// A reason.
    pub(crate) reason: Option<String>,
    /// A note.
    pub(crate) note: Option<String>,
    /// Where a build that was built before begins.
    pub(crate) from: Option<StartFrom>,
    /// The operator says that he has read a synthesis.
    pub(crate) confirm: bool,
    /// The revision of the card on which the form was made.
    pub(crate) rev: Option<u64>,
    /// The slug of what becomes an intent.
    pub(crate) slug: Option<String>,
    /// Its text.
    pub(crate) text: Option<String>,
    /// An answer to the planner, or the note beside an option.
    pub(crate) answer: Option<String>,
    /// The option that was taken.
    pub(crate) option: Option<String>,
    /// The round that is answered.
    pub(crate) round: Option<u32>,
}

/// Which event is meant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    /// This one.
    Event(EventKind),
    /// The one that leads there.
    Move(Phase),
    /// The one that tries again what failed.
    Retry,
    /// Bringing back: from the archive, or a deleted one.
    Restore,
}

/// What a change did.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    /// What the model says.
    pub(crate) applied: Applied,
    /// Place in the queue, where a job was published.
    pub(crate) position: Option<usize>,
}

/// Carries out what is asked of a card.
///
/// # Errors
/// Why not; nothing was changed then.
pub(crate) fn on_card(app: &App, ctx: &Ctx, id: &CardId, wanted: Wanted, ask: &Ask) -> Result<Done, Problem> {
    ctx.operator()?;
    let world = app.world_of(&[id])?;
    let result = decide(app, ctx, &world, id, wanted, ask);
    let action = match wanted {
        Wanted::Event(event) => event.id(),
        Wanted::Move(_) => "move",
        Wanted::Retry => "retry",
        Wanted::Restore => "restore",
    };
    let text = [&ask.reason, &ask.note, &ask.option, &ask.answer, &ask.slug];
    let text = text.into_iter().find_map(|text| text.as_deref().filter(|text| !text.is_empty()));
    record(app, ctx, action, Some(id), text, &result);
    result
}

fn decide(
    app: &App,
    ctx: &Ctx,
    world: &World,
    id: &CardId,
    wanted: Wanted,
    ask: &Ask,
) -> Result<Done, Problem> {
    if let Some(done) = repeated(&world.board, ctx) {
        return Ok(done);
    }
    if let Wanted::Restore = wanted
        && world.card(id).is_none()
    {
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        let stamp = stamp(ctx);
        let applied =
            update(&mut held, |board| board.restore(id, &stamp)).map_err(|e| e.problem(&held, id))?;
        return Ok(Done { applied, position: None });
    }
    let card = changeable(ctx, world, id)?;
    // Whoever answers what another tab answered is shown that answer, not that something changed.
    let old_round = matches!(wanted, Wanted::Event(EventKind::Answered))
        && card.draft.as_ref().is_some_and(|draft| ask.round.is_some_and(|round| round != draft.round));
    let rev = card_rev(world, card);
    if !old_round && (!ctx.matches(rev) || ask.rev.is_some_and(|given| given != rev)) {
        let current = serde_json::to_value(crate::view::card::json(world, card, &app.policy))
            .map_err(anyhow::Error::from)?;
        return Err(Problem::new(412, "precondition").rev(rev).current(current));
    }
    let kind = choose(&world.board, card, wanted, ask)?;
    let event = prepare::prepare(app, ctx, world, card, kind, ask)?;
    let policy = app.policy_now(&world.board);
    let mut held = app.store.hold_patiently().map_err(store_problem)?;
    // A boardctl is no browser: what it starts is meant.
    let stamp =
        Stamp { park: !matches!(ctx.identity.source, crate::auth::AuthSource::Control), ..stamp(ctx) };
    let event = with_lookup(app, &held, id, event)?;
    let confirm = ask.confirm && matches!(kind, EventKind::Started | EventKind::SplitStarted);
    let applied = update(&mut held, |board| {
        texts::give_way(board, id, kind, &stamp)?;
        board.take_in(card);
        if confirm {
            board.mark_read(id, &stamp)?;
        }
        board.apply(id, event, &stamp, &policy)
    })
    .map_err(|e| e.problem(&held, id))?;
    let position = app.settle(&mut held, applied.job);
    Ok(Done { applied, position })
}

/// The answer of an earlier request with the same key.
fn repeated(board: &Board, ctx: &Ctx) -> Option<Done> {
    let request = board.request(ctx.key?)?;
    let card = board.cards.get(&request.card);
    let event = actions::event_of(&request.event)?;
    let applied = Applied {
        card: request.card.clone(),
        event,
        from: None,
        to: card.map(|card| card.phase),
        job: request.job.map(|job| board_core::model::job::JobRef { job, attempt: 1 }),
        parked_until: card.and_then(|card| card.parked.as_ref()).map(|parked| parked.not_before),
        repeated: true,
    };
    Some(Done { applied, position: None })
}

/// The card, or why there is none: never was, deleted, under another id.
pub(crate) fn known<'a>(world: &'a World, id: &CardId) -> Result<&'a Card, Problem> {
    if let Some(card) = world.card(id) {
        return Ok(card);
    }
    if let Some(mut gone) = problems::gone(&world.board, id) {
        gone.status = 410;
        return Err(gone);
    }
    if let Some(trouble) = &world.documents.trouble {
        // Nobody knows whether there is such a card: the repository tells, and cannot be read.
        return Err(Problem::new(503, "fault").detail(trouble.clone()).retry_after(10));
    }
    Err(Problem::new(404, "not-found").detail_key("problem.not-found.card", &[("id", &id.to_string())]))
}

/// The card that somebody wants to change. One that has another id by now is asked for under that (308), so that
/// the refusal names what fits it; one that was deleted is a conflict.
fn changeable<'a>(ctx: &Ctx, world: &'a World, id: &CardId) -> Result<&'a Card, Problem> {
    if let Some(now) = world.board.redirect(id).filter(|_| world.card(id).is_none()) {
        let path = ctx.uri.path();
        let location = if path.starts_with("/entwuerfe/") {
            format!("/karten/{now}")
        } else {
            path.replace(&id.to_string(), &now.to_string())
        };
        return Err(Problem::new(308, "renamed").location(location));
    }
    known(world, id).map_err(|mut problem| {
        if problem.status == 410 {
            problem.status = 409;
        }
        problem
    })
}

fn choose(board: &Board, card: &Card, wanted: Wanted, ask: &Ask) -> Result<EventKind, Problem> {
    match wanted {
        Wanted::Event(event) => Ok(event),
        Wanted::Restore => Ok(EventKind::BroughtBack),
        Wanted::Retry => actions::retry(board, card).ok_or_else(|| not_allowed(board, card)),
        Wanted::Move(to) => {
            let events = actions::moves_to(board, card, to);
            let reasoned = |event: &&EventKind| actions::needs(**event) == Some(actions::Needs::Reason);
            match (events.as_slice(), ask.reason.is_some()) {
                ([], _) => Err(not_allowed(board, card)),
                ([event], _) => Ok(*event),
                // Two ways back, of which one has to be justified: a reason tells which is meant.
                (several, true) if several.iter().filter(reasoned).count() == 1 => {
                    several.iter().find(reasoned).copied().ok_or_else(|| not_allowed(board, card))
                }
                (several, _) => {
                    let calls: Vec<_> = several.iter().map(|event| actions::call(card, *event)).collect();
                    let calls = serde_json::to_value(calls).map_err(anyhow::Error::from)?;
                    Err(Problem::new(409, "several-events").allowed(actions::allowed(board, card), calls))
                }
            }
        }
    }
}

/// The refusal that lists what does fit.
fn not_allowed(board: &Board, card: &Card) -> Problem {
    let calls = serde_json::to_value(actions::calls(board, card)).unwrap_or_default();
    let job = card.current_job().map(|job| job.id);
    Problem::new(409, "not-allowed")
        .detail_key("problem.not-allowed.detail", &[("phase", card.phase.id())])
        .rev(card.rev)
        .allowed(actions::allowed(board, card), calls)
        .job(job)
}

/// For an undo: whether a file of the job is in the queue, looked up under the state lock.
fn with_lookup(app: &App, held: &Held<'_>, id: &CardId, event: Event) -> Result<Event, Problem> {
    if event.kind() != EventKind::Undone {
        return Ok(event);
    }
    let job = held.board().cards.get(id).and_then(|card| card.job.as_ref()).map(|job| job.reference());
    let in_queue = match job {
        Some(job) => app.is_in_queue(job).map_err(|e| Problem::from(anyhow::Error::from(e)))?,
        None => false,
    };
    Ok(Event::Undone { in_queue })
}

/// Makes an idea.
///
/// # Errors
/// Why not.
pub(crate) fn create_idea(app: &App, ctx: &Ctx, title: &str, text: &str) -> Result<Done, Problem> {
    ctx.operator()?;
    // The id follows from the key, so that a repetition finds the first one even after 48 hours.
    let id = ctx.key.map_or_else(Uuid::new_v4, |key| Uuid::new_v5(&key, b"idea"));
    let result = (|| {
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        let card = CardId::Idea(id);
        if let Some(done) = repeated(held.board(), ctx) {
            return Ok(done);
        }
        let stamp = stamp(ctx);
        let applied = update(&mut held, |board| board.create_idea(id, title, text, &stamp))
            .map_err(|e| e.problem(&held, &card))?;
        Ok(Done { applied, position: None })
    })();
    record(app, ctx, EventKind::IdeaCreated.id(), Some(&CardId::Idea(id)), Some(title), &result);
    result
}

/// Begins a draft with the planner.
///
/// # Errors
/// Why not.
pub(crate) fn create_draft(app: &App, ctx: &Ctx, topic: &str) -> Result<Done, Problem> {
    ctx.operator()?;
    let id = prepare::draft_id(ctx);
    let result = (|| {
        let policy = app.policy_now(app.board()?.as_ref());
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        let card = CardId::Draft(id);
        if let Some(done) = repeated(held.board(), ctx) {
            return Ok(done);
        }
        let stamp = stamp(ctx);
        let applied = update(&mut held, |board| board.create_draft(id, topic, &stamp, &policy))
            .map_err(|e| e.problem(&held, &card))?;
        let position = app.settle(&mut held, applied.job);
        Ok(Done { applied, position })
    })();
    record(app, ctx, EventKind::DraftCreated.id(), Some(&CardId::Draft(id)), Some(topic), &result);
    result
}

/// Links a card to a parent, or unlinks it.
///
/// # Errors
/// Why not.
pub(crate) fn set_parent(app: &App, ctx: &Ctx, id: &CardId, parent: Option<&CardId>) -> Result<(), Problem> {
    ctx.operator()?;
    let both: Vec<&CardId> = std::iter::once(id).chain(parent).collect();
    let world = app.world_of(&both)?;
    let result = (|| {
        let card = known(&world, id)?;
        if !ctx.matches(card_rev(&world, card)) {
            return Err(Problem::new(412, "precondition").rev(card_rev(&world, card)));
        }
        let parent_card = match parent {
            Some(parent) => Some(known(&world, parent).map_err(|_| {
                Problem::new(409, "link").detail_key("link.unknown", &[("id", &parent.to_string())])
            })?),
            None => None,
        };
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        let stamp = stamp(ctx);
        update(&mut held, |board| {
            for card in [Some(card), parent_card].into_iter().flatten() {
                board.check_written(&card.id)?;
                board.take_in(card);
            }
            board.link(id, parent, &stamp).map_err(Refusal::from)
        })
        .map_err(|e| e.problem(&held, id))
    })();
    let text = parent.map(ToString::to_string);
    record_plain(app, ctx, "parent", Some(id), text.as_deref(), &result);
    result
}

/// Chooses profile and budget of a card.
///
/// # Errors
/// Why not.
pub(crate) fn set_choice(
    app: &App,
    ctx: &Ctx,
    id: &CardId,
    choice: board_core::model::profile::Choice,
) -> Result<(), Problem> {
    ctx.operator()?;
    let world = app.world_of(&[id])?;
    let text = choice.profile.clone();
    let result = (|| {
        let card = known(&world, id)?;
        if !ctx.matches(card_rev(&world, card)) {
            return Err(Problem::new(412, "precondition").rev(card_rev(&world, card)));
        }
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        let stamp = stamp(ctx);
        update(&mut held, |board| {
            board.take_in(card);
            board.set_choice(id, choice, &stamp, &app.policy)
        })
        .map_err(|e| e.problem(&held, id))
    })();
    record_plain(app, ctx, "profile", Some(id), text.as_deref(), &result);
    result
}

/// A change of the board's settings: roles and pauses.
///
/// # Errors
/// Why not.
pub(crate) fn on_board(
    app: &App,
    ctx: &Ctx,
    action: &'static str,
    text: Option<&str>,
    change: impl FnOnce(&mut Board) -> Result<(), Refusal>,
) -> Result<(), Problem> {
    ctx.operator()?;
    let result = (|| {
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        update(&mut held, change).map_err(|e| e.plain_problem())?;
        app.settle(&mut held, None);
        Ok(())
    })();
    record_plain(app, ctx, action, None, text, &result);
    result
}

fn stamp(ctx: &Ctx) -> Stamp {
    Stamp { request: ctx.key, ..clock::stamp(ctx.identity.name.clone()) }
}

/// Why an update changed nothing.
enum Failed {
    Refused(Refusal),
    Store(StoreError),
}

impl Failed {
    fn problem(self, held: &Held<'_>, id: &CardId) -> Problem {
        match self {
            Failed::Store(error) => store_problem(error),
            Failed::Refused(refusal) => refusal_problem(refusal, held.board(), id),
        }
    }

    fn plain_problem(self) -> Problem {
        match self {
            Failed::Store(error) => store_problem(error),
            Failed::Refused(refusal) => Problem::new(422, "invalid").detail(refusal.to_string()),
        }
    }
}

fn update<T>(
    held: &mut Held<'_>,
    change: impl FnOnce(&mut Board) -> Result<T, Refusal>,
) -> Result<T, Failed> {
    held.update(change).map_err(|error| match error {
        UpdateError::Refused(refusal) => Failed::Refused(refusal),
        UpdateError::Store(error) => Failed::Store(error),
    })
}

fn record(
    app: &App,
    ctx: &Ctx,
    action: &str,
    id: Option<&CardId>,
    text: Option<&str>,
    result: &Result<Done, Problem>,
) {
    if let Ok(done) = result
        && !done.applied.repeated
    {
        tell(&done.applied, &ctx.identity.name);
    }
    let (from, to, result) = match result {
        Ok(done) if done.applied.repeated => (None, done.applied.to, "repeated"),
        Ok(done) => (done.applied.from, done.applied.to, "ok"),
        Err(problem) => (None, None, problem.code),
    };
    app.audit.record(
        &ctx.identity,
        ctx.request,
        &Entry {
            action,
            card: id.map(ToString::to_string),
            from: from.map(Phase::id),
            to: to.map(Phase::id),
            result,
            text,
        },
    );
}

/// The beginning of a job's story in the journal.
fn tell(applied: &Applied, who: &str) {
    let name = |phase: Option<Phase>| phase.map_or("-", Phase::id);
    let message = format!("{} → {} ({}) by {who}", name(applied.from), name(applied.to), applied.event);
    journal::life(&Life {
        job: applied.job.map(|job| job.job),
        card: &applied.card,
        job_type: applied.to.and_then(Phase::work).filter(|_| applied.job.is_some()),
        phase: applied.to,
        message: &message,
    });
}

fn record_plain(
    app: &App,
    ctx: &Ctx,
    action: &str,
    id: Option<&CardId>,
    text: Option<&str>,
    result: &Result<(), Problem>,
) {
    let result = match result {
        Ok(()) => "ok",
        Err(problem) => problem.code,
    };
    let card = id.map(ToString::to_string);
    app.audit.record(&ctx.identity, ctx.request, &Entry { action, card, result, text, ..Entry::default() });
}

/// A slug of a parent that somebody typed.
pub(crate) fn parent_id(text: &str) -> Result<Option<CardId>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    match Slug::parse(text) {
        Ok(slug) => Ok(Some(CardId::Slug(slug))),
        Err(_) => match text.parse::<CardId>() {
            Ok(id) => Ok(Some(id)),
            Err(error) => Err(Problem::new(422, "invalid").field("parent_id").detail(error.sentence_de())),
        },
    }
}

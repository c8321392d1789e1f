//! Changes of the board: one way for the pages, the API and the control socket.
//!
//! What has to be read from the repository is read before the state lock is taken; under it the model
//! decides, the state is written, and the queue is made to agree. Every change leaves a line in the audit
//! log. All of this is blocking work.
use board_core::edge::clock;
use board_core::edge::journal::{self, Life};
use board_core::edge::orders::{OrderError, Orders, StartFrom};
use board_core::edge::settings::Language;
use board_core::edge::store::{Held, StoreError, UpdateError};
use board_core::model::board::{Board, Stamp};
use board_core::model::card::{Card, CardId};
use board_core::model::event::{Applied, Event, EventKind, Refusal};
use board_core::model::phase::Phase;
use board_core::model::slug::Slug;
use uuid::Uuid;

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
    record(app, ctx, action, Some(id), ask.reason.as_deref().or(ask.note.as_deref()), &result);
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
    let card = known(world, id)?;
    if !ctx.matches(card_rev(world, card)) || ask.rev.is_some_and(|rev| rev != card_rev(world, card)) {
        let rev = card_rev(world, card);
        let current = serde_json::to_value(crate::view::card::json(world, card, &app.policy))
            .map_err(anyhow::Error::from)?;
        return Err(Problem::new(412, "precondition").rev(rev).current(current));
    }
    let kind = choose(&world.board, card, wanted, ask)?;
    let event = prepare(app, world, card, kind, ask, ctx.language)?;
    let policy = app.policy_now(&world.board);
    let mut held = app.store.hold_patiently().map_err(store_problem)?;
    // A boardctl is no browser: what it starts is meant.
    let stamp =
        Stamp { park: !matches!(ctx.identity.source, crate::auth::AuthSource::Control), ..stamp(ctx) };
    let event = with_lookup(app, &held, id, event)?;
    let confirm = ask.confirm && matches!(kind, EventKind::Started | EventKind::SplitStarted);
    let applied = update(&mut held, |board| {
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
    if let Some(deleted) = world.board.deleted.iter().rev().find(|deleted| deleted.card.id == *id) {
        let args = [("by", deleted.by.as_str()), ("at", &deleted.at.to_string())];
        return Err(Problem::new(410, "gone").detail_key("problem.gone.detail", &args));
    }
    if let Some(trouble) = &world.documents.trouble {
        // Nobody knows whether there is such a card: the repository tells, and cannot be read.
        return Err(Problem::new(503, "fault").detail(trouble.clone()).retry_after(10));
    }
    Err(Problem::new(404, "not-found").detail_key("problem.not-found.card", &[("id", &id.to_string())]))
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

/// The event with what it has to be given; reads the repository for a start.
fn prepare(
    app: &App,
    world: &World,
    card: &Card,
    kind: EventKind,
    ask: &Ask,
    language: Language,
) -> Result<Event, Problem> {
    let reason = || ask.reason.clone().unwrap_or_default();
    let starts = [
        EventKind::Started,
        EventKind::SplitStarted,
        EventKind::Resumed,
        EventKind::StartedAfresh,
        EventKind::ReviewRetried,
        EventKind::AskedAgain,
        EventKind::SplitRetried,
    ];
    if starts.contains(&kind) {
        if !world.board.allowed(card).contains(&kind) {
            return Err(not_allowed(&world.board, card));
        }
        let reader = app.repository.reader(&world.board).map_err(|e| repository_problem(&e))?;
        let orders = Orders::new(&reader);
        let built = card.build.as_ref().is_some_and(|build| build.check_commit.is_some());
        let from = ask.from.unwrap_or(if built { StartFrom::Commit } else { StartFrom::Branch });
        let payload = |read: Result<_, OrderError>| read.map_err(|e| order_problem(&e, language));
        return if kind == EventKind::Started {
            Ok(Event::Started { payload: payload(orders.start_payload(card, from))? })
        } else if kind == EventKind::SplitStarted {
            Ok(Event::SplitStarted { payload: payload(orders.split_payload(card))? })
        } else if kind == EventKind::Resumed {
            Ok(Event::Resumed { payload: payload(orders.resume_payload(card))? })
        } else if kind == EventKind::StartedAfresh {
            Ok(Event::StartedAfresh { payload: payload(orders.afresh_payload(card, from))? })
        } else if kind == EventKind::ReviewRetried {
            Ok(Event::ReviewRetried { payload: payload(orders.review_payload(card))? })
        } else if kind == EventKind::AskedAgain {
            Ok(Event::AskedAgain { payload: payload(orders.research_payload(card))? })
        } else {
            Ok(Event::SplitRetried { payload: payload(orders.split_payload(card))? })
        };
    }
    let simple: [(EventKind, Event); 13] = [
        (EventKind::DoneOutside, Event::DoneOutside { reason: reason() }),
        (EventKind::Discarded, Event::Discarded),
        (EventKind::SentBack, Event::SentBack { note: ask.note.clone().unwrap_or_default() }),
        (EventKind::AcceptedByHand, Event::AcceptedByHand { reason: reason() }),
        (EventKind::Replanned, Event::Replanned),
        (EventKind::Deployed, Event::Deployed),
        (EventKind::TakenBack, Event::TakenBack { reason: reason() }),
        (EventKind::PlannedAgain, Event::PlannedAgain),
        (EventKind::CancelAsked, Event::CancelAsked),
        (EventKind::Archived, Event::Archived),
        (EventKind::BroughtBack, Event::BroughtBack),
        (EventKind::Deleted, Event::Deleted),
        (EventKind::DraftRetried, Event::DraftRetried { note: ask.note.clone() }),
    ];
    if kind == EventKind::Undone {
        return Ok(Event::Undone { in_queue: false });
    }
    simple
        .into_iter()
        .find(|(own, _)| *own == kind)
        .map(|(_, event)| event)
        .ok_or_else(|| not_allowed(&world.board, card))
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

/// A fault of the state as the client sees it.
pub(crate) fn store_problem(error: StoreError) -> Problem {
    if error.is_no_space() {
        return disk_full();
    }
    if let StoreError::Busy { holder } = &error {
        let who = holder.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
        return Problem::new(503, "locked")
            .detail_key("problem.locked.detail", &[("who", &who)])
            .retry_after(5);
    }
    tracing::error!("{error}");
    Problem::new(503, "fault").detail_key("problem.state", &[])
}

/// The disk is full: what to do is the operator's to know.
pub(crate) fn disk_full() -> Problem {
    Problem::new(507, "disk-full").detail_key("problem.disk-full.detail", &[])
}

fn repository_problem(error: &anyhow::Error) -> Problem {
    tracing::warn!("the repository cannot be read: {error:#}");
    Problem::new(503, "fault").detail_key("problem.repository", &[]).retry_after(10)
}

fn order_problem(error: &OrderError, language: Language) -> Problem {
    if let OrderError::Documents(inner) = error {
        tracing::warn!("the repository cannot be read: {inner}");
        return Problem::new(503, "fault").detail_key("problem.repository", &[]).retry_after(10);
    }
    Problem::new(409, "conflict").detail(match language {
        Language::De => error.sentence_de(),
        Language::En => error.to_string(),
    })
}

fn refusal_problem(refusal: Refusal, board: &Board, id: &CardId) -> Problem {
    let rev = board.cards.get(id).map_or(board.generation, |card| card.rev);
    let problem = match refusal {
        Refusal::UnknownCard(id) => {
            Problem::new(404, "not-found").detail_key("problem.not-found.card", &[("id", &id.to_string())])
        }
        Refusal::NotAllowed { event: _, phase, allowed: _, job } => match board.cards.get(id) {
            Some(card) => not_allowed(board, card).job(job.map(|job| job.job)),
            None => Problem::new(409, "not-allowed")
                .detail_key("problem.not-allowed.detail", &[("phase", phase.id())])
                .job(job.map(|job| job.job)),
        },
        Refusal::Applying => Problem::new(409, "applying").retry_after(2),
        Refusal::Saving => Problem::new(409, "saving").retry_after(2),
        Refusal::InDraft(draft) => {
            Problem::new(409, "in-draft").detail_key("problem.in-draft.detail", &[("id", &draft.to_string())])
        }
        Refusal::Unread => {
            Problem::new(428, "synthesis-unread").detail_key("problem.synthesis-unread.detail", &[])
        }
        Refusal::TooLateToUndo => Problem::new(409, "too-late").detail_key("problem.too-late.detail", &[]),
        Refusal::OldRound { given, current } => Problem::new(409, "old-round").detail_key(
            "problem.old-round.detail",
            &[("given", &given.to_string()), ("current", &current.to_string())],
        ),
        Refusal::Taken(slug) => {
            Problem::new(409, "taken").detail_key("problem.taken.detail", &[("slug", slug.as_str())])
        }
        Refusal::Invalid { field, problem } => {
            let of_field = |text: &str| format!("{field}: {text}");
            Problem::new(422, "invalid").field(field).said(of_field(&problem.de), of_field(&problem.en))
        }
        Refusal::Limit(text) => Problem::new(422, "limit").said(text.de, text.en),
        Refusal::Link(refusal) => link_problem(&refusal),
        Refusal::Fault(text) => {
            tracing::error!(CARD_ID = %id, "{text}");
            Problem::new(500, "fault")
        }
    };
    problem.rev(rev)
}

fn link_problem(refusal: &board_core::model::event::LinkRefusal) -> Problem {
    use board_core::model::event::LinkRefusal as L;
    let problem = Problem::new(409, "link");
    match refusal {
        L::Unknown(id) => problem.detail_key("link.unknown", &[("id", &id.to_string())]),
        L::Itself => problem.detail_key("link.itself", &[]),
        L::Cycle(slug) => problem.detail_key("link.cycle", &[("id", slug.as_str())]),
        L::HasParent(slug) => problem.detail_key("link.has-parent", &[("id", slug.as_str())]),
        L::NotACard(id) => problem.detail_key("link.not-a-card", &[("id", &id.to_string())]),
        L::TooMany => problem
            .detail_key("link.too-many", &[("n", &board_core::model::fanout::MAX_CHILDREN.to_string())]),
    }
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

//! What an event has to be given, read from the repository before the state lock is taken.
use board_core::edge::orders::{OrderError, Orders, StartFrom};
use board_core::model::card::Card;
use board_core::model::event::{Event, EventKind};
use board_core::model::job::Revision;
use board_core::model::slug::Slug;
use uuid::Uuid;

use super::problems::{order_problem, repository_problem, slug};
use super::{Ask, not_allowed};
use crate::app::App;
use crate::middleware::Ctx;
use crate::reply::Problem;
use crate::world::World;

/// The event with what it has to be given; reads the repository for a start.
pub(super) fn prepare(
    app: &App,
    ctx: &Ctx,
    world: &World,
    card: &Card,
    kind: EventKind,
    ask: &Ask,
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
        let payload = |read: Result<_, OrderError>| read.map_err(|e| order_problem(&e, ctx.language));
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
    if let Some(event) = of_planner(app, ctx, world, card, kind, ask)? {
        return Ok(event);
    }
    let simple: [(EventKind, Event); 12] = [
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

/// Events of drafts and of what becomes an intent; none for all others.
fn of_planner(
    app: &App,
    ctx: &Ctx,
    world: &World,
    card: &Card,
    kind: EventKind,
    ask: &Ask,
) -> Result<Option<Event>, Problem> {
    let fits = || {
        let allowed = world.board.allowed(card);
        if allowed.contains(&kind) { Ok(()) } else { Err(not_allowed(&world.board, card)) }
    };
    // The fitting refusal comes from the model: applying, saving, in a draft.
    let busy = card.applying.is_some() || card.order.is_some() || card.open_draft.is_some();
    if kind == EventKind::PlannedOut {
        return Ok(Some(Event::PlannedOut { draft: draft_id(ctx) }));
    }
    if kind == EventKind::Answered {
        let answer = ask.answer.clone().unwrap_or_default();
        return Ok(Some(Event::Answered { answer, option: ask.option.clone(), round: ask.round }));
    }
    if kind == EventKind::Revised {
        if !busy {
            fits()?;
        }
        let Revision { intent, reports, .. } = revision(app, ctx, world, card)?;
        return Ok(Some(Event::Revised { draft: draft_id(ctx), intent, reports }));
    }
    if kind == EventKind::DraftRetried {
        let revises = card.draft.as_ref().and_then(|draft| draft.revises.as_ref());
        let revised = revises.and_then(|revises| world.board.cards.get(&revises.card));
        let revision = revised.map(|revised| revision(app, ctx, world, revised)).transpose()?;
        return Ok(Some(Event::DraftRetried { note: ask.note.clone(), revision }));
    }
    if kind == EventKind::DocumentWritten || kind == EventKind::ProposalAccepted {
        if !busy {
            fits()?;
        }
        let slug = slug(ask.slug.as_deref())?;
        let taken = is_taken(app, world, &slug)?;
        return Ok(Some(if kind == EventKind::DocumentWritten {
            Event::MadeIntent { slug, text: ask.text.clone(), taken }
        } else {
            Event::ProposalAccepted { slug, taken }
        }));
    }
    Ok(None)
}

/// Id of a draft that this request begins: it follows from the key, so that a repetition finds the first one.
pub(super) fn draft_id(ctx: &Ctx) -> Uuid {
    ctx.key.map_or_else(Uuid::new_v4, |key| Uuid::new_v5(&key, b"draft"))
}

/// The intent and the reports that a revision works from, as they are now.
fn revision(app: &App, ctx: &Ctx, world: &World, card: &Card) -> Result<Revision, Problem> {
    let reader = app.repository.reader(&world.board).map_err(|e| repository_problem(&e))?;
    let read = Orders::new(&reader).revision(card);
    let (intent, reports) = read.map_err(|e: OrderError| order_problem(&e, ctx.language))?;
    Ok(Revision { card: card.id.clone(), intent, reports })
}

/// Whether a file or a record outside the state has this slug.
pub(super) fn is_taken(app: &App, world: &World, slug: &Slug) -> Result<bool, Problem> {
    let reader = app.repository.reader(&world.board).map_err(|e| repository_problem(&e))?;
    reader.is_taken(slug).map_err(|e| repository_problem(&e.into()))
}

//! Texts of the editor: each an order in the state that the watcher carries out, and the wait for that.
use std::time::{Duration, Instant};

use board_core::edge::documents::{Found, Loaded};
use board_core::model::board::{Board, Stamp};
use board_core::model::card::{Card, CardId, Source};
use board_core::model::documents;
use board_core::model::event::{EventKind, Refusal};
use board_core::model::hash::blob_hash;
use board_core::model::slug::Slug;
use serde_json::json;

use super::prepare::is_taken;
use super::problems::{self, repository_problem, store_problem};
use super::{Done, changeable, known, record, record_plain, repeated, stamp, update};
use crate::app::App;
use crate::middleware::Ctx;
use crate::reply::Problem;
use crate::view::board::card_rev;
use crate::world::World;

/// How long an answer waits for the watcher to write a text (web.md, 4).
const WAIT: Duration = Duration::from_secs(2);
/// The pause between two looks meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// What became of a text within [`WAIT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is in the repository, as the file of this card.
    Done(CardId),
    /// The watcher has not come to it.
    Pending,
    /// It cannot be written, with the card's sentence; it stays with the card.
    Conflict(String),
}

/// An intent or a question of the editor.
#[derive(Debug, Clone)]
pub(crate) struct NewDocument {
    /// What it is.
    pub(crate) source: Source,
    /// Its slug; without one it is made of the title.
    pub(crate) slug: Option<String>,
    /// Its title; may be empty where the text has a heading.
    pub(crate) title: String,
    /// Its text; without a heading the title becomes one.
    pub(crate) text: String,
}

impl NewDocument {
    /// The file's text: what was typed, with the title as its heading unless it has one.
    fn text(&self) -> String {
        let text = with_last_line(&self.text);
        let title = self.title.trim();
        if title.is_empty() || documents::title(&self.text).is_some() {
            return text;
        }
        match self.source {
            Source::Research if text.is_empty() => format!("# {title}\n"),
            Source::Research => format!("# {title}\n\n{text}"),
            Source::Intent | Source::Idea | Source::Draft => documents::idea_as_intent(title, &text),
        }
    }

    fn slug(&self, text: &str) -> Result<Slug, Problem> {
        if let Some(slug) = self.slug.as_deref().map(str::trim).filter(|slug| !slug.is_empty()) {
            return problems::slug(Some(slug));
        }
        let title = documents::title(text).unwrap_or_else(|| self.title.clone());
        let needed = || Problem::new(422, "invalid").field("slug").detail_key("problem.slug-needed", &[]);
        Slug::of_title(&title).ok_or_else(needed)
    }
}

/// A text as it is kept: it ends with a line feed.
fn with_last_line(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() { String::new() } else { format!("{text}\n") }
}

/// Writes an intent or a question.
///
/// # Errors
/// Why not.
pub(crate) fn create_document(app: &App, ctx: &Ctx, new: &NewDocument) -> Result<Done, Problem> {
    ctx.operator()?;
    let result = (|| {
        let text = new.text();
        let slug = new.slug(&text)?;
        let id = CardId::Slug(slug.clone());
        let world = app.world_of(&[&id])?;
        if let Some(done) = repeated(&world.board, ctx) {
            return Ok(done);
        }
        let taken = is_taken(app, &world, &slug)?;
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        let stamp = stamp(ctx);
        let write = |board: &mut Board| board.write_document(slug, new.source, &text, taken, &stamp);
        let applied = update(&mut held, write).map_err(|e| e.problem(&held, &id))?;
        app.live.state_changed();
        Ok(Done { applied, position: None })
    })();
    let id = result.as_ref().ok().map(|done: &Done| &done.applied.card);
    record(app, ctx, EventKind::DocumentWritten.id(), id, Some(&new.title), &result);
    result
}

/// What the file of a card holds now.
///
/// # Errors
/// There is none, or it cannot be read.
pub(crate) fn current(app: &App, world: &World, card: &Card) -> Result<Loaded, Problem> {
    let path = card.document_path().unwrap_or_default();
    let missing = || Problem::new(409, "conflict").detail_key("problem.file-missing", &[("path", &path)]);
    let slug = card.id.slug().ok_or_else(missing)?;
    let reader = app.repository.reader(&world.board).map_err(|e| repository_problem(&e))?;
    match reader.load(card.source, slug).map_err(|e| repository_problem(&e.into()))? {
        Found::Document(loaded) => Ok(loaded),
        Found::Missing => Err(missing()),
        Found::Broken(why) => Err(Problem::new(409, "conflict").detail(format!("{path}: {why}"))),
    }
}

/// The text of a card with what it is compared by: of its file, else what was typed.
///
/// # Errors
/// There is none: a draft, or a file that is gone.
pub(crate) fn text_of(app: &App, world: &World, card: &Card) -> Result<(String, String), Problem> {
    if card.source == Source::Idea {
        return Ok((card.text.clone(), blob_hash(card.text.as_bytes())));
    }
    let loaded = current(app, world, card)?;
    Ok((loaded.text, loaded.document.blob))
}

/// Another text for a card: an idea's at once, a file's by the watcher. `title` is an idea's alone.
///
/// # Errors
/// Why not; 412 with both texts if it is not `base_blob` any more that would be replaced.
pub(crate) fn edit(
    app: &App,
    ctx: &Ctx,
    id: &CardId,
    title: Option<&str>,
    text: &str,
    base_blob: Option<&str>,
) -> Result<(), Problem> {
    ctx.operator()?;
    let result = (|| {
        let world = app.world_of(&[id])?;
        if repeated(&world.board, ctx).is_some() {
            return Ok(());
        }
        let card = changeable(ctx, &world, id)?;
        if !ctx.matches(card_rev(&world, card)) {
            return Err(Problem::new(412, "precondition").rev(card_rev(&world, card)));
        }
        let idea = card.source == Source::Idea;
        let base = match (base_blob.map(str::trim).filter(|base| !base.is_empty()), card.source) {
            (Some(base), _) => base.to_owned(),
            (None, Source::Idea) => blob_hash(card.text.as_bytes()),
            (None, Source::Draft) => String::new(),
            (None, Source::Intent | Source::Research) => {
                let problem = Problem::new(422, "invalid").field("base_blob");
                return Err(problem.detail_key("problem.base-needed", &[]));
            }
        };
        // What is being written is no base yet; the model says so.
        let rests = card.order.as_ref().is_none_or(|order| order.conflict.is_some());
        if card.source != Source::Draft && rests {
            let (theirs, blob) = text_of(app, &world, card)?;
            if blob != base {
                return Err(both_texts(&theirs, &blob, text));
            }
        }
        let text = with_last_line(text);
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        let stamp = stamp(ctx);
        update(&mut held, |board| {
            board.take_in(card);
            if idea {
                let title = title.unwrap_or(&card.title);
                return board.edit_idea(id, title, text.trim_end(), &stamp);
            }
            board.edit_document(id, &text, &base, &stamp).map(drop)
        })
        .map_err(|e| e.problem(&held, id))?;
        app.live.state_changed();
        Ok(())
    })();
    record_plain(app, ctx, "text", Some(id), title, &result);
    result
}

/// The refusal that shows both texts.
fn both_texts(theirs: &str, blob: &str, mine: &str) -> Problem {
    Problem::new(412, "precondition")
        .detail_key("problem.text-changed", &[])
        .current(json!({ "text": theirs, "base_blob": blob }))
        .yours(mine.to_owned())
}

/// Gives a text up that could not be written. True if the card stays.
///
/// # Errors
/// Why not.
pub(crate) fn drop_text(app: &App, ctx: &Ctx, id: &CardId) -> Result<bool, Problem> {
    ctx.operator()?;
    let result = (|| {
        let world = app.world_of(&[id])?;
        changeable(ctx, &world, id)?;
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        let stamp = stamp(ctx);
        let stays =
            update(&mut held, |board| board.drop_order(id, &stamp)).map_err(|e| e.problem(&held, id))?;
        app.live.state_changed();
        Ok(stays)
    })();
    record_plain(app, ctx, "text_dropped", Some(id), None, &result.clone().map(drop));
    result
}

/// The text of an intent or a question that could not be written becomes a card under another slug.
///
/// # Errors
/// Why not.
pub(crate) fn elsewhere(app: &App, ctx: &Ctx, id: &CardId, slug: Option<&str>) -> Result<Done, Problem> {
    ctx.operator()?;
    let result = (|| {
        let world = app.world_of(&[id])?;
        if let Some(done) = repeated(&world.board, ctx) {
            return Ok(done);
        }
        known(&world, id)?;
        let slug = problems::slug(slug)?;
        let taken = is_taken(app, &world, &slug)?;
        let mut held = app.store.hold_patiently().map_err(store_problem)?;
        let stamp = stamp(ctx);
        let write = |board: &mut Board| board.write_elsewhere(id, slug, taken, &stamp);
        let applied = update(&mut held, write).map_err(|e| e.problem(&held, id))?;
        app.live.state_changed();
        Ok(Done { applied, position: None })
    })();
    record(app, ctx, EventKind::DocumentWritten.id(), Some(id), slug, &result);
    result
}

/// An idea or a proposal that could not be written under one slug is written under another: the text that
/// waited gives way to the new order, unless this is an old request that comes again.
pub(super) fn give_way(
    board: &mut Board,
    id: &CardId,
    event: EventKind,
    stamp: &Stamp,
) -> Result<(), Refusal> {
    let writes = matches!(event, EventKind::DocumentWritten | EventKind::ProposalAccepted);
    let order = board.cards.get(id).filter(|card| !card.source.has_document() && card.applying.is_none());
    let failed = order.and_then(|card| card.order.as_ref()).is_some_and(|order| order.conflict.is_some());
    let again = stamp.request.is_some_and(|key| board.request(key).is_some());
    if writes && failed && !again {
        board.drop_order(id, stamp)?;
    }
    Ok(())
}

/// Waits until the watcher has carried out the order of a card, at most [`WAIT`]; blocking.
///
/// # Errors
/// If the state cannot be read.
pub(crate) fn wait(app: &App, id: &CardId) -> Result<Written, Problem> {
    let deadline = Instant::now() + WAIT;
    loop {
        let board = app.board()?;
        match board.cards.get(id) {
            None => return Ok(Written::Done(board.redirect(id).unwrap_or(id).clone())),
            Some(card) => match &card.order {
                None => return Ok(Written::Done(id.clone())),
                Some(order) => {
                    if let Some(why) = &order.conflict {
                        return Ok(Written::Conflict(why.clone()));
                    }
                }
            },
        }
        if Instant::now() >= deadline {
            return Ok(Written::Pending);
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(source: Source, slug: &str, title: &str, text: &str) -> NewDocument {
        NewDocument { source, slug: Some(slug.into()), title: title.into(), text: text.into() }
    }

    #[test]
    fn a_title_becomes_the_heading_of_a_text_that_has_none() {
        assert_eq!(new(Source::Intent, "", "Limit", "Zehn.\n\n").text(), "# Intent: Limit\n\nZehn.\n");
        assert_eq!(new(Source::Research, "", "Wie viele?", "").text(), "# Wie viele?\n");
        assert_eq!(new(Source::Research, "", "Wie viele?", "Genau.").text(), "# Wie viele?\n\nGenau.\n");
        assert_eq!(new(Source::Intent, "", "Limit", "# Anders\n").text(), "# Anders\n");
        assert_eq!(new(Source::Intent, "", "", " \n").text(), "");
    }

    #[test]
    fn a_slug_is_what_was_typed_or_made_of_the_heading() {
        let slug = |new: NewDocument| new.slug(&new.text()).map(|slug| slug.to_string());
        assert_eq!(slug(new(Source::Intent, " limit ", "x", "")).unwrap(), "limit");
        assert_eq!(slug(new(Source::Intent, "", "Größe", "# Intent: Das Limit")).unwrap(), "das-limit");
        for (typed, title) in [("Limit", "x"), ("", "日本")] {
            let problem = slug(new(Source::Intent, typed, title, "text")).unwrap_err();
            assert_eq!((problem.status, problem.wrong_field()), (422, Some("slug")));
        }
    }
}

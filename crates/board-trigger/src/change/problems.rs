//! Why a change was refused, as the client is told.
use board_core::edge::orders::OrderError;
use board_core::edge::settings::Language;
use board_core::edge::store::StoreError;
use board_core::model::board::Board;
use board_core::model::card::{Card, CardId};
use board_core::model::event::{self, LinkRefusal, Refusal, SynthesisRefusal};
use board_core::model::job::{Speaker, Turn};
use board_core::model::slug::{Slug, SlugError};
use serde_json::json;

use super::not_allowed;
use crate::reply::Problem;
use crate::view::card::TurnJson;
use crate::view::text;

/// Characters of another tab's answer that a refusal repeats.
const EXCERPT: usize = 300;

/// A fault of the state as the client sees it.
pub(crate) fn store_problem(error: StoreError) -> Problem {
    if error.is_no_space() {
        return disk_full();
    }
    if error.is_read_only() {
        tracing::error!("{error}");
        return disk_failing();
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

/// It is read-only, or fails: what was asked for did not happen.
pub(crate) fn disk_failing() -> Problem {
    Problem::new(507, "disk-failing")
}

pub(super) fn repository_problem(error: &anyhow::Error) -> Problem {
    tracing::warn!("the repository cannot be read: {error:#}");
    Problem::new(503, "fault").detail_key("problem.repository", &[]).retry_after(10)
}

pub(super) fn order_problem(error: &OrderError, language: Language) -> Problem {
    if let OrderError::Documents(inner) = error {
        tracing::warn!("the repository cannot be read: {inner}");
        return Problem::new(503, "fault").detail_key("problem.repository", &[]).retry_after(10);
    }
    Problem::new(409, "conflict").detail(match language {
        Language::De => error.sentence_de(),
        Language::En => error.to_string(),
    })
}

pub(super) fn refusal_problem(refusal: Refusal, board: &Board, id: &CardId) -> Problem {
    let rev = board.cards.get(id).map_or(board.generation, |card| card.rev);
    let problem = match refusal {
        // Deleted between the look and the lock.
        Refusal::UnknownCard(id) => gone(board, &id).unwrap_or_else(|| {
            Problem::new(404, "not-found").detail_key("problem.not-found.card", &[("id", &id.to_string())])
        }),
        Refusal::NotAllowed { event: _, phase, allowed: _, job } => match board.cards.get(id) {
            Some(card) => not_allowed(board, card).job(job.map(|job| job.job)),
            None => Problem::new(409, "not-allowed")
                .detail_key("problem.not-allowed.detail", &[("phase", phase.id())])
                .job(job.map(|job| job.job)),
        },
        Refusal::Applying => Problem::new(409, "applying").retry_after(2),
        Refusal::Saving => match board.cards.get(id).and_then(|card| card.order.as_ref()) {
            Some(order) if order.conflict.is_some() => {
                Problem::new(409, "saving").detail_key("problem.saving.conflict", &[])
            }
            Some(_) | None => Problem::new(409, "saving").retry_after(2),
        },
        Refusal::InDraft(draft) => {
            Problem::new(409, "in-draft").detail_key("problem.in-draft.detail", &[("id", &draft.to_string())])
        }
        Refusal::Unread => {
            Problem::new(428, "synthesis-unread").detail_key("problem.synthesis-unread.detail", &[])
        }
        Refusal::TooLateToUndo => Problem::new(409, "too-late").detail_key("problem.too-late.detail", &[]),
        Refusal::OldRound { given, current } => old_round(board.cards.get(id), given, current),
        Refusal::Taken(slug) => {
            Problem::new(409, "taken").detail_key("problem.taken.detail", &[("slug", slug.as_str())])
        }
        Refusal::Invalid { field, problem } => {
            let of_field = |text: &str| format!("{field}: {text}");
            Problem::new(422, "invalid").field(field).said(of_field(&problem.de), of_field(&problem.en))
        }
        Refusal::Limit(text) => Problem::new(422, "limit").said(text.de, text.en),
        Refusal::Link(refusal) => link_problem(&refusal),
        Refusal::Parked => {
            Problem::new(409, "parked").detail_key("problem.parked.detail", &[]).retry_after(5)
        }
        Refusal::Synthesis(refusal) => synthesis_problem(&refusal),
        Refusal::File(text) => Problem::new(409, "file").said(text.de, text.en),
        Refusal::Fault(text) => {
            tracing::error!(CARD_ID = %id, "{text}");
            Problem::new(500, "fault")
        }
    };
    problem.rev(rev)
}

fn link_problem(refusal: &LinkRefusal) -> Problem {
    use LinkRefusal as L;
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

fn synthesis_problem(refusal: &SynthesisRefusal) -> Problem {
    let problem = Problem::new(409, "synthesis");
    match refusal {
        SynthesisRefusal::NoChildren => problem.detail_key("problem.synthesis.no-children", &[]),
        SynthesisRefusal::Open(open) => {
            problem.detail_key("problem.synthesis.open", &[("ids", &event::names(open))])
        }
        SynthesisRefusal::Due => problem.detail_key("problem.synthesis.due", &[]).retry_after(2),
    }
}

/// Somebody answered before: with what, so that nobody has to look for it.
fn old_round(card: Option<&Card>, given: u32, current: u32) -> Problem {
    let conversation = card.and_then(|card| card.draft.as_ref()).map(|draft| draft.conversation.as_slice());
    let answer = answer_of(conversation.unwrap_or_default(), given);
    let said = answer.map(|turn| match &turn.chosen {
        Some(chosen) if turn.text.is_empty() => chosen.clone(),
        Some(chosen) => format!("{chosen}. {}", turn.text),
        None => turn.text.clone(),
    });
    let problem = Problem::new(409, "old-round");
    let args = [("given", given.to_string()), ("current", current.to_string())];
    let mut args: Vec<(&str, &str)> = args.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let said = said.map(|said| text::excerpt(&said, EXCERPT));
    let problem = match &said {
        Some(said) => {
            args.push(("answer", said));
            problem.detail_key("problem.old-round.answered", &args)
        }
        None => problem.detail_key("problem.old-round.detail", &args),
    };
    problem.current(json!({ "round": current, "answer": answer.map(TurnJson::from) }))
}

/// What the operator said to the question of a round: what he wrote first after it.
fn answer_of(conversation: &[Turn], round: u32) -> Option<&Turn> {
    let mut asked = 0;
    conversation.iter().find(|turn| match turn.who {
        Speaker::Planner => {
            asked += 1;
            false
        }
        Speaker::Operator => asked == round,
        Speaker::Board => false,
    })
}

/// A card that was deleted within the last 24 hours. To whoever asks for it that is 410; whoever wants to
/// change it meets a conflict with the one who deleted it.
pub(super) fn gone(board: &Board, id: &CardId) -> Option<Problem> {
    let deleted = board.deleted.iter().rev().find(|deleted| deleted.card.id == *id)?;
    let args = [("by", deleted.by.as_str()), ("at", &deleted.at.to_string())];
    Some(Problem::new(409, "gone").detail_key("problem.gone.detail", &args))
}

/// A text that is no slug.
pub(super) fn slug(text: Option<&str>) -> Result<Slug, Problem> {
    let wrong = |error: SlugError| {
        Problem::new(422, "invalid").field("slug").said(error.sentence_de(), error.to_string())
    };
    Slug::parse(text.unwrap_or_default().trim()).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use board_core::model::time::Timestamp;

    fn turn(who: Speaker, text: &str) -> Turn {
        Turn { who, at: Timestamp::MIN, text: text.into(), options: Vec::new(), chosen: None }
    }

    #[test]
    fn the_answer_to_a_round_is_what_the_operator_said_first_after_its_question() {
        use Speaker::{Board, Operator, Planner};
        let conversation = [
            turn(Operator, "Thema"),
            turn(Planner, "Frage 1"),
            turn(Operator, "Antwort 1"),
            turn(Board, "noch einmal"),
            turn(Operator, "Hinweis"),
            turn(Planner, "Frage 2"),
        ];
        let answer = |round| answer_of(&conversation, round).map(|turn| turn.text.as_str());
        assert_eq!((answer(1), answer(2), answer(3)), (Some("Antwort 1"), None, None));
    }
}

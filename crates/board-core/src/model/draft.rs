//! Limits of the planner's conversation (domain.md, "Planner intake").

use super::board::Board;
use super::event::{Refusal, Said};

/// Rounds of one draft at most.
pub const MAX_ROUNDS: u32 = 40;
/// Longest topic or answer, in characters; option and note of an answer together.
pub const MAX_ANSWER_CHARS: usize = 4_000;
/// Open drafts together, in bytes of their conversations (storage.md).
pub const MAX_OPEN_DRAFT_BYTES: usize = 8 * 1024 * 1024;

/// A usable topic, trimmed.
///
/// # Errors
/// [`Refusal::Invalid`] if it is empty or too long.
pub fn check_topic(topic: &str) -> Result<String, Refusal> {
    let topic = topic.trim();
    let chars = topic.chars().count();
    match chars {
        0 => Err(Refusal::Invalid {
            field: "topic",
            problem: Said::new(
                "ist leer; sage, worum es im Intent geht",
                "is empty; say what the intent is about",
            ),
        }),
        1..=MAX_ANSWER_CHARS => Ok(topic.to_owned()),
        _ => Err(Refusal::Invalid { field: "topic", problem: Said::too_long(chars, MAX_ANSWER_CHARS) }),
    }
}

/// Bytes of the conversations of all open drafts.
pub fn open_bytes(board: &Board) -> usize {
    board
        .cards
        .values()
        .filter_map(|card| card.draft.as_ref())
        .flat_map(|draft| &draft.conversation)
        .map(|turn| turn.text.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_has_1_to_4000_characters() {
        assert!(check_topic("  ").is_err());
        assert_eq!(check_topic(" ä ").unwrap(), "ä");
        assert!(check_topic(&"ä".repeat(MAX_ANSWER_CHARS)).is_ok());
        assert!(check_topic(&"ä".repeat(MAX_ANSWER_CHARS + 1)).is_err());
    }
}

//! To come.
use super::card::Card;
/// Renders.
pub fn render(card: &Card) -> String {
    format!("phase: {}\n", card.phase)
}

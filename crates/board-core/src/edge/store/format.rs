//! The bytes of `state.json`: JSON with one card, one request, one outbox entry on a line.
//!
//! Compact below that, since each transition writes the whole file; not more compact, since an error names a
//! line, and that line should be one card.
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;

use super::StoreError;
use crate::model::board::{Board, STATE_SCHEMA};

/// How deep lines are broken: the board's fields, and the entries of each.
const BROKEN_LEVELS: usize = 2;

#[derive(Default)]
struct Shallow {
    depth: usize,
}

impl Shallow {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        if self.depth <= BROKEN_LEVELS { writer.write_all(b"\n") } else { Ok(()) }
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        if self.depth <= BROKEN_LEVELS {
            writer.write_all(b"\n")?;
        }
        self.depth = self.depth.saturating_sub(1);
        writer.write_all(bracket)
    }
}

impl Formatter for Shallow {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }
    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }
    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }
}

/// Spells a board.
pub(super) fn to_bytes(board: &Board) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = Vec::new();
    board.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Shallow::default()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

#[derive(Deserialize)]
struct Head {
    schema: u64,
}

/// Reads a board; `path` is for the error.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Board, StoreError> {
    let corrupt = |line, column, reason| StoreError::Corrupt { path: path.to_owned(), line, column, reason };
    let json = |error: serde_json::Error| {
        // serde_json repeats the position, which the sentence has at its head.
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
        corrupt(error.line(), error.column(), reason)
    };
    if bytes.is_empty() {
        return Err(corrupt(0, 0, "it is empty".to_owned()));
    }
    let board = match serde_json::from_slice::<Board>(bytes) {
        Ok(board) if board.schema == STATE_SCHEMA => board,
        // Of another version the fields would only be called unknown.
        other => {
            let head: Head = serde_json::from_slice(bytes).map_err(json)?;
            if head.schema > u64::from(STATE_SCHEMA) {
                return Err(StoreError::Newer { path: path.to_owned(), found: head.schema });
            }
            if head.schema != u64::from(STATE_SCHEMA) {
                return Err(corrupt(0, 0, format!("there has never been a schema {}", head.schema)));
            }
            other.map_err(json)?
        }
    };
    match board.cards.iter().find(|(id, card)| **id != card.id) {
        Some((id, card)) => Err(corrupt(0, 0, format!("the entry {id} holds the card {}", card.id))),
        None => Ok(board),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::card::{Card, CardId, Source};
    use crate::model::phase::Phase;

    #[test]
    fn a_board_reads_back_with_one_card_on_a_line() {
        let mut board = Board::empty();
        for slug in ["a", "b"] {
            let id: CardId = slug.parse().unwrap();
            let at = "2026-11-30T20:00:00Z".parse().unwrap();
            board.cards.insert(id.clone(), Card::new(id, Source::Intent, slug, Phase::Geplant, at));
        }
        let bytes = to_bytes(&board).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(text.lines().filter(|line| line.contains("\"title\"")).count(), 2);
        assert_eq!(parse("state.json".as_ref(), &bytes).unwrap(), board);
    }
}

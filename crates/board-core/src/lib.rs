//! Core of board-agent.

//! How fast lines of codex become events, alone and with redaction and log, and how much memory that takes.
//!
//! Not against a peer: the limits are those of the design. As the supervisor does it: reads of 64 KiB on one thread,
//! one line at a time. A rate is printed as the time that was taken against the time which the limit allows.

use std::time::Instant;

use board_core::edge::clock;
use board_core::model::redact::Redactor;
use board_worker::limits::MAX_LINE_BYTES;
use board_worker::lines::Splitter;
use board_worker::log::{MAX_LOG_BYTES, RunLog, Stream};
use board_worker::runtimes::codex::Codex;
use board_worker::runtimes::{Adapter as _, ExitInfo};
use serde_json::json;

/// Bytes of events in one measurement.
const BYTES: usize = 100_000_000;
/// What the supervisor reads at once, bytes.
const READ_BYTES: usize = 64 << 10;
const ROUNDS: u32 = 5;
/// Lines to events, bytes a second.
const READ_RATE: f64 = 300e6;
/// The same with redaction and log.
const KEPT_RATE: f64 = 100e6;
/// Peak of resident memory, MiB.
const RESIDENT_MIB: f64 = 16.0;

fn main() -> anyhow::Result<()> {
    let events = events();
    // Not /tmp, which may lie in memory.
    let dir = tempfile::Builder::new().prefix("event-rate-").tempdir_in("/var/tmp")?;
    let read = median(|| Ok(run(&events, |_| {})))?;
    let kept = median(|| {
        let path = dir.path().join("log");
        let mut log = RunLog::open(&path, secrets(), MAX_LOG_BYTES)?;
        let taken = run(&events, |line| log.line(clock::now(), Stream::Out, line));
        log.finish().map_err(|(_, error)| error)?;
        let written = std::fs::metadata(&path)?.len();
        anyhow::ensure!(written as usize > BYTES, "the log has {written} bytes");
        std::fs::remove_file(&path)?;
        Ok(taken)
    })?;
    let rate = |seconds: f64| BYTES as f64 / seconds;
    eprintln!("{:.0} MB/s read, {:.0} MB/s with redaction and log", rate(read) / 1e6, rate(kept) / 1e6);
    println!("100 MB of codex events: to events, time against 300 MB/s | {:.2} | 1", READ_RATE / rate(read));
    println!(
        "100 MB of codex events: with redaction and log, against 100 MB/s | {:.2} | 1",
        KEPT_RATE / rate(kept)
    );
    println!("100 MB of codex events: resident, MiB | {:.1} | {RESIDENT_MIB}", peak_mib()?);
    Ok(())
}

/// A turn as codex prints it, some commands with their output, again and again: about a megabyte.
fn events() -> Vec<u8> {
    let mut lines =
        vec![json!({"type": "thread.started", "thread_id": "0198c0de"}), json!({"type": "turn.started"})];
    let source = "    let found = board.cards.get(&id).filter(|card| card.phase == \"geplant\");\n";
    for number in 0..200 {
        let id = format!("item_{number}");
        // From a line to some hundred, as builds and searches print them.
        let output = source.repeat(1 + (number * 7919) % 120);
        let command = format!("/bin/bash -lc 'rg -n card crates/{number}'");
        lines.push(
            json!({"type": "item.started", "item": {"id": id, "type": "command_execution", "command": command,
            "aggregated_output": "", "exit_code": null, "status": "in_progress"}}),
        );
        lines.push(json!({"type": "item.completed", "item": {"id": id, "type": "command_execution", "command": command,
            "aggregated_output": output, "exit_code": 0, "status": "completed"}}));
        lines.push(json!({"type": "item.completed", "item": {"id": id, "type": "reasoning",
            "text": "**Nachsehen**\n\nDie Karte steht in zwei Dateien; zuerst die kleinere."}}));
        lines.push(json!({"type": "item.completed", "item": {"id": id, "type": "agent_message",
            "text": "Ich sehe mir die Übergänge an und ändere dann die Tabelle."}}));
    }
    lines.push(
        json!({"type": "turn.completed", "usage": {"input_tokens": 12_000, "cached_input_tokens": 9_000,
        "output_tokens": 800}}),
    );
    lines.into_iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

/// As many secrets as two logins and a key have, none of which occurs.
fn secrets() -> Redactor {
    let token =
        |number: usize| format!("{number:02}eyJhbGciOiJSUzI1NiIsImtpZCI6{}", "Zq7".repeat(40 + number));
    Redactor::new((0..8).map(token).chain(["pass\"wörd\\with/everything".to_owned()]))
}

/// Seconds for [`BYTES`] of the events, over and over.
fn run(events: &[u8], mut keep: impl FnMut(&[u8])) -> f64 {
    let began = Instant::now();
    let (mut splitter, mut codex, mut count) = (Splitter::new(MAX_LINE_BYTES), Codex::default(), 0_usize);
    let mut left = BYTES;
    while left > 0 {
        for part in events.chunks(READ_BYTES) {
            let part = &part[..part.len().min(left)];
            left -= part.len();
            splitter.push(part, |line| {
                keep(line.bytes);
                count += codex.event(line.bytes).len();
            });
        }
    }
    let reading = codex.reading(ExitInfo::code(0));
    assert!(count > BYTES / 10_000 && reading.usage.output_tokens.is_some(), "{count} events");
    began.elapsed().as_secs_f64()
}

fn median(mut measure: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let mut taken = (0..ROUNDS).map(|_| measure()).collect::<anyhow::Result<Vec<f64>>>()?;
    taken.sort_by(f64::total_cmp);
    Ok(taken[taken.len() / 2])
}

/// Peak of resident memory of this process, MiB.
fn peak_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

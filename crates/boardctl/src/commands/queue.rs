//! `boardctl queue`: what lies where, since when, and who holds which lock; and dropping a file by hand.
//!
//! Looks at the files themselves, so it also tells when no daemon runs. It takes no lock: that would disturb
//! those that it reports on.
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::Context as _;
use board_core::edge::clock::now;
use board_core::edge::files::list_dir;
use board_core::edge::lock::{Holder, holder};
use board_core::edge::queue::Queue;
use board_core::edge::settings::Settings;
use board_core::model::card::CardId;
use board_core::model::job::{JobType, parse_job};
use board_core::model::outcome::parse_outcome;
use board_core::model::time::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::check::{self, Form};
use super::slots;
use crate::output::{Ended, Out, Style};
use crate::{when, words};

/// A file in the queue.
struct Lying {
    place: String,
    name: String,
    of: Option<About>,
    since: Option<Timestamp>,
    asked_to_stop: bool,
}

/// What a job or an outcome is about.
struct About {
    job: Uuid,
    card: CardId,
    kind: JobType,
}

/// A lock that somebody holds.
struct Held {
    name: String,
    holder: Option<Holder>,
}

/// Prints the queue and the locks.
///
/// # Errors
/// A state directory that is not there or that this user may not read.
pub(crate) fn show(settings: &Settings, out: Out) -> anyhow::Result<()> {
    let state_dir = &settings.board.state_dir;
    let queue = Queue::look_at(state_dir);
    let files = lying(&queue)?;
    let held = held(state_dir)?;
    if out.json {
        let files: Vec<Value> = files
            .iter()
            .map(|f| {
                let (card, kind) = f.of.as_ref().map(|of| (&of.card, of.kind.id())).unzip();
                json!({"place": f.place, "file": f.name, "card": card, "type": kind, "since": f.since,
                       "cancel": f.asked_to_stop})
            })
            .collect();
        let locks: Vec<Value> = held
            .iter()
            .map(|lock| {
                let holder = lock
                    .holder
                    .as_ref()
                    .map(|h| json!({"pid": h.pid, "program": h.program, "since": h.since}));
                json!({"lock": lock.name, "holder": holder})
            })
            .collect();
        return Ok(out.value(&json!({"files": files, "locks": locks}))?);
    }
    let now = now();
    if files.is_empty() {
        out.line(words::queue_empty(out.language))?;
    }
    let rows: Vec<_> = files
        .iter()
        .map(|file| {
            let since = file.since.map(|at| when::span(now.seconds_since(at))).unwrap_or_default();
            let (card, kind) = match &file.of {
                Some(of) => (of.card.to_string(), of.kind.id()),
                None => (words::unreadable(out.language), ""),
            };
            let stop = if file.asked_to_stop { words::asked_to_stop(out.language) } else { String::new() };
            vec![
                (Style::Strong, file.place.clone()),
                (Style::Name, card),
                (Style::Plain, kind.to_owned()),
                (Style::Plain, words::since(out.language, &since)),
                (Style::Faint, file.name.clone()),
                (Style::Notice, stop),
            ]
        })
        .collect();
    out.table(&rows)?;
    if !held.is_empty() {
        out.line("")?;
    }
    let rows: Vec<_> = held
        .iter()
        .map(|lock| {
            let (who, since) = match &lock.holder {
                Some(h) => (format!("{} ({})", h.program, h.pid), when::span(now.seconds_since(h.since))),
                // bubblewrap locks these and writes no name into them.
                None if lock.name.starts_with("sandbox-") => (words::an_agent(out.language), String::new()),
                None => (words::somebody(out.language), String::new()),
            };
            vec![
                (Style::Strong, words::lock(out.language, &lock.name)),
                (Style::Plain, who),
                (Style::Plain, if since.is_empty() { since } else { words::since(out.language, &since) }),
            ]
        })
        .collect();
    Ok(out.table(&rows)?)
}

fn lying(queue: &Queue) -> anyhow::Result<Vec<Lying>> {
    let view = queue.view_without_done(false)?;
    let mut files = Vec::new();
    let mut add = |place: String, dir: &Path, name: String| {
        let path = dir.join(&name);
        let of = std::fs::read(&path).ok().and_then(|bytes| about(&bytes));
        let asked_to_stop = of.as_ref().is_some_and(|of| view.cancels.contains(&of.job));
        files.push(Lying { place, name, of, since: changed(&path), asked_to_stop });
    };
    for (lane, job) in &view.inbox {
        add(format!("inbox/{}", lane.id()), &queue.inbox_dir(*lane), job.job_file());
    }
    for file in &view.running {
        let dir = queue.running_dir().join(&file.place);
        add(format!("running/{}", file.place), &dir, file.job.job_file());
    }
    for job in &view.outcomes {
        add("outcomes".to_owned(), &queue.outcomes_dir(), job.outcome_file());
    }
    Ok(files)
}

fn about(bytes: &[u8]) -> Option<About> {
    if let Ok(job) = parse_job(bytes) {
        return Some(About { job: job.id, card: job.card_id, kind: job.kind });
    }
    let outcome = parse_outcome(bytes).ok()?;
    Some(About { job: outcome.job_id, card: outcome.card_id, kind: outcome.kind })
}

/// When the file came to where it is: a rename changes the inode, not the content.
fn changed(path: &Path) -> Option<Timestamp> {
    let about = std::fs::symlink_metadata(path).ok()?;
    Some(Timestamp::from_millis(about.ctime().saturating_mul(1000)))
}

fn held(state_dir: &Path) -> anyhow::Result<Vec<Held>> {
    let locked = slots::locked_inodes();
    // Every lock of ours lies beside the trigger's, but for that of the state.
    let dir = board_core::edge::lock::trigger_lock(state_dir);
    let dir = dir.parent().unwrap_or(state_dir);
    let mut held = Vec::new();
    for dir in [dir, state_dir] {
        let entries = match list_dir(dir) {
            Err(error) if error.is_not_found() => continue,
            other => other?,
        };
        for entry in entries {
            let path = dir.join(&entry.name);
            let Some(name) = entry.name.to_str().and_then(|name| name.strip_suffix(".lock")) else {
                continue;
            };
            let inode = std::fs::symlink_metadata(&path).map(|about| about.ino()).ok();
            if inode.is_some_and(|inode| locked.contains(&inode)) {
                held.push(Held { name: name.to_owned(), holder: holder(&path) });
            }
        }
    }
    Ok(held)
}

/// Drops a job file by hand.
///
/// # Errors
/// [`Ended::Findings`] for a file that would be refused; a directory that cannot be written.
pub(crate) fn drop_file(settings: &Settings, file: &Path, out: Out) -> anyhow::Result<()> {
    let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
    let (form, found) = check::findings(&bytes);
    if !found.is_empty() {
        return check::job_file(file, out);
    }
    if form != Form::Drop {
        crate::output::complain(&words::only_drops(out.language));
        return Err(Ended::Findings.into());
    }
    let dir = Queue::look_at(&settings.board.state_dir).drop_dir();
    let name = format!("{}.json", Uuid::now_v7());
    let staged = dir.join(format!(".{name}.tmp"));
    // Readable for the service, which is another user than whoever drops.
    let mut options = std::fs::OpenOptions::new();
    let written = options.write(true).create_new(true).mode(0o644).open(&staged).and_then(|mut to| {
        to.write_all(&bytes)?;
        to.sync_all()?;
        std::fs::rename(&staged, dir.join(&name))
    });
    if let Err(error) = written {
        let _ = std::fs::remove_file(&staged);
        return Err(
            anyhow::Error::new(error).context(words::cannot_drop(out.language, &dir.display().to_string()))
        );
    }
    if out.json {
        return Ok(out.value(&json!({"dropped": name}))?);
    }
    Ok(out.line(out.paint(Style::Good, words::dropped(out.language, &name)))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_and_an_outcome_tell_their_card() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../queue-schema/examples");
        for name in ["job.review.json", "outcome.review.succeeded.json"] {
            let of = about(&std::fs::read(home.join(name)).unwrap()).unwrap();
            assert_eq!(
                (of.card.to_string().as_str(), of.kind),
                ("board-kartenlimit", JobType::Review),
                "{name}"
            );
        }
        assert!(about(b"{}").is_none());
    }
}

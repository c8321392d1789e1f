//! Jobs: the queue with positions, and one job with its log.
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use board_core::edge::settings::Language;
use board_core::model::card::Card;
use board_core::model::job::{Job, JobRef};
use board_core::model::pending::Place;
use board_core::model::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::text;
use crate::i18n::t;
use crate::world::World;

/// Where a job can be, as the catalogue names it.
pub(crate) const PLACES: [&str; 6] = ["parked", "nowhere", "inbox", "running", "outcomes", "done"];

/// Largest part of a log that is answered at once, in bytes.
pub(crate) const MAX_LOG_PART: u64 = 512 * 1024;
/// Lines of a log that a page shows at most.
pub(crate) const MAX_LOG_LINES: usize = 5_000;
/// Ended jobs that the list shows.
const ENDED_SHOWN: usize = 20;

/// A job in the list.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct JobLine {
    /// Its id.
    pub(crate) id: String,
    /// The n-th file of it.
    pub(crate) attempt: u32,
    /// `builder`, `review`, `research`, `split` or `draft`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// Its lane.
    pub(crate) lane: &'static str,
    /// Its card.
    pub(crate) card_id: String,
    /// The card's title.
    pub(crate) title: String,
    /// `parked`, `nowhere`, `inbox`, `running`, `outcomes` or `done`.
    pub(crate) place: &'static str,
    /// Place in its lane's inbox, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<usize>,
    /// Slot that runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slot: Option<String>,
    /// The profile, frozen.
    pub(crate) profile: String,
    /// Iterations used and allowed.
    pub(crate) iterations: (u32, u32),
    /// When it was made.
    pub(crate) created_at: String,
    /// Who asked for it.
    pub(crate) requested_by: String,
    /// What the run does, where the runtime tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) doing: Option<String>,
    /// When the run last gave a sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_activity: Option<String>,
    /// What it waits for, in the language of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
}

/// A job that ended, as far as the cards tell.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct EndedLine {
    /// Its id.
    pub(crate) id: String,
    /// Its card.
    pub(crate) card_id: String,
    /// The card's title.
    pub(crate) title: String,
    /// Id of the event that ended it.
    pub(crate) event: String,
    /// The same in words.
    pub(crate) label: String,
    /// When.
    pub(crate) at: String,
}

/// The queue.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct JobsJson {
    /// Changes whenever something else is shown; the `ETag`.
    pub(crate) rev: u64,
    /// Current jobs: running ones first, then by lane and position.
    pub(crate) jobs: Vec<JobLine>,
    /// Jobs that ended last.
    pub(crate) ended: Vec<EndedLine>,
    /// What is paused.
    pub(crate) pauses: Vec<PauseJson>,
}

/// A pause.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct PauseJson {
    /// `all`, `lane` or `profile`.
    pub(crate) what: &'static str,
    /// Which lane or profile.
    pub(crate) name: Option<String>,
    /// Since when.
    pub(crate) since: String,
    /// Until when; without it the operator ends it.
    pub(crate) until: Option<String>,
    /// Who paused it.
    pub(crate) by: String,
    /// Why.
    pub(crate) reason: String,
}

/// The pauses that hold now.
pub(crate) fn pauses(world: &World) -> Vec<PauseJson> {
    use board_core::model::board::PauseTarget;
    let holds = |pause: &&board_core::model::board::Pause| pause.until.is_none_or(|until| world.now < until);
    world
        .board
        .pauses
        .iter()
        .filter(holds)
        .map(|pause| {
            let (what, name) = match &pause.target {
                PauseTarget::All => ("all", None),
                PauseTarget::Lane(lane) => ("lane", Some(lane.id().to_owned())),
                PauseTarget::Profile(profile) => ("profile", Some(profile.clone())),
            };
            PauseJson {
                what,
                name,
                since: pause.since.to_string(),
                until: pause.until.map(|until| until.to_string()),
                by: pause.by.clone(),
                reason: pause.reason.clone(),
            }
        })
        .collect()
}

/// The line of a card's job.
pub(crate) fn line(world: &World, card: &Card, job: &Job, language: Language) -> JobLine {
    let reference = job.reference();
    let current = card.current_job().is_some();
    let place = match (current, card.parked.is_some(), world.place(reference)) {
        (true, true, _) => "parked",
        (false, _, _) => "done",
        (true, false, Place::Nowhere) => "nowhere",
        (true, false, Place::Inbox) => "inbox",
        (true, false, Place::Running) => "running",
        (true, false, Place::Outcomes) => "outcomes",
        (true, false, Place::Done) => "done",
    };
    let run = world.runs.get(&reference);
    let used =
        run.map(|run| run.iterations).or(card.used.as_ref().filter(|_| !current).map(|used| used.iterations));
    JobLine {
        id: job.id.to_string(),
        attempt: job.attempt,
        kind: job.kind.id(),
        lane: job.kind.lane().id(),
        card_id: card.id.to_string(),
        title: text::excerpt(world.title(card), 120),
        place,
        position: world.queue.position(reference),
        slot: world.queue.running.iter().find(|file| file.job == reference).map(|file| file.place.clone()),
        profile: job.profile.clone(),
        iterations: (used.unwrap_or(0), job.iteration_limit),
        created_at: job.created_at.to_string(),
        requested_by: job.requested_by.clone(),
        doing: run.and_then(|run| run.doing.as_deref()).map(|doing| text::excerpt(doing, 120)),
        last_activity: run.map(|run| run.last_activity.to_string()),
        state: super::board::state(world, card, language).filter(|_| current).map(|state| state.text),
    }
}

/// All current jobs and those that ended last.
pub(crate) fn jobs(world: &World, language: Language) -> JobsJson {
    let mut jobs: Vec<JobLine> =
        world.board.running().map(|(card, job)| line(world, card, job, language)).collect();
    let order = |place: &str| {
        PLACES.iter().position(|known| *known == place).map(|at| if place == "running" { 0 } else { at + 1 })
    };
    jobs.sort_by_key(|job| (order(job.place), job.lane, job.position, job.created_at.clone()));
    let mut ended: BTreeMap<(Timestamp, Uuid), EndedLine> = BTreeMap::new();
    for card in world.board.cards.values() {
        let current = card.current_job().map(|job| job.id);
        for step in &card.history {
            let Some(job) = step.job.filter(|job| Some(job.job) != current) else { continue };
            let event = super::actions::event_of(&step.event);
            let label = match (event, language) {
                (Some(event), Language::De) => event.label_de(),
                (Some(event), Language::En) => event.label_en(),
                (None, _) => continue,
            };
            let line = EndedLine {
                id: job.job.to_string(),
                card_id: card.id.to_string(),
                title: text::excerpt(world.title(card), 120),
                event: step.event.clone(),
                label: label.to_owned(),
                at: step.at.to_string(),
            };
            ended.retain(|(_, id), _| *id != job.job);
            ended.insert((step.at, job.job), line);
        }
    }
    let ended: Vec<EndedLine> = ended.into_values().rev().take(ENDED_SHOWN).collect();
    let pauses = pauses(world);
    let shown = (
        serde_json::to_string(&jobs).unwrap_or_default(),
        serde_json::to_string(&ended).unwrap_or_default(),
        serde_json::to_string(&pauses).unwrap_or_default(),
    );
    JobsJson { rev: super::board::revision(world.board.generation, &shown), jobs, ended, pauses }
}

/// The card that a job belongs to, current or ended.
pub(crate) fn card_of_job(world: &World, job: Uuid) -> Option<&Card> {
    let mut cards = world.board.cards.values();
    let own = cards.clone().find(|card| card.job.as_ref().is_some_and(|own| own.id == job));
    own.or_else(|| cards.find(|card| card.history.iter().any(|step| step.job.is_some_and(|j| j.job == job))))
}

/// The newest attempt of a job that left a log.
pub(crate) fn newest_log(logs: &Path, job: Uuid) -> Option<JobRef> {
    let entries = std::fs::read_dir(logs).ok()?;
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".jsonl")?.parse::<JobRef>().ok())
        .filter(|reference| reference.job == job)
        .max()
}

/// A line of a log, as the worker writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct LogLine {
    /// When.
    #[serde(default)]
    pub(crate) t: String,
    /// `out`, `err`, `in` or `note`.
    #[serde(default)]
    pub(crate) s: String,
    /// The text.
    #[serde(default)]
    pub(crate) l: String,
}

/// A part of a log.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub(crate) struct LogPart {
    /// Where it begins, in bytes.
    pub(crate) offset: u64,
    /// Where the next part begins.
    pub(crate) next_offset: u64,
    /// Size of the log.
    pub(crate) size: u64,
    /// Whole lines.
    pub(crate) lines: Vec<LogLine>,
}

/// Reads whole lines of a log from `offset`, or its end where that is larger than a part. A log that became
/// shorter is read from its beginning.
///
/// # Errors
/// With the path; a log that is not there is empty.
pub(crate) fn read_log(logs: &Path, job: JobRef, offset: Option<u64>) -> anyhow::Result<LogPart> {
    let path = logs.join(format!("{job}.jsonl"));
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(&path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(LogPart::default()),
        Err(error) => return Err(anyhow::Error::from(error).context(path.display().to_string())),
    };
    let about = file.metadata()?;
    anyhow::ensure!(about.is_file(), "{} is no regular file", path.display());
    let size = about.len();
    let from = match offset {
        Some(offset) if offset <= size => offset,
        Some(_) => 0,
        None => size.saturating_sub(MAX_LOG_PART),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG_PART).read_to_end(&mut bytes)?;
    // A page begins at a line even where the tail of a large log is asked for.
    let skip = match offset {
        None if from > 0 => bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| at + 1),
        None | Some(_) => 0,
    };
    let end = bytes.iter().rposition(|b| *b == b'\n').map_or(skip, |at| at + 1).max(skip);
    let lines = bytes[skip..end]
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let mut line = serde_json::from_slice::<LogLine>(line).unwrap_or_else(|_| LogLine {
                t: String::new(),
                s: "note".to_owned(),
                l: String::from_utf8_lossy(line).into_owned(),
            });
            line.l = text::log_line(&line.l);
            line
        })
        .collect();
    Ok(LogPart { offset: from + skip as u64, next_offset: from + end as u64, size, lines })
}

/// The place of a job in words.
pub(crate) fn place_label(place: &str, language: Language) -> String {
    t(language, &format!("place.{place}"), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference() -> JobRef {
        JobRef { job: Uuid::from_u128(7), attempt: 1 }
    }

    #[test]
    fn a_log_is_read_by_whole_lines_and_goes_on_where_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(format!("{}.jsonl", reference()));
        let first = "{\"t\":\"2026-11-30T20:00:00Z\",\"s\":\"out\",\"l\":\"\\u001b[1meins\"}\n";
        std::fs::write(&path, format!("{first}{{\"t\":\"x\",\"s\":\"er")).unwrap();
        let part = read_log(dir.path(), reference(), Some(0)).unwrap();
        assert_eq!(part.lines.len(), 1);
        assert_eq!((part.lines[0].l.as_str(), part.next_offset), ("eins", first.len() as u64));
        std::fs::write(&path, format!("{first}{{\"s\":\"err\",\"l\":\"zwei\"}}\nkein JSON\n")).unwrap();
        let part = read_log(dir.path(), reference(), Some(part.next_offset)).unwrap();
        assert_eq!(part.lines.iter().map(|l| l.l.as_str()).collect::<Vec<_>>(), ["zwei", "kein JSON"]);
        assert_eq!(newest_log(dir.path(), reference().job), Some(reference()));
    }

    #[test]
    fn a_log_that_became_shorter_is_read_from_its_beginning_and_a_missing_one_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read_log(dir.path(), reference(), None).unwrap().lines.is_empty());
        std::fs::write(dir.path().join(format!("{}.jsonl", reference())), "{\"l\":\"neu\"}\n").unwrap();
        assert_eq!(read_log(dir.path(), reference(), Some(9_999)).unwrap().lines[0].l, "neu");
    }

    #[test]
    fn t17_a_link_in_the_place_of_a_log_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join(format!("{}.jsonl", reference()))).unwrap();
        assert!(read_log(dir.path(), reference(), None).is_err());
    }
}

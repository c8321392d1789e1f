//! Live updates: who is connected is told that something else is to be shown (web.md, 2.6).
//!
//! Events carry revisions, never content. A thread watches the files that a page is made of, but only while
//! somebody is connected: an idle board wakes up for nothing.
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use board_core::edge::settings::Language;
use board_core::edge::wake::{Wake, Waker, WatchSpec};
use board_core::model::job::Lane;
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::app::App;
use crate::reply::Problem;
use crate::view::board::{BoardJson, Filter, board};
use crate::view::job;

/// Revisions that are kept for a client that reconnects.
const KEPT: usize = 256;
/// Open streams of one user at most.
const MAX_STREAMS_PER_USER: usize = 16;
/// Open streams at most.
const MAX_STREAMS: usize = 64;
/// Changes closer together than this are told at once.
const GATHER: Duration = Duration::from_millis(200);

/// One change of what is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// The revision from here on.
    pub(crate) rev: u64,
    /// Cards that are new, changed or gone.
    pub(crate) changed: Vec<String>,
    /// Columns that are concerned.
    pub(crate) columns: Vec<&'static str>,
    /// Jobs that went on, with where they are.
    #[serde(skip)]
    pub(crate) jobs: Vec<(String, &'static str)>,
}

/// What was told last, and to whom.
#[derive(Debug, Default)]
struct Inner {
    users: BTreeMap<String, usize>,
    kept: VecDeque<Change>,
    rev: u64,
    cards: BTreeMap<String, (&'static str, u64)>,
    jobs: BTreeMap<String, &'static str>,
    waker: Option<Waker>,
}

/// Everybody who is connected.
#[derive(Debug)]
pub(crate) struct Live {
    inner: Arc<Mutex<Inner>>,
    told: watch::Sender<u64>,
    /// The state may have another next due start.
    pub(crate) due: Notify,
}

/// One open stream; dropping it closes it.
#[derive(Debug)]
pub(crate) struct Stream {
    inner: Arc<Mutex<Inner>>,
    user: String,
    /// Tells that there is something new.
    pub(crate) told: watch::Receiver<u64>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut inner = lock(&self.inner);
        if let Some(count) = inner.users.get_mut(&self.user) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                inner.users.remove(&self.user);
            }
        }
        if inner.users.is_empty()
            && let Some(waker) = inner.waker.take()
        {
            waker.wake();
        }
    }
}

impl Stream {
    /// The changes since a revision; none if it is not known any more.
    pub(crate) fn since(&self, rev: u64) -> Option<Vec<Change>> {
        let inner = lock(&self.inner);
        if rev == inner.rev {
            return Some(Vec::new());
        }
        let at = inner.kept.iter().position(|change| change.rev == rev)?;
        Some(inner.kept.iter().skip(at + 1).cloned().collect())
    }

    /// The newest revision.
    pub(crate) fn rev(&self) -> u64 {
        lock(&self.inner).rev
    }
}

fn lock(inner: &Mutex<Inner>) -> std::sync::MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// Nobody is connected.
    pub(crate) fn new() -> Live {
        Live { inner: Arc::default(), told: watch::channel(0).0, due: Notify::new() }
    }

    /// The state was written here: looks at once, and at the timer.
    pub(crate) fn state_changed(&self) {
        self.due.notify_one();
        if let Some(waker) = &lock(&self.inner).waker {
            waker.wake();
        }
    }

    /// Connects somebody; the first one starts the watching thread. Blocking.
    ///
    /// # Errors
    /// 429 beyond the caps.
    pub(crate) fn connect(&self, app: &Arc<App>, user: &str) -> Result<Stream, Problem> {
        {
            let mut inner = lock(&self.inner);
            let all: usize = inner.users.values().sum();
            let own = inner.users.get(user).copied().unwrap_or(0);
            if all >= MAX_STREAMS || own >= MAX_STREAMS_PER_USER {
                return Err(Problem::new(429, "too-many-streams").retry_after(10));
            }
            *inner.users.entry(user.to_owned()).or_default() += 1;
        }
        let stream = Stream { inner: self.inner.clone(), user: user.to_owned(), told: self.told.subscribe() };
        // What is told from here on is measured against what is there now.
        self.look(app);
        self.start_watching(app);
        Ok(stream)
    }

    fn start_watching(&self, app: &Arc<App>) {
        let mut inner = lock(&self.inner);
        if inner.waker.is_some() {
            return;
        }
        let mut wake = match Wake::new(&specs(app)) {
            Ok(wake) => wake,
            Err(error) => {
                // Clients poll as well; the board works without.
                tracing::warn!("cannot watch for changes: {error:#}");
                return;
            }
        };
        inner.waker = Some(wake.waker());
        drop(inner);
        let app = Arc::downgrade(app);
        let spawned = std::thread::Builder::new().name("live".to_owned()).spawn(move || {
            loop {
                wake.wait(None);
                let Some(app) = app.upgrade() else { return };
                if lock(&app.live.inner).waker.is_none() {
                    return;
                }
                app.live.look(&app);
                drop(app);
                std::thread::sleep(GATHER);
            }
        });
        if let Err(error) = spawned {
            tracing::warn!("cannot watch for changes: {error}");
            lock(&self.inner).waker = None;
        }
    }

    /// Compares what would be shown with what was told, and tells the difference.
    fn look(&self, app: &App) {
        let world = match app.world() {
            Ok(world) => world,
            Err(problem) => return tracing::warn!("live: {}", problem.code),
        };
        let (board, _) = board(&world, &Filter::default(), Language::De);
        let jobs = job::jobs(&world, Language::De);
        let jobs = jobs.jobs.into_iter().map(|job| (job.id, job.place)).collect();
        if self.tell(&board, jobs) {
            self.told.send_modify(|n| *n += 1);
        }
    }

    fn tell(&self, board: &BoardJson, jobs: BTreeMap<String, &'static str>) -> bool {
        let mut inner = lock(&self.inner);
        if board.rev == inner.rev {
            return false;
        }
        let cards: BTreeMap<String, (&'static str, u64)> = board
            .columns
            .iter()
            .flat_map(|column| column.cards.iter().map(|card| (card.id.clone(), (column.id, hash(card)))))
            .collect();
        let mut change =
            Change { rev: board.rev, changed: Vec::new(), columns: Vec::new(), jobs: Vec::new() };
        let mut concern = |column: &'static str| {
            if !change.columns.contains(&column) {
                change.columns.push(column);
            }
        };
        for (id, new) in &cards {
            let old = inner.cards.get(id);
            if old != Some(new) {
                concern(new.0);
                if let Some(old) = old {
                    concern(old.0);
                }
                change.changed.push(id.clone());
            }
        }
        for (id, old) in inner.cards.iter().filter(|(id, _)| !cards.contains_key(*id)) {
            concern(old.0);
            change.changed.push(id.clone());
        }
        change.jobs = jobs
            .iter()
            .filter(|(id, place)| inner.jobs.get(*id) != Some(*place))
            .map(|(id, p)| (id.clone(), *p))
            .collect();
        let first = inner.rev == 0;
        inner.rev = board.rev;
        inner.cards = cards;
        inner.jobs = jobs;
        if first {
            change.changed.clear();
        }
        if inner.kept.len() >= KEPT {
            inner.kept.pop_front();
        }
        inner.kept.push_back(change);
        true
    }
}

fn hash(card: &crate::view::board::Summary) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::hash::DefaultHasher::new();
    card.hash(&mut hasher);
    hasher.finish()
}

/// The files that a page is made of; directories that are not there are left out.
fn specs(app: &App) -> Vec<WatchSpec> {
    let mut specs = vec![WatchSpec::file(app.store.path())];
    let repository = &app.settings.board.repository;
    let mut dirs =
        vec![repository.join("docs/intent"), repository.join("docs/research"), app.queue.outcomes_dir()];
    dirs.extend(Lane::ALL.map(|lane| app.queue.inbox_dir(lane)));
    if let Ok(slots) = std::fs::read_dir(app.queue.running_dir()) {
        dirs.extend(slots.filter_map(|slot| Some(slot.ok()?.path())));
    }
    specs.extend(dirs.into_iter().filter(|dir| dir.is_dir()).map(WatchSpec::all));
    specs
}

/// Waits for parked starts and publishes them when they are due; the only timer of the trigger, and there is
/// none while nothing is parked.
pub(crate) async fn release_when_due(app: Arc<App>) {
    loop {
        let due = {
            let app = app.clone();
            tokio::task::spawn_blocking(move || app.board().ok().and_then(|board| board.next_due()))
                .await
                .ok()
                .flatten()
        };
        let Some(due) = due else {
            app.live.due.notified().await;
            continue;
        };
        let left = due.as_millis() - board_core::edge::clock::now().as_millis();
        // At most the undo window: a clock that was set back does not keep a start for ever.
        let longest = i64::from(app.policy.undo_seconds) * 1_000;
        let wait = Duration::from_millis(u64::try_from(left.clamp(0, longest)).unwrap_or(0));
        let deadline = tokio::time::Instant::from_std(Instant::now() + wait);
        tokio::select! {
            () = tokio::time::sleep_until(deadline) => {
                let app = app.clone();
                let released = tokio::task::spawn_blocking(move || app.release_due()).await;
                if released.is_err() || wait.is_zero() {
                    // Something cannot be released (a full disk): tried again, but not in a circle.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            () = app.live.due.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::board::ColumnJson;

    fn board_with(rev: u64, ids: &[(&str, u64)]) -> BoardJson {
        let cards = ids
            .iter()
            .map(|(id, rev)| crate::view::board::Summary {
                id: (*id).to_owned(),
                title: String::new(),
                source: "idea",
                phase: "idee",
                rev: *rev,
                changed_at: String::new(),
                allowed: Vec::new(),
                state: None,
                parent_id: None,
                children: None,
                unread: false,
                file_missing: false,
                undo_until: None,
            })
            .collect();
        let column = ColumnJson { id: "backlog", label: String::new(), count: 0, cards };
        BoardJson { rev, columns: vec![column], broken: Vec::new() }
    }

    fn stream(live: &Live) -> Stream {
        Stream { inner: live.inner.clone(), user: "a".into(), told: live.told.subscribe() }
    }

    #[test]
    fn a_client_gets_what_changed_since_its_revision_and_nothing_twice() {
        let live = Live::new();
        assert!(live.tell(&board_with(1, &[("a", 1), ("b", 1)]), BTreeMap::new()));
        assert!(!live.tell(&board_with(1, &[("a", 1), ("b", 1)]), BTreeMap::new()));
        assert!(live.tell(&board_with(2, &[("a", 2), ("c", 1)]), BTreeMap::new()));
        let stream = stream(&live);
        let changes = stream.since(1).unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].changed, ["a", "c", "b"]);
        assert_eq!(changes[0].columns, ["backlog"]);
        assert_eq!(stream.since(2), Some(Vec::new()));
        assert_eq!(stream.since(99), None, "an unknown revision means: fetch everything");
    }

    #[test]
    fn so_many_revisions_are_kept_and_no_more() {
        let live = Live::new();
        for rev in 1..=u64::try_from(KEPT).unwrap() + 1 {
            live.tell(&board_with(rev, &[("a", rev)]), BTreeMap::new());
        }
        let stream = stream(&live);
        assert_eq!(stream.since(2).unwrap().len(), KEPT - 1);
        assert_eq!(stream.since(1), None);
    }
}

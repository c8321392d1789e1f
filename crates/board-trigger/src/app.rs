//! What a running board holds: configuration, identity, state, queue, repository, templates.
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use board_core::edge::clock;
use board_core::edge::lock::{Lock, LockClass, trigger_lock};
use board_core::edge::orders::Orders;
use board_core::edge::queue::{Queue, QueueError, SlotName};
use board_core::edge::reconcile;
use board_core::edge::settings::{AuthMode, Listen, Settings};
use board_core::edge::store::{Held, Store};
use board_core::edge::waits::Waits;
use board_core::model::board::{Board, Policy};
use board_core::model::card::CardId;
use board_core::model::job::JobRef;
use board_core::model::pending::{Place, QueueView};

use crate::audit_log::AuditLog;
use crate::auth::{Auth, open, proxy, user_name};
use crate::change::{disk_failing, disk_full, store_problem};
use crate::live::Live;
use crate::middleware::checks::Names;
use crate::reply::Problem;
use crate::repository::Repository;
use crate::view::Pages;
use crate::world::{Run, Runs, World};

/// A running board.
pub(crate) struct App {
    /// The configuration.
    pub(crate) settings: Settings,
    /// What of it the model decides on.
    pub(crate) policy: Policy,
    /// How identities are found.
    pub(crate) auth: Auth,
    /// Under which names it is right.
    pub(crate) names: Names,
    /// The TCP port, which names the cookie; 0 on a unix socket.
    pub(crate) port: u16,
    /// The user that this process runs as: the operator of mode `open`.
    pub(crate) own_name: String,
    /// The audit log.
    pub(crate) audit: AuditLog,
    /// The templates.
    pub(crate) pages: Pages,
    /// The state.
    pub(crate) store: Store,
    /// The queue.
    pub(crate) queue: Queue,
    /// The repository.
    pub(crate) repository: Repository,
    /// Who is told of changes.
    pub(crate) live: Live,
}

impl App {
    /// Opens everything that a request needs.
    ///
    /// # Errors
    /// If another trigger runs here (the lock is the caller's to keep), the state cannot be read, or the proxy's secret cannot be had.
    pub(crate) fn open(
        settings: Settings,
        listen: &Listen,
        own_uid_is_operator: bool,
    ) -> anyhow::Result<(App, Lock)> {
        let state_dir = &settings.board.state_dir;
        let (store, _) = Store::init(state_dir)?;
        let singleton = Lock::try_acquire(&trigger_lock(state_dir), LockClass::Singleton)
            .context("another trigger serves this state directory")?;
        let queue = Queue::open(state_dir, true)?;
        let (token, secrets) = match settings.auth.mode {
            AuthMode::Open => (Some(open::Token::load_or_make(state_dir)?), Vec::new()),
            AuthMode::Proxy => (None, proxy::load_secrets(&settings.auth)?),
            AuthMode::Oidc => anyhow::bail!("this build has no OIDC login; set auth.mode = \"proxy\""),
        };
        let own_uid = nix::unistd::geteuid().as_raw();
        let auth = Auth {
            own_uid_allowed: own_uid_is_operator || token.is_some(),
            settings: settings.auth.clone(),
            token,
            secrets,
            own_uid,
        };
        let port = match listen {
            Listen::Tcp(address) => address.port(),
            Listen::Unix(_) => 0,
        };
        tracing::info!("who somebody is, comes from: {}", auth.chain());
        let app = App {
            policy: settings.policy(),
            names: Names::new(settings.http.public_url.as_deref(), &settings.http.hosts, listen),
            audit: AuditLog::new(state_dir),
            pages: Pages::new().context("templates")?,
            own_name: user_name(own_uid),
            port,
            auth,
            store,
            queue,
            repository: Repository::new(&settings),
            live: Live::new(),
            settings,
        };
        // What a crash left between a write of the state and its files.
        app.release_due();
        Ok((app, singleton))
    }

    /// The policy for a job that is made now: with the descriptions of roles as the repository has them. Read before
    /// the state lock is taken, since it calls git where any is configured.
    pub(crate) fn policy_now(&self, board: &Board) -> Cow<'_, Policy> {
        if self.settings.roles.guidance().next().is_none() {
            return Cow::Borrowed(&self.policy);
        }
        let read = self.repository.reader(board).map_err(|error| error.to_string()).and_then(|reader| {
            Orders::new(&reader).guidance(&self.settings.roles).map_err(|error| error.sentence_de())
        });
        match read {
            Ok((guidance, missing)) => {
                for sentence in missing {
                    tracing::warn!("{sentence}; die Rolle arbeitet ohne");
                }
                Cow::Owned(Policy { guidance, ..self.policy.clone() })
            }
            Err(error) => {
                tracing::warn!("the descriptions of roles cannot be read: {error}");
                Cow::Borrowed(&self.policy)
            }
        }
    }

    /// The state.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub(crate) fn board(&self) -> Result<Arc<Board>, Problem> {
        self.store.read().map_err(store_problem)
    }

    /// Everything at one moment; blocking.
    ///
    /// # Errors
    /// If state or queue cannot be read; a repository that cannot be read is told on the page.
    pub(crate) fn world(&self) -> Result<World, Problem> {
        let board = self.board()?;
        let documents = self.repository.look(&board);
        let asked: Vec<JobRef> = board.running().map(|(_, job)| job.reference()).collect();
        let queue = self.queue.view(&asked, false).map_err(queue_problem)?;
        let runs = self.runs(&queue);
        Ok(World { board, documents, queue, runs, waits: self.waits(), now: clock::now() })
    }

    /// The same for one card and its family: what a click needs, whatever else there is; blocking.
    ///
    /// # Errors
    /// If state or queue cannot be read.
    pub(crate) fn world_of(&self, ids: &[&CardId]) -> Result<World, Problem> {
        let board = self.board()?;
        let mut wanted: Vec<CardId> = Vec::new();
        for id in ids {
            wanted.push((*id).clone());
            let Some(card) = board.cards.get(*id) else { continue };
            let family = card.parent.iter().chain(&card.children).cloned().map(CardId::Slug);
            // Those with an entry are known from the state.
            wanted.extend(family.filter(|other| !board.cards.contains_key(other)));
        }
        let wanted: Vec<&CardId> = wanted.iter().collect();
        // A repository that cannot be read stops no cancel; what needs it is refused where it is read.
        let documents =
            self.repository.look_at(&board, &wanted).unwrap_or_else(|_| self.repository.look(&board));
        let asked: Vec<JobRef> = board.running().map(|(_, job)| job.reference()).collect();
        let queue = self.queue.view(&asked, false).map_err(queue_problem)?;
        let runs = self.runs(&queue);
        Ok(World { board, documents, queue, runs, waits: self.waits(), now: clock::now() })
    }

    /// What the watcher waits for, as it told last.
    fn waits(&self) -> Arc<Waits> {
        Arc::new(Waits::read(&self.settings.board.state_dir))
    }

    fn runs(&self, view: &QueueView) -> Runs {
        let mut runs = BTreeMap::new();
        for file in &view.running {
            let progress =
                SlotName::from_dir_name(&file.place).and_then(|slot| self.queue.read_progress(slot));
            if let Some(progress) = progress {
                runs.insert(
                    progress.job,
                    Run {
                        iterations: progress.iterations,
                        last_activity: progress.last_activity,
                        doing: progress.doing,
                    },
                );
            }
        }
        runs
    }

    /// Whether any file of this job and attempt is in the queue.
    ///
    /// # Errors
    /// If the queue cannot be read.
    pub(crate) fn is_in_queue(&self, job: JobRef) -> Result<bool, QueueError> {
        Ok(self.queue.view(&[job], true)?.place(job) != Place::Nowhere)
    }

    /// Makes the queue agree with the state, under the state lock; the place of `job` in its inbox. A fault
    /// here undoes nothing: the state is durable, and the watcher's next pass goes on.
    pub(crate) fn settle(&self, held: &mut Held<'_>, job: Option<JobRef>) -> Option<usize> {
        if let Err(error) = reconcile::queue::pass(held, &self.queue, clock::now()) {
            tracing::error!("the queue could not be brought up to date: {error}");
        }
        self.live.state_changed();
        let job = job?;
        self.queue.view(&[job], false).ok()?.position(job)
    }

    /// Releases parked starts that are due and publishes them, under one hold of the state lock.
    pub(crate) fn release_due(&self) {
        let now = clock::now();
        let result = (|| {
            let mut held = self.store.hold()?;
            let released = held
                .update(|board| Ok::<_, std::convert::Infallible>(board.release_due(now)))
                .map_err(anyhow::Error::from)?;
            if released {
                self.settle(&mut held, None);
            }
            anyhow::Ok(())
        })();
        if let Err(error) = result {
            tracing::error!("parked starts could not be released: {error:#}");
        }
    }
}

/// A fault of the queue as the client sees it.
pub(crate) fn queue_problem(error: QueueError) -> Problem {
    if error.is_no_space() {
        return disk_full();
    }
    tracing::error!("{error}");
    if error.is_read_only() {
        return disk_failing();
    }
    Problem::new(503, "fault").detail_key("problem.queue", &[])
}

//! The board: the whole content of `state.json`, and what follows from it without asking anybody.

use std::collections::{BTreeMap, BTreeSet};

use super::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::card::{Card, CardId, Step};
use super::job::{DocumentText, Job, JobRef, Lane};
use super::profile::{Choice, ITERATION_CAP, RoleName};
use super::slug::Slug;

/// Version of `state.json`.
pub const STATE_SCHEMA: u32 = 1;
/// How long the keys of requests are kept, hours (web.md, section 4).
pub const REQUEST_HOURS: i64 = 48;
/// Keys of requests that are kept at most; the oldest go first.
pub const MAX_REQUESTS: usize = 20_000;
/// How long a deleted idea or draft can be brought back, hours.
pub const DELETED_HOURS: i64 = 24;

/// The content of `state.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// Version of the format, [`STATE_SCHEMA`].
    pub schema: u32,
    /// Raised by each write.
    pub generation: u64,
    /// The branch on which the board's state lives, fixed at the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Cards that have an entry; others are known from the repository alone.
    #[serde(default)]
    pub cards: BTreeMap<CardId, Card>,
    /// Transitions that are not committed yet, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outbox: Vec<OutboxEntry>,
    /// Requests of the last 48 h.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Request>,
    /// Ideas and drafts deleted within the last 24 h.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<Deleted>,
    /// Ids that became others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redirects: BTreeMap<CardId, CardId>,
    /// Profiles that the operator chose per role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<RoleName, String>,
    /// What is paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<Pause>,
}

/// A transition that has to become a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutboxEntry {
    /// The card.
    pub card: Slug,
    /// What happened.
    pub step: Step,
    /// The YAML that the commit writes; its hash is compared before a file is replaced.
    pub record: String,
    /// Documents of the transition: path and blob.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<WrittenDocument>,
    /// The commit that holds it, once it is durable. Kept until a newer one of the card is committed,
    /// so that a rebase of the operator is noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed: Option<Committed>,
}

/// A document of an outbox entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrittenDocument {
    /// Path in the repository.
    pub path: String,
    /// Object name of the whole file in the repository; none if no blob could be written yet.
    pub blob: String,
    /// Blob that it replaced, for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
}

/// Where an outbox entry was committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Committed {
    /// The commit.
    pub commit: String,
    /// When.
    pub at: Timestamp,
}

/// A request that was carried out, by its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The key.
    pub key: Uuid,
    /// When.
    pub at: Timestamp,
    /// The card it was about.
    pub card: CardId,
    /// The job it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Uuid>,
    /// Id of the event.
    pub event: String,
}

/// A deleted idea or draft.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deleted {
    /// The card as it was.
    pub card: Card,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
}

/// What a pause holds back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseTarget {
    /// Every lane.
    All,
    /// One lane.
    Lane(Lane),
    /// One profile.
    Profile(String),
}

/// Something that does not run for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// What.
    pub target: PauseTarget,
    /// Since when.
    pub since: Timestamp,
    /// Until when; without it the operator ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who paused it: a person, or `board` after `unavailable`.
    pub by: String,
    /// Why, a sentence.
    pub reason: String,
    /// How often in a row it was paused after `unavailable`.
    #[serde(default)]
    pub strikes: u32,
}

/// Minutes of the pauses after `unavailable`, by how often in a row (agents.md).
pub const PAUSE_MINUTES: [i64; 4] = [1, 5, 15, 60];

/// What the configuration lets the model decide on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The undo window of paid starts, seconds.
    pub undo_seconds: u32,
    /// Configured profiles with their own iteration limit.
    pub profiles: BTreeMap<String, Option<u32>>,
    /// Per role: configured profile and iteration limit.
    pub roles: BTreeMap<RoleName, RolePolicy>,
    /// `limits.iterations`, at most [`ITERATION_CAP`].
    pub iteration_cap: u32,
    /// Whether another service builds.
    pub external_builder: bool,
    /// Descriptions of roles in the repository, for the jobs that are made now.
    pub guidance: BTreeMap<RoleName, DocumentText>,
}

/// What the configuration says of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolePolicy {
    /// Its profile.
    pub profile: String,
    /// Its iteration limit.
    pub iterations: Option<u32>,
}

/// Who does something, when, and the fresh ids that it may use. The model has neither clock nor chance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Now.
    pub now: Timestamp,
    /// The operator's name, `drop:<user>`, or `board` for outcomes.
    pub actor: String,
    /// The idempotency key of the request, where there is one.
    pub request: Option<Uuid>,
    /// Id of the transition.
    pub transition: Uuid,
    /// Id of the job that the event may make, a UUIDv7.
    pub job: Uuid,
    /// Whether a start may be parked (a click) or not (a drop, `boardctl start`).
    pub park: bool,
}

impl Board {
    /// A board without cards.
    pub fn empty() -> Board {
        Board {
            schema: STATE_SCHEMA,
            generation: 0,
            branch: None,
            cards: BTreeMap::new(),
            outbox: Vec::new(),
            requests: Vec::new(),
            deleted: Vec::new(),
            redirects: BTreeMap::new(),
            roles: BTreeMap::new(),
            pauses: Vec::new(),
        }
    }

    /// Takes in a card that the repository tells of and the state does not know yet. Ideas and drafts live in the state
    /// alone: one that is not there was deleted since it was looked at, and does not come back by a late click.
    pub fn take_in(&mut self, card: &Card) {
        if card.id.slug().is_some() {
            self.cards.entry(card.id.clone()).or_insert_with(|| card.clone());
        }
    }

    /// The profile and the iteration limit that a job of this role gets: the card's choice, else what the
    /// operator chose for the role, else the configuration. The planner's profile is configuration only.
    pub fn resolve(&self, role: RoleName, choice: &Choice, policy: &Policy) -> (String, u32) {
        let configured = policy.roles.get(&role);
        let known = |name: &&String| policy.profiles.contains_key(*name);
        let chosen = match role {
            RoleName::Builder | RoleName::Researcher => {
                choice.profile.as_ref().filter(known).or_else(|| self.roles.get(&role).filter(known))
            }
            RoleName::Reviewer => self.roles.get(&role).filter(known),
            RoleName::Planner => None,
        };
        let profile = chosen.cloned().or_else(|| configured.map(|r| r.profile.clone())).unwrap_or_default();
        let own = match role {
            RoleName::Builder | RoleName::Researcher => choice.iterations,
            RoleName::Reviewer | RoleName::Planner => None,
        };
        let limit = [
            own,
            configured.and_then(|r| r.iterations),
            policy.profiles.get(&profile).copied().flatten(),
            Some(policy.iteration_cap),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(ITERATION_CAP)
        .clamp(1, ITERATION_CAP);
        (profile, limit)
    }

    /// The pause that holds back this job now, if any; a pause by hand before one that ends by itself.
    pub fn pause_of(&self, job: &Job, now: Timestamp) -> Option<&Pause> {
        self.pauses
            .iter()
            .filter(|pause| match &pause.target {
                PauseTarget::All => true,
                PauseTarget::Lane(lane) => *lane == job.kind.lane(),
                PauseTarget::Profile(profile) => *profile == job.profile,
            })
            .filter(|pause| pause.until.is_none_or(|until| now < until))
            .max_by_key(|pause| (pause.until.is_none(), pause.until))
    }

    /// Cards with a current job, parked ones included.
    pub fn running(&self) -> impl Iterator<Item = (&Card, &Job)> {
        self.cards.values().filter_map(|card| card.current_job().map(|job| (card, job)))
    }

    /// The card whose current job and attempt this is.
    pub fn card_of(&self, job: JobRef) -> Option<&Card> {
        self.running().find(|(_, current)| current.reference() == job).map(|(card, _)| card)
    }

    /// The earliest end of a parked start, for the timers of trigger and watcher.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.cards.values().filter_map(|card| card.parked.as_ref()).map(|p| p.not_before).min()
    }

    /// The earliest end of a pause that ends by itself.
    pub fn next_pause_end(&self, now: Timestamp) -> Option<Timestamp> {
        self.pauses.iter().filter_map(|p| p.until).filter(|until| *until > now).min()
    }

    /// The request with this key.
    pub fn request(&self, key: Uuid) -> Option<&Request> {
        self.requests.iter().rev().find(|request| request.key == key)
    }

    /// Follows an id that became another.
    pub fn redirect(&self, id: &CardId) -> Option<&CardId> {
        self.redirects.get(id)
    }

    /// Every slug that is taken by a card, by a path that is being written or by an order.
    pub fn taken_slugs(&self) -> BTreeSet<String> {
        let mut taken: BTreeSet<String> =
            self.cards.keys().filter_map(|id| id.slug()).map(ToString::to_string).collect();
        for path in self.reserved_paths() {
            if let Some(slug) = path.rsplit('/').next().and_then(|name| name.strip_suffix(".md")) {
                taken.insert(slug.to_owned());
            }
        }
        taken
    }

    /// New documents that a transition or an order is about to write; they are no cards yet.
    pub fn reserved_paths(&self) -> BTreeSet<String> {
        let mut paths = BTreeSet::new();
        for card in self.cards.values() {
            if let Some(applying) = &card.applying {
                paths.extend(
                    applying
                        .documents
                        .iter()
                        .filter(|d| d.kind == super::card::WriteKind::New)
                        .map(|d| d.path.clone()),
                );
            }
            // A path on which the order failed is somebody else's.
            let order = card.order.as_ref().filter(|order| order.base_blob.is_none());
            if let Some(order) = order.filter(|order| order.conflict.is_none()) {
                paths.insert(order.path.clone());
            }
        }
        paths
    }

    /// Forgets requests and deleted cards that are older than their windows.
    pub fn forget_old(&mut self, now: Timestamp) {
        let before = |hours: i64| now.plus_seconds(-hours * 3600);
        let requests = before(REQUEST_HOURS);
        self.requests.retain(|request| request.at >= requests);
        if self.requests.len() > MAX_REQUESTS {
            self.requests.drain(..self.requests.len() - MAX_REQUESTS);
        }
        let deleted = before(DELETED_HOURS);
        self.deleted.retain(|d| d.at >= deleted);
        self.pauses.retain(|pause| pause.until.is_none_or(|until| until >= before(1)));
    }
}

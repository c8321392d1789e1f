//! What a transition with its published job file costs, against a program that writes the same two files.
//!
//! The peer creates both files beside, syncs them, renames them and syncs both directories: less cannot be
//! durable. Both take turns in one directory, each first in every other round; medians are compared.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use board_core::edge::queue::Queue;
use board_core::edge::store::Store;
use board_core::edge::{clock, reconcile};
use board_core::model::board::{Policy, RolePolicy};
use board_core::model::card::{Card, CardId, Source};
use board_core::model::event::Event;
use board_core::model::job::{BuilderPayload, DocumentText, Payload};
use board_core::model::phase::Phase;
use board_core::model::profile::RoleName;
use board_core::model::slug::Slug;

const ROUNDS: u32 = 200;
/// The limit of the design: ours may take so many times what the peer takes.
const LIMIT: f64 = 2.5;

fn main() -> anyhow::Result<()> {
    // Not /tmp, which may lie in memory, where a sync costs nothing.
    let dir = tempfile::Builder::new().prefix("transition-cost-").tempdir_in("/var/tmp")?;
    let role = RolePolicy { profile: "standard".into(), iterations: None };
    let policy = Policy {
        undo_seconds: 0,
        profiles: [("standard".to_owned(), None)].into(),
        roles: RoleName::ALL.into_iter().map(|name| (name, role.clone())).collect(),
        iteration_cap: 20,
        external_builder: false,
        guidance: std::collections::BTreeMap::new(),
    };
    let state = dir.path().join("state");
    let (store, _) = Store::init(&state)?;
    let queue = Queue::open(&state, true)?;
    let text =
        "# Intent: Messung\n\n".to_owned() + &"Eine Zeile des Auftrags, wie er üblich ist.\n".repeat(60);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let peer = dir.path().join("peer");
    fs::create_dir_all(peer.join("jobs"))?;
    // What the peer writes: the bytes that ours wrote in the same round, or in the last one where it goes first.
    let mut bytes: Option<Written> = None;
    for round in 0..ROUNDS {
        let id = CardId::Slug(Slug::parse(&format!("messung-{round}"))?);
        let payload = Payload::Builder(BuilderPayload {
            intent: DocumentText {
                path: format!("docs/intent/{id}.md"),
                blob: "b".repeat(40),
                text: text.clone(),
            },
            base_commit: "a".repeat(40),
            diff_base: None,
            number: 1,
            resume: None,
            feedback: None,
        });
        let peer_first = round % 2 == 1;
        if let Some(bytes) = bytes.as_ref().filter(|_| peer_first) {
            theirs.push(bytes.write(&peer)?);
        }
        let begin = Instant::now();
        let mut held = store.hold()?;
        let stamp = clock::stamp("lukas");
        let applied = held.update(|board| {
            let card = Card::new(id.clone(), Source::Intent, "Messung", Phase::Geplant, stamp.now);
            board.cards.insert(id.clone(), card);
            board.apply(&id, Event::Started { payload }, &stamp, &policy)
        })?;
        reconcile::queue::pass(&held, &queue, clock::now())?;
        ours.push(begin.elapsed());
        drop(held);

        let job = applied.job.ok_or_else(|| anyhow::anyhow!("no job"))?;
        let job_path = queue.inbox_dir(board_core::model::job::Lane::Build).join(job.job_file());
        let written =
            Written { name: job.job_file(), state: fs::read(store.path())?, job: fs::read(&job_path)? };
        if !peer_first {
            theirs.push(written.write(&peer)?);
        }
        bytes = Some(written);

        // The state stays as small as that of a board at work.
        store.update(|board| {
            board.cards.remove(&id);
            board.outbox.clear();
            Ok::<_, std::convert::Infallible>(())
        })?;
        fs::remove_file(&job_path)?;
        for entry in fs::read_dir(peer.join("jobs"))? {
            fs::remove_file(entry?.path())?;
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    eprintln!("median of {ROUNDS}: transition {ours:?}, two files {theirs:?}");
    println!(
        "transition with job file : two files | {:.2} | {LIMIT}",
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
    Ok(())
}

/// What a transition wrote, for the peer to write it too.
struct Written {
    name: String,
    state: Vec<u8>,
    job: Vec<u8>,
}

impl Written {
    fn write(&self, peer: &Path) -> std::io::Result<Duration> {
        let begin = Instant::now();
        write(peer, "state.json", &self.state)?;
        write(&peer.join("jobs"), &self.name, &self.job)?;
        Ok(begin.elapsed())
    }
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = dir.join(format!("{name}.tmp"));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, dir.join(name))?;
    File::open(dir)?.sync_all()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

//! Files dropped by hand become jobs (queue.md, "Dropping a file by hand").
//!
//! A dropped file does what the same click would have done, unparked. It is renamed to `<uuid>.adopt` first;
//! that uuid becomes the key of the request in the same write of the state that makes the job, so a crash
//! between that write and the removal makes no second job.
use std::collections::HashMap;
use std::ffi::OsString;

use board_core::edge::clock;
use board_core::edge::documents::{DocumentsError, Seed};
use board_core::edge::files::read::{Read, Regular};
use board_core::edge::orders::{OrderError, Orders, StartFrom};
use board_core::edge::reconcile::documents::Desk;
use board_core::edge::reconcile::queue as publishing;
use board_core::edge::store::{StoreError, UpdateError};
use board_core::fault_point;
use board_core::model::board::{Board, Stamp};
use board_core::model::card::{Card, CardId, Source};
use board_core::model::event::{Event, Refusal};
use board_core::model::job::JobType;
use board_core::model::phase::Phase;
use board_core::model::profile::Choice;
use board_core::model::time::Timestamp;
use nix::unistd::{Group, Uid, User};
use serde::Deserialize;
use uuid::Uuid;

use crate::life;

/// The group whose members may drop files.
pub const DROP_GROUP: &str = "board-agent-drop";
/// Age in seconds from which a file that does not parse is no longer being written.
const SETTLED: i64 = 2;

/// What a pass did.
#[derive(Debug, Default)]
pub struct Pass {
    /// Jobs that were made.
    pub jobs: Vec<Uuid>,
    /// Whether something was left undone that no event tells of.
    pub undone: bool,
    /// When a file that is still being written is looked at again.
    pub next: Option<Timestamp>,
}

/// What a dropped file asks for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(rename = "type")]
    kind: JobType,
    card_id: CardId,
    #[serde(default)]
    profile: Option<String>,
    #[serde(default)]
    iteration_limit: Option<u32>,
}

/// Why a file is not taken, with the field at fault.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    field: Option<&'static str>,
    why: String,
}

impl Refused {
    fn new(why: impl Into<String>) -> Refused {
        Refused { field: None, why: why.into() }
    }

    fn of(field: &'static str, why: impl Into<String>) -> Refused {
        Refused { field: Some(field), why: why.into() }
    }
}

/// How a job could not be ordered.
enum Trouble {
    /// Never: the file is rejected.
    Refused(Refused),
    /// Not now.
    Later(anyhow::Error),
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Self {
        Trouble::Refused(refused)
    }
}

impl From<OrderError> for Trouble {
    fn from(error: OrderError) -> Self {
        match error {
            OrderError::Documents(error) => Trouble::Later(error.into()),
            OrderError::FileMissing { .. }
            | OrderError::FileBroken { .. }
            | OrderError::NoCommit { .. }
            | OrderError::NotBuilt
            | OrderError::CommitGone(_)
            | OrderError::NoWorktree
            | OrderError::WrongSource(_) => Trouble::Refused(Refused::of("card_id", error.sentence_de())),
        }
    }
}

impl From<DocumentsError> for Trouble {
    fn from(error: DocumentsError) -> Self {
        Trouble::Later(error.into())
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Trouble::Later(error.into())
    }
}

/// One pass over `drop/`. `dev` also takes the files of the service's own user.
///
/// # Errors
/// If the directory cannot be read, or a file cannot be moved.
pub fn pass(desk: &Desk<'_>, dev: bool, now: Timestamp) -> anyhow::Result<Pass> {
    let mut pass = Pass::default();
    let mut names = HashMap::new();
    for dropped in desk.queue.read_drops()? {
        let name = dropped.name.to_string_lossy().into_owned();
        let verdict = match &dropped.read {
            Read::Bytes(file) => match check_owner(file, dev) {
                Ok(_) => parse(&file.bytes).map(drop),
                Err(refused) => Err(refused),
            },
            other @ (Read::NotRegular(_) | Read::TooLarge { .. } | Read::Denied | Read::Missing) => {
                Err(no_file(other))
            }
        };
        match (verdict, &dropped.read) {
            (Ok(()), _) => {
                match desk.queue.take_drop(&dropped.name) {
                    Ok(Some(key)) => drop(names.insert(key, dropped.name)),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::error!("the dropped file {name} cannot be taken: {error}");
                        pass.undone = true;
                    }
                }
                fault_point!("adopt.renamed");
            }
            // Perhaps somebody is still writing it.
            (Err(_), Read::Bytes(file)) if is_fresh(file, now) => {
                let again = file.modified.plus_seconds(SETTLED);
                pass.next = Some(pass.next.map_or(again, |next| next.min(again)));
            }
            (Err(refused), _) => {
                tracing::warn!("the dropped file {name} is rejected: {}", refused.why);
                // A directory of somebody else, for example, cannot be moved; the others need not wait for it.
                if let Err(error) = desk.queue.reject_drop(&dropped.name, &refused.why, refused.field) {
                    tracing::error!("the dropped file {name} cannot be moved away: {error}");
                    pass.undone = true;
                }
            }
        }
    }
    for adopted in desk.queue.adopted()? {
        // Its request is in the state: a crash came before the removal.
        if desk.store.read_synced()?.request(adopted.key).is_some() {
            desk.queue.remove_adopted(adopted.key)?;
            continue;
        }
        match adopt(desk, dev, adopted.key, &adopted.read, now) {
            Ok(job) => {
                fault_point!("adopt.ordered");
                desk.queue.remove_adopted(adopted.key)?;
                pass.jobs.extend(job);
            }
            Err(Trouble::Refused(refused)) => {
                let name = names.get(&adopted.key).map(OsString::as_os_str);
                let shown =
                    name.map_or_else(|| adopted.key.to_string(), |name| name.to_string_lossy().into_owned());
                tracing::warn!("the dropped file {shown} is rejected: {}", refused.why);
                desk.queue.reject_adopted(adopted.key, name, &refused.why, refused.field)?;
            }
            Err(Trouble::Later(error)) => {
                tracing::warn!("the dropped file {} waits: {error:#}", adopted.key);
                pass.undone = true;
            }
        }
    }
    Ok(pass)
}

/// A clock that was set back makes no file wait for ever.
fn is_fresh(file: &Regular, now: Timestamp) -> bool {
    (0..SETTLED).contains(&now.seconds_since(file.modified)) && parse(&file.bytes).is_err()
}

fn no_file(read: &Read) -> Refused {
    Refused::new(match read {
        Read::NotRegular(kind) => format!("it is {}; drop a regular file", kind.words()),
        Read::TooLarge { size } => format!("it has {size} bytes; a dropped file holds four short fields"),
        Read::Denied => "the service may not read it; make it readable (chmod 0644)".into(),
        Read::Bytes(_) | Read::Missing => "it is gone".into(),
    })
}

/// The name of the owner, if his files are accepted.
fn check_owner(file: &Regular, dev: bool) -> Result<String, Refused> {
    let uid = Uid::from_raw(file.uid);
    if file.links != 1 {
        return Err(Refused::new(format!(
            "it has {} names; drop a file with one, so that nobody changes it elsewhere",
            file.links
        )));
    }
    let user = User::from_uid(uid).ok().flatten();
    let name = user.as_ref().map_or_else(|| file.uid.to_string(), |user| user.name.clone());
    let own = dev && uid == nix::unistd::geteuid();
    if uid.is_root() || own || user.as_ref().is_some_and(is_member) {
        return Ok(name);
    }
    Err(Refused::new(format!(
        "its owner {name} may not drop files; accepted are root and members of the group {DROP_GROUP}"
    )))
}

fn is_member(user: &User) -> bool {
    let group = Group::from_name(DROP_GROUP).ok().flatten();
    group.is_some_and(|group| group.gid == user.gid || group.mem.contains(&user.name))
}

fn parse(bytes: &[u8]) -> Result<Asked, Refused> {
    let shape = |error: serde_json::Error| {
        Refused::new(format!(
            "{error}; a dropped file is a JSON object with the fields type and card_id and, if wanted, profile and \
             iteration_limit"
        ))
    };
    let asked: Asked = board_core::model::json::object(bytes).map_err(shape)?;
    match asked.kind {
        JobType::Draft => Err(Refused::of(
            "type",
            "draft: a draft begins with a topic on the board (or POST /api/board/drafts); types that can be dropped are \
             builder, review, research and split",
        )),
        JobType::Review | JobType::Split if asked.profile.is_some() || asked.iteration_limit.is_some() => {
            let field = if asked.profile.is_some() { "profile" } else { "iteration_limit" };
            Err(Refused::of(
                field,
                format!(
                    "a {} runs with the profile and limit of its role; leave the field out",
                    asked.kind.id()
                ),
            ))
        }
        JobType::Builder | JobType::Review | JobType::Research | JobType::Split => Ok(asked),
    }
}

/// Makes the job, under the key of the file; none if the request was carried out before.
fn adopt(
    desk: &Desk<'_>,
    dev: bool,
    key: Uuid,
    read: &Read,
    now: Timestamp,
) -> Result<Option<Uuid>, Trouble> {
    let Read::Bytes(file) = read else { return Err(no_file(read).into()) };
    let owner = check_owner(file, dev)?;
    let asked = parse(&file.bytes)?;
    let Some(slug) = asked.card_id.slug() else {
        return Err(Refused::of(
            "card_id",
            "ideas and drafts have no such work; name an intent or a question",
        )
        .into());
    };
    let board = desk.store.read()?;
    let card = match board.cards.get(&asked.card_id) {
        Some(card) => card.clone(),
        None => match desk.documents.seed_card(slug)? {
            Seed::Card(card) => *card,
            Seed::Nothing => return Err(Refused::of("card_id", format!("there is no card {slug}")).into()),
            Seed::Broken(why) => return Err(Refused::of("card_id", why).into()),
        },
    };
    let event = event_of(&Orders::new(desk.documents), &card, asked.kind)?;
    let stamp = Stamp { now, request: Some(key), park: false, ..clock::stamp(format!("drop:{owner}")) };
    let mut held = desk.store.hold()?;
    let ordered = held.update(|board| {
        board.take_in(&card);
        choose(board, &asked, &stamp, desk)?;
        board.apply(&asked.card_id, event, &stamp, desk.policy)
    });
    let applied = match ordered {
        Ok(applied) => applied,
        Err(UpdateError::Store(error)) => return Err(Trouble::Later(error.into())),
        Err(UpdateError::Refused(refusal)) => return Err(refused_by_board(&refusal).into()),
    };
    fault_point!("adopt.state");
    let published = publishing::pass(&held, desk.queue, now);
    drop(held);
    life::applied(&applied, None);
    match published {
        Ok(pass) => life::reconciled(&pass.done),
        Err(error) => tracing::error!("the queue cannot be reconciled: {error}"),
    }
    Ok(applied.job.map(|job| job.job))
}

/// A profile or limit in the file is the card's from now on, as if it had been chosen on the card.
fn choose(board: &mut Board, asked: &Asked, stamp: &Stamp, desk: &Desk<'_>) -> Result<(), Refusal> {
    if asked.profile.is_none() && asked.iteration_limit.is_none() {
        return Ok(());
    }
    let card = board.cards.get(&asked.card_id).ok_or_else(|| Refusal::UnknownCard(asked.card_id.clone()))?;
    let mut choice: Choice = card.choice.clone();
    if let Some(profile) = &asked.profile {
        choice.profile = Some(profile.clone());
        choice.reason = Some("in der abgelegten Datei gewählt".into());
    }
    choice.iterations = asked.iteration_limit.or(choice.iterations);
    if choice == card.choice {
        return Ok(());
    }
    // A transition of its own needs an id of its own.
    let own =
        Stamp { request: None, transition: Uuid::new_v5(&stamp.transition, b"choice"), ..stamp.clone() };
    board.set_choice(&asked.card_id, choice, &own, desk.policy)
}

/// What the click would have been on a card in this phase.
fn event_of(orders: &Orders<'_>, card: &Card, kind: JobType) -> Result<Event, Trouble> {
    let built = card.build.as_ref().is_some_and(|b| b.check_commit.is_some() || b.earlier_check.is_some());
    let from = if built { StartFrom::Commit } else { StartFrom::Branch };
    let event = match (kind, card.phase, card.source) {
        (JobType::Builder, Phase::Geplant, Source::Intent) => {
            Event::Started { payload: orders.start_payload(card, from)? }
        }
        (JobType::Builder, Phase::UmsetzungFehlgeschlagen, Source::Intent) => {
            match card.build.as_ref().and_then(|build| build.worktree.as_ref()) {
                Some(_) => Event::Resumed { payload: orders.resume_payload(card)? },
                None => Event::StartedAfresh { payload: orders.afresh_payload(card, from)? },
            }
        }
        (JobType::Review, Phase::ReviewFehlgeschlagen, Source::Intent) => {
            Event::ReviewRetried { payload: orders.review_payload(card)? }
        }
        (JobType::Research, Phase::Geplant, Source::Research) => {
            Event::Started { payload: orders.research_payload(card)? }
        }
        (JobType::Research, Phase::RechercheFertig | Phase::RechercheFehlgeschlagen, Source::Research) => {
            Event::AskedAgain { payload: orders.research_payload(card)? }
        }
        (JobType::Split, Phase::Geplant, Source::Intent) => {
            Event::SplitStarted { payload: orders.split_payload(card)? }
        }
        (JobType::Split, Phase::AufteilungFehlgeschlagen, Source::Intent) => {
            Event::SplitRetried { payload: orders.split_payload(card)? }
        }
        (kind, phase, source) => {
            let why = format!(
                "a {} job does not fit the card {} ({}, {phase}); the board offers what does",
                kind.id(),
                card.id,
                source.id()
            );
            return Err(Refused::of("type", why).into());
        }
    };
    Ok(event)
}

fn refused_by_board(refusal: &Refusal) -> Refused {
    match refusal {
        Refusal::Invalid { field, problem } if matches!(*field, "iterations") => {
            Refused::of("iteration_limit", problem.en.clone())
        }
        Refusal::Invalid { field, problem } => Refused::of(field, problem.en.clone()),
        Refusal::NotAllowed { .. } | Refusal::Unread | Refusal::Applying | Refusal::Saving => {
            Refused::of("card_id", refusal.to_string())
        }
        Refusal::UnknownCard(_)
        | Refusal::InDraft(_)
        | Refusal::TooLateToUndo
        | Refusal::OldRound { .. }
        | Refusal::Taken(_)
        | Refusal::Limit(_)
        | Refusal::Link(_)
        | Refusal::Synthesis(_)
        | Refusal::Parked
        | Refusal::File(_)
        | Refusal::Fault(_) => Refused::new(refusal.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Refused {
        parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn the_shortest_file_names_a_type_and_a_card() {
        let asked = parse(br#"{"type":"research","card_id":"foo"}"#).unwrap();
        assert_eq!((asked.kind, asked.card_id.to_string()), (JobType::Research, "foo".into()));
        let whole = r#"{"type":"builder","card_id":"foo","profile":"stark","iteration_limit":3}"#;
        assert_eq!(parse(whole.as_bytes()).unwrap().iteration_limit, Some(3));
    }

    #[test]
    fn everything_else_is_refused_with_a_sentence_that_names_the_field() {
        assert!(fault("{").why.contains("JSON object with the fields type and card_id"));
        assert!(fault(r#"{"type":"research","card_id":"foo","id":"x"}"#).why.contains("unknown field `id`"));
        assert!(fault(r#"{"type":"research","card_id":"../x"}"#).why.contains("only a-z"));
        assert!(fault(r#"{"type":"deploy","card_id":"x"}"#).why.contains("unknown variant `deploy`"));
        let draft = fault(r#"{"type":"draft","card_id":"x"}"#);
        assert_eq!(draft.field, Some("type"));
        assert!(draft.why.contains("builder, review, research and split"), "{draft:?}");
        let review = fault(r#"{"type":"review","card_id":"x","profile":"stark"}"#);
        assert_eq!(review.field, Some("profile"));
        let split = fault(r#"{"type":"split","card_id":"x","iteration_limit":3}"#);
        assert_eq!(split.field, Some("iteration_limit"));
    }

    #[test]
    fn the_service_s_own_user_is_accepted_only_in_dev_and_nobody_with_a_second_name() {
        let uid = nix::unistd::geteuid().as_raw();
        let file = |uid, links| Regular { bytes: vec![], uid, links, modified: Timestamp::MIN };
        assert!(check_owner(&file(uid, 1), true).is_ok());
        assert_eq!(check_owner(&file(uid, 1), false).is_ok(), uid == 0);
        assert!(check_owner(&file(0, 1), false).is_ok());
        assert!(check_owner(&file(0, 2), true).unwrap_err().why.contains("2 names"));
        let stranger = check_owner(&file(4_000_000, 1), true).unwrap_err();
        assert!(stranger.why.contains(DROP_GROUP), "{stranger:?}");
    }

    #[test]
    fn a_file_that_does_not_parse_is_fresh_for_two_seconds() {
        let at = |seconds: i64| Timestamp::from_millis(1_000_000 + seconds * 1000);
        let file = |bytes: &[u8]| Regular { bytes: bytes.into(), uid: 0, links: 1, modified: at(0) };
        assert!(is_fresh(&file(b"{"), at(1)) && !is_fresh(&file(b"{"), at(2)));
        assert!(!is_fresh(&file(b"{"), at(-1)));
        assert!(!is_fresh(&file(br#"{"type":"split","card_id":"x"}"#), at(1)));
    }
}

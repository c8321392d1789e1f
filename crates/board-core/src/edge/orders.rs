//! What a job works from, read from the repository before the event is applied.
//!
//! Used by the trigger for a click and by the watcher for a dropped file, so that both order the same. It is
//! read outside the state lock; the phase decides under the lock whether the event still fits, and the
//! board refuses a number that was used meanwhile.

use std::collections::BTreeMap;
use std::path::Path;

use super::documents::{Documents, DocumentsError, Found, Loaded};
use super::git::{GitError, Oid};
use super::settings::Roles;
use crate::model::card::{Build, Card, Source};
use crate::model::documents::{document_path, find_section};
use crate::model::job::{
    BuilderPayload, DocumentText, Feedback, MAX_FEEDBACK_BYTES, Payload, ResearchPayload, Resume,
    ReviewPayload, SplitPayload,
};
use crate::model::profile::RoleName;
use crate::model::slug::Slug;

/// Where a build that was built before begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFrom {
    /// It goes on from the newest check commit; the review's diff base stays the first base.
    Commit,
    /// It begins anew from the branch.
    Branch,
}

/// Why a job cannot be ordered.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The card's document is gone.
    #[error("{path} is missing")]
    FileMissing {
        /// Its path.
        path: String,
    },
    /// The card's document cannot be used.
    #[error("{path}: {reason}")]
    FileBroken {
        /// Its path.
        path: String,
        /// A German sentence.
        reason: String,
    },
    /// The branch has no commit, so there is no tree to work in.
    #[error("the branch {branch} has no commit yet")]
    NoCommit {
        /// The branch.
        branch: String,
    },
    /// There is no check commit to go on from or to review.
    #[error("the card has no check commit")]
    NotBuilt,
    /// A commit that the card names is no longer in the repository.
    #[error("the commit {0} is not in the repository")]
    CommitGone(String),
    /// There is no worktree to go on in.
    #[error("the card has no worktree to go on in")]
    NoWorktree,
    /// The card is not one of this kind of work.
    #[error("a card with the source {0} has no such work")]
    WrongSource(&'static str),
    /// The repository could not be read.
    #[error(transparent)]
    Documents(#[from] DocumentsError),
}

impl From<GitError> for OrderError {
    fn from(error: GitError) -> Self {
        OrderError::Documents(error.into())
    }
}

impl OrderError {
    /// The same for the operator, in German.
    pub fn sentence_de(&self) -> String {
        match self {
            OrderError::FileMissing { path } => format!("{path} fehlt."),
            OrderError::FileBroken { path, reason } => format!("{path}: {reason}"),
            OrderError::NoCommit { branch } => {
                format!("Der Branch „{branch}“ hat noch keinen Commit; lege zuerst einen an.")
            }
            OrderError::NotBuilt => "Die Karte hat keinen Prüfcommit.".into(),
            OrderError::CommitGone(commit) => format!("Der Commit {commit} ist nicht mehr im Repository."),
            OrderError::NoWorktree => {
                "Es gibt kein Arbeitsverzeichnis mehr, in dem es weitergehen könnte; beginne neu.".into()
            }
            OrderError::WrongSource(_) => "Diese Karte kennt diese Arbeit nicht.".into(),
            OrderError::Documents(error) => format!("Das Repository ist nicht lesbar: {error}"),
        }
    }
}

/// Largest description of a role, in bytes.
pub const MAX_GUIDANCE_BYTES: usize = 64 * 1024;

/// Descriptions of roles, by role.
pub type Guidance = BTreeMap<RoleName, DocumentText>;

/// Reads what jobs work from.
#[derive(Debug, Clone, Copy)]
pub struct Orders<'a> {
    documents: &'a Documents,
}

impl<'a> Orders<'a> {
    /// For the documents of this repository.
    pub fn new(documents: &'a Documents) -> Orders<'a> {
        Orders { documents }
    }

    /// For a start: a builder's payload for an intent, a researcher's for a question.
    ///
    /// # Errors
    /// [`OrderError`]
    pub fn start_payload(&self, card: &Card, from: StartFrom) -> Result<Payload, OrderError> {
        match card.source {
            Source::Intent => self.builder(card, from),
            Source::Research => self.research_payload(card),
            Source::Idea | Source::Draft => Err(OrderError::WrongSource(card.source.id())),
        }
    }

    /// For a build that goes on in the worktree that is there.
    ///
    /// # Errors
    /// [`OrderError`]
    pub fn resume_payload(&self, card: &Card) -> Result<Payload, OrderError> {
        let build = card.build.as_ref().filter(|build| build.worktree.is_some());
        let build = build.ok_or(OrderError::NoWorktree)?;
        let before = match &card.error {
            Some(error) => error.sentence.clone(),
            None => "Der vorige Lauf endete ohne Prüfcommit.".into(),
        };
        Ok(Payload::Builder(BuilderPayload {
            intent: self.document(card)?,
            base_commit: build.base_commit.clone(),
            diff_base: Some(build.diff_base.clone()).filter(|base| *base != build.base_commit),
            number: build.number,
            resume: Some(Resume { number: build.number, before }),
            feedback: self.feedback(card)?,
        }))
    }

    /// For a build in a new worktree after one that failed.
    ///
    /// # Errors
    /// [`OrderError`]
    pub fn afresh_payload(&self, card: &Card, from: StartFrom) -> Result<Payload, OrderError> {
        self.builder(card, from)
    }

    /// For another review of the newest check commit.
    ///
    /// # Errors
    /// [`OrderError`]
    pub fn review_payload(&self, card: &Card) -> Result<Payload, OrderError> {
        let build = card.build.as_ref().ok_or(OrderError::NotBuilt)?;
        let commit = build.check_commit.clone().ok_or(OrderError::NotBuilt)?;
        self.check_commit(&commit)?;
        // The intent as it was built: the failed review has it, the file may say something else by now.
        let intent = match card.job.as_ref().map(|job| &job.payload) {
            Some(Payload::Review(payload)) => payload.intent.clone(),
            _ => self.document(card)?,
        };
        Ok(Payload::Review(ReviewPayload { intent, commit, base: build.diff_base.clone() }))
    }

    /// For a research run.
    ///
    /// # Errors
    /// [`OrderError`]
    pub fn research_payload(&self, card: &Card) -> Result<Payload, OrderError> {
        if card.source != Source::Research {
            return Err(OrderError::WrongSource(card.source.id()));
        }
        let question = self.document(card)?;
        Ok(Payload::Research(ResearchPayload { question, commit: self.tip()?.to_string() }))
    }

    /// For a split.
    ///
    /// # Errors
    /// [`OrderError`]
    pub fn split_payload(&self, card: &Card) -> Result<Payload, OrderError> {
        if card.source != Source::Intent {
            return Err(OrderError::WrongSource(card.source.id()));
        }
        let intent = self.document(card)?;
        Ok(Payload::Split(SplitPayload { intent, commit: self.tip()?.to_string() }))
    }

    /// What a revision with the planner begins with: the intent and its reports, newest first.
    ///
    /// # Errors
    /// [`OrderError`]
    pub fn revision(&self, card: &Card) -> Result<(DocumentText, Vec<String>), OrderError> {
        Ok((self.document(card)?, self.reports(card)?))
    }

    /// The descriptions of roles that the configuration names, as the branch's commit has them. One that cannot be
    /// used is left out, with a sentence: a role works without, and a board that stood still for it would not.
    ///
    /// # Errors
    /// [`OrderError`] if the repository cannot be read.
    pub fn guidance(&self, roles: &Roles) -> Result<(Guidance, Vec<String>), OrderError> {
        let (mut found, mut missing) = (Guidance::new(), Vec::new());
        let mut wanted = roles.guidance().peekable();
        if wanted.peek().is_none() {
            return Ok((found, missing));
        }
        let tip = self.tip()?;
        for (role, path) in wanted {
            let key = format!("roles.{}.guidance", role.id());
            match self.documents.git().read_path(&tip, path, MAX_GUIDANCE_BYTES) {
                Ok(Some(blob)) => match String::from_utf8(blob.bytes) {
                    Ok(text) => {
                        let document =
                            DocumentText { path: path.to_owned(), blob: blob.oid.to_string(), text };
                        found.insert(role, document);
                    }
                    Err(_) => missing.push(format!("{key}: {path} ist kein UTF-8")),
                },
                Ok(None) => {
                    let branch = self.documents.branch();
                    missing.push(format!("{key}: {path} gibt es auf dem Branch {branch} nicht"));
                }
                Err(GitError::TooLarge { .. }) => {
                    missing.push(format!("{key}: {path} hat mehr als {MAX_GUIDANCE_BYTES} Bytes"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok((found, missing))
    }

    fn builder(&self, card: &Card, from: StartFrom) -> Result<Payload, OrderError> {
        if card.source != Source::Intent {
            return Err(OrderError::WrongSource(card.source.id()));
        }
        let slug = card.id.slug().ok_or(OrderError::WrongSource(card.source.id()))?;
        let intent = self.document(card)?;
        let (base_commit, diff_base) = match from {
            StartFrom::Branch => (self.tip()?.to_string(), None),
            StartFrom::Commit => {
                let build = card.build.as_ref().ok_or(OrderError::NotBuilt)?;
                let check = build.check_commit.clone().or_else(|| build.earlier_check.clone());
                let check = check.ok_or(OrderError::NotBuilt)?;
                self.check_commit(&check)?;
                (check, Some(build.diff_base.clone()))
            }
        };
        Ok(Payload::Builder(BuilderPayload {
            intent,
            base_commit,
            diff_base,
            number: self.next_number(slug, card.build.as_ref())?,
            resume: None,
            feedback: self.feedback(card)?,
        }))
    }

    /// The first number beyond every build that the card, a branch or a worktree knows.
    fn next_number(&self, slug: &Slug, build: Option<&Build>) -> Result<u32, OrderError> {
        let git = self.documents.git();
        let below = format!("refs/heads/board/{slug}/");
        let refs = git.refs_below(&below)?;
        let branches = refs.keys().filter_map(|name| name.strip_prefix(&below)?.parse::<u32>().ok());
        let prefix = format!("{slug}-");
        let number_of = |path: &Path| path.file_name()?.to_str()?.strip_prefix(&prefix)?.parse::<u32>().ok();
        let checkouts = git.checkouts()?;
        let worktrees = checkouts.iter().filter_map(|checkout| number_of(&checkout.path));
        let newest = branches.chain(worktrees).chain(build.map(|build| build.number)).max();
        Ok(newest.unwrap_or(0).saturating_add(1))
    }

    fn document(&self, card: &Card) -> Result<DocumentText, OrderError> {
        let slug = card.id.slug().ok_or(OrderError::WrongSource(card.source.id()))?;
        let path = document_path(card.source, slug).ok_or(OrderError::WrongSource(card.source.id()))?;
        match self.documents.load(card.source, slug)? {
            Found::Document(Loaded { document, text }) => {
                Ok(DocumentText { path, blob: document.blob, text })
            }
            Found::Missing => Err(OrderError::FileMissing { path }),
            Found::Broken(reason) => Err(OrderError::FileBroken { path, reason }),
        }
    }

    fn tip(&self) -> Result<Oid, OrderError> {
        let branch = self.documents.branch().to_owned();
        self.documents.tip()?.ok_or(OrderError::NoCommit { branch })
    }

    fn check_commit(&self, commit: &str) -> Result<(), OrderError> {
        let gone = || OrderError::CommitGone(commit.to_owned());
        let oid = Oid::parse(commit).map_err(|_| gone())?;
        if self.documents.git().commit_exists(&oid)? { Ok(()) } else { Err(gone()) }
    }

    fn feedback(&self, card: &Card) -> Result<Option<Feedback>, OrderError> {
        let feedback = Feedback { note: card.note.clone(), reports: self.reports(card)? };
        Ok(Some(feedback).filter(|feedback| *feedback != Feedback::default()))
    }

    /// The card's reviews, newest first, cut at [`MAX_FEEDBACK_BYTES`] together. A section that somebody took
    /// out of the file is left out.
    fn reports(&self, card: &Card) -> Result<Vec<String>, OrderError> {
        let Some(path) = card.reports.last().map(|report| report.path.clone()) else { return Ok(Vec::new()) };
        let Some(text) = self.documents.text_of(&path)? else { return Ok(Vec::new()) };
        let newest_first = card.reports.iter().rev().filter(|report| report.path == path);
        let sections = newest_first.filter_map(|report| find_section(&text, report.job));
        Ok(cut_together(sections, MAX_FEEDBACK_BYTES))
    }
}

/// As many texts as fit together, the last one cut with a sentence that says so.
fn cut_together<'t>(texts: impl Iterator<Item = &'t str>, limit: usize) -> Vec<String> {
    let mut kept = Vec::new();
    let mut left = limit;
    for text in texts {
        if text.len() <= left {
            left -= text.len();
            kept.push(text.to_owned());
            continue;
        }
        let at = (0..=left).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        kept.push(format!("{}\n\n[Hier gekürzt: mehr als {limit} Bytes an Berichten.]\n", &text[..at]));
        break;
    }
    kept
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::edge::documents::Seed;
    use crate::edge::git::testing::Fixture;
    use crate::edge::settings::Role;
    use crate::model::card::{Failure, Report};
    use crate::model::marker::review::Decision;
    use crate::model::outcome::RunResult;
    use crate::model::time::Timestamp;

    fn repository() -> (Fixture, Documents) {
        let fixture = Fixture::new();
        fixture.write("docs/intent/a.md", "# Intent: A\n");
        fixture.write("docs/research/q.md", "# Q\n");
        fixture.run(&["add", "-A"]);
        fixture.run(&["commit", "-q", "-m", "first"]);
        let documents = Documents::new(fixture.git(), "main");
        (fixture, documents)
    }

    fn card(documents: &Documents, slug: &str) -> Card {
        match documents.seed_card(&Slug::parse(slug).unwrap()).unwrap() {
            Seed::Card(card) => *card,
            other @ (Seed::Nothing | Seed::Broken(_)) => panic!("{other:?}"),
        }
    }

    fn roles(builder: Option<&str>) -> Roles {
        let role = |guidance: Option<&str>| Role {
            profile: "standard".into(),
            iterations: None,
            guidance: guidance.map(str::to_owned),
            template: None,
        };
        Roles { builder: role(builder), reviewer: role(None), researcher: role(None), planner: role(None) }
    }

    #[test]
    fn a_description_of_a_role_is_that_of_the_commit_and_one_that_cannot_be_used_is_named() {
        let (fixture, documents) = repository();
        let orders = Orders::new(&documents);
        assert_eq!(orders.guidance(&roles(None)).unwrap(), (Guidance::new(), vec![]));
        fixture.write("agents/builder.md", "Baue klein.\n");
        let (found, missing) = orders.guidance(&roles(Some("agents/builder.md"))).unwrap();
        assert!(found.is_empty() && missing[0].contains("agents/builder.md"), "{missing:?}");
        fixture.run(&["add", "-A"]);
        fixture.run(&["commit", "-q", "-m", "role"]);
        fixture.write("agents/builder.md", "Noch nicht im Commit.\n");
        let (found, missing) = orders.guidance(&roles(Some("agents/builder.md"))).unwrap();
        assert_eq!(found[&RoleName::Builder].text, "Baue klein.\n");
        assert!(missing.is_empty(), "{missing:?}");
        for (size, taken) in [(MAX_GUIDANCE_BYTES, true), (MAX_GUIDANCE_BYTES + 1, false)] {
            fixture.write("agents/builder.md", "x".repeat(size));
            fixture.run(&["commit", "-aqm", "long"]);
            let (found, missing) = orders.guidance(&roles(Some("agents/builder.md"))).unwrap();
            assert_eq!((found.len(), missing.len()), (usize::from(taken), usize::from(!taken)));
        }
    }

    fn build(number: u32, check: Option<String>) -> Build {
        Build {
            number,
            branch: format!("board/a/{number}"),
            worktree: Some(format!("a-{number}")),
            base_commit: "b".repeat(40),
            diff_base: "d".repeat(40),
            check_commit: check,
            earlier_check: None,
            given_up: false,
            intent_blob: String::new(),
            saved_refs: vec![],
        }
    }

    fn builder(payload: Payload) -> BuilderPayload {
        let Payload::Builder(payload) = payload else { panic!("{payload:?}") };
        payload
    }

    #[test]
    fn a_start_takes_the_text_that_is_there_now_and_the_tip_of_the_branch() {
        let (fixture, documents) = repository();
        fixture.write("docs/intent/a.md", "# Intent: A, noch nicht eingecheckt\n");
        let orders = Orders::new(&documents);
        let payload = builder(orders.start_payload(&card(&documents, "a"), StartFrom::Branch).unwrap());
        assert_eq!(payload.intent.text, "# Intent: A, noch nicht eingecheckt\n");
        assert_eq!(payload.base_commit, fixture.run(&["rev-parse", "HEAD"]));
        assert_eq!((payload.number, payload.diff_base, payload.feedback), (1, None, None));
        let Payload::Research(question) =
            orders.start_payload(&card(&documents, "q"), StartFrom::Branch).unwrap()
        else {
            panic!()
        };
        assert_eq!((question.question.text.as_str(), question.commit), ("# Q\n", payload.base_commit));
    }

    #[test]
    fn a_number_is_beyond_every_branch_and_worktree_of_the_slug() {
        let (fixture, documents) = repository();
        fixture.run(&["branch", "board/a/3"]);
        fixture.run(&["branch", "board/a-b/9"]);
        let number = |card: &Card| {
            builder(Orders::new(&documents).start_payload(card, StartFrom::Branch).unwrap()).number
        };
        let mut card = card(&documents, "a");
        assert_eq!(number(&card), 4);
        let path = fixture.dir().join("a-5");
        fixture.run(&["worktree", "add", "-q", "--detach", path.to_str().unwrap()]);
        assert_eq!(number(&card), 6);
        card.build = Some(build(7, None));
        assert_eq!(number(&card), 8);
    }

    #[test]
    fn going_on_begins_at_the_check_commit_and_keeps_the_first_base() {
        let (fixture, documents) = repository();
        let check = fixture.run(&["rev-parse", "HEAD"]);
        let mut card = card(&documents, "a");
        card.note = Some("kürzer".into());
        card.build = Some(build(1, Some(check.clone())));
        let go_on = |card: &Card| Orders::new(&documents).start_payload(card, StartFrom::Commit);
        let payload = builder(go_on(&card).unwrap());
        assert_eq!((payload.base_commit, payload.diff_base), (check.clone(), Some("d".repeat(40))));
        assert_eq!(payload.feedback.unwrap().note.as_deref(), Some("kürzer"));
        card.build = Some(Build { earlier_check: Some(check.clone()), ..build(2, None) });
        assert_eq!(builder(go_on(&card).unwrap()).base_commit, check);
        card.build = Some(build(2, Some("c".repeat(40))));
        assert!(matches!(go_on(&card), Err(OrderError::CommitGone(_))));
        card.build = None;
        assert!(matches!(go_on(&card), Err(OrderError::NotBuilt)));
    }

    #[test]
    fn a_resumed_build_keeps_its_number_and_is_told_what_happened() {
        let (_fixture, documents) = repository();
        let mut card = card(&documents, "a");
        let resume = |card: &Card| Orders::new(&documents).resume_payload(card);
        assert!(matches!(resume(&card), Err(OrderError::NoWorktree)));
        card.build = Some(build(4, None));
        card.error = Some(Failure {
            result: RunResult::Limit,
            sentence: "Budget verbraucht".into(),
            at: Timestamp::MIN,
            job: None,
            log: None,
            reply: None,
        });
        let payload = builder(resume(&card).unwrap());
        assert_eq!(payload.resume, Some(Resume { number: 4, before: "Budget verbraucht".into() }));
        assert_eq!((payload.number, payload.base_commit), (4, "b".repeat(40)));
    }

    #[test]
    fn feedback_holds_the_reviews_newest_first_without_those_taken_out_of_the_file() {
        let (fixture, documents) = repository();
        let head = |n: u128| format!("## t (Auftrag {})\n\nreport {n}\n", Uuid::from_u128(n));
        fixture.write("docs/review/a.md", format!("# Review: A\n\n{}\n{}", head(3), head(1)));
        let mut card = card(&documents, "a");
        card.reports = (1..=3)
            .map(|n| Report {
                path: "docs/review/a.md".into(),
                job: Uuid::from_u128(n),
                at: Timestamp::MIN,
                profile: "p".into(),
                commit: None,
                decision: Some(Decision::Back),
                missing_headings: vec![],
            })
            .collect();
        let (intent, reports) = Orders::new(&documents).revision(&card).unwrap();
        assert_eq!(intent.path, "docs/intent/a.md");
        assert_eq!(reports.len(), 2);
        assert!(reports[0].contains("report 3") && reports[1].contains("report 1"), "{reports:?}");
    }

    #[test]
    fn what_cannot_be_ordered_says_why_in_german() {
        let (fixture, documents) = repository();
        let (intent, question) = (card(&documents, "a"), card(&documents, "q"));
        let orders = Orders::new(&documents);
        assert!(orders.split_payload(&question).is_err() && orders.research_payload(&intent).is_err());
        assert!(matches!(orders.review_payload(&intent), Err(OrderError::NotBuilt)));
        std::fs::remove_file(fixture.repo().join("docs/intent/a.md")).unwrap();
        let error = orders.split_payload(&intent).unwrap_err();
        assert_eq!(error.sentence_de(), "docs/intent/a.md fehlt.");
        let empty = Fixture::new();
        empty.write("docs/research/q.md", "# Q\n");
        let documents = Documents::new(empty.git(), "main");
        let error = Orders::new(&documents).research_payload(&question).unwrap_err();
        assert!(error.sentence_de().contains("noch keinen Commit"), "{error}");
    }

    #[test]
    fn reports_that_fit_are_kept_whole_and_the_first_that_does_not_is_cut() {
        assert_eq!(cut_together(["aä", "b"].into_iter(), 4), ["aä", "b"]);
        let cut = cut_together(["aä", "bcd", "e"].into_iter(), 5);
        assert_eq!(cut.len(), 2);
        assert!(cut[1].starts_with("bc\n\n[Hier gekürzt: mehr als 5 Bytes"), "{cut:?}");
        assert!(cut_together(["ää"].into_iter(), 3)[0].starts_with("ä\n"));
    }
}

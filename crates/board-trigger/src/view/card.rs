//! A card in full, as JSON and as a page.
use board_core::edge::settings::Language;
use board_core::model::apply::adopted::{OVERRULED, TAKEN};
use board_core::model::apply::rank::RANKED;
use board_core::model::board::{Board, Policy};
use board_core::model::card::{Card, CardId, Source, Step};
use board_core::model::fanout::{ChildState, SYNTHESIS_ASKED};
use board_core::model::job::{JobType, Speaker, Turn};
use board_core::model::marker::draft::ProposedIntent;
use board_core::model::marker::review::Decision;
use board_core::model::phase::Phase;
use board_core::model::profile::RoleName;
use serde::Serialize;

use super::actions::{self, Action, Call};
use super::board::{State, card_rev, state};
use super::family::{self, CardLink};
use super::{phase_label, text};
use crate::i18n::t;
use crate::world::World;

/// The card as the API gives it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct CardJson {
    /// A slug, `idea-<uuid>` or `draft-<uuid>`.
    pub(crate) id: String,
    /// `intent`, `research`, `idea` or `draft`.
    pub(crate) source: &'static str,
    /// Its title.
    pub(crate) title: String,
    /// Id of its phase.
    pub(crate) phase: &'static str,
    /// Its revision; the `ETag`, and what `If-Match` is compared with.
    pub(crate) rev: u64,
    /// When it was last changed.
    pub(crate) changed_at: String,
    /// The phases that a move can lead to.
    pub(crate) allowed: Vec<&'static str>,
    /// All calls that fit.
    pub(crate) calls: Vec<Call>,
    /// The current job, or the one that failed.
    pub(crate) job: Option<JobJson>,
    /// Check commit of an intent, report of a research question.
    pub(crate) result_ref: Option<String>,
    /// Its parent.
    pub(crate) parent_id: Option<String>,
    /// Its children in the order of linking.
    pub(crate) depends_on: Vec<String>,
    /// The children that have not ended.
    pub(crate) blocked_by: Vec<String>,
    /// Its newest synthesis.
    pub(crate) synthesis: Option<String>,
    /// A synthesis that nobody read.
    pub(crate) unread: bool,
    /// The draft that it was worked out in.
    pub(crate) draft_origin: Option<String>,
    /// The draft that is open inside an idea or beside a card.
    pub(crate) open_draft: Option<String>,
    /// Of a draft: the current round.
    pub(crate) draft_round: Option<u32>,
    /// Of a draft: the conversation.
    pub(crate) draft_conversation: Vec<TurnJson>,
    /// Of a draft: a proposal that could not be written; it can be taken under another slug.
    pub(crate) proposal: Option<ProposalJson>,
    /// Of a draft: the idea that it works out.
    pub(crate) from_idea: Option<String>,
    /// Of a draft: the card whose intent it revises.
    pub(crate) revises: Option<String>,
    /// A text of the editor that is not in the repository yet.
    pub(crate) order: Option<OrderJson>,
    /// Why it failed.
    pub(crate) error: Option<ErrorJson>,
    /// The profile that its work runs with.
    pub(crate) profile: Option<String>,
    /// Why this profile.
    pub(crate) profile_reason: Option<String>,
    /// The budget.
    pub(crate) iterations: Iterations,
    /// Branch of its newest build.
    pub(crate) branch: Option<String>,
    /// Where that branch starts.
    pub(crate) base_commit: Option<String>,
    /// The commit that was reviewed or is to be.
    pub(crate) check_commit: Option<String>,
    /// It waits to be deployed, and its check commit is in the branch already.
    pub(crate) merged: bool,
    /// Its reports, oldest first.
    pub(crate) reports: Vec<ReportJson>,
    /// Path of its document.
    pub(crate) document: Option<String>,
    /// What its document holds, as a hash: the `base_blob` of an edit.
    pub(crate) document_blob: Option<String>,
    /// Its document is gone.
    pub(crate) file_missing: bool,
    /// Text of an idea.
    pub(crate) text: Option<String>,
    /// The operator's note to the next builder.
    pub(crate) note: Option<String>,
    /// Where it stood before it was archived.
    pub(crate) archived_from: Option<&'static str>,
    /// Transitions, oldest first.
    pub(crate) history: Vec<StepJson>,
}

/// An intent that the planner proposed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ProposalJson {
    /// The slug that was taken.
    pub(crate) slug: String,
    /// The profile that it asks for.
    pub(crate) profile: Option<String>,
    /// Why this one.
    pub(crate) reason: Option<String>,
    /// The iterations that it asks for.
    pub(crate) iterations: Option<u32>,
    /// The whole document.
    pub(crate) text: String,
}

/// A text that the watcher is to write.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct OrderJson {
    /// The document.
    pub(crate) path: String,
    /// The text.
    pub(crate) text: String,
    /// Who wrote it.
    pub(crate) by: String,
    /// When.
    pub(crate) at: String,
    /// Why it cannot be written, once that is so: it waits for the operator then.
    pub(crate) conflict: Option<String>,
}

/// A job of a card.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct JobJson {
    /// Its id.
    pub(crate) id: String,
    /// The n-th file of it.
    pub(crate) attempt: u32,
    /// `builder`, `review`, `research`, `split` or `draft`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The profile, frozen.
    pub(crate) profile: String,
    /// Iterations allowed.
    pub(crate) iteration_limit: u32,
    /// When it was made.
    pub(crate) created_at: String,
    /// Who asked for it.
    pub(crate) requested_by: String,
    /// Whether its outcome is awaited.
    pub(crate) current: bool,
    /// The start can be taken back until then.
    pub(crate) parked_until: Option<String>,
    /// Somebody asked to cancel it.
    pub(crate) cancel_asked: bool,
}

/// One entry of a conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct TurnJson {
    /// `operator`, `planner` or `board`.
    pub(crate) who: &'static str,
    /// When.
    pub(crate) at: String,
    /// The text.
    pub(crate) text: String,
    /// Options that were offered.
    pub(crate) options: Vec<String>,
    /// The option that was taken.
    pub(crate) chosen: Option<String>,
}

/// Why a card failed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorJson {
    /// Id of the result.
    pub(crate) result: &'static str,
    /// What happened.
    pub(crate) sentence: String,
    /// When.
    pub(crate) at: String,
    /// The job.
    pub(crate) job: Option<String>,
    /// Address of its log.
    pub(crate) log: Option<String>,
    /// File below `logs/` that keeps a refused reply.
    pub(crate) reply: Option<String>,
}

/// Iterations of a card's newest run.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Iterations {
    /// Allowed per job.
    pub(crate) limit: u32,
    /// Used by the newest run.
    pub(crate) used: u32,
}

/// A report in the repository.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ReportJson {
    /// Path of the file; the report is a section of it.
    pub(crate) path: String,
    /// The job that wrote it.
    pub(crate) job: String,
    /// When.
    pub(crate) at: String,
    /// The profile that judged.
    pub(crate) profile: String,
    /// The commit that was judged.
    pub(crate) commit: Option<String>,
    /// `bereit` or `zurueck`.
    pub(crate) decision: Option<&'static str>,
}

/// One transition.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct StepJson {
    /// Where it stood.
    pub(crate) from: Option<&'static str>,
    /// Where it stood then.
    pub(crate) to: &'static str,
    /// Id of the event.
    pub(crate) event: String,
    /// Who.
    pub(crate) actor: String,
    /// When.
    pub(crate) at: String,
    /// The job.
    pub(crate) job: Option<String>,
    /// A reason or note.
    pub(crate) note: Option<String>,
}

impl From<&Step> for StepJson {
    fn from(step: &Step) -> StepJson {
        StepJson {
            from: step.from.map(Phase::id),
            to: step.to.id(),
            event: step.event.clone(),
            actor: step.actor.clone(),
            at: step.at.to_string(),
            job: step.job.map(|job| job.job.to_string()),
            note: step.note.clone(),
        }
    }
}

/// The role that works on a card next, or did last.
pub(crate) fn role_of(card: &Card) -> RoleName {
    match (card.job.as_ref().map(|job| job.kind), card.source) {
        (Some(kind), _) => kind.role(),
        (None, Source::Research) => RoleName::Researcher,
        (None, Source::Draft) => RoleName::Planner,
        (None, Source::Intent | Source::Idea) => RoleName::Builder,
    }
}

/// The profile and the limit that a card's work runs with: of its job, else as they would be chosen.
pub(crate) fn profile_of(board: &Board, card: &Card, policy: &Policy) -> (String, u32) {
    match &card.job {
        Some(job) => (job.profile.clone(), job.iteration_limit),
        None => board.resolve(role_of(card), &card.choice, policy),
    }
}

/// The card as the API gives it.
pub(crate) fn json(world: &World, card: &Card, policy: &Policy) -> CardJson {
    let board = &world.board;
    let (profile, limit) = profile_of(board, card, policy);
    let build = card.build.as_ref();
    let draft = card.draft.as_ref();
    let open = |child: &&board_core::model::slug::Slug| world.child_state(child) == ChildState::Open;
    CardJson {
        id: card.id.to_string(),
        source: card.source.id(),
        title: world.title(card).to_owned(),
        phase: card.phase.id(),
        rev: card_rev(world, card),
        changed_at: card.changed_at.to_string(),
        allowed: actions::allowed(board, card),
        calls: actions::calls(board, card),
        job: card.job.as_ref().map(|job| JobJson {
            id: job.id.to_string(),
            attempt: job.attempt,
            kind: job.kind.id(),
            profile: job.profile.clone(),
            iteration_limit: job.iteration_limit,
            created_at: job.created_at.to_string(),
            requested_by: job.requested_by.clone(),
            current: card.current_job().is_some(),
            parked_until: card.parked.as_ref().map(|parked| parked.not_before.to_string()),
            cancel_asked: card.cancel_asked.is_some(),
        }),
        result_ref: card.result_ref(),
        parent_id: card.parent.as_ref().map(ToString::to_string),
        depends_on: card.children.iter().map(ToString::to_string).collect(),
        blocked_by: card.children.iter().filter(open).map(ToString::to_string).collect(),
        synthesis: card.synthesis.as_ref().map(ToString::to_string),
        unread: card.unread,
        draft_origin: card.draft_origin.as_ref().map(ToString::to_string),
        open_draft: card.open_draft.as_ref().map(ToString::to_string),
        draft_round: draft.map(|draft| draft.round),
        draft_conversation: draft
            .map(|draft| draft.conversation.iter().map(TurnJson::from).collect())
            .unwrap_or_default(),
        proposal: draft.and_then(|draft| draft.proposal.as_ref()).map(ProposalJson::from),
        from_idea: draft.and_then(|draft| draft.from_idea.as_ref()).map(ToString::to_string),
        revises: draft.and_then(|draft| draft.revises.as_ref()).map(|revises| revises.card.to_string()),
        order: card.order.as_ref().map(|order| OrderJson {
            path: order.path.clone(),
            text: order.text.clone(),
            by: order.mark.by.clone(),
            at: order.mark.at.to_string(),
            conflict: order.conflict.clone(),
        }),
        error: card.error.as_ref().map(|error| ErrorJson {
            result: error.result.id(),
            sentence: error.sentence.clone(),
            at: error.at.to_string(),
            job: error.job.map(|job| job.job.to_string()),
            log: error.job.map(|job| format!("/api/board/jobs/{}/log", job.job)),
            reply: error.reply.clone(),
        }),
        profile: card.source.has_document().then_some(profile),
        profile_reason: card.choice.reason.clone(),
        iterations: Iterations { limit, used: card.used.as_ref().map_or(0, |used| used.iterations) },
        branch: build.map(|build| build.branch.clone()),
        base_commit: build.map(|build| build.base_commit.clone()),
        check_commit: build.and_then(|build| build.check_commit.clone()),
        merged: world.documents.is_merged(&card.id),
        reports: card
            .reports
            .iter()
            .map(|report| ReportJson {
                path: report.path.clone(),
                job: report.job.to_string(),
                at: report.at.to_string(),
                profile: report.profile.clone(),
                commit: report.commit.clone(),
                decision: report.decision.map(decision_id),
            })
            .collect(),
        document: card.document_path(),
        document_blob: world.documents.blob(&card.id).map(ToOwned::to_owned),
        file_missing: world.is_missing(card),
        text: (!card.text.is_empty()).then(|| card.text.clone()),
        note: card.note.clone(),
        archived_from: card.archived_from.map(Phase::id),
        history: card.history.iter().map(StepJson::from).collect(),
    }
}

impl From<&Turn> for TurnJson {
    fn from(turn: &Turn) -> Self {
        TurnJson {
            who: match turn.who {
                Speaker::Operator => "operator",
                Speaker::Planner => "planner",
                Speaker::Board => "board",
            },
            at: turn.at.to_string(),
            text: turn.text.clone(),
            options: turn.options.clone(),
            chosen: turn.chosen.clone(),
        }
    }
}

impl From<&ProposedIntent> for ProposalJson {
    fn from(intent: &ProposedIntent) -> Self {
        ProposalJson {
            slug: intent.slug.to_string(),
            profile: intent.profile.as_ref().map(|asked| asked.profile.clone()),
            reason: intent.profile.as_ref().map(|asked| asked.reason.clone()),
            iterations: intent.iterations,
            text: intent.body.clone(),
        }
    }
}

fn decision_id(decision: Decision) -> &'static str {
    match decision {
        Decision::Ready => "bereit",
        Decision::Back => "zurueck",
    }
}

/// A line of the history.
#[derive(Debug, Serialize)]
pub(crate) struct HistoryLine {
    at: String,
    label: String,
    from: Option<&'static str>,
    to: &'static str,
    actor: String,
    job: Option<String>,
    profile: Option<String>,
    note: Option<String>,
}

/// A report, rendered.
#[derive(Debug, Serialize)]
pub(crate) struct ReportPage {
    at: String,
    path: String,
    profile: String,
    commit: Option<String>,
    /// `good`, `bad` or none.
    tone: Option<&'static str>,
    decision: Option<String>,
    missing: Vec<String>,
    html: Option<String>,
    raw: Option<String>,
    outdated: bool,
}

/// What the page of a card shows besides its JSON.
#[derive(Debug, Serialize)]
pub(crate) struct CardPage {
    card: CardJson,
    source_label: String,
    phase_label: &'static str,
    column: Option<String>,
    state: Option<State>,
    actions: Vec<Action>,
    parent: Option<CardLink>,
    children: Vec<CardLink>,
    synthesis: Option<CardLink>,
    /// All children have ended, and none is being written: the operator can have a synthesis made.
    synthesises: bool,
    open_draft: Option<CardLink>,
    history: Vec<HistoryLine>,
    reports: Vec<ReportPage>,
    error_label: Option<String>,
    used: Option<String>,
    role_label: String,
    chosen_profile: Option<String>,
    chosen_iterations: Option<u32>,
    takes_choice: bool,
    edits: bool,
    undo_until: Option<String>,
    has_diff: bool,
    intent_changed: bool,
    worktree: Option<String>,
    saved_refs: Vec<String>,
    merge: Vec<String>,
}

/// The page's part that needs no document.
pub(crate) fn page(
    world: &World,
    card: &Card,
    policy: &Policy,
    language: Language,
    reports: Vec<ReportPage>,
) -> CardPage {
    let link = |id: &CardId| CardLink::new(world, id, language);
    let slug_link = |slug: &board_core::model::slug::Slug| link(&CardId::Slug(slug.clone()));
    let build = card.build.as_ref();
    let json = json(world, card, policy);
    let parked = card.parked.as_ref();
    CardPage {
        source_label: t(language, &format!("source.{}", card.source.id()), &[]),
        phase_label: phase_label(card.phase, language),
        column: card.phase.column().map(|column| super::column_label(column, language)),
        state: state(world, card, language),
        actions: actions::buttons(&world.board, card, policy, language),
        parent: card.parent.as_ref().map(slug_link),
        children: card.children.iter().map(slug_link).collect(),
        synthesis: card.synthesis.as_ref().map(slug_link),
        synthesises: family::synthesises(world, card),
        open_draft: card.open_draft.as_ref().map(link),
        history: card.history.iter().rev().map(|step| history_line(step, language)).collect(),
        reports,
        error_label: card
            .error
            .as_ref()
            .map(|error| t(language, &format!("result.{}", error.result.id()), &[])),
        used: card.used.as_ref().map(|used| {
            let told = text::duration(used.seconds);
            // Nobody here measured it.
            match policy.external_builder && is_of_a_build(card) {
                true => format!("{told} · {}", t(language, "card.as-builder-says", &[])),
                false => told,
            }
        }),
        role_label: t(language, &format!("role.{}", role_of(card).id()), &[]),
        chosen_profile: card.choice.profile.clone(),
        chosen_iterations: card.choice.iterations,
        takes_choice: card.source.has_document() && card.phase.work().is_none(),
        edits: edits(card),
        undo_until: parked.map(|parked| parked.not_before.to_string()),
        has_diff: build.is_some_and(|build| build.check_commit.is_some()),
        intent_changed: build.is_some_and(|build| {
            world.documents.blob(&card.id).is_some_and(|blob| blob != build.intent_blob)
        }),
        worktree: build.and_then(|build| build.worktree.clone()),
        saved_refs: build.map(|build| build.saved_refs.clone()).unwrap_or_default(),
        merge: merge_commands(card),
        card: json,
    }
}

/// Whether the card's text can be edited now.
fn edits(card: &Card) -> bool {
    let rests = card.order.is_none() && card.applying.is_none();
    match card.source {
        Source::Intent | Source::Research => rests && card.parked.is_none() && !card.file_missing,
        Source::Idea => rests && card.open_draft.is_none(),
        Source::Draft => false,
    }
}

/// Whether the figures of a card are those of its build: the run that ended last was one.
fn is_of_a_build(card: &Card) -> bool {
    let just_built = card.phase == Phase::Review && card.interruptions == 0;
    card.phase == Phase::UmsetzungFehlgeschlagen || just_built
}

/// What an operator types to look at a finished build and to take it; the board never merges.
fn merge_commands(card: &Card) -> Vec<String> {
    let Some(build) = card.build.as_ref().filter(|_| card.phase == Phase::BereitFuerDeployment) else {
        return Vec::new();
    };
    let Some(commit) = &build.check_commit else { return Vec::new() };
    vec![format!("git diff {}..{commit}", build.diff_base), format!("git merge --no-ff {}", build.branch)]
}

fn history_line(step: &Step, language: Language) -> HistoryLine {
    let label = match (actions::event_of(&step.event), language) {
        (Some(event), Language::De) => event.label_de().to_owned(),
        (Some(event), Language::En) => event.label_en().to_owned(),
        (None, _) => t(
            language,
            match step.event.as_str() {
                "profile_chosen" => "history.profile",
                "read" => "history.read",
                TAKEN | OVERRULED => "history.file",
                RANKED => "history.rank",
                SYNTHESIS_ASKED => "history.synthesis",
                "edited" => "history.edited",
                "linked" | "unlinked" | "parent" => "history.link",
                _ => "history.other",
            },
            &[],
        ),
    };
    HistoryLine {
        at: step.at.to_string(),
        label,
        from: step.from.filter(|from| *from != step.to).map(|from| phase_label(from, language)),
        to: phase_label(step.to, language),
        actor: step.actor.clone(),
        job: step.job.map(|job| job.job.to_string()),
        profile: step.profile.clone(),
        note: step.note.clone(),
    }
}

/// A report with its text, newest first; `text` is the whole file, of which the section is shown.
pub(crate) fn report_page(
    card: &Card,
    report: &board_core::model::card::Report,
    section: Option<String>,
    language: Language,
) -> ReportPage {
    let newest = card.build.as_ref().and_then(|build| build.check_commit.as_ref());
    let html = section.as_deref().and_then(super::markdown::render);
    ReportPage {
        at: report.at.to_string(),
        path: report.path.clone(),
        profile: report.profile.clone(),
        commit: report.commit.clone(),
        tone: report.decision.map(|decision| match decision {
            Decision::Ready => "good",
            Decision::Back => "bad",
        }),
        decision: report.decision.map(|decision| match decision {
            Decision::Ready => t(language, "report.ready", &[]),
            Decision::Back => t(language, "report.back", &[]),
        }),
        missing: report.missing_headings.clone(),
        raw: if html.is_none() { section } else { None },
        html,
        outdated: report.commit.is_some() && report.commit.as_ref() != newest,
    }
}

/// The kind of work that a page names.
pub(crate) fn job_label(kind: JobType, language: Language) -> String {
    t(language, &format!("job.type.{}", kind.id()), &[])
}

//! Titles, sections, conversations and what each outcome brings, as text.

use super::*;
use crate::model::card::{Draft, Revises, Step};
use crate::model::job::{DocumentText, JOB_SCHEMA, Job, JobType, Payload, ReviewPayload};
use crate::model::outcome::RunResult;

const COMMIT: &str = "1234567890123456789012345678901234567890";

fn slug(text: &str) -> Slug {
    Slug::parse(text).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn review_card() -> Card {
    let now = at("2026-11-30T20:00:00Z");
    let mut card = Card::new(slug("limit").into(), Source::Intent, "Ein\nLimit", Phase::Review, now);
    let intent =
        DocumentText { path: "docs/intent/limit.md".into(), blob: String::new(), text: String::new() };
    card.job = Some(Job {
        schema: JOB_SCHEMA,
        id: Uuid::from_u128(7),
        attempt: 2,
        kind: JobType::Review,
        card_id: card.id.clone(),
        created_at: now,
        requested_by: "board".into(),
        profile: "stark".into(),
        iteration_limit: 20,
        guidance: None,
        payload: Payload::Review(ReviewPayload { intent, commit: COMMIT.into(), base: "ba5e".into() }),
    });
    card.history.push(Step {
        transition: Uuid::nil(),
        from: Some(Phase::Geplant),
        to: Phase::InUmsetzung,
        event: EventKind::Started.id().into(),
        actor: "lukas".into(),
        at: now,
        job: None,
        profile: Some("standard".into()),
        note: None,
    });
    card
}

fn succeeded(card: &Card, produced: Produced) -> Outcome {
    let mut outcome =
        Outcome::without_run(card.job.as_ref().unwrap(), RunResult::Succeeded, "ok", card.changed_at);
    outcome.produced = Some(produced);
    outcome
}

fn review(card: &Card, job: u128, report: &str) -> Outcome {
    let produced =
        Produced::Review { commit: COMMIT.into(), decision: Decision::Ready, report: report.into() };
    Outcome { job_id: Uuid::from_u128(job), ..succeeded(card, produced) }
}

fn board_of(cards: impl IntoIterator<Item = Card>) -> Board {
    let mut board = Board::empty();
    board.cards.extend(cards.into_iter().map(|card| (card.id.clone(), card)));
    board
}

fn draft_card(revises: Option<Revises>) -> Card {
    let mut card = Card::new(
        CardId::Draft(Uuid::from_u128(9)),
        Source::Draft,
        "Thema",
        Phase::EntwurfLaeuft,
        at("2026-11-30T20:00:00Z"),
    );
    let turn = |who, text: &str, options: &[&str], chosen: Option<&str>| Turn {
        who,
        at: at("2026-11-30T20:00:00Z"),
        text: text.into(),
        options: options.iter().map(ToString::to_string).collect(),
        chosen: chosen.map(Into::into),
    };
    card.draft = Some(Draft {
        round: 2,
        conversation: vec![
            turn(Speaker::Operator, "# Thema\nListe kürzen", &[], None),
            turn(Speaker::Planner, "Wie viele?", &["10", "25"], None),
            turn(Speaker::Operator, "", &[], Some("25")),
        ],
        from_idea: None,
        revises,
        proposal: None,
    });
    let payload = crate::model::job::DraftPayload { round: 2, conversation: vec![], revises: None };
    card.job = Some(Job {
        kind: JobType::Draft,
        card_id: card.id.clone(),
        payload: Payload::Draft(payload),
        ..review_card().job.unwrap()
    });
    card
}

fn intent(name: &str) -> Produced {
    Produced::Intent(ProposedIntent {
        slug: slug(name),
        profile: None,
        iterations: None,
        body: "# Intent: Limit\n".into(),
    })
}

#[test]
fn a_title_is_the_first_heading_without_the_word_intent() {
    assert_eq!(title("# Intent: Board mit Limit\n"), Some("Board mit Limit".into()));
    assert_eq!(title("---\nprofil: x\n---\n\nText\n\n## intent:Zwei ##\n# Drei"), Some("Zwei".into()));
    assert_eq!(title("```\n# nein\n```\n# Äöü"), Some("Äöü".into()));
    assert_eq!(title("no heading"), None);
    assert_eq!(title("# Intent:\n"), None);
    assert_eq!(title(&format!("# {}", "x".repeat(MAX_TITLE_CHARS + 1))).unwrap().len(), MAX_TITLE_CHARS);
}

#[test]
fn the_slug_is_the_name_of_the_file() {
    assert_eq!(slug_of("docs/intent/a-b.md"), Some(slug("a-b")));
    assert_eq!(slug_of("docs/board/a-b.entwurf.md"), None);
    assert_eq!(slug_of("docs/intent/A.md"), None);
}

#[test]
fn front_matter_is_read_as_proposals_whatever_else_is_in_it() {
    let text =
        "---\nprofil: stark\nbegruendung: \"weil: so\"\niterationen: 15\nparent: a\ntags: [x]\n---\n# T\n";
    let found = proposals(text).unwrap();
    assert_eq!((found.profile.as_deref(), found.iterations), (Some("stark"), Some(15)));
    assert_eq!((found.reason.as_deref(), found.parent.as_deref()), (Some("weil: so"), Some("a")));
    assert_eq!(proposals("# T\n"), None);
    assert_eq!(proposals("---\n: [\n---\n"), None);
}

#[test]
fn missing_headings_are_named_in_german_whatever_the_language_of_the_report() {
    let complete =
        "# Umfang und Methoden\n## Findings by priority\n### Unsicherheiten\n## Decision\n## Empfehlungen\n";
    assert_eq!(missing_headings(complete), Vec::<String>::new());
    assert_eq!(
        missing_headings("# Scope\n```\n# Findings\n```\n## Verdict\n"),
        ["Befunde nach Priorität", "Unsicherheiten", "Empfehlungen"]
    );
}

#[test]
fn the_head_of_a_review_says_what_is_known_and_the_report_follows_below_it() {
    let card = review_card();
    let planned = plan(&board_of([card.clone()]), &review(&card, 7, "# Review\n\nGut.\n")).unwrap().remove(0);
    assert_eq!(planned.path, "docs/review/limit.md");
    assert_eq!(planned.kind, WriteKind::Section { job: Uuid::from_u128(7) });
    assert_eq!(planned.hash, blob_hash(planned.text.as_bytes()));
    let expected = format!(
        "# Review: Ein Limit\n\n\
         ## 2026-11-30T20:00:00Z: bereit (Auftrag 00000000-0000-0000-0000-000000000007)\n\n\
         - Karte: `limit`\n- Commit: `{COMMIT}`\n- Basis: `ba5e`\n- Entscheidung: bereit\n\
         - Zeit: 2026-11-30T20:00:00Z\n- Profil des Builders: standard\n- Profil des Reviewers: stark\n\n\
         ### Review\n\nGut.\n"
    );
    assert_eq!(planned.text, expected);
}

#[test]
fn sections_are_added_newest_first_and_found_again_by_their_job() {
    let card = review_card();
    let board = board_of([card.clone()]);
    let mut file: Option<String> = None;
    for n in 1..=3_u128 {
        let section = plan(&board, &review(&card, n, &format!("# R\nreport {n}\n"))).unwrap().remove(0).text;
        file = Some(add_section(file.as_deref(), &section));
    }
    let file = file.unwrap();
    let order: Vec<usize> = (1..=3).map(|n| file.find(&format!("report {n}")).unwrap()).collect();
    assert!(order[2] < order[1] && order[1] < order[0], "{file}");
    assert_eq!(file.matches("# Review: Ein Limit\n").count(), 1);
    for n in 1..=3_u128 {
        let found = find_section(&file, Uuid::from_u128(n)).unwrap();
        assert!(found.contains(&format!("report {n}\n")) && found.matches("report").count() == 1, "{found}");
    }
    assert_eq!(find_section(&file, Uuid::from_u128(4)), None);
}

#[test]
fn a_report_cannot_plant_the_head_of_another_section() {
    let card = review_card();
    let planted = format!("## x (Auftrag {})", Uuid::from_u128(5));
    let report = format!("{planted}\n\n```\n{planted}\n");
    let section = plan(&board_of([card.clone()]), &review(&card, 7, &report)).unwrap().remove(0).text;
    assert_eq!(find_section(&section, Uuid::from_u128(5)), None);
    let found = find_section(&section, Uuid::from_u128(7)).unwrap();
    assert!(found.ends_with("```\n"), "{found}");
}

#[test]
fn a_file_of_somebody_else_keeps_its_words_when_a_section_is_added() {
    let section = "# Review: T\n\n## t (Auftrag 00000000-0000-0000-0000-000000000001)\n\nneu\n";
    assert_eq!(
        add_section(Some("# Mein Titel\nVorwort\n"), section),
        "# Mein Titel\n\n## t (Auftrag 00000000-0000-0000-0000-000000000001)\n\nneu\n\nVorwort\n"
    );
    assert_eq!(add_section(Some(" \n"), section), section);
    assert!(add_section(Some("Vorwort"), section).ends_with("neu\n\nVorwort"));
}

#[test]
fn a_finished_draft_brings_the_intent_and_its_conversation() {
    let card = draft_card(None);
    let outcome = succeeded(&card, intent("limit"));
    let documents = plan(&board_of([card]), &outcome).unwrap();
    assert_eq!(documents[0].path, "docs/intent/limit.md");
    assert_eq!((&documents[0].kind, documents[0].text.as_str()), (&WriteKind::New, "# Intent: Limit\n"));
    let mark = format!("draft-{}", Uuid::from_u128(9));
    assert_eq!(documents[1].path, "docs/board/limit.entwurf.md");
    assert_eq!(documents[1].kind, WriteKind::Append { mark: mark.clone() });
    let text = &documents[1].text;
    assert!(text.contains("### Thema\nListe kürzen\n") && text.contains("Gewählt: 25\n"), "{text}");
    let once = append(None, text);
    assert!(has_conversation(&once, &mark) && !has_conversation("# Entwurf draft-x\n", &mark));
    assert_eq!(append(Some(&once), "# Entwurf y\n"), format!("{}\n\n# Entwurf y\n", once.trim_end()));
}

#[test]
fn a_slug_that_is_a_card_or_is_being_written_is_taken() {
    let draft = draft_card(None);
    let outcome = succeeded(&draft, intent("limit"));
    let sentence = plan(&board_of([draft, review_card()]), &outcome).unwrap_err();
    assert!(sentence.contains("„limit“"), "{sentence}");
}

#[test]
fn a_revision_replaces_exactly_the_text_that_it_began_with() {
    let revises = |card: &str| Some(Revises { card: slug(card).into(), blob: "b10b".into() });
    let mut revised = review_card();
    revised.phase = Phase::PlanungMitFeedback;
    let draft = draft_card(revises("limit"));
    let outcome = succeeded(&draft, intent("limit"));
    let documents = plan(&board_of([draft.clone(), revised.clone()]), &outcome).unwrap();
    assert_eq!(documents[0].kind, WriteKind::Replace { old: "b10b".into() });
    revised.phase = Phase::Geplant;
    assert_eq!(plan(&board_of([draft, revised.clone()]), &outcome), Err(changed_sentence()));
    let other = plan(&board_of([draft_card(revises("other")), revised]), &outcome).unwrap_err();
    assert!(other.contains("„other“"), "{other}");
}

#[test]
fn children_are_all_planned_or_none() {
    let card = review_card();
    let child = |name: &str, kind| ProposedChild {
        slug: slug(name),
        kind,
        profile: None,
        iterations: None,
        body: format!("# {name}\n"),
    };
    let board = board_of([card.clone()]);
    let split = |children| succeeded(&card, Produced::Split { children });
    let both = vec![child("a", ChildKind::Intent), child("b", ChildKind::Research)];
    let paths: Vec<String> = plan(&board, &split(both)).unwrap().into_iter().map(|d| d.path).collect();
    assert_eq!(paths, ["docs/intent/a.md", "docs/research/b.md"]);
    assert!(
        plan(&board, &split(vec![child("a", ChildKind::Intent), child("a", ChildKind::Research)])).is_err()
    );
    assert!(plan(&board, &split(vec![child("limit", ChildKind::Research)])).is_err());
}

#[test]
fn an_outcome_without_an_answer_brings_no_document() {
    let card = review_card();
    let outcome = Outcome::without_run(card.job.as_ref().unwrap(), RunResult::Failed, "x", card.changed_at);
    assert_eq!(plan(&board_of([card]), &outcome), Ok(Vec::new()));
}

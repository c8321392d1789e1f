//! Records written and read back, and files that somebody edited.

use proptest::prelude::*;

use super::*;
use crate::model::outcome::MAX_SENTENCE_CHARS;

fn slug(text: &str) -> Slug {
    Slug::parse(text).unwrap()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn job(byte: u8) -> JobRef {
    JobRef { job: Uuid::from_bytes([byte; 16]), attempt: u32::from(byte) + 1 }
}

fn report(n: u8, text: &str) -> Report {
    Report {
        path: format!("docs/review/{n}.md"),
        job: Uuid::from_bytes([n; 16]),
        at: at(i64::from(n) * 1000),
        profile: text.into(),
        commit: n.is_multiple_of(2).then(|| "ab".repeat(20)),
        decision: [None, Some(Decision::Ready), Some(Decision::Back)][usize::from(n % 3)],
        missing_headings: if n.is_multiple_of(4) { vec![text.into(), "Empfehlungen".into()] } else { vec![] },
    }
}

/// A card in `phase` with every field of the record set from `text` and `n`.
fn full_card(phase: Phase, text: &str, n: u8) -> Card {
    let mut card = Card::new(slug("a-card").into(), Source::Intent, text, phase, at(1_764_532_800_000));
    card.choice =
        Choice { profile: Some(text.into()), reason: Some(text.into()), iterations: Some(u32::from(n)) };
    card.applied = Some(job(n));
    card.used = Some(Used { iterations: 3, limit: 20, seconds: 812, tokens: Some(u64::from(n)) });
    card.build = Some(Build {
        number: u32::from(n),
        branch: format!("board/a-card/{n}"),
        worktree: Some(format!("a-card-{n}")),
        base_commit: "12".repeat(20),
        diff_base: "1e".repeat(20),
        check_commit: Some("fe".repeat(20)),
        earlier_check: Some("ed".repeat(20)),
        given_up: true,
        intent_blob: "00".repeat(20),
        saved_refs: vec![text.into(), "refs/board/saved/x.1".into()],
    });
    card.reports = (0..n % 8).map(|i| report(i, text)).collect();
    card.parent = Some(slug("null"));
    card.children = vec![slug("7"), slug("true"), slug("b-1")];
    card.synthesis = Some(slug("a-card-synthese"));
    card.unread = true;
    card.read_by = Some(Mark { by: text.into(), at: at(5) });
    card.draft_origin = Some(CardId::Draft(Uuid::from_bytes([n; 16])));
    card.archived_from = Some(Phase::Deployed);
    card.deployed_from = Some(Phase::BereitFuerDeployment);
    card.rank = Some(-3);
    card.note = Some(text.into());
    card.error = Some(Failure {
        result: RunResult::NoChange,
        sentence: text.into(),
        at: at(9),
        job: Some(job(n)),
        log: Some(text.into()),
        reply: Some(text.into()),
    });
    card.history.push(Step {
        transition: Uuid::from_bytes([n; 16]),
        from: Some(Phase::Geplant),
        to: phase,
        event: "started".into(),
        actor: text.into(),
        at: at(7),
        job: Some(job(n)),
        profile: None,
        note: None,
    });
    card
}

#[test]
fn a_small_card_has_few_lines_in_a_fixed_order() {
    let card = Card::new(
        slug("board-kartenlimit").into(),
        Source::Intent,
        "Kartenlimit: ja",
        Phase::Geplant,
        "2026-11-30T20:00:00Z".parse().unwrap(),
    );
    let expected = format!(
        "schema: 1\nsource: intent\nphase: {}\ntitle: \"Kartenlimit: ja\"\nchanged_at: 2026-11-30T20:00:00Z\n",
        Phase::Geplant
    );
    assert_eq!(render(&card), expected);
}

#[test]
fn every_field_has_a_line_of_its_own() {
    let text = render(&full_card(Phase::Deployed, "x y", 3));
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("  - ")).collect();
    assert_eq!(lines.len(), 42, "{text}");
    assert!(text.contains("children:\n  - \"7\"\n  - \"true\"\n  - b-1\n"), "{text}");
    assert!(text.contains("\nbase_commit: \"1212"), "{text}");
}

#[test]
fn what_was_written_is_read_as_the_same_card() {
    let mut card = full_card(Phase::Deployed, "zwei\nZeilen „und“ \"mehr\" \\ # : - [] {}", 7);
    card.history[0].from = None;
    let record = parse(render(&card).as_bytes()).unwrap();
    assert_eq!(record.to_card(&slug("a-card")).unwrap(), card);
}

#[test]
fn a_running_phase_without_an_entry_counts_as_interrupted() {
    for phase in Phase::ALL.into_iter().filter(|phase| phase.work().is_some()) {
        let record = parse(format!("schema: 1\nphase: {phase}\n").as_bytes()).unwrap();
        let card = record.to_card(&slug("a")).unwrap();
        assert_eq!(Some(card.phase), phase.failure());
        assert_eq!(card.error.unwrap().result, RunResult::Interrupted);
    }
}

#[test]
fn a_file_without_a_source_is_that_of_an_intent_and_a_research_one_says_so() {
    let planned = Phase::Geplant;
    assert_eq!(parse(format!("schema: 1\nphase: {planned}").as_bytes()).unwrap().source, Source::Intent);
    let text = format!("schema: 1\nsource: research\nphase: {planned}");
    assert_eq!(parse(text.as_bytes()).unwrap().source, Source::Research);
    let error = parse(format!("schema: 1\nsource: draft\nphase: {planned}").as_bytes()).unwrap_err();
    assert!(error.problem.contains("draft"), "{error}");
}

#[test]
fn an_unknown_phase_is_kept_and_makes_no_card() {
    let record = parse(b"schema: 1\nphase: verschoben\n").unwrap();
    assert_eq!(record.phase, RecordedPhase::Unknown("verschoben".into()));
    assert_eq!(record.to_card(&slug("a")), Err(UnknownPhase("verschoben".into())));
    assert_eq!(record.render(), "schema: 1\nsource: intent\nphase: verschoben\n");
}

#[test]
fn a_fault_names_its_line() {
    let planned = Phase::Geplant;
    let cases = [
        (format!("schema: 1\nphase: {planned}\nphase: {planned}\n"), Some(3), "duplicate"),
        (format!("schema: 1\nphase: {planned}\ncolour: red\n"), Some(3), "colour"),
        (format!("schema: 1\nphase: {planned}\nparent: ../etc\n"), Some(3), "slug"),
        (format!("schema: 1\nphase: {planned}\njob: nonsense\n"), Some(3), "job id"),
        (format!("schema: 1\nphase: {planned}\nchildren: &a [x]\nparent: *a\n"), Some(3), ""),
        (format!("schema: 2\nphase: {planned}\n"), None, "schema is 2"),
        (format!("phase: {planned}\n"), None, "schema"),
        ("<<<<<<< HEAD\nschema: 1\n".into(), Some(1), ""),
        (String::new(), None, ""),
    ];
    for (text, line, word) in cases {
        let error = parse(text.as_bytes()).unwrap_err();
        assert!(error.to_string().to_lowercase().contains(word), "{text}: {error}");
        if line.is_some() {
            assert_eq!(error.line, line, "{text}: {error}");
        }
    }
    let error = parse(b"schema: 1\nphase: \xff\n").unwrap_err();
    assert_eq!((error.line, error.problem.as_str()), (Some(2), "not UTF-8"));
}

#[test]
fn a_file_of_64_kib_is_read_and_one_byte_more_is_not() {
    let start = format!("schema: 1\nphase: {}\n#", Phase::Geplant);
    let full = format!("{start}{}", "x".repeat(MAX_RECORD_BYTES - start.len()));
    assert!(parse(full.as_bytes()).is_ok());
    assert!(parse(format!("{full}x").as_bytes()).unwrap_err().problem.contains("65537"));
}

#[test]
fn more_than_ten_thousand_nodes_are_refused() {
    let list = |n: usize| format!("schema: 1\nphase: {}\nsaved_refs: [{}]\n", Phase::Geplant, "a,".repeat(n));
    // The mapping, its three keys, two values and the list are nodes as well.
    assert!(parse(list(MAX_RECORD_NODES - 7).as_bytes()).is_ok());
    assert!(parse(list(MAX_RECORD_NODES - 6).as_bytes()).is_err());
}

#[test]
fn more_than_sixteen_levels_are_refused_before_they_cost_the_stack() {
    let fault = |levels: usize| {
        let nested = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let text = format!("schema: 1\nphase: {}\nnote: {nested}\n", Phase::Geplant);
        parse(text.as_bytes()).unwrap_err().problem
    };
    // The mapping around it is the first level.
    assert!(fault(MAX_RECORD_DEPTH - 1).contains("expected string"), "{}", fault(MAX_RECORD_DEPTH - 1));
    assert!(!fault(MAX_RECORD_DEPTH).contains("expected string"), "{}", fault(MAX_RECORD_DEPTH));
    assert!(!fault(20_000).is_empty());
    let block: String = (0..200).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    assert!(parse(block.as_bytes()).is_err());
}

#[test]
fn the_largest_card_fits_into_what_is_read_back() {
    let long = "\u{202e}ü".repeat(MAX_SENTENCE_CHARS / 2);
    let mut card = full_card(Phase::UmsetzungFehlgeschlagen, &long, 0);
    card.reports = (0..200).map(|n| report(n, "a-profile-with-a-name")).collect();
    card.children = (0..64).map(|n| slug(&format!("{}{n:02}", "c".repeat(78)))).collect();
    if let Some(build) = &mut card.build {
        build.saved_refs = (0..500).map(|n| format!("refs/board/saved/{}.{n}", Uuid::nil())).collect();
    }
    let text = render(&card);
    let record = parse(text.as_bytes()).unwrap();
    assert_eq!(record.reports.len(), MAX_RECORD_REPORTS);
    assert_eq!(record.reports.last().map(|r| r.job), Some(Uuid::from_bytes([199; 16])));
    assert_eq!(record.saved_refs.len(), MAX_RECORD_REFS);
    assert_eq!(record.render(), text);
}

#[test]
fn a_text_of_four_kib_is_kept_and_one_byte_more_is_cut() {
    let fits = "X".repeat(MAX_FIELD_BYTES - 2);
    assert_eq!(quoted(&fits), format!("\"{fits}\""));
    let cut = quoted(&format!("{fits}X"));
    assert!(cut.ends_with("…\"") && cut.len() <= MAX_FIELD_BYTES, "{}", cut.len());
}

#[test]
fn invisible_characters_are_escaped() {
    let shown = quoted("a\u{202e}b\u{0}\u{85}\u{feff}\u{200b}");
    assert_eq!(shown, "\"a\\u202eb\\u0000\\u0085\\ufeff\\u200b\"");
}

proptest! {
    #[test]
    fn render_parse_render_is_the_identity(
        text in prop_oneof![any::<String>(), "[a-z0-9./_~:#-]{0,12}", Just("${HOME}".to_owned())],
        n in any::<u8>(),
        phase in 0..Phase::ALL.len(),
    ) {
        let card = full_card(Phase::ALL[phase], &text, n);
        let written = render(&card);
        let record = parse(written.as_bytes()).map_err(|e| TestCaseError::fail(format!("{e}\n{written}")))?;
        prop_assert_eq!(&record, &Record::of(&card));
        prop_assert_eq!(record.render(), written);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in any::<Vec<u8>>(), text in "(schema: 1\n)?[a-z: \n\\[\\]{}&*!|>'\"-]{0,80}") {
        let _ = parse(&bytes);
        let _ = parse(text.as_bytes());
    }
}

//! The synthesis of a fan-out: an intent that sums up what became of the children, made without a model.
//!
//! It is text for whoever works it out (domain.md, "Fan-out and synthesis"); nothing in it starts anything.

use super::card::{Card, PlannedDocument, Source, WriteKind};
use super::documents::{self, INTENT_DIR};
use super::fanout::{ChildState, child_state};
use super::marker::review::Decision;
use super::slug::{MAX_SLUG, Slug, SlugError};

/// Characters of the parent's slug that the synthesis takes over.
pub const PARENT_PART: usize = 66;
/// Tries of `-2`, `-3` … before it is given up.
const MAX_NUMBER: u32 = 999;

/// The slug of a parent's synthesis: the first of `<parent>-synthese`, `-2`, `-3` … that is free.
///
/// # Errors
/// If all are taken.
pub fn slug(parent: &Slug, taken: impl Fn(&str) -> bool) -> Result<Slug, SlugError> {
    let part: String = parent.as_str().chars().take(PARENT_PART).collect();
    let base = format!("{}-synthese", part.trim_end_matches('-'));
    let name = (1..=MAX_NUMBER)
        .map(|n| if n == 1 { base.clone() } else { format!("{base}-{n}") })
        .find(|name| !taken(name))
        // A name that is too long on purpose: the caller gets an error and no slug that is taken.
        .unwrap_or_else(|| "x".repeat(MAX_SLUG + 1));
    Slug::parse(&name)
}

/// The document of a synthesis.
pub fn plan(slug: &Slug, parent: &Card, children: &[Card]) -> PlannedDocument {
    documents::planned(format!("{INTENT_DIR}/{slug}.md"), WriteKind::New, text(parent, children))
}

/// The text: per child what became of it, then the question about the parent's goal.
pub fn text(parent: &Card, children: &[Card]) -> String {
    let mut text = format!(
        "# Intent: Synthese zu {}\n\nAlle Teilaufgaben von [`{}`]({}) sind beendet. Diese Zusammenfassung hat \
         das Board ohne ein Modell geschrieben.\n\n## Ergebnisse der Teilaufgaben\n",
        line(&parent.title),
        parent.id,
        parent.document_path().map(|path| link(&path)).unwrap_or_default(),
    );
    for child in children {
        text.push_str(&child_text(child));
    }
    text.push_str(&format!(
        "\n## Auftrag\n\nBeurteile anhand dieser Ergebnisse, ob das Ziel von „{}“ erreicht ist:\n\n\
         - Was ist erreicht, und woran ist es zu sehen?\n\
         - Was fehlt noch oder ist gescheitert, und ist es für das Ziel nötig?\n\
         - Passen die Ergebnisse zusammen, oder widersprechen sie sich?\n\
         - Was ist als Nächstes zu tun?\n",
        line(&parent.title)
    ));
    text
}

fn child_text(child: &Card) -> String {
    let state = match child_state(child) {
        ChildState::Success => "erfolgreich",
        ChildState::Failure => "fehlgeschlagen",
        ChildState::Ended => "beendet ohne Ergebnis",
        ChildState::Open => "offen",
    };
    let mut text = format!(
        "\n### {}\n\n- Karte: `{}`\n- Stand: {} ({state})\n",
        line(&child.title),
        child.id,
        child.phase.label_de()
    );
    if let Some(result) = child.result_ref() {
        text.push_str(&format!("- Ergebnis: `{result}`\n"));
    }
    if child.file_missing {
        text.push_str("- Grund: Datei fehlt\n");
    } else if let Some(error) = &child.error {
        text.push_str(&format!("- Grund: {}\n", line(&error.sentence)));
    }
    if let Some(report) = child.reports.iter().rev().find(|report| report.decision.is_some()) {
        let decision = match report.decision {
            Some(Decision::Ready) => "bereit",
            Some(Decision::Back) => "zurück",
            None => "keine",
        };
        text.push_str(&format!("- Entscheidung des Reviews: {decision}\n"));
    }
    let mut documents: Vec<String> = child.document_path().into_iter().collect();
    for report in &child.reports {
        if !documents.contains(&report.path) {
            documents.push(report.path.clone());
        }
    }
    if !documents.is_empty() {
        let links: Vec<String> = documents.iter().map(|path| format!("[{path}]({})", link(path))).collect();
        text.push_str(&format!("- Dokumente: {}\n", links.join(", ")));
    }
    if let (Source::Intent, Some(synthesis)) = (child.source, &child.synthesis) {
        text.push_str(&format!("- Eigene Synthese: [`{synthesis}`]({synthesis}.md)\n"));
    }
    text
}

/// A path of the repository as a link from `docs/intent/`.
fn link(path: &str) -> String {
    match path.strip_prefix("docs/intent/") {
        Some(name) => name.to_owned(),
        None => format!("../{}", path.strip_prefix("docs/").unwrap_or(path)),
    }
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::card::{Build, Failure, Report};
    use crate::model::outcome::RunResult;
    use crate::model::phase::Phase;
    use crate::model::time::Timestamp;

    fn name(text: &str) -> Slug {
        Slug::parse(text).unwrap()
    }

    fn card(slug: &str, source: Source, phase: Phase) -> Card {
        Card::new(name(slug).into(), source, format!("Titel {slug}"), phase, Timestamp::MIN)
    }

    #[test]
    fn the_slug_is_cut_and_numbered_and_always_one() {
        assert_eq!(slug(&name("a"), |_| false).unwrap().as_str(), "a-synthese");
        let taken = ["a-synthese", "a-synthese-2"];
        assert_eq!(slug(&name("a"), |n| taken.contains(&n)).unwrap().as_str(), "a-synthese-3");
        let long = format!("{}-{}", "x".repeat(PARENT_PART - 1), "y".repeat(10));
        let cut = slug(&name(&long), |n| !n.ends_with("-999")).unwrap();
        assert_eq!(cut.as_str(), format!("{}-synthese-999", "x".repeat(PARENT_PART - 1)));
        assert_eq!(slug(&name(&"z".repeat(80)), |n| !n.ends_with("-999")).unwrap().as_str().len(), 79);
        assert!(slug(&name("a"), |_| true).is_err());
    }

    #[test]
    fn every_child_is_told_with_its_end_and_its_documents() {
        let report = |path: &str, decision| Report {
            path: path.into(),
            job: Uuid::nil(),
            at: Timestamp::MIN,
            profile: "p".into(),
            commit: None,
            decision,
            missing_headings: vec![],
        };
        let mut built = card("gebaut", Source::Intent, Phase::BereitFuerDeployment);
        built.build = Some(Build {
            number: 1,
            branch: "board/gebaut/1".into(),
            worktree: None,
            base_commit: "b".into(),
            diff_base: "b".into(),
            check_commit: Some("c0ffee".into()),
            earlier_check: None,
            given_up: false,
            intent_blob: "i".into(),
            saved_refs: vec![],
        });
        built.reports = vec![
            report("docs/review/gebaut.md", Some(Decision::Back)),
            report("docs/review/gebaut.md", Some(Decision::Ready)),
        ];
        let mut asked = card("frage", Source::Research, Phase::RechercheFertig);
        asked.reports = vec![report("docs/research-report/frage.md", None)];
        let mut failed = card("kaputt", Source::Intent, Phase::UmsetzungFehlgeschlagen);
        failed.error = Some(Failure {
            result: RunResult::Limit,
            sentence: "Budget\nverbraucht".into(),
            at: Timestamp::MIN,
            job: None,
            log: None,
            reply: None,
        });
        let mut gone = card("weg", Source::Intent, Phase::Geplant);
        gone.file_missing = true;
        let put_away = card("alt", Source::Intent, Phase::Archiviert);
        let parent = card("ganzes", Source::Intent, Phase::Geplant);
        let text = text(&parent, &[built, asked, failed, gone, put_away]);
        for expected in [
            "# Intent: Synthese zu Titel ganzes\n",
            "[`ganzes`](ganzes.md)",
            "- Stand: Bereit für Deployment (erfolgreich)\n- Ergebnis: `c0ffee`\n- Entscheidung des Reviews: bereit\n",
            "[docs/intent/gebaut.md](gebaut.md), [docs/review/gebaut.md](../review/gebaut.md)\n",
            "- Ergebnis: `docs/research-report/frage.md`\n",
            "[docs/research/frage.md](../research/frage.md)",
            "- Stand: Umsetzung fehlgeschlagen (fehlgeschlagen)\n- Grund: Budget verbraucht\n",
            "- Grund: Datei fehlt\n",
            "(beendet ohne Ergebnis)\n",
            "ob das Ziel von „Titel ganzes“ erreicht ist",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        assert_eq!(documents::title(&text).as_deref(), Some("Synthese zu Titel ganzes"));
    }
}

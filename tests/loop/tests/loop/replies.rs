//! What a role can answer wrongly, each kind through worker, watcher and board: the card comes to its failure
//! phase with a sentence that names the fault, the role's text is kept with it, and nothing is written.

use loop_tests::{Options, World};
use serde_json::{Value, json};

/// Stands before the block of every reply, so that the card's page can be asked for it.
const FOREWORD: &str = "Vorweg ein Satz.";

/// The case of a good block that only the repository refuses.
const WELL_FORMED: &str = "vergeben";

/// Who replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Planner,
    Splitter,
    Reviewer,
    Researcher,
}

/// A reply and what the board says of it.
struct Case {
    role: Role,
    /// Names the card.
    name: &'static str,
    reply: String,
    /// Is part of the sentence on the card; none where the reply is good.
    says: Option<&'static str>,
}

impl Role {
    /// The job's type, as the agent is told it and as it looks for its reply.
    fn id(self) -> &'static str {
        match self {
            Role::Planner => "draft",
            Role::Splitter => "split",
            Role::Reviewer => "review",
            Role::Researcher => "research",
        }
    }

    fn failure(self) -> &'static str {
        match self {
            Role::Planner => "entwurf_fehlgeschlagen",
            Role::Splitter => "aufteilung_fehlgeschlagen",
            Role::Reviewer => "review_fehlgeschlagen",
            Role::Researcher => "recherche_fehlgeschlagen",
        }
    }
}

const QUESTION: &str = "===DRAFT-QUESTION===\nWie viele?\noptionen: 10 | 25\n===END-DRAFT-QUESTION===\n";
const NO_BLOCK: &str = "enthält keinen Block ===DRAFT-QUESTION=== oder ===DRAFT-INTENT===";

fn intent(slug: &str, more: &str) -> String {
    format!("===DRAFT-INTENT===\nslug: {slug}\n{more}---\n# Intent: Neu\n\nText.\n===END-DRAFT-INTENT===\n")
}

fn question(text: &str) -> String {
    format!("===DRAFT-QUESTION===\n{text}\n===END-DRAFT-QUESTION===\n")
}

fn child(header: &str) -> String {
    format!("===CHILD===\n{header}\n---\n# Intent: Kind\n\nText.\n===END-CHILD===\n")
}

fn split(children: &str) -> String {
    format!("===SPLIT===\njob: @JOB@\n{children}===END-SPLIT===\n")
}

fn review(header: &str) -> String {
    format!("===REVIEW-REPORT===\n{header}\n---\n# Review\n\nText.\n===END-REVIEW-REPORT===\n")
}

fn research(header: &str, body: &str) -> String {
    format!("===RESEARCH-REPORT===\n{header}\n---\n{body}===END-RESEARCH-REPORT===\n")
}

/// Every line behind `prefix`.
fn each(prefix: &str, text: &str) -> String {
    text.lines().map(|line| format!("{prefix}{line}\n")).collect()
}

fn planner() -> Vec<(&'static str, String, Option<&'static str>)> {
    let ok = || intent("neu-x", "");
    vec![
        ("keiner", "Dazu fällt mir nichts ein.\n".into(), Some(NO_BLOCK)),
        (
            "beide",
            QUESTION.to_owned() + &ok(),
            Some("===DRAFT-INTENT=== in Zeile 6 gehört nicht in diese Antwort"),
        ),
        ("zwei", QUESTION.repeat(2), Some("===DRAFT-QUESTION=== steht ein zweites Mal in Zeile 6")),
        (
            "offen",
            "===DRAFT-QUESTION===\nWie viele?\n".into(),
            Some("===DRAFT-QUESTION=== aus Zeile 2 hat kein Ende"),
        ),
        (
            "nur-ende",
            "Wie viele?\n===END-DRAFT-QUESTION===\n".into(),
            Some("Das Ende von ===DRAFT-QUESTION=== in Zeile 3 schließt keinen offenen Block"),
        ),
        (
            "verschachtelt",
            intent("neu-a", "").replace("Text.\n", QUESTION),
            Some("beginnt ein Block ===DRAFT-QUESTION=== innerhalb von ===DRAFT-INTENT==="),
        ),
        ("zaun", format!("```\n{}```\n", ok()), Some(NO_BLOCK)),
        (
            "tildenzaun",
            format!("~~~~ markdown\n{}~~~\n", ok()),
            Some("der Codeblock aus Zeile 2 wird nie geschlossen"),
        ),
        ("zitat", each("> ", &ok()), Some(NO_BLOCK)),
        ("eingerueckt", each("    ", &ok()), Some(NO_BLOCK)),
        ("im-satz", format!("Mein Block ist {}", ok()), Some("schließt keinen offenen Block")),
        ("in-strichen", each("`", &ok()).replace("===\n", "===`\n"), Some(NO_BLOCK)),
        (
            "fremde-rolle",
            research("job: @JOB@", "Text.\n"),
            Some("===RESEARCH-REPORT=== in Zeile 2 gehört nicht"),
        ),
        (
            "unbekannte-zeile",
            intent("neu-b", "farbe: rot\n"),
            Some("farbe: diese Kopfzeile gibt es hier nicht"),
        ),
        ("kein-paar", intent("neu-c", "einfach so\n"), Some("keine Kopfzeile der Form „name: wert“")),
        ("doppelte-zeile", intent("neu-d", "slug: neu-d\n"), Some("slug: diese Kopfzeile steht doppelt")),
        ("ohne-strich", intent("neu-e", "").replace("---\n", ""), Some("Zeile 4 der Antwort: ")),
        ("ohne-slug", intent("neu-f", "").replace("slug: neu-f\n", ""), Some("slug: diese Kopfzeile fehlt")),
        (
            "unbekanntes-profil",
            intent("neu-g", "profil: riesig\nbegruendung: groß\n"),
            Some("Das Profil „riesig“ ist nicht eingerichtet (vorhanden: counted, standard)"),
        ),
        ("ohne-grund", intent("neu-h", "profil: counted\n"), Some("zu einem Profil gehört eine Begründung")),
        ("limit-0", intent("neu-i", "iterationen: 0\n"), Some("„0“ ist keine ganze Zahl von 1 bis 20")),
        ("limit-21", intent("neu-j", "iterationen: 21\n"), Some("„21“ ist keine ganze Zahl von 1 bis 20")),
        (
            "limit-wort",
            intent("neu-k", "iterationen: viele\n"),
            Some("„viele“ ist keine ganze Zahl von 1 bis 20"),
        ),
        (
            "slug-gross",
            intent("Neu_L", ""),
            Some("Der Slug „Neu_L“ enthält „N“, erlaubt sind nur a-z, 0-9 und -"),
        ),
        ("slug-pfad", intent("../../etc/x", ""), Some("erlaubt sind nur a-z, 0-9 und -")),
        ("slug-lang", intent(&"x".repeat(81), ""), Some("hat 81 Zeichen, erlaubt sind höchstens 80")),
        (
            "front-matter",
            intent("neu-m", "").replace("---\n", "---\n---\nphase: deployed\n---\n"),
            Some("Front Matter"),
        ),
        (
            "ohne-text",
            intent("neu-n", "").replace("# Intent: Neu\n\nText.\n", "\n"),
            Some("Der Text nach den Kopfzeilen ist leer"),
        ),
        (
            "fuenf",
            question("Wie?\noptionen: a | b | c | d | e"),
            Some("Es sind mehr als 4 Antwortmöglichkeiten"),
        ),
        ("leere-option", question("Wie?\noptionen: a | | c"), Some("eine Antwortmöglichkeit ist leer")),
        (
            "lange-option",
            question(&format!("Wie?\noptionen: {}", "x".repeat(121))),
            Some("länger als 120 Zeichen"),
        ),
        ("leere-frage", question(" \noptionen: ja | nein"), Some("Die Frage ist leer")),
        ("lange-frage", question(&"x".repeat(2001)), Some("Die Frage ist länger als 2000 Zeichen")),
        (
            "zu-gross",
            intent("neu-o", "").replace("Text.", &"Text.\n".repeat(50 << 10)),
            Some("Der Block ist größer als 256 KiB"),
        ),
        ("bom", QUESTION.replace("===DRAFT", "\u{feff}===DRAFT"), Some("schließt keinen offenen Block")),
        (
            "nullbreit",
            QUESTION.replace("===DRAFT-Q", "=\u{200b}==DRAFT-Q"),
            Some("schließt keinen offenen Block"),
        ),
        ("nullbreit-dahinter", QUESTION.replace("QUESTION===\n", "QUESTION===\u{200b}\n"), Some(NO_BLOCK)),
        ("vollbreit", QUESTION.replace('=', "\u{ff1d}"), Some(NO_BLOCK)),
        ("kyrillisch", QUESTION.replace("DRAFT", "DR\u{410}FT"), Some(NO_BLOCK)),
        ("geschuetzt", QUESTION.replace("QUESTION===\n", "QUESTION===\u{a0}\n"), Some(NO_BLOCK)),
        // Good ones beside them, so that a refusal of everything would be seen.
        ("gut-crlf", QUESTION.replace('\n', "\r\n"), None),
        ("gut-leerzeichen", QUESTION.replace("===\n", "=== \t\n"), None),
        ("gut-vier", question("Wie?\noptionen: a | b | c | d"), None),
        ("gut-grenze", question(&"x".repeat(2000)), None),
        ("gut-neben-zaun", format!("~~~\n{}~~~\n{QUESTION}", ok()), None),
    ]
}

fn splitter() -> Vec<(&'static str, String, Option<&'static str>)> {
    let (a, b) = (child("slug: kind-a"), child("slug: kind-b\nart: recherche"));
    let many: String = (0..13).map(|n| child(&format!("slug: kind-{n}"))).collect();
    vec![
        ("keiner", "Das lässt sich nicht teilen.\n".into(), Some("enthält keinen Block ===SPLIT===")),
        ("zwei", split(&a) + &split(&b), Some("===SPLIT=== steht ein zweites Mal")),
        (
            "fremder-auftrag",
            split(&a).replace("@JOB@", "0198c0de-0000-7000-8000-000000000001"),
            Some("Die Antwort nennt „0198c0de-"),
        ),
        ("ohne-auftrag", split(&a).replace("job: @JOB@\n", ""), Some("job: diese Kopfzeile fehlt")),
        ("ohne-kind", split(""), Some("Die Aufteilung enthält kein Kind")),
        ("dreizehn", split(&many), Some("Es sind mehr als 12 Kinder")),
        ("doppelt", split(&a.repeat(2)), Some("diesen Slug hat schon ein anderes Kind")),
        ("slug", split(&(a.clone() + &child("slug: KIND"))), Some("Der Slug „KIND“ enthält „K“")),
        ("vergeben", split(&(a.clone() + &child("slug: besetzt"))), Some("„besetzt“ ist vergeben")),
        (
            "art",
            split(&child("slug: kind-c\nart: aufgabe")),
            Some("„aufgabe“ ist nicht erlaubt, möglich: intent, recherche"),
        ),
        (
            "profil",
            split(&child("slug: kind-d\nart: recherche\nprofil: counted\nbegruendung: x")),
            Some("das gibt es bei einer Recherche nicht"),
        ),
        (
            "limit",
            split(&child("slug: kind-e\niterationen: 21")),
            Some("„21“ ist keine ganze Zahl von 1 bis 20"),
        ),
        (
            "dazwischen",
            split(&(a.clone() + "Und nun das zweite:\n" + &b)),
            Some("Text zwischen oder nach den Kindern"),
        ),
        (
            "kind-offen",
            split(&a.replace("===END-CHILD===\n", "")),
            Some("Der Block ===CHILD=== aus Zeile 4 hat kein Ende"),
        ),
        ("zaun", format!("```\n{}```\n", split(&a)), Some("enthält keinen Block ===SPLIT===")),
    ]
}

fn reviewer() -> Vec<(&'static str, String, Option<&'static str>)> {
    let good = review("commit: @COMMIT@\nentscheidung: bereit");
    vec![
        ("keiner", "Sieht gut aus.\n".into(), Some("enthält keinen Block ===REVIEW-REPORT===")),
        ("zwei", good.repeat(2), Some("===REVIEW-REPORT=== steht ein zweites Mal")),
        ("fremder-commit", good.replace("@COMMIT@", &"a".repeat(40)), Some("Die Antwort nennt „aaaa")),
        ("ohne-commit", good.replace("commit: @COMMIT@\n", ""), Some("commit: diese Kopfzeile fehlt")),
        (
            "wort",
            good.replace("bereit", "deployed"),
            Some("„deployed“ ist nicht erlaubt, möglich: bereit, zurueck"),
        ),
        (
            "phase",
            good.replace("---\n", "phase: deployed\n---\n"),
            Some("phase: diese Kopfzeile gibt es hier nicht"),
        ),
        ("fremde-rolle", good + QUESTION, Some("===DRAFT-QUESTION=== in Zeile 10 gehört nicht")),
    ]
}

fn researcher() -> Vec<(&'static str, String, Option<&'static str>)> {
    let good = research("job: @JOB@", "# Antwort\n\nText.\n");
    vec![
        ("keiner", "So ist es.\n".into(), Some("enthält keinen Block ===RESEARCH-REPORT===")),
        ("zwei", good.repeat(2), Some("===RESEARCH-REPORT=== steht ein zweites Mal")),
        (
            "fremder-auftrag",
            good.replace("@JOB@", "irgendeiner"),
            Some("Die Antwort nennt „irgendeiner“, der Auftrag ist „"),
        ),
        ("leer", research("job: @JOB@", "\n"), Some("Der Text nach den Kopfzeilen ist leer")),
        ("offen", good.replace("===END-RESEARCH-REPORT===\n", ""), Some("aus Zeile 2 hat kein Ende")),
    ]
}

fn cases() -> Vec<Case> {
    let tables = [
        (Role::Planner, planner()),
        (Role::Splitter, splitter()),
        (Role::Reviewer, reviewer()),
        (Role::Researcher, researcher()),
    ];
    let cases = tables.into_iter().flat_map(|(role, table)| {
        table.into_iter().map(move |(name, reply, says)| Case {
            role,
            name,
            reply: format!("{FOREWORD}\n{reply}"),
            says,
        })
    });
    cases.collect()
}

impl Case {
    fn slug(&self) -> String {
        format!("reply-{}-{}", self.role.id(), self.name)
    }

    /// Puts the card and the reply where the role finds them.
    fn prepare(&self, world: &World) {
        let path = world.path("agent/replies").join(self.slug());
        std::fs::write(path, &self.reply).unwrap();
        match self.role {
            Role::Planner => {}
            Role::Splitter | Role::Reviewer => world.intent(&self.slug()).unwrap(),
            Role::Researcher => {
                world.write(&format!("docs/research/{}.md", self.slug()), "# Wie?\n").unwrap();
            }
        }
    }

    /// Starts the role, or for a reviewer the build before it, and returns the card's id.
    fn start(&self, world: &World) -> String {
        let slug = self.slug();
        let answer = match self.role {
            Role::Planner => world.api("POST", "/drafts", Some(&json!({ "topic": format!("reply {slug}") }))),
            Role::Splitter => world.call(&slug, "split"),
            Role::Reviewer => world.move_to(&slug, "in_umsetzung"),
            Role::Researcher => world.move_to(&slug, "recherche_laeuft"),
        };
        assert_eq!(answer.status, 202, "{slug}: {}", answer.body);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    fn check(&self, world: &World, id: &str) {
        let name = self.slug();
        let Some(says) = self.says else {
            let card = world.wait_phase(id, &["entwurf_frage", self.role.failure()]);
            assert_eq!(card["phase"], "entwurf_frage", "{name}: {}", card["error"]);
            return;
        };
        let card = world.wait_phase(id, &[self.role.failure()]);
        let error = &card["error"];
        assert!(error["sentence"].as_str().is_some_and(|text| text.contains(says)), "{name}: {error}");
        assert_eq!(error["result"], "invalid_reply", "{name}: {error}");
        let kept = world.path("state/logs").join(error["reply"].as_str().unwrap());
        let job = card["job"]["id"].as_str().unwrap_or_default();
        let told = self.reply.replace("@JOB@", job).replace("@COMMIT@", &text(&card["check_commit"]));
        let kept = std::fs::read_to_string(kept).unwrap();
        let page = world.client().send("GET", &page(self.role, id), None).unwrap().body;
        if self.name == WELL_FORMED {
            // Read, and then refused by what is there: the block is kept as the board understood it.
            assert!(kept.starts_with("===SPLIT===\n") && kept.contains("slug: besetzt"), "{name}: {kept}");
            assert!(page.contains("slug: besetzt"), "{name}: the page does not show the role's text");
            return;
        }
        assert!(page.contains(FOREWORD), "{name}: the page does not show the role's text");
        assert!(kept.trim_end() == told.trim_end(), "{name}: kept is\n{kept:.400}\ninstead of\n{told:.400}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn page(role: Role, id: &str) -> String {
    match role {
        Role::Planner => format!("/entwuerfe/{id}"),
        Role::Splitter | Role::Reviewer | Role::Researcher => format!("/karten/{id}"),
    }
}

#[test]
fn every_kind_of_bad_reply_is_refused_with_its_fault_named_and_the_text_kept() {
    let mut world = World::new(Options::default()).unwrap();
    std::fs::create_dir(world.path("agent/replies")).unwrap();
    world.intent("besetzt").unwrap();
    let cases = cases();
    for case in &cases {
        case.prepare(&world);
    }
    world.start().unwrap();
    let ids: Vec<String> = cases.iter().map(|case| case.start(&world)).collect();
    for (case, id) in cases.iter().zip(&ids) {
        case.check(&world, id);
    }
    world.wait_committed();
    // No reply made a card or a file.
    let files = world.git(&["ls-tree", "-r", "--name-only", "main", "docs"]).unwrap();
    let written: Vec<&str> = files.lines().filter(|path| !path.starts_with("docs/board/reply-")).collect();
    assert_eq!(written, Vec::<&str>::new());
    let intents = std::fs::read_dir(world.path("repo/docs/intent")).unwrap().count();
    let wanted = cases.iter().filter(|case| matches!(case.role, Role::Splitter | Role::Reviewer)).count() + 1;
    assert_eq!(intents, wanted);
}

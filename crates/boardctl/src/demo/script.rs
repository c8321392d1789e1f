//! The scripted agent of the demo and the configuration that plays it.
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use board_core::edge::settings::Language;

const AGENT: &str = include_str!("assets/agent.sh");
/// What the agent does in a tour; it reads the file beside itself.
const TOUR: &str = include_str!("assets/tour.sh");
const CONFIG: &str = include_str!("assets/config.toml");

/// The directories and files of one demo.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// All of it.
    pub(crate) dir: PathBuf,
}

/// What differs between demos.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Play {
    /// Language of the board and of the prompts.
    pub(crate) language: Language,
    /// Whether bubblewrap works here.
    pub(crate) sandbox: bool,
    /// Seconds that a start can be taken back.
    pub(crate) undo_seconds: u32,
    /// Seconds that each step of the agent takes.
    pub(crate) pause: u32,
}

impl Stage {
    /// The repository.
    pub(crate) fn repository(&self) -> PathBuf {
        self.dir.join("werkstatt-tagebuch")
    }

    /// The state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// The configuration file.
    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("config.toml")
    }

    /// What trigger, watcher and workers say.
    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join("log.txt")
    }

    fn agent(&self) -> PathBuf {
        self.dir.join("agent/agent.sh")
    }

    /// Writes agent and configuration.
    ///
    /// # Errors
    /// A directory that cannot be written.
    pub(crate) fn set(&self, play: Play) -> anyhow::Result<()> {
        // Its own directory: the sandbox shows an agent the directory of its program.
        let agent = self.agent();
        write(&agent, AGENT)?;
        write(&agent.with_file_name("tour.sh"), TOUR)?;
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755))
            .with_context(|| agent.display().to_string())?;
        board_core::edge::files::create_dirs_private(&self.state())?;
        write(&self.config(), &self.configuration(play))
    }

    fn configuration(&self, play: Play) -> String {
        let values = [
            ("@REPOSITORY@", quoted(&self.repository())),
            ("@STATE@", quoted(&self.state())),
            ("@AGENT@", quoted(&self.agent())),
            ("@LANGUAGE@", play.language.id().to_owned()),
            ("@UNDO@", play.undo_seconds.to_string()),
            ("@SANDBOX@", if play.sandbox { "bubblewrap" } else { "none" }.to_owned()),
            ("@PAUSE@", play.pause.to_string()),
        ];
        values.into_iter().fold(CONFIG.to_owned(), |text, (name, value)| text.replace(name, &value))
    }
}

/// A path as a string of TOML; JSON spells it the same way.
fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy()).to_string()
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Output, Stdio};

    use board_core::edge::settings::{DirectoryCheck, Settings};
    use board_core::model::job::JobType;
    use board_core::model::marker::review::Decision;
    use board_core::model::marker::{ReplyRules, draft, research, review, split};
    use uuid::Uuid;

    use super::*;
    use crate::demo::repository::{FIRST_CARD, make};

    const COMMIT: &str = "4f6c1c5e0d7be8b1f6f5d1e3a9b8c7d6e5f40312";
    const JOB: Uuid = Uuid::from_u128(0x0198_c0de_0000_7000_8000_0000_0000_0001);

    fn stage(dir: &Path) -> Stage {
        let stage = Stage { dir: dir.to_owned() };
        make(&stage.repository()).unwrap();
        stage.set(Play { language: Language::De, sandbox: false, undo_seconds: 0, pause: 0 }).unwrap();
        stage
    }

    const LESER: &str = "jahresbericht-leser";
    const GERAETE: &str = "jahresbericht-geraete";
    const MONATE: &str = "jahresbericht-monate";
    const DRUCK: &str = "jahresbericht-druck";

    fn play(stage: &Stage, at: &Path, kind: JobType, card: &str, prompt: &str) -> String {
        let output = run(stage, at, kind, card, prompt);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    fn run(stage: &Stage, at: &Path, kind: JobType, card: &str, prompt: &str) -> Output {
        let mut agent = Command::new(stage.agent())
            .current_dir(at)
            .env("BOARD_JOB_ID", JOB.to_string())
            .env("BOARD_CARD_ID", card)
            .env("BOARD_JOB_TYPE", kind.id())
            .env("BOARD_COMMIT", COMMIT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        agent.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
        agent.wait_with_output().unwrap()
    }

    fn quote(title: &str, text: &str) -> String {
        format!("{title} (Daten):\n\n``````\n{}\n``````\n", text.trim_end())
    }

    fn intent(stage: &Stage, card: &str) -> String {
        std::fs::read_to_string(stage.repository().join(format!("docs/intent/{card}.md"))).unwrap()
    }

    /// What a reader sees: the tree, the diff, the document.
    fn reader(stage: &Stage, card: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let copied =
            Command::new("cp").arg("-r").arg(stage.repository()).arg(dir.path().join("tree")).status();
        assert!(copied.unwrap().success());
        std::fs::write(dir.path().join("intent.md"), intent(stage, card)).unwrap();
        let question = stage.repository().join("docs/research/tagebuch-ablage.md");
        std::fs::copy(question, dir.path().join("question.md")).unwrap();
        std::fs::write(dir.path().join("diff.patch"), "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n").unwrap();
        dir
    }

    #[test]
    fn the_configuration_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let stage = stage(dir.path());
        let settings = Settings::load_with(&stage.config(), DirectoryCheck::Check).unwrap();
        assert_eq!(settings.board.repository, stage.repository());
        assert_eq!(settings.profile_names().collect::<Vec<_>>(), ["gruendlich", "standard"]);
    }

    #[test]
    fn the_builder_really_builds_each_intent_and_its_tests_pass() {
        let dir = tempfile::tempdir().unwrap();
        let stage = stage(dir.path());
        // All in one tree: they must not get into each other's way when they are merged.
        for card in [FIRST_CARD, "tagebuch-suche", "tagebuch-csv-export", "etwas-anderes"] {
            let text =
                if card == "etwas-anderes" { "# Intent: Anderes\n".to_owned() } else { intent(&stage, card) };
            let prompt = quote(&format!("Intent docs/intent/{card}.md"), &text);
            let said = play(&stage, &stage.repository(), JobType::Builder, card, &prompt);
            let first = said.lines().next().unwrap();
            assert!(first.chars().count() <= 70 && said.contains("0 fehlgeschlagen"), "{said}");
            assert!(text.lines().next().unwrap().ends_with(first), "{first}");
        }
    }

    #[test]
    fn the_tour_is_split_into_parts_that_are_built_researched_and_in_one_case_fail() {
        let dir = tempfile::tempdir().unwrap();
        let stage = stage(dir.path());
        let at = reader(&stage, FIRST_CARD);
        let profiles = ["standard".to_owned()];
        let rules = ReplyRules { profiles: &profiles, iteration_cap: 20 };
        let said = play(&stage, at.path(), JobType::Split, "jahresbericht", "");
        let children = split::parse(&said, &JOB, &rules).unwrap();
        let slugs: Vec<String> = children.iter().map(|child| child.slug.to_string()).collect();
        assert_eq!(slugs.join(" "), format!("{LESER} {GERAETE} {MONATE} {DRUCK}"));
        for child in [GERAETE, MONATE] {
            let prompt = quote(&format!("Intent docs/intent/{child}.md"), "# Intent: Minuten eines Jahres\n");
            let said = play(&stage, &stage.repository(), JobType::Builder, child, &prompt);
            assert!(said.contains("0 fehlgeschlagen"), "{said}");
        }
        let report = play(&stage, at.path(), JobType::Research, LESER, "");
        assert!(report.contains("5 Einträge an 3 Geräten"), "{report}");
        research::parse(&report, &JOB).unwrap();
        let failed = run(&stage, &stage.repository(), JobType::Builder, DRUCK, "");
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        let synthesis = "# Intent: Synthese zu Jahresbericht\n\n### Eins\n\n- Stand: Recherche fertig (erfolgreich)\n\n\
                         ### Zwei\n\n- Stand: Umsetzung fehlgeschlagen (fehlgeschlagen)\n- Grund: kein PDF\n";
        let prompt = quote("Intent docs/intent/jahresbericht-synthese.md", synthesis);
        play(&stage, &stage.repository(), JobType::Builder, "jahresbericht-synthese", &prompt);
        let judged = stage.repository().join("bewertung/jahresbericht-synthese.md");
        let judged = std::fs::read_to_string(judged).unwrap();
        let wanted = "# Bewertung: Synthese zu Jahresbericht\n\n2 Teilaufgaben sind beendet.\n\n## Erreicht\n\n\
                      - Eins: Recherche fertig (erfolgreich)\n\n## Offen\n\n\
                      - Zwei: Umsetzung fehlgeschlagen (fehlgeschlagen)\n  Grund: kein PDF\n";
        assert_eq!(judged, wanted);
    }

    #[test]
    fn the_reviewer_sends_the_forgotten_formula_back_and_is_content_the_second_time() {
        let dir = tempfile::tempdir().unwrap();
        let stage = stage(dir.path());
        let card = "tagebuch-csv-export";
        let prompt = quote("Intent docs/intent/x.md", &intent(&stage, card));
        let mut decisions = Vec::new();
        for report in ["", "Ein Text, der mit = beginnt, steht ungeschützt im Export."] {
            let reports = if report.is_empty() { String::new() } else { quote("Review-Bericht 1", report) };
            play(&stage, &stage.repository(), JobType::Builder, card, &format!("{prompt}\n{reports}"));
            let at = reader(&stage, card);
            let reply = review::parse(&play(&stage, at.path(), JobType::Review, card, ""), COMMIT).unwrap();
            assert!(reply.report.contains("- `x` (+1, −1)"), "{}", reply.report);
            decisions.push(reply.decision);
        }
        assert_eq!(decisions, [Decision::Back, Decision::Ready]);
    }

    #[test]
    fn every_other_role_answers_with_one_valid_block() {
        let dir = tempfile::tempdir().unwrap();
        let stage = stage(dir.path());
        let at = reader(&stage, FIRST_CARD);
        let said = play(&stage, at.path(), JobType::Research, "tagebuch-ablage", "");
        let report = research::parse(&said, &JOB).unwrap();
        assert!(format!("{report:?}").contains("40 Zeilen, davon 40 mit vier Feldern"), "{said}");
        let profiles = ["standard".to_owned()];
        let rules = ReplyRules { profiles: &profiles, iteration_cap: 20 };
        let children =
            split::parse(&play(&stage, at.path(), JobType::Split, FIRST_CARD, ""), &JOB, &rules).unwrap();
        assert_eq!(children.len(), 2);
        let topic = quote("Gespräch", "Operator:\nÖffnungszeiten im Tagebuch!");
        for round in 1..=3 {
            let prompt = format!("Dies ist Runde {round}.\n\n{topic}");
            let said = play(&stage, at.path(), JobType::Draft, "draft-x", &prompt);
            match draft::parse(&said, &rules).unwrap() {
                draft::DraftReply::Question(question) => assert!(round < 3, "{question:?}"),
                draft::DraftReply::Intent(intent) => {
                    assert!(round == 3 && intent.slug.to_string().contains("oeffnungszeiten"), "{intent:?}");
                }
            }
        }
        let revision = format!(
            "Dies ist Runde 1.\n`slug` muss `{FIRST_CARD}` sein.\n{}\n{topic}",
            quote("Bisheriger Intent docs/intent/x.md", &intent(&stage, FIRST_CARD))
        );
        let said = play(&stage, at.path(), JobType::Draft, "draft-x", &revision);
        let draft::DraftReply::Intent(revised) = draft::parse(&said, &rules).unwrap() else {
            panic!("{said}")
        };
        assert_eq!(revised.slug.to_string(), FIRST_CARD);
        assert!(revised.body.contains("## Nachtrag"));
    }
}

//! The help in German.
//!
//! Keyed by the path of a command and, for an argument, its name; whatever is visible stands here.
use clap::Command;

const TEXTS: &[(&str, &str)] = &[
    ("boardctl", "Bedient ein Board von board-agent oder startet eines zum Ausprobieren"),
    ("boardctl.help", "Hilfe zeigen"),
    ("boardctl.version", "Version zeigen"),
    ("boardctl.config", "Konfigurationsdatei; sonst $BOARD_AGENT_CONFIG, sonst /etc/board-agent/config.toml"),
    (
        "boardctl.socket",
        "Steuersocket; sonst der im konfigurierten Zustandsverzeichnis, sonst /run/board-agent/control.sock",
    ),
    ("boardctl.json", "Werte als JSON ausgeben"),
    ("boardctl.language", "Sprache: de oder en; sonst die der Konfiguration"),
    ("boardctl demo", "Startet alles auf einem Wegwerf-Repository mit einem Agenten nach Drehbuch"),
    (
        "boardctl demo.once",
        "Eine Karte von Geplant bis Bereit für Deployment führen, das Ergebnis zeigen, beenden",
    ),
    (
        "boardctl demo.tour",
        "Den ganzen Kreislauf zeigen: Thema, Planner, Aufteilung, parallele Arbeit, Synthese; mit --once danach beenden",
    ),
    ("boardctl demo.port", "Port des Boards; 0 sucht einen aus"),
    (
        "boardctl demo.dir",
        "Ein neues oder leeres Verzeichnis für alles; sonst eines unter dem Build-Verzeichnis",
    ),
    ("boardctl demo.keep", "Das Verzeichnis behalten; sonst räumt die nächste Demo es weg"),
    ("boardctl dev", "Startet alles im Vordergrund, ohne systemd"),
    ("boardctl dev.port", "Port des Boards statt des konfigurierten; 0 sucht einen aus"),
    ("boardctl list", "Zeigt die Karten"),
    ("boardctl show", "Zeigt eine Karte"),
    ("boardctl show.card", "Ihre Kennung, wie in der Adresse ihrer Seite"),
    ("boardctl start", "Startet die Arbeit einer geplanten Karte, sofort"),
    ("boardctl start.card", "Ihre Kennung"),
    ("boardctl new", "Schreibt eine neue Idee auf, oder eine Datei als Intent oder Recherche-Frage"),
    ("boardctl new.title", "Ihr Titel; eine Datei kann ihn als Überschrift haben"),
    ("boardctl new.text", "Ihr Text, Markdown"),
    ("boardctl new.intent", "Diese Datei als Intent schreiben; - liest sie von der Eingabe"),
    ("boardctl new.question", "Diese Datei als Recherche-Frage schreiben; - liest sie von der Eingabe"),
    ("boardctl new.slug", "Slug von Intent oder Frage; sonst wird er aus dem Titel gemacht"),
    ("boardctl draft", "Arbeitet einen Intent mit dem Planner aus"),
    ("boardctl draft.topic", "Worum es geht"),
    ("boardctl answer", "Beantwortet die Frage des Planners"),
    ("boardctl answer.card", "Kennung des Entwurfs"),
    ("boardctl answer.text", "Die Antwort; mit --option eine Notiz dazu"),
    ("boardctl answer.option", "Eine der Möglichkeiten der Frage"),
    ("boardctl answer.round", "Nur, wenn diese Runde gefragt ist"),
    ("boardctl move", "Bewegt eine Karte in eine andere Phase"),
    ("boardctl move.card", "Ihre Kennung"),
    ("boardctl move.to", "Kennung der Phase"),
    ("boardctl cancel", "Beendet den Lauf einer Karte"),
    ("boardctl cancel.card", "Ihre Kennung"),
    ("boardctl retry", "Versucht Gescheitertes noch einmal; nach einem gescheiterten Build von vorn"),
    ("boardctl retry.card", "Ihre Kennung"),
    ("boardctl resume", "Macht mit einem gescheiterten oder unterbrochenen Build in seinem Worktree weiter"),
    ("boardctl resume.card", "Ihre Kennung"),
    ("boardctl discard", "Gibt einen gescheiterten Build auf; seine Arbeit bleibt als Ref erhalten"),
    ("boardctl discard.card", "Ihre Kennung"),
    ("boardctl undo", "Nimmt einen Start zurück, der noch nicht eingereiht ist"),
    ("boardctl undo.card", "Ihre Kennung"),
    ("boardctl archive", "Räumt eine Karte weg"),
    ("boardctl archive.card", "Ihre Kennung"),
    (
        "boardctl restore",
        "Holt eine Karte aus dem Archiv zurück, oder eine gelöschte Idee oder einen Entwurf",
    ),
    ("boardctl restore.card", "Ihre Kennung"),
    ("boardctl delete", "Löscht eine Idee oder einen Entwurf; 24 Stunden lang geht es zurück"),
    ("boardctl delete.card", "Ihre Kennung"),
    ("boardctl split", "Lässt den Planer einen Intent in Kinder aufteilen"),
    ("boardctl split.card", "Ihre Kennung"),
    ("boardctl adopt", "Räumt geplante Karten aus der Zeit vor dem Board in einem Zug an ihren Platz"),
    (
        "boardctl adopt.all_before",
        "Die es im Repository schon vor diesem Tag oder Zeitpunkt gab, wie 2026-09-01",
    ),
    ("boardctl adopt.belongs", "Kennung der Phase: deployed oder archiviert"),
    ("boardctl adopt.dry_run", "Nur sagen, welche es sind"),
    ("boardctl link", "Verbindet eine Karte mit einer Elternkarte oder löst die Verbindung"),
    ("boardctl link.card", "Kennung des Kindes"),
    ("boardctl link.parent", "Kennung der Elternkarte; ohne sie wird die Verbindung gelöst"),
    ("boardctl read", "Sagt, dass eine Synthese gelesen ist, damit sie sich starten lässt"),
    ("boardctl read.card", "Ihre Kennung"),
    ("boardctl synthesise", "Schreibt die Synthese einer Karte, deren Kinder alle beendet sind"),
    ("boardctl synthesise.card", "Ihre Kennung"),
    ("boardctl rank", "Stellt eine Karte vor eine andere ihrer Spalte, oder ans Ende"),
    ("boardctl rank.card", "Ihre Kennung"),
    ("boardctl rank.before", "Kennung der anderen"),
    ("boardctl adopt-file", "Sagt, was gilt, wo die Akte einer Karte von Hand geändert wurde"),
    ("boardctl adopt-file.card", "Ihre Kennung"),
    ("boardctl adopt-file.take", "Die Datei im Repository, oder was das Board weiß"),
    (
        "boardctl pause",
        "Startet nichts Neues mehr: gar nichts, oder nichts einer Lane oder eines Profils; was läuft, läuft zu Ende",
    ),
    ("boardctl pause.lane", "Eine Lane: draft, read, research oder build"),
    ("boardctl pause.profile", "Ein Profil der Konfiguration"),
    ("boardctl pause.reason", "Warum, für die erste Zeile des Boards"),
    ("boardctl resume-lanes", "Macht nach dem Anhalten weiter, auch wenn ein Lauf angehalten hat"),
    ("boardctl resume-lanes.lane", "Eine Lane: draft, read, research oder build"),
    ("boardctl resume-lanes.profile", "Ein Profil der Konfiguration"),
    ("boardctl prompt", "Gibt Wort für Wort aus, was eine Rolle zu einer Karte gesagt bekäme"),
    ("boardctl prompt.card", "Ihre Kennung"),
    ("boardctl prompt.role", "builder, reviewer, researcher oder planner"),
    ("boardctl login", "Meldet eine Runtime an: ihre eigene Anmeldung, in ihrem Home, als Dienstbenutzer"),
    ("boardctl login.runtime", "Ihr Name in der Konfiguration"),
    ("boardctl login.arguments", "Weitere Argumente ihrer Anmeldung, hinter --"),
    ("boardctl queue", "Was wo in der Warteschlange liegt, seit wann, und wer welche Sperre hält"),
    ("boardctl queue drop", "Legt eine Auftragsdatei von Hand ab, wie queue/drop sie annimmt"),
    ("boardctl queue drop.file", "Die Datei"),
    ("boardctl state", "Prüft den Zustand, zeigt ihn oder holt einen früheren zurück"),
    ("boardctl state check", "Ob der Zustand lesbar ist und welche früheren aufgehoben sind"),
    ("boardctl state show", "Gibt den Zustand aus"),
    ("boardctl state restore", "Holt einen früheren Zustand zurück; der jetzige bleibt daneben liegen"),
    (
        "boardctl state restore.force",
        "Auch wenn der jetzige Zustand lesbar ist; was seit dem Schnappschuss geschah, wird aufgegeben",
    ),
    ("boardctl state restore.snapshot", "Name des Schnappschusses; sonst der neueste lesbare"),
    ("boardctl doctor", "Prüft die ganze Installation; zu jedem Fund, was zu tun ist"),
    ("boardctl doctor auth", "Schickt dem Board gefälschte Anfragen; jede muss abgelehnt werden"),
    (
        "boardctl drop-ins",
        "Was die Units von diesem Rechner wissen müssen: wo das Checkout ist und wer was damit darf",
    ),
    ("boardctl drop-ins.install", "Unter /etc/systemd/system schreiben"),
    (
        "boardctl sweep",
        "Sieht nach der Warteschlange, wie es der Timer tut: gescheiterte Units, was zu lange wartet, was alt ist",
    ),
    ("boardctl alarm", "Schlägt Alarm für eine gescheiterte Unit, wie es systemd tut"),
    ("boardctl alarm.unit", "Die Unit"),
    (
        "boardctl end-runs",
        "Beendet alle Läufe, wenn das Target nicht wieder startet, wie es systemd beim Anhalten tut",
    ),
    ("boardctl check-config", "Prüft die Konfigurationsdatei: alles, was falsch ist, auf einmal"),
    (
        "boardctl check-config.elsewhere",
        "Die Datei ist für einen anderen Rechner: ihre Verzeichnisse müssen nicht da sein",
    ),
    (
        "boardctl check-job",
        "Prüft eine Auftragsdatei oder eine zum Ablegen: alles, was falsch ist, auf einmal",
    ),
    ("boardctl check-job.file", "Die Datei"),
    ("boardctl schema", "Die JSON-Schemas aller Dateien oder die Übergänge als Seite"),
    ("boardctl schema.out", "Je Schema eine Datei in dieses Verzeichnis schreiben"),
    ("boardctl schema.phases", "Stattdessen die Seite der Phasen und Übergänge (docs/phases.md)"),
];

/// Arguments that several commands on a card have.
const OF_EVENTS: &[(&str, &str)] = &[
    ("reason", "Warum, wo es begründet sein muss"),
    ("note", "Ein Hinweis an den nächsten Builder"),
    ("from", "Wo ein Build beginnt: beim neuesten Prüfcommit oder neu vom Branch"),
    ("confirm", "Die Synthese ist gelesen"),
];

const EXIT_CODES: &str = "Exit-Codes: 0 erledigt; 1 fehlgeschlagen, oder etwas wurde gefunden; \
    2 falscher Aufruf; 3 Board nicht erreichbar; 4 vom Board abgelehnt";

const TEMPLATE: &str = "{about-with-newline}\nAufruf: {usage}\n\n{all-args}{after-help}";

fn text(key: &str) -> Option<&'static str> {
    TEXTS.iter().chain(OF_EVENTS).find(|(known, _)| *known == key).map(|(_, text)| *text)
}

/// The same command line with German help.
pub(super) fn translate(command: Command) -> Command {
    // Only a built command holds the arguments that clap adds by itself.
    translate_below(command.after_help(format!("\n{EXIT_CODES}")), "boardctl")
}

fn translate_below(command: Command, path: &str) -> Command {
    let path_of = |name: &str| format!("{path} {name}");
    let has_version = command.get_version().is_some();
    let mut command = command
        .help_template(TEMPLATE)
        .subcommand_help_heading("Befehle")
        .subcommand_value_name("BEFEHL")
        .disable_help_flag(true)
        .mut_args(|argument| {
            let own = format!("{path}.{}", argument.get_id());
            let global = format!("boardctl.{}", argument.get_id());
            let heading = if argument.is_positional() { "Argumente" } else { "Optionen" };
            let argument = argument.help_heading(heading);
            match text(&own).or_else(|| text(&global)).or_else(|| text(argument.get_id().as_str())) {
                Some(help) => argument.help(help),
                None => argument,
            }
        })
        .arg(
            clap::Arg::new("help")
                .short('h')
                .long("help")
                .action(clap::ArgAction::Help)
                .help_heading("Optionen")
                .help(text("boardctl.help")),
        );
    if has_version {
        command = command.disable_version_flag(true).arg(
            clap::Arg::new("version")
                .short('V')
                .long("version")
                .action(clap::ArgAction::Version)
                .help_heading("Optionen")
                .help(text("boardctl.version")),
        );
    }
    if let Some(about) = text(path) {
        command = command.about(about);
    }
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(&name, |sub| translate_below(sub, &path_of(&name)));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn keys(command: &Command, path: &str, found: &mut Vec<String>) {
        if command.is_hide_set() {
            return;
        }
        found.push(path.to_owned());
        let shared = |id: &str| OF_EVENTS.iter().any(|(name, _)| *name == id);
        found.extend(command.get_arguments().map(|argument| argument.get_id().as_str()).filter_map(|id| {
            let own = format!("{path}.{id}");
            (text(&own).is_some() || !shared(id)).then_some(own)
        }));
        for sub in command.get_subcommands() {
            keys(sub, &format!("{path} {}", sub.get_name()), found);
        }
    }

    #[test]
    fn every_text_of_the_help_is_there_in_german_and_none_is_left_over() {
        let mut found = vec!["boardctl.help".to_owned(), "boardctl.version".to_owned()];
        keys(&super::super::Cli::command(), "boardctl", &mut found);
        found.sort();
        let mut known: Vec<String> = TEXTS.iter().map(|(key, _)| (*key).to_owned()).collect();
        known.sort();
        assert_eq!(found, known);
    }
}

//! The sentences of `boardctl`, German and English side by side.
//!
//! One place, so that a sentence cannot be there in one language alone. Values go in by name.
use board_core::edge::settings::Language;

macro_rules! words {
    ($($name:ident($($argument:ident),*): $de:literal, $en:literal;)*) => {
        $(
            pub(crate) fn $name(language: Language $(, $argument: &str)*) -> String {
                match language {
                    Language::De => format!($de),
                    Language::En => format!($en),
                }
            }
        )*
    };
}

words! {
    failed(why): "boardctl: {why}", "boardctl: {why}";

    // check-config, check-job, schema
    config_good(file, runtimes, profiles):
        "{file}: in Ordnung ({runtimes} Runtimes, {profiles} Profile)",
        "{file}: good ({runtimes} runtimes, {profiles} profiles)";
    faults(count): "{count} Fehler", "{count} faults";
    whole_job(kind): "ein Auftrag ({kind})", "a job ({kind})";
    drop_form(): "eine Datei zum Ablegen", "a file to be dropped";
    unknown_form(): "kein Auftrag", "no job";
    job_good(file, what): "{file}: in Ordnung, {what}", "{file}: good, {what}";
    job_bad(file, what, count): "{file}: {what}, {count} Fehler", "{file}: {what}, {count} faults";
    misnamed(name):
        "In einem Eingang müsste die Datei {name} heißen.",
        "In an inbox the file would have to be called {name}.";
    drop_hint(types):
        "Abgelegt werden können {types}; nötig sind type und card_id, möglich profile und iteration_limit.",
        "What can be dropped: {types}; type and card_id are required, profile and iteration_limit optional.";
    schemas_written(count, dir): "{count} Schemas in {dir} geschrieben", "{count} schemas written to {dir}";

    // prompt
    no_such_card(card):
        "Eine Karte {card} gibt es nicht; boardctl list zeigt alle",
        "There is no card {card}; boardctl list shows all of them";
    no_such_prompt(card, role, why):
        "Zu {card} gibt es für {role} nichts zu tun: {why}",
        "There is nothing for the {role} to do on {card}: {why}";
    no_round(): "der Entwurf hat noch keine Runde", "the draft has no round yet";

    // login
    no_such_runtime(name, known):
        "Eine Runtime {name} ist nicht konfiguriert; es gibt: {known}",
        "There is no runtime {name} in the configuration; there are: {known}";
    login_not_yours(dir, name):
        "{dir} gehört einem anderen Benutzer; als root meldet `sudo boardctl login {name}` in dessen Namen an",
        "{dir} is another user's; as root, `sudo boardctl login {name}` logs in on their behalf";
    login_failed(line, status): "{line} ist gescheitert ({status})", "{line} failed ({status})";
    login_left_nothing(line, file):
        "{line} ist zu Ende, aber in {file} steht keine Anmeldung; noch einmal, ohne abzubrechen?",
        "{line} has ended, but {file} holds no login; once more, without breaking off?";
    logged_in(name, place): "{name} ist angemeldet: {place}", "{name} is logged in: {place}";

    // doctor, drop-ins
    doctor_end(good, warn, bad): "{good} in Ordnung, {warn} Hinweise, {bad} Fehler", "{good} good, {warn} warnings, {bad} failures";
    drop_ins_installed():
        "Die Units kennen diesen Rechner. Was läuft, erfährt es durch: systemctl try-restart board-agent-trigger.service board-agent-watcher.service",
        "The units know this host. What runs is told by: systemctl try-restart board-agent-trigger.service board-agent-watcher.service";

    // sweep, alarm
    sweep_not_yours(dir):
        "{dir} gehört einem anderen Benutzer; `systemctl start board-agent-sweep` räumt als der richtige auf",
        "{dir} is another user's; `systemctl start board-agent-sweep` sweeps as the right one";
    sweep_nothing(): "Nichts zu tun.", "Nothing to do.";
    sweep_failed(count): "{count} Teile sind nicht gelungen; was, steht darüber", "{count} parts failed; see above";
    recreated(dir):
        "{dir} war weg und ist neu angelegt; was darin lag, ist verloren gegangen oder liegt anderswo",
        "{dir} was gone and is made again; what lay in it is lost or lies elsewhere";
    backlog(lane, age):
        "Spur {lane}: ein Auftrag wartet seit {age} s, obwohl ein Platz frei ist; startet der Worker nicht?",
        "lane {lane}: a job has waited for {age} s although a slot is free; does its worker not start?";
    alarm_over(name): "Alarm {name}: die Ursache ist weg", "alarm {name}: its cause is gone";
    old_files(count): "{count} alte Dateien entfernt", "{count} old files removed";
    worktree_over(card):
        "{card}: lange deployt; der Watcher entfernt den Worktree, der Branch bleibt",
        "{card}: deployed long ago; the watcher removes its worktree, the branch stays";
    stray_removed(path): "{path}: Rest eines Worktrees entfernt", "{path}: left over from a worktree, removed";
    saved_removed(name): "{name}: gesicherte Arbeit, die abgelaufen ist, entfernt", "{name}: saved work that is past its time, removed";
    disk_short(mib): "nur noch {mib} MiB frei; neue Builds warten", "only {mib} MiB left; new builds wait";
    unit_revived(unit): "{unit} war gescheitert und läuft wieder", "{unit} had failed and runs again";
    worker_started(unit, age):
        "{unit} gestartet: ein Auftrag wartete seit {age} s",
        "{unit} started: a job had waited for {age} s";
    unit_masked(unit, age):
        "{unit} ist maskiert, und ein Auftrag wartet seit {age} s: systemctl unmask {unit}",
        "{unit} is masked, and a job has waited for {age} s: systemctl unmask {unit}";
    unit_failed(unit):
        "{unit} ist gescheitert; mehr sagt: systemctl status {unit}",
        "{unit} failed; more by: systemctl status {unit}";
    unit_failed_because(unit, result):
        "{unit} ist gescheitert ({result}); mehr sagt: systemctl status {unit}",
        "{unit} failed ({result}); more by: systemctl status {unit}";

    state_readable(now, then):
        "Der Zustand ist lesbar (Generation {now}); es gibt nichts zurückzuholen. Der neueste Schnappschuss hat \
         Generation {then}: --force holt ihn trotzdem zurück und gibt auf, was seither geschah.",
        "The state can be read (generation {now}); there is nothing to bring back. The newest snapshot has generation \
         {then}: --force brings it back all the same and gives up what happened since.";

    // the control socket
    not_running(path):
        "Unter {path} antwortet kein Board. Läuft es? `boardctl dev --config …` startet eines im Vordergrund; \
         ein anderes nennt --config oder --socket.",
        "No board answers at {path}. Is it running? `boardctl dev --config …` starts one in the foreground; \
         --config or --socket names another.";
    no_way_in(path):
        "Für {path} fehlt das Recht. Wer das Board bedienen darf, ist in der Gruppe board-agent.",
        "No permission for {path}. Whoever may operate the board is in the group board-agent.";
    no_answer(path, why):
        "Das Board unter {path} antwortet nicht ({why}). Mehr sagt `boardctl queue` oder das Journal.",
        "The board at {path} does not answer ({why}). `boardctl queue` or the journal tells more.";
    refused(status): "Das Board hat abgelehnt (HTTP {status}).", "The board refused (HTTP {status}).";
    possible(events): "; möglich: {events}", "; possible: {events}";

    // list, start
    no_cards(): "Noch keine Karten.", "No cards yet.";
    iterations(used, limit): "{used} von {limit} Iterationen", "{used} of {limit} iterations";
    started(card, job): "{card}: gestartet, Auftrag {job}", "{card}: started, job {job}";
    with_job(job): ", Auftrag {job}", ", job {job}";
    stopping(): ", der Lauf wird beendet", ", the run is being ended";
    deleted(card): "{card}: gelöscht; 24 Stunden lang holt restore die Karte zurück",
        "{card}: deleted; restore brings the card back for 24 hours";
    adopted(count): "{count} Karten weggeräumt; jede lässt sich einzeln zurückholen.", "{count} cards put away; each can be brought back by itself.";
    would_adopt(count): "{count} Karten wären es; geändert ist nichts.", "{count} cards it would be; nothing is changed.";
    more_to_adopt(count): "{count} sind übrig; derselbe Aufruf nimmt die nächsten.", "{count} are left; the same call takes the next.";
    paused(): "Angehalten; was läuft, läuft zu Ende. Weiter geht es mit resume-lanes.",
        "Paused; what runs goes on. resume-lanes lets it continue.";
    goes_on(): "Es geht weiter.", "It goes on.";

    // dev
    taken(dir, holder):
        "Auf {dir} läuft schon ein Board ({holder}). Beende es, oder nenne ein anderes state_dir.",
        "A board runs on {dir} already ({holder}). End it, or name another state_dir.";
    ending(): "wird beendet …", "ending …";
    starts_again(name, how):
        "{name} hat unerwartet geendet ({how}); startet in 1 s neu",
        "{name} ended unexpectedly ({how}); starts again in 1 s";
    worker_failed(slot, how):
        "Worker {slot} ist gescheitert ({how}); neuer Versuch in 1 s",
        "worker {slot} failed ({how}); tries again in 1 s";

    // demo
    no_sandbox(why):
        "Ohne Sandbox: bubblewrap startet hier nicht ({why}). Das Drehbuch ist harmlos; ein echter Agent wäre es nicht.",
        "No sandbox: bubblewrap does not start here ({why}). The script is harmless; a real agent would not be.";
    demo_title():
        "Werkstatt-Tagebuch: ein Wegwerf-Repository mit drei Intents, einer Frage und einem Agenten nach Drehbuch",
        "Werkstatt-Tagebuch: a throw-away repository with three intents, a question and a scripted agent";
    address(): "Board", "Board";
    directory(): "Verzeichnis", "Directory";
    log_file(): "Protokoll", "Log";
    demo_first():
        "  Zuerst   Adresse öffnen, die Karte „Monatssumme der Arbeitszeit je Gerät“ öffnen, „Starten“ klicken, zusehen.\n  \
         Danach   „CSV-Export“ starten: der Review schickt ihn beim ersten Mal mit Befunden zurück.",
        "  First    open the address, open the card “Monatssumme der Arbeitszeit je Gerät”, click “Start”, and watch.\n  \
         Then     start “CSV-Export”: the review sends it back with findings the first time.";
    demo_then(config):
        "  Terminal boardctl --config {config} list\n  Ende     Strg-C",
        "  Terminal boardctl --config {config} list\n  End      Ctrl-C";
    tour_title():
        "Vom Thema zur Synthese: ein Jahresbericht für die Werkstatt, von einem Agenten nach Drehbuch",
        "From a topic to a synthesis: a yearly report for the workshop, by a scripted agent";
    tour_first():
        "  Zuerst   Adresse öffnen und neben dieses Fenster legen. Hier steht, was geschieht; die Knöpfe dafür sind im Board.",
        "  First    open the address beside this window. Here it says what happens; the buttons for it are on the board.";
    tour_enter(): "[Enter] weiter", "[Enter] goes on";
    tour_look(address): "→ {address}", "→ {address}";
    tour_intake(topic):
        "Ein Thema wird ein Intent\nDas Thema „{topic}“ geht an den Planner („+ Karte (interaktiv)“). Er fragt, bis er genug weiß.",
        "A topic becomes an intent\nThe topic “{topic}” goes to the planner (“+ Card (interactive)”). It asks until it knows enough.";
    tour_asks(question): "Planner: {question}", "Planner: {question}";
    tour_answers(answer): "Antwort: {answer}", "Answer: {answer}";
    tour_intent(id):
        "Der Intent {id} ist geschrieben und steht in „Geplant“. Nichts startet von selbst.",
        "The intent {id} is written and stands in “Planned”. Nothing starts by itself.";
    tour_split():
        "Der Intent wird aufgeteilt\nDer Planner liest das Repository und schlägt Teile vor; das Board schreibt alle oder keinen.",
        "The intent is split\nThe planner reads the repository and proposes parts; the board writes all of them or none.";
    tour_work():
        "Alle Teile zugleich\nBuilder in eigenen Worktrees, daneben die Recherche; jeder Commit bekommt von selbst einen Review.\n\
         Ein Teil wird scheitern: auch davon berichtet nachher die Synthese.",
        "All parts at once\nBuilders in worktrees of their own, the research beside them; each commit gets a review by itself.\n\
         One part will fail: the synthesis tells of that as well.";
    tour_synthesis(id):
        "Die Synthese\nDas letzte Kind ist zu Ende, und das Board hat {id} geschrieben, ohne ein Modell.",
        "The synthesis\nThe last child has ended, and the board wrote {id}, without a model.";
    tour_unread(said): "Ungelesen startet sie nicht. Das Board sagt: {said}", "Unread it does not start. The board says: {said}";
    tour_was_read():
        "die Synthese sollte ungelesen sein; jemand war schneller als die Tour",
        "the synthesis should be unread; somebody was faster than the tour";
    tour_build():
        "Gelesen, gestartet, gebaut\nDie Synthese ist ein Intent wie jeder andere: gelesen, gestartet, gebaut, geprüft.",
        "Read, started, built\nThe synthesis is an intent like any other: read, started, built, reviewed.";
    tour_done(commits):
        "Der Kreislauf ist durchlaufen, in {commits} Commits des Boards. Nichts wurde gepusht oder gemergt.",
        "The cycle is complete, in {commits} commits of the board. Nothing was pushed or merged.";
    tour_stays():
        "Das Board läuft weiter, mit allem, was entstanden ist. Ende: Strg-C",
        "The board goes on with all that was made. End: Ctrl-C";
    tour_ends(why):
        "Die Tour endet hier: {why}. Das Board läuft weiter; Ende: Strg-C",
        "The tour ends here: {why}. The board goes on; end: Ctrl-C";
    tour_elsewhere(card, phase, why):
        "{card} steht in „{phase}“: {why}",
        "{card} stands in “{phase}”: {why}";
    tour_too_slow(step, seconds):
        "Schritt {step} ist nach {seconds} s nicht fertig",
        "step {step} is not done after {seconds} s";
    log_says(path): "Zuletzt in {path}:", "Last lines of {path}:";
    not_empty(dir):
        "{dir} ist nicht leer; die Demo braucht ein neues oder leeres Verzeichnis",
        "{dir} is not empty; the demo needs a new or empty directory";
    demo_runs(dir): "in {dir} läuft schon eine Demo", "a demo runs in {dir} already";
    once_title(card):
        "Die Karte {card} von Geplant bis Bereit für Deployment",
        "The card {card} from planned to ready for deployment";
    went_elsewhere(phase, why):
        "die Karte steht in „{phase}“ statt in „Bereit für Deployment“: {why}",
        "the card stands in “{phase}” and not in “Ready for deployment”: {why}";
    too_slow(seconds):
        "die Karte ist nach {seconds} s nicht angekommen",
        "the card did not arrive within {seconds} s";
    not_committed(seconds):
        "die Übergänge sind nach {seconds} s nicht committet",
        "the transitions were not committed within {seconds} s";
    commits(branch): "Commits des Boards auf {branch}", "Commits of the board on {branch}";
    report(path): "Bericht {path}", "Report {path}";
    branch(name): "Prüf-Commit auf {name}", "Check commit on {name}";
    once_done(): "Bereit für Deployment. Nichts wurde gepusht oder gemergt.", "Ready for deployment. Nothing was pushed or merged.";
    look_yourself(repository, branch):
        "Selbst ansehen: git -C {repository} show {branch}",
        "Look for yourself: git -C {repository} show {branch}";

    // queue
    queue_empty(): "Die Warteschlange ist leer.", "The queue is empty.";
    unreadable(): "(nicht lesbar)", "(not readable)";
    asked_to_stop(): "soll abbrechen", "asked to stop";
    since(span): "seit {span}", "for {span}";
    somebody(): "jemand", "somebody";
    an_agent(): "ein Agent", "an agent";
    lock(name): "Sperre {name}", "lock {name}";
    dropped(name):
        "Abgelegt als {name}; der Watcher nimmt die Datei gleich auf.",
        "Dropped as {name}; the watcher takes it up at once.";
    cannot_drop(dir):
        "{dir}: nicht zu beschreiben; ablegen darf, wer in der Gruppe board-agent-drop ist",
        "{dir}: cannot be written; whoever is in the group board-agent-drop may drop files";
    only_drops():
        "Abgelegt wird die kurze Form mit type und card_id; ganze Aufträge schreibt nur das Board.",
        "What is dropped is the short form with type and card_id; whole jobs are written by the board alone.";

    // state
    state_good(generation, cards, running, waiting):
        "Zustand lesbar: Stand {generation}, {cards} Karten, {running} in Arbeit, {waiting} Übergänge noch ohne Commit",
        "State readable: generation {generation}, {cards} cards, {running} at work, {waiting} transitions not committed yet";
    snapshots(count): "Schnappschüsse: {count}, neueste zuerst", "Snapshots: {count}, newest first";
    no_snapshot():
        "Kein solcher Schnappschuss; `boardctl state check` zeigt, welche es gibt",
        "No such snapshot; `boardctl state check` shows which there are";
    restored(snapshot): "Zurückgeholt: {snapshot}", "Brought back: {snapshot}";
    kept_beside(path): "Der Zustand von vorher liegt in {path}", "The state from before is kept in {path}";
}

/// The labels of `show`, in the order of its fields.
pub(crate) fn of_a_card(language: Language) -> [&'static str; 18] {
    match language {
        Language::De => [
            "Kennung",
            "Art",
            "Profil",
            "Verbrauch",
            "Auftrag",
            "Fehler",
            "Branch",
            "Basis",
            "Prüf-Commit",
            "Ergebnis",
            "Berichte",
            "Parent",
            "Kinder",
            "wartet auf",
            "Synthese",
            "Entwurf",
            "geändert",
            "möglich",
        ],
        Language::En => [
            "id",
            "source",
            "profile",
            "used",
            "job",
            "error",
            "branch",
            "base",
            "check commit",
            "result",
            "reports",
            "parent",
            "children",
            "waits for",
            "synthesis",
            "draft",
            "changed",
            "possible",
        ],
    }
}

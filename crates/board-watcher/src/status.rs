//! The line of `systemctl status board-agent-watcher`: what runs, what waits, what is wrong.
use board_core::edge::settings::Language;
use board_core::edge::waits::Waits;
use board_core::model::board::Board;
use board_core::model::pending::QueueView;

/// Most runs that are named; the rest is counted, so that the line stays one.
const MAX_NAMED: usize = 6;

/// What the line is made of.
pub(crate) struct Found<'a> {
    /// The board.
    pub(crate) board: &'a Board,
    /// The queue.
    pub(crate) queue: &'a QueueView,
    /// What the last pass waits for.
    pub(crate) waits: &'a Waits,
    /// What went wrong in it.
    pub(crate) trouble: Option<&'a str>,
}

/// The line.
pub(crate) fn line(language: Language, found: &Found<'_>) -> String {
    let word = |de: &str, en: &str| match language {
        Language::De => de.to_owned(),
        Language::En => en.to_owned(),
    };
    let mut parts = Vec::new();
    if let Some(trouble) = found.trouble {
        parts.push(word(&format!("Störung: {trouble}"), &format!("trouble: {trouble}")));
    }
    let running = &found.queue.running;
    if running.is_empty() {
        parts.push(word("nichts läuft", "nothing runs"));
    } else {
        let names = running.iter().take(MAX_NAMED).map(|file| match &file.card_id {
            Some(card) => format!("{card} ({})", file.place),
            None => file.place.clone(),
        });
        let mut list = names.collect::<Vec<_>>().join(", ");
        if running.len() > MAX_NAMED {
            let rest = running.len() - MAX_NAMED;
            list.push_str(&word(&format!(" und {rest} weitere"), &format!(" and {rest} more")));
        }
        parts.push(word(&format!("läuft: {list}"), &format!("runs: {list}")));
    }
    let waiting = [
        (found.queue.inbox.len(), ("Auftrag", "Aufträge"), ("job", "jobs")),
        (
            found.board.cards.values().filter(|card| card.parked.is_some()).count(),
            ("Start", "Starts"),
            ("start", "starts"),
        ),
        (found.queue.outcomes.len(), ("Ergebnis", "Ergebnisse"), ("outcome", "outcomes")),
        (
            found.board.outbox.iter().filter(|entry| entry.committed.is_none()).count(),
            ("Commit", "Commits"),
            ("commit", "commits"),
        ),
    ];
    let waiting: Vec<String> = waiting
        .into_iter()
        .filter(|(count, _, _)| *count > 0)
        .map(|(count, de, en)| {
            let one = |(one, many): (&str, &str)| format!("{count} {}", if count == 1 { one } else { many });
            word(&one(de), &one(en))
        })
        .collect();
    if !waiting.is_empty() {
        let list = waiting.join(", ");
        parts.push(word(&format!("es warten {list}"), &format!("{list} waiting")));
    }
    if let Some(commit) = &found.waits.commit {
        parts.push(commit.reason.clone());
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use board_core::edge::waits::Wait;
    use board_core::model::job::{JobRef, Lane};
    use board_core::model::pending::RunningFile;
    use board_core::model::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn said(language: Language, queue: &QueueView, waits: &Waits, trouble: Option<&str>) -> String {
        line(language, &Found { board: &Board::empty(), queue, waits, trouble })
    }

    #[test]
    fn a_quiet_board_says_so() {
        let said = |language| said(language, &QueueView::default(), &Waits::default(), None);
        assert_eq!(said(Language::De), "nichts läuft");
        assert_eq!(said(Language::En), "nothing runs");
    }

    #[test]
    fn what_runs_waits_and_is_wrong_stands_in_one_line() {
        let job = JobRef { job: Uuid::nil(), attempt: 1 };
        let run = |n: usize| RunningFile {
            place: format!("build-{n}"),
            job,
            card_id: (n == 1).then(|| "foo".parse().unwrap()),
        };
        let mut queue = QueueView { running: (1..=MAX_NAMED).map(run).collect(), ..QueueView::default() };
        queue.inbox = vec![(Lane::Build, job), (Lane::Read, job)];
        queue.outcomes.insert(job);
        let wait = Wait { since: Timestamp::from_millis(0), reason: "ein Rebase läuft".into() };
        let waits = Waits { commit: Some(wait), ..Waits::default() };
        assert_eq!(
            said(Language::De, &queue, &waits, Some("x")),
            "Störung: x; läuft: foo (build-1), build-2, build-3, build-4, build-5, build-6; \
             es warten 2 Aufträge, 1 Ergebnis; ein Rebase läuft"
        );
        queue.running.push(run(MAX_NAMED + 1));
        assert!(
            said(Language::En, &queue, &waits, None)
                .contains("build-6 and 1 more; 2 jobs, 1 outcome waiting")
        );
    }
}

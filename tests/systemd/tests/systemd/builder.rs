//! An external builder that is another user's service, with a stand-in for it; row 44.

use board_core::model::job::{Job, Payload, parse_job};
use board_core::model::outcome::{Built, Outcome, Produced, RunResult};
use systemd_tests::board::Board;

const INBOX: &str = "/srv/builder/inbox";
const RESULTS: &str = "/srv/builder/results";

/// The board with a builder elsewhere, as docs/builder.md sets it up.
fn start() -> Board {
    let more = format!("[builder]\ninbox = \"{INBOX}\"\nresults = \"{RESULTS}\"\nuser = \"op\"\n");
    let board = Board::start();
    board.sh(&format!(
        "install -d -m 2770 -o op -g board-agent {INBOX} {RESULTS}; cat >>/etc/board-agent/config.toml <<'END'
{more}
END
         boardctl check-config; boardctl drop-ins --install; \
         systemctl disable --now board-agent-build@1.path board-agent-build@2.path; \
         systemctl restart board-agent-trigger.service board-agent-watcher.service"
    ));
    board.wait("the board's answer", || board.send("GET", "/healthz", None).ok());
    board
}

/// Claims the one job, builds it as the stand-in, and gives the result.
fn build(board: &Board, card: &str) -> (Job, Outcome) {
    let name = board.wait("a job for the builder", || {
        let names = board.sh(&format!("ls {INBOX}"));
        (!names.is_empty()).then_some(names)
    });
    let text = board.op(&format!("mv {INBOX}/{name} /tmp/{name}; cat /tmp/{name}"));
    let job = parse_job(text.as_bytes()).unwrap();
    let Payload::Builder(payload) = &job.payload else { panic!("{job:?}") };
    let (base, number) = (&payload.base_commit, payload.number);
    let commit = board.op(&format!(
        "git worktree add -q -b board/{card}/{number} /tmp/{card} {base}; cd /tmp/{card}; echo gebaut >src/{card}.txt; \
         git add src; git commit -q -m 'von nebenan'; git rev-parse HEAD"
    ));
    let mut outcome = Outcome::without_run(&job, RunResult::Succeeded, "gebaut", job.created_at);
    outcome.produced = Some(Produced::Build(Built {
        branch: format!("board/{card}/{number}"),
        base: base.clone(),
        commit,
        files_changed: 1,
        summary: "fertig".into(),
        put_back: Vec::new(),
    }));
    (job, outcome)
}

fn leave(board: &Board, outcome: &Outcome) {
    let (name, text) = (outcome.reference().outcome_file(), serde_json::to_string(outcome).unwrap());
    board.op(&format!("cat >{RESULTS}/.part <<'END'\n{text}\nEND\nchmod 640 {RESULTS}/.part; mv {RESULTS}/.part {RESULTS}/{name}"));
}

#[test]
fn row_44_a_result_of_an_external_builder_that_comes_twice_or_for_an_unknown_card_is_rejected() {
    let board = start();
    board.intents(&["ok-eins"]);
    board.build("ok-eins");
    let (_, outcome) = build(&board, "ok-eins");
    leave(&board, &outcome);
    board.wait_phase("ok-eins", &["bereit_fuer_deployment"]);
    assert_eq!(board.runs(), 1, "only the review ran here");
    // Twice.
    leave(&board, &outcome);
    let name = outcome.reference().outcome_file();
    assert!(board.wait_rejected(&name).contains("has an outcome already"));
    // For a card that nobody knows.
    let mut unknown = outcome;
    unknown.job_id = uuid::Uuid::new_v4();
    unknown.card_id = "nirgends".parse().unwrap();
    leave(&board, &unknown);
    assert!(board.wait_rejected(&unknown.reference().outcome_file()).contains("no such card"));
    assert_eq!(board.sh(&format!("ls -A {RESULTS} {INBOX} | grep json || true")), "");
    assert_eq!(board.phase("ok-eins"), "bereit_fuer_deployment");
}

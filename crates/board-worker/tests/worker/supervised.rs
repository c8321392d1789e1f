//! The supervisor: what it counts, how it ends a run, and that nothing of the run is left.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use board_core::model::redact::Redactor;
use board_worker::limits::{MAX_LINE_BYTES, MAX_OUTPUT_BYTES, OwnReason, RunLimits};
use board_worker::log::{MAX_LOG_BYTES, RunLog};
use board_worker::runtimes::codex::Codex;
use board_worker::runtimes::command::Text;
use board_worker::runtimes::{Adapter, Reading};
use board_worker::sandbox::{Bind, HostRoot, Mode, Network, SandboxPlan};
use board_worker::stop::{Stop, stop};
use board_worker::supervise::{Ended, Progress, Run, supervise};

use crate::{alone, bubblewrap};

/// One run in a directory of its own.
pub(crate) struct Trial {
    directory: tempfile::TempDir,
    pub(crate) limits: RunLimits,
    mode: Mode,
    prompt: Vec<u8>,
    /// Another plan than the usual one.
    pub(crate) given: Option<SandboxPlan>,
    /// What stands before the command line.
    prefix: Vec<OsString>,
    /// Largest log, bytes.
    pub(crate) log_bytes: u64,
}

pub(crate) struct Seen {
    pub(crate) ended: Ended,
    pub(crate) reading: Reading,
    pub(crate) log: String,
    progress: Vec<Progress>,
    /// By how much the memory of this process grew while the agent ran, bytes.
    pub(crate) grown: u64,
}

impl Trial {
    pub(crate) fn new(mode: Mode) -> Trial {
        let directory = tempfile::tempdir().unwrap();
        for name in ["home", "work"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        std::fs::write(directory.path().join("lock"), "").unwrap();
        let limits = RunLimits {
            iterations: 20,
            wall: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            output_bytes: MAX_OUTPUT_BYTES,
            line_bytes: MAX_LINE_BYTES,
            tokens: None,
        };
        Trial {
            directory,
            limits,
            mode,
            prompt: b"do it\n".to_vec(),
            given: None,
            prefix: Vec::new(),
            log_bytes: MAX_LOG_BYTES,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs as nobody, where the test runs as root; everything of the trial is nobody's then.
    pub(crate) fn unprivileged(&mut self) {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let given =
            Command::new("chown").args(["-R", "65534:65534"]).arg(self.directory.path()).status().unwrap();
        assert!(given.success());
        let words = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        self.prefix = words.map(OsString::from).into();
    }

    pub(crate) fn plan(&self) -> SandboxPlan {
        SandboxPlan {
            mode: self.mode.clone(),
            network: Network::None,
            host: HostRoot::read(),
            read: Vec::new(),
            home: self.path("home"),
            write: vec![Bind::same(self.path("work"))],
            view: Vec::new(),
            directory: self.path("work"),
            lock_file: Some(self.path("lock")),
        }
    }

    pub(crate) fn run(&self, adapter: &mut dyn Adapter, script: &str) -> Seen {
        self.run_while(adapter, script, |_, _| ())
    }

    fn run_while(
        &self,
        adapter: &mut dyn Adapter,
        script: &str,
        mut during: impl FnMut(&Stop, &Progress),
    ) -> Seen {
        let (wish, watch) = stop().unwrap();
        let argv: Vec<OsString> = vec!["/bin/sh".into(), "-c".into(), script.into()];
        let plan = self.given.clone().unwrap_or_else(|| self.plan());
        let mut line = self.prefix.clone();
        line.extend(plan.command_line(&argv));
        let argv = line;
        let run = Run {
            argv: &argv,
            env: &[("PATH".into(), "/usr/bin:/bin".into())],
            directory: &plan.directory,
            sandboxed: self.mode != Mode::None,
            prompt: &self.prompt,
            limits: self.limits.clone(),
        };
        let mut log = RunLog::open(&self.path("log"), Redactor::new(["top-secret"]), self.log_bytes).unwrap();
        let mut progress = Vec::new();
        let before = resident_from_now_on();
        let ended = supervise(&run, adapter, &mut log, &watch, &mut |now| {
            progress.push(now.clone());
            during(&wish, now);
            None
        })
        .unwrap();
        log.finish().unwrap();
        let grown = memory("VmHWM").saturating_sub(before);
        let reading = adapter.reading(ended.exit);
        Seen { grown, reading, log: std::fs::read_to_string(self.path("log")).unwrap(), ended, progress }
    }
}

/// A line of this process's status that is given in kB, in bytes.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{field}:"))).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Resident memory now, bytes; its peak is counted anew from here.
fn resident_from_now_on() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    memory("VmRSS")
}

pub(crate) fn both(test: impl Fn(Mode)) {
    let _alone = alone();
    test(Mode::None);
    if let Some(mode) = bubblewrap() {
        test(mode);
    }
}

/// Whether a process with this text in its command line is there.
pub(crate) fn is_running(text: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
}

#[test]
fn an_agent_gets_its_prompt_and_what_it_prints_is_logged_and_read() {
    both(|mode| {
        let trial = Trial::new(mode);
        let seen = trial.run(&mut Text::default(), "cat; echo top-secret >&2; echo made > file; exit 3");
        assert_eq!(seen.ended.exit.code, Some(3));
        assert_eq!(seen.reading.final_message.as_deref(), Some("do it\n"));
        assert_eq!(seen.ended.last_stderr, "[entfernt]");
        assert!(seen.log.contains("\"s\":\"in\",\"l\":\"do it\""), "{}", seen.log);
        assert!(seen.log.contains("\"s\":\"err\",\"l\":\"[entfernt]\""), "{}", seen.log);
        assert_eq!(std::fs::read_to_string(trial.path("work/file")).unwrap(), "made\n");
        assert!(seen.ended.peak_memory_bytes > 0);
    });
}

#[test]
fn a_prompt_larger_than_a_pipe_is_written_whole_also_to_an_agent_that_reads_late() {
    both(|mode| {
        let mut trial = Trial::new(mode);
        trial.prompt = "0123456789abcde\n".repeat(64 << 10).into_bytes();
        let seen = trial.run(&mut Text::default(), "echo first; wc -c");
        assert_eq!(seen.reading.final_message.unwrap().trim_start_matches("first\n").trim(), "1048576");
    });
}

#[test]
fn an_agent_that_reads_no_prompt_is_no_failure() {
    both(|mode| {
        let mut trial = Trial::new(mode);
        trial.prompt = vec![b'x'; 1 << 20];
        let seen = trial.run(&mut Text::default(), "exec <&-; echo done");
        assert_eq!((seen.ended.exit.code, seen.ended.own), (Some(0), None));
    });
}

#[test]
fn the_run_is_ended_on_the_event_after_the_last_allowed_one() {
    both(|mode| {
        let mut trial = Trial::new(mode);
        trial.limits.iterations = 3;
        let script = r#"i=0; while [ $i -lt 50 ]; do i=$((i+1));
            echo '{"type":"item.completed","item":{"id":"x","type":"command_execution","command":"ls"}}'; done; sleep 600"#;
        let seen = trial.run(&mut Codex::default(), script);
        assert_eq!(seen.ended.own, Some(OwnReason::Iterations(3)));
        assert_eq!(seen.ended.progress.iterations, 3);
        assert_eq!(seen.progress.last().unwrap().activity, "$ ls");
    });
}

#[test]
fn silence_and_time_end_a_run_with_their_own_reasons() {
    both(|mode| {
        let mut trial = Trial::new(mode.clone());
        trial.limits.idle = Duration::from_millis(200);
        let seen = trial.run(&mut Text::default(), "echo begun; sleep 600");
        assert_eq!(seen.ended.own, Some(OwnReason::Idle(Duration::from_millis(200))));
        let mut trial = Trial::new(mode);
        trial.limits.wall = Duration::from_millis(300);
        let seen = trial.run(&mut Text::default(), "while :; do echo x; sleep 0.05; done");
        assert_eq!(seen.ended.own, Some(OwnReason::WallTime(Duration::from_millis(300))));
    });
}

#[test]
fn more_output_than_allowed_ends_a_run_and_a_long_line_does_not() {
    both(|mode| {
        let mut trial = Trial::new(mode);
        trial.limits.line_bytes = 1000;
        trial.limits.output_bytes = 100_000;
        let seen = trial.run(&mut Text::default(), "head -c 5000 /dev/zero | tr '\\0' x; echo; echo end");
        assert_eq!((seen.ended.own, seen.ended.cut_lines), (None, 1));
        assert!(seen.log.contains("4000 bytes of it are not kept"));
        let seen = trial
            .run(&mut Text::default(), "while :; do echo 0123456789012345678901234567890123456789; done");
        assert_eq!(seen.ended.own, Some(OwnReason::Output(100_000)));
    });
}

#[test]
fn an_agent_is_asked_to_end_and_killed_if_it_does_not() {
    both(|mode| {
        let trial = Trial::new(mode);
        let polite = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
        let seen = trial.run_while(&mut Text::default(), polite, |wish, progress| {
            if progress.activity == "ready" {
                wish.cancel();
            }
        });
        assert_eq!(seen.ended.own, Some(OwnReason::Cancelled));
        assert_eq!(seen.reading.final_message.as_deref(), Some("ready\nbye\n"));
        let deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
        let seen = trial.run_while(&mut Text::default(), deaf, |wish, progress| {
            if progress.activity == "ready" {
                wish.stop();
            }
        });
        assert_eq!(seen.ended.own, Some(OwnReason::Stopped));
    });
}

#[test]
fn a_process_that_left_the_group_and_its_parent_is_gone_when_the_run_is_over() {
    both(|mode| {
        let trial = Trial::new(mode);
        let mark = format!("600.{}", std::process::id());
        let script = format!("setsid sh -c 'sleep {mark} & sleep {mark} &' ; sleep 0.1; echo over");
        let seen = trial.run(&mut Text::default(), &script);
        assert_eq!(seen.reading.final_message.as_deref(), Some("over\n"));
        assert!(!is_running(&mark));
    });
}

#[test]
fn a_hundred_and_fifty_thousand_lines_are_all_logged() {
    let _alone = alone();
    let trial = Trial::new(Mode::None);
    let seen = trial.run(&mut Text::default(), "seq 1 150000");
    assert!(seen.grown < 8 << 20, "{} KiB", seen.grown >> 10);
    assert_eq!(seen.log.lines().filter(|line| line.contains("\"s\":\"out\"")).count(), 150_000);
}

#[test]
fn a_program_that_is_missing_is_not_started() {
    let _alone = alone();
    let trial = Trial::new(Mode::None);
    let (_, watch) = stop().unwrap();
    let run = Run {
        argv: &["/nowhere/agent".into()],
        env: &[],
        directory: &trial.path("work"),
        sandboxed: false,
        prompt: b"",
        limits: trial.limits.clone(),
    };
    let mut log = RunLog::open(&trial.path("log"), Redactor::default(), MAX_LOG_BYTES).unwrap();
    let error = supervise(&run, &mut Text::default(), &mut log, &watch, &mut |_| None).unwrap_err();
    assert!(error.to_string().starts_with("cannot be started"), "{error}");
}

#[test]
fn inside_the_sandbox_the_host_is_not_seen_and_only_the_work_is_written() {
    let _alone = alone();
    let Some(mode) = bubblewrap() else { return };
    let trial = Trial::new(mode);
    let script = r#"
        [ -e /etc/shadow ] && echo shadow
        [ -e ~root/.profile ] && echo root
        [ -e /var/lib ] && echo var
        touch /usr/x 2>/dev/null && echo usr
        touch ../lock 2>/dev/null && [ -s ../lock ] && echo lock
        touch mine && touch "$HOME/x" 2>/dev/null
        touch /home/agent/x && echo home
        [ "$(ls /proc | grep -c '^[0-9]')" -lt 10 ] && echo few
        env | cut -d= -f1 | sort | tr '\n' ' '"#;
    let seen = trial.run(&mut Text::default(), script);
    assert_eq!(seen.reading.final_message.as_deref().unwrap().trim(), "home\nfew\nPATH PWD");
    assert!(trial.path("work/mine").exists() && trial.path("home/x").exists());
}

/// What the supervisor's memory may grow by, whatever is printed: the longest line that it keeps, as it came, as text
/// and as the log spells it, each byte as six at worst.
const MOST_MEMORY: u64 = 48 << 20;

#[test]
fn of_one_line_of_a_hundred_megabytes_the_beginning_is_kept_and_the_rest_counted() {
    let _alone = alone();
    let seen = Trial::new(Mode::None)
        .run(&mut Text::default(), "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end");
    assert_eq!((seen.ended.own, seen.ended.cut_lines, seen.ended.stdout_bytes), (None, 1, 100_000_005));
    let message = seen.reading.final_message.unwrap();
    assert!(message.ends_with("end\n") && seen.reading.cut && message.len() <= 1 << 20);
    let kept = MAX_LINE_BYTES;
    assert!(seen.log.contains(&format!("{} bytes of it are not kept", 100_000_000 - kept)));
    assert!((kept..kept + 4096).contains(&seen.log.len()), "{}", seen.log.len());
    assert!(seen.grown < MOST_MEMORY, "{} KiB", seen.grown >> 10);
}

#[test]
fn garbage_fills_the_log_no_further_than_it_may_and_what_follows_it_is_still_read() {
    let _alone = alone();
    let mut trial = Trial::new(Mode::None);
    trial.log_bytes = 4 << 20;
    let script = r#"head -c 20000000 /dev/urandom; head -c 6000000 /dev/zero; printf '\377\376\n{"type":\n[]\n'
        echo '{"type":"turn.started"}'
        printf '{"type":"item.completed","item":{"type":"agent_message","text":"fertig \377."}}\n'
        echo '{"type":"turn.completed","usage":{"input_tokens":2,"output_tokens":3}}'"#;
    let seen = trial.run(&mut Codex::default(), script);
    assert_eq!((seen.ended.own, seen.ended.progress.iterations), (None, 1));
    assert_eq!(seen.reading.final_message.as_deref(), Some("fertig \u{fffd}."));
    assert_eq!(seen.reading.usage.output_tokens, Some(3));
    assert_eq!(seen.log.matches("log full").count(), 1);
    assert!((3 << 20..=(4 << 20) + 200).contains(&seen.log.len()), "{}", seen.log.len());
    assert!(seen.log.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert!(seen.grown < MOST_MEMORY, "{} KiB", seen.grown >> 10);
}

#[test]
fn the_worst_line_that_is_kept_costs_no_more_memory_than_is_said() {
    let _alone = alone();
    let seen = Trial::new(Mode::None).run(
        &mut Text::default(),
        "for at in 1 2 3 4 5 6; do head -c 5000000 /dev/zero | tr '\\0' '\\001'; echo; done; echo end",
    );
    assert_eq!(seen.ended.cut_lines, 6);
    assert!(seen.reading.final_message.unwrap().ends_with("end\n"));
    assert!(seen.grown < MOST_MEMORY, "{} KiB", seen.grown >> 10);
}

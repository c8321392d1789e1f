//! One run of an agent: runtime, sandbox, throw-away home, log and progress around the supervisor.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use board_core::edge::clock;
use board_core::edge::files::create_dirs_private;
use board_core::edge::queue::claim::Slot;
use board_core::edge::queue::recover::Progress as Shown;
use board_core::edge::secrets::Secrets;
use board_core::edge::settings::{EventsFormat, Runtime, RuntimeKind, SandboxMode, SandboxNetwork, Settings};
use board_core::model::job::Job;
use board_core::model::outcome::{OUTCOME_SCHEMA, Outcome, RunResult, Usage, cut_sentence};
use board_core::model::redact::Redactor;

use crate::credentials::Credentials;
use crate::limits::{DISK_CHECK_EVERY, MAX_LINE_BYTES, MAX_OUTPUT_BYTES, OwnReason, RunLimits};
use crate::log::{MAX_LOG_BYTES, RunLog};
use crate::runtimes::acp::Acp;
use crate::runtimes::claude::Claude;
use crate::runtimes::codex::Codex;
use crate::runtimes::command::{Spoken, Text};
use crate::runtimes::conclude::{not_startable, says_not_startable};
use crate::runtimes::gemini::Gemini;
use crate::runtimes::opencode::Opencode;
use crate::runtimes::{Adapter, Conclusion, Reading, RunSpec, conclude, retry};
use crate::sandbox::{Bind, HostRoot, Mode, Network, SandboxPlan, program_binds, resolve_program};
use crate::space;
use crate::status::{self, Status};
use crate::stop::StopWatch;
use crate::supervise::{Ended, Progress, Run, SuperviseError, supervise};
use crate::words::{Language, pick};

/// `PATH` of a run; a program elsewhere is named by its path.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin";
/// The sandbox's program.
pub(crate) const BUBBLEWRAP: &str = "bwrap";

/// What a role shows its agent.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// What it writes.
    pub(crate) write: Vec<Bind>,
    /// What it reads, above `write`.
    pub(crate) read: Vec<Bind>,
    /// Where it starts.
    pub(crate) directory: PathBuf,
    /// A directory whose size is limited during the run.
    pub(crate) measured: Option<PathBuf>,
    /// Environment beyond the common one.
    pub(crate) env: Vec<(String, String)>,
}

/// Everything that a run of this slot needs.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) slot: &'a Slot,
    pub(crate) stop: &'a StopWatch,
    pub(crate) status: &'a Status,
    /// The slot's own directory, emptied before and after a run.
    pub(crate) directory: PathBuf,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) conclusion: Conclusion,
    pub(crate) reading: Reading,
    /// The outcome so far: result, sentence, times and consumption.
    pub(crate) outcome: Outcome,
    /// Takes out what must not come out; the reading and the outcome are clean already.
    pub(crate) redactor: Redactor,
}

impl Stage<'_> {
    pub(crate) fn language(&self) -> Language {
        self.settings.board.language
    }

    fn state_dir(&self) -> &Path {
        &self.settings.board.state_dir
    }

    /// The file that the sandbox of this slot keeps locked while it lives.
    pub(crate) fn sandbox_lock(&self) -> PathBuf {
        sandbox_lock(self.state_dir(), &self.slot.name().to_string())
    }

    /// Runs the job's agent in a view with a prompt.
    ///
    /// # Errors
    /// What is ours to provide failed: directories, the log. What the agent did is in the conclusion.
    pub(crate) fn play(&self, job: &Job, view: &View, prompt: &str) -> anyhow::Result<Played> {
        let started_at = clock::now();
        let (profile, runtime) = match self.runtime(job) {
            Ok(found) => found,
            Err(sentence) => return Ok(self.refused(job, RunResult::Failed, sentence)),
        };
        let key = match self.key(runtime) {
            Ok(key) => key,
            Err(sentence) => return Ok(self.refused(job, RunResult::Unavailable, sentence)),
        };
        let home = self.directory.join("home");
        self.make_home(&home, &profile.runtime)?;
        let mut secrets = Secrets::of(self.settings).read();
        secrets.extend(key.clone());
        let files = runtime.kind.login_files();
        let credentials = Credentials::of(&home, self.state_dir(), &profile.runtime, files);
        let mut plan = SandboxPlan {
            mode: match self.settings.sandbox.mode {
                SandboxMode::None => Mode::None,
                SandboxMode::Bubblewrap => match resolve_program(BUBBLEWRAP, PATH) {
                    Ok(program) => Mode::Bubblewrap(program),
                    Err(why) => {
                        let sentence = pick(
                            self.language(),
                            format!(
                                "Ohne bubblewrap läuft kein Agent: {why}; es fehlt das Paket bubblewrap, oder sandbox.mode = \"none\" wird ausdrücklich gesetzt"
                            ),
                            format!(
                                "No agent runs without bubblewrap: {why}; install it, or say sandbox.mode = \"none\""
                            ),
                        );
                        return Ok(self.refused(job, RunResult::Unavailable, sentence));
                    }
                },
            },
            network: match self.settings.sandbox.network {
                SandboxNetwork::Host => Network::Host,
                SandboxNetwork::None => Network::None,
                SandboxNetwork::Outside => {
                    let sentence = pick(
                        self.language(),
                        "sandbox.network = \"outside\" kann diese Version noch nicht; „host“ oder „none“ einstellen",
                        "sandbox.network = \"outside\" is not there yet; choose host or none",
                    );
                    return Ok(self.refused(job, RunResult::Unavailable, sentence));
                }
            },
            host: HostRoot::read(),
            read: self.settings.sandbox.read.iter().map(Bind::same).collect(),
            home,
            write: view.write.clone(),
            view: view.read.clone(),
            directory: view.directory.clone(),
            lock_file: Some(self.sandbox_lock()),
        };
        let spec = RunSpec {
            program: runtime.program.iter().cloned().chain(runtime.argv.iter().cloned()).collect(),
            args: runtime.args.clone(),
            env: runtime.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            role: job.kind.role(),
            model: profile.model.clone(),
            effort: profile.effort.clone(),
            directory: view.directory.clone(),
            home: plan.home_seen(),
            sandboxed: plan.mode != Mode::None,
        };
        let mut adapter = adapter(runtime, &spec);
        let command = adapter.command(&spec);
        for name in &command.home_directories {
            create_dirs_private(&plan.home.join(name))?;
        }
        for (name, text) in &command.home_files {
            let path = plan.home.join(name);
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        let Some((program, arguments)) = command.argv.split_first() else {
            return Ok(self.refused(
                job,
                RunResult::Unavailable,
                not_startable(&spec, "argv", self.language()).sentence,
            ));
        };
        let program = match resolve_program(program, PATH) {
            Ok(program) => program,
            Err(why) => {
                let sentence = not_startable(&spec, &why, self.language()).sentence;
                return Ok(self.refused(job, RunResult::Unavailable, sentence));
            }
        };
        let private = [self.state_dir(), self.settings.board.repository.as_path()];
        plan.read.extend(program_binds(&program, &plan.host, &private));
        let mut argv: Vec<OsString> = vec![program.into_os_string()];
        argv.extend(arguments.iter().map(OsString::from));
        let argv = plan.command_line(&argv);
        let env = self.environment(job, view, &command.env, runtime, key, &plan);

        let log_name = format!("{}.jsonl", job.reference());
        let log_path = self.state_dir().join("logs").join(&log_name);
        let mut log = RunLog::open(&log_path, Redactor::new(&secrets), MAX_LOG_BYTES)
            .with_context(|| log_path.display().to_string())?;
        let run = Run {
            argv: &argv,
            env: &env,
            directory: if spec.sandboxed { Path::new("/") } else { &view.directory },
            sandboxed: spec.sandboxed,
            prompt: prompt.as_bytes(),
            limits: self.limits(job),
        };
        let mut watch = self.watch(job, view);
        let ended = supervise(&run, adapter.as_mut(), &mut log, self.stop, &mut watch);
        let saves = pick(self.language(), "das Ergebnis wird gesichert", "the result is being saved");
        self.status.begins(&status::of_job(job, &saves));
        let ended = match ended {
            Ok(ended) => ended,
            Err(SuperviseError::NotStarted(error)) => {
                let sentence = not_startable(&spec, &error.to_string(), self.language()).sentence;
                return Ok(self.refused(job, RunResult::Unavailable, sentence));
            }
            Err(error @ SuperviseError::Own { .. }) => return Err(error.into()),
        };
        if let Err((path, error)) = log.finish() {
            tracing::warn!("{}: {error}; the log is not whole", path.display());
        }
        if !ended.exit.was_killed() {
            secrets.extend(credentials.bring_back(&plan.home));
        }
        let redactor = Redactor::new(&secrets);
        let reading = cleaned(adapter.reading(ended.exit), &redactor);
        let mut conclusion =
            if reading.final_message.is_none() && ended.own.is_none() && says_not_startable(ended.exit) {
                not_startable(&spec, &ended.last_stderr, self.language())
            } else {
                conclude(&reading, ended.exit, ended.own.as_ref(), &ended.last_stderr, self.language())
            };
        if conclusion.result == RunResult::Unavailable && conclusion.retry_after.is_none() {
            conclusion.retry_after = self.named_wait(&reading, &conclusion.sentence);
        }
        let mut outcome = self.outcome(job, &conclusion, &ended, &reading);
        outcome.started_at = started_at;
        outcome.runtime = Some(profile.runtime.clone());
        outcome.model = reading.model.clone().or_else(|| profile.model.clone());
        outcome.log = Some(log_name);
        Ok(Played { conclusion, reading, outcome, redactor })
    }

    fn runtime(&self, job: &Job) -> Result<(&board_core::edge::settings::Profile, &Runtime), String> {
        let missing = |what: &str, name: &str| {
            pick(
                self.language(),
                format!(
                    "{what} „{name}“ ist nicht mehr konfiguriert; wähle ein anderes Profil für die Karte"
                ),
                format!("{what} {name} is no longer configured; choose another profile for the card"),
            )
        };
        let profile =
            self.settings.profiles.get(&job.profile).ok_or_else(|| missing("Profil", &job.profile))?;
        let runtime = self
            .settings
            .runtimes
            .get(&profile.runtime)
            .ok_or_else(|| missing("Runtime", &profile.runtime))?;
        Ok((profile, runtime))
    }

    /// The runtime's key, if one is configured and allowed.
    fn key(&self, runtime: &Runtime) -> Result<Option<String>, String> {
        let Some(credential) = &runtime.credential else { return Ok(None) };
        if !self.settings.sandbox.allow_api_keys {
            return Err(pick(
                self.language(),
                "Ein Schlüssel ist konfiguriert, aber sandbox.allow_api_keys ist nicht gesetzt",
                "A key is configured, but sandbox.allow_api_keys is not set",
            ));
        }
        let key = std::fs::read_to_string(&credential.file)
            .map_err(|error| format!("{}: {error}", credential.file.display()))?;
        Ok(Some(key.trim().to_owned()))
    }

    /// A throw-away home with what the runtime keeps (login, settings).
    fn make_home(&self, home: &Path, runtime: &str) -> anyhow::Result<()> {
        create_dirs_private(home)?;
        let kept = self.state_dir().join("runtimes").join(runtime);
        match copy_tree(&kept, home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.with_context(|| kept.display().to_string()),
        }
    }

    fn environment(
        &self,
        job: &Job,
        view: &View,
        of_runtime: &[(String, String)],
        runtime: &Runtime,
        key: Option<String>,
        plan: &SandboxPlan,
    ) -> Vec<(String, String)> {
        let home = plan.home_seen().to_string_lossy().into_owned();
        let mut env = vec![
            ("PATH".to_owned(), PATH.to_owned()),
            ("HOME".to_owned(), home),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("TERM".to_owned(), "dumb".to_owned()),
            // A runtime that says when it works again says it in this zone, and is read so.
            ("TZ".to_owned(), self.settings.board.timezone.clone()),
        ];
        env.extend(of_runtime.iter().cloned());
        env.extend([
            ("BOARD_JOB_ID".to_owned(), job.id.to_string()),
            ("BOARD_CARD_ID".to_owned(), job.card_id.to_string()),
            ("BOARD_JOB_TYPE".to_owned(), job.kind.id().to_owned()),
        ]);
        env.extend(view.env.iter().cloned());
        if let (Some(credential), Some(key)) = (&runtime.credential, key) {
            env.push((credential.env.clone(), key));
        }
        env
    }

    fn limits(&self, job: &Job) -> RunLimits {
        let limits = &self.settings.limits;
        RunLimits {
            iterations: job.iteration_limit,
            wall: limits.wall_time,
            idle: limits.idle_time,
            output_bytes: MAX_OUTPUT_BYTES,
            line_bytes: MAX_LINE_BYTES,
            tokens: limits.tokens_per_job,
        }
    }

    /// About once a second while the agent runs: progress for the board, status for systemd, the disk.
    fn watch<'w>(&'w self, job: &'w Job, view: &'w View) -> impl FnMut(&Progress) -> Option<OwnReason> + 'w {
        let mut measured_at = Instant::now();
        move |progress| {
            let shown = Shown {
                job: job.reference(),
                iterations: progress.iterations,
                last_activity: progress.last_activity_at,
                doing: (!progress.activity.is_empty()).then(|| progress.activity.clone()),
            };
            if let Err(error) = self.slot.write_progress(&shown) {
                tracing::debug!("{error}");
            }
            let doing =
                status::iteration(self.language(), progress.iterations, progress.limit, &progress.activity);
            self.status.turned(&status::of_job(job, &doing));
            if measured_at.elapsed() < DISK_CHECK_EVERY {
                return None;
            }
            measured_at = Instant::now();
            let worktree = view.measured.as_deref()?;
            space::check(worktree, self.settings.limits.worktree_disk, self.language())
        }
    }

    /// Seconds until the time of day that the runtime named.
    fn named_wait(&self, reading: &Reading, sentence: &str) -> Option<u32> {
        let now = clock::now().to_jiff();
        let zone = jiff::tz::TimeZone::get(&self.settings.board.timezone).unwrap_or(jiff::tz::TimeZone::UTC);
        reading
            .resets_at
            .and_then(|at| retry::until_epoch(at, now))
            .or_else(|| retry::named_time(sentence, &now.to_zoned_datetime(zone)))
    }

    fn outcome(&self, job: &Job, conclusion: &Conclusion, ended: &Ended, reading: &Reading) -> Outcome {
        Outcome {
            schema: OUTCOME_SCHEMA,
            job_id: job.id,
            attempt: job.attempt,
            card_id: job.card_id.clone(),
            kind: job.kind,
            result: conclusion.result,
            sentence: cut_sentence(conclusion.sentence.clone()),
            started_at: ended.progress.started_at,
            finished_at: ended.finished_at,
            profile: job.profile.clone(),
            runtime: None,
            model: None,
            usage: Usage { iterations: ended.progress.iterations, ..reading.usage.clone() },
            cpu_ms: ended.cpu_ms,
            peak_memory_bytes: ended.peak_memory_bytes,
            log: None,
            reply: None,
            retry_after_s: conclusion.retry_after,
            saved: None,
            produced: None,
        }
    }

    /// The end of a run that never began.
    fn refused(&self, job: &Job, result: RunResult, sentence: String) -> Played {
        let outcome = Outcome::without_run(job, result, sentence.clone(), clock::now());
        Played {
            conclusion: Conclusion { result, sentence, retry_after: None },
            reading: Reading::default(),
            outcome,
            redactor: Secrets::of(self.settings).redactor(),
        }
    }
}

/// What an agent said, without known secrets: everything that is kept of it is made of this.
fn cleaned(mut reading: Reading, redactor: &Redactor) -> Reading {
    let clean = |text: &mut String| {
        if let Cow::Owned(clean) = redactor.clean(text) {
            *text = clean;
        }
    };
    let Reading { final_message, failure, last_error, model, .. } = &mut reading;
    let failed = failure.as_mut().map(|failure| &mut failure.message);
    [final_message.as_mut(), failed, last_error.as_mut(), model.as_mut()]
        .into_iter()
        .flatten()
        .for_each(clean);
    reading
}

/// The lock file of a slot's sandbox.
pub(crate) fn sandbox_lock(state_dir: &Path, slot: &str) -> PathBuf {
    state_dir.join("locks").join(format!("sandbox-{slot}.lock"))
}

/// The reader of a runtime.
pub(crate) fn adapter(runtime: &Runtime, run: &RunSpec) -> Box<dyn Adapter> {
    match (runtime.kind, runtime.events) {
        (RuntimeKind::Command, EventsFormat::Text) => Box::new(Text::default()),
        (RuntimeKind::Command, EventsFormat::Codex) => Box::new(Spoken(Codex::default())),
        (RuntimeKind::Command, EventsFormat::Claude) => Box::new(Spoken(Claude::default())),
        (RuntimeKind::Codex, _) => Box::new(Codex::default()),
        (RuntimeKind::Claude, _) => Box::new(Claude::default()),
        (RuntimeKind::Acp, _) => Box::new(Acp::for_run(run)),
        (RuntimeKind::Opencode, _) => Box::new(Opencode::default()),
        (RuntimeKind::Gemini, _) => Box::new(Gemini::default()),
    }
}

/// Copies regular files and directories; whatever else lies there stays where it is.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            std::fs::create_dir_all(&target)?;
            copy_tree(&entry.path(), &target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

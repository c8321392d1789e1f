//! The one supervisor of all runtimes: spawns, reads, counts, limits and kills.
//!
//! One thread and one `poll` over the agent's streams, its end and the wish to stop, with the nearest
//! deadline as timeout: nothing is polled at a rate, and memory holds one line of each stream whatever is
//! printed. A second thread does nothing but wait for the agent's end; it does not reap, so a pid that we
//! signal is still the agent's.
//!
//! The process that spawns must be the one that waits, on the same thread: the sandbox dies when the
//! *thread* that made it does.

use std::ffi::OsString;
use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use board_core::edge::clock;
use board_core::model::time::Timestamp;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::limits::{CANCEL_GRACE, DISK_CHECK_EVERY, KILL_GRACE, Meter, OwnReason, RunLimits};
use crate::lines::Splitter;
use crate::log::{RunLog, Stream};
use crate::processes;
use crate::runtimes::{Adapter, Event, ExitInfo};
use crate::stop::StopWatch;
use crate::told::{Taken, Told};

/// How often [`Run::watch`] is called at most.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// How long the streams may stay open once every process of the run is gone. Only a descriptor that was
/// handed out of the sandbox could do that.
const DRAIN: Duration = Duration::from_secs(2);

const READ_BYTES: usize = 64 << 10;

/// Longest last line of stderr that is kept for the sentence, in bytes.
const LAST_STDERR_BYTES: usize = 2_000;

/// What is to be run, ready to be spawned.
#[derive(Debug)]
pub struct Run<'r> {
    /// Program and arguments, the sandbox's included.
    pub argv: &'r [OsString],
    /// The whole environment.
    pub env: &'r [(String, String)],
    /// Where the process starts; inside a sandbox its own argument counts.
    pub directory: &'r Path,
    /// Whether the first process is the sandbox's, which is not to be asked politely.
    pub sandboxed: bool,
    /// What is written to stdin.
    pub prompt: &'r [u8],
    /// What it may use.
    pub limits: RunLimits,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Iterations so far.
    pub iterations: u32,
    /// Their limit.
    pub limit: u32,
    /// When the run began.
    pub started_at: Timestamp,
    /// When the agent last said something.
    pub last_activity_at: Timestamp,
    /// What it last said that it does.
    pub activity: String,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The agent's own end.
    pub exit: ExitInfo,
    /// Our reason for it, if we had one.
    pub own: Option<OwnReason>,
    /// How far it had come.
    pub progress: Progress,
    /// When it ended.
    pub finished_at: Timestamp,
    /// CPU time of all its processes, milliseconds.
    pub cpu_ms: u64,
    /// Peak resident memory of the largest of its processes, bytes.
    pub peak_memory_bytes: u64,
    /// Lines that were longer than allowed and cut.
    pub cut_lines: u64,
    /// Bytes on stdout.
    pub stdout_bytes: u64,
    /// Its last line on stderr that is not blank, redacted.
    pub last_stderr: String,
}

/// Why a run did not come about.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// The program was not started: it is missing or may not be executed.
    #[error("cannot be started: {0}")]
    NotStarted(io::Error),
    /// Something of ours failed while it ran; every process of it has been ended.
    #[error("{what}: {error}")]
    Own {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

fn own(what: &'static str) -> impl Fn(io::Error) -> SuperviseError {
    move |error| SuperviseError::Own { what, error }
}

/// Looks at the run about once a second; a reason ends it.
pub type Watch<'w> = &'w mut dyn FnMut(&Progress) -> Option<OwnReason>;

/// Runs an agent to its end. When this returns, no process of the run is left.
///
/// # Errors
/// The agent was not started, or the system failed us; in both cases nothing of the run is left.
pub fn supervise(
    run: &Run<'_>,
    adapter: &mut dyn Adapter,
    log: &mut RunLog,
    stop: &StopWatch,
    watch: Watch<'_>,
) -> Result<Ended, SuperviseError> {
    processes::become_subreaper().map_err(own("become subreaper"))?;
    let (cpu_before, _) = children_usage();
    let ooms_before = processes::oom_kills();
    let started_at = clock::now();
    for line in run.prompt.split(|byte| *byte == b'\n') {
        log.line(started_at, Stream::In, line);
    }
    let (program, args) = run
        .argv
        .split_first()
        .ok_or_else(|| SuperviseError::NotStarted(io::Error::new(ErrorKind::InvalidInput, "no program")))?;
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(run.env.iter().map(|(name, value)| (name, value)))
        .current_dir(run.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(SuperviseError::NotStarted)?;
    let supervised = Supervisor::new(run, &mut child, adapter, log, started_at).and_then(|mut supervisor| {
        supervisor.run(&mut child, stop, watch).map(|status| (supervisor, status))
    });
    let (supervisor, status) = match supervised {
        Ok(done) => done,
        Err(error) => {
            // Whatever failed, nothing may go on working behind our back.
            let _ = child.kill();
            let _ = child.wait();
            let _ = processes::end_all();
            return Err(error);
        }
    };
    let (cpu_after, peak_memory_bytes) = children_usage();
    let out_of_memory = matches!((ooms_before, processes::oom_kills()), (Some(a), Some(b)) if b > a);
    Ok(supervisor.ended(status, out_of_memory, cpu_after.saturating_sub(cpu_before), peak_memory_bytes))
}

struct Supervisor<'s> {
    sandboxed: bool,
    adapter: &'s mut dyn Adapter,
    log: &'s mut RunLog,
    meter: Meter,
    progress: Progress,
    own: Option<OwnReason>,
    /// When the agent is asked by a signal to end, after it was told in its own words.
    term_at: Option<Instant>,
    kill_at: Option<Instant>,
    /// The agent said that it is done; what it does until it is gone is no longer judged.
    over: bool,
    /// The end of the idle limit, moved on by each sign of life.
    idle_at: Instant,
    wall_at: Instant,
    pid: Pid,
    told: Told,
    out: Pipe,
    err: Pipe,
    exit: PipeReader,
    cut_lines: u64,
    stdout_bytes: u64,
    last_stderr: String,
    news: bool,
}

/// One of the agent's streams.
struct Pipe {
    /// None once it has ended.
    fd: Option<std::fs::File>,
    splitter: Splitter,
}

impl<'s> Supervisor<'s> {
    fn new(
        run: &'s Run<'_>,
        child: &mut Child,
        adapter: &'s mut dyn Adapter,
        log: &'s mut RunLog,
        started_at: Timestamp,
    ) -> Result<Supervisor<'s>, SuperviseError> {
        let pid = Pid::from_raw(child.id().cast_signed());
        let pipe = |fd: Option<OwnedFd>| -> io::Result<Pipe> {
            if let Some(fd) = &fd {
                set_nonblocking(fd.as_fd())?;
            }
            let splitter = Splitter::new(run.limits.line_bytes);
            Ok(Pipe { fd: fd.map(std::fs::File::from), splitter })
        };
        let out = pipe(child.stdout.take().map(OwnedFd::from)).map_err(own("prepare stdout"))?;
        let err = pipe(child.stderr.take().map(OwnedFd::from)).map_err(own("prepare stderr"))?;
        let stdin = child.stdin.take();
        if let Some(stdin) = &stdin {
            set_nonblocking(stdin.as_fd()).map_err(own("prepare stdin"))?;
        }
        let exit = announce_exit(pid).map_err(own("wait for the agent"))?;
        let told = Told::new(stdin, adapter.open(run.prompt));
        let now = Instant::now();
        Ok(Supervisor {
            sandboxed: run.sandboxed,
            adapter,
            log,
            progress: Progress {
                iterations: 0,
                limit: run.limits.iterations,
                started_at,
                last_activity_at: started_at,
                activity: String::new(),
            },
            own: None,
            term_at: None,
            kill_at: None,
            over: false,
            idle_at: now + run.limits.idle,
            wall_at: now + run.limits.wall,
            meter: Meter::new(run.limits.clone()),
            pid,
            told,
            out,
            err,
            exit,
            cut_lines: 0,
            stdout_bytes: 0,
            last_stderr: String::new(),
            news: true,
        })
    }

    fn run(
        &mut self,
        child: &mut Child,
        stop: &StopWatch,
        watch: Watch<'_>,
    ) -> Result<ExitStatus, SuperviseError> {
        let mut watched_at: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if watched_at.is_none_or(|at| now >= at + if self.news { WATCH_EVERY } else { DISK_CHECK_EVERY })
            {
                watched_at = Some(now);
                self.news = false;
                processes::reap_orphans(self.pid);
                if let Some(reason) = watch(&self.progress) {
                    self.end_for(reason);
                }
            }
            let watch_in = if self.news { WATCH_EVERY } else { DISK_CHECK_EVERY };
            self.deadlines(now, stop);
            let wake_at = self.next_deadline(watched_at.unwrap_or(now) + watch_in);
            let ready = self.wait(Some(stop), wake_at).map_err(own("poll"))?;
            if ready.exit {
                break;
            }
            self.serve(ready).map_err(own("read the agent's output"))?;
        }
        let status = child.wait().map_err(own("wait for the agent"))?;
        self.told.close();
        processes::end_all().map_err(own("wait for the agent's processes"))?;
        self.drain().map_err(own("read the agent's output"))?;
        watch(&self.progress);
        self.log.flush();
        Ok(status)
    }

    /// Ends what is over its time, and kills what did not end when asked.
    fn deadlines(&mut self, now: Instant, stop: &StopWatch) {
        if self.judged() {
            let limits = self.meter.limits();
            let reason = match stop.asked() {
                Some(asked) => Some(asked),
                None if now >= self.wall_at => Some(OwnReason::WallTime(limits.wall)),
                None if now >= self.idle_at => Some(OwnReason::Idle(limits.idle)),
                None => None,
            };
            if let Some(reason) = reason {
                self.end_for(reason);
            }
        }
        if self.term_at.is_some_and(|at| now >= at) {
            self.ask_to_end();
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            processes::signal_run(Signal::SIGKILL, None);
            self.kill_at = Some(now + WATCH_EVERY);
        }
        if self.log.flush_at().is_some_and(|at| now >= at) {
            self.log.flush();
        }
    }

    fn next_deadline(&self, watch_at: Instant) -> Instant {
        let mut at = watch_at;
        if self.judged() {
            at = at.min(self.wall_at).min(self.idle_at);
        }
        [self.term_at, self.kill_at, self.log.flush_at()].into_iter().flatten().fold(at, Instant::min)
    }

    /// Whether what the agent does still counts: it is neither done nor being ended.
    fn judged(&self) -> bool {
        self.own.is_none() && !self.over
    }

    /// The first reason counts. The agent is told in its own words if it has any, else asked to end at once.
    fn end_for(&mut self, reason: OwnReason) {
        if !self.judged() {
            return;
        }
        self.log
            .note(clock::now(), &format!("ending the run: {}", reason.sentence(crate::words::Language::En)));
        self.own = Some(reason);
        let farewell = self.adapter.cancel();
        if farewell.is_empty() || !self.told.is_open() {
            return self.ask_to_end();
        }
        self.send(&farewell);
        self.term_at = Some(Instant::now() + CANCEL_GRACE);
    }

    /// The conversation is over: stdin is closed, and who does not go by himself is asked to.
    fn part(&mut self) {
        self.told.end();
        if self.own.is_some() {
            self.ask_to_end();
        } else if !self.over {
            self.over = true;
            self.term_at = Some(Instant::now() + KILL_GRACE);
        }
    }

    /// Asks by a signal; who does not end within [`KILL_GRACE`] is killed.
    fn ask_to_end(&mut self) {
        self.term_at = None;
        if self.kill_at.is_some() {
            return;
        }
        // The sandbox's own process would take everything with it at once, without the grace.
        processes::signal_run(Signal::SIGTERM, self.sandboxed.then_some(self.pid));
        self.kill_at = Some(Instant::now() + KILL_GRACE);
    }

    /// Waits for the streams and, while the agent lives (`stop`), for its end and for the wish to stop.
    fn wait(&self, stop: Option<&StopWatch>, until: Instant) -> io::Result<Ready> {
        let exit = stop.map(|_| self.exit.as_fd());
        let out = self.out.fd.as_ref().map(AsFd::as_fd);
        let err = self.err.fd.as_ref().map(AsFd::as_fd);
        let stdin = self.told.wants();
        // Once it was heard the bell, which keeps ringing, would make this loop spin.
        let bell = stop.filter(|_| self.judged()).map(StopWatch::bell);
        let wanted = [
            (exit, PollFlags::POLLIN),
            (out, PollFlags::POLLIN),
            (err, PollFlags::POLLIN),
            (stdin, PollFlags::POLLOUT),
            (bell, PollFlags::POLLIN),
        ];
        let mut set: Vec<PollFd<'_>> =
            wanted.iter().filter_map(|(fd, flags)| Some(PollFd::new((*fd)?, *flags))).collect();
        let left = until.saturating_duration_since(Instant::now());
        // Rounded up: a timeout of 0 ms before the deadline would spin.
        let millis =
            left.as_millis().saturating_add(u128::from(!left.subsec_nanos().is_multiple_of(1_000_000)));
        let timeout = i32::try_from(millis)
            .ok()
            .and_then(|ms| PollTimeout::try_from(ms).ok())
            .unwrap_or(PollTimeout::MAX);
        match poll(&mut set, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut answers = set.iter().map(|fd| fd.revents().is_some_and(|revents| !revents.is_empty()));
        let [exit, out, err, stdin, _] = wanted.map(|(fd, _)| fd.is_some() && answers.next() == Some(true));
        Ok(Ready { exit, out, err, stdin })
    }

    fn serve(&mut self, ready: Ready) -> io::Result<()> {
        if ready.stdin {
            self.told.feed();
        }
        if ready.out {
            self.read(Stream::Out)?;
        }
        if ready.err {
            self.read(Stream::Err)?;
        }
        Ok(())
    }

    /// Gives the agent a line, and logs it unless it is not sent.
    fn send(&mut self, line: &[u8]) {
        let now = clock::now();
        match self.told.push(line) {
            Taken::Yes => self.log.line(now, Stream::In, line.strip_suffix(b"\n").unwrap_or(line)),
            Taken::TooMuch => {
                self.log.note(now, "the agent does not read what it is told; what follows is not sent");
            }
            Taken::Closed | Taken::StillTooMuch => {}
        }
    }

    /// Reads once; the stream's end closes it.
    fn read(&mut self, stream: Stream) -> io::Result<()> {
        let mut buffer = [0_u8; READ_BYTES];
        let of_out = stream == Stream::Out;
        let pipe = if of_out { &mut self.out } else { &mut self.err };
        let Some(fd) = &mut pipe.fd else { return Ok(()) };
        let count = match fd.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // The splitter is taken out, since each line of it changes the rest of the supervisor.
        let mut splitter = std::mem::replace(&mut pipe.splitter, Splitter::new(0));
        if count == 0 {
            pipe.fd = None;
            splitter.end(|line| self.line(stream, line.bytes, line.cut));
        } else {
            splitter.push(&buffer[..count], |line| self.line(stream, line.bytes, line.cut));
            if of_out {
                self.stdout_bytes = self.stdout_bytes.saturating_add(count as u64);
            }
            if of_out || self.adapter.stderr_is_life() {
                self.idle_at = Instant::now() + self.meter.limits().idle;
                self.progress.last_activity_at = clock::now();
                self.news = true;
            }
            if let Some(reason) = self.meter.output(count as u64) {
                self.end_for(reason);
            }
        }
        let pipe = if of_out { &mut self.out } else { &mut self.err };
        pipe.splitter = splitter;
        Ok(())
    }

    fn line(&mut self, stream: Stream, bytes: &[u8], cut: u64) {
        let now = clock::now();
        self.log.line(now, stream, bytes);
        if cut > 0 {
            self.cut_lines += 1;
            self.log.note(now, &format!("the line was too long, {cut} bytes of it are not kept"));
        }
        match stream {
            Stream::Out => {
                let events = match cut {
                    0 => self.adapter.event(bytes),
                    _ => self.adapter.cut_event(bytes),
                };
                for event in events {
                    self.event(event);
                }
            }
            Stream::Err | Stream::In | Stream::Note => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LAST_STDERR_BYTES)]);
                if !text.trim().is_empty() {
                    self.last_stderr = self.log.redactor().clean(&text).into_owned();
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        self.news = true;
        let reason = match event {
            Event::Activity(said) => {
                self.progress.activity = self.log.redactor().clean(&said).into_owned();
                None
            }
            Event::Tokens(tokens) => self.meter.tokens(tokens),
            Event::Send(line) => {
                self.send(&line);
                None
            }
            Event::Over => {
                self.part();
                None
            }
            // What an agent that was told to end still does is not counted.
            Event::Iteration if !self.judged() => None,
            Event::Iteration => {
                let reason = self.meter.iteration();
                self.progress.iterations = self.meter.iterations();
                reason
            }
        };
        if let Some(reason) = reason {
            self.end_for(reason);
        }
    }

    /// What the pipes still hold when every process is gone.
    fn drain(&mut self) -> io::Result<()> {
        let until = Instant::now() + DRAIN;
        while (self.out.fd.is_some() || self.err.fd.is_some()) && Instant::now() < until {
            let ready = self.wait(None, until)?;
            self.serve(ready)?;
        }
        Ok(())
    }

    fn ended(self, status: ExitStatus, out_of_memory: bool, cpu_ms: u64, peak: u64) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        Ended {
            exit: ExitInfo { code: status.code(), signal: status.signal(), out_of_memory },
            own: self.own,
            progress: self.progress,
            finished_at: clock::now(),
            cpu_ms,
            peak_memory_bytes: peak,
            cut_lines: self.cut_lines,
            stdout_bytes: self.stdout_bytes,
            last_stderr: self.last_stderr,
        }
    }
}

/// Which descriptors have something.
#[derive(Debug, Clone, Copy)]
struct Ready {
    exit: bool,
    out: bool,
    err: bool,
    stdin: bool,
}

fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// A descriptor that ends when the process has, which is left to be reaped.
fn announce_exit(pid: Pid) -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    std::thread::Builder::new().name("agent-exit".into()).stack_size(64 << 10).spawn(move || {
        while let Err(nix::errno::Errno::EINTR) =
            waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
        {}
        drop(writer);
    })?;
    Ok(reader)
}

/// CPU time in milliseconds and peak memory in bytes of the children that were waited for so far.
fn children_usage() -> (u64, u64) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return (0, 0) };
    let millis = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec().saturating_mul(1000).saturating_add(time.tv_usec() / 1000)).unwrap_or(0)
    };
    let cpu = millis(usage.user_time()).saturating_add(millis(usage.system_time()));
    (cpu, u64::try_from(usage.max_rss()).unwrap_or(0).saturating_mul(1024))
}

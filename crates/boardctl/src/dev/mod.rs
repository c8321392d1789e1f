//! `boardctl dev`: the whole system in the foreground, without systemd.
//!
//! Trigger and watcher are children that are started again when they end unexpectedly; [`lanes`] stands in for
//! the path units. Each runs as `boardctl run …` in this same executable, so that one build is enough. The
//! listening socket belongs to this process and is inherited by the trigger: the port is known before the
//! trigger runs, and its restart refuses no request.
mod interrupt;
mod lanes;
pub(crate) mod run;
mod supervise;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use board_core::edge::lock::{Lock, LockClass, LockError, trigger_lock, watcher_lock};
use board_core::edge::queue::Queue;
use board_core::edge::settings::{AuthMode, Listen, Settings};
use board_core::model::job::Lane;

use crate::output::{Out, Style};
use crate::words;
pub(crate) use interrupt::Interrupt;
use supervise::{Program, Stop};

/// How long the trigger may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long one try to reach it may take.
const ONE_TRY: Duration = Duration::from_secs(2);
/// Pause between two tries.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// How long the daemons of a `dev` that was killed may take to end.
const ENDING_WITHIN: Duration = Duration::from_secs(5);
/// The file with the token of mode `open`.
const TOKEN: &str = "open.token";

/// Where the children's output goes.
#[derive(Debug, Clone)]
pub(crate) enum Sink {
    /// To the terminal.
    Terminal,
    /// To a file, appended.
    File(Arc<Path>),
}

/// A system that runs.
pub(crate) struct System {
    /// The address of the board, with the token in mode `open`; none on a unix socket.
    pub(crate) url: Option<String>,
    stop: Stop,
    workers: Vec<JoinHandle<()>>,
    daemons: Vec<JoinHandle<()>>,
}

impl System {
    /// Starts everything; returns when the board answers.
    ///
    /// # Errors
    /// An address that is taken, a state directory that is not ours, a trigger that does not come up.
    pub(crate) fn start(
        settings: &Settings,
        config: &Path,
        port: Option<u16>,
        sink: &Sink,
        interrupt: &Interrupt,
        out: Out,
    ) -> anyhow::Result<System> {
        let queue = Queue::open(&settings.board.state_dir, true)?;
        is_free(&settings.board.state_dir, out)?;
        let (listener, address) = listen(settings, port)?.unzip();
        let mut system = System { url: None, stop: Stop::new(), workers: Vec::new(), daemons: Vec::new() };
        let filled = system.fill(settings, config, sink, out, &queue, listener);
        let ready = filled.and_then(|()| match address {
            Some(address) => {
                wait_until_ready(address, interrupt)?;
                url(settings, address).map(Some)
            }
            None => Ok(None),
        });
        match ready {
            Ok(url) => Ok(System { url, ..system }),
            Err(error) => {
                system.end();
                Err(error)
            }
        }
    }

    fn fill(
        &mut self,
        settings: &Settings,
        config: &Path,
        sink: &Sink,
        out: Out,
        queue: &Queue,
        listener: Option<TcpListener>,
    ) -> anyhow::Result<()> {
        let executable = std::env::current_exe().context("the path of this program")?;
        let program = |arguments: &[&str], listener: Option<OwnedFd>| Program {
            executable: executable.clone(),
            config: config.to_owned(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            listener,
            sink: sink.clone(),
        };
        for (name, listener) in [("trigger", listener.map(OwnedFd::from)), ("watcher", None)] {
            let program = program(&[name], listener);
            self.daemons.push(supervise::keep_running(name, program, self.stop.clone(), out));
        }
        for lane in Lane::ALL {
            for slot in 1..=settings.slots.of(lane) {
                let number = slot.to_string();
                let program = program(&["worker", "--lane", lane.id(), "--slot", &number], None);
                self.workers.push(lanes::stand_in(queue, lane, slot, program, self.stop.clone(), out)?);
            }
        }
        Ok(())
    }

    /// Stops the workers (they leave `interrupted`), then trigger and watcher.
    pub(crate) fn end(self) {
        self.stop.workers();
        for thread in self.workers {
            // A supervisor that panicked has no child any more: it dies with its thread.
            let _ = thread.join();
        }
        self.stop.daemons();
        for thread in self.daemons {
            let _ = thread.join();
        }
    }

    /// Runs until it is interrupted, then ends; another interrupt meanwhile ends it the hard way.
    pub(crate) fn run_until(self, interrupt: &Interrupt, out: Out) {
        interrupt.wait(1);
        // It is only a word; if it cannot be printed the end is the same.
        let _ = out.line(words::ending(out.language));
        let (stop, impatient) = (self.stop.clone(), interrupt.clone());
        std::thread::spawn(move || {
            impatient.wait(2);
            stop.at_once();
        });
        self.end();
    }
}

/// The whole of `boardctl dev`.
///
/// # Errors
/// As [`System::start`].
pub(crate) fn run(settings: &Settings, config: &Path, port: Option<u16>, out: Out) -> anyhow::Result<()> {
    let interrupt = Interrupt::catch()?;
    let system = System::start(settings, config, port, &Sink::Terminal, &interrupt, out)?;
    let address = match (&system.url, &settings.http.listen) {
        (Some(url), _) => url.clone(),
        (None, Listen::Unix(path)) => format!("unix:{}", path.display()),
        (None, Listen::Tcp(address)) => format!("http://{address}/"),
    };
    out.line(format_args!("ready {}", out.paint(Style::Name, address)))?;
    system.run_until(&interrupt, out);
    Ok(())
}

/// Whether no other board runs on this state directory: its daemons would wait for ours for ever.
fn is_free(state_dir: &Path, out: Out) -> anyhow::Result<()> {
    for path in [trigger_lock(state_dir), watcher_lock(state_dir)] {
        match Lock::acquire_timeout(&path, LockClass::Singleton, ENDING_WITHIN) {
            Ok(lock) => drop(lock),
            Err(LockError::Busy { holder, .. }) => {
                let holder = holder.map(|holder| holder.to_string()).unwrap_or_default();
                anyhow::bail!(words::taken(out.language, &state_dir.display().to_string(), &holder));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The listening socket, bound here, where the board listens on TCP. A unix socket is the trigger's own.
fn listen(settings: &Settings, port: Option<u16>) -> anyhow::Result<Option<(TcpListener, SocketAddr)>> {
    let Listen::Tcp(mut address) = settings.http.listen else { return Ok(None) };
    if let Some(port) = port {
        address.set_port(port);
    }
    let listener = TcpListener::bind(address).with_context(|| address.to_string())?;
    let bound = listener.local_addr().context("listener")?;
    Ok(Some((listener, bound)))
}

/// Asks `/healthz` until it is answered. The socket is there already, so a request waits in its backlog for
/// the trigger instead of being refused; the pause is for a trigger that fails after it has accepted.
fn wait_until_ready(address: SocketAddr, interrupt: &Interrupt) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        match healthy(address) {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= deadline => {
                let seconds = READY_WITHIN.as_secs();
                return Err(error.context(format!("the board does not answer within {seconds} s")));
            }
            Err(_) if interrupt.wait_at_most(BETWEEN_TRIES) => anyhow::bail!("interrupted"),
            Err(_) => {}
        }
    }
}

fn healthy(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, ONE_TRY)?;
    stream.set_read_timeout(Some(ONE_TRY))?;
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    anyhow::ensure!(head.starts_with(b"HTTP/1.1 2"), "/healthz: {}", String::from_utf8_lossy(&head));
    Ok(())
}

fn url(settings: &Settings, address: SocketAddr) -> anyhow::Result<String> {
    match settings.auth.mode {
        AuthMode::Open => {
            let path = settings.board.state_dir.join(TOKEN);
            let token = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            Ok(format!("http://{address}/?token={}", token.trim()))
        }
        AuthMode::Proxy | AuthMode::Oidc => Ok(format!("http://{address}/")),
    }
}

/// Opens a log for a child.
fn open_log(path: &Path) -> anyhow::Result<File> {
    File::options().create(true).append(true).open(path).with_context(|| path.display().to_string())
}

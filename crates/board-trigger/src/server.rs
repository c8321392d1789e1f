//! The accept loops: from a listener to `middleware::serve`, with limits that axum's own loop lacks.
//!
//! Own because a half-sent header must not keep a connection: hyper's timer closes it. One thread serves
//! everything; blocking work goes to the blocking pool.
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use board_core::edge::settings::{AuthMode, Language, Listen, Settings};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use sd_notify::NotifyState;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

use crate::app::App;
use crate::auth::Peer;
use crate::{control, middleware, route};

/// How long a request's head may take to arrive, and how long a connection may idle.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to read some of an answer that waits for it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Headers of a request at most.
pub(crate) const MAX_HEADERS: usize = 64;
/// Bytes of a request's head at most.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Open connections of the board at most; further ones wait in the listener's backlog.
const MAX_CONNECTIONS: usize = 256;
/// Open connections of the control socket at most.
const MAX_CONTROL_CONNECTIONS: usize = 16;
/// How long a stop waits for answers that are under way.
const DRAIN: Duration = Duration::from_secs(3);
/// How long a connection on which nothing was asked yet is kept at a stop. Shorter than [`DRAIN`].
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// Asks a running board to stop; clones ask the same one.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// Not asked yet.
    pub fn new() -> Stop {
        Stop(Arc::new(watch::channel(false).0))
    }

    /// Asks; may be called from any thread, and again.
    pub fn ask(&self) {
        self.0.send_replace(true);
    }

    /// Ends when it was asked.
    pub(crate) async fn asked(&self) {
        // The sender lives in self, so the channel cannot close first.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}

/// Where the board can be reached.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// The address that a browser on this host takes; none on a unix socket.
    pub url: Option<String>,
    /// The same with the token, in mode `open`.
    pub url_with_token: Option<String>,
    /// The TCP address that is listened on, the real port where 0 was configured.
    pub tcp: Option<SocketAddr>,
    /// The control socket.
    pub control: PathBuf,
}

impl std::fmt::Debug for Address {
    /// Without the token: what is logged is read by others.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address")
            .field("url", &self.url)
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

/// What the caller of [`run`] decides.
pub struct Hooks {
    /// Called once, when requests are answered.
    pub announce: Box<dyn FnOnce(&Address) + Send>,
    /// Ends the run.
    pub stop: Stop,
    /// The uid of this process is the operator on the control socket: no agents share it
    /// (`boardctl dev` and `demo`).
    pub own_uid_is_operator: bool,
    /// Sockets inherited from systemd are taken, and readiness is told to it.
    pub systemd: bool,
    /// SIGTERM and SIGINT end the run.
    pub signals: bool,
}

impl Hooks {
    /// For the daemon: under systemd, or by hand.
    pub fn daemon(stop: Stop) -> Hooks {
        Hooks {
            announce: Box::new(|address| match &address.url {
                Some(url) => tracing::info!("ready on {url}"),
                None => tracing::info!("ready; control socket {}", address.control.display()),
            }),
            stop,
            own_uid_is_operator: false,
            systemd: true,
            signals: true,
        }
    }

    /// For a run inside another program, which prints the address.
    pub fn embedded(stop: Stop, announce: impl FnOnce(&Address) + Send + 'static) -> Hooks {
        Hooks {
            announce: Box::new(announce),
            stop,
            own_uid_is_operator: true,
            systemd: false,
            signals: false,
        }
    }
}

/// A listener of either kind.
enum Listener {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// Serves the board until it is asked to stop.
///
/// # Errors
/// If the configuration asks for something unsafe (an address that other hosts reach), a listener cannot be
/// bound, or the state cannot be read.
pub fn run(settings: Settings, hooks: Hooks) -> anyhow::Result<()> {
    let (http, control) = inherited(hooks.systemd)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_keep_alive(Duration::from_secs(5))
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(serve(settings, hooks, http, control));
    // A blocking call that is still under way (a diff) must not hold up the stop.
    runtime.shutdown_timeout(DRAIN);
    result
}

/// Blocking work at once: reads of the repository and writes of the state.
const MAX_BLOCKING_THREADS: usize = 8;

/// Sockets that systemd handed over: the control socket is the unix one named so.
fn inherited(wanted: bool) -> anyhow::Result<(Option<Listener>, Option<std::os::unix::net::UnixListener>)> {
    let (mut http, mut control) = (None, None);
    if !wanted {
        return Ok((http, control));
    }
    let mut fds = listenfd::ListenFd::from_env();
    for index in 0..fds.len() {
        if let Ok(Some(unix)) = fds.take_unix_listener(index) {
            unix.set_nonblocking(true).context("inherited socket")?;
            let named = unix
                .local_addr()
                .ok()
                .and_then(|a| a.as_pathname().and_then(|p| p.file_name().map(|n| n == control::SOCKET)));
            if named == Some(true) {
                control = Some(unix);
            } else {
                http = Some(Listener::Unix(unix));
            }
        } else if let Ok(Some(tcp)) = fds.take_tcp_listener(index) {
            tcp.set_nonblocking(true).context("inherited socket")?;
            http = Some(Listener::Tcp(tcp));
        } else {
            anyhow::bail!("inherited socket {index} is neither a TCP nor a unix listener");
        }
    }
    Ok((http, control))
}

fn bind(settings: &Settings) -> anyhow::Result<Listener> {
    match &settings.http.listen {
        Listen::Tcp(address) => {
            let listener = std::net::TcpListener::bind(address)
                .with_context(|| format!("cannot listen on {address}"))?;
            listener.set_nonblocking(true).context("listener")?;
            Ok(Listener::Tcp(listener))
        }
        Listen::Unix(path) => Ok(Listener::Unix(control::bind_at(path, 0o660)?.0)),
    }
}

/// Check 1: what is really listened on, whoever bound it.
fn real_address(settings: &Settings, listener: &Listener) -> anyhow::Result<Listen> {
    let real = match listener {
        Listener::Tcp(tcp) => Listen::Tcp(tcp.local_addr().context("listener")?),
        Listener::Unix(unix) => Listen::Unix(
            unix.local_addr().ok().and_then(|a| a.as_pathname().map(ToOwned::to_owned)).unwrap_or_default(),
        ),
    };
    let open = settings.auth.mode == AuthMode::Open;
    let (local, tcp) = (real.is_local(), matches!(real, Listen::Tcp(_)));
    anyhow::ensure!(
        local || (settings.http.allow_non_loopback && !open),
        "the board would be reachable from other hosts; listen on loopback, or set http.allow_non_loopback"
    );
    anyhow::ensure!(!open || tcp, "auth.mode = \"open\" is for a loopback address alone");
    if real != settings.http.listen && !matches!(&settings.http.listen, Listen::Tcp(a) if a.port() == 0) {
        tracing::warn!(?real, configured = ?settings.http.listen, "the inherited socket wins over http.listen");
    }
    Ok(real)
}

async fn serve(
    settings: Settings,
    hooks: Hooks,
    http: Option<Listener>,
    control: Option<std::os::unix::net::UnixListener>,
) -> anyhow::Result<()> {
    let http = match http {
        Some(listener) => listener,
        None => bind(&settings)?,
    };
    let real = real_address(&settings, &http)?;
    let (app, _singleton) = App::open(settings, &real, hooks.own_uid_is_operator)?;
    let app = Arc::new(app);
    let own_control = control.is_none();
    let (control, control_path) = match control {
        Some(listener) => {
            let path = listener.local_addr().ok().and_then(|a| a.as_pathname().map(ToOwned::to_owned));
            (listener, path.unwrap_or_default())
        }
        None => control::bind(&app.settings.board.state_dir)?,
    };
    let control = tokio::net::UnixListener::from_std(control).context("control socket")?;
    let router = route::router(app.clone());
    let stop = hooks.stop.clone();
    let background = tokio::spawn(crate::live::release_when_due(app.clone()));
    let serving = async {
        match http {
            Listener::Tcp(tcp) => {
                let listener = tokio::net::TcpListener::from_std(tcp).context("listener")?;
                accept_tcp(listener, &app, &router, &stop).await;
            }
            Listener::Unix(unix) => {
                let listener = tokio::net::UnixListener::from_std(unix).context("listener")?;
                accept_unix(listener, &app, &router, &stop, MAX_CONNECTIONS, |uid| Peer::Unix { uid }).await;
            }
        }
        anyhow::Ok(())
    };
    let address = address(&app, &real, control_path.clone());
    if hooks.systemd {
        let status = status(app.settings.board.language, &real, &control_path);
        tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
    }
    (hooks.announce)(&address);
    let controlling =
        accept_unix(control, &app, &router, &stop, MAX_CONTROL_CONNECTIONS, |uid| Peer::Control { uid });
    let signalled = async {
        if hooks.signals {
            signal().await;
            stop.ask();
        }
        stop.asked().await;
        if hooks.systemd {
            tell(&[NotifyState::Stopping]);
        }
    };
    let alive = tokio::spawn(signs_of_life(hooks.systemd));
    let (served, (), ()) = tokio::join!(serving, controlling, signalled);
    background.abort();
    alive.abort();
    if own_control {
        let _ = std::fs::remove_file(&control_path);
    }
    served
}

fn address(app: &App, real: &Listen, control: PathBuf) -> Address {
    let tcp = match real {
        Listen::Tcp(address) => Some(*address),
        Listen::Unix(_) => None,
    };
    let url = tcp.map(|address| format!("http://{address}"));
    let url_with_token = match (&url, &app.auth.token) {
        (Some(url), Some(token)) => Some(format!("{url}/?token={}", token.text())),
        (Some(_) | None, _) => None,
    };
    Address { url, url_with_token, tcp, control }
}

/// Tells systemd something, where it listens.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("systemd cannot be told: {error}");
    }
}

/// The line of `systemctl status`.
fn status(language: Language, listen: &Listen, control: &Path) -> String {
    let listen = match listen {
        Listen::Tcp(address) => format!("http://{address}"),
        Listen::Unix(path) => format!("unix:{}", path.display()),
    };
    match language {
        Language::De => format!("das Board antwortet auf {listen}, boardctl auf {}", control.display()),
        Language::En => format!("the board answers on {listen}, boardctl on {}", control.display()),
    }
}

/// Signs of life for systemd's watchdog, three in the time that it allows: by the one loop that serves everything,
/// so that a loop that is stuck is found. Without a watchdog it does nothing, and an idle board sleeps.
async fn signs_of_life(wanted: bool) {
    let Some(allowed) = sd_notify::watchdog_enabled().filter(|_| wanted) else { return };
    loop {
        tell(&[NotifyState::Watchdog]);
        tokio::time::sleep(allowed / 3).await;
    }
}

async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Without handlers the default action ends the process, which is what is asked for.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

async fn accept_tcp(listener: tokio::net::TcpListener, app: &Arc<App>, router: &Router, stop: &Stop) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.asked() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                let (app, router, stop) = (app.clone(), router.clone(), stop.clone());
                tokio::spawn(async move {
                    connection(stream, app, router, Peer::Tcp(peer), stop).await;
                    drop(permit);
                });
            }
            Err(error) => pause(&error).await,
        }
    }
    drain(&room, MAX_CONNECTIONS).await;
}

async fn accept_unix(
    listener: tokio::net::UnixListener,
    app: &Arc<App>,
    router: &Router,
    stop: &Stop,
    limit: usize,
    peer: fn(u32) -> Peer,
) {
    let room = Arc::new(Semaphore::new(limit));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.asked() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                // Without credentials there is nobody to answer.
                let Ok(credentials) = stream.peer_cred() else { continue };
                let (app, router, stop) = (app.clone(), router.clone(), stop.clone());
                tokio::spawn(async move {
                    connection(stream, app, router, peer(credentials.uid()), stop).await;
                    drop(permit);
                });
            }
            Err(error) => pause(&error).await,
        }
    }
    drain(&room, limit).await;
}

/// Out of descriptors, or a client that was gone: wait a little instead of spinning.
async fn pause(error: &std::io::Error) {
    tracing::warn!("accept: {error}");
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// Waits until the answers under way are through, at most [`DRAIN`].
async fn drain(room: &Semaphore, limit: usize) {
    let all = u32::try_from(limit).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(DRAIN, room.acquire_many(all)).await;
}

/// Until a request was heard on a connection, or it is clear that none comes.
async fn first_request(asked: &Notify) {
    let _ = tokio::time::timeout(FIRST_REQUEST, asked.notified()).await;
}

async fn connection<S>(stream: S, app: Arc<App>, router: Router, peer: Peer, stop: Stop)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let asked = Arc::new(Notify::new());
    let heard = asked.clone();
    let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
        let (app, router) = (app.clone(), router.clone());
        heard.notify_one();
        async move {
            let response = middleware::serve(app, router, peer, request.map(Body::new)).await;
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    // Whoever asks and never reads would keep his place among the connections for ever.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.asked() => {
            // Who was accepted a moment ago has his request under way; closed now, he would get no answer.
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = first_request(&asked) => {
                    connection.as_mut().graceful_shutdown();
                    connection.as_mut().await
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!("connection: {error}");
    }
}

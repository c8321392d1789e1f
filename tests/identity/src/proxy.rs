//! The real proxies, each with the example that `docs/identity.md` gives.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use loop_tests::http::Answer;

use crate::board::{Backend, Board, NAME, SECRET, wait_for_port};
use crate::example::example_with;

/// Everybody's password.
const PASSWORD: &str = "offen";
/// Who has one: an operator, a viewer, and somebody whom only the proxy knows.
const USERS: [&str; 3] = ["lukas", "gast", "fremd"];
/// Base64 of the users with [`PASSWORD`].
const BASIC: [(&str, &str); 3] =
    [("lukas", "bHVrYXM6b2ZmZW4="), ("gast", "Z2FzdDpvZmZlbg=="), ("fremd", "ZnJlbWQ6b2ZmZW4=")];

/// Which proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// nginx with `auth_basic`.
    Nginx,
    /// Caddy with `basicauth`.
    Caddy,
    /// HAProxy with a userlist.
    Haproxy,
    /// Apache with `mod_auth_basic`.
    Apache,
}

/// All of them.
pub const ALL: [Kind; 4] = [Kind::Nginx, Kind::Caddy, Kind::Haproxy, Kind::Apache];

/// A running proxy before a board.
pub struct Proxy {
    child: Child,
    log: PathBuf,
    port: u16,
}

impl Proxy {
    /// Starts the proxy before this board.
    pub fn start(kind: Kind, board: &Board) -> Proxy {
        let dir = board.world.path("home/proxy");
        fs::create_dir_all(&dir).unwrap();
        let log = dir.join("log");
        let mut command = match kind {
            Kind::Nginx => nginx(board, &dir),
            Kind::Caddy => caddy(board, &dir),
            Kind::Haproxy => haproxy(board, &dir),
            Kind::Apache => apache(board, &dir),
        };
        let to = File::create(&log).unwrap();
        give(&dir);
        let child = command
            .env("BOARD_PROXY_SECRET", SECRET)
            .stdin(Stdio::null())
            .stdout(to.try_clone().unwrap())
            .stderr(to)
            .spawn()
            .unwrap();
        let mut proxy = Proxy { child, log, port: board.port };
        wait_for_port(board.port, || {
            let ended = proxy.child.try_wait().unwrap()?;
            Some(format!("{kind:?} {ended}: {}", fs::read_to_string(&proxy.log).unwrap_or_default()))
        });
        proxy
    }

    /// Bytes as they are, on a connection of their own.
    pub fn raw(&self, request: &str) -> anyhow::Result<Answer> {
        Answer::to(TcpStream::connect(("127.0.0.1", self.port))?, request.as_bytes())
    }

    /// Bytes that are no good request: what the proxy says to them, or whether it says anything, does not matter.
    pub fn throw(&self, bytes: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        if stream.write_all(bytes.as_bytes()).is_ok() {
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }

    /// A request of a user; `headers` are whole lines.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn ask(&self, user: &str, line: &str, headers: &str, body: &str) -> Answer {
        let basic = BASIC.iter().find(|(name, _)| *name == user).map(|(_, basic)| basic);
        let login = basic.map(|basic| format!("Authorization: Basic {basic}\r\n")).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let connection = if headers.contains("Connection:") { "" } else { "Connection: close\r\n" };
        self.raw(&format!(
            "{line} HTTP/1.1\r\nHost: {NAME}:{}\r\n{login}{connection}{kind}Content-Length: {}\r\n{headers}\r\n{body}",
            self.port,
            body.len()
        ))
        .unwrap_or_else(|error| panic!("{line} {headers}: {error:#}\n{}", self.said()))
    }

    /// A new idea, as the page posts it.
    pub fn make(&self, user: &str, headers: &str) -> Answer {
        let body = r#"{"title":"Eine Idee"}"#;
        self.ask(user, "POST /api/board/cards", &format!("Sec-Fetch-Site: same-origin\r\n{headers}"), body)
    }

    /// What the proxy printed.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its children end with the world, which ends everything that is started from its directory.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn give(dir: &Path) {
    if loop_tests::world::is_root() {
        let done = Command::new("chown").arg("-R").arg("nobody:nogroup").arg(dir).status().unwrap();
        assert!(done.success(), "chown {}", dir.display());
    }
}

/// A password's hash, as crypt(3) knows it.
fn hash(method: &str) -> String {
    let out = Command::new("openssl").args(["passwd", method, PASSWORD]).output().unwrap();
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

fn htpasswd(path: &Path) {
    let hash = hash("-apr1");
    let lines: Vec<String> = USERS.iter().map(|user| format!("{user}:{hash}\n")).collect();
    fs::write(path, lines.concat()).unwrap();
}

/// The example's words for the backend, and this board's: the example names both, in the line and behind it.
fn backend(board: &Board, tcp: &str, unix: &str) -> (String, String) {
    let new = match &board.backend {
        Backend::Tcp(address) => tcp.replace("127.0.0.1:8787", address),
        Backend::Unix(path) => unix.replace("/run/board-agent/http.sock", &path.display().to_string()),
    };
    (tcp.to_owned(), new)
}

fn nginx(board: &Board, dir: &Path) -> Command {
    let (at, port) = (dir.display(), board.port);
    htpasswd(&dir.join("htpasswd"));
    fs::write(dir.join("secret.conf"), format!("set $board_secret \"{SECRET}\";\n")).unwrap();
    let (old, new) = backend(board, "http://127.0.0.1:8787;", "http://unix:/run/board-agent/http.sock:;");
    let server = example_with(
        "nginx",
        &[
            ("listen 443 ssl;", &format!("listen 127.0.0.1:{port};")),
            ("/etc/nginx/board.htpasswd", &format!("{at}/htpasswd")),
            ("/etc/nginx/board-secret.conf", &format!("{at}/secret.conf")),
            (&old, &new),
        ],
    );
    let temp: Vec<String> = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("{name}_temp_path {at}/{name};\n"))
        .collect();
    let text = format!(
        "daemon off;\nmaster_process off;\npid {at}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{}{server}\n}}\n",
        temp.concat()
    );
    fs::write(dir.join("nginx.conf"), text).unwrap();
    let mut command = board.world.command("/usr/sbin/nginx");
    command.arg("-e").arg("stderr").arg("-c").arg(dir.join("nginx.conf"));
    command
}

fn caddy(board: &Board, dir: &Path) -> Command {
    let out = Command::new("caddy").args(["hash-password", "--plaintext", PASSWORD]).output().unwrap();
    let hash = String::from_utf8(out.stdout).unwrap().trim().to_owned();
    let users: Vec<String> = USERS.iter().map(|user| format!("{user} {hash}\n")).collect();
    let (old, new) =
        backend(board, "reverse_proxy 127.0.0.1:8787", "reverse_proxy unix//run/board-agent/http.sock");
    let site = example_with(
        "caddyfile",
        &[
            ("board.example.org {", &format!("http://{NAME}:{} {{\nbind 127.0.0.1", board.port)),
            ("lukas HASH", &users.concat()),
            (&old, &new),
        ],
    );
    fs::write(dir.join("Caddyfile"), format!("{{\nadmin off\n}}\n{site}\n")).unwrap();
    let mut command = board.world.command("/usr/bin/caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(dir.join("Caddyfile"));
    command
}

fn haproxy(board: &Board, dir: &Path) -> Command {
    let hash = hash("-6");
    let users: Vec<String> = USERS.iter().map(|user| format!("    user {user} password {hash}\n")).collect();
    let (old, new) =
        backend(board, "server board 127.0.0.1:8787", "server board unix@/run/board-agent/http.sock");
    let text = example_with(
        "haproxy",
        &[
            ("    user lukas password HASH\n", &users.concat()),
            ("bind :443 ssl crt /etc/haproxy/board.pem", &format!("bind 127.0.0.1:{}", board.port)),
            (&old, &new),
        ],
    );
    let defaults = "defaults\nmode http\ntimeout connect 5s\ntimeout client 15m\ntimeout server 1m\n";
    fs::write(dir.join("haproxy.cfg"), format!("{defaults}\n{text}\n")).unwrap();
    let mut command = board.world.command("/usr/sbin/haproxy");
    command.arg("-db").arg("-f").arg(dir.join("haproxy.cfg"));
    command
}

fn apache(board: &Board, dir: &Path) -> Command {
    let (at, port) = (dir.display(), board.port);
    htpasswd(&dir.join("htpasswd"));
    fs::write(dir.join("secret.conf"), format!("Define BOARD_PROXY_SECRET {SECRET}\n")).unwrap();
    let (old, new) =
        backend(board, "\"http://127.0.0.1:8787/\"", "\"unix:/run/board-agent/http.sock|http://board/\"");
    let host = example_with(
        "apache",
        &[
            ("<VirtualHost *:443>", &format!("<VirtualHost 127.0.0.1:{port}>")),
            ("/etc/apache2/board.htpasswd", &format!("{at}/htpasswd")),
            ("/etc/apache2/board-secret.conf", &format!("{at}/secret.conf")),
            (&old, &new),
        ],
    );
    let modules = [
        "mpm_event",
        "authn_core",
        "authn_file",
        "authz_core",
        "authz_user",
        "auth_basic",
        "headers",
        "proxy",
        "proxy_http",
        "unixd",
    ];
    // Some are built in.
    let load: Vec<String> = modules
        .iter()
        .filter(|name| Path::new(&format!("/usr/lib/apache2/modules/mod_{name}.so")).exists())
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .collect();
    let text = format!(
        "ServerRoot {at}\nServerName {NAME}\nPidFile {at}/pid\nMutex file:{at}\nDefaultRuntimeDir {at}\n\
         Listen 127.0.0.1:{port}\nErrorLog {at}/log\n{}{host}\n",
        load.concat()
    );
    fs::write(dir.join("apache.conf"), text).unwrap();
    let mut command = board.world.command("/usr/sbin/apache2");
    command.arg("-DFOREGROUND").arg("-f").arg(dir.join("apache.conf"));
    command
}

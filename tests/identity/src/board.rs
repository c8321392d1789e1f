//! A board in mode `proxy`, its own program as an unprivileged user.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use loop_tests::http::Answer;
use loop_tests::world::{Options, PATIENCE, World, wait_a_little};
use serde_json::Value;

/// The proxy's secret.
pub const SECRET: &str = "vierundzwanzig-geheime-x";
/// What the browser calls the board.
pub const NAME: &str = "board.example.org";
/// The header with the user's name.
pub const USER_HEADER: &str = "X-Auth-Request-Preferred-Username";

/// Where the proxy finds the board.
#[derive(Debug, Clone)]
pub enum Backend {
    /// `127.0.0.1:<port>`
    Tcp(String),
    /// A socket's path.
    Unix(PathBuf),
}

/// A running board, and the port at which a proxy will stand before it.
pub struct Board {
    /// Its files and processes.
    pub world: World,
    /// Where it listens.
    pub backend: Backend,
    /// The proxy's port on loopback; `http.public_url` names it.
    pub port: u16,
}

/// Who may do what, by name.
const BY_NAME: &str = "operators = { users = [\"lukas\"] }\nviewers = { users = [\"gast\"] }";
/// And by group.
const BY_GROUP: &str = "groups_header = \"X-Auth-Request-Groups\"\n\
    operators = { users = [\"lukas\"], groups = [\"wheel\"] }\nviewers = { users = [\"gast\"] }";

impl Board {
    /// Listens on loopback, or on a unix socket; without a header for groups.
    pub fn start(unix: bool) -> Board {
        Board::with(unix, BY_NAME)
    }

    /// The same on loopback, with the header for groups.
    pub fn with_groups() -> Board {
        Board::with(false, BY_GROUP)
    }

    fn with(unix: bool, roles: &str) -> Board {
        let port = free_port();
        let mut socket = PathBuf::new();
        let mut world = World::with(|dir| {
            socket = dir.join("state/http.sock");
            let listen =
                if unix { format!("unix:{}", socket.display()) } else { "127.0.0.1:0".to_owned() };
            let peers = if unix { "trusted_peers = [\"nobody\", \"root\"]" } else { "" };
            Options {
                http: format!("listen = \"{listen}\"\npublic_url = \"http://{NAME}:{port}\""),
                auth: format!(
                    "mode = \"proxy\"\nuser_header = \"{USER_HEADER}\"\nsecret_file = \"{}\"\n{peers}\n{roles}",
                    dir.join("secret").display()
                ),
                ..Options::default()
            }
        })
        .unwrap();
        std::fs::write(world.path("secret"), SECRET).unwrap();
        let backend = if unix {
            let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
            std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
            world.start_trigger_on(listener.into()).unwrap();
            Backend::Unix(socket)
        } else {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            world.start_trigger_on(listener.into()).unwrap();
            Backend::Tcp(address)
        };
        let board = Board { world, backend, port };
        board.world.wait("the board answers", || {
            board.direct("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").map(|_| ())
        });
        board
    }

    /// Bytes straight to the board; `None` if it is not there yet.
    pub fn direct(&self, request: &str) -> Option<Answer> {
        match &self.backend {
            Backend::Tcp(address) => Answer::to(TcpStream::connect(address).ok()?, request.as_bytes()).ok(),
            Backend::Unix(path) => {
                let mut stream = UnixStream::connect(path).ok()?;
                stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
                stream.write_all(request.as_bytes()).ok()?;
                let mut text = String::new();
                stream.read_to_string(&mut text).ok()?;
                let (head, body) = text.split_once("\r\n\r\n")?;
                let status = head.split(' ').nth(1)?.parse().ok()?;
                Some(Answer { status, head: head.to_owned(), body: body.to_owned() })
            }
        }
    }

    /// The lines of the audit log.
    pub fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.world.path("state/logs/audit.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Titles of the cards that were made through the proxy, and who made them.
    pub fn makers(&self) -> Vec<String> {
        let made = self.audit().into_iter().filter(|line| line["result"] == "ok");
        made.map(|line| line["user"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// A port of loopback on which nothing listens.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until something listens on the port.
///
/// # Panics
/// If nothing does within [`PATIENCE`], or `ended` says why it never will.
pub fn wait_for_port(port: u16, mut ended: impl FnMut() -> Option<String>) {
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(why) = ended() {
            panic!("nothing listens on {port}: {why}");
        }
        assert!(Instant::now() < deadline, "nothing listens on {port}");
        wait_a_little();
    }
}

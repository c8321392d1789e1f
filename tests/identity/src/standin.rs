//! A stand-in for Traefik, named so: it forwards as `forwardAuth` and `basicAuth.headerField` are documented to do.
//!
//! `forwardAuth` replaces the headers that are listed by those of the answer and passes everything else from the
//! client; `headerField` sets one header. Neither touches any other header, and that is what is tested.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

use crate::board::{Backend, Board, SECRET};

/// What the middleware would do.
#[derive(Debug, Clone)]
pub struct Traefik {
    /// `authResponseHeaders`, or the one `headerField`.
    pub listed: Vec<&'static str>,
    /// The headers of the answer of the login service, or the user in `headerField`.
    pub answered: Vec<(&'static str, &'static str)>,
}

impl Traefik {
    /// Listens on the board's port until the test ends.
    ///
    /// # Panics
    /// If the board listens on a socket, which this stand-in does not speak.
    pub fn start(self, board: &Board) {
        let Backend::Tcp(backend) = board.backend.clone() else { panic!("the stand-in speaks TCP") };
        let listener = TcpListener::bind(("127.0.0.1", board.port)).unwrap();
        let this = Arc::new(self);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (this, backend) = (Arc::clone(&this), backend.clone());
                std::thread::spawn(move || this.forward(&client, &backend));
            }
        });
    }

    fn forward(&self, client: &TcpStream, backend: &str) -> Option<()> {
        let mut reader = BufReader::new(client);
        let mut head = String::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if line.trim_end().is_empty() {
                break;
            }
            let name = line.split(':').next().unwrap_or_default();
            if !self.listed.iter().any(|listed| listed.eq_ignore_ascii_case(name)) {
                head.push_str(&line);
            }
        }
        for (name, value) in &self.answered {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("X-Board-Proxy-Secret: {SECRET}\r\n\r\n"));
        let length = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let mut board = TcpStream::connect(backend).ok()?;
        board.write_all(head.as_bytes()).ok()?;
        board.write_all(&body).ok()?;
        let mut answer = Vec::new();
        board.read_to_end(&mut answer).ok()?;
        let mut client = client;
        client.write_all(&answer).ok()?;
        client.shutdown(Shutdown::Both).ok()
    }
}

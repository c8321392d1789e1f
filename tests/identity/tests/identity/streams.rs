//! Live updates through every proxy: an event arrives while the stream is open, and not at its end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use identity_tests::board::{Board, NAME};
use identity_tests::proxy::{ALL, Proxy};

#[test]
fn a_change_is_seen_at_once_through_every_proxy() {
    for kind in ALL {
        let board = Board::start(false);
        let proxy = Proxy::start(kind, &board);
        let mut stream = TcpStream::connect(("127.0.0.1", board.port)).unwrap();
        // A limit against hanging: shorter than the stream lives, so that its end is no event.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "GET /api/board/events HTTP/1.1\r\nHost: {NAME}:{}\r\nAuthorization: Basic Z2FzdDpvZmZlbg==\r\n\
             Accept: text/event-stream\r\nSec-Fetch-Site: same-origin\r\n\r\n",
            board.port
        )
        .unwrap();
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next().unwrap().unwrap();
        assert!(status.contains(" 200 "), "{kind:?}: {status}");
        let mut seen = 0;
        let mut made = false;
        // The first event says where the board stands; the change comes after it.
        while seen < 2 {
            let line = lines.next().unwrap_or_else(|| panic!("{kind:?}: the stream ended")).unwrap();
            if line.starts_with("data:") {
                seen += 1;
                if !made {
                    assert_eq!(proxy.make("lukas", "").status, 201, "{kind:?}");
                    made = true;
                }
            }
        }
    }
}

//! Every proxy, on loopback and on a unix socket.

use identity_tests::board::{Board, NAME, SECRET, USER_HEADER};
use identity_tests::proxy::{Kind, Proxy};

/// Look-alikes of the user header, and of the secret's.
const ALIASES: [&str; 4] = [
    "X_Auth_Request_Preferred_Username",
    "X.Auth.Request.Preferred.Username",
    "X-Auth-Request_Preferred-Username",
    "X_Board_Proxy_Secret",
];

/// A request through the proxy makes a card as its real user, or none at all.
fn never_somebody_else(board: &Board, proxy: &Proxy, headers: &str, allowed: &[u16]) {
    let before = board.makers().len();
    let answer = proxy.make("lukas", headers);
    assert!(allowed.contains(&answer.status), "{headers:?}: {}\n{}", answer.head, answer.body);
    let made = board.makers();
    assert_eq!(made.len() - before, usize::from(answer.status / 100 == 2), "{headers:?}");
    assert!(made.iter().all(|user| user == "lukas"), "{headers:?}: {made:?}");
}

fn matrix(kind: Kind, unix: bool) {
    let board = Board::start(unix);
    let proxy = Proxy::start(kind, &board);
    // Who is who.
    assert_eq!(proxy.ask("", "GET /", "", "").status, 401, "without a password");
    assert!(!proxy.ask("", "GET /", "", "").head.contains("Board-Api"), "the proxy itself refuses");
    let page = proxy.ask("lukas", "GET /", "", "");
    assert_eq!(page.status, 200, "{}\n{}\n{}", page.head, page.body, proxy.said());
    assert_eq!(proxy.make("lukas", "").status, 201);
    assert_eq!(board.makers(), ["lukas"]);
    assert_eq!(proxy.ask("gast", "GET /", "", "").status, 200);
    assert_eq!(proxy.make("gast", "").status, 403, "a viewer changes nothing");
    assert_eq!(proxy.ask("fremd", "GET /", "", "").status, 403, "known to the proxy alone");
    // T3: what the browser says of itself is replaced.
    for forged in ["gast", "root", ""] {
        never_somebody_else(&board, &proxy, &format!("{USER_HEADER}: {forged}\r\n"), &[201]);
        never_somebody_else(
            &board,
            &proxy,
            &format!("{USER_HEADER}: {forged}\r\n{USER_HEADER}: zwei\r\n"),
            &[201],
        );
    }
    never_somebody_else(&board, &proxy, "X-Board-Proxy-Secret: falsch\r\n", &[201]);
    // A viewer does not become an operator by it either.
    for header in
        [USER_HEADER, "X-Auth-Request-User", "X-Forwarded-User", "X-Auth-Request-Groups", "Remote-User"]
    {
        assert_eq!(proxy.make("gast", &format!("{header}: lukas\r\n")).status, 403, "{header}");
    }
    // T2: nginx drops such names, the others pass them on.
    for alias in ALIASES {
        never_somebody_else(&board, &proxy, &format!("{alias}: evil\r\n"), &[201, 400]);
        let viewer = proxy.make("gast", &format!("{alias}: lukas\r\n")).status;
        assert!([400, 403].contains(&viewer), "{alias}: {viewer}");
    }
    // T5: a header that is called hop-by-hop is not passed on; then nobody is there, or the true one.
    for name in [USER_HEADER, "X-Board-Proxy-Secret"] {
        never_somebody_else(&board, &proxy, &format!("Connection: close, {name}\r\n"), &[201, 401]);
    }
    // T8, T10: other names and other pages.
    let basic = "Authorization: Basic bHVrYXM6b2ZmZW4=\r\n";
    for host in ["evil.example", "localhost", "127.0.0.1"] {
        let answer = proxy
            .raw(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n{basic}Connection: close\r\n\r\n"))
            .unwrap();
        assert!(!answer.body.contains("Eine Idee"), "{host}: {}", answer.head);
    }
    for site in ["Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n", ""] {
        let answer = proxy.ask("lukas", "POST /api/board/cards", site, r#"{"title":"Eine Idee"}"#);
        assert_eq!(answer.status, 403, "{site}: {}", answer.body);
    }
    let origin = format!("Origin: http://{NAME}:{}\r\n", board.port);
    let answer = proxy.ask("lukas", "POST /api/board/cards", &origin, r#"{"title":"Eine Idee"}"#);
    assert_eq!(answer.status, 201, "a browser over http:// sends its origin alone: {}", answer.body);
    // A refusal takes nothing from the next request on the same connection, whosever it is.
    for _ in 0..20 {
        let refused = proxy.ask("lukas", "POST /api/board/cards", "", r#"{"title":"Eine Idee"}"#);
        assert_eq!((refused.status, proxy.make("lukas", "").status), (403, 201));
    }
    // T38: two lengths, bare line ends and folded lines make no second request.
    let before = board.makers().len();
    let inner = format!(
        "POST /api/board/cards HTTP/1.1\r\nHost: {NAME}:{}\r\n{USER_HEADER}: lukas\r\nX-Board-Proxy-Secret: {SECRET}\r\n\
         Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{{\"title\":\"Eine Idee\"}}",
        board.port
    );
    let host = format!("Host: {NAME}:{}\r\n{basic}", board.port);
    for outer in [
        format!(
            "GET / HTTP/1.1\r\n{host}Content-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n{inner}"
        ),
        format!(
            "GET / HTTP/1.1\r\n{host}Transfer-Encoding: \u{b}chunked\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{inner}",
            inner.len()
        ),
        format!(
            "GET / HTTP/1.1\r\n{host}Content-Length: 0\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{inner}",
            inner.len()
        ),
        format!("GET / HTTP/1.1\r\n{host}X: a\n\n{inner}"),
        format!(
            "GET / HTTP/1.1\r\n{host}X: a\r\n folded\r\nContent-Length: 0\r\nConnection: close\r\n\r\n{inner}"
        ),
    ] {
        proxy.throw(&outer);
    }
    assert_eq!(proxy.make("lukas", "").status, 201);
    assert_eq!(board.makers().len(), before + 1, "nothing was smuggled in");
    // T1: past the proxy nobody is anybody.
    for secret in ["", "X-Board-Proxy-Secret: geraten-geraten-geraten\r\n"] {
        let answer = board
            .direct(&format!(
                "GET / HTTP/1.1\r\nHost: {NAME}:{}\r\n{USER_HEADER}: lukas\r\n{secret}Connection: close\r\n\r\n",
                board.port
            ))
            .unwrap();
        assert_eq!(answer.status, 401);
    }
}

#[test]
fn t1_to_t10_and_t38_through_nginx() {
    matrix(Kind::Nginx, false);
}

#[test]
fn t1_to_t10_and_t38_through_nginx_on_a_unix_socket() {
    matrix(Kind::Nginx, true);
}

#[test]
fn t1_to_t10_and_t38_through_caddy() {
    matrix(Kind::Caddy, false);
}

#[test]
fn t1_to_t10_and_t38_through_caddy_on_a_unix_socket() {
    matrix(Kind::Caddy, true);
}

#[test]
fn t1_to_t10_and_t38_through_haproxy() {
    matrix(Kind::Haproxy, false);
}

#[test]
fn t1_to_t10_and_t38_through_haproxy_on_a_unix_socket() {
    matrix(Kind::Haproxy, true);
}

#[test]
fn t1_to_t10_and_t38_through_apache() {
    matrix(Kind::Apache, false);
}

#[test]
fn t1_to_t10_and_t38_through_apache_on_a_unix_socket() {
    matrix(Kind::Apache, true);
}

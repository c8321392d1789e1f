//! What `forwardAuth` and `basicAuth.headerField` leave to the client, through a stand-in for Traefik.

use std::net::TcpStream;

use identity_tests::board::{Board, NAME, USER_HEADER};
use identity_tests::standin::Traefik;
use loop_tests::http::Answer;

/// A new idea through the stand-in; `headers` are whole lines.
fn make(board: &Board, headers: &str) -> u16 {
    let body = r#"{"title":"Eine Idee"}"#;
    let request = format!(
        "POST /api/board/cards HTTP/1.1\r\nHost: {NAME}:{}\r\nSec-Fetch-Site: same-origin\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        board.port,
        body.len()
    );
    Answer::to(TcpStream::connect(("127.0.0.1", board.port)).unwrap(), request.as_bytes()).unwrap().status
}

const LISTED: [&str; 4] =
    ["X-Auth-Request-User", "X-Auth-Request-Email", USER_HEADER, "X-Auth-Request-Groups"];

#[test]
fn t4_forward_auth_with_every_header_listed_leaves_nothing_to_the_client() {
    let board = Board::with_groups();
    Traefik {
        listed: LISTED.to_vec(),
        answered: vec![(USER_HEADER, "gast"), ("X-Auth-Request-Groups", "users")],
    }
    .start(&board);
    for forged in [
        "",
        "X-Auth-Request-Groups: wheel\r\n",
        "x-auth-request-groups: wheel\r\nX-AUTH-REQUEST-GROUPS: wheel\r\n",
        "X-Auth-Request-Preferred-Username: lukas\r\n",
        "Tailscale-User-Login: lukas\r\n",
        "X-Forwarded-User: lukas\r\nX-Forwarded-Groups: wheel\r\n",
        "X-Forwarded-Uri: /healthz\r\n",
    ] {
        assert_eq!(make(&board, forged), 403, "{forged:?}");
    }
    for alias in ["X_Auth_Request_Groups: wheel\r\n", "X.Auth.Request.Groups: wheel\r\n"] {
        assert_eq!(make(&board, alias), 400, "{alias:?}");
    }
    assert_eq!(board.makers().len(), 0);
}

#[test]
fn t4_a_header_that_is_not_configured_gives_no_rights_where_the_proxy_passes_it() {
    let board = Board::start(false);
    Traefik { listed: vec![USER_HEADER], answered: vec![(USER_HEADER, "gast")] }.start(&board);
    for forged in [
        "X-Auth-Request-Groups: wheel\r\n",
        "X-Auth-Request-User: lukas\r\n",
        "Tailscale-User-Login: lukas\r\n",
    ] {
        assert_eq!(make(&board, forged), 403, "{forged:?}");
    }
}

#[test]
fn t4_the_group_of_an_operator_makes_one() {
    let board = Board::with_groups();
    let groups = "users, wheel";
    Traefik {
        listed: LISTED.to_vec(),
        answered: vec![(USER_HEADER, "anna"), ("X-Auth-Request-Groups", groups)],
    }
    .start(&board);
    assert_eq!(make(&board, ""), 201);
    assert_eq!(board.makers(), ["anna"]);
}

#[test]
fn t6_a_request_that_the_login_let_through_without_a_name_is_nobody() {
    let board = Board::start(false);
    Traefik { listed: LISTED.to_vec(), answered: vec![] }.start(&board);
    for forged in ["", "X-Auth-Request-Preferred-Username: lukas\r\n", "User-Agent: kube-probe/1\r\n"] {
        assert_eq!(make(&board, forged), 401, "{forged:?}");
    }
}

#[test]
fn basic_auth_sets_one_header() {
    let board = Board::start(false);
    Traefik { listed: vec![USER_HEADER], answered: vec![(USER_HEADER, "lukas")] }.start(&board);
    assert_eq!(make(&board, &format!("{USER_HEADER}: gast\r\n")), 201);
    assert_eq!(board.makers(), ["lukas"]);
}

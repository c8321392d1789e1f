//! What the board refuses before anything is routed, from outside.
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::house::{House, PATIENCE, SECRET};

#[test]
fn health_is_answered_before_every_check_and_says_nothing() {
    let house = House::open();
    let reply = house.raw("GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    assert_eq!(house.raw("POST /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").status, 405);
}

#[test]
fn without_the_token_there_is_a_page_that_says_where_it_is_and_looks_like_one() {
    let house = House::open();
    let get = |path: &str| {
        house.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/html\r\nConnection: close\r\n\r\n",
            house.tcp()
        ))
    };
    let page = get("/");
    assert_eq!(page.status, 401);
    assert!(page.text().contains("open.token"), "{}", page.text());
    let text = page.text();
    let at = text.find("/assets/").unwrap();
    let style = &text[at..at + text[at..].find('"').unwrap()];
    assert_eq!(get(style).status, 200, "{style}");
    assert_eq!(get("/assets/../api/board").status, 404);
}

#[test]
fn t8_another_host_is_misdirected_before_anything_else() {
    let house = House::open();
    let (own, token) = (house.tcp(), house.token());
    let port = own.port();
    let with = |hosts: &str, target: &str| {
        house
            .raw(&format!(
                "GET {target} HTTP/1.1\r\n{hosts}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
            ))
            .status
    };
    assert_eq!(with(&format!("Host: {own}\r\n"), "/api/board"), 200);
    for host in [
        "evil.example".to_owned(),
        "localhost".to_owned(),
        format!("localhost:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1.:{port}"),
        format!("127.1:{port}"),
        format!("[::1]:{port}"),
        format!("EVIL.example:{port}"),
        format!("{own}@evil.example"),
    ] {
        assert_eq!(with(&format!("Host: {host}\r\n"), "/api/board"), 421, "{host}");
    }
    assert_eq!(with("", "/api/board"), 421);
    assert_ne!(with(&format!("Host: {own}\r\nHost: evil.example\r\n"), "/api/board"), 200);
    assert_eq!(with(&format!("Host: {own}\r\n"), "http://evil.example/api/board"), 421);
}

#[test]
fn mode_open_needs_the_token_everywhere_and_swaps_it_for_a_cookie() {
    let house = House::open();
    let own = house.tcp();
    let get = |target: &str, headers: &str| {
        house.raw(&format!("GET {target} HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n{headers}\r\n"))
    };
    for target in ["/", "/api/board", "/api/board/events", "/api/openapi.json", "/nirgends", "/?token=falsch"]
    {
        assert_eq!(get(target, "").status, 401, "{target}");
    }
    let token = house.token();
    let swapped = get(&format!("/?q=a&token={token}"), "");
    assert_eq!((swapped.status, swapped.header("location")), (303, Some("/?q=a")));
    let cookie = swapped.header("set-cookie").unwrap();
    assert!(cookie.contains("SameSite=Strict") && cookie.contains("HttpOnly"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(get("/api/board", &format!("Cookie: {pair}\r\n")).status, 200);
    assert_eq!(get("/api/board", &format!("Authorization: Bearer {token}\r\n")).status, 200);
}

#[test]
fn t9_a_foreign_page_can_post_nothing() {
    let house = House::open();
    let (own, token) = (house.tcp(), house.token());
    let cookie = format!("Cookie: board_open_{}={token}\r\n", own.port());
    let post = |headers: &str, body: &str| {
        let length = body.len();
        house.raw(&format!(
            "POST /api/board/cards/limit/move HTTP/1.1\r\nHost: {own}\r\n{cookie}Connection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        ))
    };
    let start = r#"{"to":"in_umsetzung"}"#;
    let json = "Content-Type: application/json\r\n";
    for site in ["cross-site", "same-site", "none"] {
        assert_eq!(post(&format!("{json}Sec-Fetch-Site: {site}\r\n"), start).status, 403, "{site}");
    }
    assert_eq!(post(&format!("{json}Origin: http://evil.example\r\n"), start).status, 403);
    assert_eq!(post(&format!("{json}Origin: null\r\n"), start).status, 403);
    // T10: neither header, as an old proxy leaves it.
    assert_eq!(post(json, start).status, 403);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let headers = format!("Content-Type: {kind}\r\nSec-Fetch-Site: same-origin\r\n");
        assert_eq!(post(&headers, start).status, 415, "{kind}");
    }
    let options = house.raw(&format!(
        "OPTIONS /api/board/cards HTTP/1.1\r\nHost: {own}\r\n{cookie}Connection: close\r\n\r\n"
    ));
    assert_eq!(options.status, 405);
    assert!(!options.head.to_ascii_lowercase().contains("access-control"));
    assert!(house.queued().is_empty(), "{:?}", house.queued());
    assert_eq!(post(&format!("{json}Origin: http://{own}\r\n"), start).status, 202, "our own page may");
}

#[test]
fn t15_a_body_beyond_its_cap_or_compressed_is_not_read() {
    let house = House::open();
    let long = format!(r#"{{"reason":"{}"}}"#, "x".repeat(64 * 1024));
    assert_eq!(house.post("/api/board/cards/limit/archive", &long).status, 413);
    let text = format!(r#"{{"title":"T","text":"{}"}}"#, "x".repeat(200 * 1024));
    assert_eq!(house.post("/api/board/cards", &text).status, 201, "a text may be longer");
    let zipped = house.ask("POST /api/board/cards", "Content-Encoding: gzip\r\n", "{}");
    assert_eq!(zipped.status, 415);
    let chunk = format!("{:x}\r\n{}\r\n", 8192, "x".repeat(8192)).repeat(10);
    let request = format!(
        "POST /api/board/cards/limit/archive HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunk}0\r\n\r\n",
        house.tcp(),
        house.token()
    );
    assert_eq!(house.raw(&request).status, 413);
}

#[test]
fn t16_no_id_is_a_path() {
    let house = House::open();
    let long = "a".repeat(300);
    for id in [
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e",
        "%2e%2e%2fstate.json",
        "..%5c..%5cx",
        "limit%00",
        "%2fetc%2fpasswd",
        "CON.md",
        "-x",
        ".git",
        "idea-x",
        "%ef%bc%8e%ef%bc%8e",
        "Limit",
        "limit.md",
        &long,
    ] {
        for path in
            [format!("/api/board/cards/{id}"), format!("/karten/{id}"), format!("/api/board/jobs/{id}/log")]
        {
            let reply = house.get(&path);
            assert_eq!(reply.status, 404, "{path}");
            assert!(!reply.text().contains("root:"));
        }
        assert_eq!(house.post(&format!("/api/board/cards/{id}/archive"), "{}").status, 404, "{id}");
    }
    assert_eq!(house.get("/api/board/cards/../../../etc/passwd").status, 404);
    assert!(house.queued().is_empty());
}

#[test]
fn t38_more_than_one_length_or_a_bare_line_end_is_not_a_request() {
    let house = House::open();
    let own = house.tcp();
    for request in [
        format!(
            "POST /api/board/cards HTTP/1.1\r\nHost: {own}\r\nContent-Length: 2\r\nContent-Length: 3\r\nConnection: close\r\n\r\n{{}}"
        ),
        format!("GET /api/board HTTP/1.1\r\nHost : {own}\r\nConnection: close\r\n\r\n"),
        format!("GET /api/board HTTP/1.1\r\nHost: {own}\r\n X: y\r\nConnection: close\r\n\r\n"),
    ] {
        let status = house.raw(&request).status;
        assert!((400..500).contains(&status), "{status}: {request}");
    }
}

#[test]
fn a_request_with_too_many_headers_is_refused() {
    let house = House::open();
    let with = |n: usize| {
        let many: String = (0..n).map(|i| format!("X-{i}: 1\r\n")).collect();
        house.raw(&format!("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{many}\r\n")).status
    };
    assert_eq!(with(62), 204, "64 with the two of the request itself");
    assert_eq!(with(63), 431);
}

#[test]
fn every_answer_carries_the_headers_of_the_design() {
    let house = House::open();
    for path in ["/api/board", "/nirgends", "/healthz"] {
        let reply = house.get(path);
        let csp = reply.header("content-security-policy").unwrap();
        for part in
            ["default-src 'none'", "frame-ancestors 'none'", "trusted-types board", "form-action 'self'"]
        {
            assert!(csp.contains(part), "{path}: {csp}");
        }
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("same-origin"));
        assert_eq!(reply.header("cross-origin-opener-policy"), Some("same-origin"));
        assert_eq!(reply.header("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert_eq!(reply.header("board-api"), Some("1"));
        assert!(reply.header("permissions-policy").unwrap().contains("camera=()"));
    }
}

#[test]
fn behind_a_proxy_only_secret_and_header_together_are_somebody() {
    let house = House::proxy();
    let own = house.tcp();
    let get = |path: &str, headers: &str| {
        house.raw(&format!("GET {path} HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n{headers}\r\n"))
    };
    let secret = format!("X-Board-Proxy-Secret: {SECRET}\r\n");
    let user = "X-Auth-Request-User: lukas\r\n";
    assert_eq!(get("/api/board", &format!("{secret}{user}")).status, 200);
    // T1, T3, T5 and T6 from outside; the table stands beside the code.
    assert_eq!(get("/api/board", user).json()["code"], "no-proxy-secret");
    assert_eq!(get("/api/board", &format!("{secret}{user}X-Auth-Request-User: evil\r\n")).status, 400);
    assert_eq!(
        get("/api/board", &format!("{secret}{user}X_Auth_Request_User: evil\r\n")).json()["code"],
        "header-alias"
    );
    assert_eq!(get("/api/board", &secret).status, 401);
    assert_eq!(get("/api/board", &format!("{secret}X-Auth-Request-User: fremd\r\n")).status, 403);
    let denied: Vec<String> =
        house.audit().iter().map(|line| line["result"].as_str().unwrap().to_owned()).collect();
    assert!(
        denied.contains(&"no-proxy-secret".to_owned()) && denied.contains(&"header-alias".to_owned()),
        "{denied:?}"
    );
}

#[test]
fn t6_without_an_identity_nothing_is_answered_but_health() {
    let house = House::proxy();
    let own = house.tcp();
    let secret = format!("X-Board-Proxy-Secret: {SECRET}\r\n");
    let described: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    let mut seen = 0;
    for (path, calls) in described["paths"].as_object().unwrap() {
        for method in calls.as_object().unwrap().keys() {
            let (method, path) = (method.to_uppercase(), path.replace(['{', '}'], ""));
            let reply = house.raw(&format!(
                "{method} {path} HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n{secret}\r\n"
            ));
            assert_eq!(reply.status, 401, "{method} {path}");
            seen += 1;
        }
    }
    assert!(seen > 20);
}

#[test]
fn a_viewer_may_look_and_change_nothing() {
    let house = House::proxy();
    let own = house.tcp();
    let who = format!("X-Board-Proxy-Secret: {SECRET}\r\nX-Auth-Request-User: gast\r\n");
    let ask = |line: &str, more: &str, body: &str| {
        house.raw(&format!("{line} HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n{who}{more}\r\n{body}"))
    };
    assert_eq!(ask("GET /api/board", "", "").status, 200);
    let own_page = "Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
    for call in ["cards/limit/split", "cards/limit/archive", "cards", "pause", "resume-lanes"] {
        let reply = ask(&format!("POST /api/board/{call}"), own_page, "{}");
        assert_eq!((reply.status, reply.json()["code"].as_str()), (403, Some("viewer")), "{call}");
    }
    assert!(house.queued().is_empty());
}

#[test]
fn the_control_socket_is_0600_and_knows_who_asks() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::open();
    let mode = std::fs::metadata(&house.address.control).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = std::fs::metadata(house.state().join("open.token")).unwrap().permissions().mode();
    assert_eq!(token & 0o777, 0o600);
    let body = r#"{"title":"von der Konsole"}"#;
    let reply = house.control(&format!(
        "POST /api/board/cards HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(house.audit().last().unwrap()["source"], "control-socket");
}

#[test]
fn t14_a_half_sent_head_does_not_keep_a_connection() {
    let house = House::open();
    let mut stream = TcpStream::connect(house.tcp()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let mut rest = Vec::new();
    // Ends by itself: a test that waited for ever would run into the timeout and fail.
    stream.read_to_end(&mut rest).unwrap();
    assert!(house.get("/api/board").status == 200);
}

#[test]
fn who_was_accepted_before_a_stop_is_still_answered() {
    let house = House::open();
    let mut stream = TcpStream::connect(house.tcp()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Accepted one after the other: once this one is answered, the first is in the daemon's hands.
    assert_eq!(house.get("/api/board").status, 200);
    house.ask_to_stop();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 "), "{}", String::from_utf8_lossy(&answer));
}

//! The checks before routing (web.md, 5.2): host, identity, and the proof of origin of an unsafe request.
//!
//! Pure over the request's head, so that a table of combinations can test them.
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, Uri, Version, header};
use axum::response::Response;
use board_core::edge::settings::Listen;

use crate::app::App;
use crate::auth::{AuthSource, Identity, Peer, Role};
use crate::reply::{Problem, see_other};

/// What the checks decide.
pub(crate) enum Verdict {
    /// Let through as this identity.
    Go(Identity),
    /// Answered here.
    Answer(Response),
}

/// The names and origins under which a board is right.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// Values of `Host`. One without a port is right with any.
    hosts: Vec<String>,
    /// Origins of our own pages.
    origins: Vec<String>,
}

impl Names {
    /// From the configuration and the address that is really listened on.
    pub(crate) fn new(public_url: Option<&str>, further: &[String], listen: &Listen) -> Names {
        let mut names = Names { hosts: further.to_vec(), origins: Vec::new() };
        if let Some(url) = public_url {
            let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
            names.hosts.push(authority.to_owned());
            names.origins.push(url.to_owned());
        }
        match listen {
            Listen::Tcp(address) if public_url.is_none() => {
                names.hosts.push(address.to_string());
                names.origins.push(format!("http://{address}"));
            }
            Listen::Tcp(_) | Listen::Unix(_) => {}
        }
        names
    }

    /// Whether a value of `Host` is one of ours, exactly.
    pub(crate) fn knows_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|own| {
            own == host
                || (!has_port(own)
                    && host.strip_prefix(own.as_str()).and_then(|rest| rest.strip_prefix(':')).is_some_and(
                        |port| (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit()),
                    ))
        })
    }

    /// The address to say where a wrong one was used.
    pub(crate) fn right_one(&self) -> &str {
        self.origins.first().or_else(|| self.hosts.first()).map_or("", String::as_str)
    }
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(name, port)| {
        !name.is_empty()
            && !port.is_empty()
            && !port.contains(']')
            && port.bytes().all(|b| b.is_ascii_digit())
    })
}

/// All checks, in their order.
///
/// # Errors
/// The first that fails.
pub(crate) fn check(app: &App, peer: Peer, request: &Request<Body>) -> Result<Verdict, Problem> {
    let (headers, method, uri) = (request.headers(), request.method(), request.uri());
    let control = matches!(peer, Peer::Control { .. });
    if !control {
        check_host(&app.names, request.version(), uri, headers)?;
    }
    if method == Method::OPTIONS || method == Method::TRACE || method == Method::CONNECT {
        // No CORS at all, so there is nothing that a preflight could be told.
        return Err(Problem::new(405, "method"));
    }
    let identity = match (peer, &app.auth.token) {
        (Peer::Control { uid }, _) => app.auth.identify_control(uid)?,
        (Peer::Tcp(_) | Peer::Unix { .. }, Some(token)) => {
            let operator = |source| Identity { name: app.own_name.clone(), role: Role::Operator, source };
            if token.in_authorization(headers) {
                operator(AuthSource::Bearer)
            } else if token.in_cookie(headers, app.port) {
                if let Some(clean) = without_token(method, uri) {
                    return Ok(Verdict::Answer(see_other(&clean)));
                }
                operator(AuthSource::Cookie)
            } else if let Some(response) = swap_token(app, method, uri) {
                return Ok(Verdict::Answer(response));
            } else if method == Method::GET && uri.path().starts_with("/assets/") {
                // What the page that asks for the token looks like: nothing in it is secret.
                Identity { name: String::new(), role: Role::Viewer, source: AuthSource::Cookie }
            } else {
                return Err(Problem::new(401, "no-token").detail_key("problem.no-token.detail", &[]));
            }
        }
        (Peer::Tcp(_) | Peer::Unix { .. }, None) => app.auth.identify_proxy(peer, headers)?,
    };
    check_origin(&app.names, method, uri, headers, identity.source)?;
    check_encoding(method, uri, headers)?;
    Ok(Verdict::Go(identity))
}

/// Check 4: exactly one `Host`, exactly one of ours; also the authority of an absolute request line.
fn check_host(names: &Names, version: Version, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let wrong = || {
        Problem::new(421, "misdirected")
            .detail_key("problem.misdirected.detail", &[("address", names.right_one())])
    };
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(wrong()) };
    let known = |host: &str| names.knows_host(host);
    let named = host.to_str().is_ok_and(known);
    let absolute = uri.authority().is_none_or(|authority| known(authority.as_str()));
    if named && absolute && version == Version::HTTP_11 { Ok(()) } else { Err(wrong()) }
}

/// Check 8: an unsafe request comes from one of our own pages, or from what no page can be.
fn check_origin(
    names: &Names,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    source: AuthSource,
) -> Result<(), Problem> {
    let site = only(headers, "sec-fetch-site");
    if is_safe(method) {
        // A stream is read by scripts only; a foreign page has no business with it.
        let stream = uri.path().ends_with("/events");
        let foreign = site.is_some_and(|site| site != Some("same-origin"));
        return if stream && foreign { Err(Problem::new(403, "cross-site").audited()) } else { Ok(()) };
    }
    let own = match (site, only(headers, "origin")) {
        (Some(site), _) => site == Some("same-origin"),
        (None, Some(origin)) => origin.is_some_and(|origin| names.origins.iter().any(|own| own == origin)),
        (None, None) => !source.is_ambient(),
    };
    if own { Ok(()) } else { Err(Problem::new(403, "cross-site").audited()) }
}

/// The kinds of body that are read: JSON by the API, forms by the pages, neither compressed.
fn check_encoding(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(415, "content-encoding"));
    }
    if is_safe(method) {
        return Ok(());
    }
    let wanted = match uri.path().starts_with("/api/") {
        true => "application/json",
        false => "application/x-www-form-urlencoded",
    };
    let empty = !headers.contains_key(header::TRANSFER_ENCODING)
        && headers.get(header::CONTENT_LENGTH).is_none_or(|length| length.as_bytes() == b"0");
    let right = match only(headers, "content-type") {
        Some(Some(kind)) => {
            kind.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(wanted))
        }
        Some(None) => false,
        None => empty,
    };
    if right {
        Ok(())
    } else {
        Err(Problem::new(415, "content-type")
            .detail_key("problem.content-type.detail", &[("wanted", wanted)]))
    }
}

/// The one value of a header: none if absent, `Some(None)` if it is not exactly one readable value.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    Some(if values.next().is_some() { None } else { first.to_str().ok() })
}

fn is_safe(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// The clean address, where the query carries a token.
fn without_token(method: &Method, uri: &Uri) -> Option<String> {
    let query = uri.query()?;
    if !is_safe(method) || !form_urlencoded::parse(query.as_bytes()).any(|(key, _)| key == "token") {
        return None;
    }
    let rest: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .filter(|(key, _)| key != "token")
        .map(|(k, v)| (k.into_owned(), v.into_owned()))
        .collect();
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(rest).finish();
    // A path with two slashes in front would name another host.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    Some(if query.is_empty() { path } else { format!("{path}?{query}") })
}

/// `?token=` against the cookie, and on to the address without it.
fn swap_token(app: &App, method: &Method, uri: &Uri) -> Option<Response> {
    let clean = without_token(method, uri)?;
    let token = app.auth.token.as_ref()?;
    let given =
        form_urlencoded::parse(uri.query()?.as_bytes()).find(|(key, _)| key == "token").map(|(_, v)| v)?;
    if !token.is(&given) {
        return None;
    }
    let mut response = see_other(&clean);
    let cookie = axum::http::HeaderValue::from_str(&token.set_cookie(app.port)).ok()?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let listen = Listen::Tcp("127.0.0.1:8787".parse().unwrap());
        Names::new(
            Some("https://board.example.ts.net"),
            &["board".to_owned(), "intern:9000".to_owned()],
            &listen,
        )
    }

    fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn t8_only_the_exact_names_are_hosts() {
        let names = names();
        for good in ["board.example.ts.net", "board.example.ts.net:443", "board", "board:8787", "intern:9000"]
        {
            assert!(names.knows_host(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "localhost",
            "127.0.0.1",
            "127.0.0.1:8787",
            "[::1]:8787",
            "board.example.ts.net.",
            "BOARD.example.ts.net",
            "board.",
            "board:",
            "board:x",
            "board:123456",
            "intern",
            "intern:9001",
            "board.example.ts.net.evil.example",
            "x@board",
            "board ",
        ] {
            assert!(!names.knows_host(bad), "{bad:?}");
        }
        let open = Names::new(None, &[], &Listen::Tcp("127.0.0.1:8787".parse().unwrap()));
        assert!(open.knows_host("127.0.0.1:8787") && !open.knows_host("localhost:8787"));
        assert!(!open.knows_host("127.0.0.1") && !open.knows_host("127.0.0.1:1"));
    }

    #[test]
    fn t8_no_host_two_hosts_and_another_authority_are_misdirected() {
        let names = names();
        let uri: Uri = "/".parse().unwrap();
        let verdict = |pairs: &[(&'static str, &str)], uri: &Uri| {
            check_host(&names, Version::HTTP_11, uri, &map(pairs)).map_err(|p| p.status)
        };
        assert_eq!(verdict(&[("host", "board")], &uri), Ok(()));
        assert_eq!(verdict(&[], &uri), Err(421));
        assert_eq!(verdict(&[("host", "board"), ("host", "evil.example")], &uri), Err(421));
        assert_eq!(verdict(&[("host", "board")], &"http://evil.example/".parse().unwrap()), Err(421));
        assert_eq!(verdict(&[("host", "board")], &"http://board/".parse().unwrap()), Ok(()));
    }

    #[test]
    fn t10_an_unsafe_request_needs_a_proof_of_origin() {
        let names = names();
        let uri: Uri = "/api/board/cards".parse().unwrap();
        let own = "https://board.example.ts.net";
        // Sec-Fetch-Site, Origin, allowed for a cookie or proxy, allowed for a bearer.
        let table: &[(Option<&str>, Option<&str>, bool, bool)] = &[
            (Some("same-origin"), Some(own), true, true),
            (Some("same-origin"), None, true, true),
            (Some("same-site"), Some(own), false, false),
            (Some("same-site"), None, false, false),
            (Some("cross-site"), Some(own), false, false),
            (Some("cross-site"), None, false, false),
            (Some("none"), None, false, false),
            (Some(""), Some(own), false, false),
            (None, Some(own), true, true),
            (None, Some("https://board.example.ts.net:8443"), false, false),
            (None, Some("http://board.example.ts.net"), false, false),
            (None, Some("null"), false, false),
            (None, None, false, true),
        ];
        for (site, origin, ambient, bearer) in table {
            let mut pairs = Vec::new();
            pairs.extend(site.map(|site| ("sec-fetch-site", site)));
            pairs.extend(origin.map(|origin| ("origin", origin)));
            let allowed = |source| check_origin(&names, &Method::POST, &uri, &map(&pairs), source).is_ok();
            assert_eq!(allowed(AuthSource::Proxy), *ambient, "{pairs:?}");
            assert_eq!(allowed(AuthSource::Cookie), *ambient, "{pairs:?}");
            assert_eq!(allowed(AuthSource::Bearer), *bearer, "{pairs:?}");
        }
        let twice = map(&[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")]);
        assert!(check_origin(&names, &Method::POST, &uri, &twice, AuthSource::Bearer).is_err());
    }

    #[test]
    fn t9_a_body_of_another_kind_is_not_read() {
        let verdict = |path: &str, pairs: &[(&'static str, &str)]| {
            check_encoding(&Method::POST, &path.parse().unwrap(), &map(pairs)).map_err(|p| p.status)
        };
        let api = "/api/board/cards";
        assert_eq!(
            verdict(api, &[("content-type", "application/json; charset=utf-8"), ("content-length", "2")]),
            Ok(())
        );
        assert_eq!(verdict(api, &[]), Ok(()));
        assert_eq!(verdict(api, &[("content-length", "2")]), Err(415));
        assert_eq!(verdict(api, &[("transfer-encoding", "chunked")]), Err(415));
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/jsonp",
            "application/json, text/plain",
        ] {
            assert_eq!(verdict(api, &[("content-type", kind)]), Err(415), "{kind}");
        }
        assert_eq!(verdict("/karten/neu", &[("content-type", "application/x-www-form-urlencoded")]), Ok(()));
        assert_eq!(verdict("/karten/neu", &[("content-type", "text/plain")]), Err(415));
        let zipped = [("content-type", "application/json"), ("content-encoding", "gzip")];
        assert_eq!(verdict(api, &zipped), Err(415));
    }

    #[test]
    fn t12_a_stream_is_not_read_by_a_foreign_page() {
        let names = names();
        let verdict = |site: &str| {
            let headers = map(&[("sec-fetch-site", site)]);
            check_origin(
                &names,
                &Method::GET,
                &"/api/board/events".parse().unwrap(),
                &headers,
                AuthSource::Proxy,
            )
            .is_ok()
        };
        assert!(verdict("same-origin") && !verdict("cross-site") && !verdict("same-site"));
    }

    #[test]
    fn t31_the_clean_address_is_always_one_of_ours() {
        let clean = |uri: &str| without_token(&Method::GET, &uri.parse().unwrap());
        assert_eq!(clean("/?token=x").as_deref(), Some("/"));
        assert_eq!(clean("/karten/a?q=b%20c&token=x").as_deref(), Some("/karten/a?q=b+c"));
        assert_eq!(clean("//evil.example/?token=x").as_deref(), Some("/evil.example/"));
        assert_eq!(clean("/?q=1"), None);
    }
}

//! The ways in: whether the board answers, who is believed, and what else on this host answers an agent.
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use board_core::edge::settings::{AuthMode, Listen, SandboxNetwork, Settings};
use board_core::edge::systemd;

use super::Report;
use crate::control::Control;

/// How long a listener may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Most listeners that are asked.
const MAX_LISTENERS: usize = 64;
/// Where systemd looks for the proxy's secret (board-agent-trigger.service).
const CREDENTIAL: &str = "/etc/credstore/board-agent.proxy-secret";

/// Checks them.
pub(super) fn check(report: &mut Report, settings: &Settings, control: &Control) {
    let what = report.say("Board", "board");
    match control.get("/api/board") {
        Ok(_) => {
            report.good(&what, report.say("antwortet auf dem Steuersocket", "answers on the control socket"));
        }
        Err(error) => report.bad(&what, error.to_string(), ""),
    }
    identity(report, settings);
    listeners(report, settings);
}

fn identity(report: &mut Report, settings: &Settings) {
    let what = report.say("Identität", "identity");
    match settings.auth.mode {
        AuthMode::Open => {
            let found = report.say(
                "Probebetrieb: wer Adresse und Token hat, bedient das Board",
                "trial: whoever has the address and the token operates the board",
            );
            return report.warn(&what, found, "auth.mode = \"proxy\"");
        }
        AuthMode::Oidc => return,
        AuthMode::Proxy => {}
    }
    let file = settings.auth.secret_file.clone().unwrap_or_else(|| CREDENTIAL.into());
    let shown = file.display().to_string();
    match std::fs::metadata(&file) {
        Ok(about) if about.mode() & 0o007 != 0 => {
            let found =
                report.say(format!("{shown} kann jeder lesen"), format!("everybody can read {shown}"));
            report.bad(&what, found, format!("chmod 0600 {shown}"));
        }
        Ok(_) => report.good(&what, report.say("Proxy mit Geheimnis", "proxy with a secret")),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            report.good(
                &what,
                report.say("Proxy mit Geheimnis (nicht einsehbar)", "proxy with a secret (not to be seen)"),
            );
        }
        // By hand, or by another credential: the board answers or it does not.
        Err(_) if settings.auth.secret_file.is_none() && !systemd::is_booted() => {}
        Err(error) => {
            let remedy = report.say(
                "ein Geheimnis von mindestens 16 Zeichen dort ablegen, dasselbe im Proxy",
                "put a secret of at least 16 characters there, the same in the proxy",
            );
            report.bad(&what, format!("{shown}: {error}"), remedy);
        }
    }
    let operators = &settings.auth.operators;
    if operators.users.is_empty() && operators.groups.is_empty() {
        let found = report.say("niemand darf das Board bedienen", "nobody may operate the board");
        report.warn(&what, found, "auth.operators");
    }
    if settings.http.public_url.is_none() {
        let found = report.say(
            "http.public_url fehlt: Aufrufe unter dem Namen des Proxys werden abgelehnt",
            "http.public_url is missing: requests under the proxy's name are refused",
        );
        report.warn(&what, found, "http.public_url = \"https://…\"");
    }
}

/// With the host's network an agent reaches what listens on loopback.
fn listeners(report: &mut Report, settings: &Settings) {
    match settings.sandbox.network {
        SandboxNetwork::Host => {}
        SandboxNetwork::Outside | SandboxNetwork::None => return,
    }
    let what = "loopback";
    let own = match &settings.http.listen {
        Listen::Tcp(address) => Some(address.port()),
        Listen::Unix(_) => None,
    };
    let mut ports = BTreeSet::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        ports.extend(listening(&std::fs::read_to_string(Path::new(file)).unwrap_or_default()));
    }
    ports.retain(|port| Some(*port) != own);
    let open: Vec<String> = ports
        .into_iter()
        .take(MAX_LISTENERS)
        .filter(|port| answers(*port))
        .map(|port| port.to_string())
        .collect();
    if open.is_empty() {
        let found = report.say("nichts antwortet ohne Anmeldung", "nothing answers without a login");
        return report.good(what, found);
    }
    let list = open.join(", ");
    let found = report.say(
        format!("ohne Anmeldung antwortet Port {list}; Agenten erreichen ihn"),
        format!("port {list} answers without a login, and agents reach it"),
    );
    let remedy =
        report.say("absichern, oder sandbox.network = \"none\"", "protect it, or sandbox.network = \"none\"");
    report.warn(what, found, remedy);
}

/// Ports that are listened on at loopback or at every address, by the text of `/proc/net/tcp` or `tcp6`.
fn listening(table: &str) -> BTreeSet<u16> {
    let local =
        ["0100007F", "00000000", "00000000000000000000000000000000", "00000000000000000000000001000000"];
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (address, port) = words.next()?.split_once(':')?;
            // 0A is LISTEN.
            (words.nth(1)? == "0A" && local.contains(&address)).then(|| u16::from_str_radix(port, 16).ok())?
        })
        .collect()
}

/// Whether a port answers a plain request with success.
fn answers(port: u16) -> bool {
    let request = format!("GET / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    status(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), &request)
        .is_some_and(|status| (200..300).contains(&status))
}

/// The status of the answer to a request; none without one.
pub(super) fn status(address: SocketAddr, request: &str) -> Option<u16> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN).ok()?;
    stream.set_read_timeout(Some(ANSWER_WITHIN)).ok()?;
    stream.set_write_timeout(Some(ANSWER_WITHIN)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    let head = std::str::from_utf8(&head).ok()?;
    head.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn listeners_of_this_host_are_read_from_the_kernels_table() {
        let table = "  sl  local_address rem_address   st\n\
             0: 0100007F:2253 00000000:0000 0A 0\n\
             1: 00000000:0016 00000000:0000 0A 0\n\
             2: 0100007F:2254 0100007F:1F90 01 0\n\
             3: 0101A8C0:0050 00000000:0000 0A 0\n";
        assert_eq!(listening(table), BTreeSet::from([0x2253, 22]));
    }

    #[test]
    fn a_listener_that_answers_is_told_from_one_that_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for answer in
                ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 401 Unauthorized\r\n\r\n", "SSH-2.0-OpenSSH\r\n"]
            {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 512];
                let _ = stream.read(&mut request);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        assert_eq!([(); 3].map(|()| answers(address.port())), [true, false, false]);
        server.join().unwrap();
    }
}

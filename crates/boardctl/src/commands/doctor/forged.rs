//! `boardctl doctor auth`: requests that pretend to be somebody, sent to the board of this host. Each must be refused.
use std::net::SocketAddr;

use board_core::edge::settings::{AuthMode, Listen, Settings};

use super::Report;
use super::ways::status;

/// A request and what it pretends.
struct Forged {
    de: &'static str,
    en: &'static str,
    method: &'static str,
    path: &'static str,
    host: Option<&'static str>,
    headers: Vec<(String, String)>,
}

/// Sends them.
pub(super) fn check(report: &mut Report, settings: &Settings) {
    let Listen::Tcp(address) = settings.http.listen else {
        let found = report.say(
            "das Board lauscht auf einem Unix-Socket; wer ihn öffnen darf, sagt das Dateisystem",
            "the board listens on a unix socket; who may open it is the file system's to say",
        );
        return report.good("auth", found);
    };
    for forged in requests(settings) {
        let what = report.say(forged.de, forged.en);
        match status(address, &forged.text(address)) {
            Some(status) if (400..500).contains(&status) => report.good(&what, status.to_string()),
            Some(status) => {
                let remedy = report.say(
                    "das Board sofort anhalten (systemctl stop board-agent.target) und die Konfiguration prüfen",
                    "stop the board at once (systemctl stop board-agent.target) and check its configuration",
                );
                report.bad(&what, status.to_string(), remedy);
            }
            None => {
                let found =
                    report.say(format!("{address} antwortet nicht"), format!("{address} does not answer"));
                return report.bad(&what, found, "systemctl start board-agent.target");
            }
        }
    }
}

fn requests(settings: &Settings) -> Vec<Forged> {
    let user = settings.auth.operators.users.first().cloned().unwrap_or_else(|| "root".to_owned());
    let named = |secret: Option<&str>| {
        let mut headers = vec![(settings.auth.user_header.clone(), user.clone())];
        headers.extend(secret.map(|secret| ("X-Board-Proxy-Secret".to_owned(), secret.to_owned())));
        headers
    };
    let get = |de, en, headers| Forged { de, en, method: "GET", path: "/api/board", host: None, headers };
    let mut all = vec![
        get("ohne Anmeldung", "without a login", Vec::new()),
        get("Name ohne Geheimnis", "a name without the secret", named(None)),
        get("Name mit falschem Geheimnis", "a name with a wrong secret", named(Some("falsch-falsch-falsch"))),
        Forged {
            host: Some("evil.example"),
            ..get("unter fremdem Namen", "under a foreign name", named(None))
        },
        Forged {
            method: "POST",
            path: "/api/board/cards/x/move",
            ..get(
                "Klick von einer fremden Seite",
                "a click from a foreign page",
                vec![("Origin".to_owned(), "https://evil.example".to_owned())],
            )
        },
    ];
    if settings.auth.mode == AuthMode::Open {
        // The token is the secret there.
        all.push(Forged {
            path: "/?token=falsch",
            ..get("mit falschem Token", "with a wrong token", Vec::new())
        });
    }
    all
}

impl Forged {
    fn text(&self, address: SocketAddr) -> String {
        let host = self.host.map_or_else(|| address.to_string(), str::to_owned);
        let mut text =
            format!("{} {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.method == "POST" {
            text.push_str("Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
        } else {
            text.push_str("\r\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use board_core::edge::settings::DirectoryCheck;

    use super::*;

    #[test]
    fn forged_requests_name_an_operator_and_a_foreign_host() {
        let text = include_str!("../../../../../docs/config.example.toml");
        let settings = Settings::load_from_str(Path::new("/etc/x.toml"), text, DirectoryCheck::Skip).unwrap();
        let address: SocketAddr = "127.0.0.1:8787".parse().unwrap();
        let texts: Vec<String> = requests(&settings).iter().map(|forged| forged.text(address)).collect();
        assert!(texts[1].contains("X-Auth-Request-Preferred-Username: operator\r\n"), "{}", texts[1]);
        assert!(texts.iter().any(|text| text.contains("Host: evil.example\r\n")));
        assert!(texts.iter().all(|text| text.contains("\r\n\r\n")));
    }
}

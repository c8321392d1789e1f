//! Single values: what a path, an address, a name or a time must look like.
//!
//! Each is a function from text to a value or a [`Refusal`], and knows neither keys nor sections.
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Component, PathBuf};
use std::time::Duration;

use super::reader::{Refusal, refusal};
use super::{Listen, TrustedPeer, units};

/// The most that a text may have, in bytes.
const MAX_TEXT: usize = 4096;
const MIN_TIME: Duration = Duration::from_secs(1);
const MAX_TIME: Duration = Duration::from_secs(7 * 86_400);
const MIN_DISK: u64 = 1 << 20;
const MAX_DISK: u64 = 1 << 50;

/// Any text of one or more characters that are not control characters.
pub(super) fn text(text: &str) -> Result<String, Refusal> {
    if text.is_empty() {
        return Err(refusal("is empty", "write something or remove the key"));
    }
    if text.len() > MAX_TEXT {
        return Err(refusal(format!("has {} bytes", text.len()), format!("write at most {MAX_TEXT}")));
    }
    if text.chars().any(char::is_control) {
        return Err(refusal(format!("{text:?} has a control character"), "remove it"));
    }
    Ok(text.to_owned())
}

/// A text without spaces.
pub(super) fn word(word: &str) -> Result<String, Refusal> {
    let word = text(word)?;
    if word.contains(char::is_whitespace) {
        return Err(refusal(format!("{word:?} has a space"), "write one word"));
    }
    Ok(word)
}

pub(super) fn absolute(path: &str) -> Result<PathBuf, Refusal> {
    let path = PathBuf::from(text(path)?);
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !plain {
        return Err(refusal(
            format!("{} is no absolute path", path.display()),
            "write the whole path from / on, without ..",
        ));
    }
    Ok(path)
}

pub(super) fn relative(path: &str) -> Result<PathBuf, Refusal> {
    let path = PathBuf::from(text(path)?);
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(refusal(
            format!("{} leads out of its directory", path.display()),
            "write a path below it, without / at the start and without ..",
        ));
    }
    Ok(path)
}

/// A name for `PATH` or an absolute path; `./agent` would depend on where a daemon was started.
pub(super) fn program(name: &str) -> Result<String, Refusal> {
    let name = text(name)?;
    if name.contains('/') && !name.starts_with('/') {
        return Err(refusal(format!("{name} is a relative path"), "write its name alone or the whole path"));
    }
    Ok(name)
}

pub(super) fn branch(name: &str) -> Result<String, Refusal> {
    let name = word(name)?;
    let bad = name.starts_with(['-', '/', '.'])
        || name.ends_with(['/', '.'])
        || name.ends_with(".lock")
        || ["..", "//", "@{", "/."].iter().any(|part| name.contains(part))
        || name.contains(['~', '^', ':', '?', '*', '[', '\\']);
    if bad || name.starts_with("refs/") {
        return Err(refusal(format!("{name:?} is no name of a branch"), "write it as git branch shows it"));
    }
    Ok(name)
}

pub(super) fn time_zone(name: &str) -> Result<String, Refusal> {
    let name = word(name)?;
    // A build sandbox may have no time zones at all; there the name is taken as it is.
    if !jiff::tz::db().is_definitively_empty() && jiff::tz::TimeZone::get(&name).is_err() {
        return Err(refusal(
            format!("{name:?} is no time zone that this host knows"),
            "write a name such as \"Europe/Berlin\" or \"UTC\"",
        ));
    }
    Ok(name)
}

pub(super) fn socket_address(text: &str) -> Result<SocketAddr, Refusal> {
    text.parse().map_err(|_| {
        refusal(format!("{text:?} is no address"), "write an IP address and a port, as in \"127.0.0.1:9187\"")
    })
}

pub(super) fn listen(text: &str) -> Result<Listen, Refusal> {
    if let Some(path) = text.strip_prefix("unix:") {
        return absolute(path).map(Listen::Unix);
    }
    text.parse().map(Listen::Tcp).map_err(|_| {
        refusal(
            format!("{text:?} is no address"),
            "write \"127.0.0.1:8787\" or \"unix:/run/board-agent/http.sock\"",
        )
    })
}

pub(super) fn public_url(url: &str) -> Result<String, Refusal> {
    let origin = url.strip_suffix('/').unwrap_or(url);
    let host_part = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    match host_part {
        Some(part) if host(part).is_ok() => Ok(origin.to_owned()),
        Some(_) | None => Err(refusal(
            format!("{url:?} is not scheme and host"),
            "write it as the browser shows it, without a path, as in \"https://board.example.org\"",
        )),
    }
}

/// A name as it stands in `Host`: letters, digits, dots, hyphens, or an address in brackets, and a port.
pub(super) fn host(name: &str) -> Result<String, Refusal> {
    let (bare, port) = match name.rsplit_once(':') {
        Some((bare, port)) if !port.contains(']') => (bare, Some(port)),
        Some(_) | None => (name, None),
    };
    let port_right = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let bracketed = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let bare_right = match bracketed {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            !bare.is_empty()
                && bare.len() <= 253
                && bare.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
        }
    };
    if !port_right || !bare_right {
        return Err(refusal(format!("{name:?} is no host name"), "write a name as in \"board.example.org\""));
    }
    Ok(name.to_owned())
}

pub(super) fn header_name(name: &str) -> Result<String, Refusal> {
    let right = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if !right {
        return Err(refusal(
            format!("{name:?} is no name of a header"),
            "write letters, digits and hyphens, as in \"X-Auth-Request-Email\"",
        ));
    }
    Ok(name.to_owned())
}

pub(super) fn trusted_peer(peer: &str) -> Result<TrustedPeer, Refusal> {
    match peer.parse::<IpAddr>() {
        Ok(address) => Ok(TrustedPeer::Ip(address)),
        Err(_) if peer.contains(['.', ':', '/']) => Err(refusal(
            format!("{peer:?} is neither an IP address nor a user"),
            "write one address (no network) for TCP, or a user's name or number for a unix socket",
        )),
        Err(_) => word(peer).map(TrustedPeer::User),
    }
}

/// A user or a group as a proxy sends it in one header (web.md 5.2): at most 256 bytes, no comma.
pub(super) fn identity(name: &str) -> Result<String, Refusal> {
    const MAX_IDENTITY: usize = 256;
    let name = text(name)?;
    if name.len() > MAX_IDENTITY || name.contains(',') || name.trim() != name {
        return Err(refusal(
            format!("{name:?} cannot be a user or a group"),
            "write it without a comma and without spaces around it, in at most 256 bytes",
        ));
    }
    Ok(name)
}

/// What git would take out of an identity by itself is refused, so that commits show what is written.
pub(super) fn git_identity(value: &str) -> Result<String, Refusal> {
    let value = text(value)?;
    if value.contains(['<', '>']) || value.trim() != value {
        return Err(refusal(
            format!("{value:?} cannot stand in a commit"),
            "write it without <, > and outer spaces",
        ));
    }
    Ok(value)
}

pub(super) fn time(text: &str) -> Result<Duration, Refusal> {
    units::duration(text).filter(|time| (MIN_TIME..=MAX_TIME).contains(time)).ok_or_else(|| {
        refusal(
            format!(
                "{text:?} is no time from {} to {}",
                units::show_duration(MIN_TIME),
                units::show_duration(MAX_TIME)
            ),
            "write it as in \"2h\", \"10m\" or \"90s\"",
        )
    })
}

pub(super) fn disk(text: &str) -> Result<u64, Refusal> {
    units::size(text).filter(|size| (MIN_DISK..=MAX_DISK).contains(size)).ok_or_else(|| {
        refusal(
            format!(
                "{text:?} is no size from {} to {}",
                units::show_size(MIN_DISK),
                units::show_size(MAX_DISK)
            ),
            "write it as in \"20GiB\" or \"512MiB\"",
        )
    })
}

pub(super) fn variable(name: &str) -> Result<(), Refusal> {
    let right = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if right {
        Ok(())
    } else {
        Err(refusal(format!("{name:?} is no name of a variable"), "write letters, digits and _"))
    }
}

/// `BOARD_*` is what the worker says to the agent.
pub(super) fn environment(name: &str, value: &str) -> Result<String, Refusal> {
    variable(name)?;
    if name.starts_with("BOARD_") {
        return Err(refusal("BOARD_* is set by the worker itself", "use another name"));
    }
    if value.is_empty() { Ok(String::new()) } else { text(value) }
}

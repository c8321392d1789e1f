//! Whether systemd runs what it should, and lets each unit do what it must.
use std::collections::BTreeMap;

use board_core::edge::settings::{Listen, Settings};
use board_core::edge::systemd::{
    self, BACKLOG_TIMER, SWEEP_TIMER, Systemctl, TARGET, TRIGGER, TRIGGER_SOCKET, Unit, WATCHER,
};
use board_core::model::job::Lane;

use super::Report;
use crate::commands::drop_ins;
use crate::commands::slots;

/// inotify instances that PID 1 needs for itself and for other units; measured are about a dozen.
const SPARE_INOTIFY: u64 = 32;
/// What a path unit of ours costs.
const INOTIFY_OF_A_SLOT: u64 = 2;

/// Checks the units.
pub(super) fn check(report: &mut Report, settings: &Settings) {
    if !systemd::is_booted() {
        let found = report.say(
            "dieser Rechner ist nicht mit systemd gestartet; `boardctl dev` steht für die Units ein",
            "this host was not booted with systemd; `boardctl dev` stands in for the units",
        );
        return report.good("systemd", found);
    }
    let systemctl = Systemctl::default();
    let daemons =
        match systemctl.units(&[TARGET, TRIGGER_SOCKET, TRIGGER, WATCHER, SWEEP_TIMER, BACKLOG_TIMER]) {
            Ok(units) => units,
            Err(error) => {
                let remedy = report
                    .say("als root aufrufen, oder dbus installieren", "call it as root, or install dbus");
                return report.bad("systemd", error.to_string(), remedy);
            }
        };
    if daemons.iter().any(|unit| unit.id == TARGET && unit.load == "not-found") {
        let found = report.say("die Units sind nicht installiert", "the units are not installed");
        let remedy = report
            .say("das Paket installieren, oder `boardctl dev`", "install the package, or `boardctl dev`");
        return report.warn("systemd", found, remedy);
    }
    for unit in &daemons {
        daemon(report, unit);
    }
    match slots::path_units(&systemctl) {
        Ok(paths) => {
            masked(report, &systemctl, &paths);
            lanes(report, settings, &paths);
        }
        Err(error) => report.bad("systemd", error.to_string(), ""),
    }
    host_settings(report, settings, &systemctl);
}

fn daemon(report: &mut Report, unit: &Unit) {
    let remedy = if unit.id == TARGET {
        format!("systemctl enable --now {TARGET}")
    } else {
        format!("systemctl start {0}; journalctl -u {0}", unit.id)
    };
    let state = format!("{} ({})", unit.active, unit.result);
    if unit.is_masked() {
        report.bad(&unit.id, "masked", format!("systemctl unmask {}", unit.id));
    } else if unit.is_failed() {
        report.bad(&unit.id, state, format!("journalctl -u {0}; systemctl restart {0}", unit.id));
    } else if !unit.is_active() {
        report.bad(&unit.id, unit.active.clone(), remedy);
    } else if unit.id == TARGET && unit.file != "enabled" {
        let found = report.say("läuft, startet aber nicht von selbst", "runs, but does not start by itself");
        report.warn(&unit.id, found, format!("systemctl enable {TARGET}"));
    } else {
        report.good(&unit.id, unit.active.clone());
    }
}

/// A masked worker fails its path unit as soon as a job comes.
fn masked(report: &mut Report, systemctl: &Systemctl, paths: &[Unit]) {
    let slots = paths.iter().filter_map(|unit| systemd::slot_of(&unit.id));
    let services: Vec<String> = slots.map(|(lane, slot)| systemd::slot_service(lane, slot)).collect();
    if services.is_empty() {
        return;
    }
    let names: Vec<&str> = services.iter().map(String::as_str).collect();
    for unit in systemctl.units(&names).unwrap_or_default().iter().filter(|unit| unit.is_masked()) {
        report.bad(&unit.id, "masked", format!("systemctl unmask {}", unit.id));
    }
}

/// The path units of each lane, and the slots that the configuration speaks of.
fn lanes(report: &mut Report, settings: &Settings, paths: &[Unit]) {
    let mut of_lane: BTreeMap<Lane, Vec<&Unit>> = BTreeMap::new();
    for unit in paths {
        if let Some((lane, _)) = systemd::slot_of(&unit.id) {
            of_lane.entry(lane).or_default().push(unit);
        }
    }
    for lane in Lane::ALL {
        let what = report.say(format!("Plätze {}", lane.id()), format!("slots {}", lane.id()));
        let units = of_lane.remove(&lane).unwrap_or_default();
        let external = lane == Lane::Build && settings.builder.is_some();
        let active = units.iter().filter(|unit| unit.is_active()).count();
        for unit in units.iter().filter(|unit| !unit.is_active()) {
            let found = format!("{}: {} ({})", unit.id, unit.active, unit.result);
            let remedy = format!("systemctl reset-failed {0}; systemctl start {0}", unit.id);
            report.bad(&what, found, remedy);
        }
        let wanted = usize::try_from(settings.slots.of(lane)).unwrap_or(usize::MAX);
        if external {
            report.good(&what, report.say("ein anderer Dienst baut", "another service builds"));
        } else if active == 0 {
            let remedy = format!("systemctl enable --now {}", systemd::slot_path(lane, 1));
            let found = report
                .say("keiner; Aufträge dieser Spur bleiben liegen", "none; jobs of this lane are left lying");
            report.bad(&what, found, remedy);
        } else if active != wanted {
            let found = report.say(
                format!("{active} aktiv, in der Konfiguration {wanted}; es zählt, was aktiv ist"),
                format!("{active} active, {wanted} in the configuration; what is active counts"),
            );
            let remedy = report.say(
                format!("slots.{} anpassen, oder Instanzen mit systemctl enable/disable --now", lane.id()),
                format!("change slots.{}, or instances by systemctl enable/disable --now", lane.id()),
            );
            report.warn(&what, found, remedy);
        } else {
            report.good(&what, report.say(format!("{active} aktiv"), format!("{active} active")));
        }
    }
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let needed = INOTIFY_OF_A_SLOT * paths.len() as u64 + SPARE_INOTIFY;
    if let Some(limit) = read("max_user_instances").filter(|limit| *limit < needed) {
        let found = report.say(
            format!("{limit} Instanzen für PID 1, gebraucht werden etwa {needed}"),
            format!("{limit} instances for PID 1, about {needed} are needed"),
        );
        report.warn("inotify", found, "sysctl fs.inotify.max_user_instances=512");
    }
}

/// What depends on the configuration and stands in drop-ins.
fn host_settings(report: &mut Report, settings: &Settings, systemctl: &Systemctl) {
    let what = report.say("Rechte der Units", "what units may do");
    let mut missing = Vec::new();
    match drop_ins::needed(settings) {
        Ok(needed) => {
            for drop_in in &needed {
                let unit = drop_in.unit.replace("@.", "@1.");
                for (key, value) in drop_in.text.lines().filter_map(|line| line.split_once('=')) {
                    let Some(property) = drop_ins::property_of(key) else { continue };
                    let answer = systemctl.property(&unit, property);
                    if value.is_empty() || answer.is_ok_and(|answer| drop_ins::is_said(&answer, value)) {
                        continue;
                    }
                    missing.push(format!("{}: {key}={value}", drop_in.unit));
                }
            }
        }
        Err(error) => return report.bad(&what, format!("{error:#}"), ""),
    }
    if missing.is_empty() {
        report.good(&what, report.say("passend zur Konfiguration", "as the configuration needs it"));
    } else {
        let list = missing.join("; ");
        let found = report.say(format!("es fehlt {list}"), format!("missing: {list}"));
        report.bad(&what, found, "boardctl drop-ins --install");
    }
    if let Listen::Tcp(address) = &settings.http.listen
        && let Ok(listens) = systemctl.property(TRIGGER_SOCKET, "Listen")
        && !listens.contains(&address.to_string())
    {
        let found = report.say(
            format!("der Socket lauscht anderswo als http.listen ({address})"),
            format!("the socket listens elsewhere than http.listen ({address})"),
        );
        let remedy = format!("boardctl drop-ins --install; systemctl restart {TRIGGER_SOCKET}");
        report.warn(TRIGGER_SOCKET, found, remedy);
    }
}

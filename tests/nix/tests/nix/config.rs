//! What the module renders, against the programs that read it.

use std::path::Path;
use std::process::Command;

use nix_tests::Host;
use nix_tests::tree::directives;

use crate::{hosts, program, said};

fn write_config(host: &Host, dir: &Path) -> std::path::PathBuf {
    let file = dir.join("config.toml");
    std::fs::write(&file, host.config().unwrap()).unwrap();
    file
}

pub(crate) fn check(host: &Host) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = write_config(host, dir.path());
    said(Command::new(program("boardctl")).arg("--config").arg(file).args([
        "check-config",
        "--elsewhere",
        "--language",
        "en",
    ]))
}

#[test]
fn check_config_accepts_the_settings_of_every_host() {
    for (name, host) in hosts() {
        let (good, said) = check(&host);
        assert!(good, "{name}: {said}\n{}", host.config().unwrap());
    }
}

#[test]
fn a_setting_that_the_types_do_not_know_is_refused_by_check_config_when_the_host_is_built() {
    let wrong = |setting: &str| {
        Host::of(&format!(
            "{{ services.board-agent = {{ enable = true; repository = \"/srv/repo\"; settings.{setting}; }}; }}"
        ))
        .unwrap()
    };
    for (setting, key) in [
        ("board.langauge = \"de\"", "board.langauge"),
        ("roles.builder.profile = \"gone\"", "roles.builder.profile"),
        ("limits.wall_time = \"long\"", "limits.wall_time"),
    ] {
        let host = wrong(setting);
        let (good, said) = check(&host);
        assert!(!good && said.contains(key), "{setting}: {said}");
        // The same command is what the build of the host runs.
        let build = host.value["check"].as_str().unwrap();
        assert!(build.contains("/bin/boardctl --config "), "{build}");
        assert!(build.contains(" check-config --elsewhere\n"), "{build}");
    }
    assert_eq!(Host::named("everything").value["check"], "", "checkConfig = false");
}

/// Each line that `boardctl drop-ins` asks for on a host is there, so `boardctl doctor` has nothing to mend, and the two
/// ways of installing the units cannot drift.
#[test]
fn the_module_says_to_each_unit_what_boardctl_drop_ins_would() {
    for (name, host) in hosts() {
        let dir = tempfile::tempdir().unwrap();
        let file = write_config(&host, dir.path());
        let mut command = Command::new(program("boardctl"));
        let (good, wanted) = said(command.arg("--config").arg(file).arg("drop-ins"));
        assert!(good, "{name}: {wanted}");
        let mut compared = 0;
        for part in wanted.split("# /etc/systemd/system/").skip(1) {
            let (unit, text) = part.split_once(".d/").unwrap();
            // What the module says to path units it says to each slot.
            let slot = if unit.ends_with("@.path") { unit.replace("@.", "@1.") } else { unit.to_owned() };
            if host.value["settings"]["slots"]["build"] == 0 && slot.contains("build") {
                continue;
            }
            let told = directives(&host.unit(&slot));
            for directive in directives(text) {
                assert!(told.contains(&directive), "{name}: {unit} lacks {directive:?}; it has {told:?}");
                compared += 1;
            }
        }
        assert!(compared >= 8, "{name}: {wanted}");
    }
}

#[test]
fn what_has_an_option_of_its_own_is_set_from_it_and_can_be_set_otherwise() {
    let host = Host::named("unix-socket");
    assert_eq!(host.value["settings"]["http"]["listen"], "unix:/run/board-agent/http.sock");
    let host = Host::named("everything");
    let settings = &host.value["settings"];
    assert_eq!(settings["limits"]["wall_time"], "4h");
    assert_eq!(settings["board"]["timezone"], "Europe/Vienna");
    assert_eq!(settings["slots"], serde_json::json!({ "draft": 1, "read": 3, "build": 4 }));
    assert_eq!(settings["board"]["allow_filters"], true, "a key without a type goes through");
    let host = Host::named("external-builder");
    assert_eq!(host.value["settings"]["slots"]["build"], 0);
    assert_eq!(host.value["settings"]["builder"]["user"], "agent-codex");
    let own = "{ services.board-agent = { enable = true; repository = \"/srv/repo\"; \
               settings.board.timezone = \"UTC\"; }; time.timeZone = \"Europe/Vienna\"; }";
    assert_eq!(Host::of(own).unwrap().value["settings"]["board"]["timezone"], "UTC");
}

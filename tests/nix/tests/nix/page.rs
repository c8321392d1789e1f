//! `docs/nixos.md`: what a new user copies evaluates, and the programs take it.

use nix_tests::{Host, page};

use crate::config::check;

/// The examples that make a host together, as the page says.
const HOSTS: [&[&str]; 8] = [
    &["board.nix"],
    &["board.nix", "login.nix"],
    &["shared.nix", "builder.nix"],
    &["shared.nix"],
    &["board.nix", "nix.nix"],
    &["board.nix", "key.nix"],
    &["shared.nix", "nginx.nix"],
    &["shared.nix", "caddy.nix"],
];

#[test]
fn every_example_makes_a_host_without_a_warning_that_check_config_accepts() {
    let mut left: Vec<String> = page::examples().into_keys().collect();
    for names in HOSTS {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::of(&page::host_of(names, dir.path()).unwrap());
        let host = host.unwrap_or_else(|error| panic!("{names:?}: {error:#}"));
        assert_eq!((host.refused(), host.warnings()), (vec![], vec![]), "{names:?}");
        let (good, said) = check(&host);
        assert!(good, "{names:?}: {said}");
        left.retain(|name| !names.contains(&name.as_str()));
    }
    assert_eq!(left, ["flake.nix"], "an example that no host is made of");
}

#[test]
fn the_flake_of_the_page_is_the_host_of_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let by_flake = Host::of(&page::host_of_the_flake(dir.path()).unwrap()).unwrap();
    let by_hand = Host::of(&page::host_of(&["board.nix"], dir.path()).unwrap()).unwrap();
    assert_eq!(by_flake.value, by_hand.value);
}

#[test]
fn no_example_has_a_secret_in_it() {
    for (name, text) in page::examples() {
        for line in text
            .lines()
            .filter(|line| line.contains("ecret") && line.contains('=') && !line.trim().starts_with('#'))
        {
            let is_kept = [
                "/var/lib/secrets/",
                "/var/lib/board-nginx/",
                "env `",
                "$board_secret",
                "{$BOARD_PROXY_SECRET}",
            ];
            assert!(is_kept.iter().any(|way| line.contains(way)), "{name}: {line}");
        }
    }
}

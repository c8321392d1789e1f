//! What `boardctl doctor` finds of the real codex.

use agents_tests::codex::Wish;
use agents_tests::{Codex, Reply};
use board_core::edge::settings::Settings;
use board_worker::check::{Login, check};

#[test]
fn codex_is_found_with_its_version_its_login_and_a_sandbox_that_holds_within_ours() {
    let codex = Codex::new(Wish::default(), |_| Reply::Cut).unwrap();
    let settings = Settings::load(&codex.world.config()).unwrap();
    let found = check(&settings, "codex", &settings.runtimes["codex"]);
    assert_eq!(found.program, Ok(codex.world.path("agent/node_modules/.bin/codex")));
    assert!(found.version.clone().unwrap().unwrap().starts_with("codex-cli "), "{found:?}");
    assert!(matches!(found.login, Login::Missing(_)), "{found:?}");
    assert_eq!(found.own_sandbox, Some(Ok(())), "{found:?}");
    assert!(codex.standin.requests().is_empty(), "nothing was asked of a model");
}

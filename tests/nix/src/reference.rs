//! `docs/options.md`: every option of the module, from its declaration.

use std::fmt::Write as _;

use serde_json::Value;

use crate::eval;

/// The page, relative to the top.
pub const PAGE: &str = "docs/options.md";

const HEAD: &str = "\
# The options of the NixOS module

Generated from `nixos-module.nix` by `cargo run -p nix-tests --example options > docs/options.md`; a test compares.
[nixos.md](nixos.md) goes from nothing to a running board. Keys of `settings` without an option of their own go into the
configuration file as they are ([config.example.toml](config.example.toml)); a key without a value is left out, and the
programs' default holds.
";

/// The text of the page.
///
/// # Errors
/// What Nix says, if the module does not evaluate.
pub fn page() -> anyhow::Result<String> {
    let mut text = HEAD.to_owned();
    for option in options()? {
        let of = |name: &str| option[name].as_str().unwrap_or_default().trim().to_owned();
        let _ = write!(text, "\n## `{}`\n\n{}\n\n", of("name"), of("description"));
        let _ = writeln!(text, "- type: {}", of("type"));
        match option["default"].as_str() {
            Some(default) => {
                let _ = writeln!(text, "- default: {}", code(default));
            }
            None => text.push_str("- required\n"),
        }
        if option["example"].is_string() {
            let _ = writeln!(text, "- example: {}", code(&of("example")));
        }
    }
    Ok(text)
}

/// The options as data.
///
/// # Errors
/// What Nix says, if the module does not evaluate.
pub fn options() -> anyhow::Result<Vec<Value>> {
    let value = eval::value(&eval::file("options.nix"), None)?;
    Ok(value.as_array().cloned().unwrap_or_default())
}

fn code(text: &str) -> String {
    let one_line: Vec<&str> = text.lines().map(str::trim).collect();
    format!("`{}`", one_line.join(" ").trim())
}

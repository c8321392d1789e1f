//! ARCHITECTURE.md is a map; a map that shows another country is worse than none.

use std::collections::BTreeSet;

use crate::tree::{Finding, Tracked};

const MAP: &str = "ARCHITECTURE.md";

/// The layers of board-core, whose modules the map lists one by one.
const LAYERS: &[&str] = &["model", "edge"];

/// The map lists every crate of the workspace and every module of the two layers of board-core, and nothing
/// that is not there.
pub(crate) fn the_map_shows_the_tree(files: &[Tracked]) -> Vec<Finding> {
    let Some(map) = files.iter().find(|file| file.path == MAP) else {
        return vec![Finding::new(MAP, 0, "is missing")];
    };
    let drawn: BTreeSet<&str> = map.text.lines().filter_map(first_cell).collect();
    let there: BTreeSet<String> = files.iter().filter_map(|file| entry(&file.path)).collect();
    let is_entry = |name: &str| {
        name.starts_with("crates/") || LAYERS.iter().any(|layer| name.starts_with(&format!("{layer}::")))
    };
    let absent = there.iter().filter(|name| !drawn.contains(name.as_str()));
    let strange = drawn.iter().filter(|name| is_entry(name) && !there.contains(**name));
    absent
        .map(|name| Finding::new(MAP, 0, format!("does not list `{name}`")))
        .chain(strange.map(|name| Finding::new(MAP, 0, format!("lists `{name}`, which is not there"))))
        .collect()
}

/// The name in backticks at the beginning of a row of a table.
fn first_cell(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name)
}

/// What a file stands for on the map: its crate, or its module of board-core.
fn entry(path: &str) -> Option<String> {
    let rest = path.strip_prefix("crates/")?;
    if let Some(name) = rest.strip_suffix("/Cargo.toml") {
        return Some(format!("crates/{name}"));
    }
    let (layer, module) = rest.strip_prefix("board-core/src/")?.split_once('/')?;
    let name = module.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (LAYERS.contains(&layer) && name != "mod").then(|| format!("{layer}::{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(map: &str) -> Vec<Tracked> {
        let file = |path: &str, text: &str| Tracked { path: path.to_owned(), text: text.to_owned() };
        vec![
            file(MAP, map),
            file("crates/board-core/Cargo.toml", ""),
            file("crates/board-core/src/model/mod.rs", ""),
            file("crates/board-core/src/model/card.rs", ""),
            file("crates/board-core/src/edge/queue/mod.rs", ""),
            file("crates/board-core/src/edge/queue/claim.rs", ""),
        ]
    }

    const RIGHT: &str =
        "| `crates/board-core` | the core |\n| `model::card` | a card |\n| `edge::queue` | the queue |\n";

    #[test]
    fn a_map_that_shows_the_tree_is_right() {
        assert_eq!(the_map_shows_the_tree(&tree(RIGHT)), []);
    }

    #[test]
    fn a_module_that_the_map_lacks_is_found() {
        assert_eq!(the_map_shows_the_tree(&tree(&RIGHT.replace("`model::card`", "card"))).len(), 1);
    }

    #[test]
    fn a_module_that_is_not_there_is_found() {
        assert_eq!(the_map_shows_the_tree(&tree(&format!("{RIGHT}| `edge::gone` | was |\n"))).len(), 1);
        assert_eq!(the_map_shows_the_tree(&tree(RIGHT)[1..]).len(), 1, "no map at all");
    }
}

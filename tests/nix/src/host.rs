//! One host: what the module makes of its configuration.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::eval;

/// A unit, or what is added to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its text.
    pub text: String,
    /// Whether it is a drop-in whatever is there, as for an instance of a template.
    pub is_drop_in: bool,
    /// The targets that want it.
    pub wanted_by: Vec<String>,
}

/// An evaluated host.
#[derive(Debug, Clone)]
pub struct Host {
    /// All that `eval.nix` answers.
    pub value: Value,
}

impl Host {
    /// Evaluates a file that is a module.
    ///
    /// # Errors
    /// What Nix says, if it does not evaluate.
    pub fn read(file: &Path) -> anyhow::Result<Host> {
        Host::of(&file.display().to_string())
    }

    /// Evaluates a module that is given as Nix.
    ///
    /// # Errors
    /// What Nix says, if it does not evaluate.
    pub fn of(module: &str) -> anyhow::Result<Host> {
        Ok(Host { value: eval::value(&eval::file("eval.nix"), Some(("host", module)))? })
    }

    /// The one of these names below `hosts/`.
    ///
    /// # Panics
    /// If it does not evaluate, or is refused.
    pub fn named(name: &str) -> Host {
        let host = Host::read(&eval::file(&format!("hosts/{name}.nix")));
        let host = host.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        assert_eq!(host.refused(), [""; 0], "{name}");
        host
    }

    /// What its assertions say.
    pub fn refused(&self) -> Vec<&str> {
        texts(&self.value["refused"])
    }

    /// Its warnings.
    pub fn warnings(&self) -> Vec<&str> {
        texts(&self.value["warnings"])
    }

    /// Its units by name.
    pub fn units(&self) -> BTreeMap<String, Unit> {
        let units = self.value["units"].as_object().into_iter().flatten();
        let unit = |unit: &Value| Unit {
            text: unit["text"].as_str().unwrap_or_default().to_owned(),
            is_drop_in: unit["overrideStrategy"] == "asDropin",
            wanted_by: texts(&unit["wantedBy"]).into_iter().map(str::to_owned).collect(),
        };
        units.map(|(name, value)| (name.clone(), unit(value))).collect()
    }

    /// The text of one unit; empty if nothing is said of it.
    pub fn unit(&self, name: &str) -> String {
        self.units().get(name).map(|unit| unit.text.clone()).unwrap_or_default()
    }

    /// The configuration file.
    ///
    /// # Errors
    /// If a setting is nothing that TOML can hold.
    pub fn config(&self) -> anyhow::Result<String> {
        toml::to_string(&self.value["settings"]).context("the settings as TOML")
    }

    /// Every package that a unit names, by its path in the store.
    pub fn store_paths(&self) -> Vec<String> {
        let units = self.units();
        let mut found: Vec<String> = Vec::new();
        for text in units.values().map(|unit| &unit.text) {
            for part in text.split("/nix/store/").skip(1) {
                let name: String = part.chars().take_while(|letter| !"/: \"\n".contains(*letter)).collect();
                found.push(format!("/nix/store/{name}"));
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// The path of board-agent's own package.
    pub fn package(&self) -> &str {
        self.value["packages"][0].as_str().unwrap_or_default()
    }
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

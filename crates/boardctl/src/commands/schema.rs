//! `boardctl schema`: the JSON Schemas of all files, generated from the types that read them.
//!
//! `queue-schema/` holds what this prints; a test fails where both differ. What a derived schema cannot say (a
//! version, a limit, which payload belongs to which type of job) is added here from the constants of the
//! model.
use std::path::Path;

use anyhow::Context as _;
use board_core::model::board::{Board, STATE_SCHEMA};
use board_core::model::card::{Card, CardId};
use board_core::model::job::{
    BuilderPayload, DraftPayload, JOB_SCHEMA, Job, JobType, MAX_ATTEMPT, ResearchPayload, ReviewPayload,
    SplitPayload,
};
use board_core::model::outcome::{OUTCOME_SCHEMA, Outcome};
use board_core::model::profile::ITERATION_CAP;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::cli::Schema;
use crate::commands::phases;
use crate::output::Out;
use crate::words;

/// One of the files that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum File {
    /// A job.
    Job,
    /// What a run left.
    Outcome,
    /// One card, as `state.json` holds it.
    Card,
    /// `state.json`.
    State,
    /// A job dropped by hand.
    Drop,
}

impl File {
    /// All of them.
    pub(crate) const ALL: [File; 5] = [File::Job, File::Outcome, File::Card, File::State, File::Drop];

    /// Its word in file names and in the schema's id.
    pub(crate) fn id(self) -> &'static str {
        match self {
            File::Job => "job",
            File::Outcome => "outcome",
            File::Card => "card",
            File::State => "state",
            File::Drop => "drop",
        }
    }

    /// `<id>.schema.json`
    pub(crate) fn file_name(self) -> String {
        format!("{}.schema.json", self.id())
    }

    /// Its schema.
    pub(crate) fn schema(self) -> Value {
        let mut schema = match self {
            File::Job => job(),
            File::Outcome => versioned::<Outcome>(OUTCOME_SCHEMA),
            File::Card => root::<Card>(),
            File::State => versioned::<Board>(STATE_SCHEMA),
            File::Drop => drop_form(),
        };
        schema["$id"] = json!(format!("urn:board-agent:{}", self.id()));
        schema
    }
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().into_generator()
}

fn root<T: JsonSchema>() -> Value {
    generator().into_root_schema_for::<T>().to_value()
}

fn versioned<T: JsonSchema>(version: u32) -> Value {
    let mut schema = root::<T>();
    schema["properties"]["schema"] = described(&schema["properties"]["schema"], json!({"const": version}));
    schema
}

/// A property with its description and another rule.
fn described(old: &Value, mut rule: Value) -> Value {
    if let Some(description) = old.get("description") {
        rule["description"] = description.clone();
    }
    rule
}

/// Types of jobs that can be dropped by hand (queue.md).
pub(crate) const DROPPABLE: [JobType; 4] =
    [JobType::Builder, JobType::Review, JobType::Research, JobType::Split];

/// The schema of the payload of one type of job, with its definitions.
pub(crate) fn payload(kind: JobType) -> Value {
    match kind {
        JobType::Builder => root::<BuilderPayload>(),
        JobType::Review => root::<ReviewPayload>(),
        JobType::Research => root::<ResearchPayload>(),
        JobType::Split => root::<SplitPayload>(),
        JobType::Draft => root::<DraftPayload>(),
    }
}

/// A job without a rule for its payload.
pub(crate) fn job_head() -> Value {
    let mut schema = versioned::<Job>(JOB_SCHEMA);
    let properties = &mut schema["properties"];
    for (name, most) in [("attempt", MAX_ATTEMPT), ("iteration_limit", ITERATION_CAP)] {
        let rule = json!({"type": "integer", "minimum": 1, "maximum": most});
        properties[name] = described(&properties[name], rule);
    }
    properties["payload"] = described(&properties["payload"], json!({"type": "object"}));
    schema
}

/// A job: its payload follows from its type.
fn job() -> Value {
    let mut generator = generator();
    let mut of = |kind: JobType| {
        let schema = match kind {
            JobType::Builder => generator.subschema_for::<BuilderPayload>(),
            JobType::Review => generator.subschema_for::<ReviewPayload>(),
            JobType::Research => generator.subschema_for::<ResearchPayload>(),
            JobType::Split => generator.subschema_for::<SplitPayload>(),
            JobType::Draft => generator.subschema_for::<DraftPayload>(),
        };
        json!({
            "if": {"properties": {"type": {"const": kind.id()}}},
            "then": {"properties": {"payload": schema}},
        })
    };
    let rules: Vec<Value> = JobType::ALL.into_iter().map(&mut of).collect();
    let mut schema = job_head();
    schema["allOf"] = Value::Array(rules);
    let definitions = schema["$defs"].as_object().cloned().unwrap_or_default();
    let mut definitions: Map<String, Value> =
        definitions.into_iter().chain(generator.take_definitions(true)).collect();
    // The choice between all payloads, for which the rules above stand.
    definitions.remove("Payload");
    schema["$defs"] = Value::Object(definitions);
    schema
}

/// What is dropped by hand: the watcher makes a whole job of it (queue.md, "Dropping a file by hand").
fn drop_form() -> Value {
    let mut generator = generator();
    let card = generator.subschema_for::<CardId>();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Drop",
        "description": "A job dropped by hand into queue/drop: does what the same click would have done, at once.",
        "type": "object",
        "properties": {
            "type": {
                "description": "What is asked for.",
                "enum": DROPPABLE.map(JobType::id),
            },
            "card_id": described(&json!({"description": "The card."}), card.to_value()),
            "profile": {
                "description": "A configured profile; else the card's or the role's.",
                "type": "string",
            },
            "iteration_limit": {
                "description": "Iterations that the run may use; else the card's or the role's.",
                "type": "integer", "minimum": 1, "maximum": ITERATION_CAP,
            },
        },
        "required": ["type", "card_id"],
        "additionalProperties": false,
        // Whoever reviews or splits is configured; the watcher refuses a choice.
        "if": {"properties": {"type": {"enum": [JobType::Review.id(), JobType::Split.id()]}}},
        "then": {"properties": {"profile": false, "iteration_limit": false}},
        "$defs": definitions,
    })
}

/// A schema as its file has it.
fn text(file: File) -> String {
    format!("{:#}\n", file.schema())
}

/// Prints all schemas in one object, or writes them into a directory.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn run(arguments: &Schema, out: Out) -> anyhow::Result<()> {
    if arguments.phases {
        return Ok(out.line(phases::page().trim_end())?);
    }
    let Some(dir) = &arguments.out else {
        let all: Map<String, Value> =
            File::ALL.map(|file| (file.id().to_owned(), file.schema())).into_iter().collect();
        return Ok(out.value(&Value::Object(all))?);
    };
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    for file in File::ALL {
        write(dir, file)?;
    }
    if !out.json {
        out.line(words::schemas_written(
            out.language,
            &File::ALL.len().to_string(),
            &dir.display().to_string(),
        ))?;
    }
    Ok(())
}

fn write(dir: &Path, file: File) -> anyhow::Result<()> {
    let path = dir.join(file.file_name());
    std::fs::write(&path, text(file)).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use board_core::model::job::parse_job;
    use board_core::model::outcome::{RunResult, parse_outcome};

    use super::*;
    use crate::commands::check::{self, Form};

    fn home() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../queue-schema")
    }

    fn examples(of: &str) -> Vec<(String, Vec<u8>)> {
        let dir = home().join(of);
        let mut found: Vec<(String, Vec<u8>)> = std::fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
            .map(|path| {
                (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
            })
            .collect();
        found.sort();
        found
    }

    #[test]
    fn the_schemas_in_the_repository_are_those_of_the_types() {
        for file in File::ALL {
            let path = home().join(file.file_name());
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                there == text(file),
                "{} differs from the types: cargo run -p boardctl -- schema --out queue-schema",
                path.display()
            );
        }
    }

    #[test]
    fn the_examples_are_valid_and_are_what_the_programs_read_and_write() {
        for (name, bytes) in examples("examples") {
            let value: Value = serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
            let file = File::ALL.into_iter().find(|file| name.starts_with(file.id())).expect("a known kind");
            let validator = jsonschema::draft202012::new(&file.schema()).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert_eq!(errors, Vec::<String>::new(), "{name}");
            let again = match file {
                File::Job => {
                    serde_json::to_value(parse_job(&bytes).unwrap_or_else(|e| panic!("{name}: {e}")))
                }
                File::Outcome => {
                    serde_json::to_value(parse_outcome(&bytes).unwrap_or_else(|e| panic!("{name}: {e}")))
                }
                File::Card => serde_json::to_value(serde_json::from_slice::<Card>(&bytes).unwrap()),
                File::State => serde_json::to_value(serde_json::from_slice::<Board>(&bytes).unwrap()),
                File::Drop => Ok(value.clone()),
            };
            assert_eq!(again.unwrap(), value, "{name} is spelled as the programs spell it");
        }
    }

    #[test]
    fn there_is_an_example_of_every_job_and_of_every_result() {
        let mut jobs = BTreeSet::new();
        let (mut successes, mut results) = (BTreeSet::new(), BTreeSet::new());
        for (name, bytes) in examples("examples") {
            if name.starts_with("job") {
                jobs.insert(parse_job(&bytes).unwrap().kind);
            } else if name.starts_with("outcome") {
                let outcome = parse_outcome(&bytes).unwrap();
                results.insert(outcome.result);
                if outcome.produced.is_some() {
                    successes.insert(outcome.kind);
                }
            }
        }
        assert_eq!(jobs, JobType::ALL.into_iter().collect());
        assert_eq!(successes, JobType::ALL.into_iter().collect());
        assert_eq!(results, RunResult::ALL.into_iter().collect());
    }

    /// Each bad example names its fault in the file of the same name with the ending `.txt`.
    #[test]
    fn a_bad_example_is_refused_with_the_sentences_beside_it() {
        let bad = examples("examples/bad");
        assert!(bad.len() >= 6);
        for (name, bytes) in bad {
            let expected =
                std::fs::read_to_string(home().join("examples/bad").join(name.replace(".json", ".txt")));
            let expected = expected.unwrap_or_else(|e| panic!("{name}: its sentences: {e}"));
            if name.starts_with("outcome") {
                let error = parse_outcome(&bytes).unwrap_err().to_string();
                assert_eq!(error, expected.trim_end(), "{name}");
                continue;
            }
            let found: Vec<String> = check::findings(&bytes).1.iter().map(ToString::to_string).collect();
            assert_eq!(found.join("\n"), expected.trim_end(), "{name}");
            let form = check::findings(&bytes).0;
            assert!(form == Form::Drop || parse_job(&bytes).is_err(), "{name}: the reader of jobs takes it");
        }
    }
}

//! `boardctl check-config` and `check-job`: everything that is wrong, at once, before a daemon says it.
use std::fmt;
use std::path::Path;

use anyhow::Context as _;
use board_core::edge::settings::{DirectoryCheck, Settings};
use board_core::model::card::CardId;
use board_core::model::job::{JobRef, JobType, MAX_JOB_BYTES, parse_job};
use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Value, json};

use super::schema::{DROPPABLE, File, job_head, payload};
use crate::output::{Ended, Out, Style};
use crate::words;

/// What a checked file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A whole job, as the programs write it.
    Job(JobType),
    /// The short form that is dropped by hand.
    Drop,
    /// Neither can be told.
    Unknown,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The field, dotted; empty if the whole file is meant.
    pub(crate) field: String,
    /// What is wrong and what would be right.
    pub(crate) problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.problem)
        } else {
            write!(f, "{}: {}", self.field, self.problem)
        }
    }
}

fn finding(field: &str, problem: impl Into<String>) -> Finding {
    Finding { field: field.to_owned(), problem: problem.into() }
}

/// What a job file is and everything that is wrong with it.
pub(crate) fn findings(bytes: &[u8]) -> (Form, Vec<Finding>) {
    if bytes.len() as u64 > MAX_JOB_BYTES {
        return (
            Form::Unknown,
            vec![finding("", format!("{} bytes; a job has at most {MAX_JOB_BYTES}", bytes.len()))],
        );
    }
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => return (Form::Unknown, vec![finding("", format!("no JSON: {error}"))]),
    };
    let Some(object) = value.as_object() else {
        return (Form::Unknown, vec![finding("", "a job is a JSON object")]);
    };
    let kind = object.get("type").and_then(Value::as_str);
    let kind = JobType::ALL.into_iter().find(|known| Some(known.id()) == kind);
    // The fields that only the programs fill in tell both forms apart.
    let whole = ["schema", "id", "attempt", "payload"].iter().any(|key| object.contains_key(*key));
    let mut found = if whole { job(&value, kind) } else { against(&File::Drop.schema(), &value, "") };
    let id = object.get("card_id").and_then(Value::as_str).map(str::parse::<CardId>);
    if let Some(Err(error)) = id {
        // The same as the schema's pattern says, in words.
        found.retain(|finding| finding.field != "card_id");
        found.push(finding("card_id", error.to_string()));
    }
    // What a value no longer tells: keys that stand twice, and whatever the schema lets through.
    if found.is_empty() {
        let read = if whole { parse_job(bytes).map(drop).map_err(|e| e.to_string()) } else { twice(bytes) };
        found.extend(read.err().map(|error| finding("", error)));
    }
    found.sort();
    found.dedup();
    let form = match kind {
        Some(kind) if whole => Form::Job(kind),
        _ if whole => Form::Unknown,
        _ => Form::Drop,
    };
    (form, found)
}

/// The dropped form, read so that a key that stands twice is an error.
fn twice(bytes: &[u8]) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "read for the errors alone")]
    struct Drop {
        #[serde(rename = "type")]
        kind: JobType,
        card_id: CardId,
        profile: Option<String>,
        iteration_limit: Option<u32>,
    }
    serde_json::from_slice::<Drop>(bytes).map(drop).map_err(|error| error.to_string())
}

fn job(value: &Value, kind: Option<JobType>) -> Vec<Finding> {
    let mut found = against(&job_head(), value, "");
    if let (Some(kind), Some(inner @ Value::Object(_))) = (kind, value.get("payload")) {
        found.extend(against(&payload(kind), inner, "payload"));
    }
    found
}

/// Everything in which a value differs from a schema.
fn against(schema: &Value, value: &Value, prefix: &str) -> Vec<Finding> {
    let validator = match jsonschema::options().should_validate_formats(true).build(schema) {
        Ok(validator) => validator,
        Err(error) => return vec![finding(prefix, format!("the schema itself is broken: {error}"))],
    };
    validator.iter_errors(value).flat_map(|error| in_words(&error, prefix)).collect()
}

/// One difference, as sentences that name the field.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the other keywords stand in no schema of ours, or say it well"
)]
fn in_words(error: &ValidationError<'_>, prefix: &str) -> Vec<Finding> {
    let at = error.instance_path().to_string();
    let mut steps: Vec<&str> = at.split('/').filter(|step| !step.is_empty()).collect();
    if !prefix.is_empty() {
        steps.insert(0, prefix);
    }
    let field = steps.join(".");
    let below = |name: &str| if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match error.kind() {
        ValidationErrorKind::Required { property } => vec![finding(&below(&text(property)), "is missing")],
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            unexpected.iter().map(|name| finding(&below(name), "there is no such field")).collect()
        }
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(many) => {
                    many.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or ")
                }
            };
            vec![finding(&field, format!("must be of type {wanted}"))]
        }
        ValidationErrorKind::Constant { expected_value } => {
            vec![finding(&field, format!("is {}; must be {expected_value}", error.instance()))]
        }
        ValidationErrorKind::Enum { options } => {
            let known: Vec<String> = options.as_array().into_iter().flatten().map(text).collect();
            vec![finding(&field, format!("is {}; known are {}", error.instance(), known.join(", ")))]
        }
        ValidationErrorKind::FalseSchema => {
            vec![finding(&field, "does not go with this type; the configuration decides it")]
        }
        ValidationErrorKind::OneOfNotValid { .. } if field == "type" => {
            let known: Vec<&str> = JobType::ALL.into_iter().map(JobType::id).collect();
            vec![finding(&field, format!("is {}; known are {}", error.instance(), known.join(", ")))]
        }
        _ => vec![finding(&field, error.to_string())],
    }
}

/// Checks the configuration file.
///
/// # Errors
/// [`Ended::Findings`] if anything is wrong with it.
pub(crate) fn config(path: &Path, directories: DirectoryCheck, out: Out) -> anyhow::Result<()> {
    let shown = path.display().to_string();
    match Settings::load_with(path, directories) {
        Ok(settings) => {
            let profiles = settings.profile_names().count();
            if out.json {
                out.value(&json!({"file": shown, "ok": true, "errors": []}))?;
            } else {
                let runtimes = settings.runtimes.len().to_string();
                out.line(out.paint(
                    Style::Good,
                    words::config_good(out.language, &shown, &runtimes, &profiles.to_string()),
                ))?;
            }
            Ok(())
        }
        Err(errors) => {
            if out.json {
                let errors: Vec<Value> = errors
                    .0
                    .iter()
                    .map(|e| json!({"line": e.line, "key": e.key, "problem": e.problem, "remedy": e.remedy}))
                    .collect();
                out.value(&json!({"file": shown, "ok": false, "errors": errors}))?;
            } else {
                for error in &errors.0 {
                    let mut at = error.file.display().to_string();
                    if error.line > 0 {
                        at.push_str(&format!(":{}", error.line));
                    }
                    let key = if error.key.is_empty() { String::new() } else { format!(" {}", error.key) };
                    out.line(format_args!(
                        "{}{}: {}\n    {}",
                        out.paint(Style::Faint, at),
                        out.paint(Style::Bad, key),
                        error.problem,
                        error.remedy
                    ))?;
                }
                out.line(words::faults(out.language, &errors.0.len().to_string()))?;
            }
            Err(Ended::Findings.into())
        }
    }
}

/// Checks a job file.
///
/// # Errors
/// [`Ended::Findings`] if anything is wrong with it; a file that cannot be read.
pub(crate) fn job_file(path: &Path, out: Out) -> anyhow::Result<()> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| shown.clone())?;
    let (form, found) = findings(&bytes);
    let what = match form {
        Form::Job(kind) => words::whole_job(out.language, kind.id()),
        Form::Drop => words::drop_form(out.language),
        Form::Unknown => words::unknown_form(out.language),
    };
    if out.json {
        let errors: Vec<Value> =
            found.iter().map(|f| json!({"field": f.field, "problem": f.problem})).collect();
        out.value(&json!({"file": shown, "ok": found.is_empty(), "errors": errors}))?;
    } else if found.is_empty() {
        out.line(out.paint(Style::Good, words::job_good(out.language, &shown, &what)))?;
        if let Some(name) = misnamed(path, form, &bytes) {
            out.line(out.paint(Style::Notice, words::misnamed(out.language, &name)))?;
        }
    } else {
        out.line(words::job_bad(out.language, &shown, &what, &found.len().to_string()))?;
        let rows: Vec<_> = found
            .iter()
            .map(|f| {
                let field = if f.field.is_empty() { "–".to_owned() } else { f.field.clone() };
                vec![(Style::Plain, String::new()), (Style::Bad, field), (Style::Plain, f.problem.clone())]
            })
            .collect();
        out.table(&rows)?;
        if form == Form::Drop {
            let known: Vec<&str> = DROPPABLE.map(JobType::id).to_vec();
            out.line(words::drop_hint(out.language, &known.join(", ")))?;
        }
    }
    if found.is_empty() { Ok(()) } else { Err(Ended::Findings.into()) }
}

/// The name that the file would need in an inbox, if it has another.
fn misnamed(path: &Path, form: Form, bytes: &[u8]) -> Option<String> {
    if form == Form::Drop {
        return None;
    }
    let job: JobRef = parse_job(bytes).ok()?.reference();
    (path.file_name().and_then(|name| name.to_str()) != Some(&job.job_file())).then(|| job.job_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        findings(text.as_bytes()).1.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_faults_are_told_at_once_each_with_its_field() {
        let text = r#"{"schema": 2, "id": "x", "attempt": 0, "type": "builder", "card_id": "../x",
            "created_at": "2026-11-30T20:00:00Z", "requested_by": "lukas", "profile": 3, "iteration_limit": 21,
            "payload": {"intent": {"path": "a", "blob": "b"}, "base_commit": "c", "number": 1, "sudo": true}}"#;
        let found = found(text);
        let fields: Vec<&str> = found.iter().filter_map(|line| line.split(": ").next()).collect();
        for field in [
            "attempt",
            "card_id",
            "iteration_limit",
            "payload.intent.text",
            "payload.sudo",
            "profile",
            "schema",
        ] {
            assert!(fields.contains(&field), "{field}: {found:#?}");
        }
    }

    #[test]
    fn a_short_form_is_checked_as_what_is_dropped() {
        assert_eq!(findings(br#"{"type":"research","card_id":"foo"}"#), (Form::Drop, Vec::new()));
        assert_eq!(found(r#"{"type":"research"}"#), ["card_id: is missing"]);
        assert_eq!(
            found(r#"{"type":"draft","card_id":"foo"}"#),
            ["type: is \"draft\"; known are builder, review, research, split"]
        );
    }

    #[test]
    fn what_is_no_object_and_a_key_that_stands_twice_are_told() {
        assert!(found("").first().unwrap().starts_with("no JSON: "));
        assert_eq!(found("[]"), ["a job is a JSON object"]);
        assert!(found(r#"{"type":"split","type":"split","card_id":"a"}"#)[0].contains("duplicate field"));
        let large = vec![b' '; usize::try_from(MAX_JOB_BYTES).unwrap() + 1];
        assert!(findings(&large).1[0].problem.contains("at most"));
        assert!(!findings(&large[1..]).1[0].problem.contains("at most"));
    }
}

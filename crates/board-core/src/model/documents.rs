//! To come.
use super::slug::Slug;
/// Missing headings.
pub fn missing_headings(_report: &str) -> Vec<String> {
    Vec::new()
}
/// Title of a document.
pub fn title(body: &str) -> Option<String> {
    body.lines().find_map(|l| l.strip_prefix("# ")).map(|t| t.trim_start_matches("Intent:").trim().to_owned())
}
/// Slug of a document's path.
pub fn slug_of(path: &str) -> Option<Slug> {
    Slug::parse(path.rsplit('/').next()?.strip_suffix(".md")?).ok()
}

//! The reply of a research: its report, bound to the job that asked.
use uuid::Uuid;

use super::{
    KEY_JOB,
    block::{BlockKind, only, with_line_feeds},
    bound_to,
    error::MarkerError,
    header::Header,
};

/// The answer of a researcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResearchReply {
    /// The report, Markdown, with one line feed at its end.
    pub report: String,
}

/// Reads the reply of the research `job`.
///
/// # Errors
/// [`MarkerError`] unless the text has exactly one well-formed report of this job and no other block.
pub fn parse(text: &str, job: &Uuid) -> Result<ResearchReply, MarkerError> {
    let text = with_line_feeds(text);
    let block = only(&text, &[BlockKind::Research])?;
    let (header, body) = Header::with_body(&block, &[KEY_JOB])?;
    bound_to(&header, KEY_JOB, &job.to_string())?;
    Ok(ResearchReply { report: body.document()? })
}

impl ResearchReply {
    /// The block that [`parse`] reads back for the same job.
    #[must_use]
    pub fn to_block(&self, job: &Uuid) -> String {
        BlockKind::Research.wrap(&format!("{KEY_JOB}: {job}\n---\n{}", self.report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::marker::{HeaderProblem, Part};

    const JOB: Uuid = Uuid::from_u128(0x0198_c0de_0000_7000_8000_0000_0000_0001);

    fn report(header: &str, body: &str) -> String {
        format!("===RESEARCH-REPORT===\n{header}\n---\n{body}\n===END-RESEARCH-REPORT===\n")
    }

    #[test]
    fn the_report_of_this_job_is_read() {
        let text = report(&format!("job: {JOB}"), "# Bericht");
        assert_eq!(parse(&text, &JOB), Ok(ResearchReply { report: "# Bericht\n".to_owned() }));
    }

    #[test]
    fn the_report_of_another_job_does_not_count() {
        let error = parse(&report(&format!("job: {}", Uuid::nil()), "# Bericht"), &JOB).unwrap_err();
        assert!(matches!(error, MarkerError::BadHeader { problem: HeaderProblem::Mismatch { .. }, .. }));
    }

    #[test]
    fn a_report_has_text_and_no_other_header() {
        let empty = parse(&report(&format!("job: {JOB}"), " "), &JOB);
        assert_eq!(empty, Err(MarkerError::Empty { part: Part::Body, line: 4 }));
        let decided = parse(&report(&format!("job: {JOB}\nentscheidung: bereit"), "# Bericht"), &JOB);
        assert!(matches!(decided, Err(MarkerError::BadHeader { problem: HeaderProblem::UnknownKey, .. })));
    }
}

//! Writing the documents of a transition: step (2) of storage.md.
//!
//! The blob comes first, durably, so that the commit has the bytes whatever becomes of the file. Then the
//! file, where the branch is checked out: a new one with create-new, a replaced one atomically and only over
//! the bytes that were recorded. A repetition after a crash finds its own work and goes on.

use std::path::Path;

use super::{Bytes, Documents, DocumentsError, MAX_REPORT_BYTES, Place};
use crate::edge::files::FileError;
use crate::edge::files::beneath::{replace_beneath, write_beneath_new};
use crate::fault_point;
use crate::model::board::WrittenDocument;
use crate::model::card::{PlannedDocument, WriteKind};
use crate::model::documents::{add_section, append, find_section, has_conversation};
use crate::model::hash::blob_hash;

/// Why a document was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file that should be new is there, and this is the first pass: somebody else's.
    #[error("{path} is taken")]
    Taken {
        /// The path.
        path: String,
    },
    /// The file that should be replaced is neither what was recorded nor what it becomes.
    #[error("{path} was changed meanwhile")]
    Changed {
        /// The path.
        path: String,
        /// What is there now; none if the file is gone or no text.
        found: Option<String>,
    },
    /// The file system refused; to be tried again, and the card says so.
    #[error(transparent)]
    File(#[from] FileError),
    /// git failed; to be tried again.
    #[error(transparent)]
    Documents(#[from] DocumentsError),
}

impl WriteError {
    /// Whether trying again later can help.
    pub fn is_passing(&self) -> bool {
        match self {
            WriteError::Taken { .. } | WriteError::Changed { .. } => false,
            WriteError::File(_) | WriteError::Documents(_) => true,
        }
    }
}

/// A document that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// For the outbox entry.
    pub document: WrittenDocument,
    /// Whether this call changed the file.
    pub changed: bool,
}

impl Documents {
    /// Writes one planned document. `begun` tells that an earlier pass over the files was through or may have
    /// been: a new file that is there is then its own, also if somebody edited it since.
    ///
    /// The caller holds the repository lock.
    ///
    /// # Errors
    /// [`WriteError`]; what was written until then stays.
    pub fn write(&self, planned: &PlannedDocument, begun: bool) -> Result<Written, WriteError> {
        let place = self.place().map_err(DocumentsError::from)?;
        let existing = match self.bytes_at(&place, &planned.path, MAX_REPORT_BYTES)? {
            Bytes::There(bytes, _) => Some(bytes),
            Bytes::Missing => None,
            Bytes::Broken(_) => return Err(self.obstacle(planned)),
        };
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let existing_text = existing.as_deref().map(text_of);
        let wanted = match &planned.kind {
            WriteKind::New => match &existing {
                None => Some(planned.text.clone()),
                Some(_) if begun => None,
                Some(_) => return Err(WriteError::Taken { path: planned.path.clone() }),
            },
            WriteKind::Replace { old } => match existing.as_deref().map(blob_hash) {
                Some(hash) if hash == planned.hash => None,
                Some(hash) if hash == *old => Some(planned.text.clone()),
                Some(_) | None => {
                    return Err(WriteError::Changed { path: planned.path.clone(), found: existing_text });
                }
            },
            WriteKind::Section { job } => match existing_text.as_deref() {
                Some(text) if find_section(text, *job).is_some() => None,
                text => Some(add_section(text, &planned.text)),
            },
            WriteKind::Append { mark } => match existing_text.as_deref() {
                Some(text) if has_conversation(text, mark) => None,
                text => Some(append(text, &planned.text)),
            },
        };
        let replaced = match (&planned.kind, &existing, &wanted) {
            // The bytes that go are kept as a blob and named in the commit.
            (WriteKind::Replace { .. }, Some(old), Some(_)) => Some(self.blob(old)?),
            (WriteKind::Replace { old }, _, None) => Some(old.clone()),
            _ => None,
        };
        let bytes = match (&wanted, &existing) {
            (Some(text), _) => text.as_bytes(),
            (None, Some(bytes)) => bytes.as_slice(),
            (None, None) => &[],
        };
        let blob = self.blob(bytes)?;
        fault_point!("documents.blob");
        if let (Some(text), Place::WorkTree(root)) = (&wanted, &place) {
            let path = Path::new(&planned.path);
            match (&planned.kind, &existing) {
                (_, None) => match write_beneath_new(root, path, text.as_bytes()) {
                    // Made between the look and the write.
                    Err(error) if error.is_exists() => {
                        return Err(WriteError::Taken { path: planned.path.clone() });
                    }
                    done => done?,
                },
                (_, Some(before)) => {
                    self.compare(&place, planned, before)?;
                    replace_beneath(root, path, text.as_bytes())?;
                }
            }
            fault_point!("documents.file");
        }
        let document = WrittenDocument { path: planned.path.clone(), blob, replaced };
        Ok(Written { document, changed: wanted.is_some() })
    }

    /// Looks once more right before a file is replaced: an editor may have saved meanwhile.
    fn compare(&self, place: &Place, planned: &PlannedDocument, before: &[u8]) -> Result<(), WriteError> {
        match self.bytes_at(place, &planned.path, MAX_REPORT_BYTES)? {
            Bytes::There(now, _) if now == before => Ok(()),
            Bytes::There(now, _) => {
                let found = Some(String::from_utf8_lossy(&now).into_owned());
                Err(WriteError::Changed { path: planned.path.clone(), found })
            }
            Bytes::Missing | Bytes::Broken(_) => {
                Err(WriteError::Changed { path: planned.path.clone(), found: None })
            }
        }
    }

    /// What is no regular file stands where the document should go.
    fn obstacle(&self, planned: &PlannedDocument) -> WriteError {
        match planned.kind {
            WriteKind::New => WriteError::Taken { path: planned.path.clone() },
            WriteKind::Replace { .. } | WriteKind::Section { .. } | WriteKind::Append { .. } => {
                WriteError::Changed { path: planned.path.clone(), found: None }
            }
        }
    }

    fn blob(&self, bytes: &[u8]) -> Result<String, WriteError> {
        let blob = self.git.write_blob(bytes).map_err(DocumentsError::from)?;
        Ok(blob.to_string())
    }
}

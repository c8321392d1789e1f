//! The refusals of worktrees in German, for the card that they stand on.
//!
//! Apart from the types, whose own words are for the log and for a board in English.
use super::check::{CheckRefusal, named, sized};
use super::{DeliveryRefusal, WorktreeError, list};

impl CheckRefusal {
    /// Why there is no check commit, in German.
    #[must_use]
    pub fn sentence_de(&self) -> String {
        match self {
            Self::NoChange { .. } => "nichts wurde geändert".into(),
            Self::TooManyFiles { count, limit, first } => format!(
                "{count} Dateien wurden geändert, höchstens {limit} werden angenommen; die ersten sind {}",
                named(first)
            ),
            Self::TooLarge { bytes, limit, largest } => format!(
                "die geänderten Dateien haben {bytes} Bytes, höchstens {limit} werden angenommen; die größten \
                 sind {}",
                sized(largest)
            ),
            Self::BlobTooLarge { limit, files } => format!(
                "höchstens {limit} Bytes in einer Datei werden angenommen; mehr haben {}",
                sized(files)
            ),
            Self::SecretInFile { files } => format!("ein bekanntes Geheimnis steht in {}", named(files)),
            Self::SecretInMessage => "ein bekanntes Geheimnis steht in der Commit-Nachricht".into(),
            Self::Submodule { paths } => format!("Submodule werden nicht angenommen: {}", named(paths)),
            Self::Worktree(error) => error.sentence_de(),
        }
    }
}

impl DeliveryRefusal {
    /// Why a delivered commit is not taken, in German.
    #[must_use]
    pub fn sentence_de(&self) -> String {
        match self {
            Self::NoCommit { commit } => format!("den Commit {commit} gibt es im Repository nicht"),
            Self::NotOnBranch { branch, tip: Some(tip), commit } => {
                format!("der Branch {branch} steht auf {tip}, nicht auf {commit}")
            }
            Self::NotOnBranch { branch, tip: None, commit } => {
                format!("den Branch {branch} gibt es nicht; er müsste auf {commit} stehen")
            }
            Self::NotFromBase { commit, base } => format!("der Commit {commit} stammt nicht von {base} ab"),
            Self::Board { paths } => format!("er ändert, was dem Board gehört: {}", named(paths)),
            Self::Content(refusal) => refusal.sentence_de(),
        }
    }
}

impl WorktreeError {
    /// What is wrong with the worktree, in German. What git says stays in its own words.
    #[must_use]
    pub fn sentence_de(&self) -> String {
        match self {
            Self::Missing { path } => format!("{} ist kein Worktree dieses Repositorys", path.display()),
            Self::BranchInUse { branch, tip } => {
                format!("den Branch {branch} gibt es schon, er steht auf {tip}")
            }
            Self::Occupied { path } => {
                format!("{} gibt es schon und ist keiner unserer Worktrees", path.display())
            }
            Self::WrongBranch { path, branch } => {
                format!("{} ist nicht auf seinem Branch {branch}", path.display())
            }
            Self::GitFileChanged { path } => {
                format!("die Datei .git von {} wurde geändert oder ersetzt", path.display())
            }
            Self::Planted { path, found } => format!(
                "in {} wurde ein Repository angelegt, dessen Dateien verloren gingen: {}",
                path.display(),
                list(found)
            ),
            Self::TooManyEntries { path, limit } => {
                format!(
                    "{} hat mehr als {limit} Dateien und Verzeichnisse, die nicht ignoriert sind",
                    path.display()
                )
            }
            Self::NotKept { path } => {
                format!(
                    "in {} liegt Arbeit, die auf keinem aufgehobenen Ref steht; es bleibt",
                    path.display()
                )
            }
            Self::StillThere { path } => format!("{} ist nach dem Entfernen noch da", path.display()),
            Self::Git(error) => error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_in_german_what_it_names_in_english() {
        let path = || std::path::PathBuf::from("src/a b");
        for refusal in [
            CheckRefusal::TooManyFiles { count: 12, limit: 10, first: vec![path()] },
            CheckRefusal::TooLarge { bytes: 12, limit: 10, largest: vec![(path(), 12)] },
            CheckRefusal::BlobTooLarge { limit: 10, files: vec![(path(), 12)] },
            CheckRefusal::SecretInFile { files: vec![path()] },
            CheckRefusal::Submodule { paths: vec![path()] },
            WorktreeError::Planted { path: path(), found: vec![path()] }.into(),
            WorktreeError::TooManyEntries { path: path(), limit: 10 }.into(),
        ] {
            let (de, en) = (refusal.sentence_de(), refusal.to_string());
            assert_ne!(de, en);
            for part in ["src/a b", "12", "10"] {
                assert_eq!(de.contains(part), en.contains(part), "{part}: {de} | {en}");
            }
        }
    }
}

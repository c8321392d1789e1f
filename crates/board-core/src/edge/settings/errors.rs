//! What is wrong with a configuration file, as a list.
//!
//! A list and not the first of them: whoever mends a file wants to mend it once.
use std::fmt;
use std::path::PathBuf;

/// One thing that is wrong, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    /// The file as it was named.
    pub file: PathBuf,
    /// The line, from 1; 0 where the file could not be read at all.
    pub line: usize,
    /// The key with its sections, dotted (`roles.builder.profile`); empty where there is none, as in a
    /// file that is no TOML.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}; {}", self.problem, self.remedy)
    }
}

/// Everything that is wrong with a configuration file, in the order of its lines; never empty.
///
/// `Display` prints one error per line: `file:line: key: problem; remedy`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SettingsErrors(pub Vec<SettingsError>);

impl fmt::Display for SettingsErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

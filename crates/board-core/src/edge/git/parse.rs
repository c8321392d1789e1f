//! What git prints, read without any process: pure functions, one per form.
//!
//! All forms are the NUL-separated ones, because a path may hold everything else.
use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use super::Oid;

/// What a checkout has checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A branch with at least one commit.
    Branch(String),
    /// A commit without a branch; also during a rebase.
    Detached(Oid),
    /// A branch that has no commit yet.
    Unborn(String),
}

/// A commit, as `git log` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitInfo {
    /// Its name.
    pub oid: Oid,
    /// Its parents, the first first.
    pub parents: Vec<Oid>,
    /// Name of the author.
    pub author: String,
    /// Address of the author.
    pub author_email: String,
    /// Name of the committer.
    pub committer: String,
    /// Address of the committer.
    pub committer_email: String,
    /// When it was committed, in seconds since 1970.
    pub committed: i64,
    /// First line of the message.
    pub subject: String,
}

/// The `--format` that [`parse_commits`] reads, with `-z`.
pub(crate) const COMMIT_FORMAT: &str = "--format=%H%x1f%P%x1f%an%x1f%ae%x1f%cn%x1f%ce%x1f%ct%x1f%s";

/// One record of `git worktree list --porcelain -z`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorktreeRecord {
    pub(crate) path: PathBuf,
    /// Absent for a bare repository.
    pub(crate) head: Option<Head>,
    /// The reason, maybe empty, if it is locked.
    pub(crate) locked: Option<String>,
}

/// One entry of a tree object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawEntry {
    /// Octal digits as stored: `100644`, `100755`, `120000`, `160000`, `40000`.
    pub(crate) mode: String,
    pub(crate) oid: Oid,
    pub(crate) name: Vec<u8>,
}

/// One entry of an index, from `git ls-files -s -z`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) mode: String,
    pub(crate) oid: Oid,
    /// 0, or 1 to 3 in a conflict.
    pub(crate) stage: u8,
    pub(crate) path: Vec<u8>,
}

/// One record of `git diff-tree -r -z --raw --no-renames --no-abbrev`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiffEntry {
    /// Mode after the change; `000000` for a removed file.
    pub(crate) mode: String,
    /// Object after the change; all zeros for a removed file.
    pub(crate) oid: Oid,
    pub(crate) path: PathBuf,
}

/// What is wrong with an answer.
pub(crate) type ParseResult<T> = Result<T, String>;

/// Turns the bytes of a path into a path.
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Paths separated by NUL.
pub(crate) fn parse_nul_paths(output: &[u8]) -> Vec<PathBuf> {
    output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of).collect()
}

pub(crate) fn parse_oid(output: &[u8]) -> ParseResult<Oid> {
    let text = String::from_utf8_lossy(output);
    Oid::parse(text.trim_end_matches('\n')).map_err(|error| error.to_string())
}

pub(crate) fn parse_commits(output: &[u8]) -> ParseResult<Vec<CommitInfo>> {
    let text = String::from_utf8_lossy(output);
    text.split('\0').filter(|record| !record.is_empty()).map(parse_commit).collect()
}

fn parse_commit(record: &str) -> ParseResult<CommitInfo> {
    let fields: Vec<&str> = record.trim_start_matches('\n').splitn(8, '\u{1f}').collect();
    let [oid, parents, author, author_email, committer, committer_email, committed, subject] = fields[..]
    else {
        return Err(format!("a commit with {} fields", fields.len()));
    };
    let oid_of = |text: &str| Oid::parse(text).map_err(|error| error.to_string());
    Ok(CommitInfo {
        oid: oid_of(oid)?,
        parents: parents.split_whitespace().map(oid_of).collect::<Result<_, _>>()?,
        author: author.to_owned(),
        author_email: author_email.to_owned(),
        committer: committer.to_owned(),
        committer_email: committer_email.to_owned(),
        committed: committed.parse().map_err(|_| format!("the time {committed:?}"))?,
        subject: subject.to_owned(),
    })
}

/// Records of `git for-each-ref --format=%(objectname)%00%(refname)`, one a line.
pub(crate) fn parse_refs(output: &[u8]) -> ParseResult<Vec<(String, Oid)>> {
    let text = String::from_utf8_lossy(output);
    let mut refs = Vec::new();
    for line in text.lines() {
        let (oid, name) = line.split_once('\0').ok_or_else(|| format!("the ref line {line:?}"))?;
        refs.push((name.to_owned(), Oid::parse(oid).map_err(|error| error.to_string())?));
    }
    Ok(refs)
}

/// Records of `git log -z --format=%H%x1f%(trailers:key=…,valueonly,separator=%x1f)`.
pub(crate) fn parse_trailers(output: &[u8]) -> ParseResult<Vec<(Oid, Vec<String>)>> {
    let text = String::from_utf8_lossy(output);
    let mut commits = Vec::new();
    for record in text.split('\0').filter(|record| !record.is_empty()) {
        let mut fields = record.trim_matches('\n').split('\u{1f}');
        let oid = Oid::parse(fields.next().unwrap_or_default()).map_err(|error| error.to_string())?;
        let values = fields.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned);
        commits.push((oid, values.collect()));
    }
    Ok(commits)
}

pub(crate) fn parse_worktrees(output: &[u8]) -> ParseResult<Vec<WorktreeRecord>> {
    let mut records = Vec::new();
    let mut current: Option<(WorktreeRecord, Option<Oid>)> = None;
    for line in output.split(|byte| *byte == 0) {
        if line.is_empty() {
            records.extend(current.take().map(with_head));
            continue;
        }
        if let Some(path) = line.strip_prefix(b"worktree ") {
            current = Some((WorktreeRecord { path: path_of(path), head: None, locked: None }, None));
            continue;
        }
        let Some((record, head)) = current.as_mut() else {
            return Err(format!("a line before the first worktree: {:?}", String::from_utf8_lossy(line)));
        };
        let text = String::from_utf8_lossy(line);
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match word {
            "HEAD" => *head = Some(Oid::parse(rest).map_err(|error| error.to_string())?),
            "branch" => {
                let branch = rest.strip_prefix("refs/heads/").unwrap_or(rest).to_owned();
                let unborn = head.as_ref().is_none_or(|oid| oid.as_str().bytes().all(|byte| byte == b'0'));
                record.head = Some(if unborn { Head::Unborn(branch) } else { Head::Branch(branch) });
            }
            "detached" => record.head = head.clone().map(Head::Detached),
            "locked" => record.locked = Some(rest.to_owned()),
            // bare, prunable, and what a later git may add.
            _ => {}
        }
    }
    records.extend(current.map(with_head));
    Ok(records)
}

/// A git that was killed while it made a worktree leaves an empty `HEAD`: such a one is neither on a branch nor
/// `detached`, and is there all the same.
fn with_head((mut record, head): (WorktreeRecord, Option<Oid>)) -> WorktreeRecord {
    record.head = record.head.or(head.map(Head::Detached));
    record
}

/// A tree object as stored: `<mode> <name> NUL <raw object name>`, without separators.
pub(crate) fn parse_tree(content: &[u8], raw_length: usize) -> ParseResult<Vec<RawEntry>> {
    let mut rest = content;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        entries.push(first_entry(&mut rest, raw_length)?.to_owned());
    }
    Ok(entries)
}

/// The entry of a name in a raw tree. The others are only passed over: copying ten thousand of them to find one
/// takes several times as long as git takes to send them.
pub(crate) fn find_in_tree(content: &[u8], raw_length: usize, name: &[u8]) -> ParseResult<Option<RawEntry>> {
    let mut rest = content;
    while !rest.is_empty() {
        let entry = first_entry(&mut rest, raw_length)?;
        if entry.name == name {
            return Ok(Some(entry.to_owned()));
        }
    }
    Ok(None)
}

/// An entry where it lies in the tree's bytes.
struct EntryIn<'a> {
    mode: &'a [u8],
    raw: &'a [u8],
    name: &'a [u8],
}

impl EntryIn<'_> {
    fn to_owned(&self) -> RawEntry {
        RawEntry {
            mode: String::from_utf8_lossy(self.mode).into_owned(),
            oid: Oid::from_raw(self.raw),
            name: self.name.to_vec(),
        }
    }
}

/// Takes the first entry off the bytes of a tree.
fn first_entry<'a>(content: &mut &'a [u8], raw_length: usize) -> ParseResult<EntryIn<'a>> {
    let all = *content;
    let cut_short = || "a tree that is cut short".to_owned();
    let space = all.iter().position(|byte| *byte == b' ').ok_or_else(cut_short)?;
    let nul = all.iter().position(|byte| *byte == 0).filter(|nul| *nul > space).ok_or_else(cut_short)?;
    let raw = all.get(nul + 1..nul + 1 + raw_length).ok_or_else(cut_short)?;
    *content = &all[nul + 1 + raw_length..];
    Ok(EntryIn { mode: &all[..space], raw, name: &all[space + 1..nul] })
}

/// `git ls-tree -z -l`: `<mode> <type> <name of object> <size>TAB<path>`; the size is `-` for anything but blobs.
pub(crate) fn parse_ls_tree(output: &[u8]) -> ParseResult<Vec<(RawEntry, Option<u64>)>> {
    let mut entries = Vec::new();
    for record in output.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
        let (head, path) = split_at_tab(record)?;
        let words: Vec<&str> = head.split_whitespace().collect();
        let [mode, _, oid, size] = words[..] else { return Err(format!("the tree line {head:?}")) };
        let oid = Oid::parse(oid).map_err(|error| error.to_string())?;
        entries.push((RawEntry { mode: mode.to_owned(), oid, name: path.to_vec() }, size.parse().ok()));
    }
    Ok(entries)
}

/// `git ls-files -s -z`: `<mode> <name of object> <stage>TAB<path>`.
pub(crate) fn parse_index(output: &[u8]) -> ParseResult<Vec<IndexEntry>> {
    let mut entries = Vec::new();
    for record in output.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
        let (head, path) = split_at_tab(record)?;
        let words: Vec<&str> = head.split(' ').collect();
        let [mode, oid, stage] = words[..] else { return Err(format!("the index line {head:?}")) };
        entries.push(IndexEntry {
            mode: mode.to_owned(),
            oid: Oid::parse(oid).map_err(|error| error.to_string())?,
            stage: stage.parse().map_err(|_| format!("the stage {stage:?}"))?,
            path: path.to_vec(),
        });
    }
    Ok(entries)
}

/// `git diff-tree -r -z --raw`: `:<mode> <mode> <object> <object> <letter>NUL<path>NUL`.
pub(crate) fn parse_diff(output: &[u8]) -> ParseResult<Vec<DiffEntry>> {
    let mut fields = output.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let mut entries = Vec::new();
    while let Some(head) = fields.next() {
        let head = String::from_utf8_lossy(head);
        let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let ([_, mode, _, oid, _], Some(path)) = (&words[..], fields.next()) else {
            return Err(format!("the difference {head:?}"));
        };
        let oid = Oid::parse(oid).map_err(|error| error.to_string())?;
        entries.push(DiffEntry { mode: (*mode).to_owned(), oid, path: path_of(path) });
    }
    Ok(entries)
}

fn split_at_tab(record: &[u8]) -> ParseResult<(&str, &[u8])> {
    let tab = record.iter().position(|byte| *byte == b'\t').ok_or("a record without a path")?;
    let head = std::str::from_utf8(&record[..tab]).map_err(|error| error.to_string())?;
    Ok((head, &record[tab + 1..]))
}

/// Whether a path as written in a tree is one that we may write: relative, no empty, `.`, `..` or `.git` part, no
/// control characters.
pub(crate) fn is_plain_path(path: &str) -> bool {
    let bad_part = |part: &str| matches!(part, "" | "." | "..") || part.eq_ignore_ascii_case(".git");
    !path.chars().any(char::is_control) && !path.split('/').any(bad_part) && Path::new(path).is_relative()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(digit: &str) -> Oid {
        Oid::parse(&digit.repeat(40)).unwrap()
    }

    #[test]
    fn the_list_of_worktrees_tells_branch_detached_unborn_bare_and_locked() {
        let list = format!(
            "worktree /a b\0HEAD {}\0branch refs/heads/main\0\0worktree /c\0HEAD {}\0detached\0locked why\nnot\0\0worktree /d\0bare\0\0\
             worktree /e\0HEAD {}\0branch refs/heads/x/y\0locked\0prunable gone\0\0",
            "1".repeat(40),
            "2".repeat(40),
            "0".repeat(40)
        );
        let list = parse_worktrees(list.as_bytes()).unwrap();
        let heads: Vec<_> = list.iter().map(|record| record.head.clone()).collect();
        let expected = [
            Some(Head::Branch("main".to_owned())),
            Some(Head::Detached(oid("2"))),
            None,
            Some(Head::Unborn("x/y".to_owned())),
        ];
        assert_eq!(heads, expected);
        assert_eq!(list[1].locked.as_deref(), Some("why\nnot"));
        assert_eq!(list[3].locked.as_deref(), Some(""));
        assert!(parse_worktrees(b"HEAD x\0").is_err());
    }

    #[test]
    fn a_tree_object_is_read_entry_by_entry_and_a_torn_one_is_refused() {
        let mut tree = b"100644 a b\0".to_vec();
        tree.extend([0x11; 20]);
        tree.extend(b"40000 d\0");
        tree.extend([0x22; 20]);
        let entries = parse_tree(&tree, 20).unwrap();
        assert_eq!(entries[0].name, b"a b");
        assert_eq!(entries[1], RawEntry { mode: "40000".to_owned(), oid: oid("2"), name: b"d".to_vec() });
        for end in [1, 8, 12, tree.len() - 1] {
            assert!(parse_tree(&tree[..end], 20).is_err(), "{end}");
        }
        assert!(parse_tree(b"", 20).unwrap().is_empty());
        for entry in entries {
            assert_eq!(find_in_tree(&tree, 20, &entry.name).unwrap(), Some(entry));
        }
        assert_eq!(find_in_tree(&tree, 20, b"nobody").unwrap(), None);
        assert!(find_in_tree(&tree[..tree.len() - 1], 20, b"nobody").is_err());
    }

    #[test]
    fn paths_with_tabs_and_line_ends_survive_the_lists() {
        let line = format!("100644 {} 2\ta\tb\nc\0", "1".repeat(40));
        let entry = &parse_index(line.as_bytes()).unwrap()[0];
        assert_eq!((entry.stage, entry.path.as_slice()), (2, b"a\tb\nc".as_slice()));
        let line = format!(
            "160000 commit {}       -\tsub\0100755 blob {}    17\tx\0",
            "1".repeat(40),
            "2".repeat(40)
        );
        let entries = parse_ls_tree(line.as_bytes()).unwrap();
        assert_eq!((entries[0].1, entries[1].1), (None, Some(17)));
        let line = format!(":100644 000000 {} {} D\0a\tb\0", "1".repeat(40), "0".repeat(40));
        let entries = parse_diff(line.as_bytes()).unwrap();
        assert_eq!((entries[0].mode.as_str(), entries[0].path.to_str()), ("000000", Some("a\tb")));
        assert!(parse_diff(b":100644 000000 D\0").is_err());
        assert!(parse_index(b"junk\0").is_err() && parse_ls_tree(b"100644 x\ty\0").is_err());
    }

    #[test]
    fn a_commit_without_parents_and_with_an_odd_subject_is_read() {
        let record =
            format!("{}\u{1f}\u{1f}A B\u{1f}a@x\u{1f}C\u{1f}c@x\u{1f}17\u{1f}s\u{1f}t", "1".repeat(40));
        let commit = &parse_commits(record.as_bytes()).unwrap()[0];
        assert_eq!((commit.parents.len(), commit.committed, commit.subject.as_str()), (0, 17, "s\u{1f}t"));
        assert!(parse_commits(b"x\x1fy").is_err());
        let record = format!("{}\u{1f}u1\u{1f}u2\n\0{}\u{1f}\0", "1".repeat(40), "2".repeat(40));
        let trailers = parse_trailers(record.as_bytes()).unwrap();
        assert_eq!(trailers, [(oid("1"), vec!["u1".to_owned(), "u2".to_owned()]), (oid("2"), vec![])]);
    }

    #[test]
    fn a_path_that_leaves_the_tree_or_names_git_is_not_plain() {
        for good in ["docs/board/a.yaml", "-x/ü b", "a..b", ".gitignore"] {
            assert!(is_plain_path(good), "{good}");
        }
        for bad in ["", "/a", "a//b", "../a", "a/./b", ".git/config", "a/.GIT/x", "a\nb", "a/"] {
            assert!(!is_plain_path(bad), "{bad:?}");
        }
    }
}

//! Cuts a stream of bytes into lines without ever holding more than one line of it.
//!
//! Apart from the supervisor because this is where memory stays flat: an agent may print a gigabyte
//! without a line break, and the worker keeps the first [`crate::limits::MAX_LINE_BYTES`] of it.

/// One line that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'b> {
    /// The line without its end (`\n` or `\r\n`).
    pub bytes: &'b [u8],
    /// Bytes that were cut off.
    pub cut: u64,
}

/// Collects bytes until a line is complete.
#[derive(Debug)]
pub struct Splitter {
    most: usize,
    pending: Vec<u8>,
    cut: u64,
}

/// What the buffer keeps of its capacity between lines, so that one long line does not cost for ever.
const KEEP_CAPACITY: usize = 64 << 10;

impl Splitter {
    /// Lines of at most so many bytes.
    pub fn new(most: usize) -> Splitter {
        Splitter { most, pending: Vec::new(), cut: 0 }
    }

    /// Takes the next bytes and hands over each line that they complete.
    pub fn push(&mut self, mut bytes: &[u8], mut take: impl FnMut(Line<'_>)) {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = bytes.split_at(at);
            bytes = &tail[1..];
            if self.pending.is_empty() && self.cut == 0 && head.len() <= self.most {
                take(Line { bytes: without_cr(head), cut: 0 });
            } else {
                self.append(head);
                self.emit(&mut take);
            }
        }
        self.append(bytes);
    }

    /// Hands over what is left at the end of the stream, a line without its end.
    pub fn end(&mut self, mut take: impl FnMut(Line<'_>)) {
        if !self.pending.is_empty() || self.cut > 0 {
            self.emit(&mut take);
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        let room = self.most - self.pending.len();
        let kept = bytes.len().min(room);
        self.pending.extend_from_slice(&bytes[..kept]);
        self.cut = self.cut.saturating_add((bytes.len() - kept) as u64);
    }

    fn emit(&mut self, take: &mut impl FnMut(Line<'_>)) {
        take(Line { bytes: without_cr(&self.pending), cut: self.cut });
        self.pending.clear();
        self.pending.shrink_to(KEEP_CAPACITY);
        self.cut = 0;
    }
}

fn without_cr(bytes: &[u8]) -> &[u8] {
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(most: usize, parts: &[&[u8]]) -> Vec<(String, u64)> {
        let mut splitter = Splitter::new(most);
        let mut lines = Vec::new();
        let mut take =
            |line: Line<'_>| lines.push((String::from_utf8(line.bytes.to_vec()).unwrap(), line.cut));
        for part in parts {
            splitter.push(part, &mut take);
        }
        splitter.end(&mut take);
        lines
    }

    fn plain(lines: &[&str]) -> Vec<(String, u64)> {
        lines.iter().map(|line| ((*line).to_owned(), 0)).collect()
    }

    #[test]
    fn lines_are_found_wherever_the_reads_end() {
        assert_eq!(split(80, &[b"a\nb\n"]), plain(&["a", "b"]));
        assert_eq!(split(80, &[b"a", b"b\nc", b"\n"]), plain(&["ab", "c"]));
        assert_eq!(split(80, &[b"a\r\n\n", b"end"]), plain(&["a", "", "end"]));
        assert_eq!(split(80, &[]), plain(&[]));
    }

    #[test]
    fn a_line_of_the_limit_is_whole_and_one_byte_more_is_cut_and_counted() {
        assert_eq!(split(4, &[b"1234\nx\n"]), plain(&["1234", "x"]));
        assert_eq!(split(4, &[b"12345\nx\n"]), [("1234".to_owned(), 1), ("x".to_owned(), 0)]);
        assert_eq!(split(4, &[b"123", b"456", b"789"]), [("1234".to_owned(), 5)]);
    }

    #[test]
    fn the_buffer_shrinks_after_a_long_line() {
        let mut splitter = Splitter::new(4 << 20);
        splitter.push(&vec![b'x'; 3 << 20], |_| {});
        splitter.push(b"\n", |_| {});
        assert!(splitter.pending.capacity() <= KEEP_CAPACITY);
    }
}

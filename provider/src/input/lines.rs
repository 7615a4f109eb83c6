//! Where does each line of a text file begin, and what is its number?
//!
//! Lines are handed out one at a time from one growing buffer: a file of any size needs the memory of its longest line.

use std::io::{BufRead, BufReader, Read};

use crate::error::{Code, Error, Result};
use crate::input::source::{Source, io_error};

/// The longest line: above any message of an event log, and low enough that a file without line ends is refused
/// before it fills the memory.
pub(super) const MAX_LINE: u64 = 256 * 1024 * 1024;

/// Distance of the marks at which a plain file can be split: small against a file worth splitting, large against the
/// cost of opening it once more.
const STRIDE: u64 = 16 * 1024 * 1024;

const BUFFER: usize = 256 * 1024;

/// A place where a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Byte of the (decompressed) content.
    pub(super) offset: u64,
    /// Number of the line that begins there, from 1.
    pub(super) line: u64,
}

impl Mark {
    pub(super) const START: Mark = Mark { offset: 0, line: 1 };
}

/// A stretch of a file from one line's begin to another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from: Mark,
    /// First byte that doesn't belong to it.
    pub(super) to: u64,
}

/// Collects the marks of a file while it is read for the first time.
#[derive(Debug)]
pub(super) struct Marks(Vec<Mark>);

impl Default for Marks {
    fn default() -> Self {
        Marks(vec![Mark::START])
    }
}

impl Marks {
    /// Notes that a line, or a record of several lines, begins at `mark`.
    pub(super) fn note(&mut self, mark: Mark) {
        if self.0.last().is_none_or(|last| mark.offset >= last.offset + STRIDE) {
            self.0.push(mark);
        }
    }

    /// The stretches of a file: one, unless it is plain and long. They join without gap and cover `length` bytes.
    pub(super) fn stretches(&self, source: &Source) -> Vec<Stretch> {
        if !source.is_plain() {
            return vec![Stretch { from: Mark::START, to: source.length() }];
        }
        let ends = self.0.iter().skip(1).map(|mark| mark.offset).chain([source.length()]);
        self.0.iter().zip(ends).map(|(from, to)| Stretch { from: *from, to }).collect()
    }
}

/// The lines of one stretch.
pub(super) struct Lines<'a> {
    reader: BufReader<Box<dyn Read + Send>>,
    source: &'a Source,
    next: Mark,
    /// Where a plain file must end.
    to: Option<u64>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(reader: Box<dyn Read + Send>, source: &'a Source, stretch: Stretch) -> Self {
        let to = source.is_plain().then_some(stretch.to);
        Lines { reader: BufReader::with_capacity(BUFFER, reader), source, next: stretch.from, to }
    }

    /// Where the next line begins.
    pub(super) fn next(&self) -> Mark {
        self.next
    }

    /// Appends the next line with its line end to `buffer`; false at the end. A byte order mark at the file's start is
    /// left out.
    ///
    /// Errors: `input_corrupt` for a line that is too long, a decompressor's failure, or a file that shrank.
    pub(super) fn append(&mut self, buffer: &mut Vec<u8>) -> Result<bool> {
        let before = buffer.len();
        let n = (&mut self.reader)
            .take(MAX_LINE + 1)
            .read_until(b'\n', buffer)
            .map_err(|e| io_error(e, self.source.shown()).with("line", self.next.line))?;
        if n as u64 > MAX_LINE {
            return Err(Error::new(Code::InputCorrupt, "a line is longer than 256 MiB")
                .with("file", self.source.shown())
                .with("line", self.next.line));
        }
        if n == 0 {
            return self.check_end().map(|()| false);
        }
        if self.next.offset == 0 && buffer.get(before..).is_some_and(|line| line.starts_with(b"\xEF\xBB\xBF")) {
            buffer.drain(before..before + 3);
        }
        self.next = Mark { offset: self.next.offset + n as u64, line: self.next.line + 1 };
        Ok(true)
    }

    fn check_end(&self) -> Result<()> {
        match self.to {
            Some(to) if self.next.offset < to => Err(changed(self.source)),
            _ => Ok(()),
        }
    }
}

/// The error of a file whose second reading differs from its first.
pub(super) fn changed(source: &Source) -> Error {
    Error::new(Code::InputCorrupt, "the file changed while it was read")
        .with("file", source.shown())
        .help("export a file that is no longer written to, or only appended to")
}

/// A line as text.
///
/// Errors: `input_corrupt` for bytes that are not UTF-8.
pub(super) fn text<'b>(bytes: &'b [u8], source: &Source, line: u64) -> Result<&'b str> {
    std::str::from_utf8(bytes).map_err(|e| {
        Error::new(Code::InputCorrupt, "not valid UTF-8")
            .with("file", source.shown())
            .with("line", line)
            .with("byte", e.valid_up_to() + 1)
    })
}

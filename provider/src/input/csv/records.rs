//! Which fields does each record of a CSV file have?
//!
//! RFC 4180: fields between commas, quotes around a field that holds commas, quotes or line ends, a quote within doubled.
//! Besides, lines end with or without a carriage return, blank lines are skipped, and a quote within an unquoted field
//! stands for itself. Strict where rows could be lost: a quote that never closes, text after a closing quote and a
//! record of another length than the header are errors.

use crate::error::{Code, Error, Result};
use crate::input::lines::{Lines, MAX_LINE, Mark, text};
use crate::input::source::Source;

/// The records of one stretch.
pub(super) struct Records<'a> {
    lines: Lines<'a>,
    source: &'a Source,
    line: Vec<u8>,
    /// The record as it stands in the file.
    raw: String,
    fields: Fields,
    begin: Mark,
}

/// The fields of one record.
#[derive(Debug, Default)]
pub(super) struct Fields {
    text: String,
    ends: Vec<usize>,
}

impl Fields {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.text.get(start..*end).unwrap_or_default())
    }

    fn end(&mut self) {
        self.ends.push(self.text.len());
    }
}

impl<'a> Records<'a> {
    pub(super) fn new(lines: Lines<'a>, source: &'a Source) -> Self {
        let begin = lines.next();
        Records { lines, source, line: Vec::new(), raw: String::new(), fields: Fields::default(), begin }
    }

    /// Where the record that was read last begins.
    pub(super) fn begin(&self) -> Mark {
        self.begin
    }

    /// Where the next record, or a blank line before it, begins.
    pub(super) fn next_begin(&self) -> Mark {
        self.lines.next()
    }

    /// Bytes of the record that was read last.
    pub(super) fn bytes(&self) -> usize {
        self.raw.len()
    }

    /// The fields of the record that was read last.
    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Reads the next record; `None` at the end.
    ///
    /// Errors: `input_corrupt` with file and line for what is not CSV.
    pub(super) fn read(&mut self) -> Result<Option<&Fields>> {
        loop {
            self.begin = self.lines.next();
            self.raw.clear();
            if !self.append_line()? {
                return Ok(None);
            }
            if !self.raw.trim_end_matches(['\r', '\n']).is_empty() {
                break;
            }
        }
        self.split()?;
        Ok(Some(&self.fields))
    }

    /// An error at the record that was read last.
    pub(super) fn wrong(&self, what: impl Into<String>) -> Error {
        Error::new(Code::InputCorrupt, what).with("file", self.source.shown()).with("line", self.begin.line)
    }

    fn append_line(&mut self) -> Result<bool> {
        let number = self.lines.next().line;
        self.line.clear();
        if !self.lines.append(&mut self.line)? {
            return Ok(false);
        }
        self.raw.push_str(text(&self.line, self.source, number)?);
        if self.raw.len() as u64 > MAX_LINE {
            return Err(self.wrong("a record is longer than 256 MiB"));
        }
        Ok(true)
    }

    fn split(&mut self) -> Result<()> {
        self.fields.text.clear();
        self.fields.ends.clear();
        let mut at = 0;
        loop {
            at = if self.raw.as_bytes().get(at) == Some(&b'"') { self.quoted(at + 1)? } else { self.unquoted(at) };
            self.fields.end();
            let rest = self.raw.get(at..).unwrap_or_default();
            match rest.as_bytes().first() {
                Some(b',') => at += 1,
                _ if matches!(rest, "" | "\n" | "\r\n" | "\r") => return Ok(()),
                Some(b'\r') => return Err(self.wrong("a carriage return stands alone within a record")),
                _ => return Err(self.wrong("text follows a closing quote")),
            }
        }
    }

    /// From after the opening quote to after the closing one.
    fn quoted(&mut self, mut at: usize) -> Result<usize> {
        loop {
            let rest = self.raw.get(at..).unwrap_or_default();
            let Some((inside, after)) = rest.split_once('"') else {
                self.fields.text.push_str(rest);
                at = self.raw.len();
                if !self.append_line()? {
                    return Err(self.wrong("a quote is never closed"));
                }
                continue;
            };
            self.fields.text.push_str(inside);
            at += inside.len() + 1;
            if !after.starts_with('"') {
                return Ok(at);
            }
            self.fields.text.push('"');
            at += 1;
        }
    }

    fn unquoted(&mut self, at: usize) -> usize {
        let rest = self.raw.get(at..).unwrap_or_default();
        let field = rest.split([',', '\n', '\r']).next().unwrap_or_default();
        self.fields.text.push_str(field);
        at + field.len()
    }
}

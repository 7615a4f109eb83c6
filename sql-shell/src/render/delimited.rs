//! Rows as separated values: CSV and TSV, with a line of names first.
//!
//! ```text
//! csv   id,text                    tsv   id  text
//!       1,"a ""quoted"", b"              1   tab\tnewline\nbackslash\\
//!       2,                   null        2   \N                            null
//!       3,""                 empty       3                                 empty
//! ```
//!
//! CSV is RFC 4180 with a line feed at the end of a line. Null is nothing and empty text is two quotes, except that a
//! result of one column writes null as two quotes too: an empty line is one that many readers skip. TSV escapes like
//! PostgreSQL's text format, so that one line is one row and a tab always separates.

use std::io::{self, Write};

use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::record_batch::RecordBatch;

use super::value::Values;
use super::{Renderer, recycle};

/// What separates values, and how a value is kept apart from what separates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Csv,
    Tsv,
}

/// Writes rows as separated values.
#[derive(Debug)]
pub(crate) struct Delimited {
    dialect: Dialect,
    /// Names still to be written.
    header: Option<Vec<String>>,
    line: String,
    value: String,
}

impl Delimited {
    pub(crate) fn new(schema: &Schema, dialect: Dialect) -> Self {
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        Delimited { dialect, header: Some(names), line: String::new(), value: String::new() }
    }

    fn header(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(names) = self.header.take() else { return Ok(()) };
        recycle(&mut self.line);
        for (place, name) in names.iter().enumerate() {
            self.separate(place);
            self.dialect.value(Some(name), false, &mut self.line);
        }
        self.line.push('\n');
        out.write_all(self.line.as_bytes())
    }

    fn separate(&mut self, place: usize) {
        if place > 0 {
            self.line.push(match self.dialect {
                Dialect::Csv => ',',
                Dialect::Tsv => '\t',
            });
        }
    }
}

impl Renderer for Delimited {
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        self.header(out)?;
        let columns: Vec<_> = batch.columns().iter().map(|column| Values::new(column)).collect();
        for row in 0..batch.num_rows() {
            recycle(&mut self.line);
            for (place, column) in columns.iter().enumerate() {
                self.separate(place);
                recycle(&mut self.value);
                let value = column.text(row, &mut self.value).then_some(self.value.as_str());
                self.dialect.value(value, columns.len() == 1, &mut self.line);
            }
            self.line.push('\n');
            out.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.header(out)
    }
}

impl Dialect {
    /// Appends one value, `None` for null; `alone` on its line.
    fn value(self, value: Option<&str>, alone: bool, out: &mut String) {
        match (self, value) {
            (Dialect::Csv, None) => out.push_str(if alone { "\"\"" } else { "" }),
            (Dialect::Csv, Some(text)) if text.is_empty() || text.contains([',', '"', '\n', '\r']) => {
                out.push('"');
                for (place, part) in text.split('"').enumerate() {
                    out.push_str(if place > 0 { "\"\"" } else { "" });
                    out.push_str(part);
                }
                out.push('"');
            }
            (Dialect::Csv, Some(text)) => out.push_str(text),
            (Dialect::Tsv, None) => out.push_str("\\N"),
            (Dialect::Tsv, Some(text)) => {
                for c in text.chars() {
                    match c {
                        '\t' => out.push_str("\\t"),
                        '\n' => out.push_str("\\n"),
                        '\r' => out.push_str("\\r"),
                        '\\' => out.push_str("\\\\"),
                        c => out.push(c),
                    }
                }
            }
        }
    }
}

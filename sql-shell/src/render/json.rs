//! Rows as JSON: one array of objects, or one object a line.
//!
//! ```text
//! ndjson   {"day":"2026-06-04","rows":2}      json   [{"day":"2026-06-04","rows":2},
//!          {"day":"2026-06-05","rows":7}              {"day":"2026-06-05","rows":7}]
//! ```
//!
//! Every key is present in column order, also where two columns have the same name.

use std::io::{self, Write};

use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::record_batch::RecordBatch;

use super::value::Values;
use super::{Renderer, recycle};

/// Writes rows as JSON objects.
#[derive(Debug)]
pub(crate) struct Json {
    /// `"name":` of each column.
    keys: Vec<String>,
    /// One array instead of one object a line.
    array: bool,
    rows: u64,
    line: String,
}

impl Json {
    pub(crate) fn new(schema: &Schema, array: bool) -> Self {
        let keys = schema.fields().iter().map(|field| key(field.name())).collect();
        Json { keys, array, rows: 0, line: String::new() }
    }
}

impl Renderer for Json {
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let columns: Vec<_> = batch.columns().iter().map(|column| Values::new(column)).collect();
        for row in 0..batch.num_rows() {
            recycle(&mut self.line);
            if self.array {
                self.line.push_str(if self.rows == 0 { "[" } else { ",\n" });
            }
            for (place, (key, column)) in self.keys.iter().zip(&columns).enumerate() {
                self.line.push(if place == 0 { '{' } else { ',' });
                self.line.push_str(key);
                column.json(row, &mut self.line);
            }
            self.line.push('}');
            if !self.array {
                self.line.push('\n');
            }
            out.write_all(self.line.as_bytes())?;
            self.rows += 1;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match (self.array, self.rows) {
            (false, _) => Ok(()),
            (true, 0) => out.write_all(b"[]\n"),
            (true, _) => out.write_all(b"]\n"),
        }
    }
}

/// A column's name as an object's key, with its colon.
pub(crate) fn key(name: &str) -> String {
    let mut key = String::with_capacity(name.len() + 3);
    string(name, &mut key);
    key.push(':');
    key
}

/// Appends a JSON string (RFC 8259 §7): quotes, backslashes and control characters escaped, everything else as it is.
pub(crate) fn string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
        let (plain, special) = rest.split_at(at);
        out.push_str(plain);
        let mut characters = special.chars();
        match characters.next() {
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(control) if control < ' ' => {
                let _ = std::fmt::Write::write_fmt(out, format_args!("\\u{:04x}", u32::from(control)));
            }
            Some(quote) => out.extend(['\\', quote]),
            None => {}
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

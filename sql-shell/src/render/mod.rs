//! How do rows become text?
//!
//! ```text
//! batches ─▶ Renderer ─▶ table      values in columns, widths from the first rows
//!                     ├▶ expanded   one line a value (\x)
//!                     ├▶ csv, tsv
//!                     └▶ json, ndjson
//! ```
//!
//! A renderer writes batch after batch and keeps at most a bounded number of rows.

mod delimited;
mod json;
mod table;
#[cfg(test)]
mod tests;
mod time;
mod value;

use std::fmt;
use std::io::{self, Write};

use datafusion::arrow::datatypes::{Schema, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;

use delimited::{Delimited, Dialect};
use json::Json;
use table::{Expanded, Table};
use time::Zone;

pub(crate) use json::string as json_string;

/// The formats of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Columns in a frame, for people
    Table,
    /// RFC 4180 with a line of names
    Csv,
    /// Tabs between values, backslash escapes
    Tsv,
    /// One array of objects
    Json,
    /// One object a line
    Ndjson,
}

/// How results are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) format: Format,
    /// Columns of the terminal that tables must fit in; `None` writes every value whole.
    pub(crate) width: Option<usize>,
    /// Tables as one line a value.
    pub(crate) expanded: bool,
}

/// Writes the rows of one result.
pub(crate) trait Renderer: Send + fmt::Debug {
    /// Writes a batch of the result's schema.
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what comes after the last row.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// What writes results of a schema.
pub(crate) fn renderer(schema: &Schema, layout: Layout) -> Box<dyn Renderer> {
    match layout.format {
        Format::Table if layout.expanded => Box::new(Expanded::new(schema)),
        Format::Table => Box::new(Table::new(schema, layout.width)),
        Format::Csv => Box::new(Delimited::new(schema, Dialect::Csv)),
        Format::Tsv => Box::new(Delimited::new(schema, Dialect::Tsv)),
        Format::Json => Box::new(Json::new(schema, true)),
        Format::Ndjson => Box::new(Json::new(schema, false)),
    }
}

/// An instant in milliseconds since 1970, in UTC.
pub(crate) fn iso_utc(millis: i64) -> String {
    let mut text = String::new();
    time::timestamp(millis, TimeUnit::Millisecond, Zone::Utc, &mut text);
    text
}

/// Empties a buffer; one that a huge value has grown is given back.
fn recycle(buffer: &mut String) {
    buffer.clear();
    buffer.shrink_to(1 << 20);
}

//! Rows in a frame, for people to read.
//!
//! ```text
//! +------------+------+        -[ 1 ]-----
//! | session_id | rows |        session_id | 4f1c
//! +------------+------+        rows       | 12
//! | 4f1c       |   12 |        -[ 2 ]-----
//! | NULL       |  107 |        session_id | NULL
//! +------------+------+        rows       | 107
//! ```
//!
//! Widths come from the first rows, as many as [`Head`] holds; later rows are written as they arrive, and a value that is
//! wider then pushes its row to the right. A value of several lines takes several lines. On a terminal, columns share
//! the width and what doesn't fit is cut (`…`), except in plans; where even that leaves too little for each column, rows
//! are written one value a line. Control characters are shown as escapes: data must not drive a terminal.

use std::io::{self, Write};

use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::record_batch::RecordBatch;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::value::{Values, is_numeric};
use super::{Renderer, recycle};

/// Writes rows in a frame.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    /// Columns of the terminal to fit in.
    fit: Option<usize>,
    state: State,
    line: String,
}

/// Writes rows one value a line.
#[derive(Debug)]
pub(crate) struct Expanded {
    names: Vec<String>,
    width: usize,
    rows: u64,
    line: String,
}

#[derive(Debug)]
struct Column {
    name: String,
    right: bool,
    width: usize,
}

#[derive(Debug)]
enum State {
    /// Widths are not known yet.
    Collecting(Head),
    /// The frame is open.
    Streaming,
    /// The terminal is too narrow for columns.
    Expanded(Expanded),
}

/// The rows that decide the widths.
#[derive(Debug, Default)]
struct Head {
    rows: Vec<Vec<String>>,
    bytes: usize,
}

impl Head {
    /// Enough for what a person looks at, little beside a session's memory.
    const ROWS: usize = 10_000;
    const BYTES: usize = 8 << 20;

    fn push(&mut self, row: Vec<String>) -> bool {
        self.bytes += row.iter().map(|cell| cell.len() + size_of::<String>()).sum::<usize>();
        self.rows.push(row);
        self.rows.len() < Self::ROWS && self.bytes < Self::BYTES
    }
}

/// The narrowest column worth reading.
const NARROW: usize = 8;

impl Table {
    pub(crate) fn new(schema: &Schema, fit: Option<usize>) -> Self {
        let columns = schema.fields().iter().map(|field| {
            let name = shown(field.name());
            Column { width: width_of(&name), name, right: is_numeric(field.data_type()) }
        });
        // Half a plan explains nothing.
        let fit = fit.filter(|_| !schema.fields().iter().any(|field| field.name() == "plan_type"));
        Table { columns: columns.collect(), fit, state: State::Collecting(Head::default()), line: String::new() }
    }

    /// Decides the widths and writes the rows collected so far.
    fn open(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let State::Collecting(head) = std::mem::replace(&mut self.state, State::Streaming) else { return Ok(()) };
        for row in &head.rows {
            for (column, cell) in self.columns.iter_mut().zip(row) {
                column.width = column.width.max(width_of(cell));
            }
        }
        if let Some(total) = self.fit
            && !fit(&mut self.columns, total)
        {
            let names = self.columns.iter().map(|column| column.name.clone()).collect();
            let mut expanded = Expanded::named(names);
            for row in &head.rows {
                expanded.row(row, out)?;
            }
            self.state = State::Expanded(expanded);
            return Ok(());
        }
        let names: Vec<_> = self.columns.iter().map(|column| column.name.clone()).collect();
        self.rule(out)?;
        self.row(&names, out)?;
        self.rule(out)?;
        head.rows.iter().try_for_each(|row| self.row(row, out))
    }

    fn rule(&mut self, out: &mut dyn Write) -> io::Result<()> {
        recycle(&mut self.line);
        for column in &self.columns {
            self.line.push_str("+-");
            self.line.extend(std::iter::repeat_n('-', column.width + 1));
        }
        self.line.push_str("+\n");
        out.write_all(self.line.as_bytes())
    }

    fn row(&mut self, cells: &[String], out: &mut dyn Write) -> io::Result<()> {
        let mut lines: Vec<_> = cells.iter().map(|cell| cell.split('\n')).collect();
        let height = cells.iter().map(|cell| cell.matches('\n').count() + 1).max().unwrap_or(1);
        for _ in 0..height {
            recycle(&mut self.line);
            for (column, lines) in self.columns.iter().zip(&mut lines) {
                self.line.push_str("| ");
                let text = lines.next().unwrap_or_default();
                let width = UnicodeWidthStr::width(text);
                let padding = std::iter::repeat_n(' ', column.width.saturating_sub(width));
                if column.right {
                    self.line.extend(padding);
                    self.line.push_str(text);
                } else if self.fit.is_some() && width > column.width {
                    cut(text, column.width, &mut self.line);
                } else {
                    self.line.push_str(text);
                    self.line.extend(padding);
                }
                self.line.push(' ');
            }
            self.line.push_str("|\n");
            out.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }
}

impl Renderer for Table {
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let values: Vec<_> = batch.columns().iter().map(|column| Values::new(column)).collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = values.iter().map(|values| cell(values, row)).collect();
            match &mut self.state {
                State::Collecting(head) => {
                    if !head.push(cells) {
                        self.open(out)?;
                    }
                }
                State::Streaming => self.row(&cells, out)?,
                State::Expanded(expanded) => expanded.row(&cells, out)?,
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.open(out)?;
        match self.state {
            State::Expanded(_) => Ok(()),
            _ => self.rule(out),
        }
    }
}

impl Expanded {
    pub(crate) fn new(schema: &Schema) -> Self {
        Self::named(schema.fields().iter().map(|field| shown(field.name())).collect())
    }

    fn named(names: Vec<String>) -> Self {
        let names: Vec<_> = names.into_iter().map(|name| name.replace('\n', "\\n")).collect();
        let width = names.iter().map(|name| width_of(name)).max().unwrap_or(0);
        Expanded { names, width, rows: 0, line: String::new() }
    }

    fn row(&mut self, cells: &[String], out: &mut dyn Write) -> io::Result<()> {
        self.rows += 1;
        let title = format!("-[ {} ]", self.rows);
        writeln!(out, "{title}{}", "-".repeat((self.width + 4).saturating_sub(title.len())))?;
        for (name, cell) in self.names.iter().zip(cells) {
            recycle(&mut self.line);
            for (place, text) in cell.split('\n').enumerate() {
                let name = if place == 0 { name.as_str() } else { "" };
                self.line.push_str(name);
                self.line.extend(std::iter::repeat_n(' ', self.width - width_of(name)));
                self.line.push_str(" | ");
                self.line.push_str(text);
                self.line.push('\n');
            }
            out.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }
}

impl Renderer for Expanded {
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        let values: Vec<_> = batch.columns().iter().map(|column| Values::new(column)).collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = values.iter().map(|values| cell(values, row)).collect();
            self.row(&cells, out)?;
        }
        Ok(())
    }

    fn finish(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

fn cell(values: &Values<'_>, row: usize) -> String {
    let mut text = String::new();
    if values.text(row, &mut text) { shown(&text) } else { "NULL".to_string() }
}

/// Text as a terminal may see it: line feeds stay but for the last, other control characters become escapes.
fn shown(text: &str) -> String {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let control = |c: char| c.is_control() && c != '\n';
    if !text.contains(control) {
        return text.to_string();
    }
    text.chars().fold(String::with_capacity(text.len() + 8), |mut shown, c| {
        if control(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        shown
    })
}

/// Columns of a terminal that the widest line takes.
fn width_of(text: &str) -> usize {
    text.split('\n').map(UnicodeWidthStr::width).max().unwrap_or(0)
}

/// Narrows the widest columns until the frame takes at most `total`; `false` where that leaves too little.
fn fit(columns: &mut [Column], total: usize) -> bool {
    let room = total.saturating_sub(3 * columns.len() + 1);
    let taken = |cap: usize| {
        let width = |column: &Column| if column.right { column.width } else { column.width.min(cap) };
        columns.iter().map(width).sum::<usize>()
    };
    let widest = columns.iter().map(|column| column.width).max().unwrap_or(0);
    if taken(widest) <= room {
        return true;
    }
    let Some(cap) = (NARROW..=room).rev().find(|cap| taken(*cap) <= room) else { return false };
    for column in columns.iter_mut().filter(|column| !column.right) {
        column.width = column.width.min(cap);
    }
    true
}

/// As many characters as fit in `width` beside the mark that something is missing.
fn cut(text: &str, width: usize, out: &mut String) {
    let mut taken = 0;
    for c in text.chars() {
        let wide = UnicodeWidthChar::width(c).unwrap_or(0);
        if taken + wide + 1 > width {
            break;
        }
        taken += wide;
        out.push(c);
    }
    out.push('…');
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(taken + 1)));
}

//! How does NDJSON, as it is in the wild, become typed batches?
//!
//! Two passes: the first looks at every row of every file and decides the types ([`shape`], [`resolve`]), the second
//! builds arrays of these types.

pub(super) mod canonical;
pub(super) mod path;
pub(super) mod resolve;
pub(super) mod shape;
pub(super) mod tape;

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::input::column::Record;
use crate::input::exec::{Batches, Output, Portion};
use crate::input::fit::Fit;
use crate::input::json::shape::{Census, Shape};
use crate::input::json::tape::{Kind, Members, Tape, Value};
use crate::input::lines::{Lines, Mark, Marks, Stretch, text};
use crate::input::source::Source;
use crate::input::survey::Cancelled;
use crate::input::types::{Named, schema_of};

/// What the first pass found in one file.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) rows: Shape,
    pub(super) marks: Marks,
}

/// The first pass over one file.
///
/// Errors: `input_corrupt` for what is not one JSON object a line, `input_value_invalid` as [`Shape::row`]; with file
/// and line.
pub(super) fn survey(source: &Source, mut census: Census<'_>, cancelled: &Cancelled) -> Result<Survey> {
    let whole = Stretch { from: Mark::START, to: source.length() };
    let mut lines = Lines::new(source.reader(0, whole.to, None)?, source, whole);
    let mut survey = Survey { rows: Shape::of_rows(), marks: Marks::default() };
    let mut tape = Tape::default();
    let mut buffer = Vec::new();
    loop {
        let mark = lines.next();
        survey.marks.note(mark);
        buffer.clear();
        if !lines.append(&mut buffer)? {
            return Ok(survey);
        }
        cancelled.check(mark.line)?;
        let line = text(&buffer, source, mark.line)?;
        if let Some(value) = parse(&mut tape, line, source, mark.line)? {
            census.at.line = mark.line;
            let row = members(value, line).and_then(|members| survey.rows.row(members, &mut census));
            row.map_err(|e| e.with("file", source.shown()).with("line", mark.line))?;
        }
    }
}

/// One stretch of a file, for the second pass.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) source: Source,
    pub(super) stretch: Stretch,
    pub(super) columns: Arc<[Named]>,
    pub(super) fit: Arc<Fit>,
}

impl Portion for Rows {
    fn weight(&self) -> u64 {
        self.stretch.to - self.stretch.from.offset
    }

    fn read(&self, output: &mut Output<'_>) -> Result<ControlFlow<()>> {
        let reader = self.source.reader(self.stretch.from.offset, self.stretch.to, Some(output.bytes_read()))?;
        let mut lines = Lines::new(reader, &self.source, self.stretch);
        let mut batches =
            Batches::new(Record::new(None, &self.columns)?, schema_of(&self.columns), &self.fit, &self.source, output);
        let mut tape = Tape::default();
        let mut buffer = Vec::new();
        loop {
            let at = lines.next().line;
            buffer.clear();
            if !lines.append(&mut buffer)? {
                return batches.finish();
            }
            let line = text(&buffer, &self.source, at)?;
            let Some(value) = parse(&mut tape, line, &self.source, at)? else { continue };
            let row = members(value, line).and_then(|members| batches.record().append(members));
            row.map_err(|e| e.with("file", self.source.shown()).with("line", at))?;
            if batches.appended(line.len())?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

/// The value of a line; `None` for a blank one.
fn parse<'t>(tape: &'t mut Tape, line: &'t str, source: &Source, number: u64) -> Result<Option<Value<'t>>> {
    if line.bytes().all(|b| b.is_ascii_whitespace()) {
        return Ok(None);
    }
    tape.parse(line).map(Some).map_err(|wrong| {
        let error = Error::new(Code::InputCorrupt, "a line is not valid JSON")
            .with("file", source.shown())
            .with("line", number)
            .with("byte", wrong.at + 1)
            .with("reason", wrong.what);
        let begin = line.trim();
        let document = number == 1 && (begin == "{" || begin == "[" || begin.starts_with("[{"));
        if document {
            error.help("one object a line is read; jq -c '.[]' or jq -c . makes that of a document")
        } else {
            error
        }
    })
}

fn members<'t>(value: Value<'t>, line: &str) -> Result<Members<'t>> {
    match value.kind() {
        Kind::Object(members) => Ok(members),
        _ => {
            let error = Error::new(Code::InputCorrupt, "a line holds no JSON object")
                .with("value", crate::input::refusal::shorten(line.trim()));
            Err(if matches!(value.kind(), Kind::List(_)) {
                error.help("jq -c '.[]' makes lines of the items of a list")
            } else {
                error
            })
        }
    }
}

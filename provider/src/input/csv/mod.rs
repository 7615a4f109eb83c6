//! How does CSV with a header become typed batches?
//!
//! Two passes, as for NDJSON: the first looks at every value and decides the types ([`kinds`]), the second builds arrays.
//! An empty value is null, quoted or not.

mod kinds;
mod records;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::column::Record;
use crate::input::csv::kinds::Kinds;
use crate::input::csv::records::{Fields, Records};
use crate::input::exec::{Batches, Output, Portion};
use crate::input::fit::Fit;
use crate::input::lines::{Lines, Mark, Marks, Stretch};
use crate::input::refusal::clash;
use crate::input::ruling::Ruling;
use crate::input::source::Source;
use crate::input::survey::Cancelled;
use crate::input::types::{Named, Type, Unit, schema_of};
use crate::input::zones::{At, Zones};

/// What the first pass found in one file.
#[derive(Debug)]
pub(super) struct Survey {
    /// Columns in the order of the header.
    columns: Vec<Column>,
    pub(super) marks: Marks,
}

/// What was seen of one column.
#[derive(Debug)]
struct Column {
    name: String,
    kinds: Kinds,
    /// For the column that must hold timestamps.
    zones: Option<Zones>,
    /// Where its first value stands.
    first: Option<At>,
}

/// The columns of all CSV input.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) columns: Vec<Named>,
    /// Columns that are kept as JSON text.
    pub(super) json: Vec<String>,
    /// The first contradiction to the types that rule.
    pub(super) clash: Option<Error>,
}

/// The first pass over one file. `timestamp` is the column whose texts must be timestamps, unless its type is known.
///
/// Errors: `input_corrupt` for what is not CSV, `input_value_invalid` for a primary timestamp that is none; with file
/// and line.
pub(super) fn survey(
    source: &Source,
    file: usize,
    timestamp: Option<&str>,
    ruling: &Ruling,
    cancelled: &Cancelled,
) -> Result<Survey> {
    let whole = Stretch { from: Mark::START, to: source.length() };
    let mut records = Records::new(Lines::new(source.reader(0, whole.to, None)?, source, whole), source);
    let mut survey = Survey { columns: header(&mut records, timestamp)?, marks: Marks::default() };
    let width = survey.columns.len();
    let ruled: Vec<bool> = survey.columns.iter().map(|column| ruling.of(&column.name).is_some()).collect();
    loop {
        survey.marks.note(records.next_begin());
        if !next(&mut records, width)? {
            return Ok(survey);
        }
        let line = records.begin().line;
        cancelled.check(line)?;
        let at = At { file, line };
        for ((column, ruled), value) in survey.columns.iter_mut().zip(&ruled).zip(records.fields().iter()) {
            if value.is_empty() {
                continue;
            }
            column.first.get_or_insert(at);
            match &mut column.zones {
                _ if *ruled => {}
                Some(zones) => {
                    zones.see(&column.name, value, at).map_err(|e| e.with("file", source.shown()).with("line", line))?
                }
                None => column.kinds.see(value),
            }
        }
    }
}

/// Decides the columns of all files together, in the order their headers name them.
///
/// Errors: `input_value_invalid` if some primary timestamps have a zone and some have none.
pub(super) fn resolve<'s>(
    surveys: impl Iterator<Item = &'s Survey>,
    ruling: &Ruling,
    json: &HashSet<String>,
    sources: &[Source],
) -> Result<Resolved> {
    let mut all: Vec<Column> = Vec::new();
    for column in surveys.flat_map(|survey| &survey.columns) {
        match all.iter_mut().find(|known| known.name == column.name) {
            Some(known) => known.merge(column),
            None => {
                let Column { name, kinds, zones, first } = column;
                all.push(Column { name: name.clone(), kinds: *kinds, zones: zones.clone(), first: *first });
            }
        }
    }
    for column in &all {
        column.zones.as_ref().map_or(Ok(()), |zones| zones.check(&column.name, sources))?;
    }
    let mut resolved = Resolved { columns: Vec::new(), json: Vec::new(), clash: None };
    for column in &all {
        let ty = column.resolve(ruling, json.contains(&column.name), sources, &mut resolved);
        resolved.columns.push(Named { name: column.name.clone(), ty });
    }
    Ok(resolved)
}

impl Survey {
    /// For each column of the file, its position among `columns`.
    pub(super) fn positions(&self, columns: &[Named]) -> Vec<usize> {
        let position = |name: &str| columns.iter().position(|known| known.name == name);
        self.columns.iter().filter_map(|column| position(&column.name)).collect()
    }
}

impl Column {
    fn merge(&mut self, other: &Column) {
        self.kinds.merge(other.kinds);
        self.first = self.first.or(other.first);
        if let Some(zones) = &other.zones {
            self.zones.get_or_insert_default().merge(zones.clone());
        }
    }

    fn resolve(&self, ruling: &Ruling, json: bool, sources: &[Source], resolved: &mut Resolved) -> Type {
        let ruled = ruling.of(&self.name);
        if json && ruled.is_none_or(|ty| *ty == Type::Text) {
            resolved.json.push(self.name.clone());
            return Type::Json;
        }
        if let Some(ty) = ruled {
            let nested = matches!(ty, Type::Struct(_) | Type::List(_) | Type::Map(_));
            if let Some(at) = self.first.filter(|_| nested && resolved.clash.is_none()) {
                let file = sources.get(at.file).map_or("", Source::shown);
                resolved.clash = Some(clash(&self.name, &ty.name(), "text").with("file", file).with("line", at.line));
            }
            return ty.clone();
        }
        match &self.zones {
            Some(zones) => Type::Timestamp { unit: Unit::Micros, zoned: zones.zoned() },
            None => self.kinds.resolve(),
        }
    }
}

/// One stretch of a file, for the second pass.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) source: Source,
    pub(super) stretch: Stretch,
    pub(super) columns: Arc<[Named]>,
    /// For each column of the file, its position among `columns`.
    pub(super) positions: Arc<[usize]>,
    pub(super) fit: Arc<Fit>,
}

impl Portion for Rows {
    fn weight(&self) -> u64 {
        self.stretch.to - self.stretch.from.offset
    }

    fn read(&self, output: &mut Output<'_>) -> Result<ControlFlow<()>> {
        let reader = self.source.reader(self.stretch.from.offset, self.stretch.to, Some(output.bytes_read()))?;
        let mut records = Records::new(Lines::new(reader, &self.source, self.stretch), &self.source);
        let mut batches =
            Batches::new(Record::new(None, &self.columns)?, schema_of(&self.columns), &self.fit, &self.source, output);
        if self.stretch.from == Mark::START {
            records.read()?;
        }
        while next(&mut records, self.positions.len())? {
            let fields = self.positions.iter().copied().zip(records.fields().iter());
            let row = batches.record().append_fields(fields);
            row.map_err(|e| e.with("file", self.source.shown()).with("line", records.begin().line))?;
            if batches.appended(records.bytes())?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        batches.finish()
    }
}

/// Reads the next record, which must be as long as the header; false at the end.
fn next(records: &mut Records<'_>, width: usize) -> Result<bool> {
    match records.read()?.map(Fields::len) {
        None => Ok(false),
        Some(n) if n == width => Ok(true),
        Some(n) => Err(records.wrong(format!("{n} fields stand where the header names {width}"))),
    }
}

/// The columns that the first record names; none for an empty file.
fn header(records: &mut Records<'_>, timestamp: Option<&str>) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    if records.read()?.is_none() {
        return Ok(columns);
    }
    for name in records.fields().iter() {
        if columns.iter().any(|known| known.name == name) {
            return Err(records.wrong(format!("the header names the column {name:?} twice")));
        }
        let zones = (timestamp == Some(name)).then(Zones::default);
        columns.push(Column { name: name.to_owned(), kinds: Kinds::default(), zones, first: None });
    }
    Ok(columns)
}

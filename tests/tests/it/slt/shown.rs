//! How is a row written down, and what of it is left out because it differs from run to run?

use arrow::array::{Array, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Boolean, integer, real or decimal, text, date, point in time, anything else.
pub(super) const LETTERS: &str = "BIRTDP?";

/// The letter of a type.
pub(super) fn letter(kind: &DataType) -> char {
    match kind {
        DataType::Boolean => 'B',
        kind if kind.is_integer() => 'I',
        kind if kind.is_numeric() => 'R',
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => 'T',
        DataType::Date32 | DataType::Date64 => 'D',
        DataType::Timestamp(_, _) => 'P',
        _ => '?',
    }
}

/// Each row as one line: values between ` | `, `NULL`, `(empty)` for text without characters, control characters
/// escaped; text that would look like one of these stands between quotes.
pub(super) fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let row = |row: Vec<Option<String>>| row.into_iter().map(written).collect::<Vec<_>>().join(" | ");
    cells(batches).into_iter().map(row).collect()
}

fn written(cell: Option<String>) -> String {
    match cell.as_deref() {
        None => "NULL".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(text @ ("NULL" | "(empty)" | "----")) => format!("'{text}'"),
        Some(text) => escaped(text),
    }
}

/// The lines of plans: each kind of plan, then its lines, with [`masked`] values.
pub(super) fn plans(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for cell in cells(batches).into_iter().flatten().flatten() {
        lines.extend(cell.lines().filter(|line| !line.trim().is_empty()).map(masked));
    }
    lines
}

fn cells(batches: &[RecordBatch]) -> Vec<Vec<Option<String>>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<(ArrayFormatter<'_>, Option<NullBuffer>)> = batch
            .columns()
            .iter()
            .map(|column| (ArrayFormatter::try_new(column.as_ref(), &options), column.logical_nulls()))
            .map(|(formatter, nulls)| (formatter.expect("every type can be shown"), nulls))
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let cell = |(column, nulls): &(ArrayFormatter<'_>, Option<NullBuffer>)| {
                let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                (!null).then(|| column.value(row).to_string())
            };
            columns.iter().map(cell).collect()
        }));
    }
    rows
}

fn escaped(cell: &str) -> String {
    let mut out = String::new();
    for c in cell.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Facts of a plan that depend on the machine, the time or chance.
const CHANCE: [&str; 2] = ["snapshot", "bytes"];

/// A line of a plan with `<…>` for what differs from run to run: names of files, snapshots, times, bytes.
pub(super) fn masked(line: &str) -> String {
    let line = without_files(line.trim_end());
    let mut out = String::new();
    let mut rest = line.as_str();
    while let Some(at) = rest.find('=') {
        let (before, after) = rest.split_at(at + 1);
        out.push_str(before);
        let key = before.trim_end_matches('=');
        let key = &key[key.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1)..];
        let end = after.find([',', ']', ')', ' ']).unwrap_or(after.len());
        let (value, left) = after.split_at(end);
        let number = value.starts_with(|c: char| c.is_ascii_digit());
        // `1.2 MB` and `12.3 K`: the unit stands behind a space.
        let unit = left.strip_prefix(' ').map(|left| &left[..left.find([',', ']']).unwrap_or(left.len())]);
        let unit = unit.filter(|unit| ["B", "KB", "MB", "GB"].contains(unit));
        if number && let Some(unit) = unit {
            out.push_str("<bytes>");
            rest = &left[1 + unit.len()..];
        } else if number && (is_time(value) || CHANCE.contains(&key)) {
            out.push_str(&if is_time(value) { "<time>".to_owned() } else { format!("<{key}>") });
            rest = left;
        } else {
            out.push_str(value);
            rest = left;
        }
    }
    out + rest
}

/// Data files are named by chance; their directories are not.
fn without_files(line: &str) -> String {
    let pieces: Vec<&str> = line.split(".parquet").collect();
    let last = pieces.len() - 1;
    let named = pieces[..last].iter().map(|piece| match piece.rsplit_once('/') {
        Some((directory, _)) => format!("{directory}/<file>.parquet"),
        None => format!("{piece}.parquet"),
    });
    named.chain(std::iter::once(pieces[last].to_owned())).collect()
}

fn is_time(value: &str) -> bool {
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    ["ns", "µs", "ms", "s"].contains(&unit)
}

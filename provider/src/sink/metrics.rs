//! What does the manifest say about a data file?
//!
//! Counts, sizes and bounds come from the file's own footer, over all of its row groups; NaNs, which Parquet doesn't
//! count, and bounds that are wanted whole are taken from the rows while they are written.
//!
//! ```text
//! row group 0   "a" … "kkkkkk…" (shortened)  ┐
//! row group 1   "b" … "c"                    ┴─▶  bounds "a" … "kkkkkl": a shortened end still is an end
//! ```
//! One row group without bounds, though it has values, leaves the whole column without.

use std::collections::HashMap;

use arrow::array::{Array, AsArray};
use arrow::compute::{max_binary, max_string, min_binary, min_string};
use arrow::datatypes::DataType;
use iceberg::spec::{Datum, PrimitiveType, Schema, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::bounds::{self, Value};
use super::properties::Mode;

/// What was seen of the rows while they were written, by field id.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub nans: HashMap<i32, u64>,
    exact: HashMap<i32, (Vec<u8>, Vec<u8>)>,
}

impl Observed {
    /// Widens the exact bounds of a string or binary column.
    pub(super) fn widen(&mut self, id: i32, array: &dyn Array) {
        let ends = match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                min_string(array).zip(max_string(array)).map(|(a, b)| (a.as_bytes(), b.as_bytes()))
            }
            DataType::Binary => min_binary(array.as_binary::<i32>()).zip(max_binary(array.as_binary::<i32>())),
            DataType::LargeBinary => min_binary(array.as_binary::<i64>()).zip(max_binary(array.as_binary::<i64>())),
            _ => None,
        };
        let Some((min, max)) = ends else { return };
        match self.exact.get_mut(&id) {
            None => {
                self.exact.insert(id, (min.to_vec(), max.to_vec()));
            }
            Some((low, high)) => {
                if min < low.as_slice() {
                    *low = min.to_vec();
                }
                if max > high.as_slice() {
                    *high = max.to_vec();
                }
            }
        }
    }
}

/// Metrics of a data file, by field id of its primitive columns (specification: "Data File Fields").
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Metrics {
    /// Bytes of each column as stored.
    pub column_sizes: HashMap<i32, u64>,
    /// Values, nulls and NaNs included.
    pub value_counts: HashMap<i32, u64>,
    pub null_value_counts: HashMap<i32, u64>,
    /// Of floating-point columns outside of lists and maps.
    pub nan_value_counts: HashMap<i32, u64>,
    /// Of columns outside of lists and maps that have a value other than null and NaN.
    pub lower_bounds: HashMap<i32, Datum>,
    pub upper_bounds: HashMap<i32, Datum>,
    /// Where each row group begins, ascending.
    pub split_offsets: Vec<i64>,
}

/// One column over all row groups.
#[derive(Default)]
struct Column {
    bytes: u64,
    values: u64,
    /// `None` once a row group doesn't say.
    nulls: Option<u64>,
    ends: Option<(Value, Value)>,
    /// A row group has values and no bounds.
    unbounded: bool,
}

/// The metrics of a file with this footer. `modes`: for each primitive column what is wanted.
// @spec W5
pub(super) fn of(footer: &ParquetMetaData, schema: &Schema, modes: &[(i32, Mode)], observed: &Observed) -> Metrics {
    let mut columns: HashMap<i32, Column> = HashMap::new();
    let mut metrics = Metrics::default();
    for group in footer.row_groups() {
        metrics.split_offsets.extend(group.columns().iter().map(|c| c.byte_range().0 as i64).min());
        for chunk in group.columns() {
            if let Some(id) = field_id(chunk) {
                let column = columns.entry(id).or_insert_with(|| Column { nulls: Some(0), ..Column::default() });
                column.add(chunk, primitive(schema, id));
            }
        }
    }
    for (id, mode) in modes {
        if let Some(column) = columns.remove(id) {
            metrics.put(*id, column, *mode, primitive(schema, *id), observed);
        }
    }
    metrics
}

fn field_id(chunk: &ColumnChunkMetaData) -> Option<i32> {
    let info = chunk.column_descr().self_type().get_basic_info();
    info.has_id().then(|| info.id())
}

fn primitive(schema: &Schema, id: i32) -> Option<&PrimitiveType> {
    match schema.field_by_id(id)?.field_type.as_ref() {
        Type::Primitive(kind) => Some(kind),
        _ => None,
    }
}

impl Column {
    fn add(&mut self, chunk: &ColumnChunkMetaData, kind: Option<&PrimitiveType>) {
        let values = chunk.num_values().max(0) as u64;
        self.bytes += chunk.compressed_size().max(0) as u64;
        self.values += values;
        let statistics = chunk.statistics();
        let nulls = statistics.and_then(|s| s.null_count_opt());
        self.nulls = self.nulls.zip(nulls).map(|(a, b)| a + b);
        let repeated = chunk.column_descr().max_rep_level() > 0;
        let ends = statistics.zip(kind).and_then(|(s, kind)| bounds::of_statistics(s, kind));
        match ends {
            Some(ends) if !repeated => self.widen(ends),
            _ if nulls == Some(values) => {}
            // Parquet gives a floating-point chunk no ends exactly when it has nothing but NaN and null.
            _ if !repeated && matches!(kind, Some(PrimitiveType::Float | PrimitiveType::Double)) => {}
            _ => self.unbounded = true,
        }
    }

    fn widen(&mut self, (min, max): (Value, Value)) {
        match &mut self.ends {
            None => self.ends = Some((min, max)),
            Some((low, high)) => {
                if min.order(low).is_lt() {
                    *low = min;
                }
                if max.order(high).is_gt() {
                    *high = max;
                }
            }
        }
    }
}

impl Metrics {
    fn put(&mut self, id: i32, column: Column, mode: Mode, kind: Option<&PrimitiveType>, observed: &Observed) {
        self.column_sizes.insert(id, column.bytes);
        if mode == Mode::None {
            return;
        }
        self.value_counts.insert(id, column.values);
        if let Some(nulls) = column.nulls {
            self.null_value_counts.insert(id, nulls);
        }
        if let Some(nans) = observed.nans.get(&id) {
            self.nan_value_counts.insert(id, *nans);
        }
        let exact = observed.exact.get(&id).map(|(low, high)| (Value::Bytes(low.clone()), Value::Bytes(high.clone())));
        let ends = exact.or_else(|| column.ends.filter(|_| !column.unbounded));
        let (Some((low, high)), Some(kind)) = (ends, kind) else { return };
        if mode == Mode::Counts {
            return;
        }
        self.lower_bounds.extend(bounds::lower(&low, kind, mode).map(|bound| (id, bound)));
        self.upper_bounds.extend(bounds::upper(&high, kind, mode).map(|bound| (id, bound)));
    }
}

#[cfg(test)]
mod tests;

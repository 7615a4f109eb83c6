//! What do a file's own statistics say of a column's values?
//!
//! Parquet's minima and maxima leave NaN out and may be truncated or, from old writers, ordered wrongly. They become
//! [`Facts`] only where they are bounds under the table's order of values; everything else is "not known".

use iceberg::spec::PrimitiveType;
use parquet::basic::{ColumnOrder, ConvertedType, LogicalType, SortOrder, TimeUnit, Type as Physical};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use crate::predicate::{Facts, Value};

/// A leaf column whose stored values can be compared with those of a table column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) leaf: usize,
    kind: Kind,
    float: bool,
    /// Bounds of strings and bytes are ordered as the table orders them.
    ordered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    /// Any integer that is the value itself: int, long, date, time, timestamp.
    Long,
    Double,
    Decimal,
    Text,
    Bytes,
}

impl Stored {
    /// How the column of type `table` is stored in leaf `leaf`; `None` where statistics can't be used.
    pub(super) fn new(metadata: &ParquetMetaData, leaf: usize, table: &PrimitiveType) -> Option<Self> {
        let file = metadata.file_metadata();
        let descriptor = file.schema_descr().columns().get(leaf)?;
        let kind = kind(descriptor, table)?;
        let ordered = match file.column_order(leaf) {
            ColumnOrder::UNKNOWN => return None,
            ColumnOrder::UNDEFINED => false,
            ColumnOrder::TYPE_DEFINED_ORDER(order) => {
                order == if kind == Kind::Decimal { SortOrder::SIGNED } else { SortOrder::UNSIGNED }
            }
        };
        Some(Stored { leaf, kind, float: matches!(table, PrimitiveType::Float | PrimitiveType::Double), ordered })
    }

    /// The facts of the column in one row group.
    pub(super) fn of_group(&self, metadata: &ParquetMetaData, group: usize) -> Facts {
        let Some(row_group) = metadata.row_groups().get(group) else {
            return Facts::default();
        };
        let statistics = row_group.columns().get(self.leaf).and_then(ColumnChunkMetaData::statistics);
        let bounds = statistics.and_then(|s| self.bounds(s)).unwrap_or((None, None));
        self.facts(bounds, statistics.and_then(Statistics::null_count_opt), row_group.num_rows())
    }

    /// The facts of the column in each page of a row group, with the page's rows; `None` where there is no page index.
    pub(super) fn of_pages(
        &self,
        metadata: &ParquetMetaData,
        group: usize,
    ) -> Option<Vec<(std::ops::Range<usize>, Facts)>> {
        let rows = metadata.row_groups().get(group)?.num_rows();
        let columns = metadata.column_index()?.get(group)?.get(self.leaf)?;
        let pages = metadata.offset_index()?.get(group)?.get(self.leaf)?.page_locations();
        if matches!(columns, ColumnIndexMetaData::NONE) || columns.num_pages() != pages.len() as u64 {
            return None;
        }
        let begins: Vec<i64> = pages.iter().map(|page| page.first_row_index).collect();
        if !covers(&begins, rows) {
            return None;
        }
        let mut all = Vec::with_capacity(pages.len());
        for (at, page) in pages.iter().enumerate() {
            let end = pages.get(at + 1).map_or(rows, |next| next.first_row_index);
            let range = usize::try_from(page.first_row_index).ok()?..usize::try_from(end).ok()?;
            let count = range.len() as i64;
            let facts = if columns.is_null_page(at) {
                Facts { nulls: Some(range.len() as u64), ..self.facts((None, None), None, count) }
            } else {
                let nulls = columns.null_count(at).and_then(|n| u64::try_from(n).ok());
                self.facts(self.page_bounds(columns, at), nulls, count)
            };
            all.push((range, facts));
        }
        Some(all)
    }

    fn facts(&self, (lower, upper): (Option<Value>, Option<Value>), nulls: Option<u64>, rows: i64) -> Facts {
        Facts {
            lower,
            upper,
            nulls,
            nans: if self.float { None } else { Some(0) },
            rows: u64::try_from(rows).ok(),
            float: self.float,
        }
    }

    fn bounds(&self, statistics: &Statistics) -> Option<(Option<Value>, Option<Value>)> {
        let bytes = |min: Option<&[u8]>, max: Option<&[u8]>| {
            let usable = self.ordered && !statistics.is_min_max_deprecated();
            usable.then(|| (min.and_then(|v| self.of_bytes(v)), max.and_then(|v| self.of_bytes(v))))
        };
        match statistics {
            Statistics::Boolean(s) => {
                Some((s.min_opt().copied().map(Value::Bool), s.max_opt().copied().map(Value::Bool)))
            }
            Statistics::Int32(s) => Some((self.of_int(s.min_opt().copied()), self.of_int(s.max_opt().copied()))),
            Statistics::Int64(s) => Some((self.of_int(s.min_opt().copied()), self.of_int(s.max_opt().copied()))),
            Statistics::Float(s) => Some((of_float(s.min_opt().copied()), of_float(s.max_opt().copied()))),
            Statistics::Double(s) => Some((of_float(s.min_opt().copied()), of_float(s.max_opt().copied()))),
            Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_) => {
                bytes(statistics.min_bytes_opt(), statistics.max_bytes_opt())
            }
            Statistics::Int96(_) => None,
        }
    }

    fn page_bounds(&self, columns: &ColumnIndexMetaData, at: usize) -> (Option<Value>, Option<Value>) {
        match columns {
            ColumnIndexMetaData::BOOLEAN(i) => {
                (i.min_value(at).copied().map(Value::Bool), i.max_value(at).copied().map(Value::Bool))
            }
            ColumnIndexMetaData::INT32(i) => {
                (self.of_int(i.min_value(at).copied()), self.of_int(i.max_value(at).copied()))
            }
            ColumnIndexMetaData::INT64(i) => {
                (self.of_int(i.min_value(at).copied()), self.of_int(i.max_value(at).copied()))
            }
            ColumnIndexMetaData::FLOAT(i) => (of_float(i.min_value(at).copied()), of_float(i.max_value(at).copied())),
            ColumnIndexMetaData::DOUBLE(i) => (of_float(i.min_value(at).copied()), of_float(i.max_value(at).copied())),
            ColumnIndexMetaData::BYTE_ARRAY(i) | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(i) if self.ordered => {
                (i.min_value(at).and_then(|v| self.of_bytes(v)), i.max_value(at).and_then(|v| self.of_bytes(v)))
            }
            _ => (None, None),
        }
    }

    fn of_int(&self, value: Option<impl Into<i64>>) -> Option<Value> {
        let value = value?.into();
        match self.kind {
            Kind::Long => Some(Value::Long(value)),
            Kind::Decimal => Some(Value::Decimal(i128::from(value))),
            Kind::Bool | Kind::Double | Kind::Text | Kind::Bytes => None,
        }
    }

    fn of_bytes(&self, bytes: &[u8]) -> Option<Value> {
        match self.kind {
            Kind::Text => Some(Value::String(std::str::from_utf8(bytes).ok()?.to_owned())),
            Kind::Bytes => Some(Value::Bytes(bytes.to_vec())),
            Kind::Decimal => big_endian(bytes).map(Value::Decimal),
            Kind::Bool | Kind::Long | Kind::Double => None,
        }
    }

    /// False only if the bloom filter proves that no row equals `value`. The filter holds hashes of values as stored, so
    /// one that the stored type can't hold isn't there.
    pub(super) fn bloom_may_hold(&self, metadata: &ParquetMetaData, filter: &Sbbf, value: &Value) -> bool {
        let descriptor = metadata.file_metadata().schema_descr().columns().get(self.leaf);
        let Some(physical) = descriptor.map(|d| d.physical_type()) else {
            return true;
        };
        match (self.kind, value, physical) {
            (Kind::Long, Value::Long(v), Physical::INT32) => i32::try_from(*v).is_ok_and(|v| filter.check(&v)),
            (Kind::Long, Value::Long(v), Physical::INT64) => filter.check(v),
            (Kind::Decimal, Value::Decimal(v), Physical::INT32) => i32::try_from(*v).is_ok_and(|v| filter.check(&v)),
            (Kind::Decimal, Value::Decimal(v), Physical::INT64) => i64::try_from(*v).is_ok_and(|v| filter.check(&v)),
            (Kind::Text, Value::String(v), Physical::BYTE_ARRAY) => filter.check(v.as_str()),
            (Kind::Bytes, Value::Bytes(v), Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY) => {
                filter.check(v.as_slice())
            }
            // Floats have several bit patterns of one value, decimals in bytes several encodings.
            _ => true,
        }
    }
}

/// Whether pages that begin at these rows hold all of a row group's: what no page holds would never be read.
fn covers(begins: &[i64], rows: i64) -> bool {
    match begins {
        [] => rows == 0,
        [first, ..] => *first == 0 && begins.is_sorted() && begins.last().is_some_and(|last| *last <= rows),
    }
}

fn of_float(value: Option<impl Into<f64>>) -> Option<Value> {
    Some(Value::Double(value?.into()))
}

/// A two's complement number of up to 16 bytes, as Parquet stores decimals.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let mut wide = if bytes.first()? & 0x80 == 0 { [0; 16] } else { [0xff; 16] };
    let from = wide.len().checked_sub(bytes.len())?;
    wide.get_mut(from..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

/// How values of the table type are stored in the leaf, where their order and meaning are the same.
fn kind(leaf: &ColumnDescriptor, table: &PrimitiveType) -> Option<Kind> {
    let physical = leaf.physical_type();
    Some(match (table, physical) {
        (PrimitiveType::Boolean, Physical::BOOLEAN) => Kind::Bool,
        (PrimitiveType::Int, Physical::INT32) | (PrimitiveType::Long, Physical::INT32 | Physical::INT64)
            if signed(leaf) =>
        {
            Kind::Long
        }
        (PrimitiveType::Date, Physical::INT32) if is_date(leaf) => Kind::Long,
        (PrimitiveType::Time | PrimitiveType::Timestamp | PrimitiveType::Timestamptz, Physical::INT64)
            if unit(leaf) == Some(TimeUnit::MICROS) =>
        {
            Kind::Long
        }
        (PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs, Physical::INT64)
            if unit(leaf) == Some(TimeUnit::NANOS) =>
        {
            Kind::Long
        }
        (PrimitiveType::Float, Physical::FLOAT) | (PrimitiveType::Double, Physical::FLOAT | Physical::DOUBLE) => {
            Kind::Double
        }
        (PrimitiveType::Decimal { scale, .. }, _) if decimal_scale(leaf) == i32::try_from(*scale).ok() => Kind::Decimal,
        (PrimitiveType::String, Physical::BYTE_ARRAY) => Kind::Text,
        (PrimitiveType::Binary, Physical::BYTE_ARRAY)
        | (PrimitiveType::Fixed(_) | PrimitiveType::Uuid, Physical::FIXED_LEN_BYTE_ARRAY) => Kind::Bytes,
        _ => return None,
    })
}

/// An integer that is nothing but a signed integer.
fn signed(leaf: &ColumnDescriptor) -> bool {
    match (leaf.logical_type_ref(), leaf.converted_type()) {
        (Some(LogicalType::Integer { is_signed, .. }), _) => *is_signed,
        (Some(_), _) => false,
        (None, ConvertedType::NONE | ConvertedType::INT_8 | ConvertedType::INT_16) => true,
        (None, ConvertedType::INT_32 | ConvertedType::INT_64) => true,
        (None, _) => false,
    }
}

fn is_date(leaf: &ColumnDescriptor) -> bool {
    matches!(leaf.logical_type_ref(), Some(LogicalType::Date)) || leaf.converted_type() == ConvertedType::DATE
}

fn unit(leaf: &ColumnDescriptor) -> Option<TimeUnit> {
    match (leaf.logical_type_ref(), leaf.converted_type()) {
        (Some(LogicalType::Timestamp { unit, .. } | LogicalType::Time { unit, .. }), _) => Some(*unit),
        (None, ConvertedType::TIMESTAMP_MICROS | ConvertedType::TIME_MICROS) => Some(TimeUnit::MICROS),
        _ => None,
    }
}

fn decimal_scale(leaf: &ColumnDescriptor) -> Option<i32> {
    match (leaf.logical_type_ref(), leaf.converted_type()) {
        (Some(LogicalType::Decimal { scale, .. }), _) => Some(*scale),
        (None, ConvertedType::DECIMAL) => Some(leaf.type_scale()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_every_row_or_are_not_believed() {
        assert!(covers(&[0, 40, 80], 100) && covers(&[0, 40, 40], 40) && covers(&[], 0));
        for begins in [&[1, 40, 80][..], &[0, 80, 40], &[0, 40, 101], &[-1, 40], &[]] {
            assert!(!covers(begins, 100), "{begins:?}");
        }
    }

    #[test]
    fn decimals_are_signed() {
        assert_eq!(big_endian(&[0xff]), Some(-1));
        assert_eq!(big_endian(&[0x00, 0xff]), Some(255));
        assert_eq!(big_endian(&[0x80, 0x00]), Some(-32768));
        assert_eq!(big_endian(&[]), None);
        assert_eq!(big_endian(&[0; 17]), None);
    }
}

//! What does one entry of a manifest say of its file?
//!
//! The record of an entry stays as the bytes it was written in until somebody asks: planning reads the columns that a
//! query is about, a commit reads everything.

use std::collections::HashMap;

use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, Literal, PrimitiveLiteral, PrimitiveType,
    Schema, Struct,
};

use super::avro::{Cursor, Type};
use super::ids;
use super::layout::{Layout, TupleField};

/// A data file's record, as it stands.
#[derive(Debug, Default)]
pub(super) struct Record<'a> {
    content: i32,
    pub(super) path: Option<&'a str>,
    format: Option<&'a str>,
    record_count: Option<i64>,
    size: Option<i64>,
    column_sizes: Counts,
    value_counts: Counts,
    null_value_counts: Counts,
    nan_value_counts: Counts,
    lower_bounds: Vec<(i32, &'a [u8])>,
    upper_bounds: Vec<(i32, &'a [u8])>,
    key_metadata: Option<&'a [u8]>,
    split_offsets: Option<Vec<i64>>,
    equality_ids: Option<Vec<i32>>,
    sort_order_id: Option<i32>,
    pub(super) first_row_id: Option<i64>,
    referenced_data_file: Option<&'a str>,
    content_offset: Option<i64>,
    content_size: Option<i64>,
}

type Counts = Vec<(i32, u64)>;

/// What planning asks of a file.
#[derive(Clone, Debug)]
pub struct Brief {
    /// As the manifest has it.
    pub path: String,
    pub format: DataFileFormat,
    /// Bytes.
    pub size: u64,
    pub encrypted: bool,
    pub split_offsets: Option<Vec<i64>>,
    /// Of the columns that were asked for, in the order they were asked for in.
    pub columns: Vec<ColumnMetrics>,
}

/// What a manifest holds of one column of a file; whatever is `None` is not known.
#[derive(Clone, Debug, Default)]
pub struct ColumnMetrics {
    pub id: i32,
    /// Stored bytes.
    pub size: Option<u64>,
    pub nulls: Option<u64>,
    pub nans: Option<u64>,
    pub lower: Option<Datum>,
    pub upper: Option<Datum>,
}

impl<'a> Record<'a> {
    /// Reads the record at the cursor; of the metrics only those of `columns` (field ids, ascending), where given.
    pub(super) fn read(file: &Type, at: &mut Cursor<'a>, columns: Option<&[i32]>) -> Result<Record<'a>, String> {
        let mut record = Record::default();
        let there = file.fields(at, |field, at| {
            let ty = &field.ty;
            match field.id {
                Some(ids::CONTENT) => record.content = ty.int(at)?.unwrap_or_default(),
                Some(ids::FILE_PATH) => record.path = ty.text(at)?,
                Some(ids::FILE_FORMAT) => record.format = ty.text(at)?,
                Some(ids::RECORD_COUNT) => record.record_count = ty.long(at)?,
                Some(ids::FILE_SIZE) => record.size = ty.long(at)?,
                Some(ids::COLUMN_SIZES) => record.column_sizes = counts(ty, at, columns)?,
                Some(ids::VALUE_COUNTS) => record.value_counts = counts(ty, at, columns)?,
                Some(ids::NULL_VALUE_COUNTS) => record.null_value_counts = counts(ty, at, columns)?,
                Some(ids::NAN_VALUE_COUNTS) => record.nan_value_counts = counts(ty, at, columns)?,
                Some(ids::LOWER_BOUNDS) => record.lower_bounds = bounds(ty, at, columns)?,
                Some(ids::UPPER_BOUNDS) => record.upper_bounds = bounds(ty, at, columns)?,
                Some(ids::KEY_METADATA) => record.key_metadata = ty.bytes(at)?,
                Some(ids::SPLIT_OFFSETS) => record.split_offsets = list(ty, at, Type::long)?,
                Some(ids::EQUALITY_IDS) => record.equality_ids = list(ty, at, Type::int)?,
                Some(ids::SORT_ORDER_ID) => record.sort_order_id = ty.int(at)?,
                Some(ids::FIRST_ROW_ID) => record.first_row_id = ty.long(at)?,
                Some(ids::REFERENCED_DATA_FILE) => record.referenced_data_file = ty.text(at)?,
                Some(ids::CONTENT_OFFSET) => record.content_offset = ty.long(at)?,
                Some(ids::CONTENT_SIZE) => record.content_size = ty.long(at)?,
                _ => ty.skip(at)?,
            }
            Ok(())
        })?;
        there.map(|()| record).ok_or_else(|| "an entry has no data file".to_owned())
    }

    fn format(&self) -> Result<DataFileFormat, String> {
        let format = self.format.ok_or("an entry has no file format")?;
        format.parse().map_err(|e: iceberg::Error| e.to_string())
    }

    /// The record, as far as planning needs it.
    pub(super) fn brief(&self, schema: &Schema, columns: &[i32]) -> Result<Brief, String> {
        let count = |counts: &Counts, id: i32| counts.iter().rfind(|(key, _)| *key == id).map(|(_, n)| *n);
        let bound = |bounds: &[(i32, &[u8])], id: i32| {
            bounds.iter().rfind(|(key, _)| *key == id).and_then(|(_, bytes)| datum(schema, id, bytes))
        };
        let column = |id: &i32| ColumnMetrics {
            id: *id,
            size: count(&self.column_sizes, *id),
            nulls: count(&self.null_value_counts, *id),
            nans: count(&self.nan_value_counts, *id),
            lower: bound(&self.lower_bounds, *id),
            upper: bound(&self.upper_bounds, *id),
        };
        Ok(Brief {
            path: self.path.ok_or("an entry has no file path")?.to_owned(),
            format: self.format()?,
            size: unsigned(self.size, "file size")?,
            encrypted: self.key_metadata.is_some(),
            split_offsets: self.split_offsets.clone(),
            columns: columns.iter().map(column).collect(),
        })
    }

    /// The record with everything it holds.
    pub(super) fn data_file(self, schema: &Schema, spec_id: i32, partition: Struct) -> Result<DataFile, String> {
        let bounds = |bounds: Vec<(i32, &[u8])>| -> HashMap<i32, Datum> {
            bounds.into_iter().filter_map(|(id, bytes)| Some((id, datum(schema, id, bytes)?))).collect()
        };
        let mut builder = DataFileBuilder::default();
        builder
            .content(DataContentType::try_from(self.content).map_err(|e| e.to_string())?)
            .file_path(self.path.ok_or("an entry has no file path")?.to_owned())
            .file_format(self.format()?)
            .partition(partition)
            .partition_spec_id(spec_id)
            .record_count(unsigned(self.record_count, "record count")?)
            .file_size_in_bytes(unsigned(self.size, "file size")?)
            .column_sizes(self.column_sizes.into_iter().collect())
            .value_counts(self.value_counts.into_iter().collect())
            .null_value_counts(self.null_value_counts.into_iter().collect())
            .nan_value_counts(self.nan_value_counts.into_iter().collect())
            .lower_bounds(bounds(self.lower_bounds))
            .upper_bounds(bounds(self.upper_bounds))
            .key_metadata(self.key_metadata.map(<[u8]>::to_vec))
            .split_offsets(self.split_offsets)
            .equality_ids(self.equality_ids)
            .first_row_id(self.first_row_id)
            .referenced_data_file(self.referenced_data_file.map(str::to_owned))
            .content_offset(self.content_offset)
            .content_size_in_bytes(self.content_size);
        if let Some(order) = self.sort_order_id {
            builder.sort_order_id(order);
        }
        builder.build().map_err(|e| e.to_string())
    }
}

/// A count or size, which every entry has.
pub(super) fn unsigned(value: Option<i64>, what: &str) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("an entry has no {what}"))?;
    u64::try_from(value).map_err(|_| format!("an entry has a {what} of {value}"))
}

/// Counts of columns. Negative ones say nothing.
fn counts(ty: &Type, at: &mut Cursor<'_>, columns: Option<&[i32]>) -> Result<Counts, String> {
    map(ty, at, columns, |ty, at| Ok(ty.long(at)?.and_then(|n| u64::try_from(n).ok())))
}

fn bounds<'a>(ty: &Type, at: &mut Cursor<'a>, columns: Option<&[i32]>) -> Result<Vec<(i32, &'a [u8])>, String> {
    map(ty, at, columns, Type::bytes)
}

/// A map from column ids, which Avro has as an array of pairs.
fn map<'a, T>(
    ty: &Type,
    at: &mut Cursor<'a>,
    columns: Option<&[i32]>,
    mut read: impl FnMut(&Type, &mut Cursor<'a>) -> Result<Option<T>, String>,
) -> Result<Vec<(i32, T)>, String> {
    let mut pairs = Vec::new();
    ty.items(at, |item, at| {
        let (mut key, mut value) = (None, None);
        item.fields(at, |field, at| {
            match field.id {
                id if ids::is_key(id) => key = field.ty.int(at)?,
                id if ids::is_value(id) => value = read(&field.ty, at)?,
                _ => field.ty.skip(at)?,
            }
            Ok(())
        })?;
        if let (Some(key), Some(value)) = (key, value)
            && columns.is_none_or(|columns| columns.binary_search(&key).is_ok())
        {
            pairs.push((key, value));
        }
        Ok(())
    })?;
    Ok(pairs)
}

fn list<'a, T>(
    ty: &Type,
    at: &mut Cursor<'a>,
    read: impl Fn(&Type, &mut Cursor<'a>) -> Result<Option<T>, String>,
) -> Result<Option<Vec<T>>, String> {
    let mut items = Vec::new();
    let there = ty.items(at, |item, at| {
        items.push(read(item, at)?.ok_or("a list has a null")?);
        Ok(())
    })?;
    Ok(there.then_some(items))
}

/// A bound under the schema of its manifest, or of a reserved column. A bound of a column that is neither, or that is no
/// value of its column's type, is not known: bounds only ever exclude.
fn datum(schema: &Schema, id: i32, bytes: &[u8]) -> Option<Datum> {
    let reserved = || iceberg::metadata_columns::get_metadata_field(id).ok();
    let field = schema.field_by_id(id).or_else(reserved)?;
    let ty = field.field_type.as_primitive_type()?;
    Datum::try_from_bytes(bytes, ty.clone()).ok()
}

/// Reads a partition tuple, in the order of the manifest's spec.
pub(super) fn tuple(layout: &Layout, partition: &Type, at: &mut Cursor<'_>) -> Result<Struct, String> {
    let mut values: Vec<Option<Option<Literal>>> = vec![None; layout.tuple.len()];
    partition.fields(at, |field, at| {
        let position = layout.tuple.iter().position(|known| Some(known.id) == field.id);
        match position.and_then(|position| Some((values.get_mut(position)?, layout.tuple.get(position)?))) {
            Some((value, known)) => *value = Some(literal(&field.ty, at, known)?),
            None => field.ty.skip(at)?,
        }
        Ok(())
    })?;
    let complete = values.into_iter().zip(&layout.tuple).map(|(value, field)| match value {
        Some(value) => Ok(value.filter(|_| !field.void)),
        None if field.void => Ok(None),
        // Not null: nothing is known of it, and a tuple can't say that.
        None => Err(format!("its schema has no partition field {} (`{}`)", field.id, field.name)),
    });
    complete.collect()
}

fn literal(ty: &Type, at: &mut Cursor<'_>, field: &TupleField) -> Result<Option<Literal>, String> {
    use PrimitiveLiteral as L;
    use PrimitiveType as P;
    let value = ty.optional(at, |ty, at| match (ty, &field.ty) {
        (Type::Boolean, P::Boolean) => Ok(ty.boolean(at)?.map(L::Boolean)),
        (Type::Long, P::Int | P::Date) => Ok(ty.int(at)?.map(L::Int)),
        (Type::Long, P::Long | P::Time | P::Timestamp | P::Timestamptz | P::TimestampNs | P::TimestamptzNs) => {
            Ok(ty.long(at)?.map(L::Long))
        }
        (Type::Float, P::Float) => Ok(Some(L::Float(f32::from_le_bytes(at.array()?).into()))),
        (Type::Float, P::Double) => Ok(Some(L::Double(f64::from(f32::from_le_bytes(at.array()?)).into()))),
        (Type::Double, P::Double) => Ok(Some(L::Double(f64::from_le_bytes(at.array()?).into()))),
        (Type::Bytes, P::String) => Ok(ty.text(at)?.map(|text| L::String(text.to_owned()))),
        (Type::Bytes | Type::Fixed(_), P::Binary | P::Fixed(_)) => Ok(ty.bytes(at)?.map(|b| L::Binary(b.to_vec()))),
        (Type::Bytes | Type::Fixed(_), P::Uuid) => {
            let bytes = ty.bytes(at)?.unwrap_or_default();
            let bytes = bytes.try_into().map_err(|_| format!("a uuid of {} bytes", bytes.len()))?;
            Ok(Some(L::UInt128(u128::from_be_bytes(bytes))))
        }
        (Type::Bytes | Type::Fixed(_), P::Decimal { .. }) => {
            let bytes = ty.bytes(at)?.unwrap_or_default();
            unscaled(bytes)
                .map(|value| Some(L::Int128(value)))
                .ok_or_else(|| format!("a decimal of {} bytes", bytes.len()))
        }
        _ => Err(format!("its partition field {} (`{}`) is no {}", field.id, field.name, field.ty)),
    })?;
    Ok(value.flatten().map(Literal::Primitive))
}

/// A decimal's number: big endian, in as many bytes as its writer took.
fn unscaled(bytes: &[u8]) -> Option<i128> {
    let sign = if bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    let mut wide = [sign; 16];
    let start = wide.len().checked_sub(bytes.len())?;
    wide.get_mut(start..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

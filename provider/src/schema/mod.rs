//! How do Iceberg's and Arrow's schemas map, by field id?

use std::sync::Arc;

use arrow::datatypes::{Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use iceberg::spec::Schema;

use crate::error::{Code, Error, Result};

/// The Arrow schema a table shows: strings as `Utf8View`, binary as `BinaryView`, timestamps in µs or ns, with zone
/// `+00:00` or without; each field (nested ones too) carries its id in the metadata key `PARQUET:field_id`.
pub fn to_arrow(_schema: &Schema) -> Result<ArrowSchemaRef> {
    Err(Error::new(Code::Internal, "stub"))
}

/// The field id that a field of [`to_arrow`] carries.
pub fn field_id(field: &arrow::datatypes::Field) -> Option<i32> {
    field.metadata().get(parquet::arrow::PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// A new table's schema: ids from 1 in pre-order of top-level fields first; refused by column where no lossless type exists
/// (`unsupported_type`). Nanosecond timestamps become µs unless the column is named in `nanoseconds`.
pub fn from_arrow(_arrow: &ArrowSchema, _nanoseconds: &[String]) -> Result<Schema> {
    Err(Error::new(Code::Internal, "stub"))
}

/// The schema that `current` must become so that `incoming` can be appended (L6); `None` if nothing changes.
pub fn extend(_current: &Schema, _last_column_id: i32, _incoming: &ArrowSchema) -> Result<Option<Schema>> {
    Err(Error::new(Code::Internal, "stub"))
}

/// Shared schema handle.
pub type SchemaRef = Arc<Schema>;

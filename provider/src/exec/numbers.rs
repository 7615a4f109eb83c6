//! What does a row inherit from its file, by its position in it?
//!
//! ```text
//!   _pos                              the position
//!   _row_id                           stored, else the id of the file's first row + the position
//!   _last_updated_sequence_number     stored, else the file's
//! ```
//!
//! Table specification, "Row Lineage".

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;

use crate::scan::MetadataColumn;

/// What a row has that stores nothing itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inherited {
    /// Its position in the file.
    Position,
    /// A number of the file, plus its position.
    From(i64),
    /// A number of the file.
    Same(i64),
    Null,
}

/// A batch as it was decoded: if rows are numbered, the numbers are its last column.
pub(super) struct Numbered<'a>(pub(super) &'a RecordBatch);

impl Inherited {
    /// For a column whose rows differ; `of_file` is what the manifest says of it.
    pub(super) fn of(column: MetadataColumn, of_file: &ScalarValue) -> Self {
        match (column, of_file) {
            (MetadataColumn::RowId, ScalarValue::Int64(Some(first))) => Inherited::From(*first),
            (_, ScalarValue::Int64(Some(same))) => Inherited::Same(*same),
            _ => Inherited::Null,
        }
    }

    /// Whether the rows' positions are needed.
    pub(super) fn numbered(self) -> bool {
        matches!(self, Inherited::Position | Inherited::From(_))
    }

    /// The column: what is stored, and for rows that store nothing what they inherit.
    pub(super) fn column(self, stored: Option<ArrayRef>, batch: &Numbered<'_>) -> Result<ArrayRef, ArrowError> {
        let rows = batch.0.num_rows();
        let inherited: Int64Array = match self {
            Inherited::Position => batch.numbers()?.clone(),
            Inherited::From(first) => batch.numbers()?.try_unary(|position| {
                let overflow = || ArrowError::ArithmeticOverflow(format!("row ids overflow after {first}"));
                first.checked_add(position).ok_or_else(overflow)
            })?,
            Inherited::Same(same) => Int64Array::from_value(same, rows),
            Inherited::Null => Int64Array::new_null(rows),
        };
        let Some(stored) = stored.filter(|stored| stored.null_count() < rows) else { return Ok(Arc::new(inherited)) };
        let own = stored.as_primitive_opt::<Int64Type>();
        let own = own.ok_or_else(|| ArrowError::SchemaError("a stored row id is no number".to_owned()))?;
        Ok(Arc::new(own.iter().zip(&inherited).map(|(own, inherited)| own.or(inherited)).collect::<Int64Array>()))
    }
}

impl Numbered<'_> {
    fn numbers(&self) -> Result<&Int64Array, ArrowError> {
        let last = self.0.columns().last().and_then(|column| column.as_primitive_opt::<Int64Type>());
        last.ok_or_else(|| ArrowError::SchemaError("rows were not numbered".to_owned()))
    }
}

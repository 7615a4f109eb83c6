//! What becomes of columns that have no type, because they hold nothing but nulls?
//!
//! The table's column of that name gives them one. Where there is none they make no column, and are named in the report.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::expressions::{Column, Literal};
use datafusion::physical_plan::projection::ProjectionExec;

use super::Opened;
use crate::catalog::Base;
use crate::error::Result;
use crate::schema;

/// The same rows without columns of the null type.
pub(super) fn typed(mut opened: Opened, base: Option<&Base>) -> Result<Opened> {
    let untyped = |field: &Field| *field.data_type() == DataType::Null;
    if !opened.schema.fields().iter().any(|field| untyped(field)) {
        return Ok(opened);
    }
    let table = base.map(|base| schema::to_arrow(base.metadata.current_schema())).transpose()?;
    let mut columns: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::new();
    let mut fields: Vec<FieldRef> = Vec::new();
    for (at, field) in opened.schema.fields().iter().enumerate() {
        let name = field.name();
        let in_table = table.as_ref().and_then(|table| table.column_with_name(name));
        let (column, field): (Arc<dyn PhysicalExpr>, FieldRef) = match in_table {
            _ if !untyped(field) => (Arc::new(Column::new(name, at)), Arc::clone(field)),
            Some((_, known)) => {
                let null = ScalarValue::try_new_null(known.data_type())?;
                (Arc::new(Literal::new(null)), Arc::new(Field::new(name, known.data_type().clone(), true)))
            }
            None => {
                opened.untyped.push(name.clone());
                continue;
            }
        };
        columns.push((column, name.clone()));
        fields.push(field);
    }
    let plan = Arc::new(ProjectionExec::try_new(columns, opened.plan)?);
    Ok(Opened { plan, schema: Schema::new(fields), ..opened })
}

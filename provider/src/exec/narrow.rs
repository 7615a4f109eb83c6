//! Which fields of a struct does anybody read?
//!
//! ```text
//!   table     id long    event struct {kind, at, body struct {text, size}}
//!   read      event.body.size, id
//!   narrowed  id long    event struct {body struct {size}}
//! ```
//!
//! A narrowed table has the columns of the table, in their places; what its structs lack is not read from files. Lists and
//! maps are read whole.
// @spec P4

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema as ArrowSchema, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;

use crate::predicate::column_of;
use crate::scan::MetadataColumn;
use crate::schema::field_id;

/// The table narrowed to what expressions over it read; the table itself where they read whole columns.
pub(super) fn narrowed<'e>(table: &SchemaRef, exprs: impl IntoIterator<Item = &'e Arc<dyn PhysicalExpr>>) -> SchemaRef {
    if !table.fields().iter().any(|field| is_narrowable(field)) {
        return Arc::clone(table);
    }
    let mut read = HashSet::new();
    exprs.into_iter().for_each(|expr| reads(expr, table, &mut read));
    let column = |field: &FieldRef| match is_narrowable(field) {
        true => within(field, &read).unwrap_or_else(|| Arc::clone(field)),
        false => Arc::clone(field),
    };
    let columns: Fields = table.fields().iter().map(column).collect();
    match columns == *table.fields() {
        true => Arc::clone(table),
        false => Arc::new(ArrowSchema::new_with_metadata(columns, table.metadata().clone())),
    }
}

fn is_narrowable(column: &Field) -> bool {
    matches!(column.data_type(), DataType::Struct(_)) && MetadataColumn::of(column).is_none()
}

/// The ids of the columns and fields that an expression takes as they are.
fn reads(expr: &Arc<dyn PhysicalExpr>, table: &ArrowSchema, found: &mut HashSet<i32>) {
    match column_of(expr, table) {
        Some(field) => found.extend(field_id(field)),
        None => expr.children().into_iter().for_each(|child| reads(child, table, found)),
    }
}

/// A field with what is read of it; `None` if that is nothing.
fn within(field: &FieldRef, read: &HashSet<i32>) -> Option<FieldRef> {
    // What has no id can't be told apart.
    if field_id(field).is_none_or(|id| read.contains(&id)) {
        return Some(Arc::clone(field));
    }
    let DataType::Struct(fields) = field.data_type() else { return None };
    let fields: Fields = fields.iter().filter_map(|field| within(field, read)).collect();
    let narrowed = || Arc::new(field.as_ref().clone().with_data_type(DataType::Struct(fields.clone())));
    (!fields.is_empty()).then(narrowed)
}

/// A stored column with the fields that a column of a narrowed table is made of. A struct that has none of them keeps one,
/// which tells where it is null.
pub(super) fn stored(stored: &FieldRef, table: &Field) -> FieldRef {
    let (DataType::Struct(from), DataType::Struct(to)) = (stored.data_type(), table.data_type()) else {
        return Arc::clone(stored);
    };
    let names: HashSet<&String> = from.iter().map(|field| field.name()).collect();
    if names.len() < from.len() {
        return Arc::clone(stored);
    }
    let of = |field: &FieldRef| to.iter().find(|of| field_id(of).is_some_and(|id| field_id(field) == Some(id)));
    let kept: Vec<FieldRef> = from.iter().filter_map(|field| of(field).map(|of| self::stored(field, of))).collect();
    let kept: Fields = if kept.is_empty() { from.iter().take(1).cloned().collect() } else { kept.into() };
    Arc::new(stored.as_ref().clone().with_data_type(DataType::Struct(kept)))
}

/// Whether a stored column, as far as it is read, has the leaf column at a path of names, its own first.
pub(super) fn has_leaf(stored: &Field, path: &[String]) -> bool {
    let Some((name, rest)) = path.split_first() else { return true };
    stored.name() == name
        && match (stored.data_type(), rest.first()) {
            (DataType::Struct(fields), Some(_)) => fields.iter().any(|field| has_leaf(field, rest)),
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn field(id: i32, name: &str, data_type: DataType) -> FieldRef {
        let id = HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]);
        Arc::new(Field::new(name, data_type, true).with_metadata(id))
    }

    fn strukt(id: i32, name: &str, fields: Vec<FieldRef>) -> FieldRef {
        field(id, name, DataType::Struct(fields.into()))
    }

    fn event(fields: Vec<FieldRef>) -> FieldRef {
        strukt(2, "event", fields)
    }

    fn kind() -> FieldRef {
        field(3, "kind", DataType::Utf8)
    }

    fn size() -> FieldRef {
        field(6, "size", DataType::Int64)
    }

    #[test]
    fn what_is_read_is_kept() {
        let text = field(5, "text", DataType::Utf8);
        let whole = event(vec![kind(), strukt(4, "body", vec![text.clone(), size()])]);
        let read = |ids: &[i32]| within(&whole, &ids.iter().copied().collect());
        assert_eq!(read(&[6]), Some(event(vec![strukt(4, "body", vec![size()])])));
        assert_eq!(read(&[3, 4]), Some(whole.clone()));
        assert_eq!(read(&[2, 6]), Some(whole.clone()));
        assert_eq!(read(&[1]), None);
    }

    #[test]
    fn a_struct_is_told_apart_by_ids() {
        let file = event(vec![field(3, "was", DataType::Utf8), field(9, "kind", DataType::Utf8)]);
        assert_eq!(stored(&file, &event(vec![kind()])), event(vec![field(3, "was", DataType::Utf8)]));
        // Where it is null, something must tell.
        assert_eq!(stored(&file, &event(vec![size()])), event(vec![field(3, "was", DataType::Utf8)]));
        let twice = event(vec![kind(), field(7, "kind", DataType::Utf8)]);
        assert_eq!(stored(&twice, &event(vec![kind()])), twice);
    }

    #[test]
    fn leaves_are_found_by_their_path() {
        let list = DataType::List(field(8, "element", DataType::Int64));
        let file = event(vec![kind(), strukt(4, "body", vec![size(), field(7, "parts", list)])]);
        let has = |path: &[&str]| has_leaf(&file, &path.iter().map(|&part| part.to_owned()).collect::<Vec<_>>());
        assert!(has(&["event", "kind"]) && has(&["event", "body", "size"]));
        assert!(has(&["event", "body", "parts", "list", "element"]));
        assert!(!has(&["event", "body", "text"]) && !has(&["event", "size"]) && !has(&["other", "kind"]));
    }
}

//! Where do the key columns of equality deletes stand?
//!
//! By field id, in the data file and in the delete file alike. A key may be a field inside a struct, need not be wanted by
//! the query, and may have been dropped from the table since: such columns are read as well and left out again.
//!
//! ```text
//!   table    1 id   2 name   3 place {4 city, 5 zip}     + 9 code, dropped
//!   keys     [1]  ▶ id          [5] ▶ place.zip          [9] ▶ code
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Float32Type, Float64Type, Schema as ArrowSchema, SchemaRef};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use iceberg::spec::{NestedFieldRef, Schema};

use crate::error::{Code, Error, Result};
use crate::metadata::with_defaults;
use crate::scan::{DeleteKind, Plan, View, arrow_with};
use crate::schema::field_id;

/// The keys of all equality deletes of a scan.
#[derive(Debug)]
pub(in crate::exec) struct Keys {
    /// The view's columns, then dropped ones that are keys.
    pub(in crate::exec) table: SchemaRef,
    /// The same as Iceberg has it.
    pub(in crate::exec) schema: Arc<Schema>,
    by_ids: HashMap<Vec<i32>, Arc<Key>>,
}

impl Keys {
    pub(super) fn new(view: &View, plan: &Plan) -> Result<Self> {
        let mut asked: BTreeSet<&Vec<i32>> = BTreeSet::new();
        for file in plan.tasks.iter().flat_map(|task| task.delete_files()) {
            if let DeleteKind::Equality { ids } = &file.kind {
                asked.insert(ids);
            }
        }
        let ids: BTreeSet<i32> = asked.iter().flat_map(|ids| ids.iter().copied()).collect();
        let dropped: Vec<i32> = ids.into_iter().filter(|id| view.schema.field_by_id(*id).is_none()).collect();
        let (table, schema) = match dropped.is_empty() {
            true => (Arc::clone(&view.arrow), Arc::clone(&view.schema)),
            false => with_dropped(view, &dropped)?,
        };
        let key = |ids: &Vec<i32>| Ok((ids.clone(), Arc::new(Key::new(ids, &table)?)));
        let by_ids = asked.into_iter().map(key).collect::<Result<_>>()?;
        Ok(Keys { table, schema, by_ids })
    }

    pub(super) fn of(&self, ids: &[i32]) -> Result<&Arc<Key>> {
        self.by_ids
            .get(ids)
            .ok_or_else(|| Error::new(Code::Internal, "the keys of an equality delete were not planned"))
    }
}

/// The view's schema with columns that were dropped from it, as the newest schema that has them knows them.
fn with_dropped(view: &View, dropped: &[i32]) -> Result<(SchemaRef, Arc<Schema>)> {
    let mut fields: Vec<NestedFieldRef> = view.schema.as_struct().fields().to_vec();
    for id in dropped {
        let had = |schema: &&Arc<Schema>| schema.as_struct().fields().iter().any(|field| field.id == *id);
        let newest = view.metadata.schemas_iter().filter(had).max_by_key(|schema| schema.schema_id());
        let newest = newest.map(|schema| with_defaults(&view.metadata, schema)).transpose()?;
        let field = newest.as_ref().and_then(|schema| schema.field_by_id(*id)).ok_or_else(|| {
            Error::new(
                Code::NotSupported,
                "equality deletes by a field that was dropped from a struct cannot be read yet",
            )
            .with("table", &view.name)
            .with("field", id)
        })?;
        let mut field = field.as_ref().clone();
        field.name = format!("dropped {id}");
        while fields.iter().any(|other| other.name == field.name) {
            field.name.push('_');
        }
        // Files from before it and after it lack it.
        field.required = false;
        fields.push(Arc::new(field));
    }
    let schema = Schema::builder().with_schema_id(view.schema.schema_id()).with_fields(fields).build();
    let schema = schema.map_err(|e| Error::new(Code::Internal, "dropped columns do not fit the table").source(e))?;
    Ok((arrow_with(&schema, view)?, Arc::new(schema)))
}

/// The columns that one set of equality ids compares.
#[derive(Debug)]
pub(in crate::exec) struct Key {
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    /// The table column it stands in, and the way from there.
    root: usize,
    path: Vec<usize>,
    /// The table column with nothing but the way to the key.
    narrow: FieldRef,
    data_type: DataType,
}

impl Key {
    fn new(ids: &[i32], table: &SchemaRef) -> Result<Self> {
        let refused = |id: &i32| {
            Error::new(Code::NotSupported, "equality deletes by a field inside a list or map cannot be read")
                .with("field", id)
        };
        let columns = ids.iter().map(|id| {
            let found = table.fields().iter().enumerate().find_map(|(root, field)| Some((root, way(field, *id)?)));
            let (root, (path, narrow, data_type)) = found.ok_or_else(|| refused(id))?;
            Ok(Column { root, path, narrow, data_type })
        });
        Ok(Key { columns: columns.collect::<Result<_>>()? })
    }

    /// The table columns that it reads.
    pub(in crate::exec) fn roots(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().map(|column| column.root)
    }

    /// What a delete file is read as: one column for each key, in order.
    pub(super) fn stored(&self) -> SchemaRef {
        Arc::new(ArrowSchema::new(self.columns.iter().map(|column| Arc::clone(&column.narrow)).collect::<Fields>()))
    }

    /// The keys' types, in order: rows of the same types compare.
    pub(super) fn types(&self) -> Vec<DataType> {
        self.columns.iter().map(|column| column.data_type.clone()).collect()
    }

    pub(super) fn converter(&self) -> Result<RowConverter, ArrowError> {
        RowConverter::new(self.columns.iter().map(|column| SortField::new(column.data_type.clone())).collect())
    }

    /// The keys of table rows; `at` finds a table column in them.
    pub(super) fn of_rows<'a>(
        &self,
        converter: &RowConverter,
        at: impl Fn(usize) -> Option<&'a ArrayRef>,
    ) -> Result<Rows, ArrowError> {
        let column = |column: &Column| reach(at(column.root), column.path.iter().copied());
        encode(converter, self.columns.iter().map(column))
    }

    /// The keys of a delete file's rows, read as [`Key::stored`] says.
    pub(super) fn of_deletes(&self, converter: &RowConverter, columns: &[ArrayRef]) -> Result<Rows, ArrowError> {
        let column = |(at, column): (usize, &Column)| reach(columns.get(at), column.path.iter().map(|_| 0));
        encode(converter, self.columns.iter().enumerate().map(column))
    }
}

fn encode(
    converter: &RowConverter,
    columns: impl Iterator<Item = Result<ArrayRef, ArrowError>>,
) -> Result<Rows, ArrowError> {
    let columns: Vec<ArrayRef> = columns.map(|column| Ok(one_nan(&column?))).collect::<Result<_, ArrowError>>()?;
    converter.convert_columns(&columns)
}

/// The way from a column to a field: children's places, the column with nothing else in it, the field's type.
fn way(field: &FieldRef, id: i32) -> Option<(Vec<usize>, FieldRef, DataType)> {
    if field_id(field) == Some(id) {
        return (!field.data_type().is_nested()).then(|| (Vec::new(), Arc::clone(field), field.data_type().clone()));
    }
    let DataType::Struct(children) = field.data_type() else { return None };
    let (at, (mut path, child, leaf)) = children.iter().enumerate().find_map(|(at, c)| Some((at, way(c, id)?)))?;
    path.insert(0, at);
    let narrow = Field::clone(field).with_data_type(DataType::Struct(Fields::from(vec![child])));
    Some((path, Arc::new(narrow), leaf))
}

/// A field inside a column; it is null where what holds it is.
fn reach(column: Option<&ArrayRef>, path: impl Iterator<Item = usize>) -> Result<ArrayRef, ArrowError> {
    let missing = || ArrowError::SchemaError("a key column was not read".to_owned());
    let mut array = Arc::clone(column.ok_or_else(missing)?);
    for at in path {
        let outer = array.as_struct_opt().ok_or_else(missing)?;
        let inner = outer.columns().get(at).ok_or_else(missing)?;
        let nulls = NullBuffer::union(outer.nulls(), inner.nulls());
        array = make_array(inner.to_data().into_builder().nulls(nulls).build()?);
    }
    Ok(array)
}

/// All NaN are one value; the zeros stay two, as the reference implementation has it.
fn one_nan(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => Arc::new(
            array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|x| if x.is_nan() { f32::NAN } else { x }),
        ),
        DataType::Float64 => Arc::new(
            array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|x| if x.is_nan() { f64::NAN } else { x }),
        ),
        _ => Arc::clone(array),
    }
}

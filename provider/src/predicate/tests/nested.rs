//! Does a filter say the same of fields inside structs as of columns?

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::functions::core::get_field;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue as S;
use iceberg::spec::{NestedField, Schema, StructType, Type};
use proptest::prelude::*;

use super::super::{Claim, column_of, convert_conjuncts};
use super::support::{Table, cases};
use super::{cycles, engine, functions};

/// The columns of the other tests' table, as `o.i.*`: their field ids stay.
struct Nested {
    arrow: ArrowSchema,
    schema: Schema,
}

static NESTED: LazyLock<Nested> = LazyLock::new(|| {
    let flat = Table::new();
    let within = |name: &str, id: i32, fields| {
        let id = HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]);
        Field::new(name, DataType::Struct(fields), true).with_metadata(id)
    };
    let inner = within("i", 201, flat.arrow.fields().clone());
    let outer = within("o", 200, vec![inner].into());
    let optional =
        |name, id, fields| NestedField::optional(id, name, Type::Struct(StructType::new(vec![Arc::new(fields)])));
    let inner = Type::Struct(StructType::new(flat.schema.as_struct().fields().to_vec()));
    let column = optional("o", 200, NestedField::optional(201, "i", inner));
    Nested {
        arrow: ArrowSchema::new(vec![outer]),
        schema: Schema::builder().with_fields([column.into()]).build().unwrap(),
    }
});

impl Nested {
    /// The filter with each column as a field, taken at once or step by step.
    fn filter(&self, filter: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        let text = |name: &str| Arc::new(Literal::new(S::Utf8(Some(name.to_owned())))) as Arc<dyn PhysicalExpr>;
        let take = |args| {
            let options = Arc::new(ConfigOptions::default());
            Arc::new(ScalarFunctionExpr::try_new(get_field(), args, &self.arrow, options).unwrap())
                as Arc<dyn PhysicalExpr>
        };
        let field = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.as_any().downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let outer: Arc<dyn PhysicalExpr> = Arc::new(Column::new("o", 0));
            Ok(Transformed::yes(match column.index() % 2 {
                0 => take(vec![outer, text("i"), text(column.name())]),
                _ => take(vec![take(vec![outer, text("i")]), text(column.name())]),
            }))
        };
        Arc::clone(filter).transform_up(field).data().unwrap()
    }
}

fn said(claims: &[Claim]) -> String {
    let said = claims.iter().map(|c| format!("{:?} {:?} {} {:?}\n", c.predicate, c.proof, c.exact, c.reason));
    said.collect()
}

fn check(flat: &Table, filter: &Arc<dyn PhysicalExpr>) -> Result<(), TestCaseError> {
    let of_columns = convert_conjuncts(std::slice::from_ref(filter), &flat.arrow, &flat.schema);
    let of_fields = convert_conjuncts(&[NESTED.filter(filter)], &NESTED.arrow, &NESTED.schema);
    prop_assert_eq!(said(&of_columns), said(&of_fields), "{}", filter);
    Ok(())
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_field_is_as_good_as_a_column(
        filter in engine::arb_filter(), function in functions::arb_filter(), part in cycles::arb_filter()
    ) {
        let table = &*functions::TABLE;
        check(table, &filter)?;
        for sql in [function, part] {
            let Ok(filter) = table.try_filter(&sql) else { continue };
            check(table, &filter)?;
        }
    }
}

/// What isn't a field of a struct is no column: a value in a map, a field of a struct that was just made.
#[test]
fn only_fields_of_structs() {
    let nested = &NESTED.arrow;
    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("o", 0));
    assert_eq!(column_of(&column, nested).map(Field::name), Some(&"o".to_owned()));
    let of_map = |key: &str| {
        let entries = DataType::Struct(
            vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int64, true)].into(),
        );
        let map = DataType::Map(Arc::new(Field::new("entries", entries, false)), false);
        let arrow = ArrowSchema::new(vec![Field::new("m", map, true)]);
        let args: Vec<Arc<dyn PhysicalExpr>> =
            vec![Arc::new(Column::new("m", 0)), Arc::new(Literal::new(S::Utf8(Some(key.to_owned()))))];
        let value = ScalarFunctionExpr::try_new(get_field(), args, &arrow, Arc::new(ConfigOptions::default())).unwrap();
        let value: Arc<dyn PhysicalExpr> = Arc::new(value);
        column_of(&value, &arrow).is_some()
    };
    assert!(!of_map("key"));
    assert!(!of_map("value"));
}

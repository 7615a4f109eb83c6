//! What does a filter say about columns, partitions and bounds?

use iceberg::spec::{PartitionSpec, PrimitiveType, Schema};
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema as ArrowSchema;
use datafusion::physical_expr::PhysicalExpr;

/// A value of an Iceberg primitive type. Values are only compared with values of the same column (or partition field).
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    /// int, long, date (days), time (µs), timestamp (µs), timestamp_ns (ns), and results of year, month, day, hour, bucket.
    Long(i64),
    /// float and double.
    Double(f64),
    /// Unscaled; the column's type holds the scale.
    Decimal(i128),
    String(String),
    /// binary, fixed, uuid (16 bytes, big endian).
    Bytes(Vec<u8>),
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

/// A condition over columns, named by field id, under SQL's three-valued logic with DataFusion's order of values (NaN equals
/// itself and is above everything else; -0.0 and 0.0 as DataFusion compares them).
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    True,
    False,
    And(Vec<Predicate>),
    Or(Vec<Predicate>),
    Compare { field: i32, op: Op, value: Value },
    In { field: i32, values: Vec<Value> },
    NotIn { field: i32, values: Vec<Value> },
    IsNull { field: i32 },
    IsNotNull { field: i32 },
}

/// A filter as a predicate.
#[derive(Clone, Debug)]
pub struct Converted {
    /// Every row for which the filter is true satisfies this.
    pub predicate: Predicate,
    /// The converse holds too: the filter is true exactly where this is.
    pub exact: bool,
}

/// Converts a filter over `arrow` (whose fields carry field ids of `schema`). What isn't understood becomes [`Predicate::True`].
pub fn convert(_expr: &Arc<dyn PhysicalExpr>, _arrow: &ArrowSchema, _schema: &Schema) -> Converted {
    Converted { predicate: Predicate::True, exact: false }
}

/// Inclusive projection onto a partition spec's fields (named by partition field id): "if a row matches the predicate, its
/// partition matches the projection".
pub fn project(_predicate: &Predicate, _spec: &PartitionSpec, _schema: &Schema) -> Predicate {
    Predicate::True
}

/// Strict projection: "if a partition matches the projection, every row in it matches the predicate".
pub fn project_strict(_predicate: &Predicate, _spec: &PartitionSpec, _schema: &Schema) -> Predicate {
    Predicate::False
}

/// What is known of a column in a set of rows. `None` means not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// No value (other than null and NaN) is below.
    pub lower: Option<Value>,
    /// No value (other than null and NaN) is above.
    pub upper: Option<Value>,
    pub nulls: Option<u64>,
    pub nans: Option<u64>,
    /// Rows in the set, nulls included.
    pub rows: Option<u64>,
    /// The column is a float or double, so that it may hold NaN.
    pub float: bool,
}

impl Predicate {
    /// False only if no row of the set can satisfy the predicate.
    pub fn may_match(&self, _facts: &dyn Fn(i32) -> Facts) -> bool {
        true
    }
    /// True only if every row of the set satisfies the predicate.
    pub fn must_match(&self, _facts: &dyn Fn(i32) -> Facts) -> bool {
        false
    }
    /// SQL's truth of the predicate for one row (`None` = unknown); `row` gives a column's value, `None` for null.
    pub fn holds(&self, _row: &dyn Fn(i32) -> Option<Value>) -> Option<bool> {
        None
    }
    /// The predicate as text: `ts >= 2026-06-04T00:00:00+00:00 AND session_id = 'a'`. `name` gives a field's name and type.
    pub fn display(&self, _name: &dyn Fn(i32) -> (String, Option<PrimitiveType>)) -> impl fmt::Display {
        ""
    }
}

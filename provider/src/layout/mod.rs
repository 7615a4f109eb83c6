//! How is a dataset's table laid out, and does an existing table still agree?
//!
//! ```text
//! dataset ─ primary timestamp ─▶ partition axis: day(message_created_at)    never reads the lookup columns
//!         ─ lookup columns ────▶ sort axis: session_id, conversation_id, …   ascending, nulls last
//! ```

use std::fmt;

use iceberg::spec::{
    NullOrder, PartitionSpec, PartitionSpecRef, Schema, SortDirection, SortField, SortOrder, Transform, Type,
    UnboundPartitionField, UnboundPartitionSpec,
};

use crate::dataset::Resolved;
use crate::error::{Code, Error, Result};

/// The id Iceberg gives the first partition field.
pub const FIRST_PARTITION_FIELD_ID: i32 = 1000;

/// A layout derived for one schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `day(primary timestamp)`, or no fields.
    pub spec: UnboundPartitionSpec,
    /// The lookup columns; order id 0 without them.
    pub order: SortOrder,
}

/// Derives the layout. It is computed at commit time, per dataset, from nothing but the declaration and the schema.
///
/// # Errors
/// `invalid_config` where the primary timestamp is no date or timestamp, or a lookup column has no order.
// @spec L2 L3 L4
pub fn derive(dataset: &Resolved, schema: &Schema) -> Result<Layout> {
    let mut spec = UnboundPartitionSpec::builder().with_spec_id(0);
    if let Some(column) = &dataset.primary_timestamp {
        let (id, field_type) = find(schema, column)?;
        if Transform::Day.result_type(&field_type).is_err() {
            return Err(Error::new(Code::InvalidConfig, "the primary timestamp is not a timestamp or a date")
                .with("column", column)
                .with("type", crate::schema::type_name(&field_type))
                .help("name a timestamp column, or convert it, e.g. with to_timestamp(…) in --query"));
        }
        spec = spec
            .add_partition_fields([UnboundPartitionField {
                source_id: id,
                field_id: Some(FIRST_PARTITION_FIELD_ID),
                name: partition_name(schema, column),
                transform: Transform::Day,
            }])
            .map_err(Error::from)?;
    }
    Ok(Layout { spec: spec.build(), order: order(dataset, schema)? })
}

/// A different sort order is not drift: the table's default order is evolved.
fn order(dataset: &Resolved, schema: &Schema) -> Result<SortOrder> {
    let mut fields = Vec::with_capacity(dataset.lookup.len());
    for column in &dataset.lookup {
        let (id, field_type) = find(schema, column)?;
        if !matches!(field_type, Type::Primitive(_)) {
            return Err(Error::new(Code::InvalidConfig, "a lookup column holds nested values, which have no order")
                .with("column", column)
                .with("type", crate::schema::type_name(&field_type)));
        }
        let field = SortField::builder()
            .source_id(id)
            .transform(Transform::Identity)
            .direction(SortDirection::Ascending)
            .null_order(NullOrder::Last);
        fields.push(field.build());
    }
    let id = i64::from(!fields.is_empty());
    SortOrder::builder().with_order_id(id).with_fields(fields).build_unbound().map_err(Error::from)
}

fn find(schema: &Schema, column: &str) -> Result<(i32, Type)> {
    let field = schema.as_struct().fields().iter().find(|field| field.name == column);
    field.map(|field| (field.id, field.field_type.as_ref().clone())).ok_or_else(|| {
        Error::new(Code::UnknownColumn, "the layout names a column that the schema does not have")
            .with("column", column)
    })
}

/// `<column>_day`; numbered where the schema has a column of that name, which a partition field may not share.
fn partition_name(schema: &Schema, column: &str) -> String {
    let taken = |name: &str| schema.as_struct().fields().iter().any(|field| field.name == name);
    let plain = format!("{column}_day");
    let numbered = (1..).map(|n| format!("{plain}_{n}"));
    std::iter::once(plain.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(plain)
}

/// Refuses an append whose derived spec differs from the table's current one, in either direction. Nothing is written
/// before this has passed. `table_schema` is the table's, `schema` the one the layout was derived for: source columns are
/// compared by name.
///
/// # Errors
/// `iceberg_partition_spec_drift`.
// @spec L5
pub fn check_drift(
    table: &str,
    derived: &Layout,
    schema: &Schema,
    current: &PartitionSpecRef,
    table_schema: &Schema,
) -> Result<()> {
    let ours = describe_fields(derived.spec.fields().iter().map(|f| (f.source_id, f.transform)), schema);
    let theirs = describe(current, table_schema);
    if ours == theirs {
        return Ok(());
    }
    Err(drift(table, &theirs, &ours))
}

/// The same for a dataset whose primary timestamp has no day in `schema`, so that no layout can be derived: as the table is
/// partitioned by something else then, that is drift before it is anything else.
///
/// # Errors
/// `iceberg_partition_spec_drift`; that of [`derive`] where the declared spec is the table's.
// @spec L5
pub fn check_declared_drift(
    table: &str,
    dataset: &Resolved,
    schema: &Schema,
    current: &PartitionSpecRef,
    table_schema: &Schema,
) -> Result<()> {
    let theirs = describe(current, table_schema);
    match (derive(dataset, schema), &dataset.primary_timestamp) {
        (Ok(derived), _) => check_drift(table, &derived, schema, current, table_schema),
        (Err(error), Some(column)) if error.code() == Code::InvalidConfig => {
            let ours = call(Transform::Day, column);
            if ours == theirs {
                return Err(error);
            }
            let kind = find(schema, column).map(|(_, kind)| crate::schema::type_name(&kind));
            let drift = drift(table, &theirs, &ours);
            Err(kind.map_or(drift.clone(), |kind| drift.with("column", column).with("type", kind)))
        }
        (Err(error), _) => Err(error),
    }
}

fn drift(table: &str, current: &str, derived: &str) -> Error {
    Error::new(Code::IcebergPartitionSpecDrift, "the dataset does not derive the table's partition spec any more")
        .with("table", table)
        .with("current", current)
        .with("derived", derived)
        .help(if current == "unpartitioned" {
            "write to a table of another name (--table)"
        } else {
            "name the table's timestamp column (--primary-timestamp), or write to a table of another name (--table)"
        })
}

/// A partition spec as people write it: `day(message_created_at)`, or `unpartitioned`. Void fields count for nothing.
pub fn describe(spec: &PartitionSpec, schema: &Schema) -> String {
    describe_fields(spec.fields().iter().map(|f| (f.source_id, f.transform)), schema)
}

fn describe_fields(fields: impl Iterator<Item = (i32, Transform)>, schema: &Schema) -> String {
    let fields: Vec<String> = fields
        .filter(|(_, transform)| *transform != Transform::Void)
        .map(|(id, transform)| {
            let name = schema.name_by_field_id(id).map_or_else(|| format!("#{id}"), str::to_owned);
            call(transform, &name)
        })
        .collect();
    if fields.is_empty() { "unpartitioned".to_owned() } else { fields.join(", ") }
}

fn call(transform: Transform, column: &str) -> String {
    match transform {
        Transform::Identity => column.to_owned(),
        Transform::Bucket(n) => format!("bucket({n}, {column})"),
        Transform::Truncate(width) => format!("truncate({width}, {column})"),
        other => format!("{other}({column})"),
    }
}

/// A sort order as people write it: `session_id,conversation_id`, empty for none.
pub fn describe_order(order: &SortOrder, schema: &Schema) -> String {
    let fields = order.fields.iter().map(|field| {
        let name = schema.name_by_field_id(field.source_id).unwrap_or("?");
        let direction = if field.direction == SortDirection::Descending { " desc" } else { "" };
        let nulls = match (field.direction, field.null_order) {
            (SortDirection::Ascending, NullOrder::First) => " nulls first",
            (SortDirection::Descending, NullOrder::Last) => " nulls last",
            _ => "",
        };
        format!("{}{direction}{nulls}", call(field.transform, name))
    });
    fields.collect::<Vec<_>>().join(",")
}

/// True where both orders sort alike, whatever their ids.
pub fn same_order(a: &SortOrder, b: &SortOrder) -> bool {
    a.fields == b.fields
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.spec.fields().iter().map(|field| field.name.as_str()).collect();
        write!(f, "partition [{}], order {}", names.join(", "), self.order.order_id)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, TimeUnit};

    use super::*;

    fn schema(extra: &str) -> Schema {
        let ts = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
        let arrow = ArrowSchema::new(vec![
            Field::new("session_id", DataType::Utf8, true),
            Field::new("at", ts, true),
            Field::new(extra, DataType::Int64, true),
            Field::new("l", DataType::List(Arc::new(Field::new("e", DataType::Utf8, true))), true),
        ]);
        crate::schema::from_arrow(&arrow, &[]).unwrap()
    }

    fn resolved(at: Option<&str>, lookup: &[&str]) -> Resolved {
        Resolved {
            primary_timestamp: at.map(str::to_owned),
            lookup: lookup.iter().map(|&column| column.to_owned()).collect(),
        }
    }

    #[test]
    fn the_day_is_the_partition_and_the_lookup_columns_are_the_order() {
        let layout = derive(&resolved(Some("at"), &["session_id", "n"]), &schema("n")).unwrap();
        let field = &layout.spec.fields()[0];
        assert_eq!((field.name.as_str(), field.field_id, field.source_id), ("at_day", Some(1000), 2));
        assert_eq!(describe_order(&layout.order, &schema("n")), "session_id,n");
        assert_eq!(layout.order.order_id, 1);
    }

    #[test]
    fn without_declaration_there_is_no_layout() {
        let layout = derive(&resolved(None, &[]), &schema("n")).unwrap();
        assert!(layout.spec.fields().is_empty());
        assert_eq!(layout.order.order_id, 0);
    }

    #[test]
    fn a_column_of_the_partitions_name_does_not_clash() {
        let layout = derive(&resolved(Some("at"), &[]), &schema("at_day")).unwrap();
        assert_eq!(layout.spec.fields()[0].name, "at_day_1");
    }

    #[test]
    fn what_has_no_day_or_no_order_is_refused() {
        for wrong in [resolved(Some("n"), &[]), resolved(None, &["l"])] {
            assert_eq!(derive(&wrong, &schema("n")).unwrap_err().code(), Code::InvalidConfig);
        }
    }

    #[test]
    fn drift_is_refused_in_either_direction() {
        let schema = schema("n");
        let bound = |layout: &Layout| Arc::new(layout.spec.clone().bind(schema.clone()).unwrap());
        let day = derive(&resolved(Some("at"), &["n"]), &schema).unwrap();
        let flat = derive(&resolved(None, &["session_id"]), &schema).unwrap();
        check_drift("t", &day, &schema, &bound(&day), &schema).unwrap();
        check_drift("t", &flat, &schema, &bound(&flat), &schema).unwrap();
        for (derived, current) in [(&day, &flat), (&flat, &day)] {
            let error = check_drift("t", derived, &schema, &bound(current), &schema).unwrap_err();
            assert_eq!(error.code(), Code::IcebergPartitionSpecDrift);
        }
        // A column without a day has drifted from either.
        for current in [&flat, &day] {
            let declared = resolved(Some("session_id"), &[]);
            let error = check_declared_drift("t", &declared, &schema, &bound(current), &schema).unwrap_err();
            assert_eq!(error.code(), Code::IcebergPartitionSpecDrift);
            assert!(error.to_string().contains("derived: day(session_id)\n  column: session_id\n  type: string"));
        }
    }
}

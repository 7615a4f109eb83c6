//! Which table metadata do an export's files need?

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Fields, Schema as ArrowSchema};
use iceberg::TableUpdate;
use iceberg::spec::{FormatVersion, Schema, SortOrder, TableMetadata, TableMetadataBuilder};

use super::{Opened, Request, summary};
use crate::catalog::Base;
use crate::commit::Committer;
use crate::dataset::{Dataset, Resolved};
use crate::error::{Code, Error, Result};
use crate::layout;
use crate::schema;
use crate::sink::Target;

/// Refuses drift that the declaration alone shows, before any input is opened: another timestamp column than the table's
/// partition has, or none at all.
// @spec L5
pub(super) fn check_declared_drift(table: &str, dataset: &Dataset, base: &Base) -> Result<()> {
    let current = base.metadata.current_schema();
    let in_table = |column: &str| current.as_struct().fields().iter().any(|field| field.name == column);
    let declared = dataset.primary_timestamp();
    if declared.is_some_and(|column| !in_table(column)) {
        // Whether the rows have it is not known yet.
        return Ok(());
    }
    let resolved = Resolved { primary_timestamp: declared.map(str::to_owned), lookup: Vec::new() };
    check(table, &resolved, current, base)
}

fn check(table: &str, resolved: &Resolved, schema: &Schema, base: &Base) -> Result<()> {
    let metadata = &base.metadata;
    layout::check_declared_drift(table, resolved, schema, metadata.default_partition_spec(), metadata.current_schema())
}

/// The sink's target: a new table's metadata, or the table's with what must change first.
pub(super) fn target(
    request: &Request,
    dataset: &Dataset,
    base: Option<Base>,
    opened: &Opened,
    committer: &Committer,
) -> Result<Target> {
    let incoming = &opened.schema;
    let resolved = dataset.resolve(incoming)?;
    let schema = base.as_ref().map(|base| base.metadata.current_schema());
    dataset.check_json(incoming, |column| schema.is_some_and(|schema| schema.field_by_name(column).is_some()))?;
    match base {
        None if opened.clash.is_some() => Err(clash(opened)),
        None => create(request, dataset, &resolved, opened, committer),
        Some(base) => append(request, dataset, &resolved, base, opened),
    }
}

fn clash(opened: &Opened) -> Error {
    opened.clash.clone().unwrap_or_else(|| Error::new(Code::IcebergSchemaIncompatible, "the input contradicts itself"))
}

// @spec L4
fn create(
    request: &Request,
    dataset: &Dataset,
    resolved: &Resolved,
    opened: &Opened,
    committer: &Committer,
) -> Result<Target> {
    let incoming = &opened.schema;
    let schema = schema::from_arrow(&as_declared(dataset, incoming), &dataset.nanoseconds())?;
    if schema.as_struct().fields().is_empty() {
        return Err(Error::new(Code::IcebergSchemaIncompatible, "the input has no columns a table could have")
            .with("table", &request.ident));
    }
    let layout = layout::derive(resolved, &schema)?;
    let location = committer.catalog.location(&request.ident)?;
    let mut properties: HashMap<String, String> = dataset.to_properties().into_iter().collect();
    properties.extend(opened.position.clone());
    let built = TableMetadataBuilder::new(schema, layout.spec, layout.order, location, FormatVersion::V3, properties)?
        .assign_uuid(committer.env.ids.uuid())
        .build()?;
    Ok(Target {
        ident: request.ident.clone(),
        base: None,
        metadata: Arc::new(built.metadata),
        updates: built.changes,
        batch_id: request.batch_id.clone(),
        summary: summary(dataset, opened.position.as_ref()),
    })
}

/// Rows say nothing of what is required, a declaration does. Nulls are then found by the sink, which names the column.
// @spec L8
fn as_declared(dataset: &Dataset, incoming: &ArrowSchema) -> ArrowSchema {
    let Some(declared) = dataset.schema() else { return incoming.clone() };
    let fields = incoming.fields().iter().map(|field| match declared.field_with_name(field.name()) {
        Ok(wanted) => {
            let nullable = field.is_nullable() && wanted.is_nullable();
            Arc::new(field.as_ref().clone().with_nullable(nullable).with_metadata(wanted.metadata().clone()))
        }
        Err(_) => Arc::clone(field),
    });
    ArrowSchema::new(fields.collect::<Fields>())
}

/// Columns that the declaration calls required.
fn declared_required(dataset: &Dataset) -> impl Iterator<Item = &str> {
    let fields = dataset.schema().into_iter().flat_map(|schema| schema.fields());
    fields.filter(|field| !field.is_nullable()).map(|field| field.name().as_str())
}

/// Refuses a declaration that requires what the table's rows need not have.
// @spec L6
fn check_required(table: &str, dataset: &Dataset, current: &Schema) -> Result<()> {
    let held = |name: &str| current.as_struct().fields().iter().any(|field| field.name == name && field.required);
    match declared_required(dataset).find(|name| !held(name)) {
        None => Ok(()),
        Some(column) => Err(Error::new(
            Code::IcebergSchemaIncompatible,
            "the declaration requires a column that the table's rows may lack",
        )
        .with("column", column)
        .with("table", table)
        .help("declare the column without required, or write to a new table")),
    }
}

fn append(request: &Request, dataset: &Dataset, resolved: &Resolved, base: Base, opened: &Opened) -> Result<Target> {
    let incoming = &opened.schema;
    let table = request.ident.to_string();
    let current = Arc::clone(base.metadata.current_schema());
    let in_table = |column: &String| current.as_struct().fields().iter().any(|field| field.name == *column);
    let partition_only = Resolved { primary_timestamp: resolved.primary_timestamp.clone(), lookup: Vec::new() };
    if resolved.primary_timestamp.as_ref().is_none_or(in_table) {
        check(&table, &partition_only, &current, &base)?;
    } else {
        let theirs = schema::from_arrow(incoming, &dataset.nanoseconds())?;
        check(&table, &partition_only, &theirs, &base)?;
    }

    if opened.clash.is_some() {
        return Err(clash(opened).with("table", &table));
    }
    check_required(&table, dataset, &current)?;
    let last_column_id = base.metadata.last_column_id();
    let extended = schema::extend(&current, last_column_id, incoming, opened.source, &dataset.nanoseconds())
        .map_err(|e| e.with("table", &table))?;
    let mut updates = Vec::new();
    let schema = match extended {
        Some(schema) => {
            updates.push(TableUpdate::AddSchema { schema: schema.clone() });
            updates.push(TableUpdate::SetCurrentSchema { schema_id: -1 });
            Arc::new(schema)
        }
        None => current,
    };
    let order = layout::derive(resolved, &schema)?.order;
    let declares_order = dataset.lookup().is_some() || !dataset.fields().is_empty();
    if declares_order {
        updates.extend(order_updates(&base.metadata, order));
    }
    updates.extend(property_updates(dataset, opened.position.as_ref(), &base.metadata));

    let mut builder =
        TableMetadataBuilder::new_from_metadata(base.metadata.as_ref().clone(), Some(base.location.clone()));
    for update in updates.clone() {
        builder = update.apply(builder)?;
    }
    Ok(Target {
        ident: request.ident.clone(),
        metadata: Arc::new(builder.build()?.metadata),
        base: Some(base),
        updates,
        batch_id: request.batch_id.clone(),
        summary: summary(dataset, opened.position.as_ref()),
    })
}

/// The table's default order becomes the derived one; an order the table has had keeps its id.
// @spec L5
fn order_updates(metadata: &TableMetadata, derived: SortOrder) -> Vec<TableUpdate> {
    if layout::same_order(metadata.default_sort_order(), &derived) {
        return Vec::new();
    }
    match metadata.sort_orders_iter().find(|order| layout::same_order(order, &derived)) {
        Some(known) => vec![TableUpdate::SetDefaultSortOrder { sort_order_id: known.order_id }],
        None => vec![
            TableUpdate::AddSortOrder { sort_order: derived },
            TableUpdate::SetDefaultSortOrder { sort_order_id: -1 },
        ],
    }
}

fn property_updates(
    dataset: &Dataset,
    position: Option<&(String, String)>,
    metadata: &TableMetadata,
) -> Option<TableUpdate> {
    let held = metadata.properties();
    let wanted = dataset.to_properties().into_iter().chain(position.cloned());
    let updates: HashMap<String, String> = wanted.filter(|(key, value)| held.get(key) != Some(value)).collect();
    (!updates.is_empty()).then_some(TableUpdate::SetProperties { updates })
}

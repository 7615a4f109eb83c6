//! Does the change still fit the table as it is now?
//!
//! ```text
//! base ──── updates ────▶ metadata the files were written under
//!   │                              │ same ids, same or wider types, spec and order still there
//! somebody's commits               ▼
//!   │                              fits?
//! current ─ updates ────▶ metadata to publish
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use iceberg::spec::{
    DataFile, NestedFieldRef, PartitionSpec, PartitionSpecRef, PrimitiveType, Schema, TableMetadata,
    TableMetadataBuilder, Type,
};
use iceberg::{TableRequirement, TableUpdate};

use super::{Append, sources, stamped};
use crate::catalog::{Base, Ident};
use crate::error::{Code, Error, Result};
use crate::metadata::{check_writable, rebuild};

/// A change that fits the table as it was loaded.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    /// The table's metadata with the updates applied, to be built upon.
    pub(super) builder: TableMetadataBuilder,
    /// The same, built.
    pub(super) metadata: TableMetadata,
    /// What must hold of the table when this is published.
    pub(super) requirements: Vec<TableRequirement>,
    /// The files, with sort orders this table knows.
    pub(super) files: Cow<'a, [DataFile]>,
    /// The spec the files were written under.
    pub(super) spec: PartitionSpecRef,
    /// When the table was last updated, in milliseconds since the epoch; 0 for a new one.
    pub(super) newest_ms: i64,
}

/// Applies a change to `current`; `commit_conflict` where what others committed leaves no room for it. `now_ms` is
/// the time, in milliseconds since the epoch.
// @spec C4
pub(super) fn prepare<'a>(
    ident: &Ident,
    change: &'a Append,
    current: Option<&Base>,
    now_ms: i64,
) -> Result<Prepared<'a>> {
    let conflict = Conflict(ident);
    match (&change.base, current) {
        (None, None) => creation(change, now_ms),
        (None, Some(_)) if change.files.is_empty() => {
            Err(Error::new(Code::AlreadyExists, "the table exists already").with("table", ident))
        }
        (None, Some(current)) => {
            if sources::begins(&change.metadata) {
                return Err(conflict.because("somebody created the table, and may have exported the same rows"));
            }
            conflict.unless_same_shape(&change.metadata, &current.metadata)?;
            append(&conflict, change, current, &[])
        }
        (Some(_), None) => Err(conflict.because("the table was dropped while the change was prepared")),
        (Some(base), Some(current)) => {
            if base.metadata.uuid() != current.metadata.uuid() {
                return Err(conflict.because("the table was replaced by another of the same name"));
            }
            let prepared = append(&conflict, change, current, &change.updates)?;
            if base.location != current.location {
                conflict.unless_updates_commute(change, &base.metadata, &current.metadata, &prepared.metadata)?;
            }
            Ok(prepared)
        }
    }
}

fn creation(change: &Append, now_ms: i64) -> Result<Prepared<'_>> {
    let metadata = stamped(&change.metadata, now_ms)?;
    Ok(Prepared {
        builder: metadata.clone().into_builder(None),
        spec: Arc::clone(metadata.default_partition_spec()),
        newest_ms: 0,
        metadata,
        requirements: vec![TableRequirement::NotExist],
        files: Cow::Borrowed(&change.files),
    })
}

fn append<'a>(
    conflict: &Conflict<'_>,
    change: &'a Append,
    current: &Base,
    updates: &[TableUpdate],
) -> Result<Prepared<'a>> {
    // Before anything is put down, and not only where it is published.
    check_writable(&current.metadata)?;
    let mut builder = TableMetadata::clone(&current.metadata).into_builder(Some(current.location.clone()));
    let refused = |e: iceberg::Error| {
        Error::new(Code::InvalidArgument, "the change does not apply to the table")
            .with("table", conflict.0)
            .with("cause", e)
    };
    for update in updates {
        builder = update.clone().apply(builder).map_err(refused)?;
    }
    let metadata = builder.clone().build().map_err(refused)?.metadata;
    let spec = conflict.unless_files_fit(&change.metadata, &metadata)?;
    Ok(Prepared {
        builder,
        requirements: requirements(change, &current.metadata),
        files: under_known_orders(&change.files, &change.metadata, &metadata)?,
        newest_ms: current.metadata.last_updated_ms(),
        metadata,
        spec,
    })
}

/// What the change depends on, for catalogs that apply it themselves.
fn requirements(change: &Append, current: &TableMetadata) -> Vec<TableRequirement> {
    let mut required = vec![
        TableRequirement::UuidMatch { uuid: current.uuid() },
        TableRequirement::RefSnapshotIdMatch {
            r#ref: iceberg::spec::MAIN_BRANCH.to_owned(),
            snapshot_id: current.current_snapshot_id(),
        },
    ];
    let updates = |any: fn(&TableUpdate) -> bool| change.updates.iter().any(any);
    let files = !change.files.is_empty();
    if files || updates(is_schema) {
        required.push(TableRequirement::CurrentSchemaIdMatch { current_schema_id: current.current_schema_id() });
    }
    if updates(is_schema) {
        required.push(TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: current.last_column_id() });
    }
    if files || updates(is_spec) {
        required.push(TableRequirement::DefaultSpecIdMatch { default_spec_id: current.default_partition_spec_id() });
    }
    if updates(is_spec) {
        let last_assigned_partition_id = current.last_partition_id();
        required.push(TableRequirement::LastAssignedPartitionIdMatch { last_assigned_partition_id });
    }
    if files || updates(is_order) {
        let default_sort_order_id = current.default_sort_order_id();
        required.push(TableRequirement::DefaultSortOrderIdMatch { default_sort_order_id });
    }
    required
}

fn is_schema(update: &TableUpdate) -> bool {
    matches!(update, TableUpdate::AddSchema { .. } | TableUpdate::SetCurrentSchema { .. })
}

fn is_spec(update: &TableUpdate) -> bool {
    matches!(update, TableUpdate::AddSpec { .. } | TableUpdate::SetDefaultSpec { .. })
}

fn is_order(update: &TableUpdate) -> bool {
    matches!(update, TableUpdate::AddSortOrder { .. } | TableUpdate::SetDefaultSortOrder { .. })
}

fn is_property(update: &TableUpdate) -> bool {
    matches!(update, TableUpdate::SetProperties { .. } | TableUpdate::RemoveProperties { .. })
}

struct Conflict<'a>(&'a Ident);

impl Conflict<'_> {
    fn because(&self, reason: impl std::fmt::Display) -> Error {
        Error::new(Code::CommitConflict, "another commit came first and the change does not fit the table any more")
            .with("table", self.0)
            .with("reason", reason)
            .help("run it again: it starts from the table as it is now")
    }

    /// Two writers created the same table: files of one fit the other's only if every id means the same.
    fn unless_same_shape(&self, ours: &TableMetadata, theirs: &TableMetadata) -> Result<()> {
        if ours.location() != theirs.location() {
            return Err(self.because("somebody created the table at another location"));
        }
        if ours.current_schema().as_struct() != theirs.current_schema().as_struct() {
            return Err(self.because("somebody created the table with another schema"));
        }
        if !same_fields(ours.default_partition_spec(), theirs.default_partition_spec()) {
            return Err(self.because("somebody created the table with other partitions"));
        }
        if ours.default_sort_order().fields != theirs.default_sort_order().fields {
            return Err(self.because("somebody created the table with another sort order"));
        }
        Ok(())
    }

    /// Updates are lists of ids and whole schemas: they may be applied to a table that changed only where the change
    /// was elsewhere, or was the same.
    fn unless_updates_commute(
        &self,
        change: &Append,
        base: &TableMetadata,
        current: &TableMetadata,
        next: &TableMetadata,
    ) -> Result<()> {
        if sources::moved(&change.updates, base, current) {
            return Err(self.because("somebody exported from the same table"));
        }
        let schema = |metadata: &TableMetadata| Arc::clone(metadata.current_schema());
        let schema_free = schema(current).as_struct() == schema(base).as_struct()
            && current.last_column_id() == base.last_column_id();
        let schema_same = schema(current).as_struct() == schema(next).as_struct();
        if change.updates.iter().any(is_schema) && !schema_free && !schema_same {
            return Err(self.because("somebody changed the schema, and so does this change"));
        }
        let spec = |metadata: &TableMetadata| Arc::clone(metadata.default_partition_spec());
        let spec_free =
            same_fields(&spec(current), &spec(base)) && current.last_partition_id() == base.last_partition_id();
        if change.updates.iter().any(is_spec) && !spec_free && !same_fields(&spec(current), &spec(next)) {
            return Err(self.because("somebody changed the partitions, and so does this change"));
        }
        let commutes = |u: &TableUpdate| is_schema(u) || is_spec(u) || is_order(u) || is_property(u);
        if !change.updates.iter().all(commutes) {
            return Err(self.because("somebody committed first, and this change depends on nobody having done so"));
        }
        Ok(())
    }

    /// Files written under `written` can be read as what `next` says they are. Returns their spec.
    fn unless_files_fit(&self, written: &TableMetadata, next: &TableMetadata) -> Result<PartitionSpecRef> {
        let (from, to) = (written.current_schema(), next.current_schema());
        for (id, field) in from.field_id_to_fields() {
            let Some(now) = to.field_by_id(*id) else {
                return Err(self.because(format!("column `{}` was dropped", field.name)));
            };
            if !widens(&field.field_type, &now.field_type) {
                let types = format!("from {} to {}", field.field_type, now.field_type);
                return Err(self.because(format!("column `{}` changed its type {types}", field.name)));
            }
            if now.required && !field.required {
                return Err(self.because(format!("column `{}` became required", field.name)));
            }
        }
        if let Some(field) = newly_required(to.as_struct().fields(), from) {
            return Err(self.because(format!("a required column `{}` was added", field.name)));
        }
        let spec = written.default_partition_spec();
        let now = next.partition_spec_by_id(spec.spec_id()).filter(|now| same_fields(spec, now));
        let Some(now) = now else {
            return Err(self.because(format!("the table no longer has the partition spec {}", spec.spec_id())));
        };
        let types = |spec: &PartitionSpec, schema: &Schema| spec.partition_type(schema).ok();
        if types(spec, from) != types(now, to) {
            return Err(self.because("a partition's source column changed its type"));
        }
        Ok(Arc::clone(now))
    }
}

/// The first required field below `fields` that rows of `written` have no value for.
fn newly_required<'a>(fields: &'a [NestedFieldRef], written: &Schema) -> Option<&'a NestedFieldRef> {
    fields.iter().find_map(|field| {
        if written.field_by_id(field.id).is_none() {
            // Below a new optional field all is null, and nothing is missing.
            return (field.required && field.initial_default.is_none()).then_some(field);
        }
        match &*field.field_type {
            Type::Primitive(_) => None,
            Type::Struct(inner) => newly_required(inner.fields(), written),
            Type::List(list) => newly_required(std::slice::from_ref(&list.element_field), written),
            Type::Map(map) => newly_required(std::slice::from_ref(&map.key_field), written)
                .or_else(|| newly_required(std::slice::from_ref(&map.value_field), written)),
        }
    })
}

/// Whether values of one type can be read as another (table specification, "Schema Evolution").
fn widens(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (Type::Primitive(from), Type::Primitive(to)) => match (from, to) {
            (PrimitiveType::Int, PrimitiveType::Long) | (PrimitiveType::Float, PrimitiveType::Double) => true,
            (
                PrimitiveType::Decimal { precision: had, scale: from },
                PrimitiveType::Decimal { precision: has, scale: to },
            ) => from == to && had <= has,
            _ => from == to,
        },
        // What is inside has ids of its own.
        (Type::Struct(_), Type::Struct(_)) | (Type::List(_), Type::List(_)) | (Type::Map(_), Type::Map(_)) => true,
        _ => false,
    }
}

/// The same partition tuples, whatever the fields are called.
fn same_fields(a: &PartitionSpec, b: &PartitionSpec) -> bool {
    let key = |spec: &PartitionSpec| -> Vec<_> {
        spec.fields().iter().map(|field| (field.source_id, field.field_id, field.transform)).collect()
    };
    key(a) == key(b)
}

/// Sort orders are numbered by the table: the same order may have another number now, or none.
fn under_known_orders<'a>(
    files: &'a [DataFile],
    written: &TableMetadata,
    next: &TableMetadata,
) -> Result<Cow<'a, [DataFile]>> {
    let known = |id: i32| -> i32 {
        let Some(order) = written.sort_order_by_id(i64::from(id)).filter(|order| !order.is_unsorted()) else {
            return 0;
        };
        let mut same: Vec<i64> =
            next.sort_orders_iter().filter(|other| other.fields == order.fields).map(|other| other.order_id).collect();
        same.sort_unstable();
        let own = same.iter().find(|other| **other == i64::from(id)).or(same.first());
        own.and_then(|id| i32::try_from(*id).ok()).unwrap_or(0)
    };
    let wrong = |file: &DataFile| file.sort_order_id().filter(|id| known(*id) != *id);
    if files.iter().all(|file| wrong(file).is_none()) {
        return Ok(Cow::Borrowed(files));
    }
    let renumber = |file: &DataFile| match wrong(file) {
        Some(id) => rebuild(file, |builder| {
            builder.sort_order_id(known(id));
        }),
        None => Ok(file.clone()),
    };
    files.iter().map(renumber).collect()
}

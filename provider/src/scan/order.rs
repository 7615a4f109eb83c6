//! In which order are the rows of a scan's files, by what their writer attests?
//!
//! A file's manifest entry names the sort order its rows were written in. Nothing checks that, and some writers name the
//! table's order whatever they do; so it is believed of files that daygrain wrote, which the summary of the snapshot that
//! added them tells.

use std::sync::Arc;

use iceberg::spec::{NullOrder, PrimitiveType, SortDirection, Transform};

use super::{Task, View, primitive};
use crate::schema::field_id;

/// A column that rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortedBy {
    /// Index in the view's Arrow schema.
    pub(crate) column: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// What `engine-name` is in summaries of our own snapshots.
const OURS: &str = "daygrain";

/// The order of the rows within each of `tasks`; empty where there is none, or none that all of them share. Reads the whole
/// manifest entry of each.
pub(crate) fn attested(view: &View, tasks: &[Arc<Task>]) -> Vec<SortedBy> {
    let mut ids = tasks.iter().map(|task| task.attested_order(view));
    let Some(Some(first)) = ids.next() else { return Vec::new() };
    match ids.all(|id| id == Some(first)) {
        true => columns(view, first),
        false => Vec::new(),
    }
}

impl Task {
    fn attested_order(&self, view: &View) -> Option<i32> {
        let entry = self.entry()?;
        let added = view.metadata.snapshot_by_id(entry.snapshot_id)?;
        let engine = added.summary().additional_properties.get("engine-name")?;
        entry.file.sort_order_id().filter(|id| *id > 0 && engine == OURS)
    }
}

/// The leading columns of a sort order that the engine orders as the writer did.
fn columns(view: &View, id: i32) -> Vec<SortedBy> {
    let Some(order) = view.metadata.sort_order_by_id(i64::from(id)) else { return Vec::new() };
    let sorted = order.fields.iter().map_while(|key| {
        let ordered = primitive(&view.schema, key.source_id).is_some_and(is_ordered_alike);
        let column = view.arrow.fields().iter().position(|field| field_id(field) == Some(key.source_id))?;
        (ordered && key.transform == Transform::Identity).then_some(SortedBy {
            column,
            descending: key.direction == SortDirection::Descending,
            nulls_first: key.null_order == NullOrder::First,
        })
    });
    sorted.collect()
}

/// Floats have NaNs of several kinds and zeros of two, and writers of uuids disagree about their order.
fn is_ordered_alike(column: &PrimitiveType) -> bool {
    !matches!(column, PrimitiveType::Float | PrimitiveType::Double | PrimitiveType::Uuid)
}

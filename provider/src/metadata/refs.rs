//! Which branches and tags does a table have?

use std::collections::{BTreeMap, HashMap};

use iceberg::spec::{MAIN_BRANCH, SnapshotReference, TableMetadata};

use super::carry::REFS;
use crate::error::{Code, Error, Result};

/// What a name of a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefKind {
    /// Moves with every commit to it.
    Branch,
    /// Stays where it was put.
    Tag,
}

/// A branch or tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ref {
    pub kind: RefKind,
    pub snapshot_id: i64,
}

/// The table's branches and tags by name. A table with a snapshot always has `main` (table specification, "Snapshot
/// References").
///
/// # Errors
/// `metadata_corrupt` for references that are none.
pub fn refs(metadata: &TableMetadata) -> Result<BTreeMap<String, Ref>> {
    // The metadata's type keeps them to itself and gives them out in its JSON only.
    let corrupt = |e: serde_json::Error| {
        Error::new(Code::MetadataCorrupt, "the table's branches and tags cannot be read")
            .with("table", metadata.location())
            .source(e)
    };
    let held = match metadata.properties().get(REFS) {
        Some(noted) => serde_json::from_str(noted).map_err(corrupt)?,
        None => {
            let mut json = serde_json::to_value(metadata).map_err(corrupt)?;
            json.get_mut("refs").map(serde_json::Value::take).unwrap_or_default()
        }
    };
    let held: Option<HashMap<String, SnapshotReference>> = serde_json::from_value(held).map_err(corrupt)?;
    let named = |(name, held): (String, SnapshotReference)| {
        let kind = if held.is_branch() { RefKind::Branch } else { RefKind::Tag };
        (name, Ref { kind, snapshot_id: held.snapshot_id })
    };
    let mut refs: BTreeMap<String, Ref> = held.unwrap_or_default().into_iter().map(named).collect();
    if let Some(snapshot_id) = metadata.current_snapshot_id() {
        refs.entry(MAIN_BRANCH.to_owned()).or_insert(Ref { kind: RefKind::Branch, snapshot_id });
    }
    Ok(refs)
}

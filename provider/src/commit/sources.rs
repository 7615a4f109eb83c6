//! How far was another table exported into this one?
//!
//! ```text
//! table property     daygrain.source.<uuid of the source> = "<snapshot id> <location of the source>"
//! ```
//!
//! It is written in the commit that adds the rows, so both land or neither does. A commit that would move it from another
//! place than the one its rows were read from is a conflict: somebody exported the same rows meanwhile.

use iceberg::TableUpdate;
use iceberg::spec::TableMetadata;

const PREFIX: &str = "daygrain.source.";

/// The last snapshot of a source that was exported, and where the source was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    pub snapshot_id: i64,
    pub location: String,
}

/// The property of a source. A table of version 1 may have no uuid: its location stands for it.
fn key(source: &TableMetadata) -> String {
    match source.uuid().is_nil() {
        true => format!("{PREFIX}{}", source.location()),
        false => format!("{PREFIX}{}", source.uuid()),
    }
}

/// How far `source` was exported into the table.
pub fn exported(metadata: &TableMetadata, source: &TableMetadata) -> Option<SourcePosition> {
    parse(metadata.properties().get(&key(source))?)
}

/// Whether another table was exported into this one that had the location that `source` has.
pub fn replaces_another(metadata: &TableMetadata, source: &TableMetadata) -> bool {
    let own = key(source);
    let others = metadata.properties().iter().filter(|(key, _)| key.starts_with(PREFIX) && **key != own);
    others.filter_map(|(_, value)| parse(value)).any(|exported| exported.location == source.location())
}

/// The property that says that `source` was exported up to a snapshot.
pub fn remember_source(source: &TableMetadata, snapshot_id: i64) -> (String, String) {
    (key(source), format!("{snapshot_id} {}", source.location()))
}

fn parse(value: &str) -> Option<SourcePosition> {
    let (snapshot_id, location) = value.split_once(' ')?;
    Some(SourcePosition { snapshot_id: snapshot_id.parse().ok()?, location: location.to_owned() })
}

/// Whether somebody exported more of a source than `base` had, which `updates` would move as well.
pub(super) fn moved(updates: &[TableUpdate], base: &TableMetadata, current: &TableMetadata) -> bool {
    let other = |key: &String| key.starts_with(PREFIX) && base.properties().get(key) != current.properties().get(key);
    updates.iter().any(|update| match update {
        TableUpdate::SetProperties { updates } => updates.keys().any(other),
        _ => false,
    })
}

/// Whether a table is created by exporting another.
pub(super) fn begins(metadata: &TableMetadata) -> bool {
    metadata.properties().keys().any(|key| key.starts_with(PREFIX))
}

//! Which state of a table is read?
//!
//! ```text
//!   snapshots   s1 ── s2 ── s3 ── s4          by id, or by the time at which one was current
//!                     ▲           ▲
//!                  tag v1      branch main
//! ```

use chrono::{DateTime, SecondsFormat};
use iceberg::spec::{MAIN_BRANCH, SnapshotRef};

use super::View;
use crate::error::{Code, Error, Result};
use crate::metadata::{RefKind, refs, with_defaults};
use crate::schema::to_arrow;

/// Snapshots that an error lists.
const LISTED: usize = 10;

/// A state of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeTravel {
    /// A snapshot by its id.
    Snapshot(i64),
    /// A branch or tag by its name.
    Ref(String),
    /// The snapshot that was current at this time, in milliseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
}

impl View {
    /// The same table in another state. A branch is read with the table's current schema; a snapshot that is named by id, tag
    /// or time with the schema it was written under, or with the current one where it names none (format version 1).
    ///
    /// # Errors
    /// `unknown_snapshot` where there is no such snapshot, branch or tag, or none as old; it lists what there is.
    // @spec P10
    pub fn at(&self, travel: &TimeTravel) -> Result<View> {
        match travel {
            TimeTravel::Snapshot(id) => {
                let snapshot = self.metadata.snapshot_by_id(*id).cloned();
                let unknown = || self.unknown(format!("the table has no snapshot {id}"), self.snapshots());
                self.with_its_schema(snapshot.ok_or_else(unknown)?, None)
            }
            TimeTravel::Ref(name) => self.at_ref(name),
            TimeTravel::Timestamp(ms) => self.at_time(*ms),
        }
    }

    /// The snapshot that a state of the table is; `None` for the main branch of a table without any.
    ///
    /// # Errors
    /// As [`View::at`].
    pub fn snapshot_at(&self, travel: &TimeTravel) -> Result<Option<i64>> {
        Ok(self.at(travel)?.snapshot.map(|snapshot| snapshot.snapshot_id()))
    }

    fn at_ref(&self, name: &str) -> Result<View> {
        let refs = refs(&self.metadata)?;
        let Some(held) = refs.get(name) else {
            if name == MAIN_BRANCH {
                return Ok(View { reference: Some("branch main".to_owned()), ..self.clone() });
            }
            let kind = |kind| if kind == RefKind::Branch { "branch" } else { "tag" };
            let names = refs.iter().map(|(name, held)| format!("{name} ({})", kind(held.kind)));
            return Err(self.unknown(format!("the table has no branch or tag '{name}'"), names.collect()));
        };
        let gone =
            || Error::new(Code::MetadataCorrupt, "a branch or tag names a snapshot that the table does not have");
        let snapshot = self.metadata.snapshot_by_id(held.snapshot_id).cloned();
        let snapshot = snapshot.ok_or_else(|| gone().with("table", &self.name).with("ref", name))?;
        match held.kind {
            RefKind::Branch => {
                let reference = Some(format!("branch {name}"));
                Ok(View { snapshot: Some(snapshot), reference, ..self.clone() })
            }
            RefKind::Tag => self.with_its_schema(snapshot, Some(format!("tag {name}"))),
        }
    }

    /// The history says which snapshot was current when, also across rollbacks, where snapshots alone don't.
    fn at_time(&self, ms: i64) -> Result<View> {
        let entry = self.metadata.history().iter().rev().find(|entry| entry.timestamp_ms() <= ms);
        let Some(entry) = entry else {
            let what = format!("the table has no snapshot as old as {}", shown(ms));
            return Err(self.unknown(what, self.snapshots()));
        };
        let Some(snapshot) = self.metadata.snapshot_by_id(entry.snapshot_id) else {
            let what = format!("snapshot {}, which was current at {}, has expired", entry.snapshot_id, shown(ms));
            return Err(self.unknown(what, self.snapshots()));
        };
        self.with_its_schema(snapshot.clone(), Some(format!("as of {}", shown(ms))))
    }

    fn with_its_schema(&self, snapshot: SnapshotRef, reference: Option<String>) -> Result<View> {
        let schema = match snapshot.schema_id() {
            None => self.metadata.current_schema(),
            Some(id) => self.metadata.schema_by_id(id).ok_or_else(|| {
                Error::new(Code::MetadataCorrupt, "a snapshot was written under a schema that the table does not have")
                    .with("table", &self.name)
                    .with("snapshot", snapshot.snapshot_id())
                    .with("schema", id)
            })?,
        };
        let schema = with_defaults(&self.metadata, schema)?;
        Ok(View { arrow: to_arrow(&schema)?, schema, snapshot: Some(snapshot), reference, ..self.clone() })
    }

    fn unknown(&self, what: String, candidates: Vec<String>) -> Error {
        let candidates = if candidates.is_empty() { "none".to_owned() } else { candidates.join(", ") };
        Error::new(Code::UnknownSnapshot, what).with("table", &self.name).with("there are", candidates)
    }

    /// The newest snapshots, with their times.
    fn snapshots(&self) -> Vec<String> {
        let mut all: Vec<&SnapshotRef> = self.metadata.snapshots().collect();
        all.sort_by_key(|snapshot| std::cmp::Reverse((snapshot.timestamp_ms(), snapshot.snapshot_id())));
        let more = all.len().saturating_sub(LISTED);
        let each = all.iter().take(LISTED).map(|s| format!("{} ({})", s.snapshot_id(), shown(s.timestamp_ms())));
        each.chain((more > 0).then(|| format!("{more} older ones"))).collect()
    }
}

/// A time as people read it.
fn shown(ms: i64) -> String {
    let time = DateTime::from_timestamp_millis(ms);
    time.map_or_else(|| format!("{ms} ms"), |time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

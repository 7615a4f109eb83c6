//! Which rows of another Iceberg table are exported?
//!
//! ```text
//! source      s1 ── s2 ── s3 ── s4
//! export 1    ▓▓▓▓▓▓▓▓                 all rows of s2; the target remembers s2
//! export 2                ▓▓▓▓▓▓▓▓     --only-new: what was appended after s2; the target remembers s4
//! ```
//!
//! What is remembered is a property of the target ([`commit::exported`]), committed with the rows.
// @spec W8

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider};
use datafusion::physical_plan::ExecutionPlan;
use iceberg::TableUpdate;

use crate::catalog::{Base, Ident};
use crate::commit::{self, Append, Committer, Published};
use crate::error::{Code, Error, Result};
use crate::sink::Target;
use crate::table::IcebergTable;

/// Another Iceberg table whose rows are exported.
#[derive(Clone, Debug)]
pub struct TableSource {
    /// The table at the snapshot that is exported.
    pub provider: Arc<dyn TableProvider>,
    /// As the caller named it.
    pub location: String,
    /// Only what was appended since the last export into the same table, if there was one.
    pub only_new: bool,
}

impl TableSource {
    /// The rows, and what the target is to remember of the source.
    ///
    /// # Errors
    /// `changes_unavailable` where what is new can't be told: the source was rolled back, rewritten or replaced, or its
    /// snapshots have expired.
    pub(super) async fn open(
        &self,
        base: Option<&Base>,
        state: &dyn Session,
    ) -> Result<(Arc<dyn ExecutionPlan>, Option<(String, String)>)> {
        let table = self.provider.as_any().downcast_ref::<IcebergTable>();
        let table = table.ok_or_else(|| Error::new(Code::Internal, "the source of an export is no Iceberg table"))?;
        let source = &table.view().metadata;
        let newest = table.view().snapshot.as_ref().map(|snapshot| snapshot.snapshot_id());
        let position = newest.map(|id| commit::remember_source(source, id));
        let last = base.and_then(|base| commit::exported(&base.metadata, source));
        let replaced = base.is_some_and(|base| commit::replaces_another(&base.metadata, source));
        let appended = match (last, newest) {
            (Some(last), Some(newest)) if self.only_new => {
                Some(table.appends(Some(last.snapshot_id), newest).map_err(|e| self.explained(e))?)
            }
            (Some(last), None) if self.only_new => {
                let what = format!("the source has no snapshot any more, and {} was exported", last.snapshot_id);
                return Err(self.explained(Error::new(Code::ChangesUnavailable, what)));
            }
            (None, _) if self.only_new && replaced => {
                let what = "the table at this location is another than the one that was exported from it before";
                return Err(self.explained(Error::new(Code::ChangesUnavailable, what)));
            }
            _ => None,
        };
        let table = appended.as_ref().unwrap_or(table);
        let plan = table.scan(state, None, &[], None).await.map_err(|e| self.explained(e.into()))?;
        Ok((plan, position))
    }

    fn explained(&self, error: Error) -> Error {
        match error.code() {
            Code::ChangesUnavailable => error
                .with("source", &self.location)
                .help("export the source whole, without --only-new, into a new table"),
            _ => error,
        }
    }
}

/// The change that remembers how far the source was exported, where it has no new rows: its snapshots may have expired by
/// the time that there are some. `None` where nothing has to be remembered, or there is no table yet.
pub(super) fn without_rows(target: &Target, position: Option<&(String, String)>) -> Option<Append> {
    let base = target.base.as_ref()?;
    let (key, value) = position?;
    if base.metadata.properties().get(key) == Some(value) {
        return None;
    }
    let updates = HashMap::from([(key.clone(), value.clone())]);
    Some(Append {
        base: Some(base.clone()),
        metadata: Arc::clone(&base.metadata),
        updates: vec![TableUpdate::SetProperties { updates }],
        files: Vec::new(),
        summary: target.summary.clone(),
        batch_id: None,
    })
}

/// Commits such a change. Where another export came first, it remembers more.
pub(super) async fn commit(committer: &Committer, ident: &Ident, change: Append) -> Result<()> {
    match commit::append(committer, ident, change).await {
        Published::Committed { .. } | Published::AlreadyThere { .. } => Ok(()),
        Published::Lost { cause, .. } if cause.code() == Code::CommitConflict => Ok(()),
        Published::Lost { cause, .. } | Published::Unknown { cause, .. } => Err(cause),
    }
}

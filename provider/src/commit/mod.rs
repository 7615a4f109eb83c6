//! How does a change become a snapshot, exactly once?
//!
//! ```text
//!        ┌──────────────────────── conflict: back off ◀───────────────────────┐
//!        ▼                                                                    │
//! reload ─▶ there already? ─▶ rebase ─▶ manifests ─▶ list ─▶ snapshot ─▶ publish ─▶ committed
//!            │                  │                                             ├───▶ lost: files may go
//!            └▶ already there   └▶ lost                                       └───▶ unknown: all stays
//! ```
//!
//! Only what is proven lost is deleted. A conflict is looked at twice: the catalog says that somebody else took the
//! slot, and the reloaded table must not hold our snapshot.

mod batches;
mod merge;
mod produce;
mod rebase;
mod reclaim;
mod sources;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use iceberg::TableUpdate;
use iceberg::spec::{DataFile, MAIN_BRANCH, PartitionSpec, Schema, TableMetadata};
use tracing::Instrument;

use crate::catalog::{Base, Catalog, Ident, Proposal, PublishError};
use crate::error::{Code, Error, Result};
use crate::metadata::Manifests;
use crate::storage::Env;

pub use batches::{BATCH_ID, Landed, find_batch};
use rebase::Prepared;
pub use reclaim::Reclaimable;
pub use sources::{SourcePosition, exported, remember_source, replaces_another};

/// Everything a commit needs besides the change.
#[derive(Clone, Debug)]
pub struct Committer {
    pub catalog: Arc<dyn Catalog>,
    pub manifests: Manifests,
    pub env: Env,
}

/// An append: new data files, and what must change in the table's metadata before they fit.
///
/// Without files it is a change of metadata only; without updates as well it is nothing, and succeeds.
#[derive(Clone, Debug)]
pub struct Append {
    /// The table the change was prepared against; `None` creates it.
    pub base: Option<Base>,
    /// Metadata the data files were written under: `base` with `updates` applied (or a new table's metadata).
    pub metadata: Arc<TableMetadata>,
    /// Schema, sort order and property changes, in the same commit. For a new table: the updates that make `metadata`,
    /// which catalogs that apply updates themselves are sent.
    pub updates: Vec<TableUpdate>,
    /// Files of the default spec of `metadata`.
    pub files: Vec<DataFile>,
    /// Keys added to the snapshot summary.
    pub summary: BTreeMap<String, String>,
    /// The batch this append carries (W7). Recorded with the files: an append without files leaves no trace of it.
    pub batch_id: Option<String>,
}

/// What became of a commit. Only [`Published::Lost`] yields something that may be deleted.
#[derive(Debug)]
pub enum Published {
    Committed {
        base: Base,
        /// `None`: there were no files, and so the table got no snapshot.
        snapshot_id: Option<i64>,
    },
    /// The batch is already in the table's history; nothing was written. Data files that were staged for it are removed
    /// where it is certain that they are not the ones that landed.
    AlreadyThere { snapshot_id: Option<i64> },
    /// Proven lost; the staged data files are unreachable.
    Lost { cause: Error, staged: Reclaimable },
    /// Not known. Everything is kept.
    Unknown { cause: Error, left_behind: Vec<String> },
}

/// Commits an append to the main branch, again and again while others come first and it still fits.
///
/// Tries as often as the table's `commit.retry.num-retries` says, waiting between `commit.retry.min-wait-ms` and
/// `commit.retry.max-wait-ms` in between.
///
/// A lost commit has one of the codes `commit_conflict` (others changed what the files depend on, or came first every
/// time), `already_exists` (a table to create without files is there), or that of the failure that proves the loss.
// @spec C4 W7 W9
pub async fn append(committer: &Committer, ident: &Ident, change: Append) -> Published {
    let span = tracing::info_span!(
        "iceberg.snapshot.commit",
        table = %ident,
        partition_spec = describe_spec(change.metadata.default_partition_spec(), change.metadata.current_schema()),
        files = change.files.len(),
        records = change.files.iter().map(DataFile::record_count).sum::<u64>(),
        attempts = tracing::field::Empty,
        outcome = tracing::field::Empty,
        error_kind = tracing::field::Empty,
    );
    let run = Run { committer, ident, change: &change };
    async {
        let published = run.to_the_end().await;
        record(&published);
        published
    }
    .instrument(span)
    .await
}

fn record(published: &Published) {
    let (outcome, cause) = match published {
        Published::Committed { .. } => ("committed", None),
        Published::AlreadyThere { .. } => ("already-there", None),
        Published::Lost { cause, .. } => ("lost", Some(cause)),
        Published::Unknown { cause, .. } => ("unknown", Some(cause)),
    };
    let span = tracing::Span::current();
    span.record("outcome", outcome);
    if let Some(cause) = cause {
        span.record("error_kind", cause.code().as_str());
    }
}

struct Run<'a> {
    committer: &'a Committer,
    ident: &'a Ident,
    change: &'a Append,
}

/// What one attempt wrote, and under which id it would be found.
#[derive(Default)]
struct Attempt {
    snapshot_id: Option<i64>,
    written: Vec<String>,
}

impl Run<'_> {
    async fn to_the_end(&self) -> Published {
        let mut refused: Option<(Attempt, Error)> = None;
        for tries in 1.. {
            tracing::Span::current().record("attempts", tries);
            let current = match self.committer.catalog.load(self.ident).await {
                Ok(current) => current,
                Err(e) => {
                    self.discard(refused.map(|(attempt, _)| attempt)).await;
                    return self.lost(e);
                }
            };
            let (attempt, conflict) = refused.take().unzip();
            if let Some(landed) = self.landed_after_all(current.as_ref(), attempt.as_ref()) {
                return landed;
            }
            self.discard(attempt).await;
            if let Some(there) = self.already_there(current.as_ref()).await {
                return there;
            }
            if let Some(conflict) = conflict {
                let metadata = current.as_ref().map_or(&self.change.metadata, |base| &base.metadata);
                if tries > retries(metadata).saturating_add(1) {
                    return self.lost(conflict.with("attempts", tries - 1));
                }
            }
            match self.attempt(current, tries).await {
                Ok(published) => return published,
                Err(conflict) => refused = Some(conflict),
            }
            tokio::time::sleep(self.backoff(tries)).await;
        }
        self.lost(Error::new(Code::Internal, "the attempts to commit ran out of numbers"))
    }

    /// One attempt; `Err` if somebody else was first and it may be tried again.
    async fn attempt(&self, current: Option<Base>, number: usize) -> Result<Published, (Attempt, Error)> {
        let prepared =
            match rebase::prepare(self.ident, self.change, current.as_ref(), self.committer.env.clock.now_ms()) {
                Ok(prepared) => prepared,
                Err(e) => return Ok(self.lost(e)),
            };
        if self.change.files.is_empty()
            && self.change.updates.is_empty()
            && let Some(base) = current
        {
            return Ok(Published::Committed { base, snapshot_id: None });
        }
        let mut attempt = Attempt::default();
        let proposal = match self.propose(prepared, number, &mut attempt).await {
            Ok(proposal) => proposal,
            Err(e) => {
                self.discard(Some(attempt)).await;
                return Ok(self.lost(e));
            }
        };
        let snapshot_id = attempt.snapshot_id;
        match self.committer.catalog.publish(self.ident, current.as_ref(), &proposal).await {
            Ok(base) => Ok(Published::Committed { base, snapshot_id }),
            Err(PublishError::Conflict(e)) => Err((attempt, e)),
            Err(PublishError::NotSent(e)) => {
                self.discard(Some(attempt)).await;
                Ok(self.lost(e))
            }
            Err(PublishError::Unknown(cause)) => {
                let data = self.change.files.iter().map(|file| file.file_path().to_owned());
                let left_behind = data.chain(attempt.written).collect();
                Ok(Published::Unknown { cause, left_behind })
            }
        }
    }

    /// The next state of the table, with everything it names written.
    async fn propose(&self, prepared: Prepared<'_>, number: usize, attempt: &mut Attempt) -> Result<Proposal> {
        let creates =
            self.change.base.is_none() && prepared.requirements.contains(&iceberg::TableRequirement::NotExist);
        let mut updates = if creates { self.change.updates.clone() } else { Vec::new() };
        if self.change.files.is_empty() {
            let now = next_timestamp(self.committer, &prepared);
            let built = prepared.builder.build().map_err(produce::refused)?;
            updates.extend(built.changes);
            let metadata = stamped(&built.metadata, now)?;
            return Ok(Proposal { metadata, requirements: prepared.requirements, updates });
        }
        let snapshot = produce::snapshot(self.committer, &prepared, self.change, number, &mut attempt.written).await?;
        attempt.snapshot_id = Some(snapshot.snapshot_id());
        let mut builder = prepared.builder.set_branch_snapshot(snapshot, MAIN_BRANCH).map_err(produce::refused)?;
        if let Some(batch_id) = &self.change.batch_id {
            let remember = batches::remember(&prepared.metadata, batch_id);
            builder = builder.set_properties(HashMap::from([remember.set])).map_err(produce::refused)?;
            if !remember.remove.is_empty() {
                builder = builder.remove_properties(&remember.remove).map_err(produce::refused)?;
            }
        }
        let built = builder.build().map_err(produce::refused)?;
        updates.extend(built.changes);
        Ok(Proposal { metadata: built.metadata, requirements: prepared.requirements, updates })
    }

    /// A conflict that was none: the reloaded table holds our snapshot.
    fn landed_after_all(&self, current: Option<&Base>, attempt: Option<&Attempt>) -> Option<Published> {
        let (current, id) = (current?, attempt?.snapshot_id?);
        current.metadata.snapshot_by_id(id)?;
        Some(Published::Committed { base: current.clone(), snapshot_id: Some(id) })
    }

    async fn already_there(&self, current: Option<&Base>) -> Option<Published> {
        let (current, batch_id) = (current?, self.change.batch_id.as_deref()?);
        let landed = find_batch(&current.metadata, batch_id)?;
        if let Some(id) = landed.snapshot_id
            && let Ok(theirs) = self.added_by(&current.metadata, id).await
            && !self.change.files.iter().any(|file| theirs.contains(file.file_path()))
        {
            reclaim::delete(&self.committer.env, self.data_files()).await;
        }
        Some(Published::AlreadyThere { snapshot_id: landed.snapshot_id })
    }

    /// Paths of the data files that a snapshot added.
    async fn added_by(&self, metadata: &TableMetadata, snapshot_id: i64) -> Result<HashSet<String>> {
        let manifests = &self.committer.manifests;
        let mut paths = HashSet::new();
        let list = manifests.list(metadata, Some(snapshot_id)).await?;
        for manifest in list.iter().filter(|manifest| manifest.added_snapshot_id == snapshot_id) {
            let entries = manifests.entries(metadata, manifest).await?;
            paths.extend(entries.iter().map(|entry| entry.file.file_path().to_owned()));
        }
        Ok(paths)
    }

    fn lost(&self, cause: Error) -> Published {
        Published::Lost { cause, staged: Reclaimable::new(self.data_files()) }
    }

    fn data_files(&self) -> Vec<String> {
        self.change.files.iter().map(|file| file.file_path().to_owned()).collect()
    }

    /// Removes what a lost attempt wrote. Best effort: what stays is an orphan, and harmless.
    async fn discard(&self, attempt: Option<Attempt>) {
        if let Some(attempt) = attempt {
            reclaim::delete(&self.committer.env, attempt.written).await;
        }
    }

    /// Doubles with every try, up to the table's maximum; a random half of it is waited for certain, so that writers
    /// who met once do not meet again.
    fn backoff(&self, tries: usize) -> Duration {
        let metadata = &self.change.metadata;
        let min: u64 = property(metadata, "commit.retry.min-wait-ms", 100);
        let max: u64 = property(metadata, "commit.retry.max-wait-ms", 60_000);
        let doubled = u32::try_from(tries - 1).ok().and_then(|n| 1u64.checked_shl(n.min(20)));
        let wait = min.saturating_mul(doubled.unwrap_or(1)).min(max);
        let (random, _) = self.committer.env.ids.uuid().as_u64_pair();
        Duration::from_millis(wait / 2 + (random >> 32) % (wait / 2 + 1))
    }
}

/// How often a conflict is tried again. An append nearly always fits what others did, and losing it costs a whole
/// export, so it is given more than the four retries that are the custom elsewhere.
fn retries(metadata: &TableMetadata) -> usize {
    property(metadata, "commit.retry.num-retries", 20)
}

/// A table property, or what holds without it.
fn property<T: FromStr>(metadata: &TableMetadata, key: &str, default: T) -> T {
    let Some(text) = metadata.properties().get(key) else { return default };
    text.trim().parse().unwrap_or_else(|_| {
        tracing::warn!(key, value = text, "the table property does not parse; its default holds");
        default
    })
}

/// Now, and later than anything the table knows of.
fn next_timestamp(committer: &Committer, prepared: &Prepared<'_>) -> i64 {
    let newest = prepared.newest_ms;
    committer.env.clock.now_ms().max(newest.saturating_add(1))
}

/// The metadata as of `ms`: its builder takes the time from the system's clock where no snapshot brings one.
fn stamped(metadata: &TableMetadata, ms: i64) -> Result<TableMetadata> {
    let internal =
        |e: serde_json::Error| Error::new(Code::Internal, "the table's metadata cannot be encoded").source(e);
    let mut json = serde_json::to_value(metadata).map_err(internal)?;
    if let Some(object) = json.as_object_mut() {
        object.insert("last-updated-ms".to_owned(), ms.into());
    }
    serde_json::from_value(json).map_err(internal)
}

/// `day(message_created_at)`, as spans show it.
fn describe_spec(spec: &PartitionSpec, schema: &Schema) -> String {
    let field = |field: &iceberg::spec::PartitionField| {
        let source = schema.name_by_field_id(field.source_id).unwrap_or("?");
        format!("{}({source})", field.transform)
    };
    spec.fields().iter().map(field).collect::<Vec<_>>().join(",")
}

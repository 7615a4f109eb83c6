//! How do data files become a snapshot?
//!
//! ```text
//! files ──▶ new manifests ─┐
//!                          ├─▶ manifest list ─▶ snapshot
//! parent's manifests ──────┘     gives row ids
//!   kept, or merged (EXISTING)
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryStreamExt};
use iceberg::spec::{DataFile, FormatVersion, ManifestFile, ManifestStatus, SchemaRef, Snapshot, TableMetadata};
use uuid::Uuid;

use super::merge::Policy;
use super::rebase::Prepared;
use super::summary::{self, Facts, ManifestCounts};
use super::{Append, Committer};
use crate::error::{Code, Error, Result};
use crate::metadata::{Manifest, ManifestTarget, NewEntry, NewList, encoded_size, write_list, write_manifest};

/// Manifests read at a time while they are merged.
const READ_AHEAD: usize = 8;

/// Makes the snapshot that adds the prepared files to the main branch. What is written is named in `written` before it
/// is, so that it can be removed whatever happens.
pub(super) async fn snapshot(
    committer: &Committer,
    prepared: &Prepared<'_>,
    change: &Append,
    attempt: usize,
    written: &mut Vec<String>,
) -> Result<Snapshot> {
    let metadata = &prepared.metadata;
    let mut producer = Producer {
        committer,
        metadata,
        snapshot_id: fresh_id(committer, metadata),
        unique: committer.env.ids.uuid(),
        numbered: 0,
        written,
    };
    let parent_id = metadata.current_snapshot_id();
    let parent = committer.manifests.list(metadata, parent_id).await?;
    let added = producer.add(prepared).await?;
    let (carried, mut counts) = producer.carry(&parent).await?;
    counts.created += added.len();

    let location = producer.name(format!("snap-{}-{attempt}-{}.avro", producer.snapshot_id, producer.unique));
    let list = NewList {
        stores: &committer.env.stores,
        location: location.clone(),
        version: metadata.format_version(),
        snapshot_id: producer.snapshot_id,
        parent_snapshot_id: parent_id,
        sequence_number: metadata.next_sequence_number(),
        next_row_id: metadata.next_row_id(),
    };
    let list = write_list(list, added.into_iter().chain(carried).collect()).await?;
    let facts = Facts {
        keys: &change.summary,
        batch_id: change.batch_id.as_deref(),
        files: &prepared.files,
        manifests: counts,
        parent: parent_id.and_then(|id| metadata.snapshot_by_id(id)).map(Arc::as_ref),
    };
    let snapshot = Snapshot::builder()
        .with_snapshot_id(producer.snapshot_id)
        .with_parent_snapshot_id(parent_id)
        .with_sequence_number(metadata.next_sequence_number())
        .with_timestamp_ms(super::next_timestamp(committer, prepared))
        .with_manifest_list(location)
        .with_summary(summary::append(&facts))
        .with_schema_id(metadata.current_schema_id());
    Ok(match metadata.format_version() {
        FormatVersion::V3 => snapshot.with_row_range(metadata.next_row_id(), list.assigned_rows).build(),
        FormatVersion::V1 | FormatVersion::V2 => snapshot.build(),
    })
}

fn fresh_id(committer: &Committer, metadata: &TableMetadata) -> i64 {
    loop {
        let id = committer.env.ids.snapshot_id();
        if metadata.snapshot_by_id(id).is_none() {
            return id;
        }
    }
}

struct Producer<'a> {
    committer: &'a Committer,
    metadata: &'a TableMetadata,
    snapshot_id: i64,
    /// Part of every name of this attempt.
    unique: Uuid,
    numbered: usize,
    written: &'a mut Vec<String>,
}

impl Producer<'_> {
    fn name(&mut self, name: String) -> String {
        let location = format!("{}/metadata/{name}", self.metadata.location());
        self.written.push(location.clone());
        location
    }

    fn target<'b>(&mut self, schema: &'b SchemaRef, spec: &'b iceberg::spec::PartitionSpec) -> ManifestTarget<'b>
    where
        Self: 'b,
    {
        let location = self.name(format!("{}-m{}.avro", self.unique, self.numbered));
        self.numbered += 1;
        ManifestTarget {
            stores: &self.committer.env.stores,
            location,
            version: self.metadata.format_version(),
            snapshot_id: self.snapshot_id,
            schema,
            spec,
        }
    }

    /// New manifests for the added files, in their order.
    async fn add(&mut self, prepared: &Prepared<'_>) -> Result<Vec<ManifestFile>> {
        let target = Policy::of(self.metadata).target;
        let mut manifests = Vec::new();
        for files in cut(&prepared.files, usize::try_from(target).unwrap_or(usize::MAX)) {
            let target = self.target(self.metadata.current_schema(), &prepared.spec);
            manifests.push(write_manifest(target, files.iter().map(NewEntry::Added)).await?);
        }
        Ok(manifests)
    }

    /// The parent's manifests, some of them merged. Data manifests without a live file are left behind.
    async fn carry(&mut self, parent: &[ManifestFile]) -> Result<(Vec<ManifestFile>, ManifestCounts)> {
        let live: Vec<ManifestFile> = parent.iter().filter(|manifest| may_be_live(manifest)).cloned().collect();
        let mut counts = ManifestCounts { replaced: parent.len() - live.len(), ..Default::default() };
        // The manifest that takes a group's place stands where the newest of the group stood.
        let mut merged: HashMap<usize, ManifestFile> = HashMap::new();
        let mut gone: HashSet<usize> = HashSet::new();
        for group in Policy::of(self.metadata).plan(&live) {
            let members: Vec<&ManifestFile> = group.iter().filter_map(|i| live.get(*i)).collect();
            if let (Some(manifest), Some(first)) = (self.merge(&members).await?, group.first()) {
                merged.insert(*first, manifest);
                counts.created += 1;
                counts.replaced += group.len();
                gone.extend(group);
            }
        }
        let mut carried = Vec::with_capacity(live.len());
        for (i, manifest) in live.into_iter().enumerate() {
            match merged.remove(&i) {
                Some(merged) => carried.push(merged),
                None if gone.contains(&i) => {}
                None => {
                    counts.kept += 1;
                    carried.push(self.counted(manifest).await?);
                }
            }
        }
        Ok((carried, counts))
    }

    /// One manifest of the live entries of several, or `None` where they can't be one.
    async fn merge(&mut self, manifests: &[&ManifestFile]) -> Result<Option<ManifestFile>> {
        let (committer, metadata) = (self.committer, self.metadata);
        // Boxed and collected: the compiler can't see that the future of a borrowing closure may be sent.
        let read: Vec<_> = manifests
            .iter()
            .map(|manifest| {
                async move { Ok::<_, Error>(committer.manifests.manifest_counted(metadata, manifest).await?.0) }.boxed()
            })
            .collect();
        let read: Vec<Arc<Manifest>> = futures::stream::iter(read).buffered(READ_AHEAD).try_collect().await?;
        let Some((schema, spec)) = self.common_ground(manifests, &read) else { return Ok(None) };
        let mut entries = Vec::new();
        for manifest in &read {
            for at in manifest.live() {
                entries.push(manifest.entry(at)?);
            }
        }
        let live = || entries.iter();
        if live().any(|entry| entry.file_sequence_number.is_none()) {
            return Ok(None);
        }
        // Their rows are added up as they are written, and a list has 63 bits for the sum. Entries that claim more lie,
        // and stay where they are.
        let rows = live().try_fold(0_u64, |sum, entry| sum.checked_add(entry.file.record_count()));
        if rows.is_none_or(|rows| i64::try_from(rows).is_err()) {
            return Ok(None);
        }
        let target = self.target(&schema, &spec);
        let mut merged = write_manifest(target, live().map(NewEntry::Existing)).await?;
        // Where every row has its id there is none to assign, and a new range would be burnt. The manifest must have a
        // first id all the same: without one its entries' ids do not count.
        let first = live().map(|entry| entry.first_row_id).min().flatten();
        if metadata.format_version() >= FormatVersion::V3 {
            merged.first_row_id = first.and_then(|id| u64::try_from(id).ok());
        }
        Ok(Some(merged))
    }

    /// A schema and spec under which the tuples of all manifests mean what they meant.
    fn common_ground(
        &self,
        manifests: &[&ManifestFile],
        read: &[Arc<Manifest>],
    ) -> Option<(SchemaRef, iceberg::spec::PartitionSpecRef)> {
        let spec = self.metadata.partition_spec_by_id(manifests.first()?.partition_spec_id)?;
        // A spec's source column may have been dropped since: then the newest manifest's schema has it.
        let current = self.metadata.current_schema();
        let schema = if spec.partition_type(current).is_ok() { current } else { read.first()?.schema() };
        let wanted = tuple_types(spec, schema)?;
        let same =
            read.iter().all(|manifest| tuple_types(manifest.spec(), manifest.schema()).as_ref() == Some(&wanted));
        same.then(|| (Arc::clone(schema), Arc::clone(spec)))
    }

    /// Lists of version 2 and later state counts, which those of version 1 need not.
    async fn counted(&self, mut manifest: ManifestFile) -> Result<ManifestFile> {
        let complete = [manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count]
            .iter()
            .all(Option::is_some)
            && [manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count]
                .iter()
                .all(Option::is_some);
        if complete || self.metadata.format_version() == FormatVersion::V1 {
            return Ok(manifest);
        }
        let entries = self.committer.manifests.entries(self.metadata, &manifest).await?;
        let count = |status: ManifestStatus| {
            totals(entries.iter().filter(|entry| entry.status == status).map(|entry| entry.file.record_count()))
        };
        let (added, existing, deleted) =
            (count(ManifestStatus::Added), count(ManifestStatus::Existing), count(ManifestStatus::Deleted));
        (manifest.added_files_count, manifest.added_rows_count) = (Some(added.0), Some(added.1));
        (manifest.existing_files_count, manifest.existing_rows_count) = (Some(existing.0), Some(existing.1));
        (manifest.deleted_files_count, manifest.deleted_rows_count) = (Some(deleted.0), Some(deleted.1));
        Ok(manifest)
    }
}

/// How many files there are, and rows in them, or the most that a list can say.
fn totals(rows: impl Iterator<Item = u64>) -> (u32, u64) {
    let most = i64::MAX.cast_unsigned();
    rows.fold((0, 0), |(files, sum): (u32, u64), rows| (files.saturating_add(1), sum.saturating_add(rows).min(most)))
}

/// Id and type of each field of a partition tuple.
fn tuple_types(spec: &iceberg::spec::PartitionSpec, schema: &SchemaRef) -> Option<Vec<(i32, iceberg::spec::Type)>> {
    let tuple = spec.partition_type(schema).ok()?;
    Some(tuple.fields().iter().map(|field| (field.id, (*field.field_type).clone())).collect())
}

/// Delete manifests are carried as they are.
fn may_be_live(manifest: &ManifestFile) -> bool {
    manifest.content == iceberg::spec::ManifestContentType::Deletes
        || manifest.has_added_files()
        || manifest.has_existing_files()
}

/// Consecutive runs of files whose entries take about `target` bytes.
fn cut(files: &[DataFile], target: usize) -> Vec<&[DataFile]> {
    let mut runs = Vec::new();
    let mut rest = files;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fit = rest.iter().take_while(|file| {
            let first = bytes == 0;
            bytes += encoded_size(file);
            first || bytes <= target
        });
        let (run, after) = rest.split_at(fit.count());
        runs.push(run);
        rest = after;
    }
    runs
}

/// What a snapshot that cannot be added says.
pub(super) fn refused(e: iceberg::Error) -> Error {
    Error::new(Code::Internal, "the snapshot cannot be added to the table").with("cause", e)
}

#[cfg(test)]
mod tests {
    use super::totals;

    #[test]
    fn what_is_counted_fits_a_list() {
        let most = i64::MAX as u64;
        assert_eq!(totals([5, 0, 7].into_iter()), (3, 12));
        assert_eq!(totals([most, most, most].into_iter()), (3, most));
    }
}

//! What do a snapshot's manifests hold, read once per process?
//!
//! Files of metadata never change, so what was read stays right for as long as it fits.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use iceberg::spec::{
    FormatVersion, Manifest as RawManifest, ManifestContentType, ManifestEntryRef, ManifestFile, ManifestList,
    ManifestStatus, Snapshot, TableMetadata,
};

use super::avro;
use super::cache::Cache;
use super::carry_manifest::{Keep, carry};
use super::{Entry, Fetched, Manifest, Relocation, fetch};
use crate::error::{Code, Error, Result};
use crate::storage::Stores;

/// Reads manifest lists and manifests, each once per process (bounded cache keyed by path: they never change).
/// Clones share the cache. Each is fetched with one GET, once however many ask for it at a time.
#[derive(Clone, Debug)]
pub struct Manifests {
    stores: Stores,
    cache: Arc<Cache<Key, Value>>,
    relocation: Option<Relocation>,
}

/// The row ids that entries inherit depend on the list a manifest is read through, and so they are a part of the key:
/// a table that was upgraded to version 3 has lists without them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    path: String,
    first_row_id: Option<u64>,
}

#[derive(Clone, Debug)]
enum Value {
    List(Arc<Vec<ManifestFile>>),
    Manifest(Arc<Manifest>),
}

impl Manifests {
    /// A cache over `stores` that holds at most `limit` bytes.
    pub fn new(stores: Stores, limit: usize) -> Self {
        Manifests { stores, cache: Arc::new(Cache::new(limit)), relocation: None }
    }

    /// The same cache for a table that was moved.
    #[must_use]
    pub fn relocated(&self, relocation: Relocation) -> Self {
        Manifests { relocation: Some(relocation), ..self.clone() }
    }

    /// The manifests of a snapshot; `snapshot_id: None` means no snapshot: none.
    pub async fn list(&self, metadata: &TableMetadata, snapshot_id: Option<i64>) -> Result<Arc<Vec<ManifestFile>>> {
        Ok(self.list_counted(metadata, snapshot_id).await?.0)
    }

    /// The entries of a manifest, deleted ones included.
    pub async fn entries(&self, metadata: &TableMetadata, manifest: &ManifestFile) -> Result<Arc<Vec<Entry>>> {
        Ok(self.entries_counted(metadata, manifest).await?.0)
    }

    /// [`Manifests::list`], and what it asked of the store.
    ///
    /// # Errors
    /// `manifest_corrupt` if the list is missing or cannot be read, or is empty although its snapshot has files.
    pub async fn list_counted(
        &self,
        metadata: &TableMetadata,
        snapshot_id: Option<i64>,
    ) -> Result<(Arc<Vec<ManifestFile>>, Fetched)> {
        let Some(id) = snapshot_id else { return Ok((Arc::default(), Fetched::default())) };
        let snapshot = metadata.snapshot_by_id(id).ok_or_else(|| {
            Error::new(Code::InvalidArgument, "the table has no such snapshot")
                .with("snapshot", id)
                .with("table", metadata.location())
        })?;
        let path = self.locate(snapshot.manifest_list());
        let path = path.as_ref();
        let mut fetched = Fetched::default();
        let load = async {
            let bytes = self.get(path, &mut fetched).await?;
            let weight = list_weight(&bytes);
            let manifests = decode(path, bytes, |bytes| read_list(&bytes)).await?;
            check_not_emptied(snapshot, &manifests)?;
            Ok((Value::List(Arc::new(manifests)), weight))
        };
        let key = Key { path: path.to_owned(), first_row_id: None };
        match self.cache.get_or_load(&key, load).await? {
            Value::List(manifests) => Ok((manifests, fetched)),
            Value::Manifest(_) => Err(corrupt(path, "it is a manifest and named as a manifest list")),
        }
    }

    /// [`Manifests::entries`], and what it asked of the store.
    ///
    /// # Errors
    /// `manifest_corrupt` if the manifest is missing, shorter than its list says or cannot be read.
    pub async fn entries_counted(
        &self,
        metadata: &TableMetadata,
        manifest: &ManifestFile,
    ) -> Result<(Arc<Vec<Entry>>, Fetched)> {
        let (read, fetched) = self.manifest_counted(metadata, manifest).await?;
        Ok((Arc::clone(&read.entries), fetched))
    }

    /// A manifest with the schema and spec it was written under, and what it asked of the store.
    pub async fn manifest_counted(
        &self,
        metadata: &TableMetadata,
        manifest: &ManifestFile,
    ) -> Result<(Arc<Manifest>, Fetched)> {
        let path = self.locate(&manifest.manifest_path);
        let path = path.as_ref();
        if metadata.partition_spec_by_id(manifest.partition_spec_id).is_none() {
            let reason =
                format!("it is of the partition spec {}, which the table does not have", manifest.partition_spec_id);
            return Err(corrupt(path, reason));
        }
        if manifest.key_metadata.as_ref().is_some_and(|key| !key.is_empty()) {
            return Err(Error::new(Code::NotSupported, "encrypted manifests are not supported").with("file", path));
        }
        let mut fetched = Fetched::default();
        let load = async {
            let bytes = self.get(path, &mut fetched).await?;
            // Shorter is cut, and a cut between two blocks leaves a file that reads well.
            if i64::try_from(bytes.len()).is_ok_and(|len| len < manifest.manifest_length) {
                let lengths = format!("it has {} bytes and should have {}", bytes.len(), manifest.manifest_length);
                return Err(corrupt(path, lengths));
            }
            let file = manifest.clone();
            let read = decode(path, bytes, move |bytes| read_manifest(&bytes, &file)).await?;
            let weight = read.entries.iter().map(entry_weight).sum::<usize>() + size_of::<Manifest>();
            Ok((Value::Manifest(Arc::new(read)), weight))
        };
        let key = Key { path: path.to_owned(), first_row_id: manifest.first_row_id };
        match self.cache.get_or_load(&key, load).await? {
            Value::Manifest(read) => Ok((read, fetched)),
            Value::List(_) => Err(corrupt(path, "it is a manifest list and named as a manifest")),
        }
    }

    fn locate<'a>(&self, path: &'a str) -> Cow<'a, str> {
        self.relocation.as_ref().map_or(Cow::Borrowed(path), |relocation| relocation.apply(path))
    }

    async fn get(&self, path: &str, fetched: &mut Fetched) -> Result<Bytes> {
        fetched.requests += 1;
        let bytes = fetch(&self.stores, path).await?.ok_or_else(|| corrupt(path, "it does not exist"))?;
        fetched.bytes += bytes.len() as u64;
        Ok(bytes)
    }
}

fn corrupt(path: &str, reason: impl std::fmt::Display) -> Error {
    Error::new(Code::ManifestCorrupt, "a manifest of the table cannot be read")
        .with("file", path)
        .with("reason", reason)
}

/// Decodes on a thread where work may take long; a decoder that panics makes an error like any other.
async fn decode<T: Send + 'static>(
    path: &str,
    bytes: Bytes,
    read: impl FnOnce(Bytes) -> Result<T, String> + Send + 'static,
) -> Result<T> {
    match SpawnedTask::spawn_blocking(move || read(bytes)).join().await {
        Ok(read) => read.map_err(|reason| corrupt(path, reason)),
        // The runtime is shutting down: the file is not to blame.
        Err(e) if e.is_cancelled() => {
            Err(Error::new(Code::Interrupted, "a manifest was not read to its end").with("file", path).source(e))
        }
        Err(e) => Err(corrupt(path, "its decoder failed").source(e)),
    }
}

fn read_list(bytes: &[u8]) -> Result<Vec<ManifestFile>, String> {
    let checked = avro::check(bytes)?;
    // What the list itself holds decides: a table that was upgraded keeps the lists of its old snapshots.
    let has = |name: &str| checked.fields.iter().any(|field| field == name);
    let version = match (has("sequence_number"), has("first_row_id")) {
        (_, true) => FormatVersion::V3,
        (true, false) => FormatVersion::V2,
        (false, false) => FormatVersion::V1,
    };
    let list = ManifestList::parse_with_version(&checked.bytes, version).map_err(|e| e.to_string())?;
    Ok(list.consume_entries().into_iter().collect())
}

/// A list that was cut between its header and its only block reads as a snapshot without files.
fn check_not_emptied(snapshot: &Snapshot, manifests: &[ManifestFile]) -> Result<()> {
    let files = snapshot.summary().additional_properties.get("total-data-files").and_then(|n| n.parse::<u64>().ok());
    match files {
        Some(files) if files > 0 && manifests.is_empty() => Err(corrupt(
            snapshot.manifest_list(),
            format!("it is empty and its snapshot {} has {files} data files", snapshot.snapshot_id()),
        )),
        _ => Ok(()),
    }
}

fn read_manifest(bytes: &[u8], file: &ManifestFile) -> Result<Manifest, String> {
    let checked = avro::check(bytes)?;
    let (entries, metadata) = parse(&checked.bytes)?.into_parts();
    let mut row_ids = RowIds::of(file);
    let entries = entries.into_iter().map(|entry| inherit(entry, file, &mut row_ids)).collect::<Result<Vec<_>, _>>()?;
    Ok(Manifest { entries: Arc::new(entries), schema: metadata.schema, spec: metadata.partition_spec })
}

/// Parses a manifest as it is; where something in its header is in the way, without that.
fn parse(bytes: &[u8]) -> Result<RawManifest, String> {
    let refused = match RawManifest::parse_avro(bytes) {
        Ok(manifest) => return Ok(manifest),
        Err(e) => e.to_string(),
    };
    let carried = |keep: Keep| {
        let bytes = avro::with_header(bytes, |meta, schema| carry(meta, schema, keep)).ok()?;
        RawManifest::parse_avro(&bytes).ok()
    };
    carried(Keep::Known).or_else(|| carried(Keep::NoBounds)).ok_or(refused)
}

/// Fills what an entry inherits from its manifest (table specification, "Sequence number inheritance").
fn inherit(entry: ManifestEntryRef, manifest: &ManifestFile, row_ids: &mut RowIds) -> Result<Entry, String> {
    let inherits = entry.status == ManifestStatus::Added || manifest.sequence_number == 0;
    let inherited = inherits.then_some(manifest.sequence_number);
    let sequence_number = entry
        .sequence_number
        .or(inherited)
        .ok_or_else(|| format!("the entry of {} has no sequence number and is not an added one", entry.file_path()))?;
    Ok(Entry {
        status: entry.status,
        snapshot_id: entry.snapshot_id.unwrap_or(manifest.added_snapshot_id),
        sequence_number,
        file_sequence_number: entry.file_sequence_number.or(inherited),
        first_row_id: row_ids.assign(&entry)?,
        spec_id: manifest.partition_spec_id,
        file: Arc::unwrap_or_clone(entry).data_file,
    })
}

/// One entry alone.
#[cfg(test)]
pub(super) fn inherited(entry: ManifestEntryRef, manifest: &ManifestFile) -> Result<Entry, String> {
    inherit(entry, manifest, &mut RowIds::of(manifest))
}

/// Assigns row ids in file order (table specification, "First row ID inheritance"): to live data files that have none,
/// counting on from the manifest's own. A manifest without one has none to give, and what its entries claim is void.
struct RowIds(Option<i64>);

impl RowIds {
    fn of(manifest: &ManifestFile) -> Self {
        let is_data = manifest.content == ManifestContentType::Data;
        RowIds(manifest.first_row_id.filter(|_| is_data).and_then(|id| i64::try_from(id).ok()))
    }

    fn assign(&mut self, entry: &ManifestEntryRef) -> Result<Option<i64>, String> {
        let Some(next) = self.0 else { return Ok(None) };
        let own = entry.data_file.first_row_id();
        if own.is_some() || entry.status == ManifestStatus::Deleted {
            return Ok(own);
        }
        let rows = i64::try_from(entry.record_count()).ok();
        let after = rows.and_then(|rows| next.checked_add(rows));
        self.0 = Some(after.ok_or_else(|| format!("row ids overflow at {}", entry.file_path()))?);
        Ok(Some(next))
    }
}

/// Roughly what the entries of a list take in memory: they are little but text, stored as it is.
fn list_weight(bytes: &Bytes) -> usize {
    bytes.len() * 4
}

/// Roughly what an entry takes in memory.
fn entry_weight(entry: &Entry) -> usize {
    let file = &entry.file;
    let counts = file.column_sizes().len()
        + file.value_counts().len()
        + file.null_value_counts().len()
        + file.nan_value_counts().len();
    let bounds = file.lower_bounds().len() + file.upper_bounds().len();
    // A hash map keeps an eighth of its room free at least, and a control byte an entry.
    size_of::<Entry>()
        + file.file_path().len()
        + counts * (size_of::<(i32, u64)>() + 4)
        + bounds * (size_of::<(i32, iceberg::spec::Datum)>() + 32)
        + size_of_val(file.partition().fields())
}

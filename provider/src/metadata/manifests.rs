//! What do a snapshot's manifests hold, read once per process?
//!
//! Files of metadata never change, so what was read stays right for as long as it fits.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use futures::stream::{StreamExt, TryStreamExt, iter};
use iceberg::spec::{ManifestFile, Snapshot, TableMetadata};

use super::cache::Cache;
use super::layout::Layouts;
use super::{Entry, Fetched, List, Manifest, Relocation, carry_snapshot, fetch};
use crate::error::{Code, Error, Result};
use crate::storage::Stores;

/// Manifests read at the same time to make up a list: as many as a scan reads.
const UNLISTED_AT_ONCE: usize = 16;

/// Reads manifest lists and manifests, each once per process (bounded cache keyed by path: they never change).
/// Clones share the cache. Each is fetched with one GET, once however many ask for it at a time.
#[derive(Clone, Debug)]
pub struct Manifests {
    stores: Stores,
    cache: Arc<Cache<Key, Value>>,
    layouts: Arc<Layouts>,
    relocation: Option<Relocation>,
}

/// The row ids that entries inherit depend on the list a manifest is read through, and so they are a part of the key:
/// a table that was upgraded to version 3 has lists without them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    path: Arc<str>,
    first_row_id: Option<u64>,
}

#[derive(Clone, Debug)]
enum Value {
    List(Arc<List>),
    Manifest(Arc<Manifest>),
}

impl Manifests {
    /// A cache over `stores` that holds at most `limit` bytes: those of decoded manifests in their compact form.
    pub fn new(stores: Stores, limit: usize) -> Self {
        Manifests { stores, cache: Arc::new(Cache::new(limit)), layouts: Arc::default(), relocation: None }
    }

    /// The same cache for a table that was moved.
    #[must_use]
    pub fn relocated(&self, relocation: Relocation) -> Self {
        Manifests { relocation: Some(relocation), ..self.clone() }
    }

    /// The manifests of a snapshot; `snapshot_id: None` means no snapshot: none.
    pub async fn list(&self, metadata: &TableMetadata, snapshot_id: Option<i64>) -> Result<Arc<List>> {
        Ok(self.list_counted(metadata, snapshot_id).await?.0)
    }

    /// The entries of a manifest, deleted ones included, with everything their records hold.
    ///
    /// # Errors
    /// As [`Manifests::manifest_counted`], and `manifest_corrupt` for a record that lacks what every record has.
    pub async fn entries(&self, metadata: &TableMetadata, manifest: &ManifestFile) -> Result<Vec<Entry>> {
        self.manifest_counted(metadata, manifest).await?.0.entries()
    }

    /// [`Manifests::list`], and what it asked of the store.
    ///
    /// # Errors
    /// `manifest_corrupt` if the list is missing or cannot be read, or is empty although its snapshot has files; as
    /// [`Manifests::manifest_counted`] for each manifest of a snapshot that names them without a list.
    pub async fn list_counted(
        &self,
        metadata: &TableMetadata,
        snapshot_id: Option<i64>,
    ) -> Result<(Arc<List>, Fetched)> {
        let Some(id) = snapshot_id else { return Ok((Arc::default(), Fetched::default())) };
        let snapshot = metadata.snapshot_by_id(id).ok_or_else(|| {
            Error::new(Code::InvalidArgument, "the table has no such snapshot")
                .with("snapshot", id)
                .with("table", metadata.location())
        })?;
        if let Some(paths) = carry_snapshot::manifests(snapshot.manifest_list()) {
            return self.without_list(id, &paths).await;
        }
        let path = self.locate(snapshot.manifest_list());
        let path = path.as_ref();
        let mut fetched = Fetched::default();
        let load = async {
            let bytes = self.get(path, &mut fetched).await?;
            let list = decode(path, bytes, |bytes| List::read(&bytes)).await?;
            check_not_emptied(snapshot, &list)?;
            let weight = list.weight();
            Ok((Value::List(Arc::new(list)), weight))
        };
        let key = Key { path: path.into(), first_row_id: None };
        match self.cache.get_or_load(&key, load).await? {
            Value::List(manifests) => Ok((manifests, fetched)),
            Value::Manifest(_) => Err(corrupt(path, "it is a manifest and named as a manifest list")),
        }
    }

    /// The manifests that a snapshot names itself. All are read, to learn of each what a list would say.
    async fn without_list(&self, snapshot_id: i64, paths: &[String]) -> Result<(Arc<List>, Fetched)> {
        let mut fetched = Fetched::default();
        let load = async {
            let reads: Vec<_> = paths.iter().map(|path| self.unlisted(snapshot_id, path)).collect();
            let mut reads = iter(reads).buffered(UNLISTED_AT_ONCE);
            let mut manifests = Vec::with_capacity(paths.len());
            while let Some((manifest, more)) = reads.try_next().await? {
                manifests.push(manifest);
                fetched += more;
            }
            let list = List::of(manifests);
            let weight = list.weight();
            Ok((Value::List(Arc::new(list)), weight))
        };
        // It contains the names of what it is made of, and so it is the name of none of them.
        let located: Vec<Cow<'_, str>> = paths.iter().map(|path| self.locate(path)).collect();
        let name = format!("snapshot {snapshot_id} of {located:?}");
        let key = Key { path: name.as_str().into(), first_row_id: None };
        match self.cache.get_or_load(&key, load).await? {
            Value::List(manifests) => Ok((manifests, fetched)),
            Value::Manifest(_) => Err(corrupt(&name, "it is a manifest")),
        }
    }

    async fn unlisted(&self, snapshot_id: i64, path: &str) -> Result<(ManifestFile, Fetched)> {
        let located = self.locate(path);
        let at = located.as_ref();
        let mut fetched = Fetched::default();
        let load = async {
            let bytes = self.get(at, &mut fetched).await?;
            let (layouts, path) = (Arc::clone(&self.layouts), at.to_owned());
            let read = move |bytes: Bytes| Manifest::read_unlisted(&bytes, &path, snapshot_id, &layouts);
            let read = decode(at, bytes, read).await?;
            let weight = read.weight();
            Ok((Value::Manifest(Arc::new(read)), weight))
        };
        let key = Key { path: at.into(), first_row_id: None };
        match self.cache.get_or_load(&key, load).await? {
            Value::Manifest(read) => Ok((read.listed(path, snapshot_id)?, fetched)),
            Value::List(_) => Err(corrupt(at, "it is a manifest list and named as a manifest")),
        }
    }

    /// A manifest, and what reading it asked of the store.
    ///
    /// # Errors
    /// `manifest_corrupt` if the manifest is missing, shorter than its list says or cannot be read; `not_supported` if it
    /// is encrypted.
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
            let (file, layouts, at) = (manifest.clone(), Arc::clone(&self.layouts), path.to_owned());
            let read = decode(path, bytes, move |bytes| Manifest::read(&bytes, &at, &file, &layouts)).await?;
            let weight = read.weight();
            Ok((Value::Manifest(Arc::new(read)), weight))
        };
        let key = Key { path: path.into(), first_row_id: manifest.first_row_id };
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
        let missing = || corrupt(path, "it does not exist").help(WHERE_MOVED);
        let bytes = fetch(&self.stores, path).await?.ok_or_else(missing)?;
        fetched.bytes += bytes.len() as u64;
        Ok(bytes)
    }
}

/// What to do about files that aren't where the metadata says.
pub const WHERE_MOVED: &str = "if the table was moved: CREATE EXTERNAL TABLE … OPTIONS ('relocate' 'true')";

pub(super) fn corrupt(path: &str, reason: impl std::fmt::Display) -> Error {
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

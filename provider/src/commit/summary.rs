//! What does a snapshot say about itself?

use std::collections::{BTreeMap, HashMap, HashSet};

use iceberg::spec::{DataFile, Operation, Snapshot, Summary};

use super::batches::BATCH_ID;

/// What a commit did to manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ManifestCounts {
    pub(super) created: usize,
    pub(super) kept: usize,
    pub(super) replaced: usize,
}

/// Everything a summary is made of.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    /// Keys of the caller; those of the format win over them.
    pub(super) keys: &'a BTreeMap<String, String>,
    pub(super) batch_id: Option<&'a str>,
    pub(super) files: &'a [DataFile],
    pub(super) manifests: ManifestCounts,
    pub(super) parent: Option<&'a Snapshot>,
}

/// The summary of an append, with the keys that the reference implementation writes (table specification,
/// "Optional Snapshot Summary Fields"). A total whose predecessor does not state it is left out: it is not known.
pub(super) fn append(facts: &Facts<'_>) -> Summary {
    let records: u64 = facts.files.iter().map(DataFile::record_count).sum();
    let bytes: u64 = facts.files.iter().map(DataFile::file_size_in_bytes).sum();
    let partitions: HashSet<_> = facts.files.iter().map(DataFile::partition).collect();
    let mut keys: HashMap<String, String> = facts.keys.clone().into_iter().collect();
    let mut put = |key: &str, value: String| keys.insert(key.to_owned(), value);
    put("engine-name", "daygrain".to_owned());
    put("engine-version", env!("CARGO_PKG_VERSION").to_owned());
    if let Some(batch_id) = facts.batch_id {
        put(BATCH_ID, batch_id.to_owned());
    }
    for (key, n) in [
        ("added-data-files", facts.files.len() as u64),
        ("added-records", records),
        ("added-files-size", bytes),
        ("changed-partition-count", partitions.len() as u64),
        ("manifests-created", facts.manifests.created as u64),
        ("manifests-kept", facts.manifests.kept as u64),
        ("manifests-replaced", facts.manifests.replaced as u64),
    ] {
        put(key, n.to_string());
    }
    for (key, added) in [
        ("total-data-files", facts.files.len() as u64),
        ("total-records", records),
        ("total-files-size", bytes),
        ("total-delete-files", 0),
        ("total-position-deletes", 0),
        ("total-equality-deletes", 0),
    ] {
        let before = match facts.parent {
            None => Some(0),
            Some(parent) => parent.summary().additional_properties.get(key).and_then(|n| n.parse::<u64>().ok()),
        };
        if let Some(total) = before.and_then(|before| before.checked_add(added)) {
            put(key, total.to_string());
        }
    }
    Summary { operation: Operation::Append, additional_properties: keys }
}

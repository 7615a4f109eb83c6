//! Was this batch exported before?
//!
//! ```text
//! snapshot summary   daygrain.batch-id = "2026-06-04T10"        until the snapshot expires
//! table property     daygrain.batches.000000 = "kT3x…" "9bQe…"   for the last 131,072 batches
//! ```
//!
//! The property is written in the commit that adds the batch's files, so both land or neither does, and compaction,
//! expiry and other engines leave it alone. It holds a digest of each id, 16 characters long: the first 96 bits of
//! SHA-256 in the URL-safe base64 alphabet, without separators. 512 digests make a chunk of 8 KiB, so that a commit
//! changes one small property; 256 chunks are kept (2 MiB, a batch every five minutes for fifteen months). Beyond that
//! the oldest chunk goes, and a batch of its age is recognised only while its snapshot lives.

use iceberg::spec::TableMetadata;
use sha2::{Digest, Sha256};

/// The key of a snapshot's summary that holds the batch's id.
pub const BATCH_ID: &str = "daygrain.batch-id";

const PREFIX: &str = "daygrain.batches.";
const DIGEST: usize = 16;
const CHUNK: usize = 512 * DIGEST;
const CHUNKS: u64 = 256;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A batch that is in a table's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The snapshot that added it, while it lives.
    pub snapshot_id: Option<i64>,
}

/// Looks for a batch in a table's history. A rollback does not forget: rows that are to be exported again after one
/// need a new id.
// @spec W7
pub fn find_batch(metadata: &TableMetadata, batch_id: &str) -> Option<Landed> {
    let carries =
        |summary: &iceberg::spec::Summary| summary.additional_properties.get(BATCH_ID).is_some_and(|id| id == batch_id);
    if let Some(snapshot) = metadata.snapshots().find(|snapshot| carries(snapshot.summary())) {
        return Some(Landed { snapshot_id: Some(snapshot.snapshot_id()) });
    }
    let digest = digest(batch_id);
    let known = |value: &str| value.as_bytes().chunks_exact(DIGEST).any(|known| known == digest.as_bytes());
    chunks(metadata).any(|(_, value)| known(value)).then_some(Landed { snapshot_id: None })
}

/// The property changes that make a batch known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Remember {
    pub(super) set: (String, String),
    pub(super) remove: Vec<String>,
}

pub(super) fn remember(metadata: &TableMetadata, batch_id: &str) -> Remember {
    let newest = chunks(metadata).max_by_key(|(number, _)| *number);
    let (number, mut value) = match newest {
        Some((number, value)) if value.len() < CHUNK && value.len() % DIGEST == 0 => (number, value.to_owned()),
        Some((number, _)) => (number.saturating_add(1), String::new()),
        None => (0, String::new()),
    };
    value.push_str(&digest(batch_id));
    let mut remove: Vec<u64> =
        chunks(metadata).map(|(old, _)| old).filter(|old| old.saturating_add(CHUNKS) <= number).collect();
    remove.sort_unstable();
    Remember { set: (key(number), value), remove: remove.into_iter().map(key).collect() }
}

fn chunks(metadata: &TableMetadata) -> impl Iterator<Item = (u64, &str)> {
    let numbered = |(name, value): (&String, _)| Some((name.strip_prefix(PREFIX)?.parse().ok()?, value));
    metadata.properties().iter().filter_map(move |(name, value)| numbered((name, value.as_str())))
}

fn key(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

fn digest(batch_id: &str) -> String {
    let hash = Sha256::digest(batch_id.as_bytes());
    let bits = hash.iter().take(12).fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    let symbol = |i: usize| {
        let index = (bits >> (6 * (DIGEST - 1 - i))) & 63;
        ALPHABET.get(index as usize).copied().unwrap_or(b'A') as char
    };
    (0..DIGEST).map(symbol).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use iceberg::spec::{FormatVersion, PartitionSpec, Schema, SortOrder, TableMetadataBuilder};

    use super::*;

    fn table(properties: HashMap<String, String>) -> TableMetadata {
        let schema = Schema::builder().build().unwrap();
        let spec = PartitionSpec::unpartition_spec();
        let location = "memory://t/t".to_owned();
        TableMetadataBuilder::new(schema, spec, SortOrder::unsorted_order(), location, FormatVersion::V3, properties)
            .unwrap()
            .build()
            .unwrap()
            .metadata
    }

    fn after(batches: impl IntoIterator<Item = String>) -> HashMap<String, String> {
        let mut properties = HashMap::new();
        for id in batches {
            let change = remember(&table(properties.clone()), &id);
            properties.insert(change.set.0, change.set.1);
            properties.retain(|key, _| !change.remove.contains(key));
        }
        properties
    }

    #[test]
    fn the_digest_is_base64_of_sha256() {
        // echo -n abc | sha256sum | xxd -r -p | head -c 12 | base64
        assert_eq!(digest("abc"), "ungWv48Bz-pBQUDe");
    }

    #[test]
    fn a_chunk_is_filled_before_the_next() {
        let properties = after((0..513).map(|i| format!("batch {i}")));
        assert_eq!(properties["daygrain.batches.000000"].len(), CHUNK);
        assert_eq!(properties["daygrain.batches.000001"].len(), DIGEST);
        let table = table(properties);
        for i in 0..513 {
            assert_eq!(find_batch(&table, &format!("batch {i}")), Some(Landed { snapshot_id: None }));
        }
        assert_eq!(find_batch(&table, "batch 513"), None);
        assert_eq!(find_batch(&table, ""), None);
    }

    #[test]
    fn the_oldest_chunk_goes_beyond_the_bound() {
        let full: String = "x".repeat(CHUNK);
        let properties = (0..CHUNKS).map(|i| (key(i), full.clone())).collect();
        let change = remember(&table(properties), "new");
        assert_eq!(change.set.0, "daygrain.batches.000256");
        assert_eq!(change.remove, ["daygrain.batches.000000"]);
    }
}

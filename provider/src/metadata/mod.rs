//! What does a table's metadata say at one snapshot?
//!
//! ```text
//! directory ─ hint, probe, list ─▶ vN.metadata.json ─▶ snapshot ─▶ manifest list ─▶ manifests ─▶ entries
//!               open                  parse                     list, manifest: each read once     record
//! ```

#[cfg(test)]
mod agreement;
mod avro;
mod cache;
mod carry;
mod carry_manifest;
mod carry_snapshot;
mod defaults;
mod ids;
mod layout;
mod list;
mod manifest;
mod manifests;
mod open;
mod parse;
mod parsed;
mod record;
mod refs;
mod relocate;
#[cfg(test)]
mod tests;
mod write;

use bytes::Bytes;
use iceberg::spec::{DataFile, ManifestStatus};
use object_store::ObjectStoreExt;

use crate::error::Result;
use crate::storage::Stores;

#[cfg(test)]
pub(crate) use avro::uncompressed;
pub use carry::{check_readable, check_writable};
pub use defaults::with_defaults;
pub use list::{List, Summaries};
pub use manifest::Manifest;
pub use manifests::{Manifests, WHERE_MOVED};
pub use open::{open, open_again};
pub use parse::parse;
pub use parsed::Parsed;
pub use record::{Brief, ColumnMetrics};
pub use refs::{Ref, RefKind, refs};
pub use relocate::Relocation;
pub(crate) use write::encoded_size;
pub use write::{ManifestTarget, NewEntry, NewList, WrittenList, rebuild, write_list, write_manifest};

/// One entry of a manifest, with everything inherited that the specification says is inherited.
#[derive(Clone, Debug)]
pub struct Entry {
    pub status: ManifestStatus,
    pub snapshot_id: i64,
    /// Data sequence number.
    pub sequence_number: i64,
    pub file_sequence_number: Option<i64>,
    /// First row id of the file (format version 3), inherited from the manifest where null.
    pub first_row_id: Option<i64>,
    pub spec_id: i32,
    pub file: DataFile,
}

impl Entry {
    /// Whether the file is part of the table at the snapshot whose manifest this is.
    pub fn is_live(&self) -> bool {
        self.status != ManifestStatus::Deleted
    }
}

/// What a read asked of the store; zero when it was answered from memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    pub requests: u64,
    pub bytes: u64,
}

impl std::ops::AddAssign for Fetched {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}

/// One GET of a whole object; `None` if there is none.
async fn fetch(stores: &Stores, location: &str) -> Result<Option<Bytes>> {
    let located = stores.resolve(location)?;
    let got = match located.store.get(&located.path).await {
        Ok(got) => got.bytes().await,
        Err(e) => Err(e),
    };
    match got {
        Ok(bytes) => Ok(Some(bytes)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(crate::storage::error(location, e)),
    }
}

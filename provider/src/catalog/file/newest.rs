//! Which metadata file is a table's newest?
//!
//! ```text
//! seen v7  ─▶ v7 ✓  v8 ✗                  newest: v7, as when it was looked at last: nothing else is asked
//! hint "7" ─▶ v7 ✓  v8 ✓  v9 ✗            newest: v8, the hint was late
//! hint "9" ─▶ v9 ✗ ─▶ list ─▶ v6 v7 v8    newest: v8, the hint was wrong
//! no hint  ─────────▶ list ─▶ nothing     no table: only a listing proves that
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectMeta, ObjectStoreExt};
use parking_lot::Mutex;

use super::super::names::{Form, MetadataName, claims_metadata};
use super::{Base, Code, Error, FileCatalog, Result, metadata_directory, names, paths, storage};
use crate::metadata::Parsed;

/// The newest metadata file of a table, as it was read.
#[derive(Debug)]
pub(super) struct Newest {
    version: u64,
    location: String,
    bytes: Bytes,
}

/// The metadata files of a table, and what else claims to be one.
pub(super) struct Listed {
    pub(super) files: Vec<(MetadataName, ObjectMeta)>,
    /// The version hint, where there is one.
    pub(super) hint: Option<Path>,
    unreadable: Vec<String>,
}

/// The version of each table that was found last: as good a hint as the one in the store, and at hand.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<HashMap<String, u64>>>);

impl Seen {
    fn version(&self, table: &str) -> Option<u64> {
        self.0.lock().get(table).copied()
    }

    fn remember(&self, table: &str, version: Option<u64>) {
        let mut seen = self.0.lock();
        match version {
            Some(version) => seen.insert(table.to_owned(), version),
            None => seen.remove(table),
        };
    }
}

/// How far past the hint versions are tried one by one: a hint that is later than this is not worth that many requests.
const PROBES: u64 = 8;

pub(super) const HINT: &str = "version-hint.text";

impl FileCatalog {
    /// Finds and reads the newest metadata file. `None` only if a listing shows that there is none.
    pub(super) async fn newest(&self, table: &str) -> Result<Option<Newest>> {
        let directory = metadata_directory(table);
        let newest = self.newest_near(table, &directory).await?;
        if newest.is_some() {
            return Ok(newest);
        }
        let listed = self.metadata_files(table).await?;
        let Some((name, file)) = listed.newest()? else { return Ok(None) };
        let location = paths::join(&directory, file);
        match self.read(&location).await? {
            Some(bytes) => Ok(Some(Newest { version: name.version, location, bytes })),
            // Dropped while we looked. The next listing will say so.
            None => Err(Error::new(Code::FileNotFound, "the table changed while it was opened").with("file", location)),
        }
    }

    /// The newest file, if the version seen last or the hint leads to it.
    async fn newest_near(&self, table: &str, directory: &str) -> Result<Option<Newest>> {
        let seen = self.seen.version(table);
        let mut newest = match seen {
            Some(version) => self.probe(directory, version).await?,
            None => None,
        };
        if newest.is_none()
            && let Some(version) = self.hint(directory).await
            && Some(version) != seen
        {
            newest = self.probe(directory, version).await?;
        }
        self.seen.remember(table, newest.as_ref().map(|newest| newest.version));
        Ok(newest)
    }

    /// What the hint says, if it says anything. It decides nothing: whatever is wrong with it, a listing knows better.
    pub(super) async fn hint(&self, directory: &str) -> Option<u64> {
        let bytes = self.read(&paths::join(directory, HINT)).await.ok()??;
        names::parse_hint(&bytes)
    }

    /// The metadata files of a table by name.
    pub(super) async fn metadata_files(&self, table: &str) -> Result<Listed> {
        let mut listed = Listed { files: Vec::new(), hint: None, unreadable: Vec::new() };
        for object in self.list(&metadata_directory(table)).await?.objects {
            let Some(file) = object.location.filename() else { continue };
            match MetadataName::parse(file) {
                Some(name) => listed.files.push((name, object)),
                None if file == HINT => listed.hint = Some(object.location),
                None if claims_metadata(file) => listed.unreadable.push(file.to_owned()),
                None => {}
            }
        }
        Ok(listed)
    }

    /// Reads a whole file; `None` if there is none.
    pub(super) async fn read(&self, location: &str) -> Result<Option<Bytes>> {
        let at = self.at(location)?;
        match at.store.get(&at.path).await {
            Ok(answer) => Ok(Some(answer.bytes().await.map_err(|e| storage::error(location, e))?)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(e) => Err(storage::error(location, e)),
        }
    }

    /// Walks on from the hinted version. `None`: the hint leads nowhere near, list instead.
    async fn probe(&self, directory: &str, hinted: u64) -> Result<Option<Newest>> {
        let locate = |version| paths::join(directory, &names::metadata_file(version));
        // Mostly the hint is right: both questions at once are one round trip.
        let (here, after) = (locate(hinted), locate(hinted.saturating_add(1)));
        let (here_bytes, after_bytes) = tokio::try_join!(self.read(&here), self.read(&after))?;
        let Some(bytes) = here_bytes else { return Ok(None) };
        let mut newest = Newest { version: hinted, location: here, bytes };
        let mut next = after_bytes;
        for _ in 0..PROBES {
            let Some(bytes) = next else { return Ok(Some(newest)) };
            let version = newest.version.saturating_add(1);
            newest = Newest { version, location: locate(version), bytes };
            next = self.read(&locate(version.saturating_add(1))).await?;
        }
        Ok(None)
    }
}

impl Listed {
    /// The newest file. Where another catalog's names stand beside ours, the later file counts: its versions are counted
    /// on their own.
    fn newest(&self) -> Result<Option<(MetadataName, &str)>> {
        let of = |foreign: bool| {
            let ours = self.files.iter().filter(move |(name, _)| (name.form == Form::Foreign) == foreign);
            ours.max_by_key(|(name, _)| name.version)
        };
        let newest = match (of(false), of(true)) {
            (Some(ours), Some(foreign)) if foreign.1.last_modified > ours.1.last_modified => Some(foreign),
            (Some(ours), _) => Some(ours),
            (None, foreign) => foreign,
        };
        let Some((name, object)) = newest else {
            self.is_absent()?;
            return Ok(None);
        };
        let family = |other: &MetadataName| (other.form == Form::Foreign) == (name.form == Form::Foreign);
        let same: Vec<&str> = (self.files.iter())
            .filter(|(other, _)| other.version == name.version && family(other))
            .filter_map(|(_, object)| object.location.filename())
            .collect();
        if same.len() > 1 {
            return Err(Error::new(Code::MetadataCorrupt, "several files claim to be the newest metadata")
                .with("files", same.join(", "))
                .help("open the right one by its own path"));
        }
        Ok(object.location.filename().map(|file| (*name, file)))
    }

    /// Whether there is verifiably no table: no metadata file, nor one that claims to be.
    pub(super) fn is_absent(&self) -> Result<bool> {
        if self.files.is_empty() && !self.unreadable.is_empty() {
            return Err(Error::new(Code::MetadataCorrupt, "the version of these metadata files cannot be read")
                .with("files", self.unreadable.join(", "))
                .help("open the right one by its own path"));
        }
        Ok(self.files.is_empty())
    }
}

impl Newest {
    /// Parses the file. A file that is cut or empty is never taken for anything else, nor written over.
    pub(super) fn open(self, parsed: &Parsed) -> Result<Base> {
        let Newest { version, location, bytes } = self;
        let metadata = parsed.get(&location, &bytes).map_err(|e| match e.code() {
            Code::MetadataCorrupt => {
                e.help("the table is as it was; if this file is what a crash left of a commit, move it away")
            }
            _ => e,
        })?;
        Ok(Base { metadata, location, version })
    }
}

//! How does a table go away, so that nobody ever sees a part of it?
//!
//! ```text
//! hint ─▶ v1 v2 … vN-1 ─▶ vN ─▶ with purge: everything below the location
//! ```
//!
//! The newest version goes last: until then every reader finds the whole table, after that none finds any. The other way
//! round, a reader or a writer in between would take an old version for the newest, and a commit on top of it would be a
//! table without its latest rows.

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore};
use std::sync::Arc;

use super::super::names::{Form, MetadataName, claims_metadata};
use super::{Catalog, Code, Dropped, Error, FileCatalog, Ident, Result, StreamExt, metadata_directory, storage};

/// How often a drop begins again because somebody committed meanwhile.
const ROUNDS: usize = 16;

impl FileCatalog {
    pub(super) async fn forget(&self, ident: &Ident, purge: bool) -> Result<Dropped> {
        let location = self.location(ident)?;
        let in_table = |error: Error| error.with("table", ident);
        let listed = self.metadata_files(&location).await?;
        if listed.is_absent().map_err(in_table)? {
            return Err(in_table(Error::new(Code::UnknownTable, "no such table")));
        }
        if listed.files.iter().any(|(name, _)| name.form == Form::Foreign) {
            let what = "another catalog owns this table, it can only be dropped there";
            return Err(in_table(Error::new(Code::NotSupported, what)));
        }
        if purge {
            self.check_purge(ident, &location).await.map_err(in_table)?;
        }
        let mut deleted = self.delete_versions(&location).await.map_err(in_table)?;
        if purge {
            deleted += self.delete_below(&location).await.map_err(in_table)?;
        }
        self.remove_empty_directories(&location).await;
        Ok(Dropped { location, deleted })
    }

    /// Deletes the hint and all versions, oldest first, until a listing shows none: others may commit meanwhile.
    async fn delete_versions(&self, table: &str) -> Result<u64> {
        let directory = metadata_directory(table);
        let at = self.at(&directory)?;
        let mut deleted = 0;
        for _ in 0..ROUNDS {
            let listed = self.metadata_files(table).await?;
            deleted += delete_all(&at.store, listed.hint.into_iter().collect(), &directory).await?;
            let mut files = listed.files;
            files.sort_by_key(|(name, _)| name.version);
            let Some((_, newest)) = files.pop() else { return Ok(deleted) };
            let older = files.into_iter().map(|(_, object)| object.location).collect();
            deleted += delete_all(&at.store, older, &directory).await?;
            deleted += delete_all(&at.store, vec![newest.location], &directory).await?;
        }
        Err(Error::new(Code::CommitConflict, "others keep committing to the table").with("location", table))
    }

    /// Whether the files below the location are this table's to delete.
    async fn check_purge(&self, ident: &Ident, location: &str) -> Result<()> {
        if let Ok(Some(base)) = self.load(ident).await
            && base.metadata.properties().get(GC_ENABLED).is_some_and(|on| on.eq_ignore_ascii_case("false"))
        {
            return Err(Error::new(
                Code::NotSupported,
                "the table's files may be used by others, they are not deleted",
            )
            .with("property", format!("{GC_ENABLED}=false"))
            .help("drop the table without PURGE: its files stay, and the shell says where"));
        }
        let at = self.at(location)?;
        let own = self.at(&metadata_directory(location))?.path;
        let mut files = at.store.list(Some(&at.path));
        while let Some(file) = files.try_next().await.map_err(|e| storage::error(location, e))? {
            let name = file.location.filename().unwrap_or_default();
            let inside = file.location.prefix_match(&own).is_some();
            if !inside && claims_metadata(name) && MetadataName::parse(name).is_some() {
                return Err(Error::new(Code::NamespaceNotEmpty, "another table lives below this one")
                    .with("file", file.location));
            }
        }
        Ok(())
    }

    async fn delete_below(&self, location: &str) -> Result<u64> {
        let at = self.at(location)?;
        let mut deleted = 0;
        let mut chunks = at.store.list(Some(&at.path)).map_ok(|object| object.location).try_chunks(CHUNK);
        while let Some(chunk) = chunks.try_next().await.map_err(|e| storage::error(location, e.1))? {
            deleted += delete_all(&at.store, chunk, location).await?;
        }
        Ok(deleted)
    }
}

const GC_ENABLED: &str = "gc.enabled";

/// Files deleted between two looks at the listing: what the largest stores take in one request.
const CHUNK: usize = 1000;

/// Deletes files; those that are gone already don't count.
async fn delete_all(store: &Arc<dyn ObjectStore>, files: Vec<Path>, location: &str) -> Result<u64> {
    let outcomes = store.delete_stream(futures::stream::iter(files.into_iter().map(Ok)).boxed());
    let count = outcomes.map(|outcome| match outcome {
        Ok(_) => Ok(1),
        Err(StoreError::NotFound { .. }) => Ok(0),
        Err(e) => Err(storage::error(location, e)),
    });
    count.try_fold(0, |sum, one| async move { Ok(sum + one) }).await
}

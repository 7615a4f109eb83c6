//! What is a directory of the warehouse: a namespace, a table, or nothing of ours?

use futures::TryStreamExt;
use object_store::{Error as StoreError, ListResult, ObjectStoreExt, PutMode, PutPayload};

use super::{
    Code, Error, FileCatalog, Ident, PARALLEL, Result, StreamExt, is_default, metadata_directory, names, paths, storage,
};

/// What a directory is to the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It has our marker, or holds a table.
    Namespace,
    /// It has a directory of metadata files.
    Table,
    /// Anything else, also what is left of a table that was dropped.
    Nothing,
}

/// The file that makes a directory a namespace. No table or namespace has a directory of this name: a leading dot is
/// escaped in those.
const MARKER: &str = ".namespace";

impl FileCatalog {
    /// Names in `parent` (empty: the warehouse) that are of this kind, sorted. A directory that may not be looked into
    /// is not listed: a disk's `lost+found` should not break every listing.
    pub(super) async fn children_that(&self, parent: &[String], kind: Place) -> Result<Vec<String>> {
        let directory = if parent.is_empty() { self.root.clone() } else { self.namespace_directory(parent)? };
        let listing = self.list(&directory).await?;
        let names = child_names(&listing);
        let looked = futures::stream::iter(names)
            .map(|name| async move {
                let found = match kind {
                    Place::Table => self.is_table(parent, &name).await.map(|is| is.then_some(Place::Table)),
                    _ => self.place(&[parent, std::slice::from_ref(&name)].concat()).await.map(Some),
                };
                match found {
                    Ok(Some(found)) if found == kind => Ok(Some(name)),
                    Ok(_) => Ok(None),
                    Err(e) if e.code() == Code::PermissionDenied => Ok(None),
                    Err(e) => Err(e),
                }
            })
            .buffered(PARALLEL);
        let mut found: Vec<String> = looked.try_filter_map(|name| async { Ok(name) }).try_collect().await?;
        found.sort();
        Ok(found)
    }

    /// What a directory is.
    pub(super) async fn place(&self, levels: &[String]) -> Result<Place> {
        let directory = self.namespace_directory(levels)?;
        let listing = self.list(&directory).await?;
        if listing.objects.iter().any(|object| object.location.filename() == Some(MARKER)) {
            return Ok(Place::Namespace);
        }
        let has_metadata = listing.common_prefixes.iter().any(|prefix| prefix.filename() == Some("metadata"));
        if has_metadata {
            return Ok(if self.has_metadata_file(&directory).await? { Place::Table } else { Place::Nothing });
        }
        // Made by another tool, without a marker.
        let tables = futures::stream::iter(child_names(&listing))
            .map(|name| async move { self.is_table(levels, &name).await })
            .buffer_unordered(PARALLEL);
        let holds_table = tables.try_any(|is_table| async move { is_table }).await?;
        Ok(if holds_table { Place::Namespace } else { Place::Nothing })
    }

    pub(super) async fn require_namespace(&self, namespace: &[String]) -> Result<()> {
        if is_default(namespace) || self.place(namespace).await? == Place::Namespace {
            return Ok(());
        }
        Err(Error::new(Code::UnknownNamespace, "no such schema").with("schema", namespace.join(".")))
    }

    /// Whether a namespace was declared where this table would be: the two would share a directory.
    pub(super) async fn is_marked(&self, ident: &Ident) -> Result<bool> {
        let location = paths::join(&super::Catalog::location(self, ident)?, MARKER);
        let at = self.at(&location)?;
        match at.store.head(&at.path).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(e) => Err(storage::error(&location, e)),
        }
    }

    pub(super) async fn mark(&self, namespace: &[String]) -> Result<()> {
        let location = paths::join(&self.namespace_directory(namespace)?, MARKER);
        let at = self.at(&location)?;
        match at.store.put_opts(&at.path, PutPayload::new(), PutMode::Create.into()).await {
            Ok(_) | Err(StoreError::AlreadyExists { .. }) => Ok(()),
            Err(e) => Err(storage::error(&location, e)),
        }
    }

    pub(super) async fn unmark(&self, namespace: &[String]) -> Result<()> {
        let location = paths::join(&self.namespace_directory(namespace)?, MARKER);
        self.delete(&location).await?;
        Ok(())
    }

    /// Deletes one file; says whether it was there.
    pub(super) async fn delete(&self, location: &str) -> Result<bool> {
        let at = self.at(location)?;
        match at.store.delete(&at.path).await {
            Ok(()) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(e) => Err(storage::error(location, e)),
        }
    }

    /// The files and directories in a directory; nothing where there is none.
    pub(super) async fn list(&self, directory: &str) -> Result<ListResult> {
        let at = self.at(directory)?;
        match at.store.list_with_delimiter(Some(&at.path)).await {
            Ok(listing) => Ok(listing),
            Err(StoreError::NotFound { .. }) => Ok(ListResult { common_prefixes: Vec::new(), objects: Vec::new() }),
            Err(e) => Err(storage::error(directory, e)),
        }
    }

    /// On a file system, directories outlive what they held. Best effort.
    pub(super) async fn remove_empty_directories(&self, location: &str) {
        let Some(path) = location.strip_prefix("file://").map(std::path::PathBuf::from) else { return };
        let removed = tokio::task::spawn_blocking(move || storage::remove_empty_directories(&path)).await;
        if let Err(error) = removed {
            tracing::debug!(%error, location, "empty directories were not removed");
        }
    }

    async fn is_table(&self, namespace: &[String], name: &str) -> Result<bool> {
        let ident = Ident { namespace: namespace.to_vec(), name: name.to_owned() };
        let table =
            if namespace.is_empty() { self.directory(&[name])? } else { super::Catalog::location(self, &ident)? };
        self.has_metadata_file(&table).await
    }

    /// Two small requests where the hint is right; a listing that ends at the first hit where it is not.
    async fn has_metadata_file(&self, table: &str) -> Result<bool> {
        let directory = metadata_directory(table);
        if let Some(version) = self.hint(&directory).await {
            let at = self.at(&paths::join(&directory, &names::metadata_file(version)))?;
            if at.store.head(&at.path).await.is_ok() {
                return Ok(true);
            }
        }
        let at = self.at(&directory)?;
        let found = at
            .store
            .list(Some(&at.path))
            .try_any(|object| async move { object.location.filename().is_some_and(names::claims_metadata) });
        match found.await {
            Ok(found) => Ok(found),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(e) => Err(storage::error(&directory, e)),
        }
    }
}

fn child_names(listing: &ListResult) -> Vec<String> {
    listing.common_prefixes.iter().filter_map(|prefix| names::name_of(prefix.filename()?)).collect()
}

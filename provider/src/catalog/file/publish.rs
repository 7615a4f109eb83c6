//! Did our version become the table's newest: yes, no, or can it not be known?
//!
//! ```text
//! create vN+1 ─ ok ───────────────────────────────────────▶ committed
//!      │ any error
//!      ▼
//! read vN+1 ─┬─ our bytes ────────────────────────────────▶ committed (the answer was lost)
//!            ├─ other bytes ──────────────────────────────▶ conflict  (proven: ours will never be seen)
//!            ├─ nothing there ─ the store refused ─────────▶ not sent  (proven)
//!            │                └ the answer was lost ──────▶ the same bytes into the same slot again, a few times
//!            └─ cannot be read ───────────────────────────▶ unknown
//! ```
//!
//! "It exists already" proves nothing: a store that retries inside reports our own success so, and may say it of a write
//! that is still under way. Only the bytes tell. Sending them again is safe, since whichever copy lands is ours.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use iceberg::spec::TableMetadata;
use object_store::{Error as StoreError, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};

use super::super::names::{Form, MetadataName};
use super::newest::HINT;
use super::{
    Base, Catalog, Code, Error, FileCatalog, Ident, Proposal, PublishError, Result, metadata_directory, names, paths,
    storage,
};
use crate::error::causes;

/// How often the same bytes are sent to the same slot.
const ATTEMPTS: u32 = 5;

impl FileCatalog {
    pub(super) async fn publish_next(
        &self,
        ident: &Ident,
        base: Option<&Base>,
        next: &Proposal,
    ) -> Result<Base, PublishError> {
        let not_sent = |error: Error| PublishError::NotSent(error.with("table", ident));
        let table = self.location(ident).map_err(not_sent)?;
        let directory = metadata_directory(&table);
        check_writable(&table, base, &next.metadata).map_err(not_sent)?;
        let version = match base {
            None => {
                self.check_absent(ident, &table).await?;
                1
            }
            Some(base) => base.version.saturating_add(1),
        };
        self.check_no_second_name(&directory, version).await.map_err(not_sent)?;
        let text = serde_json::to_vec(&next.metadata)
            .map_err(|e| not_sent(Error::new(Code::Internal, "the metadata cannot be written").source(e)))?;
        let location = paths::join(&directory, &names::metadata_file(version));
        let taken = match base {
            Some(_) => Error::new(Code::CommitConflict, "another writer committed first"),
            None => already_exists(),
        };
        self.take_slot(&location, text.into(), taken).await.map_err(|e| e.with("table", ident))?;
        self.advance_hint(&directory, version).await;
        Ok(Base { metadata: Arc::new(next.metadata.clone()), location, version })
    }

    /// Creates `location` exclusively with these bytes.
    async fn take_slot(&self, location: &str, bytes: Bytes, taken: Error) -> Result<(), PublishError> {
        let at = self.at(location).map_err(PublishError::NotSent)?;
        let mut pause = self.backoff;
        let mut possibly_sent = false;
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(4);
            }
            let payload = PutPayload::from_bytes(bytes.clone());
            let Err(failure) = at.store.put_opts(&at.path, payload, PutMode::Create.into()).await else {
                return Ok(());
            };
            let meaning = meaning_of(&failure);
            possibly_sent |= meaning == Meaning::Nothing;
            let failure = storage::error(location, failure);
            if meaning == Meaning::NeverSent && !possibly_sent {
                return Err(PublishError::NotSent(failure));
            }
            match self.read(location).await {
                Ok(Some(found)) if found == bytes => return Ok(()),
                Ok(Some(_)) => return Err(PublishError::Conflict(taken.with("file", location))),
                Ok(None) if meaning == Meaning::Refused && !possibly_sent => {
                    return Err(PublishError::NotSent(failure));
                }
                Ok(None) => last = Some(failure),
                Err(unreadable) => return Err(unknown(location, Some(failure), Some(unreadable))),
            }
        }
        // Nothing is there now, but a request of ours may still be on its way.
        Err(unknown(location, last, None))
    }

    /// A table can be created where no metadata file is, in a namespace that exists.
    async fn check_absent(&self, ident: &Ident, table: &str) -> Result<(), PublishError> {
        let not_sent = |error: Error| PublishError::NotSent(error.with("table", ident));
        self.check_free(ident).await.map_err(not_sent)?;
        let listed = self.metadata_files(table).await.map_err(not_sent)?;
        if listed.is_absent().map_err(not_sent)? {
            return Ok(());
        }
        Err(PublishError::Conflict(already_exists().with("table", ident)))
    }

    /// A table's namespace has to exist and to be one that is read, and none may have the table's own name.
    pub(super) async fn check_free(&self, ident: &Ident) -> Result<()> {
        names::check_not_reserved(&ident.namespace)?;
        self.require_namespace(&ident.namespace).await?;
        if self.is_marked(ident).await? {
            return Err(Error::new(Code::AlreadyExists, "a schema of this name exists already"));
        }
        Ok(())
    }

    /// A compressed file is another name of the same version: creating ours would fork the table.
    async fn check_no_second_name(&self, directory: &str, version: u64) -> Result<()> {
        let look = |file: String| async move {
            let location = paths::join(directory, &file);
            let at = self.at(&location)?;
            match at.store.head(&at.path).await {
                Ok(_) => Err(compressed(&location)),
                Err(StoreError::NotFound { .. }) => Ok(()),
                Err(e) => Err(storage::error(&location, e)),
            }
        };
        let [one, two] = names::compressed_files(version);
        tokio::try_join!(look(one), look(two))?;
        Ok(())
    }

    /// Moves the hint forward, best effort: a late hint costs a reader a request, and a reader that trusts it blindly
    /// still sees a state that the table had. Never backwards, unless it names a version that is not there.
    async fn advance_hint(&self, directory: &str, version: u64) {
        let location = paths::join(directory, HINT);
        if let Err(error) = self.try_advance_hint(directory, &location, version).await {
            tracing::debug!(%error, location, "the version hint was not written");
        }
    }

    async fn try_advance_hint(&self, directory: &str, location: &str, version: u64) -> Result<()> {
        let at = self.at(location)?;
        let failed = |e: StoreError| storage::error(location, e);
        let mode = match at.store.get(&at.path).await {
            Err(StoreError::NotFound { .. }) => PutMode::Create,
            Err(e) => return Err(failed(e)),
            Ok(answer) => {
                let seen = UpdateVersion { e_tag: answer.meta.e_tag.clone(), version: answer.meta.version.clone() };
                let hinted = names::parse_hint(&answer.bytes().await.map_err(failed)?);
                if let Some(hinted) = hinted.filter(|&hinted| hinted >= version) {
                    let target = self.at(&paths::join(directory, &names::metadata_file(hinted)))?;
                    if !matches!(target.store.head(&target.path).await, Err(StoreError::NotFound { .. })) {
                        return Ok(());
                    }
                }
                PutMode::Update(seen)
            }
        };
        // No newline: readers take the text as it is for a part of a file's name.
        let text = || PutPayload::from(version.to_string());
        match at.store.put_opts(&at.path, text(), mode.into()).await {
            // Somebody moved it meanwhile.
            Ok(_) | Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(()),
            // Local stores cannot compare: the hint may then go back for as long as a commit takes.
            Err(StoreError::NotImplemented { .. }) => at.store.put(&at.path, text()).await.map(drop).map_err(failed),
            Err(e) => Err(failed(e)),
        }
    }
}

/// Whether this catalog may write the table's next version.
fn check_writable(table: &str, base: Option<&Base>, next: &TableMetadata) -> Result<()> {
    crate::metadata::check_writable(base.map_or(next, |base| &base.metadata))?;
    let before = match base {
        None => table,
        Some(base) => {
            let file = base.location.rsplit('/').next().unwrap_or_default();
            match MetadataName::parse(file) {
                Some(MetadataName { form: Form::Plain, version }) if version == base.version => {}
                Some(MetadataName { form: Form::Compressed, .. }) => return Err(compressed(&base.location)),
                _ => return Err(foreign(&base.location)),
            }
            if !paths::is_same(&base.location, &paths::join(&metadata_directory(table), file)) {
                return Err(
                    Error::new(Code::Internal, "the base is a state of another table").with("base", &base.location)
                );
            }
            base.metadata.location()
        }
    };
    if !paths::is_same(before, next.location()) {
        return Err(Error::new(Code::NotSupported, "a table of a file catalog cannot have another location")
            .with("location", next.location())
            .with("expected", before));
    }
    if !paths::is_same_directory(before, table) {
        return Err(Error::new(Code::NotSupported, "the table was moved after it was written, it can only be read")
            .with("location", before)
            .with("found_at", table));
    }
    check_properties(next)
}

fn check_properties(next: &TableMetadata) -> Result<()> {
    let property = |key: &str| next.properties().get(key).map(String::as_str);
    if property(METADATA_PATH).is_some() {
        return Err(Error::new(Code::NotSupported, "metadata of a file catalog stays below the table's location")
            .with("property", METADATA_PATH));
    }
    match property(METADATA_CODEC) {
        Some(codec) if !codec.eq_ignore_ascii_case("none") => {
            Err(Error::new(Code::NotSupported, "metadata is not compressed in a file catalog")
                .with("property", METADATA_CODEC)
                .help("a second name for a version would let two writers commit it; set the property to none"))
        }
        _ => Ok(()),
    }
}

const METADATA_PATH: &str = "write.metadata.path";
const METADATA_CODEC: &str = "write.metadata.compression-codec";

/// What a failed write says about where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// It failed on this machine, before or while it was prepared.
    NeverSent,
    /// The store answered that it did not take it: believed once the slot is seen to be empty.
    Refused,
    /// They may be there, or arrive later.
    Nothing,
}

fn meaning_of(failure: &StoreError) -> Meaning {
    if causes(failure).any(|e| e.downcast_ref::<io::Error>().is_some_and(|e| is_local_refusal(e.kind()))) {
        return Meaning::NeverSent;
    }
    match failure {
        StoreError::NotSupported { .. }
        | StoreError::NotImplemented { .. }
        | StoreError::InvalidPath { .. }
        | StoreError::UnknownConfigurationKey { .. } => Meaning::NeverSent,
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => Meaning::Refused,
        // A file system has no requests under way: what is not there after the error does not come later.
        StoreError::Generic { store: "LocalStore" | "LocalFileSystem", .. } => Meaning::Refused,
        _ => Meaning::Nothing,
    }
}

/// Answers of this machine's file system. None of them comes from a network.
fn is_local_refusal(kind: io::ErrorKind) -> bool {
    use io::ErrorKind as K;
    matches!(
        kind,
        K::PermissionDenied
            | K::ReadOnlyFilesystem
            | K::StorageFull
            | K::QuotaExceeded
            | K::NotADirectory
            | K::InvalidFilename
    )
}

fn unknown(location: &str, failure: Option<Error>, unreadable: Option<Error>) -> PublishError {
    let mut error = Error::new(Code::CommitStateUnknown, "whether the commit landed could not be determined")
        .with("file", location)
        .help("nothing was deleted; look again once the store answers: if the file is there, the commit landed");
    for cause in [failure, unreadable].into_iter().flatten() {
        error = error.with(
            "cause",
            cause.context().iter().find(|(key, _)| *key == "cause").map_or(cause.what(), |(_, text)| text),
        );
    }
    PublishError::Unknown(error)
}

fn already_exists() -> Error {
    Error::new(Code::AlreadyExists, "the table exists already")
}

fn compressed(location: &str) -> Error {
    Error::new(Code::NotSupported, "another writer compresses this table's metadata, it can only be read")
        .with("file", location)
}

fn foreign(location: &str) -> Error {
    Error::new(Code::NotSupported, "another catalog owns this table, it can only be read").with("file", location)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failure_proves() {
        let check = |failure: StoreError, meaning| assert_eq!(meaning_of(&failure), meaning, "{failure}");
        let generic = |store, errno| StoreError::Generic { store, source: io::Error::from_raw_os_error(errno).into() };
        let (path, source) = (String::new, || "answer".into());
        check(generic("LocalStore", 28), Meaning::NeverSent);
        check(generic("LocalStore", 13), Meaning::NeverSent);
        check(generic("LocalStore", 5), Meaning::Refused);
        check(generic("S3", 104), Meaning::Nothing);
        check(generic("S3", 110), Meaning::Nothing);
        check(StoreError::Generic { store: "S3", source: "503".into() }, Meaning::Nothing);
        check(StoreError::AlreadyExists { path: path(), source: source() }, Meaning::Nothing);
        check(StoreError::Precondition { path: path(), source: source() }, Meaning::Nothing);
        check(StoreError::NotFound { path: path(), source: source() }, Meaning::Nothing);
        check(StoreError::PermissionDenied { path: path(), source: source() }, Meaning::Refused);
        check(StoreError::Unauthenticated { path: path(), source: source() }, Meaning::Refused);
        check(StoreError::NotSupported { source: source() }, Meaning::NeverSent);
    }
}

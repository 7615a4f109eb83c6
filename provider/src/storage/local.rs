//! When is a file that we wrote safe from a power failure?
//!
//! ```text
//! stage  name#1 ── write ── fsync ── link (create) or rename (overwrite) ── fsync the directory
//! ```
//!
//! `object_store`'s local store does the same without the two `fsync`s. A commit would then be reported while the
//! table's metadata, or a data file that it names, is still in the page cache, and a power failure could leave a
//! table whose newest metadata is empty. So every file is synced before its name appears, and its directory before
//! the write is reported: metadata that survives names only files that survive. One `fsync` a file costs milliseconds,
//! and the bytes have to reach the disk anyway.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path as FsPath, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error as StoreError, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result as StoreResult, UploadPart,
};

/// The local file system, with writes that survive a power failure once they are reported.
#[derive(Clone, Debug)]
pub struct LocalStore {
    inner: LocalFileSystem,
    sync: bool,
}

impl LocalStore {
    /// The whole file system, durable.
    pub fn new() -> Self {
        LocalStore { inner: LocalFileSystem::new(), sync: true }
    }

    /// The whole file system, without waiting for the disk: for archives that can be made again.
    pub fn without_sync() -> Self {
        LocalStore { inner: LocalFileSystem::new(), sync: false }
    }
}

impl Default for LocalStore {
    fn default() -> Self {
        LocalStore::new()
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalStore")
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> StoreResult<PutResult> {
        let create = match opts.mode {
            PutMode::Create if opts.attributes.is_empty() && self.sync => true,
            PutMode::Overwrite if opts.attributes.is_empty() && self.sync => false,
            _ => return self.inner.put_opts(location, payload, opts).await,
        };
        let path = self.inner.path_to_filesystem(location)?;
        blocking(move || put(&path, &payload, create)).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        if !self.sync {
            return self.inner.put_multipart_opts(location, opts).await;
        }
        let path = self.inner.path_to_filesystem(location)?;
        let anchor = existing_ancestor(&path);
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(Upload { inner, path, anchor }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        if is_plain(&options) {
            let (path, name) = (self.inner.path_to_filesystem(location)?, location.clone());
            if let Some(small) = blocking(move || get_small(&path, name)).await? {
                return Ok(small);
            }
        }
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> StoreResult<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> StoreResult<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

/// Removes the directories at and below `root` that hold nothing, deepest first: what deleting files leaves behind on a
/// file system. Others may write meanwhile: a directory that is not empty stays.
pub fn remove_empty_directories(root: &FsPath) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        // `file_type` does not follow links: what a link points to is not ours.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty_directories(&entry.path());
        }
    }
    // Fails where something is left, which is the point.
    let _ = fs::remove_dir(root);
}

#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    path: PathBuf,
    anchor: PathBuf,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.inner.put_part(data)
    }

    /// The name appears before the bytes are synced. Nobody reads it before the caller has this answer, so that
    /// only a file that nothing names can be incomplete.
    async fn complete(&mut self) -> StoreResult<PutResult> {
        let result = self.inner.complete().await?;
        let (path, anchor) = (self.path.clone(), self.anchor.clone());
        blocking(move || {
            File::open(&path).and_then(|file| file.sync_all()).map_err(generic)?;
            sync_directories(&path, &anchor).map_err(generic)
        })
        .await?;
        Ok(result)
    }

    async fn abort(&mut self) -> StoreResult<()> {
        self.inner.abort().await
    }
}

/// A whole file of at most this size is opened and read in one go: table metadata, where each hop to another thread costs more
/// than the reading.
const SMALL: u64 = 256 << 10;

/// Asks for the whole file, whatever its state.
fn is_plain(options: &GetOptions) -> bool {
    let conditional = options.if_match.is_some()
        || options.if_none_match.is_some()
        || options.if_modified_since.is_some()
        || options.if_unmodified_since.is_some();
    !conditional && options.range.is_none() && options.version.is_none() && !options.head
}

/// The file, if it is small; `None`: to be read in another way, or not a plain file, or whatever else is the matter with it.
fn get_small(path: &FsPath, location: Path) -> StoreResult<Option<GetResult>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::NotFound { path: path.display().to_string(), source: Box::new(e) });
        }
        Err(_) => return Ok(None),
    };
    let Ok(stat) = file.metadata() else { return Ok(None) };
    if !stat.is_file() || stat.len() > SMALL {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.len()).unwrap_or_default());
    file.read_to_end(&mut bytes).map_err(generic)?;
    let size = bytes.len() as u64;
    let last_modified = stat.modified().map_err(generic)?.into();
    let read = stream::once(std::future::ready(Ok(Bytes::from(bytes)))).boxed();
    Ok(Some(GetResult {
        payload: GetResultPayload::Stream(read),
        meta: ObjectMeta { location, last_modified, size, e_tag: None, version: None },
        range: 0..size,
        attributes: Attributes::default(),
    }))
}

fn put(path: &FsPath, payload: &PutPayload, create: bool) -> StoreResult<()> {
    let anchor = existing_ancestor(path);
    let (mut file, staged) = stage(path).map_err(generic)?;
    let written = payload.iter().try_for_each(|chunk| file.write_all(chunk)).and_then(|()| file.sync_all());
    drop(file);
    let placed = written
        .map_err(generic)
        .and_then(|()| if create { link(&staged, path) } else { fs::rename(&staged, path).map_err(generic) });
    if create || placed.is_err() {
        // Best effort: a staged name is in no listing.
        let _ = fs::remove_file(&staged);
    }
    placed?;
    sync_directories(path, &anchor).map_err(generic)
}

/// Gives the staged file its name, unless the name is taken: one of two writers wins.
fn link(staged: &FsPath, path: &FsPath) -> StoreResult<()> {
    fs::hard_link(staged, path).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            StoreError::AlreadyExists { path: path.display().to_string(), source: Box::new(e) }
        }
        // The file beside it could be made, so it is not a matter of rights.
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => StoreError::NotSupported {
            source: format!("the file system of {} has no hard links, which exclusive creation needs", path.display())
                .into(),
        },
        _ => generic(e),
    })
}

/// Opens a new file `<path>#<n>`: the form that `object_store` leaves out of listings, so that what a crash leaves
/// behind is never taken for an object.
fn stage(path: &FsPath) -> io::Result<(File, PathBuf)> {
    let mut n = 1;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("#{n}"));
        let staged = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).open(&staged) {
            Ok(file) => return Ok((file, staged)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => n += 1,
            // Again after a directory was removed beside us.
            Err(e) if e.kind() == io::ErrorKind::NotFound => match path.parent() {
                Some(parent) => fs::create_dir_all(parent)?,
                None => return Err(e),
            },
            Err(e) => return Err(e),
        }
    }
}

/// The deepest directory above `path` that exists: what is below it will be made by the write.
pub(super) fn existing_ancestor(path: &FsPath) -> PathBuf {
    let above = path.ancestors().skip(1);
    above.into_iter().find(|dir| dir.is_dir()).unwrap_or(FsPath::new("/")).to_owned()
}

/// Makes the entry of `path`, and of every directory made for it below `anchor`, durable.
fn sync_directories(path: &FsPath, anchor: &FsPath) -> io::Result<()> {
    if cfg!(not(unix)) {
        // A directory cannot be opened as a file there.
        return Ok(());
    }
    for dir in path.ancestors().skip(1) {
        File::open(dir)?.sync_all()?;
        if dir == anchor {
            break;
        }
    }
    Ok(())
}

fn generic(source: io::Error) -> StoreError {
    StoreError::Generic { store: "LocalStore", source: Box::new(source) }
}

/// Runs blocking work beside the runtime where there is one.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> StoreResult<T> + Send + 'static) -> StoreResult<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await?,
        Err(_) => work(),
    }
}

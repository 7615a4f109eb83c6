//! How does Iceberg's own code read and write through our stores?
//!
//! The library reads manifests and writes them through [`iceberg::io::FileIO`]; this puts [`Stores`] below it, so that
//! what a test counts, delays or breaks in a store is what Iceberg meets as well.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use iceberg::io::{FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage, StorageConfig, StorageFactory};
use iceberg::{Error as IcebergError, ErrorKind, Result as IcebergResult};
use object_store::buffered::BufWriter;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, path::Path};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use super::{Located, Stores, error};
use crate::error::{Code, Error, Result};

/// Makes an [`IcebergStorage`] over the stores of this process, whatever the configuration says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IcebergStorageFactory {
    #[serde(skip)]
    stores: Option<Stores>,
}

impl IcebergStorageFactory {
    /// A factory over `stores`.
    pub fn new(stores: Stores) -> Self {
        IcebergStorageFactory { stores: Some(stores) }
    }
}

#[typetag::serde(name = "daygrain")]
impl StorageFactory for IcebergStorageFactory {
    fn build(&self, _config: &StorageConfig) -> IcebergResult<Arc<dyn Storage>> {
        Ok(Arc::new(IcebergStorage { stores: self.stores.clone() }))
    }
}

/// Iceberg's storage over the stores of this process. Stores do not travel: a storage that was serialised and read
/// again fails on use (code `internal`), since the credentials of another process are not its to take along.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IcebergStorage {
    #[serde(skip)]
    stores: Option<Stores>,
}

impl IcebergStorage {
    fn locate(&self, location: &str) -> IcebergResult<Located> {
        let stores = self.stores.as_ref().ok_or_else(|| {
            wrap(
                Error::new(Code::Internal, "a storage that was read from text has no stores")
                    .with("location", location),
            )
        })?;
        stores.resolve(location).map_err(wrap)
    }
}

#[async_trait]
#[typetag::serde(name = "daygrain")]
impl Storage for IcebergStorage {
    async fn exists(&self, path: &str) -> IcebergResult<bool> {
        let at = self.locate(path)?;
        match at.store.head(&at.path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(wrap(error(path, e))),
        }
    }

    async fn metadata(&self, path: &str) -> IcebergResult<FileMetadata> {
        let at = self.locate(path)?;
        let meta = at.store.head(&at.path).await.map_err(|e| wrap(error(path, e)))?;
        Ok(FileMetadata { size: meta.size })
    }

    /// One GET: the size is in its answer, a HEAD before it would only cost a round trip.
    async fn read(&self, path: &str) -> IcebergResult<Bytes> {
        let at = self.locate(path)?;
        read(&at, path).await.map_err(wrap)
    }

    async fn reader(&self, path: &str) -> IcebergResult<Box<dyn FileRead>> {
        let Located { store, path: object, .. } = self.locate(path)?;
        Ok(Box::new(Reader { store, path: object, location: path.to_owned() }))
    }

    async fn write(&self, path: &str, bs: Bytes) -> IcebergResult<()> {
        let at = self.locate(path)?;
        at.store.put(&at.path, PutPayload::from_bytes(bs)).await.map_err(|e| wrap(error(path, e)))?;
        Ok(())
    }

    async fn writer(&self, path: &str) -> IcebergResult<Box<dyn FileWrite>> {
        let Located { store, path: object, .. } = self.locate(path)?;
        Ok(Box::new(Writer { inner: Some(BufWriter::new(store, object)), location: path.to_owned() }))
    }

    /// Deleting what is not there is a success.
    async fn delete(&self, path: &str) -> IcebergResult<()> {
        let at = self.locate(path)?;
        match at.store.delete(&at.path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(wrap(error(path, e))),
        }
    }

    async fn delete_prefix(&self, path: &str) -> IcebergResult<()> {
        let at = self.locate(path)?;
        let listed = at.store.list(Some(&at.path)).map(|found| found.map(|meta| meta.location)).boxed();
        let mut deleted = at.store.delete_stream(listed);
        while let Some(outcome) = deleted.next().await {
            match outcome {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(wrap(error(path, e))),
            }
        }
        Ok(())
    }

    async fn delete_stream(&self, mut paths: BoxStream<'static, String>) -> IcebergResult<()> {
        while let Some(path) = paths.next().await {
            self.delete(&path).await?;
        }
        Ok(())
    }

    fn new_input(&self, path: &str) -> IcebergResult<InputFile> {
        Ok(InputFile::new(Arc::new(self.clone()), path.to_owned()))
    }

    fn new_output(&self, path: &str) -> IcebergResult<OutputFile> {
        Ok(OutputFile::new(Arc::new(self.clone()), path.to_owned()))
    }
}

async fn read(at: &Located, location: &str) -> Result<Bytes> {
    let answer = at.store.get(&at.path).await.map_err(|e| error(location, e))?;
    answer.bytes().await.map_err(|e| error(location, e))
}

#[derive(Debug)]
struct Reader {
    store: Arc<dyn ObjectStore>,
    path: Path,
    location: String,
}

#[async_trait]
impl FileRead for Reader {
    async fn read(&self, range: Range<u64>) -> IcebergResult<Bytes> {
        self.store.get_range(&self.path, range).await.map_err(|e| wrap(error(&self.location, e)))
    }
}

/// Buffers, and uploads in parts once the buffer is full; nothing is visible before `close`.
struct Writer {
    inner: Option<BufWriter>,
    location: String,
}

impl Writer {
    fn open(&mut self) -> IcebergResult<&mut BufWriter> {
        self.inner.as_mut().ok_or_else(|| IcebergError::new(ErrorKind::Unexpected, "the file is closed already"))
    }
}

#[async_trait]
impl FileWrite for Writer {
    async fn write(&mut self, bs: Bytes) -> IcebergResult<()> {
        let written = self.open()?.put(bs).await;
        written.map_err(|e| wrap(error(&self.location, e)))
    }

    async fn close(&mut self) -> IcebergResult<()> {
        let closed = self.open()?.shutdown().await;
        self.inner = None;
        closed.map_err(|e| wrap(error(&self.location, e)))
    }
}

/// Our error inside Iceberg's; the code is in its text and the whole of it is its source.
fn wrap(error: Error) -> IcebergError {
    IcebergError::new(ErrorKind::Unexpected, error.to_string()).with_source(error)
}

//! How is one input file opened, decompressed and counted?
//!
//! ```text
//! file ─ take(length when it was found) ─ count ─ gzip | zstd | plain ─▶ bytes
//! ```
//!
//! The length is fixed when the file is found, so both passes over a log that is still being appended to see the same
//! bytes.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::RefCountedTempFile;

use crate::error::{Code, Error, Result};

/// Bytes asked of the operating system at once.
const READ_SIZE: usize = 256 * 1024;

/// What a file's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    Ndjson,
    Csv,
    Parquet,
    Arrow,
}

impl Format {
    /// By extension without its dot, in lower case.
    pub(super) fn of(extension: &str) -> Option<Self> {
        match extension {
            "ndjson" | "jsonl" | "json" => Some(Format::Ndjson),
            "csv" => Some(Format::Csv),
            "parquet" => Some(Format::Parquet),
            "arrow" => Some(Format::Arrow),
            _ => None,
        }
    }

    /// As EXPLAIN prints it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Ndjson => "ndjson",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
        }
    }
}

/// What is around a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Plain,
    Gzip,
    Zstd,
}

impl Codec {
    /// By extension without its dot, in lower case.
    pub(super) fn of(extension: &str) -> Option<Self> {
        match extension {
            "gz" => Some(Codec::Gzip),
            "zst" => Some(Codec::Zstd),
            _ => None,
        }
    }
}

/// One input file.
#[derive(Clone, Debug)]
pub(super) struct Source {
    path: PathBuf,
    shown: Arc<str>,
    format: Format,
    codec: Codec,
    length: u64,
    /// Its decompressed copy, where the format needs random access.
    spooled: Option<Arc<RefCountedTempFile>>,
}

impl Source {
    pub(super) fn new(path: PathBuf, format: Format, codec: Codec, length: u64) -> Self {
        let shown = path.display().to_string().into();
        Source { path, shown, format, codec, length, spooled: None }
    }

    /// The path as it was given, for messages.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Bytes as stored when the file was found.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether byte positions of the content are byte positions of the file.
    pub(super) fn is_plain(&self) -> bool {
        self.codec == Codec::Plain
    }

    /// The content from byte `from` up to byte `to` of a plain file; all of a compressed file, whatever `from` and `to`.
    /// Bytes are added to `read` as they are taken from the file.
    pub(super) fn reader(&self, from: u64, to: u64, read: Option<Arc<AtomicU64>>) -> Result<Box<dyn Read + Send>> {
        let mut file = File::open(&self.path).map_err(|e| io_error(e, &self.shown))?;
        let (from, to) = if self.is_plain() { (from, to) } else { (0, self.length) };
        if from > 0 {
            file.seek(SeekFrom::Start(from)).map_err(|e| io_error(e, &self.shown))?;
        }
        let counted = Counted { inner: file.take(to.saturating_sub(from)), read };
        Ok(match self.codec {
            Codec::Plain => Box::new(counted),
            Codec::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(READ_SIZE, counted))),
            Codec::Zstd => Box::new(
                zstd::stream::read::Decoder::with_buffer(BufReader::with_capacity(READ_SIZE, counted))
                    .map_err(|e| io_error(e, &self.shown))?,
            ),
        })
    }

    /// The file for random access: itself, or its decompressed copy after [`Source::spool`].
    pub(super) fn random_access(&self) -> Result<File> {
        let path = self.spooled.as_ref().map_or(self.path.as_path(), |file| file.path());
        File::open(path).map_err(|e| io_error(e, &self.shown))
    }

    /// Decompresses into a temporary file of the session, which counts against its disk limit and goes away with the
    /// last reader. A plain file stays as it is.
    ///
    /// Errors: `storage_full` over the limit.
    pub(super) fn spool(&mut self, context: &TaskContext) -> Result<()> {
        if self.is_plain() || self.spooled.is_some() {
            return Ok(());
        }
        let full = |e: DataFusionError| {
            Error::new(Code::StorageFull, "no room to decompress the input")
                .with("file", self.shown())
                .help("TMPDIR names the directory for temporary files")
                .source(e)
        };
        let mut copy = context.runtime_env().disk_manager.create_tmp_file("decompressing input").map_err(full)?;
        let mut from = self.reader(0, self.length, None)?;
        let target = copy.path().display().to_string();
        let mut to = File::create(copy.path()).map_err(|e| io_error(e, &target))?;
        let mut buffer = vec![0; READ_SIZE];
        loop {
            let n = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(io_error(e, &self.shown)),
            };
            to.write_all(buffer.get(..n).unwrap_or_default()).map_err(|e| io_error(e, &target))?;
            copy.update_disk_usage().map_err(full)?;
        }
        self.spooled = Some(Arc::new(copy));
        Ok(())
    }
}

/// The error of a file that could not be read, by what the operating system or the decompressor said.
pub(super) fn io_error(error: io::Error, file: &str) -> Error {
    use io::ErrorKind;
    let (code, what) = match error.kind() {
        ErrorKind::NotFound => (Code::InputNotFound, "the input file does not exist"),
        ErrorKind::PermissionDenied => (Code::PermissionDenied, "reading the input file is not permitted"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => (Code::StorageFull, "no room is left"),
        ErrorKind::UnexpectedEof => (Code::InputCorrupt, "the compressed input file ends early"),
        // What decompressors say of bytes that are not theirs; the operating system has a number for its own failures.
        _ if error.raw_os_error().is_none() => (Code::InputCorrupt, "the input file does not decompress"),
        _ => (Code::StorageFailed, "the input file cannot be read"),
    };
    Error::new(code, what).with("file", file).with("reason", &error).source(error)
}

struct Counted<R> {
    inner: R,
    read: Option<Arc<AtomicU64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        if let Some(read) = &self.read {
            read.fetch_add(n as u64, Ordering::Relaxed);
        }
        Ok(n)
    }
}

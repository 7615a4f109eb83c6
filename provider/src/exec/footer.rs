//! What does a Parquet file of the table say of itself?
//!
//! A footer (with the page index) is read and parsed once per process: it is kept in the runtime's file metadata cache,
//! which is bounded in bytes (`datafusion.runtime.metadata_cache_limit`). A cold file costs one request, whose bytes also
//! serve the page index, bloom filters near the end, and all of a small file.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use chrono::DateTime;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadata, FileMetadataCache};
use object_store::ObjectMeta;
use object_store::path::Path;
use parking_lot::Mutex;
use parquet::DecodeResult;
use parquet::basic::Repetition;
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{
    FooterTail, PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder, RowGroupMetaData,
};
use parquet::schema::types::{Type, TypePtr};
use tokio::sync::OnceCell;

use super::columns::Layout;
use super::names::{Naming, has_ids, with_plain_text};
use super::reader::{FileIo, Tail};
use crate::error::{Code, Error, Result, guarded};
use crate::scan::{Object, Role};

/// Files up to this size are read whole by their first request: the rest costs less than another round trip.
const WHOLE: u64 = 1 << 20;
/// What the first request reads of a larger file: footers with page index and bloom filters seldom need more.
const TAIL: u64 = 512 << 10;

/// Bytes of the first request for a file of `size` bytes, which are its last.
pub(super) fn first_request(size: u64) -> u64 {
    if size <= WHOLE { size } else { TAIL }
}

/// A file's footer, and where each table column stands in the file.
pub(super) struct Footer {
    pub(super) metadata: Arc<ParquetMetaData>,
    /// Root column of each top-level field id.
    roots: HashMap<i32, usize>,
    /// No column has a field id, at any depth.
    nameless: bool,
    /// The ids are the columns' places.
    pub(super) by_place: bool,
    /// Bytes of the file, whatever the manifest says.
    pub(super) file_size: u64,
    /// The adaption to the table schema that was asked for last.
    layout: Mutex<Option<(SchemaRef, Arc<Layout>)>>,
    size: usize,
}

impl Footer {
    fn new(metadata: ParquetMetaData, object: &Object, file_size: u64) -> Result<Self> {
        let metadata =
            with_plain_text(metadata).map_err(|e| object.corrupt("the file's schema is not sound").source(e))?;
        if !counts_its_rows(metadata.row_groups().iter().map(RowGroupMetaData::num_rows)) {
            return Err(object.corrupt("the file's row groups have fewer rows than none, or more than can be counted"));
        }
        let schema = metadata.file_metadata().schema_descr();
        let fields = schema.root_schema().get_fields();
        let mut roots = HashMap::with_capacity(fields.len());
        for (root, field) in fields.iter().enumerate() {
            let info = field.get_basic_info();
            if info.has_id() && roots.insert(info.id(), root).is_some() {
                let what = format!("two columns of a {} have the same field id", object.noun());
                return Err(object.corrupt(what).with("id", info.id()));
            }
        }
        let nameless = !fields.iter().any(|field| has_ids(field));
        // The layout is filled in later; it is some hundred bytes a column.
        let size = metadata.memory_size() + fields.len() * 512;
        let metadata = Arc::new(metadata);
        Ok(Footer { metadata, roots, nameless, by_place: false, file_size, layout: Mutex::new(None), size })
    }

    /// The footer of a file without field ids, with those that `naming` gives.
    fn named(&self, naming: &Naming, object: &Object) -> Result<Self> {
        let metadata = naming.apply(&self.metadata).map_err(|e| e.with("file", &object.location))?;
        let by_place = matches!(naming, Naming::ByPlace);
        Ok(Footer { by_place, ..Footer::new(metadata, object, self.file_size)? })
    }

    /// The root column that holds a top-level field.
    pub(super) fn root(&self, field: i32) -> Option<usize> {
        self.roots.get(&field).copied()
    }

    /// Where a field of single values is stored, by the ids that lead to it through structs, its own last.
    pub(super) fn place(&self, path: &[i32]) -> Place {
        let Some((first, rest)) = path.split_first() else { return Place::Other };
        let Some(root) = self.root(*first) else { return Place::Nowhere };
        let schema = self.metadata.file_metadata().schema_descr();
        let leaf = (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == root);
        let (Some(mut leaf), Some(mut field)) = (leaf, schema.root_schema().get_fields().get(root)) else {
            return Place::Other;
        };
        for id in rest {
            if self.by_place || !field.is_group() || is_repeated(field) {
                return Place::Other;
            }
            let is_it = |field: &TypePtr| field.get_basic_info().has_id() && field.get_basic_info().id() == *id;
            let Some(at) = field.get_fields().iter().position(is_it) else { return Place::Nowhere };
            let (before, from) = field.get_fields().split_at(at);
            leaf += before.iter().map(|field| leaves_of(field)).sum::<usize>();
            let Some(next) = from.first() else { return Place::Other };
            field = next;
        }
        match field.is_primitive() && schema.column(leaf).max_rep_level() == 0 {
            true => Place::Leaf(leaf),
            false => Place::Other,
        }
    }

    /// The adaption of the file's columns to a table schema; the last one that depends on nothing else (`keep`) is kept.
    pub(super) fn layout(
        &self,
        table: &SchemaRef,
        keep: bool,
        make: impl FnOnce() -> Result<Layout>,
    ) -> Result<Arc<Layout>> {
        if !keep {
            return make().map(Arc::new);
        }
        if let Some((schema, layout)) = &*self.layout.lock()
            && (Arc::ptr_eq(schema, table) || schema == table)
        {
            return Ok(Arc::clone(layout));
        }
        let layout = Arc::new(make()?);
        *self.layout.lock() = Some((Arc::clone(table), Arc::clone(&layout)));
        Ok(layout)
    }
}

impl FileMetadata for Footer {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_size(&self) -> usize {
        self.size
    }

    fn extra_info(&self) -> HashMap<String, String> {
        HashMap::from([("page_index".to_owned(), self.metadata.offset_index().is_some().to_string())])
    }
}

/// A bloom filter, as an entry of the same cache.
struct Bloom(Arc<Sbbf>);

impl FileMetadata for Bloom {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_size(&self) -> usize {
        self.0.num_blocks() * 32 + 64
    }

    fn extra_info(&self) -> HashMap<String, String> {
        HashMap::from([("bloom_filter".to_owned(), "true".to_owned())])
    }
}

/// The process's footers and bloom filters, and what else was made of a table's files.
pub(super) struct Footers {
    cache: Arc<dyn FileMetadataCache>,
    naming: Naming,
    /// Footers being read now: pieces of one file share the request.
    loading: Mutex<HashMap<Path, Weak<OnceCell<Arc<Footer>>>>>,
}

impl Footers {
    pub(super) fn new(cache: Arc<dyn FileMetadataCache>, naming: Naming) -> Self {
        Footers { cache, naming, loading: Mutex::new(HashMap::new()) }
    }

    /// Whether the footer of a file is remembered.
    pub(super) fn holds(&self, object: &Object) -> bool {
        self.remembered::<Footer>(object, "").is_some()
    }

    /// The footer of a file, if it is remembered.
    pub(super) fn known(&self, object: &Object, io: &mut FileIo) -> Option<Arc<Footer>> {
        let plain = self.remembered::<Footer>(object, "")?;
        io.resize(plain.file_size);
        self.with_ids(object, &plain)
    }

    /// The footer of a file. What was read beyond it stays in `io`.
    pub(super) async fn load(&self, object: &Object, io: &mut FileIo) -> Result<Arc<Footer>> {
        let plain = self.load_plain(object, io).await?;
        io.resize(plain.file_size);
        if let Some(footer) = self.with_ids(object, &plain) {
            return Ok(footer);
        }
        let named = Arc::new(plain.named(&self.naming, object)?);
        self.remember(object, &self.naming.part(), Arc::clone(&named) as _);
        Ok(named)
    }

    /// The footer that columns are looked up in: as the file has it, or with the ids that a data file without any was given
    /// before.
    fn with_ids(&self, object: &Object, plain: &Arc<Footer>) -> Option<Arc<Footer>> {
        match object.role == Role::Data && plain.nameless {
            true => self.remembered(object, &self.naming.part()),
            false => Some(Arc::clone(plain)),
        }
    }

    /// The footer as the file has it.
    async fn load_plain(&self, object: &Object, io: &mut FileIo) -> Result<Arc<Footer>> {
        let key = key(object, "");
        if let Some(footer) = self.cached(&key, object) {
            return Ok(footer);
        }
        let cell = self.flight(&key);
        let mut tail = None;
        let read = async {
            let (metadata, rest, size) = find(object, io).await?;
            tail = Some(rest);
            let footer = Arc::new(Footer::new(metadata, object, size)?);
            self.cache.put(&key, entry(&key, object, Arc::clone(&footer) as _));
            Ok::<_, Error>(footer)
        };
        let footer = cell.get_or_try_init(|| read).await.map(Arc::clone);
        self.loading.lock().remove(&key);
        io.keep_tail(tail);
        footer
    }

    fn cached<T: Send + Sync + 'static>(&self, key: &Path, object: &Object) -> Option<Arc<T>> {
        let entry = self.cache.get(key).filter(|entry| entry.meta.size == object.size)?;
        let metadata: Arc<dyn Any + Send + Sync> = entry.file_metadata;
        metadata.downcast().ok()
    }

    /// What was made of a file before, as part `part` of it.
    pub(super) fn remembered<T: Send + Sync + 'static>(&self, object: &Object, part: &str) -> Option<Arc<T>> {
        self.cached(&key(object, part), object)
    }

    /// Keeps what was made of a file, while there is room.
    pub(super) fn remember(&self, object: &Object, part: &str, made: Arc<dyn FileMetadata>) {
        let key = key(object, part);
        self.cache.put(&key, entry(&key, object, made));
    }

    fn flight(&self, key: &Path) -> Arc<OnceCell<Arc<Footer>>> {
        let mut loading = self.loading.lock();
        if let Some(cell) = loading.get(key).and_then(Weak::upgrade) {
            return cell;
        }
        let cell = Arc::new(OnceCell::new());
        loading.insert(key.clone(), Arc::downgrade(&cell));
        cell
    }

    /// Bloom filters of column chunks, named by `(row group, leaf)`: `None` where there is none that can be used.
    /// Those that aren't cached are read together.
    pub(super) async fn blooms(
        &self,
        object: &Object,
        io: &FileIo,
        footer: &Footer,
        wanted: &[(usize, usize)],
    ) -> Result<HashMap<(usize, usize), Arc<Sbbf>>> {
        let mut found = HashMap::new();
        let mut missing = Vec::new();
        for chunk in wanted {
            let Some(range) = bloom_range(footer, *chunk) else { continue };
            let key = bloom_key(object, *chunk);
            match self.cached::<Bloom>(&key, object) {
                Some(bloom) => {
                    found.insert(*chunk, Arc::clone(&bloom.0));
                }
                None => missing.push((*chunk, key, range)),
            }
        }
        let ranges: Vec<Range<u64>> = missing.iter().map(|(_, _, range)| range.clone()).collect();
        for ((chunk, key, _), bytes) in missing.into_iter().zip(io.fetch(&ranges).await?) {
            // A filter that can't be parsed excludes nothing.
            let Ok(filter) = Sbbf::from_bytes(&bytes) else { continue };
            let filter = Arc::new(filter);
            self.cache.put(&key, entry(&key, object, Arc::new(Bloom(Arc::clone(&filter)))));
            found.insert(chunk, filter);
        }
        Ok(found)
    }
}

/// Where a column chunk's bloom filter lies. One whose length isn't known would cost two requests and isn't used.
fn bloom_range(footer: &Footer, (group, leaf): (usize, usize)) -> Option<Range<u64>> {
    let chunk = footer.metadata.row_groups().get(group)?.columns().get(leaf)?;
    let start = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
    let length = u64::try_from(chunk.bloom_filter_length()?).ok()?;
    Some(start..start.checked_add(length)?)
}

/// The cache's key: store and path, because the cache is shared by all stores of a runtime.
fn key(object: &Object, part: &str) -> Path {
    Path::from(format!("iceberg/{}/{}{part}", object.located.url.as_str(), object.located.path))
}

fn bloom_key(object: &Object, (group, leaf): (usize, usize)) -> Path {
    key(object, &format!("#bloom-{group}-{leaf}"))
}

fn entry(key: &Path, object: &Object, file_metadata: Arc<dyn FileMetadata>) -> CachedFileMetadataEntry {
    // Files of a table never change, so the size is all there is to check.
    let meta = ObjectMeta {
        location: key.clone(),
        last_modified: DateTime::UNIX_EPOCH,
        size: object.size,
        e_tag: None,
        version: None,
    };
    CachedFileMetadataEntry::new(meta, file_metadata)
}

/// Reads footer and page index, and tells the file's size. Some writers record a wrong one: where the footer isn't at the
/// end of the recorded size, the store is asked for the real one.
async fn find(object: &Object, io: &mut FileIo) -> Result<(ParquetMetaData, Tail, u64)> {
    let stated = object.size;
    let error = match read(object, io, stated).await {
        Ok((metadata, tail)) => return Ok((metadata, tail, stated)),
        Err(error) => error,
    };
    match io.real_size().await {
        Some(size) if size != stated => {
            io.resize(size);
            // What is wrong with a file is said of the whole of it.
            let (metadata, tail) = read(object, io, size).await?;
            Ok((metadata, tail, size))
        }
        _ => Err(error),
    }
}

/// Reads footer and page index of a file of `size` bytes; the first request usually holds both.
async fn read(object: &Object, io: &FileIo, size: u64) -> Result<(ParquetMetaData, Tail)> {
    let mut decoder = ParquetMetaDataPushDecoder::try_new(size)
        .map_err(|e| io.parquet(e))?
        .with_page_index_policy(PageIndexPolicy::Optional);
    let start = size - first_request(size);
    let mut ranges: Vec<_> = std::iter::once(start..size).collect();
    let mut tail = None;
    loop {
        let bytes = io.fetch(&ranges).await?;
        if tail.is_none() {
            let first = bytes.first().cloned().unwrap_or_default();
            check(&first, size, object, io)?;
            tail = Some(Tail { start, bytes: first });
        }
        decoder.push_ranges(ranges, bytes).map_err(|e| io.parquet(e))?;
        match guarded(|| decoder.try_decode()).map_err(|e| io.parquet(e))? {
            DecodeResult::NeedsData(more) => ranges = more,
            DecodeResult::Data(metadata) => {
                let tail = tail.ok_or_else(|| Error::new(Code::Internal, "a footer without a request"))?;
                return Ok((metadata, tail));
            }
            DecodeResult::Finished => return Err(io.corrupt(format!("the {} has no Parquet footer", object.noun()))),
        }
    }
}

/// Where a field is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In this leaf column.
    Leaf(usize),
    /// Not in the file: it is what a field is that was added later.
    Nowhere,
    /// In a form that says nothing of its values.
    Other,
}

fn is_repeated(field: &Type) -> bool {
    field.get_basic_info().has_repetition() && field.get_basic_info().repetition() == Repetition::REPEATED
}

/// How many leaf columns a column is stored in.
fn leaves_of(field: &Type) -> usize {
    if field.is_primitive() { 1 } else { field.get_fields().iter().map(|field| leaves_of(field)).sum() }
}

/// Whether the rows of all row groups are a number that positions can be counted by.
fn counts_its_rows(mut groups: impl Iterator<Item = i64>) -> bool {
    groups.try_fold(0_i64, |sum, rows| sum.checked_add(rows).filter(|_| rows >= 0)).is_some()
}

/// The last eight bytes must be a length that fits the file, and the magic: the decoder takes the length on trust.
fn check(tail: &[u8], size: u64, object: &Object, io: &FileIo) -> Result<()> {
    let short = || io.corrupt(format!("the {} is too short to be Parquet", object.noun()));
    let last = tail.last_chunk::<8>().ok_or_else(short)?;
    let footer = FooterTail::try_from(*last).map_err(|e| io.parquet(e))?;
    match footer.metadata_length() as u64 + 8 <= size {
        true => Ok(()),
        false => Err(io.corrupt(format!("the {}'s footer is longer than the file", object.noun()))),
    }
}

#[cfg(test)]
mod tests {
    use super::counts_its_rows;

    #[test]
    fn rows_that_cannot_be_counted_are_refused() {
        assert!(counts_its_rows([0, 5, i64::MAX - 5].into_iter()));
        assert!(!counts_its_rows([5, -1].into_iter()));
        assert!(!counts_its_rows([i64::MAX, i64::MAX, i64::MAX].into_iter()));
    }
}

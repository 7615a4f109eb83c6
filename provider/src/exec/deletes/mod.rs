//! Which rows of a file are deleted?
//!
//! ```text
//!   delete files of a task ── once a query, cached ──▶ positions   rows taken out of the selection, or tested by number
//!                                                      keys        rows compared after they are decoded
//! ```
//!
//! A delete file is read once however many data files need it, while the data file's footer is read. What was read is kept
//! in the runtime's file metadata cache, beside footers and bloom filters; what a query holds counts against the session's
//! memory limit. A delete file that is missing or damaged is an error: it is never left out.

mod equality;
mod keys;
mod positions;
mod rows;
mod vector;

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::execution::cache::cache_manager::FileMetadata;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use futures::stream::{StreamExt, TryStreamExt, iter};
use parking_lot::Mutex;
use roaring::RoaringTreemap;
use tokio::sync::OnceCell;

use equality::KeySet;
use keys::{Key, Keys};
use positions::Positions;

use super::footer::Footers;
use super::reader::FileIo;
use super::report::Shared;
use crate::error::{Code, Error, Result};
use crate::scan::{DeleteFile, DeleteKind, Deletes, Plan, Task, View};

pub(super) use rows::{Live, Removing, numbered};
#[cfg(any(test, fuzzing))]
pub(crate) use vector::decode as decode_vector;

/// Delete files of one data file read at the same time.
const AT_ONCE: usize = 8;

/// The delete files of one scan.
pub(super) struct DeleteFiles {
    pub(super) keys: Keys,
    /// By the address of the plan's delete file.
    loads: HashMap<usize, Load>,
    held: Held,
}

#[derive(Default)]
struct Load {
    cell: OnceCell<Loaded>,
    /// The data files that carry it, ascending.
    paths: Vec<String>,
}

#[derive(Clone)]
enum Loaded {
    Positions(Arc<RoaringTreemap>),
    Files(Arc<Positions>),
    Keys(Arc<KeySet>),
}

/// The address of a plan's delete file, which lives as long as the plan.
pub(super) fn address(file: &Arc<DeleteFile>) -> usize {
    Arc::as_ptr(file).addr()
}

impl DeleteFiles {
    pub(super) fn new(view: &View, plan: &Plan, pool: &Arc<dyn MemoryPool>) -> Result<Self> {
        let mut loads: HashMap<usize, Load> = HashMap::new();
        for task in &plan.tasks {
            for file in task.delete_files() {
                let load = loads.entry(address(file)).or_default();
                if file.kind == DeleteKind::Positions {
                    load.paths.push(task.file_path().to_owned());
                }
            }
        }
        loads.values_mut().for_each(|load| load.paths.sort_unstable());
        let reservation = MemoryConsumer::new(format!("deletes of {}", view.name)).register(pool);
        Ok(DeleteFiles { keys: Keys::new(view, plan)?, loads, held: Held(Mutex::new(reservation)) })
    }

    /// What is deleted of a data file.
    pub(super) async fn of(&self, task: &Task, footers: &Footers, shared: &Shared) -> Result<Removal> {
        let mut removal = self.removal(task, &task.deletes, footers, shared).await?;
        if let Some(only) = &task.only_removed {
            // The manifest says how many rows there are, which a damaged one may make as many as it likes.
            self.held.grow(full_size(task.rows()))?;
            removal.keep_only(self.removal(task, only, footers, shared).await?, task.rows());
        }
        Ok(removal)
    }

    async fn removal(&self, task: &Task, deletes: &Deletes, footers: &Footers, shared: &Shared) -> Result<Removal> {
        let mut removal = Removal::default();
        if deletes.is_empty() {
            return Ok(removal);
        }
        let loads: Vec<_> = deletes.iter().map(|file| self.load(file, footers, shared)).collect();
        let loaded: Vec<Loaded> = iter(loads).buffered(AT_ONCE).try_collect().await?;
        for (file, loaded) in deletes.iter().zip(loaded) {
            match loaded {
                Loaded::Positions(positions) => removal.delete(&positions),
                Loaded::Files(positions) => {
                    if let Some(positions) = positions.of(task.file_path()) {
                        removal.delete(positions);
                    }
                }
                Loaded::Keys(set) => removal.compare(self.key(file)?, set),
            }
        }
        if let (Some(vector), Some(last)) = (&deletes.vector, removal.positions.as_ref().and_then(|p| p.max()))
            && last >= task.rows()
        {
            let error = vector.object.corrupt("a deletion vector deletes a row that its data file does not have");
            return Err(error.with("data_file", &task.object.location).with("position", last));
        }
        Ok(removal)
    }

    fn key(&self, file: &DeleteFile) -> Result<&Arc<Key>> {
        match &file.kind {
            DeleteKind::Equality { ids } => self.keys.of(ids),
            _ => Err(Error::new(Code::Internal, "a delete file without keys was compared")),
        }
    }

    async fn load(&self, file: &Arc<DeleteFile>, footers: &Footers, shared: &Shared) -> Result<Loaded> {
        let load = self.loads.get(&address(file));
        let load = load.ok_or_else(|| Error::new(Code::Internal, "a delete file was not planned"))?;
        let loaded = load.cell.get_or_try_init(|| async {
            match &file.kind {
                DeleteKind::Vector { blob } => {
                    let part = format!("#vector-{}", blob.start);
                    let io = FileIo::new(Arc::clone(&file.object), Arc::clone(shared));
                    if let Some(vector) = footers.remembered::<Vector>(&file.object, &part) {
                        self.held.grow(vector.memory_size())?;
                        return Ok(Loaded::Positions(Arc::clone(&vector.0)));
                    }
                    let bytes = io.fetch(std::slice::from_ref(blob)).await?.pop().unwrap_or_default();
                    self.held.grow(bytes.len())?;
                    let vector = Arc::new(decoded(file, &bytes)?);
                    footers.remember(&file.object, &part, Arc::new(Vector(Arc::clone(&vector))));
                    Ok(Loaded::Positions(vector))
                }
                DeleteKind::Positions => self.positions(file, &load.paths, footers, shared).await.map(Loaded::Files),
                DeleteKind::Equality { .. } => self.keys(file, footers, shared).await.map(Loaded::Keys),
            }
        });
        loaded.await.cloned()
    }

    async fn positions(
        &self,
        file: &DeleteFile,
        wanted: &[String],
        footers: &Footers,
        shared: &Shared,
    ) -> Result<Arc<Positions>> {
        const PART: &str = "#positions";
        if let Some(positions) = footers.remembered::<Positions>(&file.object, PART) {
            self.held.grow(positions.size)?;
            return Ok(positions);
        }
        let mut io = FileIo::new(Arc::clone(&file.object), Arc::clone(shared));
        let footer = footers.load(&file.object, &mut io).await?;
        let read = Arc::new(positions::read(&footer, io, wanted, &self.held).await?);
        if read.complete {
            footers.remember(&file.object, PART, Arc::clone(&read) as _);
        }
        Ok(read)
    }

    async fn keys(&self, file: &DeleteFile, footers: &Footers, shared: &Shared) -> Result<Arc<KeySet>> {
        const PART: &str = "#keys";
        let key = self.key(file)?;
        if let Some(set) = footers.remembered::<KeySet>(&file.object, PART).filter(|set| set.types == key.types()) {
            self.held.grow(set.size)?;
            return Ok(set);
        }
        let mut io = FileIo::new(Arc::clone(&file.object), Arc::clone(shared));
        let footer = footers.load(&file.object, &mut io).await?;
        let set = Arc::new(equality::read(&footer, io, key, &self.keys.schema, &self.held).await?);
        footers.remember(&file.object, PART, Arc::clone(&set) as _);
        Ok(set)
    }
}

/// The vector in a blob, which must hold as many positions as the manifest counts.
fn decoded(file: &DeleteFile, bytes: &[u8]) -> Result<RoaringTreemap> {
    let what = "a deletion vector cannot be read";
    let of = file.file().referenced_data_file().unwrap_or_default();
    let corrupt = |reason: String| file.object.corrupt(what).with("data_file", &of).with("reason", reason);
    let vector = vector::decode(bytes).map_err(corrupt)?;
    let counted = file.file().record_count();
    match vector.len() == counted {
        true => Ok(vector),
        false => Err(corrupt(format!("it deletes {} rows and its manifest counts {counted}", vector.len()))),
    }
}

/// What is deleted of one data file.
#[derive(Default)]
pub(super) struct Removal {
    positions: Option<Arc<RoaringTreemap>>,
    keys: Vec<(Arc<Key>, Vec<Arc<KeySet>>)>,
    /// Only rows that this removes are wanted.
    only: Option<Box<Removal>>,
}

impl Removal {
    fn delete(&mut self, positions: &Arc<RoaringTreemap>) {
        match &mut self.positions {
            Some(all) => *Arc::make_mut(all) |= positions.as_ref(),
            None => self.positions = Some(Arc::clone(positions)),
        }
    }

    /// Leaves only rows that `only` removes, of a file of so many rows.
    fn keep_only(&mut self, only: Removal, rows: u64) {
        if !only.keys.is_empty() {
            self.only = Some(Box::new(only));
            return;
        }
        let mut others = RoaringTreemap::new();
        others.insert_range(0..rows);
        if let Some(positions) = &only.positions {
            others -= positions.as_ref();
        }
        self.delete(&Arc::new(others));
    }

    fn compare(&mut self, key: &Arc<Key>, set: Arc<KeySet>) {
        if set.is_empty() {
            return;
        }
        match self.keys.iter_mut().find(|(other, _)| Arc::ptr_eq(other, key)) {
            Some((_, sets)) => sets.push(set),
            None => self.keys.push((Arc::clone(key), vec![set])),
        }
    }
}

/// What the positions of so many rows take together, roughly: a run for every 65,536.
fn full_size(rows: u64) -> usize {
    usize::try_from((rows >> 16).saturating_mul(64)).unwrap_or(usize::MAX)
}

/// Memory that the query's deletes hold.
struct Held(Mutex<MemoryReservation>);

impl Held {
    fn grow(&self, bytes: usize) -> Result<()> {
        Ok(self.0.lock().try_grow(bytes)?)
    }

    /// Replaces what was reserved by what is held.
    fn adjust(&self, reserved: usize, held: usize) -> Result<()> {
        match held.checked_sub(reserved) {
            Some(more) => self.grow(more),
            None => {
                self.0.lock().shrink(reserved - held);
                Ok(())
            }
        }
    }
}

/// A deletion vector, as an entry of the runtime's cache.
struct Vector(Arc<RoaringTreemap>);

macro_rules! cached {
    ($type:ty, $name:literal, $size:expr) => {
        impl FileMetadata for $type {
            fn as_any(&self) -> &dyn Any {
                self
            }

            fn memory_size(&self) -> usize {
                $size(self)
            }

            fn extra_info(&self) -> HashMap<String, String> {
                HashMap::from([($name.to_owned(), "true".to_owned())])
            }
        }
    };
}

cached!(Vector, "deletion_vector", |vector: &Vector| vector.0.serialized_size() + 64);
cached!(Positions, "position_deletes", |positions: &Positions| positions.size + 64);
cached!(KeySet, "equality_deletes", |set: &KeySet| set.size + 64);

//! Arrow IPC: the file format, which has a footer, and the stream format, which has none; told apart by the magic.
//!
//! Messages are read here and decoded by the engine's crate. Its own readers make room for whatever length a message
//! states, and a damaged one ends the process.

mod bytes;
mod expand;
mod file;
mod message;
mod stream;

use std::io::{BufReader, Read};
use std::ops::ControlFlow;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use self::file::File;
use self::stream::Stream;
use super::{Emit, Part, Rows, corrupt};
use crate::error::{Guarded, Result, guarded};
use crate::input::source::{Source, io_error};

const MAGIC: &[u8] = b"ARROW1";

pub(super) fn survey(source: &Source) -> Result<(SchemaRef, Vec<Part>)> {
    let schema = open(source, None, None)?.schema;
    Ok((schema, vec![Part { groups: 0..1, weight: source.length(), before: 0 }]))
}

/// Whether the content is the file format, which needs random access.
pub(super) fn is_file(source: &Source) -> Result<bool> {
    let mut begin = Vec::with_capacity(MAGIC.len());
    let reader = source.reader(0, source.length(), None)?;
    reader.take(MAGIC.len() as u64).read_to_end(&mut begin).map_err(|e| io_error(e, source.shown()))?;
    Ok(begin == MAGIC)
}

pub(super) fn read_column(
    source: &Source,
    column: usize,
    see: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    for batch in open(source, Some(vec![column]), None)?.batches {
        see(batch.map_err(|e| corrupt(source, e))?)?;
    }
    Ok(())
}

pub(super) fn read(rows: &Rows, emit: &mut Emit<'_, '_>) -> Result<ControlFlow<()>> {
    let opened = open(&rows.source, None, Some(emit))?;
    let mut done = 0;
    for batch in opened.batches {
        if emit.batch(&batch.map_err(|e| corrupt(&rows.source, e))?)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if let Some(all) = opened.count {
            done += 1;
            emit.progress(done, all);
        }
    }
    if opened.count.is_some() {
        emit.progress(1, 1);
    }
    Ok(ControlFlow::Continue(()))
}

struct Opened {
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
    /// How many batches there are, where that is known; else bytes are counted as they are read.
    count: Option<u64>,
}

fn open(source: &Source, columns: Option<Vec<usize>>, counted: Option<&Emit<'_, '_>>) -> Result<Opened> {
    if is_file(source)? {
        let file = source.random_access()?;
        let length = file.metadata().map_err(|e| io_error(e, source.shown()))?.len();
        let reader = guarded(|| File::open(BufReader::new(file), length, columns)).map_err(|e| corrupt(source, e))?;
        let count = Some(reader.batches());
        return Ok(Opened { schema: reader.schema(), batches: Box::new(Guarded::new(reader)), count });
    }
    let read = counted.map(|emit| emit.output.bytes_read());
    let bytes = BufReader::new(source.reader(0, source.length(), read)?);
    let length = source.is_plain().then(|| source.length());
    let reader = guarded(|| Stream::open(bytes, length, columns)).map_err(|e| corrupt(source, e))?;
    Ok(Opened { schema: reader.schema(), batches: Box::new(Guarded::new(reader)), count: None })
}

#[cfg(test)]
mod tests;

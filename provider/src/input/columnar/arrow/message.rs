//! What is in a message, and does it have what it says?
//!
//! The decoder copies nothing that it isn't told to: it takes slices of a message's body, and makes room for what a
//! compressed buffer says it becomes. Both are held against the body first, because an allocation that fails ends the
//! process, and no error can be made of it.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{read_dictionary, read_record_batch};
use arrow::ipc::{self, Message, MessageHeader, root_as_message};

use super::bytes::{Bytes, unsigned};
use super::expand::most;

/// Makes batches of messages.
pub(super) struct Decoder {
    schema: SchemaRef,
    /// The columns to read, or all.
    columns: Option<Vec<usize>>,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl Decoder {
    pub(super) fn new(schema: ipc::Schema<'_>, columns: Option<Vec<usize>>) -> Result<Self, ArrowError> {
        if !schema.endianness().equals_to_target_endianness() {
            return Err(ArrowError::IpcError("the numbers are of another byte order than this machine's".to_owned()));
        }
        Ok(Decoder { schema: Arc::new(fb_to_schema(schema)), columns, dictionaries: HashMap::new() })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The batch of a message, or `None` where it was a dictionary, which is kept.
    pub(super) fn decode(&mut self, message: &Message<'_>, body: Vec<u8>) -> Result<Option<RecordBatch>, ArrowError> {
        let batch = rows(message).ok_or_else(|| unexpected(message))?;
        check_expansion(batch, &body)?;
        let body = Buffer::from_vec(body);
        let version = message.version();
        if let Some(dictionary) = message.header_as_dictionary_batch() {
            read_dictionary(&body, dictionary, &self.schema, &mut self.dictionaries, &version)?;
            return Ok(None);
        }
        let columns = self.columns.as_deref();
        read_record_batch(&body, batch, self.schema(), &self.dictionaries, columns, &version).map(Some)
    }
}

/// The message that is encoded in `metadata`.
pub(super) fn parse(metadata: &[u8]) -> Result<Message<'_>, ArrowError> {
    root_as_message(metadata).map_err(|e| ArrowError::ParseError(format!("a message cannot be parsed: {e:?}")))
}

/// The body of `message`, `length` bytes long, up to the end of its last buffer: what may follow is passed over.
pub(super) fn body<R: Read>(bytes: &mut Bytes<R>, message: &Message<'_>, length: i64) -> Result<Vec<u8>, ArrowError> {
    let length = unsigned(length, "the body of a message")?;
    let used = rows(message).map_or(Ok(0), extent)?;
    let unused = length.checked_sub(used).ok_or_else(|| {
        ArrowError::IpcError(format!("a buffer ends at byte {used} of the body of a message, which has {length}"))
    })?;
    let body = bytes.take(used, "the body of a message")?;
    bytes.skip(unused, "the body of a message")?;
    Ok(body)
}

/// What a message is that stands where rows or a dictionary should.
pub(super) fn unexpected(message: &Message<'_>) -> ArrowError {
    ArrowError::IpcError(format!("a message of an unexpected kind: {:?}", message.header_type()))
}

/// The rows of a message, or of the dictionary in it.
fn rows<'a>(message: &Message<'a>) -> Option<ipc::RecordBatch<'a>> {
    match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch()?.data(),
        _ => None,
    }
}

/// Where the last buffer ends.
fn extent(batch: ipc::RecordBatch<'_>) -> Result<u64, ArrowError> {
    batch.buffers().into_iter().flatten().try_fold(0, |extent: u64, buffer| {
        let (start, length) =
            (unsigned(buffer.offset(), "what precedes a buffer")?, unsigned(buffer.length(), "a buffer")?);
        Ok(extent.max(start.saturating_add(length)))
    })
}

/// Each compressed buffer begins with the number of bytes that it becomes; -1 where it is not compressed after all
/// (`Message.fbs`, `BodyCompressionMethod`).
fn check_expansion(batch: ipc::RecordBatch<'_>, body: &[u8]) -> Result<(), ArrowError> {
    let Some(compression) = batch.compression() else { return Ok(()) };
    for buffer in batch.buffers().into_iter().flatten() {
        let [start, length] = [buffer.offset(), buffer.length()].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let bytes = body.get(start..start.saturating_add(length)).unwrap_or_default();
        let Some((says, frames)) = bytes.split_first_chunk() else { continue };
        let says = i64::from_le_bytes(*says);
        if says > 0 && says.cast_unsigned() > most(compression.codec(), frames) {
            let what = format!("a buffer of {length} bytes says that it becomes {says}, which it cannot");
            return Err(ArrowError::IpcError(what));
        }
    }
    Ok(())
}

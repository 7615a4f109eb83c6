//! The stream format: messages one after the other, the schema first.
//!
//! ```text
//! [ff ff ff ff] length of metadata ▏ metadata (length of body) ▏ body ▏ …      a length of 0, or the end
//! ```
//!
//! Source: "IPC Streaming Format" of the Arrow columnar format. Before version 0.15 there was no continuation marker.

use std::io::Read;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::bytes::{Bytes, unsigned};
use super::message::{Decoder, body, parse, unexpected};

/// The batches of a stream.
pub(super) struct Stream<R> {
    bytes: Bytes<R>,
    decoder: Decoder,
    ended: bool,
}

impl<R: Read> Stream<R> {
    /// Reads the schema. `left` is how many bytes `reader` has, where that is known.
    pub(super) fn open(reader: R, left: Option<u64>, columns: Option<Vec<usize>>) -> Result<Self, ArrowError> {
        let mut bytes = Bytes::new(reader, left);
        let Some(metadata) = metadata(&mut bytes)? else {
            return Err(ArrowError::IpcError("the stream is empty".to_owned()));
        };
        let message = parse(&metadata)?;
        let schema = message.header_as_schema().ok_or_else(|| unexpected(&message))?;
        body(&mut bytes, &message, message.bodyLength())?;
        Ok(Stream { bytes, decoder: Decoder::new(schema, columns)?, ended: false })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.decoder.schema()
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while let Some(metadata) = metadata(&mut self.bytes)? {
            let message = parse(&metadata)?;
            let body = body(&mut self.bytes, &message, message.bodyLength())?;
            if let Some(batch) = self.decoder.decode(&message, body)? {
                return Ok(Some(batch));
            }
        }
        self.ended = true;
        Ok(None)
    }
}

impl<R: Read> Iterator for Stream<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended { None } else { self.batch().transpose() }
    }
}

/// The metadata of the next message, or `None` at the end.
fn metadata<R: Read>(bytes: &mut Bytes<R>) -> Result<Option<Vec<u8>>, ArrowError> {
    const WHAT: &str = "the metadata of a message";
    let mut length = bytes.next_four()?;
    if length == Some([0xff; 4]) {
        // After a marker there is a length.
        length =
            Some(bytes.next_four()?.ok_or_else(|| ArrowError::IpcError("the stream ends in a message".to_owned()))?);
    }
    match length.map(i32::from_le_bytes) {
        None | Some(0) => Ok(None),
        Some(length) => bytes.take(unsigned(length.into(), WHAT)?, WHAT).map(Some),
    }
}

//! The file format: the same messages, and a footer that says where they are.
//!
//! ```text
//! ARROW1 ▏ messages ▏ footer: schema, blocks (offset, length of metadata, length of body) ▏ length of footer ▏ ARROW1
//! ```
//!
//! Source: "IPC File Format" of the Arrow columnar format.

use std::io::{Read, Seek};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::read_footer_length;
use arrow::ipc::{Block, MetadataVersion, root_as_footer};

use super::bytes::{Bytes, unsigned};
use super::message::{Decoder, body, parse};

/// The length of the footer, and the magic.
const END: u64 = 10;

/// The batches of a file.
pub(super) struct File<R> {
    bytes: Bytes<R>,
    length: u64,
    version: MetadataVersion,
    decoder: Decoder,
    blocks: std::vec::IntoIter<Block>,
}

impl<R: Read + Seek> File<R> {
    /// Reads the footer and the dictionaries of a file of `length` bytes.
    pub(super) fn open(reader: R, length: u64, columns: Option<Vec<usize>>) -> Result<Self, ArrowError> {
        let mut bytes = Bytes::new(reader, Some(length));
        let end = length.saturating_sub(END);
        bytes.seek(end, length)?;
        let last = bytes.take(END, "the end of the file")?;
        let last = last.try_into().map_err(|_| ArrowError::IpcError("the file has no end".to_owned()))?;
        let footer_length = read_footer_length(last)? as u64;
        let start = end.checked_sub(footer_length).ok_or_else(|| {
            ArrowError::IpcError(format!("the footer says that it has {footer_length} bytes, in a file of {length}"))
        })?;
        bytes.seek(start, length)?;
        let footer = bytes.take(footer_length, "the footer")?;
        let footer = root_as_footer(&footer)
            .map_err(|e| ArrowError::ParseError(format!("the footer cannot be parsed: {e:?}")))?;
        let missing = |what: &str| ArrowError::ParseError(format!("the footer has no {what}"));
        let blocks = footer.recordBatches().ok_or_else(|| missing("batches"))?;
        let blocks: Vec<Block> = blocks.iter().copied().collect();
        let decoder = Decoder::new(footer.schema().ok_or_else(|| missing("schema"))?, columns)?;
        let mut file = File { bytes, length, version: footer.version(), decoder, blocks: blocks.into_iter() };
        for block in footer.dictionaries().into_iter().flatten() {
            if file.block(block)?.is_some() {
                return Err(ArrowError::IpcError("rows stand where the footer names a dictionary".to_owned()));
            }
        }
        Ok(file)
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.decoder.schema()
    }

    /// How many batches there are still.
    pub(super) fn batches(&self) -> u64 {
        self.blocks.len() as u64
    }

    fn block(&mut self, block: &Block) -> Result<Option<RecordBatch>, ArrowError> {
        const WHAT: &str = "the metadata of a message";
        self.bytes.seek(unsigned(block.offset(), "what precedes a block")?, self.length)?;
        let metadata = self.bytes.take(unsigned(block.metaDataLength().into(), WHAT)?, WHAT)?;
        // The marker and the length, or before version 0.15 the length alone.
        let prefix = if metadata.starts_with(&[0xff; 4]) { 8 } else { 4 };
        let message = parse(metadata.get(prefix..).unwrap_or_default())?;
        // There are old footers that state no version, which reads as the first.
        if self.version != MetadataVersion::V1 && message.version() != self.version {
            return Err(ArrowError::IpcError("a message is of another version than the footer".to_owned()));
        }
        let body = body(&mut self.bytes, &message, block.bodyLength())?;
        self.decoder.decode(&message, body)
    }
}

impl<R: Read + Seek> Iterator for File<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.blocks.next()?;
        let rows = || ArrowError::IpcError("a dictionary stands where the footer names rows".to_owned());
        Some(self.block(&block).and_then(|batch| batch.ok_or_else(rows)))
    }
}

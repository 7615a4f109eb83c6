//! What reads the batches of a file of the table?

use parquet::arrow::async_reader::ParquetRecordBatchStream;

use super::reader::DecoderInput;

/// The Parquet decoder, whose panics are errors of the file.
pub(super) type Guarded = crate::error::Guarded<ParquetRecordBatchStream<DecoderInput>>;

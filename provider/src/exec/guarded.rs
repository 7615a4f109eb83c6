//! What becomes of a file that the Parquet decoder panics at?
//!
//! The decoder believes what a footer and page headers say of lengths, and slices what it was given by them. A file that
//! lies about itself is damaged: an error, and no end of the query's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use futures::{Stream, StreamExt};
use parquet::arrow::async_reader::ParquetRecordBatchStream;
use parquet::errors::{ParquetError, Result};

use super::reader::DecoderInput;

/// The batches of a file, up to where it cannot be decoded.
pub(super) struct Guarded {
    /// `None` after a panic: what is left of the decoder is not to be relied on.
    batches: Option<ParquetRecordBatchStream<DecoderInput>>,
}

impl Guarded {
    pub(super) fn new(batches: ParquetRecordBatchStream<DecoderInput>) -> Self {
        Guarded { batches: Some(batches) }
    }
}

impl Stream for Guarded {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(batches) = &mut self.batches else { return Poll::Ready(None) };
        let polled = catch_unwind(AssertUnwindSafe(|| batches.poll_next_unpin(context)));
        polled.unwrap_or_else(|_| {
            self.batches = None;
            Poll::Ready(Some(Err(failed())))
        })
    }
}

/// The same for what is done at once.
pub(super) fn guarded<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(failed()))
}

fn failed() -> ParquetError {
    ParquetError::General("the decoder failed at what the file says of itself".to_owned())
}

//! What becomes of a file that a decoder panics at?
//!
//! Decoders believe what a file says of lengths and counts, and slice what they were given by them. A file that lies about
//! itself is damaged: an error like any other of the decoder's, and no end of the thread that reads it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::error::ArrowError;
use futures::{Stream, StreamExt};
use parquet::errors::ParquetError;

/// The decoder panicked.
pub(crate) struct Panicked;

/// What is said of it: the panic's own words are about a slice of the decoder's.
const WHAT: &str = "the decoder failed at what the file says of itself";

impl From<Panicked> for ParquetError {
    fn from(_: Panicked) -> Self {
        ParquetError::General(WHAT.to_owned())
    }
}

impl From<Panicked> for ArrowError {
    fn from(_: Panicked) -> Self {
        ArrowError::ParseError(WHAT.to_owned())
    }
}

/// What `decode` comes to, or an error of the decoder's kind where it panics. It may change nothing that is used
/// afterwards.
pub(crate) fn guarded<T, E: From<Panicked>>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(Panicked.into()))
}

/// What a decoder yields, an iterator or a stream, up to where it panics.
pub(crate) struct Guarded<D> {
    /// `None` after a panic: what is left of the decoder is not to be relied on.
    decoder: Option<D>,
}

impl<D> Guarded<D> {
    pub(crate) fn new(decoder: D) -> Self {
        Guarded { decoder: Some(decoder) }
    }

    /// One step of the decoder; `None` after its panic.
    fn step<T>(&mut self, step: impl FnOnce(&mut D) -> T) -> Option<Result<T, Panicked>> {
        let decoder = self.decoder.as_mut()?;
        let stepped = catch_unwind(AssertUnwindSafe(|| step(decoder)));
        Some(stepped.map_err(|_| {
            self.decoder = None;
            Panicked
        }))
    }
}

impl<T, E: From<Panicked>, D: Iterator<Item = Result<T, E>>> Iterator for Guarded<D> {
    type Item = D::Item;

    fn next(&mut self) -> Option<D::Item> {
        self.step(D::next)?.unwrap_or_else(|panicked| Some(Err(panicked.into())))
    }
}

impl<T, E: From<Panicked>, D: Stream<Item = Result<T, E>> + Unpin> Stream for Guarded<D> {
    type Item = D::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<D::Item>> {
        match self.step(|decoder| decoder.poll_next_unpin(context)) {
            None => Poll::Ready(None),
            Some(Ok(polled)) => polled,
            Some(Err(panicked)) => Poll::Ready(Some(Err(panicked.into()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields 1, then fails, then panics, and would go on.
    fn decoder() -> impl Iterator<Item = Result<u8, ArrowError>> {
        (1..5).map(|at| match at {
            2 => Err(ArrowError::DivideByZero),
            3 => panic!("range end index 7 out of range"),
            _ => Ok(at),
        })
    }

    fn shown(items: Vec<Result<u8, ArrowError>>) -> Vec<String> {
        items.into_iter().map(|item| item.map_or_else(|e| e.to_string(), |n| n.to_string())).collect()
    }

    const EXPECTED: [&str; 3] =
        ["1", "Divide by zero error", "Parser error: the decoder failed at what the file says of itself"];

    #[test]
    fn an_iterator_ends_with_an_error_where_it_panics() {
        assert_eq!(shown(Guarded::new(decoder()).collect()), EXPECTED);
    }

    #[tokio::test]
    async fn so_does_a_stream() {
        assert_eq!(shown(Guarded::new(futures::stream::iter(decoder())).collect().await), EXPECTED);
    }

    #[test]
    fn so_does_what_is_done_at_once() {
        assert_eq!(guarded(|| Ok::<_, ParquetError>(5)).unwrap(), 5);
        let list: Vec<u8> = Vec::new();
        let error = guarded(|| Ok::<_, ParquetError>(list[0])).unwrap_err();
        assert!(error.to_string().contains(WHAT), "{error}");
    }
}

//! How are bytes taken that a file says it has?
//!
//! What a length announces is reserved at once only where it is known to be there. Of a compressed file nobody knows how
//! long it is: room is made as its bytes arrive, twice as much each time, so that a length that is wrong costs no more
//! than what the file holds.

use std::io::{self, Read};

use arrow::error::ArrowError;

/// Room made at first for a length that can't be checked.
const STEP: u64 = 1 << 20;

/// A reader that knows how many bytes are left, where that can be known.
pub(super) struct Bytes<R> {
    reader: R,
    left: Option<u64>,
}

impl<R: Read> Bytes<R> {
    pub(super) fn new(reader: R, left: Option<u64>) -> Self {
        Bytes { reader, left }
    }

    /// `length` bytes of what `what` names.
    ///
    /// Errors: an IPC error where fewer are left, [`ArrowError::MemoryError`] where there is no room for them.
    pub(super) fn take(&mut self, length: u64, what: &str) -> Result<Vec<u8>, ArrowError> {
        self.leave(length, what)?;
        let mut bytes: Vec<u8> = Vec::new();
        while let missing @ 1.. = length.saturating_sub(bytes.len() as u64) {
            let step = if self.left.is_some() { missing } else { missing.min(STEP.max(bytes.len() as u64)) };
            let room = usize::try_from(step).ok().filter(|room| bytes.try_reserve_exact(*room).is_ok());
            if room.is_none() {
                return Err(ArrowError::MemoryError(format!("there is no room for {what} of {length} bytes")));
            }
            let read = self.reader.by_ref().take(step).read_to_end(&mut bytes)?;
            if (read as u64) < step {
                return Err(ends(length, what, bytes.len() as u64));
            }
        }
        Ok(bytes)
    }

    /// Passes over `length` bytes of what `what` names.
    pub(super) fn skip(&mut self, length: u64, what: &str) -> Result<(), ArrowError> {
        self.leave(length, what)?;
        let skipped = io::copy(&mut self.reader.by_ref().take(length), &mut io::sink())?;
        if skipped < length { Err(ends(length, what, skipped)) } else { Ok(()) }
    }

    /// The next four bytes, or `None` where there is no byte left.
    pub(super) fn next_four(&mut self) -> Result<Option<[u8; 4]>, ArrowError> {
        let mut four = Vec::with_capacity(4);
        self.reader.by_ref().take(4).read_to_end(&mut four)?;
        self.left = self.left.map(|left| left.saturating_sub(four.len() as u64));
        match <[u8; 4]>::try_from(four.as_slice()) {
            Ok(four) => Ok(Some(four)),
            Err(_) if four.is_empty() => Ok(None),
            Err(_) => Err(ends(4, "a length", four.len() as u64)),
        }
    }

    fn leave(&mut self, length: u64, what: &str) -> Result<(), ArrowError> {
        if let Some(left) = self.left {
            self.left = Some(left.checked_sub(length).ok_or_else(|| ends(length, what, left))?);
        }
        Ok(())
    }
}

impl<R: io::Seek> Bytes<R> {
    /// Goes to byte `at` of a file of `length` bytes.
    pub(super) fn seek(&mut self, at: u64, length: u64) -> Result<(), ArrowError> {
        let left = length.checked_sub(at);
        self.left = Some(left.ok_or_else(|| ArrowError::IpcError(format!("byte {at} of a file of {length}")))?);
        self.reader.seek(io::SeekFrom::Start(at))?;
        Ok(())
    }
}

fn ends(length: u64, what: &str, there: u64) -> ArrowError {
    ArrowError::IpcError(format!("{what} says that it has {length} bytes, of which there are {there}"))
}

/// A length or position, which has no sign.
pub(super) fn unsigned(number: i64, what: &str) -> Result<u64, ArrowError> {
    u64::try_from(number).map_err(|_| ArrowError::IpcError(format!("{what} says that it has {number} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = u64::MAX >> 1;

    #[test]
    fn what_is_known_to_be_missing_takes_no_memory() {
        let mut bytes = Bytes::new(&b"12345678"[..], Some(8));
        assert_eq!(bytes.take(3, "x").unwrap(), b"123");
        for length in [6, HUGE, u64::MAX] {
            let missing = format!("Ipc error: x says that it has {length} bytes, of which there are 5");
            assert_eq!(bytes.take(length, "x").unwrap_err().to_string(), missing);
            assert_eq!(bytes.skip(length, "x").unwrap_err().to_string(), missing);
        }
        bytes.skip(1, "x").unwrap();
        assert_eq!(bytes.next_four().unwrap(), Some(*b"5678"));
        assert_eq!(bytes.next_four().unwrap(), None);
    }

    #[test]
    fn what_cannot_be_known_is_taken_as_it_arrives() {
        let content = vec![7; 5_000_000];
        for length in [0, 1, STEP, STEP + 1, 5_000_000] {
            assert_eq!(Bytes::new(content.as_slice(), None).take(length, "x").unwrap(), vec![7; length as usize]);
        }
        for length in [5_000_001, HUGE, u64::MAX] {
            let error = Bytes::new(content.as_slice(), None).take(length, "x").unwrap_err();
            assert!(error.to_string().ends_with("of which there are 5000000"), "{error}");
            assert!(Bytes::new(content.as_slice(), None).skip(length, "x").is_err());
        }
        assert!(Bytes::new(&b"123"[..], None).next_four().is_err());
    }

    #[test]
    fn no_room_is_an_error() {
        let error = Bytes::new(io::repeat(0), Some(u64::MAX)).take(u64::MAX, "x").unwrap_err();
        assert!(matches!(error, ArrowError::MemoryError(_)), "{error}");
    }
}

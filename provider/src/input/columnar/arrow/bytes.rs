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

    /// Whether there is no byte left; else the next four.
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

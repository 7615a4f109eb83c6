//! How are Avro's numbers and lengths laid out, and are there as many bytes as they announce?

/// What is left of a piece of a file. Every read either finds the bytes it needs or says what is missing.
#[derive(Clone, Debug)]
pub(in crate::metadata) struct Cursor<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(in crate::metadata) fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    /// How many bytes are left.
    pub(in crate::metadata) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(in crate::metadata) fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self
            .rest
            .split_at_checked(n)
            .ok_or_else(|| format!("it ends too early: {n} bytes are announced and {} are left", self.rest.len()))?;
        self.rest = rest;
        Ok(taken)
    }

    /// A zigzag variable-length integer.
    #[inline]
    pub(in crate::metadata) fn long(&mut self) -> Result<i64, String> {
        let mut value = 0u64;
        for (at, byte) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
            }
        }
        if self.rest.len() < 10 {
            return Err("it ends too early: within an integer".to_owned());
        }
        Err("an integer of more than 64 bits".to_owned())
    }

    pub(in crate::metadata) fn length(&mut self) -> Result<usize, String> {
        let n = self.long()?;
        usize::try_from(n).map_err(|_| format!("a length of {n}"))
    }

    pub(in crate::metadata) fn bytes(&mut self) -> Result<&'a [u8], String> {
        let n = self.length()?;
        self.take(n)
    }

    /// Text or bytes of a known length, as an array.
    pub(in crate::metadata) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| format!("{N} bytes are wanted"))
    }

    /// The number of items in the next block of an array or map; 0 at its end.
    pub(in crate::metadata) fn items(&mut self) -> Result<usize, String> {
        let n = self.long()?;
        if n < 0 {
            self.long()?;
        }
        let n = usize::try_from(n.unsigned_abs()).map_err(|_| format!("{n} items"))?;
        // Every item of the types read here takes a byte at least.
        if n > self.rest.len() {
            return Err(format!("{n} items are announced in {} bytes", self.rest.len()));
        }
        Ok(n)
    }
}

pub(super) fn put_long(out: &mut Vec<u8>, n: usize) {
    // Lengths of things in memory: they fit 63 bits.
    let mut zigzag = (n as u64) << 1;
    while zigzag >= 0x80 {
        out.push((zigzag & 0x7f) as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, bytes.len());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_to_their_ends_and_no_further() {
        assert_eq!(Cursor::new(&[3, 9]).long(), Ok(-2));
        let largest = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Cursor::new(&largest).long(), Ok(i64::MAX));
        assert!(Cursor::new(&largest[..9]).long().unwrap_err().contains("too early"));
        assert!(Cursor::new(&[0xff; 11]).long().unwrap_err().contains("64 bits"));
        assert!(Cursor::new(&[]).long().is_err());
    }

    #[test]
    fn lengths_are_not_believed() {
        let mut announced = Vec::new();
        put_long(&mut announced, 500_000_000);
        assert!(Cursor::new(&announced).items().unwrap_err().contains("500000000 items"));
        assert!(Cursor::new(&announced).bytes().unwrap_err().contains("500000000 bytes"));
        assert!(Cursor::new(&[1]).bytes().unwrap_err().contains("a length of -1"));
    }
}

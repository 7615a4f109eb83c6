//! How is a deletion vector stored?
//!
//! ```text
//! blob      length u32 BE │ D1 D3 39 64 │ bitmap … │ CRC-32 u32 BE      length and CRC are those of magic and bitmap
//! bitmap    count u64 LE │ key u32 LE, 32-bit Roaring bitmap │ …        a position is key · 2³² + value
//! ```
//!
//! Puffin specification, "`deletion-vector-v1` blob type". What is announced is checked against what is there before
//! anything is made room for; a bitmap's containers hold at most 8 KiB each and are read one by one.

use roaring::{RoaringBitmap, RoaringTreemap};

const MAGIC: &[u8] = &[0xd1, 0xd3, 0x39, 0x64];

/// The positions of a blob. The error says what is wrong with it, without naming the file.
pub(crate) fn decode(blob: &[u8]) -> Result<RoaringTreemap, String> {
    let (length, rest) = split::<4>(blob)?;
    let (body, crc) = match rest.len().checked_sub(4).and_then(|at| rest.split_at_checked(at)) {
        Some((body, crc)) if usize::try_from(u32::from_be_bytes(length)) == Ok(body.len()) => (body, crc),
        _ => return Err(format!("it announces {} bytes and has {}", u32::from_be_bytes(length), blob.len())),
    };
    let bitmap = body.strip_prefix(MAGIC).ok_or("it does not begin with the magic bytes of a deletion vector")?;
    let mut sum = flate2::Crc::new();
    sum.update(body);
    if crc != sum.sum().to_be_bytes() {
        return Err("its checksum is wrong".to_owned());
    }
    bitmaps(bitmap)
}

fn bitmaps(bytes: &[u8]) -> Result<RoaringTreemap, String> {
    let (count, mut rest) = split::<8>(bytes)?;
    let count = u64::from_le_bytes(count);
    let mut bitmaps: Vec<(u32, RoaringBitmap)> = Vec::new();
    for _ in 0..count {
        let (key, bitmap) = split::<4>(rest)?;
        let key = u32::from_le_bytes(key);
        if bitmaps.last().is_some_and(|(last, _)| *last >= key) {
            return Err("its bitmaps are not in order".to_owned());
        }
        rest = bitmap;
        let bitmap = RoaringBitmap::deserialize_from(&mut rest).map_err(|e| format!("a bitmap is damaged: {e}"))?;
        bitmaps.push((key, bitmap));
    }
    match rest.is_empty() {
        true => Ok(RoaringTreemap::from_bitmaps(bitmaps)),
        false => Err(format!("{} bytes follow its last bitmap", rest.len())),
    }
}

fn split<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), String> {
    let split = bytes.split_first_chunk::<N>().map(|(first, rest)| (*first, rest));
    split.ok_or_else(|| "it ends in the middle".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exec::tests::vector_blob;

    proptest! {
        #[test]
        fn what_was_written_is_read(positions in prop::collection::btree_set(
            prop_oneof![0..100_u64, 0..1_u64 << 20, Just(1_u64 << 33), (1_u64 << 40)..(1_u64 << 40) + 9], 0..200)) {
            let read = decode(&vector_blob(positions.iter().copied())).unwrap();
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), positions.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn no_bytes_are_taken_for_a_vector_or_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(&bytes).is_err());
            // The same behind a frame that holds.
            let mut framed = (bytes.len() as u32 + 4).to_be_bytes().to_vec();
            framed.extend(MAGIC.iter().chain(&bytes));
            let mut sum = flate2::Crc::new();
            sum.update(&framed[4..]);
            framed.extend(sum.sum().to_be_bytes());
            let _ = decode(&framed);
        }
    }

    #[test]
    fn a_damaged_vector_is_refused() {
        let blob = vector_blob([1, 5, 70_000, 1 << 34]);
        for cut in 0..blob.len() {
            assert!(decode(&blob[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..blob.len() {
            let mut damaged = blob.clone();
            damaged[at] ^= 0x40;
            assert!(decode(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn absurd_counts_cost_nothing() {
        let bytes = u64::MAX.to_le_bytes();
        assert_eq!(bitmaps(&bytes).unwrap_err(), "it ends in the middle");
        let mut container = 1_u64.to_le_bytes().to_vec();
        container.extend([0, 0, 0, 0]);
        container.extend(12_346_u32.to_le_bytes());
        container.extend(u32::MAX.to_le_bytes());
        assert!(bitmaps(&container).is_err());
    }
}

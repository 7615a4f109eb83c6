//! Bytes as a deletion vector.

use crate::exec::decode_vector;

/// The bytes as a blob, and as what stands within the frame of one whose length, magic and checksum are right.
pub fn deletion_vector(bytes: &[u8]) {
    decoded(bytes);
    decoded(&framed(bytes));
}

/// A blob around `bitmaps`.
pub(super) fn framed(bitmaps: &[u8]) -> Vec<u8> {
    let body = [&[0xd1, 0xd3, 0x39, 0x64], bitmaps].concat();
    let mut sum = flate2::Crc::new();
    sum.update(&body);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &body, &sum.sum().to_be_bytes()].concat()
}

/// What a scan does with a vector: count, ask for ranges, unite with others, subtract.
fn decoded(blob: &[u8]) {
    let Ok(vector) = decode_vector(blob) else { return };
    let first: Vec<u64> = vector.iter().take(1_000).collect();
    assert!(first.is_sorted_by(|a, b| a < b), "positions are not in order");
    assert_eq!(first.len() as u64, vector.len().min(1_000), "there are as many as are counted");
    assert_eq!(vector.max().is_none(), vector.is_empty());
    assert_eq!(vector.range_cardinality(..), vector.len());
    for position in &first {
        assert!(vector.contains(*position), "a position that is listed is not found");
    }
    let mut both = vector.clone();
    both |= &vector;
    assert_eq!(both.len(), vector.len(), "a vector with itself is itself");
    both -= &vector;
    assert!(both.is_empty(), "a vector without itself is empty");
}

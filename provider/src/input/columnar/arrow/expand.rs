//! How long can a compressed buffer become?
//!
//! ```text
//! zstd   frame header (content size?) ▏ header · block ▏ header · block ▏ …    a block becomes at most 128 KiB
//! LZ4    frame header (content size?) ▏ header · block ▏ header · block ▏ …    … what the frame header says
//! ```
//!
//! A buffer says how long it becomes, and its decoder makes room for that before it looks any further. The headers of its
//! blocks say how long it can become at most: more is never right, whoever wrote it, and less is the decoder's to judge.
//! Formats: RFC 8878, section 3.1, and the LZ4 frame format 1.6.

use arrow::ipc::CompressionType;

/// The most bytes that `frames` can be decompressed to. What follows a frame that cannot be read counts for nothing: no
/// decoder goes further.
pub(super) fn most(codec: CompressionType, frames: &[u8]) -> u64 {
    let frame = match codec {
        CompressionType::ZSTD => zstd_frame,
        _ => lz4_frame,
    };
    let mut rest = Rest(frames);
    let mut sum = 0_u64;
    while let Some(bytes) = skipped(&mut rest).or_else(|| frame(&mut rest)) {
        sum = sum.saturating_add(bytes);
    }
    sum
}

/// A frame for others, which both formats have and which holds nothing.
fn skipped(rest: &mut Rest<'_>) -> Option<u64> {
    let mut ahead = Rest(rest.0);
    if ahead.number(4)? & !0xf != 0x184d_2a50 {
        return None;
    }
    let length = ahead.number(4)?;
    ahead.take(length)?;
    *rest = ahead;
    Some(0)
}

fn zstd_frame(rest: &mut Rest<'_>) -> Option<u64> {
    /// Of a block, decompressed: `Block_Maximum_Size`, where the window is no smaller.
    const BLOCK: u64 = 128 << 10;
    if rest.number(4)? != 0xfd2f_b528 {
        return None;
    }
    let descriptor = rest.number(1)?;
    let single_segment = descriptor & 0x20 != 0;
    rest.take(u64::from(!single_segment))?;
    rest.take([0, 1, 2, 4].into_iter().nth((descriptor & 3) as usize)?)?;
    let content = match descriptor >> 6 {
        0 if single_segment => Some(rest.number(1)?),
        0 => None,
        1 => Some(rest.number(2)? + 256),
        2 => Some(rest.number(4)?),
        _ => Some(rest.number(8)?),
    };
    let mut sum = 0_u64;
    loop {
        let header = rest.number(3)?;
        let size = header >> 3;
        let (stored, becomes) = match (header >> 1) & 3 {
            0 => (size, size),
            // One byte, repeated.
            1 => (1, size),
            2 => (size, BLOCK),
            _ => return None,
        };
        rest.take(stored)?;
        sum = sum.saturating_add(becomes.min(BLOCK));
        if header & 1 == 1 {
            break;
        }
    }
    // The checksum.
    rest.take(if descriptor & 4 == 0 { 0 } else { 4 })?;
    Some(content.map_or(sum, |content| content.min(sum)))
}

fn lz4_frame(rest: &mut Rest<'_>) -> Option<u64> {
    /// Bytes that a byte of a block can become: a match is made longer by 255 with each byte of its length.
    const RATIO: u64 = 255;
    const STORED: u64 = 1 << 31;
    if rest.number(4)? != 0x184d_2204 {
        return None;
    }
    let flags = rest.number(1)?;
    let block = match (rest.number(1)? >> 4) & 7 {
        size @ 4..=7 => 1_u64 << (8 + 2 * size),
        _ => return None,
    };
    let content = if flags & 8 == 0 { None } else { Some(rest.number(8)?) };
    let dictionary_id = if flags & 1 == 0 { 0 } else { 4 };
    let checksum = if flags & 0x10 == 0 { 0 } else { 4 };
    rest.take(dictionary_id + 1)?;
    let mut sum = 0_u64;
    // Without its end mark a frame ends where its bytes end: there are decoders that let it.
    while let Some(header @ 1..) = rest.number(4) {
        let size = header & !STORED;
        if rest.take(size + checksum).is_none() {
            break;
        }
        let becomes = if header & STORED == 0 { size * RATIO } else { size };
        sum = sum.saturating_add(becomes.min(block));
    }
    rest.take(if flags & 4 == 0 { 0 } else { 4 });
    Some(content.map_or(sum, |content| content.min(sum)))
}

/// What is not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of at most eight bytes, the lowest first.
    fn number(&mut self, length: u64) -> Option<u64> {
        Some(self.take(length)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// Runs of bytes, some of them long enough for many blocks.
    fn content() -> impl Strategy<Value = Vec<u8>> {
        let run = (any::<u8>(), prop_oneof![1..20_usize, 1..400_000_usize]);
        prop::collection::vec(run, 0..8)
            .prop_map(|runs| runs.into_iter().flat_map(|(byte, n)| std::iter::repeat_n(byte, n)).collect())
    }

    fn lz4(block_code: u8, flags: u8, blocks: &[(u32, &[u8])], content: Option<u64>) -> Vec<u8> {
        let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x40 | flags, block_code << 4];
        frame.extend(content.iter().flat_map(|n| n.to_le_bytes()));
        frame.push(0);
        for (header, bytes) in blocks {
            frame.extend(header.to_le_bytes());
            frame.extend(*bytes);
        }
        frame.extend([0; 4]);
        frame
    }

    #[test]
    fn lz4_blocks_become_what_their_frame_lets_them() {
        let at_most = |frame: &[u8]| most(CompressionType::LZ4_FRAME, frame);
        let stored = (1 << 31 | 5, &b"hello"[..]);
        assert_eq!(at_most(&lz4(4, 0, &[stored, (3, &b"abc"[..])], None)), 5 + 3 * 255);
        assert_eq!(at_most(&lz4(4, 0, &[(1000, &[0; 1000])], None)), 64 << 10);
        assert_eq!(at_most(&lz4(7, 0, &[(1000, &[0; 1000])], None)), 255_000);
        assert_eq!(at_most(&lz4(4, 8, &[(1000, &[0; 1000])], Some(77))), 77);
        // Checksums of blocks, two frames, one of others between them.
        let checked = lz4(4, 0x10, &[(1 << 31 | 1, &b"x1234"[..])], None);
        let other = [0x5a, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9];
        assert_eq!(at_most(&[checked.as_slice(), &other, &checked].concat()), 2);
        assert_eq!(at_most(b"anything else"), 0);
    }

    #[test]
    fn what_zstd_repeats_is_counted_by_block() {
        // No content size, a window of 1 KiB, one block that repeats a byte 100,000 times.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0];
        frame.extend(&(100_000_u32 << 3 | 1 << 1 | 1).to_le_bytes()[..3]);
        frame.push(b'x');
        assert_eq!(most(CompressionType::ZSTD, &frame), 100_000);
        assert_eq!(most(CompressionType::ZSTD, &frame[..8]), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn zstd_never_becomes_longer(content in content(), level in -5..20, written in 0..4_u8) {
            let length = content.len() as u64;
            let whole = ::zstd::bulk::compress(&content, level).unwrap();
            // Its length is in the header: no other is right.
            prop_assert_eq!(most(CompressionType::ZSTD, &whole), length);
            let mut encoder = ::zstd::stream::Encoder::new(Vec::new(), level).unwrap();
            encoder.include_checksum(written & 1 == 1).unwrap();
            encoder.include_contentsize(false).unwrap();
            for part in content.chunks(if written & 2 == 2 { 50_000 } else { usize::MAX }) {
                encoder.write_all(part).unwrap();
                encoder.flush().unwrap();
            }
            let streamed = encoder.finish().unwrap();
            let at_most = most(CompressionType::ZSTD, &streamed);
            prop_assert!(at_most >= length);
            let blocks = length / 50_000 + 3;
            prop_assert!(at_most <= length + (blocks * (128 << 10)), "{} of {}", at_most, length);
            prop_assert_eq!(most(CompressionType::ZSTD, &[whole.as_slice(), &streamed].concat()), length + at_most);
        }
    }
}

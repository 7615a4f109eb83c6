//! How is the work dealt out to partitions?
//!
//! ```text
//!   files, by size        groups (2)          in a group, newest day first
//!   9 ▓▓▓▓▓▓▓▓▓  ──cut──▶  ▓▓▓▓▓ ▓▓            06-06  06-04
//!   3 ▓▓▓                 ▓▓▓▓ ▓▓▓            06-06  06-05
//!   2 ▓▓
//! ```

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use super::{Piece, Task};

/// Files below this size are never cut: opening a file twice costs about as much as decoding a megabyte.
const WHOLE: u64 = 1 << 20;

/// Deals `tasks` to at most `partitions` groups (at least one, which may be empty): the largest piece first, each to the
/// group with the fewest bytes. A file is cut, at row-group starts only, where it is larger than a partition's fair share.
/// Each group reads its newest day first.
pub fn balance(tasks: &[Arc<Task>], partitions: usize) -> Vec<Vec<Piece>> {
    let partitions = partitions.max(1);
    let total = tasks.iter().map(|task| task.bytes()).fold(0, u64::saturating_add);
    let share = total.div_ceil(partitions as u64).max(WHOLE);
    let mut pieces: Vec<Piece> = tasks.iter().flat_map(|task| cut(task, share)).collect();
    pieces.sort_by_cached_key(|piece| Reverse((piece.bytes(), piece.task.age())));

    let mut groups: Vec<(u64, Vec<Piece>)> = vec![(0, Vec::new()); partitions.min(pieces.len()).max(1)];
    for piece in pieces {
        if let Some((bytes, group)) = groups.iter_mut().min_by_key(|(bytes, _)| *bytes) {
            *bytes = bytes.saturating_add(piece.bytes());
            group.push(piece);
        }
    }
    groups
        .into_iter()
        .map(|(_, mut group)| {
            group.sort_by_cached_key(|piece| (Reverse(piece.task.age()), piece.range.as_ref().map_or(0, |r| r.start)));
            group
        })
        .collect()
}

/// Cuts a file into pieces of about `share` bytes. Together they cover all of it.
fn cut(task: &Arc<Task>, share: u64) -> Vec<Piece> {
    let whole = || vec![Piece { task: Arc::clone(task), range: None }];
    let starts = match task.split_offsets() {
        Some(offsets) if task.bytes() > share => offsets,
        _ => return whole(),
    };
    let Some(ranges) = ranges(starts, task.bytes(), share) else {
        return whole();
    };
    ranges.into_iter().map(|range| Piece { task: Arc::clone(task), range: Some(range) }).collect()
}

/// Byte ranges of about `share` bytes over `0..size` that begin at `starts`, the starts of row groups; `None` where the
/// starts can't be trusted or nothing would be cut.
fn ranges(starts: &[i64], size: u64, share: u64) -> Option<Vec<Range<u64>>> {
    let starts: Vec<u64> = starts.iter().map(|start| u64::try_from(*start).ok()).collect::<Option<_>>()?;
    let sound = starts.is_sorted_by(|a, b| a < b) && starts.last().is_some_and(|last| *last < size);
    if !sound || starts.len() < 2 {
        return None;
    }
    let pieces = size.div_ceil(share).min(starts.len() as u64);
    let each = size.div_ceil(pieces);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut from = 0;
    for pair in starts.windows(2) {
        let [_, next] = pair else { continue };
        if next - from >= each {
            ranges.push(from..*next);
            from = *next;
        }
    }
    ranges.push(from..size);
    (ranges.len() > 1).then_some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_row_group_starts_and_covers_the_file() {
        assert_eq!(ranges(&[4, 100, 200, 300], 400, 200), Some(vec![0..200, 200..400]));
        assert_eq!(ranges(&[4, 100, 200, 300], 400, 50), Some(vec![0..100, 100..200, 200..300, 300..400]));
        assert_eq!(ranges(&[4, 390], 400, 200), Some(vec![0..390, 390..400]));
    }

    #[test]
    fn leaves_alone_what_cannot_be_cut() {
        assert_eq!(ranges(&[4], 400, 100), None, "one row group");
        assert_eq!(ranges(&[200, 4], 400, 100), None, "not sorted");
        assert_eq!(ranges(&[4, 4], 400, 100), None, "repeated");
        assert_eq!(ranges(&[4, 500], 400, 100), None, "past the end");
        assert_eq!(ranges(&[-4, 100], 400, 100), None, "negative");
        assert_eq!(ranges(&[], 400, 100), None);
    }
}

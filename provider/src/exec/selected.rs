//! What are the selected rows of a file: in bytes, and for the decoder?

use std::ops::Range;

use parquet::arrow::arrow_reader::RowSelection;

use super::footer::Footer;
use super::prune::Selection;

/// Stored bytes of a leaf column that hold selected rows.
pub(super) fn leaf_bytes(footer: &Footer, selection: &Selection, leaf: usize) -> u64 {
    selection.iter().map(|(group, rows)| chunk_bytes(footer, *group, leaf, rows.as_deref())).sum()
}

fn chunk_bytes(footer: &Footer, group: usize, leaf: usize, rows: Option<&[Range<usize>]>) -> u64 {
    let Some(row_group) = footer.metadata.row_groups().get(group) else { return 0 };
    let whole = row_group.columns().get(leaf).map_or(0, |column| column.compressed_size().max(0) as u64);
    let pages = footer.metadata.offset_index().and_then(|index| index.get(group)?.get(leaf));
    let (Some(rows), Some(pages)) = (rows, pages) else { return whole };
    let pages = pages.page_locations();
    let holds = |at: usize| {
        let start = pages.get(at).map_or(0, |page| page.first_row_index);
        let end = pages.get(at + 1).map_or(row_group.num_rows(), |page| page.first_row_index);
        rows.iter().any(|range| (range.start as i64) < end && start < range.end as i64)
    };
    let selected = pages.iter().enumerate().filter(|(at, _)| holds(*at));
    selected.map(|(_, page)| u64::try_from(page.compressed_page_size).unwrap_or_default()).sum()
}

/// The selected rows of the selected row groups, as the decoder wants them; `None`: all.
pub(super) fn overall(selection: &Selection, footer: &Footer) -> Option<RowSelection> {
    selection.iter().any(|(_, rows)| rows.is_some()).then_some(())?;
    let mut ranges = Vec::new();
    let mut before = 0;
    for (group, rows) in selection {
        let count = footer.metadata.row_groups().get(*group).map_or(0, |g| g.num_rows().max(0) as usize);
        match rows {
            Some(rows) => ranges.extend(rows.iter().map(|range| range.start + before..range.end + before)),
            None => ranges.push(before..before + count),
        }
        before += count;
    }
    Some(RowSelection::from_consecutive_ranges(ranges.into_iter(), before))
}

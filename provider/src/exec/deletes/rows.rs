//! How are deleted rows left out?
//!
//! ```text
//!   few runs of positions     taken out of the rows to decode: pages that hold nothing else are not read
//!   many                      decoded, and dropped by their number in the file
//!   keys                      decoded with the key columns, and compared
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use arrow::row::RowConverter;
use roaring::RoaringTreemap;

use super::Removal;
use super::equality::KeySet;
use super::keys::Key;
use crate::error::Result;
use crate::exec::footer::Footer;
use crate::exec::prune::Selection;
use crate::observe::{Reason, Tally};

/// Ranges of rows of one file beyond which a selection costs more than the rows: each is some 50 bytes by the time the
/// decoder runs.
const RANGES: usize = if cfg!(test) { 25 } else { 200_000 };

/// What is left of a selection of rows, and how.
pub(in crate::exec) struct Live {
    /// The row groups that have a row left, with the rows that pruning left.
    pub(in crate::exec) selection: Selection,
    /// The same without deleted rows; `None`: rows are dropped by number or not at all.
    pub(in crate::exec) rows: Option<Selection>,
    /// Deleted rows that `rows` left out.
    pub(in crate::exec) removed: u64,
    /// Rows have to be numbered.
    pub(in crate::exec) by_number: bool,
}

impl Removal {
    /// Takes deleted positions out of `selection`. Row groups without a row left are dropped and counted.
    pub(in crate::exec) fn select(&self, selection: Selection, footer: &Footer, groups: &mut Tally) -> Live {
        self.select_within(selection, footer, groups, RANGES)
    }

    fn select_within(&self, mut selection: Selection, footer: &Footer, groups: &mut Tally, most: usize) -> Live {
        let Some(deleted) = self.positions.as_deref().filter(|deleted| !deleted.is_empty()) else {
            return Live { selection, rows: None, removed: 0, by_number: false };
        };
        let positions = positions(footer);
        let of = |group: usize| positions.get(group).cloned().unwrap_or(0..0);
        let before = selection.len() as u64;
        selection.retain(|(group, _)| !covers(deleted, of(*group)));

        let mut live = Live { selection: Selection::new(), rows: None, removed: 0, by_number: false };
        let mut rows = Selection::new();
        let mut room = most;
        for (group, selected) in &selection {
            let of = of(*group);
            let all = std::iter::once(0..usize::try_from(of.end - of.start).unwrap_or(usize::MAX)).collect::<Vec<_>>();
            match without(selected.as_deref().unwrap_or(&all), deleted, of.start, room) {
                Some((kept, _)) if kept.is_empty() => {}
                Some((kept, removed)) => {
                    room -= kept.len();
                    live.removed += removed;
                    live.selection.push((*group, selected.clone()));
                    rows.push((*group, Some(kept)));
                }
                None if numbered(footer) => {
                    groups.demote(Reason::Deleted, before - selection.len() as u64);
                    return Live { selection, rows: None, removed: 0, by_number: true };
                }
                // Row numbers can't be trusted: the selection may cost what it costs.
                None => {
                    groups.demote(Reason::Deleted, before - selection.len() as u64);
                    return self.select_within(selection, footer, groups, usize::MAX);
                }
            }
        }
        groups.demote(Reason::Deleted, before - live.selection.len() as u64);
        live.rows = Some(rows);
        live
    }

    /// The table columns that are compared.
    pub(in crate::exec) fn columns(&self) -> Vec<usize> {
        let own = self.keys.iter().flat_map(|(key, _)| key.roots());
        own.chain(self.only.iter().flat_map(|only| only.columns())).collect()
    }

    /// What tests decoded batches whose columns are the table's `columns`; `None` where none is needed.
    pub(in crate::exec) fn after_decoding(&self, columns: &[usize], by_number: bool) -> Result<Option<Removing>> {
        let probes = self
            .keys
            .iter()
            .map(|(key, sets)| Ok(Probe { key: Arc::clone(key), sets: sets.clone(), converter: key.converter()? }));
        let probes: Vec<Probe> = probes.collect::<Result<_>>()?;
        let numbers = self.positions.clone().filter(|_| by_number);
        let only = match &self.only {
            Some(only) => only.after_decoding(columns, true)?.map(Box::new),
            None => None,
        };
        let needed = numbers.is_some() || !probes.is_empty() || only.is_some();
        Ok(needed.then(|| Removing { numbers, probes, columns: columns.to_vec(), only }))
    }
}

/// The rows of each row group, as positions in the file.
fn positions(footer: &Footer) -> Vec<Range<u64>> {
    let mut next = 0;
    let rows = footer.metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or_default());
    rows.map(|rows| {
        let start = next;
        next += rows;
        start..next
    })
    .collect()
}

fn covers(deleted: &RoaringTreemap, rows: Range<u64>) -> bool {
    !rows.is_empty() && deleted.range_cardinality(rows.clone()) == rows.end - rows.start
}

/// Whether the decoder's row numbers are positions: it counts by the ordinals that the footer gives the row groups.
pub(in crate::exec) fn numbered(footer: &Footer) -> bool {
    let ordinals = footer.metadata.row_groups().iter().map(|group| group.ordinal());
    ordinals.enumerate().all(|(at, ordinal)| ordinal.map(usize::try_from) == Some(Ok(at)))
}

/// `selected` without deleted rows, and how many those were; `first` is the position of row 0. `None` for more than `most`
/// ranges.
fn without(
    selected: &[Range<usize>],
    deleted: &RoaringTreemap,
    first: u64,
    most: usize,
) -> Option<(Vec<Range<usize>>, u64)> {
    let mut kept = Vec::new();
    let mut removed = 0;
    for range in selected {
        let mut from = range.start;
        let (start, end) = (first + range.start as u64, first + range.end as u64);
        for run in runs(deleted, start..end) {
            // Inside `range`, so it fits.
            let (gone, next) = ((run.start - first) as usize, (run.end - first) as usize);
            if gone > from {
                kept.push(from..gone);
            }
            removed += run.end - run.start;
            from = next;
            if kept.len() > most {
                return None;
            }
        }
        if from < range.end {
            kept.push(from..range.end);
        }
    }
    (kept.len() <= most).then_some((kept, removed))
}

/// Positions beyond which it pays to search for the end of each run, instead of looking at each position.
const MANY: u64 = if cfg!(test) { 20 } else { 1 << 16 };

/// Runs of deleted positions in `rows`, ascending.
fn runs(deleted: &RoaringTreemap, rows: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    deleted.bitmaps().flat_map(move |(high, bitmap)| {
        let base = u64::from(high) << 32;
        let (from, to) = (rows.start.max(base), rows.end.min(base + (1 << 32)));
        let within = (from < to).then(|| (from - base) as u32..=(to - 1 - base) as u32);
        let many = within.clone().is_some_and(|within| bitmap.range_cardinality(within) > MANY);
        let mut each = within.map(|within| bitmap.range(within));
        let mut ahead = None;
        std::iter::from_fn(move || {
            let each = each.as_mut()?;
            let (first, last) = match many {
                true => each.next_range()?.into_inner(),
                false => {
                    let first = ahead.take().or_else(|| each.next())?;
                    let mut last = first;
                    loop {
                        ahead = each.next();
                        match ahead {
                            Some(next) if next == last + 1 => last = next,
                            _ => break (first, last),
                        }
                    }
                }
            };
            Some(base + u64::from(first)..base + u64::from(last) + 1)
        })
    })
}

/// Drops deleted rows of decoded batches.
pub(in crate::exec) struct Removing {
    numbers: Option<Arc<RoaringTreemap>>,
    probes: Vec<Probe>,
    /// The table columns of the batches.
    columns: Vec<usize>,
    /// Rows that this would leave are dropped.
    only: Option<Box<Removing>>,
}

struct Probe {
    key: Arc<Key>,
    sets: Vec<Arc<KeySet>>,
    converter: RowConverter,
}

impl Removing {
    /// Whether rows have to be numbered.
    pub(in crate::exec) fn numbered(&self) -> bool {
        self.numbers.is_some() || self.only.as_ref().is_some_and(|only| only.numbered())
    }

    /// `batch` without deleted rows; `numbers` are the rows' positions, where they were asked for.
    pub(in crate::exec) fn apply(
        &self,
        batch: RecordBatch,
        numbers: Option<&ArrayRef>,
    ) -> Result<RecordBatch, ArrowError> {
        let mut live = self.live(&batch, numbers)?;
        if let Some(only) = &self.only {
            live.iter_mut().zip(only.live(&batch, numbers)?).for_each(|(live, left)| *live = *live && !left);
        }
        match live.iter().all(|live| *live) {
            true => Ok(batch),
            false => filter_record_batch(&batch, &BooleanArray::from(live)),
        }
    }

    /// For each row, whether nothing deletes it.
    fn live(&self, batch: &RecordBatch, numbers: Option<&ArrayRef>) -> Result<Vec<bool>, ArrowError> {
        let mut live = vec![true; batch.num_rows()];
        if let Some(deleted) = &self.numbers {
            let numbers = numbers.and_then(|numbers| numbers.as_primitive_opt::<Int64Type>());
            let numbers = numbers.ok_or_else(|| ArrowError::SchemaError("rows were not numbered".to_owned()))?;
            for (live, number) in live.iter_mut().zip(numbers.values()) {
                *live = u64::try_from(*number).is_ok_and(|number| !deleted.contains(number));
            }
        }
        for Probe { key, sets, converter } in &self.probes {
            let at = |root: usize| self.columns.binary_search(&root).ok().and_then(|at| batch.columns().get(at));
            let rows = key.of_rows(converter, at)?;
            for (live, row) in live.iter_mut().zip(rows.iter()) {
                *live = *live && !sets.iter().any(|set| set.contains(row.as_ref()));
            }
        }
        Ok(live)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn kept_and_removed_are_what_was_selected(
            deleted in prop::collection::btree_set(0..300_u64, 0..120),
            cuts in prop::collection::btree_set(0..200_usize, 0..12),
            first in 0..60_u64,
        ) {
            let cuts: Vec<usize> = cuts.into_iter().collect();
            let selected: Vec<Range<usize>> =
                cuts.chunks(2).filter_map(|c| Some(*c.first()?..*c.get(1)?)).collect();
            let treemap: RoaringTreemap = deleted.iter().copied().collect();
            let (kept, removed) = without(&selected, &treemap, first, usize::MAX).unwrap();
            let expected: Vec<usize> =
                selected.iter().cloned().flatten().filter(|row| !deleted.contains(&(first + *row as u64))).collect();
            prop_assert_eq!(kept.iter().cloned().flatten().collect::<Vec<_>>(), expected.clone());
            let all: usize = selected.iter().map(|range| range.len()).sum();
            prop_assert_eq!(removed, (all - expected.len()) as u64);
            prop_assert!(without(&selected, &treemap, first, kept.len()).is_some());
            if !kept.is_empty() {
                prop_assert!(without(&selected, &treemap, first, kept.len() - 1).is_none());
            }
        }
    }

    #[test]
    fn runs_cross_the_words_of_a_bitmap_and_of_the_map() {
        let mut deleted = RoaringTreemap::new();
        deleted.insert_range(60_000..70_000);
        deleted.insert_range((1 << 32) - 2..(1 << 32) + 3);
        let found: Vec<_> = runs(&deleted, 0..u64::MAX).collect();
        assert_eq!(found, [60_000..70_000, (1 << 32) - 2..1 << 32, 1 << 32..(1 << 32) + 3]);
        assert_eq!(
            runs(&deleted, 65_000..65_010).collect::<Vec<_>>(),
            std::iter::once(65_000..65_010).collect::<Vec<_>>()
        );
        assert!(covers(&deleted, 60_000..70_000) && !covers(&deleted, 59_999..70_000) && !covers(&deleted, 5..5));
    }
}

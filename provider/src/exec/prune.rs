//! Which row groups and pages of a file can hold a matching row?
//!
//! ```text
//!   row groups   statistics ──▶ bloom filters ──▶ page index ──▶ rows to decode
//!   ▓▓▓▓ ▓▓▓▓    ▓▓▓▓           ▓▓▓▓              ░▓░░           4096..8192
//! ```
//!
//! "If a row matches, its row group is kept and its rows are selected." Everything is evaluated by the same code over
//! [`Facts`] that prunes files, so that nulls and NaN are treated alike at every level.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use iceberg::spec::Schema;
use parquet::bloom_filter::Sbbf;

use super::absent;
use super::footer::{Footer, Footers, Place};
use super::reader::FileIo;
use super::stored::Stored;
use crate::error::Result;
use crate::observe::{Reason, Tally};
use crate::predicate::{Facts, Op, Predicate, Value};
use crate::scan::{Task, primitive};
use crate::schema::path;

/// Row groups to read, in order, and for each the rows that may match (`None`: all).
pub(super) type Selection = Vec<(usize, Option<Vec<Range<usize>>>)>;

/// A column's pages: their rows in the row group, and what is known of them.
type PageFacts = Vec<(Range<usize>, Facts)>;

/// A file's columns as far as predicates ask for them.
pub(super) struct FileFacts<'a> {
    footer: &'a Footer,
    task: &'a Task,
    schema: &'a Schema,
    columns: HashMap<i32, Column>,
}

enum Column {
    Stored(Stored),
    /// Not in the file: every row has this value.
    Absent(Option<Value>),
    /// In the file, in a form whose statistics aren't used.
    Opaque,
}

impl<'a> FileFacts<'a> {
    /// Looks up the columns that `predicates` name.
    pub(super) fn new<'p>(
        footer: &'a Footer,
        task: &'a Task,
        schema: &'a Schema,
        predicates: impl IntoIterator<Item = &'p Predicate>,
    ) -> Self {
        let fields: BTreeSet<i32> = predicates.into_iter().flat_map(Predicate::fields).collect();
        let column = |field: i32| {
            let Some(table) = primitive(schema, field) else {
                return Column::Opaque;
            };
            let path: Vec<i32> = path(schema, field).into_iter().flatten().map(|field| field.id).collect();
            match footer.place(&path) {
                Place::Leaf(leaf) => Stored::new(&footer.metadata, leaf, table).map_or(Column::Opaque, Column::Stored),
                Place::Nowhere => absent::everywhere(&path, task, schema).map_or(Column::Opaque, Column::Absent),
                Place::Other => Column::Opaque,
            }
        };
        let columns = fields.into_iter().map(|field| (field, column(field))).collect();
        FileFacts { footer, task, schema, columns }
    }

    /// What is known of a column in one row group, from the row group and from the manifest.
    pub(super) fn of_group(&self, group: usize, field: i32) -> Facts {
        let rows = self.footer.metadata.row_groups().get(group).map(|g| g.num_rows().max(0) as u64);
        match self.columns.get(&field) {
            Some(Column::Stored(stored)) => self.without_nan(field, stored.of_group(&self.footer.metadata, group)),
            Some(Column::Absent(value)) => everywhere(value.as_ref(), rows),
            Some(Column::Opaque) | None => Facts::default(),
        }
    }

    /// A file without NaN has none in its parts: only the manifest counts them.
    fn without_nan(&self, field: i32, mut facts: Facts) -> Facts {
        if facts.float && facts.nans.is_none() && self.task.facts(self.schema, field).nans == Some(0) {
            facts.nans = Some(0);
        }
        facts
    }

    /// Keeps the row groups that `range` owns and that may match by their statistics.
    pub(super) fn keep_groups(
        &self,
        range: Option<&Range<u64>>,
        predicates: &[&Predicate],
        tally: &mut Tally,
    ) -> Vec<usize> {
        let owned = (0..self.footer.metadata.num_row_groups())
            .filter(|group| range.is_none_or(|range| self.owns(range, *group)))
            .collect();
        tally.keep(owned, Reason::Statistics, |group| {
            predicates.iter().all(|predicate| predicate.may_match(&|field| self.of_group(*group, field)))
        })
    }

    /// Whether the piece of the file at `range` reads a row group. The last piece reads to the end of the file, which may be
    /// later than the manifest says.
    fn owns(&self, range: &Range<u64>, group: usize) -> bool {
        let start = self.start(group);
        range.start <= start && (start < range.end || range.end >= self.task.bytes())
    }

    /// Where a row group starts in the file: what decides which piece of a file owns it.
    fn start(&self, group: usize) -> u64 {
        let first = self.footer.metadata.row_groups().get(group).and_then(|g| g.columns().first());
        first.map_or(0, |column| column.byte_range().0)
    }

    /// Keeps the row groups that bloom filters don't exclude.
    pub(super) async fn keep_by_blooms(
        &self,
        groups: Vec<usize>,
        predicates: &[&Predicate],
        footers: &Footers,
        io: &FileIo,
        tally: &mut Tally,
    ) -> Result<Vec<usize>> {
        let mut asked = BTreeSet::new();
        predicates.iter().for_each(|predicate| equalities_of(predicate, &mut asked));
        let leaves: Vec<usize> = asked.iter().filter_map(|field| Some(self.stored(*field)?.leaf)).collect();
        let wanted: Vec<(usize, usize)> =
            groups.iter().flat_map(|group| leaves.iter().map(move |leaf| (*group, *leaf))).collect();
        if wanted.is_empty() {
            return Ok(groups);
        }
        let blooms = footers.blooms(&self.task.object, io, self.footer, &wanted).await?;
        let kept: Vec<usize> = groups
            .iter()
            .copied()
            .filter(|group| predicates.iter().all(|predicate| self.bloom_may_match(predicate, *group, &blooms)))
            .collect();
        tally.demote(Reason::BloomFilter, (groups.len() - kept.len()) as u64);
        Ok(kept)
    }

    fn bloom_may_match(
        &self,
        predicate: &Predicate,
        group: usize,
        blooms: &HashMap<(usize, usize), Arc<Sbbf>>,
    ) -> bool {
        let may_hold = |field: &i32, value: &Value| {
            let Some(stored) = self.stored(*field) else { return true };
            let bloom = blooms.get(&(group, stored.leaf));
            bloom.is_none_or(|bloom| stored.bloom_may_hold(&self.footer.metadata, bloom, value))
        };
        match predicate {
            Predicate::And(all) => all.iter().all(|p| self.bloom_may_match(p, group, blooms)),
            Predicate::Or(any) => any.iter().any(|p| self.bloom_may_match(p, group, blooms)),
            Predicate::Compare { field, op: Op::Eq, value } => may_hold(field, value),
            Predicate::In { field, values } => values.iter().any(|value| may_hold(field, value)),
            Predicate::False => false,
            _ => true,
        }
    }

    fn stored(&self, field: i32) -> Option<&Stored> {
        match self.columns.get(&field) {
            Some(Column::Stored(stored)) => Some(stored),
            _ => None,
        }
    }

    /// Selects rows by the page index; row groups without any are dropped.
    pub(super) fn select_rows(&self, groups: Vec<usize>, predicates: &[&Predicate], tally: &mut Tally) -> Selection {
        let before = groups.len();
        let mut kept = Selection::new();
        for group in groups {
            let rows = self.footer.metadata.row_groups().get(group).map_or(0, |g| g.num_rows().max(0) as usize);
            let mut pages = Pages { facts: self, group, rows, cache: HashMap::new() };
            let all = || std::iter::once(0..rows).collect::<Vec<_>>();
            let ranges = predicates.iter().fold(all(), |ranges, p| intersect(&ranges, &pages.rows_of(p)));
            match ranges.as_slice() {
                [] => {}
                [range] if range.len() == rows => kept.push((group, None)),
                _ => kept.push((group, Some(ranges))),
            }
        }
        tally.demote(Reason::PageIndex, (before - kept.len()) as u64);
        kept
    }
}

/// The page index of one row group, column by column as predicates ask for it.
struct Pages<'a> {
    facts: &'a FileFacts<'a>,
    group: usize,
    rows: usize,
    cache: HashMap<i32, Option<PageFacts>>,
}

impl Pages<'_> {
    /// The rows that may match: pages of different columns have different bounds, so each condition is evaluated over the
    /// pages of its own column and the row ranges are combined.
    fn rows_of(&mut self, predicate: &Predicate) -> Vec<Range<usize>> {
        let all: Vec<_> = std::iter::once(0..self.rows).collect();
        match predicate {
            Predicate::True => all,
            Predicate::False => Vec::new(),
            Predicate::And(each) => each.iter().fold(all, |rows, p| intersect(&rows, &self.rows_of(p))),
            Predicate::Or(any) => union(any.iter().flat_map(|p| self.rows_of(p)).collect()),
            Predicate::Compare { field, .. }
            | Predicate::In { field, .. }
            | Predicate::NotIn { field, .. }
            | Predicate::Bucket { field, .. }
            | Predicate::Cycle { field, .. }
            | Predicate::IsNull { field }
            | Predicate::IsNotNull { field } => match self.pages(*field) {
                Some(pages) => {
                    let may_match = |facts: &Facts| predicate.may_match(&|_| facts.clone());
                    union(pages.iter().filter(|(_, facts)| may_match(facts)).map(|(rows, _)| rows.clone()).collect())
                }
                None => all,
            },
        }
    }

    fn pages(&mut self, field: i32) -> Option<&PageFacts> {
        let (facts, group) = (self.facts, self.group);
        let pages = self.cache.entry(field).or_insert_with(|| {
            let pages = facts.stored(field)?.of_pages(&facts.footer.metadata, group)?;
            Some(pages.into_iter().map(|(rows, page)| (rows, facts.without_nan(field, page))).collect())
        });
        pages.as_ref()
    }
}

/// The facts of a column that has one value in every row.
fn everywhere(value: Option<&Value>, rows: Option<u64>) -> Facts {
    match value {
        None => Facts { nulls: rows, nans: Some(0), rows, ..Facts::default() },
        Some(Value::Double(v)) if v.is_nan() => {
            Facts { nulls: Some(0), nans: rows, rows, float: true, ..Facts::default() }
        }
        Some(value) => Facts {
            lower: Some(value.clone()),
            upper: Some(value.clone()),
            nulls: Some(0),
            nans: Some(0),
            rows,
            float: matches!(value, Value::Double(_)),
        },
    }
}

/// The columns that a bloom filter could speak of.
fn equalities_of(predicate: &Predicate, fields: &mut BTreeSet<i32>) {
    match predicate {
        Predicate::And(all) | Predicate::Or(all) => all.iter().for_each(|p| equalities_of(p, fields)),
        Predicate::Compare { field, op: Op::Eq, .. } | Predicate::In { field, .. } => {
            fields.insert(*field);
        }
        _ => {}
    }
}

/// The rows in both; both are ascending and disjoint.
fn intersect(a: &[Range<usize>], b: &[Range<usize>]) -> Vec<Range<usize>> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        let common = x.start.max(y.start)..x.end.min(y.end);
        if !common.is_empty() {
            both.push(common);
        }
        if x.end <= y.end {
            a.next()
        } else {
            b.next()
        };
    }
    both
}

/// The rows in any, ascending and disjoint.
fn union(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_ranges_combine() {
        assert_eq!(intersect(&[0..10, 20..30], &[5..21, 21..25]), vec![5..10, 20..21, 21..25]);
        assert_eq!(intersect(&[0..5, 5..10], &[10..20, 30..40]), Vec::<Range<usize>>::new());
        assert_eq!(union(vec![20..30, 0..10, 10..12, 5..6, 7..7]), vec![0..12, 20..30]);
    }
}

//! Which delete files apply to which data file?
//!
//! ```text
//!                      in scope                                        sequence number of the delete file
//!   deletion vector    the data file it names                          ≥ the data file's
//!   position deletes   the path it names, else its partition           ≥ the data file's
//!   equality deletes   its partition; everything if unpartitioned      > the data file's
//! ```
//!
//! Table specification, "Scan Planning". A partition is a spec and the values of its tuple. Each delete file is counted as
//! kept if one data file that is read carries it, else as skipped, for the reason that came nearest to keeping it.

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt, iter};
use iceberg::spec::{DataFile, Datum, ManifestContentType, PrimitiveLiteral, Struct};

use super::deletes::{DeleteFile, DeleteKind, Deletes};
use super::manifests::{MANIFESTS_AT_ONCE, Projections, count_live, read};
use super::object::Places;
use super::{Ledger, Task, View, facts};
use crate::error::Result;
use crate::metadata::{Entry, List};
use crate::observe::Reason;
use crate::predicate::Facts;

/// Reserved field id of `file_path` in position delete files.
const FILE_PATH: i32 = i32::MAX - 101;

/// Gives each of `tasks` the delete files that apply to it. Reads the delete manifests that may hold one.
pub(super) async fn attach(
    view: &View,
    specs: &Projections,
    manifests: &List,
    tasks: &mut [Task],
    ledger: &mut Ledger,
) -> Result<()> {
    let oldest = tasks.iter().map(Task::sequence_number).min();
    let mut kept = Vec::new();
    let deletes = manifests.iter().enumerate().filter(|(_, m)| m.content == ManifestContentType::Deletes);
    for (place, manifest) in deletes {
        // No entry is newer than the manifest that holds it.
        let recent = oldest.is_some_and(|oldest| oldest <= manifest.sequence_number);
        if recent && specs.may_delete(view, (place, manifest), tasks) {
            kept.push(manifest);
        } else {
            let files = count_live(view, manifest, ledger).await?;
            ledger.delete_files.skip(Reason::Manifest, files);
        }
    }
    if kept.is_empty() {
        return Ok(());
    }
    let reads: Vec<_> = kept.into_iter().map(|manifest| read(view, manifest)).collect();
    let read: Vec<_> = iter(reads).buffered(MANIFESTS_AT_ONCE).try_collect().await?;
    let (mut index, mut places) = (Index::default(), Places::of(view));
    for (manifest, fetched) in read {
        ledger.fetched(fetched);
        let may_hold = specs.may_hold(&manifest);
        for at in manifest.live() {
            if manifest.tuple_of(at).and_then(|tuple| may_hold.get(tuple)).is_none_or(|may| *may) {
                index.add(view, DeleteFile::new(manifest.entry(at)?, &mut places)?)?;
            } else {
                ledger.delete_files.skip(Reason::Partition, 1);
            }
        }
    }
    for task in tasks.iter_mut() {
        task.deletes = index.of(view, task)?;
    }
    index.settle(ledger);
    Ok(())
}

/// What came of a delete file, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    OutOfScope,
    TooOld,
    OutOfBounds,
    Superseded,
    Kept,
}

/// A partition: the spec's id and the tuple.
type Partition = (i32, Vec<Option<PrimitiveLiteral>>);

/// Delete files by what they apply to; numbers are places in `files`.
#[derive(Default)]
struct Index {
    files: Vec<(Arc<DeleteFile>, Fate)>,
    vectors: HashMap<String, usize>,
    paths: HashMap<String, Vec<usize>>,
    positions: HashMap<Partition, Vec<usize>>,
    equality: HashMap<Partition, Vec<usize>>,
    global: Vec<usize>,
}

impl Index {
    fn add(&mut self, view: &View, delete: DeleteFile) -> Result<()> {
        let (number, file) = (self.files.len(), delete.file());
        match &delete.kind {
            DeleteKind::Vector { .. } => {
                let path = file.referenced_data_file().unwrap_or_default();
                if let Some(other) = self.vectors.insert(path.clone(), number) {
                    let other = self.files.get(other).map(|(file, _)| file.object.location.clone());
                    let error = delete.object.corrupt("a data file has two deletion vectors");
                    return Err(error.with("data_file", path).with("other", other.unwrap_or_default()));
                }
            }
            DeleteKind::Positions => match only_path(file) {
                Some(path) => self.paths.entry(path).or_default().push(number),
                None => self.positions.entry(partition_of(delete.entry())).or_default().push(number),
            },
            DeleteKind::Equality { .. } => {
                let spec = view.metadata.partition_spec_by_id(delete.entry().spec_id);
                match spec.is_some_and(|spec| spec.is_unpartitioned()) {
                    true => self.global.push(number),
                    false => self.equality.entry(partition_of(delete.entry())).or_default().push(number),
                }
            }
        }
        self.files.push((Arc::new(delete), Fate::OutOfScope));
        Ok(())
    }

    /// The delete files that apply to a data file.
    fn of(&mut self, view: &View, task: &Task) -> Result<Deletes> {
        let (path, partition) = (task.file_path(), partition(task.spec_id(), task.partition()));
        let in_scope = |by: &HashMap<Partition, Vec<usize>>| by.get(&partition).cloned().unwrap_or_default();
        let vector = self.vectors.get(path).copied();
        let positions = [self.paths.get(path).cloned().unwrap_or_default(), in_scope(&self.positions)].concat();
        let equality = [in_scope(&self.equality), self.global.clone()].concat();

        let age = task.sequence_number();
        let mut deletes = Deletes::default();
        if let Some(number) = vector {
            let judge = |file: &DeleteFile| if file.entry().sequence_number >= age { Fate::Kept } else { Fate::TooOld };
            deletes.vector = self.judge(number, judge);
        }
        if let Some(vector) = &deletes.vector
            && vector.file().record_count() > task.rows()
        {
            let error = vector.object.corrupt("a deletion vector deletes more rows than its data file has");
            return Err(error.with("data_file", path));
        }
        let superseded = deletes.vector.is_some();
        for number in positions {
            deletes.positions.extend(self.judge(number, |file| match () {
                () if file.entry().sequence_number < age => Fate::TooOld,
                () if !may_name(file.file(), path) => Fate::OutOfBounds,
                () if superseded => Fate::Superseded,
                () => Fate::Kept,
            }));
        }
        for number in equality {
            deletes.equality.extend(self.judge(number, |file| match () {
                () if file.entry().sequence_number <= age => Fate::TooOld,
                () if !may_equal(view, file, task) => Fate::OutOfBounds,
                () => Fate::Kept,
            }));
        }
        Ok(deletes)
    }

    /// The file, if it is kept for a data file.
    fn judge(&mut self, number: usize, judge: impl FnOnce(&DeleteFile) -> Fate) -> Option<Arc<DeleteFile>> {
        let (file, fate) = self.files.get_mut(number)?;
        let judged = judge(file);
        *fate = judged.max(*fate);
        (judged == Fate::Kept).then(|| Arc::clone(file))
    }

    fn settle(&self, ledger: &mut Ledger) {
        for (_, fate) in &self.files {
            match fate {
                Fate::Kept => ledger.delete_files.kept_more(1),
                Fate::OutOfScope => ledger.delete_files.skip(Reason::Scope, 1),
                Fate::TooOld => ledger.delete_files.skip(Reason::SequenceNumber, 1),
                Fate::OutOfBounds => ledger.delete_files.skip(Reason::ColumnBounds, 1),
                Fate::Superseded => ledger.delete_files.skip(Reason::Superseded, 1),
            }
        }
    }
}

/// A tuple in a form in which equal values are equal: columns may be widened between two manifests, and a floating point
/// value is its bits.
fn partition(spec_id: i32, tuple: Option<&Struct>) -> Partition {
    let canonical = |literal: PrimitiveLiteral| {
        let double = |x: f64| PrimitiveLiteral::Long(if x.is_nan() { f64::NAN } else { x }.to_bits().cast_signed());
        match literal {
            PrimitiveLiteral::Int(x) => PrimitiveLiteral::Long(i64::from(x)),
            PrimitiveLiteral::Float(x) => double(f64::from(x.0)),
            PrimitiveLiteral::Double(x) => double(x.0),
            other => other,
        }
    };
    let values = tuple.map(Struct::fields).unwrap_or_default().iter();
    (spec_id, values.map(|value| value.as_ref()?.as_primitive_literal().map(canonical)).collect())
}

fn partition_of(entry: &Entry) -> Partition {
    partition(entry.spec_id, Some(entry.file.partition()))
}

/// The one data file that a position delete file names: by its entry, or because both bounds of its paths are that path
/// (a shortened upper bound is never equal to the lower one).
fn only_path(file: &DataFile) -> Option<String> {
    file.referenced_data_file().or_else(|| {
        let (lower, upper) = paths(file);
        lower.filter(|lower| Some(*lower) == upper).map(str::to_owned)
    })
}

/// Whether a position delete file may name `path`, by the bounds of its paths.
fn may_name(file: &DataFile, path: &str) -> bool {
    is_within(paths(file), path)
}

fn is_within(bounds: (Option<&str>, Option<&str>), path: &str) -> bool {
    match bounds {
        // Bounds that contradict each other say nothing.
        (Some(lower), Some(upper)) if lower > upper => true,
        (lower, upper) => lower.is_none_or(|lower| lower <= path) && upper.is_none_or(|upper| path <= upper),
    }
}

fn paths(file: &DataFile) -> (Option<&str>, Option<&str>) {
    fn text(bound: Option<&Datum>) -> Option<&str> {
        match bound?.literal() {
            PrimitiveLiteral::String(path) => Some(path),
            _ => None,
        }
    }
    (text(file.lower_bounds().get(&FILE_PATH)), text(file.upper_bounds().get(&FILE_PATH)))
}

/// Whether a row of an equality delete file may equal a row of a data file, by the bounds and counts of its keys.
fn may_equal(view: &View, delete: &DeleteFile, task: &Task) -> bool {
    let DeleteKind::Equality { ids } = &delete.kind else { return true };
    ids.iter().all(|id| {
        let deleted = facts::of_file(delete.file(), &view.schema, *id);
        share_a_value(&deleted, &task.facts(&view.schema, *id))
    })
}

/// Whether two sets of rows may have a value of one column in common; null is a value here.
fn share_a_value(a: &Facts, b: &Facts) -> bool {
    let both_null = a.nulls != Some(0) && b.nulls != Some(0);
    // Bounds leave out NaN, and not every writer orders the zeros alike.
    if both_null || a.float || b.float {
        return true;
    }
    let contradicts = |facts: &Facts| match (&facts.lower, &facts.upper) {
        (Some(lower), Some(upper)) => lower.order(upper) == Some(std::cmp::Ordering::Greater),
        _ => false,
    };
    if contradicts(a) || contradicts(b) {
        return true;
    }
    let only_nulls = |facts: &Facts| facts.nulls.is_some() && facts.nulls == facts.rows;
    let before = |x: &Facts, y: &Facts| match (&x.upper, &y.lower) {
        (Some(upper), Some(lower)) => upper.order(lower) == Some(std::cmp::Ordering::Less),
        _ => false,
    };
    !(only_nulls(a) || only_nulls(b) || before(a, b) || before(b, a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicate::Value;

    fn facts(range: Option<(i64, i64)>, nulls: Option<u64>) -> Facts {
        let (lower, upper) = range.map(|(l, u)| (Value::Long(l), Value::Long(u))).unzip();
        Facts { lower, upper, nulls, rows: Some(10), ..Facts::default() }
    }

    #[test]
    fn values_are_shared_unless_bounds_and_counts_exclude_it() {
        let cases = [
            (facts(Some((1, 3)), Some(0)), facts(Some((4, 9)), Some(0)), false),
            (facts(Some((1, 4)), Some(0)), facts(Some((4, 9)), Some(0)), true),
            (facts(Some((1, 3)), Some(2)), facts(Some((4, 9)), Some(1)), true),
            (facts(Some((1, 3)), Some(2)), facts(Some((4, 9)), Some(0)), false),
            (facts(Some((1, 3)), None), facts(Some((4, 9)), Some(0)), false),
            (facts(Some((1, 3)), None), facts(Some((4, 9)), None), true),
            (facts(None, Some(10)), facts(Some((4, 9)), Some(0)), false),
            (facts(None, Some(10)), facts(Some((4, 9)), None), true),
            (facts(None, Some(0)), facts(Some((4, 9)), Some(0)), true),
            // Bounds that contradict each other exclude nothing.
            (facts(Some((3, 1)), Some(0)), facts(Some((4, 9)), Some(0)), true),
            (facts(Some((5, 6)), Some(0)), facts(Some((9, 4)), Some(0)), true),
            (facts(Some((9, 4)), Some(0)), facts(Some((1, 3)), Some(0)), true),
        ];
        for (a, b, shared) in cases {
            assert_eq!((share_a_value(&a, &b), share_a_value(&b, &a)), (shared, shared), "{a:?} {b:?}");
        }
        let nan = Facts { float: true, ..facts(Some((1, 3)), Some(0)) };
        assert!(share_a_value(&nan, &facts(Some((4, 9)), Some(0))), "bounds say nothing of NaN");
    }

    #[test]
    fn a_path_is_within_bounds_unless_they_exclude_it() {
        for (bounds, within) in [
            ((Some("b"), Some("d")), true),
            ((Some("c"), None), true),
            ((Some("d"), None), false),
            ((None, Some("b")), false),
            ((None, None), true),
            ((Some("d"), Some("b")), true),
        ] {
            assert_eq!(is_within(bounds, "c"), within, "{bounds:?}");
        }
    }
}

//! Which rows can't be among the best of a sort with a limit, whatever else is read?
//!
//! ```text
//!   ORDER BY ts DESC LIMIT 2     ts of a row group     5  9  4  8  7  9
//!     collecting                 the best two so far   5  59 59 98 98 99
//!                                kept                  5  9     8     9
//!     settling                   left to decode           9           9
//! ```
//!
//! The decoder reads the keys of all rows of a row group before it reads anything else of them. So the best rows of the row
//! group are known by then, and of the other columns only theirs are decoded, which for large values is nearly nothing. A
//! filter that moves comes too late for that: it narrows when rows have been given out.
//!
//! A row may be left out if so many others of its partition, all of them given out, come before it. So nothing may be dropped
//! after these tests but what filters that move exclude, which is wanted by nobody.
// @spec P5

mod rule;

use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::error::ArrowError;
use arrow::row::{OwnedRow, Row, RowConverter, Rows, SortField};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowPredicate;

pub use rule::TopKPushdown;

use super::columns::Reshape;
use crate::scan::View;

/// Rows wanted beyond which little is spared: the keys of that many are held for each partition.
const MOST: usize = 8192;

/// The rows that are wanted of a scan: so many, and in which order they are the best.
#[derive(Clone, Debug)]
pub(super) struct TopK {
    pub(super) fetch: usize,
    keys: Vec<Key>,
    /// Whether the sort has no other keys, so that of equals it takes any.
    complete: bool,
}

#[derive(Clone, Debug)]
struct Key {
    column: usize,
    field: SortField,
}

impl TopK {
    /// The first keys of `order` that are columns of values of one size, by what a scan of `view` projects; `None` where
    /// not even the first is one.
    pub(super) fn of(
        fetch: usize,
        order: &[PhysicalSortExpr],
        projection: &ProjectionExprs,
        view: &View,
    ) -> Option<Self> {
        let column = |expr: &Arc<dyn PhysicalExpr>| expr.as_any().downcast_ref::<Column>().map(Column::index);
        let key = |sort: &PhysicalSortExpr| {
            let column = column(&projection.iter().nth(column(&sort.expr)?)?.expr)?;
            let data_type = view.arrow.fields().get(column)?.data_type().clone();
            let sized = data_type.is_primitive();
            sized.then(|| Key { column, field: SortField::new_with_options(data_type, sort.options) })
        };
        let keys: Vec<Key> = order.iter().map_while(key).collect();
        let complete = keys.len() == order.len();
        (0 < fetch && fetch <= MOST && !keys.is_empty()).then_some(TopK { fetch, keys, complete })
    }

    /// The table columns of the keys, ascending.
    pub(super) fn columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self.keys.iter().map(|key| key.column).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// The best rows that one run of one partition has met so far.
#[derive(Debug)]
pub(super) struct Best {
    pub(super) wanted: TopK,
    keys: Mutex<Keys>,
}

#[derive(Debug)]
struct Keys {
    converter: RowConverter,
    /// The worst of the best is on top.
    best: BinaryHeap<OwnedRow>,
}

impl Best {
    /// # Errors
    /// For keys without an order.
    pub(super) fn new(wanted: TopK) -> Result<Self, ArrowError> {
        let converter = RowConverter::new(wanted.keys.iter().map(|key| key.field.clone()).collect())?;
        Ok(Best { wanted, keys: Mutex::new(Keys { converter, best: BinaryHeap::new() }) })
    }

    /// The tests to make of rows that nothing but these drops, in this order. `shape` gives the key columns.
    pub(super) fn tests(self: &Arc<Self>, shape: &Arc<Reshape>) -> [BestTest; 2] {
        let columns = self.wanted.columns();
        let place = |key: &Key| columns.partition_point(|column| *column < key.column);
        let places: Vec<usize> = self.wanted.keys.iter().map(place).collect();
        [true, false].map(|collects| BestTest {
            best: Arc::clone(self),
            shape: Arc::clone(shape),
            places: places.clone(),
            collects,
        })
    }
}

impl Keys {
    /// Keeps the best in mind. True of those that are among them by now.
    fn collect(&mut self, rows: &Rows, fetch: usize) -> BooleanArray {
        let mut kept = |row: Row<'_>| {
            if self.best.len() < fetch {
                self.best.push(row.owned());
                return true;
            }
            match self.best.peek_mut() {
                Some(mut worst) if row < worst.row() => {
                    *worst = row.owned();
                    true
                }
                _ => false,
            }
        };
        rows.iter().map(|row| Some(kept(row))).collect()
    }

    /// Those that are no worse than the worst of the best.
    fn left(&self, rows: &Rows, fetch: usize) -> BooleanArray {
        let worst = self.best.peek().filter(|_| self.best.len() >= fetch);
        rows.iter().map(|row| Some(worst.is_none_or(|worst| row <= worst.row()))).collect()
    }
}

/// Tests whether rows may be among the best.
pub(super) struct BestTest {
    best: Arc<Best>,
    shape: Arc<Reshape>,
    /// Where in the shape each key is.
    places: Vec<usize>,
    /// Whether it meets rows for the first time. Each counts once.
    collects: bool,
}

impl ArrowPredicate for BestTest {
    fn projection(&self) -> &ProjectionMask {
        &self.shape.mask
    }

    fn evaluate(&mut self, batch: RecordBatch) -> Result<BooleanArray, ArrowError> {
        let batch = self.shape.apply(&batch)?;
        let keys: Vec<ArrayRef> = self.places.iter().map(|at| Arc::clone(batch.column(*at))).collect();
        let mut held = self.best.keys.lock();
        let rows = held.converter.convert_columns(&keys)?;
        let fetch = self.best.wanted.fetch;
        let kept = self.collects.then(|| held.collect(&rows, fetch));
        // Where other keys decide between equals, all of them stay.
        Ok(kept.filter(|_| self.best.wanted.complete).unwrap_or_else(|| held.left(&rows, fetch)))
    }
}

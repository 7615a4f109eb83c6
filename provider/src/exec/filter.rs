//! Which conditions are still tested row by row, and when?
//!
//! A condition that the source has promised to evaluate ends in exactly one of three places, file by file:
//!
//! ```text
//!   proven     the partition, bounds or statistics show it true of every row: not evaluated
//!   row test   its columns are decoded first, the others only for the rows it leaves (late materialisation)
//!   residual   evaluated over decoded batches
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowPredicate, RowFilter};

use super::columns::Reshape;
use super::narrow::narrowed;
use super::prune::{FileFacts, Selection};
use crate::predicate::{self, Claim, Op, Predicate};
use crate::scan::{Task, View, primitive};

/// A condition that the source has promised to evaluate, over the table's columns.
#[derive(Clone, Debug)]
pub(super) struct Conjunct {
    pub(super) expr: Arc<dyn PhysicalExpr>,
    pub(super) claim: Claim,
    /// The table columns it reads, ascending.
    pub(super) columns: Vec<usize>,
    /// The table narrowed to what it reads, where that is less than whole columns.
    pub(super) within: Option<SchemaRef>,
    /// Somebody else tests it too: rows that fail it may be given out.
    pub(super) optional: bool,
}

impl Conjunct {
    /// The conjuncts of a filter over the view's columns.
    pub(super) fn of(filter: &Arc<dyn PhysicalExpr>, view: &View) -> Vec<Self> {
        let claims = predicate::convert_conjuncts(std::slice::from_ref(filter), &view.arrow, &view.schema);
        let each = split_conjunction(filter).into_iter().zip(claims);
        each.map(|(expr, claim)| {
            let mut columns: Vec<usize> = collect_columns(expr).iter().map(|column| column.index()).collect();
            columns.sort_unstable();
            columns.dedup();
            let narrow = narrowed(&view.arrow, [expr]);
            let within = (!Arc::ptr_eq(&narrow, &view.arrow)).then_some(narrow);
            Conjunct { expr: Arc::clone(expr), claim, columns, within, optional: false }
        })
        .collect()
    }

    /// The same, made optional.
    pub(super) fn optional(self) -> Self {
        Conjunct { optional: true, ..self }
    }

    /// Whether the manifest proves the condition for every row of a file.
    pub(super) fn proven_by_manifest(&self, task: &Task, view: &View) -> bool {
        holds_throughout(&self.claim.proof, task, view)
    }

    /// Whether the statistics of every selected row group prove the condition.
    pub(super) fn proven_by_groups(&self, facts: &FileFacts<'_>, selection: &Selection) -> bool {
        let proven = |group: usize| self.claim.proof.must_match(&|field| facts.of_group(group, field));
        selection.iter().all(|(group, _)| proven(*group))
    }

    /// It asks for one value or a few: tested first.
    pub(super) fn is_lookup(&self) -> bool {
        matches!(self.claim.predicate, Predicate::Compare { op: Op::Eq, .. } | Predicate::In { .. })
    }

    /// The condition as EXPLAIN prints it.
    pub(super) fn describe(&self, view: &View) -> String {
        if !self.claim.exact {
            return self.claim.text.clone();
        }
        let name = |field: i32| {
            let column = view.schema.name_by_field_id(field).map_or_else(|| format!("field {field}"), str::to_owned);
            (column, primitive(&view.schema, field).cloned())
        };
        self.claim.predicate.display(&name).to_string()
    }
}

/// Whether a file's bounds, or its partition tuple, show that every row satisfies `predicate`.
pub(super) fn holds_throughout(predicate: &Predicate, task: &Task, view: &View) -> bool {
    if predicate.must_match(&|field| task.facts(&view.schema, field)) {
        return true;
    }
    let spec = &task.partitioning.spec;
    !spec.is_unpartitioned()
        && predicate::project_strict(predicate, spec, &view.schema).must_match(&|field| task.partition_facts(field))
}

/// A condition that the Parquet decoder tests before it decodes other columns.
pub(super) struct RowTest {
    shape: Reshape,
    expr: Arc<dyn PhysicalExpr>,
}

impl RowTest {
    pub(super) fn new(conjunct: &Conjunct, shape: Reshape) -> datafusion::error::Result<Self> {
        let expr = reassign_expr_columns(Arc::clone(&conjunct.expr), &shape.schema)?;
        Ok(RowTest { shape, expr })
    }
}

impl ArrowPredicate for RowTest {
    fn projection(&self) -> &ProjectionMask {
        &self.shape.mask
    }

    fn evaluate(&mut self, batch: RecordBatch) -> Result<BooleanArray, ArrowError> {
        truth(&self.expr, &self.shape.apply(&batch)?)
    }
}

/// What a decoder tests rows by, in order.
#[derive(Default)]
pub(super) struct RowTests {
    each: Vec<Box<dyn ArrowPredicate>>,
    /// Whether one of them leaves out rows because of a condition, and not only what nobody wants any more.
    pub(super) conditions: bool,
    /// Rows that nobody wants any more.
    pub(super) unwanted: Arc<AtomicU64>,
}

impl RowTests {
    /// Adds a condition that rows are tested by. `optional`: somebody else tests it too.
    pub(super) fn add(&mut self, test: impl ArrowPredicate, optional: bool) {
        match optional {
            true => self.each.push(Box::new(Counted { test, left_out: Arc::clone(&self.unwanted) })),
            false => {
                self.conditions = true;
                self.each.push(Box::new(test));
            }
        }
    }

    /// The leaf columns of `count` that the tests read.
    pub(super) fn leaves(&self, count: usize) -> impl Iterator<Item = usize> {
        (0..count).filter(|leaf| self.each.iter().any(|test| test.projection().leaf_included(*leaf)))
    }

    /// All of them, which are gone then; `None` where there are none.
    pub(super) fn take(&mut self) -> Option<RowFilter> {
        let each = std::mem::take(&mut self.each);
        (!each.is_empty()).then(|| RowFilter::new(each))
    }
}

/// A test that counts what it leaves out.
struct Counted<T> {
    test: T,
    left_out: Arc<AtomicU64>,
}

impl<T: ArrowPredicate> ArrowPredicate for Counted<T> {
    fn projection(&self) -> &ProjectionMask {
        self.test.projection()
    }

    fn evaluate(&mut self, batch: RecordBatch) -> Result<BooleanArray, ArrowError> {
        let rows = batch.num_rows();
        let left = self.test.evaluate(batch)?;
        self.left_out.fetch_add((rows - left.true_count()) as u64, Ordering::Relaxed);
        Ok(left)
    }
}

/// The rows of a batch for which `expr` is true; null is not true.
pub(super) fn truth(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray, ArrowError> {
    let value = expr.evaluate(batch).and_then(|value| value.into_array(batch.num_rows()));
    let array = value.map_err(|e| ArrowError::ExternalError(Box::new(e)))?;
    let booleans = array.as_boolean_opt();
    booleans.cloned().ok_or_else(|| ArrowError::ComputeError("a filter did not give booleans".to_owned()))
}

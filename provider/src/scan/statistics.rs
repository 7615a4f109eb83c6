//! What may the optimiser know before anything is read?
//!
//! Row counts are exact where nothing deletes rows, or deletion vectors count what they delete. Which of a column's values
//! are deleted nobody counts, so null counts are known only without deletes. Bounds are only bounds (format versions 1 to
//! 3 don't say whether they are tight), so they are never offered as an answer to `min` or `max`.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema as ArrowSchema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use iceberg::spec::Schema;

use super::plan::DETAILED;
use super::{Task, View, facts};
use crate::predicate::Facts;
use crate::schema::field_id;

/// The statistics of the rows in `tasks`, one entry for each column of the view; only columns of `projection` are known,
/// and none where there are very many tasks.
pub(super) fn of(tasks: &[Arc<Task>], view: &View, projection: Option<&[usize]>) -> Statistics {
    let (schema, arrow) = (&view.schema, view.arrow.as_ref());
    let detailed = tasks.len() as u64 <= DETAILED;
    let exact = tasks.iter().map(|task| task.live_rows()).try_fold(0_u64, |sum, rows| sum.checked_add(rows?));
    let about = || tasks.iter().map(|task| task.live_rows().unwrap_or(task.rows())).fold(0, u64::saturating_add);
    let rows = exact.unwrap_or_else(about);
    let known = if exact.is_some() { Precision::Exact } else { Precision::Inexact };
    let wanted = |at: usize| detailed && projection.is_none_or(|projection| projection.contains(&at));
    let column = |(at, field): (usize, &Arc<Field>)| match wanted(at) {
        true => column(tasks, schema, field),
        false => ColumnStatistics::new_unknown(),
    };
    let column_statistics = arrow.fields().iter().enumerate().map(column).collect();
    Statistics {
        num_rows: usize::try_from(rows).map_or(Precision::Absent, known),
        total_byte_size: bytes(tasks, arrow, projection, detailed),
        column_statistics,
    }
}

fn column(tasks: &[Arc<Task>], schema: &Schema, field: &Field) -> ColumnStatistics {
    let unknown = ColumnStatistics::new_unknown();
    let Some(id) = field_id(field) else {
        return unknown;
    };
    if facts::primitive(schema, id).is_none() {
        return unknown;
    }
    let all: Vec<Facts> = tasks.iter().map(|task| task.facts(schema, id)).collect();
    let deleted = tasks.iter().any(|task| task.delete_files().next().is_some());
    let mut counts = all.iter().map(|f| f.nulls.filter(|_| !deleted));
    let nulls = counts.try_fold(0_u64, |sum, nulls| sum.checked_add(nulls?));
    let (min_value, max_value) = bounds(&all, field);
    ColumnStatistics {
        null_count: nulls.and_then(|n| usize::try_from(n).ok()).map_or(Precision::Absent, Precision::Exact),
        min_value,
        max_value,
        ..unknown
    }
}

/// Bounds over all files; absent if one file doesn't say, or says what can't be, or may hold NaN, which DataFusion orders
/// above all numbers.
fn bounds(all: &[Facts], field: &Field) -> (Precision<ScalarValue>, Precision<ScalarValue>) {
    let absent = (Precision::Absent, Precision::Absent);
    if all.iter().any(|f| f.float && f.nans != Some(0)) {
        return absent;
    }
    // A file of nulls has no bounds and needs none.
    let with_values = all.iter().filter(|f| f.nulls.is_none() || f.nulls != f.rows);
    let mut range: Option<(ScalarValue, ScalarValue)> = None;
    for f in with_values {
        let scalar = |value: &Option<_>| facts::to_scalar(value.as_ref()?, field.data_type());
        let (Some(lower), Some(upper)) = (scalar(&f.lower), scalar(&f.upper)) else {
            return absent;
        };
        if lower > upper {
            return absent;
        }
        range = Some(match range {
            None => (lower, upper),
            Some((min, max)) => (if lower < min { lower } else { min }, if upper > max { upper } else { max }),
        });
    }
    match range {
        // DataFusion counts the values between two bounds, in 64 bits, and these are one too many.
        Some((ScalarValue::Int64(Some(i64::MIN)), ScalarValue::Int64(Some(i64::MAX)))) => absent,
        Some((min, max)) => (Precision::Inexact(min), Precision::Inexact(max)),
        None => absent,
    }
}

/// Stored size of the projected columns, or if not `detailed` their share of the files by number: joins choose their build
/// side by it.
fn bytes(tasks: &[Arc<Task>], arrow: &ArrowSchema, projection: Option<&[usize]>, detailed: bool) -> Precision<usize> {
    let files = || tasks.iter().map(|task| task.bytes()).fold(0, u64::saturating_add);
    let sum = match projection {
        None => files(),
        Some(projection) if !detailed => {
            (files() / arrow.fields().len().max(1) as u64).saturating_mul(projection.len() as u64)
        }
        Some(projection) => {
            let fields = projection.iter().filter_map(|at| arrow.fields().get(*at));
            let ids: Vec<i32> = fields.filter_map(|field| field_id(field)).collect();
            let sizes = tasks.iter().flat_map(|task| ids.iter().filter_map(|id| task.column_size(*id)));
            sizes.fold(0, u64::saturating_add)
        }
    };
    usize::try_from(sum).map_or(Precision::Absent, Precision::Inexact)
}

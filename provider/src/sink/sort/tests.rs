use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{Float64Type, Int32Type, SchemaRef};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use proptest::prelude::*;

use super::sorter::{Budget, Keys, Sorter};
use crate::sink::layout::Key;

type Row = (Option<i32>, Option<String>, f64, String);

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("day", Arc::new(rows.iter().map(|r| r.0).collect::<Int32Array>())),
        ("key", Arc::new(StringArray::from_iter(rows.iter().map(|r| r.1.as_deref())))),
        ("x", Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| r.2)))),
        ("text", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| &r.3)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn keys() -> [Key; 3] {
    let options = |descending, nulls_first| SortOptions { descending, nulls_first };
    [
        Key { index: 0, options: options(false, false) },
        Key { index: 1, options: options(true, true) },
        Key { index: 2, options: options(false, true) },
    ]
}

async fn sorted(rows: &[Row], chunk: usize, budget: Budget) -> (Vec<Row>, usize) {
    let schema: SchemaRef = batch(&[]).schema();
    let metrics = ExecutionPlanMetricsSet::new();
    let spills = SpillMetrics::new(&metrics, 0);
    let keys = Keys::new(&schema, &keys()).unwrap();
    let mut sorter = Sorter::new(schema, keys, budget, &TaskContext::default(), 0, spills.clone());
    for chunk in rows.chunks(chunk) {
        sorter.insert(batch(chunk)).await.unwrap();
    }
    let mut out = sorter.finish().await.unwrap();
    let mut back = Vec::new();
    while let Some(batch) = out.next().await.unwrap() {
        let key = batch.column(1).as_string::<i32>().clone();
        for i in 0..batch.num_rows() {
            let day = batch.column(0).as_primitive::<Int32Type>();
            back.push((
                (!day.is_null(i)).then(|| day.value(i)),
                (!key.is_null(i)).then(|| key.value(i).to_owned()),
                batch.column(2).as_primitive::<Float64Type>().value(i),
                batch.column(3).as_string::<i32>().value(i).to_owned(),
            ));
        }
    }
    (back, spills.spill_file_count.value())
}

/// The order by hand: day ascending with nulls last, key descending with nulls first, then the IEEE total order.
fn expected(rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| {
        let day = (a.0.is_none(), a.0).cmp(&(b.0.is_none(), b.0));
        let key = (a.1.is_some(), std::cmp::Reverse(&a.1)).cmp(&(b.1.is_some(), std::cmp::Reverse(&b.1)));
        day.then(key).then(a.2.total_cmp(&b.2))
    });
    rows
}

fn order(rows: &[Row]) -> Vec<(Option<i32>, Option<String>, u64)> {
    rows.iter().map(|r| (r.0, r.1.clone(), r.2.to_bits())).collect()
}

fn multiset(mut rows: Vec<Row>) -> Vec<String> {
    rows.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
    rows.iter().map(|r| format!("{r:?}")).collect()
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let day = prop::option::weighted(0.9, -3..3);
    let key = prop::option::weighted(0.8, "[a-c]{0,3}");
    let x = prop_oneof![Just(f64::NAN), Just(-0.0), Just(0.0), Just(f64::NEG_INFINITY), -5.0..5.0];
    let text = prop_oneof![9 => "[a-z]{0,40}", 1 => "[a-z]{3000,4000}"];
    prop::collection::vec((day, key, x, text), 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn rows_come_out_in_order_and_all_of_them(rows in rows(), chunk in 1usize..60, buffer in 1usize..30_000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let budget = Budget { buffer, floor: buffer / 4, spilled_batch: 500 };
        let (back, _) = runtime.block_on(sorted(&rows, chunk, budget));
        prop_assert_eq!(order(&back), order(&expected(&rows)));
        prop_assert_eq!(multiset(back), multiset(rows));
    }
}

#[tokio::test]
async fn many_runs_are_merged_in_levels() {
    let rows: Vec<Row> = (0..2000).map(|i| (Some(i * 7919 % 2000), None, 0.0, format!("row {i}"))).collect();
    // Ten rows a run, and room for two runs at a time: some two hundred runs, merged again and again.
    let budget = Budget { buffer: 1, floor: 0, spilled_batch: 200 };
    let (back, files) = sorted(&rows, 10, budget).await;
    assert!(files > 250, "{files}");
    assert_eq!(order(&back), order(&expected(&rows)));
}

#[tokio::test]
async fn what_fits_is_not_spilled() {
    let rows: Vec<Row> = (0..2000).map(|i| (Some(-i), None, 0.0, String::new())).collect();
    let (back, files) = sorted(&rows, 100, Budget { buffer: 10 << 20, floor: 0, spilled_batch: 1 << 20 }).await;
    assert_eq!(files, 0);
    assert_eq!(order(&back), order(&expected(&rows)));
}

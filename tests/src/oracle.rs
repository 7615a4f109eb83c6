//! Rows as text, and what another reader says of the same table.
//!
//! The oracle of a query is the same query over the same rows in memory, by plain DataFusion: nothing of daygrain between
//! them, and no rule that rewrites the query, since some change what it means: `CAST(x AS BIGINT) = 10` becomes `x = 10`
//! of a decimal x, which 10.65 is not. Rows are compared as sorted lines of text, so that order and batches do not matter.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

/// Each row as one line, sorted.
pub fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = unsorted_lines(batches);
    lines.sort();
    lines
}

/// Each row as one line, in the order of the batches.
pub fn unsorted_lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("∅");
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("every type can be shown"))
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            lines.push(cells.join("|"));
        }
    }
    lines
}

/// A context that holds `batches` as table `name` in memory, and nothing of ours.
pub fn memory(name: &str, batches: Vec<RecordBatch>) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(1);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_optimizer_rules(Vec::new())
        .with_physical_optimizer_rules(Vec::new());
    let context = SessionContext::new_with_state(state.build());
    let schema = batches.first().expect("the oracle needs a batch for its schema").schema();
    let table = MemTable::try_new(schema, vec![batches]).expect("the batches share a schema");
    context.register_table(name, Arc::new(table)).expect("the name is free");
    context
}

/// The rows of a query over a context, as sorted lines.
pub async fn answer(context: &SessionContext, sql: &str) -> Vec<String> {
    let frame = context.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    lines(&frame.collect().await.unwrap_or_else(|e| panic!("{sql}: {e}")))
}

//! What do `years`, `months`, `days`, `hours`, `bucket` and `truncate` compute?
//!
//! What the sink computes when it decides where a row goes.

use arrow::array::ArrayRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use iceberg::spec::Transform;

use crate::predicate::TransformFunction;
use crate::sink::apply_transform;

/// Iceberg's partition transforms as functions.
// @spec P2
pub fn functions() -> Vec<ScalarUDF> {
    TransformFunction::all(apply).into_iter().map(ScalarUDF::new_from_impl).collect()
}

fn apply(transform: &Transform, array: &ArrayRef) -> Result<ArrayRef> {
    apply_transform(transform, array).map_err(|e| DataFusionError::External(Box::new(e)))
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn one(sql: &str) -> String {
        let context = SessionContext::new();
        functions().into_iter().for_each(|function| context.register_udf(function));
        let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
        let column = batches[0].column(0);
        let options = arrow::util::display::FormatOptions::default().with_null("null");
        let text = arrow::util::display::ArrayFormatter::try_new(column, &options).unwrap();
        text.value(0).to_string()
    }

    #[tokio::test]
    async fn results() {
        for (sql, expected) in [
            ("years(TIMESTAMP '1969-12-31T23:59:59.999999')", "-1"),
            ("months(DATE '2024-03-01')", "650"),
            ("days(TIMESTAMP '1969-12-31T23:59:59.999999')", "-1"),
            ("days(DATE '2024-01-02')", "19724"),
            ("hours(TIMESTAMP '1970-01-02T01:30:00')", "25"),
            ("bucket(16, 34)", "3"),
            ("bucket(16, CAST(34 AS INT))", "3"),
            ("bucket(1000000000, 'iceberg')", "210000089"),
            ("truncate(10, -1)", "-10"),
            ("truncate(2, 'héllo')", "hé"),
            ("truncate(50, CAST(10.65 AS DECIMAL(9, 2)))", "10.50"),
            ("truncate(2, CAST(NULL AS VARCHAR))", "null"),
            ("days(CAST(NULL AS DATE))", "null"),
            ("arrow_typeof(days(DATE '2024-01-02'))", "Int32"),
            ("days(column1) FROM (VALUES (DATE '1970-01-02'))", "1"),
        ] {
            assert_eq!(one(&format!("SELECT {sql}")).await, expected, "{sql}");
        }
    }

    #[tokio::test]
    async fn what_is_refused() {
        let context = SessionContext::new();
        functions().into_iter().for_each(|function| context.register_udf(function));
        for sql in [
            "bucket(0, 1)",
            "bucket(-1, 1)",
            "bucket(4, 1.5e0)",
            "hours(DATE '2024-01-01')",
            "days('2024-01-01')",
            "truncate(2, DATE '2024-01-01')",
        ] {
            let ran = async { context.sql(&format!("SELECT {sql}")).await?.collect().await };
            assert!(ran.await.is_err(), "{sql}");
        }
    }
}

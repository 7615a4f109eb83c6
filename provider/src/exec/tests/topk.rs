//! Of a sort with a limit: how little is decoded, and that it is enough.
// @spec P5

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::expressions::{col, lit};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::collect;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use super::fixture::LOCAL;
use super::{Events, ROWS, RUNTIME, adds_up, lines, skipped};
use crate::exec::{TopKPushdown, reports};
use crate::observe::Reason;

#[test]
fn only_the_best_rows_of_a_row_group_are_decoded() {
    RUNTIME.block_on(async {
        let events = Events::new(LOCAL, 1).await;
        for order in ["ts DESC", "ts", "ts DESC, kind", "ts, session"] {
            let sql = format!("SELECT ts, blob FROM t ORDER BY {order} LIMIT 10");
            let answer = events.ours(&sql).await;
            assert_eq!(lines(&answer.batches), events.plain(&sql).await, "{sql}");
            adds_up(&answer);
            let ledger = answer.report.unwrap().ledger;
            assert_eq!(ledger.files.kept(), 1, "{sql}: the others are of other days");
            // Ten of the first row group, and what of the second is better.
            assert!((10..20).contains(&ledger.rows.kept()), "{sql}: {}", ledger.rows);
            assert_eq!(ledger.rows.kept() + skipped(&ledger.rows, Reason::DynamicFilter), ROWS as u64, "{sql}");
            assert!(skipped(&ledger.pages, Reason::DynamicFilter) > 0, "{sql}: {}", ledger.pages);
        }
    });
}

#[test]
fn of_equals_no_more_than_wanted_are_decoded() {
    RUNTIME.block_on(async {
        let events = Events::new(LOCAL, 1).await;
        for order in ["kind", "kind DESC", "kind, kind"] {
            let sql = format!("SELECT kind, blob FROM t ORDER BY {order} LIMIT 10");
            let answer = events.ours(&sql).await;
            let (rows, all) = (lines(&answer.batches), events.plain("SELECT kind, blob FROM t").await);
            let best = if order.contains("DESC") { "2|" } else { "0|" };
            assert_eq!(rows.len(), 10, "{sql}");
            assert!(rows.iter().all(|row| row.starts_with(best) && all.contains(row)), "{sql}: {rows:?}");
            adds_up(&answer);
            let rows = answer.report.unwrap().ledger.rows;
            assert!(rows.kept() < 40, "{sql}: {rows}");
        }
    });
}

#[test]
fn equals_of_the_last_wanted_row_stay() {
    RUNTIME.block_on(async {
        let events = Events::new(LOCAL, 1).await;
        // Texts aren't compared here, so that the sort must have all rows whose kind is as good as the tenth's.
        let sql = "SELECT kind, session, blob FROM t ORDER BY kind DESC, session DESC NULLS LAST, blob LIMIT 10";
        let answer = events.ours(sql).await;
        assert_eq!(lines(&answer.batches), events.plain(sql).await);
        let ledger = answer.report.unwrap().ledger;
        assert!(skipped(&ledger.rows, Reason::DynamicFilter) > 200, "{}", ledger.rows);
    });
}

#[test]
fn a_scan_is_told_only_where_its_rows_are_the_sorts() {
    RUNTIME.block_on(async {
        let events = Events::new(LOCAL, 3).await;
        let told = [
            "SELECT blob FROM t ORDER BY ts DESC LIMIT 10",
            "SELECT blob FROM t ORDER BY ts DESC LIMIT 4 OFFSET 6",
            "SELECT upper(blob), ts + interval '1 day' AS later, ts FROM t ORDER BY ts DESC LIMIT 10",
            "SELECT blob FROM t WHERE kind = 1 ORDER BY tokens, cost LIMIT 10",
        ];
        let not = [
            "SELECT blob FROM t ORDER BY ts DESC",
            "SELECT blob FROM t LIMIT 10",
            "SELECT blob FROM t ORDER BY session LIMIT 10",
            "SELECT blob FROM t ORDER BY ts DESC LIMIT 10000",
            "SELECT blob FROM t ORDER BY ts + interval '1 day' LIMIT 10",
            "SELECT kind, count(*) AS n FROM t GROUP BY kind ORDER BY kind LIMIT 10",
            "SELECT a.blob FROM t a JOIN t b ON a.ts = b.ts ORDER BY a.ts LIMIT 10",
            "SELECT blob FROM t WHERE random() < 0.5 ORDER BY ts LIMIT 10",
            "SELECT row_number() OVER (ORDER BY kind), blob FROM t ORDER BY ts LIMIT 10",
            "SELECT blob FROM (SELECT * FROM t LIMIT 100) ORDER BY ts LIMIT 10",
        ];
        for (all, expected) in [(&told[..], true), (&not[..], false)] {
            for sql in all {
                let text = lines(&events.ours(&format!("EXPLAIN {sql}")).await.batches).join("\n");
                assert_eq!(text.contains("topk=10"), expected, "{sql}\n{text}");
            }
        }
    });
}

#[test]
fn keys_that_name_no_column_decide_between_equals_too() {
    RUNTIME.block_on(async {
        let events = Events::new(LOCAL, 1).await;
        let scan = events.ours("SELECT kind, blob FROM t").await.plan;
        let schema = scan.schema();
        let same = ["kind", "blob"].map(|name| ProjectionExpr::new(col(name, &schema).unwrap(), name.to_owned()));
        let projected = Arc::new(ProjectionExec::try_new(same, scan).unwrap());
        for (second, all_equals) in [(lit(1), true), (col("kind", &schema).unwrap(), false)] {
            let keys = [col("kind", &schema).unwrap(), second].map(PhysicalSortExpr::new_default);
            let sort = SortExec::new(LexOrdering::new(keys).unwrap(), Arc::clone(&projected) as _).with_fetch(Some(10));
            // Of keys that are the same, the ordering keeps one.
            assert_eq!(sort.expr().len(), if all_equals { 2 } else { 1 });
            let plan = TopKPushdown.optimize(Arc::new(sort), &ConfigOptions::default()).unwrap();
            collect(Arc::clone(&plan), events.ours.task_ctx()).await.unwrap();
            let rows = reports(&plan).pop().unwrap().ledger.rows;
            assert_eq!(rows.kept() > 100, all_equals, "{rows}");
        }
    });
}

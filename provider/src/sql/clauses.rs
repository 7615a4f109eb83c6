//! Which clauses of a query would be read over?
//!
//! The parser knows the clauses of many dialects, and the planner leaves some of them out without a word: the rows would
//! be those of another query.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, LockType, Query, Select, SetExpr, TableFactor, Visit, Visitor};

use super::refuse::not_supported;
use crate::error::Error;

/// The error for a query, at any depth of `node`, with a clause that this version does not know.
pub(super) fn refuse(node: &impl Visit) -> Option<Error> {
    match node.visit(&mut Clauses) {
        ControlFlow::Break((name, help)) => Some(not_supported(name, help)),
        ControlFlow::Continue(()) => None,
    }
}

struct Clauses;

type Found = (&'static str, Option<&'static str>);

impl Visitor for Clauses {
    type Break = Found;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Found> {
        let locks = query.locks.first().map(|lock| match lock.lock_type {
            LockType::Share => "FOR SHARE",
            LockType::Update => "FOR UPDATE",
        });
        if let Some(name) = locks {
            return ControlFlow::Break((name, Some("a statement reads one snapshot of each table")));
        }
        named(&[
            (query.for_clause.is_some(), "FOR XML, JSON or BROWSE", None),
            (query.settings.is_some(), "SETTINGS", None),
            (query.format_clause.is_some(), "FORMAT", Some("--format names the format of results")),
        ])?;
        body(&query.body)
    }

    /// The planner takes the value for text, and fails where it is not.
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Found> {
        let number = matches!(expr, Expr::TypedString(typed) if typed.value.clone().into_string().is_none());
        named(&[(number, "a type before a value that is no text", Some("DATE '2026-06-04', or CAST(1 AS INT)"))])
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Found> {
        match factor {
            TableFactor::Table { with_ordinality, partitions, json_path, sample, .. } => named(&[
                (*with_ordinality, "WITH ORDINALITY", None),
                (!partitions.is_empty(), "PARTITION", Some("a WHERE clause on the columns it is made of skips files")),
                (json_path.is_some(), "a path after a table", None),
                (sample.is_some(), "TABLESAMPLE", None),
            ]),
            TableFactor::Derived { sample, .. } => named(&[(sample.is_some(), "TABLESAMPLE", None)]),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn body(body: &SetExpr) -> ControlFlow<Found> {
    match body {
        SetExpr::Select(select) => clauses(select),
        SetExpr::SetOperation { left, right, .. } => {
            self::body(left)?;
            self::body(right)
        }
        // A query in parentheses is visited as one.
        _ => ControlFlow::Continue(()),
    }
}

fn clauses(select: &Select) -> ControlFlow<Found> {
    named(&[
        (select.into.is_some(), "SELECT INTO", Some("daygrain export DATASET --query SQL makes a table from a query")),
        (select.exclude.is_some(), "EXCLUDE after the columns", Some("SELECT * EXCLUDE (a, b)")),
        (select.prewhere.is_some(), "PREWHERE", Some("WHERE does the same")),
        (!select.connect_by.is_empty(), "CONNECT BY", Some("WITH RECURSIVE does the same")),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY", None),
    ])
}

fn named(clauses: &[(bool, &'static str, Option<&'static str>)]) -> ControlFlow<Found> {
    match clauses.iter().find(|(there, ..)| *there) {
        Some((_, name, help)) => ControlFlow::Break((*name, *help)),
        None => ControlFlow::Continue(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::super::refuse::refused;

    #[test]
    fn clauses_that_would_be_read_over_are_named() {
        for (sql, name) in [
            ("select 1 as a into u", "SELECT INTO"),
            ("with c as (select a from t connect by a = 1) select * from c", "CONNECT BY"),
            ("select (select max(a) from t prewhere a > 1)", "PREWHERE"),
            ("select 1 union all (select * from t for update)", "FOR UPDATE"),
            ("select * from t join u tablesample (10 percent) on true", "TABLESAMPLE"),
            ("select * from (select 1) tablesample (10 percent)", "TABLESAMPLE"),
            ("select * from t settings a = 1", "SETTINGS"),
            ("select * from t format json", "FORMAT"),
            ("select * from t for xml auto", "FOR XML"),
            ("select * from t where date 5", "a type before a value"),
            ("select a[]1 from t", "a type before a value"),
            ("select * from t with ordinality", "WITH ORDINALITY"),
            ("insert into t select * from t for share", "FOR SHARE"),
            ("create view v as select a from t prewhere a > 1", "PREWHERE"),
            ("copy (select a from t prewhere a > 1) to 'x.csv'", "PREWHERE"),
            ("explain select a from t prewhere a > 1", "PREWHERE"),
            ("prepare p as select a from t prewhere a > 1", "PREWHERE"),
        ] {
            let error = refused(&parse(sql).unwrap()).unwrap_or_else(|| panic!("{sql} is not refused"));
            assert!(error.what().starts_with(name), "{sql}: {error}");
        }
    }
}

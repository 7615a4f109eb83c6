//! When is a timestamp before, at or after a literal?
//!
//! ```text
//! WHERE ts < TIMESTAMP '2024-06-04 00:00:00.0000015'     ts has microseconds
//!       ts <= 2024-06-04 00:00:00.000001                 what is planned: exact, and the column is bare
//! ```
//!
//! DataFusion 53 makes every literal nanoseconds, which fails before 1677 and after 2262, and compares two units in the
//! coarser one, which loses rows. Here an analyzer rule that runs before type coercion parses literals exactly and
//! compares in the unit of the column, rounding outward by operator: no year overflows, no digit is lost, and
//! what reaches a table is `column operator literal` of the column's own type, on which files can be pruned.
//!
//! # What is compared
//!
//! * Comparisons (`= <> < <= > >= BETWEEN IN`, `IS [NOT] DISTINCT FROM`, `CASE x WHEN`, and keys of joins and of `IN
//!   (SELECT …)`) of a date or timestamp of any unit, with or without a zone, with a string, a date or timestamp literal, a cast
//!   of a string (`'…'::timestamp`), `to_timestamp…('…')`, arithmetic of these, or another date or timestamp.
//! * A literal between two values of the column's unit equals none of them; one outside the type's range is before or after
//!   all of them. Null stays null in both.
//! * A date is its midnight: `d < '2024-01-02 12:00'` holds for the second of January.
//! * Casts around a column that lose nothing are looked through.
//!
//! # Zones
//!
//! | literal | column without zone | column with zone |
//! |---|---|---|
//! | without zone | the same clock reading | read in the zone of the session (`datafusion.execution.time_zone`) if it is set, else in the column's |
//! | with zone in its text | the reading of a clock in UTC (as in DataFusion; PostgreSQL would ignore the zone) | the instant |
//! | of a type with zone | the reading of a clock in that zone | the instant |
//!
//! What is made of literals with a zone in their text, by arithmetic, `CASE` or a function, is an instant too where it meets a
//! column with zone.
//!
//! Where something else than UTC was chosen for a value (`ts AT TIME ZONE 'Asia/Tokyo' >= '2024-01-02'`), literals without zone
//! are read in that zone, whatever the session's. A clock reading that a zone has twice is the earlier one; one that it skips is read with the
//! offset before the skip (01:30 + 1 h = "02:30" = 03:30). A column without zone meets one with zone in the zone of this table's first row,
//! and there Arrow's cast refuses readings that are skipped or ambiguous.
//!
//! # Types of literals
//!
//! `TIMESTAMP '…'` and `CAST('…' AS TIMESTAMP)` have microseconds, or nanoseconds where more than six digits follow the decimal
//! point: [`refine_literals`] says so in the statement, [`TimestampTypes`] where a statement didn't pass there. As a value (in
//! `SELECT` or `INSERT`) a literal is cut to what its type holds, towards the past. A literal that isn't a timestamp, or that the type
//! of a value can't hold, is an error with code `invalid_value`; `TRY_CAST` gives null instead.
//!
//! # Not covered
//!
//! The value of a subquery or column is a clock reading, whatever literals it was made of, if its type has no zone. Strings that aren't literals meet timestamps as in DataFusion (as nanoseconds); `UNION`, `coalesce` and the like over
//! different units still yield the coarser one; `x = ANY (SELECT …)` over different units too.

mod compare;
mod functions;
mod instants;
mod literals;
mod millis;
mod moment;
mod reading;
mod rule;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::analyzer::{Analyzer, AnalyzerRule};

use crate::predicate;

pub use functions::functions;
pub use literals::{TimestampTypes, refine_literals};
pub(super) use millis::{instant_of, instant_of_text};

/// The rules that make comparisons of timestamps, and of [other types](super::Alike), exact. They must run before every other analyzer rule.
// @spec S8
pub fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![Arc::new(super::Alike), Arc::new(rule::ExactTimestamps)]
}

/// Puts [`analyzer_rules`] ahead of the analyzer rules that the builder has (DataFusion's where it has none), and
/// registers [`TimestampTypes`], [`functions`], and a `date_trunc` that holds for every year.
pub fn register(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let analyzer = builder.analyzer().get_or_insert_with(Analyzer::new);
    let rules = std::mem::take(&mut analyzer.rules);
    analyzer.rules = analyzer_rules().into_iter().chain(rules).collect();
    builder.scalar_functions().get_or_insert_with(Vec::new).extend(functions());
    let of_every_year = [predicate::date_trunc_of_every_year(), predicate::date_bin_of_every_year()];
    builder.scalar_functions().get_or_insert_with(Vec::new).extend(of_every_year.map(Arc::new));
    if builder.type_planner().is_none() {
        builder = builder.with_type_planner(Arc::new(TimestampTypes));
    }
    builder
}

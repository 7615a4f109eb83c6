//! Which unit does the type `TIMESTAMP` have?
//!
//! ```text
//! TIMESTAMP '1500-01-01'                       TIMESTAMP(6) '1500-01-01'
//! '2024-01-01 00:00:00.0000015'::timestamptz   '2024-01-01 00:00:00.0000015'::timestamptz(9)
//! ```

use std::ops::ControlFlow;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    AlterTableOperation, ArrayElemTypeDef, ColumnDef, DataType as SqlType, Expr, Statement as SqlStatement,
    TimezoneInfo, TypedString, Value, ValueWithSpan, VisitMut, VisitorMut,
};

/// Digits after the decimal point that microseconds hold.
const MICROSECOND_DIGITS: usize = 6;

/// `TIMESTAMP` without precision and zone has microseconds, as in PostgreSQL and Iceberg (DataFusion: nanoseconds).
///
/// A type planner doesn't learn the session's zone, so `TIMESTAMP WITH TIME ZONE` is left to [`refine_literals`].
#[derive(Clone, Copy, Debug, Default)]
pub struct TimestampTypes;

impl TypePlanner for TimestampTypes {
    fn plan_type(&self, sql_type: &SqlType) -> Result<Option<DataType>> {
        Ok(match sql_type {
            SqlType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                Some(DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            _ => None,
        })
    }
}

/// Gives every timestamp type of a statement that has no precision one: nine digits for a literal with more than six
/// digits after the decimal point, else six. `own` is the session's zone: `AT TIME ZONE 'UTC'` has another name for it.
pub fn refine_literals(statement: &mut Statement, own: Option<&str>) {
    let refine = Refine { utc_is_own: own.is_some_and(|own| own.eq_ignore_ascii_case(UTC)) };
    match statement {
        Statement::Statement(statement) => visit(statement.as_mut(), refine),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                visit(query.as_mut(), refine);
            }
        }
        Statement::Explain(explain) => refine_literals(&mut explain.statement, own),
        Statement::CreateExternalTable(table) => refine_columns(&mut table.columns),
        Statement::Reset(_) => {}
    }
}

fn visit(node: &mut impl VisitMut, mut refine: Refine) {
    let ControlFlow::Continue(()) = node.visit(&mut refine);
}

const UTC: &str = "UTC";

struct Refine {
    /// `TIMESTAMP WITH TIME ZONE` is in this zone.
    utc_is_own: bool,
}

impl VisitorMut for Refine {
    type Break = std::convert::Infallible;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::TypedString(TypedString { data_type, value, .. }) => refine_type(data_type, text(value)),
            Expr::Cast { expr, data_type, .. } => {
                let text = match innermost(expr) {
                    Expr::Value(value) => text(value),
                    _ => None,
                };
                refine_type(data_type, text);
            }
            // Told from a cast to the session's zone by its name.
            Expr::AtTimeZone { time_zone, .. } if self.utc_is_own => {
                if let Expr::Value(value) = time_zone.as_mut()
                    && text(value).is_some_and(|zone| zone.eq_ignore_ascii_case(UTC))
                {
                    value.value = Value::SingleQuotedString("+00:00".to_owned());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<Self::Break> {
        match statement {
            SqlStatement::CreateTable(table) => refine_columns(&mut table.columns),
            SqlStatement::AlterTable(alter) => {
                for operation in &mut alter.operations {
                    if let AlterTableOperation::AddColumn { column_def, .. } = operation {
                        refine_type(&mut column_def.data_type, None);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn refine_columns(columns: &mut [ColumnDef]) {
    for column in columns {
        refine_type(&mut column.data_type, None);
    }
}

fn refine_type(data_type: &mut SqlType, text: Option<&str>) {
    match data_type {
        SqlType::Timestamp(precision @ None, _) => {
            let digits = text.map_or(0, fraction_digits);
            *precision = Some(if digits > MICROSECOND_DIGITS { 9 } else { 6 });
        }
        SqlType::Array(ArrayElemTypeDef::AngleBracket(element) | ArrayElemTypeDef::SquareBracket(element, _)) => {
            refine_type(element, None);
        }
        SqlType::Struct(fields, _) => fields.iter_mut().for_each(|field| refine_type(&mut field.field_type, None)),
        _ => {}
    }
}

fn innermost(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => innermost(inner),
        other => other,
    }
}

fn text(value: &ValueWithSpan) -> Option<&str> {
    match &value.value {
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => Some(text),
        _ => None,
    }
}

fn fraction_digits(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, after)| after.bytes().take_while(u8::is_ascii_digit).count())
}

//! Which snapshot does an expression name?
//!
//! ```text
//! 7                              a snapshot's id
//! 'v1', '7'                      a branch or tag, else an id
//! '2026-06-04', now() - …        a time
//! ```

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::physical_plan::collect;
use datafusion::sql::sqlparser::ast::{Expr, ExprWithAlias, Ident, Value};
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::{Code, Error, Result};
use crate::scan::{TimeTravel, View};
use crate::sql::dialect::Sql;
use crate::sql::timestamps::{instant_of, instant_of_text};

/// What an expression says, before it is known which table it is said of.
pub(super) enum When {
    Id(i64),
    Named(String),
    /// A name, or the time that it is as well.
    NamedOr(String, Option<i64>),
    Time(i64),
    /// `NULL`
    Never,
}

impl When {
    /// The state of a table that is meant.
    ///
    /// # Errors
    /// `unknown_snapshot` for a name that the table doesn't have.
    pub(super) fn in_table(self, view: &View) -> Result<TimeTravel> {
        let (name, time) = match self {
            When::Id(id) => return Ok(TimeTravel::Snapshot(id)),
            When::Time(ms) => return Ok(TimeTravel::Timestamp(ms)),
            When::Never => {
                return Err(Error::new(Code::InvalidValue, "NULL is no snapshot").with("table", &view.name));
            }
            When::Named(name) => (name, None),
            When::NamedOr(name, time) => (name, time),
        };
        let named = TimeTravel::Ref(name.clone());
        let error = match view.at(&named) {
            Ok(_) => return Ok(named),
            Err(error) if error.code() == Code::UnknownSnapshot => error,
            Err(error) => return Err(error),
        };
        match (name.parse::<i64>(), time) {
            (Ok(id), _) => Ok(TimeTravel::Snapshot(id)),
            (Err(_), Some(ms)) => Ok(TimeTravel::Timestamp(ms)),
            (Err(_), None) => Err(error),
        }
    }
}

/// What follows `VERSION AS OF`.
pub(super) fn version(expr: &Expr) -> Result<When> {
    literal(expr).filter(|when| !matches!(when, When::Never)).ok_or_else(|| {
        Error::new(Code::InvalidArgument, format!("{expr} is no version of a table"))
            .help("VERSION AS OF takes a snapshot's id, or the name of a branch or tag in single quotes")
    })
}

/// An argument that is a version or a time.
pub(super) async fn either(expr: &Expr, state: &SessionState) -> Result<When> {
    match literal(expr) {
        Some(When::Named(name)) => {
            let time = instant_of_text(&name, zone(state)).ok();
            Ok(When::NamedOr(name, time))
        }
        Some(when) => Ok(when),
        None => moment(expr, state).await.map(When::Time),
    }
}

fn literal(expr: &Expr) -> Option<When> {
    match expr {
        Expr::Nested(inner) => literal(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok().map(When::Id),
            Value::SingleQuotedString(text) => Some(When::Named(text.clone())),
            Value::Null => Some(When::Never),
            _ => None,
        },
        _ => None,
    }
}

/// The name of a table as an argument: text, or the name itself.
pub(super) fn table(expr: &Expr) -> Option<Vec<Ident>> {
    match expr {
        Expr::Identifier(name) => Some(vec![name.clone()]),
        Expr::CompoundIdentifier(parts) => Some(parts.clone()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => {
                let dialect = Sql::default();
                let mut parser = Parser::new(&dialect).try_with_sql(text).ok()?;
                let name = parser.parse_object_name(false).ok()?;
                let whole = parser.peek_token().token == datafusion::sql::sqlparser::tokenizer::Token::EOF;
                super::ask::idents(&name).filter(|_| whole)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The time that an expression is, in milliseconds since 1970-01-01T00:00:00Z: text, a date, a timestamp. What has no zone
/// is read in that of the session.
///
/// # Errors
/// `invalid_value` for anything else, and what evaluating it meets.
pub(super) async fn moment(expr: &Expr, state: &SessionState) -> Result<i64> {
    if let Some(When::Named(text)) = literal(expr) {
        return instant_of_text(&text, zone(state));
    }
    let value = evaluated(expr, state).await?;
    let instant = match value.try_as_str().flatten() {
        Some(text) => Some(instant_of_text(text, zone(state))?),
        None => instant_of(&value, zone(state))?,
    };
    instant.ok_or_else(|| {
        Error::new(Code::InvalidValue, format!("{expr} is no date or timestamp"))
            .with("value", &value)
            .help("TIMESTAMP AS OF takes text like '2026-06-04 12:00', a date or a timestamp")
    })
}

/// The value of an expression that reads no column.
async fn evaluated(expr: &Expr, state: &SessionState) -> Result<ScalarValue> {
    let expr = ExprWithAlias { expr: expr.clone(), alias: None };
    let expr = state.create_logical_expr_from_sql_expr(expr, &DFSchema::empty())?;
    let plan = LogicalPlanBuilder::empty(true).project([expr])?.build()?;
    let plan = state.create_physical_plan(&plan).await?;
    let batches = collect(plan, state.task_ctx()).await?;
    let column = batches.first().and_then(|batch| batch.columns().first());
    let column = column.ok_or_else(|| Error::new(Code::Internal, "an expression without a value"))?;
    Ok(ScalarValue::try_from_array(column, 0)?)
}

fn zone(state: &SessionState) -> Option<&str> {
    state.config_options().execution.time_zone.as_deref()
}

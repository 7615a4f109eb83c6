//! Which statements are refused by name, and which write?

use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as PlanStatement};
use datafusion::sql::parser::{CopyToSource, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{Insert, ObjectType, SchemaName, Set, Statement as Ast};

use super::clauses;
use super::parse::Parsed;
use crate::error::{Code, Error};

/// The error for a statement that this version does not run; `None` for those it does.
pub fn refused(parsed: &Parsed) -> Option<Error> {
    let statement = match parsed {
        Parsed::ExplainPruning(inner) => match inner.as_ref() {
            DfStatement::Statement(ast) if matches!(ast.as_ref(), Ast::Query(_)) => return refuse_ast(ast),
            _ => return Some(Error::new(Code::NotSupported, "EXPLAIN PRUNING takes a query")),
        },
        Parsed::Sql(statement) => statement.as_ref(),
    };
    refuse(statement)
}

fn refuse(statement: &DfStatement) -> Option<Error> {
    match statement {
        DfStatement::Statement(ast) => refuse_ast(ast),
        DfStatement::Explain(explain) => match (explain.analyze, explain.statement.as_ref()) {
            (true, DfStatement::Statement(ast)) if !runs_as_a_plan(ast) => {
                Some(not_supported(&format!("EXPLAIN ANALYZE {}", keywords(ast)), Some("EXPLAIN ANALYZE runs a query")))
            }
            (_, inner) => refuse(inner),
        },
        DfStatement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => clauses::refuse(query.as_ref()),
            CopyToSource::Relation(_) => None,
        },
        DfStatement::CreateExternalTable(_) | DfStatement::Reset(_) => None,
    }
}

/// What is there is listed, so that whatever the parser learns is refused until it is there.
fn refuse_ast(ast: &Ast) -> Option<Error> {
    let (name, help) = match ast {
        Ast::Query(_) | Ast::CreateView(_) => return clauses::refuse(ast),
        Ast::Insert(insert) => match inserts_as(insert) {
            None => return clauses::refuse(ast),
            Some(name) => (name, Some("INSERT INTO t [(columns)] query appends")),
        },
        Ast::Prepare { statement, .. } | Ast::Explain { statement, .. } => return refuse_ast(statement),
        Ast::Execute { immediate: false, .. } | Ast::Deallocate { .. } => return None,
        Ast::ShowVariable { variable }
            if variable.first().is_some_and(|word| word.value.eq_ignore_ascii_case("tblproperties")) =>
        {
            ("SHOW TBLPROPERTIES", None)
        }
        Ast::ExplainTable { .. }
        | Ast::ShowTables { .. }
        | Ast::ShowSchemas { .. }
        | Ast::ShowColumns { .. }
        | Ast::ShowCreate { .. }
        | Ast::ShowFunctions { .. }
        | Ast::ShowVariable { .. }
        | Ast::Set(Set::SingleAssignment { .. }) => return None,
        Ast::CreateSchema {
            schema_name: SchemaName::Simple(_),
            with: None,
            options: None,
            default_collate_spec: None,
            clone: None,
            ..
        } => return None,
        Ast::CreateSchema { .. } => ("CREATE SCHEMA with an owner or options", None),
        Ast::Drop { object_type: ObjectType::Table | ObjectType::View | ObjectType::Schema, .. } => return None,
        Ast::CreateTable(create) if create.query.is_some() => {
            ("CREATE TABLE AS", Some("daygrain export DATASET --query SQL makes a table from a query"))
        }
        Ast::CreateTable(_) => ("CREATE TABLE", Some("the first export makes the table")),
        Ast::CreateDatabase { .. } => {
            ("CREATE DATABASE", Some("there is one catalog, daygrain; CREATE SCHEMA makes a schema in it"))
        }
        Ast::CreateFunction(_) => ("CREATE FUNCTION", None),
        Ast::CreateIndex(_) => ("CREATE INDEX", None),
        Ast::Merge(_) => ("MERGE INTO", None),
        Ast::Set(Set::SetTimeZone { .. }) => {
            ("SET TIME ZONE", Some("SET datafusion.execution.time_zone = 'Asia/Tokyo' sets the session's zone"))
        }
        Ast::StartTransaction { .. } | Ast::Commit { .. } | Ast::Rollback { .. } => {
            ("a transaction of several statements", Some("each statement commits by itself"))
        }
        other => return Some(not_supported(&keywords(other), None)),
    };
    Some(not_supported(name, help))
}

/// True where EXPLAIN ANALYZE has a plan to run.
fn runs_as_a_plan(ast: &Ast) -> bool {
    !matches!(
        ast,
        Ast::CreateSchema { .. }
            | Ast::CreateView(_)
            | Ast::Drop { .. }
            | Ast::Set(_)
            | Ast::Prepare { .. }
            | Ast::Execute { .. }
            | Ast::Deallocate { .. }
    )
}

/// What an INSERT is called that is not plain.
fn inserts_as(insert: &Insert) -> Option<&'static str> {
    let named = [
        (insert.overwrite, "INSERT OVERWRITE"),
        (insert.replace_into, "REPLACE INTO"),
        (insert.or.is_some(), "INSERT OR"),
        (insert.ignore, "INSERT IGNORE"),
        (insert.on.is_some(), "INSERT ON CONFLICT"),
        (insert.returning.is_some(), "INSERT RETURNING"),
        (insert.partitioned.is_some() || !insert.after_columns.is_empty(), "INSERT PARTITION"),
        (insert.source.is_none(), "INSERT without a query"),
    ];
    named.into_iter().find_map(|(is, name)| is.then_some(name))
}

pub(super) fn not_supported(name: &str, help: Option<&str>) -> Error {
    let error = Error::new(Code::NotSupported, format!("{name} is not supported yet"));
    match help {
        Some(help) => error.help(help),
        None => error,
    }
}

/// The keywords that a statement starts with: `GRANT`, `DROP FUNCTION`.
fn keywords(ast: &Ast) -> String {
    /// Verbs that mean little without what they are about.
    const OF_SOMETHING: &[&str] =
        &["ALTER", "CREATE", "DROP", "EXPORT", "INSERT", "LOAD", "RENAME", "SET", "SHOW", "START"];
    const BETWEEN: &[&str] = &["OR", "REPLACE", "TEMPORARY", "TEMP", "GLOBAL", "LOCAL", "SESSION"];
    let text = ast.to_string();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let verb = words.next().unwrap_or("this statement");
    if !OF_SOMETHING.contains(&verb) {
        return verb.to_owned();
    }
    match words.find(|word| !BETWEEN.contains(word)) {
        Some(object) if object.bytes().all(|byte| byte.is_ascii_uppercase()) => format!("{verb} {object}"),
        _ => verb.to_owned(),
    }
}

/// The name of what a plan would write, for the refusal of a read-only session.
pub fn writes(plan: &LogicalPlan) -> Option<String> {
    match plan {
        LogicalPlan::Dml(dml) => Some(dml.op.name().to_owned()),
        LogicalPlan::Copy(_) => Some("COPY TO".to_owned()),
        // What is external or a view exists in the session only.
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(_) | DdlStatement::CreateView(_)) => None,
        LogicalPlan::Ddl(ddl) => Some(ddl.name().to_owned()),
        LogicalPlan::Analyze(analyze) => writes(&analyze.input),
        // EXECUTE only names what was prepared.
        LogicalPlan::Statement(PlanStatement::Prepare(prepared)) => writes(&prepared.input),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    #[test]
    fn what_is_not_there_yet_is_named() {
        for (sql, name) in [
            ("create table t as select 1", "CREATE TABLE AS"),
            ("create table t (a int)", "CREATE TABLE"),
            ("delete from t where a in (select 1)", "DELETE"),
            ("update t set a = 1", "UPDATE"),
            ("truncate table t", "TRUNCATE"),
            ("alter table t add column b int", "ALTER TABLE"),
            ("insert overwrite t select 1", "INSERT OVERWRITE"),
            ("explain delete from t", "DELETE"),
            ("merge into t using s on t.a = s.a when matched then delete", "MERGE INTO"),
            ("explain pruning delete from t", "EXPLAIN PRUNING"),
            ("show tblproperties t", "SHOW TBLPROPERTIES"),
            ("explain pruning select * from t tablesample (10 percent)", "TABLESAMPLE"),
            ("drop function if exists f", "DROP FUNCTION"),
            ("create or replace function f(int) returns int return $1", "CREATE FUNCTION"),
            ("create temporary sequence s", "CREATE SEQUENCE"),
            ("create schema s authorization u", "CREATE SCHEMA"),
            ("alter index i rename to j", "ALTER INDEX"),
            ("grant select on t to u", "GRANT is"),
            ("analyze t", "ANALYZE is"),
            ("set time zone 'UTC'", "SET TIME ZONE"),
            ("set role r", "SET ROLE"),
            ("prepare p as delete from t", "DELETE"),
            ("prepare p as explain update t set a = 1", "UPDATE"),
            ("insert or ignore into t values (1)", "INSERT OR"),
            ("insert into t values (1) on conflict do nothing", "INSERT ON CONFLICT"),
            ("insert into t select 1 returning a", "INSERT RETURNING"),
            ("explain analyze drop table t", "EXPLAIN ANALYZE DROP TABLE"),
        ] {
            let error = refused(&parse(sql).unwrap()).unwrap_or_else(|| panic!("{sql} is not refused"));
            assert_eq!(error.code(), Code::NotSupported);
            assert!(error.what().starts_with(name), "{sql}: {error}");
        }
        for sql in [
            "select 1",
            "insert into t select 1",
            "drop table t purge",
            "explain pruning select 1",
            "show tables",
            "show all",
            "show functions",
            "set datafusion.execution.batch_size = 1",
            "reset datafusion.execution.batch_size",
            "describe t",
            "describe select 1",
            "prepare p as select $1",
            "execute p(1)",
            "deallocate p",
            "copy t to 'x.csv'",
            "create view v as select 1",
            "create external table t stored as csv location 'x'",
            "explain analyze insert into t select 1",
        ] {
            assert!(refused(&parse(sql).unwrap()).is_none(), "{sql}");
        }
    }
}

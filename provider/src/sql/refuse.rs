//! Which statements are refused by name, and which write?

use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectType, Statement as Ast};

use super::parse::Parsed;
use crate::error::{Code, Error};

/// The error for a statement that this version does not run; `None` for those it does.
pub fn refused(parsed: &Parsed) -> Option<Error> {
    let statement = match parsed {
        Parsed::ExplainPruning(inner) => match inner.as_ref() {
            DfStatement::Statement(ast) if matches!(ast.as_ref(), Ast::Query(_)) => return None,
            _ => return Some(Error::new(Code::NotSupported, "EXPLAIN PRUNING takes a query")),
        },
        Parsed::Sql(statement) => statement.as_ref(),
    };
    refuse(statement)
}

fn refuse(statement: &DfStatement) -> Option<Error> {
    let ast = match statement {
        DfStatement::Statement(ast) => ast.as_ref(),
        DfStatement::Explain(explain) => return refuse(&explain.statement),
        _ => return None,
    };
    let (name, help) = match ast {
        Ast::CreateTable(create) if create.query.is_some() => {
            ("CREATE TABLE AS", Some("daygrain export DATASET --query SQL makes a table from a query"))
        }
        Ast::CreateTable(_) => ("CREATE TABLE", Some("the first export makes the table")),
        Ast::Delete(_) => ("DELETE", None),
        Ast::Update(_) => ("UPDATE", None),
        Ast::Merge(_) => ("MERGE INTO", None),
        Ast::Truncate(_) => ("TRUNCATE", None),
        Ast::AlterTable(_) => ("ALTER TABLE", None),
        Ast::AlterView { .. } => ("ALTER VIEW", None),
        Ast::AlterSchema(_) => ("ALTER SCHEMA", None),
        Ast::Call(_) => ("CALL", None),
        Ast::CreateDatabase { .. } => {
            ("CREATE DATABASE", Some("there is one catalog, daygrain; CREATE SCHEMA makes a schema in it"))
        }
        Ast::ShowVariable { variable }
            if variable.first().is_some_and(|word| word.value.eq_ignore_ascii_case("tblproperties")) =>
        {
            ("SHOW TBLPROPERTIES", None)
        }
        Ast::CreateIndex(_) => ("CREATE INDEX", None),
        Ast::CreateFunction(_) => ("CREATE FUNCTION", None),
        Ast::Insert(insert) if insert.overwrite => ("INSERT OVERWRITE", Some("INSERT INTO appends")),
        Ast::Insert(insert) if insert.replace_into => ("REPLACE INTO", Some("INSERT INTO appends")),
        Ast::Drop { object_type, .. }
            if !matches!(object_type, ObjectType::Table | ObjectType::View | ObjectType::Schema) =>
        {
            return Some(Error::new(Code::NotSupported, format!("DROP {object_type} is not supported")));
        }
        Ast::StartTransaction { .. } | Ast::Commit { .. } | Ast::Rollback { .. } => {
            ("a transaction of several statements", Some("each statement commits by itself"))
        }
        _ => return None,
    };
    let error = Error::new(Code::NotSupported, format!("{name} is not supported yet"));
    Some(match help {
        Some(help) => error.help(help),
        None => error,
    })
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
        ] {
            let error = refused(&parse(sql).unwrap()).unwrap_or_else(|| panic!("{sql} is not refused"));
            assert_eq!(error.code(), Code::NotSupported);
            assert!(error.what().starts_with(name), "{sql}: {error}");
        }
        for sql in
            ["select 1", "insert into t select 1", "drop table t purge", "explain pruning select 1", "show tables"]
        {
            assert!(refused(&parse(sql).unwrap()).is_none(), "{sql}");
        }
    }
}

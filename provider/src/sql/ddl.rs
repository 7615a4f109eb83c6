//! Statements about schemas and tables that the catalog answers.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use datafusion::sql::parser::{CreateExternalTable, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{Ident as AstIdent, ObjectName, ObjectType, SchemaName, Statement as Ast, Value};
use iceberg::spec::Schema;

use crate::error::{Code, Error, Result};
use crate::schema::type_name;
use crate::table::{CATALOG, DEFAULT_SCHEMA};

/// A table's name in SQL, resolved: the catalog is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// Namespace; levels separated by dots.
    pub schema: String,
    /// Table.
    pub name: String,
}

/// A statement that only concerns the catalog.
#[derive(Clone, Debug)]
pub enum Ddl {
    /// `CREATE SCHEMA [IF NOT EXISTS] s`
    CreateSchema { schema: String, if_not_exists: bool },
    /// `DROP SCHEMA [IF EXISTS] s`
    DropSchemas { schemas: Vec<String>, if_exists: bool },
    /// `DROP TABLE [IF EXISTS] t [, u] [PURGE]`, `DROP VIEW v`
    DropTables { tables: Vec<TableName>, if_exists: bool, purge: bool, views: bool },
    /// `CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION '…' [OPTIONS ('relocate' 'true')]`
    External { table: TableName, location: String, relocate: bool, if_not_exists: bool, or_replace: bool },
    /// `SHOW TABLES`
    ShowTables,
    /// `SHOW SCHEMAS`
    ShowSchemas,
    /// `DESCRIBE t`
    Describe(TableName),
}

impl Ddl {
    /// The statement, if it is one of these.
    ///
    /// # Errors
    /// `unknown_namespace` for a catalog that is not ours; `invalid_argument` for options that mean nothing.
    pub fn of(statement: &DfStatement) -> Result<Option<Ddl>> {
        match statement {
            DfStatement::CreateExternalTable(create) if create.file_type.eq_ignore_ascii_case("iceberg") => {
                external(create).map(Some)
            }
            DfStatement::Statement(ast) => of_ast(ast),
            _ => Ok(None),
        }
    }

    /// True where the statement changes the warehouse.
    pub fn writes(&self) -> Option<&'static str> {
        match self {
            Ddl::CreateSchema { .. } => Some("CREATE SCHEMA"),
            Ddl::DropSchemas { .. } => Some("DROP SCHEMA"),
            Ddl::DropTables { views: false, .. } => Some("DROP TABLE"),
            _ => None,
        }
    }
}

fn of_ast(ast: &Ast) -> Result<Option<Ddl>> {
    Ok(Some(match ast {
        Ast::CreateSchema { schema_name: SchemaName::Simple(name), if_not_exists, .. } => {
            Ddl::CreateSchema { schema: schema_name(name)?, if_not_exists: *if_not_exists }
        }
        Ast::Drop { object_type: ObjectType::Schema, if_exists, names, cascade, .. } => {
            if *cascade {
                return Err(Error::new(Code::NotSupported, "DROP SCHEMA … CASCADE is not supported")
                    .help("drop the schema's tables first"));
            }
            let schemas: Result<Vec<String>> = names.iter().map(schema_name).collect();
            Ddl::DropSchemas { schemas: schemas?, if_exists: *if_exists }
        }
        Ast::Drop {
            object_type: object_type @ (ObjectType::Table | ObjectType::View),
            if_exists,
            names,
            purge,
            ..
        } => {
            let tables: Result<Vec<TableName>> = names.iter().map(TableName::of).collect();
            let views = *object_type == ObjectType::View;
            Ddl::DropTables { tables: tables?, if_exists: *if_exists, purge: *purge, views }
        }
        Ast::ShowTables { show_options, .. }
            if show_options.filter_position.is_none() && show_options.show_in.is_none() =>
        {
            Ddl::ShowTables
        }
        Ast::ShowSchemas { show_options, .. } if show_options.filter_position.is_none() => Ddl::ShowSchemas,
        Ast::ExplainTable { table_name, .. } => Ddl::Describe(TableName::of(table_name)?),
        _ => return Ok(None),
    }))
}

fn external(create: &CreateExternalTable) -> Result<Ddl> {
    let mut relocate = false;
    for (key, value) in &create.options {
        let text = match value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        };
        match (key.to_ascii_lowercase().as_str(), text.to_ascii_lowercase().as_str()) {
            ("relocate", "true") => relocate = true,
            ("relocate", "false") => relocate = false,
            _ => {
                return Err(Error::new(Code::InvalidArgument, "an external Iceberg table has no such option")
                    .with("option", key)
                    .with("value", text)
                    .help("the options are: 'relocate' 'true' or 'false'"));
            }
        }
    }
    if !create.columns.is_empty() || !create.table_partition_cols.is_empty() {
        return Err(Error::new(
            Code::InvalidArgument,
            "an Iceberg table's columns and partitioning are in its metadata",
        )
        .help("leave the column list and PARTITIONED BY out"));
    }
    Ok(Ddl::External {
        table: TableName::of(&create.name)?,
        location: create.location.clone(),
        relocate,
        if_not_exists: create.if_not_exists,
        or_replace: create.or_replace,
    })
}

impl TableName {
    /// Resolves `t`, `s.t`, `daygrain.s.t`; more parts are levels of the namespace.
    ///
    /// # Errors
    /// `unknown_namespace`, `invalid_name`.
    pub fn of(name: &ObjectName) -> Result<TableName> {
        let mut parts = parts(name)?;
        let table = parts.pop().ok_or_else(|| Error::new(Code::InvalidName, "a table needs a name"))?;
        Ok(TableName { schema: namespace(parts), name: table })
    }

    /// Schema and name.
    pub fn into_pair(self) -> (String, String) {
        (self.schema, self.name)
    }
}

fn schema_name(name: &ObjectName) -> Result<String> {
    let parts = parts(name)?;
    if parts.is_empty() || parts == [CATALOG] {
        return Err(Error::new(Code::InvalidName, "a schema needs a name").with("name", name));
    }
    Ok(namespace(parts))
}

fn namespace(mut parts: Vec<String>) -> String {
    if parts.len() > 1 && parts.first().is_some_and(|part| part == CATALOG) {
        parts.remove(0);
    }
    if parts.is_empty() { DEFAULT_SCHEMA.to_owned() } else { parts.join(".") }
}

fn parts(name: &ObjectName) -> Result<Vec<String>> {
    let part = |part: &datafusion::sql::sqlparser::ast::ObjectNamePart| {
        part.as_ident()
            .map(|AstIdent { value, .. }| value.clone())
            .ok_or_else(|| Error::new(Code::InvalidName, "a name has a part that is no identifier").with("name", name))
    };
    name.0.iter().map(part).collect()
}

/// Rows that describe the catalog.
#[derive(Clone, Copy, Debug)]
pub struct Listing;

impl Listing {
    /// `table_catalog, table_schema, table_name, table_type`
    ///
    /// # Errors
    /// Only for more rows than Arrow arrays hold.
    pub fn tables(rows: &[(String, String, &'static str)]) -> Result<RecordBatch> {
        text_rows(
            &["table_catalog", "table_schema", "table_name", "table_type"],
            vec![
                rows.iter().map(|_| CATALOG.to_owned()).collect(),
                rows.iter().map(|row| row.0.clone()).collect(),
                rows.iter().map(|row| row.1.clone()).collect(),
                rows.iter().map(|row| row.2.to_owned()).collect(),
            ],
        )
    }

    /// `schema_name`
    ///
    /// # Errors
    /// Only for more rows than Arrow arrays hold.
    pub fn schemas(names: Vec<String>) -> Result<RecordBatch> {
        text_rows(&["schema_name"], vec![names])
    }

    /// `column_name, data_type, is_nullable`: the business schema, with Iceberg's type names.
    ///
    /// # Errors
    /// Only for more rows than Arrow arrays hold.
    pub fn columns(schema: &Schema) -> Result<RecordBatch> {
        let fields = schema.as_struct().fields();
        text_rows(
            &["column_name", "data_type", "is_nullable"],
            vec![
                fields.iter().map(|field| field.name.clone()).collect(),
                fields.iter().map(|field| type_name(&field.field_type)).collect(),
                fields.iter().map(|field| if field.required { "NO" } else { "YES" }.to_owned()).collect(),
            ],
        )
    }
}

fn text_rows(names: &[&str], columns: Vec<Vec<String>>) -> Result<RecordBatch> {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect();
    let columns = columns.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef).collect();
    Ok(RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns)?)
}

#[cfg(test)]
mod tests {
    use super::super::parse::{Parsed, parse};
    use super::*;

    fn ddl(sql: &str) -> String {
        let Parsed::Sql(statement) = parse(sql).unwrap() else { panic!("{sql}") };
        match Ddl::of(&statement) {
            Ok(Some(ddl)) => format!("{ddl:?}"),
            Ok(None) => "none".to_owned(),
            Err(e) => e.code().to_string(),
        }
    }

    #[test]
    fn names_resolve_in_our_catalog() {
        let table = |schema: &str, name: &str| format!("TableName {{ schema: {schema:?}, name: {name:?} }}");
        for (sql, schema, name) in [
            ("describe t", "main", "t"),
            ("describe s.t", "s", "t"),
            ("describe daygrain.main.t", "main", "t"),
            ("describe \"My Schema\".\"T.x\"", "My Schema", "T.x"),
        ] {
            assert_eq!(ddl(sql), format!("Describe({})", table(schema, name)), "{sql}");
        }
    }

    #[test]
    fn statements_about_the_catalog_are_recognised() {
        assert!(ddl("drop table if exists a, b purge").contains("if_exists: true, purge: true"));
        assert!(ddl("create schema if not exists s").contains("\"s\", if_not_exists: true"));
        assert!(
            ddl("create external table t stored as iceberg location '/x' options ('relocate' 'true')")
                .contains("relocate: true")
        );
        assert_eq!(
            ddl("create external table t stored as iceberg location '/x' options ('x' 'y')"),
            "invalid_argument"
        );
        assert_eq!(ddl("create external table t stored as parquet location '/x'"), "none");
        assert_eq!(ddl("show tables"), "ShowTables");
        assert_eq!(ddl("show schemas"), "ShowSchemas");
        assert_eq!(ddl("select 1"), "none");
    }
}

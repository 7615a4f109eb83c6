//! What do statements do that the engine doesn't know, or knows otherwise: schemas, tables, and lists of them?

use std::sync::Arc;

use arrow::datatypes::Schema as ArrowSchema;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as DfStatement;

use super::run::rows;
use super::{Running, Session, read_only};
use crate::catalog::{Catalog, check_not_reserved};
use crate::error::{Code, Error, Result};
use crate::sql::{Ddl, Listing, TableName};
use crate::table::{External, IcebergTable, ident};

impl Session {
    pub(super) async fn ddl(&self, ddl: Ddl, statement: DfStatement) -> Result<Running> {
        if let Some(what) = ddl.writes()
            && self.0.warehouse.read_only()
            && !self.only_forgets(&ddl)
        {
            return Err(read_only(what));
        }
        match ddl {
            Ddl::CreateSchema { schema, if_not_exists } => {
                match self.catalog().create_namespace(&levels(&schema)).await {
                    Err(e) if if_not_exists && e.code() == Code::AlreadyExists => Ok(nothing(Vec::new())),
                    other => other.map(|()| nothing(Vec::new())),
                }
            }
            Ddl::DropSchemas { schemas, if_exists } => {
                for schema in schemas {
                    match self.catalog().drop_namespace(&levels(&schema)).await {
                        Err(e) if if_exists && e.code() == Code::UnknownNamespace => {}
                        other => other?,
                    }
                }
                Ok(nothing(Vec::new()))
            }
            Ddl::DropTables { tables, if_exists, purge, views } => {
                let mut notes = Vec::new();
                for table in tables {
                    notes.extend(self.drop(&table, if_exists, purge, views).await?);
                }
                Ok(nothing(notes))
            }
            Ddl::External { table, location, relocate, if_not_exists, or_replace } => {
                self.external(table, location, relocate, if_not_exists, or_replace).await
            }
            Ddl::ShowTables => self.show_tables().await,
            Ddl::ShowSchemas => {
                self.0.warehouse.list().await?;
                rows(Listing::schemas(self.0.warehouse.listed().into_keys().collect())?)
            }
            Ddl::Describe(table) => self.describe(table, statement).await,
        }
    }

    /// Nothing of the session takes the place of a table of the warehouse.
    pub(super) async fn refuse_existing(&self, schema: &str, name: &str) -> Result<()> {
        let ident = ident(schema, name);
        check_not_reserved(&ident.namespace)?;
        match self.catalog().load(&ident).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(Error::new(Code::AlreadyExists, "the warehouse has a table of this name")
                .with("table", format!("{schema}.{name}"))
                .help("choose another name")),
            Err(e) if e.code() == Code::InvalidName => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// True for a drop of tables that exist in the session only.
    fn only_forgets(&self, ddl: &Ddl) -> bool {
        let local = |table: &TableName| self.0.warehouse.is_local(&table.schema, &table.name);
        matches!(ddl, Ddl::DropTables { tables, .. } if tables.iter().all(local))
    }

    fn catalog(&self) -> &dyn Catalog {
        self.0.warehouse.committer().catalog.as_ref()
    }

    async fn drop(&self, table: &TableName, if_exists: bool, purge: bool, view: bool) -> Result<Option<String>> {
        let warehouse = &self.0.warehouse;
        if warehouse.forget(&table.schema, &table.name) {
            self.0.definitions.forget(&table.schema, &table.name);
            return Ok(None);
        }
        let name = format!("{}.{}", table.schema, table.name);
        let ident = ident(&table.schema, &table.name);
        let unknown = || Error::new(Code::UnknownTable, format!("there is no table {name}"));
        if view {
            return if if_exists { Ok(None) } else { Err(unknown()) };
        }
        match self.catalog().drop_table(&ident, purge).await {
            Err(e) if matches!(e.code(), Code::UnknownTable | Code::InvalidName) => {
                if if_exists {
                    Ok(None)
                } else {
                    Err(unknown())
                }
            }
            Err(e) => Err(e),
            Ok(dropped) if purge => Ok(Some(format!("dropped {name} and deleted {} files", dropped.deleted))),
            Ok(dropped) => Ok(Some(format!("dropped {name}; its data files are kept in {}", dropped.location))),
        }
    }

    async fn external(
        &self,
        table: TableName,
        location: String,
        relocate: bool,
        if_not_exists: bool,
        or_replace: bool,
    ) -> Result<Running> {
        let warehouse = &self.0.warehouse;
        let TableName { schema, name } = table;
        if warehouse.is_local(&schema, &name) && !or_replace {
            if if_not_exists {
                return Ok(nothing(Vec::new()));
            }
            return Err(Error::new(Code::AlreadyExists, "the session has a table of this name")
                .with("table", format!("{schema}.{name}"))
                .help("DROP TABLE forgets it, CREATE OR REPLACE EXTERNAL TABLE replaces it"));
        }
        self.refuse_existing(&schema, &name).await?;
        let external = External::new(name.clone(), location, relocate);
        external.open(warehouse.committer()).await?;
        warehouse.forget(&schema, &name);
        warehouse.register_external(&schema, &name, external);
        Ok(nothing(Vec::new()))
    }

    async fn show_tables(&self) -> Result<Running> {
        let warehouse = &self.0.warehouse;
        warehouse.list().await?;
        let mut found = Vec::new();
        for (schema, tables) in warehouse.listed() {
            for table in tables {
                let kind = if warehouse.is_local(&schema, &table) { "EXTERNAL" } else { "BASE TABLE" };
                found.push((schema.clone(), table, kind));
            }
        }
        found.sort();
        rows(Listing::tables(&found)?)
    }

    async fn describe(&self, table: TableName, statement: DfStatement) -> Result<Running> {
        let provider = self.0.warehouse.table(&table.schema, &table.name).await?;
        if let Some(iceberg) = provider.as_ref().and_then(|p| p.as_any().downcast_ref::<IcebergTable>()) {
            return rows(Listing::columns(&iceberg.view().schema)?);
        }
        let state = self.0.context.state();
        let plan = state.statement_to_plan(statement).await?;
        self.execute(state.create_physical_plan(&plan).await?, Vec::new())
    }
}

fn levels(schema: &str) -> Vec<String> {
    schema.split('.').map(str::to_owned).collect()
}

/// A statement that is done and has no rows.
fn nothing(notes: Vec<String>) -> Running {
    let schema = Arc::new(ArrowSchema::empty());
    let stream = RecordBatchStreamAdapter::new(schema, futures::stream::empty());
    Running { stream: Box::pin(stream), plan: None, notes }
}

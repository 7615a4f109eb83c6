//! One table at one snapshot, as a `TableProvider`.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::SchemaRef as ArrowSchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::catalog::{Base, Ident};
use crate::commit::Committer;
use crate::error::{Code, Error};
use crate::metadata::with_defaults;
use crate::scan::{MetadataColumn, TimeTravel, View};
use crate::sink::{self, Progress, Target};
use crate::{exec, schema};

/// What may be done with a table besides reading it.
#[derive(Clone, Debug)]
pub enum Access {
    /// Nothing: the session is read-only, or the table belongs to another catalog. Says which.
    ReadOnly(&'static str),
    /// Appends go through this committer, from this base.
    Append { ident: Ident, base: Box<Base>, committer: Committer },
}

/// A table at the snapshot that was its newest when the statement began.
#[derive(Debug)]
pub struct IcebergTable {
    view: Arc<View>,
    access: Access,
}

impl IcebergTable {
    /// A provider over `view`.
    pub fn new(view: View, access: Access) -> Self {
        IcebergTable { view: Arc::new(view), access }
    }

    /// The table and snapshot behind it.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The same table with a view of its own, by which a scan of it is told from other scans.
    pub(crate) fn apart(&self) -> IcebergTable {
        IcebergTable { view: Arc::new(self.view.as_ref().clone()), access: self.access.clone() }
    }

    /// The view at the current snapshot of `base`: the current schema rules.
    ///
    /// # Errors
    /// `unsupported_type` where the schema has no Arrow equivalent.
    pub fn view_of(name: String, base: &Base, committer: &Committer) -> crate::Result<View> {
        let current = with_defaults(&base.metadata, base.metadata.current_schema())?;
        Ok(View {
            name,
            metadata: Arc::clone(&base.metadata),
            metadata_location: base.location.clone(),
            snapshot: base.metadata.current_snapshot().cloned(),
            reference: None,
            changes: None,
            arrow: schema::to_arrow(&current)?,
            schema: current,
            manifests: committer.manifests.clone(),
            env: committer.env.clone(),
            relocate: None,
        })
    }

    /// The same table in another state, read only: what [`View::at`] says.
    ///
    /// # Errors
    /// `unknown_snapshot`.
    // @spec P10
    pub fn at(&self, travel: &TimeTravel) -> crate::Result<Self> {
        Ok(self.reading(self.view.at(travel)?))
    }

    /// The rows that changed between two snapshots: what [`View::changes`] says.
    ///
    /// # Errors
    /// `changes_unavailable`.
    pub fn changes(&self, from: Option<i64>, to: i64) -> crate::Result<Self> {
        Ok(self.reading(self.view.changes(from, to)?))
    }

    /// The rows that were appended between two snapshots: what [`View::appends`] says.
    ///
    /// # Errors
    /// `changes_unavailable`.
    pub fn appends(&self, from: Option<i64>, to: i64) -> crate::Result<Self> {
        Ok(self.reading(self.view.appends(from, to)?))
    }

    /// The same table with metadata columns after its own, read only.
    ///
    /// # Errors
    /// As [`View::with_metadata_columns`].
    // @spec P9
    pub fn with_metadata_columns(&self, columns: &[MetadataColumn]) -> crate::Result<Self> {
        Ok(self.reading(self.view.with_metadata_columns(columns)?))
    }

    fn reading(&self, view: View) -> Self {
        IcebergTable::new(view, Access::ReadOnly("this is another version of the table, or more than the table"))
    }

    fn target(&self) -> crate::Result<(Target, Committer)> {
        match &self.access {
            Access::ReadOnly(why) => {
                Err(Error::new(Code::ReadOnly, "the table cannot be written").with("table", &self.view.name).help(*why))
            }
            Access::Append { ident, base, committer } => {
                Ok((Target::append(ident.clone(), base.as_ref().clone()), committer.clone()))
            }
        }
    }
}

#[async_trait]
impl TableProvider for IcebergTable {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> ArrowSchemaRef {
        Arc::clone(&self.view.arrow)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Inexact: the optimiser keeps the filter for its estimates until the physical plan takes it over.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(exec::scan(&self.view, state, projection, filters, limit).await?)
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        if op != InsertOp::Append {
            let what = format!("{op} is not supported yet");
            return Err(Error::new(Code::NotSupported, what).help("INSERT INTO appends").into());
        }
        let (target, committer) = self.target()?;
        Ok(sink::plan(input, target, committer, state, Arc::new(Progress::default()))?)
    }
}

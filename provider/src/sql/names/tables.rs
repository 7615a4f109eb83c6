//! Which tables does a statement name, and what are their columns?

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{ResolvedTableReference, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectType, Query, Statement as SqlStatement, TableFactor, Visit, Visitor,
};

use super::scope::{Column, Columns, Fit, ambiguous, fit};
use crate::error::Result;

/// A name as it was written: its parts, and whether they were quoted.
type Written = Vec<(String, bool)>;

/// What the names of tables in one statement mean.
#[derive(Default)]
pub(super) struct Tables {
    tables: HashMap<Written, Table>,
    /// Catalogs and schemas, for names of schemas and for what stands before the name of a new table.
    schemas: HashMap<Written, Vec<String>>,
    loaded: HashMap<ResolvedTableReference, Arc<dyn TableProvider>>,
}

/// A schema's name, in as many parts as were written, and what it holds.
type FoundSchema = (Vec<String>, Arc<dyn SchemaProvider>);

/// A table that exists.
pub(super) struct Table {
    /// Its name, in as many parts as were written.
    pub(super) parts: Vec<String>,
    /// Its name in all parts, as its columns may be qualified however it was written.
    pub(super) path: Vec<String>,
    pub(super) columns: Columns,
}

/// The tables that a statement names, as written, without those that it defines itself.
pub fn relations(statement: &Statement) -> Vec<ObjectName> {
    let mut names = Names::default();
    names.statement(statement);
    let defined: HashSet<String> = names.ctes.iter().map(|name| name.to_lowercase()).collect();
    let is_defined = |name: &[Ident]| matches!(name, [only] if defined.contains(&only.value.to_lowercase()));
    names.relations.into_iter().filter(|name| !is_defined(name)).map(ObjectName::from).collect()
}

/// The table that a name means, under its full name; `None` where there is none, or it can't be loaded.
pub(in crate::sql) async fn find(
    name: &[Ident],
    state: &SessionState,
) -> Result<Option<(ResolvedTableReference, Arc<dyn TableProvider>)>> {
    let mut tables = Tables::default();
    let found = tables.find(name, state, false).await?;
    Ok(found.and(tables.loaded.into_iter().next()))
}

impl Tables {
    /// Looks up every table that a statement names, each once.
    pub(super) async fn load(statement: &Statement, state: &SessionState) -> Result<Self> {
        let mut names = Names::default();
        names.statement(statement);
        let mut tables = Tables::default();
        let ctes: HashSet<String> = names.ctes.iter().map(|name| name.to_lowercase()).collect();
        for name in &names.relations {
            // A name that a WITH defines is a table's only where it is the same.
            let shadowed = name.len() == 1 && name.iter().any(|part| ctes.contains(&part.value.to_lowercase()));
            if let Some(table) = tables.find(name, state, shadowed).await? {
                tables.tables.insert(written(name), table);
            }
        }
        for name in &names.schemas {
            if let Some((parts, _)) = find_schema(name, state)? {
                tables.schemas.insert(written(name), parts);
            }
        }
        Ok(tables)
    }

    pub(super) fn table(&self, name: &[Ident]) -> Option<&Table> {
        self.tables.get(&written(name))
    }

    /// The schema that a name means, in as many parts as were written.
    pub(super) fn schema(&self, name: &[Ident]) -> Option<&[String]> {
        self.schemas.get(&written(name)).map(Vec::as_slice)
    }

    pub(super) fn into_loaded(self) -> Vec<(ResolvedTableReference, Arc<dyn TableProvider>)> {
        self.loaded.into_iter().collect()
    }

    /// A table that can't be loaded is left to the planner, which says why.
    async fn find(&mut self, name: &[Ident], state: &SessionState, exactly: bool) -> Result<Option<Table>> {
        let Some((table, qualifier)) = name.split_last() else { return Ok(None) };
        let Some((mut parts, schema)) = find_schema(qualifier, state)? else { return Ok(None) };
        let options = &state.config_options().catalog;
        let (catalog_name, schema_name) = match parts.as_slice() {
            [] => (options.default_catalog.clone(), options.default_schema.clone()),
            [schema] => (options.default_catalog.clone(), schema.clone()),
            [catalog, schema, ..] => (catalog.clone(), schema.clone()),
        };
        let full = |table: &str| ResolvedTableReference {
            catalog: catalog_name.as_str().into(),
            schema: schema_name.as_str().into(),
            table: table.into(),
        };
        let mut meant = table.value.clone();
        let mut provider = self.loaded(full(&meant), schema.as_ref()).await;
        if matches!(provider, Ok(None)) && table.quote_style.is_none() && !exactly {
            let mut known = schema.table_names();
            known.sort();
            match fit(table, known.iter().map(String::as_str)) {
                Fit::Folded(name) => {
                    meant = name.to_owned();
                    provider = self.loaded(full(&meant), schema.as_ref()).await;
                }
                Fit::Several(candidates) => return Err(ambiguous(&table.value, "table", &candidates)),
                Fit::Exact(_) | Fit::None => {}
            }
        }
        let Ok(Some(provider)) = provider else { return Ok(None) };
        let path = vec![catalog_name, schema_name, meant.clone()];
        parts.push(meant);
        let columns = provider.schema().fields().iter().map(|field| Column::of(field)).collect();
        Ok(Some(Table { parts, path, columns: Some(columns) }))
    }

    async fn loaded(
        &mut self,
        name: ResolvedTableReference,
        schema: &dyn SchemaProvider,
    ) -> datafusion::error::Result<Option<Arc<dyn TableProvider>>> {
        if let Some(provider) = self.loaded.get(&name) {
            return Ok(Some(Arc::clone(provider)));
        }
        let provider = schema.table(&name.table).await?;
        if let Some(provider) = &provider {
            self.loaded.insert(name, Arc::clone(provider));
        }
        Ok(provider)
    }
}

/// The schema that `[]` (the default), `[schema]` or `[catalog, schema]` means: its parts as they are, and its provider.
fn find_schema(name: &[Ident], state: &SessionState) -> Result<Option<FoundSchema>> {
    let options = state.config_options();
    let catalogs = state.catalog_list();
    let (catalog, schema) = match name {
        [] => (None, None),
        [schema] => (None, Some(schema)),
        [catalog, schema] => (Some(catalog), Some(schema)),
        _ => return Ok(None),
    };
    let mut parts = Vec::new();
    let mut catalog_name = options.catalog.default_catalog.clone();
    if let Some(catalog) = catalog {
        let Some(meant) = one_of(catalog, "catalog", catalogs.catalog_names())? else { return Ok(None) };
        parts.push(meant.clone());
        catalog_name = meant;
    }
    let Some(provider) = catalogs.catalog(&catalog_name) else { return Ok(None) };
    let mut schema_name = options.catalog.default_schema.clone();
    if let Some(schema) = schema {
        let Some(meant) = one_of(schema, "schema", schema_names(provider.as_ref(), state))? else { return Ok(None) };
        parts.push(meant.clone());
        schema_name = meant;
    }
    let any_table = TableReference::full(catalog_name, schema_name, "");
    Ok(state.schema_for_ref(any_table).ok().map(|schema| (parts, schema)))
}

fn schema_names(catalog: &dyn CatalogProvider, state: &SessionState) -> Vec<String> {
    let mut names = catalog.schema_names();
    if state.config_options().catalog.information_schema && !names.iter().any(|name| name == "information_schema") {
        names.push("information_schema".to_owned());
    }
    names
}

fn one_of(name: &Ident, what: &str, known: Vec<String>) -> Result<Option<String>> {
    match fit(name, known.iter().map(String::as_str)) {
        Fit::Exact(meant) | Fit::Folded(meant) => Ok(Some(meant.to_owned())),
        Fit::Several(candidates) => Err(ambiguous(&name.value, what, &candidates)),
        Fit::None => Ok(None),
    }
}

/// The parts of a name, `None` where one of them is computed.
pub(super) fn idents(name: &ObjectName) -> Option<Vec<Ident>> {
    name.0.iter().map(|part| part.as_ident().cloned()).collect()
}

fn written(name: &[Ident]) -> Written {
    name.iter().map(|part| (part.value.clone(), part.quote_style.is_some())).collect()
}

/// Collects the names that stand where a table or schema is named.
#[derive(Default)]
struct Names {
    relations: Vec<Vec<Ident>>,
    schemas: Vec<Vec<Ident>>,
    ctes: Vec<String>,
    /// Functions and new tables: not to be looked up.
    made: Vec<ObjectName>,
}

impl Names {
    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Statement(statement) => self.visit(statement.as_ref()),
            Statement::Explain(explain) => self.statement(&explain.statement),
            Statement::CopyTo(copy) => match &copy.source {
                CopyToSource::Query(query) => self.visit(query.as_ref()),
                CopyToSource::Relation(name) => self.relation(name),
            },
            Statement::CreateExternalTable(table) => self.new_name(&table.name),
            Statement::Reset(_) => {}
        }
    }

    fn visit(&mut self, node: &impl Visit) {
        let ControlFlow::Continue(()) = node.visit(self);
    }

    fn relation(&mut self, name: &ObjectName) {
        if let Some(name) = idents(name)
            && !self.relations.contains(&name)
        {
            self.relations.push(name);
        }
    }

    fn new_name(&mut self, name: &ObjectName) {
        if let Some(name) = idents(name)
            && let Some((_, qualifier @ [_, ..])) = name.split_last()
        {
            self.schemas.push(qualifier.to_vec());
        }
    }
}

impl Visitor for Names {
    type Break = std::convert::Infallible;

    fn pre_visit_statement(&mut self, statement: &SqlStatement) -> ControlFlow<Self::Break> {
        match statement {
            SqlStatement::Drop { object_type: ObjectType::Schema, names, .. } => {
                self.schemas.extend(names.iter().filter_map(idents));
            }
            SqlStatement::Drop { object_type: ObjectType::Table | ObjectType::View, names, .. } => {
                names.iter().for_each(|name| self.relation(name));
            }
            SqlStatement::ShowCreate { obj_name, .. } => self.relation(obj_name),
            SqlStatement::CreateTable(table) => {
                self.new_name(&table.name);
                self.made.push(table.name.clone());
            }
            SqlStatement::CreateView(view) => {
                self.new_name(&view.name);
                self.made.push(view.name.clone());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.ctes.extend(ctes.map(|cte| cte.alias.name.value.clone()));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = factor {
            self.made.push(name.clone());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Self::Break> {
        // Names of functions and of what is about to be made are visited as relations too, right after they were noted.
        match self.made.iter().position(|made| made == name) {
            Some(at) => drop(self.made.swap_remove(at)),
            None => self.relation(name),
        }
        ControlFlow::Continue(())
    }
}

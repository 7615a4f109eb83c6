//! Which table is each of them?

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::ResolvedTableReference;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Ident, TableVersion};

use super::ask::{Ask, Kind};
use super::when::{self, When};
use crate::error::{Code, Error, Result};
use crate::scan::{MetadataColumn, TimeTravel};
use crate::sql::names::find_table;
use crate::table::{CATALOG, IcebergTable, Warehouse};

/// A table that takes an item's place.
pub(super) struct Opened {
    /// Its name in the statement.
    pub(super) name: Vec<Ident>,
    /// What it is called where the statement gives it no alias.
    pub(super) alias: Ident,
    /// The item's own name, which may qualify columns.
    pub(super) written: Vec<Ident>,
    /// The metadata columns that it has.
    pub(super) columns: Vec<MetadataColumn>,
}

/// The tables that items ask for, by address. Those that are no Iceberg table stay as they are, unless a version of one is
/// asked for.
pub(super) async fn all(asks: HashMap<usize, Ask>, state: &SessionState) -> Result<HashMap<usize, Opened>> {
    let mut opened = HashMap::new();
    for (address, ask) in asks {
        let found = match &ask.kind {
            Kind::Now(_) if ask.is_cte => None,
            Kind::Version(name, _) if ask.is_cte => return Err(no_versions(name, "it is a query of WITH")),
            Kind::Now(name) => now(name, &ask, state).await?,
            Kind::Version(name, version) => Some(at(name, version, &ask, state).await?),
            Kind::Changes(args) => Some(changes(args, &ask, state).await?),
        };
        opened.extend(found.map(|found| (address, found)));
    }
    Ok(opened)
}

/// A table that was found.
struct Found {
    reference: ResolvedTableReference,
    provider: Arc<dyn TableProvider>,
}

impl Found {
    fn iceberg(&self) -> Option<&IcebergTable> {
        self.provider.as_any().downcast_ref()
    }
}

async fn now(name: &[Ident], ask: &Ask, state: &SessionState) -> Result<Option<Opened>> {
    let Some((reference, provider)) = find_table(name, state).await? else { return Ok(None) };
    let found = Found { reference, provider };
    let Some(iceberg) = found.iceberg() else { return Ok(None) };
    let columns = offered(iceberg, ask);
    if columns.is_empty() {
        return Ok(None);
    }
    let table = iceberg.with_metadata_columns(&columns)?;
    let alias = name.last().cloned().unwrap_or_else(|| Ident::new(""));
    let called = found.reference.table.to_string();
    provide(&found, state, table, called, columns, (alias, name.to_vec())).map(Some)
}

async fn at(name: &[Ident], version: &TableVersion, ask: &Ask, state: &SessionState) -> Result<Opened> {
    let found = existing(name, state).await?;
    let iceberg = found.iceberg().ok_or_else(|| no_versions(name, "it is no Iceberg table"))?;
    let (travel, shown) = match version {
        TableVersion::ForSystemTimeAsOf(expr) | TableVersion::VersionAsOf(expr) => {
            let version = when::version(expr)?;
            (version.in_table(iceberg.view())?, format!("VERSION AS OF {expr}"))
        }
        TableVersion::TimestampAsOf(expr) => {
            let ms = when::moment(expr, state).await?;
            (TimeTravel::Timestamp(ms), format!("TIMESTAMP AS OF {expr}"))
        }
        TableVersion::Function(_) => {
            return Err(Error::new(
                Code::NotSupported,
                "a version of a table is written VERSION AS OF or TIMESTAMP AS OF",
            ));
        }
    };
    let table = iceberg.at(&travel)?;
    let columns = offered(&table, ask);
    let table = table.with_metadata_columns(&columns)?;
    let alias = name.last().cloned().unwrap_or_else(|| Ident::new(""));
    let called = format!("{} {shown}", found.reference.table);
    provide(&found, state, table, called, columns, (alias, name.to_vec()))
}

async fn changes(args: &[FunctionArg], ask: &Ask, state: &SessionState) -> Result<Opened> {
    let wrong = || {
        Error::new(
            Code::InvalidArgument,
            "table_changes takes a table, the snapshot before the changes and the last one",
        )
        .help("write it like table_changes('t', 1, 2), with ids, names or times; NULL begins with the first snapshot")
    };
    let expr = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr.clone()),
        _ => Err(wrong()),
    };
    let args: Vec<Expr> = args.iter().map(expr).collect::<Result<_>>()?;
    let (table, from, to) = match args.as_slice() {
        [table, from] => (table, from, None),
        [table, from, to] => (table, from, Some(to)),
        _ => return Err(wrong()),
    };
    let name = when::table(table).ok_or_else(wrong)?;
    let found = existing(&name, state).await?;
    let iceberg = found.iceberg().ok_or_else(|| no_versions(&name, "it is no Iceberg table"))?;
    let view = iceberg.view();
    let from = match when::either(from, state).await? {
        When::Never => None,
        when => view.snapshot_at(&when.in_table(view)?)?,
    };
    let to = match to {
        Some(to) => view.snapshot_at(&when::either(to, state).await?.in_table(view)?)?,
        None => view.snapshot.as_ref().map(|snapshot| snapshot.snapshot_id()),
    };
    let table = match to {
        Some(to) => iceberg.changes(from, to)?,
        // Without a snapshot nothing has changed.
        None => iceberg.with_metadata_columns(&MetadataColumn::OF_CHANGES)?,
    };
    let columns = offered(&table, ask);
    let table = table.with_metadata_columns(&columns)?;
    let shown: Vec<String> = args.iter().skip(1).map(ToString::to_string).collect();
    let called = format!("table_changes({}, {})", found.reference.table, shown.join(", "));
    let alias = Ident::new("table_changes");
    provide(&found, state, table, called, columns, (alias.clone(), vec![alias]))
}

/// The metadata columns that a table has, of those that are asked for.
fn offered(table: &IcebergTable, ask: &Ask) -> Vec<MetadataColumn> {
    let mut offered = table.view().metadata_columns();
    offered.retain(|column| ask.columns.contains(column));
    offered
}

/// Makes a table known to the statement.
fn provide(
    found: &Found,
    state: &SessionState,
    table: IcebergTable,
    mut called: String,
    columns: Vec<MetadataColumn>,
    (alias, written): (Ident, Vec<Ident>),
) -> Result<Opened> {
    if !columns.is_empty() {
        let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
        called = format!("{called} WITH {}", names.join(", "));
    }
    let ResolvedTableReference { catalog, schema, .. } = &found.reference;
    warehouse(state, catalog)?.replace_in_statement(schema, &called, Arc::new(table));
    let name = [catalog.as_ref(), schema.as_ref(), &called].map(|part| Ident::with_quote('"', part)).to_vec();
    Ok(Opened { name, alias, written, columns })
}

/// A table that must be there.
async fn existing(name: &[Ident], state: &SessionState) -> Result<Found> {
    if let Some((reference, provider)) = find_table(name, state).await? {
        return Ok(Found { reference, provider });
    }
    let warehouse = warehouse(state, CATALOG)?;
    let found = match find_after_listing(&warehouse, name, state).await? {
        Some(found) => found,
        None => return Err(missing(&warehouse, name, state).await),
    };
    Ok(found)
}

/// What differs in case only is found among names that are listed.
async fn find_after_listing(warehouse: &Warehouse, name: &[Ident], state: &SessionState) -> Result<Option<Found>> {
    warehouse.list().await?;
    let found = find_table(name, state).await?;
    Ok(found.map(|(reference, provider)| Found { reference, provider }))
}

/// Why a table can't be loaded.
async fn missing(warehouse: &Warehouse, name: &[Ident], state: &SessionState) -> Error {
    let parts: Vec<&str> = name.iter().map(|part| part.value.as_str()).collect();
    let default = state.config_options().catalog.default_schema.as_str();
    let (schema, table) = match parts.as_slice() {
        [.., schema, table] => (*schema, *table),
        [table] => (default, *table),
        [] => (default, ""),
    };
    match warehouse.table(schema, table).await {
        Err(error) => error,
        Ok(_) => Error::new(Code::UnknownTable, format!("there is no table {schema}.{table}"))
            .help("SHOW TABLES lists what there is"),
    }
}

fn warehouse(state: &SessionState, catalog: &str) -> Result<Warehouse> {
    let provider = state.catalog_list().catalog(catalog);
    let warehouse = provider.as_ref().and_then(|provider| provider.as_any().downcast_ref::<Warehouse>());
    warehouse
        .cloned()
        .ok_or_else(|| Error::new(Code::Internal, "an Iceberg table stands in a catalog that is not ours"))
}

fn no_versions(name: &[Ident], why: &str) -> Error {
    let parts: Vec<&str> = name.iter().map(|part| part.value.as_str()).collect();
    Error::new(Code::NotSupported, format!("{} has no versions: {why}", parts.join(".")))
}

//! Which items of a `FROM` need more than their table as it is?
//!
//! A metadata column belongs to what its qualifier names; without one, to every table of the same `FROM`, unless a subquery or
//! WITH that stands there gives out a column of that name.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, Ident, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, TableVersion,
    TableWithJoins, Visit, Visitor,
};

use super::{address, visit};
use crate::scan::MetadataColumn;

/// What is asked of one item of a `FROM`.
pub(super) struct Ask {
    pub(super) kind: Kind,
    /// The metadata columns that may be meant.
    pub(super) columns: BTreeSet<MetadataColumn>,
    /// It is the name of a WITH somewhere in the statement.
    pub(super) is_cte: bool,
}

pub(super) enum Kind {
    /// The table as it is now.
    Now(Vec<Ident>),
    Version(Vec<Ident>, Box<TableVersion>),
    /// The arguments of `table_changes`.
    Changes(Vec<FunctionArg>),
}

/// What a statement asks, by the addresses of the items.
pub(super) fn of(statement: &Statement) -> HashMap<usize, Ask> {
    let mut collect = Collect::default();
    visit(statement, &mut collect);
    let Collect { mut asks, columns, ctes, factors } = collect;
    for (address, name, names) in columns {
        let kind = factors.get(&address).and_then(|changes| Some(Kind::Changes(changes.as_ref()?.clone())));
        let ask = asks.entry(address).or_insert_with(|| Ask {
            kind: kind.unwrap_or(Kind::Now(name)),
            columns: BTreeSet::new(),
            is_cte: false,
        });
        ask.columns.extend(names);
    }
    for ask in asks.values_mut() {
        if let Kind::Now(name) | Kind::Version(name, _) = &ask.kind {
            ask.is_cte = matches!(name.as_slice(), [only] if ctes.contains_key(&only.value.to_lowercase()));
        }
    }
    asks
}

/// The parts of a name, `None` where one of them is computed.
pub(super) fn idents(name: &ObjectName) -> Option<Vec<Ident>> {
    name.0.iter().map(|part| part.as_ident().cloned()).collect()
}

/// True for the table function that gives changes.
fn is_changes(name: &ObjectName) -> bool {
    matches!(idents(name).as_deref(), Some([only]) if only.value.eq_ignore_ascii_case("table_changes"))
}

type Columns = BTreeSet<MetadataColumn>;

#[derive(Default)]
struct Collect {
    asks: HashMap<usize, Ask>,
    /// The tables whose columns are named: address, name, columns.
    columns: Vec<(usize, Vec<Ident>, Columns)>,
    /// What WITH defines, in lower case, and which columns named like ours it gives out.
    ctes: HashMap<String, Columns>,
    /// The items that are tables; for `table_changes` the arguments.
    factors: HashMap<usize, Option<Vec<FunctionArg>>>,
}

impl Visitor for Collect {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Infallible> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let given = cte.alias.columns.iter().filter_map(|column| MetadataColumn::named(&column.name.value));
            let columns = outputs(&cte.query).into_iter().chain(given).collect();
            self.ctes.insert(cte.alias.name.value.to_lowercase(), columns);
        }
        for select in selects(&query.body) {
            let mut mentions = Mentions::default();
            let _ = select.visit(&mut mentions);
            if let Some(OrderByKind::Expressions(exprs)) = query.order_by.as_ref().map(|order| &order.kind) {
                let _ = exprs.visit(&mut mentions);
            }
            self.assign(select, &mentions.found);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Infallible> {
        if let TableFactor::Table { name, args, version, .. } = factor {
            let changes = args.as_ref().filter(|_| is_changes(name)).map(|args| args.args.clone());
            self.factors.insert(address(factor), changes.clone());
            let kind = match (version, changes) {
                (_, Some(args)) => Some(Kind::Changes(args)),
                (Some(version), None) => {
                    Some(Kind::Version(idents(name).unwrap_or_default(), Box::new(version.clone())))
                }
                (None, None) => None,
            };
            if let Some(kind) = kind {
                self.asks.insert(address(factor), Ask { kind, columns: BTreeSet::new(), is_cte: false });
            }
        }
        ControlFlow::Continue(())
    }
}

impl Collect {
    /// Gives the columns that a select names to the items of its `FROM`.
    fn assign(&mut self, select: &Select, mentions: &[(Option<String>, MetadataColumn)]) {
        if mentions.is_empty() {
            return;
        }
        let factors: Vec<&TableFactor> = select.from.iter().flat_map(factors).collect();
        let given: Columns = factors.iter().flat_map(|factor| self.gives(factor)).collect();
        for factor in factors {
            let TableFactor::Table { name, args, .. } = factor else { continue };
            let (Some(parts), true) = (idents(name), args.is_none() || is_changes(name)) else { continue };
            let exposed = exposed(factor).map(|name| name.value.clone()).unwrap_or_default();
            let meant = mentions.iter().filter(|(qualifier, column)| match qualifier {
                Some(qualifier) => qualifier.eq_ignore_ascii_case(&exposed),
                None => !given.contains(column),
            });
            let columns: Columns = meant.map(|(_, column)| *column).collect();
            if !columns.is_empty() {
                self.columns.push((address(factor), parts, columns));
            }
        }
    }

    /// The columns named like ours that an item has of its own, because a query inside it gives them out.
    fn gives(&self, factor: &TableFactor) -> Columns {
        match factor {
            TableFactor::Derived { subquery, alias, .. } => {
                let renamed = alias.iter().flat_map(|alias| &alias.columns);
                let renamed = renamed.filter_map(|column| MetadataColumn::named(&column.name.value));
                outputs(subquery).into_iter().chain(renamed).collect()
            }
            TableFactor::Table { name, .. } => match idents(name).as_deref() {
                Some([only]) => self.ctes.get(&only.value.to_lowercase()).cloned().unwrap_or_default(),
                _ => Columns::new(),
            },
            _ => Columns::new(),
        }
    }
}

/// The columns named like ours that a query gives out.
fn outputs(query: &Query) -> Columns {
    let first = selects(&query.body).into_iter().next();
    let items = first.map(|select| select.projection.as_slice()).unwrap_or_default();
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => MetadataColumn::named(&alias.value),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => MetadataColumn::named(&name.value),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => MetadataColumn::named(&parts.last()?.value),
        _ => None,
    };
    items.iter().filter_map(name).collect()
}

/// The selects of a query's body, without those of queries inside them.
pub(super) fn selects(body: &SetExpr) -> Vec<&Select> {
    match body {
        SetExpr::Select(select) => vec![select],
        SetExpr::SetOperation { left, right, .. } => [selects(left), selects(right)].concat(),
        _ => Vec::new(),
    }
}

/// The items of a `FROM`, those in parentheses as well.
pub(super) fn factors(tables: &TableWithJoins) -> Vec<&TableFactor> {
    let each = std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation));
    each.flat_map(|factor| match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => factors(table_with_joins),
        other => vec![other],
    })
    .collect()
}

/// The name by which columns of an item are qualified.
pub(super) fn exposed(factor: &TableFactor) -> Option<&Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. } => Some(&alias.name),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident(),
        _ => None,
    }
}

/// The metadata columns that expressions name, with their qualifiers; not those inside of subqueries of a `FROM`, which see
/// nothing of what is around them.
#[derive(Default)]
struct Mentions {
    found: Vec<(Option<String>, MetadataColumn)>,
    apart: usize,
}

impl Visitor for Mentions {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Infallible> {
        self.apart += usize::from(matches!(factor, TableFactor::Derived { lateral: false, .. }));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Infallible> {
        self.apart -= usize::from(matches!(factor, TableFactor::Derived { lateral: false, .. }));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Infallible> {
        let parts = match expr {
            Expr::Identifier(name) if self.apart == 0 => std::slice::from_ref(name),
            Expr::CompoundIdentifier(parts) if self.apart == 0 => parts.as_slice(),
            _ => return ControlFlow::Continue(()),
        };
        let mut before = None;
        for part in parts {
            if let Some(column) = MetadataColumn::named(&part.value) {
                self.found.push((before, column));
                break;
            }
            before = Some(part.value.clone());
        }
        ControlFlow::Continue(())
    }
}

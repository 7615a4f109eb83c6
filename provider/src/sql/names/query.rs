//! What does each part of a query see?
//!
//! ```text
//! WITH c AS (…)                      c, in what follows
//! SELECT items FROM a JOIN b ON …    items, WHERE: columns of a and b;   ON: those of the tables so far
//! GROUP BY … HAVING …                columns, then aliases of items
//! ORDER BY …                         aliases of items, then columns
//! ```
//!
//! Inside a subquery, what it doesn't know itself is looked for further out.

use datafusion::sql::sqlparser::ast::{
    Cte, Distinct, Expr, GroupByExpr, Ident, NamedWindowExpr, ObjectName, OrderByExpr, OrderByKind, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
};

use super::from::aliased;
use super::merged;
use super::scope::{Column, Columns, Outputs, Relation, Scope, rename, settle};
use super::star::changed;
use super::tables::{Tables, idents};
use super::twice::{Listed, unnested, written};
use crate::error::Result;

/// Walks a statement and gives names their case.
pub(super) struct Resolver<'t> {
    pub(super) tables: &'t Tables,
    /// What WITH defines, inner after outer.
    pub(super) ctes: Vec<(String, Columns)>,
    /// Scopes of the queries around the current place, inner after outer.
    pub(super) scopes: Vec<Scope>,
    /// How many subqueries were given a name.
    pub(super) called: usize,
}

impl<'t> Resolver<'t> {
    pub(super) fn new(tables: &'t Tables) -> Self {
        Resolver { tables, ctes: Vec::new(), scopes: Vec::new(), called: 0 }
    }

    /// Begins a scope.
    pub(super) fn enter(&mut self) {
        self.scopes.push(Scope::default());
    }

    /// Ends the current scope.
    pub(super) fn leave(&mut self) -> Scope {
        self.scopes.pop().unwrap_or_default()
    }

    /// The name of a table that exists.
    pub(super) fn table_name(&self, name: &mut ObjectName) -> Result<()> {
        if let Some(mut parts) = idents(name)
            && let Some(table) = self.tables.table(&parts)
        {
            parts.iter_mut().zip(&table.parts).for_each(|(part, meant)| rename(part, meant));
            *name = ObjectName::from(parts);
        }
        Ok(())
    }

    pub(super) fn columns_of(&self, name: &ObjectName) -> Columns {
        self.tables.table(&idents(name)?)?.columns.clone()
    }

    /// The name of a schema that exists.
    pub(super) fn schema_name(&self, name: &mut ObjectName) -> Result<()> {
        if let Some(mut parts) = idents(name)
            && let Some(meant) = self.tables.schema(&parts)
        {
            parts.iter_mut().zip(meant).for_each(|(part, meant)| rename(part, meant));
            *name = ObjectName::from(parts);
        }
        Ok(())
    }

    /// The name of a table that is about to be made: its schema exists, its own name is as typed.
    pub(super) fn new_name(&self, name: &mut ObjectName) -> Result<()> {
        if let Some(mut parts) = idents(name)
            && let Some(table) = parts.pop()
            && let Some(meant) = self.tables.schema(&parts)
        {
            parts.iter_mut().zip(meant).for_each(|(part, meant)| rename(part, meant));
            parts.push(table);
            *name = ObjectName::from(parts);
        }
        Ok(())
    }

    /// Resolves a query. Gives the columns that it returns.
    pub(super) fn query(&mut self, query: &mut Query) -> Result<Columns> {
        let visible = self.ctes.len();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                self.cte(cte, with.recursive)?;
            }
        }
        let (columns, mut scope) = self.set_expr(&mut query.body)?;
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(exprs) = &mut order.kind
        {
            scope.outputs_seen = Outputs::First;
            self.scopes.push(scope);
            self.order_by(exprs)?;
            self.leave();
        }
        self.ctes.truncate(visible);
        Ok(columns)
    }

    fn cte(&mut self, cte: &mut Cte, recursive: bool) -> Result<()> {
        let name = cte.alias.name.value.clone();
        let columns = match cte.query.body.as_mut() {
            // The first part of a recursive query says what its columns are, before the second refers to them.
            SetExpr::SetOperation { left, right, .. } if recursive && cte.query.with.is_none() => {
                let (columns, _) = self.set_expr(left)?;
                let columns = aliased(columns, &cte.alias);
                self.ctes.push((name.clone(), columns.clone()));
                self.set_expr(right)?;
                self.ctes.pop();
                columns
            }
            _ => aliased(self.query(&mut cte.query)?, &cte.alias),
        };
        self.ctes.push((name, columns));
        Ok(())
    }

    /// Gives the columns and the scope in which ORDER BY stands.
    fn set_expr(&mut self, body: &mut SetExpr) -> Result<(Columns, Scope)> {
        let columns = match body {
            SetExpr::Select(select) => return self.select(select),
            SetExpr::Query(query) => self.query(query)?,
            SetExpr::SetOperation { left, right, .. } => {
                let (columns, _) = self.set_expr(left)?;
                self.set_expr(right)?;
                columns
            }
            SetExpr::Values(values) => {
                values.rows.iter_mut().flatten().try_for_each(|value| self.expr(value))?;
                let width = values.rows.first().map_or(0, Vec::len);
                Some((1..=width).map(|at| Column { name: format!("column{at}"), data_type: None }).collect())
            }
            _ => None,
        };
        let outputs = columns.as_deref().unwrap_or_default().to_vec();
        // What isn't known must not be resolved as if it were nowhere.
        let relations = if columns.is_none() {
            vec![Relation { path: Vec::new(), written: Vec::new(), columns: None }]
        } else {
            Vec::new()
        };
        Ok((columns, Scope { outputs, relations, ..Scope::default() }))
    }

    fn select(&mut self, select: &mut Select) -> Result<(Columns, Scope)> {
        self.enter();
        for table in &mut select.from {
            self.table_with_joins(table)?;
        }
        let windows = select.named_window.iter().map(|window| window.0.value.clone()).collect();
        if let Some(scope) = self.scopes.last_mut() {
            scope.windows = windows;
        }
        self.items(&mut select.projection)?;
        if let Some(selection) = &mut select.selection {
            self.expr(selection)?;
        }
        let columns = self.outputs(&select.projection);
        let each = select.projection.iter().filter_map(|item| self.outputs(std::slice::from_ref(item)));
        let known: Vec<Column> = each.flat_map(|columns| columns.to_vec()).collect();
        self.after_grouping(select, &known)?;
        Ok((columns, self.leave()))
    }

    /// What may also name columns of the select list.
    fn after_grouping(&mut self, select: &mut Select, outputs: &[Column]) -> Result<()> {
        if let Some(scope) = self.scopes.last_mut() {
            scope.outputs = outputs.to_vec();
            scope.outputs_seen = Outputs::Last;
        }
        if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
            exprs.iter_mut().try_for_each(|expr| self.expr(expr))?;
        }
        let conditions = [&mut select.having, &mut select.qualify];
        conditions.into_iter().flatten().try_for_each(|expr| self.expr(expr))?;
        if let Some(Distinct::On(exprs)) = &mut select.distinct {
            exprs.iter_mut().try_for_each(|expr| self.expr(expr))?;
        }
        self.order_by(&mut select.sort_by)?;
        for window in &mut select.named_window {
            match &mut window.1 {
                NamedWindowExpr::NamedWindow(name) => self.window(name)?,
                NamedWindowExpr::WindowSpec(spec) => {
                    spec.partition_by.iter_mut().try_for_each(|expr| self.expr(expr))?;
                    self.order_by(&mut spec.order_by)?;
                }
            }
        }
        Ok(())
    }

    fn order_by(&mut self, exprs: &mut [OrderByExpr]) -> Result<()> {
        exprs.iter_mut().try_for_each(|order| self.expr(&mut order.expr))
    }

    /// A named window.
    pub(super) fn window(&self, name: &mut Ident) -> Result<()> {
        if let Some(scope) = self.scopes.last() {
            settle(name, scope.windows.iter().map(String::as_str), "window")?;
        }
        Ok(())
    }

    /// The items of a select list, each under a name of its own.
    fn items(&mut self, items: &mut Vec<SelectItem>) -> Result<()> {
        let mut listed = Listed::default();
        for mut item in std::mem::take(items) {
            let written = written(&item);
            self.item(&mut item)?;
            match item {
                SelectItem::Wildcard(options) => listed.extend(self.star(options)?),
                item => listed.push(item, written),
            }
        }
        *items = self.apart_by_name(listed);
        Ok(())
    }

    fn item(&mut self, item: &mut SelectItem) -> Result<()> {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let mut bare = match unnested(expr) {
                    Expr::Identifier(name) => name.clone(),
                    _ => return self.expr(expr),
                };
                self.path(std::slice::from_mut(&mut bare))?;
                match self.merged(&bare.value)? {
                    Some(meant) => *item = merged::item(meant, &bare.value),
                    None => self.expr(expr)?,
                }
                Ok(())
            }
            SelectItem::ExprWithAlias { expr, .. } => self.expr(expr),
            SelectItem::Wildcard(options) => self.wildcard(None, options),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let Some(mut parts) = idents(name) else { return Ok(()) };
                if let Some(meant) = self.qualifier(&parts)? {
                    parts.iter_mut().zip(&meant).for_each(|(part, meant)| rename(part, meant));
                    *name = ObjectName::from(parts.clone());
                }
                self.wildcard(Some(&parts), options)
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), _) => self.expr(expr),
        }
    }

    /// What a qualifier of `*` means.
    fn qualifier(&self, parts: &[Ident]) -> Result<Option<Vec<String>>> {
        for exactly in [true, false] {
            for scope in self.scopes.iter().rev() {
                if let [relation, ..] = scope.named(parts, exactly)?.as_slice() {
                    let from = relation.path.len().saturating_sub(parts.len());
                    return Ok(relation.path.get(from..).map(<[String]>::to_vec));
                }
            }
        }
        Ok(None)
    }

    /// The columns of a select list that has been resolved. Those that nobody can name unquoted have an empty name.
    pub(super) fn outputs(&self, items: &[SelectItem]) -> Columns {
        let mut columns = Vec::new();
        for item in items {
            match item {
                SelectItem::ExprWithAlias { expr, alias } => {
                    columns.push(Column { name: alias.value.clone(), data_type: self.type_of(expr) });
                }
                SelectItem::UnnamedExpr(expr) => {
                    let unnamed = Column { name: String::new(), data_type: None };
                    columns.push(self.named_after(expr).unwrap_or(unnamed));
                }
                SelectItem::Wildcard(options) => columns.extend(changed(self.expanded(None)?, options)),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    columns.extend(changed(self.expanded(Some(&idents(name)?))?, options));
                }
                SelectItem::QualifiedWildcard(..) => return None,
            }
        }
        Some(columns.into())
    }
}

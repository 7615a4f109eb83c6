//! Which column does a name in an expression mean?

use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, Query, Subscript, Value, VisitMut, VisitorMut, WindowType,
};

use super::query::Resolver;
use super::scope::{Column, fields_of, rename, settle};
use crate::error::{Error, Result};

impl Resolver<'_> {
    /// Resolves the names in an expression, and the subqueries in it.
    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        match expr.visit(&mut Walk { resolver: self, inside: 0 }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    /// One unqualified name.
    fn name(&self, name: &mut Ident) -> Result<()> {
        let settled = name.quote_style.is_some() || name.value.starts_with('@');
        if settled || self.scopes.iter().any(|scope| scope.exact(&name.value).is_some()) {
            return Ok(());
        }
        for scope in self.scopes.iter().rev() {
            if scope.column(name)? {
                break;
            }
        }
        Ok(())
    }

    /// One unqualified name, or what it means where USING or NATURAL made one column of several.
    fn bare(&self, expr: &mut Expr) -> Result<()> {
        let Expr::Identifier(name) = expr else { return Ok(()) };
        self.name(name)?;
        if let Some(meant) = self.merged(&name.value)? {
            *expr = meant;
        }
        Ok(())
    }

    /// Names with dots between: a qualified column, a field of a column, or both.
    pub(super) fn path(&self, parts: &mut [Ident]) -> Result<()> {
        if let [name] = parts {
            return self.name(name);
        }
        if parts.first().is_some_and(|first| first.quote_style.is_none() && first.value.starts_with('@')) {
            return Ok(());
        }
        if let Some(meant) = self.meant(parts)? {
            parts.iter_mut().zip(&meant).for_each(|(part, meant)| rename(part, meant));
        }
        Ok(())
    }

    /// What names with dots between mean: exactly what they match, in the innermost query that has it, else in another case.
    fn meant(&self, parts: &[Ident]) -> Result<Option<Vec<String>>> {
        for exactly in [true, false] {
            for scope in self.scopes.iter().rev() {
                if let Some(meant) = scope.path(parts, exactly)? {
                    return Ok(Some(meant));
                }
            }
        }
        Ok(None)
    }

    /// A field of a column of an outer query, or of nothing known, becomes an access: as names with dots DataFusion 53
    /// doesn't plan the one, and panics at the other where the names are many.
    fn dotted(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::CompoundIdentifier(parts) = expr else { return Ok(()) };
        self.path(parts)?;
        let fields = self.column_at(parts).map_or(0, |(fields, _)| fields);
        if fields > 0
            && fields + 1 == parts.len()
            && let Some(name) = parts.first()
            && let Some(root) = self.merged(&name.value)?
        {
            let fields = parts.drain(1..).map(|field| field_access(field.value)).collect();
            *expr = Expr::CompoundFieldAccess { root: Box::new(root), access_chain: fields };
            return Ok(());
        }
        let column = match self.column_at(parts) {
            Some((fields, _)) if fields > 0 && !self.is_inner(parts)? => parts.len() - fields,
            Some(_) => return Ok(()),
            None => LONGEST,
        };
        if column < parts.len() {
            let fields = parts.split_off(column).into_iter().map(|field| field_access(field.value)).collect();
            let root = Box::new(column_of(std::mem::take(parts)));
            *expr = Expr::CompoundFieldAccess { root, access_chain: fields };
        }
        Ok(())
    }

    /// `x.column.field[1].field`: fields of a column of known type; where it isn't known, to the letter. A field becomes a
    /// subscript (`x.column['field'][1]['field']`), which DataFusion 53 plans after a subscript, and of a column of an outer
    /// query, and the dot it doesn't.
    fn access(&mut self, root: &mut Expr, chain: &mut Vec<AccessExpr>) -> Result<()> {
        self.lead(root, chain)?;
        self.expr(root)?;
        let mut inside = self.type_of(root);
        for access in chain {
            if let AccessExpr::Dot(Expr::Identifier(field)) = access {
                if let Some(DataType::Struct(fields)) = &inside {
                    settle(field, fields.iter().map(|field| field.name().as_str()), "field")?;
                }
                *access = field_access(std::mem::take(&mut field.value));
            }
            inside = subscripted(inside.as_ref(), access);
        }
        Ok(())
    }

    /// Whether settled names mean something of the query that they stand in, not of one around it.
    fn is_inner(&self, parts: &[Ident]) -> Result<bool> {
        let Some(inner) = self.scopes.last() else { return Ok(false) };
        Ok(inner.path(parts, true)?.is_some())
    }

    /// Makes the names that an access begins with its root, as far as they name a column.
    fn lead(&self, root: &mut Expr, chain: &mut Vec<AccessExpr>) -> Result<()> {
        let Expr::Identifier(first) = &*root else { return Ok(()) };
        let dotted = chain.iter().map_while(|access| match access {
            AccessExpr::Dot(Expr::Identifier(name)) => Some(name),
            _ => None,
        });
        let written: Vec<Ident> = std::iter::once(first).chain(dotted).cloned().collect();
        for end in (2..=written.len()).rev() {
            let mut names = written.get(..end).unwrap_or_default().to_vec();
            self.path(&mut names)?;
            if let Some((fields, _)) = self.column_at(&names) {
                names.truncate(end - fields);
                *root = qualified(names, chain);
                return Ok(());
            }
        }
        // A column of a relation whose columns are not known, else a field of a column of the select list, else unknown.
        let mut alone = first.clone();
        self.name(&mut alone)?;
        let listed = self.scopes.iter().any(|scope| scope.exact(&alone.value).is_some());
        if !listed || self.meant(&written)?.is_some() {
            let mut names = written;
            self.path(&mut names)?;
            names.truncate(LONGEST);
            *root = qualified(names, chain);
        }
        Ok(())
    }

    /// The type of a column or of a field of one, once its names are settled.
    pub(super) fn type_of(&self, expr: &Expr) -> Option<DataType> {
        match expr {
            Expr::Identifier(name) => {
                let scope = self.scopes.iter().rev().find_map(|scope| scope.exact(&name.value));
                scope?.data_type.clone()
            }
            Expr::CompoundIdentifier(parts) => self.column_at(parts).and_then(|(_, data_type)| data_type),
            Expr::Nested(inner) => self.type_of(inner),
            Expr::CompoundFieldAccess { root, access_chain } => {
                access_chain.iter().try_fold(self.type_of(root)?, |inside, access| subscripted(Some(&inside), access))
            }
            _ => None,
        }
    }

    /// How many of settled names are fields of the column that those before them name, and the type of the last.
    fn column_at(&self, parts: &[Ident]) -> Option<(usize, Option<DataType>)> {
        for scope in self.scopes.iter().rev() {
            for qualifier in (0..parts.len().min(4)).rev() {
                let (before, after) = parts.split_at_checked(qualifier)?;
                let (name, fields) = after.split_first()?;
                let relations = if before.is_empty() {
                    scope.relations.iter().collect()
                } else {
                    scope.named(before, true).ok()?
                };
                if !before.is_empty() && relations.iter().any(|relation| relation.columns.is_none()) {
                    return None;
                }
                let mut columns = relations.iter().filter_map(|relation| relation.columns.as_deref()).flatten();
                let Some(column) = columns.find(|column| column.name == name.value) else { continue };
                let mut inside = column.data_type.clone();
                if !matches!(fields_of(inside.as_ref(), fields, true), Ok(Some(_))) {
                    continue;
                }
                for field in fields {
                    inside = step(inside.as_ref(), &field.value);
                }
                return Some((fields.len(), inside));
            }
        }
        None
    }

    /// The column that an expression without alias gives to a select list.
    pub(super) fn named_after(&self, expr: &Expr) -> Option<Column> {
        let data_type = self.type_of(expr);
        match expr {
            Expr::Identifier(name) => Some(Column { name: name.value.clone(), data_type }),
            Expr::CompoundIdentifier(parts) => match self.column_at(parts) {
                Some((1.., _)) => None,
                _ => parts.last().map(|name| Column { name: name.value.clone(), data_type }),
            },
            Expr::Nested(inner) => self.named_after(inner),
            _ => None,
        }
    }
}

/// The most names that a column has: catalog, schema, table and its own.
const LONGEST: usize = 4;

/// A column of these names, the first of which was the root of `chain` and the others its beginning.
fn qualified(names: Vec<Ident>, chain: &mut Vec<AccessExpr>) -> Expr {
    chain.drain(..names.len().saturating_sub(1));
    column_of(names)
}

fn column_of(mut names: Vec<Ident>) -> Expr {
    match names.pop() {
        Some(name) if names.is_empty() => Expr::Identifier(name),
        last => Expr::CompoundIdentifier(names.into_iter().chain(last).collect()),
    }
}

fn field_access(field: String) -> AccessExpr {
    AccessExpr::Subscript(Subscript::Index { index: Expr::value(Value::SingleQuotedString(field)) })
}

fn step(inside: Option<&DataType>, field: &str) -> Option<DataType> {
    match inside {
        Some(DataType::Struct(fields)) => {
            fields.iter().find(|known| known.name() == field).map(|known| known.data_type().clone())
        }
        _ => None,
    }
}

fn subscripted(inside: Option<&DataType>, access: &AccessExpr) -> Option<DataType> {
    let element = |data_type: &DataType| match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type().clone())
        }
        _ => None,
    };
    match (inside?, access) {
        (structure @ DataType::Struct(_), AccessExpr::Subscript(Subscript::Index { index: Expr::Value(value) })) => {
            match &value.value {
                Value::SingleQuotedString(field) => step(Some(structure), field),
                _ => None,
            }
        }
        (list, AccessExpr::Subscript(Subscript::Index { .. })) => element(list),
        (list, AccessExpr::Subscript(Subscript::Slice { .. })) => Some(list.clone()),
        _ => None,
    }
}

/// Visits the names of one expression. Subqueries resolve themselves, so that what is inside them is passed over.
struct Walk<'w, 't> {
    resolver: &'w mut Resolver<'t>,
    inside: usize,
}

impl VisitorMut for Walk<'_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let done = if self.inside == 0 { self.resolver.query(query).map(|_| ()) } else { Ok(()) };
        self.inside += 1;
        flow(done)
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if self.inside > 0 {
            return ControlFlow::Continue(());
        }
        flow(match expr {
            Expr::Identifier(_) => self.resolver.bare(expr),
            Expr::CompoundIdentifier(_) => self.resolver.dotted(expr),
            Expr::CompoundFieldAccess { root, access_chain } => self.resolver.access(root, access_chain),
            Expr::Function(function) => match &mut function.over {
                Some(WindowType::NamedWindow(name)) => self.resolver.window(name),
                Some(WindowType::WindowSpec(spec)) => {
                    spec.window_name.as_mut().map_or(Ok(()), |name| self.resolver.window(name))
                }
                None => Ok(()),
            },
            _ => Ok(()),
        })
    }
}

fn flow(done: Result<()>) -> ControlFlow<Error> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

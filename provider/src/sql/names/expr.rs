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

    /// Names with dots between: a qualified column, a field of a column, or both.
    pub(super) fn path(&self, parts: &mut [Ident]) -> Result<()> {
        if let [name] = parts {
            return self.name(name);
        }
        if parts.first().is_some_and(|first| first.quote_style.is_none() && first.value.starts_with('@')) {
            return Ok(());
        }
        for exactly in [true, false] {
            for scope in self.scopes.iter().rev() {
                if let Some(meant) = scope.path(parts, exactly)? {
                    parts.iter_mut().zip(&meant).for_each(|(part, meant)| rename(part, meant));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// `root[1].field`: fields of a column of known type; where it isn't known, to the letter. A field after a subscript
    /// becomes a subscript itself (`root[1]['field']`), which DataFusion 53 plans and the dot it doesn't.
    fn access(&mut self, root: &mut Expr, chain: &mut [AccessExpr]) -> Result<()> {
        self.expr(root)?;
        let mut inside = self.type_of(root);
        for access in chain {
            if let AccessExpr::Dot(Expr::Identifier(field)) = access {
                if let Some(DataType::Struct(fields)) = &inside {
                    settle(field, fields.iter().map(|field| field.name().as_str()), "field")?;
                }
                let field = Value::SingleQuotedString(std::mem::take(&mut field.value));
                *access = AccessExpr::Subscript(Subscript::Index { index: Expr::value(field) });
            }
            inside = subscripted(inside.as_ref(), access);
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

    /// The column that settled names end in, `None` as its name where they end in a field of it, and the type.
    fn column_at(&self, parts: &[Ident]) -> Option<(Option<String>, Option<DataType>)> {
        for scope in self.scopes.iter().rev() {
            for qualifier in (0..parts.len().min(4)).rev() {
                let (before, after) = parts.split_at_checked(qualifier)?;
                let (name, fields) = after.split_first()?;
                let relations = if before.is_empty() {
                    scope.relations.iter().collect()
                } else {
                    scope.named(before, true).ok()?
                };
                let mut columns = relations.iter().filter_map(|relation| relation.columns.as_deref()).flatten();
                let Some(column) = columns.find(|column| column.name == name.value) else { continue };
                let mut inside = column.data_type.clone();
                if !matches!(fields_of(inside.as_ref(), fields, true), Ok(Some(_))) {
                    continue;
                }
                for field in fields {
                    inside = step(inside.as_ref(), &field.value);
                }
                return Some((fields.is_empty().then(|| column.name.clone()), inside));
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
                Some((name, _)) => name.map(|name| Column { name, data_type }),
                None => parts.last().map(|name| Column { name: name.value.clone(), data_type }),
            },
            Expr::Nested(inner) => self.named_after(inner),
            _ => None,
        }
    }
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
            Expr::Identifier(name) => self.resolver.name(name),
            Expr::CompoundIdentifier(parts) => self.resolver.path(parts),
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

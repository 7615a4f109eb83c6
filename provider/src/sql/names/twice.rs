//! What are two items of a select list called that would have one name?
//!
//! ```text
//! SELECT ts, ts::date      ts, CAST(ts AS DATE)
//! SELECT n, n, n           n, n:1, n:2
//! SELECT *, n              n, …, n:1
//! ```
//!
//! The engine's names leave casts out, and it refuses a list with two of one name. Only then does an item get another one.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Function, Ident, Query, SelectItem, SelectItemQualifiedWildcardKind, VisitMut, VisitorMut,
};

use super::query::{Resolver, changed};
use super::scope::{Relation, Scope};
use super::tables::idents;

/// The items of a select list; with each that has no alias, what was written.
#[derive(Default)]
pub(super) struct Listed(Vec<(SelectItem, Option<Expr>)>);

/// The name of a column that a select list makes.
#[derive(Debug, PartialEq)]
enum Name {
    /// Of a relation, which is part of the name.
    Column { full: String, name: String },
    /// An alias, or what an expression is called.
    Free(String),
}

impl Name {
    /// Whether the engine refuses both in one list.
    fn clashes(&self, other: &Name) -> bool {
        match (self, other) {
            (Name::Column { full, .. }, Name::Column { full: other, .. }) => full == other,
            (Name::Free(name), Name::Free(other)) => name == other,
            (Name::Column { full, name }, Name::Free(free)) | (Name::Free(free), Name::Column { full, name }) => {
                free == full || free == name
            }
        }
    }
}

impl Listed {
    pub(super) fn push(&mut self, item: SelectItem, written: Option<Expr>) {
        self.0.push((item, written));
    }
}

/// What was written of an item without alias.
pub(super) fn written(item: &SelectItem) -> Option<Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(expr.clone()),
        _ => None,
    }
}

impl Resolver<'_> {
    /// Resolved items, under an alias those whose name another one has.
    pub(super) fn apart_by_name(&self, listed: Listed) -> Vec<SelectItem> {
        let Listed(mut items) = listed;
        let Some(scope) = self.scopes.last().filter(|_| items.len() > 1) else {
            return items.into_iter().map(|(item, _)| item).collect();
        };
        let fixed = items.iter().filter(|(_, written)| written.is_none());
        let mut taken: Vec<Name> = fixed.flat_map(|(item, _)| self.names(scope, item)).collect();
        for (item, written) in &mut items {
            let Some(written) = written else { continue };
            let Some(name) = self.names(scope, item).pop() else { continue };
            if !taken.iter().any(|taken| taken.clashes(&name)) {
                taken.push(name);
                continue;
            }
            let base = match (&name, &*item) {
                (Name::Column { name, .. }, _) => name.clone(),
                (_, SelectItem::ExprWithAlias { alias, .. }) => alias.value.clone(),
                _ => text(written),
            };
            let numbered = (1..).map(|number| format!("{base}:{number}"));
            let mut names = std::iter::once(base.clone()).chain(numbered).map(Name::Free);
            let free = names.find(|free| *free != name && !taken.iter().any(|taken| taken.clashes(free)));
            if let Some(Name::Free(free)) = free
                && let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            {
                let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', &free) };
                taken.push(Name::Free(free));
            }
        }
        items.into_iter().map(|(item, _)| item).collect()
    }

    /// The names of the columns that an item makes, as far as they are known.
    fn names(&self, scope: &Scope, item: &SelectItem) -> Vec<Name> {
        let of_star = |relations: Vec<&Relation>, options| {
            let columns = relations.into_iter().flat_map(|relation| {
                let columns = relation.columns.as_deref().unwrap_or_default().to_vec();
                changed(columns, options).into_iter().map(|column| full(relation, &column.name))
            });
            columns.collect()
        };
        match item {
            SelectItem::ExprWithAlias { alias, .. } => vec![Name::Free(alias.value.clone())],
            SelectItem::UnnamedExpr(expr) => vec![self.name_of(scope, expr)],
            SelectItem::Wildcard(options) => of_star(scope.relations.iter().collect(), options),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let relations = idents(name).and_then(|parts| scope.named(&parts, true).ok());
                of_star(relations.unwrap_or_default(), options)
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(_), _) => Vec::new(),
        }
    }

    /// What stands for an expression's name: the same for two whose names are the same.
    fn name_of(&self, scope: &Scope, expr: &Expr) -> Name {
        if let Some(name) = column(scope, unnested(expr)) {
            return name;
        }
        let mut plain = expr.clone();
        let _ = plain.visit(&mut Plain { scope, kept: 0 });
        Name::Free(plain.to_string())
    }
}

fn full(relation: &Relation, name: &str) -> Name {
    let mut full = relation.written.join(".");
    if !full.is_empty() {
        full.push('.');
    }
    Name::Column { full: full + name, name: name.to_owned() }
}

/// The column of this query's relations that names mean, once they are settled.
fn column(scope: &Scope, expr: &Expr) -> Option<Name> {
    let (relations, name): (Vec<&Relation>, _) = match expr {
        Expr::Identifier(name) => (scope.relations.iter().collect(), name),
        Expr::CompoundIdentifier(parts) => {
            let (name, qualifier) = parts.split_last()?;
            (scope.named(qualifier, true).ok()?, name)
        }
        _ => return None,
    };
    let has = |relation: &&&Relation| {
        relation.columns.iter().flat_map(|columns| columns.iter()).any(|column| column.name == name.value)
    };
    let mut having = relations.iter().filter(has);
    match (having.next(), having.next()) {
        (Some(relation), None) => Some(full(relation, &name.value)),
        _ => None,
    }
}

pub(super) fn unnested(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnested(inner),
        expr => expr,
    }
}

/// An expression as it was written, without quotes and the parentheses around it.
fn text(written: &Expr) -> String {
    let mut shown = unnested(written).clone();
    let _ = shown.visit(&mut Shown);
    shown.to_string()
}

/// Leaves of an expression what the engine's names show.
struct Plain<'s> {
    scope: &'s Scope,
    /// Parts in which casts are shown: subqueries, and functions over a window or with a filter.
    kept: usize,
}

fn keeps_casts(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(Function { over, filter, .. }) if over.is_some() || filter.is_some())
}

impl VisitorMut for Plain<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.kept += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.kept -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        while self.kept == 0
            && let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr
        {
            *expr = std::mem::replace(inner, Expr::Identifier(Ident::new("")));
        }
        if let Some(Name::Column { full, .. }) = column(self.scope, expr) {
            *expr = Expr::Identifier(Ident::new(full));
        }
        if keeps_casts(expr) {
            self.kept += 1;
        }
        if let Expr::Function(function) = expr
            && let Some(mut name) = idents(&function.name)
        {
            name.iter_mut().for_each(|part| part.value.make_ascii_lowercase());
            function.name = name.into();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if keeps_casts(expr) {
            self.kept -= 1;
        }
        ControlFlow::Continue(())
    }
}

/// Writes casts in one way, and names without quotes.
struct Shown;

impl VisitorMut for Shown {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { kind: kind @ CastKind::DoubleColon, .. } => *kind = CastKind::Cast,
            Expr::Identifier(name) => name.quote_style = None,
            Expr::CompoundIdentifier(parts) => parts.iter_mut().for_each(|part| part.quote_style = None),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

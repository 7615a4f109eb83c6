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
    CastKind, Expr, Function, Ident, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Visit, VisitMut,
    Visitor, VisitorMut,
};

use super::query::Resolver;
use super::scope::{Relation, Scope};
use super::star::changed;
use super::tables::idents;

/// The items of a select list; with each that has no alias of its own, what was written.
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

    pub(super) fn extend(&mut self, more: Listed) {
        self.0.extend(more.0);
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
        let (columns, others): (Vec<_>, Vec<_>) = items
            .iter_mut()
            .filter(|(_, written)| written.is_some())
            .partition(|(item, _)| self.is_column(scope, item));
        // What is a column keeps its name before what is made of it.
        for (item, written) in columns.into_iter().chain(others) {
            let Some(name) = self.names(scope, item).pop() else { continue };
            if !taken.iter().any(|taken| taken.clashes(&name)) {
                taken.push(name);
                continue;
            }
            let base = match (&name, &*item, written) {
                (Name::Column { name, .. }, ..) => name.clone(),
                (_, SelectItem::ExprWithAlias { alias, .. }, _) => alias.value.clone(),
                (.., Some(written)) => text(written),
                (.., None) => continue,
            };
            // The planner leaves out an alias that is the column's own name.
            let first = (!matches!(name, Name::Column { .. })).then(|| base.clone());
            let numbered = (1..).map(|number| format!("{base}:{number}"));
            let mut names = first.into_iter().chain(numbered).map(Name::Free);
            let free = names.find(|free| !taken.iter().any(|taken| taken.clashes(free)));
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

    fn is_column(&self, scope: &Scope, item: &SelectItem) -> bool {
        matches!(item, SelectItem::UnnamedExpr(expr) if column(scope, unnested(expr)).is_some())
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
        let _ = VisitMut::visit(&mut plain, &mut Plain { scope, kept: 0 });
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

/// What the engine calls a subquery in an expression.
fn name_of_subquery(expr: &Expr) -> Option<String> {
    let query = match expr {
        Expr::InSubquery { negated, .. } => return Some(if *negated { "NOT IN" } else { "IN" }.to_owned()),
        Expr::Exists { negated, .. } => return Some(if *negated { "NOT EXISTS" } else { "EXISTS" }.to_owned()),
        Expr::Subquery(query) => query,
        _ => return None,
    };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.projection.first()? {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(expr) => match unnested(expr) {
            Expr::Identifier(name) => Some(name.value.clone()),
            Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.clone()),
            expr if Visit::visit(expr, &mut Names).is_break() => {
                let tables: Vec<_> = select.from.iter().map(ToString::to_string).collect();
                Some(format!("{expr} of {}", tables.join(", ")))
            }
            expr => Some(expr.to_string()),
        },
        _ => None,
    }
}

/// Whether something has names in it.
struct Names;

impl Visitor for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
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
    let _ = VisitMut::visit(&mut shown, &mut Shown);
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
            && let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) | Expr::AtTimeZone { timestamp: inner, .. } =
                expr
        {
            *expr = std::mem::replace(inner, Expr::Identifier(Ident::new("")));
        }
        if let Some(name) = name_of_subquery(expr) {
            *expr = Expr::Identifier(Ident::new(name));
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

//! How do they take their places?
//!
//! `*` stands for the columns that the tables have: metadata columns are left out of it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind as Of, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitorMut,
    WildcardAdditionalOptions,
};

use super::ask::{exposed, idents};
use super::open::Opened;
use super::{address, visit_mut};
use crate::error::{Code, Error, Result};
use crate::scan::MetadataColumn;

/// Puts each table in the place of the item that asks for it.
pub(super) fn all(statement: &mut Statement, opened: HashMap<usize, Opened>) -> Result<()> {
    let qualified = opened.values().filter(|opened| opened.written.len() > 1);
    let qualified = qualified.map(|opened| opened.written.clone()).collect();
    visit_mut(statement, &mut Replace { opened, qualified })
}

struct Replace {
    opened: HashMap<usize, Opened>,
    /// Names of more than one part under which a replaced table is known no more, but for the last part.
    qualified: Vec<Vec<Ident>>,
}

impl VisitorMut for Replace {
    type Break = Error;

    /// Before the items are replaced, while they can be told by their addresses.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        match self.body(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let Some(opened) = self.opened.get(&address(factor)) else { return ControlFlow::Continue(()) };
        if let TableFactor::Table { name, alias, args, version, .. } = factor {
            *name = ObjectName::from(opened.name.clone());
            (*args, *version) = (None, None);
            alias.get_or_insert_with(|| TableAlias { explicit: true, name: opened.alias.clone(), columns: Vec::new() });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::CompoundIdentifier(parts) = expr {
            self.shorten(parts, 1);
        }
        ControlFlow::Continue(())
    }
}

impl Replace {
    /// Leaves of the name of a replaced table its last part, where at least `rest` parts follow it.
    fn shorten(&self, parts: &mut Vec<Ident>, rest: usize) {
        let same = |(a, b): (&Ident, &Ident)| a.value == b.value || a.value.eq_ignore_ascii_case(&b.value);
        let begins = |name: &&Vec<Ident>| parts.len() >= name.len() + rest && name.iter().zip(&*parts).all(same);
        if let Some(name) = self.qualified.iter().find(begins) {
            parts.drain(..name.len() - 1);
        }
    }

    fn body(&self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left)?;
                self.body(right)
            }
            _ => Ok(()),
        }
    }

    fn select(&self, select: &mut Select) -> Result<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(Of::ObjectName(name), _) = item
                && let Some(mut parts) = idents(name)
            {
                self.shorten(&mut parts, 0);
                *name = ObjectName::from(parts);
            }
        }
        let relations: Vec<Relation> = select.from.iter().flat_map(|tables| self.visible(tables)).collect();
        let extended = relations.iter().filter(|relation| !relation.hidden.is_empty()).count();
        if extended == 0 {
            return Ok(());
        }
        let merged = select.from.iter().any(merges);
        if extended > 1 && select.from.iter().any(natural) {
            return Err(Error::new(
                Code::NotSupported,
                "tables whose metadata columns are named cannot be joined by NATURAL",
            )
            .help("write the columns with USING or ON"));
        }
        let mut items = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            match item {
                SelectItem::Wildcard(options) => items.extend(star(options, &relations, merged)?),
                SelectItem::QualifiedWildcard(Of::ObjectName(name), mut options) => {
                    let of = idents(&name).and_then(|parts| parts.last().map(|part| part.value.clone()));
                    let meant = |relation: &&Relation| {
                        let name = relation.name.as_ref().map(|name| name.value.as_str());
                        name.zip(of.as_deref()).is_some_and(|(name, of)| name.eq_ignore_ascii_case(of))
                    };
                    if let Some(relation) = relations.iter().find(meant) {
                        exclude(&mut options, &relation.hidden);
                    }
                    items.push(SelectItem::QualifiedWildcard(Of::ObjectName(name), options));
                }
                other => items.push(other),
            }
        }
        select.projection = items;
        Ok(())
    }

    /// The items whose columns a select sees.
    fn visible(&self, tables: &TableWithJoins) -> Vec<Relation> {
        let relation = |factor: &TableFactor| match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.visible(table_with_joins),
            factor => {
                let hidden = self.opened.get(&address(factor)).map(|opened| opened.columns.clone());
                vec![Relation { name: exposed(factor).cloned(), hidden: hidden.unwrap_or_default() }]
            }
        };
        let mut visible = relation(&tables.relation);
        for Join { relation: factor, join_operator, .. } in &tables.joins {
            use JoinOperator as Op;
            match join_operator {
                Op::Semi(_) | Op::LeftSemi(_) | Op::Anti(_) | Op::LeftAnti(_) => {}
                Op::RightSemi(_) | Op::RightAnti(_) => visible = relation(factor),
                _ => visible.extend(relation(factor)),
            }
        }
        visible
    }
}

/// An item whose columns a select sees.
struct Relation {
    name: Option<Ident>,
    hidden: Vec<MetadataColumn>,
}

/// `*` without metadata columns.
fn star(mut options: WildcardAdditionalOptions, relations: &[Relation], merged: bool) -> Result<Vec<SelectItem>> {
    let hidden: Vec<_> = relations.iter().filter(|relation| !relation.hidden.is_empty()).collect();
    let names: Option<Vec<&Ident>> = relations.iter().map(|relation| relation.name.as_ref()).collect();
    let plain = options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none();
    match (hidden.as_slice(), names) {
        (_, Some(names)) if relations.len() > 1 && plain && !merged => Ok(relations
            .iter()
            .zip(names)
            .map(|(relation, name)| {
                let mut options = WildcardAdditionalOptions::default();
                exclude(&mut options, &relation.hidden);
                SelectItem::QualifiedWildcard(Of::ObjectName(ObjectName::from(vec![name.clone()])), options)
            })
            .collect()),
        ([only], _) => {
            exclude(&mut options, &only.hidden);
            Ok(vec![SelectItem::Wildcard(options)])
        }
        _ => Err(Error::new(Code::NotSupported, "* cannot stand here beside metadata columns of several tables")
            .help("write the columns, or * of each table by its name")),
    }
}

fn exclude(options: &mut WildcardAdditionalOptions, hidden: &[MetadataColumn]) {
    let mut names = match options.opt_exclude.take() {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    for column in hidden {
        let name = column.name();
        let except =
            options.opt_except.iter().flat_map(|e| std::iter::once(&e.first_element).chain(&e.additional_elements));
        if !names.iter().chain(except).any(|known| known.value == name) {
            names.push(Ident::with_quote('"', name));
        }
    }
    options.opt_exclude = (!names.is_empty()).then_some(ExcludeSelectItem::Multiple(names));
}

/// Whether a join makes one column of two.
fn merges(tables: &TableWithJoins) -> bool {
    constrained(tables, |constraint| matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural))
}

fn natural(tables: &TableWithJoins) -> bool {
    constrained(tables, |constraint| matches!(constraint, JoinConstraint::Natural))
}

fn constrained(tables: &TableWithJoins, is: fn(&JoinConstraint) -> bool) -> bool {
    use JoinOperator as Op;
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => constrained(table_with_joins, is),
        _ => false,
    };
    nested(&tables.relation)
        || tables.joins.iter().any(|join| {
            let own = match &join.join_operator {
                Op::Join(c) | Op::Inner(c) | Op::Left(c) | Op::LeftOuter(c) | Op::Right(c) | Op::RightOuter(c) => is(c),
                Op::FullOuter(c) | Op::CrossJoin(c) | Op::Semi(c) | Op::LeftSemi(c) | Op::RightSemi(c) => is(c),
                Op::Anti(c) | Op::LeftAnti(c) | Op::RightAnti(c) | Op::StraightJoin(c) => is(c),
                Op::AsOf { constraint, .. } => is(constraint),
                Op::CrossApply | Op::OuterApply => false,
            };
            own || nested(&join.relation)
        })
}

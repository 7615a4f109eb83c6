//! What does a `FROM` make visible?
//!
//! ```text
//! main.messages           main.messages.uuid, messages.uuid, uuid
//! main.messages AS m      m.uuid, uuid
//! (SELECT …) AS s(a, b)   s.a, a, s.b, b
//! unnest(…) AS u          u and what nobody knows before planning
//! ```

use datafusion::sql::sqlparser::ast::{
    FunctionArg, FunctionArgExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, TableAlias, TableFactor,
    TableWithJoins, WildcardAdditionalOptions,
};

use super::merged::Piece;
use super::query::Resolver;
use super::scope::{Column, Columns, Fit, Relation, Scope, ambiguous, fit, rename, settle};
use super::star::selecting;
use super::tables::idents;
use crate::error::Result;

impl Resolver<'_> {
    /// A `FROM` item: what it makes visible is added to the current scope.
    pub(super) fn table_with_joins(&mut self, tables: &mut TableWithJoins) -> Result<()> {
        let visible = |resolver: &Self| {
            resolver.scopes.last().map_or((0, 0), |scope| (scope.relations.len(), scope.pieces.len()))
        };
        let (_, first) = visible(self);
        if tables.joins.first_mut().is_some_and(merges) {
            self.call(&mut tables.relation);
        }
        self.factor(&mut tables.relation)?;
        for join in &mut tables.joins {
            let (before, pieces) = visible(self);
            if merges(join) {
                self.call(&mut join.relation);
            }
            self.factor(&mut join.relation)?;
            if let JoinOperator::AsOf { match_condition, .. } = &mut join.join_operator {
                self.expr(match_condition)?;
            }
            match constraint(&mut join.join_operator) {
                Some(JoinConstraint::On(condition)) => self.expr(condition)?,
                Some(JoinConstraint::Using(names)) => {
                    names.iter_mut().try_for_each(|name| self.common_column(name, before))?;
                }
                _ => {}
            }
            self.merge(&mut join.join_operator, first, pieces)?;
        }
        Ok(())
    }

    /// Names a subquery that has no name, so that its columns can be told from those that they are merged with.
    fn call(&mut self, factor: &mut TableFactor) {
        if let TableFactor::Derived { alias: alias @ None, .. } = factor {
            self.called += 1;
            let name = Ident::with_quote('"', format!("__unnamed_{}", self.called));
            *alias = Some(TableAlias { explicit: true, name, columns: Vec::new() });
        }
    }

    /// A column of USING, which both sides must have under the same name.
    fn common_column(&self, name: &mut ObjectName, before: usize) -> Result<()> {
        let (Some(mut parts), Some(scope)) = (idents(name), self.scopes.last()) else { return Ok(()) };
        let ([column], Some((left, right))) = (parts.as_mut_slice(), scope.relations.split_at_checked(before)) else {
            return Ok(());
        };
        let known = |side: &[Relation]| -> Option<Vec<String>> {
            let columns = side.iter().map(|relation| relation.columns.as_deref());
            let columns: Option<Vec<_>> = columns.collect();
            Some(columns?.into_iter().flatten().map(|column| column.name.clone()).collect())
        };
        let (Some(left), Some(right)) = (known(left), known(right)) else { return Ok(()) };
        let shared = left.iter().filter(|name| right.contains(name)).map(String::as_str);
        settle(column, shared, "column")?;
        *name = ObjectName::from(parts);
        Ok(())
    }

    fn factor(&mut self, factor: &mut TableFactor) -> Result<()> {
        let relation = match factor {
            TableFactor::Table { name, alias, args: None, .. } => self.table(name, alias.as_ref())?,
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                self.arguments(&mut args.args)?;
                let called = idents(name).unwrap_or_default().into_iter().map(|part| part.value);
                match alias {
                    Some(alias) => unknown(Some(alias)),
                    None => Relation { path: called.collect(), written: Vec::new(), columns: None },
                }
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let columns = if *lateral { self.query(subquery)? } else { self.apart(|inner| inner.query(subquery))? };
                match alias {
                    Some(alias) => called(alias, columns),
                    None => Relation { path: Vec::new(), written: Vec::new(), columns },
                }
            }
            TableFactor::NestedJoin { .. } => return self.nested(factor),
            TableFactor::UNNEST { array_exprs, alias, .. } => {
                array_exprs.iter_mut().try_for_each(|expr| self.expr(expr))?;
                unknown(alias.as_ref())
            }
            TableFactor::TableFunction { expr, alias } => {
                self.expr(expr)?;
                unknown(alias.as_ref())
            }
            TableFactor::Function { args, alias, .. } => {
                self.arguments(args)?;
                unknown(alias.as_ref())
            }
            _ => unknown(None),
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.pieces.push(Piece::of(&relation));
            scope.relations.push(relation);
        }
        Ok(())
    }

    /// A named table or what WITH calls so.
    fn table(&mut self, name: &mut ObjectName, alias: Option<&TableAlias>) -> Result<Relation> {
        let Some(mut parts) = idents(name) else { return Ok(unknown(alias)) };
        let (path, columns) = match self.cte_of(&parts)? {
            Some((meant, columns)) => {
                parts.iter_mut().for_each(|part| rename(part, &meant));
                (vec![meant], columns)
            }
            None => match self.tables.table(&parts) {
                Some(table) => {
                    parts.iter_mut().zip(&table.parts).for_each(|(part, meant)| rename(part, meant));
                    (table.path.clone(), table.columns.clone())
                }
                None => (parts.iter().map(|part| part.value.clone()).collect(), None),
            },
        };
        let written = parts.iter().map(|part| part.value.clone()).collect();
        *name = ObjectName::from(parts);
        Ok(match alias {
            Some(alias) => called(alias, columns),
            None => Relation { path, written, columns },
        })
    }

    /// What WITH defines under a name: the same name, or one of another case where no table has the same.
    fn cte_of(&self, parts: &[Ident]) -> Result<Option<(String, Columns)>> {
        let [name] = parts else { return Ok(None) };
        let innermost = || self.ctes.iter().rev();
        if let Some((meant, columns)) = innermost().find(|(known, _)| *known == name.value) {
            return Ok(Some((meant.clone(), columns.clone())));
        }
        if self.tables.table(parts).is_some_and(|table| table.parts.first() == Some(&name.value)) {
            return Ok(None);
        }
        match fit(name, innermost().map(|(known, _)| known.as_str())) {
            Fit::Folded(meant) => Ok(innermost().find(|(known, _)| known == meant).cloned()),
            Fit::Several(candidates) => Err(ambiguous(&name.value, "table", &candidates)),
            Fit::Exact(_) | Fit::None => Ok(None),
        }
    }

    /// A join in parentheses: its tables are visible, or under an alias only their columns.
    fn nested(&mut self, factor: &mut TableFactor) -> Result<()> {
        let TableFactor::NestedJoin { table_with_joins, alias } = factor else { return Ok(()) };
        self.enter();
        self.table_with_joins(table_with_joins)?;
        let merges = self.scopes.last().is_some_and(Scope::merges);
        let (relations, pieces, unmerged) = match alias.take() {
            // The planner would put the columns under the alias as they are: the left one of two that were merged.
            Some(alias) if merges => {
                let items = self.apart_by_name(self.star(WildcardAdditionalOptions::default())?);
                let relation = called(&alias, self.outputs(&items));
                self.leave();
                let subquery = Box::new(selecting(items, table_with_joins.as_ref().clone()));
                *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
                (vec![relation.clone()], vec![Piece::of(&relation)], false)
            }
            Some(named) => {
                let inner = self.leave();
                let columns: Option<Vec<_>> =
                    inner.relations.iter().map(|relation| relation.columns.as_deref()).collect();
                let relation = called(&named, columns.map(|columns| columns.concat().into()));
                *alias = Some(named);
                (vec![relation.clone()], vec![Piece::of(&relation)], false)
            }
            None => {
                let inner = self.leave();
                (inner.relations, inner.pieces, inner.unmerged)
            }
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.relations.extend(relations);
            scope.pieces.extend(pieces);
            scope.unmerged |= unmerged;
        }
        Ok(())
    }

    /// Does something that does not see the current scope, only those around it.
    fn apart<T>(&mut self, then: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let current = self.leave();
        let done = then(self);
        self.scopes.push(current);
        done
    }

    fn arguments(&mut self, args: &mut [FunctionArg]) -> Result<()> {
        for arg in args {
            let (FunctionArg::Named { arg, .. } | FunctionArg::ExprNamed { arg, .. } | FunctionArg::Unnamed(arg)) = arg;
            if let FunctionArgExpr::Expr(expr) = arg {
                self.expr(expr)?;
            }
        }
        Ok(())
    }
}

pub(super) fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator as Op;
    match operator {
        Op::Join(constraint)
        | Op::Inner(constraint)
        | Op::Left(constraint)
        | Op::LeftOuter(constraint)
        | Op::Right(constraint)
        | Op::RightOuter(constraint)
        | Op::FullOuter(constraint)
        | Op::CrossJoin(constraint)
        | Op::Semi(constraint)
        | Op::LeftSemi(constraint)
        | Op::RightSemi(constraint)
        | Op::Anti(constraint)
        | Op::LeftAnti(constraint)
        | Op::RightAnti(constraint)
        | Op::StraightJoin(constraint)
        | Op::AsOf { constraint, .. } => Some(constraint),
        Op::CrossApply | Op::OuterApply => None,
    }
}

/// Whether a join makes one column of two.
fn merges(join: &mut Join) -> bool {
    matches!(constraint(&mut join.join_operator), Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
}

/// A relation under its alias.
fn called(alias: &TableAlias, columns: Columns) -> Relation {
    let name = vec![alias.name.value.clone()];
    Relation { path: name.clone(), written: name, columns: aliased(columns, alias) }
}

/// Columns under the names that an alias gives to the first of them.
pub(super) fn aliased(columns: Columns, alias: &TableAlias) -> Columns {
    let given: Vec<_> = alias.columns.iter().map(|column| column.name.value.clone()).collect();
    match columns {
        None if given.is_empty() => None,
        None => Some(given.into_iter().map(|name| Column { name, data_type: None }).collect()),
        Some(columns) => {
            let mut columns = columns.to_vec();
            columns.iter_mut().zip(given).for_each(|(column, name)| column.name = name);
            Some(columns.into())
        }
    }
}

/// A relation whose columns are not known unless its alias names them.
fn unknown(alias: Option<&TableAlias>) -> Relation {
    match alias {
        Some(alias) => called(alias, None),
        None => Relation { path: Vec::new(), written: Vec::new(), columns: None },
    }
}

//! What does `*` stand for where joins have made one column of several?
//!
//! ```text
//! a JOIN b USING (c)     a.c, a.* EXCLUDE (c), b.* EXCLUDE (c)
//! ```

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, GroupByExpr, Ident, ObjectName, Query, RenameSelectItem, ReplaceSelectElement,
    ReplaceSelectItem, Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableWithJoins,
    WildcardAdditionalOptions,
};

use super::merged::{Piece, item};
use super::query::Resolver;
use super::scope::{Column, Relation, settle};
use super::twice::Listed;
use crate::error::{Code, Error, Result};
use crate::sql::refuse::not_supported;

impl Resolver<'_> {
    /// Columns that `*` leaves out or changes.
    pub(super) fn wildcard(&mut self, of: Option<&[Ident]>, options: &mut WildcardAdditionalOptions) -> Result<()> {
        let Some(columns) = self.expanded(of) else { return Ok(()) };
        let known = || columns.iter().map(|column| column.name.as_str());
        let mut named: Vec<&mut Ident> = Vec::new();
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => named.push(name),
            Some(ExcludeSelectItem::Multiple(names)) => named.extend(names),
            None => {}
        }
        if let Some(except) = &mut options.opt_except {
            named.push(&mut except.first_element);
            named.extend(&mut except.additional_elements);
        }
        match &mut options.opt_rename {
            Some(RenameSelectItem::Single(name)) => named.push(&mut name.ident),
            Some(RenameSelectItem::Multiple(names)) => named.extend(names.iter_mut().map(|name| &mut name.ident)),
            None => {}
        }
        for name in named {
            settle(name, known(), "column")?;
        }
        for element in options.opt_replace.iter_mut().flat_map(|replace| &mut replace.items) {
            settle(&mut element.column_name, known(), "column")?;
            self.expr(&mut element.expr)?;
        }
        Ok(())
    }

    /// The columns that `*` or `t.*` stands for.
    pub(super) fn expanded(&self, of: Option<&[Ident]>) -> Option<Vec<Column>> {
        let scope = self.scopes.last()?;
        let relations: Vec<&Relation> = match of {
            None => scope.relations.iter().collect(),
            Some(parts) => scope.named(parts, true).ok()?,
        };
        let mut columns = Vec::new();
        for relation in relations {
            columns.extend_from_slice(relation.columns.as_deref()?);
        }
        Some(columns)
    }

    /// The items that `*` stands for: itself, where no columns were merged.
    pub(super) fn star(&self, options: WildcardAdditionalOptions) -> Result<Listed> {
        let mut items = Listed::default();
        let Some(scope) = self.scopes.last().filter(|scope| scope.merges()) else {
            items.push(SelectItem::Wildcard(options), None);
            return Ok(items);
        };
        if scope.unmerged {
            let help = Some("write the columns, or * of each table by its name");
            return Err(not_supported("* over a join with USING of tables whose columns are not known", help));
        }
        if options.opt_ilike.is_some() || options.opt_rename.is_some() {
            return Err(not_supported("ILIKE or RENAME after * over a join with USING", Some("write the columns")));
        }
        let mut changes = Changes {
            excluded: dropped(&options).into_iter().cloned().collect(),
            replaced: options
                .opt_replace
                .into_iter()
                .flat_map(|replace| replace.items)
                .map(|element| *element)
                .collect(),
        };
        for piece in &scope.pieces {
            match piece {
                Piece::Merged(merged) => {
                    if changes.excludes(&merged.name) {
                        continue;
                    }
                    match changes.replaces(&merged.name) {
                        Some(element) => items.push(replacement(element), None),
                        None => items.push(merged.item(), merged.computed()),
                    }
                }
                Piece::Rest { relation, absorbed } if relation.written.is_empty() => {
                    changes.each(relation, absorbed)?.into_iter().for_each(|item| items.push(item, None));
                }
                Piece::Rest { relation, absorbed } => {
                    changes.rest(relation, absorbed).into_iter().for_each(|item| items.push(item, None));
                }
            }
        }
        match changes.left() {
            None => Ok(items),
            Some(_) if scope.pieces.iter().any(Piece::is_open) => {
                Err(not_supported("EXCLUDE or REPLACE of a column that is not known", Some("write the columns")))
            }
            Some(name) => Err(Error::new(Code::UnknownColumn, format!("there is no column {name}"))),
        }
    }
}

/// What a `*` leaves out or puts in the place of others, as far as that isn't done.
struct Changes {
    excluded: Vec<Ident>,
    replaced: Vec<ReplaceSelectElement>,
}

impl Changes {
    fn excludes(&mut self, name: &str) -> bool {
        let before = self.excluded.len();
        self.excluded.retain(|excluded| excluded.value != name);
        self.excluded.len() < before
    }

    fn replaces(&mut self, name: &str) -> Option<ReplaceSelectElement> {
        let at = self.replaced.iter().position(|element| element.column_name.value == name)?;
        Some(self.replaced.remove(at))
    }

    fn left(&self) -> Option<&str> {
        let replaced = self.replaced.iter().map(|element| &element.column_name);
        self.excluded.iter().chain(replaced).next().map(|name| name.value.as_str())
    }

    /// The columns of a relation that can be named; `None` where all are left out.
    fn rest(&mut self, relation: &Relation, absorbed: &[String]) -> Option<SelectItem> {
        let mut excluded = absorbed.to_vec();
        let mut replaced = Vec::new();
        for column in relation.columns.iter().flat_map(|columns| columns.iter()) {
            let name = &column.name;
            if !absorbed.contains(name) {
                if self.excludes(name) {
                    excluded.push(name.clone());
                } else {
                    replaced.extend(self.replaces(name).map(Box::new));
                }
            }
        }
        if relation.columns.as_deref().is_some_and(|all| all.iter().all(|column| excluded.contains(&column.name))) {
            return None;
        }
        let excluded: Vec<_> = excluded.iter().map(|name| Ident::with_quote('"', name)).collect();
        let options = WildcardAdditionalOptions {
            opt_exclude: (!excluded.is_empty()).then_some(ExcludeSelectItem::Multiple(excluded)),
            opt_replace: (!replaced.is_empty()).then_some(ReplaceSelectItem { items: replaced }),
            ..WildcardAdditionalOptions::default()
        };
        let name = relation.written.iter().map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>();
        Some(SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(name)),
            options,
        ))
    }

    /// The columns of a subquery without name.
    fn each(&mut self, relation: &Relation, absorbed: &[String]) -> Result<Vec<SelectItem>> {
        let columns = relation.columns.as_deref().filter(|all| all.iter().all(|column| !column.name.is_empty()));
        let Some(columns) = columns else {
            let help = Some("give the subquery a name, and its columns too");
            return Err(not_supported("* over a join with USING beside a subquery without name", help));
        };
        let mut items = Vec::new();
        for column in columns.iter().filter(|column| !absorbed.contains(&column.name)) {
            if !self.excludes(&column.name) {
                items.push(match self.replaces(&column.name) {
                    Some(element) => replacement(element),
                    None => item(relation.named(&column.name), &column.name),
                });
            }
        }
        Ok(items)
    }
}

fn replacement(element: ReplaceSelectElement) -> SelectItem {
    SelectItem::ExprWithAlias { expr: element.expr, alias: element.column_name }
}

/// The columns of `*` after EXCLUDE, EXCEPT, REPLACE and RENAME.
pub(super) fn changed(columns: Vec<Column>, options: &WildcardAdditionalOptions) -> Vec<Column> {
    let dropped = dropped(options);
    let renamed: &[_] = match &options.opt_rename {
        Some(RenameSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(RenameSelectItem::Multiple(names)) => names,
        None => &[],
    };
    let kept = columns.into_iter().filter(|column| !dropped.iter().any(|name| name.value == column.name));
    kept.map(|column| match renamed.iter().find(|name| name.ident.value == column.name) {
        Some(name) => Column { name: name.alias.value.clone(), ..column },
        None => column,
    })
    .collect()
}

/// The columns that EXCLUDE and EXCEPT leave out.
pub(super) fn dropped(options: &WildcardAdditionalOptions) -> Vec<&Ident> {
    let mut dropped: Vec<&Ident> = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().collect(),
        None => Vec::new(),
    };
    if let Some(except) = &options.opt_except {
        dropped.push(&except.first_element);
        dropped.extend(&except.additional_elements);
    }
    dropped
}

/// `SELECT items FROM from`.
pub(super) fn selecting(items: Vec<SelectItem>, from: TableWithJoins) -> Query {
    let select = Select {
        select_token: AttachedToken::empty(),
        optimizer_hint: None,
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: items,
        exclude: None,
        into: None,
        from: vec![from],
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    };
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

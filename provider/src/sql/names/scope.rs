//! What can a name mean where it stands?

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::sql::sqlparser::ast::Ident;

use super::merged::Piece;
use crate::error::{Code, Error, Result};

/// A column that can be named. Its type is known where it comes from a table, for the fields of a struct.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) data_type: Option<DataType>,
}

impl Column {
    pub(super) fn of(field: &Field) -> Self {
        Column { name: field.name().clone(), data_type: Some(field.data_type().clone()) }
    }
}

/// The columns of something, `None` where they are not known here.
pub(super) type Columns = Option<Arc<[Column]>>;

/// One item of a `FROM`.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    /// The names before a column's that mean this: `[catalog, schema, table]` as far as written, or the alias.
    pub(super) path: Vec<String>,
    /// The same as the planner knows it: as written. Empty where it has no name.
    pub(super) written: Vec<String>,
    pub(super) columns: Columns,
}

/// Where columns of the select list are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Outputs {
    #[default]
    Hidden,
    /// `GROUP BY`, `HAVING`, `QUALIFY`: after those of the tables.
    Last,
    /// `ORDER BY`: before those of the tables.
    First,
}

/// What one query makes visible.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) relations: Vec<Relation>,
    /// What `*` stands for.
    pub(super) pieces: Vec<Piece>,
    /// A join with USING or NATURAL was left to the planner.
    pub(super) unmerged: bool,
    /// Columns of the select list.
    pub(super) outputs: Vec<Column>,
    pub(super) outputs_seen: Outputs,
    /// Named windows.
    pub(super) windows: Vec<String>,
}

/// How a written name meets the known ones.
#[derive(Debug, PartialEq)]
pub(super) enum Fit<'a> {
    Exact(&'a str),
    /// One name differs only in case.
    Folded(&'a str),
    /// Several differ only in case.
    Several(Vec<String>),
    None,
}

/// Compares a written name with known ones.
pub(super) fn fit<'a>(written: &Ident, known: impl Iterator<Item = &'a str>) -> Fit<'a> {
    let folded = written.quote_style.is_none().then(|| written.value.to_lowercase());
    let mut found: Vec<&str> = Vec::new();
    for name in known {
        if name == written.value {
            return Fit::Exact(name);
        }
        if folded.as_ref().is_some_and(|folded| name.to_lowercase() == *folded) && !found.contains(&name) {
            found.push(name);
        }
    }
    match found.as_slice() {
        [] => Fit::None,
        [one] => Fit::Folded(one),
        several => Fit::Several(several.iter().map(|name| (*name).to_owned()).collect()),
    }
}

/// Gives a name the case of the one that it means. Says whether there is one.
pub(super) fn settle<'a>(name: &mut Ident, known: impl Iterator<Item = &'a str>, what: &str) -> Result<bool> {
    match fit(name, known) {
        Fit::Exact(_) => Ok(true),
        Fit::Folded(meant) => {
            rename(name, meant);
            Ok(true)
        }
        Fit::Several(candidates) => Err(ambiguous(&name.value, what, &candidates)),
        Fit::None => Ok(false),
    }
}

/// Replaces a name, quoted so that it stays.
pub(super) fn rename(name: &mut Ident, meant: &str) {
    if name.value != meant {
        name.value = meant.to_owned();
        name.quote_style = Some('"');
    }
}

pub(super) fn ambiguous(written: &str, what: &str, candidates: &[String]) -> Error {
    Error::new(Code::AmbiguousName, format!("{what} '{written}' fits several names and none exactly"))
        .with("candidates", candidates.join(", "))
        .help("write the name as it is, or quote it")
}

impl Scope {
    fn columns(&self) -> impl Iterator<Item = &Column> {
        self.relations.iter().filter_map(|relation| relation.columns.as_deref()).flatten()
    }

    /// Whether columns may be visible that are not known here.
    fn is_open(&self) -> bool {
        self.relations.iter().any(|relation| relation.columns.is_none())
    }

    /// The visible column of exactly this name.
    pub(super) fn exact(&self, name: &str) -> Option<&Column> {
        let outputs: &[Column] = if self.outputs_seen == Outputs::Hidden { &[] } else { &self.outputs };
        self.columns().chain(outputs).find(|column| column.name == name)
    }

    /// Gives an unqualified name that is nowhere visible exactly the case of the column it means here. Says whether to
    /// stop looking further out.
    pub(super) fn column(&self, name: &mut Ident) -> Result<bool> {
        let outputs = self.outputs.iter().map(|column| column.name.as_str());
        if self.outputs_seen == Outputs::First && settle(name, outputs.clone(), "column")? {
            return Ok(true);
        }
        if self.is_open() {
            return Ok(true);
        }
        if settle(name, self.columns().map(|column| column.name.as_str()), "column")? {
            return Ok(true);
        }
        Ok(self.outputs_seen == Outputs::Last && settle(name, outputs, "column")?)
    }

    /// The longest qualifier that `parts` can begin with and mean a relation here, and what it says of the rest. `None`
    /// where `parts` mean nothing here. With `exactly`, only names of the same case count.
    pub(super) fn path(&self, parts: &[Ident], exactly: bool) -> Result<Option<Vec<String>>> {
        let longest = parts.len().saturating_sub(1).min(3);
        for qualifier in (0..=longest).rev() {
            let (before, after) = parts.split_at(qualifier);
            let relations =
                if before.is_empty() { self.relations.iter().collect() } else { self.named(before, exactly)? };
            if let Some(meant) = within(&relations, before, after, exactly)? {
                return Ok(Some(meant));
            }
        }
        Ok(None)
    }

    /// The relations that a qualifier means.
    pub(super) fn named(&self, qualifier: &[Ident], exactly: bool) -> Result<Vec<&Relation>> {
        let tail = |relation: &Relation| -> Option<Vec<String>> {
            let from = relation.path.len().checked_sub(qualifier.len())?;
            relation.path.get(from..).map(<[String]>::to_vec)
        };
        let same = |relation: &&Relation| {
            tail(relation)
                .is_some_and(|tail| tail.iter().zip(qualifier).all(|(known, written)| *known == written.value))
        };
        let exact: Vec<_> = self.relations.iter().filter(same).collect();
        if exactly || !exact.is_empty() {
            return Ok(exact);
        }
        let like = |relation: &&Relation| {
            tail(relation).is_some_and(|tail| {
                let fits = |known: &String, written| fit(written, std::iter::once(known.as_str())) != Fit::None;
                tail.iter().zip(qualifier).all(|(known, written)| fits(known, written))
            })
        };
        let folded: Vec<_> = self.relations.iter().filter(like).collect();
        let mut tails: Vec<_> = folded.iter().filter_map(|relation| tail(relation)).collect();
        tails.sort();
        tails.dedup();
        if tails.len() > 1 {
            let written: Vec<_> = qualifier.iter().map(|part| part.value.as_str()).collect();
            let candidates: Vec<_> = tails.iter().map(|tail| tail.join(".")).collect();
            return Err(ambiguous(&written.join("."), "table", &candidates));
        }
        Ok(folded)
    }
}

/// What a column and fields of it mean in relations that a qualifier means.
fn within(relations: &[&Relation], before: &[Ident], after: &[Ident], exactly: bool) -> Result<Option<Vec<String>>> {
    let (Some(first), Some((column, fields))) = (relations.first(), after.split_first()) else { return Ok(None) };
    let from = first.path.len().saturating_sub(before.len());
    let mut meant = if before.is_empty() { Vec::new() } else { first.path.get(from..).unwrap_or_default().to_vec() };
    if relations.iter().any(|relation| relation.columns.is_none()) {
        // Columns are not known: only the qualifier can be settled.
        meant.extend(after.iter().map(|part| part.value.clone()));
        return Ok((!before.is_empty()).then_some(meant));
    }
    let columns = || relations.iter().filter_map(|relation| relation.columns.as_deref()).flatten();
    let Some(name) = pick(column, columns().map(|column| column.name.as_str()), exactly, "column")? else {
        return Ok(None);
    };
    let data_type = columns().find(|column| column.name == name).and_then(|column| column.data_type.as_ref());
    let fields_meant = match fields {
        [] => Some(Vec::new()),
        _ => fields_of(data_type, fields, exactly)?,
    };
    meant.push(name.to_owned());
    Ok(fields_meant.map(|fields| meant.into_iter().chain(fields).collect()))
}

/// The fields that `fields` mean, each inside the one before. `None` where a struct has no such field.
pub(super) fn fields_of(data_type: Option<&DataType>, fields: &[Ident], exactly: bool) -> Result<Option<Vec<String>>> {
    let mut meant = Vec::new();
    let mut inside = data_type;
    for field in fields {
        let Some(DataType::Struct(known)) = inside else { return Ok(None) };
        let Some(name) = pick(field, known.iter().map(|field| field.name().as_str()), exactly, "field")? else {
            return Ok(None);
        };
        inside = known.iter().find(|field| field.name() == name).map(|field| field.data_type());
        meant.push(name.to_owned());
    }
    Ok(Some(meant))
}

fn pick<'a>(
    written: &Ident,
    known: impl Iterator<Item = &'a str>,
    exactly: bool,
    what: &str,
) -> Result<Option<&'a str>> {
    match fit(written, known) {
        Fit::Exact(name) => Ok(Some(name)),
        Fit::Folded(name) if !exactly => Ok(Some(name)),
        Fit::Several(candidates) if !exactly => Err(ambiguous(&written.value, what, &candidates)),
        _ => Ok(None),
    }
}

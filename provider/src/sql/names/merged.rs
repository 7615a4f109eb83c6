//! Which column does USING or NATURAL make of two?
//!
//! ```text
//! a JOIN b USING (c), LEFT     c means a.c
//! RIGHT                        b.c
//! FULL                         coalesce(a.c, b.c)
//! ```
//!
//! DataFusion 53 takes the left one always, and knows one such join a query. So the constraint becomes `ON a.c = b.c`, and
//! the bare name what it means. What columns a side has must be known for it.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    JoinConstraint, JoinOperator, ObjectName, SelectItem, Value,
};

use super::from::constraint;
use super::query::Resolver;
use super::scope::{Column, Outputs, Relation, Scope};
use super::tables::idents;
use crate::error::{Code, Error, Result};

/// A part of what `*` stands for, in order.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Merged(Merged),
    /// The columns of a relation, but for those that were merged.
    Rest {
        relation: Relation,
        absorbed: Vec<String>,
    },
}

/// A column that stands for several of one name.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    pub(super) name: String,
    /// What it is called on the two sides, where that differs in case.
    spelled: [String; 2],
    /// The first of these that is not null.
    of: Vec<Vec<Ident>>,
}

/// A column of one side of a join: its name there, the place of its piece, and what its bare name means.
struct Found {
    name: String,
    at: usize,
    of: Vec<Vec<Ident>>,
}

enum Search {
    Found(Found),
    Nowhere,
    Several,
    /// It, or another one, may be in a relation whose columns are not known.
    Unknown,
}

/// The sides of a join whose columns are seen after it.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Both,
    Left,
    Right,
}

impl Merged {
    fn is(&self, name: &str) -> bool {
        self.name == name || self.spelled.iter().any(|spelled| spelled == name)
    }

    /// What the bare name means.
    pub(super) fn expr(&self) -> Expr {
        column_or_first(&self.of)
    }

    /// The same, where it is not a column of one table, which would be told by its name.
    pub(super) fn computed(&self) -> Option<Expr> {
        (self.of.len() > 1).then(|| self.expr())
    }

    /// The column as an item of a select list.
    pub(super) fn item(&self) -> SelectItem {
        item(self.expr(), &self.name)
    }
}

/// A merged column as an item of a select list, under its name.
pub(super) fn item(expr: Expr, name: &str) -> SelectItem {
    match expr {
        Expr::Function(_) => SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) },
        expr => SelectItem::UnnamedExpr(expr),
    }
}

impl Piece {
    pub(super) fn of(relation: &Relation) -> Self {
        Piece::Rest { relation: relation.clone(), absorbed: Vec::new() }
    }

    /// What a bare name means that this piece has under exactly this name.
    fn known(&self, name: &str) -> Option<Vec<Vec<Ident>>> {
        match self {
            Piece::Merged(merged) => merged.is(name).then(|| merged.of.clone()),
            Piece::Rest { relation, absorbed } => {
                let has = relation.columns.iter().flat_map(|columns| columns.iter()).any(|column| column.name == name);
                (has && !absorbed.iter().any(|absorbed| absorbed == name)).then(|| vec![relation.column(name)])
            }
        }
    }

    /// Whether it may have columns that are not known.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Piece::Rest { relation, .. } if relation.columns.is_none())
    }

    /// Whether a column of it has a name that is not known.
    fn has_unnamed(&self) -> bool {
        let unnamed = |columns: &[Column]| columns.iter().any(|column| column.name.is_empty());
        matches!(self, Piece::Rest { relation, .. } if relation.columns.as_deref().is_some_and(unnamed))
    }

    /// The names of its columns that are known.
    fn names(&self) -> Vec<&str> {
        match self {
            Piece::Merged(merged) => vec![&merged.name],
            Piece::Rest { relation, absorbed } => {
                let columns = relation.columns.iter().flat_map(|columns| columns.iter());
                let named = columns.map(|column| column.name.as_str()).filter(|name| !name.is_empty());
                named.filter(|name| !absorbed.iter().any(|absorbed| absorbed == name)).collect()
            }
        }
    }
}

impl Relation {
    /// A column of it in an expression.
    pub(super) fn named(&self, name: &str) -> Expr {
        column_or_first(&[self.column(name)])
    }

    /// A column under its qualified name, for the planner.
    fn column(&self, name: &str) -> Vec<Ident> {
        self.written.iter().map(String::as_str).chain([name]).map(|part| Ident::with_quote('"', part)).collect()
    }
}

impl Scope {
    /// The merged column that a bare name means, where it is the only one of this name.
    fn merged(&self, name: &str) -> Option<&Merged> {
        let mut of_name = self.pieces.iter().filter(|piece| piece.known(name).is_some());
        match (of_name.next(), of_name.next()) {
            (Some(Piece::Merged(merged)), None) => Some(merged),
            _ => None,
        }
    }

    /// Whether a join of it has made one column of two.
    pub(super) fn merges(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Merged(_)))
    }

    /// Whether the planner may take another relation for one: it reads `t.c` as a column of `s.t` too.
    fn is_doubtful(&self, path: &[Ident]) -> bool {
        let Some((_, [.., table])) = path.split_last() else { return false };
        let same = || self.relations.iter().filter(|relation| relation.written.last() == Some(&table.value));
        same().count() > 1 && same().any(|relation| relation.written.len() < 2)
    }
}

impl Resolver<'_> {
    /// What a bare name means, settled, where it means a merged column.
    pub(super) fn merged(&self, name: &str) -> Result<Option<Expr>> {
        for (depth, scope) in self.scopes.iter().rev().enumerate() {
            // One column of the list is meant, not one of several that were numbered.
            let listed = |column: &&Column| {
                column.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
            };
            if scope.outputs_seen == Outputs::First && scope.outputs.iter().filter(listed).count() == 1 {
                return Ok(None);
            }
            if let Some(merged) = scope.merged(name) {
                // A relation or a column of this name further in would be taken for the qualifier.
                let takes = |inner: &Scope, path: &[Ident]| {
                    path.first().is_some_and(|first| inner.exact(&first.value).is_some())
                        || !matches!(inner.path(path, true), Ok(None))
                };
                let mut inner = self.scopes.iter().rev().take(depth);
                let hidden = inner.any(|inner| merged.of.iter().any(|path| takes(inner, path)));
                return if hidden { Err(taken(name)) } else { Ok(Some(merged.expr())) };
            }
            if scope.relations.iter().any(|relation| relation.columns.is_none()) || scope.exact(name).is_some() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Joins what a `FROM` has made visible, from piece `right` on, to what was there before, from `left` on.
    pub(super) fn merge(&mut self, operator: &mut JoinOperator, left: usize, right: usize) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        let (seen, outer) = (seen(operator), is_outer(operator));
        let mut rights = scope.pieces.split_off(right.min(scope.pieces.len()));
        let mut lefts = scope.pieces.split_off(left.min(scope.pieces.len()));
        let mut merged = Vec::new();
        let full = matches!(operator, JoinOperator::FullOuter(_));
        let from_right = matches!(operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_));
        if let Some(constraint) = constraint(operator)
            && let Some(names) = names(constraint, &lefts, &rights)
        {
            match pairs(&names, &lefts, &rights, scope)? {
                Pairs::All(pairs) => {
                    *constraint = JoinConstraint::On(equal(&pairs));
                    let pairs = if seen == Seen::Both { pairs } else { Vec::new() };
                    for (name, (of_left, of_right)) in names.into_iter().zip(pairs) {
                        absorb(&mut lefts, &of_left);
                        absorb(&mut rights, &of_right);
                        let of = match (full, from_right) {
                            (true, _) => [of_left.of, of_right.of].concat(),
                            (false, true) => of_right.of,
                            (false, false) => of_left.of,
                        };
                        let spelled = [of_left.name, of_right.name];
                        merged.push(Piece::Merged(Merged { name: name.value, spelled, of }));
                    }
                    lefts.retain(|piece| !is_gone(piece));
                    rights.retain(|piece| !is_gone(piece));
                }
                Pairs::Nowhere => {}
                Pairs::Doubtful if outer => return Err(doubtful()),
                Pairs::Unknown if outer => return Err(not_known()),
                Pairs::Doubtful | Pairs::Unknown => scope.unmerged = true,
            }
        } else if matches!(constraint(operator), Some(JoinConstraint::Natural | JoinConstraint::Using(_))) {
            match outer {
                true => return Err(not_known()),
                false => scope.unmerged = true,
            }
        }
        if seen == Seen::Both {
            scope.pieces.extend(merged);
        }
        if seen != Seen::Right {
            scope.pieces.extend(lefts);
        }
        if seen != Seen::Left {
            scope.pieces.extend(rights);
        }
        Ok(())
    }
}

enum Pairs {
    All(Vec<(Found, Found)>),
    Nowhere,
    /// A qualified name would mean columns of two tables.
    Doubtful,
    Unknown,
}

/// The columns of each name on both sides.
fn pairs(names: &[Ident], lefts: &[Piece], rights: &[Piece], scope: &Scope) -> Result<Pairs> {
    let mut pairs = Vec::new();
    for name in names {
        match (search(lefts, name), search(rights, name)) {
            (Search::Found(left), Search::Found(right)) => pairs.push((left, right)),
            (Search::Several, _) | (_, Search::Several) => {
                return Err(Error::new(
                    Code::AmbiguousName,
                    format!("one side of the join has several columns {}", name.value),
                )
                .help("write the condition with ON, and the columns with their tables"));
            }
            (Search::Unknown, _) | (_, Search::Unknown) => return Ok(Pairs::Unknown),
            // The planner says what is missing.
            (Search::Nowhere, _) | (_, Search::Nowhere) => return Ok(Pairs::Nowhere),
        }
    }
    let mut paths = pairs.iter().flat_map(|(left, right)| left.of.iter().chain(&right.of));
    Ok(if paths.any(|path| scope.is_doubtful(path)) { Pairs::Doubtful } else { Pairs::All(pairs) })
}

/// Looks for a column on one side of a join: as it is typed, and then without regard to case.
fn search(side: &[Piece], name: &Ident) -> Search {
    let known = |name: &str| -> Vec<Found> {
        let found = |(at, piece): (usize, &Piece)| Some(Found { name: name.to_owned(), at, of: piece.known(name)? });
        side.iter().enumerate().filter_map(found).collect()
    };
    let open = side.iter().any(Piece::is_open);
    let mut found = known(&name.value);
    if found.is_empty() && !open && name.quote_style.is_none() {
        let like = side.iter().flat_map(Piece::names).filter(|like| like.eq_ignore_ascii_case(&name.value));
        found = like.flat_map(known).collect();
    }
    let (known, name) = (found, &name.value);
    match (known.len(), known.into_iter().next()) {
        (1, Some(found)) if !open => Search::Found(found),
        (1, _) => Search::Unknown,
        (0, _) => {
            let mut maybe = side.iter().enumerate().filter(|(_, piece)| piece.is_open() || piece.has_unnamed());
            match (maybe.next(), maybe.next()) {
                (None, _) => Search::Nowhere,
                // The planner sees whether it is there.
                (Some((at, Piece::Rest { relation, .. })), None) if !relation.written.is_empty() => {
                    Search::Found(Found { name: name.clone(), at, of: vec![relation.column(name)] })
                }
                _ => Search::Unknown,
            }
        }
        _ => Search::Several,
    }
}

/// The names of the columns that a constraint merges: of NATURAL where all names are known.
fn names(constraint: &JoinConstraint, lefts: &[Piece], rights: &[Piece]) -> Option<Vec<Ident>> {
    let mut names: Vec<Ident> = Vec::new();
    match constraint {
        JoinConstraint::Using(written) => {
            for name in written {
                match idents(name)?.as_slice() {
                    [only] if names.iter().any(|known| known.value == only.value) => {}
                    [only] => names.push(only.clone()),
                    _ => return None,
                }
            }
        }
        JoinConstraint::Natural => {
            let unnamed = |side: &[Piece]| side.iter().any(Piece::has_unnamed);
            let open = lefts.iter().chain(rights).any(Piece::is_open);
            if open || unnamed(lefts) && unnamed(rights) {
                return None;
            }
            for name in lefts.iter().flat_map(Piece::names) {
                // Of names that differ in case only, one is as it is typed, or it is the only one.
                let typed = Ident::with_quote('"', name);
                let alike =
                    lefts.iter().flat_map(Piece::names).filter(|other| other.eq_ignore_ascii_case(name)).count();
                let name = match search(rights, &typed) {
                    Search::Nowhere if alike == 1 => Ident::new(name),
                    _ => typed,
                };
                let common = !matches!(search(rights, &name), Search::Nowhere);
                if common && !names.iter().any(|known| known.value == name.value) {
                    names.push(name);
                }
            }
        }
        JoinConstraint::On(_) | JoinConstraint::None => return None,
    }
    Some(names)
}

/// Takes a merged column out of the piece that it comes from.
fn absorb(side: &mut [Piece], found: &Found) {
    match side.get_mut(found.at) {
        Some(Piece::Rest { absorbed, .. }) => absorbed.push(found.name.clone()),
        Some(Piece::Merged(merged)) => merged.of.clear(),
        None => {}
    }
}

/// Whether a piece is a merged column that became part of another.
fn is_gone(piece: &Piece) -> bool {
    matches!(piece, Piece::Merged(merged) if merged.of.is_empty())
}

fn equal(pairs: &[(Found, Found)]) -> Expr {
    let equal = pairs.iter().map(|(left, right)| {
        let (left, right) = (Box::new(column_or_first(&left.of)), Box::new(column_or_first(&right.of)));
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right }
    });
    let both = |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
    equal.reduce(both).unwrap_or_else(|| Expr::value(Value::Boolean(true)))
}

fn column_or_first(of: &[Vec<Ident>]) -> Expr {
    let column = |path: &Vec<Ident>| match path.as_slice() {
        [only] => Expr::Identifier(only.clone()),
        _ => Expr::CompoundIdentifier(path.clone()),
    };
    match of {
        [only] => column(only),
        several => {
            let args = several.iter().map(|path| FunctionArg::Unnamed(FunctionArgExpr::Expr(column(path)))).collect();
            let args = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
            Expr::Function(Function {
                name: ObjectName::from(vec![Ident::new("coalesce")]),
                uses_odbc_syntax: false,
                parameters: FunctionArguments::None,
                args: FunctionArguments::List(args),
                filter: None,
                null_treatment: None,
                over: None,
                within_group: Vec::new(),
            })
        }
    }
}

fn seen(operator: &JoinOperator) -> Seen {
    use JoinOperator as Op;
    match operator {
        Op::Semi(_) | Op::LeftSemi(_) | Op::Anti(_) | Op::LeftAnti(_) => Seen::Left,
        Op::RightSemi(_) | Op::RightAnti(_) => Seen::Right,
        _ => Seen::Both,
    }
}

/// Whether the left one of two merged columns may be null where the right one is not.
fn is_outer(operator: &JoinOperator) -> bool {
    matches!(operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_))
}

fn not_known() -> Error {
    Error::new(
        Code::NotSupported,
        "RIGHT and FULL JOIN with USING or NATURAL need tables whose columns are known before planning",
    )
    .help("write the condition with ON, and coalesce(a.c, b.c) for the column")
}

fn doubtful() -> Error {
    Error::new(Code::AmbiguousName, "RIGHT and FULL JOIN with USING or NATURAL need tables of different names")
        .help("give the tables aliases")
}

fn taken(name: &str) -> Error {
    Error::new(
        Code::AmbiguousName,
        format!("the column {name} is of a table that something in the subquery is called as"),
    )
    .help("give the table another alias")
}

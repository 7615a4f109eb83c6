//! Which kinds of values does each field have?
//!
//! A [`Shape`] is what was seen at one path; merging two is the same as seeing both, in whatever order files are read.
//!
//! ```text
//! {"m":{"c":"x"}}          m: object ─ c: text | list ─ items: object ─ t: text
//! {"m":{"c":[{"t":"y"}]}}
//! ```

use std::collections::{HashMap, HashSet};

use crate::error::{Code, Error, Result};
use crate::input::json::path;
use crate::input::json::tape::{Kind, Members, Value};
use crate::input::number::{self, Size};
use crate::input::source::Source;
use crate::input::zones::{self, At, Zones};

/// The most names of one object that are taken as fields; an object with more is a map whose names are data.
pub(in crate::input) const MAX_NAMES: usize = 1_000;

/// The most fields of all input: a bound on the memory that inference needs.
const MAX_FIELDS: usize = 100_000;

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::input) struct Kinds(u16);

impl Kinds {
    pub(in crate::input) const NULL: Kinds = Kinds(1);
    pub(in crate::input) const BOOL: Kinds = Kinds(1 << 1);
    /// Any integer.
    pub(in crate::input) const INT: Kinds = Kinds(1 << 2);
    /// An integer that no double equals.
    pub(in crate::input) const INEXACT: Kinds = Kinds(1 << 3);
    /// An integer beyond 64 bits.
    pub(in crate::input) const BIG: Kinds = Kinds(1 << 4);
    /// An integer beyond 38 digits.
    pub(in crate::input) const HUGE: Kinds = Kinds(1 << 5);
    pub(in crate::input) const FLOAT: Kinds = Kinds(1 << 6);
    pub(in crate::input) const TEXT: Kinds = Kinds(1 << 7);
    /// Any object.
    pub(in crate::input) const OBJECT: Kinds = Kinds(1 << 8);
    /// Any list.
    pub(in crate::input) const LIST: Kinds = Kinds(1 << 9);
    /// More than [`MAX_NAMES`] names.
    pub(in crate::input) const WIDE: Kinds = Kinds(1 << 10);

    pub(in crate::input) const ALL: Kinds = Kinds(u16::MAX);

    /// Both together.
    pub(in crate::input) const fn with(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Whether it holds any of `other`.
    pub(in crate::input) fn any(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    /// What it holds beyond `other`.
    pub(in crate::input) fn without(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    pub(in crate::input) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What was seen at one path.
#[derive(Debug, Default)]
pub(in crate::input) struct Shape {
    /// Holds the columns of a row.
    root: bool,
    path: String,
    kinds: Kinds,
    /// Where each kind was first seen.
    first: Vec<(Kinds, At)>,
    /// Declared as JSON text: what is within doesn't matter.
    opaque: bool,
    fields: Vec<(String, Shape)>,
    index: HashMap<String, usize>,
    items: Option<Box<Shape>>,
    /// For the column that must hold timestamps.
    zones: Option<Zones>,
}

/// What holds for a whole reading.
#[derive(Debug)]
pub(in crate::input) struct Census<'a> {
    /// Paths declared as JSON text.
    pub(in crate::input) json: &'a HashSet<String>,
    /// The column whose texts must be timestamps, unless its type is known.
    pub(in crate::input) timestamp: Option<&'a str>,
    /// Where reading is.
    pub(in crate::input) at: At,
    /// Fields found so far.
    pub(in crate::input) fields: usize,
}

impl Shape {
    /// The shape of rows: its fields are the columns.
    pub(in crate::input) fn of_rows() -> Self {
        Shape { root: true, ..Shape::default() }
    }

    pub(in crate::input) fn kinds(&self) -> Kinds {
        self.kinds
    }

    pub(in crate::input) fn path(&self) -> &str {
        &self.path
    }

    /// Whether it was declared as JSON text.
    pub(in crate::input) fn is_opaque(&self) -> bool {
        self.opaque
    }

    /// The fields of its objects, in the order they were first seen.
    pub(in crate::input) fn fields(&self) -> impl Iterator<Item = (&str, &Shape)> {
        self.fields.iter().map(|(name, shape)| (name.as_str(), shape))
    }

    pub(in crate::input) fn field(&self, name: &str) -> Option<&Shape> {
        self.index.get(name).and_then(|at| self.fields.get(*at)).map(|(_, shape)| shape)
    }

    /// What its lists hold.
    pub(in crate::input) fn items(&self) -> Option<&Shape> {
        self.items.as_deref()
    }

    /// For a column that must hold timestamps: whether they have a zone. `None` for any other.
    pub(in crate::input) fn zoned(&self) -> Option<bool> {
        self.zones.as_ref().map(Zones::zoned)
    }

    /// Where one of `kinds` was first seen.
    pub(in crate::input) fn first(&self, kinds: Kinds) -> Option<At> {
        self.first.iter().find(|(kind, _)| kinds.any(*kind)).map(|(_, at)| *at)
    }

    /// Takes one row into account.
    ///
    /// Errors: `input_value_invalid` for a primary timestamp that is none, or for more fields than can be columns.
    pub(in crate::input) fn row(&mut self, members: Members<'_>, census: &mut Census<'_>) -> Result<()> {
        self.note(Kinds::OBJECT, census.at);
        self.members(members, census)
    }

    /// Takes what another reading saw into account, as if its rows followed.
    pub(in crate::input) fn merge(&mut self, other: Shape) {
        for (kinds, at) in other.first {
            self.note(kinds, at);
        }
        match (&mut self.zones, other.zones) {
            (Some(ours), Some(theirs)) => ours.merge(theirs),
            (ours, theirs) => *ours = ours.take().or(theirs),
        }
        match (&mut self.items, other.items) {
            (Some(ours), Some(theirs)) => ours.merge(*theirs),
            (ours, theirs) => *ours = ours.take().or(theirs),
        }
        for (name, shape) in other.fields {
            match self.index.get(&name).and_then(|at| self.fields.get_mut(*at)) {
                Some((_, ours)) => ours.merge(shape),
                None => self.add(name, shape),
            }
        }
        self.collapse();
    }

    /// Checks what several files hold together.
    ///
    /// Errors: `input_value_invalid` if some primary timestamps have a zone and some have none, or for more fields than
    /// can be columns.
    pub(in crate::input) fn check(&self, sources: &[Source]) -> Result<()> {
        if self.count() > MAX_FIELDS {
            return Err(too_many(&self.path));
        }
        let zones = self.fields.iter().filter_map(|(name, shape)| Some((name, shape.zones.as_ref()?)));
        zones.into_iter().try_for_each(|(name, zones)| zones.check(name, sources))
    }

    fn add(&mut self, name: String, shape: Shape) {
        self.index.insert(name.clone(), self.fields.len());
        self.fields.push((name, shape));
    }

    fn note(&mut self, kinds: Kinds, at: At) {
        let fresh = kinds.without(self.kinds);
        if !fresh.is_empty() {
            self.kinds = self.kinds.with(fresh);
            self.first.push((fresh, at));
        }
    }

    fn value(&mut self, value: Value<'_>, census: &mut Census<'_>) -> Result<()> {
        let kind = value.kind();
        if let Some(zones) = &mut self.zones {
            see_timestamp(zones, &self.path, &kind, census.at)?;
        }
        let kinds = match &kind {
            Kind::Null => Kinds::NULL,
            Kind::Bool(_) => Kinds::BOOL,
            Kind::Int(digits) => integer(digits),
            Kind::Float(_) => Kinds::FLOAT,
            Kind::Text(_) => Kinds::TEXT,
            Kind::List(_) => Kinds::LIST,
            Kind::Object(_) => Kinds::OBJECT,
        };
        self.note(kinds, census.at);
        if self.opaque {
            return Ok(());
        }
        match kind {
            Kind::List(list) => {
                for item in list {
                    if self.items.is_none() {
                        self.items = Some(Box::new(census.found(path::item(&self.path))?));
                    }
                    if let Some(items) = &mut self.items {
                        items.value(item, census)?;
                    }
                }
                Ok(())
            }
            Kind::Object(members) => self.members(members, census),
            _ => Ok(()),
        }
    }

    fn members(&mut self, members: Members<'_>, census: &mut Census<'_>) -> Result<()> {
        if self.kinds.any(Kinds::WIDE) {
            return Ok(());
        }
        let mut expected = 0;
        for (name, value) in members {
            // Rows mostly have the same names in the same order.
            let at = match self.fields.get(expected) {
                Some((known, _)) if known == name => Some(expected),
                _ => self.index.get(name).copied(),
            };
            let at = match at {
                Some(at) => at,
                None => {
                    let mut shape = census.found(self.member_path(name))?;
                    if self.root && census.timestamp == Some(name) && !shape.opaque {
                        shape.zones = Some(Zones::default());
                    }
                    self.add(name.to_owned(), shape);
                    self.fields.len() - 1
                }
            };
            if let Some((_, shape)) = self.fields.get_mut(at) {
                shape.value(value, census)?;
            }
            expected = at + 1;
        }
        if self.fields.len() > MAX_NAMES && !self.root {
            census.fields = census.fields.saturating_sub(self.count());
            self.note(Kinds::WIDE, census.at);
            self.collapse();
        }
        Ok(())
    }

    /// Forgets the fields of an object that has too many.
    fn collapse(&mut self) {
        if self.fields.len() > MAX_NAMES && !self.root && !self.kinds.any(Kinds::WIDE) {
            let at = self.first(Kinds::OBJECT).unwrap_or(At { file: 0, line: 1 });
            self.note(Kinds::WIDE, at);
        }
        if self.kinds.any(Kinds::WIDE) {
            self.fields = Vec::new();
            self.index = HashMap::new();
        }
    }

    fn member_path(&self, name: &str) -> String {
        if self.root { name.to_owned() } else { path::field(&self.path, name) }
    }

    fn count(&self) -> usize {
        let nested = self.fields.iter().map(|(_, shape)| shape).chain(self.items.as_deref());
        nested.map(|shape| 1 + shape.count()).sum()
    }
}

/// Takes one value of the primary timestamp into account.
fn see_timestamp(zones: &mut Zones, column: &str, kind: &Kind<'_>, at: At) -> Result<()> {
    match kind {
        Kind::Null => Ok(()),
        Kind::Text(text) => zones.see(column, text, at),
        Kind::Int(text) | Kind::Float(text) => Err(zones::refused(column, text, zones::NUMBER)),
        Kind::Bool(value) => Err(zones::refused(column, &value.to_string(), "a boolean is no timestamp")),
        Kind::List(_) => Err(zones::refused(column, "[…]", "a list is no timestamp")),
        Kind::Object(_) => Err(zones::refused(column, "{…}", "an object is no timestamp")),
    }
}

impl Census<'_> {
    fn found(&mut self, path: String) -> Result<Shape> {
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return Err(too_many(&path));
        }
        Ok(Shape { opaque: self.json.contains(&path), path, ..Shape::default() })
    }
}

fn integer(digits: &str) -> Kinds {
    // The common case without parsing: up to 15 digits are below 2⁵³.
    if digits.len() <= 15 {
        return Kinds::INT;
    }
    let size = match number::size(digits) {
        Size::Long => Kinds::INT,
        Size::Decimal => Kinds::INT.with(Kinds::BIG),
        Size::Huge => Kinds::INT.with(Kinds::BIG).with(Kinds::HUGE),
    };
    if number::exact_double(digits).is_some() { size } else { size.with(Kinds::INEXACT) }
}

fn too_many(path: &str) -> Error {
    Error::new(Code::InputValueInvalid, format!("more than {MAX_FIELDS} distinct fields"))
        .with("path", path)
        .help("declare the columns whose names are data as json")
}

//! Which type does each column get?
//!
//! What a table or a declaration says rules. Elsewhere the values decide: those of one shape become structs and lists;
//! the deepest field whose kind varies, or that never holds anything, is JSON text.
//!
//! | seen at one path | type |
//! |---|---|
//! | null | no column; in a list, the list is JSON text |
//! | integers | `long`; `decimal(38, 0)` beyond 64 bits; JSON text beyond 38 digits |
//! | integers and floats | `double`; JSON text where a double doesn't equal every integer |
//! | objects | struct; JSON text where no field ever has a value, or more than 1,000 fields would be columns |
//! | lists | list; JSON text where all are empty |
//! | anything else together | JSON text |

use crate::error::Error;
use crate::input::json::shape::{Kinds, MAX_NAMES, Shape};
use crate::input::number::MAX_DIGITS;
use crate::input::refusal::{clash, not_text};
use crate::input::ruling::Ruling;
use crate::input::source::Source;
use crate::input::types::{Named, Type, Unit};

/// The columns of all NDJSON input.
#[derive(Debug)]
pub(in crate::input) struct Resolved {
    pub(in crate::input) columns: Vec<Named>,
    /// Names that never have a value.
    pub(in crate::input) untyped: Vec<String>,
    /// Paths that are kept as JSON text.
    pub(in crate::input) json: Vec<String>,
    /// The first contradiction to the types that rule.
    pub(in crate::input) clash: Option<Error>,
}

/// Decides the columns of rows of shape `rows`, in the order they were first seen.
pub(in crate::input) fn resolve(rows: &Shape, ruling: &Ruling, sources: &[Source]) -> Resolved {
    let mut resolver = Resolver { sources, json: Vec::new(), clash: None };
    let (mut columns, mut untyped) = (Vec::new(), Vec::new());
    for (name, shape) in rows.fields() {
        let ty = match ruling.of(name) {
            Some(ty) => Some(resolver.ruled(shape, ty)),
            None => resolver.free(shape),
        };
        match ty {
            Some(ty) => columns.push(Named { name: name.to_owned(), ty }),
            None => untyped.push(name.to_owned()),
        }
    }
    Resolved { columns, untyped, json: resolver.json, clash: resolver.clash }
}

struct Resolver<'a> {
    sources: &'a [Source],
    json: Vec<String>,
    clash: Option<Error>,
}

impl Resolver<'_> {
    /// The type that the values alone give; `None` if there are none.
    fn free(&mut self, shape: &Shape) -> Option<Type> {
        let kinds = shape.kinds().without(Kinds::NULL);
        let only = |allowed: Kinds| kinds.without(allowed).is_empty();
        if shape.is_opaque() {
            return Some(self.text(shape));
        }
        if kinds.is_empty() {
            return None;
        }
        if let Some(zoned) = shape.zoned() {
            return Some(Type::Timestamp { unit: Unit::Micros, zoned });
        }
        let before = self.json.len();
        let ty = if only(Kinds::BOOL) {
            Some(Type::Boolean)
        } else if only(Kinds::TEXT) {
            Some(Type::Text)
        } else if only(NUMBERS) {
            number(kinds)
        } else if only(Kinds::OBJECT) {
            let named = |(name, field)| Some(Named { name: String::from(name), ty: self.free(field)? });
            Some(Type::Struct(shape.fields().filter_map(named).collect()))
                .filter(|ty| (1..=MAX_NAMES).contains(&leaves(ty)))
        } else if only(Kinds::LIST) {
            shape.items().and_then(|items| self.free(items)).map(|item| Type::List(Box::new(item)))
        } else {
            None
        };
        ty.or_else(|| {
            // Nothing below a JSON text is a field of its own.
            self.json.truncate(before);
            Some(self.text(shape))
        })
    }

    /// The ruling type with the fields that are new.
    fn ruled(&mut self, shape: &Shape, ty: &Type) -> Type {
        let kinds = shape.kinds().without(Kinds::NULL);
        if shape.is_opaque() && *ty == Type::Text {
            return self.text(shape);
        }
        let foreign = if shape.is_opaque() { kinds } else { kinds.without(accepted(ty)) };
        if !foreign.is_empty() {
            self.refuse(shape, ty, foreign);
            return ty.clone();
        }
        match ty {
            Type::Struct(fields) => Type::Struct(self.ruled_fields(shape, fields)),
            Type::List(item) => {
                let item = shape.items().map_or_else(|| (**item).clone(), |items| self.ruled(items, item));
                Type::List(Box::new(item))
            }
            Type::Map(value) => {
                let value = shape.fields().fold((**value).clone(), |value, (_, field)| self.ruled(field, &value));
                Type::Map(Box::new(value))
            }
            _ => ty.clone(),
        }
    }

    fn ruled_fields(&mut self, shape: &Shape, fields: &[Named]) -> Vec<Named> {
        let mut all = Vec::with_capacity(fields.len());
        for Named { name, ty } in fields {
            let ty = shape.field(name).map_or_else(|| ty.clone(), |field| self.ruled(field, ty));
            all.push(Named { name: name.clone(), ty });
        }
        for (name, field) in shape.fields() {
            if fields.iter().all(|known| known.name != name) {
                all.extend(self.free(field).map(|ty| Named { name: name.to_owned(), ty }));
            }
        }
        all
    }

    fn text(&mut self, shape: &Shape) -> Type {
        self.json.push(shape.path().to_owned());
        Type::Json
    }

    fn refuse(&mut self, shape: &Shape, ty: &Type, foreign: Kinds) {
        if self.clash.is_some() {
            return;
        }
        let mut error = if shape.is_opaque() {
            not_text(shape.path(), &ty.name())
        } else {
            clash(shape.path(), &ty.name(), describe(foreign))
        };
        if let Some(at) = shape.first(foreign) {
            let file = self.sources.get(at.file).map_or("", Source::shown);
            error = error.with("file", file).with("line", at.line);
        }
        self.clash = Some(error);
    }
}

const NUMBERS: Kinds = Kinds::INT.with(Kinds::INEXACT).with(Kinds::BIG).with(Kinds::HUGE).with(Kinds::FLOAT);

fn number(kinds: Kinds) -> Option<Type> {
    match (kinds.any(Kinds::FLOAT), kinds.any(Kinds::INEXACT)) {
        (true, true) => None,
        (true, false) => Some(Type::Double),
        _ if kinds.any(Kinds::HUGE) => None,
        _ if kinds.any(Kinds::BIG) => Some(Type::Decimal { precision: MAX_DIGITS as u8, scale: 0 }),
        _ => Some(Type::Long),
    }
}

/// Which kinds may stand in a column of type `ty`; what text says is found when it is parsed.
fn accepted(ty: &Type) -> Kinds {
    match ty {
        Type::Boolean => Kinds::BOOL,
        Type::Int | Type::Long => Kinds::INT.with(Kinds::INEXACT),
        Type::Float | Type::Double => Kinds::INT.with(Kinds::BIG).with(Kinds::HUGE).with(Kinds::FLOAT),
        Type::Decimal { .. } => NUMBERS.with(Kinds::TEXT),
        Type::Text | Type::Date | Type::Time | Type::Timestamp { .. } | Type::Uuid | Type::Fixed(_) | Type::Binary => {
            Kinds::TEXT
        }
        Type::Json => Kinds::ALL,
        Type::Struct(_) => Kinds::OBJECT,
        Type::List(_) => Kinds::LIST,
        Type::Map(_) => Kinds::OBJECT.with(Kinds::WIDE),
    }
}

fn describe(foreign: Kinds) -> &'static str {
    let names = [
        (Kinds::BOOL, "a boolean"),
        (Kinds::TEXT, "text"),
        (Kinds::WIDE, "an object with too many names"),
        (Kinds::OBJECT, "an object"),
        (Kinds::LIST, "a list"),
        (Kinds::FLOAT, "a number with a fraction"),
        (Kinds::BIG, "an integer beyond 64 bits"),
        (Kinds::INEXACT, "an integer that no double equals"),
    ];
    names.into_iter().find(|(kind, _)| foreign.any(*kind)).map_or("an integer", |(_, name)| name)
}

fn leaves(ty: &Type) -> usize {
    match ty {
        Type::Struct(fields) => fields.iter().map(|field| leaves(&field.ty)).sum(),
        Type::List(item) => leaves(item),
        Type::Map(value) => 1 + leaves(value),
        _ => 1,
    }
}

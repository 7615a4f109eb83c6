//! How is a value of the writer's schema laid out, and what does it hold?
//!
//! A schema is read once and walked for every record. Fields are found by their field id; writers that leave ids out are
//! given them by name ([`Type::number`]). What a reader does not know is stepped over.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::Cursor;

/// Types that a schema may unfold to: far more than a tuple of a thousand partition fields takes. Names let a short text
/// stand for a huge type.
const MOST_NODES: usize = 20_000;
/// Types within each other.
const DEEPEST: usize = 32;

/// A type of Avro, as far as its layout goes; logical types say nothing of that.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::metadata) enum Type {
    Null,
    Boolean,
    /// int, long, enum
    Long,
    Float,
    Double,
    /// bytes, string
    Bytes,
    Fixed(usize),
    Array(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
    Record(Vec<Field>),
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::metadata) struct Field {
    pub(in crate::metadata) name: String,
    /// `None`: the writer gave it none and nobody knows the name.
    pub(in crate::metadata) id: Option<i32>,
    pub(in crate::metadata) ty: Type,
}

impl Type {
    /// Reads a schema. Refuses one whose values could be without end while taking no bytes.
    pub(super) fn parse(schema: &Json) -> Result<Type, String> {
        Ok(Parser { named: HashMap::new(), nodes: 0 }.parse(schema, 0)?.0)
    }

    /// Steps over one value.
    pub(in crate::metadata) fn skip(&self, at: &mut Cursor<'_>) -> Result<(), String> {
        match self {
            Type::Null => Ok(()),
            Type::Boolean => at.take(1).map(|_| ()),
            Type::Long => at.long().map(|_| ()),
            Type::Float => at.take(4).map(|_| ()),
            Type::Double => at.take(8).map(|_| ()),
            Type::Fixed(n) => at.take(*n).map(|_| ()),
            Type::Bytes => at.bytes().map(|_| ()),
            Type::Array(item) => each_item(at, |at| item.skip(at)),
            Type::Map(value) => each_item(at, |at| at.bytes().and_then(|_| value.skip(at))),
            Type::Union(_) => self.present(at)?.skip(at),
            Type::Record(fields) => fields.iter().try_for_each(|field| field.ty.skip(at)),
        }
    }

    /// The type of the value at the cursor: of a union, the variant that was written.
    fn present(&self, at: &mut Cursor<'_>) -> Result<&Type, String> {
        match self {
            Type::Union(variants) => {
                let variant = at.length()?;
                variants.get(variant).ok_or_else(|| format!("a union has no variant {variant}"))
            }
            other => Ok(other),
        }
    }

    /// A value that may be null, read by `read` where it is not.
    #[inline]
    pub(in crate::metadata) fn optional<'t, 'a, T>(
        &'t self,
        at: &mut Cursor<'a>,
        read: impl FnOnce(&'t Type, &mut Cursor<'a>) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        match self.present(at)? {
            Type::Null => Ok(None),
            present => read(present, at).map(Some),
        }
    }

    #[inline]
    pub(in crate::metadata) fn long(&self, at: &mut Cursor<'_>) -> Result<Option<i64>, String> {
        self.optional(at, |ty, at| match ty {
            Type::Long => at.long(),
            other => Err(other.unexpected("a number")),
        })
    }

    pub(in crate::metadata) fn int(&self, at: &mut Cursor<'_>) -> Result<Option<i32>, String> {
        let long = self.long(at)?;
        long.map(|long| i32::try_from(long).map_err(|_| format!("{long} is no number of 32 bits"))).transpose()
    }

    pub(in crate::metadata) fn boolean(&self, at: &mut Cursor<'_>) -> Result<Option<bool>, String> {
        self.optional(at, |ty, at| match ty {
            Type::Boolean => Ok(at.array::<1>()? != [0]),
            other => Err(other.unexpected("a boolean")),
        })
    }

    #[inline]
    pub(in crate::metadata) fn bytes<'a>(&self, at: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, String> {
        self.optional(at, |ty, at| match ty {
            Type::Bytes => at.bytes(),
            Type::Fixed(n) => at.take(*n),
            other => Err(other.unexpected("bytes")),
        })
    }

    pub(in crate::metadata) fn text<'a>(&self, at: &mut Cursor<'a>) -> Result<Option<&'a str>, String> {
        let bytes = self.bytes(at)?;
        bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|e| format!("text is not UTF-8: {e}"))).transpose()
    }

    /// Reads each item of an array; whether there was one, and not null.
    #[inline]
    pub(in crate::metadata) fn items<'a>(
        &self,
        at: &mut Cursor<'a>,
        mut read: impl FnMut(&Type, &mut Cursor<'a>) -> Result<(), String>,
    ) -> Result<bool, String> {
        let there = self.optional(at, |ty, at| match ty {
            Type::Array(item) => each_item(at, |at| read(item, at)),
            other => Err(other.unexpected("an array")),
        })?;
        Ok(there.is_some())
    }

    /// Reads each field of a record: `read` has to step over the value it is given.
    pub(in crate::metadata) fn fields<'t, 'a>(
        &'t self,
        at: &mut Cursor<'a>,
        mut read: impl FnMut(&'t Field, &mut Cursor<'a>) -> Result<(), String>,
    ) -> Result<Option<()>, String> {
        self.optional(at, |ty, at| match ty {
            Type::Record(fields) => fields.iter().try_for_each(|field| read(field, at)),
            other => Err(other.unexpected("a record")),
        })
    }

    /// Gives the fields of a record (also of a nullable one, or of an array's items) that have no id the one that `of`
    /// knows for their name, and offers each to `then`.
    pub(in crate::metadata) fn number(&mut self, of: &dyn Fn(&str) -> Option<i32>, then: &mut dyn FnMut(&mut Field)) {
        match self {
            Type::Union(variants) => variants.iter_mut().for_each(|variant| variant.number(of, then)),
            Type::Array(item) => item.number(of, then),
            Type::Record(fields) => {
                for field in fields {
                    field.id = field.id.or_else(|| of(&field.name));
                    then(field);
                }
            }
            _ => {}
        }
    }

    fn unexpected(&self, wanted: &str) -> String {
        let found = match self {
            Type::Null => "null",
            Type::Boolean => "a boolean",
            Type::Long => "a number",
            Type::Float | Type::Double => "a floating point number",
            Type::Bytes | Type::Fixed(_) => "bytes",
            Type::Array(_) => "an array",
            Type::Map(_) => "a map",
            Type::Union(_) => "a union",
            Type::Record(_) => "a record",
        };
        format!("its schema has {found} where {wanted} should be")
    }
}

fn each_item<'a>(
    at: &mut Cursor<'a>,
    mut item: impl FnMut(&mut Cursor<'a>) -> Result<(), String>,
) -> Result<(), String> {
    loop {
        let items = at.items()?;
        if items == 0 {
            return Ok(());
        }
        for _ in 0..items {
            item(at)?;
        }
    }
}

/// A type, and what it unfolds to.
#[derive(Clone)]
struct Unfolded(Type, Size);

#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    depth: usize,
    /// Bytes that a value takes at least.
    least: usize,
}

/// `named` holds the types that can be referred to by name so far.
struct Parser {
    named: HashMap<String, Unfolded>,
    nodes: usize,
}

impl Parser {
    fn parse(&mut self, schema: &Json, depth: usize) -> Result<(Type, Size), String> {
        let Unfolded(ty, size) = match schema {
            Json::String(name) => self.by_name(name)?,
            Json::Array(variants) => self.union(variants, depth)?,
            Json::Object(object) => self.object(object, depth)?,
            other => return Err(format!("its schema has a type `{other}`")),
        };
        if size.nodes > MOST_NODES || depth + size.depth > DEEPEST {
            return Err("its schema is too large".to_owned());
        }
        Ok((ty, size))
    }

    fn by_name(&mut self, name: &str) -> Result<Unfolded, String> {
        let (ty, least) = match name {
            "null" => (Type::Null, 0),
            "boolean" => (Type::Boolean, 1),
            "int" | "long" => (Type::Long, 1),
            "float" => (Type::Float, 4),
            "double" => (Type::Double, 8),
            "bytes" | "string" => (Type::Bytes, 1),
            other => {
                let known = self.named.get(other).or_else(|| self.named.get(last_part(other)));
                let known = known.ok_or_else(|| format!("its schema names a type `{other}`"))?;
                // Unfolded once more: what all of it comes to is bounded as well.
                self.nodes += known.1.nodes;
                if self.nodes > MOST_NODES {
                    return Err("its schema is too large".to_owned());
                }
                return Ok(known.clone());
            }
        };
        Ok(Unfolded(ty, Size { nodes: 1, depth: 1, least }))
    }

    fn union(&mut self, variants: &[Json], depth: usize) -> Result<Unfolded, String> {
        let variants = variants.iter().map(|variant| self.parse(variant, depth + 1)).collect::<Result<Vec<_>, _>>()?;
        let mut size = sum(variants.iter().map(|(_, size)| *size));
        size.least = 1;
        Ok(Unfolded(Type::Union(variants.into_iter().map(|(ty, _)| ty).collect()), size))
    }

    fn object(&mut self, object: &serde_json::Map<String, Json>, depth: usize) -> Result<Unfolded, String> {
        let part = |key: &str| object.get(key).ok_or_else(|| format!("its schema has a type without `{key}`"));
        let unfolded = match part("type")?.as_str() {
            Some("record") => {
                let fields = part("fields")?.as_array().ok_or("its schema has a record without fields")?;
                let fields = fields.iter().map(|field| self.field(field, depth)).collect::<Result<Vec<_>, _>>()?;
                let size = sum(fields.iter().map(|(_, size)| *size));
                Unfolded(Type::Record(fields.into_iter().map(|(field, _)| field).collect()), size)
            }
            Some("array") => {
                let (item, mut size) = self.parse(part("items")?, depth + 1)?;
                if size.least == 0 {
                    return Err("its schema has an array of nothing".to_owned());
                }
                (size.depth, size.nodes, size.least) = (size.depth + 1, size.nodes + 1, 1);
                Unfolded(Type::Array(Box::new(item)), size)
            }
            Some("map") => {
                let (value, mut size) = self.parse(part("values")?, depth + 1)?;
                (size.depth, size.nodes, size.least) = (size.depth + 1, size.nodes + 1, 1);
                Unfolded(Type::Map(Box::new(value)), size)
            }
            Some("enum") => Unfolded(Type::Long, Size { nodes: 1, depth: 1, least: 1 }),
            Some("fixed") => {
                let size = part("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or("its schema has a fixed type without a size")?;
                Unfolded(Type::Fixed(size), Size { nodes: 1, depth: 1, least: size })
            }
            _ => {
                let (ty, size) = self.parse(part("type")?, depth + 1)?;
                Unfolded(ty, size)
            }
        };
        if let Some(name) = object.get("name").and_then(Json::as_str) {
            self.named.insert(last_part(name).to_owned(), unfolded.clone());
        }
        Ok(unfolded)
    }

    fn field(&mut self, field: &Json, depth: usize) -> Result<(Field, Size), String> {
        let (ty, size) = self.parse(field.get("type").unwrap_or(&Json::Null), depth + 1)?;
        let name = field.get("name").and_then(Json::as_str).unwrap_or_default().to_owned();
        let id = field.get("field-id").and_then(Json::as_i64).and_then(|id| i32::try_from(id).ok());
        Ok((Field { name, id, ty }, size))
    }
}

fn sum(sizes: impl Iterator<Item = Size>) -> Size {
    let start = Size { nodes: 1, depth: 1, least: 0 };
    sizes.fold(start, |all, one| Size {
        nodes: all.nodes.saturating_add(one.nodes),
        depth: all.depth.max(one.depth + 1),
        least: all.least.saturating_add(one.least),
    })
}

/// A name without its namespace.
fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(schema: &str) -> Result<Type, String> {
        Type::parse(&serde_json::from_str(schema).unwrap())
    }

    #[test]
    fn a_short_schema_does_not_unfold_to_a_huge_one() {
        let mut fields = r#"{"name":"f0","type":{"type":"record","name":"r0","fields":[]}}"#.to_owned();
        for n in 1..40 {
            let twice = format!(r#"{{"name":"a","type":"r{0}"}},{{"name":"b","type":"r{0}"}}"#, n - 1);
            fields += &format!(r#",{{"name":"f{n}","type":{{"type":"record","name":"r{n}","fields":[{twice}]}}}}"#);
        }
        let error = parse(&format!(r#"{{"type":"record","name":"r","fields":[{fields}]}}"#)).unwrap_err();
        assert_eq!(error, "its schema is too large");
        let deep = format!("{}\"long\"{}", r#"{"type":"array","items":"#.repeat(40), "}".repeat(40));
        assert_eq!(parse(&deep).unwrap_err(), "its schema is too large");
    }

    #[test]
    fn nothing_is_repeated_without_end() {
        assert!(parse(r#"{"type":"array","items":"null"}"#).unwrap_err().contains("an array of nothing"));
        assert!(parse(r#"{"type":"array","items":{"type":"record","name":"r","fields":[]}}"#).is_err());
    }

    #[test]
    fn types_are_referred_to_by_name_with_and_without_a_namespace() {
        let schema = r#"{"type":"record","name":"n.r","fields":[
            {"name":"a","field-id":1,"type":{"type":"fixed","name":"n.f","size":2}},
            {"name":"b","type":["null","n.f"]},{"name":"c","type":"f"}]}"#;
        let Type::Record(fields) = parse(schema).unwrap() else { panic!("a record") };
        assert_eq!((fields[0].id, fields[1].id), (Some(1), None));
        assert_eq!(fields[1].ty, Type::Union(vec![Type::Null, Type::Fixed(2)]));
        assert_eq!(fields[2].ty, Type::Fixed(2));
        assert!(parse(r#""other""#).is_err());
    }

    #[test]
    fn unions_are_read_in_either_order() {
        for (schema, bytes) in [(r#"["null","long"]"#, [2, 14]), (r#"["long","null"]"#, [0, 14])] {
            assert_eq!(parse(schema).unwrap().long(&mut Cursor::new(&bytes)), Ok(Some(7)));
        }
        assert_eq!(parse(r#"["long","null"]"#).unwrap().long(&mut Cursor::new(&[2])), Ok(None));
        assert!(parse(r#"["null","string"]"#).unwrap().long(&mut Cursor::new(&[2, 0])).is_err());
        assert!(parse(r#"["null","long"]"#).unwrap().long(&mut Cursor::new(&[4, 0])).is_err());
    }
}

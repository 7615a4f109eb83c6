//! How is a type written, in messages and in `daygrain.toml`?
//!
//! The names are Iceberg's: `boolean int long float double decimal(P, S) date time timestamp timestamptz timestamp_ns
//! timestamptz_ns string uuid fixed(N) binary`, `list<T>`, `map<K, V>`, `struct<a: T, b: T>`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use iceberg::spec::Type;

use crate::error::{Code, Error, Result};

/// A type as people write it.
pub fn type_name(field_type: &Type) -> String {
    match field_type {
        Type::Primitive(iceberg::spec::PrimitiveType::Decimal { precision, scale }) => {
            format!("decimal({precision}, {scale})")
        }
        Type::Primitive(iceberg::spec::PrimitiveType::Fixed(n)) => format!("fixed({n})"),
        Type::Primitive(p) => p.to_string(),
        Type::List(list) => format!("list<{}>", type_name(&list.element_field.field_type)),
        Type::Map(map) => {
            format!("map<{}, {}>", type_name(&map.key_field.field_type), type_name(&map.value_field.field_type))
        }
        Type::Struct(fields) => {
            let fields: Vec<String> =
                fields.fields().iter().map(|f| format!("{}: {}", f.name, type_name(&f.field_type))).collect();
            format!("struct<{}>", fields.join(", "))
        }
    }
}

/// The Arrow type of a written type.
///
/// # Errors
/// `invalid_config`, with the text that could not be read.
pub fn arrow_type(text: &str) -> Result<DataType> {
    let mut parser = Parser { rest: text };
    let parsed = parser.parse().filter(|_| parser.rest.trim().is_empty());
    parsed.ok_or_else(|| {
        Error::new(Code::InvalidConfig, "a type is not one of Iceberg's")
            .with("type", text)
            .help("one of boolean, int, long, float, double, decimal(P, S), date, time, timestamp, timestamptz, timestamp_ns, timestamptz_ns, string, uuid, fixed(N), binary, list<T>, map<K, V>, struct<a: T, …>")
    })
}

/// A field of a written type. A UUID is marked as Arrow marks it.
///
/// # Errors
/// As [`arrow_type`].
pub fn field(name: &str, text: &str, nullable: bool) -> Result<Field> {
    let field = Field::new(name, arrow_type(text)?, nullable);
    let (key, uuid) = super::UUID_EXTENSION;
    if text.trim().eq_ignore_ascii_case("uuid") {
        return Ok(field.with_metadata([(key.to_owned(), uuid.to_owned())].into()));
    }
    Ok(field)
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn parse(&mut self) -> Option<DataType> {
        let name = self.word()?;
        let utc = || Some("+00:00".into());
        Some(match name.to_ascii_lowercase().as_str() {
            "boolean" => DataType::Boolean,
            "int" => DataType::Int32,
            "long" => DataType::Int64,
            "float" => DataType::Float32,
            "double" => DataType::Float64,
            "date" => DataType::Date32,
            "time" => DataType::Time64(TimeUnit::Microsecond),
            "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, utc()),
            "timestamp_ns" => DataType::Timestamp(TimeUnit::Nanosecond, None),
            "timestamptz_ns" => DataType::Timestamp(TimeUnit::Nanosecond, utc()),
            "string" => DataType::Utf8,
            "uuid" => DataType::FixedSizeBinary(16),
            "binary" => DataType::LargeBinary,
            "fixed" => {
                self.token("(")?;
                let length = self.number()?;
                self.token(")")?;
                DataType::FixedSizeBinary(i32::try_from(length).ok()?)
            }
            "decimal" => {
                self.token("(")?;
                let precision = self.number()?;
                self.token(",")?;
                let scale = self.number()?;
                self.token(")")?;
                let valid = (1..=38).contains(&precision) && scale <= precision;
                valid.then_some(DataType::Decimal128(precision as u8, scale as i8))?
            }
            "list" => {
                self.token("<")?;
                let element = self.parse()?;
                self.token(">")?;
                DataType::List(Arc::new(Field::new("element", element, true)))
            }
            "map" => {
                self.token("<")?;
                let key = self.parse()?;
                self.token(",")?;
                let value = self.parse()?;
                self.token(">")?;
                let entries = Fields::from(vec![Field::new("key", key, false), Field::new("value", value, true)]);
                DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries), false)), false)
            }
            "struct" => DataType::Struct(self.fields()?),
            _ => return None,
        })
    }

    fn fields(&mut self) -> Option<Fields> {
        self.token("<")?;
        let mut fields = Vec::new();
        loop {
            let name = self.word()?.to_owned();
            self.token(":")?;
            fields.push(Field::new(name, self.parse()?, true));
            if self.token(">").is_some() {
                return Some(Fields::from(fields));
            }
            self.token(",")?;
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn number(&mut self) -> Option<u32> {
        self.word()?.parse().ok()
    }

    fn token(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::from_arrow;

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            "long",
            "decimal(9, 2)",
            "fixed(3)",
            "timestamptz_ns",
            "list<map<string, double>>",
            "struct<a: int, b: list<struct<c: date>>>",
        ] {
            let field = Field::new("c", arrow_type(text).unwrap(), true);
            let schema = from_arrow(&arrow::datatypes::Schema::new(vec![field]), &["c".to_owned()]).unwrap();
            assert_eq!(type_name(&schema.as_struct().fields()[0].field_type), text);
        }
    }

    #[test]
    fn a_uuid_stays_one() {
        let schema = from_arrow(&arrow::datatypes::Schema::new(vec![field("u", "uuid", true).unwrap()]), &[]).unwrap();
        assert_eq!(type_name(&schema.as_struct().fields()[0].field_type), "uuid");
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for text in
            ["", "text", "decimal(39, 2)", "decimal(2, 3)", "list<int", "int int", "struct<>", "list<>", "fixed(x)"]
        {
            assert_eq!(arrow_type(text).map_err(|e| e.code()), Err(Code::InvalidConfig), "{text}");
        }
    }
}

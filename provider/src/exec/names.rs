//! Which columns of the table are those of a data file that has no field ids?
//!
//! Files that were made before their table was an Iceberg table know their columns by name only. Which ids they have is
//! settled in this order, as the reference implementation does it:
//!
//! ```text
//!   an id anywhere in the file         its own ids; a column without one isn't the table's
//!   schema.name-mapping.default        by name, nested ones too; a column without an entry isn't the table's
//!   neither                            by place: the first column is field 1, the second field 2, …
//! ```
//!
//! Table specification, "Column Projection" and "Name Mapping Serialization".

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use iceberg::spec::{DEFAULT_SCHEMA_NAME_MAPPING, MappedField, NameMapping, TableMetadata};
use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use crate::error::{Code, Error, Result};

/// How a table names the columns of files without field ids.
#[derive(Debug)]
pub(super) enum Naming {
    Mapped {
        mapping: NameMapping,
        /// Tells mappings apart, in the cache of footers.
        tag: u64,
    },
    ByPlace,
    /// The property isn't a mapping.
    Unreadable(String),
}

impl Naming {
    pub(super) fn of(metadata: &TableMetadata) -> Naming {
        let Some(text) = metadata.properties().get(DEFAULT_SCHEMA_NAME_MAPPING) else { return Naming::ByPlace };
        match parsed(text) {
            Ok(mapping) => {
                let mut hasher = DefaultHasher::new();
                text.hash(&mut hasher);
                Naming::Mapped { mapping, tag: hasher.finish() }
            }
            Err(e) => Naming::Unreadable(e.to_string()),
        }
    }

    /// What a footer is kept under whose ids were given by this.
    pub(super) fn part(&self) -> String {
        match self {
            Naming::Mapped { tag, .. } => format!("#named-{tag:x}"),
            Naming::ByPlace | Naming::Unreadable(_) => "#placed".to_owned(),
        }
    }

    /// The same metadata, with ids.
    ///
    /// # Errors
    /// `metadata_corrupt` where the table's mapping can't be read.
    pub(super) fn apply(&self, metadata: &ParquetMetaData) -> Result<ParquetMetaData> {
        let root = metadata.file_metadata().schema_descr().root_schema();
        let named = match self {
            Naming::Mapped { mapping, .. } => {
                let fields: Vec<&MappedField> = mapping.fields().iter().collect();
                each(root.get_fields(), |_, field| by_name(field, entry(&fields, field.name())))
            }
            Naming::ByPlace => each(root.get_fields(), |at, field| {
                rebuilt(field, i32::try_from(at + 1).ok(), field_list(field).to_vec()).map(Arc::new)
            }),
            Naming::Unreadable(reason) => {
                return Err(Error::new(Code::MetadataCorrupt, "the table's name mapping cannot be read")
                    .with("property", DEFAULT_SCHEMA_NAME_MAPPING)
                    .with("reason", reason)
                    .help("files without field ids need it: set the property to a name mapping"));
            }
        };
        let internal = |e| Error::new(Code::Internal, "field ids could not be given to a file's columns").source(e);
        named.and_then(|fields| with_schema(metadata, fields)).map_err(internal)
    }
}

/// A mapping is a list of fields; some writers wrap it in a struct, as schemas are.
fn parsed(text: &str) -> serde_json::Result<NameMapping> {
    let mut json: serde_json::Value = serde_json::from_str(text)?;
    match json.get_mut("fields").filter(|fields| fields.is_array()) {
        Some(fields) => serde_json::from_value(fields.take()),
        None => serde_json::from_value(json),
    }
}

/// The same metadata with JSON as plain text: of other text the reader doesn't check that it is UTF-8.
pub(super) fn with_plain_text(metadata: ParquetMetaData) -> ParquetResult<ParquetMetaData> {
    let schema = metadata.file_metadata().schema_descr();
    if !schema.columns().iter().any(|leaf| is_json(leaf.self_type())) {
        return Ok(metadata);
    }
    let fields = each(schema.root_schema().get_fields(), |_, field| plain_text(field))?;
    with_schema(&metadata, fields)
}

fn is_json(field: &Type) -> bool {
    let info = field.get_basic_info();
    matches!(info.logical_type_ref(), Some(LogicalType::Json)) || info.converted_type() == ConvertedType::JSON
}

fn plain_text(field: &TypePtr) -> ParquetResult<TypePtr> {
    let info = field.get_basic_info();
    let id = info.has_id().then(|| info.id());
    if field.is_primitive() && is_json(field) {
        let text = Type::primitive_type_builder(info.name(), field.get_physical_type())
            .with_repetition(info.repetition())
            .with_logical_type(Some(LogicalType::String))
            .with_id(id);
        return text.build().map(Arc::new);
    }
    let children = each(field_list(field), |_, child| plain_text(child))?;
    rebuilt(field, id, children).map(Arc::new)
}

/// Whether a column has an id, at any depth.
pub(super) fn has_ids(field: &Type) -> bool {
    field.get_basic_info().has_id() || field_list(field).iter().any(|child| has_ids(child))
}

fn field_list(field: &Type) -> &[TypePtr] {
    match field {
        Type::GroupType { fields, .. } => fields,
        Type::PrimitiveType { .. } => &[],
    }
}

fn with_schema(metadata: &ParquetMetaData, fields: Vec<TypePtr>) -> ParquetResult<ParquetMetaData> {
    let file = metadata.file_metadata();
    let root = Type::group_type_builder(file.schema().name()).with_fields(fields).build()?;
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        Arc::new(SchemaDescriptor::new(Arc::new(root))),
        file.column_orders().cloned(),
    );
    let builder = ParquetMetaDataBuilder::new(file)
        .set_row_groups(metadata.row_groups().to_vec())
        .set_column_index(metadata.column_index().cloned())
        .set_offset_index(metadata.offset_index().cloned());
    Ok(builder.build())
}

fn each(
    fields: &[TypePtr],
    mut one: impl FnMut(usize, &TypePtr) -> ParquetResult<TypePtr>,
) -> ParquetResult<Vec<TypePtr>> {
    fields.iter().enumerate().map(|(at, field)| one(at, field)).collect()
}

fn entry<'a>(fields: &[&'a MappedField], name: &str) -> Option<&'a MappedField> {
    fields.iter().find(|field| field.names().iter().any(|n| n == name)).copied()
}

/// A column with the ids that a mapping's entry gives it and what is inside.
fn by_name(field: &TypePtr, mapped: Option<&MappedField>) -> ParquetResult<TypePtr> {
    let inner: Vec<&MappedField> = mapped.iter().flat_map(|m| m.fields()).map(Arc::as_ref).collect();
    let id = mapped.and_then(MappedField::field_id);
    let children = match shape(field) {
        Shape::List => {
            each(field_list(field), |_, repeated| in_list(field.name(), repeated, entry(&inner, "element")))?
        }
        Shape::Map => each(field_list(field), |_, entries| {
            let names = ["key", "value"];
            let pair = each(field_list(entries), |at, part| {
                by_name(part, names.get(at).and_then(|name| entry(&inner, name)))
            })?;
            rebuilt(entries, None, pair).map(Arc::new)
        })?,
        Shape::Struct => each(field_list(field), |_, child| by_name(child, entry(&inner, child.name())))?,
        Shape::Single => Vec::new(),
    };
    rebuilt(field, id, children).map(Arc::new)
}

/// The repeated part of a list, which is the element or holds it (Parquet's rules of backward compatibility).
fn in_list(list: &str, repeated: &TypePtr, element: Option<&MappedField>) -> ParquetResult<TypePtr> {
    let holds = |child: &TypePtr| {
        let old = repeated.name() == "array" || repeated.name() == format!("{list}_tuple");
        !old || child.get_basic_info().repetition() == Repetition::REPEATED
    };
    match field_list(repeated) {
        [child] if holds(child) => rebuilt(repeated, None, vec![by_name(child, element)?]).map(Arc::new),
        _ => by_name(repeated, element),
    }
}

enum Shape {
    Single,
    Struct,
    List,
    Map,
}

fn shape(field: &Type) -> Shape {
    let info = field.get_basic_info();
    match (field, info.logical_type_ref(), info.converted_type()) {
        (Type::PrimitiveType { .. }, ..) => Shape::Single,
        (_, Some(LogicalType::List), _) | (_, None, ConvertedType::LIST) => Shape::List,
        (_, Some(LogicalType::Map), _) | (_, None, ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE) => Shape::Map,
        _ => Shape::Struct,
    }
}

/// The same column with another id and other children.
fn rebuilt(field: &Type, id: Option<i32>, children: Vec<TypePtr>) -> ParquetResult<Type> {
    let info = field.get_basic_info();
    match field {
        Type::PrimitiveType { physical_type, type_length, scale, precision, .. } => {
            Type::primitive_type_builder(info.name(), *physical_type)
                .with_repetition(info.repetition())
                .with_converted_type(info.converted_type())
                .with_logical_type(info.logical_type_ref().cloned())
                .with_length(*type_length)
                .with_precision(*precision)
                .with_scale(*scale)
                .with_id(id)
                .build()
        }
        Type::GroupType { .. } => Type::group_type_builder(info.name())
            .with_repetition(info.repetition())
            .with_converted_type(info.converted_type())
            .with_logical_type(info.logical_type_ref().cloned())
            .with_fields(children)
            .with_id(id)
            .build(),
    }
}

#[cfg(test)]
mod tests {
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::printer::print_schema;

    use super::*;

    fn named(naming: &Naming, message: &str) -> String {
        let root = parse_message_type(message).unwrap();
        let file = FileMetaData::new(1, 0, None, None, Arc::new(SchemaDescriptor::new(Arc::new(root))), None);
        let with_ids = naming.apply(&ParquetMetaDataBuilder::new(file).build()).unwrap();
        let mut text = Vec::new();
        print_schema(&mut text, with_ids.file_metadata().schema());
        String::from_utf8(text).unwrap()
    }

    const MESSAGE: &str = "message m {
        optional int64 a;
        optional group places (LIST) { repeated group bag { optional group array_element {
            optional binary city (UTF8); optional int32 zip; } } }
        optional group old (LIST) { repeated group array { required int32 n; } }
        optional group m (MAP) { repeated group map { required binary k (UTF8); optional group v { required int32 x; } } }
        optional fixed_len_byte_array(5) d (DECIMAL(10, 2));
        optional int32 unknown;
    }";

    fn mapping(text: &str) -> Naming {
        Naming::Mapped { mapping: serde_json::from_str(text).unwrap(), tag: 0 }
    }

    #[test]
    fn names_are_mapped_at_every_depth() {
        let naming = mapping(
            r#"[{"field-id": 1, "names": ["id", "a"]},
                {"field-id": 2, "names": ["places"], "fields": [
                    {"field-id": 20, "names": ["element"], "fields": [{"field-id": 21, "names": ["town", "city"]}]}]},
                {"field-id": 3, "names": ["old"], "fields": [
                    {"field-id": 30, "names": ["element"], "fields": [{"field-id": 31, "names": ["n"]}]}]},
                {"field-id": 4, "names": ["m"], "fields": [{"field-id": 40, "names": ["key"]},
                    {"field-id": 41, "names": ["value"], "fields": [{"field-id": 42, "names": ["x"]}]}]},
                {"field-id": 5, "names": ["d"]},
                {"names": ["unknown"]}]"#,
        );
        expect_test::expect![[r#"
            message m {
              OPTIONAL INT64 a [1];
              OPTIONAL group places [2] (LIST) {
                REPEATED group bag {
                  OPTIONAL group array_element [20] {
                    OPTIONAL BYTE_ARRAY city [21] (UTF8);
                    OPTIONAL INT32 zip;
                  }
                }
              }
              OPTIONAL group old [3] (LIST) {
                REPEATED group array [30] {
                  REQUIRED INT32 n [31];
                }
              }
              OPTIONAL group m [4] (MAP) {
                REPEATED group map {
                  REQUIRED BYTE_ARRAY k [40] (UTF8);
                  OPTIONAL group v [41] {
                    REQUIRED INT32 x [42];
                  }
                }
              }
              OPTIONAL FIXED_LEN_BYTE_ARRAY (5) d [5] (DECIMAL(10,2));
              OPTIONAL INT32 unknown;
            }
        "#]]
        .assert_eq(&named(&naming, MESSAGE));
    }

    #[test]
    fn without_a_mapping_top_level_columns_are_counted() {
        let text = named(&Naming::ByPlace, MESSAGE);
        for line in ["INT64 a [1]", "group places [2] (LIST)", "group m [4] (MAP)", "INT32 unknown [6]", "city (UTF8)"]
        {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn ids_are_looked_for_at_every_depth() {
        let with = |message: &str| has_ids(&parse_message_type(message).unwrap());
        assert!(!with(MESSAGE));
        assert!(with("message m { optional group s { optional int32 a = 7; } }"));
    }
}

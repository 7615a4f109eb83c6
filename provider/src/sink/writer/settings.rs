//! What the Parquet writer is told, once a table.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use iceberg::spec::{NullOrder, PrimitiveType, SortDirection, Transform, Type as IcebergType};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::LogicalType;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::schema::types::{SchemaDescriptor, Type};

use super::encoding;
use crate::error::Result;
use crate::sink::layout::{Layout, path_of};
use crate::sink::properties::Mode;

/// Rows after which a page's size is looked at. Parquet's 1024 rows of 1.8 kB are seven pages of the default size.
const ROWS_BETWEEN_CHECKS: usize = 256;
/// Bytes that Parquet's statistics keep of a value: all of an identifier, and 16 code points of any script. Bounds of
/// more than this many code points are taken from the rows, since statistics of every column would grow with them.
const STATISTICS_BYTES: usize = 64;

/// How files of one table are written.
#[derive(Debug)]
pub(in crate::sink) struct Settings {
    pub columns: SchemaRef,
    pub parquet: SchemaDescriptor,
    pub writer: WriterPropertiesPtr,
    pub target_file_bytes: u64,
    pub row_group_bytes: u64,
    pub row_group_rows: usize,
    /// Floating-point columns outside of lists and maps: their NaNs are counted here, Parquet doesn't.
    pub floats: Vec<Leaf>,
    /// Columns whose bounds are wanted whole, which Parquet's statistics aren't.
    pub exact: Vec<Leaf>,
    /// The metrics mode of each primitive column.
    pub modes: Vec<(i32, Mode)>,
}

/// A primitive column: field id, and positions from the table's columns down.
#[derive(Clone, Debug)]
pub(in crate::sink) struct Leaf {
    pub id: i32,
    pub path: Vec<usize>,
}

impl Settings {
    pub(crate) fn of(layout: &Layout) -> Result<Self> {
        let parquet = ArrowSchemaConverter::new().convert(&layout.columns).map_err(encoding)?;
        let parquet = SchemaDescriptor::new(Arc::new(with_uuids(parquet.root_schema(), layout)?));
        let modes = modes(layout, &parquet);
        let p = &layout.properties;
        let mut made = Settings {
            columns: Arc::clone(&layout.columns),
            writer: Arc::new(writer_properties(layout, &parquet)),
            parquet,
            target_file_bytes: p.target_file_bytes,
            row_group_bytes: p.row_group_bytes,
            row_group_rows: p.row_group_rows,
            floats: Vec::new(),
            exact: Vec::new(),
            modes,
        };
        for (id, mode) in &made.modes {
            let (Some(field), Some(path)) = (layout.schema.field_by_id(*id), path_of(layout.schema.as_struct(), *id))
            else {
                continue;
            };
            let leaf = Leaf { id: *id, path };
            match field.field_type.as_ref() {
                IcebergType::Primitive(PrimitiveType::Float | PrimitiveType::Double) => made.floats.push(leaf),
                IcebergType::Primitive(PrimitiveType::String | PrimitiveType::Binary) if wants_more(*mode) => {
                    made.exact.push(leaf);
                }
                _ => {}
            }
        }
        Ok(made)
    }
}

/// Whether bounds of this mode may need more than Parquet's statistics keep.
fn wants_more(mode: Mode) -> bool {
    match mode {
        Mode::Full => true,
        Mode::Truncate(n) => n > STATISTICS_BYTES,
        Mode::None | Mode::Counts => false,
    }
}

fn field_id(kind: &Type) -> Option<i32> {
    kind.get_basic_info().has_id().then(|| kind.get_basic_info().id())
}

fn modes(layout: &Layout, parquet: &SchemaDescriptor) -> Vec<(i32, Mode)> {
    let keys = layout.key_ids();
    let ids = parquet.columns().iter().filter_map(|c| field_id(c.self_type()));
    ids.enumerate()
        .map(|(at, id)| {
            let name = layout.schema.name_by_field_id(id).unwrap_or("");
            (id, layout.properties.mode(name, at, keys.contains(&id)))
        })
        .collect()
}

fn writer_properties(layout: &Layout, parquet: &SchemaDescriptor) -> WriterProperties {
    let p = &layout.properties;
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("daygrain version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(p.compression)
        .set_max_row_group_row_count(Some(p.row_group_rows))
        .set_data_page_size_limit(p.page_bytes)
        .set_data_page_row_count_limit(p.page_rows)
        .set_write_batch_size(ROWS_BETWEEN_CHECKS.min(p.page_rows))
        .set_dictionary_page_size_limit(p.dictionary_bytes)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_statistics_truncate_length(Some(STATISTICS_BYTES))
        .set_column_index_truncate_length(Some(STATISTICS_BYTES))
        .set_sorting_columns(sorting_columns(layout, parquet));
    let lookup = layout.lookup_ids();
    for column in parquet.columns() {
        let Some(id) = field_id(column.self_type()) else { continue };
        let name = layout.schema.name_by_field_id(id).unwrap_or("");
        let boolean = column.physical_type() == parquet::basic::Type::BOOLEAN;
        if let Some(fpp) = p.bloom(name, lookup.contains(&id)).filter(|_| !boolean) {
            builder = builder
                .set_column_bloom_filter_enabled(column.path().clone(), true)
                .set_column_bloom_filter_fpp(column.path().clone(), fpp)
                .set_column_bloom_filter_ndv(
                    column.path().clone(),
                    distinct_values(p.bloom_max_bytes, fpp, p.row_group_rows),
                );
        }
    }
    builder.build()
}

/// Distinct values that a filter is made for: a row group's rows, or fewer if it may have only `bytes`. The filter is
/// folded down to what the row group really holds, so that this is memory and not file size.
fn distinct_values(bytes: u64, fpp: f64, rows: usize) -> u64 {
    // Of a split block filter ("Parquet Bloom Filter", sizing): bits = -8 n / ln(1 - fpp^(1/8)).
    let fit = bytes as f64 * -(1.0 - fpp.powf(1.0 / 8.0)).ln();
    (fit as u64).clamp(1, rows as u64)
}

/// The sort order as far as Parquet can say it: columns, not transforms of them. Within a file the partition is constant.
fn sorting_columns(layout: &Layout, parquet: &SchemaDescriptor) -> Option<Vec<SortingColumn>> {
    let columns: Vec<SortingColumn> = layout
        .order
        .fields
        .iter()
        .map_while(|field| {
            let at = parquet.columns().iter().position(|c| field_id(c.self_type()) == Some(field.source_id))?;
            (field.transform == Transform::Identity).then_some(SortingColumn {
                column_idx: at as i32,
                descending: field.direction == SortDirection::Descending,
                nulls_first: field.null_order == NullOrder::First,
            })
        })
        .collect();
    (!columns.is_empty()).then_some(columns)
}

/// The Parquet schema with UUID columns named as such: Arrow knows them as 16 bytes only.
fn with_uuids(kind: &Type, layout: &Layout) -> Result<Type> {
    let info = kind.get_basic_info();
    let id = field_id(kind);
    if kind.is_primitive() {
        let uuid = id
            .and_then(|id| layout.schema.field_by_id(id))
            .is_some_and(|f| *f.field_type == IcebergType::Primitive(PrimitiveType::Uuid));
        if !uuid {
            return Ok(kind.clone());
        }
        return Type::primitive_type_builder(info.name(), parquet::basic::Type::FIXED_LEN_BYTE_ARRAY)
            .with_length(16)
            .with_repetition(info.repetition())
            .with_logical_type(Some(LogicalType::Uuid))
            .with_id(id)
            .build()
            .map_err(encoding);
    }
    let fields = kind.get_fields().iter().map(|f| with_uuids(f, layout).map(Arc::new)).collect::<Result<Vec<_>>>()?;
    let mut group = Type::group_type_builder(info.name())
        .with_fields(fields)
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_id(id);
    if info.has_repetition() {
        group = group.with_repetition(info.repetition());
    }
    group.build().map_err(encoding)
}

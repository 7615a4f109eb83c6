//! Random tables of few rows, whose values are often equal, at an end of their type, or null.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat_batches, nullif};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use daygrain_tests::reference::Rng;

const DAY_US: i64 = 86_400_000_000;

/// A type that columns have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Long,
    Float,
    Double,
    Decimal,
    Date,
    Local,
    Zoned,
    Text,
}

pub(super) const KINDS: [Kind; 10] = [
    Kind::Bool,
    Kind::Int,
    Kind::Long,
    Kind::Float,
    Kind::Double,
    Kind::Decimal,
    Kind::Date,
    Kind::Local,
    Kind::Zoned,
    Kind::Text,
];

pub(super) const INTS: [i64; 9] = [i32::MIN as i64, -11, -1, 0, 1, 2, 9, 10, i32::MAX as i64];
pub(super) const LONGS: [i64; 8] =
    [i64::MIN, -9_007_199_254_740_993, -1, 0, 7, 2_147_483_648, 9_007_199_254_740_993, i64::MAX];
pub(super) const FLOATS: [f64; 10] =
    [f64::NAN, f64::NEG_INFINITY, f64::INFINITY, -0.0, 0.0, 1.0, 1.5, -2.25, 16_777_216.0, 1e30];
/// Hundredths.
pub(super) const DECIMALS: [i128; 7] = [-999_999_999, -1025, -1, 0, 1, 1065, 999_999_999];
pub(super) const DAYS: [i32; 9] = [-719_162, -3_653, -1, 0, 1, 19_723, 19_724, 20_608, 2_932_896];
/// Around midnights, before 1970 and after.
pub(super) const MOMENTS: [i64; 12] = [
    -315_576_000_000_000,
    -DAY_US - 1,
    -DAY_US,
    -1,
    0,
    1,
    DAY_US - 1,
    19_723 * DAY_US,
    19_723 * DAY_US + DAY_US / 2,
    19_724 * DAY_US - 1,
    19_724 * DAY_US,
    20_608 * DAY_US + 5,
];
pub(super) const TEXTS: [&str; 13] = [
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "b",
    "é",
    "•→😀",
    "0123456789abcdef",
    "0123456789abcdef!",
    "a long text whose beginning is the same as that of another, longer than any bound keeps: 1",
    "a long text whose beginning is the same as that of another, longer than any bound keeps: 2",
    "\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}",
];

/// One of a few.
pub(super) fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

impl Kind {
    pub(super) fn arrow(self) -> DataType {
        match self {
            Kind::Bool => DataType::Boolean,
            Kind::Int => DataType::Int32,
            Kind::Long => DataType::Int64,
            Kind::Float => DataType::Float32,
            Kind::Double => DataType::Float64,
            Kind::Decimal => DataType::Decimal128(9, 2),
            Kind::Date => DataType::Date32,
            Kind::Local => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Zoned => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Kind::Text => DataType::Utf8,
        }
    }

    /// Random values, of which `nulls` in ten are null.
    pub(super) fn values(self, rng: &mut Rng, rows: usize, nulls: u64) -> ArrayRef {
        macro_rules! draw {
            ($array:ty, $from:expr) => {{
                let drawn = (0..rows).map(|_| (rng.below(10) >= nulls).then(|| pick(rng, &$from) as _));
                drawn.collect::<$array>()
            }};
        }
        match self {
            Kind::Bool => Arc::new(
                (0..rows).map(|_| (rng.below(10) >= nulls).then(|| rng.below(2) == 0)).collect::<BooleanArray>(),
            ),
            Kind::Int => Arc::new(draw!(Int32Array, INTS)),
            Kind::Long => Arc::new(draw!(Int64Array, LONGS)),
            Kind::Float => Arc::new(draw!(Float32Array, FLOATS)),
            Kind::Double => Arc::new(draw!(Float64Array, FLOATS)),
            Kind::Decimal => Arc::new(draw!(Decimal128Array, DECIMALS).with_precision_and_scale(9, 2).unwrap()),
            Kind::Date => Arc::new(draw!(Date32Array, DAYS)),
            Kind::Local => Arc::new(draw!(TimestampMicrosecondArray, MOMENTS)),
            Kind::Zoned => Arc::new(draw!(TimestampMicrosecondArray, MOMENTS).with_timezone("+00:00")),
            Kind::Text => Arc::new(
                (0..rows).map(|_| (rng.below(10) >= nulls).then(|| pick(rng, &TEXTS))).collect::<StringArray>(),
            ),
        }
    }
}

/// A table before it is one.
#[derive(Debug)]
pub(super) struct Table {
    /// Each column besides `id`, or field of the struct `s`: its name as it is written in SQL, and its type.
    pub(super) columns: Vec<(String, Kind)>,
    pub(super) primary_timestamp: Option<String>,
    pub(super) lookup: Vec<String>,
    /// The rows of one export each. The last may bring a column.
    pub(super) exports: Vec<RecordBatch>,
}

impl Table {
    pub(super) fn random(rng: &mut Rng) -> Table {
        let time = pick(rng, &[Kind::Zoned, Kind::Zoned, Kind::Local, Kind::Date]);
        let mut columns = vec![("ts".to_owned(), time)];
        for n in 0..2 + rng.below(5) {
            columns.push((format!("c{n}"), pick(rng, &KINDS)));
        }
        let partitioned = rng.below(5) > 0;
        let sortable = columns.iter().skip(1).map(|(name, _)| name.clone());
        let lookup = sortable.filter(|_| rng.below(3) == 0).collect();
        let mut next_id = 0;
        let exports = (0..1 + rng.below(3)).map(|_| batch(rng, &columns, &mut next_id)).collect();
        let mut table = Table { columns, primary_timestamp: partitioned.then(|| "ts".to_owned()), lookup, exports };
        if rng.below(3) == 0 {
            table.nest(rng);
        }
        if rng.below(2) == 0 {
            table.add_a_column(rng);
        }
        table
    }

    /// Columns that are neither time nor lookup columns become fields of a struct, which is null in some rows.
    fn nest(&mut self, rng: &mut Rng) {
        let own = |name: &str| name == "id" || name == "ts" || self.lookup.iter().any(|lookup| lookup == name);
        for batch in &mut self.exports {
            let schema = batch.schema();
            let parts = schema.fields().iter().cloned().zip(batch.columns().iter().cloned());
            let (mut kept, nested): (Vec<_>, Vec<_>) = parts.partition(|(field, _)| own(field.name()));
            if nested.is_empty() {
                return;
            }
            let hidden: BooleanArray = (0..batch.num_rows()).map(|_| Some(rng.below(5) == 0)).collect();
            let shown = nested.into_iter().map(|(field, array)| (field, nullif(&array, &hidden).unwrap()));
            let (fields, arrays): (Vec<_>, Vec<_>) = shown.unzip();
            let valid = NullBuffer::new(!hidden.values());
            let nested = StructArray::new(fields.into(), arrays, Some(valid));
            kept.push((Arc::new(Field::new("s", nested.data_type().clone(), true)), Arc::new(nested) as _));
            let (fields, arrays): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
            *batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        }
        let lookup = self.lookup.clone();
        for (name, _) in self.columns.iter_mut().filter(|(name, _)| name != "ts" && !lookup.contains(name)) {
            *name = format!("s['{name}']");
        }
    }

    /// The last export brings a column that no other has.
    fn add_a_column(&mut self, rng: &mut Rng) {
        let Some(last) = self.exports.pop() else { return };
        let kind = pick(rng, &KINDS);
        let mut fields = last.schema().fields().to_vec();
        fields.push(Arc::new(Field::new("added", kind.arrow(), true)));
        let mut arrays = last.columns().to_vec();
        arrays.push(kind.values(rng, last.num_rows(), 2));
        self.exports.push(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap());
        self.columns.push(("added".to_owned(), kind));
    }

    /// All rows, in the table's schema.
    pub(super) fn all(&self) -> RecordBatch {
        // The last one has all columns.
        let schema = self.exports.last().expect("a table has rows").schema();
        let whole = self.exports.iter().map(|batch| {
            let column = |field: &Arc<Field>| {
                let found = batch.column_by_name(field.name()).cloned();
                found.unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
            };
            RecordBatch::try_new(Arc::clone(&schema), schema.fields().iter().map(column).collect()).unwrap()
        });
        concat_batches(&schema, &whole.collect::<Vec<_>>()).unwrap()
    }
}

/// Rows of an export.
fn batch(rng: &mut Rng, columns: &[(String, Kind)], next_id: &mut i64) -> RecordBatch {
    let rows = 1 + rng.below(40) as usize;
    let ids = Int64Array::from_iter_values(*next_id..*next_id + rows as i64);
    *next_id += rows as i64;
    let mut fields = vec![Field::new("id", DataType::Int64, true)];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(ids)];
    for (name, kind) in columns {
        let nulls = pick(rng, &[0, 0, 2, 10]);
        fields.push(Field::new(name, kind.arrow(), true));
        arrays.push(kind.values(rng, rows, nulls));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

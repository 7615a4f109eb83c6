//! Do we read what the format library reads?
//!
//! Both decode the manifests that other engines wrote and random ones of all partition types; and by hand are written those
//! that only the specification promises: other orders, unknown fields, unions the other way round, no ids.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, FormatVersion, Literal, ManifestEntry,
    ManifestFile, ManifestList, ManifestStatus, ManifestWriterBuilder, NestedField, PartitionSpec, PrimitiveLiteral,
    PrimitiveType, Schema, Struct, Transform, Type,
};
use proptest::prelude::*;

use super::layout::Layouts;
use super::tests::manifest_file;
use super::{List, Manifest, avro, rebuild};

/// Reads a manifest as one of a list that gives nothing to inherit but zeros.
fn ours(bytes: &[u8], spec_id: i32) -> Result<Manifest, String> {
    let file = ManifestFile { sequence_number: 0, partition_spec_id: spec_id, ..manifest_file() };
    Manifest::read(bytes, "m.avro", &file, &Layouts::default())
}

/// Compares every entry; returns how many there are.
fn compare(bytes: &[u8], name: &str) -> usize {
    let (theirs, metadata) = iceberg::spec::Manifest::parse_avro(bytes).expect(name).into_parts();
    let spec_id = metadata.partition_spec.spec_id();
    let manifest = ours(bytes, spec_id).expect(name);
    let entries = manifest.entries().expect(name);
    assert_eq!(entries.len(), theirs.len(), "{name}");
    // It looks for partition values under names that Avro does not allow, and finds nulls.
    let fields = metadata.partition_spec.fields();
    let lost: Vec<bool> = fields.iter().map(|field| avro::legal_name(&field.name) != field.name).collect();
    for (at, (ours, theirs)) in entries.iter().zip(theirs).enumerate() {
        let theirs = found_again(Arc::unwrap_or_clone(theirs), &ours.file, &lost, spec_id);
        assert_eq!(ours.status, theirs.status, "{name}");
        assert_eq!(ours.snapshot_id, theirs.snapshot_id.unwrap_or(manifest_file().added_snapshot_id), "{name}");
        assert_eq!(ours.sequence_number, theirs.sequence_number.unwrap_or(0), "{name}");
        assert_eq!(ours.file_sequence_number, theirs.file_sequence_number.or(Some(0)), "{name}");
        assert_eq!(ours.file, theirs.data_file, "{name}");
        assert_eq!(manifest.record_count(at), theirs.record_count(), "{name}");
        assert_eq!(manifest.live().any(|live| live == at), theirs.is_alive(), "{name}");
        let tuple = manifest.tuple_of(at).and_then(|tuple| manifest.tuples().get(tuple));
        assert_eq!(tuple, Some(theirs.data_file.partition()), "{name}");
        compare_brief(&manifest, at, &theirs.data_file, name);
    }
    assert_eq!(**manifest.schema(), *metadata.schema, "{name}");
    entries.len()
}

fn found_again(mut theirs: ManifestEntry, ours: &DataFile, lost: &[bool], spec_id: i32) -> ManifestEntry {
    let values = theirs.data_file.partition().fields().iter().zip(ours.partition().fields()).zip(lost);
    let partition = values.map(|((theirs, ours), lost)| if *lost { ours.clone() } else { theirs.clone() }).collect();
    let rebuilt = rebuild(&theirs.data_file, |file| {
        file.partition(partition).partition_spec_id(spec_id);
    });
    theirs.data_file = rebuilt.unwrap();
    theirs
}

fn compare_brief(manifest: &Manifest, at: usize, file: &DataFile, name: &str) {
    let mut columns: Vec<i32> = file.value_counts().keys().chain(file.lower_bounds().keys()).copied().collect();
    columns.sort_unstable();
    columns.dedup();
    // Every other one, and one that no file has.
    let wanted: Vec<i32> = columns.iter().copied().step_by(2).chain([i32::MAX]).collect();
    let brief = manifest.brief(at, &wanted).expect(name);
    assert_eq!((brief.path.as_str(), brief.size), (file.file_path(), file.file_size_in_bytes()), "{name}");
    assert_eq!((brief.format, brief.encrypted), (file.file_format(), file.key_metadata().is_some()), "{name}");
    assert_eq!(brief.split_offsets.as_deref(), file.split_offsets(), "{name}");
    assert_eq!(brief.columns.iter().map(|column| column.id).collect::<Vec<_>>(), wanted, "{name}");
    let again = manifest.brief_again(at, &wanted).expect(name);
    assert_eq!(format!("{again:?}"), format!("{brief:?}"), "{name}");
    let remembered = Arc::ptr_eq(&again, &manifest.brief_again(at, &wanted).expect(name));
    assert_eq!(remembered, wanted.len() <= 6, "{name}: it is remembered, of a few columns");
    let others = manifest.brief_again(at, &columns).expect(name);
    assert_eq!(others.columns.len(), columns.len(), "{name}: other columns are another question");
    for column in brief.columns {
        assert_eq!(column.size.as_ref(), file.column_sizes().get(&column.id), "{name}");
        assert_eq!(column.nulls.as_ref(), file.null_value_counts().get(&column.id), "{name}");
        assert_eq!(column.nans.as_ref(), file.nan_value_counts().get(&column.id), "{name}");
        assert_eq!(column.lower.as_ref(), file.lower_bounds().get(&column.id), "{name}");
        assert_eq!(column.upper.as_ref(), file.upper_bounds().get(&column.id), "{name}");
    }
}

fn compare_list(bytes: &[u8], name: &str) -> usize {
    let ours = List::read(bytes).expect(name);
    let meta = avro::read(bytes).expect(name).meta;
    let has = |field: &str| String::from_utf8_lossy(&meta["avro.schema"]).contains(&format!("\"{field}\""));
    let version = match (has("sequence_number"), has("first_row_id")) {
        (_, true) => FormatVersion::V3,
        (true, false) => FormatVersion::V2,
        (false, false) => FormatVersion::V1,
    };
    let mut theirs: Vec<_> =
        ManifestList::parse_with_version(bytes, version).expect(name).consume_entries().into_iter().collect();
    if version == FormatVersion::V1 {
        // In lists of version 1 it looks for counts under their old names only.
        for (theirs, ours) in theirs.iter_mut().zip(ours.iter()) {
            theirs.added_files_count = theirs.added_files_count.or(ours.added_files_count);
            theirs.existing_files_count = theirs.existing_files_count.or(ours.existing_files_count);
            theirs.deleted_files_count = theirs.deleted_files_count.or(ours.deleted_files_count);
        }
    }
    assert_eq!(*ours, *theirs, "{name}");
    ours.len()
}

fn avro_files(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            avro_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "avro") {
            found.push(path);
        }
    }
}

#[test]
fn manifests_of_other_engines_say_the_same() {
    let Some(root) = std::env::var_os("DAYGRAIN_SHARED") else {
        println!("skipped: DAYGRAIN_SHARED does not say where the tables of other engines are");
        return;
    };
    let mut files = Vec::new();
    avro_files(&Path::new(&root).join("fixtures"), &mut files);
    let (mut manifests, mut lists) = (0, 0);
    for path in files {
        let name = path.to_string_lossy();
        let bytes = std::fs::read(&path).unwrap();
        let Ok(file) = avro::read(&bytes) else { continue };
        if file.meta.contains_key("partition-spec") {
            compare(&bytes, &name);
            manifests += 1;
        } else if String::from_utf8_lossy(&file.meta["avro.schema"]).contains("manifest_path") {
            compare_list(&bytes, &name);
            lists += 1;
        }
    }
    assert!(manifests > 100 && lists > 100, "{manifests} manifests and {lists} lists");
}

/// The types of columns, first those whose partition values the format library writes and reads.
fn column_types() -> Vec<PrimitiveType> {
    use PrimitiveType as P;
    vec![
        P::Boolean,
        P::Int,
        P::Long,
        P::Float,
        P::Double,
        P::Date,
        P::Time,
        P::Timestamp,
        P::Timestamptz,
        P::String,
        P::Binary,
        P::Fixed(3),
        P::Uuid,
    ]
}

fn schema(types: &[PrimitiveType]) -> Arc<Schema> {
    let field = |(at, ty): (usize, &PrimitiveType)| {
        Arc::new(NestedField::optional(at as i32 + 1, format!("c{at}"), Type::Primitive(ty.clone())))
    };
    Arc::new(Schema::builder().with_fields(types.iter().enumerate().map(field)).build().unwrap())
}

fn identity(schema: &Arc<Schema>, columns: usize) -> PartitionSpec {
    let mut builder = PartitionSpec::builder(Arc::clone(schema)).with_spec_id(4);
    for at in 0..columns {
        builder = builder.add_partition_field(format!("c{at}"), format!("c{at}"), Transform::Identity).unwrap();
    }
    builder.build().unwrap()
}

fn literal(ty: &PrimitiveType, seed: u64) -> Literal {
    use PrimitiveLiteral as L;
    use PrimitiveType as P;
    let bytes = seed.to_be_bytes();
    Literal::Primitive(match ty {
        P::Boolean => L::Boolean(seed & 1 == 1),
        P::Int | P::Date => L::Int(seed as i32),
        P::Float => L::Float((seed as f32 / 7.0).into()),
        P::Double => L::Double((seed as f64 / 7.0).into()),
        P::String => L::String(format!("é{seed}")),
        P::Binary => L::Binary(bytes[..(seed % 8) as usize].to_vec()),
        P::Fixed(n) => L::Binary(bytes[..*n as usize].to_vec()),
        P::Uuid => L::UInt128(u128::from(seed) << 70 | u128::from(seed)),
        P::Decimal { .. } => L::Int128(i128::from(seed as i64)),
        _ => L::Long(seed as i64),
    })
}

/// A value as bounds have it.
fn stored(literal: &Literal) -> Vec<u8> {
    match literal.as_primitive_literal().unwrap() {
        PrimitiveLiteral::Boolean(x) => vec![u8::from(x)],
        PrimitiveLiteral::Int(x) => x.to_le_bytes().to_vec(),
        PrimitiveLiteral::Long(x) => x.to_le_bytes().to_vec(),
        PrimitiveLiteral::Float(x) => x.to_le_bytes().to_vec(),
        PrimitiveLiteral::Double(x) => x.to_le_bytes().to_vec(),
        PrimitiveLiteral::String(x) => x.into_bytes(),
        PrimitiveLiteral::Binary(x) => x,
        PrimitiveLiteral::UInt128(x) => x.to_be_bytes().to_vec(),
        other => panic!("no bound is {other:?}"),
    }
}

/// Of a file, whatever can differ: how many columns have which metrics, and what they are.
fn data_file(types: &[PrimitiveType], partitioned: usize, seeds: &[u64]) -> DataFile {
    let seed = |at: usize| seeds[at % seeds.len()].rotate_left(at as u32);
    let tuple = (0..partitioned).map(|at| (seed(at) % 5 != 0).then(|| literal(&types[at], seed(at))));
    let counts = |salt: usize| -> HashMap<i32, u64> {
        (0..types.len()).filter(|at| seed(at + salt) % 3 != 0).map(|at| (at as i32 + 1, seed(at) >> 1)).collect()
    };
    let bounds = |salt: usize| -> HashMap<i32, Datum> {
        let with = (0..types.len()).filter(|at| seed(at + salt) % 3 != 1);
        with.map(|at| {
            let bytes = stored(&literal(&types[at], seed(at + salt)));
            (at as i32 + 1, Datum::try_from_bytes(&bytes, types[at].clone()).unwrap())
        })
        .collect()
    };
    let maybe = |at: usize| (seed(at) % 2 == 0).then_some((seed(at) >> 3) as i64);
    DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(format!("s3://bucket/{}.parquet", seed(0)))
        .file_format(DataFileFormat::Parquet)
        .partition(tuple.collect())
        .partition_spec_id(4)
        .record_count(seed(1) >> 8)
        .file_size_in_bytes(seed(2) >> 1)
        .column_sizes(counts(3))
        .value_counts(counts(4))
        .null_value_counts(counts(5))
        .nan_value_counts(counts(6))
        .lower_bounds(bounds(7))
        .upper_bounds(bounds(8))
        .key_metadata(maybe(9).map(|n| n.to_be_bytes().to_vec()))
        .split_offsets(maybe(10).map(|n| vec![4, n]))
        .equality_ids(maybe(11).map(|n| vec![1, n as i32]))
        .first_row_id(maybe(12))
        .referenced_data_file(maybe(13).map(|n| format!("of {n}")))
        .content_offset(maybe(14))
        .content_size_in_bytes(maybe(15))
        .build()
        .unwrap()
}

async fn written(version: FormatVersion, types: &[PrimitiveType], partitioned: usize, files: Vec<DataFile>) -> Vec<u8> {
    let schema = schema(types);
    let spec = identity(&schema, partitioned);
    let (io, name) = (FileIO::new_with_memory(), "memory:///m.avro");
    let builder = ManifestWriterBuilder::new(io.new_output(name).unwrap(), Some(6), schema, spec);
    let mut writer = match version {
        FormatVersion::V1 => builder.build_v1(),
        FormatVersion::V2 => builder.build_v2_data(),
        FormatVersion::V3 => builder.build_v3_data(),
    };
    for (at, file) in files.into_iter().enumerate() {
        match at % 3 {
            0 => writer.add_file(file, -1).unwrap(),
            1 => writer.add_existing_file(file, 5, 3, Some(2)).unwrap(),
            _ => writer.add_delete_file(file, 4, Some(1)).unwrap(),
        }
    }
    writer.write_manifest_file().await.unwrap();
    io.new_input(name).unwrap().read().await.unwrap().to_vec()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn random_manifests_say_the_same(
        version in 1..=3_usize,
        partitioned in 0..=12_usize,
        files in prop::collection::vec(prop::collection::vec(any::<u64>(), 1..20), 0..8),
    ) {
        let types = column_types();
        let version = [FormatVersion::V1, FormatVersion::V2, FormatVersion::V3][version - 1];
        let files: Vec<DataFile> = files.iter().map(|seeds| data_file(&types, partitioned, seeds)).collect();
        let count = files.len();
        let bytes = block_on(written(version, &types, partitioned, files));
        prop_assert_eq!(compare(&bytes, "random"), count);
        prop_assert_eq!(compare(&avro::compress(bytes), "random, compressed"), count);
    }
}

/// The format library writes partition values of nanoseconds and does not read them.
#[test]
fn partition_values_in_nanoseconds_are_read() {
    let types = [PrimitiveType::TimestampNs, PrimitiveType::TimestamptzNs];
    let files = [1, u64::MAX, 1 << 60].map(|seed| data_file(&types, 2, &[seed]));
    let bytes = block_on(written(FormatVersion::V3, &types, 2, files.to_vec()));
    let read = ours(&bytes, 4).unwrap().entries().unwrap();
    let tuples: Vec<_> = read.iter().map(|entry| entry.file.partition().clone()).collect();
    assert_eq!(tuples, files.map(|file| file.partition().clone()));
}

/// A manifest written without help: unknown fields, another order, unions the other way round.
struct Handmade {
    /// Avro's and Iceberg's type of the partition field.
    partition: (String, &'static str),
    ids: bool,
    meta: Vec<(&'static str, &'static str)>,
}

impl Handmade {
    fn new(avro: &str, ty: &'static str) -> Self {
        Handmade { partition: (avro.to_owned(), ty), ids: true, meta: vec![("format-version", "2")] }
    }

    fn schema(&self) -> String {
        let schema = r#"{"type":"record","name":"manifest_entry","fields":[
            {"name":"note","type":"string"},
            {"name":"data_file",ID2"type":["null",{"type":"record","name":"r2","fields":[
                {"name":"record_count",ID103"type":"long"},
                {"name":"labels","type":{"type":"map","values":["null","double"]}},
                {"name":"partition",ID102"type":{"type":"record","name":"r102","fields":[
                    {"name":"gone",ID1007"type":["null","int"]},
                    {"name":"p_x2Dq",ID1000"type":[PARTITION,"null"]}]}},
                {"name":"file_format",ID101"type":"string"},
                {"name":"lower_bounds",ID125"type":[{"type":"array","items":{"type":"record","name":"k126_v127","fields":[
                    {"name":"value",ID127"type":"bytes"},{"name":"key",ID126"type":"int"}]}},"null"]},
                {"name":"file_path",ID100"type":"string"},
                {"name":"file_size_in_bytes",ID104"type":"long"}]}]},
            {"name":"sequence_number",ID3"type":["long","null"]},
            {"name":"status",ID0"type":"int"}]}"#;
        let mut schema = schema.replace("PARTITION", &self.partition.0);
        for id in [0, 1, 2, 3, 100, 101, 102, 103, 104, 125, 126, 127, 1000, 1007].into_iter().rev() {
            let field_id = if self.ids { format!(r#""field-id":{id},"#) } else { String::new() };
            schema = schema.replace(&format!("ID{id}\""), &format!("{field_id}\""));
        }
        schema
    }

    fn file(&self, entries: &[Vec<u8>]) -> Vec<u8> {
        let table =
            r#"{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"p-q","required":false,"type":"TYPE"}]}"#;
        let (schema, table) = (self.schema(), table.replace("TYPE", self.partition.1));
        let spec = r#"[{"name":"p-q","transform":"identity","source-id":1}]"#;
        let mut meta = vec![("avro.schema", schema.as_str()), ("schema", &table), ("partition-spec", spec)];
        meta.extend(&self.meta);
        avro::made_of(&meta, &entries.concat(), entries.len())
    }

    /// An entry whose partition value is `value` as Avro has it, of a file with 7 rows and a lower bound of 9.
    fn entry(value: &[u8]) -> Vec<u8> {
        let text = |text: &str| [&[2 * text.len() as u8], text.as_bytes()].concat();
        let labels = [&[4][..], &text("a"), &[0], &text("b"), &[2, 0, 0, 0, 0, 0, 0, 0, 0], &[0]].concat();
        let partition = [&[2, 84, 0], value].concat();
        let bounds = [0, 2, 8, 9, 0, 0, 0, 2, 0];
        let file = [&[14][..], &labels, &partition, &text("PARQUET"), &bounds, &text("p/f"), &[20]].concat();
        [&text("unknown")[..], &[2], &file, &[0, 10], &[0]].concat()
    }
}

#[test]
fn fields_are_found_by_their_ids_in_any_order_and_by_name_without() {
    for ids in [true, false] {
        let manifest = Handmade { ids, ..Handmade::new(r#""int""#, "int") };
        let file = manifest.file(&[Handmade::entry(&[22]), Handmade::entry(&[22]), Handmade::entry(&[44])]);
        let read = ours(&file, 0).unwrap();
        let tuples = [11, 22].map(|value| Struct::from_iter([Some(Literal::int(value))]));
        assert_eq!(read.tuples(), tuples);
        let entries = read.entries().unwrap();
        assert_eq!(entries.iter().map(|e| e.sequence_number).collect::<Vec<_>>(), [5; 3]);
        let last = &entries[2];
        assert_eq!((last.status, last.snapshot_id), (ManifestStatus::Existing, manifest_file().added_snapshot_id));
        let file = &last.file;
        assert_eq!((file.file_path(), file.record_count(), file.file_size_in_bytes()), ("p/f", 7, 10));
        assert_eq!((file.file_format(), file.content_type()), (DataFileFormat::Parquet, DataContentType::Data));
        assert_eq!(file.lower_bounds(), &HashMap::from([(1, Datum::int(9))]), "ids: {ids}");
        assert_eq!((file.partition(), read.record_count(1)), (&tuples[1], 7));
    }
}

#[test]
fn a_bound_that_is_no_value_of_its_column_is_not_known() {
    let file = Handmade::new(r#""long""#, "long").file(&[Handmade::entry(&[22])]);
    assert_eq!(ours(&file, 0).unwrap().entry(0).unwrap().file.lower_bounds()[&1], Datum::long(9), "int became long");
    let file = Handmade::new(r#""boolean""#, "boolean").file(&[Handmade::entry(&[1])]);
    assert_eq!(ours(&file, 0).unwrap().tuples(), [Struct::from_iter([Some(Literal::bool(true))])]);
    let file = Handmade::new(r#""double""#, "double").file(&[Handmade::entry(&[0; 8])]);
    assert!(ours(&file, 0).unwrap().entry(0).is_ok());
    let file = Handmade::new(r#"{"type":"fixed","name":"u","size":16}"#, "uuid").file(&[Handmade::entry(&[0; 16])]);
    assert!(ours(&file, 0).unwrap().entry(0).unwrap().file.lower_bounds().is_empty(), "a uuid of four bytes");
}

#[test]
fn decimals_are_read_in_every_width() {
    for (stored, value) in [(&[0xff, 0x85][..], -123), (&[0x01, 0x00], 256), (&[0x80], -128), (&[0; 16], 0)] {
        let fixed = format!(r#"{{"type":"fixed","name":"d","size":{},"logicalType":"decimal"}}"#, stored.len());
        let read = ours(&Handmade::new(&fixed, "decimal(20, 2)").file(&[Handmade::entry(stored)]), 0).unwrap();
        assert_eq!(read.tuples(), [Struct::from_iter([Some(Literal::Primitive(PrimitiveLiteral::Int128(value)))])]);
    }
    let wide = Handmade::new(r#"{"type":"fixed","name":"d","size":17}"#, "decimal(38, 2)");
    assert!(ours(&wide.file(&[Handmade::entry(&[1; 17])]), 0).unwrap_err().contains("a decimal of 17 bytes"));
}

#[test]
fn what_cannot_be_a_partition_value_is_refused() {
    let text = Handmade::new(r#""string""#, "int").file(&[Handmade::entry(&[2, b'x'])]);
    assert_eq!(ours(&text, 0).unwrap_err(), "its partition field 1000 (`p-q`) is no int");
    let wide = Handmade::new(r#""long""#, "int");
    let too_large = [0x80, 0x80, 0x80, 0x80, 0x40];
    assert!(ours(&wide.file(&[Handmade::entry(&too_large)]), 0).unwrap_err().contains("no number of 32 bits"));
    // Nothing is known of a field that isn't there: it is no null.
    let mut other = Handmade::new(r#""int""#, "int");
    let renamed = other.schema().replace("\"field-id\":1000,", "\"field-id\":1001,");
    other.meta.push(("avro.schema", renamed.leak()));
    let error = ours(&other.file(&[Handmade::entry(&[22])]), 0).unwrap_err();
    assert_eq!(error, "its schema has no partition field 1000 (`p-q`)");
}

#[test]
fn entries_of_format_version_1_are_as_old_as_can_be() {
    let old = Handmade { meta: vec![], ..Handmade::new(r#""int""#, "int") };
    assert_eq!(ours(&old.file(&[Handmade::entry(&[22])]), 0).unwrap().sequence_number(0), 0);
}

#[test]
fn a_list_of_format_version_1_counts_only_what_it_counts() {
    let schema = r#"{"type":"record","name":"manifest_file","fields":[
        {"name":"manifest_length","field-id":501,"type":"long"},
        {"name":"manifest_path","type":"string"},
        {"name":"partition_spec_id","type":"int"},
        {"name":"added_snapshot_id","type":["long","null"]},
        {"name":"added_data_files_count","type":["null","int"]},
        {"name":"existing_files_count","type":["null","int"]},
        {"name":"partitions","type":["null",{"type":"array","items":{"type":"record","name":"r508","fields":[
            {"name":"upper_bound","type":["null","bytes"]}]}}]}]}"#;
    let record = [&[20][..], &[4], b"ab", &[2], &[0, 14], &[2, 6], &[0], &[2, 2, 2, 2, 9, 0]].concat();
    let list = List::read(&avro::made_of(&[("avro.schema", schema)], &record, 1)).unwrap();
    let manifest = &list[0];
    assert_eq!((manifest.manifest_path.as_str(), manifest.manifest_length, manifest.added_snapshot_id), ("ab", 10, 7));
    assert_eq!((manifest.added_files_count, manifest.existing_files_count), (Some(3), None));
    assert_eq!((manifest.deleted_files_count, manifest.sequence_number, manifest.partition_spec_id), (None, 0, 1));
    let summary = &manifest.partitions.as_ref().unwrap()[0];
    assert!(summary.contains_null, "what is not said may be");
    assert_eq!(summary.upper_bound.as_ref().unwrap().as_slice(), [9]);
    let negative = [&[20][..], &[4], b"ab", &[2], &[0, 14], &[2, 5], &[0], &[0]].concat();
    assert!(List::read(&avro::made_of(&[("avro.schema", schema)], &negative, 1)).unwrap_err().contains("count of -3"));
}

#[test]
fn counts_of_a_list_are_taken_up_to_the_end_of_their_types() {
    let schema = r#"{"type":"record","name":"manifest_file","fields":[
        {"name":"manifest_path","type":"string"},
        {"name":"manifest_length","type":"long"},
        {"name":"partition_spec_id","type":"int"},
        {"name":"added_snapshot_id","type":"long"},
        {"name":"added_files_count","type":"long"},
        {"name":"existing_rows_count","type":"long"}]}"#;
    let list = |files: i64, rows: i64| {
        let mut record = [&[4][..], b"ab", &[20], &[0], &[14]].concat();
        for count in [files, rows] {
            let mut zigzag = ((count << 1) ^ (count >> 63)).cast_unsigned();
            while zigzag > 0x7f {
                record.push((zigzag & 0x7f) as u8 | 0x80);
                zigzag >>= 7;
            }
            record.push(zigzag as u8);
        }
        List::read(&avro::made_of(&[("avro.schema", schema)], &record, 1))
    };
    let read = list(i64::from(u32::MAX), i64::MAX).unwrap();
    assert_eq!(read[0].added_files_count, Some(u32::MAX));
    assert_eq!(read[0].existing_rows_count, Some(i64::MAX.cast_unsigned()));
    assert!(list(i64::from(u32::MAX) + 1, 0).unwrap_err().contains("count of 4294967296"));
    assert!(list(0, i64::MIN).unwrap_err().contains("count of -9223372036854775808"));
}

//! Which tables are large enough to measure planning on?
//!
//! Tables of metadata only: no data file exists. A small export of the reference dataset is the template, so that entries
//! hold the metrics that our own sink writes; each synthetic file is one of them under another path, day and time. Metadata
//! is written by the library's own writer.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use daygrain::metadata::{self, ManifestTarget, Manifests, NewEntry, NewList, rebuild, write_list, write_manifest};
use daygrain::storage::Stores;
use daygrain_tests::reference::{Order, Reference, Size};
use iceberg::spec::{DataFile, Datum, Literal, Operation, Snapshot, Struct, Summary, TableMetadata};
use parquet::arrow::ArrowWriter;

use crate::data;
use crate::engines::{self, TABLE};

/// Entries of every manifest.
const ENTRIES: usize = 100;
/// A day in µs.
pub const DAY_US: i64 = 86_400_000_000;
/// 2024-01-01, in days: the first of every table.
pub const FIRST_DAY: i64 = 19_723;

/// What a table is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub name: &'static str,
    pub days: usize,
    pub files_a_day: usize,
    /// A manifest holds files of all days, and not of one.
    pub scattered: bool,
}

impl Shape {
    /// Data files.
    pub fn files(&self) -> usize {
        self.days * self.files_a_day
    }

    /// Manifests.
    pub fn manifests(&self) -> usize {
        self.files().div_ceil(ENTRIES)
    }

    /// The warehouse with the table. Made if it is not there.
    pub async fn warehouse(&self) -> PathBuf {
        let warehouse = data::home().join(format!("planning-{}", self.name));
        if !warehouse.exists() {
            let part = warehouse.with_extension("part");
            let _ = fs::remove_dir_all(&part);
            // Locations are absolute: the table is written for where it will be.
            make(self, &part, &warehouse).await;
            fs::rename(&part, &warehouse).expect("the finished table gets its name");
        }
        warehouse
    }

    /// The day of a file, counted from the first.
    fn day(&self, file: usize) -> usize {
        if self.scattered { file % self.days } else { file / self.files_a_day }
    }
}

/// A small table of the reference dataset: its metadata, and one data file.
async fn template() -> (TableMetadata, DataFile) {
    let home = data::fresh("template");
    fs::create_dir_all(&home).expect("a directory for the template");
    let input = home.join("input.parquet");
    let size = Size { rows: 2_000, sessions: 20, days: 2 };
    let mut writer =
        ArrowWriter::try_new(File::create(&input).expect("a new file"), Reference::schema(), None).expect("a writer");
    for batch in Reference::new(size, 0).batches(Order::Time, 1_000) {
        writer.write(&batch).expect("rows are written");
    }
    writer.close().expect("the file is closed");
    let session = engines::daygrain(&home.join("warehouse"), None);
    engines::export(&session, vec![input.to_string_lossy().into_owned()]).await;
    let stores = Stores::new();
    let table = home.join("warehouse/main").join(TABLE);
    let (_, table) = metadata::open(&stores, &table.to_string_lossy()).await.expect("the template opens");
    let manifests = Manifests::new(stores, 0);
    let list = manifests.list(&table, table.current_snapshot_id()).await.expect("the template has a list");
    let entries = manifests.entries(&table, &list[0]).await.expect("the template has files");
    let file = entries.first().expect("the template has a file").file.clone();
    let _ = data::fresh("template");
    (table, file)
}

async fn make(shape: &Shape, written: &Path, warehouse: &Path) {
    let (table, file) = template().await;
    let stores = Stores::new();
    let below = |root: &Path, name: &str| {
        let root = std::path::absolute(root).expect("a path");
        format!("file://{}/main/{TABLE}{name}", root.display())
    };
    let timestamp = table.current_schema().field_id_by_name("message_created_at").expect("the primary timestamp");
    let (snapshot_id, sequence_number) = (1, table.last_sequence_number() + 1);
    let mut manifests = Vec::with_capacity(shape.manifests());
    for number in 0..shape.manifests() {
        let places = number * ENTRIES..shape.files().min((number + 1) * ENTRIES);
        let files: Vec<DataFile> =
            places.map(|place| data_file(shape, &file, place, timestamp, &below(warehouse, ""))).collect();
        let name = format!("/metadata/m{number}.avro");
        let target = ManifestTarget {
            stores: &stores,
            location: below(written, &name),
            version: table.format_version(),
            snapshot_id,
            schema: table.current_schema(),
            spec: table.default_partition_spec(),
        };
        let mut manifest =
            write_manifest(target, files.iter().map(NewEntry::Added)).await.expect("a manifest is written");
        manifest.manifest_path = below(warehouse, &name);
        manifests.push(manifest);
    }
    let list = NewList {
        stores: &stores,
        location: below(written, "/metadata/list.avro"),
        version: table.format_version(),
        snapshot_id,
        parent_snapshot_id: None,
        sequence_number,
        next_row_id: table.next_row_id(),
    };
    let first_row = list.next_row_id;
    let rows = write_list(list, manifests).await.expect("the list is written").assigned_rows;
    let properties = HashMap::from([("total-data-files".to_owned(), shape.files().to_string())]);
    let snapshot = Snapshot::builder()
        .with_snapshot_id(snapshot_id)
        .with_sequence_number(sequence_number)
        .with_timestamp_ms(table.last_updated_ms() + 1)
        .with_manifest_list(below(warehouse, "/metadata/list.avro"))
        .with_summary(Summary { operation: Operation::Append, additional_properties: properties })
        .with_schema_id(table.current_schema_id())
        .with_row_range(first_row, rows)
        .build();
    let old: Vec<i64> = table.snapshots().map(|snapshot| snapshot.snapshot_id()).collect();
    let built = table.into_builder(None).set_location(below(warehouse, "")).remove_snapshots(&old);
    let built = built.set_branch_snapshot(snapshot, "main").expect("a snapshot is added").build();
    let metadata = built.expect("the metadata is sound").metadata;
    let metadata = serde_json::to_vec(&metadata).expect("metadata is JSON");
    let directory = written.join("main").join(TABLE).join("metadata");
    fs::write(directory.join("v1.metadata.json"), metadata).expect("metadata is written");
    fs::write(directory.join("version-hint.text"), "1").expect("the hint is written");
}

/// The file at `place` of the table.
fn data_file(shape: &Shape, template: &DataFile, place: usize, timestamp: i32, table: &str) -> DataFile {
    let day = FIRST_DAY + shape.day(place) as i64;
    // Each file holds some minutes of its day.
    let from = day * DAY_US + (place % shape.files_a_day) as i64 * (DAY_US / shape.files_a_day as i64);
    let mut bounds = (template.lower_bounds().clone(), template.upper_bounds().clone());
    bounds.0.insert(timestamp, Datum::timestamptz_micros(from));
    bounds.1.insert(timestamp, Datum::timestamptz_micros(from + DAY_US / shape.files_a_day as i64 - 1));
    let path =
        format!("{table}/data/message_created_at_day={day}/{place:08}-01890a5d-ac96-774b-bcce-b302099a8057.parquet");
    rebuild(template, |file| {
        file.file_path(path)
            .partition(Struct::from_iter([Some(Literal::date(day as i32))]))
            .lower_bounds(bounds.0)
            .upper_bounds(bounds.1);
    })
    .expect("a data file is made")
}

//! Where do the files come from?
//!
//! The rows are made once and kept under the target directory: shuffled Parquet files of 518,000 rows each.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use daygrain_tests::reference::{Order, Reference, Size};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// The codec of inputs and outputs alike.
const ZSTD_LEVEL: i32 = 3;

/// The directory that everything measured lies in.
pub fn home() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    target.join("daygrain-benches")
}

/// The `n`-th input file: the rows of seed `n`, shuffled. Made if it is not there.
pub fn input(n: u64) -> PathBuf {
    let path = home().join(format!("input-{n}.parquet"));
    if !path.exists() {
        fs::create_dir_all(home()).expect("a directory for the inputs");
        let part = path.with_extension("part");
        write(&part, n);
        fs::rename(&part, &path).expect("the finished file gets its name");
    }
    path
}

fn write(path: &Path, seed: u64) {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).expect("a level of zstd");
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(16_384))
        .build();
    let file = File::create(path).expect("a new file");
    let mut writer = ArrowWriter::try_new(file, Reference::schema(), Some(properties)).expect("a writer");
    for batch in Reference::new(Size::FULL, seed).batches(Order::Shuffled, 8_192) {
        writer.write(&batch).expect("rows are written");
    }
    writer.close().expect("the file is closed");
}

/// Removes a directory of an earlier run.
pub fn fresh(name: &str) -> PathBuf {
    let path = home().join(name);
    let _ = fs::remove_dir_all(&path);
    path
}

//! What do the table's properties say about writing?
//!
//! Names and meaning are those of Iceberg's table properties (`write.*`). Where daygrain's default differs from
//! Iceberg's, the constant says why. A value that cannot be read is refused by name; properties that only steer other
//! engines (`write.spark.*`, `write.object-storage.*`, `write.location-provider.*`) are ignored.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use iceberg::spec::TableMetadata;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};

use crate::error::{Code, Error, Result};
use crate::storage::paths::join;

/// Iceberg's default.
const TARGET_FILE_BYTES: u64 = 512 << 20;
/// Iceberg's is 128 MiB. A writer holds the row group it encodes in memory, and readers share out files by row groups:
/// 32 MiB keeps two writers well inside a limit of 256 MB and a day of a gigabyte in thirty pieces.
const ROW_GROUP_BYTES: u64 = 32 << 20;
/// Parquet's default; bytes end nearly every group before it.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Iceberg's is 1 MiB: 600 messages, where a session has 140. A quarter of that lets a lookup read little more than
/// the rows it wants, and costs some two percent of compression.
const PAGE_BYTES: usize = 256 << 10;
/// Iceberg's is 20,000, which is a whole day of the reference dataset in one page of `session_id`: the page index could
/// not tell its sessions apart. 2,048 rows make about four pages of such a day.
const PAGE_ROWS: usize = 2048;
/// Iceberg's is 2 MiB, Parquet's 1 MiB. Every lookup reads the dictionary page of each column it returns; columns with
/// few values fit in far less, and those with many are better off without.
const DICTIONARY_BYTES: usize = 512 << 10;
/// Iceberg's default.
const BLOOM_FPP: f64 = 0.01;
/// Iceberg's default.
const BLOOM_MAX_BYTES: u64 = 1 << 20;
/// Iceberg's default for columns without a mode of their own.
const TRUNCATE_DEFAULT: usize = 16;
/// Lookup keys and partition sources decide which files are opened. Identifiers are often longer than 16 characters
/// and begin alike (`session-2026-…`, `/home/…`); 64 is what Parquet's own statistics keep.
const TRUNCATE_SORTED: usize = 64;
/// Iceberg's limit of columns that get a mode by default, in the order of the schema.
const INFERRED_COLUMNS: usize = 100;

/// How rows are shared out to writing tasks (`write.distribution-mode`, W2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distribution {
    /// Each task writes what it is given.
    None,
    /// All rows of a partition go to one task. `range` is understood as this: within a partition the sort already
    /// orders rows, and a partition that is cut across tasks would have a file for each.
    Hash,
}

/// Which metrics of a column go to the manifest (`write.metadata.metrics.*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    None,
    Counts,
    /// Counts and bounds; strings and binaries cut to this many code points or bytes.
    Truncate(usize),
    Full,
}

/// The properties that rule how files are written.
#[derive(Clone, Debug)]
pub(super) struct Properties {
    /// `None`: not set.
    pub distribution: Option<Distribution>,
    pub target_file_bytes: u64,
    pub row_group_bytes: u64,
    pub row_group_rows: usize,
    pub page_bytes: usize,
    pub page_rows: usize,
    pub dictionary_bytes: usize,
    pub compression: Compression,
    pub bloom_max_bytes: u64,
    bloom_enabled: HashMap<String, bool>,
    bloom_fpp: HashMap<String, f64>,
    metrics_default: Option<Mode>,
    metrics: HashMap<String, Mode>,
    /// Where data files go: `write.data.path`, or `data` below the table's location. No trailing slash.
    pub data_location: String,
}

impl Properties {
    /// Reads the properties of a table.
    ///
    /// # Errors
    /// `invalid_config` for a value that can't be read, `not_supported` for a file format other than Parquet.
    pub(super) fn of(metadata: &TableMetadata) -> Result<Self> {
        let map = metadata.properties();
        if let Some(format) = map.get("write.format.default").filter(|f| !f.eq_ignore_ascii_case("parquet")) {
            return Err(Error::new(Code::NotSupported, "only Parquet data files can be written")
                .with("property", "write.format.default")
                .with("value", format));
        }
        Ok(Properties {
            distribution: distribution(map)?,
            target_file_bytes: positive(map, "write.target-file-size-bytes", TARGET_FILE_BYTES)?,
            row_group_bytes: positive(map, "write.parquet.row-group-size-bytes", ROW_GROUP_BYTES)?,
            row_group_rows: positive(map, "write.parquet.row-group-row-limit", ROW_GROUP_ROWS)?,
            page_bytes: positive(map, "write.parquet.page-size-bytes", PAGE_BYTES)?,
            page_rows: positive(map, "write.parquet.page-row-limit", PAGE_ROWS)?,
            dictionary_bytes: positive(map, "write.parquet.dict-size-bytes", DICTIONARY_BYTES)?,
            compression: compression(map)?,
            bloom_max_bytes: positive(map, "write.parquet.bloom-filter-max-bytes", BLOOM_MAX_BYTES)?,
            bloom_enabled: per_column(map, "write.parquet.bloom-filter-enabled.column.", parsed)?,
            bloom_fpp: per_column(map, "write.parquet.bloom-filter-fpp.column.", fpp)?,
            metrics_default: map.get(METRICS_DEFAULT).map(|v| mode(METRICS_DEFAULT, v)).transpose()?,
            metrics: per_column(map, "write.metadata.metrics.column.", mode)?,
            data_location: match map.get("write.data.path") {
                Some(path) => path.trim_end_matches('/').to_owned(),
                None => join(metadata.location(), "data"),
            },
        })
    }

    /// `zstd(3)`, as EXPLAIN shows it.
    pub(super) fn codec(&self) -> String {
        match self.compression {
            Compression::ZSTD(level) => format!("zstd({})", level.compression_level()),
            Compression::GZIP(level) => format!("gzip({})", level.compression_level()),
            Compression::BROTLI(level) => format!("brotli({})", level.compression_level()),
            other => other.to_string().to_lowercase(),
        }
    }

    /// The false-positive rate of a column's bloom filter; `None` if it gets none. `lookup`: the column is a lookup key.
    pub(super) fn bloom(&self, column: &str, lookup: bool) -> Option<f64> {
        let wanted = self.bloom_enabled.get(column).copied().unwrap_or(lookup);
        wanted.then(|| self.bloom_fpp.get(column).copied().unwrap_or(BLOOM_FPP))
    }

    /// The mode of a column. `position` counts the schema's primitive columns from 0; `key`: the column is a sort key
    /// or a partition's source, whose bounds are kept by default.
    pub(super) fn mode(&self, column: &str, position: usize, key: bool) -> Mode {
        if let Some(mode) = self.metrics.get(column) {
            return *mode;
        }
        let default = match self.metrics_default {
            Some(mode) => mode,
            None if position < INFERRED_COLUMNS => Mode::Truncate(TRUNCATE_DEFAULT),
            None => Mode::None,
        };
        match default {
            Mode::None | Mode::Counts if key => Mode::Truncate(TRUNCATE_SORTED),
            Mode::Truncate(n) if key => Mode::Truncate(n.max(TRUNCATE_SORTED)),
            other => other,
        }
    }
}

const METRICS_DEFAULT: &str = "write.metadata.metrics.default";

fn distribution(map: &HashMap<String, String>) -> Result<Option<Distribution>> {
    let name = "write.distribution-mode";
    match map.get(name).map(String::as_str) {
        None => Ok(None),
        Some("none") => Ok(Some(Distribution::None)),
        Some("hash" | "range") => Ok(Some(Distribution::Hash)),
        Some(other) => Err(invalid(name, other, "none, hash or range")),
    }
}

fn compression(map: &HashMap<String, String>) -> Result<Compression> {
    let (name, level_name) = ("write.parquet.compression-codec", "write.parquet.compression-level");
    let codec = map.get(name).map_or("zstd", String::as_str);
    let level = map.get(level_name).filter(|v| *v != "null");
    let bad_level = |_| invalid(level_name, level.map_or("", String::as_str), "a level of the codec");
    match codec.to_ascii_lowercase().as_str() {
        "zstd" => {
            let level = level.map_or(Ok(3), |v| parsed(level_name, v))?;
            Ok(Compression::ZSTD(ZstdLevel::try_new(level).map_err(bad_level)?))
        }
        "gzip" => {
            let level = level.map_or(Ok(6), |v| parsed(level_name, v))?;
            Ok(Compression::GZIP(GzipLevel::try_new(level).map_err(bad_level)?))
        }
        "brotli" => {
            let level = level.map_or(Ok(1), |v| parsed(level_name, v))?;
            Ok(Compression::BROTLI(BrotliLevel::try_new(level).map_err(bad_level)?))
        }
        "snappy" => Ok(Compression::SNAPPY),
        "lz4" | "lz4_raw" => Ok(Compression::LZ4_RAW),
        "uncompressed" | "none" => Ok(Compression::UNCOMPRESSED),
        other => Err(invalid(name, other, "zstd, gzip, snappy, lz4, brotli or uncompressed")),
    }
}

fn mode(name: &str, value: &str) -> Result<Mode> {
    let text = value.trim().to_ascii_lowercase();
    match text.as_str() {
        "none" => Ok(Mode::None),
        "counts" => Ok(Mode::Counts),
        "full" => Ok(Mode::Full),
        other => other
            .strip_prefix("truncate(")
            .and_then(|rest| rest.strip_suffix(')'))
            .and_then(|n| n.trim().parse().ok())
            .filter(|n| *n > 0)
            .map(Mode::Truncate)
            .ok_or_else(|| invalid(name, value, "none, counts, truncate(n) or full")),
    }
}

fn fpp(name: &str, value: &str) -> Result<f64> {
    let rate: f64 = parsed(name, value)?;
    if rate > 0.0 && rate < 1.0 { Ok(rate) } else { Err(invalid(name, value, "between 0 and 1, both excluded")) }
}

fn positive<T: FromStr + Default + PartialOrd>(map: &HashMap<String, String>, name: &str, default: T) -> Result<T> {
    match map.get(name) {
        None => Ok(default),
        Some(value) => {
            let n: T = parsed(name, value)?;
            if n > T::default() { Ok(n) } else { Err(invalid(name, value, "above 0")) }
        }
    }
}

fn parsed<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.trim().parse().map_err(|_| invalid(name, value, "of another type"))
}

fn per_column<T>(
    map: &HashMap<String, String>,
    prefix: &str,
    parse: impl Fn(&str, &str) -> Result<T>,
) -> Result<HashMap<String, T>> {
    map.iter()
        .filter_map(|(name, value)| name.strip_prefix(prefix).map(|column| (column, name, value)))
        .map(|(column, name, value)| Ok((column.to_owned(), parse(name, value)?)))
        .collect()
}

fn invalid(name: &str, value: &str, expected: impl Display) -> Error {
    Error::new(Code::InvalidConfig, "a table property has a value that can't be used")
        .with("property", name)
        .with("value", value)
        .with("expected", expected)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sink::tests::metadata_with;

    fn of(pairs: &[(&str, &str)]) -> Result<Properties> {
        Properties::of(&metadata_with(pairs))
    }

    #[test]
    fn defaults() {
        let p = of(&[]).unwrap();
        assert_eq!(p.distribution, None);
        assert_eq!((p.target_file_bytes, p.row_group_bytes), (512 << 20, 32 << 20));
        assert_eq!(p.compression, Compression::ZSTD(ZstdLevel::try_new(3).unwrap()));
        assert_eq!(p.data_location, "memory://w/main/messages/data");
        assert_eq!(p.bloom("session_id", true), Some(0.01));
        assert_eq!(p.bloom("model", false), None);
        assert_eq!(p.mode("model", 5, false), Mode::Truncate(16));
        assert_eq!(p.mode("model", 100, false), Mode::None);
        assert_eq!(p.mode("session_id", 100, true), Mode::Truncate(64));
    }

    #[test]
    fn set_values_win() {
        let p = of(&[
            ("write.distribution-mode", "range"),
            ("write.parquet.compression-codec", "GZIP"),
            ("write.parquet.compression-level", "9"),
            ("write.parquet.bloom-filter-enabled.column.session_id", "false"),
            ("write.parquet.bloom-filter-enabled.column.model", "true"),
            ("write.parquet.bloom-filter-fpp.column.model", "0.1"),
            ("write.metadata.metrics.default", "counts"),
            ("write.metadata.metrics.column.a.b", "full"),
            ("write.metadata.metrics.column.session_id", "none"),
            ("write.data.path", "memory://other/x/"),
        ])
        .unwrap();
        assert_eq!(p.distribution, Some(Distribution::Hash));
        assert_eq!(p.compression, Compression::GZIP(GzipLevel::try_new(9).unwrap()));
        assert_eq!(p.bloom("session_id", true), None);
        assert_eq!(p.bloom("model", false), Some(0.1));
        assert_eq!(p.mode("model", 200, false), Mode::Counts);
        assert_eq!(p.mode("a.b", 0, false), Mode::Full);
        assert_eq!(p.mode("session_id", 0, true), Mode::None);
        assert_eq!(p.mode("cwd", 0, true), Mode::Truncate(64));
        assert_eq!(p.data_location, "memory://other/x");
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        for (name, value, code) in [
            ("write.target-file-size-bytes", "0", Code::InvalidConfig),
            ("write.target-file-size-bytes", "many", Code::InvalidConfig),
            ("write.distribution-mode", "random", Code::InvalidConfig),
            ("write.parquet.compression-codec", "lzma", Code::InvalidConfig),
            ("write.parquet.compression-level", "99", Code::InvalidConfig),
            ("write.metadata.metrics.default", "truncate(0)", Code::InvalidConfig),
            ("write.parquet.bloom-filter-fpp.column.x", "1.5", Code::InvalidConfig),
            ("write.format.default", "orc", Code::NotSupported),
        ] {
            let error = of(&[(name, value)]).unwrap_err();
            assert_eq!(error.code(), code, "{name}={value}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

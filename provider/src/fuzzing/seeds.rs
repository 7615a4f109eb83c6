//! The inputs that were kept: where fuzzing starts, and what once broke a promise.
//!
//! `tests/fuzz/corpus/<target>/` holds sound files that are made here (`DAYGRAIN_FUZZ_SEEDS=1` writes those that are not
//! there) and, under other names, what a fuzzer found.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use iceberg::spec::{FormatVersion, ManifestContentType};
use roaring::RoaringBitmap;

use super::table::{METADATA, get, listed};
use super::{RUNTIME, deletion_vector, files, filter, manifest, manifest_list, table_metadata};
use crate::metadata::{NewList, write_list};
use crate::storage::Stores;

/// Name and bytes of a file of the corpus.
type Seed = (String, Vec<u8>);

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus").join(target)
}

/// Takes each kept input through `run`, after writing the seeds that are wanted and are not there.
fn replay(target: &str, seeds: Vec<Seed>, run: fn(&[u8])) {
    let directory = corpus(target);
    for (name, bytes) in &seeds {
        let path = directory.join(name);
        if std::env::var_os("DAYGRAIN_FUZZ_SEEDS").is_some() && !path.exists() {
            fs::create_dir_all(&directory).unwrap();
            fs::write(&path, bytes).unwrap();
        }
        assert!(path.exists(), "{} is missing: DAYGRAIN_FUZZ_SEEDS=1 writes it", path.display());
        // What is made today may be another file than the one that was kept.
        run(bytes);
    }
    let kept: Vec<PathBuf> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(kept.len() >= seeds.len());
    for path in kept {
        println!("{}", path.display());
        run(&fs::read(&path).unwrap());
    }
}

#[test]
fn manifests() {
    replay("manifest", RUNTIME.block_on(manifest_seeds()), manifest);
}

async fn manifest_seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let stores = Stores::new();
    for (version, name) in [(FormatVersion::V1, "v1"), (FormatVersion::V2, "v2"), (FormatVersion::V3, "v3")] {
        for days in [&[][..], &[20_600], &[-1, 3, 4, 20_600]] {
            files::write(&stores, "memory://seeds/m.avro", version, days).await;
            let bytes = get(&stores, "memory://seeds/m.avro").await;
            if days.len() != 1 {
                seeds.push((format!("{name}-{}", days.len()), bytes.clone()));
            }
            // A fuzzer sees through what is not compressed.
            seeds.push((format!("{name}-{}-plain", days.len()), crate::metadata::uncompressed(&bytes)));
        }
    }
    seeds
}

#[test]
fn manifest_lists() {
    replay("manifest_list", RUNTIME.block_on(list_seeds()), manifest_list);
}

async fn list_seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let stores = Stores::new();
    for (version, name) in [(FormatVersion::V1, "v1"), (FormatVersion::V2, "v2"), (FormatVersion::V3, "v3")] {
        let summary = |least: &[u8]| iceberg::spec::FieldSummary {
            contains_null: true,
            contains_nan: Some(false),
            lower_bound: Some(least.to_vec().into()),
            upper_bound: Some(least.to_vec().into()),
        };
        let bounds = [&20_600_i32.to_le_bytes()[..], b"s", &2_i32.to_le_bytes(), &10_i32.to_le_bytes(), &[1, 0], b""];
        let mut first = listed("memory://fuzz/m.avro", ManifestContentType::Data);
        first.partitions = Some(bounds.into_iter().map(summary).collect());
        let mut manifests = vec![first];
        if version != FormatVersion::V1 {
            manifests.push(listed("memory://fuzz/d.avro", ManifestContentType::Deletes));
        }
        let list = NewList {
            stores: &stores,
            location: "memory://seeds/snap.avro".to_owned(),
            version,
            snapshot_id: 1,
            parent_snapshot_id: None,
            sequence_number: 3,
            next_row_id: 0,
        };
        write_list(list, manifests).await.unwrap();
        let bytes = get(&stores, "memory://seeds/snap.avro").await;
        seeds.push((format!("{name}-plain"), crate::metadata::uncompressed(&bytes)));
        seeds.push((name.to_owned(), bytes));
    }
    seeds
}

#[test]
fn deletion_vectors() {
    let mut seeds = Vec::new();
    for (name, positions) in [
        ("empty", vec![]),
        ("few", vec![0, 3, 70_000]),
        ("far", vec![1, (7 << 32) + 5]),
        ("runs", (0..9_000).collect()),
        ("many", (0..20_000).step_by(2).collect()),
    ] {
        let bitmaps = bitmaps(&positions);
        seeds.push((format!("{name}-framed"), super::deletes::framed(&bitmaps)));
        seeds.push((name.to_owned(), bitmaps));
    }
    replay("deletion_vector", seeds, deletion_vector);
}

/// Positions as a vector's bitmaps, those of 32 bits in order.
fn bitmaps(positions: &[u64]) -> Vec<u8> {
    let mut by_key: std::collections::BTreeMap<u32, RoaringBitmap> = Default::default();
    for position in positions {
        by_key.entry((position >> 32) as u32).or_default().insert(*position as u32);
    }
    let mut out = (by_key.len() as u64).to_le_bytes().to_vec();
    for (key, mut bitmap) in by_key {
        bitmap.optimize();
        out.extend(key.to_le_bytes());
        bitmap.serialize_into(&mut out).unwrap();
    }
    out
}

#[test]
fn tables() {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(METADATA.as_bytes()).unwrap();
    let with = |from: &str, to: &str| {
        assert!(METADATA.contains(from), "{from}");
        METADATA.replace(from, to).into_bytes()
    };
    let seeds = vec![
        ("v3".to_owned(), METADATA.as_bytes().to_vec()),
        ("v3-gz".to_owned(), gz.finish().unwrap()),
        ("carried-type".to_owned(), with("\"binary\"", "\"geometry\"")),
        ("carried-transform".to_owned(), with("\"transform\":\"bucket[4]\"", "\"transform\":\"zorder\"")),
        ("dropped-column".to_owned(), with("{\"source-id\":6,", "{\"source-id\":77,")),
        ("v1".to_owned(), V1.as_bytes().to_vec()),
        (
            "without-a-list".to_owned(),
            V1.replace("\"manifest-list\":\"memory://fuzz/snap-1.avro\"", MANIFESTS).into_bytes(),
        ),
        (
            "default-in-nanoseconds".to_owned(),
            with("\"type\":\"long\",\"initial-default\":7,\"write-default\":7", DEFAULT),
        ),
    ];
    replay("table_metadata", seeds, table_metadata);
}

const V1: &str = r#"{"format-version":1,"location":"memory://fuzz","last-updated-ms":1,"last-column-id":2,
"schema":{"type":"struct","fields":[{"id":1,"name":"a","required":false,"type":"long"},
{"id":2,"name":"b","required":false,"type":{"type":"map","key-id":3,"key":"string","value-id":4,"value-required":false,
"value":"int"}}]},"partition-spec":[{"source-id":1,"name":"a","transform":"identity"}],"properties":{},
"current-snapshot-id":5,"snapshots":[{"snapshot-id":5,"timestamp-ms":1,"manifest-list":"memory://fuzz/snap-1.avro"}]}"#;

const MANIFESTS: &str = "\"manifests\":[\"memory://fuzz/m.avro\"]";
const DEFAULT: &str = "\"type\":\"timestamptz_ns\",\"initial-default\":\"1969-12-31T23:59:59.000000001+00:00\"";

#[test]
fn filters() {
    let seeds = FILTERS.iter().enumerate().map(|(at, text)| (format!("{at:02}"), text.as_bytes().to_vec()));
    replay("filter", seeds.collect(), filter);
}

const FILTERS: [&str; 44] = [
    "i < 5 AND l >= 7 OR NOT (b AND i <> 2)",
    "ts >= '2026-06-04T12:00:00Z' AND ts < '2026-06-05'",
    "ts BETWEEN TIMESTAMP '2026-06-04 11:00:00' AND TIMESTAMP '2026-06-04 12:00:00.000001'",
    "date_trunc('day', ts) = '2026-06-04' OR date_trunc('month', n) <= TIMESTAMP '1970-01-01'",
    "CAST(ts AS DATE) = DATE '2026-06-04'",
    "d IN (DATE '1970-01-01', DATE '2000-02-29') OR d IS NULL",
    "date_part('year', d) = 1970 AND extract(month FROM ts) < 7",
    "s IN ('a', 'b', NULL) OR s NOT IN ('ab', 'abc')",
    "s LIKE 'ab%' AND s NOT LIKE 'ab\\%%' OR s LIKE '_b%'",
    "starts_with(s, 'ab') OR substr(s, 1, 2) = 'ab' OR left(s, 1) > 'a'",
    "x > 1.5 OR isnan(x) OR x = -0.0 OR -x < 2",
    "m = 1.5 OR m < -2.50 OR m > 1e3",
    "i + 1 > 2 AND i * 2 <= 10 AND 5 - l < 7 AND i / 3 = 1",
    "abs(i) < 3 OR i % 2 = 0 OR l = 9007199254740993",
    "CASE WHEN i > 1 THEN l > 2 WHEN b THEN s = 'a' ELSE x < 0 END",
    "coalesce(i, 0) = 0 OR nullif(l, 1) IS NULL",
    "i IS DISTINCT FROM 3 AND l IS NOT DISTINCT FROM NULL AND b IS NOT TRUE",
    "y = X'6162' OR y > X'00' OR y IS NOT NULL",
    "l = 3000000000 OR i = 3000000000 OR i < 2.5 OR l > 1e19",
    "TRY_CAST(s AS INT) = 10 OR CAST(i AS TEXT) = '5' OR CAST(l AS DOUBLE) < 3",
    "ts + INTERVAL '1 day' > '2026-06-04' AND n - INTERVAL '1 month' < '2026-01-01'",
    "ts AT TIME ZONE 'America/New_York' < TIMESTAMP '2026-06-04 08:00:00'",
    "to_timestamp(s) > '2026-01-01' OR to_char(d, '%Y') = '2026'",
    "i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)",
    "days(ts) = 20608 OR bucket(4, l) = 2 OR truncate(10, i) = 20 OR hours(ts) > 5",
    "s = upper('a') OR s || 'b' = 'ab' OR length(s) = 2 OR s ~ '^ab'",
    "date_bin(INTERVAL '15 minutes', ts) = '2026-06-04T12:00:00Z'",
    "i BETWEEN SYMMETRIC 5 AND 1 OR i NOT BETWEEN 1 AND 5",
    "s IN (SELECT s FROM t WHERE i = 1) AND EXISTS (SELECT 1 FROM t AS o WHERE o.i = t.i)",
    "true AND NOT false OR NULL",
    "r.i < 5 AND r.q.i >= 7 OR NOT (r.s = 'a' AND r.i <> i)",
    "r['i'] = 10 OR r['q']['i'] IN (1, 2, NULL) OR get_field(r, 's') = 'ab' OR r['q'].r > 'b'",
    "r.i IS NULL",
    "r.q.i IS NULL OR r.q.x IS NULL AND r.q IS NOT NULL AND r IS NOT NULL",
    "r.s IS NOT NULL AND r.q.i IS NOT NULL",
    "t.r.q.ts >= '2026-06-04' AND r.q.ts < '2026-06-05' OR CAST(r.q.ts AS DATE) = DATE '1970-01-01'",
    "date_trunc('day', r.q.ts) <= '1970-01-01' OR days(r.q.ts) = 20608 OR bucket(4, r.i) = 2 OR truncate(10, r.q.i) = 0",
    "r.q.r LIKE 'ab%' OR r.q.r NOT IN ('a', 'b') AND r.s NOT LIKE 'a%' OR starts_with(r.q.r, s)",
    "r.q.x > 1.5 OR isnan(r.q.x) OR r.q.x = -0.0 OR r.q.i + 1 > 2",
    "NOT (r.q.i <> 5) OR r.q.i IS DISTINCT FROM 3 AND coalesce(r.i, 0) = 0 AND nullif(r.q.i, 1) IS NULL",
    "CASE WHEN r.q.i > 1 THEN r.i > 2 WHEN r IS NULL THEN b ELSE r.q.r = s END",
    "r.e[1].i = 5 AND r.e[1]['i'] IS NOT NULL AND array_length(r.e) = 1 AND r.e IS NOT NULL AND (r.e IS NULL OR i < 5)",
    "r.k['a'] = 10 AND r.k['i'] IS NULL AND r.k IS NOT NULL AND map_keys(r.k)[1] = 'a'",
    "named_struct('i', r.q.i, 'q', r)['i'] = 5 AND EXISTS (SELECT 1 FROM t AS o WHERE o.r.q.i = t.r.i)",
];

//! Files that are damaged at random: an error that names its kind, or an answer, and never a panic, a hang or a machine
//! that runs out of memory.
//!
//! Tables are made once; for each try one file of one of them is damaged in one of the ways below, and the table is opened
//! and read by a session that knows nothing of it. `DAYGRAIN_SEEDS` names more seeds than the usual few.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use daygrain::error::Code;
use daygrain::{Options, Session};
use daygrain_tests::reference::{Order, Reference, Rng, Size};

use crate::lab::{self, Lab};

/// What a damaged file may lead to.
const EXPECTED: [Code; 10] = [
    Code::MetadataCorrupt,
    Code::MetadataVersionUnsupported,
    Code::ManifestCorrupt,
    Code::DataFileCorrupt,
    Code::DeleteFileCorrupt,
    Code::FileNotFound,
    Code::UnsupportedType,
    Code::UnsupportedLocation,
    Code::NotSupported,
    Code::UnknownTable,
];

/// No answer about a few small files takes longer, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(60);

/// Damaged copies a seed makes.
const TRIES: u64 = 120;

fn seeds() -> Vec<u64> {
    let named = std::env::var("DAYGRAIN_SEEDS").ok();
    let range = named.as_deref().and_then(|text| text.split_once(".."));
    match range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?)) {
        Some(seeds) => seeds.collect(),
        None => vec![1, 2],
    }
}

/// One way to damage a file.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) -> String {
    let len = bytes.len() as u64;
    if len == 0 {
        return "it was empty".to_owned();
    }
    // What files say of themselves stands at their ends.
    let at = match rng.below(4) {
        0 => rng.below(len.min(512)),
        1 => len - 1 - rng.below(len.min(4096)),
        _ => rng.below(len),
    } as usize;
    match rng.below(7) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            bytes[at] ^= 1 << rng.below(8);
            format!("a bit of byte {at}")
        }
        2 => {
            let value = [0x00, 0xff, 0x7f, 0x80][rng.below(4) as usize];
            let end = (at + 1 + rng.below(8) as usize).min(bytes.len());
            bytes[at..end].fill(value);
            format!("bytes {at}..{end} are {value:#x}")
        }
        3 => {
            let end = (at + 1 + rng.below(64) as usize).min(bytes.len());
            bytes.drain(at..end);
            format!("without bytes {at}..{end}")
        }
        4 => {
            // A length as Avro and Thrift write it, larger than any file.
            let huge = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
            let end = (at + huge.len()).min(bytes.len());
            bytes.splice(at..end, huge);
            format!("a huge number at {at}")
        }
        5 => {
            let other = rng.below(len) as usize;
            let end = (other + 1 + rng.below(256) as usize).min(bytes.len());
            let copied = bytes[other..end].to_vec();
            bytes.splice(at..at, copied);
            format!("bytes {other}..{end} again at {at}")
        }
        _ => {
            // Digits stand for themselves in JSON and Avro's schemas.
            let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
            match digits.is_empty() {
                true => bytes.clear(),
                false => bytes[digits[rng.below(digits.len() as u64) as usize]] = b'0' + rng.below(10) as u8,
            }
            "a digit".to_owned()
        }
    }
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => files(&entry, found),
            false => found.push(entry),
        }
    }
}

/// Reads everything of a table, in several ways.
async fn read(session: &Session, table: &str) -> Result<(), daygrain::Error> {
    session.query(&format!("SELECT * FROM {table}")).await?;
    session.query(&format!("SELECT count(*) FROM {table}")).await?;
    Ok(())
}

async fn survives(damaged: &str, reading: impl Future<Output = Result<(), daygrain::Error>>) {
    let start = Instant::now();
    let result = tokio::time::timeout(PATIENCE, reading).await;
    let result = result.unwrap_or_else(|_| panic!("{damaged}: no answer after {:?}", start.elapsed()));
    if let Err(error) = result {
        assert!(EXPECTED.contains(&error.code()), "{damaged}: {error:?}");
    }
}

fn report(seed: u64, attempt: u64, file: &Path, how: &str) -> String {
    format!("seed {seed}, try {attempt}: {}: {how}", file.file_name().unwrap().to_string_lossy())
}

/// Of a table of ours: metadata, manifests, data files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_our_own_tables() {
    let lab = Lab::local();
    let reference = Reference::new(Size { rows: 120, sessions: 5, days: 2 }, 3);
    let session = lab.session().with_dataset(Reference::dataset());
    lab::export(&session, lab::rows_of("ai_gateway_messages"), reference.batches(Order::Shuffled, 60).collect())
        .await
        .unwrap();
    let root = PathBuf::from(lab.warehouse.trim_start_matches("file://")).join("main/ai_gateway_messages");
    let mut all = Vec::new();
    files(&root, &mut all);
    all.sort();
    for seed in seeds() {
        let mut rng = Rng::new(seed, 0);
        for attempt in 0..TRIES {
            let file = &all[rng.below(all.len() as u64) as usize];
            let whole = fs::read(file).unwrap();
            let mut bytes = whole.clone();
            let how = damage(&mut bytes, &mut rng);
            fs::write(file, &bytes).unwrap();
            let what = report(seed, attempt, file, &how);
            survives(&what, async { read(&lab.session(), "ai_gateway_messages").await }).await;
            fs::write(file, &whole).unwrap();
        }
    }
    read(&lab.session(), "ai_gateway_messages").await.unwrap();
}

/// Tables of other engines with delete files of every kind.
const WITH_DELETES: [&str; 5] = [
    "spark/deletion_vectors",
    "spark/zz_v3_dv",
    "spark/table_more_deletes",
    "others/equality_deletes_mytable",
    "others/equality_deletes_mytable_partitioned",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_other_engines_tables_with_deletes() {
    let Some(shared) = std::env::var_os("DAYGRAIN_SHARED") else {
        println!("skipped: DAYGRAIN_SHARED names no tables of other engines");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    for table in WITH_DELETES {
        let from = PathBuf::from(&shared).join("fixtures").join(table);
        let to = directory.path().join(table);
        let mut all = Vec::new();
        files(&from, &mut all);
        let mut copies = Vec::new();
        for file in all.iter().filter(|file| file.extension().is_some_and(|ending| ending != "crc")) {
            let copy = to.join(file.strip_prefix(&from).unwrap());
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(file, &copy).unwrap();
            copies.push(copy);
        }
        copies.sort();
        for seed in seeds() {
            let mut rng = Rng::new(seed, 1);
            for attempt in 0..TRIES / 4 {
                let file = &copies[rng.below(copies.len() as u64) as usize];
                let whole = fs::read(file).unwrap();
                let mut bytes = whole.clone();
                let how = damage(&mut bytes, &mut rng);
                fs::write(file, &bytes).unwrap();
                let what = format!("{table}, {}", report(seed, attempt, file, &how));
                survives(&what, async {
                    let session = Session::new(Options::at("memory://nothing"))?;
                    let open = format!(
                        "CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION '{}' OPTIONS ('relocate' 'true')",
                        to.display()
                    );
                    session.query(&open).await?;
                    read(&session, "t").await
                })
                .await;
                fs::write(file, &whole).unwrap();
            }
        }
    }
}

//! Does each record of a file come true?

use std::fmt;

use arrow::array::RecordBatch;
use daygrain::Result;
use daygrain::session::Answer;

use super::record::{Kind, Query, Record, parse};
use super::shown;
use super::stage::{Stage, first_word};

/// How a file came out.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) records: usize,
    pub(super) failures: Vec<Failure>,
    /// The file with what came out in the place of what was expected.
    pub(super) text: String,
}

/// A record that did not come true.
#[derive(Debug)]
pub(super) struct Failure {
    place: String,
    sql: String,
    expected: Vec<String>,
    got: Vec<String>,
    /// The new text of the file mends it.
    pub(super) mended: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = |lines: &[String]| lines.iter().map(|line| format!("\n    {line}")).collect::<String>();
        let sql = self.sql.replace('\n', "\n    ");
        write!(f, "{}\n    {sql}\n  expected:{}\n  got:{}", self.place, block(&self.expected), block(&self.got))
    }
}

/// What a record expected, what came instead, and its lines if that is to be expected from now on.
struct Mismatch {
    expected: Vec<String>,
    got: Vec<String>,
    instead: Option<Vec<String>>,
}

/// Runs the records of a file in their order, in one session over a new warehouse.
pub(super) async fn run(name: &str, text: &str) -> Done {
    let failure = |line: usize, sql: String, found: Mismatch| Failure {
        place: format!("{name}:{line}"),
        sql,
        expected: found.expected,
        got: found.got,
        mended: found.instead.is_some(),
    };
    let records = match parse(text) {
        Ok(records) => records,
        Err((line, why)) => {
            let found = Mismatch { expected: vec!["a record".to_owned()], got: vec![why], instead: None };
            let failures = vec![failure(line, String::new(), found)];
            return Done { records: 0, failures, text: text.to_owned() };
        }
    };
    let mut stage = Stage::new();
    let mut failures = Vec::new();
    let mut lines: Vec<Option<Vec<String>>> = text.lines().map(|line| Some(vec![line.to_owned()])).collect();
    for record in &records {
        for found in play(&mut stage, record).await {
            if let Some(instead) = &found.instead {
                lines[record.line - 1..][..record.height].fill(None);
                lines[record.line - 1] = Some(instead.clone());
            }
            failures.push(failure(record.line, record.body.join("\n"), found));
        }
    }
    let lines: Vec<String> = lines.into_iter().flatten().flatten().collect();
    Done { records: records.len(), failures, text: lines.join("\n") + "\n" }
}

async fn play(stage: &mut Stage, record: &Record) -> Vec<Mismatch> {
    let sql = record.body.join("\n");
    let found = match &record.kind {
        Kind::Ok => {
            let outcome = stage.statement(&sql).await.map(drop);
            well(stage, outcome, record)
        }
        Kind::Export(settings) => {
            let outcome = stage.export(settings, &sql).await;
            well(stage, outcome, record)
        }
        Kind::Note(part) => match stage.statement(&sql).await {
            Ok(notes) if notes.iter().any(|note| stage.without_paths(note).contains(part)) => None,
            Ok(notes) => {
                let notes = notes.iter().map(|note| stage.without_paths(note)).collect();
                Some(Mismatch { expected: vec![format!("a note with {part}")], got: notes, instead: None })
            }
            Err(error) => well(stage, Err(error), record),
        },
        Kind::Error { code, part } => fails(stage, code, part, &sql, record).await,
        Kind::File(path) => {
            stage.file(path, &record.body);
            None
        }
        Kind::Session { read_only } => {
            stage.reopen(*read_only);
            None
        }
        Kind::Twin => {
            stage.add_twin();
            None
        }
        Kind::Query(query) => return answers(stage, query, &sql, record).await,
    };
    found.into_iter().collect()
}

fn well(stage: &Stage, outcome: Result<()>, record: &Record) -> Option<Mismatch> {
    let error = outcome.err()?;
    let failed = expecting(&error, stage);
    let instead = std::iter::once(failed).chain(record.body.iter().cloned()).collect();
    let statement = matches!(record.kind, Kind::Ok | Kind::Query(_));
    let got = error.to_string().lines().map(str::to_owned).collect();
    Some(Mismatch { expected: vec!["no error".to_owned()], got, instead: statement.then_some(instead) })
}

/// The line of a record that expects this error.
fn expecting(error: &daygrain::Error, stage: &Stage) -> String {
    let what = stage.without_paths(error.what());
    format!("statement error {} {}", error.code(), what.lines().next().unwrap_or_default()).trim_end().to_owned()
}

async fn fails(stage: &mut Stage, code: &str, part: &str, sql: &str, record: &Record) -> Option<Mismatch> {
    let expected = vec![format!("error[{code}] with: {part}")];
    let body = record.body.iter().cloned();
    match stage.statement(sql).await {
        Ok(_) => {
            let instead = std::iter::once("statement ok".to_owned()).chain(body).collect();
            Some(Mismatch { expected, got: vec!["no error".to_owned()], instead: Some(instead) })
        }
        Err(error) => {
            let shown = stage.without_paths(&error.to_string());
            if error.code().as_str() == code && shown.contains(part) {
                return None;
            }
            let header = expecting(&error, stage);
            let instead = std::iter::once(header).chain(body).collect();
            Some(Mismatch { expected, got: shown.lines().map(str::to_owned).collect(), instead: Some(instead) })
        }
    }
}

async fn answers(stage: &mut Stage, query: &Query, sql: &str, record: &Record) -> Vec<Mismatch> {
    let answer = match stage.query(sql).await {
        Ok(answer) => answer,
        Err(error) => return well(stage, Err(error), record).into_iter().collect(),
    };
    let mut found = Vec::new();
    let got = Query {
        types: if query.types.is_empty() { String::new() } else { types(&answer.batches, &query.types) },
        files: query.files.map(|_| files(&answer)),
        ..query.clone()
    };
    let mut lines = written(stage, query, sql, &answer.batches);
    let mut expected = record.expected.clone();
    if query.rowsort {
        let names = usize::from(query.names);
        sort_after(&mut lines, names);
        sort_after(&mut expected, names);
    }
    if (&got, &lines) != (query, &expected) {
        let body = [record.body.clone(), vec!["----".to_owned()]].concat();
        found.push(Mismatch {
            expected: [&[query.header()], expected.as_slice()].concat(),
            got: [&[got.header()], lines.as_slice()].concat(),
            instead: Some([&[got.header()], body.as_slice(), lines.as_slice()].concat()),
        });
    }
    found.extend(twins(stage, sql, &answer.batches).await);
    found
}

/// The rows must be those that the twin finds, in any order.
async fn twins(stage: &mut Stage, sql: &str, batches: &[RecordBatch]) -> Option<Mismatch> {
    let (mut got, mut expected) = match stage.twin(sql).await? {
        Ok(twin) => (shown::rows(batches), shown::rows(&twin.batches)),
        Err(error) => (shown::rows(batches), error.to_string().lines().map(str::to_owned).collect()),
    };
    sort_after(&mut got, 0);
    sort_after(&mut expected, 0);
    if got == expected {
        return None;
    }
    expected.insert(0, "as in memory:".to_owned());
    Some(Mismatch { expected, got, instead: None })
}

fn written(stage: &Stage, query: &Query, sql: &str, batches: &[RecordBatch]) -> Vec<String> {
    let names = batches.first().filter(|_| query.names).map(|batch| {
        let schema = batch.schema();
        schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(" | ")
    });
    let pruning = sql.split_whitespace().nth(1).is_some_and(|word| word.eq_ignore_ascii_case("pruning"));
    let plan = first_word(sql) == "EXPLAIN" && !pruning;
    let rows = if plan { shown::plans(batches) } else { shown::rows(batches) };
    names.into_iter().chain(rows).map(|line| stage.without_paths(&line).trim_end().to_owned()).collect()
}

fn sort_after(lines: &mut [String], header: usize) {
    let header = header.min(lines.len());
    lines[header..].sort();
}

/// The letters of the columns; those that were expected where there is no batch to ask.
fn types(batches: &[RecordBatch], expected: &str) -> String {
    batches.first().map_or_else(
        || expected.to_owned(),
        |batch| batch.schema().fields().iter().map(|field| shown::letter(field.data_type())).collect(),
    )
}

fn files(answer: &Answer) -> (u64, u64) {
    let files = answer.scans.iter().map(|scan| &scan.ledger.files);
    files.fold((0, 0), |(kept, total), tally| (kept + tally.kept(), total + tally.total()))
}

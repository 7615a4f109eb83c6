//! `daygrain export`: what came of it, as one row.
//!
//! ```text
//! arguments ─▶ Session::export ─▶ report row on standard output
//!                   └ counters ─▶ progress on a terminal
//! ```

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray, UInt64Array};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use daygrain::session::{Export, ExportProgress, Exported, Session};
use daygrain::sink::Outcome;
use daygrain::{Code, Error};

use crate::args;
use crate::fault::Stop;
use crate::progress::{Line, PERIOD};
use crate::run::{Shell, tell};

/// Runs an export and prints its report.
pub(crate) async fn run(shell: &mut Shell, arguments: args::Export) -> Result<(), Stop> {
    let started = Instant::now();
    let exported = watched(shell.session.clone(), request(arguments)).await?;
    if !exported.json_paths.is_empty() {
        tell(format_args!("note: kept as JSON text: {}", exported.json_paths.join(", ")));
    }
    if !exported.untyped.is_empty() {
        tell(format_args!("note: left out, as they hold nothing but nulls: {}", exported.untyped.join(", ")));
    }
    shell.print(&report(&exported)?)?;
    if shell.timing {
        shell.report(started.elapsed(), exported.report.rows);
    }
    Ok(())
}

/// Runs an export while a line on the terminal follows it.
pub(crate) async fn watched(session: Session, export: Export) -> Result<Exported, Error> {
    let progress = ExportProgress::default();
    let mut line = Line::on_terminal(progress.clone());
    // A task of its own: the line moves while the export computes. Dropping it cancels the export.
    let mut task = SpawnedTask::spawn(async move { session.export(export, progress).await });
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        tokio::select! {
            done = &mut task => {
                return done.map_err(|error| Error::new(Code::Internal, "the export failed").with("cause", error))?;
            }
            _ = ticks.tick() => {
                if let Some(line) = &mut line {
                    line.draw();
                }
            }
        }
    }
}

/// The report row.
pub(crate) fn report(exported: &Exported) -> Result<RecordBatch, Error> {
    let of = &exported.report;
    let outcome = match of.outcome {
        Outcome::Committed => "committed",
        Outcome::Skipped => "skipped",
        Outcome::Empty => "empty",
    };
    let count = |value: u64| Arc::new(UInt64Array::from(vec![value])) as ArrayRef;
    let text = |value: Option<&str>| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    RecordBatch::try_from_iter_with_nullable([
        ("table", text(Some(&exported.table)), false),
        ("rows", count(of.rows), false),
        ("files", count(of.files), false),
        ("bytes", count(of.bytes), false),
        ("partitions", count(of.partitions), false),
        ("snapshot_id", Arc::new(Int64Array::from(vec![of.snapshot_id])) as ArrayRef, true),
        ("outcome", text(Some(outcome)), false),
        ("batch_id", text(exported.batch_id.as_deref()), true),
    ])
    .map_err(|error| Error::new(Code::Internal, "a report has no columns").source(error))
}

fn request(arguments: args::Export) -> Export {
    Export {
        dataset: arguments.dataset,
        inputs: arguments.inputs,
        query: arguments.query,
        iceberg: arguments.iceberg,
        relocate: arguments.relocate,
        only_new: arguments.only_new,
        table: arguments.table,
        primary_timestamp: arguments.primary_timestamp,
        lookup: arguments.lookup.map(|names| names.0),
        json: arguments.json.map(|names| names.0),
        batch_id: arguments.batch_id,
    }
}

#[cfg(test)]
mod tests {
    use daygrain::sink::Report;

    use super::*;
    use crate::render::{Format, Layout, renderer};

    #[test]
    fn the_report_is_one_row() {
        let report_of = Report {
            rows: 10,
            files: 2,
            bytes: 2_048,
            partitions: 2,
            snapshot_id: Some(i64::MAX),
            outcome: Outcome::Committed,
        };
        let mut exported = Exported {
            table: "main.t".into(),
            report: report_of,
            batch_id: Some("b".into()),
            json_paths: vec![],
            untyped: vec![],
        };
        let shown = |exported: &Exported| {
            let batch = report(exported).unwrap();
            let mut out = Vec::new();
            let layout = Layout { format: Format::Ndjson, width: None, expanded: false };
            renderer(&batch.schema(), layout).batch(&batch, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            shown(&exported),
            "{\"table\":\"main.t\",\"rows\":10,\"files\":2,\"bytes\":2048,\"partitions\":2,\
             \"snapshot_id\":9223372036854775807,\"outcome\":\"committed\",\"batch_id\":\"b\"}\n"
        );
        exported.report = Report { snapshot_id: None, outcome: Outcome::Skipped, ..exported.report };
        exported.batch_id = None;
        assert!(shown(&exported).ends_with("\"snapshot_id\":null,\"outcome\":\"skipped\",\"batch_id\":null}\n"));
    }
}

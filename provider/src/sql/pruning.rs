//! What does `EXPLAIN PRUNING` print?
//!
//! | table | level | total | kept | skipped | reason |
//! |---|---|---|---|---|---|
//! | messages | files | 58 | 3 | 55 | |
//! | messages | files | 58 | | 55 | partition |
//!
//! A row with the level's totals, then one for each reason that skipped something; levels in the order of reading.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};

use crate::error::Result;
use crate::observe::{Reason, Tally};
use crate::scan::ScanReport;

/// A scan of the query and what became of it.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// The ledger: of the run, or of planning alone where metadata answered.
    pub report: ScanReport,
    /// The optimiser answered from metadata: no data file was a candidate.
    pub from_metadata: bool,
}

/// The rows, one block for each scan: `t`, then `t#2`.
///
/// # Errors
/// Only for more rows than Arrow arrays hold.
pub fn pruning_rows(scans: &[Scanned]) -> Result<RecordBatch> {
    let mut rows = Rows::default();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for scan in scans {
        let nth = seen.entry(&scan.report.table).or_default();
        *nth += 1;
        let name = if *nth == 1 { scan.report.table.clone() } else { format!("{}#{nth}", scan.report.table) };
        let ledger = &scan.report.ledger;
        let (mut files, mut delete_files) = (ledger.files.clone(), ledger.delete_files.clone());
        if scan.from_metadata {
            files.demote(Reason::Metadata, files.kept());
            delete_files.demote(Reason::Metadata, delete_files.kept());
        }
        rows.level(&name, "manifests", &ledger.manifests);
        rows.level(&name, "files", &files);
        rows.level(&name, "delete_files", &delete_files);
        rows.level(&name, "row_groups", &ledger.row_groups);
        rows.level(&name, "pages", &ledger.pages);
        rows.level(&name, "rows", &ledger.rows);
    }
    rows.finish()
}

#[derive(Default)]
struct Rows {
    table: Vec<String>,
    level: Vec<&'static str>,
    total: Vec<u64>,
    kept: Vec<Option<u64>>,
    skipped: Vec<u64>,
    reason: Vec<Option<&'static str>>,
}

impl Rows {
    fn level(&mut self, table: &str, level: &'static str, tally: &Tally) {
        let mut row = |kept, skipped, reason| {
            self.table.push(table.to_owned());
            self.level.push(level);
            self.total.push(tally.total());
            self.kept.push(kept);
            self.skipped.push(skipped);
            self.reason.push(reason);
        };
        row(Some(tally.kept()), tally.skipped_total(), None);
        for (reason, skipped) in tally.skipped() {
            row(None, *skipped, Some(reason.as_str()));
        }
    }

    fn finish(self) -> Result<RecordBatch> {
        let schema = ArrowSchema::new(vec![
            Field::new("table", DataType::Utf8, false),
            Field::new("level", DataType::Utf8, false),
            Field::new("total", DataType::UInt64, false),
            Field::new("kept", DataType::UInt64, true),
            Field::new("skipped", DataType::UInt64, false),
            Field::new("reason", DataType::Utf8, true),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(self.table)),
            Arc::new(StringArray::from(self.level)),
            Arc::new(UInt64Array::from(self.total)),
            Arc::new(UInt64Array::from(self.kept)),
            Arc::new(UInt64Array::from(self.skipped)),
            Arc::new(StringArray::from(self.reason)),
        ];
        Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
    }
}

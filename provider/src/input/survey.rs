//! What is in all input files, before any row is passed on?
//!
//! Every file is looked at once, several at a time, and what was found goes together in the order of the files: the same
//! files give the same schema, however the threads ran.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::execution::TaskContext;
use futures::{StreamExt, TryStreamExt, stream};

use crate::error::{Code, Error, Result};
use crate::input::json::shape::{Census, Shape};
use crate::input::ruling::Ruling;
use crate::input::source::{Format, Source};
use crate::input::zones::At;
use crate::input::{columnar, csv, json, lines};

/// What decides how files are looked at.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) ruling: Ruling,
    /// Paths declared as JSON text.
    pub(super) json: HashSet<String>,
    /// The column whose texts must be timestamps, unless its type is known.
    pub(super) timestamp: Option<String>,
}

/// What was found in all files.
#[derive(Debug)]
pub(super) struct Found {
    /// What all rows of NDJSON look like.
    pub(super) rows: Shape,
    /// One for each source, in their order.
    pub(super) files: Vec<File>,
}

/// What was found in one file.
#[derive(Debug)]
pub(super) enum File {
    Ndjson(lines::Marks),
    Csv(csv::Survey),
    Columnar(columnar::Survey),
}

/// Looks at all files, at most `parallel` at a time. Compressed files that need random access are decompressed into
/// temporary files.
///
/// Errors: of the first file, in order, that has one.
pub(super) async fn survey(
    sources: &mut [Source],
    terms: &Arc<Terms>,
    parallel: usize,
    context: &Arc<TaskContext>,
) -> Result<Found> {
    let stop = Stop::default();
    let looks = sources.iter().cloned().enumerate().map(|(at, source)| {
        let (terms, context, cancelled) = (Arc::clone(terms), Arc::clone(context), stop.watch());
        async move {
            let look = move || look(source, at, &terms, &context, &cancelled);
            tokio::task::spawn_blocking(look)
                .await
                .map_err(|e| Error::new(Code::Internal, "reading failed").source(e))?
        }
    });
    let mut looks = stream::iter(looks).buffered(parallel.max(1));
    let mut found = Found { rows: Shape::of_rows(), files: Vec::with_capacity(sources.len()) };
    let mut looked_at = Vec::with_capacity(sources.len());
    while let Some((source, seen)) = looks.try_next().await? {
        looked_at.push(source);
        found.files.push(match seen {
            Seen::Ndjson(survey) => {
                found.rows.merge(survey.rows);
                found.rows.check(sources)?;
                File::Ndjson(survey.marks)
            }
            Seen::File(file) => file,
        });
    }
    drop(looks);
    for (source, looked_at) in sources.iter_mut().zip(looked_at) {
        *source = looked_at;
    }
    Ok(found)
}

enum Seen {
    Ndjson(json::Survey),
    File(File),
}

fn look(
    mut source: Source,
    at: usize,
    terms: &Terms,
    context: &TaskContext,
    cancelled: &Cancelled,
) -> Result<(Source, Seen)> {
    let timestamp = terms.timestamp.as_deref();
    let seen = match source.format() {
        Format::Ndjson => {
            let census = Census { json: &terms.json, timestamp, at: At { file: at, line: 0 }, fields: 0 };
            Seen::Ndjson(json::survey(&source, census, cancelled)?)
        }
        Format::Csv => Seen::File(File::Csv(csv::survey(&source, at, timestamp, &terms.ruling, cancelled)?)),
        Format::Parquet | Format::Arrow => {
            if columnar::needs_random_access(&source)? {
                source.spool(context)?;
            }
            Seen::File(File::Columnar(columnar::survey(&source, at, timestamp, cancelled)?))
        }
    };
    Ok((source, seen))
}

/// Stops the threads that look at files when the future that waits for them is dropped.
#[derive(Debug, Default)]
struct Stop(Arc<AtomicBool>);

impl Stop {
    fn watch(&self) -> Cancelled {
        Cancelled(Arc::clone(&self.0))
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether nobody waits any more.
#[derive(Debug)]
pub(super) struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    /// Called with a line number that goes up by one; looks at the flag once in a while.
    ///
    /// Errors: `interrupted`.
    pub(super) fn check(&self, line: u64) -> Result<()> {
        if line.is_multiple_of(256) && self.0.load(Ordering::Relaxed) {
            return Err(Error::new(Code::Interrupted, "reading was interrupted"));
        }
        Ok(())
    }
}

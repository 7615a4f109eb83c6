//! Why did a run stop?

use std::io;

use datafusion::error::DataFusionError;
use daygrain::{Code, Error};

/// What ends a script before its last statement.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A statement or action failed.
    Failed(Error),
    /// Nobody reads standard output any more.
    Closed,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

impl From<DataFusionError> for Stop {
    fn from(error: DataFusionError) -> Self {
        Stop::Failed(engine(&error))
    }
}

/// A failed write to standard output.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::Closed,
            io::ErrorKind::StorageFull => Stop::Failed(unwritten(Code::StorageFull, error)),
            _ => Stop::Failed(unwritten(Code::StorageFailed, error)),
        }
    }
}

fn unwritten(code: Code, error: io::Error) -> Error {
    Error::new(code, "standard output can't be written").with("cause", &error).source(error)
}

/// The error of a running query: ours where it came from us, however deep the engine wrapped it.
pub(crate) fn engine(error: &DataFusionError) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(own) = inner.downcast_ref::<Error>() {
            return again(own);
        }
        if let Some(DataFusionError::ResourcesExhausted(what)) = inner.downcast_ref() {
            return Error::new(Code::MemoryLimit, what.clone())
                .help("raise --memory-limit, or let the query keep less: fewer groups, a LIMIT, a narrower range");
        }
        cause = inner.source();
    }
    Error::new(Code::QueryFailed, error.strip_backtrace())
}

/// An error behind a reference, as one of its own.
fn again(error: &Error) -> Error {
    let mut copy = Error::new(error.code(), error.what());
    for (key, value) in error.context() {
        copy = copy.with(key, value);
    }
    match error.help_text() {
        Some(help) => copy.help(help),
        None => copy,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::error::ArrowError;

    use super::*;

    #[test]
    fn our_own_errors_come_back_out_of_the_engine() {
        let own = || Error::new(Code::DataFileCorrupt, "cut").with("file", "a.parquet").help("restore it");
        let wrapped = DataFusionError::External(Box::new(own()));
        let deep = DataFusionError::Shared(Arc::new(
            DataFusionError::from(ArrowError::ExternalError(Box::new(wrapped))).context("while reading"),
        ));
        assert_eq!(engine(&deep).to_string(), own().to_string());
    }

    #[test]
    fn other_errors_get_a_code() {
        let memory = DataFusionError::ResourcesExhausted("too much".into()).context("sorting");
        assert_eq!(engine(&memory).code(), Code::MemoryLimit);
        let divided = DataFusionError::from(ArrowError::DivideByZero);
        assert_eq!(engine(&divided).to_string(), "error[query_failed]: Arrow error: Divide by zero error");
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        assert!(matches!(Stop::from(io::Error::from(io::ErrorKind::BrokenPipe)), Stop::Closed));
        let Stop::Failed(error) = Stop::from(io::Error::from(io::ErrorKind::StorageFull)) else { panic!("closed") };
        assert_eq!(error.code(), Code::StorageFull);
    }
}

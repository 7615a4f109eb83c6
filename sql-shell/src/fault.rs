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
        Stop::Failed(error.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure() {
        assert!(matches!(Stop::from(io::Error::from(io::ErrorKind::BrokenPipe)), Stop::Closed));
        let Stop::Failed(error) = Stop::from(io::Error::from(io::ErrorKind::StorageFull)) else { panic!("closed") };
        assert_eq!(error.code(), Code::StorageFull);
    }
}

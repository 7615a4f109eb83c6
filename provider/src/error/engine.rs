//! Which of our errors is an error of the engine?
//!
//! Our own errors travel through DataFusion, Arrow and Parquet as external errors and come back whole. The rest is sorted
//! by what the caller can do about it.

use std::error::Error as StdError;
use std::io;
use std::num::{ParseFloatError, ParseIntError};
use std::str::ParseBoolError;

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use parquet::errors::ParquetError;

use super::words::{self, first_line};
use super::{Code, Error, causes, code_of};

impl From<Error> for DataFusionError {
    fn from(e: Error) -> Self {
        DataFusionError::External(Box::new(e))
    }
}

impl From<Error> for ArrowError {
    fn from(e: Error) -> Self {
        ArrowError::ExternalError(Box::new(e))
    }
}

impl From<Error> for ParquetError {
    fn from(e: Error) -> Self {
        ParquetError::External(Box::new(e))
    }
}

impl From<iceberg::Error> for Error {
    fn from(e: iceberg::Error) -> Self {
        match find(&e) {
            Some(ours) => ours,
            None => Error::new(Code::Internal, "the table format library refused").with("cause", e.message()).source(e),
        }
    }
}

impl From<ArrowError> for Error {
    fn from(e: ArrowError) -> Self {
        find(&e).unwrap_or_else(|| arrow(&e).source(e))
    }
}

impl From<DataFusionError> for Error {
    fn from(e: DataFusionError) -> Self {
        find(&e).unwrap_or_else(|| classify(&e).source(e))
    }
}

/// One of our errors among `e` and what caused it.
fn find(e: &(dyn StdError + 'static)) -> Option<Error> {
    let mut next = Some(e);
    while let Some(e) = next {
        if let Some(ours) = e.downcast_ref::<Error>() {
            return Some(ours.clone());
        }
        // `io::Error` and `DataFusionError::Shared` hide their content from `source`.
        if let Some(io) = e.downcast_ref::<io::Error>()
            && let Some(ours) = io.get_ref().and_then(|inner| find(inner))
        {
            return Some(ours);
        }
        if let Some(DataFusionError::Shared(inner)) = e.downcast_ref::<DataFusionError>() {
            return find(inner.as_ref());
        }
        next = e.source();
    }
    None
}

fn classify(e: &DataFusionError) -> Error {
    match e {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => classify(inner),
        DataFusionError::Shared(inner) => classify(inner),
        DataFusionError::Collection(all) => {
            all.first().map_or_else(|| Error::new(Code::Internal, "the engine failed without saying why"), classify)
        }
        DataFusionError::SQL(e, _) => syntax(e),
        DataFusionError::SchemaError(e, _) => schema(e),
        DataFusionError::Plan(text) => words::plan(text),
        DataFusionError::NotImplemented(text) => words::unsupported(text),
        DataFusionError::Configuration(text) => Error::new(Code::InvalidArgument, first_line(text)),
        DataFusionError::ResourcesExhausted(text) => exhausted(text),
        DataFusionError::IoError(e) => stored(e),
        DataFusionError::ArrowError(e, _) => arrow(e),
        DataFusionError::ParquetError(e) => Error::new(Code::DataFileCorrupt, first_line(&e.to_string())),
        DataFusionError::ObjectStore(e) => stored(e.as_ref()),
        DataFusionError::Execution(text) => words::execution(text),
        DataFusionError::Internal(text) => words::fault(text),
        DataFusionError::External(e) => external(e.as_ref()),
        other => words::execution(&other.strip_backtrace()),
    }
}

/// An error of a kernel. Values that a kernel has no result for are the user's.
fn arrow(e: &ArrowError) -> Error {
    let text = first_line(&e.to_string());
    match e {
        ArrowError::ExternalError(e) => external(e.as_ref()),
        ArrowError::IoError(_, e) => stored(e),
        ArrowError::CastError(_) | ArrowError::ParseError(_) => Error::new(Code::InvalidValue, text),
        ArrowError::DivideByZero | ArrowError::ArithmeticOverflow(_) => Error::new(Code::InvalidValue, text),
        ArrowError::MemoryError(_) => Error::new(Code::MemoryLimit, text),
        ArrowError::NotYetImplemented(_) => Error::new(Code::NotSupported, text),
        ArrowError::CsvError(_) | ArrowError::JsonError(_) => Error::new(Code::InputCorrupt, text),
        // Rows to be written are held against a schema that requires values, and those of a recursive query against that of its
        // first term.
        ArrowError::InvalidArgumentError(why) if why.contains("non-nullable but contains null") => {
            // Of VALUES the engine knows the place only: column1 is the first.
            let column = why.split('\'').nth(1).unwrap_or(why);
            Error::new(Code::IcebergDataWriteFailed, "a required column would hold null")
                .with("column", column)
                .with("cause", text)
                .help(
                    "give the column a value; of VALUES, column1 is the first place; of a recursive query the first term \
                     decides what may be null: nullif(x, x + 1) instead of x",
                )
        }
        ArrowError::InvalidArgumentError(why) | ArrowError::ComputeError(why) => {
            words::recognised(why).unwrap_or_else(|| Error::new(Code::QueryFailed, text))
        }
        _ => Error::new(Code::QueryFailed, text),
    }
}

/// An error of neither the engine nor ours: of a library that a function or an option calls.
fn external(e: &(dyn StdError + Send + Sync + 'static)) -> Error {
    if let Some(e) = e.downcast_ref::<DataFusionError>() {
        return classify(e);
    }
    if let Some(e) = e.downcast_ref::<ArrowError>() {
        return arrow(e);
    }
    if causes(e).any(|cause| cause.is::<io::Error>() || cause.is::<object_store::Error>()) {
        return stored(e);
    }
    // What options say of their values.
    if e.is::<ParseIntError>() || e.is::<ParseFloatError>() || e.is::<ParseBoolError>() {
        return Error::new(Code::InvalidArgument, first_line(&e.to_string()));
    }
    words::execution(&e.to_string())
}

/// What the operating system or a store answered.
fn stored(e: &(dyn StdError + 'static)) -> Error {
    Error::new(code_of(e), first_line(&e.to_string()))
}

/// The pool's report: a line that ends with a colon, one line for each of the largest consumers, and what was asked for.
fn exhausted(text: &str) -> Error {
    let mut error = Error::new(Code::MemoryLimit, "the memory limit was reached");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take_while(|line| *line != "backtrace:");
    let (mut holders, mut cause) = (Vec::new(), None);
    for line in lines {
        if let Some(asked) = line.strip_prefix("Error: ") {
            cause = Some(asked);
        } else if line.contains("(can spill: ") {
            holders.push(line.trim_end_matches(['.', ',']));
        } else if cause.is_none() {
            cause = Some(line.split(" with top memory consumers").next().unwrap_or(line));
        }
    }
    error = error.with("cause", cause.unwrap_or("the engine does not say"));
    if !holders.is_empty() {
        error = error.with("held by", holders.join("; "));
    }
    error.help("raise --memory-limit, lower --threads, or make the query smaller")
}

fn syntax(e: &ParserError) -> Error {
    let text = match e {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => first_line(text),
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
    };
    Error::new(Code::SqlSyntax, text)
}

fn schema(e: &SchemaError) -> Error {
    match e {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let names: Vec<String> = valid_fields.iter().map(|column| column.name().to_owned()).collect();
            let error = Error::new(Code::UnknownColumn, format!("there is no column {}", field.flat_name()));
            if names.is_empty() { error } else { error.with("columns", names.join(", ")) }
        }
        SchemaError::AmbiguousReference { field } => {
            Error::new(Code::AmbiguousName, format!("the column {} is ambiguous", field.flat_name()))
        }
        other => Error::new(Code::SqlPlan, first_line(&other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn ours() -> Error {
        Error::new(Code::IcebergDataWriteFailed, "a required column holds null").with("column", "at")
    }

    #[test]
    fn our_errors_come_back_whole() {
        let wrapped: Vec<DataFusionError> = vec![
            ours().into(),
            DataFusionError::from(ours()).context("while writing"),
            DataFusionError::Shared(Arc::new(ours().into())),
            DataFusionError::ArrowError(Box::new(ours().into()), None),
            DataFusionError::ParquetError(Box::new(ours().into())),
            DataFusionError::IoError(io::Error::other(ours())),
            DataFusionError::Shared(Arc::new(DataFusionError::Shared(Arc::new(ours().into())))),
        ];
        for e in wrapped {
            let text = e.to_string();
            let back = Error::from(e);
            assert_eq!((back.code(), back.context().len()), (Code::IcebergDataWriteFailed, 1), "{text}");
        }
    }

    #[test]
    fn an_exhausted_pool_says_who_holds_it() {
        let text = "Additional allocation failed for foo with top memory consumers (across reservations) as:\n  \
                    foo#1(can spill: false) consumed 10.0 B, peak 10.0 B,\n  bar#2(can spill: true) consumed 0.0 B, peak \
                    0.0 B.\nError: Failed to allocate additional 150.0 B for foo";
        let shown = Error::from(DataFusionError::ResourcesExhausted(text.into())).to_string();
        let lines: Vec<_> = shown.lines().skip(1).collect();
        assert_eq!(
            lines[..2],
            [
                "  cause: Failed to allocate additional 150.0 B for foo",
                "  held by: foo#1(can spill: false) consumed 10.0 B, peak 10.0 B; bar#2(can spill: true) consumed 0.0 B, \
                 peak 0.0 B"
            ]
        );
    }

    #[test]
    fn the_engines_errors_get_a_code() {
        for (e, code) in [
            (DataFusionError::Plan("table 'daygrain.main.t' not found".into()), Code::UnknownTable),
            (DataFusionError::Plan("Invalid function 'foo'.\nDid you mean 'floor'?".into()), Code::UnknownFunction),
            (DataFusionError::ResourcesExhausted("x".into()), Code::MemoryLimit),
            (DataFusionError::NotImplemented("x".into()), Code::NotSupported),
            (DataFusionError::IoError(io::Error::from(io::ErrorKind::StorageFull)), Code::StorageFull),
            (DataFusionError::SQL(Box::new(ParserError::ParserError("Expected: x".into())), None), Code::SqlSyntax),
            (DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None), Code::InvalidValue),
            (DataFusionError::Execution("Overflow happened on FACTORIAL(100)".into()), Code::InvalidValue),
            (DataFusionError::Execution("map key cannot be null".into()), Code::QueryFailed),
            (DataFusionError::Internal("array_resize: failed to convert size to usize".into()), Code::QueryFailed),
            (DataFusionError::External("x".parse::<i8>().unwrap_err().into()), Code::InvalidArgument),
            (
                DataFusionError::External(Box::new(DataFusionError::Execution(
                    "Month value '13' is out of range".into(),
                ))),
                Code::InvalidValue,
            ),
            (
                DataFusionError::ObjectStore(Box::new(object_store::Error::NotFound {
                    path: "a".into(),
                    source: "gone".into(),
                })),
                Code::FileNotFound,
            ),
        ] {
            assert_eq!(Error::from(e).code(), code);
        }
    }
}

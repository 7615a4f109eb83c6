//! How does an error say which value is wrong, and why?

use crate::error::{Code, Error};
use crate::input::json::tape::Kind;
use crate::input::stamp;
use crate::input::types::Type;

/// The error of a value whose kind isn't the column's.
pub(super) fn clash(path: &str, column: &str, found: &str) -> Error {
    Error::new(Code::IcebergSchemaIncompatible, format!("{found} stands in a column of type {column}"))
        .with("path", path)
        .help("write to a new table, or declare the column as json when the table is made")
}

/// The error of a column that is declared as JSON text and has another type.
pub(super) fn not_text(path: &str, column: &str) -> Error {
    Error::new(Code::IcebergSchemaIncompatible, format!("a column of type {column} can't hold JSON text"))
        .with("path", path)
        .help("don't declare the column as json, or write to a new table")
}

/// What a value is, with its article.
pub(super) fn describe(kind: &Kind<'_>) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Bool(_) => "a boolean",
        Kind::Int(_) => "an integer",
        Kind::Float(_) => "a number with a fraction",
        Kind::Text(_) => "text",
        Kind::List(_) => "a list",
        Kind::Object(_) => "an object",
    }
}

/// The error of a value that its column's type can't hold.
pub(super) fn invalid(path: &str, ty: &Type, text: &str, why: &str) -> Error {
    let error = Error::new(Code::InputValueInvalid, format!("not a value of type {}", ty.name()))
        .with("path", path)
        .with("value", shorten(text))
        .with("reason", why);
    if matches!(ty, Type::Timestamp { .. }) { error.help(stamp::ACCEPTED) } else { error }
}

/// The begin of a value, for messages.
pub(super) fn shorten(text: &str) -> String {
    const SHOWN: usize = 100;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

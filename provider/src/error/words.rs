//! What does the engine mean by its words?
//!
//! Planning and functions say in words only what is wrong. What a user can correct gets the code of its kind here;
//! what is not recognised is `sql_plan` or `query_failed`, with the engine's words.

use super::{Code, Error};

/// Parts of what functions and kernels say of a value that they have no result for, in lower case.
const NO_RESULT: &[&str] = &[
    "overflow",
    "out of range",
    "have to be between",
    "too large to store in a decimal",
    "too small to store in a decimal",
    "error parsing timestamp",
    "failed to decode",
    "invalid unicode scalar value",
    "unsupported date_trunc granularity",
    "date part '",
    "stride must be non-zero",
    "negative substring length",
];

/// A statement that cannot be planned.
pub(super) fn plan(text: &str) -> Error {
    let text = first_line(text);
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("table '") && lower.contains("not found") {
        let name = quoted(&text);
        return Error::new(Code::UnknownTable, format!("there is no table {}", name.trim_start_matches("daygrain.")))
            .help("SHOW TABLES lists what there is");
    }
    if lower.starts_with("failed to resolve schema") || lower.starts_with("failed to resolve catalog") {
        return Error::new(Code::UnknownNamespace, text);
    }
    if lower.starts_with("invalid function '") || lower.contains("function '") && lower.contains("not found") {
        return Error::new(Code::UnknownFunction, format!("there is no function {}", quoted(&text)));
    }
    Error::new(Code::SqlPlan, text)
}

/// What the engine has no plan for. What it couldn't plan it shows as it is in memory, on several screens perhaps.
pub(super) fn unsupported(text: &str) -> Error {
    let line = first_line(text);
    let Some((_, expression)) = line.split_once("Physical plan does not support logical expression ") else {
        return Error::new(Code::NotSupported, line);
    };
    let kind = expression.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let (what, help) = match kind {
        "InSubquery" => (
            "IN with a query is not supported as a value",
            "as a condition of WHERE it is; elsewhere LEFT JOIN what the query yields, without duplicates",
        ),
        "Exists" => (
            "EXISTS is not supported as a value",
            "as a condition of WHERE it is; elsewhere compare (SELECT count(*) …) with 0",
        ),
        "OuterReferenceColumn" => (
            "a subquery that refers to the query around it is not supported in this place",
            "join what it yields: the columns that it compares, and ON for the comparison",
        ),
        "ScalarSubquery" => ("a subquery is not supported as a value in this place", "join what it yields"),
        other => return Error::new(Code::NotSupported, format!("an expression of kind {other} is not supported here")),
    };
    Error::new(Code::NotSupported, what).help(help)
}

/// Something that failed while a statement ran.
pub(super) fn execution(text: &str) -> Error {
    recognised(text).unwrap_or_else(|| Error::new(Code::QueryFailed, first_line(text)))
}

/// What the engine calls a fault of its own. Its functions say so of faulty arguments too, so that the user's part in it
/// cannot be told from the engine's.
pub(super) fn fault(text: &str) -> Error {
    recognised(text).unwrap_or_else(|| {
        Error::new(Code::QueryFailed, first_line(text))
            .help("check the arguments of functions and operators; if they are right, report the statement")
    })
}

/// What is recognised of the words of an error, whatever layer said them.
pub(super) fn recognised(text: &str) -> Option<Error> {
    let lower = text.to_ascii_lowercase();
    let line = || first_line(text);
    if lower.contains("regex parse error") || lower.contains("regular expression did not compile") {
        return Some(regular_expression(text));
    }
    if lower.starts_with("placeholder '") {
        return Some(Error::new(Code::SqlPlan, line()).help("PREPARE the statement, and EXECUTE it with values"));
    }
    if lower.starts_with("prepared statement '") && lower.contains("does not exist") {
        return Some(Error::new(Code::SqlPlan, line()).help("PREPARE makes one, for this session"));
    }
    if lower.contains("' already exists") {
        return Some(Error::new(Code::AlreadyExists, line()));
    }
    if let Some(format) = lower.strip_prefix("unable to find factory for ") {
        let format = format.trim_end_matches('.').to_ascii_uppercase();
        return Some(
            Error::new(Code::NotSupported, format!("STORED AS {format} is not supported"))
                .help("the formats are ICEBERG, PARQUET, CSV, JSON and ARROW"),
        );
    }
    if lower.starts_with("like does not support") {
        return Some(Error::new(Code::NotSupported, line()));
    }
    if lower.contains("encountered while finalizing writes") {
        return Some(
            Error::new(Code::StorageFailed, "the file could not be written, and a part of it may be there")
                .help("check that the directory can be written to and has room"),
        );
    }
    NO_RESULT.iter().any(|part| lower.contains(part)).then(|| Error::new(Code::InvalidValue, line()))
}

/// A pattern that does not compile. The reason stands in a line below a drawing of the pattern, if anywhere.
fn regular_expression(text: &str) -> Error {
    let reason = text.lines().find_map(|line| line.trim().strip_prefix("error: "));
    let error = Error::new(Code::InvalidValue, "the regular expression is not valid");
    match reason {
        Some(reason) => error.with("cause", reason),
        None => error.with("cause", first_line(text)),
    }
}

/// The first line that says something: back traces and notes to the engine's developers are left out.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    // A planner's error repeats that of the function that it asked.
    let prefixes = ["Error during planning: ", "Internal error: ", "Execution error: ", "External error: "];
    let line = prefixes.iter().fold(line, |line, prefix| line.strip_prefix(prefix).unwrap_or(line));
    line.trim_end_matches('.').to_owned()
}

fn quoted(text: &str) -> &str {
    text.split('\'').nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_does_not_compile_says_why() {
        let drawing = "regex parse error:\n    (\n    ^\nerror: unclosed group";
        for text in [drawing.to_owned(), format!("Regular expression did not compile: Syntax(\n~~~\n{drawing}\n~~~\n)")]
        {
            let error = execution(&text);
            assert_eq!(error.code(), Code::InvalidValue);
            assert_eq!(error.context(), [("cause", "unclosed group".to_owned())]);
        }
        let error = fault("failed to call 'f' Compute error: Regular expression did not compile: CompiledTooBig(1)");
        assert_eq!(error.code(), Code::InvalidValue);
    }

    #[test]
    fn what_the_engine_has_no_plan_for_is_named() {
        let refused = "Physical plan does not support logical expression";
        let dump = format!("{refused} InSubquery(InSubquery {{ expr: Column(Column {{ relation: None }}) }})");
        assert_eq!(unsupported(&dump).what(), "IN with a query is not supported as a value");
        let unknown = unsupported(&format!("{refused} Grouping(x)"));
        assert_eq!(unknown.what(), "an expression of kind Grouping is not supported here");
        assert_eq!(unsupported("CLUSTER BY").what(), "CLUSTER BY");
    }

    #[test]
    fn what_is_not_recognised_keeps_its_words() {
        let error = execution("map key cannot be null");
        assert_eq!(
            (error.code(), error.what(), error.help_text()),
            (Code::QueryFailed, "map key cannot be null", None)
        );
        assert!(fault("array_resize: failed to convert size to usize").help_text().is_some());
        assert_eq!(
            plan("Internal error: Function 'sum' failed to match any signature").what().find("Function"),
            Some(0)
        );
    }
}

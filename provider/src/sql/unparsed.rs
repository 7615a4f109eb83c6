//! Which statement that isn't there yet did the parser not understand?
//!
//! Iceberg's own statements go beyond the parser's grammar. Whoever types one is told that it isn't there yet, and not that
//! a word in it is wrong.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::error::{Code, Error};

/// Statements by their first words; a word in brackets may be left out.
const STATEMENTS: [(&[&str], &str); 9] = [
    (&["CREATE", "[OR]", "[REPLACE]", "[TEMPORARY]", "TABLE"], "CREATE TABLE"),
    (&["ALTER", "TABLE"], "ALTER TABLE"),
    (&["CALL"], "CALL"),
    (&["DELETE"], "DELETE"),
    (&["UPDATE"], "UPDATE"),
    (&["MERGE"], "MERGE INTO"),
    (&["INSERT", "OVERWRITE"], "INSERT OVERWRITE"),
    (&["DESCRIBE", "[TABLE]", "EXTENDED"], "DESCRIBE TABLE EXTENDED"),
    (&["SHOW", "TBLPROPERTIES"], "SHOW TBLPROPERTIES"),
];

/// The refusal, by name, of a text that is no statement of the grammar; `None` where it is just wrong.
pub(super) fn refused(text: &str) -> Option<Error> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().ok()?;
    let tokens = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    let words: Vec<String> = tokens
        .map(|token| match token {
            Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
            _ => String::new(),
        })
        .collect();
    let words = match words.as_slice() {
        [explain, what, rest @ ..] if explain == "EXPLAIN" && ["ANALYZE", "PRUNING"].contains(&what.as_str()) => rest,
        [explain, rest @ ..] if explain == "EXPLAIN" => rest,
        words => words,
    };
    let (_, name) = STATEMENTS.iter().find(|(start, _)| begins(words, start))?;
    Some(Error::new(Code::NotSupported, format!("{name} is not supported yet")))
}

fn begins(mut words: &[String], start: &[&str]) -> bool {
    start.iter().all(|wanted| {
        let bare = wanted.trim_matches(['[', ']']);
        match words.split_first() {
            Some((word, rest)) if word == bare => {
                words = rest;
                true
            }
            _ => bare != *wanted,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_yet_is_named() {
        for (sql, name) in [
            ("create table t (a int) partitioned by (days(ts))", "CREATE TABLE"),
            ("create or replace table t (x y z w)", "CREATE TABLE"),
            ("alter table t add partition field bucket(4, s)", "ALTER TABLE"),
            ("explain alter table t write ordered by n", "ALTER TABLE"),
            ("describe table extended t", "DESCRIBE TABLE EXTENDED"),
        ] {
            let error = refused(sql).unwrap_or_else(|| panic!("{sql} is not refused"));
            assert_eq!((error.code(), error.what()), (Code::NotSupported, &*format!("{name} is not supported yet")));
        }
        for sql in [
            "selec 1",
            "select 'open",
            "explain",
            "",
            "create external table t (",
            "create view v",
            "select 'version as of' from",
            "select \"version\" as of from",
            "describe a b",
        ] {
            assert!(refused(sql).is_none(), "{sql}");
        }
    }
}

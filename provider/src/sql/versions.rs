//! How is it written which version of a table is read?
//!
//! ```text
//! t VERSION AS OF 7, t FOR VERSION AS OF 'v1', t FOR SYSTEM_VERSION AS OF 7      t FOR SYSTEM_TIME AS OF 7
//! t FOR TIMESTAMP AS OF now(), t FOR SYSTEM_TIME AS OF '2026-06-04'              t TIMESTAMP AS OF …
//! ```
//!
//! The parser knows some spellings, and not all that they may be followed by. Each is given one of two that it reads: in the
//! syntax tree [`FOR SYSTEM_TIME`](datafusion::sql::sqlparser::ast::TableVersion::ForSystemTimeAsOf) is a version then, and
//! [`TIMESTAMP`](datafusion::sql::sqlparser::ast::TableVersion::TimestampAsOf) a time.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

use crate::error::Error;

/// Words that are no names of tables although something that could be a version may follow.
const NO_NAMES: [&str; 6] = ["NOT", "DISTINCT", "ALL", "CASE", "INTERVAL", "SELECT"];

/// The tokens of a statement with its versions spelled for the parser, and whether there are any.
pub(super) fn spelled(written: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, bool) {
    let solid = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let mut tokens: Vec<TokenWithSpan> = written.iter().filter(solid).cloned().collect();
    let found: Vec<Found> = (0..tokens.len()).filter_map(|at| Found::at(&tokens, at)).collect();
    if found.is_empty() {
        return (written, false);
    }
    keep_names(&mut tokens);
    let mut spelled = Vec::with_capacity(tokens.len() + 2);
    let mut from = 0;
    for Found { start, end, words } in found {
        spelled.extend(tokens.get(from..start).unwrap_or_default().iter().cloned());
        let span = tokens.get(start).map_or_else(Span::empty, |token| token.span);
        spelled.extend(words.iter().map(|word| TokenWithSpan { token: Token::make_keyword(word), span }));
        from = end;
    }
    spelled.extend(tokens.get(from..).unwrap_or_default().iter().cloned());
    (spelled, true)
}

/// A syntax error, with what to do if it may be a version's that stands elsewhere.
pub(super) fn explained(text: &str, error: Error) -> Error {
    let text = text.to_ascii_uppercase();
    let spelled = ["VERSION AS OF", "TIMESTAMP AS OF", "SYSTEM_TIME AS OF"];
    match spelled.iter().any(|words| text.contains(words)) {
        true => {
            error.help("the version of a table stands right after its name and before an alias: t VERSION AS OF 7 AS x")
        }
        false => error,
    }
}

/// Where a version begins, where what it is begins, and the words that stand between from now on.
struct Found {
    start: usize,
    end: usize,
    words: &'static [&'static str],
}

impl Found {
    /// The version that follows the name of a table, whose first word after an optional FOR is `at`.
    fn at(tokens: &[TokenWithSpan], at: usize) -> Option<Self> {
        let is = |at: usize, wanted: &str| plain(tokens, at).is_some_and(|word| word.eq_ignore_ascii_case(wanted));
        let words: &[&str] = match () {
            () if is(at, "VERSION") || is(at, "SYSTEM_VERSION") => &["FOR", "SYSTEM_TIME", "AS", "OF"],
            () if is(at, "TIMESTAMP") || is(at, "SYSTEM_TIME") => &["TIMESTAMP", "AS", "OF"],
            () => return None,
        };
        if !(is(at + 1, "AS") && is(at + 2, "OF")) {
            return None;
        }
        let start = at.checked_sub(1).filter(|before| is(*before, "FOR")).unwrap_or(at);
        names_a_table(tokens, start.checked_sub(1)?).then_some(Found { start, end: at + 3, words })
    }
}

/// Whether a name that ends at `last` stands where a table is named: elsewhere `version` may be a column and `of` its alias.
fn names_a_table(tokens: &[TokenWithSpan], mut last: usize) -> bool {
    let part = |at: usize| tokens.get(at).is_some_and(|token| matches!(token.token, Token::Word(_)));
    let dot = |at: usize| tokens.get(at).is_some_and(|token| token.token == Token::Period);
    if !part(last) {
        return false;
    }
    while last >= 2 && dot(last - 1) && part(last - 2) {
        last -= 2;
    }
    if plain(tokens, last).is_some_and(|word| NO_NAMES.iter().any(|no| word.eq_ignore_ascii_case(no))) {
        return false;
    }
    let Some(before) = last.checked_sub(1).and_then(|before| tokens.get(before)) else { return false };
    match &before.token {
        Token::Comma | Token::LParen => true,
        Token::Word(word) if word.quote_style.is_none() => {
            ["FROM", "JOIN", "USING"].iter().any(|opens| word.value.eq_ignore_ascii_case(opens))
        }
        _ => false,
    }
}

/// With versions the parser takes `at` and `before` after a table for the beginning of one of its own; here they are names.
fn keep_names(tokens: &mut [TokenWithSpan]) {
    for at in 0..tokens.len() {
        let zone = plain(tokens, at + 1).is_some_and(|next| next.eq_ignore_ascii_case("TIME"));
        if let Some(TokenWithSpan { token: Token::Word(Word { value, quote_style: quote @ None, keyword }), .. }) =
            tokens.get_mut(at)
            && ["AT", "BEFORE"].iter().any(|word| value.eq_ignore_ascii_case(word))
            && !zone
        {
            (*quote, *keyword) = (Some('"'), Keyword::NoKeyword);
        }
    }
}

fn plain(tokens: &[TokenWithSpan], at: usize) -> Option<&str> {
    match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn read(sql: &str) -> String {
        let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap();
        let solid = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
        let words: Vec<String> = spelled(tokens).0.iter().filter(solid).map(|token| token.token.to_string()).collect();
        words.join(" ")
    }

    #[test]
    fn every_spelling_is_one_of_two() {
        for (written, meant) in [
            ("select 1 from t version as of 7", "FOR SYSTEM_TIME AS OF 7"),
            ("select 1 from a.t FOR Version AS OF 'v1'", "FOR SYSTEM_TIME AS OF 'v1'"),
            ("select 1 from \"t\" for system_version as of 7", "FOR SYSTEM_TIME AS OF 7"),
            ("select 1 from t timestamp as of '2026'", "TIMESTAMP AS OF '2026'"),
            ("select 1 from t for timestamp as of '2026'", "TIMESTAMP AS OF '2026'"),
            ("select 1 from a, t for system_time as of '2026'", "TIMESTAMP AS OF '2026'"),
            ("select 1 from a join t system_time as of '2026'", "TIMESTAMP AS OF '2026'"),
        ] {
            assert!(read(written).ends_with(meant), "{written}: {}", read(written));
        }
    }

    #[test]
    fn other_words_are_left_alone() {
        for sql in [
            "select version as of from t",
            "select a , version as of from t",
            "select t . version as of from t",
            "select a , not version as of from t",
            "select 1 from version as of",
            "select 1 from t where \"version\" as of",
            "select at from t at",
            "select 'version as of 1' from t",
        ] {
            assert_eq!(read(sql), sql);
        }
        assert_eq!(
            read("select at from t version as of 1 at where x at time zone 'UTC' > y"),
            "select \"at\" from t FOR SYSTEM_TIME AS OF 1 \"at\" where x at time zone 'UTC' > y"
        );
    }
}

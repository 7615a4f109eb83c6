//! Where does one statement of a script end, and what kind is it?

use datafusion::common::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement as DfStatement};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::dialect::Sql;
use super::{unparsed, versions};
use crate::error::{Code, Error, Result};

/// How deeply expressions may nest before the parser refuses, rather than exhaust its stack: the parser's own default.
const RECURSION_LIMIT: usize = 50;

/// One statement of a script, not parsed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The statement as written, without its semicolon.
    pub text: String,
    /// The line it starts in, from 1.
    pub line: u64,
}

/// A parsed statement.
#[derive(Clone, Debug)]
pub enum Parsed {
    /// DataFusion's grammar.
    Sql(Box<DfStatement>),
    /// `EXPLAIN PRUNING <query>`
    ExplainPruning(Box<DfStatement>),
}

/// Splits a script at its semicolons: those outside quotes and comments. Pieces without a statement are left out. A tail
/// that is no SQL at all is a piece too: it fails when its turn comes, after those before it have run.
pub fn split(script: &str) -> Vec<Piece> {
    let mut tokens: Vec<TokenWithSpan> = Vec::new();
    let complete = Tokenizer::new(&GenericDialect {}, script).tokenize_with_location_into_buf(&mut tokens).is_ok();
    let offsets = Offsets::new(script);
    let mut pieces = Vec::new();
    let mut first: Option<Location> = None;
    for token in &tokens {
        match token.token {
            Token::Whitespace(_) => {}
            Token::SemiColon => {
                if let Some(start) = first.take() {
                    pieces.push(offsets.piece(script, start, offsets.byte(token.span.start)));
                }
            }
            _ => first = first.or(Some(token.span.start)),
        }
    }
    if let Some(start) = first {
        pieces.push(offsets.piece(script, start, script.len()));
    } else if !complete {
        let end = tokens.last().map_or(0, |token| offsets.byte(token.span.end));
        let rest = script.get(end..).unwrap_or_default();
        let line = 1 + script.get(..end).unwrap_or_default().matches('\n').count() as u64;
        pieces.push(Piece { text: rest.trim().to_owned(), line });
    }
    pieces
}

/// Parses one statement.
///
/// # Errors
/// `sql_syntax`; `not_supported` for what isn't there yet and isn't in the grammar either.
pub fn parse(text: &str) -> Result<Parsed> {
    understood(text).map_err(|error| match error.code() {
        Code::SqlSyntax => unparsed::refused(text).unwrap_or_else(|| versions::explained(text, error)),
        _ => error,
    })
}

fn understood(text: &str) -> Result<Parsed> {
    let tokens = Tokenizer::new(&Sql::default(), text).tokenize_with_location();
    let tokens = tokens.map_err(|e| DataFusionError::from(ParserError::from(e)))?;
    let (tokens, versions) = versions::spelled(tokens);
    let dialect = Sql::of(tokens.len(), versions);
    let mut parser =
        DFParserBuilder::new(tokens).with_dialect(&dialect).with_recursion_limit(RECURSION_LIMIT).build()?;
    let word = |token: &Token, text: &str| matches!(token, Token::Word(w) if w.value.eq_ignore_ascii_case(text));
    let pruning = matches!(&parser.parser.peek_token().token, Token::Word(w) if w.keyword == Keyword::EXPLAIN)
        && word(&parser.parser.peek_nth_token(1).token, "PRUNING");
    if pruning {
        parser.parser.next_token();
        parser.parser.next_token();
    }
    let statement = Box::new(parser.parse_statement()?);
    match parser.parser.peek_token().token {
        Token::EOF => {}
        Token::SemiColon => {
            while parser.parser.consume_token(&Token::SemiColon) {}
            if parser.parser.peek_token().token != Token::EOF {
                return Err(Error::new(Code::SqlSyntax, "there is more than one statement")
                    .with("after the first", parser.parser.peek_token().token)
                    .help("one statement is run here: leave the others out, or run each by itself"));
            }
        }
        other => {
            return Err(Error::new(Code::SqlSyntax, format!("the statement should end before: {other}")));
        }
    }
    Ok(if pruning { Parsed::ExplainPruning(statement) } else { Parsed::Sql(statement) })
}

/// Byte offsets of lines, to find the text between two locations.
struct Offsets<'a> {
    script: &'a str,
    lines: Vec<usize>,
}

impl<'a> Offsets<'a> {
    fn new(script: &'a str) -> Self {
        let starts = script.match_indices('\n').map(|(at, _)| at + 1);
        Offsets { script, lines: std::iter::once(0).chain(starts).collect() }
    }

    /// Locations count lines and characters from 1.
    fn byte(&self, location: Location) -> usize {
        let line = usize::try_from(location.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(start) = self.lines.get(line).copied() else { return self.script.len() };
        let column = usize::try_from(location.column.saturating_sub(1)).unwrap_or(usize::MAX);
        let rest = self.script.get(start..).unwrap_or_default();
        start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
    }

    fn piece(&self, script: &str, start: Location, end: usize) -> Piece {
        let text = script.get(self.byte(start)..end).unwrap_or_default().trim_end().to_owned();
        Piece { text, line: start.line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        split(script).into_iter().map(|piece| format!("{}:{}", piece.line, piece.text)).collect()
    }

    #[test]
    fn semicolons_in_quotes_and_comments_do_not_split() {
        assert_eq!(
            texts("select ';' ; -- a; b\n select \"x;y\" /* ; */;;"),
            ["1:select ';'", "2:select \"x;y\" /* ; */"]
        );
        assert_eq!(texts("select 'é😀';\nselect 2"), ["1:select 'é😀'", "2:select 2"]);
        assert!(texts(" ;; -- nothing\n").is_empty());
    }

    #[test]
    fn an_unfinished_tail_is_a_piece_of_its_own() {
        assert_eq!(texts("select 1; select 'open"), ["1:select 1", "1:select 'open"]);
        assert_eq!(texts("select 1;\n'open"), ["1:select 1", "2:'open"]);
        assert_eq!(parse("select 'open").map(drop).map_err(|e| e.code()), Err(Code::SqlSyntax));
    }

    #[test]
    fn pruning_is_a_statement_of_ours() {
        assert!(matches!(parse("explain pruning select 1"), Ok(Parsed::ExplainPruning(_))));
        assert!(matches!(parse("EXPLAIN select 1"), Ok(Parsed::Sql(_))));
        for fine in ["select 1;", "select 1 ;; -- no more\n;"] {
            assert!(parse(fine).is_ok(), "{fine}");
        }
        for wrong in [
            "selec 1",
            "select 1 select 2",
            "select 1; select 2",
            "select 1;; x",
            "explain pruning",
            "",
            "select 1 where 1 in (select from t)",
        ] {
            assert_eq!(parse(wrong).map(drop).map_err(|e| e.code()), Err(Code::SqlSyntax), "{wrong}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_crash() {
        let deep = format!("select {}1{}", "(".repeat(5000), ")".repeat(5000));
        assert_eq!(parse(&deep).map(drop).map_err(|e| e.code()), Err(Code::SqlSyntax));
    }

    /// Of what the parser would read in a million ways and more, some are tried.
    #[test]
    fn errors_are_found_in_time() {
        for (part, end) in [("a.", "b[ ]"), ("a.", "b[1]."), ("array[", "]"), ("interval ", "]"), ("date.", "]")] {
            let wrong = |parts| parse(&format!("select 1 where {}{end}", part.repeat(parts))).unwrap_err();
            let many = wrong(20);
            assert_eq!((many.code(), many.what()), (Code::SqlSyntax, "the statement is nested too deeply"), "{part}");
            // Of few all, so that it is said what is wrong.
            let few = wrong(4);
            assert!(few.what().contains("found: "), "{few}");
        }
    }

    #[test]
    fn long_and_deep_statements_are_read() {
        let nested = format!("{}1{}", "array[".repeat(20), "]".repeat(20));
        let dotted = format!("{}b[1]", "a.".repeat(20));
        let many = |item: &str| vec![item; 2_000].join(", ");
        for text in [nested, dotted, many("1"), many("a.b.interval.d"), many("coalesce((a.b).c[1], date '2026-01-01')")]
        {
            assert!(parse(&format!("select {text} from t")).is_ok(), "{}", text.get(..40).unwrap_or(&text));
        }
    }
}

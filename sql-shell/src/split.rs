//! Where does a statement end?
//!
//! ```text
//! SELECT ';' -- not here;          SELECT $$ nor; here $$ /* nor; /* here; */ */ ;
//!                     line 1 ──────────────────────────────────────────────────── ends
//! ```
//!
//! Text is fed line by line, so that a script runs while it is still being written. Quotes, comments and dollar quotes
//! are told apart as SQL's tokenizer does; nothing here knows what a statement means.

use std::collections::VecDeque;

/// One statement of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// From its first token to before its `;`.
    pub(crate) text: String,
    /// The line its first token is on, from 1.
    pub(crate) line: usize,
}

/// Cuts a script into statements.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    /// The statement so far, from its first token.
    pending: String,
    /// The line of that token.
    start: Option<usize>,
    /// The line fed last.
    line: usize,
    inside: Inside,
    ready: VecDeque<Piece>,
}

#[derive(Debug, Default, PartialEq)]
enum Inside {
    #[default]
    Nothing,
    /// Letters and digits, where `$` and a quote's prefix mean something else.
    Word,
    Quote {
        close: char,
        backslash: bool,
    },
    Dollar(String),
    /// Comments nest; this one was opened on a line.
    Comment {
        depth: usize,
        line: usize,
    },
}

impl Splitter {
    /// Takes the next line with its end; the last line may lack one.
    pub(crate) fn feed(&mut self, line: &str) {
        self.line += 1;
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let length = self.step(c, rest);
            let (eaten, left) = rest.split_at(length);
            rest = left;
            if self.inside == Inside::Nothing && eaten == ";" {
                self.end();
            } else if self.start.is_some() {
                self.pending.push_str(eaten);
            }
        }
        if self.inside == Inside::Word {
            self.inside = Inside::Nothing;
        }
    }

    /// The next statement that is complete.
    pub(crate) fn next(&mut self) -> Option<Piece> {
        self.ready.pop_front()
    }

    /// Ends the script: what is left is a statement without its `;`.
    pub(crate) fn finish(&mut self) {
        if let Inside::Comment { line, .. } = self.inside {
            // An open comment has swallowed what came after it: let the parser say so.
            self.start.get_or_insert(line);
            if self.pending.is_empty() {
                self.pending.push_str("/*");
            }
        }
        self.inside = Inside::Nothing;
        self.end();
    }

    /// Whether nothing is left to be completed: the text ended with a `;`, or holds no statement.
    pub(crate) fn is_complete(&self) -> bool {
        self.start.is_none() && !matches!(self.inside, Inside::Comment { .. })
    }

    /// Moves over one token, or one character of it; returns its length in bytes.
    fn step(&mut self, c: char, rest: &str) -> usize {
        match &mut self.inside {
            Inside::Quote { close, backslash } => {
                if *backslash && c == '\\' {
                    return rest.chars().take(2).map(char::len_utf8).sum();
                }
                // A doubled quote closes and opens again, which comes to the same.
                if c == *close {
                    self.inside = Inside::Nothing;
                }
                c.len_utf8()
            }
            Inside::Dollar(close) => {
                let length = close.len();
                if rest.starts_with(close.as_str()) {
                    self.inside = Inside::Nothing;
                    return length;
                }
                c.len_utf8()
            }
            Inside::Comment { depth, .. } => match rest.get(..2) {
                Some("*/") => {
                    *depth -= 1;
                    if *depth == 0 {
                        self.inside = Inside::Nothing;
                    }
                    2
                }
                Some("/*") => {
                    *depth += 1;
                    2
                }
                _ => c.len_utf8(),
            },
            Inside::Nothing | Inside::Word => self.outside(c, rest),
        }
    }

    fn outside(&mut self, c: char, rest: &str) -> usize {
        let word = self.inside == Inside::Word;
        match c {
            '-' if rest.starts_with("--") => {
                self.inside = Inside::Nothing;
                return rest.find('\n').unwrap_or(rest.len());
            }
            '/' if rest.starts_with("/*") => {
                self.inside = Inside::Comment { depth: 1, line: self.line };
                return 2;
            }
            ';' => {
                self.inside = Inside::Nothing;
                return 1;
            }
            _ if c.is_whitespace() => {
                self.inside = Inside::Nothing;
                return c.len_utf8();
            }
            _ => {}
        }
        self.start.get_or_insert(self.line);
        if rest.starts_with("//") {
            // An operator, not the start of a comment in `//*`.
            self.inside = Inside::Nothing;
            return 2;
        }
        // A number is no word: `1$$` is followed by a dollar quote, `a1$$` isn't.
        let word_char = c.is_alphabetic() || matches!(c, '_' | '@' | '#') || word && (c.is_alphanumeric() || c == '$');
        let prefix = rest.as_bytes().get(1) == Some(&b'\'') && !word;
        match c {
            'e' | 'E' if prefix => {
                self.inside = Inside::Quote { close: '\'', backslash: true };
                return 2;
            }
            '\'' | '"' | '`' => self.inside = Inside::Quote { close: c, backslash: false },
            '$' if !word => match dollar_quote(rest) {
                Some(open) => {
                    self.inside = Inside::Dollar(open.to_string());
                    return open.len();
                }
                None => self.inside = Inside::Word,
            },
            _ if word_char => self.inside = Inside::Word,
            _ => self.inside = Inside::Nothing,
        }
        c.len_utf8()
    }

    fn end(&mut self) {
        let text = std::mem::take(&mut self.pending);
        if let Some(line) = self.start.take() {
            self.ready.push_back(Piece { text: text.trim_end().to_string(), line });
        }
    }
}

/// `$$` or `$name$` at the start of the text.
fn dollar_quote(rest: &str) -> Option<&str> {
    let (name, _) = rest.strip_prefix('$')?.split_once('$')?;
    name.chars().all(|c| c.is_alphanumeric() || c == '_').then(|| rest.split_at(name.len() + 2).0)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn split(script: &str) -> Vec<(usize, String)> {
        let mut splitter = Splitter::default();
        for line in script.split_inclusive('\n') {
            splitter.feed(line);
        }
        splitter.finish();
        std::iter::from_fn(|| splitter.next()).map(|piece| (piece.line, piece.text)).collect()
    }

    fn check(script: &str, expected: &[(usize, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(line, text)| (*line, (*text).to_string())).collect();
        assert_eq!(split(script), expected, "{script}");
    }

    fn complete(text: &str) -> bool {
        let mut splitter = Splitter::default();
        for line in text.split_inclusive('\n') {
            splitter.feed(line);
        }
        splitter.is_complete()
    }

    #[test]
    fn statements_end_at_semicolons() {
        check("select 1; select 2", &[(1, "select 1"), (1, "select 2")]);
        check("\n\nselect\n 1 ;\n\n  select 2;;\n;", &[(3, "select\n 1"), (6, "select 2")]);
        check("", &[]);
        check(" ; \n -- nothing\n /* ; */", &[]);
        check("select 1\r\n;select 2\r\n", &[(1, "select 1"), (2, "select 2")]);
    }

    #[test]
    fn quotes_hide_semicolons() {
        check(
            "select ';', 'it''s;', \"a;\"\"b\", `c;`; x",
            &[(1, "select ';', 'it''s;', \"a;\"\"b\", `c;`"), (1, "x")],
        );
        check("select 'a\n;b'; x", &[(1, "select 'a\n;b'"), (2, "x")]);
        check(r"select '\'; x", &[(1, r"select '\'"), (1, "x")]);
        check(r"select E'\';', e'\\'; x", &[(1, r"select E'\';', e'\\'"), (1, "x")]);
        check(r"select type'\'; x", &[(1, r"select type'\'"), (1, "x")]);
        check("select 'ü😀;'; é", &[(1, "select 'ü😀;'"), (1, "é")]);
    }

    #[test]
    fn comments_hide_semicolons() {
        check("-- a;\nselect 1 -- b;\n; x", &[(2, "select 1 -- b;"), (3, "x")]);
        check("/* ; /* ; */ ' ; */ select /* ; */ 1; x", &[(1, "select /* ; */ 1"), (1, "x")]);
        check("select 1 -- it's\n; x", &[(1, "select 1 -- it's"), (2, "x")]);
        check("select '--', '/*'; x", &[(1, "select '--', '/*'"), (1, "x")]);
        check("select 1--;\n+1; x", &[(1, "select 1--;\n+1"), (2, "x")]);
        check("select 4/2; x", &[(1, "select 4/2"), (1, "x")]);
    }

    #[test]
    fn dollar_quotes_hide_semicolons_and_names_may_hold_dollars() {
        check("select $$a;$b$;$$; x", &[(1, "select $$a;$b$;$$"), (1, "x")]);
        check("select $t$;$$;\n$u$;$t$; x", &[(1, "select $t$;$$;\n$u$;$t$"), (2, "x")]);
        check(
            "select * from t$a; select * from u$b; x",
            &[(1, "select * from t$a"), (1, "select * from u$b"), (1, "x")],
        );
        check("select $1; select $2", &[(1, "select $1"), (1, "select $2")]);
        check("select 1 as a$$; x", &[(1, "select 1 as a$$"), (1, "x")]);
    }

    #[test]
    fn what_is_open_goes_to_the_parser_as_it_is() {
        check("select 'a; b", &[(1, "select 'a; b")]);
        check("select 1; \n/* open ;", &[(1, "select 1"), (2, "/*")]);
    }

    #[test]
    fn a_terminal_waits_for_the_end() {
        for text in ["", "  ", "select 1;", "select 1;  -- done", "select 1; select 2;", "-- nothing", "select ';' ;\n"]
        {
            assert!(complete(text), "{text}");
        }
        for text in ["select 1", "select ';", "select 1; s", "select 1 -- ;", "/* ;", "select $$ ;", "select \";"] {
            assert!(!complete(text), "{text}");
        }
    }

    proptest! {
        /// The engine's tokenizer cuts at the same places, wherever it can read the whole script.
        #[test]
        fn the_tokenizer_agrees(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..12)) {
            let script = words.concat();
            let read = Tokenizer::new(&GenericDialect {}, &script).tokenize().is_ok();
            let engine: Vec<_> =
                daygrain::sql::split(&script).into_iter().map(|piece| (piece.line as usize, piece.text)).collect();
            if read {
                prop_assert_eq!(split(&script), engine, "{}", script);
            }
        }

        /// A statement that was cut off is one statement.
        #[test]
        fn pieces_split_no_further(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..12)) {
            for (_, text) in split(&words.concat()) {
                prop_assert_eq!(split(&text), [(1, text)]);
            }
        }
    }

    /// Without a bare `#` or `@`: that tokenizer takes any character after it, even a `;`, for a name.
    const WORDS: &[&str] = &[
        ";", "; ", "\n", " ", "a", "e", "E", "'", "''", "\"", "`", "\\", "\\'", "$", "$$", "$t$", "a$", "1", "-", "--",
        "/", "/*", "*/", "*", "é", "😀", "(", "a@#", ".",
    ];
}

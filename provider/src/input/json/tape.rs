//! What does a line of JSON hold?
//!
//! One pass turns the text into a flat tape that is walked without allocating: containers say where they end, texts and
//! numbers point into the line.
//!
//! ```text
//! {"a":[1,"x"],"b":null}   ─▶   Object→6  Text a  List→5  Int 1  Text x  Text b  Null
//!                               0         1       2       3      4       5       6
//! ```
//!
//! Numbers keep their text, so an integer of any size is exact. The grammar is RFC 8259; beyond it, names within an
//! object must be unique (as in RFC 7493), since every reader would otherwise see another value.

use std::borrow::Cow;

/// Containers within containers: what other parsers take as the limit, far above any event, low enough for a thread's
/// stack.
const MAX_DEPTH: usize = 128;

/// Where and why a line is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::input) struct Syntax {
    /// Byte of the line, from 0.
    pub(in crate::input) at: usize,
    /// A sentence without a dot.
    pub(in crate::input) what: Cow<'static, str>,
}

/// A reusable buffer for one parsed line.
#[derive(Debug, Default)]
pub(in crate::input) struct Tape {
    nodes: Vec<Node>,
    /// Texts that held escapes.
    unescaped: String,
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Null,
    Bool(bool),
    Int(Span),
    Float(Span),
    Text(Span),
    Unescaped(Span),
    /// Index after its last descendant.
    List(u32),
    /// As for a list; names and values alternate.
    Object(u32),
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

/// One value of a parsed line.
#[derive(Clone, Copy, Debug)]
pub(in crate::input) struct Value<'t> {
    tape: &'t Tape,
    line: &'t str,
    at: usize,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(in crate::input) enum Kind<'t> {
    Null,
    Bool(bool),
    /// The number as written, without fraction and exponent.
    Int(&'t str),
    /// The number as written, with fraction or exponent; not beyond a double's range.
    Float(&'t str),
    Text(&'t str),
    List(Items<'t>),
    Object(Members<'t>),
}

impl Tape {
    /// Parses exactly one value with nothing but white space around it.
    pub(in crate::input) fn parse<'t>(&'t mut self, line: &'t str) -> Result<Value<'t>, Syntax> {
        self.nodes.clear();
        self.unescaped.clear();
        let mut parser = Parser { bytes: line.as_bytes(), line, at: 0, tape: self };
        parser.space();
        parser.value(0)?;
        parser.space();
        if parser.at < line.len() {
            return Err(parser.wrong("more text after the end of the value"));
        }
        Ok(Value { tape: self, line, at: 0 })
    }
}

impl<'t> Value<'t> {
    pub(in crate::input) fn kind(self) -> Kind<'t> {
        let items = |after: u32| Items { tape: self.tape, line: self.line, at: self.at + 1, end: after as usize };
        match self.tape.nodes.get(self.at) {
            None | Some(Node::Null) => Kind::Null,
            Some(Node::Bool(value)) => Kind::Bool(*value),
            Some(Node::Int(span)) => Kind::Int(span.of(self.line)),
            Some(Node::Float(span)) => Kind::Float(span.of(self.line)),
            Some(Node::Text(span)) => Kind::Text(span.of(self.line)),
            Some(Node::Unescaped(span)) => Kind::Text(span.of(&self.tape.unescaped)),
            Some(Node::List(after)) => Kind::List(items(*after)),
            Some(Node::Object(after)) => Kind::Object(Members(items(*after))),
        }
    }

    pub(in crate::input) fn is_null(self) -> bool {
        matches!(self.tape.nodes.get(self.at), None | Some(Node::Null))
    }
}

/// The values of a list, in order.
#[derive(Clone, Debug)]
pub(in crate::input) struct Items<'t> {
    tape: &'t Tape,
    line: &'t str,
    at: usize,
    end: usize,
}

impl<'t> Iterator for Items<'t> {
    type Item = Value<'t>;

    fn next(&mut self) -> Option<Value<'t>> {
        if self.at >= self.end {
            return None;
        }
        let value = Value { tape: self.tape, line: self.line, at: self.at };
        self.at = self.tape.nodes.get(self.at).map_or(self.end, |node| node.after(self.at));
        Some(value)
    }
}

/// The members of an object, in the order of the text; no name twice.
#[derive(Clone, Debug)]
pub(in crate::input) struct Members<'t>(Items<'t>);

impl<'t> Iterator for Members<'t> {
    type Item = (&'t str, Value<'t>);

    fn next(&mut self) -> Option<(&'t str, Value<'t>)> {
        let name = match self.0.next()?.kind() {
            Kind::Text(name) => name,
            _ => return None,
        };
        Some((name, self.0.next()?))
    }
}

impl Node {
    fn after(&self, at: usize) -> usize {
        match self {
            Node::List(after) | Node::Object(after) => *after as usize,
            _ => at + 1,
        }
    }
}

impl Span {
    fn of(self, text: &str) -> &str {
        // In bounds and on character boundaries: spans are cut at ASCII bytes.
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

struct Parser<'p> {
    bytes: &'p [u8],
    line: &'p str,
    at: usize,
    tape: &'p mut Tape,
}

impl Parser<'_> {
    fn wrong(&self, what: impl Into<Cow<'static, str>>) -> Syntax {
        Syntax { at: self.at, what: what.into() }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Error for what stands here instead of `wanted`.
    fn unexpected(&self, wanted: &str) -> Syntax {
        match self.line.get(self.at..).and_then(|rest| rest.chars().next()) {
            None => self.wrong(format!("the text ends where {wanted} must stand")),
            Some(found) => self.wrong(format!("{found:?} stands where {wanted} must stand")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), Syntax> {
        if depth > MAX_DEPTH {
            return Err(self.wrong(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.text(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Node::Bool(true)),
            Some(b'f') => self.word("false", Node::Bool(false)),
            Some(b'n') => self.word("null", Node::Null),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn word(&mut self, word: &str, node: Node) -> Result<(), Syntax> {
        if !self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            return Err(self.unexpected("a value"));
        }
        self.at += word.len();
        self.tape.nodes.push(node);
        Ok(())
    }

    fn list(&mut self, depth: usize) -> Result<(), Syntax> {
        let start = self.open(Node::List(0));
        self.space();
        if !self.take(b']') {
            loop {
                self.space();
                self.value(depth + 1)?;
                self.space();
                if self.take(b']') {
                    break;
                }
                if !self.take(b',') {
                    return Err(self.unexpected("',' or ']'"));
                }
            }
        }
        self.close(start, Node::List);
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), Syntax> {
        let start = self.open(Node::Object(0));
        self.space();
        if !self.take(b'}') {
            loop {
                self.space();
                if self.peek() != Some(b'"') {
                    return Err(self.unexpected("a name in quotes"));
                }
                self.text()?;
                self.space();
                if !self.take(b':') {
                    return Err(self.unexpected("':'"));
                }
                self.space();
                self.value(depth + 1)?;
                self.space();
                if self.take(b'}') {
                    break;
                }
                if !self.take(b',') {
                    return Err(self.unexpected("',' or '}'"));
                }
            }
        }
        self.close(start, Node::Object);
        self.check_names(start)
    }

    fn open(&mut self, node: Node) -> usize {
        self.at += 1;
        self.tape.nodes.push(node);
        self.tape.nodes.len() - 1
    }

    fn close(&mut self, start: usize, node: impl Fn(u32) -> Node) {
        let after = u32::try_from(self.tape.nodes.len()).unwrap_or(u32::MAX);
        if let Some(open) = self.tape.nodes.get_mut(start) {
            *open = node(after);
        }
    }

    fn check_names(&self, start: usize) -> Result<(), Syntax> {
        let Kind::Object(members) = (Value { tape: self.tape, line: self.line, at: start }).kind() else {
            return Ok(());
        };
        let twice = |name: &str| Err(self.wrong(format!("the name {name:?} stands twice in one object")));
        // Few names are compared pair by pair without allocating; many are sorted.
        if members.clone().nth(12).is_none() {
            let mut rest = members;
            while let Some((name, _)) = rest.next() {
                if rest.clone().any(|(other, _)| other == name) {
                    return twice(name);
                }
            }
            return Ok(());
        }
        let mut names: Vec<&str> = members.map(|(name, _)| name).collect();
        names.sort_unstable();
        match names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b) {
            Some((name, _)) => twice(name),
            None => Ok(()),
        }
    }

    fn number(&mut self) -> Result<(), Syntax> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        let mut float = false;
        if self.take(b'.') {
            float = true;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            float = true;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let span = self.span(start, self.at);
        if float && !span.of(self.line).parse::<f64>().is_ok_and(f64::is_finite) {
            self.at = start;
            return Err(self.wrong("a number beyond the range of a double"));
        }
        self.tape.nodes.push(if float { Node::Float(span) } else { Node::Int(span) });
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Syntax> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected("a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn span(&self, start: usize, end: usize) -> Span {
        // Lines are shorter than 4 GiB (`lines::MAX_LINE`).
        Span { start: u32::try_from(start).unwrap_or(u32::MAX), end: u32::try_from(end).unwrap_or(u32::MAX) }
    }

    /// From the opening quote to the closing one.
    fn text(&mut self) -> Result<(), Syntax> {
        self.at += 1;
        let start = self.at;
        self.plain();
        if self.take(b'"') {
            let span = self.span(start, self.at - 1);
            self.tape.nodes.push(Node::Text(span));
            return Ok(());
        }
        let first = self.tape.unescaped.len();
        let mut run = start;
        loop {
            self.tape.unescaped.push_str(self.line.get(run..self.at).unwrap_or_default());
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.wrong("a control character stands unescaped in a text")),
                None => return Err(self.wrong("the line ends within a text")),
            }
            run = self.at;
            self.plain();
        }
        self.at += 1;
        let span = self.span(first, self.tape.unescaped.len());
        self.tape.nodes.push(Node::Unescaped(span));
        Ok(())
    }

    /// Skips characters that stand for themselves.
    fn plain(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|b| *b == b'"' || *b == b'\\' || *b < 0x20).unwrap_or(rest.len());
    }

    fn escape(&mut self) -> Result<(), Syntax> {
        let start = self.at;
        self.at += 1;
        let character = match self.peek() {
            Some(b'u') => return self.unicode(start),
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            _ => return Err(self.unexpected("an escape")),
        };
        self.at += 1;
        self.tape.unescaped.push(character);
        Ok(())
    }

    fn unicode(&mut self, start: usize) -> Result<(), Syntax> {
        let mut units = vec![self.hex()?];
        if matches!(units.first(), Some(0xD800..=0xDBFF)) && self.peek() == Some(b'\\') {
            self.at += 1;
            if self.peek() == Some(b'u') {
                units.push(self.hex()?);
            }
        }
        match String::from_utf16(&units) {
            Ok(text) => {
                self.tape.unescaped.push_str(&text);
                Ok(())
            }
            Err(_) => Err(Syntax { at: start, what: "half of a surrogate pair names no character".into() }),
        }
    }

    /// `uXXXX`
    fn hex(&mut self) -> Result<u16, Syntax> {
        self.at += 1;
        let digits = self.line.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(unit) = digits.and_then(|d| u16::from_str_radix(d, 16).ok()) else {
            return Err(self.wrong("four hexadecimal digits must follow \\u"));
        };
        self.at += 4;
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    fn json(value: Value<'_>) -> Json {
        match value.kind() {
            Kind::Null => Json::Null,
            Kind::Bool(b) => Json::Bool(b),
            Kind::Int(n) | Kind::Float(n) => serde_json::from_str(n).unwrap(),
            Kind::Text(t) => Json::String(t.to_owned()),
            Kind::List(items) => items.map(json).collect(),
            Kind::Object(members) => members.map(|(k, v)| (k.to_owned(), json(v))).collect(),
        }
    }

    #[test]
    fn agrees_with_another_parser() {
        for line in [
            r#"{}"#,
            r#" {"a" : [1, "x", [], {}, null] , "b":true,"c":false} "#,
            r#"{"":"","é":"\u00e9\n\"\\\/\b\f\r\t","😀":"\ud83d\ude00x"}"#,
            r#"[-0, 0.5, -1.5e-7, 12E+3, 9007199254740993]"#,
            "\"\u{7f}\u{2028}\"",
            r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"k":11,"l":12,"m":13,"n":14}"#,
        ] {
            let mut tape = Tape::default();
            assert_eq!(json(tape.parse(line).unwrap()), serde_json::from_str::<Json>(line).unwrap(), "{line}");
        }
    }

    #[test]
    fn refuses_with_place_and_reason() {
        for (line, at, what) in [
            ("", 0, "the text ends where a value must stand"),
            (r#"{"a":1"#, 6, "the text ends where ',' or '}' must stand"),
            (r#"{"a":"x"#, 7, "the line ends within a text"),
            (r#"{"a":1}}"#, 7, "more text after the end of the value"),
            (r#"{a:1}"#, 1, "'a' stands where a name in quotes must stand"),
            (r#"{"a":1,}"#, 7, "'}' stands where a name in quotes must stand"),
            (r#"[1,]"#, 3, "']' stands where a value must stand"),
            (r#"[1 2]"#, 3, "'2' stands where ',' or ']' must stand"),
            (r#"[01]"#, 2, "'1' stands where ',' or ']' must stand"),
            (r#"[.5]"#, 1, "'.' stands where a value must stand"),
            (r#"[1.]"#, 3, "']' stands where a digit must stand"),
            (r#"[-]"#, 2, "']' stands where a digit must stand"),
            (r#"[1e]"#, 3, "']' stands where a digit must stand"),
            (r#"[NaN]"#, 1, "'N' stands where a value must stand"),
            (r#"[nul]"#, 1, "'n' stands where a value must stand"),
            (r#"[1e400]"#, 1, "a number beyond the range of a double"),
            ("[\"a\tb\"]", 3, "a control character stands unescaped in a text"),
            (r#"["\x"]"#, 3, "'x' stands where an escape must stand"),
            (r#"["\u12"]"#, 4, "four hexadecimal digits must follow \\u"),
            (r#"["\ud83d"]"#, 2, "half of a surrogate pair names no character"),
            (r#"["\ude00\ud83d"]"#, 2, "half of a surrogate pair names no character"),
            (r#"["\ud83d\n"]"#, 2, "half of a surrogate pair names no character"),
            (r#"{"a":1,"a":2}"#, 13, "the name \"a\" stands twice in one object"),
            (r#"{"a":1,"\u0061":2}"#, 18, "the name \"a\" stands twice in one object"),
        ] {
            let wrong = Tape::default().parse(line).unwrap_err();
            assert_eq!((wrong.at, &*wrong.what), (at, what), "{line}");
        }
    }

    #[test]
    fn many_names_are_checked_too() {
        let names: Vec<String> = (0..40).map(|i| format!("\"k{}\":0", i % 39)).collect();
        let line = format!("{{{}}}", names.join(","));
        assert!(Tape::default().parse(&line).unwrap_err().what.contains("\"k0\" stands twice"));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(Tape::default().parse(&nested(MAX_DEPTH)).is_ok());
        assert!(Tape::default().parse(&nested(100_000)).unwrap_err().what.contains("nested deeper"));
    }
}

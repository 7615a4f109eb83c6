//! What does a file say should happen?
//!
//! ```text
//! # a comment
//! query IT rowsort files=1/3
//! SELECT n, s FROM t
//! WHERE n > 1
//! ----
//! 2 | b
//! 3 | NULL
//! ```
//!
//! Records are separated by blank lines. Each has a line that says what it is, and a body.

/// One record, and the lines it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Of its first line, from 1.
    pub(super) line: usize,
    pub(super) kind: Kind,
    /// SQL, or the content of a file: the lines before `----`.
    pub(super) body: Vec<String>,
    /// The lines after `----`.
    pub(super) expected: Vec<String>,
    /// How many lines it takes up in the file.
    pub(super) height: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `statement ok`: runs; its rows are not looked at.
    Ok,
    /// `statement note <part>`: runs, and a note for the user holds this part.
    Note(String),
    /// `statement error <code> [part]`: fails with this code, and a text that holds this part.
    Error { code: String, part: String },
    /// `query [types] [names] [rowsort] [files=kept/total]`: yields these rows.
    Query(Query),
    /// `export <dataset> [timestamp=..] [lookup=..] [json=..] [table=..] [from=..]`: appends the rows of the query below,
    /// or of a file.
    Export(Vec<(String, String)>),
    /// `file <path>`: writes the lines below into a file.
    File(String),
    /// `session [read_only]`: goes on in a new session over the same warehouse.
    Session { read_only: bool },
    /// `twin`: from here on the rows of each query must also be those of the same query over tables in memory.
    Twin,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    /// A letter for each column; empty where the record names none.
    pub(super) types: String,
    /// The first line of the answer holds the names of the columns.
    pub(super) names: bool,
    /// The order of the rows doesn't matter.
    pub(super) rowsort: bool,
    /// Files kept and files there are, of all scans of the plan.
    pub(super) files: Option<(u64, u64)>,
}

/// The records of a file, or where it makes no sense and why.
pub(super) fn parse(text: &str) -> Result<Vec<Record>, (usize, String)> {
    let mut records = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, header)) = lines.next() {
        if header.trim().is_empty() || header.starts_with('#') {
            continue;
        }
        let wrong = |why: String| (at + 1, why);
        let kind = kind(header).map_err(wrong)?;
        let mut block: Vec<String> = Vec::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.trim().is_empty()) {
            block.push(line.trim_end().to_owned());
        }
        let height = 1 + block.len();
        let rule = block.iter().position(|line| line == "----");
        let expected = rule.map(|rule| block.split_off(rule).split_off(1));
        match (&kind, &expected) {
            (Kind::Query(_), None) => return Err(wrong("a query needs a line of ---- before its rows".to_owned())),
            (Kind::Query(_), _) | (_, None) => {}
            _ => return Err(wrong("only a query has rows after ----".to_owned())),
        }
        let empty = matches!(kind, Kind::Twin | Kind::Session { .. });
        let may_be_empty = empty || matches!(kind, Kind::Export(_) | Kind::File(_));
        if block.is_empty() && !may_be_empty || empty && !block.is_empty() {
            return Err(wrong("the record has the wrong body".to_owned()));
        }
        records.push(Record { line: at + 1, kind, body: block, expected: expected.unwrap_or_default(), height });
    }
    Ok(records)
}

fn kind(header: &str) -> Result<Kind, String> {
    let (word, rest) = word(header);
    match word {
        "statement" => statement(rest),
        "query" => query(rest).map(Kind::Query),
        "export" => {
            let (dataset, options) = self::word(rest);
            let mut settings = vec![("dataset".to_owned(), dataset.to_owned())];
            for option in options.split_whitespace() {
                let (key, value) = option.split_once('=').ok_or_else(|| format!("{option} is no key=value"))?;
                if !["timestamp", "lookup", "json", "table", "from"].contains(&key) {
                    return Err(format!("export has no {key}"));
                }
                settings.push((key.to_owned(), value.to_owned()));
            }
            Ok(Kind::Export(settings))
        }
        "file" if !rest.is_empty() => Ok(Kind::File(rest.to_owned())),
        "session" if ["", "read_only"].contains(&rest) => Ok(Kind::Session { read_only: !rest.is_empty() }),
        "twin" if rest.is_empty() => Ok(Kind::Twin),
        _ => Err(format!("not a record: {header}")),
    }
}

fn statement(rest: &str) -> Result<Kind, String> {
    let (how, rest) = word(rest);
    let (code, part) = word(rest);
    match how {
        "ok" if rest.is_empty() => Ok(Kind::Ok),
        "note" if !rest.is_empty() => Ok(Kind::Note(rest.to_owned())),
        "error" if daygrain::Code::ALL.iter().any(|known| known.as_str() == code) => {
            Ok(Kind::Error { code: code.to_owned(), part: part.to_owned() })
        }
        "error" => Err(format!("{code} is no error code")),
        _ => Err(format!("not an outcome: {how} {rest}")),
    }
}

fn query(rest: &str) -> Result<Query, String> {
    let mut query = Query::default();
    for option in rest.split_whitespace() {
        if option == "names" {
            query.names = true;
        } else if option == "rowsort" {
            query.rowsort = true;
        } else if let Some(files) = option.strip_prefix("files=") {
            let (kept, total) = files.split_once('/').ok_or_else(|| format!("{option} is no files=kept/total"))?;
            let number = |text: &str| text.parse().map_err(|e| format!("{option}: {e}"));
            query.files = Some((number(kept)?, number(total)?));
        } else if query.types.is_empty() && option.chars().all(|letter| super::shown::LETTERS.contains(letter)) {
            query.types = option.to_owned();
        } else {
            return Err(format!("query has no {option}"));
        }
    }
    Ok(query)
}

impl Query {
    /// The line that says so.
    pub(super) fn header(&self) -> String {
        let mut words = vec!["query".to_owned()];
        words.extend((!self.types.is_empty()).then(|| self.types.clone()));
        words.extend(self.names.then(|| "names".to_owned()));
        words.extend(self.rowsort.then(|| "rowsort".to_owned()));
        words.extend(self.files.map(|(kept, total)| format!("files={kept}/{total}")));
        words.join(" ")
    }
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(char::is_whitespace).map_or((text, ""), |(first, rest)| (first, rest.trim_start()))
}

//! Which statement comes next?
//!
//! ```text
//! -c TEXT   ┐
//! -f FILE   ├─ lines ─▶ Splitter ─▶ statements, each with the place it came from
//! standard  ┘
//! input
//! ```

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use daygrain::{Code, Error};

use crate::args::Source;
use crate::split::{Piece, Splitter};

/// The statements of one source, read as they are needed.
pub(crate) struct Script {
    name: Name,
    input: Option<BufReader<Box<dyn Read + Send>>>,
    splitter: Splitter,
    /// Statements handed out.
    count: usize,
    lines: usize,
}

enum Name {
    Flag,
    File(String),
    Stdin,
}

impl Script {
    /// Opens a source.
    ///
    /// # Errors
    /// `input_not_found`, `permission_denied` or `storage_failed` for a file that can't be opened.
    pub(crate) fn open(source: &Source) -> Result<Self, Error> {
        let (name, input): (Name, Box<dyn Read + Send>) = match source {
            Source::Text(text) => (Name::Flag, Box::new(Cursor::new(text.clone()))),
            Source::File(path) if path == "-" => (Name::Stdin, Box::new(io::stdin())),
            Source::File(path) => {
                let file = File::open(path).map_err(|error| unreadable(&error, path))?;
                (Name::File(path.clone()), Box::new(file))
            }
        };
        Ok(Script { name, input: Some(BufReader::new(input)), splitter: Splitter::default(), count: 0, lines: 0 })
    }

    /// The next statement, read without blocking the thread it is awaited on.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, Error> {
        loop {
            if let Some(piece) = self.splitter.next() {
                self.count += 1;
                return Ok(Some(piece));
            }
            let Some(mut input) = self.input.take() else { return Ok(None) };
            let read = tokio::task::spawn_blocking(move || lines(&mut input).map(|bytes| (bytes, input)));
            let (bytes, input) = read
                .await
                .map_err(|error| Error::new(Code::Internal, "reading a script failed").source(error))?
                .map_err(|error| unreadable(&error, &self.shown()))?;
            if bytes.is_empty() {
                self.splitter.finish();
            } else {
                self.input = Some(input);
                self.feed(&bytes)?;
            }
        }
    }

    /// Adds where a statement came from to its error.
    pub(crate) fn place(&self, piece: &Piece, error: Error) -> Error {
        match &self.name {
            Name::Flag if self.count == 1 && piece.line == 1 => error,
            Name::Flag => error.with("at", format!("statement {} of -c", self.count)),
            _ => error.with("at", format!("{}, line {}", self.shown(), piece.line)),
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.lines += 1;
            let text = std::str::from_utf8(line).map_err(|error| {
                Error::new(Code::InvalidValue, "a script is not UTF-8 text")
                    .with("at", format!("{}, line {}", self.shown(), self.lines))
                    .source(error)
            })?;
            let mark = if self.lines == 1 { text.strip_prefix('\u{feff}') } else { None };
            self.splitter.feed(mark.unwrap_or(text));
        }
        Ok(())
    }

    fn shown(&self) -> String {
        match &self.name {
            Name::Flag => "-c".to_string(),
            Name::File(path) => path.clone(),
            Name::Stdin => "standard input".to_string(),
        }
    }
}

/// At least one line, and those behind it that are there already; nothing at the end.
fn lines(input: &mut BufReader<Box<dyn Read + Send>>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        input.read_until(b'\n', &mut bytes)?;
        if !input.buffer().contains(&b'\n') {
            return Ok(bytes);
        }
    }
}

fn unreadable(error: &io::Error, path: &str) -> Error {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::InputNotFound,
        io::ErrorKind::PermissionDenied => Code::PermissionDenied,
        _ => Code::StorageFailed,
    };
    Error::new(code, "a script can't be read").with("file", path).with("cause", error)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    async fn all(source: &Source) -> Result<Vec<(usize, String)>, Error> {
        let mut script = Script::open(source)?;
        let mut pieces = Vec::new();
        while let Some(piece) = script.next().await? {
            pieces.push((piece.line, piece.text));
        }
        Ok(pieces)
    }

    fn file(bytes: &[u8]) -> (tempfile::NamedTempFile, Source) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let source = Source::File(file.path().to_str().unwrap().to_string());
        (file, source)
    }

    #[tokio::test]
    async fn a_file_is_read_whole() {
        // More than one buffer, a mark at the start, no line feed at the end.
        let filler = "-- filler\n".repeat(3_000);
        let (_file, source) = file(format!("\u{feff}select 1;\n{filler}select\n2").as_bytes());
        assert_eq!(all(&source).await.unwrap(), [(1, "select 1".into()), (3_002, "select\n2".into())]);
    }

    #[tokio::test]
    async fn errors_say_where() {
        let (_file, source) = file(b"select 1;\n\nselect x;");
        let mut script = Script::open(&source).unwrap();
        let mut last = None;
        while let Some(piece) = script.next().await.unwrap() {
            last = Some(script.place(&piece, Error::new(Code::SqlPlan, "no x")).to_string());
        }
        assert!(last.unwrap().ends_with(", line 3"));

        let mut script = Script::open(&Source::Text("select x; select y".into())).unwrap();
        let piece = script.next().await.unwrap().unwrap();
        assert_eq!(script.place(&piece, Error::new(Code::SqlPlan, "no x")).context(), []);
        let piece = script.next().await.unwrap().unwrap();
        let placed = script.place(&piece, Error::new(Code::SqlPlan, "no y"));
        assert_eq!(placed.context(), [("at", "statement 2 of -c".to_string())]);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_an_error() {
        let missing = Source::File("/no/such/file.sql".into());
        assert_eq!(all(&missing).await.unwrap_err().code(), Code::InputNotFound);
        let (_file, source) = file(b"select 1;\nselect '\xff';");
        let error = all(&source).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidValue);
        assert!(error.to_string().ends_with(", line 2"), "{error}");
    }
}

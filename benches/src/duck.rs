//! DuckDB as a process beside us: a query in, its time out.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::engines::{TABLE, THREADS};

/// A running DuckDB over one table.
#[derive(Debug)]
pub struct Duck {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The Python that has the other engines, if one is named.
pub fn python() -> Option<String> {
    std::env::var("DAYGRAIN_PYTHON").ok()
}

/// A script of this crate.
pub fn script(name: &str) -> String {
    format!("{}/compare/{name}", env!("CARGO_MANIFEST_DIR"))
}

impl Duck {
    /// Starts over a table's metadata file.
    pub fn start(metadata: &Path) -> Option<Duck> {
        let mut child = Command::new(python()?)
            .args([&script("duck.py"), &*metadata.to_string_lossy(), TABLE, &THREADS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let ask = child.stdin.take().expect("a pipe");
        let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut ready = String::new();
        answers.read_line(&mut ready).expect("DuckDB says that it is ready");
        assert_eq!(ready.trim(), "ready", "DuckDB does not start");
        Some(Duck { child, ask, answers })
    }

    /// Runs a query of one line: how long it took, and how many rows it has.
    pub fn run(&mut self, sql: &str) -> (usize, Duration) {
        writeln!(self.ask, "{sql}").expect("DuckDB listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("DuckDB answers");
        let mut words = line.split_whitespace();
        let time: f64 =
            words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("DuckDB failed: {sql}"));
        let rows = words.next().and_then(|word| word.parse().ok()).expect("a number of rows");
        (rows, Duration::from_secs_f64(time / 1e3))
    }
}

impl Drop for Duck {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! How far is an export?
//!
//! ```text
//! 1,234,567 rows read  1,180,000 written  412.3 MB  58 files  98,765 rows/s  0:12 left
//! ```
//!
//! One line on a terminal's standard error, drawn over itself and wiped at the end.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use daygrain::session::ExportProgress;

/// How long a drawing stays: a change is seen at once, and drawing costs nothing.
pub(crate) const PERIOD: Duration = Duration::from_millis(150);

/// The progress line of one export.
pub(crate) struct Line {
    counters: ExportProgress,
    started: Instant,
    shown: bool,
}

/// What the line says, at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    seconds: f64,
    rows_in: u64,
    rows_written: u64,
    bytes_written: u64,
    files: u64,
    /// Bytes of input read and in all; 0 in all where not known.
    input: (u64, u64),
}

impl Line {
    /// A line, where somebody can see it.
    pub(crate) fn on_terminal(counters: ExportProgress) -> Option<Self> {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        (io::stderr().is_terminal() && !dumb).then(|| Line { counters, started: Instant::now(), shown: false })
    }

    pub(crate) fn draw(&mut self) {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (sink, counters) = (&self.counters.sink, &self.counters);
        let text = line(Reading {
            seconds: self.started.elapsed().as_secs_f64(),
            rows_in: load(&sink.rows_in),
            rows_written: load(&sink.rows_written),
            bytes_written: load(&sink.bytes_written),
            files: load(&sink.files_written),
            input: (load(&counters.input_read), load(&counters.input_bytes)),
        });
        self.shown = true;
        // One write, so that the terminal never shows half of it. Narrow terminals cut it: no line wraps.
        let _ = io::stderr().write_all(format!("\r\x1b[2K\x1b[?7l{text}\x1b[?7h").as_bytes());
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.shown {
            let _ = io::stderr().write_all(b"\r\x1b[2K");
        }
    }
}

fn line(now: Reading) -> String {
    let mut text = format!("{} rows read", grouped(now.rows_in));
    if now.files > 0 || now.rows_written > 0 {
        let _ = write!(text, "  {} written", grouped(now.rows_written));
        let _ = write!(text, "  {}  {} files", bytes(now.bytes_written), grouped(now.files));
    }
    if now.seconds >= 0.5 && now.rows_in > 0 {
        let _ = write!(text, "  {} rows/s", grouped((now.rows_in as f64 / now.seconds) as u64));
    }
    let (read, all) = now.input;
    if all > 0 && read > 0 && read < all && now.seconds >= 1.0 {
        let left = now.seconds * (all - read) as f64 / read as f64;
        let left = left as u64;
        let _ = write!(text, "  {}% of input  {}:{:02} left", read * 100 / all, left / 60, left % 60);
    }
    text
}

/// A count with a comma before every third digit.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the largest unit that leaves a whole digit: `412.3 MB`. Units are powers of 1000, as disks count.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = "B";
    for larger in ["kB", "MB", "GB", "TB"] {
        if value < 999.95 {
            break;
        }
        value /= 1e3;
        unit = larger;
    }
    if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(count), text);
        }
        for (count, text) in
            [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (412_300_000, "412.3 MB"), (999_960, "1.0 MB")]
        {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(bytes(u64::MAX), "18446744.1 TB");
    }

    #[test]
    fn the_line_says_what_is_known() {
        let start = Reading { seconds: 0.1, rows_in: 0, rows_written: 0, bytes_written: 0, files: 0, input: (0, 0) };
        assert_eq!(line(start), "0 rows read");
        let half = Reading {
            seconds: 30.0,
            rows_in: 3_000,
            rows_written: 1_000,
            bytes_written: 2_500_000,
            files: 2,
            input: (100, 400),
        };
        assert_eq!(line(half), "3,000 rows read  1,000 written  2.5 MB  2 files  100 rows/s  25% of input  1:30 left");
        let unknown = Reading { input: (100, 0), ..half };
        assert!(line(unknown).ends_with("100 rows/s"));
        let done = Reading { input: (400, 400), ..half };
        assert!(line(done).ends_with("100 rows/s"));
    }
}

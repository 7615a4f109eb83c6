//! Runs the shell as its users do: as a program of its own, in a directory of its own.
//!
//! ```no_run
//! let shell = daygrain_tests::shell::Shell::new();
//! shell.file("in.csv", "ts,n\n2026-06-04T12:00:00Z,1\n");
//! shell.run(["export", "events", "in.csv", "--primary-timestamp", "ts"]).ok();
//! assert_eq!(shell.sql("select n from events").rows()[0]["n"], 1);
//! shell.sql("select nothing").failed("unknown_column");
//! ```
#![expect(clippy::expect_used, reason = "what fails here fails the test that asked for it")]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

use serde_json::Value;
use tempfile::TempDir;

/// The shell's executable, built from the sources as they are now.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        // target/debug/deps/cli-0123 → target/debug/daygrain
        let test = std::env::current_exe().expect("the test is a file");
        let profile = test.parent().and_then(Path::parent).expect("tests are built to <target>/<profile>/deps");
        let target = profile.parent().expect("a target directory");
        let binary = profile.join(format!("daygrain{}", std::env::consts::EXE_SUFFIX));
        if is_stale(&binary) {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--package", "daygrain-shell", "--bin", "daygrain"]);
            build.arg("--target-dir").arg(target).current_dir(workspace());
            // What cargo tells this test of its own package: build scripts look at some of it, and would run again for a
            // change, here and in the next build, and with them all that stands on them.
            let own = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix));
            for (variable, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(own)) {
                build.env_remove(variable);
            }
            if profile.file_name() == Some(OsStr::new("release")) {
                build.arg("--release");
            }
            assert!(build.status().expect("cargo runs").success(), "the shell does not build");
        }
        binary
    })
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace")
}

fn is_stale(binary: &Path) -> bool {
    let Some(built) = changed(binary) else { return true };
    let sources =
        ["Cargo.lock", "Cargo.toml", "provider/Cargo.toml", "provider/src", "sql-shell/Cargo.toml", "sql-shell/src"];
    sources.iter().any(|source| newest(&workspace().join(source)).is_none_or(|changed| changed > built))
}

fn newest(path: &Path) -> Option<SystemTime> {
    let inside = fs::read_dir(path).into_iter().flatten().flatten().filter_map(|entry| newest(&entry.path()));
    inside.chain(changed(path)).max()
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|found| found.modified()).ok()
}

/// The shell in a directory that lives as long as this value; its warehouse is `warehouse` in it.
#[derive(Debug)]
pub struct Shell {
    home: TempDir,
}

impl Default for Shell {
    fn default() -> Self {
        Self::new()
    }
}

impl Shell {
    /// A shell in a new directory.
    pub fn new() -> Self {
        Shell { home: TempDir::new().expect("a new directory") }
    }

    /// A path in the shell's directory.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.home.path().join(relative)
    }

    /// Writes a file, and the directories above it.
    pub fn file(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("a new directory");
        fs::write(&path, content).expect("a new file");
        path
    }

    /// The program, in the shell's directory and apart from the settings of whoever runs the test.
    pub fn command<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.home.path()).stdin(Stdio::null());
        for variable in ["DAYGRAIN_WAREHOUSE", "RUST_LOG", "RUST_BACKTRACE"] {
            command.env_remove(variable);
        }
        command.env("DAYGRAIN_HISTORY", "").env("TZ", "Asia/Kolkata");
        command
    }

    /// Runs it to its end, with nothing on standard input.
    pub fn run<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Ran {
        let mut command = self.command(arguments);
        Ran::of(&command.output().expect("the shell starts"), &command)
    }

    /// The same with text on standard input.
    pub fn piped<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I, input: &str) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the shell starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        std::thread::scope(|scope| {
            // A shell that ends early closes the pipe: that is for the test to see, not for this thread.
            scope.spawn(move || stdin.write_all(input.as_bytes()));
            Ran::of(&child.wait_with_output().expect("the shell ends"), &command)
        })
    }

    /// Runs statements and prints their rows as `ndjson`.
    pub fn sql(&self, sql: &str) -> Ran {
        self.run(["--format", "ndjson", "-c", sql])
    }

    /// Runs one statement and prints its rows as `tsv`.
    pub fn tsv(&self, sql: &str) -> Ran {
        self.run(["--format", "tsv", "-c", sql])
    }

    /// Every file below a directory, by its path from there, with its size.
    pub fn listing(&self, relative: impl AsRef<Path>) -> Vec<(String, u64)> {
        let root = self.path(relative);
        let mut found = Vec::new();
        list(&root, &root, &mut found);
        found.sort();
        found
    }
}

fn list(root: &Path, directory: &Path, found: &mut Vec<(String, u64)>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(root, &path, found);
        } else if let Ok(file) = entry.metadata() {
            // A process that still writes may have taken it away meanwhile.
            let name = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
            found.push((name, file.len()));
        }
    }
}

/// How a run of the shell ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The exit code; none where a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    shown: String,
}

impl Ran {
    /// What a process that has ended left behind.
    pub fn of(output: &Output, command: &Command) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the shell writes UTF-8");
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        Ran {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            shown: arguments.join(" "),
        }
    }

    /// The run must have ended well; its standard output.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self}");
        &self.stdout
    }

    /// The run must have failed with exit code 1 and `error[code]`; its standard error.
    #[track_caller]
    pub fn failed(&self, code: &str) -> &str {
        self.refused(1, code)
    }

    /// The run must have failed with this exit code and `error[code]`; its standard error.
    #[track_caller]
    pub fn refused(&self, exit: i32, code: &str) -> &str {
        assert_eq!(self.code, Some(exit), "{self}");
        assert!(self.stderr.lines().any(|line| line.starts_with(&format!("error[{code}]: "))), "not {code}: {self}");
        &self.stderr
    }

    /// The rows of a run that ended well, as `--format ndjson` prints them.
    #[track_caller]
    pub fn rows(&self) -> Vec<Value> {
        self.ok().lines().map(|line| serde_json::from_str(line).expect("a row is a JSON object")).collect()
    }

    /// The rows of a run that ended well, as `--format tsv` prints them below the names of the columns.
    #[track_caller]
    pub fn lines(&self) -> Vec<&str> {
        self.ok().lines().skip(1).collect()
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "daygrain {}\ncode {:?}\n{}\n{}", self.shown, self.code, self.stdout, self.stderr)
    }
}

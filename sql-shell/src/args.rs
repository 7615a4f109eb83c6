//! What was asked for on the command line?
//!
//! ```text
//! daygrain [OPTIONS] [-c SQL]... [-f FILE]... [COMMAND]
//!   └─ parse ─▶ Args { settings, sources in the order given, command }
//! ```
//!
//! Options may stand before or after the subcommand. A command line that is wrong becomes an `invalid_argument` error,
//! which the caller ends with exit code 2.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use daygrain::{Code, Error};

use crate::render::Format;

/// A command line that was understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Args {
    pub(crate) settings: Settings,
    /// `-c` and `-f`, in the order they were given.
    pub(crate) sources: Vec<Source>,
    pub(crate) command: Option<Command>,
}

/// Where a script comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// `-c`: the text itself.
    Text(String),
    /// `-f`: a path; `-` is standard input.
    File(String),
}

/// How a command line ends that is not to be run.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Help or version: text for standard output, exit code 0.
    Shown(String),
    /// Wrong usage: exit code 2.
    Usage(Error),
}

/// Options that hold for every statement and subcommand.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub(crate) struct Settings {
    /// Root of the embedded file catalog
    #[arg(short, long, value_name = "DIR|URL", env = "DAYGRAIN_WAREHOUSE", default_value = DEFAULT_WAREHOUSE, global = true)]
    pub(crate) warehouse: String,
    /// Catalogs and datasets [default: ./daygrain.toml where it exists]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<String>,
    /// How results are printed
    #[arg(long, value_name = "F", value_enum, default_value_t = Format::Table, global = true)]
    pub(crate) format: Format,
    /// Tracked memory of queries and exports, e.g. 256m, 4g; over it they spill or fail with a clear error
    #[arg(long, value_name = "SIZE", value_parser = size, global = true)]
    pub(crate) memory_limit: Option<usize>,
    /// Target partitions
    #[arg(long, value_name = "N", value_parser = threads, global = true)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// After each statement one line on standard error: time_ms=12.345 rows=161
    #[arg(long, global = true)]
    pub(crate) timing: bool,
    /// Refuses every statement that would write
    #[arg(long, global = true)]
    pub(crate) read_only: bool,
}

/// The subcommands.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum Command {
    /// Appends files or the rows of a query to a dataset's table; prints one report row
    Export(Export),
    /// Compacts, expires, removes orphans (not part of this version)
    Maintain {
        #[arg(value_name = "TABLE|FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<OsString>,
    },
    /// Makes a small archive in a new directory, queries it, shows what was pruned
    Demo,
}

/// `daygrain export`.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(override_usage = EXPORT)]
pub(crate) struct Export {
    /// The dataset: a name from the configuration, or a new one
    pub(crate) dataset: String,
    /// Files, directories, globs: parquet, ndjson/jsonl/json, csv, arrow; each also .gz or .zst
    #[arg(value_name = "INPUT", required_unless_present_any = ["query", "iceberg"], conflicts_with_all = ["query", "iceberg"])]
    pub(crate) inputs: Vec<String>,
    /// Exports the rows of a query instead of files
    #[arg(long, value_name = "SQL")]
    pub(crate) query: Option<String>,
    /// Exports the rows of another Iceberg table: its directory, or one of its metadata files
    #[arg(long, value_name = "LOCATION", conflicts_with = "query")]
    pub(crate) iceberg: Option<String>,
    /// Only the rows appended to that table since it was last exported into this one
    #[arg(long, requires = "iceberg", conflicts_with_all = ["inputs", "query"])]
    pub(crate) only_new: bool,
    /// Reads that table's files below its directory although its metadata names another root
    #[arg(long, requires = "iceberg", conflicts_with_all = ["inputs", "query"])]
    pub(crate) relocate: bool,
    /// The table to write [default: the dataset's name in schema main]
    #[arg(long, value_name = "NS.NAME")]
    pub(crate) table: Option<String>,
    /// The column whose UTC day partitions the table
    #[arg(long, value_name = "COL")]
    pub(crate) primary_timestamp: Option<String>,
    /// The columns that rows are clustered by within a day
    #[arg(long, value_name = "A,B,..", value_parser = names)]
    pub(crate) lookup: Option<Names>,
    /// Columns kept as JSON text
    #[arg(long, value_name = "A,B,..", value_parser = names)]
    pub(crate) json: Option<Names>,
    /// Repeating a batch that the table already holds writes nothing
    #[arg(long, value_name = "ID", value_parser = batch_id)]
    pub(crate) batch_id: Option<String>,
}

/// Column names of one flag, to the letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) Vec<String>);

const EXPORT: &str = "daygrain export [OPTIONS] <DATASET> <INPUT>... | --query SQL | --iceberg LOCATION";

const DEFAULT_WAREHOUSE: &str = "./warehouse";

/// Reads a command line, the program's name first.
pub(crate) fn parse<I>(arguments: I) -> Result<Args, Refused>
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let matches = CommandLine::command().bin_name("daygrain").try_get_matches_from(arguments).map_err(refused)?;
    let mut line = CommandLine::from_arg_matches(&matches).map_err(refused)?;
    if line.settings.warehouse.is_empty() {
        // A variable that is set to nothing counts as not set; an empty flag is a script's mistake.
        if matches.value_source("warehouse") != Some(ValueSource::EnvVariable) {
            return Err(Refused::Usage(usage("--warehouse is empty")));
        }
        line.settings.warehouse = DEFAULT_WAREHOUSE.to_string();
    }
    if line.command == Some(Command::Demo) {
        for option in ["warehouse", "config"] {
            if given(&matches, option) {
                return Err(Refused::Usage(usage(&format!(
                    "the demo takes no --{option}: it makes a directory of its own"
                ))));
            }
        }
    }
    Ok(Args { settings: line.settings, sources: sources(&matches), command: line.command })
}

#[derive(Debug, Parser)]
#[command(name = "daygrain", version, about = "SQL over event data laid out by day", max_term_width = 120)]
#[command(override_usage = "daygrain [OPTIONS] [-c SQL]... [-f FILE]... [COMMAND]")]
struct CommandLine {
    #[command(flatten)]
    settings: Settings,
    /// Runs SQL and exits; may repeat; statements are separated by ;
    #[arg(id = "text", short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    _text: Vec<String>,
    /// The same from a file; - is standard input
    #[arg(id = "file", short = 'f', long = "file", value_name = "FILE")]
    _file: Vec<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Whether an option stands on the command line, before or after the subcommand.
fn given(matches: &ArgMatches, option: &str) -> bool {
    let here = matches.value_source(option) == Some(ValueSource::CommandLine);
    here || matches.subcommand().is_some_and(|(_, inner)| given(inner, option))
}

/// `-c` and `-f` by their place on the command line.
fn sources(matches: &ArgMatches) -> Vec<Source> {
    let given = |id: &str, source: fn(String) -> Source| {
        let places = matches.indices_of(id).into_iter().flatten();
        let values = matches.get_many::<String>(id).into_iter().flatten().cloned();
        places.zip(values.map(source)).collect::<Vec<_>>()
    };
    let mut all = given("text", Source::Text);
    all.extend(given("file", Source::File));
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, source)| source).collect()
}

/// The parser's complaint in the form of every other error.
fn refused(error: clap::Error) -> Refused {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return Refused::Shown(text);
    }
    let mut what = String::new();
    let mut tip = None;
    let mut command = None;
    for line in text.lines().map(str::trim) {
        let line = line.strip_prefix("error: ").unwrap_or(line);
        if let Some(rest) = line.strip_prefix("tip: ") {
            tip.get_or_insert_with(|| rest.to_string());
        } else if let Some(rest) = line.strip_prefix("Usage: ") {
            command = Some(rest.to_string());
        } else if !line.is_empty() && !line.starts_with("For more information") && command.is_none() {
            what.push_str(if what.is_empty() { "" } else { " " });
            what.push_str(line);
        }
    }
    let mut refused = Error::new(Code::InvalidArgument, what);
    if let Some(command) = &command {
        refused = refused.with("usage", command);
    }
    let help = match &command {
        Some(usage) if usage.starts_with("daygrain export") => "daygrain export --help lists the options",
        _ => "daygrain --help lists the options",
    };
    Refused::Usage(refused.help(tip.unwrap_or_else(|| help.to_string())))
}

fn usage(what: &str) -> Error {
    Error::new(Code::InvalidArgument, what).help("daygrain --help lists the options")
}

/// A size in bytes: digits and an optional `k`, `m`, `g` or `t`, each 1024 times the one before.
fn size(text: &str) -> Result<usize, String> {
    let lower = text.trim().to_ascii_lowercase();
    let unit_at = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(unit_at);
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(SIZES.to_string()),
    };
    let count: usize = digits.parse().map_err(|_| SIZES.to_string())?;
    match count.checked_mul(1 << shift) {
        Some(0) => Err("a limit of nothing runs nothing".to_string()),
        Some(bytes) => Ok(bytes),
        None => Err("more bytes than this machine can count".to_string()),
    }
}

const SIZES: &str = "a size is a number and k, m, g or t, e.g. 256m";

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "a number of threads is 1 or more".to_string())
}

fn names(text: &str) -> Result<Names, String> {
    if text.is_empty() {
        return Ok(Names(Vec::new()));
    }
    let names: Vec<String> = text.split(',').map(str::to_string).collect();
    if names.iter().any(String::is_empty) {
        return Err("a column name is empty".to_string());
    }
    Ok(Names(names))
}

fn batch_id(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("a batch id is empty".to_string());
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Args {
        match parse(std::iter::once("daygrain").chain(line.iter().copied())) {
            Ok(args) => args,
            Err(refused) => panic!("{line:?}: {refused:?}"),
        }
    }

    fn refusal(line: &[&str]) -> String {
        match parse(std::iter::once("daygrain").chain(line.iter().copied())) {
            Err(Refused::Usage(error)) => error.to_string(),
            other => panic!("{line:?}: {other:?}"),
        }
    }

    fn text(sql: &str) -> Source {
        Source::Text(sql.to_string())
    }

    fn file(path: &str) -> Source {
        Source::File(path.to_string())
    }

    #[test]
    fn sources_keep_their_order() {
        let args = read(&["-c", "a", "-f", "b", "--command=c", "-f", "-", "-c", "-1"]);
        assert_eq!(args.sources, [text("a"), file("b"), text("c"), file("-"), text("-1")]);
        let args = read(&["-f", "b", "-w", "x", "-c", "a", "--file", "d"]);
        assert_eq!(args.sources, [file("b"), text("a"), file("d")]);
        assert_eq!(read(&[]).sources, []);
    }

    #[test]
    fn options_stand_before_or_after_the_subcommand() {
        let before = read(&["--read-only", "-w", "s3://b/p", "--format", "csv", "--threads", "3", "export", "d", "i"]);
        let after = read(&["export", "d", "--threads", "3", "i", "-w", "s3://b/p", "--format", "csv", "--read-only"]);
        assert_eq!(before, after);
        assert_eq!(after.settings.warehouse, "s3://b/p");
        assert_eq!(after.settings.format, Format::Csv);
        assert!(after.settings.read_only && !after.settings.timing);
    }

    #[test]
    fn statements_may_come_before_a_subcommand() {
        let args = read(&["-c", "create schema s", "demo"]);
        assert_eq!((args.sources, args.command), (vec![text("create schema s")], Some(Command::Demo)));
    }

    #[test]
    fn the_demo_has_a_warehouse_of_its_own() {
        assert_eq!(read(&["demo", "--threads", "1"]).command, Some(Command::Demo));
        for line in [&["-w", "foo", "demo"][..], &["demo", "-w", "foo"], &["demo", "--config", "c.toml"]] {
            assert!(refusal(line).contains("the demo takes no --"), "{line:?}");
        }
    }

    #[test]
    fn export_takes_inputs_or_a_query() {
        let args = read(&["export", "d", "a.csv", "b/", "--lookup", "x,Y z", "--json", "", "--batch-id", "7"]);
        let Some(Command::Export(export)) = args.command else { panic!("not an export") };
        assert_eq!(export.inputs, ["a.csv", "b/"]);
        assert_eq!(export.lookup, Some(Names(vec!["x".into(), "Y z".into()])));
        assert_eq!(export.json, Some(Names(vec![])));
        assert_eq!(export.batch_id.as_deref(), Some("7"));

        let args = read(&["export", "d", "--query", "select 1", "--table", "n.t", "--primary-timestamp", "ts"]);
        let Some(Command::Export(export)) = args.command else { panic!("not an export") };
        assert_eq!((export.query.as_deref(), export.table.as_deref()), (Some("select 1"), Some("n.t")));
        assert_eq!(export.primary_timestamp.as_deref(), Some("ts"));

        let args = read(&["export", "d", "--iceberg", "/lake/t", "--only-new", "--relocate"]);
        let Some(Command::Export(export)) = args.command else { panic!("not an export") };
        assert_eq!((export.iceberg.as_deref(), export.only_new, export.relocate), (Some("/lake/t"), true, true));
        assert!(refusal(&["export", "d", "i", "--only-new"]).contains("--only-new"));
        assert!(refusal(&["export", "d", "i", "--iceberg", "/lake/t"]).contains("cannot be used"));
        assert!(refusal(&["export", "d", "--query", "select 1", "--iceberg", "t"]).contains("cannot be used"));

        assert!(refusal(&["export", "d"]).contains("INPUT"));
        assert!(refusal(&["export", "d", "i", "--query", "select 1"]).contains("cannot be used"));
        assert!(refusal(&["export", "d", "i", "--lookup", "a,,b"]).contains("a column name is empty"));
        assert!(refusal(&["export", "d", "i", "--batch-id", " "]).contains("a batch id is empty"));
    }

    #[test]
    fn maintain_is_a_known_name_with_any_flags() {
        let args = read(&["maintain", "t", "--compact", "--older-than", "7d", "--dry-run"]);
        assert!(matches!(args.command, Some(Command::Maintain { rest }) if rest.len() == 5));
        assert!(matches!(read(&["maintain"]).command, Some(Command::Maintain { .. })));
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("1", 1),
            ("512b", 512),
            ("4k", 4096),
            ("256m", 256 << 20),
            ("256M", 256 << 20),
            ("256MiB", 256 << 20),
            ("4g", 4 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "m", "-1", "1.5g", "256 m", "10x", "0", "0g", "99999999999999999999", "99999999999t"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn wrong_usage_has_the_form_of_every_error() {
        let shown = refusal(&["exprot", "d", "i"]);
        assert!(
            shown.starts_with("error[invalid_argument]: unrecognized subcommand 'exprot'\n  usage: daygrain "),
            "{shown}"
        );
        assert!(shown.contains("\n  help: a similar subcommand exists: 'export'"), "{shown}");
        let shown = refusal(&["--memory-limit", "much"]);
        assert!(shown.contains("'much' for '--memory-limit <SIZE>'") && shown.contains("256m"), "{shown}");
        let shown = refusal(&["--threads", "0"]);
        assert!(shown.contains("'0' for '--threads <N>': a number of threads is 1 or more\n"), "{shown}");
        let Err(Refused::Usage(error)) = parse(["/opt/bin/other-name", "export", "d"]) else { panic!("understood") };
        let shown = error.to_string();
        assert!(shown.contains(&format!("\n  usage: {EXPORT}\n")), "{shown}");
        assert!(shown.ends_with("\n  help: daygrain export --help lists the options"), "{shown}");
        for line in [&["--threads", "0"][..], &["--format", "xml"], &["-c"], &["-w", ""], &["--nope"]] {
            assert!(refusal(line).starts_with("error[invalid_argument]: "), "{line:?}");
        }
    }

    #[test]
    fn help_and_version_are_shown() {
        for (flag, part) in [("--version", "daygrain 0"), ("--help", "--memory-limit <SIZE>")] {
            let Err(Refused::Shown(text)) = parse(["daygrain", flag]) else { panic!("{flag}") };
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn the_declaration_is_consistent() {
        CommandLine::command().debug_assert();
    }
}

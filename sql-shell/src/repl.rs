//! The shell as a conversation.
//!
//! ```text
//! daygrain> SELECT role, count(*)
//! FROM messages          the whole statement stays editable until it ends with ;
//! GROUP BY role;
//! +------+----------+
//! ```
//!
//! A statement ends at a `;` outside quotes and comments; until then Enter starts a new line of the same buffer, so that
//! earlier lines can still be corrected and the history holds whole statements. Ctrl-C cancels what runs, or clears what
//! was typed; Ctrl-D on an empty line leaves.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;

use daygrain::{Code, Error};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use tokio::runtime::Runtime;

use crate::args::Source;
use crate::fault::Stop;
use crate::interrupt::Interrupts;
use crate::render::Format;
use crate::run::{Shell, interrupted, tell};
use crate::script::Script;
use crate::split::{Piece, Splitter};

const PROMPT: &str = "daygrain> ";
/// Statements that the history file keeps.
const REMEMBERED: usize = 10_000;

const HELP: &str = "\
Statements end with ; and may take several lines.
  \\d           lists tables          \\d NAME      describes one
  \\dn          lists schemas         \\i FILE      runs a script
  \\x           one line a value      \\format F    table, csv, tsv, json, ndjson
  \\timing      time after each statement
  \\?           this help             \\q           leaves, as Ctrl-D does
Ctrl-C cancels what is running, or clears what was typed.";

const TABLES: &str = "SELECT table_schema AS schema, table_name AS name FROM information_schema.tables \
                      WHERE table_schema <> 'information_schema' ORDER BY 1, 2";
const SCHEMAS: &str = "SELECT schema_name AS schema FROM information_schema.schemata \
                       WHERE schema_name <> 'information_schema' ORDER BY 1";

/// Reads and runs statements until the user leaves.
pub(crate) fn run(runtime: &Runtime, mut shell: Shell, interrupts: &mut Interrupts) -> Result<(), Error> {
    shell.interactive = true;
    let config = Config::builder()
        .auto_add_history(false)
        .max_history_size(REMEMBERED)
        .and_then(|config| config.history_ignore_dups(true))
        .map_err(terminal)?
        .build();
    let mut editor: Editor<Assistant, FileHistory> = Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(Assistant { plain: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) }));
    let history = history_file();
    if let Some(path) = &history {
        // The first run has none.
        let _ = editor.load_history(path);
    }
    tell(format_args!("daygrain {}   \\? for help, \\q to leave", env!("CARGO_PKG_VERSION")));
    loop {
        let text = match editor.readline(PROMPT) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => {
                tell("\\q or Ctrl-D leaves");
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal(error)),
        };
        if text.trim().is_empty() {
            continue;
        }
        if matches!(editor.add_history_entry(text.trim_end()), Ok(true))
            && let Some(path) = &history
            && let Err(error) = editor.append_history(path)
        {
            tell(format_args!("warning: the history is not kept: {error}"));
        }
        shell.layout.width = editor.dimensions().map(|(columns, _)| usize::from(columns));
        if Command::read(&text) == Some(Command::Quit) || !input(runtime, &mut shell, interrupts, &text) {
            return Ok(());
        }
    }
}

/// Runs what was typed; `false` when there is nobody left to show it to.
fn input(runtime: &Runtime, shell: &mut Shell, interrupts: &mut Interrupts, text: &str) -> bool {
    interrupts.forget();
    let done = runtime.block_on(async {
        tokio::select! {
            done = obey(shell, text) => done,
            () = interrupts.next() => {
                interrupted();
                Ok(())
            }
        }
    });
    match done {
        Ok(()) => true,
        Err(Stop::Failed(error)) => {
            tell(error);
            true
        }
        Err(Stop::Closed) => false,
    }
}

async fn obey(shell: &mut Shell, text: &str) -> Result<(), Stop> {
    let Some(command) = Command::read(text) else {
        for piece in pieces(text) {
            shell.statement(&piece.text).await?;
        }
        return Ok(());
    };
    match command {
        Command::Quit => {}
        Command::Help => tell(HELP),
        Command::Tables => shell.statement(TABLES).await?,
        Command::Schemas => shell.statement(SCHEMAS).await?,
        Command::Describe(name) => shell.statement(&format!("DESCRIBE {name}")).await?,
        Command::Timing(on) => {
            shell.timing = on.unwrap_or(!shell.timing);
            tell(format_args!("timing is {}", switch(shell.timing)));
        }
        Command::Expanded(on) => {
            shell.layout.expanded = on.unwrap_or(!shell.layout.expanded);
            tell(format_args!("one line a value is {}", switch(shell.layout.expanded)));
        }
        Command::Format(format) => shell.layout.format = format,
        Command::Include(path) => {
            let mut script = Script::open(&Source::File(path))?;
            while let Some(piece) = script.next().await? {
                shell.statement(&piece.text).await.map_err(|stop| match stop {
                    Stop::Failed(error) => Stop::Failed(script.place(&piece, error)),
                    Stop::Closed => Stop::Closed,
                })?;
            }
        }
        Command::Wrong(what) => tell(format_args!("{what}; \\? lists the commands")),
    }
    Ok(())
}

/// What a line with a backslash asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Command {
    Quit,
    Help,
    Tables,
    Schemas,
    Describe(String),
    Timing(Option<bool>),
    Expanded(Option<bool>),
    Format(Format),
    Include(String),
    Wrong(String),
}

impl Command {
    /// Reads a command; `None` for SQL.
    fn read(text: &str) -> Option<Command> {
        let text = text.trim().trim_end_matches(';').trim_end();
        if text.eq_ignore_ascii_case("quit") || text.eq_ignore_ascii_case("exit") {
            return Some(Command::Quit);
        }
        if text.eq_ignore_ascii_case("help") {
            return Some(Command::Help);
        }
        let text = text.strip_prefix('\\')?;
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        let flag = |command: fn(Option<bool>) -> Command| match rest {
            "" => command(None),
            "on" => command(Some(true)),
            "off" => command(Some(false)),
            _ => Command::Wrong(format!("\\{name} takes on or off")),
        };
        Some(match (name, rest) {
            ("timing", _) => flag(Command::Timing),
            ("x", _) => flag(Command::Expanded),
            ("format", _) => match clap::ValueEnum::from_str(rest, true) {
                Ok(format) => Command::Format(format),
                Err(_) => Command::Wrong("\\format takes table, csv, tsv, json or ndjson".to_string()),
            },
            ("i", "") => Command::Wrong("\\i takes a file".to_string()),
            ("i", path) => Command::Include(path.to_string()),
            ("d", "") => Command::Tables,
            ("d", table) => Command::Describe(table.to_string()),
            ("q" | "dn" | "?", rest) if !rest.is_empty() => Command::Wrong(format!("\\{name} takes no argument")),
            ("q", _) => Command::Quit,
            ("dn", _) => Command::Schemas,
            ("?", _) => Command::Help,
            _ => Command::Wrong(format!("\\{name} is no command")),
        })
    }
}

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut splitter = fed(text);
    splitter.finish();
    std::iter::from_fn(|| splitter.next()).collect()
}

fn fed(text: &str) -> Splitter {
    let mut splitter = Splitter::default();
    for line in text.split_inclusive('\n') {
        splitter.feed(line);
    }
    splitter
}

/// Whether Enter runs what was typed.
fn is_complete(text: &str) -> bool {
    Command::read(text).is_some() || fed(text).is_complete()
}

/// Where statements are remembered: `DAYGRAIN_HISTORY` (empty: nowhere), else the XDG state directory where one is
/// set, else the home directory.
fn history_file() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if std::env::var_os("DAYGRAIN_HISTORY").is_some() {
        return set("DAYGRAIN_HISTORY");
    }
    match set("XDG_STATE_HOME") {
        Some(state) => {
            let directory = state.join("daygrain");
            fs::create_dir_all(&directory).ok()?;
            Some(directory.join("history"))
        }
        None => Some(set("HOME")?.join(".daygrain_history")),
    }
}

fn terminal(error: ReadlineError) -> Error {
    Error::new(Code::StorageFailed, "the terminal can't be read").with("cause", &error).source(error)
}

/// What the line editor asks about the text being typed.
struct Assistant {
    /// No escape sequences but the editor's own.
    plain: bool,
}

/// Shown behind the cursor, never part of the text.
struct Reminder;

impl Hint for Reminder {
    fn display(&self) -> &str {
        "   ; runs it"
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Helper for Assistant {}

impl Completer for Assistant {
    type Candidate = String;
}

impl Validator for Assistant {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_complete(ctx.input()) { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for Assistant {
    type Hint = Reminder;

    /// On a fresh line of a statement that has not ended: how it ends.
    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<Reminder> {
        (pos == line.len() && line.ends_with('\n') && !is_complete(line)).then_some(Reminder)
    }
}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.plain { Cow::Borrowed(hint) } else { Cow::Owned(format!("\x1b[2m{hint}\x1b[0m")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        for (text, command) in [
            ("\\q", Command::Quit),
            (" exit; ", Command::Quit),
            ("\\?", Command::Help),
            ("\\d", Command::Tables),
            ("\\d main.\"T a\"", Command::Describe("main.\"T a\"".into())),
            ("\\dn", Command::Schemas),
            ("\\timing", Command::Timing(None)),
            ("\\timing off", Command::Timing(Some(false))),
            ("\\x on", Command::Expanded(Some(true))),
            ("\\format NDJSON", Command::Format(Format::Ndjson)),
            ("\\i a b.sql", Command::Include("a b.sql".into())),
        ] {
            assert_eq!(Command::read(text), Some(command), "{text}");
        }
        for text in ["\\", "\\nope", "\\x maybe", "\\format xml", "\\i", "\\q now"] {
            assert!(matches!(Command::read(text), Some(Command::Wrong(_))), "{text}");
        }
        for text in ["select 1;", "quit now", "select '\\d'", ""] {
            assert_eq!(Command::read(text), None, "{text}");
        }
    }

    #[test]
    fn enter_runs_what_is_complete() {
        for text in ["\\d t", "exit", "select 1;", "", "select 1; select 2; -- done"] {
            assert!(is_complete(text), "{text}");
        }
        for text in ["select 1", "select 1;\nselect", "select 'a;\n", "/* \\q"] {
            assert!(!is_complete(text), "{text}");
        }
    }
}

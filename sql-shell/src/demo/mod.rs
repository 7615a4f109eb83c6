//! `daygrain demo`: an archive from nothing, and what a query of it doesn't read.
//!
//! ```text
//! conversations ─▶ messages.ndjson ─▶ export ─▶ warehouse/main/messages ─▶ two queries, each with what it skipped
//! ```
//!
//! Everything goes the way a user's data would go: the export and the queries are those of the command line, and the
//! commands are printed so that they can be repeated.

mod conversations;
mod picture;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use daygrain::session::{Export, Options, Session};
use daygrain::{Code, Error};

use crate::export;
use crate::fault::Stop;
use crate::progress::{bytes, grouped};
use crate::render::{iso_utc, json_string};
use crate::run::Shell;
use conversations::Message;

/// Small enough for a few seconds in a debug build, large enough that pruning is worth looking at.
const MESSAGES: usize = 20_000;
const SESSIONS: usize = 100;
const DAYS: u64 = 14;
/// 2026-05-01T00:00:00Z in milliseconds.
const FROM: i64 = 1_777_593_600_000;

/// Makes an archive in a new directory and queries it.
pub(crate) async fn run(shell: &mut Shell) -> Result<(), Stop> {
    if shell.options.read_only {
        return Err(Error::new(Code::ReadOnly, "the demo writes an archive, and this session is read only").into());
    }
    let directory = new_directory()?;
    shell.options = Options { warehouse: shown(&directory.join("warehouse")), config: None, ..shell.options.clone() };
    shell.session = Session::with_env(shell.options.clone(), shell.env.clone())?;
    let messages = conversations::messages(MESSAGES, SESSIONS, FROM, DAYS);
    fill(shell, &directory, &messages).await?;
    ask(shell, &messages).await?;
    shell.say(format_args!("\nTo go on:\n\n  cd {} && {}", shown(&directory), program()))
}

/// What starts this program again from another directory: its name where that is on the path, else its file.
fn program() -> String {
    let name = "daygrain";
    let Ok(file) = std::env::current_exe() else { return name.to_string() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file());
    let same = found.and_then(|found| found.canonicalize().ok()) == file.canonicalize().ok();
    if same { name.to_string() } else { quoted(&shown(&file)) }
}

/// As a shell takes it for one word.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:\\".contains(c);
    if text.chars().all(plain) { text.to_string() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Writes the input and exports it.
async fn fill(shell: &mut Shell, directory: &Path, messages: &[Message]) -> Result<(), Stop> {
    let input = directory.join("messages.ndjson");
    let size = write(&input, messages).map_err(|error| unwritable(&error, &input))?;
    shell.say(format_args!(
        "{} messages of {SESSIONS} agent sessions over {DAYS} days, as a log holds them: {} ({})",
        grouped(messages.len() as u64),
        shown(&input),
        bytes(size)
    ))?;
    shell.say(
        "\nOne export makes them a table, partitioned by the day of the timestamp, clustered by the lookup columns:\n\n\
         $ daygrain export messages messages.ndjson --primary-timestamp message_created_at \
         --lookup session_id,conversation_id\n",
    )?;
    let export = Export {
        dataset: "messages".to_string(),
        inputs: vec![shown(&input)],
        primary_timestamp: Some("message_created_at".to_string()),
        lookup: Some(vec!["session_id".to_string(), "conversation_id".to_string()]),
        ..Export::default()
    };
    let exported = export::watched(shell.session.clone(), export).await?;
    shell.print(&export::report(&exported)?)?;
    let table = directory.join("warehouse/main/messages");
    let picture = picture::picture(&table).map_err(|error| unwritable(&error, &table))?;
    shell.say(format_args!("\nOne file a day, not one a session:\n\n{picture}"))
}

/// Two queries on ordinary columns.
async fn ask(shell: &mut Shell, messages: &[Message]) -> Result<(), Stop> {
    let session = across_midnight(messages);
    let by_session = format!(
        "SELECT role, count(*) AS messages, sum(output_tokens) AS output_tokens FROM messages \
         WHERE session_id = '{session}' GROUP BY role ORDER BY role"
    );
    shell.say(
        "\nOne session, on whatever days it was. Column bounds and bloom filters rule out the days without it, and its \
         rows lie together:",
    )?;
    explained(shell, &by_session).await?;
    let by_time = "SELECT model, count(*) AS answers, avg(output_tokens) AS output_tokens FROM messages \
                   WHERE message_created_at >= '2026-05-06' AND message_created_at < '2026-05-08' \
                   AND role = 'assistant' GROUP BY model ORDER BY model";
    shell.say("\nTwo days. A filter on the timestamp chooses the files, without a partition column to know about:")?;
    explained(shell, by_time).await
}

/// A session with messages before and after the midnight in the middle of the archive.
fn across_midnight(messages: &[Message]) -> &str {
    let midnight = FROM + 86_400_000 * (DAYS as i64 / 2);
    let (before, after) = messages.split_at(messages.partition_point(|message| message.created_at < midnight));
    let open = |id: &str| after.iter().any(|message| message.session_id == id);
    let last = before.iter().rev().take(1_000).find(|message| open(&message.session_id));
    last.or(before.last()).map_or("", |message| &message.session_id)
}

/// Runs a query and then shows what it didn't read.
async fn explained(shell: &mut Shell, sql: &str) -> Result<(), Stop> {
    shell.say(format_args!("\n$ daygrain -c \"{sql}\"\n"))?;
    shell.statement(sql).await?;
    shell.say("\n$ daygrain -c \"EXPLAIN PRUNING SELECT …\"\n")?;
    shell.statement(&format!("EXPLAIN PRUNING {sql}")).await
}

/// `./daygrain-demo`, or the first free name after it.
fn new_directory() -> Result<PathBuf, Error> {
    // Far more demos than anybody keeps side by side.
    for number in 1..1_000 {
        let name = if number == 1 { "daygrain-demo".to_string() } else { format!("daygrain-demo-{number}") };
        let path = PathBuf::from(name);
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritable(&error, &path)),
        }
    }
    Err(Error::new(Code::AlreadyExists, "every name for the demo's directory is taken").help("remove daygrain-demo*"))
}

/// One JSON object a line; returns the bytes written.
fn write(path: &Path, messages: &[Message]) -> io::Result<u64> {
    let mut file = BufWriter::new(File::create_new(path)?);
    let mut line = String::new();
    let mut size = 0;
    for message in messages {
        line.clear();
        object(message, &mut line);
        file.write_all(line.as_bytes())?;
        size += line.len() as u64;
    }
    file.flush()?;
    Ok(size)
}

fn object(message: &Message, line: &mut String) {
    let text = |name: &str, value: Option<&str>, line: &mut String| {
        line.push_str(if line.is_empty() { "{\"" } else { ",\"" });
        line.push_str(name);
        line.push_str("\":");
        match value {
            Some(value) => json_string(value, line),
            None => line.push_str("null"),
        }
    };
    text("message_id", Some(&message.message_id), line);
    text("session_id", Some(&message.session_id), line);
    text("conversation_id", message.conversation_id.as_deref(), line);
    text("cwd", Some(message.cwd), line);
    text("message_created_at", Some(&iso_utc(message.created_at)), line);
    text("role", Some(message.role), line);
    text("model", message.model, line);
    text("tool_name", message.tool_name, line);
    text("content_text", Some(&message.content_text), line);
    for (name, tokens) in [("input_tokens", message.input_tokens), ("output_tokens", message.output_tokens)] {
        let tokens = tokens.map_or_else(|| "null".to_string(), |tokens| tokens.to_string());
        line.extend([",\"", name, "\":", &tokens]);
    }
    line.push_str("}\n");
}

fn unwritable(error: &io::Error, path: &Path) -> Error {
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied => Code::PermissionDenied,
        io::ErrorKind::StorageFull => Code::StorageFull,
        _ => Code::StorageFailed,
    };
    Error::new(code, "the demo's directory can't be used").with("path", path.display()).with("cause", error)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_session_asked_for_spans_midnight() {
        let messages = conversations::messages(MESSAGES, SESSIONS, FROM, DAYS);
        let session = across_midnight(&messages);
        let days: BTreeSet<_> = messages
            .iter()
            .filter(|message| message.session_id == session)
            .map(|message| message.created_at.div_euclid(86_400_000))
            .collect();
        assert_eq!(days.len(), 2);
    }

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(quoted("/opt/day-grain/v0.1/daygrain"), "/opt/day-grain/v0.1/daygrain");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }

    #[test]
    fn the_input_is_json_lines() {
        let mut lines = 0;
        for message in conversations::messages(500, 5, FROM, DAYS) {
            let mut line = String::new();
            object(&message, &mut line);
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(read["content_text"], message.content_text.as_str());
            assert_eq!(read["message_created_at"].as_str().map(|text| text.starts_with("2026-05-")), Some(true));
            assert_eq!(read.as_object().map(serde_json::Map::len), Some(11));
            lines += 1;
        }
        assert_eq!(lines, 500);
    }
}

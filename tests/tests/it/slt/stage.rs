//! Where do the statements of a file run?
//!
//! ```text
//! directory/warehouse ─ tables ─▶ Session ─▶ rows ┐
//!                          │                       ├ must be the same
//!                          └─ all rows ─▶ twin ───▶┘
//! ```
//!
//! The twin is a session of its own whose tables of the same names are in memory: the same names and literals, and
//! nothing that could skip a row.

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use daygrain::session::{Answer, Export, ExportProgress};
use daygrain::storage::{Env, LocalStore, Stores};
use daygrain::{Options, Result, Session, Statement};
use futures::TryStreamExt;
use tempfile::TempDir;

pub(super) struct Stage {
    directory: TempDir,
    session: Session,
    twin: Option<Twin>,
}

#[derive(Default)]
struct Twin {
    /// None where the tables have changed since.
    session: Option<Session>,
    /// Statements that changed the session: repeated in each new one.
    settings: Vec<String>,
}

/// How the stage stands for its own directory in statements and answers.
const DIRECTORY: &str = "<dir>";

impl Stage {
    pub(super) fn new() -> Stage {
        let directory = tempfile::tempdir().expect("a directory");
        let session = open(&directory, false);
        Stage { directory, session, twin: None }
    }

    /// Goes on in a new session over the same warehouse.
    pub(super) fn reopen(&mut self, read_only: bool) {
        self.session = open(&self.directory, read_only);
        self.twin = self.twin.take().map(|_| Twin::default());
    }

    pub(super) fn add_twin(&mut self) {
        self.twin = Some(Twin::default());
    }

    pub(super) fn file(&self, path: &str, lines: &[String]) {
        let path = self.directory.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a file has a directory")).expect("a new directory");
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(path, text).expect("a new file");
    }

    /// Text with the directory's path where it names it.
    fn placed(&self, sql: &str) -> String {
        sql.replace(DIRECTORY, &self.directory.path().display().to_string())
    }

    /// An answer without the directory's path, which differs from run to run.
    pub(super) fn without_paths(&self, text: &str) -> String {
        let path = self.directory.path().display().to_string();
        text.replace(&path, DIRECTORY).replace(path.trim_start_matches('/'), DIRECTORY)
    }

    /// Runs a statement to its end; the notes beside its rows.
    pub(super) async fn statement(&mut self, sql: &str) -> Result<Vec<String>> {
        self.changed(sql);
        let running = self.session.run(&Statement { text: self.placed(sql), line: 1 }).await?;
        running.stream.try_for_each(|_| std::future::ready(Ok(()))).await?;
        Ok(running.notes)
    }

    pub(super) async fn query(&mut self, sql: &str) -> Result<Answer> {
        self.changed(sql);
        self.session.query(&self.placed(sql)).await
    }

    /// The twin's answer, where there is a twin and the statement is a query.
    pub(super) async fn twin(&mut self, sql: &str) -> Option<Result<Answer>> {
        if !is_query(sql) {
            return None;
        }
        let sql = self.placed(sql);
        let twin = self.twin.as_mut()?;
        if twin.session.is_none() {
            match copy(&self.session, &twin.settings).await {
                Ok(session) => twin.session = Some(session),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(twin.session.as_ref()?.query(&sql).await)
    }

    /// Appends the rows of `query`, or of the file that `settings` name.
    pub(super) async fn export(&mut self, settings: &[(String, String)], query: &str) -> Result<()> {
        self.changed("");
        let list = |value: &str| value.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut request = Export { query: (!query.is_empty()).then(|| self.placed(query)), ..Export::default() };
        for (key, value) in settings {
            match key.as_str() {
                "dataset" => request.dataset.clone_from(value),
                "timestamp" => request.primary_timestamp = Some(value.clone()),
                "lookup" => request.lookup = Some(list(value)),
                "json" => request.json = Some(list(value)),
                "table" => request.table = Some(value.clone()),
                _ => request.inputs.push(self.directory.path().join(value).display().to_string()),
            }
        }
        self.session.export(request, ExportProgress::default()).await.map(drop)
    }

    fn changed(&mut self, sql: &str) {
        if let Some(twin) = self.twin.as_mut().filter(|_| !is_query(sql)) {
            twin.session = None;
            let first = first_word(sql);
            if ["SET", "RESET"].contains(&first.as_str()) || first == "CREATE" && sql.to_uppercase().contains(" VIEW ")
            {
                twin.settings.push(sql.to_owned());
            }
        }
    }
}

fn open(directory: &TempDir, read_only: bool) -> Session {
    let stores = Stores::new();
    stores.register(&"file:///".parse().expect("a URL"), Arc::new(LocalStore::without_sync()));
    let warehouse = directory.path().join("warehouse").display().to_string();
    let options = Options { threads: Some(2), read_only, ..Options::at(warehouse) };
    Session::with_env(options, Env::new(stores)).expect("a session over a local directory")
}

/// A session whose tables hold in memory what those of `session` hold.
async fn copy(session: &Session, settings: &[String]) -> Result<Session> {
    let twin = Session::new(Options { threads: Some(2), ..Options::at("memory://twin/warehouse") })?;
    session.warehouse().list().await?;
    for (schema, tables) in session.warehouse().listed() {
        for table in tables.iter().filter(|table| schema == "main" && !session.warehouse().is_local(&schema, table)) {
            let text = format!("SELECT * FROM \"{}\"", table.replace('"', "\"\""));
            let running = session.run(&Statement { text, line: 1 }).await?;
            let rows = running.stream.schema();
            let batches = running.stream.try_collect().await?;
            let name = TableReference::full("daygrain", schema.as_str(), table.as_str());
            twin.context().register_table(name, Arc::new(MemTable::try_new(rows, vec![batches])?))?;
        }
    }
    for sql in settings {
        twin.query(sql).await?;
    }
    Ok(twin)
}

pub(super) fn first_word(sql: &str) -> String {
    sql.split_whitespace().next().unwrap_or_default().to_uppercase()
}

fn is_query(sql: &str) -> bool {
    ["SELECT", "WITH", "VALUES"].contains(&first_word(sql).as_str())
}

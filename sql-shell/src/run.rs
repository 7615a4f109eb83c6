//! What happens to a statement?
//!
//! ```text
//! statement ─▶ Session ─▶ batches ─▶ Renderer ─▶ standard output
//!                  └ notes, timing ────────────▶ standard error
//! ```

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use daygrain::session::{Options, Running, Session, Statement};
use daygrain::storage::{Env, Stores};
use daygrain::{Code, Error};
use futures::StreamExt;

use crate::args::{Command, Source};
use crate::fault::Stop;
use crate::render::{self, Layout};
use crate::script::Script;
use crate::{demo, export};

/// A session and where its results go.
pub(crate) struct Shell {
    pub(crate) session: Session,
    /// What every session of this process runs in.
    pub(crate) env: Env,
    /// What the session was made of.
    pub(crate) options: Options,
    pub(crate) layout: Layout,
    /// A line on standard error after each statement.
    pub(crate) timing: bool,
    /// A person is watching: say how many rows there were.
    pub(crate) interactive: bool,
    out: Box<dyn Write + Send>,
}

/// How a batch run ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Fine,
    /// Standard output was closed while there was still something to run.
    CutShort,
}

impl Shell {
    pub(crate) fn new(options: Options, layout: Layout, timing: bool) -> Result<Self, Error> {
        let out = Box::new(BufWriter::with_capacity(1 << 16, io::stdout()));
        let env = Env::new(Stores::new());
        let session = Session::with_env(options.clone(), env.clone())?;
        Ok(Shell { session, env, options, layout, timing, interactive: false, out })
    }

    /// Runs scripts and then a subcommand. The first failure is the last thing that happens.
    pub(crate) async fn batch(&mut self, sources: &[Source], command: Option<Command>) -> Result<Ended, Error> {
        for (place, source) in sources.iter().enumerate() {
            let mut script = Script::open(source)?;
            while let Some(piece) = script.next().await? {
                match self.statement(&piece.text).await {
                    Ok(()) => {}
                    Err(Stop::Failed(error)) => return Err(script.place(&piece, error)),
                    Err(Stop::Closed) => {
                        let more = place + 1 < sources.len() || command.is_some() || script.next().await?.is_some();
                        return Ok(if more { Ended::CutShort } else { Ended::Fine });
                    }
                }
            }
        }
        let done = match command {
            Some(Command::Export(arguments)) => export::run(self, arguments).await,
            Some(Command::Demo) => demo::run(self).await,
            Some(Command::Maintain { .. }) | None => Ok(()),
        };
        match done {
            Ok(()) | Err(Stop::Closed) => Ok(Ended::Fine),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Runs the text of one statement and prints its rows.
    pub(crate) async fn statement(&mut self, text: &str) -> Result<(), Stop> {
        for statement in self.session.parse(text) {
            let started = Instant::now();
            let rows = self.run(&statement).await?;
            self.report(started.elapsed(), rows);
        }
        Ok(())
    }

    /// Prints a result that is there as a whole.
    pub(crate) fn print(&mut self, batch: &RecordBatch) -> Result<(), Stop> {
        let mut renderer = render::renderer(&batch.schema(), self.layout);
        renderer.batch(batch, &mut self.out)?;
        renderer.finish(&mut self.out)?;
        Ok(self.out.flush()?)
    }

    /// Prints text between results, for output that is read by people.
    pub(crate) fn say(&mut self, text: impl Display) -> Result<(), Stop> {
        writeln!(self.out, "{text}")?;
        Ok(self.out.flush()?)
    }

    /// The line after a statement, where one is wanted.
    pub(crate) fn report(&self, time: Duration, rows: u64) {
        let ms = time.as_secs_f64() * 1e3;
        if self.timing {
            tell(format_args!("time_ms={ms:.3} rows={rows}"));
        } else if self.interactive {
            let rows = if rows == 1 { "1 row".to_string() } else { format!("{rows} rows") };
            tell(format_args!("{rows} in {:.3} s", ms / 1e3));
        }
    }

    async fn run(&mut self, statement: &Statement) -> Result<u64, Stop> {
        let Running { mut stream, notes, .. } = self.session.run(statement).await?;
        for note in notes {
            tell(format_args!("note: {note}"));
        }
        let schema = stream.schema();
        // Statements such as CREATE have no columns, and nothing to print.
        let mut renderer = (!schema.fields().is_empty()).then(|| render::renderer(&schema, self.layout));
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            if let Some(renderer) = &mut renderer {
                renderer.batch(&batch, &mut self.out)?;
                self.out.flush()?;
            }
        }
        if let Some(renderer) = &mut renderer {
            renderer.finish(&mut self.out)?;
            self.out.flush()?;
        }
        Ok(rows)
    }
}

/// A line on standard error. Where even that is closed, there is nobody left to tell.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Says that an interrupt was heard. A terminal has just echoed `^C`, so that starts on a line of its own.
pub(crate) fn interrupted() {
    let line = if io::stderr().is_terminal() { "\n" } else { "" };
    tell(format_args!("{line}{}", Error::new(Code::Interrupted, "interrupted")));
}

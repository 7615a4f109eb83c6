//! The daygrain shell: SQL, exports and a demo on the command line.
//!
//! ```text
//! args ─▶ main ─┬─▶ scripts (-c, -f, standard input) ─▶ run ─▶ render
//!               ├─▶ export, demo
//!               └─▶ repl
//! ```
//!
//! `docs/shell.md` is what a user reads. Exit codes: 0 fine, 1 a statement or action failed, 2 wrong usage,
//! 130 interrupted, 141 standard output was closed before everything was run.

mod args;
mod demo;
mod export;
mod fault;
mod interrupt;
mod progress;
mod render;
mod repl;
mod run;
mod script;
mod split;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use daygrain::session::{Options, Session};
use daygrain::{Code, Error};
use tokio::runtime::Runtime;

use args::{Args, Command, Refused, Settings, Source};
use interrupt::{Interrupts, patience};
use render::Layout;
use run::{Ended, Shell, interrupted, tell};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const INTERRUPTED: u8 = 130;
const CUT_SHORT: u8 = 141;

fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(Refused::Shown(text)) => {
            let _ = io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(Refused::Usage(error)) => return ended(USAGE, &error),
    };
    if let Some(Command::Maintain { .. }) = args.command {
        let error = Error::new(Code::NotSupported, "maintain is not part of this version");
        return ended(USAGE, &error.help("tables stay correct without it; files are only compacted later"));
    }
    match start(&args.settings) {
        Ok((runtime, shell)) => {
            let code = serve(&runtime, shell, args);
            // A reader of standard input or a writer to a stalled pipe must not keep the process.
            runtime.shutdown_background();
            ExitCode::from(code)
        }
        Err(error) => ended(FAILED, &error),
    }
}

fn ended(code: u8, error: &Error) -> ExitCode {
    tell(error);
    ExitCode::from(code)
}

fn start(settings: &Settings) -> Result<(Runtime, Shell), Error> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    // Plans of deep expressions are walked by recursion.
    builder.enable_all().thread_stack_size(8 << 20);
    if let Some(threads) = settings.threads {
        builder.worker_threads(threads.get());
    }
    let runtime =
        builder.build().map_err(|error| Error::new(Code::Internal, "the runtime doesn't start").source(error))?;
    let layout = Layout { format: settings.format, width: terminal_width(), expanded: false };
    let shell = {
        let _inside = runtime.enter();
        Shell::new(options(settings), layout, settings.timing)?
    };
    Ok((runtime, shell))
}

/// What the settings mean to a session of any warehouse.
fn options(settings: &Settings) -> Options {
    let config = settings.config.clone();
    Options {
        warehouse: settings.warehouse.clone(),
        config: config.or_else(|| Path::new("daygrain.toml").exists().then(|| "./daygrain.toml".to_string())),
        memory_limit: settings.memory_limit,
        threads: settings.threads.map(std::num::NonZeroUsize::get),
        read_only: settings.read_only,
        ..Options::default()
    }
}

fn serve(runtime: &Runtime, shell: Shell, args: Args) -> u8 {
    let Args { mut sources, command, .. } = args;
    let mut interrupts = match Interrupts::listen() {
        Ok(interrupts) => interrupts,
        Err(error) => {
            tell(error);
            return FAILED;
        }
    };
    let session = shell.session.clone();
    warn_of_datasets(&session, command.as_ref());
    if sources.is_empty() && command.is_none() {
        if io::stdin().is_terminal() {
            let code = match repl::run(runtime, shell, &mut interrupts) {
                Ok(()) => 0,
                Err(error) => {
                    tell(error);
                    FAILED
                }
            };
            runtime.block_on(settled(&session, &mut interrupts));
            return code;
        }
        sources.push(Source::File("-".to_string()));
    }
    runtime.block_on(batch(shell, sources, command, &session, interrupts))
}

/// A line for each dataset of the configuration that nothing can be exported to. The one that this run exports to fails
/// with the whole of it.
fn warn_of_datasets(session: &Session, command: Option<&Command>) {
    let exported = match command {
        Some(Command::Export(export)) => Some(export.dataset.as_str()),
        _ => None,
    };
    for (name, error) in session.unusable_datasets().filter(|(name, _)| Some(*name) != exported) {
        let (code, what) = (error.code(), error.what());
        tell(format_args!("warning: nothing can be exported to the dataset {name}, {code}: {what}"));
    }
}

/// How long what was given up may take to remove what it stored.
const CLEANING: Duration = Duration::from_secs(10);

/// Waits until nothing writes any more, but not for ever, nor beyond another interrupt.
async fn settled(session: &Session, interrupts: &mut Interrupts) {
    let settled = tokio::select! {
        biased;
        () = session.settle() => true,
        () = interrupts.next() => false,
        () = patience(CLEANING) => false,
    };
    if !settled {
        tell("warning: files of what was interrupted may be left; no table names them");
    }
}

/// Runs everything on a thread of its own, so that an interrupt is heard whatever the run is waiting for.
async fn batch(
    mut shell: Shell,
    sources: Vec<Source>,
    command: Option<Command>,
    session: &Session,
    mut interrupts: Interrupts,
) -> u8 {
    let mut task = tokio::spawn(async move { shell.batch(&sources, command).await });
    let done = tokio::select! {
        done = &mut task => done,
        () = interrupts.next() => {
            task.abort();
            interrupted();
            // What was running gets a moment to let go of its files; a second interrupt doesn't wait for it.
            tokio::select! {
                _ = &mut task => settled(session, &mut interrupts).await,
                () = interrupts.next() => {}
                () = patience(Duration::from_secs(2)) => {}
            }
            return INTERRUPTED;
        }
    };
    settled(session, &mut interrupts).await;
    match done {
        Ok(Ok(Ended::Fine)) => 0,
        Ok(Ok(Ended::CutShort)) => CUT_SHORT,
        Ok(Err(error)) => {
            tell(error);
            FAILED
        }
        Err(error) => {
            tell(Error::new(Code::Internal, "the shell failed").with("cause", error));
            FAILED
        }
    }
}

/// Columns of the terminal that results are written to.
fn terminal_width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = rustyline::DefaultEditor::new().ok()?.dimensions()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

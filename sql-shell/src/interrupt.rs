//! Is this process to end: was Ctrl-C pressed, or SIGTERM sent?
//!
//! A thread of its own listens: those of the runtime may all be inside of a computation, and then nobody would hear.

use std::thread;
use std::time::Duration;

use daygrain::{Code, Error};
use tokio::sync::{mpsc, oneshot};

/// Interrupts of this process, from [`Interrupts::listen`] on.
#[derive(Debug)]
pub(crate) struct Interrupts(mpsc::UnboundedReceiver<()>);

impl Interrupts {
    /// Listens from now on. An interrupt no longer ends the process by itself.
    pub(crate) fn listen() -> Result<Self, Error> {
        let failed =
            |error| Error::new(Code::Internal, "interrupts can't be heard").with("cause", &error).source(error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let (heard, receiver) = mpsc::unbounded_channel();
        let mut ends = {
            let _inside = runtime.enter();
            Ends::listen().map_err(failed)?
        };
        let listen = async move { while ends.next().await && heard.send(()).is_ok() {} };
        thread::Builder::new()
            .name("interrupts".to_string())
            .spawn(move || runtime.block_on(listen))
            .map_err(failed)?;
        Ok(Interrupts(receiver))
    }

    /// Waits for the next one; forever where none can come any more.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Forgets those that nobody waited for.
    pub(crate) fn forget(&mut self) {
        while self.0.try_recv().is_ok() {}
    }
}

/// The signals that ask for an end.
#[cfg(unix)]
struct Ends(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl Ends {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Ends(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    /// Waits for the next one; `false` where none can come any more.
    async fn next(&mut self) -> bool {
        tokio::select! {
            heard = self.0.recv() => heard.is_some(),
            heard = self.1.recv() => heard.is_some(),
        }
    }
}

#[cfg(windows)]
struct Ends(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Ends {
    fn listen() -> std::io::Result<Self> {
        Ok(Ends(tokio::signal::windows::ctrl_c()?))
    }

    async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// Waits, also while every thread of the runtime computes.
pub(crate) async fn patience(time: Duration) {
    let (end, ended) = oneshot::channel::<()>();
    thread::spawn(move || {
        thread::sleep(time);
        drop(end);
    });
    let _ = ended.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_while_the_runtime_computes() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (started, running) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            started.send(()).unwrap();
            thread::sleep(Duration::from_secs(20));
        });
        running.recv().unwrap();
        let begun = std::time::Instant::now();
        runtime.block_on(patience(Duration::from_millis(20)));
        assert!(begun.elapsed() < Duration::from_secs(10));
        runtime.shutdown_background();
    }
}

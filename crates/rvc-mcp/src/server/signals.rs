//! The signals that end a process.

use std::io;

/// A signal that asks the process to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signal {
    pub(crate) name: &'static str,
    pub(crate) number: i32,
}

const INTERRUPT: Signal = Signal {
    name: "SIGINT",
    number: 2,
};

/// SIGTERM and Ctrl-C, in the order they come.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        const TERMINATE: Signal = Signal {
            name: "SIGTERM",
            number: 15,
        };
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.terminate.recv() => TERMINATE,
        }
    }
}

/// Ctrl-C.
#[cfg(windows)]
#[derive(Debug)]
pub(crate) struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    pub(crate) async fn next(&mut self) -> Signal {
        self.0.recv().await;
        INTERRUPT
    }
}

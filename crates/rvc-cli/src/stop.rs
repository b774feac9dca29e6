use std::future::Future;
use std::process;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Listens from now on for Ctrl-C and SIGTERM, and is ready when one came.
pub(crate) fn requested() -> anyhow::Result<impl Future<Output = ()>> {
    let mut signals = Signals::listen()?;
    Ok(async move { signals.next().await })
}

/// As [`requested`]; and `most` after the first signal, or at a second one, the process ends
/// whatever holds it up, such as a log that nobody reads.
pub(crate) fn requested_for_sure(most: Duration) -> anyhow::Result<impl Future<Output = ()>> {
    // A runtime of its own: every thread of the other one may be held up.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let mut signals = {
        let _in_runtime = runtime.enter();
        Signals::listen()?
    };
    let (tell, told) = oneshot::channel();
    let watch = async move {
        signals.next().await;
        // Nobody listens: then it ends already.
        let _ = tell.send(());
        let _ = tokio::time::timeout(most, signals.next()).await;
        process::exit(HELD_UP);
    };
    thread::Builder::new()
        .name("stop".to_owned())
        .spawn(move || runtime.block_on(watch))
        .context("cannot start")?;
    Ok(async {
        // It is sent before its sender is dropped.
        let _ = told.await;
    })
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// As any command that could not be carried out.
const HELD_UP: i32 = 2;

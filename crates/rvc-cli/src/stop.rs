use std::future::Future;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Listens from now on for Ctrl-C and SIGTERM, and is ready when one came.
pub(crate) fn requested() -> anyhow::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

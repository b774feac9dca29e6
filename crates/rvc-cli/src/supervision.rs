//! Supervising in this process: its settings, and to what end.

use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use rvc_durable::plan::Settings;
use rvc_durable::{ActionId, Durable, Linkage, SupervisorOptions};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use crate::{duration, progress, stop};

/// How to supervise.
#[derive(Args)]
pub(crate) struct Supervision {
    /// How long a dead process' step keeps others from its action
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    lease: Duration,

    /// The shortest time between two polls of a task, whatever its server says
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse)]
    min_poll: Duration,

    /// The longest time between two polls of a task, whatever its server says
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    max_poll: Duration,
}

impl Supervision {
    pub(crate) fn options(&self) -> anyhow::Result<SupervisorOptions> {
        ensure!(
            self.min_poll <= self.max_poll,
            "--min-poll is longer than --max-poll"
        );
        let mut settings = Settings::default();
        settings.min_poll_interval = self.min_poll;
        settings.max_poll_interval = self.max_poll;
        let options = SupervisorOptions::new()
            .settings(settings)
            .lease(self.lease);
        #[cfg(feature = "crash-points")]
        let options = crate::crash_point::added(options)?;
        Ok(options)
    }
}

/// Supervises until the action has its outcome, and its remote task a last chance to be cancelled
/// where that is called for. `None` when `stopped` came first.
pub(crate) async fn to_outcome(
    durable: &Durable,
    action: &ActionId,
    stopped: impl Future<Output = ()>,
) -> anyhow::Result<Option<Linkage>> {
    let mut stopped = pin!(stopped);
    durable.supervise();
    let outcome = tokio::select! {
        outcome = durable.outcome(action) => Some(outcome?),
        never = show_progress(durable, action) => never,
        () = &mut stopped => None,
    };
    if outcome.is_some() {
        let clean = timeout(LAST_CHANCE, at_rest(durable, action));
        tokio::select! {
            _ = clean => {}
            () = &mut stopped => {}
        }
    }
    close(durable).await?;
    match outcome {
        Some(_) => Ok(durable.action(action).await?),
        None => Ok(None),
    }
}

/// Ends in order; a further signal ends at once, which is as safe and takes others a lease longer.
pub(crate) async fn close(durable: &Durable) -> anyhow::Result<()> {
    let again = stop::requested()?;
    tokio::select! {
        () = durable.close() => {}
        () = again => {}
    }
    Ok(())
}

async fn at_rest(durable: &Durable, action: &ActionId) -> anyhow::Result<()> {
    loop {
        let row = durable.action(action).await?;
        if row.context("the action is gone")?.is_at_rest() {
            return Ok(());
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// Keeps a line with the newest progress on standard error, if that is a terminal.
async fn show_progress<T>(durable: &Durable, action: &ActionId) -> T {
    let mut updates = durable.updates();
    let mut line = ProgressLine {
        is_empty: true,
        is_terminal: io::stderr().is_terminal(),
    };
    loop {
        match updates.recv().await {
            Ok(update) if update.action == *action => {
                if let Some(told) = &update.progress {
                    line.show(told);
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// A line that is written again and again, and taken away at the end.
struct ProgressLine {
    is_empty: bool,
    is_terminal: bool,
}

impl ProgressLine {
    fn show(&mut self, told: &str) {
        if self.is_terminal {
            let line: String = progress::shown(told).chars().take(NARROW).collect();
            self.write(&line);
            self.is_empty = false;
        }
    }

    #[expect(clippy::unused_self, reason = "only one line may write")]
    fn write(&self, line: &str) {
        // Progress that cannot be shown is no failure.
        let _ = write!(io::stderr(), "\r\u{1b}[K{line}");
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if !self.is_empty {
            self.write("");
        }
    }
}

/// For one call to cancel a task, which is bounded by itself at 10 s, and a look at it.
const LAST_CHANCE: Duration = Duration::from_secs(15);

const GLANCE: Duration = Duration::from_millis(100);

/// A longer line would wrap, and stay.
const NARROW: usize = 78;

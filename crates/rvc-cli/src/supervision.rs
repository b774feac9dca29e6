//! Supervising in this process: its settings, and to what end.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use rvc_durable::plan::Settings;
use rvc_durable::{ActionId, Durable, Linkage, SupervisorOptions};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use crate::progress::ProgressLine;
use crate::tokens::Tokens;
use crate::{duration, stop};

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

    /// How long the steps in hand may go on when this ends in order
    ///
    /// A start whose answer comes later is as good as lost: under `at_most_once` its action fails
    /// with START_OUTCOME_UNKNOWN, under the other policies it is sent again.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    close_grace: Duration,

    #[command(flatten)]
    tokens: Tokens,
}

impl Supervision {
    pub(crate) fn tokens(&self) -> Tokens {
        self.tokens.clone()
    }

    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

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
            .lease(self.lease)
            .close_grace(self.close_grace);
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
    progress: ProgressLine,
    stopped: impl Future<Output = ()>,
) -> anyhow::Result<Option<Linkage>> {
    let mut stopped = pin!(stopped);
    durable.supervise();
    let outcome = tokio::select! {
        outcome = durable.outcome(action) => Some(outcome?),
        never = show_progress(durable, action, progress) => never,
        failure = failed(durable) => return Err(failure),
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

/// Waits until supervising ends by itself, which is a fault of this program. Whoever goes on
/// waits for outcomes that never come.
pub(crate) async fn failed(durable: &Durable) -> anyhow::Error {
    durable.ended().await;
    anyhow!("supervising ended by itself; nothing is lost, and the next supervisor goes on")
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

/// Keeps the newest progress in sight.
async fn show_progress<T>(durable: &Durable, action: &ActionId, mut line: ProgressLine) -> T {
    let mut updates = durable.updates();
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

/// For one call to cancel a task, which is bounded by itself at 10 s, and a look at it.
const LAST_CHANCE: Duration = Duration::from_secs(15);

const GLANCE: Duration = Duration::from_millis(100);

#[cfg(test)]
pub(crate) mod tests {
    use rvc_durable::remote::HttpDialer;
    use rvc_durable::store::SqliteOptions;
    use rvc_durable::{Moment, Submission};

    use super::*;

    /// One whose supervisor panics at once, since nothing but a test can look at its clock.
    pub(crate) fn broken() -> Durable {
        let store = SqliteOptions::memory().inline().clock(|| {
            assert_eq!(tokio::task::try_id(), None, "a fault of the program");
            Moment::from_unix_ms(0)
        });
        Durable::new(
            store.open().unwrap(),
            HttpDialer::new().unwrap(),
            SupervisorOptions::new(),
        )
    }

    #[tokio::test]
    async fn a_supervisor_that_panicked_ends_the_wait_for_an_outcome_with_an_error() {
        let durable = broken();
        let action: ActionId = "a".parse().unwrap();
        let submission = Submission::new(action.clone(), "robot".parse().unwrap(), "beep");
        durable.submit(submission).await.unwrap();

        let ended = to_outcome(
            &durable,
            &action,
            ProgressLine::on_stderr(true),
            std::future::pending(),
        );

        let error = timeout(Duration::from_secs(60), ended).await.unwrap();
        let error = error.unwrap_err().to_string();
        assert!(error.contains("ended by itself"), "{error}");
    }
}

//! Supervising in this process: its settings, and to what end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use rvc_durable::plan::Settings;
use rvc_durable::remote::HttpDialer;
use rvc_durable::{ActionId, Durable, Linkage, SupervisorOptions};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use crate::duration::Span;
use crate::progress::ProgressLine;
use crate::stop;
use crate::tokens::Tokens;

/// How to supervise.
#[derive(Args)]
pub(crate) struct Supervision {
    /// How long a dead process' step keeps others from its action
    #[arg(long, value_name = "DURATION", default_value_t = Span(SupervisorOptions::LEASE))]
    lease: Span,

    /// How long the start of a tool call may take; progress from the server starts it anew
    ///
    /// A start whose answer does not come is as good as lost: under `at_most_once` its action fails
    /// with START_OUTCOME_UNKNOWN, under the other policies it is sent again.
    #[arg(long, value_name = "DURATION", default_value_t = Span(defaults().start_timeout))]
    start_timeout: Span,

    /// How long a start may take in all, however much progress there is
    #[arg(long, value_name = "DURATION", default_value_t = Span(defaults().max_start_time))]
    max_start_time: Span,

    /// How long any other call to a server may take, such as a poll; it is tried again
    #[arg(long, value_name = "DURATION", default_value_t = Span(defaults().request_timeout))]
    request_timeout: Span,

    /// The largest result of a tool that is taken, in bytes; over it the action fails with
    /// RESULT_TOO_LARGE
    #[arg(long, value_name = "BYTES", default_value_t = defaults().max_result_bytes)]
    max_result_bytes: usize,

    /// Steps at once, in all
    #[arg(
        long,
        value_name = "STEPS",
        default_value_t = SupervisorOptions::MAX_CONCURRENT,
        value_parser = at_least_one(),
    )]
    concurrency: usize,

    /// Steps at once with the actions of one registration
    #[arg(
        long,
        value_name = "STEPS",
        default_value_t = SupervisorOptions::MAX_PER_REGISTRATION,
        value_parser = at_least_one(),
    )]
    concurrency_per_registration: usize,

    /// The shortest time between two polls of a task, whatever its server says
    #[arg(long, value_name = "DURATION", default_value_t = Span(defaults().min_poll_interval))]
    min_poll: Span,

    /// The longest time between two polls of a task, whatever its server says
    #[arg(long, value_name = "DURATION", default_value_t = Span(defaults().max_poll_interval))]
    max_poll: Span,

    /// How long the steps in hand may go on when this ends in order
    ///
    /// A start whose answer comes later is as good as lost: under `at_most_once` its action fails
    /// with START_OUTCOME_UNKNOWN, under the other policies it is sent again.
    #[arg(long, value_name = "DURATION", default_value_t = Span(SupervisorOptions::CLOSE_GRACE))]
    close_grace: Span,

    #[command(flatten)]
    tokens: Tokens,
}

impl Supervision {
    /// The way to the servers.
    pub(crate) fn dialer(&self) -> anyhow::Result<HttpDialer> {
        let dialer = HttpDialer::builder()
            .tokens(Arc::new(self.tokens.clone()))
            .max_result_bytes(self.max_result_bytes)
            // Room for the call of each step, and for what is told besides.
            .calls_per_server(self.concurrency_per_registration.saturating_mul(2));
        Ok(dialer.build()?)
    }

    pub(crate) fn lease(&self) -> Duration {
        self.lease.0
    }

    pub(crate) fn options(&self) -> anyhow::Result<SupervisorOptions> {
        ensure!(
            self.min_poll.0 <= self.max_poll.0,
            "--min-poll is longer than --max-poll"
        );
        ensure!(
            self.start_timeout.0 <= self.max_start_time.0,
            "--start-timeout is longer than --max-start-time"
        );
        let options = SupervisorOptions::new()
            .settings(self.settings())
            .concurrency(self.concurrency, self.concurrency_per_registration)
            .lease(self.lease.0)
            .close_grace(self.close_grace.0);
        #[cfg(feature = "crash-points")]
        let options = crate::crash_point::added(options)?;
        Ok(options)
    }

    fn settings(&self) -> Settings {
        let mut settings = defaults();
        settings.start_timeout = self.start_timeout.0;
        settings.max_start_time = self.max_start_time.0;
        settings.request_timeout = self.request_timeout.0;
        settings.max_result_bytes = self.max_result_bytes;
        settings.min_poll_interval = self.min_poll.0;
        settings.max_poll_interval = self.max_poll.0;
        settings
    }
}

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn defaults() -> Settings {
    Settings::default()
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

/// For one call to cancel a task, which is bounded by --request-timeout (10 s), and a look at it.
const LAST_CHANCE: Duration = Duration::from_secs(15);

const GLANCE: Duration = Duration::from_millis(100);

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;
    use rvc_durable::store::SqliteOptions;
    use rvc_durable::{Moment, Submission};

    use super::*;

    /// One whose supervisor panics at once: only the test itself, which is no task, may look at
    /// the clock.
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

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        supervision: Supervision,
    }

    fn parsed(arguments: &[&str]) -> Supervision {
        let arguments = [&["rvc"], arguments].concat();
        Command::try_parse_from(arguments).unwrap().supervision
    }

    #[test]
    fn what_is_not_given_is_as_the_library_has_it() {
        assert_eq!(parsed(&[]).settings(), Settings::default());
    }

    #[test]
    fn each_limit_of_a_call_is_a_setting_of_its_own() {
        let mut arguments = vec!["--start-timeout", "90s", "--max-start-time", "2h"];
        arguments.extend(["--request-timeout", "3s", "--max-result-bytes", "1000"]);
        arguments.extend(["--min-poll", "1s", "--max-poll", "2s"]);

        let settings = parsed(&arguments).settings();

        let mut expected = Settings::default();
        expected.start_timeout = Duration::from_secs(90);
        expected.max_start_time = Duration::from_secs(7200);
        expected.request_timeout = Duration::from_secs(3);
        expected.max_result_bytes = 1000;
        expected.min_poll_interval = Duration::from_secs(1);
        expected.max_poll_interval = Duration::from_secs(2);
        assert_eq!(settings, expected);
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

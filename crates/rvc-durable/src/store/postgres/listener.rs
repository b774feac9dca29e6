use std::future::poll_fn;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::{AsyncMessage, Client, Connection};
use tokio_util::task::AbortOnDropHandle;

use super::database::pause;
use super::failure::Failure;
use super::hosts::Hosts;
use super::values::{hidden, revealed};
use crate::name::ActionId;
use crate::store::{News, StoreError};

/// Where the processes on one database tell each other what they did.
pub(super) const CHANNEL: &str = "rvc_durable";

/// Something is due.
pub(super) fn due() -> String {
    DUE.to_owned()
}

/// An action changed.
pub(super) fn changed(action: &ActionId) -> String {
    format!("{CHANGED}{}", hidden(action.as_str()))
}

fn read(payload: &str) -> Option<News> {
    if payload == DUE {
        return Some(News::Due);
    }
    let action = payload.strip_prefix(CHANGED)?;
    Some(News::Changed(revealed(action).parse().ok()?))
}

/// A connection of its own that hears what other processes tell, and is made again when it
/// breaks. It ends when dropped.
pub(super) struct Listener {
    news: broadcast::Sender<News>,
    _task: AbortOnDropHandle<()>,
}

impl Listener {
    pub(super) fn spawn(hosts: Hosts, patience: Duration) -> Self {
        let news = broadcast::Sender::new(NEWS);
        let task = tokio::spawn(listen(hosts, patience, news.clone()));
        Self {
            news,
            _task: AbortOnDropHandle::new(task),
        }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }
}

async fn listen(hosts: Hosts, patience: Duration, news: broadcast::Sender<News>) {
    let mut failures = 0_u32;
    loop {
        let ended = match timeout(patience, hosts.connect()).await {
            Ok(Ok((client, connection))) => {
                tokio::select! {
                    ended = ask(&client, patience, &news, &mut failures) => ended,
                    ended = hear(connection, &news) => ended,
                }
            }
            Ok(Err(error)) => reason(error),
            Err(_) => too_long(patience),
        };
        if failures == 0 {
            tracing::warn!(
                reason = ended,
                "the news of other processes is not heard, what they do is seen a tick later"
            );
        } else {
            tracing::debug!(reason = ended, failures, "the news is still not heard");
        }
        sleep(pause(failures)).await;
        failures = failures.saturating_add(1);
    }
}

/// Begins to listen, and asks now and then whether the server is still there: one that went
/// without a word would never be missed. Returns why it is not.
async fn ask(
    client: &Client,
    patience: Duration,
    news: &broadcast::Sender<News>,
    failures: &mut u32,
) -> String {
    let mut question = format!("LISTEN {CHANNEL}");
    loop {
        match timeout(patience, client.batch_execute(&question)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return reason(error),
            Err(_) => return too_long(patience),
        }
        if !question.is_empty() {
            *failures = 0;
            // Nobody listening in this process is no failure, here and below.
            let _ = news.send(News::Missed);
            question.clear();
        }
        sleep(ASK_EVERY).await;
    }
}

/// Drives the connection, and passes on what it brings.
async fn hear<S, T>(mut connection: Connection<S, T>, news: &broadcast::Sender<News>) -> String
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    // Each `Due` makes a supervisor look; of many that come together a few are enough.
    let mut due_at: Option<Instant> = None;
    let mut quiet_until = Instant::now();
    loop {
        tokio::select! {
            message = poll_fn(|cx| connection.poll_message(cx)) => match message {
                Some(Ok(AsyncMessage::Notification(told))) => match read(told.payload()) {
                    Some(News::Due) => {
                        due_at.get_or_insert_with(|| quiet_until.max(Instant::now()));
                    }
                    Some(other) => {
                        let _ = news.send(other);
                    }
                    None => {}
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return reason(error),
                None => return "the connection was closed".to_owned(),
            },
            () = sleep_until(due_at.unwrap_or(quiet_until)), if due_at.is_some() => {
                due_at = None;
                quiet_until = Instant::now() + QUIET;
                let _ = news.send(News::Due);
            }
        }
    }
}

/// In the server's own words.
fn reason(error: tokio_postgres::Error) -> String {
    StoreError::from(Failure::from(error)).to_string()
}

fn too_long(patience: Duration) -> String {
    format!("no answer within {patience:?}")
}

const DUE: &str = "due";
const CHANGED: &str = "changed ";

/// News that a slow receiver may be behind.
const NEWS: usize = 1024;

const ASK_EVERY: Duration = Duration::from_secs(15);

/// Between two `Due`.
const QUIET: Duration = Duration::from_millis(20);

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::courier::Courier;
use crate::delivery_error::DeliveryError;
use crate::engine::{Engine, Next};
use crate::journal;
use crate::outbox::{Attempt, Finished, Outcome};
use crate::queue::LineId;
use crate::schedule::Opened;

/// A task that makes one attempt after the other, on a connection that it keeps.
pub(crate) struct Worker {
    engine: Arc<Engine>,
    place: usize,
    bell: Arc<Notify>,
    in_flight: Option<LineId>,
    went_home: bool,
}

impl Worker {
    pub(crate) fn new(engine: Arc<Engine>, place: usize) -> Self {
        let bell = engine.bell(place);
        Self {
            engine,
            place,
            bell,
            in_flight: None,
            went_home: false,
        }
    }

    pub(crate) async fn run(mut self) {
        let mut courier = Courier::new(self.engine.route().clone());
        let mut ended: Option<Ended> = None;
        loop {
            let now = Instant::now();
            let outcome = ended.as_ref().map(|it| (it.attempt.line, &it.outcome));
            self.in_flight = None;
            let (finished, next) = self.engine.next(self.place, outcome, now);
            if let Next::Attempt(attempt, _) = &next {
                self.in_flight = Some(attempt.line);
            }
            if let (Some(ended), Some(finished)) = (ended.take(), finished) {
                self.tell(&ended, finished, now);
            }
            match next {
                Next::Attempt(attempt, departure) => {
                    let delivery = courier.deliver(&attempt.event, departure, now);
                    let delivered = unless_panicked(delivery).await;
                    let outcome = delivered.unwrap_or_else(|Panicked| {
                        // What the panic left behind is not to be trusted.
                        courier = Courier::new(self.engine.route().clone());
                        Outcome {
                            result: Err(Arc::new(DeliveryError::Panicked)),
                            connection: Opened::Earlier,
                        }
                    });
                    ended = Some(Ended {
                        attempt,
                        outcome,
                        began: now,
                    });
                }
                Next::Rest => {
                    if !self.rest(&mut courier).await {
                        break;
                    }
                }
                Next::GoHome => break,
            }
        }
        self.went_home = true;
    }

    /// Waits to be rung for; false if that took so long that the worker is not needed.
    async fn rest(&mut self, courier: &mut Courier) -> bool {
        let bell = self.bell.clone();
        let mut rung = std::pin::pin!(bell.notified());
        let mut too_long = std::pin::pin!(sleep(LONGEST_REST));
        loop {
            tokio::select! {
                biased;
                () = &mut rung => return true,
                // Forgetting a connection that the peer closed spares the next attempt.
                () = courier.connection_ended() => {}
                () = &mut too_long => return !self.engine.may_leave(self.place),
            }
        }
    }

    fn tell(&self, ended: &Ended, finished: Finished, now: Instant) {
        let server = &self.engine.route().server;
        let took = now.saturating_duration_since(ended.began);
        match (&ended.outcome.result, finished) {
            (_, Finished::Acknowledged) => journal::acknowledged(server, &ended.attempt, took),
            (Err(error), Finished::Retry(at)) => {
                let retry_in = at.saturating_duration_since(now);
                journal::failed(server, &ended.attempt, error, took, retry_in);
            }
            (_, Finished::GaveUp(given_up)) => journal::gave_up(server, &given_up),
            (Err(error), Finished::Forgotten) => {
                journal::not_repeated(server, &ended.attempt, error, took);
            }
            (Ok(()), Finished::Retry(_) | Finished::Forgotten) => {
                unreachable!("an acknowledged event is not attempted again")
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.went_home {
            self.engine.worker_lost(self.place, self.in_flight);
        }
    }
}

/// The connector or the clock, which anybody may write, panicked.
struct Panicked;

/// Runs a future to its end or to its panic, which ends that future and nothing else.
async fn unless_panicked<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut future = pin!(future);
    poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        },
    )
    .await
}

/// An attempt that has a result.
struct Ended {
    attempt: Attempt,
    outcome: Outcome,
    began: Instant,
}

/// After this a worker closes its connection and goes.
const LONGEST_REST: Duration = Duration::from_secs(60);

//! A start: written before it is sent, sent once, and linked whatever became of the row.

use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Stepper;
use crate::linkage::Linkage;
use crate::log::{self, event};
use crate::name::ActionId;
use crate::phase::Phase;
use crate::plan::{self, CancelAnswer, StartAnswer};
use crate::policy::StartPolicy;
use crate::registration::Registration;
use crate::remote::{Connection, StartCall};
use crate::store::{Write, Written};
use crate::supervisor::hand::Hand;
use crate::supervisor::{DurableStep, Update};

impl Stepper {
    pub(super) async fn start(&self, hand: &Hand, row: Linkage, registration: Registration) {
        let settings = &self.options.settings;
        let connection = match self
            .hold(hand, self.remotes.connect_to_start(&registration))
            .await
        {
            Some(Ok(connection)) => connection,
            None => return self.release(hand).await,
            Some(Err(failure)) => {
                let (reason, after) = (failure.reason, failure.retry_after);
                let jitter = (self.options.jitter)();
                let next =
                    plan::unreachable(row.clone(), reason, after, settings, hand.now(), jitter);
                self.save(hand, &row, next, DurableStep::PollCommitted)
                    .await;
                return;
            }
        };
        self.reached(DurableStep::Connected, &row);
        if self.give_up.is_cancelled() {
            return self.release(hand).await;
        }

        self.read_the_clock(hand, &row).await;
        if is_too_late(hand, &row) {
            // Planned anew, it ends; nothing was sent.
            return self.release(hand).await;
        }

        // The winner of this write sends; everybody else has sent nothing.
        let sending = plan::begun(row.clone(), hand.now());
        let begin = Write::new(hand.claim.clone(), row.phase, sending.clone()).keep_lease();
        match self
            .commit(&row, begin, DurableStep::SendingCommitted)
            .await
        {
            Some(Written::Applied) => {}
            Some(_) => return self.release(hand).await,
            None => return,
        }
        if !hand.is_held(self.store.as_ref()).await {
            // Whoever has the row now takes the start for sent.
            event!(
                warn,
                "a start is not sent, since its lease ran out",
                &sending
            );
            return;
        }

        let answer = match self.withheld(hand, &sending) {
            Some(reason) => StartAnswer::NotSent {
                reason: reason.to_owned(),
                retry_after: None,
            },
            None => self.send(hand, &connection, &sending).await,
        };
        self.link(hand, &connection, sending, answer).await;
    }

    /// Where the host's deadline matters, it is the store's clock that says whether it passed.
    /// What the claim said is an estimate by now, on the early side.
    async fn read_the_clock(&self, hand: &Hand, row: &Linkage) {
        if row.deadline_at.is_some()
            && let Some(Ok(now)) = self.hold(hand, self.store.now()).await
        {
            hand.hears(now);
        }
    }

    /// Why a start does not go out after all, if it does not.
    fn withheld(&self, hand: &Hand, row: &Linkage) -> Option<&'static str> {
        if self.give_up.is_cancelled() {
            Some("the supervisor is closed")
        } else if is_too_late(hand, row) {
            Some("the execution deadline passed before it was sent")
        } else {
            None
        }
    }

    async fn send(&self, hand: &Hand, connection: &Connection, row: &Linkage) -> StartAnswer {
        let sent_at = Instant::now();
        let answer = self.call(hand, connection, row).await;
        log::step("start", sent_at.elapsed());
        self.reached(DurableStep::StartAnswered, row);
        if matches!(
            answer,
            StartAnswer::Lost { .. } | StartAnswer::NotSent { .. }
        ) {
            // Another step may be connecting there just now, which takes a while.
            let give_up = self.remotes.give_up(connection);
            self.hold(hand, give_up).await;
        } else {
            self.remotes.answered(connection);
        }
        answer
    }

    async fn call(&self, hand: &Hand, connection: &Connection, row: &Linkage) -> StartAnswer {
        let call = StartCall {
            tool: row.tool.clone(),
            arguments: row.arguments.clone(),
            idempotency_key: (row.policy == StartPolicy::ServerDedup)
                .then(|| row.idempotency_key()),
            may_repeat: plan::may_resend(row, &self.options.settings),
            at_most: row.deadline_at.map(|deadline| deadline.since(hand.now())),
        };
        let abandon = CancellationToken::new();
        // After the host's cancel a handle is still worth waiting for: it can be cancelled.
        let mut news = self.signals.updates();
        let patience = async {
            tokio::select! {
                () = hand.cancelled.cancelled() => {}
                () = cancelled_here(&mut news, &row.action) => {}
            }
            tokio::time::sleep(self.options.settings.request_timeout).await;
            abandon.cancel();
            std::future::pending::<()>().await;
        };
        let answer = connection.start(call, abandon.clone());
        let answer = self.hold(hand, async {
            tokio::select! {
                answer = answer => answer,
                () = patience => unreachable!("patience never ends"),
            }
        });
        answer.await.unwrap_or_else(|| {
            event!(
                warn,
                "a start is given up before its answer came; the tool may go on",
                row,
                policy = row.policy.as_str()
            );
            StartAnswer::Lost {
                reason: "the supervisor was closed before it came".to_owned(),
                retry_after: None,
            }
        })
    }

    /// Records what a start brought, whatever became of the row meanwhile.
    async fn link(&self, hand: &Hand, connection: &Connection, sent: Linkage, answer: StartAnswer) {
        let (settings, jitter) = (&self.options.settings, (self.options.jitter)());
        let after = plan::started(sent.clone(), answer.clone(), settings, hand.now(), jitter);
        let step = if after.outcome.is_some() {
            DurableStep::OutcomeCommitted
        } else {
            DurableStep::LinkCommitted
        };
        match self
            .try_save(hand, Phase::Sending, &sent, after, step)
            .await
        {
            Some(Written::Overtaken(current)) => {
                let after = plan::late(*current.clone(), answer.clone(), hand.now());
                let written = self
                    .try_save(
                        hand,
                        current.phase,
                        &current,
                        after,
                        DurableStep::LinkCommitted,
                    )
                    .await;
                match written {
                    Some(Written::Applied) => {}
                    // Another action's task is not ours to cancel.
                    Some(Written::RemoteTaken) => {
                        let after = plan::late(*current.clone(), taken(), hand.now());
                        self.save(hand, &current, after, DurableStep::CancelCommitted)
                            .await;
                    }
                    _ => self.disown(connection, &sent, &answer).await,
                }
            }
            Some(Written::RemoteTaken) => {
                let after = plan::started(sent.clone(), taken(), settings, hand.now(), jitter);
                self.save(hand, &sent, after, DurableStep::OutcomeCommitted)
                    .await;
            }
            Some(Written::Stale) | None => self.disown(connection, &sent, &answer).await,
            Some(Written::Applied) => {}
        }
    }

    /// A handle that nobody will follow: the server is asked once to cancel it.
    async fn disown(&self, connection: &Connection, row: &Linkage, answer: &StartAnswer) {
        let (StartAnswer::Task(task) | StartAnswer::BrokenHandle { task, .. }) = answer else {
            return;
        };
        // Under `server_dedup` whoever has the row now was given the same task.
        if row.policy == StartPolicy::ServerDedup {
            return;
        }
        let answer = connection.cancel(&row.tool, task).await;
        event!(
            error,
            "a remote task could not be linked and was asked to cancel",
            row,
            task = log::short_hash(&task.id),
            acknowledged = !matches!(answer, CancelAnswer::Unavailable { .. }),
        );
    }
}

/// An answer that names a task which belongs to another action.
fn taken() -> StartAnswer {
    StartAnswer::Malformed {
        reason: "the server gave a task to two actions".to_owned(),
    }
}

/// Whether the host's deadline has passed.
fn is_too_late(hand: &Hand, row: &Linkage) -> bool {
    row.deadline_at
        .is_some_and(|deadline| hand.now() >= deadline)
}

/// Waits for this process' own news that an action was cancelled.
async fn cancelled_here(news: &mut broadcast::Receiver<Update>, action: &ActionId) {
    loop {
        match news.recv().await {
            Ok(update) if update.action == *action && update.phase == Phase::Cancelled => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            // What was missed is seen when the lease is prolonged.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
        }
    }
}

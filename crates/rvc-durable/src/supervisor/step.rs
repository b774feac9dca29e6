use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::hand::Hand;
use super::{DurableStep, Signals, SupervisorOptions, Update};
use crate::host::{Delivery, ForeignHost, HostError};
use crate::linkage::{HostKind, Linkage};
use crate::log::{self, event};
use crate::moment::Moment;
use crate::name::ActionId;
use crate::phase::Phase;
use crate::plan::{
    self, CancelAnswer, Facts, PollAnswer, RunState, StartAnswer, Step, UpdateAnswer,
};
use crate::policy::StartPolicy;
use crate::registration::{Access, Registration};
use crate::remote::{Connection, Remotes, StartCall};
use crate::store::{Claimed, SharedStore, Surroundings, Write, Written};

/// Does one step with a claimed row.
pub(super) struct Stepper {
    store: SharedStore,
    remotes: Remotes,
    signals: Signals,
    options: SupervisorOptions,
    /// Fires when a step must wait for nobody any more.
    give_up: CancellationToken,
}

impl Stepper {
    pub(super) fn new(
        store: SharedStore,
        remotes: Remotes,
        signals: Signals,
        options: SupervisorOptions,
        give_up: CancellationToken,
    ) -> Self {
        Self {
            store,
            remotes,
            signals,
            options,
            give_up,
        }
    }

    pub(super) async fn run(&self, claimed: Claimed, now: Moment, asked: Instant) {
        let hand = Hand::new(claimed.claim, now, asked, self.options.lease);
        let row = claimed.row;
        self.reached(DurableStep::Claimed, &row);
        if claimed.recovered {
            event!(info, "MCP_TASK_RECOVERED", &row, phase = row.phase.as_str());
        }
        // A foreign host may take longer than the lease.
        let facts = self.facts(&row, claimed.surroundings);
        let facts = match self.hold(&hand, facts).await {
            Some(Ok(facts)) => facts,
            Some(Err(reason)) => return self.defer(&hand, row, reason).await,
            None => return self.release(&hand).await,
        };
        match plan::next(&row, &facts, &self.options.settings, hand.now()) {
            Step::Settle(outcome) => {
                let after = plan::settled(row.clone(), outcome, hand.now());
                self.save(&hand, &row, after, DurableStep::OutcomeCommitted)
                    .await;
            }
            Step::Start(registration) => Box::pin(self.start(&hand, row, registration)).await,
            Step::Poll(registration) => self.poll(&hand, row, registration).await,
            Step::Update(registration, answers) => {
                self.update(&hand, row, registration, answers).await;
            }
            Step::Deliver => self.deliver(&hand, row).await,
            Step::Cancel(registration) => self.cancel(&hand, row, registration).await,
            Step::Look(registration) => self.look(&hand, row, registration).await,
            Step::Close {
                reason,
                unwatched: goes_on,
            } => {
                if goes_on {
                    log::unwatched(&row, reason);
                }
                let after = plan::closed(row.clone());
                self.save(&hand, &row, after, DurableStep::CancelCommitted)
                    .await;
            }
            Step::Rest => self.release(&hand).await,
        }
    }

    /// What planning needs: the ledger's was read with the claim, a foreign host is asked.
    async fn facts(&self, row: &Linkage, known: Surroundings) -> Result<Facts, String> {
        let Surroundings {
            run,
            registration,
            answers,
            ..
        } = known;
        let (run, registration) = match row.host {
            HostKind::Ledger => (run.unwrap_or(RunState::Cancelled), registration),
            HostKind::Foreign => {
                let host = self.host().map_err(|error| error.to_string())?;
                if row.phase == Phase::Accepted {
                    // A known outcome is delivered, whatever the server may be used for now.
                    // Whether it is still wanted is asked then.
                    (RunState::Active, registration)
                } else {
                    let told = async {
                        let run = host.run_state(row.run.clone()).await?;
                        let (registration, owner) = (row.registration.clone(), row.owner.clone());
                        Ok::<_, HostError>((run, host.authorise(registration, owner).await?))
                    };
                    self.bounded(told)
                        .await
                        .map_err(|error| error.to_string())?
                }
            }
        };
        Ok(Facts {
            run,
            access: Access::decide(registration, &row.owner),
            answers,
        })
    }

    async fn start(&self, hand: &Hand, row: Linkage, registration: Registration) {
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
            let give_up = self.remotes.give_up(&row.registration, connection);
            self.hold(hand, give_up).await;
        } else {
            self.remotes.answered(&row.registration);
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

    async fn poll(&self, hand: &Hand, row: Linkage, registration: Registration) {
        let asked_at = Instant::now();
        let Some(answer) = self.ask(hand, &row, &registration).await else {
            return self.release(hand).await;
        };
        log::step("poll", asked_at.elapsed());
        self.reached(DurableStep::PollAnswered, &row);
        let (settings, jitter) = (&self.options.settings, (self.options.jitter)());
        let after = plan::polled(row.clone(), answer, settings, hand.now(), jitter);
        let step = if after.outcome.is_some() {
            DurableStep::OutcomeCommitted
        } else {
            DurableStep::PollCommitted
        };
        self.save(hand, &row, after, step).await;
    }

    async fn look(&self, hand: &Hand, row: Linkage, registration: Registration) {
        let Some(answer) = self.ask(hand, &row, &registration).await else {
            return self.release(hand).await;
        };
        let (settings, jitter) = (&self.options.settings, (self.options.jitter)());
        let after = plan::looked(row.clone(), answer, settings, hand.now(), jitter);
        self.save(hand, &row, after, DurableStep::CancelCommitted)
            .await;
    }

    /// Asks for the state of the remote task; `None` when that was given up.
    async fn ask(
        &self,
        hand: &Hand,
        row: &Linkage,
        registration: &Registration,
    ) -> Option<PollAnswer> {
        let Some(remote) = &row.remote else {
            return Some(PollAnswer::Malformed {
                reason: "the row names no remote task".to_owned(),
            });
        };
        self.hold(hand, async {
            let connection = match self.remotes.connect(registration).await {
                Ok(connection) => connection,
                Err(failure) => {
                    return PollAnswer::Unavailable {
                        reason: failure.reason,
                        retry_after: failure.retry_after,
                    };
                }
            };
            let answer = connection.poll(&row.tool, remote).await;
            if matches!(answer, PollAnswer::Unavailable { .. }) {
                self.remotes.give_up(&registration.id, &connection).await;
            } else {
                self.remotes.answered(&registration.id);
            }
            answer
        })
        .await
    }

    async fn update(
        &self,
        hand: &Hand,
        row: Linkage,
        registration: Registration,
        answers: rvc_wire::Map,
    ) {
        let keys: Vec<String> = answers.keys().cloned().collect();
        let Some(remote) = &row.remote else {
            return self.release(hand).await;
        };
        let answer = self
            .hold(hand, async {
                match self.remotes.connect(&registration).await {
                    Ok(connection) => {
                        let answer = connection.update(remote, answers).await;
                        if matches!(answer, UpdateAnswer::Unavailable { .. }) {
                            self.remotes.give_up(&registration.id, &connection).await;
                        } else {
                            self.remotes.answered(&registration.id);
                        }
                        answer
                    }
                    Err(failure) => UpdateAnswer::Unavailable {
                        reason: failure.reason,
                        retry_after: failure.retry_after,
                    },
                }
            })
            .await;
        let Some(answer) = answer else {
            return self.release(hand).await;
        };
        self.reached(DurableStep::InputSent, &row);
        let (settings, jitter) = (&self.options.settings, (self.options.jitter)());
        let after = plan::updated(
            row.clone(),
            &keys,
            answer.clone(),
            settings,
            hand.now(),
            jitter,
        );
        let write = Write::new(hand.claim.clone(), row.phase, after);
        let write = match &answer {
            UpdateAnswer::Acknowledged => write.answered(keys),
            UpdateAnswer::Refused { reason } => {
                log::refused(&row, &keys, reason);
                write.refused(keys)
            }
            UpdateAnswer::Unavailable { .. } => write,
        };
        let written = self.commit(&row, write, DurableStep::PollCommitted).await;
        if matches!(written, Some(Written::Overtaken(_))) {
            self.release(hand).await;
        }
    }

    async fn cancel(&self, hand: &Hand, row: Linkage, registration: Registration) {
        let Some(remote) = &row.remote else {
            return self.release(hand).await;
        };
        let answer = self
            .hold(hand, async {
                match self.remotes.connect(&registration).await {
                    Ok(connection) => {
                        let answer = connection.cancel(&row.tool, remote).await;
                        if matches!(answer, CancelAnswer::Unavailable { .. }) {
                            self.remotes.give_up(&registration.id, &connection).await;
                        } else {
                            self.remotes.answered(&registration.id);
                        }
                        answer
                    }
                    Err(failure) => CancelAnswer::Unavailable {
                        reason: failure.reason,
                        retry_after: failure.retry_after,
                    },
                }
            })
            .await;
        let Some(answer) = answer else {
            return self.release(hand).await;
        };
        self.reached(DurableStep::CancelAsked, &row);
        let (settings, jitter) = (&self.options.settings, (self.options.jitter)());
        let after = plan::cancel_answered(row.clone(), answer, settings, hand.now(), jitter);
        self.save(hand, &row, after, DurableStep::CancelCommitted)
            .await;
    }

    /// Tells the foreign host, in the order that a crash anywhere leaves repeatable.
    async fn deliver(&self, hand: &Hand, row: Linkage) {
        let Some(outcome) = row.outcome.clone() else {
            return self.release(hand).await;
        };
        let told = async {
            let host = self.host()?;
            if !host.was_delivered(row.action.clone()).await? {
                if host.run_state(row.run.clone()).await? == RunState::Cancelled {
                    return Ok(false);
                }
                let delivery = Delivery {
                    action: row.action.clone(),
                    run: row.run.clone(),
                    owner: row.owner.clone(),
                    tool_call_id: row.tool_call_id.clone(),
                    outcome: outcome.clone(),
                };
                host.deliver(delivery).await?;
            }
            host.finish(row.action.clone(), outcome.state()).await?;
            Ok(true)
        };
        let told: Option<Result<bool, HostError>> = self.hold(hand, self.bounded(told)).await;
        let Some(told) = told else {
            return self.release(hand).await;
        };
        self.reached(DurableStep::Delivered, &row);
        let (settings, jitter) = (&self.options.settings, (self.options.jitter)());
        let after = match told {
            Ok(true) => plan::delivered(row.clone(), hand.now()),
            Ok(false) => plan::suppressed(row.clone(), hand.now()),
            Err(error) => {
                let reason = error.to_string();
                plan::delivery_failed(row.clone(), reason, settings, hand.now(), jitter)
            }
        };
        self.save(hand, &row, after, DurableStep::DeliveryCommitted)
            .await;
    }

    fn host(&self) -> Result<&dyn ForeignHost, HostError> {
        self.options.host.as_deref().ok_or_else(|| HostError {
            reason: "the action belongs to a foreign host, and none is attached here".to_owned(),
        })
    }

    /// A host's answer, for a bounded time.
    async fn bounded<T>(
        &self,
        answer: impl Future<Output = Result<T, HostError>>,
    ) -> Result<T, HostError> {
        let limit = self.options.settings.request_timeout;
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(HostError {
                reason: format!("no answer within {limit:?}"),
            }),
        }
    }

    /// Does `work` under the lease; `None` when it was given up.
    async fn hold<T>(&self, hand: &Hand, work: impl Future<Output = T> + Send) -> Option<T> {
        // A remote call's future is large, and each step has only one.
        let work = Box::pin(self.give_up.run_until_cancelled(work));
        hand.while_held(self.store.as_ref(), work).await
    }

    async fn defer(&self, hand: &Hand, row: Linkage, reason: String) {
        let after = plan::deferred(row.clone(), reason, hand.now(), (self.options.jitter)());
        self.save(hand, &row, after, DurableStep::PollCommitted)
            .await;
    }

    async fn try_save(
        &self,
        hand: &Hand,
        expect: Phase,
        before: &Linkage,
        after: Linkage,
        step: DurableStep,
    ) -> Option<Written> {
        let write = Write::new(hand.claim.clone(), expect, after);
        self.commit(before, write, step).await
    }

    /// Writes the end of a step. When the host cancelled meanwhile, that is all there is.
    async fn save(&self, hand: &Hand, before: &Linkage, after: Linkage, step: DurableStep) {
        let written = self.try_save(hand, before.phase, before, after, step).await;
        if matches!(written, Some(Written::Overtaken(_) | Written::RemoteTaken)) {
            self.release(hand).await;
        }
    }

    /// Writes, again and again within the lease; `None` when the store took nothing.
    async fn commit(&self, before: &Linkage, write: Write, step: DurableStep) -> Option<Written> {
        let deadline = Instant::now() + self.options.lease;
        let written = loop {
            match self.store.write(write.clone()).await {
                Ok(written) => break written,
                Err(error) if error.is_retryable() && Instant::now() < deadline => {
                    tracing::warn!(%error, "a step could not be written, trying again");
                    tokio::time::sleep(WRITE_PAUSE).await;
                }
                Err(error) => {
                    // Not given back: its lease keeps it from being tried again at once.
                    tracing::error!(%error, "a step could not be written");
                    return None;
                }
            }
        };
        match &written {
            Written::Applied => {
                log::transition(before, &write.row);
                self.signals.changed(before, &write.row);
                self.reached(step, &write.row);
            }
            Written::Stale => {
                event!(warn, "a step came too late and changed nothing", before);
            }
            Written::Overtaken(_) | Written::RemoteTaken => {}
        }
        Some(written)
    }

    async fn release(&self, hand: &Hand) {
        if let Err(error) = self.store.release(hand.claim.clone()).await {
            tracing::warn!(%error, "a lease could not be given back; it runs out by itself");
        }
    }

    fn reached(&self, step: DurableStep, row: &Linkage) {
        if let Some(checkpoint) = &self.options.checkpoint {
            checkpoint.reached(step, &row.action);
        }
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

/// Between two attempts to write.
const WRITE_PAUSE: Duration = Duration::from_millis(200);

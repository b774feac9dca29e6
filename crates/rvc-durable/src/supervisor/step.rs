mod start;

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::hand::Hand;
use super::{DurableStep, Signals, SupervisorOptions};
use crate::host::{Delivery, ForeignHost, HostError};
use crate::linkage::{HostKind, Linkage};
use crate::log::{self, event};
use crate::moment::Moment;
use crate::phase::Phase;
use crate::plan::{self, CancelAnswer, Facts, PollAnswer, RunState, Step, UpdateAnswer};
use crate::registration::{Access, Registration};
use crate::remote::{Remotes, Unreachable};
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
        let answer = self.hold(hand, async {
            let connection = self.remotes.connect(registration).await?;
            let answer = connection.poll(&row.tool, remote).await;
            let answered = !matches!(answer, PollAnswer::Unavailable { .. });
            self.remotes.heard(&connection, answered).await;
            Ok::<_, Unreachable>(answer)
        });
        Some(answer.await?.unwrap_or_else(PollAnswer::from))
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
        let answer = self.hold(hand, async {
            let connection = self.remotes.connect(&registration).await?;
            let answer = connection.update(remote, answers).await;
            let answered = !matches!(answer, UpdateAnswer::Unavailable { .. });
            self.remotes.heard(&connection, answered).await;
            Ok::<_, Unreachable>(answer)
        });
        let Some(answer) = answer.await else {
            return self.release(hand).await;
        };
        let answer = answer.unwrap_or_else(UpdateAnswer::from);
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
        let answer = self.hold(hand, async {
            let connection = self.remotes.connect(&registration).await?;
            let answer = connection.cancel(&row.tool, remote).await;
            let answered = !matches!(answer, CancelAnswer::Unavailable { .. });
            self.remotes.heard(&connection, answered).await;
            Ok::<_, Unreachable>(answer)
        });
        let Some(answer) = answer.await else {
            return self.release(hand).await;
        };
        let answer = answer.unwrap_or_else(CancelAnswer::from);
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

/// Between two attempts to write.
const WRITE_PAUSE: Duration = Duration::from_millis(200);

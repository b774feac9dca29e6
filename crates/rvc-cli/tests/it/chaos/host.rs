//! The host: submits, cancels, answers, and is told outcomes. Whatever the database does, it
//! tries again until it knows that it was heard, and writes down when it did.

use std::sync::Arc;
use std::time::Duration;

use rvc_durable::store::{AnswerOutcome, CancelOutcome, Filter, StoreError};
use rvc_durable::{
    ActionView, Durable, InputHandling, OutcomeError, OwnerId, Phase, Registration, Submission,
    SubmitError, TransportKind,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};

use super::foreign::Foreign;
use super::history::{Journal, Outcome, Seen, Submitted};
use super::schedule::{PlannedAction, Schedule};

#[derive(Clone)]
pub(super) struct Host {
    durable: Durable,
    /// The same for actions that belong to the other host.
    foreign: Foreign,
    journal: Journal,
    /// A host with a thousand impatient users would be the only thing that its machine does.
    room: Arc<Semaphore>,
}

impl Host {
    pub(super) fn new(durable: Durable, foreign: Foreign, journal: Journal) -> Self {
        Self {
            durable,
            foreign,
            journal,
            room: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    pub(super) async fn register(&self, server: usize, url: &str) {
        let registration = Registration {
            id: registration(server).parse().unwrap(),
            owner: OwnerId::local(),
            endpoint: url.parse().unwrap(),
            transport: TransportKind::StreamableHttp,
            enabled: true,
        };
        self.foreign.register(&registration);
        self.durable.put_registration(registration).await.unwrap();
    }

    /// Does all that is planned; returns when all is submitted and all cancels are heard.
    pub(super) async fn perform(&self, schedule: &Schedule, begun: Instant) {
        let mut deeds = tokio::task::JoinSet::new();
        for action in &schedule.actions {
            let (host, action) = (self.clone(), action.clone());
            deeds.spawn(async move {
                sleep_until(begun + action.at).await;
                host.live(&action).await;
            });
        }
        for (at, run) in schedule.run_cancels.clone() {
            let host = self.clone();
            deeds.spawn(async move {
                sleep_until(begun + at).await;
                host.cancel_run(run).await;
            });
        }
        while let Some(done) = deeds.join_next().await {
            done.unwrap();
        }
    }

    /// One action, as far as it is the host's.
    async fn live(&self, planned: &PlannedAction) {
        if !self.submit(planned).await {
            return;
        }
        if let Some(after) = planned.cancel_after {
            sleep(after).await;
            self.cancel(planned).await;
        }
        // Some are waited for, as a host does; all are read at the end. What a foreign host may
        // yet suppress is not its outcome.
        if !planned.is_foreign && planned.action.ends_with("37") {
            self.await_outcome(planned.action.clone()).await;
        }
    }

    async fn submit(&self, planned: &PlannedAction) -> bool {
        self.journal.write(Seen::Submitting(Submitted {
            action: planned.action.clone(),
            run: planned.run.clone(),
            is_foreign: planned.is_foreign,
            server: planned.server,
            tool: planned.tool.to_owned(),
            policy: planned.policy.as_str().to_owned(),
            deadline_ms: planned
                .deadline
                .map(|deadline| u64::try_from(deadline.as_millis()).unwrap()),
        }));
        let work_ms = u64::try_from(planned.work.as_millis()).unwrap();
        let arguments = json!({"action": planned.action, "work_ms": work_ms});
        let mut submission = Submission::new(
            planned.action.parse().unwrap(),
            registration(planned.server).parse().unwrap(),
            planned.tool,
        )
        .run(planned.run.parse().unwrap())
        .policy(planned.policy)
        .input(InputHandling::Surface)
        .arguments(arguments.as_object().unwrap().clone());
        if let Some(deadline) = planned.deadline {
            submission = submission.execution_deadline(deadline);
        }
        let action = planned.action.clone();
        let host = if planned.is_foreign {
            &self.foreign.durable
        } else {
            &self.durable
        };
        loop {
            let submitted = {
                let _room = self.room.acquire().await.unwrap();
                host.submit(submission.clone()).await
            };
            match submitted {
                Ok(_) => {
                    self.journal.write(Seen::Submitted { action });
                    return true;
                }
                Err(SubmitError::RunCancelled { .. }) => {
                    self.journal.write(Seen::Refused { action });
                    return false;
                }
                Err(error) => {
                    assert!(error.is_retryable(), "{action}: {error:?}");
                    sleep(PATIENCE).await;
                }
            }
        }
    }

    async fn cancel(&self, planned: &PlannedAction) {
        let action = planned.action.clone();
        self.journal.write(Seen::Cancelling {
            action: action.clone(),
        });
        if planned.is_foreign {
            self.foreign.cancel(&planned.run);
            self.journal.write(Seen::Cancelled { action });
            return;
        }
        let id = action.parse().unwrap();
        let outcome = self.heard(|| self.durable.cancel_action(&id)).await;
        self.journal.write(match outcome {
            CancelOutcome::Cancelled => Seen::Cancelled { action },
            CancelOutcome::Ended(_) => Seen::CancelledTooLate { action },
            other => panic!("{action}: {other:?}"),
        });
    }

    async fn cancel_run(&self, run: String) {
        self.journal.write(Seen::CancellingRun { run: run.clone() });
        let id = run.parse().unwrap();
        let known = self.heard(|| self.durable.cancel_run(&id)).await;
        // `None`: nothing was submitted yet, so there was nothing to cancel.
        if known.is_some() {
            self.journal.write(Seen::CancelledRun { run });
        }
    }

    async fn await_outcome(&self, action: String) {
        let id = action.parse().unwrap();
        let outcome = loop {
            match self.durable.outcome(&id).await {
                Ok(outcome) => break outcome,
                Err(OutcomeError::Store(error)) if error.is_retryable() => sleep(PATIENCE).await,
                Err(error) => panic!("{action}: {error:?}"),
            }
        };
        let result = serde_json::to_value(&outcome.result).unwrap();
        self.journal.write(Seen::Outcome(Outcome {
            action,
            phase: outcome.phase.as_str().to_owned(),
            error_code: outcome.error_code.map(|code| code.as_str().to_owned()),
            said: said(&outcome.message, &result),
        }));
    }

    /// Answers whatever is asked, until it is dropped.
    pub(super) async fn answer(self) {
        loop {
            sleep(PATIENCE).await;
            let asking = Filter::all().phase(Phase::InputRequired);
            let asking = self.heard(|| self.durable.actions(asking.clone())).await;
            for row in asking {
                for key in row.input_requests.keys() {
                    let mut answers = rvc_wire::Map::new();
                    answers.insert(key.clone(), json!({"action": "accept", "content": {}}));
                    let answered = self
                        .heard(|| self.durable.answer_input(&row.action, answers.clone()))
                        .await;
                    assert_ne!(answered, AnswerOutcome::Unknown);
                }
            }
        }
    }

    /// Asks until there is an answer.
    async fn heard<T, A>(&self, ask: impl Fn() -> A) -> T
    where
        A: Future<Output = Result<T, StoreError>>,
    {
        loop {
            let answer = {
                let _room = self.room.acquire().await.unwrap();
                ask().await
            };
            match answer {
                Ok(answer) => return answer,
                Err(error) => {
                    assert!(error.is_retryable(), "{error:?}");
                    sleep(PATIENCE).await;
                }
            }
        }
    }
}

/// Writes down the outcomes that `rvc action list --json` prints at the end.
pub(super) fn final_outcomes(lines: &str, journal: &Journal) {
    for line in lines.lines() {
        let view: ActionView = serde_json::from_str(line).expect(line);
        let result = serde_json::to_value(&view.result).unwrap();
        journal.write(Seen::Outcome(Outcome {
            action: view.action_id.as_str().to_owned(),
            phase: view.phase.as_str().to_owned(),
            error_code: view.error_code.map(|code| code.as_str().to_owned()),
            said: said(view.message.as_deref().unwrap_or_default(), &result),
        }));
    }
}

fn said(message: &str, result: &Value) -> String {
    format!("{message} {result}")
}

fn registration(server: usize) -> String {
    format!("server-{server}")
}

/// Operations on the database at once.
const AT_ONCE: usize = 16;

/// Between two attempts.
const PATIENCE: Duration = Duration::from_millis(200);

//! What a host calls.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rvc_wire::Map;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::linkage::{HostKind, Linkage, RemoteKind};
use crate::log;
use crate::name::{ActionId, OwnerId, RegistrationId, RunId};
use crate::outcome::Outcome;
use crate::phase::Phase;
use crate::registration::Registration;
use crate::remote::{Dialer, Remotes};
use crate::store::{
    AnswerOutcome, CancelOutcome, Census, Filter, News, SharedStore, Store, StoreError, Submitted,
};
use crate::submission::Submission;
use crate::supervisor::{Signals, Supervisor, SupervisorOptions, Update, told_elsewhere};

/// Why a submission was refused. But for [`Store`](Self::Store), nothing was stored, and nothing
/// will be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The action exists, and asks for something else.
    #[error("action {action} was submitted before, with another request")]
    Different {
        /// The action.
        action: ActionId,
    },
    /// The run was cancelled.
    #[error("run {run} is cancelled")]
    RunCancelled {
        /// The run.
        run: RunId,
    },
    /// The run belongs to another owner.
    #[error("run {run} belongs to another owner")]
    RunOwned {
        /// The run.
        run: RunId,
    },
    /// The store did not answer that it took it. It may have, where the answer was lost: submit
    /// the same action again to find out.
    #[error("action {action} may not have been stored; submit it again to find out")]
    Store {
        /// The action.
        action: ActionId,
        /// What the store said.
        source: StoreError,
    },
}

impl SubmitError {
    /// Whether the same submission may succeed later, unaided.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Store { source, .. } if source.is_retryable())
    }
}

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutcomeError {
    /// No such action was ever submitted.
    #[error("there is no action {action}")]
    Unknown {
        /// The action.
        action: ActionId,
    },
    /// The store cannot be read.
    #[error("the action could not be read")]
    Store(#[from] StoreError),
}

/// Durable remote tasks: submit a tool call, and get its one outcome, whatever crashes.
///
/// A handle; clones share everything. Several handles, also in several processes, may share one
/// store: any of them may supervise, and any of them may ask.
///
/// Dropping the last clone stops at once, in the middle of steps, as a crash does;
/// [`close`](Self::close) stops in order.
#[derive(Clone)]
pub struct Durable {
    shared: Arc<Shared>,
}

struct Shared {
    store: SharedStore,
    remotes: Remotes,
    signals: Signals,
    options: SupervisorOptions,
    stop: CancellationToken,
    supervisor: Mutex<Option<JoinHandle<()>>>,
    /// Fires when the supervisor has ended.
    ended: CancellationToken,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let running = self.supervisor.get_mut();
        if let Some(running) = running.unwrap_or_else(PoisonError::into_inner).take() {
            running.abort();
        }
    }
}

impl Durable {
    /// A handle on a store, which reaches servers through `dialer`. Nothing runs yet.
    #[must_use]
    pub fn new(store: impl Store, dialer: impl Dialer, options: SupervisorOptions) -> Self {
        let remotes = Remotes::new(Arc::new(dialer), options.settings.clone());
        Self {
            shared: Arc::new(Shared {
                store: Arc::new(store),
                remotes,
                signals: Signals::new(),
                options,
                stop: CancellationToken::new(),
                supervisor: Mutex::new(None),
                ended: CancellationToken::new(),
            }),
        }
    }

    /// Starts to drive due actions in the background, until [`close`](Self::close).
    ///
    /// A second call does nothing.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn supervise(&self) {
        let mut running = self
            .shared
            .supervisor
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if running.is_some() || self.shared.stop.is_cancelled() {
            return;
        }
        let supervisor = Supervisor::new(
            self.shared.store.clone(),
            self.shared.remotes.clone(),
            self.shared.signals.clone(),
            self.shared.options.clone(),
        );
        // However it ends, by a panic too.
        let ended = self.shared.ended.clone().drop_guard();
        let stop = self.shared.stop.clone();
        *running = Some(tokio::spawn(async move {
            supervisor.run(stop).await;
            drop(ended);
        }));
    }

    /// Waits until this handle supervises no more: after [`close`](Self::close), or because its
    /// supervisor panicked. It never does by itself, so that whoever has not closed it should
    /// end, and leave the rows to the next process.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: waiting changes nothing.
    pub async fn ended(&self) {
        self.shared.ended.cancelled().await;
    }

    /// Submits a tool call. It is durable when this returns, and will have one outcome.
    ///
    /// Submitting the same action with the same request again is harmless: it returns the row
    /// that is there.
    ///
    /// # Errors
    ///
    /// The same action with another request; a cancelled or foreign run; a store that does not
    /// take it.
    ///
    /// # Cancel safety
    ///
    /// A dropped submission may have been stored. Submit it again to find out.
    pub async fn submit(&self, submission: Submission) -> Result<Linkage, SubmitError> {
        let (action, run) = (submission.action.clone(), submission.run.clone());
        let store = &self.shared.store;
        let failed = |source| SubmitError::Store {
            action: action.clone(),
            source,
        };
        let submitted = store.submit(submission, self.host()).await;
        match submitted.map_err(failed)? {
            Submitted::New => {
                self.shared.signals.wake();
                let row = store.row(action.clone()).await.map_err(failed)?;
                row.ok_or_else(|| failed(StoreError::Closed))
            }
            Submitted::Known(row) => Ok(*row),
            Submitted::Different => Err(SubmitError::Different { action }),
            Submitted::RunCancelled => Err(SubmitError::RunCancelled { run }),
            Submitted::RunOwned => Err(SubmitError::RunOwned { run }),
        }
    }

    /// Waits for the outcome of an action, whoever supervises it. Survives a restart: only the
    /// action's id is needed. A store that is away is waited for.
    ///
    /// The outcome is final. One that a foreign host was not told yet is waited for until it is
    /// delivered, or suppressed by a cancel of that host: until then it may become the latter.
    ///
    /// # Errors
    ///
    /// An action that was never submitted, or a store that will never be read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: waiting changes nothing.
    pub async fn outcome(&self, action: &ActionId) -> Result<Outcome, OutcomeError> {
        loop {
            // Subscribed before it reads: what changes in between is not missed.
            let mut updates = self.shared.signals.updates();
            let mut elsewhere = self.shared.store.news();
            let row = self.patiently(|| self.action(action)).await?;
            let Some(row) = row else {
                return Err(OutcomeError::Unknown {
                    action: action.clone(),
                });
            };
            if let Some(outcome) = row.outcome.filter(|_| row.phase.is_final()) {
                return Ok(outcome);
            }
            let news = async {
                loop {
                    match updates.recv().await {
                        Ok(update) if update.action == *action => return,
                        Ok(_) => {}
                        Err(broadcast::error::RecvError::Lagged(_)) => return,
                        Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            // Another process may be the one that supervises; what it tells may be lost.
            let changed = News::Changed(action.clone());
            tokio::select! {
                () = news => {}
                () = told_elsewhere(&mut elsewhere, |told| *told == changed) => {}
                () = tokio::time::sleep(self.shared.options.tick) => {}
            }
        }
    }

    /// Cancels a run of the ledger and its pending actions, which are returned. Final the
    /// moment this returns; the servers are asked to cancel afterwards. `None` when there is no
    /// such run.
    ///
    /// # Errors
    ///
    /// A store that does not take it.
    ///
    /// # Cancel safety
    ///
    /// A dropped cancel may have been committed. Repeating it is harmless.
    pub async fn cancel_run(&self, run: &RunId) -> Result<Option<Vec<ActionId>>, StoreError> {
        let cancelled = self.shared.store.cancel_run(run.clone()).await?;
        for action in cancelled.iter().flatten() {
            self.cancelled(action).await;
        }
        Ok(cancelled)
    }

    /// Cancels an action. Final the moment this returns; the server is asked to cancel
    /// afterwards.
    ///
    /// # Errors
    ///
    /// A store that does not take it.
    ///
    /// # Cancel safety
    ///
    /// A dropped cancel may have been committed. Repeating it is harmless.
    pub async fn cancel_action(&self, action: &ActionId) -> Result<CancelOutcome, StoreError> {
        let outcome = self.shared.store.cancel_action(action.clone()).await?;
        if outcome == CancelOutcome::Cancelled {
            self.cancelled(action).await;
        }
        Ok(outcome)
    }

    /// Answers requests for input of a remote task, by key. A key is answered once: an answer that
    /// cannot be sent is sent again until the task has ended or asks no more.
    ///
    /// An answer that the server refuses is forgotten, with a WARN and `last_error`; where the task
    /// still asks for its key, that comes again among [`Update::asks`] and may be answered anew.
    ///
    /// # Errors
    ///
    /// A store that does not take it.
    ///
    /// # Cancel safety
    ///
    /// A dropped answer may have been stored. Repeating it says so.
    pub async fn answer_input(
        &self,
        action: &ActionId,
        answers: Map,
    ) -> Result<AnswerOutcome, StoreError> {
        let outcome = self.shared.store.answer(action.clone(), answers).await?;
        self.shared.signals.wake();
        Ok(outcome)
    }

    /// Push: something is said to have happened to a remote task. Its row is due at once, and
    /// the poll decides. Returns how many rows that were.
    ///
    /// # Errors
    ///
    /// A store that does not take it.
    ///
    /// # Cancel safety
    ///
    /// A dropped wake may have been stored. Repeating it is harmless.
    pub async fn wake(
        &self,
        registration: &RegistrationId,
        kind: RemoteKind,
        remote_task_id: &str,
    ) -> Result<u64, StoreError> {
        let id = remote_task_id.to_owned();
        let woken = self
            .shared
            .store
            .wake_remote(registration.clone(), kind, id)
            .await?;
        if woken > 0 {
            self.shared.signals.wake();
        }
        Ok(woken)
    }

    /// News about all actions that this process drives, progress included. News may be lost by
    /// a slow listener; the rows have the truth.
    #[must_use]
    pub fn updates(&self) -> broadcast::Receiver<Update> {
        self.shared.signals.updates()
    }

    /// Reads an action's row.
    ///
    /// # Errors
    ///
    /// A store that cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn action(&self, action: &ActionId) -> Result<Option<Linkage>, StoreError> {
        self.shared.store.row(action.clone()).await
    }

    /// Reads rows.
    ///
    /// # Errors
    ///
    /// A store that cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn actions(&self, filter: Filter) -> Result<Vec<Linkage>, StoreError> {
        self.shared.store.rows(filter).await
    }

    /// Counts rows.
    ///
    /// # Errors
    ///
    /// A store that cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn census(&self) -> Result<Census, StoreError> {
        self.shared.store.census().await
    }

    /// Waits until nothing is open and no clean-up is due, whoever supervises. A store that is
    /// away is waited for.
    ///
    /// # Errors
    ///
    /// A store that will never be read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: waiting changes nothing.
    pub async fn idle(&self) -> Result<(), StoreError> {
        loop {
            let mut updates = self.shared.signals.updates();
            if self.patiently(|| self.census()).await?.open == 0 {
                return Ok(());
            }
            let _ = tokio::time::timeout(self.shared.options.tick, updates.recv()).await;
            // Much may happen at once; counting rows after each of it would not end.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Adds a registration to the ledger, or gives one that is there its owner, endpoint and
    /// transport. Rows that name it use it at their next step. One that is there stays enabled
    /// or disabled as it is; [`enable_registration`](Self::enable_registration) changes that.
    ///
    /// # Errors
    ///
    /// A store that does not take it.
    ///
    /// # Cancel safety
    ///
    /// A dropped change may have been committed. Repeating it is harmless.
    pub async fn put_registration(&self, registration: Registration) -> Result<(), StoreError> {
        self.shared.store.put_registration(registration).await
    }

    /// Enables or disables a registration of the ledger; `false` when there is none.
    ///
    /// # Errors
    ///
    /// A store that does not take it.
    ///
    /// # Cancel safety
    ///
    /// A dropped change may have been committed. Repeating it is harmless.
    pub async fn enable_registration(
        &self,
        id: &RegistrationId,
        enabled: bool,
    ) -> Result<bool, StoreError> {
        self.shared
            .store
            .enable_registration(id.clone(), enabled)
            .await
    }

    /// Removes a registration of the ledger; `false` when there is none. Its open actions fail
    /// with `REGISTRATION_REVOKED`.
    ///
    /// # Errors
    ///
    /// A store that does not take it.
    ///
    /// # Cancel safety
    ///
    /// A dropped change may have been committed. Repeating it is harmless.
    pub async fn remove_registration(&self, id: &RegistrationId) -> Result<bool, StoreError> {
        self.shared.store.remove_registration(id.clone()).await
    }

    /// Reads the registrations of an owner, or of all.
    ///
    /// # Errors
    ///
    /// A store that cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn registrations(
        &self,
        owner: Option<&OwnerId>,
    ) -> Result<Vec<Registration>, StoreError> {
        self.shared.store.registrations(owner.cloned()).await
    }

    /// Stops claiming, finishes the steps in hand, gives leases back and closes connections.
    ///
    /// The steps in hand have [`close_grace`](SupervisorOptions::close_grace) for it. Then they
    /// are given up:
    ///
    /// - A start that still waits for its answer: the answer is not read, so it is lost. The row
    ///   says so before this returns, exactly as if the connection had broken: under
    ///   `at_most_once` the action has its outcome, `START_OUTCOME_UNKNOWN`; under the other two
    ///   policies whoever supervises next sends the start again. A WARN names the action. The
    ///   tool is not told to stop.
    /// - Anything else is repeated by whoever supervises next, as after a crash.
    ///
    /// So this returns within the grace and some 7 s more: 2 for what is written then, 5 for the
    /// connections. A row that could not be written in that time keeps its lease until that runs
    /// out, and is recovered as after a crash.
    ///
    /// # Cancel safety
    ///
    /// A dropped close goes on in the background, but for the connections. Another one waits for
    /// the same end.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        let is_running = self
            .shared
            .supervisor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some();
        if is_running {
            self.shared.ended.cancelled().await;
        }
        // What is left of them is closed when it is dropped.
        let _ = tokio::time::timeout(CONNECTIONS_CLOSE, self.shared.remotes.close()).await;
    }

    /// Reads, and again at each [`tick`](SupervisorOptions::tick) while the store is away:
    /// `durable.patiently(|| durable.action(&id))`.
    ///
    /// # Errors
    ///
    /// A store that will never be read.
    ///
    /// # Cancel safety
    ///
    /// As that of `read`.
    pub async fn patiently<T, F>(&self, read: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        loop {
            match read().await {
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "the store cannot be read, trying again");
                    tokio::time::sleep(self.shared.options.tick).await;
                }
                read => return read,
            }
        }
    }

    fn host(&self) -> HostKind {
        if self.shared.options.host.is_some() {
            HostKind::Foreign
        } else {
            HostKind::Ledger
        }
    }

    /// Tells everybody in this process about a cancel that is committed.
    async fn cancelled(&self, action: &ActionId) {
        log::ended(Phase::Cancelled);
        if let Ok(Some(row)) = self.shared.store.row(action.clone()).await {
            log::event!(info, "MCP_TASK_CANCELLED", &row, error_code = "CANCELLED");
            self.shared.signals.changed(&row, &row);
        }
        self.shared.signals.wake();
    }
}

/// What servers get, all of them together, to end their sessions.
const CONNECTIONS_CLOSE: Duration = Duration::from_secs(5);

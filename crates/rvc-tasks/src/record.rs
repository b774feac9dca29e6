//! One task: what is known of it, and the only place where its events are made.
//!
//! 1. `seq` is allotted and the event posted under one lock, so that the sink sees them in order
//!    and without a gap.
//! 2. Under that lock, too, is decided whether an event is still admitted: after a seal none of
//!    the body's is posted.
//! 3. Nothing that others wrote runs under the lock, except the sink, the clock and the log;
//!    bodies are dropped and aborted outside of it.

mod end;
mod events;
mod pins;
mod questions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rvc_poster::OutgoingEvent;
use rvc_wire::{Map, Seq, TaskId, TaskInfo, TaskState, Timestamp, ToolName};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::Span;

pub(crate) use self::questions::AskRefusal;
use self::questions::Questions;
use crate::call_scope::CallScope;
use crate::lifecycle::{End, Seal, Sealing, Stage};
use crate::port::Port;
use crate::thinning::Thinning;
use crate::{AttachedTrigger, CancelMode, EmitError, TaskError};

/// The largest step back of the wall clock, in milliseconds, that is hidden from a task's times.
const SMALL_STEP_MS: i64 = 5_000;

pub(crate) struct Record {
    port: Arc<Port>,
    id: TaskId,
    order: u64,
    plan: Plan,
    created_at: Timestamp,
    started: Instant,
    /// Where its timers run, and the sink.
    runtime: Handle,
    span: Span,
    ledger: Mutex<Ledger>,
    questions: Mutex<Questions>,
    /// Notified at the seal and at the end.
    changed: Notify,
}

/// What a checked spec leaves for the task's lifetime.
pub(crate) struct Plan {
    pub(crate) tool: ToolName,
    pub(crate) triggers: Box<[AttachedTrigger]>,
    pub(crate) est_duration: Option<Duration>,
    pub(crate) cancel_mode: CancelMode,
    pub(crate) min_progress_interval: Option<Duration>,
}

/// What changes.
struct Ledger {
    stage: Stage,
    next_seq: Seq,
    updated_at: Timestamp,
    progress: Option<Map>,
    fired: Box<[bool]>,
    thinning: Option<Box<Thinning<OutgoingEvent>>>,
    /// Sends the report held back when its time comes.
    thinning_timer: Option<AbortHandle>,
    deadline_timer: Option<AbortHandle>,
    runner: Option<AbortHandle>,
    drop_requested: bool,
    pins: pins::Pins,
}

impl Record {
    pub(crate) fn new(
        port: Arc<Port>,
        id: TaskId,
        order: u64,
        plan: Plan,
        runtime: Handle,
        span: Span,
    ) -> Self {
        let created_at = port.clock.now();
        let thinning = plan.min_progress_interval.map(Thinning::new).map(Box::new);
        let ledger = Ledger {
            stage: Stage::Running,
            next_seq: Seq::FIRST,
            updated_at: created_at,
            progress: None,
            fired: vec![false; plan.triggers.len()].into(),
            thinning,
            thinning_timer: None,
            deadline_timer: None,
            runner: None,
            drop_requested: false,
            pins: pins::Pins::default(),
        };
        Self {
            port,
            id,
            order,
            plan,
            created_at,
            started: Instant::now(),
            runtime,
            span,
            ledger: Mutex::new(ledger),
            questions: Mutex::new(Questions::new(CallScope::is_answerable())),
            changed: Notify::new(),
        }
    }

    pub(crate) const fn id(&self) -> &TaskId {
        &self.id
    }

    pub(crate) const fn order(&self) -> u64 {
        self.order
    }

    pub(crate) const fn triggers(&self) -> &[AttachedTrigger] {
        &self.plan.triggers
    }

    pub(crate) const fn cancel_mode(&self) -> CancelMode {
        self.plan.cancel_mode
    }

    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    /// How long ago it was started.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The task as a poll sees it.
    pub(crate) fn info(&self) -> TaskInfo {
        self.info_of(&self.lock())
    }

    /// The same, if the task is in one of these states or there are none. Results can be large:
    /// what is not asked for is not copied.
    pub(crate) fn info_in(&self, states: &[TaskState]) -> Option<TaskInfo> {
        let ledger = self.lock();
        let asked = states.is_empty() || states.contains(&ledger.stage.state());
        asked.then(|| self.info_of(&ledger))
    }

    fn info_of(&self, ledger: &Ledger) -> TaskInfo {
        let (result, failure) = match &ledger.stage {
            Stage::Ended { end, .. } => match end {
                End::Succeeded(result) => (Some(result.clone()), None),
                End::Failed(failure) => (None, Some(failure.clone())),
                End::Cancelled => (None, None),
            },
            Stage::Running | Stage::Stopping(_) => (None, None),
        };
        TaskInfo {
            task_id: self.id.clone(),
            server: self.port.server.clone(),
            tool: self.plan.tool.clone(),
            state: ledger.stage.state(),
            created_at: self.created_at,
            updated_at: ledger.updated_at,
            triggers: self
                .plan
                .triggers
                .iter()
                .map(|attached| attached.trigger().clone())
                .collect(),
            est_duration_s: self
                .plan
                .est_duration
                .map(|duration| duration.as_secs_f64()),
            progress: ledger.progress.clone(),
            result,
            failure,
            cancel_requested: matches!(ledger.stage, Stage::Stopping(Seal::Cancel)),
        }
    }

    /// Whether an event of the body may still be sent.
    pub(crate) fn admit(&self) -> Result<(), EmitError> {
        self.lock().stage.admit()
    }

    /// Whether the body must not be polled again, given whether it has been polled before.
    pub(crate) fn is_to_be_dropped(&self, has_begun: bool) -> bool {
        let ledger = self.lock();
        let droppable = !has_begun || self.plan.cancel_mode == CancelMode::Droppable;
        ledger.drop_requested || droppable && !matches!(ledger.stage, Stage::Running)
    }

    /// Seals the outcome, if the task runs and nobody has before.
    pub(crate) fn seal(&self, seal: Seal) -> Sealing {
        let sealing = {
            let mut guard = self.lock();
            let ledger = &mut *guard;
            let sealing = ledger.stage.seal(seal);
            if sealing == Sealing::Accepted {
                if let Seal::Deadline(_) = seal {
                    // It was reported before the seal, and goes out before the failure.
                    self.release_held(ledger, Instant::now());
                }
                ledger.updated_at = self.now(ledger);
            }
            sealing
        };
        if sealing == Sealing::Accepted {
            self.changed.notify_waiters();
            self.span.in_scope(|| match seal {
                Seal::Cancel => tracing::info!("cancel accepted"),
                Seal::Deadline(_) => tracing::warn!("deadline passed, stopping the body"),
            });
        }
        sealing
    }

    /// Completes once the outcome is sealed or the task has ended.
    pub(crate) async fn sealed(&self) {
        self.reached(|stage| !matches!(stage, Stage::Running)).await;
    }

    /// Completes once the task has ended.
    pub(crate) async fn ended(&self) {
        self.reached(Stage::has_ended).await;
    }

    async fn reached(&self, is_there: impl Fn(&Stage) -> bool) {
        loop {
            // Made before the look, so that no change falls between the two.
            let changed = self.changed.notified();
            if is_there(&self.lock().stage) {
                return;
            }
            changed.await;
        }
    }

    /// Whether the body had stopped in order when the task ended.
    pub(crate) fn stopped_in_time(&self) -> bool {
        matches!(self.lock().stage, Stage::Ended { stopped: true, .. })
    }

    /// Whether the body has stopped in order by now.
    pub(crate) fn has_stopped(&self) -> bool {
        match self.lock().stage {
            Stage::Ended {
                stopped,
                stopped_late,
                ..
            } => stopped || stopped_late,
            Stage::Running | Stage::Stopping(_) => false,
        }
    }

    /// The handle of the task's one spawned future.
    pub(crate) fn attach_runner(&self, runner: AbortHandle) {
        let mut ledger = self.lock();
        if ledger.drop_requested {
            drop(ledger);
            runner.abort();
        } else if !ledger.stage.has_ended() {
            ledger.runner = Some(runner);
        }
    }

    pub(crate) fn attach_deadline(&self, timer: AbortHandle) {
        let mut ledger = self.lock();
        if ledger.stage.has_ended() {
            drop(ledger);
            timer.abort();
        } else {
            ledger.deadline_timer = Some(timer);
        }
    }

    /// Has the body dropped at its next await, if it still runs.
    pub(crate) fn request_drop(&self) {
        let runner = {
            let mut ledger = self.lock();
            ledger.drop_requested = true;
            ledger.runner.take()
        };
        // Outside the lock: an abort can drop the body at once, and that takes the lock.
        if let Some(runner) = runner {
            runner.abort();
        }
    }

    /// Logs what the planner is not told of an error: its sources.
    pub(crate) fn log_error(&self, error: &TaskError) {
        // What a body returns once it was told to stop is of no interest any more.
        if self.admit().is_err() {
            return;
        }
        self.span.in_scope(|| {
            if let Some(chain) = error.source_chain() {
                tracing::error!(error = %chain, "the body returned an error");
            } else {
                tracing::warn!(error = %error, "the body failed the task");
            }
        });
    }

    /// The time now. A small step back of the clock is waited out, so that times do not run
    /// backwards; a larger one is a correction, and the task's newest time was wrong.
    fn now(&self, ledger: &Ledger) -> Timestamp {
        let now = self.port.clock.now();
        let newest = ledger.updated_at;
        let behind_ms = newest.unix_ms().saturating_sub(now.unix_ms());
        if (1..=SMALL_STEP_MS).contains(&behind_ms) {
            newest
        } else {
            now
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        // Every change is complete before anything that could panic is called.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

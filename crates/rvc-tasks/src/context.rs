use std::fmt;
use std::sync::Arc;

use rvc_wire::{Map, TaskId};

use crate::record::Record;
use crate::{AttachedTrigger, EmitError};

/// What a body has of its task. Clones are cheap, and may go to helper tasks and threads.
///
/// Reports never block and need no runtime. They are sent as soon as a thread of the server's
/// runtime is free, also when the body goes on to block its own. Where bodies run on that runtime
/// (see [`run_bodies_apart`](crate::TaskManager::run_bodies_apart)) and block every thread of it,
/// nothing is sent, so long work that does not await belongs into `spawn_blocking`.
///
/// Once a cancel was accepted every one of them fails, also those of helpers that outlive the body.
#[derive(Clone)]
pub struct TaskContext {
    record: Arc<Record>,
}

impl TaskContext {
    pub(crate) const fn new(record: Arc<Record>) -> Self {
        Self { record }
    }

    pub(crate) const fn record(&self) -> &Arc<Record> {
        &self.record
    }

    /// The task's id.
    #[must_use]
    pub fn task_id(&self) -> &TaskId {
        self.record.id()
    }

    /// The triggers that the caller attached, in the order in which they came, those of unknown
    /// types too.
    #[must_use]
    pub fn triggers(&self) -> &[AttachedTrigger] {
        self.record.triggers()
    }

    /// Records and sends a `progress` event.
    ///
    /// A numeric `percent` in it fires the `progress_above` triggers that it reaches. With
    /// [`TaskSpec::min_progress_interval`](crate::TaskSpec::min_progress_interval) the event may
    /// go out later, or a newer one in its place.
    ///
    /// # Errors
    ///
    /// [`EmitError`]; then nothing was recorded or sent.
    pub fn progress(&self, payload: Map) -> Result<(), EmitError> {
        self.record.progress(payload)
    }

    /// Sends a `trigger_fired` event: `{"trigger": …}` and what `extra` adds to it, such as the
    /// estimated time that fired it.
    ///
    /// A trigger fires once, or every time with `"repeat": true` (contract section 3.2).
    ///
    /// # Errors
    ///
    /// [`EmitError`]; then nothing was sent, and the trigger has not fired.
    pub fn fire_trigger(&self, trigger: &AttachedTrigger, extra: Map) -> Result<Firing, EmitError> {
        self.record.fire_trigger(trigger, extra)
    }

    /// Sends a `watch_event`: what a long-lived watcher saw. It is not kept for polls.
    ///
    /// # Errors
    ///
    /// [`EmitError`]; then nothing was sent.
    pub fn emit(&self, payload: Map) -> Result<(), EmitError> {
        self.record.emit(payload)
    }

    /// Waits until the body is to stop: a cancel was accepted or the deadline has passed.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when it is dropped: a later call completes at once if it was time.
    pub async fn cancelled(&self) {
        self.record.sealed().await;
    }

    /// Whether the body is to stop, or has.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.check_cancelled().is_err()
    }

    /// A checkpoint for `?`: the contract's `raise_if_cancelled`.
    ///
    /// # Errors
    ///
    /// [`EmitError`] says why the body is to stop.
    pub fn check_cancelled(&self) -> Result<(), EmitError> {
        self.record.admit()
    }
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext")
            .field("task_id", self.task_id())
            .finish_non_exhaustive()
    }
}

/// What became of a trigger's condition coming true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firing {
    /// The event was sent.
    Fired,
    /// It fires once and has done so before; nothing was sent.
    AlreadyFired,
}

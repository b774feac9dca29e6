use std::fmt;
use std::time::Duration;

use rvc_wire::{NameError, ToolName, Trigger};

use crate::failures::cut;
use crate::trigger::{AttachedTrigger, BadTrigger, Evaluated};

/// What a tool says about a task when it starts it.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use rvc_tasks::{CancelMode, TaskSpec, Trigger};
///
/// # let triggers: Option<Vec<Trigger>> = None;
/// let spec = TaskSpec::new("navigate_to")
///     .triggers(triggers.unwrap_or_default())
///     .evaluates_with("eta_below", |trigger| trigger.number("seconds").map(drop))
///     .evaluates_with("zone_entered", |trigger| trigger.text("zone").map(drop))
///     .est_duration(Duration::from_secs(60))
///     .cancel_mode(CancelMode::Cooperative { grace: None });
/// ```
#[must_use]
pub struct TaskSpec {
    pub(crate) tool: Result<ToolName, NameError>,
    pub(crate) triggers: Vec<Trigger>,
    pub(crate) evaluated: Evaluated,
    pub(crate) est_duration: Option<Duration>,
    pub(crate) cancel_mode: CancelMode,
    pub(crate) deadline: Option<Duration>,
    pub(crate) min_progress_interval: Option<Duration>,
    pub(crate) log_context: LogContext,
}

impl TaskSpec {
    /// A task that `tool` starts. An empty name is refused by the start.
    pub fn new(tool: &str) -> Self {
        Self {
            tool: tool.parse(),
            triggers: Vec::new(),
            evaluated: Evaluated::default(),
            est_duration: None,
            cancel_mode: CancelMode::default(),
            deadline: None,
            min_progress_interval: None,
            log_context: LogContext::default(),
        }
    }

    /// The triggers that the caller attached.
    pub fn triggers(mut self, triggers: impl IntoIterator<Item = Trigger>) -> Self {
        self.triggers = triggers.into_iter().collect();
        self
    }

    /// The trigger types that the body evaluates; it has checked their fields itself.
    ///
    /// `progress_above` is always evaluated, and not by the body. A type that is evaluated by
    /// nobody is ignored with a WARN (contract decision 23).
    pub fn evaluates<K: Into<String>>(mut self, kinds: impl IntoIterator<Item = K>) -> Self {
        for kind in kinds {
            self.evaluated.add(kind.into(), Box::new(|_| Ok(())));
        }
        self
    }

    /// A trigger type that the body evaluates, with a check of its fields. The start fails with
    /// what the check says.
    pub fn evaluates_with(
        mut self,
        kind: impl Into<String>,
        check: impl Fn(&AttachedTrigger) -> Result<(), BadTrigger> + Send + Sync + 'static,
    ) -> Self {
        self.evaluated.add(kind.into(), Box::new(check));
        self
    }

    /// How long it is expected to take; the caller is told.
    pub const fn est_duration(mut self, duration: Duration) -> Self {
        self.est_duration = Some(duration);
        self
    }

    /// How the body takes a cancel.
    pub const fn cancel_mode(mut self, mode: CancelMode) -> Self {
        self.cancel_mode = mode;
        self
    }

    /// The longest that it may take. After that it is stopped as by a cancel and fails with
    /// `TIMEOUT` (contract decision 25).
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The smallest interval between its progress events: the newest report wins, and `get_task`
    /// shows every one (contract decision 25).
    pub const fn min_progress_interval(mut self, interval: Duration) -> Self {
        self.min_progress_interval = Some(interval);
        self
    }

    /// What the caller wants to find in the logs. What is missing in it comes from the call's
    /// [`CallScope`](crate::CallScope), if there is one.
    pub fn log_context(mut self, context: LogContext) -> Self {
        self.log_context = context;
        self
    }
}

impl fmt::Debug for TaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSpec")
            .field("tool", &self.tool)
            .field("triggers", &self.triggers)
            .field("est_duration", &self.est_duration)
            .field("cancel_mode", &self.cancel_mode)
            .field("deadline", &self.deadline)
            .field("min_progress_interval", &self.min_progress_interval)
            .field("log_context", &self.log_context)
            .finish_non_exhaustive()
    }
}

/// How a body takes a cancel, or its deadline (contract decision 19).
///
/// In both modes [`TaskContext::cancelled`](crate::TaskContext::cancelled) completes, and the
/// tokio tasks and threads that the body started are its own to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CancelMode {
    /// It is dropped at its next await. Its `Drop` implementations run, so a guard can stop the
    /// motor.
    ///
    /// If it does not reach an await within the manager's grace, the task ends all the same,
    /// with `stopped: false`: it blocks its thread, or waits for one that other bodies block.
    /// Nothing can make a thread stop that blocks. What it does then goes on until it returns, or
    /// the process ends.
    #[default]
    Droppable,

    /// It is told, and may use the grace for an orderly stop; then it is dropped at its next
    /// await. If that, too, does not come, it is as with a droppable one that blocks.
    Cooperative {
        /// How long its teardown may take; the manager's grace if `None`.
        grace: Option<Duration>,
    },
}

/// What a caller wants to find in the logs of a task and of its events (contract decision 29).
///
/// Values longer than 256 bytes are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogContext {
    /// The W3C trace context of the call.
    pub traceparent: Option<String>,
    /// The request that the call belongs to.
    pub request_id: Option<String>,
    /// The conversation turn that the call belongs to.
    pub turn_id: Option<String>,
    /// The mission that the call belongs to.
    pub mission_id: Option<String>,
}

impl LogContext {
    /// Takes from `other` what is missing here.
    pub(crate) fn fill_in(&mut self, other: &Self) {
        for (mine, others) in [
            (&mut self.traceparent, &other.traceparent),
            (&mut self.request_id, &other.request_id),
            (&mut self.turn_id, &other.turn_id),
            (&mut self.mission_id, &other.mission_id),
        ] {
            if mine.is_none() {
                mine.clone_from(others);
            }
        }
    }

    /// Writes what is there into the span's fields of the same names.
    pub(crate) fn record(&self, span: &tracing::Span) {
        for (field, value) in [
            ("traceparent", &self.traceparent),
            ("request_id", &self.request_id),
            ("turn_id", &self.turn_id),
            ("mission_id", &self.mission_id),
        ] {
            if let Some(value) = value {
                span.record(field, cut(value, 256));
            }
        }
    }
}

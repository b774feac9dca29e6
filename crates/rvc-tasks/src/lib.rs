//! Runs long work behind an MCP tool call: the call returns a task at once, the work reports by
//! events, and can always be polled and cancelled.
mod clock;
mod context;
mod emit_error;
mod event_sink;
mod failures;
mod json_size;
mod lifecycle;
mod manager;
mod memory_sink;
mod payload;
mod port;
mod record;
mod registry;
mod runner;
mod spec;
mod start_error;
mod task_error;
mod teardown;
mod thinning;
mod trigger;

pub use rvc_poster::{CloseReport, EventPoster, OutgoingEvent};
pub use rvc_wire::{
    EventType, Map, NameError, ServerName, ShortName, TaskEvent, TaskFailure, TaskId, TaskInfo,
    TaskState, TaskStateError, Timestamp, ToolName, Trigger,
};
pub use serde_json::Value;

pub use crate::clock::{Clock, SystemClock};
pub use crate::context::{Firing, TaskContext};
pub use crate::emit_error::EmitError;
pub use crate::event_sink::{EventSink, NoSink};
pub use crate::manager::{Cancelled, ConfigError, TaskManager, TaskManagerBuilder};
pub use crate::memory_sink::MemorySink;
pub use crate::spec::{CancelMode, LogContext, TaskSpec};
pub use crate::start_error::StartError;
pub use crate::task_error::TaskError;
pub use crate::trigger::{AttachedTrigger, BadTrigger};

/// What the crate's macros expand to; not for use.
#[doc(hidden)]
pub mod __private {
    pub use serde_json::json;
}

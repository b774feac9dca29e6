//! Runs long work behind an MCP tool call: the call returns a task at once, the work reports by
//! signed events, and can always be polled and cancelled.
//!
//! ```text
//! tool call ─► TaskManager::start ─► TaskInfo (running)
//!                    │
//!                    └─► body ─► progress, fire_trigger, emit ─┐
//!                          │                                   ├─► EventSink ─► the brain
//!                          └─► Ok(Map) | Err(TaskError) | panic ─┘
//!
//! poll      get, list, wait ─► TaskInfo
//! ask       question ─► who called answers ─► the body goes on
//! cancel    seal ─► the body stops, or its grace is over ─► cancelled, stopped: true | false
//! ```
//!
//! A server needs this crate and `rvc-mcp`, which adds the three tools and the transports. What
//! a body does is up to it; what the manager does is the contract's section 4.2.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use rvc_tasks::{MemorySink, TaskError, TaskManager, TaskSpec, TaskState, Trigger, payload};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A server takes `EventPoster::from_env(server)` for its sink.
//! let sink = MemorySink::new();
//! let manager = TaskManager::new("navigation".parse()?, sink.clone());
//!
//! // What the caller attached to its call.
//! let triggers: Vec<Trigger> =
//!     serde_json::from_str(r#"[{"type": "eta_below", "seconds": 2}]"#)?;
//!
//! let spec = TaskSpec::new("navigate_to")
//!     .triggers(triggers)
//!     .evaluates_with("eta_below", |trigger| trigger.number("seconds").map(drop))
//!     .est_duration(Duration::from_secs(3));
//! let door_is_open = true;
//! let started = manager.start(spec, async move |task| {
//!     if !door_is_open {
//!         let error = TaskError::new("DOOR_CLOSED", "The door to the lab is closed.");
//!         return Err(error.suggestion("ask_reception"));
//!     }
//!     for eta_s in [2.0, 1.0, 0.0] {
//!         tokio::time::sleep(Duration::from_secs(1)).await;
//!         task.progress(payload! { "eta_s": eta_s })?;
//!         for trigger in task.triggers() {
//!             if trigger.kind() == "eta_below" && eta_s < trigger.number("seconds")? {
//!                 task.fire_trigger(trigger, payload! { "eta_s": eta_s })?;
//!             }
//!         }
//!     }
//!     Ok(payload! { "arrived": true })
//! })?;
//! assert_eq!(started.state, TaskState::Running);
//!
//! let ended = manager.wait(&started.task_id, Duration::from_secs(60)).await.unwrap();
//! assert_eq!(ended.result, Some(payload! { "arrived": true }));
//!
//! let events = sink.events();
//! let types: Vec<_> = events.iter().map(|event| event.event_type.as_str()).collect();
//! assert_eq!(types, ["progress", "progress", "trigger_fired", "progress", "task_done"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - A task ends once. The end is recorded, its event posted and its `seq` allotted under one
//!   lock; `seq` counts from 1 without a gap, in the order in which the sink sees the events. What
//!   a sink has to drop leaves a gap for the receiver; a poll is the truth.
//! - Once a cancel was accepted, the end is `cancelled` whatever the body returns, and no event
//!   of the task is sent: none is posted, and those that wait in the sink are dropped, triggers
//!   too. An event that is being sent at that moment, at most one, cannot be recalled: it may
//!   arrive up to an attempt's time (10 s) later, and is not sent again. What is dropped is the
//!   last of the task's `seq`, so no gap shows it; the cancel's answer and every poll say where
//!   the task stands. A task that ended before the cancel keeps its events and its end, and those
//!   that a close of the manager ends keep what they had reported, for the drain.
//! - No poll says `cancelled` before the body has stopped or its grace is over. A body that has not
//!   begun when the cancel is accepted never begins.
//! - `stopped: true` means that the body came to its end in order: a droppable one was dropped,
//!   a cooperative one returned within its grace. Anything else (a blocked thread, a panic, a
//!   teardown that had to be cut off) is `stopped: false`, with a WARN: the robot may still be
//!   moving. What the body started outside of itself, such as tokio tasks, is its own to stop.
//! - A deadline is handled like a cancel, and no poll says `failed` any earlier. Its message says
//!   when the body did not stop in order.
//! - A panic in a body or in its destructors fails its task and nothing else (with
//!   `panic = "unwind"`, the default).
//! - A body that blocks its thread stops what shares its runtime. Bodies run where their tasks are
//!   started, which is what a test with a paused clock needs, until
//!   [`TaskManager::run_bodies_apart`] gives them threads of their own, as `rvc-mcp` does when it
//!   serves. From then on, with every one of these threads blocked, polls and cancels are
//!   answered, graces and deadlines end, posted events leave and [`TaskManager::close`] ends.
//! - Each attached trigger fires at most once, unless it carries `"repeat": true`.
//! - Running tasks are never evicted. The 200 newest finished ones are kept, with at most 64 MiB
//!   of what they left.
//! - A question of a body ([`TaskContext::ask`]) reaches its caller only if that can answer; else
//!   it fails at once, or takes its default. Each key is asked once, and an answer that does not
//!   fit leaves the question open.
//! - A [`TaskHandle`] keeps its task readable, whole, past these limits.
//! - Nothing is persisted: a restart forgets every task, and a poll then finds none.
//!
//! # Cancel safety
//!
//! Dropping a future of this crate loses nothing: [`TaskManager::cancel`] and
//! [`TaskManager::close`] go on by themselves once polled, the others only look.
//!
//! # Crate features
//!
//! - `schema`: JSON Schema of the wire models, so that a tool can take a [`Trigger`] in its arguments.
//!   `rvc-mcp` turns it on.

mod apart;
mod ask;
mod call_scope;
mod clock;
mod companions;
mod context;
mod emit_error;
mod event_sink;
mod failures;
mod handle;
mod json_size;
mod lifecycle;
mod manager;
mod memory_sink;
mod payload;
mod port;
mod question;
mod record;
mod registry;
mod runner;
mod spec;
mod start_error;
mod task_error;
mod teardown;
mod thinning;
mod trigger;

pub use rvc_poster::{
    CloseReport, ConfigError, Endpoint, EndpointError, EventPoster, EventPosterBuilder,
    OutgoingEvent, PosterConfig, QueueLimits,
};
pub use rvc_wire::{
    EventType, Map, NameError, ServerName, ShortName, TaskEvent, TaskFailure, TaskId, TaskInfo,
    TaskState, TaskStateError, Timestamp, ToolName, Trigger,
};
pub use serde_json::Value;

pub use crate::call_scope::{CallScope, Caller};
pub use crate::clock::{Clock, SystemClock};
pub use crate::context::{Firing, TaskContext};
pub use crate::emit_error::EmitError;
pub use crate::event_sink::{EventSink, NoSink};
pub use crate::handle::{TaskHandle, WeakTaskHandle};
pub use crate::manager::{Cancelled, SetupError, TaskManager, TaskManagerBuilder};
pub use crate::memory_sink::MemorySink;
pub use crate::question::{Answered, BadAnswer, OpenQuestion, Question};
pub use crate::spec::{CancelMode, LogContext, TaskSpec};
pub use crate::start_error::StartError;
pub use crate::task_error::TaskError;
pub use crate::trigger::{AttachedTrigger, BadTrigger};

/// What the crate's macros expand to; not for use.
#[doc(hidden)]
pub mod __private {
    pub use serde_json::json;
}

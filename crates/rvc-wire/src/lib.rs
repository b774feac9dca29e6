//! The wire models of the Async Task Contract: what a server pushes, and what a poll answers.
//!
//! ```text
//! push   TaskEvent { event_id, task_id, server, tool, type, seq, ts, payload }
//! poll   TaskInfo  { task_id, server, tool, state, progress, result | failure, triggers, … }
//! call   Trigger   { "type": …, anything else }
//! ```
//!
//! Values are parsed at the edge: once a [`ServerName`], a [`Seq`] or a [`Trigger`] exists, it is
//! valid. There is no I/O here, no clock and no randomness; callers pass them in.
//!
//! # Examples
//!
//! ```
//! use rvc_wire::{EventType, Seq, TaskEvent};
//!
//! let body = br#"{
//!     "schema_version": 1, "event_id": "8c1f0e2a-3f0d-4c59-9b52-6b1c6f5b7d11",
//!     "task_id": "nav-7f3a2b", "server": "navigation", "tool": "navigate_to",
//!     "type": "progress", "seq": 4, "ts": "2026-06-12T16:03:00.123456+02:00",
//!     "payload": {"eta_s": 22.4}
//! }"#;
//! let event = TaskEvent::from_json(body)?;
//!
//! assert_eq!(event.event_type, EventType::Progress);
//! assert_eq!(event.seq, Seq::try_from(4)?);
//! assert_eq!(event.ts.to_string(), "2026-06-12T14:03:00.123Z");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - What is written follows section 3 of the contract to the byte: field order, three fractional
//!   digits and `Z` on every time, `null` for an absent optional value of a [`TaskInfo`].
//! - What is read is wider: unknown fields are ignored, an event type of a newer schema is kept
//!   and written back, any RFC 3339 offset and precision is understood.
//! - A [`Trigger`] is written back as it came: same keys, same order, same numbers. Integers
//!   outside 64 bits are the exception: JSON parsers here read them as floating point.
//! - `NaN` and infinities cannot reach the wire: a [`Map`] holds `null` in their place.
//!
//! # Crate features
//!
//! - `std` (default): `std` in the dependencies. Without it the crate is `no_std` with `alloc`.
//! - `schema`: `schemars::JsonSchema` for every type.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod event;
mod event_id;
mod event_type;
mod name;
mod seq;
mod task_failure;
mod task_id;
mod task_info;
mod task_state;
mod text;
mod timestamp;
mod trigger;

pub use crate::event::{EventError, SCHEMA_VERSION, TaskEvent};
pub use crate::event_id::{EventId, EventIdError};
pub use crate::event_type::EventType;
pub use crate::name::{NameError, ServerName, ShortName, ToolName};
pub use crate::seq::{Seq, SeqError};
pub use crate::task_failure::TaskFailure;
pub use crate::task_id::{TaskId, TaskIdError};
pub use crate::task_info::TaskInfo;
pub use crate::task_state::{TaskState, TaskStateError};
pub use crate::timestamp::{Timestamp, TimestampError};
pub use crate::trigger::{Trigger, TriggerError};

/// A JSON object whose keys keep their order: a payload, a result, a trigger's fields.
pub type Map = serde_json::Map<alloc::string::String, serde_json::Value>;

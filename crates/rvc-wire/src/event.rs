use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{EventId, EventType, Map, Seq, ServerName, TaskId, Timestamp, ToolName};

/// The schema that this crate writes. A missing version means 1 (contract decision 4).
pub const SCHEMA_VERSION: u32 = 1;

/// An immutable fact about a task: the body of one event POST (contract section 3.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskEvent {
    /// The schema of the sender.
    #[serde(default = "schema_version")]
    pub schema_version: u32,
    /// What a receiver dedupes on.
    pub event_id: EventId,
    /// The task that it tells of.
    pub task_id: TaskId,
    /// The server that runs the task.
    pub server: ServerName,
    /// The tool that started the task.
    pub tool: ToolName,
    /// What it reports.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Its position in the task, from 1 and without a gap.
    pub seq: Seq,
    /// When it happened, by the server's clock.
    pub ts: Timestamp,
    /// What it carries; the form follows from the type.
    pub payload: Map,
}

impl TaskEvent {
    /// Reads an event from a request's body.
    ///
    /// # Errors
    ///
    /// [`EventError`] says what is missing or wrong, with line and column where JSON has them.
    pub fn from_json(body: &[u8]) -> Result<Self, EventError> {
        serde_json::from_slice(body).map_err(|error| EventError {
            reason: error.to_string(),
        })
    }

    /// Writes the event as a request's body. The bytes that are signed are these.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an event has a JSON form")
    }
}

/// Why a body is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("body is no task event: {reason}")]
pub struct EventError {
    reason: String,
}

const fn schema_version() -> u32 {
    SCHEMA_VERSION
}

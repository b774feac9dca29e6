use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{Map, ServerName, TaskFailure, TaskId, TaskState, Timestamp, ToolName, Trigger};

/// A task as a poll sees it (contract section 4.1).
///
/// Absent optional values are written as `null`; `null` and absent are both read (decision 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskInfo {
    /// The task.
    pub task_id: TaskId,
    /// The server that runs it.
    pub server: ServerName,
    /// The tool that started it.
    pub tool: ToolName,
    /// Where it stands.
    pub state: TaskState,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// What the caller attached, as it came.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    /// How long it was expected to take at the start, in seconds.
    #[serde(default)]
    pub est_duration_s: Option<f64>,
    /// The newest progress payload.
    #[serde(default)]
    pub progress: Option<Map>,
    /// What it returned, once it succeeded.
    #[serde(default)]
    pub result: Option<Map>,
    /// Why it failed, once it failed.
    #[serde(default)]
    pub failure: Option<TaskFailure>,
    /// A cancel was accepted and the body has not stopped yet. Additive: written only when true
    /// (decision 19).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub cancel_requested: bool,
}

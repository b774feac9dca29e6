//! An action as operators and scripts see it.

use serde::{Deserialize, Serialize};

use crate::envelope::ToolResultEnvelope;
use crate::error_code::ErrorCode;
use crate::linkage::Linkage;
use crate::name::{ActionId, RegistrationId, RunId};
use crate::phase::{ActionState, Phase};
use rvc_wire::Map;

/// An action as operators and scripts see it: the documented fields, in this order.
///
/// `remote_task_id` is execution metadata that only authorised users may see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ActionView {
    /// The action.
    pub action_id: ActionId,
    /// Its run.
    pub run_id: RunId,
    /// The server.
    pub registration_id: RegistrationId,
    /// The tool.
    pub tool: String,
    /// Where the linkage stands; one of ten.
    pub phase: Phase,
    /// What the host sees of it; one of four.
    pub action_state: ActionState,
    /// The remote task's id.
    pub remote_task_id: Option<String>,
    /// The server's last word on its status.
    pub remote_status: Option<String>,
    /// The newest progress.
    pub progress: Option<String>,
    /// How often a start may have reached the server.
    pub starts: u32,
    /// How often the remote task's state was read.
    pub polls: u64,
    /// The open requests for input, by key.
    pub input_requests: Map,
    /// Whether the tool says that it failed; none without a result.
    pub is_error: Option<bool>,
    /// How the action failed or was cancelled.
    pub error_code: Option<ErrorCode>,
    /// The same for a reader.
    pub message: Option<String>,
    /// The tool's result.
    pub result: Option<ToolResultEnvelope>,
    /// What went wrong last, while there is no outcome.
    pub last_error: Option<String>,
}

impl From<Linkage> for ActionView {
    fn from(row: Linkage) -> Self {
        let (remote_task_id, remote_status, progress) = match row.remote {
            None => (None, None, None),
            Some(remote) => (Some(remote.id), Some(remote.status), remote.progress),
        };
        let (error_code, message, result) = match row.outcome {
            None => (None, None, None),
            Some(outcome) => (outcome.error_code, Some(outcome.message), outcome.result),
        };
        Self {
            action_id: row.action,
            run_id: row.run,
            registration_id: row.registration,
            tool: row.tool,
            phase: row.phase,
            action_state: row.phase.action_state(),
            remote_task_id,
            remote_status,
            progress,
            starts: row.starts,
            polls: row.polls,
            input_requests: row.input_requests,
            is_error: result.as_ref().map(|result| result.is_error),
            error_code,
            message: message.filter(|message| !message.is_empty()),
            result,
            last_error: row.trouble.last,
        }
    }
}

//! The one end of an action.

use serde::{Deserialize, Serialize};

use crate::envelope::ToolResultEnvelope;
use crate::error_code::ErrorCode;
use crate::phase::{ActionState, Phase};

/// The one end of an action. It is written once and never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The final phase.
    pub phase: Phase,
    /// How it failed or was cancelled; none for a success.
    pub error_code: Option<ErrorCode>,
    /// The same for a reader; empty for a success.
    pub message: String,
    /// The tool's result, if there is one: also with `TOOL_ERROR`.
    pub result: Option<ToolResultEnvelope>,
}

impl Outcome {
    /// What the tool returned: a success, or a failure when it says so.
    #[must_use]
    pub fn of_result(result: ToolResultEnvelope) -> Self {
        if result.is_error {
            Self {
                phase: Phase::Failed,
                error_code: Some(ErrorCode::TOOL_ERROR),
                message: result.text.clone(),
                result: Some(result),
            }
        } else {
            Self {
                phase: Phase::Completed,
                error_code: None,
                message: String::new(),
                result: Some(result),
            }
        }
    }

    /// A failure without a result. Expiry and an unknown start have phases of their own.
    #[must_use]
    pub fn failed(code: ErrorCode, message: impl Into<String>) -> Self {
        let phase = if code == ErrorCode::REMOTE_TASK_EXPIRED {
            Phase::Expired
        } else if code == ErrorCode::START_OUTCOME_UNKNOWN {
            Phase::Unknown
        } else {
            Phase::Failed
        };
        Self {
            phase,
            error_code: Some(code),
            message: message.into(),
            result: None,
        }
    }

    /// The host cancelled.
    #[must_use]
    pub fn cancelled_by_host() -> Self {
        Self {
            phase: Phase::Cancelled,
            error_code: Some(ErrorCode::CANCELLED),
            message: "cancelled by the host".to_owned(),
            result: None,
        }
    }

    /// The server cancelled, and nobody here had asked for it.
    #[must_use]
    pub fn cancelled_by_server(message: Option<&str>) -> Self {
        let said = message.map(|said| format!(": {said}")).unwrap_or_default();
        Self {
            phase: Phase::Cancelled,
            error_code: Some(ErrorCode::REMOTE_CANCELLED),
            message: format!("cancelled by the server{said}"),
            result: None,
        }
    }

    /// What the host sees of it.
    #[must_use]
    pub fn state(&self) -> ActionState {
        self.phase.action_state()
    }
}

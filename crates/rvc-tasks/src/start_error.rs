use rvc_wire::NameError;

use crate::BadTrigger;

/// Why a task was not started: an error of the tool call. The body was not called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server is closing.
    #[error("the server is shutting down and starts no tasks")]
    ShuttingDown,

    /// A trigger of a known type has wrong fields.
    #[error(transparent)]
    BadTrigger(#[from] BadTrigger),

    /// The triggers take more room than a task may keep for them.
    #[error("triggers of {bytes} bytes are larger than the {most} allowed")]
    TriggersTooLarge {
        /// Their size as JSON, in bytes.
        bytes: usize,
        /// The limit in bytes.
        most: usize,
    },

    /// The tool's name is none.
    #[error("the tool has no valid name")]
    ToolName(#[source] NameError),

    /// The call was made outside a tokio runtime, where no body can run.
    #[error("there is no tokio runtime to run the task on")]
    NoRuntime,

    /// So many tasks are held that no free id was drawn.
    #[error("no task id is free")]
    NoFreeId,
}

impl StartError {
    /// Whether the caller can mend it by calling with other arguments.
    #[must_use]
    pub const fn is_callers_fault(&self) -> bool {
        matches!(self, Self::BadTrigger(_) | Self::TriggersTooLarge { .. })
    }
}

use std::time::Duration;

use rvc_wire::Map;

use crate::envelope::ToolResultEnvelope;
use crate::error_code::ErrorCode;
use crate::linkage::RemoteTask;

/// What came of sending a start.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StartAnswer {
    /// A handle of a remote task, MCP's or the contract's.
    Task(RemoteTask),
    /// The tool's result at once.
    Result(ToolResultEnvelope),
    /// A JSON-RPC error: the tool did not run, or ran into it.
    Refused {
        /// The error's code.
        code: i64,
        /// Its message.
        message: String,
    },
    /// A handle that does not parse, but names running work.
    BrokenHandle {
        /// The work, as far as it can be named.
        task: RemoteTask,
        /// What is wrong with it.
        reason: String,
    },
    /// The server wants input before it starts anything.
    InputRequired,
    /// An answer that is neither handle nor result.
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// The result is larger than the cap.
    TooLarge,
    /// No byte reached the server; it is proven, not guessed.
    NotSent {
        /// What failed.
        reason: String,
        /// When the server wants to be tried again.
        retry_after: Option<Duration>,
    },
    /// The answer did not come. The tool may run.
    Lost {
        /// What failed.
        reason: String,
        /// When the server wants to be tried again.
        retry_after: Option<Duration>,
    },
}

/// What a remote task said of itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RemoteState {
    /// It works.
    Working,
    /// It waits for input.
    InputRequired(Map),
    /// It ended with a result, which may say that the tool failed.
    Completed(ToolResultEnvelope),
    /// It ended with an error.
    Failed {
        /// The error's code.
        code: ErrorCode,
        /// Its message.
        message: String,
    },
    /// It was cancelled.
    Cancelled,
}

/// What came of asking for a task's state.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
// There is one at a time, and it is moved once.
#[allow(clippy::large_enum_variant)]
pub enum PollAnswer {
    /// The task's state; it is the right task.
    State {
        /// The metadata, read anew.
        task: RemoteTask,
        /// The state.
        state: RemoteState,
    },
    /// The server does not know the task.
    Gone {
        /// What it said.
        message: String,
    },
    /// A contract server lost the task, or reused its id for another one.
    Restarted {
        /// What gave it away.
        message: String,
    },
    /// The answer cannot be understood, or is about another task.
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// The answer is larger than the cap.
    TooLarge {
        /// The metadata of a task that ended with such a result; none where the answer was not
        /// read so far, and the task may work.
        task: Option<RemoteTask>,
    },
    /// The server did not answer, or not now.
    Unavailable {
        /// What failed.
        reason: String,
        /// When the server wants to be tried again.
        retry_after: Option<Duration>,
    },
}

/// What came of asking a server to cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelAnswer {
    /// The wish was acknowledged. Whether the task stops is another matter.
    Acknowledged,
    /// The wish was granted, and this is the task's final status.
    Ended {
        /// The status, in the server's word.
        status: String,
    },
    /// The server does not know the task.
    Gone {
        /// What it said.
        message: String,
    },
    /// The server did not answer, or not now.
    Unavailable {
        /// What failed.
        reason: String,
        /// When the server wants to be tried again.
        retry_after: Option<Duration>,
    },
}

/// What came of sending answers to a task that waits for input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpdateAnswer {
    /// They were taken.
    Acknowledged,
    /// The server refused them: it does not know the task, does not ask for this, or does not
    /// like what it got. Which of them it is, a poll tells.
    Refused {
        /// What it said.
        reason: String,
    },
    /// The server did not answer, or not now.
    Unavailable {
        /// What failed.
        reason: String,
        /// When the server wants to be tried again.
        retry_after: Option<Duration>,
    },
}

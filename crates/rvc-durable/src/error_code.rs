//! How an action failed, in one word.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How an action failed, in one word that a program can compare.
///
/// Ours are constants here. A remote error brings its own: the number of a JSON-RPC error, or
/// the `error_code` of a contract task's failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorCode(Cow<'static, str>);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self(Cow::Borrowed(stringify!($name)));)*
        }
    };
}

codes! {
    /// The answer to the start was lost; whether the tool ran cannot be known.
    START_OUTCOME_UNKNOWN;
    /// The server's answers cannot be understood.
    REMOTE_PROTOCOL_ERROR;
    /// The server no longer knows the task, before its time to live was over.
    REMOTE_TASK_MISSING;
    /// The remote task's time to live was over before its result was read.
    REMOTE_TASK_EXPIRED;
    /// The result is larger than the caller takes.
    RESULT_TOO_LARGE;
    /// The remote task asked for input, and nobody here can answer.
    INPUT_UNSUPPORTED;
    /// The registration is disabled, deleted, or no longer the owner's.
    REGISTRATION_REVOKED;
    /// A contract server restarted and lost the task, or evicted it.
    SERVER_RESTARTED;
    /// The host's execution deadline passed.
    EXECUTION_DEADLINE_EXCEEDED;
    /// The tool ran and said that it failed (`isError: true`).
    TOOL_ERROR;
    /// The host cancelled.
    CANCELLED;
    /// The server cancelled the task without being asked.
    REMOTE_CANCELLED;
}

impl ErrorCode {
    /// A code that the remote side brought.
    #[must_use]
    pub fn remote(code: impl Into<String>) -> Self {
        Self(Cow::Owned(code.into()))
    }

    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

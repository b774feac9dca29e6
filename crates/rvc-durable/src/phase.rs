//! Where a linkage stands.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a linkage stands. The five last are for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The wish is durable, and no start is under way. None was ever sent, or of several that
    /// were allowed an earlier one: the count of starts tells.
    Intent,
    /// The start was sent, or is about to be; its answer is not known.
    Sending,
    /// The remote task is linked and works.
    Working,
    /// The remote task waits for input.
    InputRequired,
    /// The outcome is known, the host has not been told yet.
    Accepted,
    /// The tool succeeded.
    Completed,
    /// The action failed; the error code says how.
    Failed,
    /// The host cancelled, or the server did by itself.
    Cancelled,
    /// The remote task expired before its result was read. A failed action for the host.
    Expired,
    /// Whether the tool ran cannot be known. A failed action for the host.
    Unknown,
}

impl Phase {
    /// All ten, in order.
    pub const ALL: [Self; 10] = [
        Self::Intent,
        Self::Sending,
        Self::Working,
        Self::InputRequired,
        Self::Accepted,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::Unknown,
    ];

    /// The phase as it is stored and printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Sending => "sending",
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Accepted => "accepted",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the linkage never leaves this phase.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired | Self::Unknown
        )
    }

    /// What the host sees of it.
    #[must_use]
    pub const fn action_state(self) -> ActionState {
        match self {
            Self::Completed => ActionState::Completed,
            Self::Failed | Self::Expired | Self::Unknown => ActionState::Failed,
            Self::Cancelled => ActionState::Cancelled,
            _ => ActionState::Pending,
        }
    }
}

/// A text that names no phase, policy or other word of the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}")]
pub struct UnknownWord {
    /// What it should have been.
    pub what: &'static str,
    /// What it was.
    pub text: String,
}

impl FromStr for Phase {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .into_iter()
            .find(|phase| phase.as_str() == text)
            .ok_or_else(|| UnknownWord {
                what: "phase",
                text: text.to_owned(),
            })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The host's four states of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionState {
    /// No outcome yet.
    Pending,
    /// The tool succeeded.
    Completed,
    /// It did not; the error code says how.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl ActionState {
    /// The state as it is stored and printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_phases_are_read_as_they_are_written() {
        for phase in Phase::ALL {
            assert_eq!(phase.as_str().parse(), Ok(phase));
            assert_eq!(
                phase.is_final(),
                phase.action_state() != ActionState::Pending
            );
        }
        assert!("queued".parse::<Phase>().is_err());
    }
}

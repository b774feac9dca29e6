//! What to do when the answer to a start is lost.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::phase::UnknownWord;

/// What to do when the answer to a start is lost.
///
/// No MCP version has an idempotency key, so a lost answer leaves open whether the tool runs.
/// The operator knows the tool and chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartPolicy {
    /// Never send twice: the action fails with `START_OUTCOME_UNKNOWN`.
    #[default]
    AtMostOnce,
    /// Send again with the same key in `_meta`. Only for servers that promise to honour it.
    ServerDedup,
    /// Send again. The tool may run twice.
    IdempotentTool,
}

impl StartPolicy {
    /// All three.
    pub const ALL: [Self; 3] = [Self::AtMostOnce, Self::ServerDedup, Self::IdempotentTool];

    /// The policy as it is stored and given on a command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AtMostOnce => "at_most_once",
            Self::ServerDedup => "server_dedup",
            Self::IdempotentTool => "idempotent_tool",
        }
    }
}

impl FromStr for StartPolicy {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or_else(|| UnknownWord {
                what: "start policy",
                text: text.to_owned(),
            })
    }
}

impl fmt::Display for StartPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// Why a task failed, written for the planner that has to decide what next (section 4.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskFailure {
    /// A code for machines: `DOOR_CLOSED`, `OBJECT_NOT_FOUND`, `TIMEOUT`, `INTERNAL`.
    pub error_code: String,
    /// One or two sentences for a language model.
    pub message: String,
    /// False: there is no point in planning around this.
    #[serde(default = "recoverable")]
    pub recoverable: bool,
    /// What to do next, e.g. `ask_reception` or `retry_after_s:300`.
    #[serde(default)]
    pub suggestions: Vec<String>,
}

const fn recoverable() -> bool {
    true
}

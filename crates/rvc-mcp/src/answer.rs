//! What a tool answers.

use std::error::Error;

use rmcp::model::{CallToolResult, ContentBlock};
use rvc_tasks::TaskInfo;
use serde::Serialize;

use crate::task_server::note_started;

/// The answer of a tool that has started a task: its `TaskInfo` as one text block of JSON.
///
/// Contract decision 26. Behind a [`TaskServer`](crate::TaskServer), a client that declares the
/// official Tasks extension gets a handle on the task instead.
#[must_use]
#[expect(
    clippy::needless_pass_by_value,
    reason = "it is what `TaskManager::start` returns, and the last use of it"
)]
pub fn started(info: TaskInfo) -> CallToolResult {
    let answer = json_text(&info);
    note_started(&info, &answer);
    answer
}

/// The answer of a tool that refuses what it was asked: `isError: true`, and a text for a model.
///
/// For a trigger with wrong fields (contract decisions 6 and 23), and for any other reason for
/// which a task was not started. The text is the error's and that of its sources.
///
/// # Examples
///
/// ```
/// use rvc_mcp::refused;
///
/// let error = std::io::Error::other("the map is not loaded");
/// assert_eq!(refused(&error).is_error, Some(true));
/// ```
#[must_use]
pub fn refused(error: &(dyn Error + 'static)) -> CallToolResult {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// One text block of JSON.
pub(crate) fn json_text(value: &impl Serialize) -> CallToolResult {
    let text = serde_json::to_string(value).expect("its keys are strings");
    CallToolResult::success(vec![ContentBlock::text(text)])
}

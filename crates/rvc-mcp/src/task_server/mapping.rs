//! A task of the contract as a task of the extension. Contract decision 28.
//!
//! | contract | extension |
//! |---|---|
//! | `running` | `working`, or `input_required` while a question waits |
//! | `running`, `cancel_requested` | `working`, and the `statusMessage` says so |
//! | `succeeded` | `completed` with the result |
//! | `failed` | `completed` with `isError: true` and the failure |
//! | `failed` by [`protocol_error`](crate::protocol_error) | `failed` with the JSON-RPC error |
//! | `cancelled` | `cancelled`, and the `statusMessage` says if the body did not stop |

use std::time::Duration;

use rmcp::model::{
    CallToolResult, DetailedTask, InputRequest, InputRequests, JsonObject, Task, TaskPayload,
};
use rvc_tasks::{OpenQuestion, TaskFailure, TaskInfo, TaskState};
use serde::Serialize;
use serde_json::Value;

use super::status_message::status_message;
use crate::protocol_error::as_protocol_error;

/// What the extension adds to a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handed<'a> {
    pub(super) task_id: &'a str,
    /// From the creation; none is unlimited.
    pub(super) ttl: Option<Duration>,
    pub(super) poll_interval: Duration,
}

/// The task as `tasks/get` answers it; `stopped` is whether its body has stopped.
pub(super) fn detailed_task(
    handed: &Handed<'_>,
    info: &TaskInfo,
    questions: Vec<OpenQuestion>,
    stopped: bool,
) -> DetailedTask {
    let payload = match info.state {
        TaskState::Running => open_payload(questions),
        TaskState::Succeeded => TaskPayload::Completed {
            result: object(&succeeded(info)),
        },
        TaskState::Failed => failed_payload(info.failure.as_ref()),
        TaskState::Cancelled => TaskPayload::Cancelled,
    };
    let mut task = Task::new(
        handed.task_id,
        payload.status(),
        info.created_at.to_string(),
        info.updated_at.to_string(),
    );
    task.status_message = status_message(info, stopped);
    task.ttl_ms = handed.ttl.map(millis);
    task.poll_interval_ms = Some(millis(handed.poll_interval));
    DetailedTask::new(task, payload)
}

fn open_payload(questions: Vec<OpenQuestion>) -> TaskPayload {
    let input_requests: InputRequests = questions
        .into_iter()
        .filter_map(|question| {
            let request = Value::Object(question.request);
            // What is no request of the protocol was not made for this surface.
            let request: InputRequest = serde_json::from_value(request).ok()?;
            Some((question.key, request))
        })
        .collect();
    if input_requests.is_empty() {
        TaskPayload::Working
    } else {
        TaskPayload::InputRequired { input_requests }
    }
}

fn succeeded(info: &TaskInfo) -> CallToolResult {
    let result = info.result.clone().unwrap_or_default();
    CallToolResult::structured(Value::Object(result))
}

fn failed_payload(failure: Option<&TaskFailure>) -> TaskPayload {
    if let Some(error) = failure.and_then(as_protocol_error) {
        return TaskPayload::Failed {
            error: object(&error),
        };
    }
    let failure = failure.map_or(Value::Null, |failure| Value::Object(object(failure)));
    TaskPayload::Completed {
        result: object(&CallToolResult::structured_error(failure)),
    }
}

fn object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => unreachable!("it is written as an object"),
    }
}

/// Rounded up, so that nothing ends before the time that was announced.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

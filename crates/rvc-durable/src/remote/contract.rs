//! Tasks of the Async Task Contract, over ordinary tool calls.

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rvc_wire::{Map, TaskInfo, TaskState, Timestamp};
use serde_json::Value;

use super::Connection;
use super::call::{Bounds, raw};
use super::failure::CallFailure;
use super::mcp::{INVALID_PARAMS, excerpt, poll_failed, unavailable};
use crate::envelope::ToolResultEnvelope;
use crate::error_code::ErrorCode;
use crate::linkage::{RemoteKind, RemoteTask};
use crate::plan::{CancelAnswer, PollAnswer, RemoteState, StartAnswer};

/// The contract's own tools, which answer about tasks and start none.
const THREE: [&str; 3] = ["get_task", "cancel_task", "list_tasks"];

/// What a tool's result means if it is a contract task; `None` when it is an ordinary result.
pub(super) fn start(tool: &str, result: &ToolResultEnvelope) -> Option<StartAnswer> {
    if THREE.contains(&tool) || result.is_error {
        return None;
    }
    let object = json_text(result)?;
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    if text("tool")? != tool {
        return None;
    }
    match serde_json::from_value::<TaskInfo>(Value::Object(object.clone())) {
        Ok(info) => Some(StartAnswer::Task(remote(&info))),
        // Everything that names a task is there, and yet it cannot be read.
        Err(error) if text("server").is_some() && text("state").is_some() => {
            let id = text("task_id").filter(|id| !id.is_empty())?.to_owned();
            Some(StartAnswer::BrokenHandle {
                task: RemoteTask {
                    kind: RemoteKind::Contract,
                    id,
                    // Compared with what later answers say, so only what can be read.
                    created_at: text("created_at").and_then(created_at).unwrap_or_default(),
                    status: "unknown".to_owned(),
                    ended: false,
                    progress: None,
                    ttl: None,
                    poll_interval: None,
                },
                reason: error.to_string(),
            })
        }
        Err(_) => None,
    }
}

/// Asks `get_task`.
pub(super) async fn poll(connection: &Connection, tool: &str, known: &RemoteTask) -> PollAnswer {
    let object = match ask(connection, "get_task", &known.id).await {
        Ok(object) => object,
        Err(answer) => return answer,
    };
    if is_not_found(&object) {
        return PollAnswer::Restarted {
            message: "the server does not know the task any more: it restarted, or it is so busy \
                      that it evicted the finished task"
                .to_owned(),
        };
    }
    let info = match serde_json::from_value::<TaskInfo>(Value::Object(object.clone())) {
        Ok(info) => info,
        Err(error) => {
            let excerpt = excerpt(&Value::Object(object));
            return PollAnswer::Malformed {
                reason: format!("no TaskInfo ({error}): {excerpt}"),
            };
        }
    };
    if info.task_id.as_str() != known.id {
        return PollAnswer::Malformed {
            reason: "the server answered about another task".to_owned(),
        };
    }
    if info.tool.as_str() != tool
        || (!known.created_at.is_empty() && info.created_at.to_string() != known.created_at)
    {
        return PollAnswer::Restarted {
            message: "the server restarted and uses the task's id for another task".to_owned(),
        };
    }
    let task = remote(&info);
    let state = match info.state {
        TaskState::Running => RemoteState::Working,
        TaskState::Cancelled => RemoteState::Cancelled,
        TaskState::Succeeded => {
            let Some(result) = info.result else {
                return PollAnswer::Malformed {
                    reason: "the task succeeded without a result".to_owned(),
                };
            };
            if connection.is_too_large(&Value::Object(result.clone())) {
                return PollAnswer::TooLarge { task: Some(task) };
            }
            RemoteState::Completed(ToolResultEnvelope::from_object(result))
        }
        TaskState::Failed => match info.failure {
            Some(failure) => RemoteState::Failed {
                code: ErrorCode::remote(failure.error_code),
                message: failure.message,
            },
            None => {
                return PollAnswer::Malformed {
                    reason: "the task failed without saying how".to_owned(),
                };
            }
        },
    };
    PollAnswer::State { task, state }
}

/// Asks `cancel_task`, unless the id is another task's by now: ids repeat after a restart, and
/// somebody else's task must not be cancelled.
///
/// What cannot be read forbids nothing. An answer that is no `TaskInfo` is compared as far as it
/// goes, and where nothing in it can be compared, the wish goes out blind: work that goes on
/// unwatched on a server whose answers are broken is the greater danger.
pub(super) async fn cancel(
    connection: &Connection,
    tool: &str,
    known: &RemoteTask,
) -> CancelAnswer {
    match ask(connection, "get_task", &known.id).await {
        Ok(object) => {
            if let Some(answer) = forbidden(tool, known, &object) {
                return answer;
            }
        }
        Err(PollAnswer::Unavailable {
            reason,
            retry_after,
        }) => {
            return CancelAnswer::Unavailable {
                reason,
                retry_after,
            };
        }
        Err(_) => {}
    }
    match ask(connection, "cancel_task", &known.id).await {
        Ok(object) if is_not_found(&object) => lost(),
        Ok(object) => ended(&object).unwrap_or(CancelAnswer::Acknowledged),
        Err(PollAnswer::Unavailable {
            reason,
            retry_after,
        }) => CancelAnswer::Unavailable {
            reason,
            retry_after,
        },
        Err(PollAnswer::Malformed { reason }) => CancelAnswer::Unavailable {
            reason,
            retry_after: None,
        },
        // An answer all the same.
        Err(_) => CancelAnswer::Acknowledged,
    }
}

/// Why a task is not to be cancelled, by what `get_task` said of its id.
fn forbidden(tool: &str, known: &RemoteTask, said: &Map) -> Option<CancelAnswer> {
    let text = |key: &str| said.get(key).and_then(Value::as_str);
    let differs = |said: Option<&str>, known: &str| said.is_some_and(|said| said != known);
    if is_not_found(said) {
        return Some(lost());
    }
    if differs(text("task_id"), &known.id) {
        // It may take one for the other when it cancels, too.
        return Some(CancelAnswer::Unavailable {
            reason: "the server answered about another task".to_owned(),
            retry_after: None,
        });
    }
    let created_at = text("created_at").and_then(created_at);
    if differs(text("tool"), tool)
        || (!known.created_at.is_empty() && differs(created_at.as_deref(), &known.created_at))
    {
        return Some(lost());
    }
    ended(said)
}

/// The end of a task, if an answer names one.
fn ended(said: &Map) -> Option<CancelAnswer> {
    let state = said.get("state").and_then(Value::as_str)?;
    let is_over = state.parse().is_ok_and(TaskState::is_terminal);
    is_over.then(|| CancelAnswer::Ended {
        status: state.to_owned(),
    })
}

/// The id is forgotten, or another task's.
fn lost() -> CancelAnswer {
    CancelAnswer::Gone {
        message: "the server does not know the task any more".to_owned(),
    }
}

/// Calls one of the three tools about a task and reads the JSON object that it returns.
async fn ask(connection: &Connection, tool: &'static str, task: &str) -> Result<Map, PollAnswer> {
    let mut arguments = Map::new();
    arguments.insert("task_id".to_owned(), Value::String(task.to_owned()));
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let bounds = Bounds::within(connection.settings.request_timeout);
    let answer = match connection.call(request, bounds).await {
        Ok(answer) => raw(&answer),
        // For an ordinary tool "invalid params" says nothing about the task.
        Err(CallFailure::Rpc(error)) if error.code.0 == INVALID_PARAMS => {
            return Err(PollAnswer::Malformed {
                reason: unavailable(CallFailure::Rpc(error)).reason,
            });
        }
        Err(failure) => return Err(poll_failed(failure)),
    };
    let envelope = answer.as_object().and_then(ToolResultEnvelope::from_result);
    envelope
        .filter(|envelope| !envelope.is_error)
        .as_ref()
        .and_then(json_text)
        .ok_or_else(|| PollAnswer::Malformed {
            reason: format!("{tool} did not answer with JSON: {}", excerpt(&answer)),
        })
}

/// A creation time as it is compared, if it can be read.
fn created_at(text: &str) -> Option<String> {
    Some(text.parse::<Timestamp>().ok()?.to_string())
}

fn is_not_found(object: &Map) -> bool {
    object.get("error").and_then(Value::as_str) == Some("not_found")
}

/// The JSON object in a result's one text block.
fn json_text(result: &ToolResultEnvelope) -> Option<Map> {
    let [block] = result.content.as_slice() else {
        return None;
    };
    serde_json::from_str(block.get("text")?.as_str()?).ok()
}

fn remote(info: &TaskInfo) -> RemoteTask {
    RemoteTask {
        kind: RemoteKind::Contract,
        id: info.task_id.as_str().to_owned(),
        created_at: info.created_at.to_string(),
        status: info.state.as_str().to_owned(),
        ended: info.state.is_terminal(),
        progress: info
            .progress
            .as_ref()
            .map(|progress| Value::Object(progress.clone()).to_string()),
        ttl: None,
        poll_interval: None,
    }
}

use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelTaskParams, CancelTaskRequest, ClientRequest,
    ErrorData, GetTaskParams, GetTaskRequest, InputResponses, RequestMetaObject, ServerResult,
    Task, TaskPayload, TaskStatus, UpdateTaskParams, UpdateTaskRequest,
};
use rvc_wire::Map;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::call::{Bounds, raw};
use super::failure::{CallFailure, denied};
use super::remotes::unreachable;
use super::{Connection, Unreachable, contract};
use crate::envelope::ToolResultEnvelope;
use crate::error_code::ErrorCode;
use crate::linkage::{RemoteKind, RemoteTask};
use crate::log::CUT;
use crate::plan::{CancelAnswer, PollAnswer, RemoteState, StartAnswer, UpdateAnswer};

/// One start.
#[derive(Clone, Debug, PartialEq)]
pub struct StartCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map,
    /// Sent along where the server promises to honour it.
    pub idempotency_key: Option<String>,
    /// Whether another start of the action may follow this one.
    pub may_repeat: bool,
    /// How long the host waits at most, however much progress there is.
    pub at_most: Option<Duration>,
}

/// The key of a start in `_meta`, for servers that promise to honour it.
const IDEMPOTENCY_KEY: &str = "io.rvc/idempotency-key";

/// JSON-RPC's "invalid params", with which a server says that it does not know a task.
pub(super) const INVALID_PARAMS: i32 = -32602;

/// Errors after which asking again brings nothing else: no such method, no such request, a
/// capability that is missing.
const HOPELESS: [i32; 3] = [-32601, -32600, -32021];

impl Connection {
    /// Sends a start, once. `abandon` ends the wait for its answer.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a dropped start may have been carried out.
    pub async fn start(&self, start: StartCall, abandon: CancellationToken) -> StartAnswer {
        let mut params = CallToolRequestParams::new(start.tool.clone());
        if !start.arguments.is_empty() {
            params = params.with_arguments(start.arguments);
        }
        let longest = start.at_most.unwrap_or(self.settings.max_start_time);
        let bounds = Bounds {
            idle: self.settings.start_timeout.min(longest),
            total: longest.min(self.settings.max_start_time),
            meta: start.idempotency_key.map(|key| {
                let mut meta = RequestMetaObject::default();
                meta.insert(IDEMPOTENCY_KEY.to_owned(), Value::String(key));
                meta
            }),
            abandon,
        };
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match self.call(request, bounds).await {
            Ok(answer) => self.read_start(&start.tool, answer),
            Err(CallFailure::Rpc(error)) => StartAnswer::Refused {
                code: error.code.0.into(),
                message: error.message.into_owned(),
            },
            // The token may have expired on the way; a fresh connection comes with another. That
            // the server ran nothing is not proven by its refusal: this start counts.
            Err(CallFailure::Denied { status: 401 }) if !self.is_fresh && start.may_repeat => {
                StartAnswer::Lost {
                    reason: denied(401),
                    retry_after: None,
                }
            }
            Err(CallFailure::Denied { status }) => StartAnswer::Refused {
                code: status.into(),
                message: denied(status),
            },
            Err(CallFailure::TooLarge) => StartAnswer::TooLarge,
            Err(CallFailure::NotSent {
                reason,
                retry_after,
            }) => StartAnswer::NotSent {
                reason,
                retry_after,
            },
            Err(CallFailure::Lost {
                reason,
                retry_after,
            }) => StartAnswer::Lost {
                reason,
                retry_after,
            },
        }
    }

    fn read_start(&self, tool: &str, answer: ServerResult) -> StartAnswer {
        match answer {
            ServerResult::CreateTaskResult(created) if !created.task.task_id.is_empty() => {
                return StartAnswer::Task(remote(created.task));
            }
            ServerResult::InputRequiredResult(_) => return StartAnswer::InputRequired,
            _ => {}
        }
        let Value::Object(object) = raw(&answer) else {
            return StartAnswer::Malformed {
                reason: "the answer is no JSON object".to_owned(),
            };
        };
        if let Some(envelope) = ToolResultEnvelope::from_result(&object) {
            return match contract::start(tool, &envelope) {
                Some(answer) => answer,
                None if self.is_too_large(&Value::Object(object)) => StartAnswer::TooLarge,
                None => StartAnswer::Result(envelope),
            };
        }
        salvage(&object)
    }

    /// Asks for a task's state.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: asking changes nothing.
    pub async fn poll(&self, tool: &str, known: &RemoteTask) -> PollAnswer {
        if known.kind == RemoteKind::Contract {
            return contract::poll(self, tool, known).await;
        }
        let request = GetTaskRequest::new(GetTaskParams::new(&known.id));
        let bounds = Bounds::within(self.settings.request_timeout);
        let request = ClientRequest::GetTaskRequest(request);
        match self.call(request, bounds).await {
            Ok(ServerResult::GetTaskResult(answer)) => {
                let task = answer.task;
                if task.task.task_id != known.id {
                    return PollAnswer::Malformed {
                        reason: "the server answered about another task".to_owned(),
                    };
                }
                self.read_state(task.payload, remote(task.task))
            }
            Ok(answer) => PollAnswer::Malformed {
                reason: format!("no task state: {}", excerpt(&raw(&answer))),
            },
            Err(failure) => poll_failed(failure),
        }
    }

    fn read_state(&self, payload: TaskPayload, task: RemoteTask) -> PollAnswer {
        let state = match payload {
            TaskPayload::Working => RemoteState::Working,
            TaskPayload::Cancelled => RemoteState::Cancelled,
            TaskPayload::InputRequired { input_requests } => {
                match serde_json::to_value(input_requests) {
                    Ok(Value::Object(requests)) => RemoteState::InputRequired(requests),
                    _ => return malformed("the requests for input are no JSON object"),
                }
            }
            TaskPayload::Completed { result } => {
                if self.is_too_large(&Value::Object(result.clone())) {
                    return PollAnswer::TooLarge { task: Some(task) };
                }
                match ToolResultEnvelope::from_result(&result) {
                    Some(result) => RemoteState::Completed(result),
                    None => return malformed("the task completed without a tool result"),
                }
            }
            TaskPayload::Failed { error } => RemoteState::Failed {
                code: ErrorCode::remote(match error.get("code") {
                    Some(Value::String(code)) => code.clone(),
                    Some(code) => code.to_string(),
                    None => "UNKNOWN".to_owned(),
                }),
                message: error
                    .get("message")
                    .and_then(Value::as_str)
                    .unwrap_or("the server gave no message")
                    .to_owned(),
            },
            _ => return malformed("a task status that this program does not know"),
        };
        PollAnswer::State { task, state }
    }

    /// Asks the server to cancel a task. Repeating it is harmless.
    ///
    /// # Cancel safety
    ///
    /// A dropped wish may have been granted.
    pub async fn cancel(&self, tool: &str, known: &RemoteTask) -> CancelAnswer {
        if known.kind == RemoteKind::Contract {
            return contract::cancel(self, tool, known).await;
        }
        let request = CancelTaskRequest::new(CancelTaskParams::new(&known.id));
        let bounds = Bounds::within(self.settings.request_timeout);
        let request = ClientRequest::CancelTaskRequest(request);
        match self.call(request, bounds).await {
            // Any answer to a wish is an acknowledgement.
            Ok(_) | Err(CallFailure::TooLarge) => CancelAnswer::Acknowledged,
            Err(CallFailure::Rpc(error)) if error.code.0 == INVALID_PARAMS => CancelAnswer::Gone {
                message: error.message.into_owned(),
            },
            Err(failure) => unavailable(failure).into(),
        }
    }

    /// Sends answers to a task that waits for input.
    ///
    /// # Cancel safety
    ///
    /// A dropped answer may have arrived. The same key may be sent again.
    pub async fn update(&self, known: &RemoteTask, answers: Map) -> UpdateAnswer {
        let answers: InputResponses = answers.into_iter().collect();
        let request = UpdateTaskRequest::new(UpdateTaskParams::new(&known.id, answers));
        let bounds = Bounds::within(self.settings.request_timeout);
        let request = ClientRequest::UpdateTaskRequest(request);
        match self.call(request, bounds).await {
            Ok(_) => UpdateAnswer::Acknowledged,
            Err(CallFailure::Rpc(error)) if error.code.0 == INVALID_PARAMS => {
                UpdateAnswer::Refused {
                    reason: error.message.into_owned(),
                }
            }
            Err(failure) => unavailable(failure).into(),
        }
    }

    /// Whether a result is larger than the host takes.
    pub(super) fn is_too_large(&self, result: &Value) -> bool {
        serde_json::to_vec(result).map_or(true, |json| json.len() > self.settings.max_result_bytes)
    }
}

/// A handle of rmcp's in our terms.
fn remote(task: Task) -> RemoteTask {
    RemoteTask {
        kind: RemoteKind::Mcp,
        id: task.task_id,
        created_at: task.created_at,
        status: status(task.status).to_owned(),
        ended: task.status.is_terminal(),
        progress: task.status_message,
        ttl: task.ttl_ms.map(Duration::from_millis),
        poll_interval: task.poll_interval_ms.map(Duration::from_millis),
    }
}

fn status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Working => "working",
        TaskStatus::InputRequired => "input_required",
        TaskStatus::Completed => "completed",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
        _ => "unknown",
    }
}

/// What running work an answer names that is no handle and no result.
fn salvage(answer: &Map) -> StartAnswer {
    let reason = excerpt(&Value::Object(answer.clone()));
    match answer.get("taskId").and_then(Value::as_str) {
        Some(id) if !id.is_empty() => StartAnswer::BrokenHandle {
            task: RemoteTask {
                kind: RemoteKind::Mcp,
                id: id.to_owned(),
                created_at: answer
                    .get("createdAt")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
                status: "unknown".to_owned(),
                ended: false,
                progress: None,
                ttl: None,
                poll_interval: None,
            },
            reason,
        },
        _ => StartAnswer::Malformed { reason },
    }
}

pub(super) fn poll_failed(failure: CallFailure) -> PollAnswer {
    match failure {
        CallFailure::Rpc(ErrorData { code, message, .. }) if code.0 == INVALID_PARAMS => {
            PollAnswer::Gone {
                message: message.into_owned(),
            }
        }
        CallFailure::Rpc(ErrorData { code, message, .. }) if HOPELESS.contains(&code.0) => {
            PollAnswer::Malformed {
                reason: format!("the server answered {}: {message}", code.0),
            }
        }
        CallFailure::TooLarge => PollAnswer::TooLarge { task: None },
        failure => unavailable(failure).into(),
    }
}

/// A call without an answer that says anything of the task.
pub(super) fn unavailable(failure: CallFailure) -> Unreachable {
    match failure {
        CallFailure::Rpc(ErrorData { code, message, .. }) => {
            unreachable(format!("the server answered {}: {message}", code.0))
        }
        CallFailure::Denied { status } => unreachable(denied(status)),
        CallFailure::TooLarge => unreachable("the answer is too large".to_owned()),
        CallFailure::NotSent {
            reason,
            retry_after,
        }
        | CallFailure::Lost {
            reason,
            retry_after,
        } => Unreachable {
            reason,
            retry_after,
        },
    }
}

fn malformed(reason: &str) -> PollAnswer {
    PollAnswer::Malformed {
        reason: reason.to_owned(),
    }
}

/// The beginning of an answer, for a reader.
pub(super) fn excerpt(answer: &Value) -> String {
    let text = answer.to_string();
    match text.char_indices().nth(200) {
        None => text,
        Some((end, _)) => format!("{}{CUT}", &text[..end]),
    }
}

//! A server in this process that counts: who started what, and what was cancelled.
//!
//! Time plays no part. A task ends after a number of polls, so a supervisor that comes back late
//! finds it as it was.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, DetailedTask, GetTaskParams, GetTaskResult, ServerConfig, Task, TaskPayload,
    TaskStatus, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use rvc_mcp::Transport;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::serving::{AT, completed, question, text, unknown_task};

/// A running server. It ends when it is dropped.
pub(crate) struct Robot {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    release: watch::Sender<bool>,
    _runtime: Runtime,
}

#[derive(Default)]
struct State {
    /// By the argument `key`.
    starts: HashMap<String, u32>,
    tasks: HashMap<String, TaskRecord>,
}

struct TaskRecord {
    tool: String,
    key: String,
    polls_left: u64,
    answer: Option<Value>,
    cancels: u32,
}

impl TaskRecord {
    fn is_cancelled(&self) -> bool {
        self.cancels > 0
    }
}

impl Robot {
    pub(crate) fn start() -> Self {
        Self::over(Transport::StreamableHttp)
    }

    pub(crate) fn over(transport: Transport) -> Self {
        let (release, released) = watch::channel(false);
        let state = Arc::<Mutex<State>>::default();
        let handler = Handler {
            state: state.clone(),
            released,
        };
        let (runtime, url) = crate::serving::serve(transport, handler);
        Self {
            url,
            state,
            release,
            _runtime: runtime,
        }
    }

    /// How often a tool was started with this key.
    pub(crate) fn starts(&self, key: &str) -> u32 {
        let state = self.state.lock().unwrap();
        state.starts.get(key).copied().unwrap_or_default()
    }

    /// How often the task with this key was asked to cancel.
    pub(crate) fn cancels(&self, key: &str) -> u32 {
        let state = self.state.lock().unwrap();
        let of_key = state.tasks.values().filter(|task| task.key == key);
        of_key.map(|task| task.cancels).sum()
    }

    /// Lets the answers of `held` go.
    pub(crate) fn release(&self) {
        self.release.send_replace(true);
    }
}

#[derive(Clone)]
struct Handler {
    state: Arc<Mutex<State>>,
    released: watch::Receiver<bool>,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        crate::serving::config()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        match request.name.as_ref() {
            "get_task" => return Ok(self.contract(&arguments, false)),
            "cancel_task" => return Ok(self.contract(&arguments, true)),
            _ => {}
        }
        let tool = request.name.to_string();
        let id = self.started(&tool, &arguments);
        match tool.as_str() {
            "beep" => Ok(CallToolResult::success(vec![ContentBlock::text("beep")]).into()),
            "jam" => Ok(CallToolResult::error(vec![ContentBlock::text("jammed")]).into()),
            // Everything that a result can have.
            "report" => {
                let result = json!({
                    "content": [{"type": "text", "text": "all well"}],
                    "structuredContent": {"well": true},
                    "_meta": {"seen": AT},
                });
                let result: CallToolResult = serde_json::from_value(result).unwrap();
                Ok(result.into())
            }
            "dock" => Ok(text(&self.state.lock().unwrap().tasks[&id].info(&id))),
            _ => {
                if tool == "held" {
                    let mut released = self.released.clone();
                    let _ = released.wait_for(|released| *released).await;
                }
                Ok(CreateTaskResult::new(handle(&id)).into())
            }
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let mut state = self.state.lock().unwrap();
        let task = state
            .tasks
            .get_mut(&request.task_id)
            .ok_or_else(unknown_task)?;
        task.polls_left = task.polls_left.saturating_sub(1);
        let payload = task.payload();
        let detailed = DetailedTask::new(handle(&request.task_id), payload);
        Ok(GetTaskResult::new(detailed))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut state = self.state.lock().unwrap();
        let task = state
            .tasks
            .get_mut(&request.task_id)
            .ok_or_else(unknown_task)?;
        task.answer = serde_json::to_value(&request.input_responses).ok();
        Ok(())
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut state = self.state.lock().unwrap();
        let task = state
            .tasks
            .get_mut(&request.task_id)
            .ok_or_else(unknown_task)?;
        task.cancels += 1;
        Ok(())
    }
}

impl Handler {
    /// Counts a start and keeps its task, whatever becomes of the answer.
    fn started(&self, tool: &str, arguments: &Value) -> String {
        let mut state = self.state.lock().unwrap();
        let key = arguments["key"].as_str().unwrap_or_default().to_owned();
        *state.starts.entry(key.clone()).or_default() += 1;
        let id = format!("{tool}-{:06x}", state.tasks.len());
        let task = TaskRecord {
            tool: tool.to_owned(),
            key,
            polls_left: arguments["polls"].as_u64().unwrap_or(3),
            answer: None,
            cancels: 0,
        };
        state.tasks.insert(id.clone(), task);
        id
    }

    /// The contract's `get_task` and `cancel_task`.
    fn contract(&self, arguments: &Value, cancel: bool) -> CallToolResponse {
        let id = arguments["task_id"].as_str().unwrap_or_default();
        let mut state = self.state.lock().unwrap();
        let Some(task) = state.tasks.get_mut(id) else {
            return text(&json!({"error": "not_found"}));
        };
        if cancel {
            task.cancels += 1;
        } else {
            task.polls_left = task.polls_left.saturating_sub(1);
        }
        text(&task.info(id))
    }
}

impl TaskRecord {
    fn payload(&self) -> TaskPayload {
        let done = || completed(&format!("{} done", self.key), false);
        match (self.tool.as_str(), &self.answer) {
            _ if self.is_cancelled() => TaskPayload::Cancelled,
            ("ask", None) => question(),
            ("ask", Some(_)) => done(),
            ("drive", _) if self.polls_left == 0 => done(),
            _ => TaskPayload::Working,
        }
    }

    /// The contract's `TaskInfo`.
    fn info(&self, id: &str) -> Value {
        let (state, result) = if self.is_cancelled() {
            ("cancelled", Value::Null)
        } else if self.polls_left == 0 {
            ("succeeded", json!({"at": self.key}))
        } else {
            ("running", Value::Null)
        };
        json!({
            "task_id": id, "server": "robot", "tool": self.tool, "state": state,
            "created_at": AT, "updated_at": AT, "result": result,
            "progress": {"percent": 50},
        })
    }
}

fn handle(id: &str) -> Task {
    Task::new(id, TaskStatus::Working, AT, AT)
        .with_ttl_ms(3_600_000)
        .with_poll_interval_ms(1)
        .with_status_message("50 % of the way")
}

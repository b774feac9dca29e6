//! What a server does in one life. It stands in its history, written before the work begins and
//! before an answer goes out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, DetailedTask, ErrorCode, ErrorData, GetTaskParams, GetTaskResult,
    ServerConfig, Task, TaskStatus, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::super::history::{Journal, Seen, Work};
use super::record::{Record, Standing};
use crate::serving::{AT, text, unknown_task};

#[derive(Clone)]
pub(super) struct Robot(Arc<Shared>);

struct Shared {
    server: usize,
    life: u32,
    journal: Journal,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    tasks: HashMap<String, Record>,
    by_key: HashMap<String, String>,
}

impl ServerHandler for Robot {
    fn get_info(&self) -> ServerConfig {
        crate::serving::config()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        match request.name.as_ref() {
            "get_task" => return Ok(self.contract(&arguments, Wish::Look)),
            "cancel_task" => return Ok(self.contract(&arguments, Wish::Cancel)),
            _ => {}
        }
        let key = context.meta.get("io.rvc/idempotency-key");
        let record = self.started(&request.name, &arguments, key.and_then(Value::as_str));
        match record.tool.as_str() {
            // Plain tools answer with the result.
            "beep" | "jam" | "refuse" => {}
            "slow" => tokio::time::sleep(record.work).await,
            "dock" | "spill" => return Ok(self.info(&record.id)),
            "held" => {
                tokio::time::sleep(record.work / 2).await;
                return Ok(CreateTaskResult::new(handle(&record.id)).into());
            }
            _ => return Ok(CreateTaskResult::new(handle(&record.id)).into()),
        }
        self.write(&record, Seen::End);
        match record.status() {
            "failed" => Err(ErrorData::new(ErrorCode(-32_001), record.value, None)),
            "error" => Ok(CallToolResult::error(vec![ContentBlock::text(record.value)]).into()),
            _ => Ok(CallToolResult::success(vec![ContentBlock::text(record.value)]).into()),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let id = request.task_id;
        let (record, standing) = self.looked_up(&id).ok_or_else(unknown_task)?;
        let task = DetailedTask::new(handle(&id), record.payload(standing));
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut known = self.0.known.lock().unwrap();
        let record = known.tasks.get_mut(&request.task_id);
        record.ok_or_else(unknown_task)?.is_answered = true;
        Ok(())
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.cancelled(&request.task_id).ok_or_else(unknown_task)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Wish {
    Look,
    Cancel,
}

impl Robot {
    pub(super) fn new(server: usize, life: u32, journal: Journal) -> Self {
        Self(Arc::new(Shared {
            server,
            life,
            journal,
            known: Mutex::default(),
        }))
    }

    /// Writes a start down and keeps its record, whatever becomes of the answer. A key that is
    /// known starts nothing.
    fn started(&self, tool: &str, arguments: &Value, key: Option<&str>) -> Record {
        let mut known = self.0.known.lock().unwrap();
        if let Some(id) = key.and_then(|key| known.by_key.get(key)) {
            let record = known.tasks[id].clone();
            self.write(&record, Seen::Repeated);
            return record;
        }
        let number = known.tasks.len();
        let action = arguments["action"].as_str().unwrap().to_owned();
        let (server, life) = (self.0.server, self.0.life);
        let record = Record {
            // A contract task's id says nothing of the life, and comes again in the next one.
            id: match tool {
                "dock" | "spill" => format!("dock-{number:06x}"),
                _ => format!("{server}-{life}-{number:06x}"),
            },
            tool: tool.to_owned(),
            value: format!("<{action} {server}/{life}/{number}>"),
            action,
            begun: Instant::now(),
            work: Duration::from_millis(arguments["work_ms"].as_u64().unwrap()),
            is_answered: false,
            is_cancelled: false,
        };
        self.write(&record, Seen::Start);
        if let Some(key) = key {
            known.by_key.insert(key.to_owned(), record.id.clone());
        }
        known.tasks.insert(record.id.clone(), record.clone());
        record
    }

    /// A record and how far it has come, which may be told: an end is written down.
    fn looked_up(&self, id: &str) -> Option<(Record, Standing)> {
        let record = self.0.known.lock().unwrap().tasks.get(id).cloned()?;
        let standing = record.standing();
        if standing == Standing::Ended {
            self.write(&record, Seen::End);
        }
        Some((record, standing))
    }

    fn cancelled(&self, id: &str) -> Option<()> {
        let mut known = self.0.known.lock().unwrap();
        let record = known.tasks.get_mut(id)?;
        self.write(record, Seen::CancelReceived);
        record.is_cancelled |= record.standing() == Standing::UnderWay;
        Some(())
    }

    fn write(&self, record: &Record, seen: fn(Work) -> Seen) {
        self.0.journal.write(seen(Work {
            action: record.action.clone(),
            server: self.0.server,
            life: self.0.life,
            value: record.value.clone(),
            status: record.status().to_owned(),
        }));
    }

    /// The contract's `get_task` and `cancel_task`.
    fn contract(&self, arguments: &Value, wish: Wish) -> CallToolResponse {
        let id = arguments["task_id"].as_str().unwrap_or_default();
        if wish == Wish::Cancel {
            // One that is not known is said to be so below.
            let _ = self.cancelled(id);
        }
        self.info(id)
    }

    fn info(&self, id: &str) -> CallToolResponse {
        text(&match self.looked_up(id) {
            Some((record, standing)) => record.info(standing, self.0.life),
            None => json!({"error": "not_found"}),
        })
    }
}

fn handle(id: &str) -> Task {
    Task::new(id, TaskStatus::Working, AT, AT)
        .with_ttl_ms(24 * 3_600_000)
        .with_poll_interval_ms(200)
}

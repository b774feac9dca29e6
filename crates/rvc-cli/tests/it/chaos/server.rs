//! A server that can be killed: with its life ends all that it knew. What it did stands in its
//! history, written before the work begins and before an answer goes out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, DetailedTask, ErrorCode, ErrorData, GetTaskParams, GetTaskResult,
    ServerCapabilities, ServerConfig, Task, TaskPayload, TaskStatus, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use rvc_mcp::{ServeConfig, Transport};
use rvc_tasks::{MemorySink, TaskManager};
use rvc_test::{FaultProxy, Target};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::history::{Journal, Seen, Work};

/// A server behind its proxy.
pub(super) struct Server {
    pub(super) proxy: FaultProxy,
    index: usize,
    journal: Journal,
    life: Mutex<Life>,
}

struct Life {
    number: u32,
    runtime: Option<Runtime>,
}

impl Server {
    pub(super) fn start(index: usize, journal: Journal) -> Self {
        let (runtime, address) = live(index, 1, journal.clone());
        Self {
            proxy: FaultProxy::start(Target::Tcp(address)).unwrap(),
            index,
            journal,
            life: Mutex::new(Life {
                number: 1,
                runtime: Some(runtime),
            }),
        }
    }

    /// Where clients find it, in every life.
    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.proxy.address())
    }

    /// Ends its life: connections, calls under way and tasks are gone.
    pub(super) fn kill(&self) {
        self.proxy.refuse();
        let runtime = self.life.lock().unwrap().runtime.take();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(Duration::from_secs(10));
        }
    }

    pub(super) fn revive(&self) {
        let mut life = self.life.lock().unwrap();
        life.number += 1;
        let (runtime, address) = live(self.index, life.number, self.journal.clone());
        life.runtime = Some(runtime);
        self.proxy.retarget(Target::Tcp(address));
        self.proxy.restore();
    }
}

fn live(index: usize, number: u32, journal: Journal) -> (Runtime, std::net::SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let config = ServeConfig::default()
        .with_transport(Transport::StreamableHttp)
        .with_port(0);
    let server = runtime.block_on(rvc_mcp::Server::bind(config)).unwrap();
    let url = server.url().unwrap();
    let address = url
        .trim_start_matches("http://")
        .trim_end_matches("/mcp")
        .parse()
        .expect(&url);
    let handler = Handler(Arc::new(Shared {
        index,
        number,
        journal,
        known: Mutex::default(),
    }));
    let manager = {
        let _inside = runtime.enter();
        TaskManager::new("robot".parse().unwrap(), MemorySink::new())
    };
    runtime.spawn(async move {
        server
            .run(move || handler.clone(), manager, std::future::pending())
            .await
    });
    (runtime, address)
}

#[derive(Clone)]
struct Handler(Arc<Shared>);

struct Shared {
    index: usize,
    number: u32,
    journal: Journal,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    tasks: HashMap<String, Record>,
    by_key: HashMap<String, String>,
}

/// What became of one start.
#[derive(Clone)]
struct Record {
    id: String,
    tool: String,
    action: String,
    value: String,
    begun: Instant,
    work: Duration,
    is_answered: bool,
    is_cancelled: bool,
}

impl Record {
    fn is_done(&self) -> bool {
        match self.tool.as_str() {
            "roam" => false,
            "ask" => self.is_answered,
            _ => self.begun.elapsed() >= self.work,
        }
    }

    /// How its work ends, if nobody cancels it.
    fn status(&self) -> &'static str {
        match self.tool.as_str() {
            "jam" | "scratch" => "error",
            "fall" | "spill" | "refuse" => "failed",
            _ => "completed",
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
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
            "dock" | "spill" => return Ok(text(&self.info(&record.id))),
            "held" => {
                tokio::time::sleep(record.work / 2).await;
                return Ok(CreateTaskResult::new(handle(&record.id)).into());
            }
            _ => return Ok(CreateTaskResult::new(handle(&record.id)).into()),
        }
        self.ended(&record);
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
        let record = self.record(&id).ok_or_else(unknown)?;
        let payload = self.payload(&record);
        Ok(GetTaskResult::new(DetailedTask::new(handle(&id), payload)))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut known = self.0.known.lock().unwrap();
        let record = known.tasks.get_mut(&request.task_id);
        record.ok_or_else(unknown)?.is_answered = true;
        Ok(())
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.cancelled(&request.task_id).ok_or_else(unknown)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Wish {
    Look,
    Cancel,
}

impl Handler {
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
        let (index, life) = (self.0.index, self.0.number);
        let record = Record {
            // A contract task's id says nothing of the life, and comes again in the next one.
            id: match tool {
                "dock" | "spill" => format!("dock-{number:06x}"),
                _ => format!("{index}-{life}-{number:06x}"),
            },
            tool: tool.to_owned(),
            value: format!("<{action} {index}/{life}/{number}>"),
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

    fn record(&self, id: &str) -> Option<Record> {
        self.0.known.lock().unwrap().tasks.get(id).cloned()
    }

    fn cancelled(&self, id: &str) -> Option<()> {
        let mut known = self.0.known.lock().unwrap();
        let record = known.tasks.get_mut(id)?;
        self.write(record, Seen::CancelReceived);
        record.is_cancelled |= !record.is_done();
        Some(())
    }

    fn ended(&self, record: &Record) {
        self.write(record, Seen::End);
    }

    fn write(&self, record: &Record, seen: fn(Work) -> Seen) {
        self.0.journal.write(seen(Work {
            action: record.action.clone(),
            server: self.0.index,
            life: self.0.number,
            value: record.value.clone(),
            status: record.status().to_owned(),
        }));
    }

    fn payload(&self, record: &Record) -> TaskPayload {
        if record.is_cancelled {
            return TaskPayload::Cancelled;
        }
        if !record.is_done() {
            return match record.tool.as_str() {
                "ask" => TaskPayload::InputRequired {
                    input_requests: serde_json::from_value(json!({"confirm": {
                        "method": "elicitation/create",
                        "params": {
                            "message": "sure?",
                            "requestedSchema": {"type": "object", "properties": {}},
                        },
                    }}))
                    .unwrap(),
                },
                _ => TaskPayload::Working,
            };
        }
        self.ended(record);
        let object = |value: Value| value.as_object().unwrap().clone();
        match record.status() {
            "failed" => TaskPayload::Failed {
                error: object(json!({"code": -32_050, "message": record.value})),
            },
            status => TaskPayload::Completed {
                result: object(json!({
                    "content": [{"type": "text", "text": record.value}],
                    "isError": status == "error",
                })),
            },
        }
    }

    /// The contract's `get_task` and `cancel_task`.
    fn contract(&self, arguments: &Value, wish: Wish) -> CallToolResponse {
        let id = arguments["task_id"].as_str().unwrap_or_default();
        if self.record(id).is_none() {
            return text(&json!({"error": "not_found"}));
        }
        if wish == Wish::Cancel {
            self.cancelled(id);
        }
        text(&self.info(id))
    }

    /// The contract's `TaskInfo`.
    fn info(&self, id: &str) -> Value {
        let record = self.record(id).unwrap();
        let (mut result, mut failure) = (Value::Null, Value::Null);
        let state = if record.is_cancelled {
            "cancelled"
        } else if !record.is_done() {
            "running"
        } else if record.status() == "failed" {
            self.ended(&record);
            failure = json!({"error_code": "SPILLED", "message": record.value});
            "failed"
        } else {
            self.ended(&record);
            result = json!({"at": record.value});
            "succeeded"
        };
        let life = self.0.number;
        let created_at = format!("2026-06-12T14:{:02}:{:02}Z", life / 60 % 60, life % 60);
        json!({
            "task_id": id, "server": "robot", "tool": record.tool, "state": state,
            "created_at": created_at, "updated_at": created_at,
            "result": result, "failure": failure, "progress": {"percent": 50},
        })
    }
}

fn handle(id: &str) -> Task {
    Task::new(id, TaskStatus::Working, AT, AT)
        .with_ttl_ms(24 * 3_600_000)
        .with_poll_interval_ms(200)
}

fn text(value: &Value) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(value.to_string())]).into()
}

fn unknown() -> ErrorData {
    ErrorData::invalid_params("unknown task", None)
}

const AT: &str = "2026-06-12T14:03:00Z";

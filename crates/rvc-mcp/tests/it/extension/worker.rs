//! A server whose tool does what it is told to, and clients of both kinds.

use std::time::Duration;

use rmcp::handler::server::tool::ToolRouter;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, ClientConfig,
    ElicitResult, ElicitationAction, ElicitationSchema, GetTaskParams, Implementation, JsonObject,
    MetaObject, RequestMetaObject, RequestParamsMeta, UpdateTaskParams,
};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::{ClientHandler, ErrorData, ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use rvc_mcp::{TaskServer, ToolTasks, form, protocol_error, refused, started};
use rvc_tasks::{
    CancelMode, Clock, Map, NoSink, TaskContext, TaskError, TaskManager, TaskSpec, Timestamp,
    payload,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// Longer than anything a test waits for; the clock is paused.
pub(super) const LONG: Duration = Duration::from_secs(1_000_000);

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A wall clock that goes with tokio's, which the tests pause.
struct Tokios(Instant);

impl Clock for Tokios {
    fn now(&self) -> Timestamp {
        let since = i64::try_from(self.0.elapsed().as_millis()).unwrap();
        Timestamp::from_unix_ms(1_781_272_980_000 + since).unwrap()
    }
}

#[derive(Clone)]
pub(super) struct Worker {
    pub(super) manager: TaskManager,
    tools: ToolRouter<Self>,
}

impl Worker {
    pub(super) fn new() -> Self {
        let manager = TaskManager::builder("navigation".parse().unwrap(), NoSink)
            .clock(Tokios(Instant::now()))
            .build();
        Self::of(manager.unwrap())
    }

    pub(super) fn of(manager: TaskManager) -> Self {
        Self {
            tools: Self::tool_router() + rvc_mcp::task_tools(manager.clone()),
            manager,
        }
    }

    /// The server as a robot would have it.
    pub(super) fn server(&self) -> TaskServer<Self> {
        TaskServer::new(self.clone(), &self.manager)
            .tool("careful", ToolTasks::new().required())
            .tool("brief", ToolTasks::new().ttl(seconds(10)))
            .tool("endless", ToolTasks::new().unlimited_ttl())
    }

    fn start(&self, tool: &str, arguments: &JsonObject) -> rmcp::model::CallToolResult {
        let what = arguments
            .get("do")
            .and_then(Value::as_str)
            .unwrap_or("arrive");
        let what = what.to_owned();
        let mut spec = TaskSpec::new(tool);
        if what.starts_with("stop") {
            spec = spec.cancel_mode(CancelMode::Cooperative { grace: None });
        }
        match self
            .manager
            .start(spec, async move |task| work(&task, &what).await)
        {
            Ok(info) => started(info),
            Err(error) => refused(&error),
        }
    }
}

async fn work(task: &TaskContext, what: &str) -> Result<Map, TaskError> {
    match what {
        "arrive" => {
            for eta_s in [2, 1, 0] {
                sleep(seconds(1)).await;
                task.progress(payload! { "eta_s": eta_s })?;
            }
            Ok(payload! { "arrived": true })
        }
        "fail" => {
            let error = TaskError::new("DOOR_CLOSED", "The door to the lab is closed.");
            Err(error.suggestion("ask_reception"))
        }
        "panic" => panic!("boom"),
        "break" => Err(protocol_error(&ErrorData::internal_error("no map", None))),
        "large" => Ok(payload! { "map": "x".repeat(100_000) }),
        "rest" | "stop_never" => {
            task.cancelled().await;
            std::future::pending().await
        }
        "stop_in_order" => {
            task.cancelled().await;
            sleep(seconds(2)).await;
            Ok(Map::new())
        }
        "ask" | "stop_asking" => {
            let answer = task
                .ask("door", form("The door is closed.", ways()))
                .await?;
            Ok(payload! { "way": answer.content })
        }
        "ask_or_wait" => {
            let wait =
                ElicitResult::new(ElicitationAction::Accept).with_content(json!({"way": "wait"}));
            let question = form("The door is closed.", ways()).or(wait);
            let answer = task.ask("door", question).await?;
            Ok(payload! { "way": answer.content })
        }
        "ask_twice" => {
            let (door, lift) = tokio::try_join!(
                task.ask("door", form("The door is closed.", ways())),
                task.ask("lift", form("The lift is broken.", ways())),
            )?;
            Ok(payload! { "door": door.content, "lift": lift.content })
        }
        other => Err(TaskError::new("UNKNOWN", other)),
    }
}

pub(super) fn ways() -> ElicitationSchema {
    ElicitationSchema::builder()
        .required_string("way")
        .build_unchecked()
}

#[tool_router]
impl Worker {
    #[tool(description = "Works.")]
    async fn work(&self, arguments: JsonObject) -> rmcp::model::CallToolResult {
        self.start("work", &arguments)
    }

    #[tool(description = "Works, for clients of the extension.")]
    async fn careful(&self, arguments: JsonObject) -> rmcp::model::CallToolResult {
        self.start("careful", &arguments)
    }

    #[tool(description = "Works, and is soon forgotten.")]
    async fn brief(&self, arguments: JsonObject) -> rmcp::model::CallToolResult {
        self.start("brief", &arguments)
    }

    #[tool(description = "Works, and is never forgotten.")]
    async fn endless(&self, arguments: JsonObject) -> rmcp::model::CallToolResult {
        self.start("endless", &arguments)
    }

    #[tool(description = "Takes a while to start its work.")]
    async fn slow_to_start(&self, arguments: JsonObject) -> rmcp::model::CallToolResult {
        sleep(seconds(5)).await;
        self.start("slow_to_start", &arguments)
    }

    #[tool(description = "Starts its work from another tokio task.")]
    async fn from_elsewhere(&self, arguments: JsonObject) -> rmcp::model::CallToolResult {
        let worker = self.clone();
        let spec = TaskSpec::new("from_elsewhere");
        let what = arguments["do"].as_str().unwrap().to_owned();
        let start = tokio::spawn(async move {
            worker.manager.start(spec, async move |task| {
                sleep(seconds(1)).await;
                work(&task, &what).await
            })
        });
        started(start.await.unwrap().unwrap())
    }

    #[tool(description = "Works, and answers in its own words.")]
    async fn chatty(&self, arguments: JsonObject) -> String {
        self.start("chatty", &arguments);
        "I am on my way.".to_owned()
    }

    #[tool(description = "Works, and says that it does not.")]
    async fn fickle(&self, arguments: JsonObject) -> rmcp::model::CallToolResult {
        let mut answer = self.start("fickle", &arguments);
        answer.is_error = Some(true);
        answer
    }

    #[tool(description = "Says hello.")]
    async fn greet(&self) -> String {
        "Hello.".to_owned()
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Worker {}

/// A client that declares what it is told to.
#[derive(Clone)]
pub(super) struct Declares(ClientCapabilities);

impl ClientHandler for Declares {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(self.0.clone(), Implementation::new("test", "0"))
    }
}

/// One that knows the contract only.
pub(super) fn plain() -> Declares {
    Declares(ClientCapabilities::default())
}

/// One of the extension that can show forms.
pub(super) fn declaring() -> Declares {
    Declares(
        ClientCapabilities::builder()
            .enable_elicitation()
            .enable_tasks()
            .build(),
    )
}

/// One of the extension that cannot show forms.
pub(super) fn silent() -> Declares {
    Declares(ClientCapabilities::builder().enable_tasks().build())
}

pub(super) struct Client(pub(super) RunningService<RoleClient, Declares>);

pub(super) async fn connect<H: ServerHandler>(server: H, client: Declares) -> Client {
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    tokio::spawn(async move {
        let running = server.serve(theirs).await.unwrap();
        running.waiting().await.unwrap();
    });
    Client(client.serve(ours).await.unwrap())
}

pub(super) fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    match arguments {
        Value::Object(arguments) => CallToolRequestParams::new(tool).with_arguments(arguments),
        _ => CallToolRequestParams::new(tool),
    }
}

/// The same call under a key.
pub(super) fn keyed(mut call: CallToolRequestParams, key: &Value) -> CallToolRequestParams {
    let meta = MetaObject(payload! { "io.rvc/idempotency-key": key });
    call.set_meta(RequestMetaObject(meta));
    call
}

impl Client {
    pub(super) async fn call(
        &self,
        call: CallToolRequestParams,
    ) -> Result<CallToolResponse, ServiceError> {
        self.0.call_tool_once(call).await
    }

    /// Starts work; its handle.
    pub(super) async fn start(&self, tool: &'static str, what: &str) -> rmcp::model::Task {
        match self.call(call(tool, json!({"do": what}))).await.unwrap() {
            CallToolResponse::Task(created) => created.task,
            other => panic!("{other:?} is no handle"),
        }
    }

    /// Calls a tool of the contract; its answer as JSON.
    pub(super) async fn contract(&self, tool: &'static str, arguments: Value) -> Value {
        match self.call(call(tool, arguments)).await.unwrap() {
            CallToolResponse::Complete(answer) => {
                assert_ne!(answer.is_error, Some(true), "{answer:?}");
                serde_json::from_str(&answer.content[0].as_text().unwrap().text).unwrap()
            }
            other => panic!("{other:?} is no answer of the contract"),
        }
    }

    /// The task on the wire.
    pub(super) async fn get(&self, id: &str) -> Result<Value, ServiceError> {
        let task = self.0.get_task(GetTaskParams::new(id)).await?;
        Ok(serde_json::to_value(&task).unwrap())
    }

    /// Polls until the task's end.
    pub(super) async fn end(&self, id: &str) -> Value {
        loop {
            let task = self.get(id).await.unwrap();
            match task["status"].as_str().unwrap() {
                "working" | "input_required" => {
                    let pause = task["pollIntervalMs"].as_u64().unwrap();
                    sleep(Duration::from_millis(pause)).await;
                }
                _ => return task,
            }
        }
    }

    /// Lets the body come to where it waits, and looks.
    pub(super) async fn settled(&self, id: &str) -> Value {
        sleep(Duration::from_millis(1)).await;
        self.get(id).await.unwrap()
    }

    pub(super) async fn update(&self, id: &str, answers: Value) -> Result<(), ServiceError> {
        let answers = serde_json::from_value(answers).unwrap();
        self.0.update_task(UpdateTaskParams::new(id, answers)).await
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<(), ServiceError> {
        self.0.cancel_task(CancelTaskParams::new(id)).await
    }
}

/// The code and the message of an error of the protocol.
pub(super) fn error_of<T: std::fmt::Debug>(answer: Result<T, ServiceError>) -> (i32, String) {
    match answer.unwrap_err() {
        ServiceError::McpError(error) => (error.code.0, error.message.into_owned()),
        other => panic!("{other} is no error of the protocol"),
    }
}

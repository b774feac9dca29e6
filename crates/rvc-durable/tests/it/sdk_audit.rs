//! The six flags of the plan's migration gate, each pinned against rmcp. `SDK-AUDIT.md` is the
//! page; a test that fails here after an upgrade of rmcp says which line of it is no longer true.

use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    ClientCapabilities, ClientConfig, ClientRequest, ContentBlock, CreateTaskResult, CustomResult,
    DetailedTask, GetTaskParams, GetTaskResult, Implementation, InputResponses, ProtocolVersion,
    ServerCapabilities, ServerConfig, ServerResult, Task, TaskPayload, TaskStatus,
    UpdateTaskParams,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RunningService, ServiceError};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, RoleServer,
    ServerHandler, ServiceExt,
};
use rvc_durable::remote::HttpDialer;
use rvc_durable::store::AnswerOutcome;
use rvc_durable::{InputHandling, TransportKind};
use serde_json::{Value, json};

use crate::http_peer::{Http, HttpPeer};
use crate::live::{PATIENCE, durable_over};
use crate::world::{id, submission};

/// A server on rmcp's own task manager; the tool's name is the end its task comes to.
#[derive(Clone, Default)]
pub(crate) struct Server {
    tasks: TaskManager,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder()
                .enable_tools()
                .enable_tasks()
                .build(),
        )
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "plain" {
            return Ok(CallToolResult::success(vec![ContentBlock::text("now")]).into());
        }
        let tool = request.name.to_string();
        let options = TaskOptions::new()
            .with_ttl_ms(60_000)
            .with_poll_interval_ms(250);
        let task = self.tasks.spawn(options, move |context| {
            Box::pin(async move {
                match tool.as_str() {
                    "fails" => Err(ErrorData::internal_error("it broke", None).into()),
                    "is_error" => Ok(CallToolResult::error(vec![ContentBlock::text("no")])),
                    "until_cancelled" => {
                        context.cancelled().await;
                        Err(TaskExit::Cancelled)
                    }
                    _ => Ok(CallToolResult::success(vec![ContentBlock::text("done")])),
                }
            })
        });
        Ok(CreateTaskResult::new(task).into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks
            .get_task(&request.task_id)
            .map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks
            .update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::builder().enable_tasks().build(),
            Implementation::from_build_env(),
        )
    }
}

async fn connect() -> RunningService<RoleClient, Client> {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        if let Ok(service) = Server::default().serve(theirs).await {
            let _ = service.waiting().await;
        }
    });
    let auto = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    Client.serve_with_lifecycle(ours, auto).await.unwrap()
}

async fn start(client: &RunningService<RoleClient, Client>, tool: &'static str) -> Task {
    match client
        .call_tool_once(CallToolRequestParams::new(tool))
        .await
        .unwrap()
    {
        CallToolResponse::Task(created) => created.task,
        other => panic!("no task handle: {other:?}"),
    }
}

async fn ended(client: &RunningService<RoleClient, Client>, id: &str) -> DetailedTask {
    loop {
        let task = client.get_task(GetTaskParams::new(id)).await.unwrap().task;
        if task.status().is_terminal() {
            return task;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sdk_tasks_extension_pass_a_declared_client_gets_a_handle_and_a_plain_result_stays_plain() {
    let client = connect().await;
    assert!(
        client
            .peer_info()
            .is_some_and(|info| info.capabilities.supports_tasks())
    );

    let task = start(&client, "succeeds").await;

    assert_eq!(task.status, TaskStatus::Working);
    let plain = client
        .call_tool_once(CallToolRequestParams::new("plain"))
        .await
        .unwrap();
    assert!(matches!(plain, CallToolResponse::Complete(_)));
}

#[tokio::test]
async fn task_id_contract_known_the_handle_resolves_at_once_and_an_unknown_id_is_minus_32602() {
    let client = connect().await;
    let task = start(&client, "until_cancelled").await;

    let found = client.get_task(GetTaskParams::new(&task.task_id)).await;
    let unknown = client.get_task(GetTaskParams::new("never-issued")).await;

    assert_eq!(found.unwrap().task.task.task_id, task.task_id);
    let Err(ServiceError::McpError(error)) = unknown else {
        panic!("an unknown id was found: {unknown:?}");
    };
    assert_eq!(error.code.0, -32602);
}

#[tokio::test]
async fn task_id_contract_known_get_task_does_not_check_the_echoed_id() {
    // What the server says is what the caller gets: the check is ours.
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    tokio::spawn(crate::sdk_audit::raw::answering(theirs, |_| {
        let task = Task::new("another", TaskStatus::Working, "t0", "t0");
        serde_json::to_value(GetTaskResult::new(DetailedTask::new(
            task,
            TaskPayload::Working,
        )))
        .unwrap()
    }));
    let client = Client.serve(ours).await.unwrap();

    let answer = client.get_task(GetTaskParams::new("asked")).await.unwrap();

    assert_eq!(answer.task.task.task_id, "another");
}

#[test]
fn task_status_enum_known_five_states_and_a_sixth_does_not_parse() {
    let words = [
        "working",
        "input_required",
        "completed",
        "failed",
        "cancelled",
    ];
    let terminal: Vec<bool> = words
        .iter()
        .map(|word| {
            serde_json::from_value::<TaskStatus>(json!(word))
                .unwrap()
                .is_terminal()
        })
        .collect();

    assert_eq!(terminal, [false, false, true, true, true]);
    assert!(serde_json::from_value::<TaskStatus>(json!("submitted")).is_err());
}

#[tokio::test]
async fn result_retrieval_contract_known_the_result_is_inlined_in_completed_is_error_included() {
    let client = connect().await;
    for (tool, is_error) in [("succeeds", false), ("is_error", true)] {
        let task = start(&client, tool).await;

        let TaskPayload::Completed { result } = ended(&client, &task.task_id).await.payload else {
            panic!("{tool} did not complete");
        };

        let result: CallToolResult = serde_json::from_value(result.into()).unwrap();
        assert_eq!(result.is_error.unwrap_or(false), is_error, "{tool}");
    }
    let task = start(&client, "fails").await;
    let TaskPayload::Failed { error } = ended(&client, &task.task_id).await.payload else {
        panic!("a protocol error did not fail the task");
    };
    assert_eq!(error["code"], -32603);
}

#[test]
fn result_retrieval_contract_known_completed_without_a_result_does_not_parse() {
    let answer = json!({
        "resultType": "complete", "taskId": "t", "status": "completed",
        "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": null
    });

    let parsed: ServerResult = serde_json::from_value(answer).unwrap();

    assert!(!matches!(parsed, ServerResult::GetTaskResult(_)));
}

#[tokio::test]
async fn cancel_contract_known_an_acknowledged_wish_that_may_be_repeated() {
    let client = connect().await;
    let task = start(&client, "until_cancelled").await;

    for _ in 0..2 {
        client
            .cancel_task(CancelTaskParams::new(&task.task_id))
            .await
            .unwrap();
    }

    let end = ended(&client, &task.task_id).await;
    assert_eq!(end.status(), TaskStatus::Cancelled);
    let late = CancelTaskParams::new(&task.task_id);
    client.cancel_task(late).await.unwrap();
    let answers = UpdateTaskParams::new(&task.task_id, InputResponses::new());
    client.update_task(answers).await.unwrap();
}

#[tokio::test]
async fn ttl_contract_known_milliseconds_from_creation_with_null_for_unlimited() {
    let client = connect().await;

    let task = start(&client, "until_cancelled").await;

    assert_eq!(task.ttl_ms, Some(60_000));
    assert_eq!(task.poll_interval_ms, Some(250));
    let unlimited = json!({
        "taskId": "t", "status": "working", "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": null
    });
    let unlimited: Task = serde_json::from_value(unlimited).unwrap();
    assert_eq!(unlimited.ttl_ms, None);
}

#[tokio::test]
async fn ttl_contract_known_a_handle_that_does_not_parse_still_shows_its_id() {
    // `call_tool_once` throws the answer away; the untyped request keeps it.
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    tokio::spawn(crate::sdk_audit::raw::answering(theirs, |_| {
        json!({
            "resultType": "task", "taskId": "t-1", "status": "working",
            "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": -5
        })
    }));
    let client = Client.serve(ours).await.unwrap();

    let call = CallToolRequest::new(CallToolRequestParams::new("any"));
    let answer = client
        .send_request_with_option(
            ClientRequest::CallToolRequest(call),
            PeerRequestOptions::no_options(),
        )
        .await
        .unwrap()
        .await_response()
        .await
        .unwrap();

    let ServerResult::CustomResult(CustomResult(raw, ..)) = answer else {
        panic!("rmcp typed it: {answer:?}");
    };
    assert_eq!(raw["taskId"], "t-1");
}

#[tokio::test]
async fn request_headers_known_each_call_names_its_method_and_its_tool_or_task() {
    let state = |status: &str, with: Value| {
        let mut state = json!({"resultType": "complete", "taskId": "t-1", "status": status,
            "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": null});
        state
            .as_object_mut()
            .unwrap()
            .extend(with.as_object().cloned().unwrap());
        Http::Json(state)
    };
    let ask = json!({"inputRequests": {"k": {"method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}}});
    let peer = HttpPeer::new(move |method, _, nth| match (method, nth) {
        ("tools/call", _) => state("working", json!({"resultType": "task"})),
        ("tasks/get", 1) => state("input_required", ask.clone()),
        ("tasks/get", _) => state("working", json!({})),
        _ => Http::Json(json!({"resultType": "complete"})),
    })
    .await;
    let dialer = HttpDialer::new().unwrap();
    let durable = durable_over(TransportKind::StreamableHttp, &peer.url, dialer, PATIENCE).await;
    let submission = submission("a").input(InputHandling::Surface);
    durable.submit(submission).await.unwrap();
    let answers = json!({"k": {"action": "accept", "content": {}}});
    let answers = answers.as_object().cloned().unwrap();
    while durable
        .answer_input(&id("a"), answers.clone())
        .await
        .unwrap()
        != AnswerOutcome::Stored
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let posted = async |method: &str| {
        while peer.count(method) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    posted("tasks/update").await;
    durable.cancel_action(&id("a")).await.unwrap();
    posted("tasks/cancel").await;
    durable.close().await;

    for (method, name) in [
        ("tools/call", "navigate_to"),
        ("tasks/get", "t-1"),
        ("tasks/update", "t-1"),
        ("tasks/cancel", "t-1"),
    ] {
        let (methods, names) = (
            peer.header(method, "mcp-method"),
            peer.header(method, "mcp-name"),
        );
        assert!(methods.iter().all(|it| it == method), "{methods:?}");
        assert!(names.iter().all(|it| it == name), "{method}: {names:?}");
        assert!(!names.is_empty(), "{method}");
    }
}

/// A legacy server that knows the handshake and one answer.
mod raw {
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

    pub(super) async fn answering(stream: DuplexStream, answer: fn(&Value) -> Value) {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let request: Value = serde_json::from_str(&line).unwrap();
            let Some(id) = request.get("id") else {
                continue;
            };
            let result = if request["method"] == "initialize" {
                json!({
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "raw", "version": "0"}
                })
            } else {
                answer(&request)
            };
            let reply = json!({"jsonrpc": "2.0", "id": id, "result": result});
            if write
                .write_all(format!("{reply}\n").as_bytes())
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

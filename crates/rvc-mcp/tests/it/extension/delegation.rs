//! The wrapper answers as the handler in it does.
#![expect(
    deprecated,
    reason = "what clients of older versions call is delegated too"
)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
    ClientCapabilities, ClientNotification, ClientRequest, CompleteRequestParams, CompleteResult,
    CustomNotification, CustomRequest, CustomResult, ErrorCode, GetMeta, GetPromptRequestParams,
    GetPromptResponse, GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListSkillsResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ProtocolVersion, ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult,
    ReadResourceRequestParams, ReadResourceResponse, RequestMetaObject, ServerCapabilities,
    ServerConfig, ServerResult, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
    Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, ServiceError, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use rvc_mcp::TaskServer;
use rvc_tasks::{NoSink, TaskManager};
use serde::Serialize;
use serde_json::{Value, json};

use super::worker::{Client, connect, declaring};

/// Answers each request with an error that names its method and repeats what was asked; notes
/// the notifications.
#[derive(Clone, Default)]
struct Probe {
    notified: Arc<Mutex<Vec<String>>>,
    /// It has tasks of its own.
    has_tasks: bool,
}

fn probed<T>(method: &str, asked: impl Serialize) -> Result<T, ErrorData> {
    let asked = serde_json::to_value(asked).unwrap();
    Err(ErrorData::new(
        ErrorCode(-1),
        method.to_owned(),
        Some(asked),
    ))
}

type Context = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;

impl ServerHandler for Probe {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_prompts()
            .enable_completions()
            .enable_skills_with_directory_read();
        let capabilities = if self.has_tasks {
            capabilities.enable_tasks().build()
        } else {
            capabilities.build()
        };
        ServerConfig::new(capabilities).with_instructions("probe")
    }
    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        let newest = &ProtocolVersion::KNOWN_VERSIONS[1..];
        std::borrow::Cow::Borrowed(newest)
    }
    fn get_tool(&self, name: &str) -> Option<Tool> {
        Some(Tool::new(name.to_owned(), "probe", serde_json::Map::new()))
    }
    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        probed("listen", format!("{:?}", context.accepted()))
    }
    async fn ping(&self, _: Context) -> Result<(), ErrorData> {
        probed("ping", ())
    }
    async fn complete(
        &self,
        asked: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        probed("complete", asked)
    }
    async fn set_level(&self, asked: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        probed("set_level", asked)
    }
    async fn get_prompt(
        &self,
        asked: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        probed("get_prompt", asked)
    }
    async fn list_prompts(&self, asked: Page, _: Context) -> Result<ListPromptsResult, ErrorData> {
        probed("list_prompts", asked)
    }
    async fn list_resources(
        &self,
        asked: Page,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        probed("list_resources", asked)
    }
    async fn list_resource_templates(
        &self,
        asked: Page,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        probed("list_resource_templates", asked)
    }
    async fn read_resource(
        &self,
        asked: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        probed("read_resource", asked)
    }
    async fn subscribe(&self, asked: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        probed("subscribe", asked)
    }
    async fn unsubscribe(
        &self,
        asked: UnsubscribeRequestParams,
        _: Context,
    ) -> Result<(), ErrorData> {
        probed("unsubscribe", asked)
    }
    async fn call_tool(
        &self,
        asked: CallToolRequestParams,
        _: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        probed("call_tool", asked)
    }
    async fn list_tools(&self, asked: Page, _: Context) -> Result<ListToolsResult, ErrorData> {
        probed("list_tools", asked)
    }
    async fn on_custom_request(
        &self,
        asked: CustomRequest,
        _: Context,
    ) -> Result<CustomResult, ErrorData> {
        probed("on_custom_request", json!([asked.method, asked.params]))
    }
    async fn get_task(&self, asked: GetTaskParams, _: Context) -> Result<GetTaskResult, ErrorData> {
        probed("get_task", asked)
    }
    async fn update_task(&self, asked: UpdateTaskParams, _: Context) -> Result<(), ErrorData> {
        probed("update_task", asked)
    }
    async fn cancel_task(&self, asked: CancelTaskParams, _: Context) -> Result<(), ErrorData> {
        probed("cancel_task", asked)
    }
    async fn list_skills(&self, asked: Page, _: Context) -> Result<ListSkillsResult, ErrorData> {
        probed("list_skills", asked)
    }
    async fn get_skill(
        &self,
        asked: GetSkillRequestParams,
        _: Context,
    ) -> Result<GetSkillResult, ErrorData> {
        probed("get_skill", asked)
    }
    async fn read_resource_directory(
        &self,
        asked: ReadResourceDirectoryRequestParams,
        _: Context,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        probed("read_resource_directory", asked)
    }
    async fn on_cancelled(
        &self,
        note: CancelledNotificationParam,
        _: NotificationContext<RoleServer>,
    ) {
        self.note("on_cancelled", &note);
    }
    async fn on_progress(
        &self,
        note: ProgressNotificationParam,
        _: NotificationContext<RoleServer>,
    ) {
        self.note("on_progress", &note);
    }
    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {
        self.note("on_initialized", &());
    }
    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        self.note("on_roots_list_changed", &());
    }
    async fn on_custom_notification(
        &self,
        note: CustomNotification,
        _: NotificationContext<RoleServer>,
    ) {
        self.note("on_custom_notification", &note.params);
    }
}

impl Probe {
    fn note(&self, method: &str, note: &impl Serialize) {
        let note = format!("{method} {}", serde_json::to_string(note).unwrap());
        self.notified.lock().unwrap().push(note);
    }
}

fn wrapped(probe: &Probe) -> TaskServer<Probe> {
    let manager = TaskManager::new("navigation".parse().unwrap(), NoSink);
    TaskServer::new(probe.clone(), &manager)
}

/// One request of each kind that rmcp knows.
fn requests() -> Vec<(&'static str, Value)> {
    vec![
        ("ping", Value::Null),
        (
            "initialize",
            json!({"protocolVersion": "2025-06-18",
                "capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
                "clientInfo": {"name": "test", "version": "0"}}),
        ),
        ("server/discover", json!({})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}}),
        ),
        ("logging/setLevel", json!({"level": "info"})),
        ("prompts/get", json!({"name": "p"})),
        ("prompts/list", json!({"cursor": "c"})),
        ("resources/list", json!({"cursor": "c"})),
        ("resources/templates/list", json!({"cursor": "c"})),
        ("resources/read", json!({"uri": "file:///x"})),
        (
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": true}}),
        ),
        ("resources/subscribe", json!({"uri": "file:///x"})),
        ("resources/unsubscribe", json!({"uri": "file:///x"})),
        ("tools/call", json!({"name": "t", "arguments": {"a": 1}})),
        ("tools/list", json!({"cursor": "c"})),
        ("tasks/get", json!({"taskId": "x"})),
        (
            "tasks/update",
            json!({"taskId": "x", "inputResponses": {"k": 1}}),
        ),
        ("tasks/cancel", json!({"taskId": "x"})),
        ("skills/list", json!({"cursor": "c"})),
        ("skills/get", json!({"uri": "skill://x/SKILL.md"})),
        ("resources/directory/read", json!({"uri": "file:///x"})),
    ]
}

fn request(method: &str, params: &Value) -> ClientRequest {
    let mut json = json!({"method": method});
    if !params.is_null() {
        json["params"] = params.clone();
    }
    let request: ClientRequest = serde_json::from_value(json).unwrap();
    let is_custom = matches!(request, ClientRequest::CustomRequest(_));
    assert!(!is_custom, "{method} is a kind of its own");
    request
}

/// What a client learns from the answer.
fn shown(answer: Result<ServerResult, ServiceError>) -> String {
    match answer {
        Ok(answer) => serde_json::to_string(&answer).unwrap(),
        Err(error) => format!("{error:?}"),
    }
}

/// Asks in both eras of the protocol: within a session, and on a request's own terms.
async fn ask(client: &Client, request: &ClientRequest) -> [String; 2] {
    let session = client.0.send_request(request.clone()).await;
    let mut modern = request.clone();
    *modern.get_meta_mut() = RequestMetaObject::with_client_context(
        ProtocolVersion::V_2026_07_28,
        Implementation::new("test", "0"),
        ClientCapabilities::builder().enable_tasks().build(),
    );
    let modern = client.0.send_request(modern).await;
    [shown(session), shown(modern)]
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_request_is_answered_as_by_the_bare_handler() {
    let probe = Probe {
        has_tasks: true,
        ..Probe::default()
    };
    let bare = connect(probe.clone(), declaring()).await;
    let wrapped = connect(wrapped(&probe), declaring()).await;
    assert_eq!(
        serde_json::to_value(wrapped.0.peer_info()).unwrap(),
        serde_json::to_value(bare.0.peer_info()).unwrap()
    );
    let custom = CustomRequest::new("robot/wave", Some(json!({"hand": "left"})));
    let mut all = vec![ClientRequest::CustomRequest(custom)];
    all.extend(
        requests()
            .iter()
            .map(|(method, params)| request(method, params)),
    );
    for request in all {
        let method = request.method().to_owned();
        let expected = ask(&bare, &request).await;
        assert_eq!(ask(&wrapped, &request).await, expected, "{method}");
        // The handler was asked in one era at least, so there was something to compare.
        let own = ["initialize", "server/discover"].contains(&method.as_str());
        let probed = expected
            .iter()
            .any(|answer| answer.contains("ErrorCode(-1)"));
        assert!(own || probed, "{method}: {expected:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_without_tasks_gains_the_extension_and_nothing_else() {
    let probe = Probe::default();
    let bare = connect(probe.clone(), declaring()).await;
    let wrapped = connect(wrapped(&probe), declaring()).await;
    let extension = r#""io.modelcontextprotocol/tasks":{}"#;
    for (method, params) in requests() {
        let request = request(method, &params);
        let expected = ask(&bare, &request).await;
        let answers = ask(&wrapped, &request).await;
        if method.starts_with("tasks/") {
            assert!(
                answers.iter().all(|answer| answer.contains("unknown task")),
                "{answers:?}"
            );
            continue;
        }
        let without = answers.map(|answer| {
            let listed = [
                format!("{extension},"),
                format!(",{extension}"),
                extension.to_owned(),
            ];
            listed
                .iter()
                .fold(answer, |answer, listed| answer.replace(listed, ""))
        });
        assert_eq!(without, expected, "{method}");
    }
}

/// rmcp's own list of requests. When this fails, it has got a kind that the wrapper may have to
/// delegate: add it to the table above.
#[test]
fn the_table_has_every_kind_of_request_that_rmcp_knows() {
    let schema = serde_json::to_value(rmcp::schemars::schema_for!(ClientRequest)).unwrap();
    let kinds = schema["anyOf"].as_array().unwrap();
    let tried: BTreeSet<_> = requests().iter().map(|(method, _)| *method).collect();
    // All but the custom one.
    assert_eq!(kinds.len() - 1, tried.len(), "{kinds:#?}");
}

#[tokio::test(start_paused = true)]
async fn every_notification_reaches_the_handler() {
    let probe = Probe::default();
    let other = Probe::default();
    let bare = connect(probe.clone(), declaring()).await;
    let client = connect(wrapped(&other), declaring()).await;
    for note in [
        json!({"method": "notifications/cancelled", "params": {"requestId": 99, "reason": "r"}}),
        json!({"method": "notifications/progress", "params": {"progressToken": 1, "progress": 0.5}}),
        json!({"method": "notifications/initialized"}),
        json!({"method": "notifications/roots/list_changed"}),
        json!({"method": "notifications/robot", "params": {"hand": "left"}}),
    ] {
        let note: ClientNotification = serde_json::from_value(note).unwrap();
        bare.0.send_notification(note.clone()).await.unwrap();
        client.0.send_notification(note).await.unwrap();
    }
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    let mut expected = probe.notified.lock().unwrap().clone();
    let mut seen = other.notified.lock().unwrap().clone();
    expected.sort();
    seen.sort();
    assert_eq!(seen, expected);
    for method in [
        "on_initialized",
        "on_progress",
        "on_roots_list_changed",
        "on_custom_notification",
    ] {
        assert!(
            seen.iter().any(|note| note.starts_with(method)),
            "{method}: {seen:?}"
        );
    }
}

#[test]
fn what_rmcp_asks_the_handler_itself_is_the_handlers() {
    let probe = Probe::default();
    let server = wrapped(&probe);
    let json = |tool: Option<Tool>| serde_json::to_value(tool).unwrap();
    assert_eq!(json(server.get_tool("t")), json(probe.get_tool("t")));
    let filter = SubscriptionFilter::new();
    assert_eq!(
        server.accepted_subscription_filter(&filter),
        probe.accepted_subscription_filter(&filter)
    );
    assert_eq!(
        ServerHandler::supported_protocol_versions(&server),
        ServerHandler::supported_protocol_versions(&probe)
    );
    assert!(
        ServerHandler::get_info(&server)
            .capabilities
            .supports_tasks()
    );
}

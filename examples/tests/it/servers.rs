//! The servers, seen from a brain in this process.

use rmcp::model::{
    CallToolRequestParams, CallToolResult, MetaObject, RequestMetaObject, RequestParamsMeta,
};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{RoleClient, ServiceExt};
use rvc_wire::EventType;
use serde_json::{Value, json};

use crate::program::Program;
use crate::receiver::Receiver;

struct Client(RunningService<RoleClient, ()>);

impl Client {
    async fn connect(url: String) -> Self {
        rvc_examples::choose_cryptography();
        let transport = StreamableHttpClientTransport::from_uri(url);
        Self(().serve(transport).await.expect("the server speaks MCP"))
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> Result<Value, String> {
        let Value::Object(arguments) = arguments else {
            panic!("arguments are an object");
        };
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result: CallToolResult = self.0.call_tool(request).await.expect("tools answer");
        let text = result.content[0]
            .as_text()
            .expect("one text block")
            .text
            .clone();
        if result.is_error == Some(true) {
            return Err(text);
        }
        Ok(serde_json::from_str(&text).expect("it is JSON"))
    }
}

#[tokio::test]
async fn navigator_fires_its_triggers_on_the_way_and_arrives() {
    let mut receiver = Receiver::of("navigation").await;
    let (_navigator, url) = Program::serve("navigator", &receiver.variables());
    let client = Client::connect(url).await;
    let triggers = json!([
        {"type": "eta_below", "seconds": 2},
        {"type": "zone_entered", "zone": "kitchen"},
        {"type": "progress_above", "percent": 50},
        {"type": "zone_entered", "zone": "lab"},
    ]);

    let call = json!({"place": "kitchen", "triggers": triggers});
    let info = client.call("navigate_to", call).await.unwrap();
    assert_eq!(info["state"], "running");
    assert_eq!(info["est_duration_s"], 6.0);
    let busy = client
        .call("navigate_to", json!({"place": "lab"}))
        .await
        .unwrap_err();
    assert!(busy.contains("the robot is driving"), "{busy}");

    let mut fired = Vec::new();
    let end = loop {
        let event = receiver.next().await;
        match event.event_type {
            EventType::TriggerFired => fired.push(event.payload["trigger"].clone()),
            EventType::Progress => {}
            _ => break event,
        }
    };
    // The corridor is 6 m long: half way comes first, then 5 m, where the kitchen begins.
    assert_eq!(
        Value::from(fired),
        json!([triggers[2], triggers[0], triggers[1]])
    );
    assert_eq!(
        Value::from(end.payload),
        json!({"result": {"at_m": 6.0, "zone": "kitchen"}})
    );
}

#[tokio::test]
async fn navigator_stands_still_when_its_cancel_is_answered() {
    let mut receiver = Receiver::of("navigation").await;
    let (_navigator, url) = Program::serve("navigator", &receiver.variables());
    let client = Client::connect(url).await;
    let info = client
        .call("navigate_to", json!({"place": "lab"}))
        .await
        .unwrap();
    let task = json!({"task_id": info["task_id"]});
    receiver.next().await;

    let cancelled = client.call("cancel_task", task.clone()).await.unwrap();

    assert_eq!(cancelled["state"], "cancelled");
    assert_eq!(cancelled["stopped"], true);
    // The robot is free again, which it is only after its teardown.
    client
        .call("navigate_to", json!({"place": "dock"}))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_readmes_server_waves() {
    let mut receiver = Receiver::of("waver").await;
    let mut variables = receiver.variables().to_vec();
    variables.extend([("MCP_TRANSPORT", "streamable-http"), ("MCP_PORT", "0")]);
    let mut quickstart = Program::start("quickstart", &[], &variables);
    let url = quickstart.url();
    let client = Client::connect(url).await;

    client.call("wave", json!({"times": 1})).await.unwrap();

    assert_eq!(receiver.next().await.payload["waved"], 1);
    let end = receiver.next().await;
    assert_eq!(end.event_type, EventType::TaskDone);
    assert_eq!(end.payload["result"], json!({"waved": 1}));
}

#[tokio::test]
async fn the_readmes_server_names_the_callers_trace_in_its_tasks_lines() {
    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let variables = [("MCP_TRANSPORT", "streamable-http"), ("MCP_PORT", "0")];
    let mut quickstart = Program::start("quickstart", &[], &variables);
    let client = Client::connect(quickstart.url()).await;
    let Value::Object(meta) = json!({"traceparent": TRACEPARENT}) else {
        unreachable!("it is one");
    };
    let Value::Object(arguments) = json!({"times": 1}) else {
        unreachable!("it is one");
    };
    let mut wave = CallToolRequestParams::new("wave").with_arguments(arguments);
    wave.set_meta(RequestMetaObject(MetaObject(meta)));

    client.0.call_tool(wave).await.expect("it waves");

    for message in ["task started", "task ended"] {
        let line = quickstart.logged(message, |_| true);
        assert_eq!(line["spans"][0]["traceparent"], TRACEPARENT, "{line}");
    }
}

#[tokio::test]
async fn the_readmes_server_takes_the_flag_for_a_log_that_people_read() {
    // The client on standard input is gone at once, and so it ends.
    let log = Program::log_of("quickstart", &["--log", "pretty"]);
    assert!(log.contains("INFO"), "{log}");
    assert!(!log.starts_with('{'), "{log}");
}

#[tokio::test]
async fn every_server_offers_the_official_tasks_extension() {
    for name in [
        "quickstart",
        "sleeper",
        "navigator",
        "watcher",
        "conformance",
    ] {
        let variables = [("MCP_TRANSPORT", "streamable-http"), ("MCP_PORT", "0")];
        let mut program = Program::start(name, &[], &variables);
        let client = Client::connect(program.url()).await;
        let server = client.0.peer_info().expect("it said what it is");
        assert!(server.capabilities.supports_tasks(), "{name}");
    }
}

#[tokio::test]
async fn watcher_pushes_what_it_sees_until_it_is_cancelled() {
    let mut receiver = Receiver::of("perception").await;
    let (_watcher, url) = Program::serve("watcher", &receiver.variables());
    let client = Client::connect(url).await;
    let info = client
        .call("watch_for", json!({"label": "person"}))
        .await
        .unwrap();

    let event = receiver.next().await;

    assert_eq!(event.event_type, EventType::WatchEvent);
    assert_eq!(event.payload["label"], "person");
    let task = json!({"task_id": info["task_id"]});
    assert_eq!(
        client.call("get_task", task.clone()).await.unwrap()["state"],
        "running"
    );
    assert_eq!(
        client.call("cancel_task", task).await.unwrap()["state"],
        "cancelled"
    );
}

#[tokio::test]
async fn wrong_arguments_are_tool_errors_that_say_what_is_right() {
    for (program, tool, arguments, reason) in [
        (
            "sleeper",
            "sleep_task",
            json!({"duration_s": -1}),
            "duration_s",
        ),
        (
            "sleeper",
            "sleep_task",
            json!({"duration_s": "long"}),
            "expected f64",
        ),
        (
            "sleeper",
            "sleep_task",
            json!({}),
            "missing field `duration_s`",
        ),
        (
            "sleeper",
            "sleep_task",
            json!({"duration_s": 1, "triggers": [{"seconds": 1}]}),
            "`type`",
        ),
        (
            "navigator",
            "navigate_to",
            json!({"place": "moon"}),
            "dock, kitchen, lab",
        ),
        (
            "navigator",
            "navigate_to",
            json!({"place": "lab", "triggers": [{"type": "zone_entered"}]}),
            "`zone` must be a text",
        ),
        (
            "watcher",
            "watch_for",
            json!({"label": "ghost"}),
            "person, dog, door_open",
        ),
    ] {
        let (_program, url) = Program::serve(program, &[]);
        let client = Client::connect(url).await;

        let error = client.call(tool, arguments.clone()).await.unwrap_err();

        assert!(error.contains(reason), "{arguments}: {error}");
        assert_eq!(
            client.call("list_tasks", json!({})).await.unwrap(),
            json!({"tasks": []})
        );
    }
}

//! The three tools, in memory, with rmcp's own client.

use std::pin::pin;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::robot::{Robot, arguments, triggers_text};

type Client = RunningService<RoleClient, ()>;

async fn connect(robot: &Robot) -> Client {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let robot = robot.clone();
    tokio::spawn(async move {
        let running = robot.serve(theirs).await.unwrap();
        running.waiting().await.unwrap();
    });
    ().serve(ours).await.unwrap()
}

async fn call(client: &Client, tool: &'static str, arguments: Value) -> CallToolResult {
    let mut call = CallToolRequestParams::new(tool);
    if let Value::Object(arguments) = arguments {
        call = call.with_arguments(arguments);
    }
    client.call_tool(call).await.unwrap()
}

/// The one text block of a result.
pub(crate) fn text(result: &CallToolResult) -> String {
    assert_eq!(result.content.len(), 1);
    result.content[0].as_text().unwrap().text.clone()
}

fn json_of(result: &CallToolResult) -> Value {
    assert_ne!(result.is_error, Some(true));
    serde_json::from_str(&text(result)).unwrap()
}

/// Starts a drive; its id as arguments.
async fn drive(client: &Client, arguments: Value) -> Value {
    let info = json_of(&call(client, "drive", arguments).await);
    json!({"task_id": info["task_id"]})
}

#[tokio::test(start_paused = true)]
async fn a_started_task_is_answered_with_its_info() {
    let robot = Robot::new();
    let client = connect(&robot).await;

    let info = text(&call(&client, "drive", Value::Object(arguments())).await);

    assert!(info.contains(triggers_text()), "{info}");
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["state"], "running");
    assert_eq!(info["server"], "navigation");
    assert_eq!(info["tool"], "drive");
    assert_eq!(info["result"], Value::Null);
    let polled = call(&client, "get_task", json!({"task_id": info["task_id"]})).await;
    assert_eq!(json_of(&polled), info);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_task_is_not_found_and_no_error() {
    let robot = Robot::new();
    let client = connect(&robot).await;

    for tool in ["get_task", "cancel_task"] {
        for id in ["navi-000000", "", "\u{0}", "🤖"] {
            let result = call(&client, tool, json!({"task_id": id})).await;
            assert_eq!(text(&result), r#"{"error":"not_found"}"#);
            assert_ne!(result.is_error, Some(true));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_argument_types_are_tool_errors_that_say_what_is_right() {
    let robot = Robot::new();
    let client = connect(&robot).await;

    for (tool, arguments, says) in [
        ("get_task", json!({}), "task_id is required"),
        ("get_task", Value::Null, "task_id is required"),
        (
            "get_task",
            json!({"task_id": 7}),
            "must be a string, not a number",
        ),
        (
            "cancel_task",
            json!({"task_id": null}),
            "must be a string, not null",
        ),
        (
            "cancel_task",
            json!({"task_id": {}}),
            "must be a string, not an object",
        ),
        (
            "list_tasks",
            json!({"states": "running"}),
            "must be an array of strings, not a string",
        ),
        (
            "list_tasks",
            json!({"states": [1]}),
            "must be a string, not a number",
        ),
    ] {
        let result = call(&client, tool, arguments.clone()).await;
        assert_eq!(result.is_error, Some(true), "{tool} {arguments}");
        let text = text(&result);
        assert!(text.contains(says), "{tool} {arguments}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_state_is_a_tool_error_that_lists_the_valid_ones() {
    let robot = Robot::new();
    let client = connect(&robot).await;

    let result = call(
        &client,
        "list_tasks",
        json!({"states": ["running", "working"]}),
    )
    .await;

    assert_eq!(result.is_error, Some(true));
    assert_eq!(
        text(&result),
        r#""working" is no state; valid states are running, succeeded, failed, cancelled"#
    );
}

#[tokio::test(start_paused = true)]
async fn tasks_are_listed_oldest_first_and_by_state() {
    let robot = Robot::new();
    let client = connect(&robot).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(drive(&client, json!({})).await["task_id"].clone());
    }
    call(&client, "cancel_task", json!({"task_id": ids[1]})).await;

    for all in [
        Value::Null,
        json!({}),
        json!({"states": null}),
        json!({"states": []}),
    ] {
        assert_eq!(listed(&client, all).await, ids);
    }
    let running = listed(&client, json!({"states": ["running"]})).await;
    assert_eq!(running, [ids[0].clone(), ids[2].clone()]);
    let both = listed(&client, json!({"states": ["cancelled", "running"]})).await;
    assert_eq!(both, ids);
    assert!(
        listed(&client, json!({"states": ["failed"]}))
            .await
            .is_empty()
    );
}

async fn listed(client: &Client, arguments: Value) -> Vec<Value> {
    let list = json_of(&call(client, "list_tasks", arguments).await);
    let tasks = list["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["task_id"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn cancel_waits_for_the_body_and_is_idempotent() {
    let robot = Robot::new();
    let client = connect(&robot).await;
    let id = drive(&client, json!({})).await;

    let first = call(&client, "cancel_task", id.clone()).await;
    let again = call(&client, "cancel_task", id.clone()).await;

    let stopped = json!({"task_id": id["task_id"], "state": "cancelled", "stopped": true});
    assert_eq!(json_of(&first), stopped);
    assert_eq!(json_of(&again), stopped);
    let keys: Vec<_> = json_of(&first)
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(keys, ["task_id", "state", "stopped"]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_stop_is_said_to_be_not_stopped() {
    let robot = Robot::new();
    let client = connect(&robot).await;
    let id = drive(&client, json!({"stubborn": true})).await;

    // Nobody lets it come to its end: its grace of 60 s runs out.
    let result = call(&client, "cancel_task", id).await;

    let result = json_of(&result);
    assert_eq!(result["state"], "cancelled");
    assert_eq!(result["stopped"], false);
}

#[tokio::test(start_paused = true)]
async fn no_poll_says_cancelled_before_the_body_has_stopped() {
    let robot = Robot::new();
    let client = connect(&robot).await;
    let id = drive(&client, json!({"stubborn": true})).await;

    let mut cancel = pin!(call(&client, "cancel_task", id.clone()));
    let early = timeout(Duration::from_secs(3), &mut cancel).await;
    assert!(early.is_err());
    let info = json_of(&call(&client, "get_task", id.clone()).await);
    assert_eq!(info["state"], "running");
    assert_eq!(info["cancel_requested"], true);

    robot.halt.notify_one();
    assert_eq!(json_of(&cancel.await)["stopped"], true);
    let info = json_of(&call(&client, "get_task", id).await);
    assert_eq!(info["state"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_trigger_without_a_type_is_refused_when_the_tool_is_called() {
    let robot = Robot::new();
    let client = connect(&robot).await;

    for triggers in [
        json!([{"seconds": 10}]),
        json!([{"type": 3}]),
        json!(["eta_below"]),
    ] {
        let result = call(&client, "drive", json!({ "triggers": triggers })).await;
        assert_eq!(result.is_error, Some(true), "{triggers}");
    }
    assert!(listed(&client, json!({})).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_model_sees_schemas_that_tell_it_what_to_pass() {
    let robot = Robot::new();
    let client = connect(&robot).await;

    let tools = client.list_all_tools().await.unwrap();
    let schema = |name: &str| {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        Value::Object((*tool.input_schema).clone())
    };

    for name in ["get_task", "cancel_task"] {
        assert_eq!(schema(name)["properties"]["task_id"]["type"], "string");
        assert_eq!(schema(name)["required"], json!(["task_id"]));
    }
    let states = &schema("list_tasks")["properties"]["states"];
    assert_eq!(
        states["anyOf"][0]["items"]["enum"],
        json!(["running", "succeeded", "failed", "cancelled"])
    );
    assert_eq!(schema("list_tasks").get("required"), None);
}

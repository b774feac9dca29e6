//! HTTP+SSE over sockets.

use std::sync::Arc;

use http::{Request, header};
use http_body_util::Full;
use rvc_mcp::Transport;
use serde_json::{Value, json};

use crate::robot::{ARGUMENTS, Robot, triggers_text};
use crate::sse_client::{SseClient, send};

#[tokio::test]
async fn the_whole_contract_works_over_sse() {
    let robot = Robot::new();
    let server = robot.listen(Transport::Sse).await;
    let mut client = SseClient::connect(&server.url).await;

    let tools = client.request("tools/list", &json!({})).await;
    let names: Vec<_> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "block",
            "cancel_task",
            "drive",
            "echo",
            "get_task",
            "list_tasks",
            "wait",
            "wait_task"
        ]
    );

    let started = client.call("drive", &json!({})).await;
    let started: Value = serde_json::from_str(&started).unwrap();
    assert_eq!(started["state"], "running");
    let id = json!({"task_id": started["task_id"]});
    let polled = client.call("get_task", &id).await;
    assert_eq!(serde_json::from_str::<Value>(&polled).unwrap(), started);

    let cancelled = client.call("cancel_task", &id).await;
    let expected = json!({"task_id": id["task_id"], "state": "cancelled", "stopped": true});
    assert_eq!(serde_json::from_str::<Value>(&cancelled).unwrap(), expected);

    server.end().await;
}

#[tokio::test]
async fn triggers_keep_their_keys_in_order_and_their_numbers_over_sse() {
    let robot = Robot::new();
    let server = robot.listen(Transport::Sse).await;
    let mut client = SseClient::connect(&server.url).await;

    let arguments = serde_json::from_str(ARGUMENTS).unwrap();
    let info = client.call("drive", &arguments).await;

    assert!(info.contains(triggers_text()), "{info}");
    server.end().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_cancels_changes_nothing() {
    let robot = Robot::new();
    let server = robot.listen(Transport::Sse).await;
    let mut client = SseClient::connect(&server.url).await;
    let started = client.call("drive", &json!({"stubborn": true})).await;
    let started: Value = serde_json::from_str(&started).unwrap();
    let id = json!({"task_id": started["task_id"]});

    let params = json!({"name": "cancel_task", "arguments": id});
    client.begin("tools/call", &params).await;
    let mut other = SseClient::connect(&server.url).await;
    // The cancel was accepted, and its body takes its time.
    let info = loop {
        let info = other.call("get_task", &id).await;
        let info: Value = serde_json::from_str(&info).unwrap();
        if info["cancel_requested"] == true {
            break info;
        }
    };
    assert_eq!(info["state"], "running");
    drop(client);

    robot.halt.notify_one();
    loop {
        let info = other.call("get_task", &id).await;
        let info: Value = serde_json::from_str(&info).unwrap();
        if info["state"] != "running" {
            assert_eq!(info["state"], "cancelled");
            break;
        }
    }
    server.end().await;
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_on_the_socket() {
    let robot = Robot::new();
    let server = robot.listen(Transport::Sse).await;
    let authority = server.url.strip_prefix("http://").unwrap();
    let authority = authority.strip_suffix("/sse").unwrap();

    for (name, value) in [
        (header::HOST, "evil.example"),
        (header::ORIGIN, "http://evil.example"),
    ] {
        let mut request = Request::get("/sse")
            .header(header::HOST, authority)
            .body(Full::default())
            .unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
        assert_eq!(send(authority, request).await.status(), 403);
    }
    server.end().await;
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_of_a_call_leaves_nothing_behind() {
    let robot = Robot::new();
    let server = robot.listen(Transport::Sse).await;
    let before = Arc::strong_count(&robot.answer);
    let mut client = SseClient::connect(&server.url).await;
    client.begin("tools/call", &json!({"name": "wait"})).await;
    assert!(Arc::strong_count(&robot.answer) > before);

    drop(client);

    while Arc::strong_count(&robot.answer) > before {
        tokio::task::yield_now().await;
    }
    server.end().await;
}

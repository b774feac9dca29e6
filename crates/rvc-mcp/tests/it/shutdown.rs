//! The orderly end.

use rvc_mcp::Transport;
use rvc_tasks::TaskState;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::robot::Robot;
use crate::sse_client::SseClient;

#[tokio::test]
async fn open_streams_do_not_keep_a_server_from_ending() {
    for transport in [Transport::Sse, Transport::StreamableHttp] {
        let robot = Robot::new();
        let server = robot.listen(transport).await;
        let authority = server.url.split('/').nth(2).unwrap().to_owned();
        let mut streams = Vec::new();
        if transport == Transport::Sse {
            streams.push(SseClient::connect(&server.url).await);
            // One without a handshake too.
            streams.push(SseClient::open(&server.url).await);
        }
        // And a connection that says nothing.
        let _silent = TcpStream::connect(&authority).await.unwrap();

        server.end().await;

        for mut stream in streams {
            assert_eq!(stream.message().await, None);
        }
        assert!(TcpStream::connect(&authority).await.is_err());
    }
}

#[tokio::test]
async fn shutting_down_cancels_tasks_and_lets_the_answers_in_flight_go_out() {
    let robot = Robot::new();
    let server = robot.listen(Transport::Sse).await;
    let mut client = SseClient::connect(&server.url).await;
    let started = client.call("drive", &json!({"stubborn": true})).await;
    let started: Value = serde_json::from_str(&started).unwrap();
    let params = json!({
        "name": "cancel_task", "arguments": {"task_id": started["task_id"]},
    });
    let cancel = client.begin("tools/call", &params).await;
    let wait = client.begin("tools/call", &json!({"name": "wait"})).await;

    let end = tokio::spawn(server.end());
    // The body is told to stop, and stops; the other call answers late.
    robot.halt.notify_one();
    let answer = client.message().await.unwrap();
    assert_eq!(answer["id"], cancel);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(r#""stopped":true"#));
    robot.answer.notify_one();
    assert_eq!(client.message().await.unwrap()["id"], wait);
    assert_eq!(client.message().await, None);

    end.await.unwrap();
    let tasks = robot.manager.list(&[]);
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].state, TaskState::Cancelled);
}

#[tokio::test]
async fn calls_and_requests_that_never_end_do_not_keep_a_server_from_ending() {
    let robot = Robot::new();
    let server = robot.listen(Transport::Sse).await;
    let mut client = SseClient::connect(&server.url).await;
    client.begin("tools/call", &json!({"name": "wait"})).await;
    let authority = server.url.split('/').nth(2).unwrap();
    let mut half = TcpStream::connect(authority).await.unwrap();
    half.write_all(b"POST /messages/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        .await
        .unwrap();

    // From here on, only time-outs are waited for.
    tokio::time::pause();
    server.end().await;
}

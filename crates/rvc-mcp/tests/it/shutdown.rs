//! The orderly end.

use rvc_mcp::Transport;
use rvc_tasks::TaskState;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::yield_now;

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
    let authority = server.url.split('/').nth(2).unwrap().to_owned();
    let mut client = SseClient::connect(&server.url).await;
    let mut idle = TcpStream::connect(&authority).await.unwrap();
    let stubborn = json!({"stubborn": true});
    let started = client.call("drive", &stubborn).await;
    let started: Value = serde_json::from_str(&started).unwrap();
    client.call("drive", &stubborn).await;
    let params = json!({
        "name": "cancel_task", "arguments": {"task_id": started["task_id"]},
    });
    let cancel = client.begin("tools/call", &params).await;
    let wait = client.begin("tools/call", &json!({"name": "wait"})).await;

    let end = tokio::spawn(server.end());
    // Nobody new is let in, and who is idle is sent away, while the bodies take their time.
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0);
    assert!(TcpStream::connect(&authority).await.is_err());
    robot.halt.notify_one();
    while robot.manager.list(&[TaskState::Running]).len() == 2 {
        yield_now().await;
    }
    robot.halt.notify_one();
    let answer = client.message().await.unwrap();
    assert_eq!(answer["id"], cancel);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(r#""stopped":true"#));
    robot.answer.notify_one();
    let answer = client.message().await.unwrap();
    assert_eq!(answer["id"], wait);
    assert_eq!(answer["result"]["content"][0]["text"], "waited");
    assert_eq!(client.message().await, None);

    end.await.unwrap();
    let states: Vec<_> = robot
        .manager
        .list(&[])
        .iter()
        .map(|task| task.state)
        .collect();
    assert_eq!(states, [TaskState::Cancelled; 2]);
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

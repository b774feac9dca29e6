//! A server as a process of its own: signals, standard input and output, exit codes.
//!
//! The process is this test binary again, running the ignored test at the end of the file.

use std::process::Stdio;

use rvc_mcp::{ServeConfig, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::robot::{Robot, arguments, triggers_text};
use crate::sse_client::SseClient;

struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(transport: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::serves", "--ignored", "--nocapture"])
            .env("MCP_TRANSPORT", transport)
            .env("MCP_PORT", "0")
            .env_remove("MCP_HOST")
            .env_remove("MCP_ALLOWED_HOSTS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            stdin,
            stdout,
        }
    }

    async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).await.unwrap();
    }

    /// The next message; the test harness's own words are passed over, which stand before the
    /// first one in the same line where it runs one test at a time.
    async fn message(&mut self) -> Value {
        loop {
            let line = self.stdout.next_line().await.unwrap().unwrap();
            let message = line.find('{').map(|start| &line[start..]);
            if let Some(message) = message.and_then(|it| serde_json::from_str(it).ok()) {
                return message;
            }
        }
    }

    async fn shake_hands(&mut self) {
        let hello = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "test", "version": "0"},
            },
        });
        self.send(hello).await;
        assert_eq!(self.message().await["id"], 1);
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
    }

    async fn signal(&self, name: &str) {
        let id = self.child.id().unwrap().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status();
        assert!(status.await.unwrap().success());
    }

    async fn exit_code(mut self) -> Option<i32> {
        self.child.wait().await.unwrap().code()
    }

    /// The URL that the log says is served.
    async fn url(&mut self) -> String {
        let mut log = BufReader::new(self.child.stderr.take().unwrap()).lines();
        loop {
            let line = log.next_line().await.unwrap().unwrap();
            if let Some((_, url)) = line.split_once("url=") {
                // The rest of the log must not fill the pipe.
                tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
                let url = url.trim_matches('"');
                return url.to_owned();
            }
        }
    }
}

impl Process {
    /// Calls a tool, and reads its answer as JSON.
    async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let call = json!({
            "jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        });
        self.send(call).await;
        let answer = self.message().await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap()
    }
}

async fn begin_drive(process: &mut Process) {
    process.shake_hands().await;
    let drive = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "drive"},
    });
    process.send(drive).await;
    assert_eq!(process.message().await["id"], 2);
}

#[tokio::test]
async fn triggers_keep_their_keys_in_order_and_their_numbers_over_stdio() {
    let mut process = Process::start("stdio");
    process.shake_hands().await;
    let drive = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "drive", "arguments": arguments()},
    });
    process.send(drive).await;

    let answer = process.message().await;

    let info = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(info.contains(triggers_text()), "{info}");
}

#[tokio::test]
async fn the_ids_in_a_calls_meta_stand_in_its_tasks_log_lines() {
    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut process = Process::start("stdio");
    process.shake_hands().await;
    let drive = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "drive", "_meta": {"traceparent": TRACEPARENT, "mission_id": "m-17"}},
    });
    process.send(drive).await;
    assert_eq!(process.message().await["id"], 2);

    let mut log = BufReader::new(process.child.stderr.take().unwrap()).lines();
    let started = loop {
        let line = log.next_line().await.unwrap().unwrap();
        if line.contains("task started") {
            break line;
        }
    };

    for id in [TRACEPARENT, "m-17"] {
        assert!(started.contains(id), "{id} is not in {started}");
    }
}

#[tokio::test]
async fn the_end_of_standard_input_ends_the_process_in_order() {
    let mut process = Process::start("stdio");
    begin_drive(&mut process).await;

    process.stdin = None;

    assert_eq!(process.exit_code().await, Some(0));
}

#[tokio::test]
async fn a_process_whose_client_never_came_ends_in_order() {
    let mut process = Process::start("stdio");
    process.stdin = None;
    assert_eq!(process.exit_code().await, Some(0));
}

#[tokio::test]
async fn either_signal_ends_a_process_in_order_while_its_input_stays_open() {
    for signal in ["TERM", "INT"] {
        let mut process = Process::start("stdio");
        begin_drive(&mut process).await;

        process.signal(signal).await;

        let stdin = process.stdin.take();
        assert_eq!(process.exit_code().await, Some(0), "SIG{signal}");
        drop(stdin);
    }
}

#[tokio::test]
async fn a_process_whose_bodies_block_every_thread_answers_and_ends_in_order() {
    let threads = std::thread::available_parallelism().unwrap().get().max(2);
    let mut process = Process::start("stdio");
    process.shake_hands().await;
    let mut blocking = Vec::new();
    for _ in 0..threads + 2 {
        let info = process.call("block", json!({})).await;
        blocking.push(info["task_id"].clone());
    }
    loop {
        let list = process.call("list_tasks", json!({})).await;
        let tasks = list["tasks"].as_array().unwrap();
        let blocked = tasks.iter().filter(|task| !task["progress"].is_null());
        if blocked.count() >= threads {
            break;
        }
    }

    for task in [&blocking[0], &blocking[threads + 1]] {
        let cancelled = process.call("cancel_task", json!({"task_id": task})).await;
        assert_eq!(cancelled["state"], "cancelled");
        assert_eq!(cancelled["stopped"], false);
        let info = process.call("get_task", json!({"task_id": task})).await;
        assert_eq!(info["state"], "cancelled");
    }
    process.signal("TERM").await;

    assert_eq!(process.exit_code().await, Some(0));
}

#[tokio::test]
async fn a_signal_ends_a_process_with_open_streams_in_order() {
    let mut process = Process::start("sse");
    let url = process.url().await;
    let mut client = SseClient::connect(&url).await;
    client.call("echo", &json!({})).await;

    process.signal("TERM").await;

    assert_eq!(client.message().await, None);
    assert_eq!(process.exit_code().await, Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_a_process_at_once() {
    let mut process = Process::start("sse");
    let url = process.url().await;
    let mut client = SseClient::connect(&url).await;
    // A body that takes its minute to stop.
    client.call("drive", &json!({"stubborn": true})).await;

    process.signal("TERM").await;
    // The stop was begun: nothing is accepted any more.
    let authority = url.split('/').nth(2).unwrap();
    while tokio::net::TcpStream::connect(authority).await.is_ok() {}
    process.signal("TERM").await;

    assert_eq!(process.exit_code().await, Some(128 + 15));
}

#[tokio::test]
async fn a_client_that_does_not_speak_mcp_makes_the_process_fail() {
    let mut process = Process::start("stdio");
    process
        .send(json!({"jsonrpc": "2.0", "id": 1, "result": {}}))
        .await;
    assert_ne!(process.exit_code().await, Some(0));
}

/// One worker thread, as on a board with one core.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "it is the process that the tests above start"]
async fn serves() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let robot = Robot::new();
    let manager = robot.manager.clone();
    let config = ServeConfig::from_env().unwrap();
    serve(config, move || robot.clone(), manager).await.unwrap();
}

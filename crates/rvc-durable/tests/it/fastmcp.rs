//! `FastMCP` 4.1.4 with its tasks package: a server that others wrote.
//!
//! `cargo xtask ci interop` makes its Python environment and names the place.

use std::process::{Child, Command};
use std::time::Duration;

use rvc_durable::plan::Settings;
use rvc_durable::remote::HttpDialer;
use rvc_durable::store::{AnswerOutcome, SqliteOptions, SqliteStore};
use rvc_durable::{
    Durable, InputHandling, OwnerId, Phase, Registration, Submission, SupervisorOptions,
    TransportKind,
};
use serde_json::{Value, json};

use crate::world::{id, robot};

struct Server {
    child: Child,
}

impl Server {
    fn start(port: u16) -> Self {
        Self::keeping(port, None)
    }

    /// A server that forgets a task so many seconds after its end.
    fn keeping(port: u16, seconds: Option<&str>) -> Self {
        let environments =
            std::env::var("RVC_INTEROP_VENVS").expect("run `cargo xtask ci interop`");
        let python = format!("{environments}/fastmcp-4.1.4/bin/python");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fastmcp/server.py");
        let child = Command::new(python)
            .args([script, &port.to_string()])
            .args(seconds)
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        Self { child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

async fn durable(port: u16) -> Durable {
    durable_on(SqliteOptions::memory().open().unwrap(), port).await
}

async fn durable_on(store: SqliteStore, port: u16) -> Durable {
    let mut settings = Settings::default();
    settings.min_poll_interval = Duration::from_millis(100);
    settings.max_poll_interval = Duration::from_millis(500);
    let options = SupervisorOptions::new().settings(settings);
    let durable = Durable::new(store, HttpDialer::new().unwrap(), options);
    durable
        .put_registration(Registration {
            id: robot(),
            owner: OwnerId::local(),
            endpoint: format!("http://127.0.0.1:{port}/mcp").parse().unwrap(),
            transport: TransportKind::StreamableHttp,
            enabled: true,
        })
        .await
        .unwrap();
    durable.supervise();
    durable
}

fn call(action: &str, tool: &str, arguments: &Value) -> Submission {
    Submission::new(id(action), robot(), tool).arguments(arguments.as_object().cloned().unwrap())
}

/// Waits until an action is in `phase`.
async fn reach(durable: &Durable, action: &str, phase: Phase) {
    loop {
        let row = durable.action(&id(action)).await.unwrap().unwrap();
        if row.phase == phase {
            return;
        }
        assert!(row.outcome.is_none(), "{row:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
#[ignore = "needs the peers: cargo xtask ci interop"]
async fn fastmcps_tasks_complete_fail_ask_are_cancelled_and_are_lost_with_their_server() {
    let port = free_port();
    let server = Server::start(port);
    let durable = durable(port).await;

    // Complete, also while the server is still starting.
    durable
        .submit(call("slow", "slow", &json!({"seconds": 1.0})))
        .await
        .unwrap();
    let outcome = durable.outcome(&id("slow")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed, "{outcome:?}");
    let result = outcome.result.unwrap();
    assert_eq!(result.structured_content, Some(json!({"slept_s": 1.0})));
    let row = durable.action(&id("slow")).await.unwrap().unwrap();
    assert!(row.remote.is_some(), "it was a task");
    assert_eq!(row.starts, 1);

    // An ordinary result, and a failure.
    durable
        .submit(call("plain", "plain", &json!({})))
        .await
        .unwrap();
    let outcome = durable.outcome(&id("plain")).await.unwrap();
    assert_eq!(outcome.result.unwrap().text, "now");
    durable
        .submit(call("failing", "failing", &json!({})))
        .await
        .unwrap();
    let outcome = durable.outcome(&id("failing")).await.unwrap();
    assert_eq!(outcome.error_code.unwrap().as_str(), "TOOL_ERROR");
    assert!(outcome.message.contains("no door"), "{}", outcome.message);

    // Elicitation.
    let asking = call("asking", "asking", &json!({})).input(InputHandling::Surface);
    durable.submit(asking).await.unwrap();
    reach(&durable, "asking", Phase::InputRequired).await;
    let row = durable.action(&id("asking")).await.unwrap().unwrap();
    let key = row.input_requests.keys().next().unwrap().clone();
    let answer = json!({key: {"action": "accept", "content": {"value": true}}});
    let answer = answer.as_object().cloned().unwrap();
    let stored = durable.answer_input(&id("asking"), answer).await.unwrap();
    assert_eq!(stored, AnswerOutcome::Stored);
    let outcome = durable.outcome(&id("asking")).await.unwrap();
    assert_eq!(outcome.result.unwrap().text, "accept");

    // Cancel.
    durable
        .submit(call("endless", "slow", &json!({"seconds": 600.0})))
        .await
        .unwrap();
    reach(&durable, "endless", Phase::Working).await;
    durable.cancel_action(&id("endless")).await.unwrap();
    durable.idle().await.unwrap();
    let row = durable.action(&id("endless")).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::Cancelled);
    assert_eq!(row.remote.unwrap().status, "cancelled");

    // The server is killed and starts again: what was in its memory is gone.
    durable
        .submit(call("lost", "slow", &json!({"seconds": 600.0})))
        .await
        .unwrap();
    reach(&durable, "lost", Phase::Working).await;
    drop(server);
    let _server = Server::start(port);
    let outcome = durable.outcome(&id("lost")).await.unwrap();
    assert_eq!(outcome.error_code.unwrap().as_str(), "REMOTE_TASK_MISSING");
    durable.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: cargo xtask ci interop"]
async fn fastmcps_task_that_expired_while_nobody_supervised_is_expired() {
    let port = free_port();
    let _server = Server::keeping(port, Some("1"));
    let store = SqliteOptions::memory().open().unwrap();
    let first = durable_on(store.clone(), port).await;
    first
        .submit(call("late", "slow", &json!({"seconds": 1.0})))
        .await
        .unwrap();
    reach(&first, "late", Phase::Working).await;
    first.close().await;
    let row = first.action(&id("late")).await.unwrap().unwrap();
    assert_eq!(row.remote.unwrap().ttl, Some(Duration::from_secs(1)));

    // The task ends, and its time to live passes. The server's clock is its own.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let second = durable_on(store, port).await;

    let outcome = second.outcome(&id("late")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Expired, "{outcome:?}");
    assert_eq!(outcome.error_code.unwrap().as_str(), "REMOTE_TASK_EXPIRED");
    assert_eq!(outcome.result, None);
    let row = second.action(&id("late")).await.unwrap().unwrap();
    assert_eq!(row.starts, 1);
    second.close().await;
}

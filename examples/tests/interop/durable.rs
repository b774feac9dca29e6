//! `rvc-durable` against sleepers as processes: ours on both surfaces, and one in Python.

use std::process::Command;
use std::time::Duration;

use rvc_durable::plan::Settings;
use rvc_durable::remote::HttpDialer;
use rvc_durable::store::SqliteOptions;
use rvc_durable::{
    ActionId, Durable, ErrorCode, Linkage, Outcome, OwnerId, Phase, Registration, RemoteKind,
    Submission, SupervisorOptions, TransportKind,
};
use serde_json::{Value, json};

use crate::script::{example, python};
use crate::server::{Server, command};

/// A sleeper, how it is spoken to, and what its tasks are.
#[derive(Clone, Copy)]
struct Sleeper {
    command: fn(TransportKind) -> Command,
    transport: TransportKind,
    kind: RemoteKind,
}

const EXTENSION: Sleeper = Sleeper {
    command: ours,
    transport: TransportKind::StreamableHttp,
    kind: RemoteKind::Mcp,
};

const CONTRACT: Sleeper = Sleeper {
    command: ours_without_the_extension,
    transport: TransportKind::StreamableHttp,
    kind: RemoteKind::Contract,
};

/// The whole server: over this transport its client declares no extension.
const CONTRACT_OVER_SSE: Sleeper = Sleeper {
    command: ours,
    transport: TransportKind::Sse,
    kind: RemoteKind::Contract,
};

const PYTHON: Sleeper = Sleeper {
    command: in_python,
    transport: TransportKind::StreamableHttp,
    kind: RemoteKind::Contract,
};

const PYTHON_OVER_SSE: Sleeper = Sleeper {
    command: in_python,
    transport: TransportKind::Sse,
    kind: RemoteKind::Contract,
};

fn ours(transport: TransportKind) -> Command {
    let mut sleeper = command(example("sleeper"));
    sleeper.args(["--transport", transport.as_str()]);
    sleeper
}

fn ours_without_the_extension(transport: TransportKind) -> Command {
    let mut sleeper = ours(transport);
    sleeper.arg("--contract-only");
    sleeper
}

/// The contract's sleeper on `FastMCP` of `mcp` 1.30.
fn in_python(transport: TransportKind) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/interop/reference_sleeper.py");
    let mut sleeper = command(python("mcp-1.30.0"));
    sleeper
        .arg(script)
        .env("MCP_TRANSPORT", transport.as_str())
        // Nobody listens: push is the optimisation, poll is the truth.
        .env("RVC_CALLBACK_URL", "http://127.0.0.1:1/")
        .env("RVC_EVENT_SECRET", "not-for-production");
    sleeper
}

impl Sleeper {
    fn start(self, port: &str) -> Server {
        let mut command = (self.command)(self.transport);
        command.env("MCP_PORT", port);
        Server::spawn(command)
    }
}

/// A host whose one registration is the sleeper.
struct Host {
    sleeper: Sleeper,
    server: Server,
    durable: Durable,
}

impl Host {
    async fn of(sleeper: Sleeper) -> Self {
        let server = sleeper.start("0");
        let mut settings = Settings::default();
        settings.min_poll_interval = Duration::from_millis(50);
        settings.max_poll_interval = Duration::from_millis(200);
        let store = SqliteOptions::memory().open().expect("memory is a store");
        let options = SupervisorOptions::new().settings(settings);
        let dialer = HttpDialer::new().expect("TLS can be set up");
        let durable = Durable::new(store, dialer, options);
        let registration = Registration {
            id: "sleeper".parse().expect("an id"),
            owner: OwnerId::local(),
            endpoint: server.url.parse().expect("a URL"),
            transport: sleeper.transport,
            enabled: true,
        };
        let put = durable.put_registration(registration).await;
        put.expect("a registration is stored");
        durable.supervise();
        Self {
            sleeper,
            server,
            durable,
        }
    }

    /// Calls a tool; the action has the call's name.
    async fn submit(&self, action: &str, tool: &str, arguments: Value) {
        let Value::Object(arguments) = arguments else {
            panic!("arguments are an object");
        };
        let registration = "sleeper".parse().expect("an id");
        let submission = Submission::new(id(action), registration, tool).arguments(arguments);
        let submitted = self.durable.submit(submission).await;
        submitted.expect("an action is stored");
    }

    async fn outcome(&self, action: &str) -> Outcome {
        let outcome = self.durable.outcome(&id(action)).await;
        outcome.expect("the action is known")
    }

    async fn row(&self, action: &str) -> Linkage {
        let row = self.durable.action(&id(action)).await;
        row.expect("the store answers")
            .expect("the action is known")
    }

    /// Starts an hour of sleep and waits until it is known to be under way.
    async fn sleep_for_long(&self, action: &str) {
        let an_hour = json!({"duration_s": 3600.0});
        self.submit(action, "sleep_task", an_hour).await;
        loop {
            let row = self.row(action).await;
            assert!(row.outcome.is_none(), "{row:?}");
            if row.phase == Phase::Working && row.polls > 0 {
                assert_eq!(row.remote.expect("it is linked").kind, self.sleeper.kind);
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The server dies, and another one comes up in its place.
    fn kill_and_restart_the_server(&mut self) {
        let authority = self.server.url.rsplit(':').next().expect("it has a port");
        let port = authority
            .split('/')
            .next()
            .expect("a path follows")
            .to_owned();
        self.server.kill();
        self.server = self.sleeper.start(&port);
    }

    fn is_contract(&self) -> bool {
        self.sleeper.kind == RemoteKind::Contract
    }
}

fn id(action: &str) -> ActionId {
    action.parse().expect("an id")
}

fn code(outcome: &Outcome) -> &str {
    outcome.error_code.as_ref().map_or("", ErrorCode::as_str)
}

/// A task completes, fails, is cancelled, and is lost with its server.
async fn lives(sleeper: Sleeper) {
    let mut host = Host::of(sleeper).await;

    host.submit("done", "sleep_task", json!({"duration_s": 1.5}))
        .await;
    let outcome = host.outcome("done").await;
    assert_eq!(outcome.phase, Phase::Completed, "{outcome:?}");
    let result = outcome.result.expect("it completed");
    assert_eq!(result.structured_content, Some(json!({"slept_s": 1.5})));
    let row = host.row("done").await;
    assert_eq!(
        (row.starts, row.remote.expect("a task").kind),
        (1, sleeper.kind)
    );

    host.submit(
        "failed",
        "sleep_task",
        json!({"duration_s": 0.2, "fail": true}),
    )
    .await;
    let outcome = host.outcome("failed").await;
    assert_eq!(outcome.phase, Phase::Failed, "{outcome:?}");
    if host.is_contract() {
        assert_eq!(code(&outcome), "FAKE_FAILURE");
        assert_eq!(outcome.message, "The sleeper was asked to fail.");
    } else {
        // For MCP a task that failed is a tool's error, with the contract's failure in it.
        assert_eq!(code(&outcome), "TOOL_ERROR");
        let result = outcome.result.expect("an error is a result");
        let failure = result.structured_content.expect("it is structured");
        assert_eq!(failure["error_code"], "FAKE_FAILURE");
    }

    host.sleep_for_long("cancelled").await;
    let cancelled = host.durable.cancel_action(&id("cancelled")).await;
    cancelled.expect("a cancel is stored");
    host.durable.idle().await.expect("the store answers");
    let row = host.row("cancelled").await;
    assert_eq!(row.phase, Phase::Cancelled);
    assert!(row.clean_up.acknowledged_at.is_some());
    // And the server says the same to everybody else: nothing sleeps any more.
    host.submit("list", "list_tasks", json!({"states": ["running"]}))
        .await;
    let listed = host.outcome("list").await.result.expect("a list");
    let listed: Value = serde_json::from_str(&listed.text).expect("it is JSON");
    assert_eq!(listed, json!({"tasks": []}));

    host.sleep_for_long("lost").await;
    host.kill_and_restart_the_server();
    let outcome = host.outcome("lost").await;
    let expected = if host.is_contract() {
        "SERVER_RESTARTED"
    } else {
        "REMOTE_TASK_MISSING"
    };
    assert_eq!((outcome.phase, code(&outcome)), (Phase::Failed, expected));
    assert_eq!(host.row("lost").await.starts, 1);

    // The new server is used at once.
    host.submit("again", "sleep_task", json!({"duration_s": 0.1}))
        .await;
    assert_eq!(host.outcome("again").await.phase, Phase::Completed);
    host.durable.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: cargo xtask ci interop"]
async fn sleepers_extension_tasks_are_followed_over_streamable_http() {
    lives(EXTENSION).await;
}

#[tokio::test]
#[ignore = "needs the peers: cargo xtask ci interop"]
async fn sleepers_contract_tasks_are_followed_over_streamable_http() {
    lives(CONTRACT).await;
}

#[tokio::test]
#[ignore = "needs the peers: cargo xtask ci interop"]
async fn sleepers_contract_tasks_are_followed_over_sse() {
    lives(CONTRACT_OVER_SSE).await;
}

#[tokio::test]
#[ignore = "needs the peers: cargo xtask ci interop"]
async fn pythons_contract_tasks_are_followed_over_streamable_http() {
    lives(PYTHON).await;
}

#[tokio::test]
#[ignore = "needs the peers: cargo xtask ci interop"]
async fn pythons_contract_tasks_are_followed_over_sse() {
    lives(PYTHON_OVER_SSE).await;
}

//! A server under test.

use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::server::tool::ToolRouter;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use rvc_mcp::{CallContext, ServeConfig, ServeError, Server, Transport, refused, started};
use rvc_tasks::{CancelMode, Map, NoSink, TaskManager, TaskSpec, Trigger, payload};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Drives until it is cancelled.
#[derive(Clone)]
pub(crate) struct Robot {
    pub(crate) manager: TaskManager,
    tools: ToolRouter<Self>,
    /// Lets a stubborn drive that was cancelled stop.
    pub(crate) halt: Arc<Notify>,
    /// Lets a patient call answer.
    pub(crate) answer: Arc<Notify>,
}

impl Robot {
    pub(crate) fn new() -> Self {
        let manager = TaskManager::new("navigation".parse().unwrap(), NoSink);
        Self {
            tools: Self::tool_router() + rvc_mcp::task_tools(manager.clone()),
            manager,
            halt: Arc::default(),
            answer: Arc::default(),
        }
    }

    /// Runs it until `stop` is cancelled.
    pub(crate) async fn listen(&self, transport: Transport) -> Running {
        let config = ServeConfig::default()
            .with_transport(transport)
            .with_port(0);
        let server = Server::bind(config).await.unwrap();
        let url = server.url().unwrap();
        let stop = CancellationToken::new();
        let (robot, manager) = (self.clone(), self.manager.clone());
        let run = server.run(
            move || robot.clone(),
            manager,
            stop.clone().cancelled_owned(),
        );
        Running {
            url,
            stop,
            ended: tokio::spawn(run),
        }
    }
}

/// A server in a task of its own.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) stop: CancellationToken,
    ended: tokio::task::JoinHandle<Result<(), ServeError>>,
}

impl Running {
    /// Ends it in order.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.ended.await.unwrap().unwrap();
    }
}

#[tool_router]
impl Robot {
    #[tool(description = "Drives until it is cancelled. Returns a task_id at once.")]
    async fn drive(&self, call: CallContext, arguments: JsonObject) -> CallToolResult {
        let triggers = match arguments.get("triggers") {
            Some(Value::Array(triggers)) => triggers.clone(),
            _ => Vec::new(),
        };
        let triggers = triggers.into_iter().map(serde_json::from_value);
        let triggers = match triggers.collect::<Result<Vec<Trigger>, _>>() {
            Ok(triggers) => triggers,
            Err(error) => return refused(&error),
        };
        let halt = arguments
            .contains_key("stubborn")
            .then(|| Arc::clone(&self.halt));
        let spec = TaskSpec::new("drive")
            .triggers(triggers)
            .evaluates(["eta_below"])
            .cancel_mode(CancelMode::Cooperative {
                grace: Some(Duration::from_secs(60)),
            })
            .log_context(call.into());
        let body = async move |task: rvc_tasks::TaskContext| {
            task.cancelled().await;
            if let Some(halt) = halt {
                halt.notified().await;
            }
            Ok(Map::new())
        };
        match self.manager.start(spec, body) {
            Ok(info) => started(info),
            Err(error) => refused(&error),
        }
    }

    #[tool(description = "Blocks its thread for an hour. Returns a task_id at once.")]
    async fn block(&self) -> CallToolResult {
        let spec = TaskSpec::new("block").cancel_mode(CancelMode::Cooperative {
            grace: Some(Duration::from_millis(50)),
        });
        let body = async |task: rvc_tasks::TaskContext| {
            task.progress(payload! { "blocks": true })?;
            // Never do this in a body.
            std::thread::sleep(Duration::from_secs(60 * 60));
            Ok(Map::new())
        };
        match self.manager.start(spec, body) {
            Ok(info) => started(info),
            Err(error) => refused(&error),
        }
    }

    #[tool(description = "Answers with its arguments.")]
    async fn echo(&self, arguments: JsonObject) -> CallToolResult {
        let text = serde_json::to_string(&arguments).unwrap();
        CallToolResult::success(vec![ContentBlock::text(text)])
    }

    #[tool(description = "Answers when it is told to.")]
    async fn wait(&self, cancelled: CancellationToken) -> CallToolResult {
        let text = tokio::select! {
            () = self.answer.notified() => "waited",
            () = cancelled.cancelled() => "cut off",
        };
        CallToolResult::success(vec![ContentBlock::text(text)])
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Robot {}

/// A tool call's arguments whose keys and numbers must come back as they are.
pub(crate) const ARGUMENTS: &str = concat!(
    r#"{"triggers":[{"type":"eta_below","zeta":1,"alpha":{"z":[3,1,2],"a":null},"#,
    r#""seconds":10,"exact":0.1,"big":18446744073709551615,"small":5e-324,"beta":-0.0}]}"#,
);

/// The `triggers` of [`ARGUMENTS`] as text.
pub(crate) fn triggers_text() -> &'static str {
    let text = ARGUMENTS.strip_prefix(r#"{"triggers":"#).unwrap();
    text.strip_suffix('}').unwrap()
}

pub(crate) fn arguments() -> JsonObject {
    serde_json::from_str(ARGUMENTS).unwrap()
}

//! A perception-like server: `watch_for` runs until it is cancelled and pushes what it sees.
//!
//! ```sh
//! MCP_TRANSPORT=sse cargo run --example watcher -- --log pretty
//! ```
//!
//! This is the contract's main use today. The task may run for days: a watch event is sent and
//! forgotten, so memory does not grow with what was seen.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rmcp::handler::server::tool::{ToolRouter, schema_for_type};
use rmcp::model::{CallToolResult, JsonObject};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use rvc_examples::ServerFlags;
use rvc_mcp::{CallContext, started, task_tools};
use rvc_tasks::{EventPoster, Map, TaskContext, TaskError, TaskManager, TaskSpec, payload};
use serde::Deserialize;
use tokio::time::{MissedTickBehavior, interval};

#[tokio::main]
async fn main() -> ExitCode {
    let flags = ServerFlags::parse();
    rvc_examples::run(flags.log, Box::pin(serve(&flags))).await
}

async fn serve(flags: &ServerFlags) -> anyhow::Result<()> {
    let poster = EventPoster::from_env("perception".parse()?)?;
    let manager = TaskManager::new("perception".parse()?, poster);
    let watcher = Watcher {
        manager: manager.clone(),
        tools: Watcher::tool_router() + task_tools(manager.clone()),
    };
    rvc_mcp::serve(flags.serve_config()?, move || watcher.clone(), manager).await?;
    Ok(())
}

#[derive(Clone)]
struct Watcher {
    manager: TaskManager,
    tools: ToolRouter<Self>,
}

#[derive(Deserialize, JsonSchema)]
struct WatchFor {
    /// What to look for: `person`, `dog` or `door_open`.
    label: String,
}

#[tool_router]
impl Watcher {
    /// Start watching for something; an event is sent each time it appears. Runs until it is
    /// cancelled with `cancel_task`. Returns a `task_id` immediately.
    #[tool(input_schema = schema_for_type::<WatchFor>())]
    async fn watch_for(
        &self,
        arguments: JsonObject,
        context: CallContext,
    ) -> Result<CallToolResult, String> {
        let WatchFor { label } =
            serde_json::from_value(arguments.into()).map_err(|error| error.to_string())?;
        if !LABELS.contains(&label.as_str()) {
            return Err(format!(
                "cannot recognise {label:?}; can: {}",
                LABELS.join(", ")
            ));
        }
        self.manager
            .start(
                TaskSpec::new("watch_for").log_context(context.into()),
                |task| watch(task, label),
            )
            .map(started)
            .map_err(|error| error.to_string())
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Watcher {}

/// Never returns by itself: the cancel drops it.
async fn watch(task: TaskContext, label: String) -> Result<Map, TaskError> {
    let mut camera = interval(Duration::from_millis(500));
    // After a pause, today's picture matters and not those that were missed.
    camera.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut seen_before = false;
    let mut frame = 0;
    loop {
        camera.tick().await;
        frame += 1;
        let seen = recognise(frame) == Some(label.as_str());
        // An event says that something changed. Sending every frame would drown the brain.
        if seen && !seen_before {
            task.emit(payload! { "label": label, "frame": frame, "confidence": 0.87 })?;
        }
        seen_before = seen;
    }
}

/// A stand-in for a model: each label is in the picture for four frames, then nothing is.
fn recognise(frame: usize) -> Option<&'static str> {
    LABELS.get(frame / 4 % (LABELS.len() + 1)).copied()
}

const LABELS: [&str; 3] = ["person", "dog", "door_open"];

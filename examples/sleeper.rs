//! The contract's sleeper (its section 5): a server whose one tool pretends to work.
//!
//! ```sh
//! MCP_TRANSPORT=sse MCP_PORT=9100 cargo run --example sleeper -- --log pretty
//! ```
//!
//! With `RVC_CALLBACK_URL` and `RVC_EVENT_SECRET` set it sends signed events; without, it can be
//! polled alone. Every server has this shape: the tool is a thin entry that checks its arguments,
//! starts a task and returns at once; the body is the real work.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rmcp::handler::server::tool::{ToolRouter, schema_for_type};
use rmcp::model::{CallToolResult, JsonObject};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use rvc_examples::ServerFlags;
use rvc_mcp::{CallContext, TaskServer, started, task_tools};
use rvc_tasks::{
    EventPoster, Map, TaskContext, TaskError, TaskManager, TaskSpec, Trigger, payload,
};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    rvc_examples::run(flags.server.log, Box::pin(serve(&flags))).await
}

/// A capability server on the Async Task Contract. A flag goes before its environment variable.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    server: ServerFlags,

    /// Offer the contract alone and not the Tasks extension, as servers did before there was one
    #[arg(long)]
    contract_only: bool,
}

async fn serve(flags: &Flags) -> anyhow::Result<()> {
    let poster = EventPoster::from_env("sleeper".parse()?)?;
    let manager = TaskManager::new("sleeper".parse()?, poster);
    let sleeper = Sleeper {
        manager: manager.clone(),
        tools: Sleeper::tool_router() + task_tools(manager.clone()),
    };
    let config = flags.server.serve_config()?;
    if flags.contract_only {
        rvc_mcp::serve(config, move || sleeper.clone(), manager).await?;
    } else {
        let server = TaskServer::new(sleeper, &manager);
        rvc_mcp::serve(config, move || server.clone(), manager).await?;
    }
    Ok(())
}

#[derive(Clone)]
struct Sleeper {
    manager: TaskManager,
    tools: ToolRouter<Self>,
}

#[derive(Deserialize, JsonSchema)]
struct SleepTask {
    /// How long to sleep, in seconds.
    duration_s: f64,
    /// Fail at the end, to see what a failure looks like.
    #[serde(default)]
    fail: bool,
    /// Conditions that send an event when they come true: `{"type": "eta_below", "seconds": N}` or
    /// `{"type": "progress_above", "percent": N}`.
    triggers: Option<Vec<Trigger>>,
}

#[tool_router]
impl Sleeper {
    /// Start a fake long-running task that sleeps for `duration_s` seconds. Returns a `task_id`
    /// immediately.
    #[tool(input_schema = schema_for_type::<SleepTask>())]
    async fn sleep_task(
        &self,
        arguments: JsonObject,
        context: CallContext,
    ) -> Result<CallToolResult, String> {
        // Parsed here and not by rmcp's `Parameters`: a mistake is then a tool error, which the model
        // reads and can correct, and not a protocol error.
        let call: SleepTask =
            serde_json::from_value(arguments.into()).map_err(|error| error.to_string())?;
        let duration = Duration::try_from_secs_f64(call.duration_s)
            .map_err(|error| format!("duration_s: {error}"))?;
        let spec = TaskSpec::new("sleep_task")
            .triggers(call.triggers.unwrap_or_default())
            .evaluates_with("eta_below", |trigger| trigger.number("seconds").map(drop))
            .est_duration(duration)
            .log_context(context.into());
        self.manager
            .start(spec, move |task| sleep(task, call.duration_s, call.fail))
            .map(started)
            .map_err(|error| error.to_string())
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Sleeper {}

/// Reports once a second, and at the end. A cancel drops it at its next await.
async fn sleep(task: TaskContext, duration_s: f64, fail: bool) -> Result<Map, TaskError> {
    let start = Instant::now();
    let mut elapsed_s = 0.0;
    while elapsed_s < duration_s {
        elapsed_s = duration_s.min(elapsed_s + 1.0);
        sleep_until(start + Duration::from_secs_f64(elapsed_s)).await;
        let eta_s = duration_s - elapsed_s;
        task.progress(payload! { "eta_s": eta_s, "percent": 100.0 * elapsed_s / duration_s })?;
        for trigger in task.triggers() {
            if trigger.kind() == "eta_below" && eta_s < trigger.number("seconds")? {
                // The manager sees to it that it fires once, or every time with "repeat": true.
                task.fire_trigger(trigger, payload! { "eta_s": eta_s })?;
            }
        }
    }
    if fail {
        return Err(
            TaskError::new("FAKE_FAILURE", "The sleeper was asked to fail.")
                .suggestion("retry_without_fail"),
        );
    }
    Ok(payload! { "slept_s": duration_s })
}

//! The contract's sleeper (its section 5), in a hurry: it reports every 0.4 s.

use std::time::Duration;

use rmcp::handler::server::tool::{ToolRouter, schema_for_type};
use rmcp::model::{CallToolResult, JsonObject};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use rvc_mcp::{CallContext, started, task_tools};
use rvc_tasks::{Map, TaskContext, TaskError, TaskManager, TaskSpec, Trigger, payload};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

/// A server whose one tool pretends to work.
#[derive(Clone)]
pub(crate) struct Sleeper {
    manager: TaskManager,
    tools: ToolRouter<Self>,
}

#[derive(Deserialize, JsonSchema)]
struct SleepTask {
    /// How long to sleep, in seconds.
    duration_s: f64,
    /// Fail at the end.
    #[serde(default)]
    fail: bool,
    /// Conditions that send an event when they come true: {"type": "eta_below", "seconds": N} or
    /// {"type": "progress_above", "percent": N}.
    #[serde(default)]
    triggers: Vec<Trigger>,
}

#[tool_router]
impl Sleeper {
    pub(crate) fn new(manager: TaskManager) -> Self {
        Self {
            tools: Self::tool_router() + task_tools(manager.clone()),
            manager,
        }
    }

    /// Start a fake long-running task that sleeps for duration_s seconds. Returns a task_id
    /// immediately.
    #[tool(input_schema = schema_for_type::<SleepTask>())]
    async fn sleep_task(
        &self,
        arguments: JsonObject,
        context: CallContext,
    ) -> Result<CallToolResult, String> {
        let call: SleepTask =
            serde_json::from_value(arguments.into()).map_err(|error| error.to_string())?;
        let duration = Duration::try_from_secs_f64(call.duration_s)
            .map_err(|error| format!("duration_s: {error}"))?;
        let spec = TaskSpec::new("sleep_task")
            .triggers(call.triggers)
            .evaluates_with("eta_below", |trigger| trigger.number("seconds").map(drop))
            .est_duration(duration)
            .log_context(context.into());
        self.manager
            .start(spec, async move |task| {
                sleep(&task, call.duration_s, call.fail).await
            })
            .map(started)
            .map_err(|error| error.to_string())
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Sleeper {}

async fn sleep(task: &TaskContext, duration_s: f64, fail: bool) -> Result<Map, TaskError> {
    let start = Instant::now();
    let mut ticks = 0.0;
    let mut elapsed_s = 0.0;
    while elapsed_s < duration_s {
        ticks += 1.0;
        // Multiplied, because a sum of ticks would fall short of the duration by a rounding.
        elapsed_s = duration_s.min(ticks * TICK_S);
        sleep_until(start + Duration::from_secs_f64(elapsed_s)).await;
        let eta_s = one_digit(duration_s - elapsed_s);
        let percent = one_digit(100.0 * elapsed_s / duration_s);
        task.progress(payload! { "eta_s": eta_s, "percent": percent })?;
        for trigger in task.triggers() {
            if trigger.kind() == "eta_below" && eta_s < trigger.number("seconds")? {
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

fn one_digit(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

const TICK_S: f64 = 0.4;

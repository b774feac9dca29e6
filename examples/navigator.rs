//! A navigation server with a simulated robot: `navigate_to` drives along a corridor.
//!
//! ```sh
//! MCP_TRANSPORT=sse cargo run --example navigator -- --log pretty
//! ```
//!
//! It evaluates `eta_below` and `zone_entered` itself; `progress_above` comes with the kit. A
//! cancel makes it brake first: only when the robot stands still is the task `cancelled`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use rmcp::handler::server::tool::{ToolRouter, schema_for_type};
use rmcp::model::{CallToolResult, JsonObject};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use rvc_examples::ServerFlags;
use rvc_mcp::{CallContext, started, task_tools};
use rvc_tasks::{
    CancelMode, EventPoster, Map, TaskContext, TaskError, TaskManager, TaskSpec, Trigger, payload,
};
use serde::Deserialize;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::interval;

#[tokio::main]
async fn main() -> ExitCode {
    let flags = ServerFlags::parse();
    rvc_examples::run(flags.log, Box::pin(serve(&flags))).await
}

async fn serve(flags: &ServerFlags) -> anyhow::Result<()> {
    let poster = EventPoster::from_env("navigation".parse()?)?;
    let manager = TaskManager::new("navigation".parse()?, poster);
    let navigator = Navigator {
        manager: manager.clone(),
        robot: Arc::new(Mutex::new(Robot {
            at_m: 0.0,
            speed: 0.0,
        })),
        tools: Navigator::tool_router() + task_tools(manager.clone()),
    };
    rvc_mcp::serve(flags.serve_config()?, move || navigator.clone(), manager).await?;
    Ok(())
}

#[derive(Clone)]
struct Navigator {
    manager: TaskManager,
    robot: Arc<Mutex<Robot>>,
    tools: ToolRouter<Self>,
}

#[derive(Deserialize, JsonSchema)]
struct NavigateTo {
    /// Where to drive: dock, kitchen or lab.
    place: String,
    /// Conditions that send an event when they come true: `{"type": "eta_below", "seconds": N}`,
    /// `{"type": "zone_entered", "zone": Z}` or `{"type": "progress_above", "percent": N}`.
    triggers: Option<Vec<Trigger>>,
}

#[tool_router]
impl Navigator {
    /// Start driving to a place. Returns a `task_id` immediately.
    #[tool(input_schema = schema_for_type::<NavigateTo>())]
    async fn navigate_to(
        &self,
        arguments: JsonObject,
        context: CallContext,
    ) -> Result<CallToolResult, String> {
        let NavigateTo { place, triggers } =
            serde_json::from_value(arguments.into()).map_err(|error| error.to_string())?;
        let Some(&(_, goal_m)) = PLACES.iter().find(|(name, _)| *name == place) else {
            return Err(format!("no place {place:?}; there are: dock, kitchen, lab"));
        };
        // The body holds the robot until it ends, also when it is dropped.
        let Ok(robot) = Arc::clone(&self.robot).try_lock_owned() else {
            return Err("the robot is driving: wait for that task or cancel it".to_owned());
        };
        let spec = TaskSpec::new("navigate_to")
            .triggers(triggers.unwrap_or_default())
            .evaluates_with("eta_below", |trigger| trigger.number("seconds").map(drop))
            .evaluates_with("zone_entered", |trigger| trigger.text("zone").map(drop))
            .est_duration(Duration::from_secs_f64(robot.eta_s(goal_m)))
            .min_progress_interval(Duration::from_millis(500))
            .cancel_mode(CancelMode::Cooperative { grace: None })
            .log_context(context.into());
        self.manager
            .start(spec, move |task| drive(robot, goal_m, task))
            .map(started)
            .map_err(|error| error.to_string())
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Navigator {}

/// Drives until the robot is there, or until it stands still after a cancel.
async fn drive(
    mut robot: OwnedMutexGuard<Robot>,
    goal_m: f64,
    task: TaskContext,
) -> Result<Map, TaskError> {
    let whole_m = (goal_m - robot.at_m).abs();
    let mut zone = robot.zone();
    let mut control = interval(CONTROL_PERIOD);
    let mut left_m = whole_m;
    while left_m > 0.0 {
        control.tick().await;
        if task.is_cancelled() {
            // The cancel is answered when this is done, and says `stopped: true`.
            while robot.speed > 0.0 {
                robot.brake(goal_m);
                control.tick().await;
            }
            break;
        }
        robot.drive(goal_m);

        left_m = (goal_m - robot.at_m).abs();
        let eta_s = robot.eta_s(goal_m);
        let percent = 100.0 * (1.0 - left_m / whole_m);
        task.progress(payload! { "eta_s": eta_s, "distance_m": left_m, "percent": percent })?;
        let entered = (robot.zone() != zone).then(|| robot.zone());
        zone = robot.zone();
        for trigger in task.triggers() {
            let due = match trigger.kind() {
                "eta_below" => eta_s < trigger.number("seconds")?,
                "zone_entered" => entered == Some(trigger.text("zone")?),
                _ => false,
            };
            if due {
                task.fire_trigger(trigger, payload! { "eta_s": eta_s, "zone": zone })?;
            }
        }
    }
    Ok(payload! { "at_m": robot.at_m, "zone": zone })
}

/// A robot on a straight line, which reaches its full speed at once and brakes gently.
struct Robot {
    at_m: f64,
    speed: f64,
}

impl Robot {
    fn eta_s(&self, goal_m: f64) -> f64 {
        (goal_m - self.at_m).abs() / FULL_SPEED
    }

    fn drive(&mut self, goal_m: f64) {
        self.speed = FULL_SPEED;
        self.advance(goal_m);
    }

    fn brake(&mut self, goal_m: f64) {
        self.speed = (self.speed - BRAKING * CONTROL_PERIOD.as_secs_f64()).max(0.0);
        self.advance(goal_m);
    }

    /// Moves for one control period, never past the goal.
    fn advance(&mut self, goal_m: f64) {
        let step_m = self.speed * CONTROL_PERIOD.as_secs_f64();
        let left_m = goal_m - self.at_m;
        self.at_m = if left_m.abs() <= step_m {
            goal_m
        } else {
            self.at_m + step_m.copysign(left_m)
        };
    }

    fn zone(&self) -> &'static str {
        let (zone, _) = ZONES
            .into_iter()
            .rfind(|(_, from_m)| self.at_m >= *from_m)
            .expect("the first zone begins at the dock, where the line begins");
        zone
    }
}

/// In metres along the line.
const PLACES: [(&str, f64); 3] = [("dock", 0.0), ("kitchen", 6.0), ("lab", 12.0)];
/// Where each zone begins.
const ZONES: [(&str, f64); 4] = [
    ("dock", 0.0),
    ("corridor", 1.0),
    ("kitchen", 5.0),
    ("lab", 10.0),
];
/// In metres a second.
const FULL_SPEED: f64 = 1.0;
/// In metres a second squared.
const BRAKING: f64 = 0.8;
const CONTROL_PERIOD: Duration = Duration::from_millis(100);

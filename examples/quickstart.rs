//! The smallest whole server: a robot that waves. The README shows it.

use rmcp::handler::server::{tool::ToolRouter, wrapper::Parameters};
use rmcp::{ServerHandler, model::CallToolResult, schemars, tool, tool_handler, tool_router};
use rvc_mcp::{ServeConfig, TaskServer, logging, refused, started, task_tools};
use rvc_tasks::{EventPoster, TaskManager, TaskSpec, payload};
use tokio::time::{Duration, sleep};

#[derive(Clone)]
struct Robot(TaskManager, ToolRouter<Self>);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Wave {
    times: u32,
}

#[tool_router]
impl Robot {
    #[tool(description = "Start waving. Returns a task_id immediately.")]
    async fn wave(&self, Parameters(Wave { times }): Parameters<Wave>) -> CallToolResult {
        let task = self.0.start(TaskSpec::new("wave"), async move |task| {
            for n in 1..=times {
                sleep(Duration::from_secs(1)).await;
                task.progress(payload! { "waved": n })?;
            }
            Ok(payload! { "waved": times })
        });
        task.map_or_else(|error| refused(&error), started)
    }
}

#[tool_handler(router = self.1)]
impl ServerHandler for Robot {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    logging::init(logging::LogFormat::from_args()?)?;
    let manager = TaskManager::new("waver".parse()?, EventPoster::from_env("waver".parse()?)?);
    let tools = Robot::tool_router() + task_tools(manager.clone());
    let robot = TaskServer::new(Robot(manager.clone(), tools), &manager);
    Ok(rvc_mcp::serve(ServeConfig::from_env()?, move || robot.clone(), manager).await?)
}

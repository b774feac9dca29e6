//! The tools that start tasks, and the one beside them that does not.

use std::time::Duration;

use rmcp::handler::server::tool::InputResponses;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResponse, CallToolResult, ElicitationSchema};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ErrorData, tool, tool_router};
use rvc_mcp::{form, protocol_error, refused, started};
use rvc_tasks::{Map, TaskContext, TaskError, TaskSpec, payload};
use serde::Deserialize;
use tokio::time::sleep;

use crate::Fixtures;
use crate::rounds::{NAME, ask, field, filled_in};

#[derive(Deserialize, JsonSchema)]
struct Greet {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct SlowCompute {
    seconds: f64,
}

#[derive(Deserialize, JsonSchema)]
struct ConfirmDelete {
    filename: String,
}

#[tool_router(router = jobs, vis = "pub(crate)")]
impl Fixtures {
    /// Greet somebody, at once and without a task.
    #[tool]
    async fn greet(&self, Parameters(Greet { name }): Parameters<Greet>) -> String {
        format!("Hello, {name}!")
    }

    /// Compute for some seconds.
    #[tool]
    async fn slow_compute(
        &self,
        Parameters(SlowCompute { seconds }): Parameters<SlowCompute>,
    ) -> CallToolResult {
        let duration = match Duration::try_from_secs_f64(seconds) {
            Ok(duration) => duration,
            Err(error) => return refused(&error),
        };
        let spec = TaskSpec::new("slow_compute").est_duration(duration);
        self.run(spec, async move |_task| {
            sleep(duration).await;
            Ok(payload! { "computed_s": seconds })
        })
    }

    /// Fail, as work can fail.
    #[tool]
    async fn failing_job(&self) -> CallToolResult {
        self.run(TaskSpec::new("failing_job"), async |_task| {
            sleep(Duration::from_secs(1)).await;
            Err(TaskError::new(
                "INTENDED",
                "The job fails as it was asked to.",
            ))
        })
    }

    /// Fail with an error of the protocol.
    #[tool]
    async fn protocol_error_job(&self) -> CallToolResult {
        self.run(TaskSpec::new("protocol_error_job"), async |_task| {
            sleep(Duration::from_millis(200)).await;
            let error = ErrorData::internal_error("the job fails as it was asked to", None);
            Err(protocol_error(&error))
        })
    }

    /// Delete a file if the user agrees.
    #[tool]
    async fn confirm_delete(
        &self,
        Parameters(ConfirmDelete { filename }): Parameters<ConfirmDelete>,
    ) -> CallToolResult {
        self.run(TaskSpec::new("confirm_delete"), async move |task| {
            let schema = ElicitationSchema::builder().required_bool("confirm");
            let question = form(format!("Delete {filename}?"), schema.build_unchecked());
            let answer = task.ask("confirm", question).await?;
            let content = answer.content.unwrap_or_default();
            Ok(payload! { "filename": filename, "deleted": content["confirm"] == true })
        })
    }

    /// Ask two questions at once.
    #[tool]
    async fn multi_input(&self) -> CallToolResult {
        self.run(TaskSpec::new("multi_input"), async |task| {
            let question = |message| {
                let schema = ElicitationSchema::builder().required_string("name");
                form(message, schema.build_unchecked())
            };
            let (first, second) = tokio::try_join!(
                task.ask("first", question("The first name?")),
                task.ask("second", question("The second name?")),
            )?;
            Ok(payload! { "first": first.content, "second": second.content })
        })
    }

    /// Ask for a name before the task, in a round of the call itself; greet with it in the task.
    #[tool]
    async fn test_tool_with_task(&self, responses: InputResponses) -> CallToolResponse {
        let Some(name) = field(&responses, "user_name", "name") else {
            return ask([("user_name", filled_in("What is your name?", NAME))], None);
        };
        let spec = TaskSpec::new("test_tool_with_task");
        self.run(spec, async move |_task| {
            sleep(Duration::from_millis(200)).await;
            Ok(payload! { "greeting": format!("Hello, {name}!") })
        })
        .into()
    }
}

impl Fixtures {
    fn run<B, F>(&self, spec: TaskSpec, body: B) -> CallToolResult
    where
        B: FnOnce(TaskContext) -> F + Send + 'static,
        F: Future<Output = Result<Map, TaskError>> + Send + 'static,
    {
        let task = self.manager.start(spec, body);
        task.map_or_else(|error| refused(&error), started)
    }
}

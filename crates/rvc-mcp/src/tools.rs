//! The three tools that let a caller poll and cancel (contract section 3.3), and one to wait.

mod wait;

use std::str::FromStr;
use std::sync::Arc;

use rmcp::handler::server::tool::{ToolRoute, ToolRouter};
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use rvc_tasks::{TaskId, TaskManager, TaskState};
use serde_json::{Value, json};

use self::wait::{wait_task, wait_task_tool};
use crate::answer::{json_text, refused};
use crate::call_log::logged;

/// `get_task`, `cancel_task`, `list_tasks` and `wait_task`, for the router of any handler.
///
/// Each answers with one text block of JSON (contract decisions 21 and 26):
///
/// | Tool | Answer |
/// |---|---|
/// | `get_task {task_id}` | the `TaskInfo`, or `{"error": "not_found"}` |
/// | `cancel_task {task_id}` | `{"task_id", "state", "stopped"}` once the body has stopped or its grace is over, or `{"error": "not_found"}` |
/// | `list_tasks {states?}` | `{"tasks": [TaskInfo, …]}`, oldest first |
/// | `wait_task {task_id, timeout_s?}` | the `TaskInfo` at the task's end or after so many seconds (20, at most 25), or `{"error": "not_found"}` |
///
/// Arguments that are wrong are tool results with `isError: true` that say what is right.
///
/// A client that hangs up while its `cancel_task` waits changes nothing: the manager drives the
/// teardown, not the call.
///
/// # Examples
///
/// ```
/// use rmcp::handler::server::tool::ToolRouter;
/// use rvc_mcp::task_tools;
/// use rvc_tasks::TaskManager;
///
/// #[derive(Clone)]
/// struct Robot {
///     tools: ToolRouter<Self>,
/// }
///
/// impl Robot {
///     fn new(manager: TaskManager) -> Self {
///         Self {
///             tools: Self::tool_router() + task_tools(manager),
///         }
///     }
/// }
///
/// #[rmcp::tool_router]
/// impl Robot {
///     #[rmcp::tool(description = "Says where the robot is.")]
///     async fn position(&self) -> String {
///         "in the lab".to_owned()
///     }
/// }
///
/// #[rmcp::tool_handler(router = self.tools)]
/// impl rmcp::ServerHandler for Robot {}
/// ```
#[must_use]
pub fn task_tools<S: Send + Sync + 'static>(manager: TaskManager) -> ToolRouter<S> {
    let get = manager.clone();
    let cancel = manager.clone();
    let wait = manager.clone();
    ToolRouter::new()
        .with_route(route(get_task_tool(), move |arguments| {
            let manager = get.clone();
            async move { get_task(&manager, &arguments) }
        }))
        .with_route(route(cancel_task_tool(), move |arguments| {
            let manager = cancel.clone();
            async move { cancel_task(&manager, &arguments).await }
        }))
        .with_route(route(wait_task_tool(), move |arguments| {
            let manager = wait.clone();
            async move { wait_task(&manager, &arguments).await }
        }))
        .with_route(route(list_tasks_tool(), move |arguments| {
            let manager = manager.clone();
            async move { list_tasks(&manager, &arguments) }
        }))
}

/// A route whose call sees the arguments, and nothing of the handler.
fn route<S, F, Fut>(tool: Tool, call: F) -> ToolRoute<S>
where
    S: Send + Sync + 'static,
    F: Fn(JsonObject) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<CallToolResult, ArgumentError>> + Send + 'static,
{
    ToolRoute::new_dyn(tool, move |context| {
        let ids = (&context.request_context).into();
        let answer = call(context.arguments.unwrap_or_default());
        Box::pin(async move {
            let answer = async {
                let result = answer.await.unwrap_or_else(|error| refused(&error));
                Ok(result.into())
            };
            logged(&context.name, &ids, answer).await
        })
    })
}

fn get_task_tool() -> Tool {
    let description = "Check on one long-running task that another tool has started: its state \
        (running, succeeded, failed, cancelled), its latest progress, and its result or failure. \
        Only for the status of work already started; it starts nothing. \
        Answers {\"error\": \"not_found\"} for a task that this server does not know.";
    Tool::new("get_task", description, task_id_schema()).with_annotations(
        ToolAnnotations::with_title("Check on a task")
            .read_only(true)
            .open_world(false),
    )
}

fn cancel_task_tool() -> Tool {
    let description = "Stop one long-running task that another tool has started. \
        Only for ending work already started; it starts nothing. Waits until the work has \
        stopped: \"stopped\": false in the answer means that the robot may still be moving. \
        A task that has ended keeps its state. \
        Answers {\"error\": \"not_found\"} for a task that this server does not know.";
    Tool::new("cancel_task", description, task_id_schema()).with_annotations(
        ToolAnnotations::with_title("Cancel a task")
            .read_only(false)
            .destructive(true)
            .idempotent(true)
            .open_world(false),
    )
}

fn list_tasks_tool() -> Tool {
    let description = "List the long-running tasks that other tools have started, oldest first: \
        those that run, and those that ended lately. \
        Only for the status of work already started; it starts nothing.";
    Tool::new("list_tasks", description, states_schema()).with_annotations(
        ToolAnnotations::with_title("List tasks")
            .read_only(true)
            .open_world(false),
    )
}

fn task_id_property() -> Value {
    json!({
        "type": "string",
        "description":
            "The task_id that was returned when the task was started, such as nav-7f3a2b.",
    })
}

fn task_id_schema() -> Arc<JsonObject> {
    schema(json!({
        "type": "object",
        "properties": {
            "task_id": task_id_property(),
        },
        "required": ["task_id"],
    }))
}

fn states_schema() -> Arc<JsonObject> {
    schema(json!({
        "type": "object",
        "properties": {
            "states": {
                "anyOf": [
                    {
                        "type": "array",
                        "items": {"type": "string", "enum": TaskState::ALL.map(TaskState::as_str)},
                    },
                    {"type": "null"},
                ],
                "default": null,
                "description":
                    "Only tasks in these states, such as [\"running\"]. Leave it out for all.",
            },
        },
    }))
}

fn schema(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => unreachable!("both schemas are objects"),
    }
}

fn get_task(manager: &TaskManager, arguments: &JsonObject) -> ToolAnswer {
    let info = task_id(arguments)?.and_then(|id| manager.get(&id));
    Ok(info.map_or_else(not_found, |info| json_text(&info)))
}

async fn cancel_task(manager: &TaskManager, arguments: &JsonObject) -> ToolAnswer {
    let Some(id) = task_id(arguments)? else {
        return Ok(not_found());
    };
    let Some(cancelled) = manager.cancel(&id).await else {
        return Ok(not_found());
    };
    Ok(json_text(&json!({
        "task_id": cancelled.info.task_id,
        "state": cancelled.info.state,
        "stopped": cancelled.stopped,
    })))
}

fn list_tasks(manager: &TaskManager, arguments: &JsonObject) -> ToolAnswer {
    let tasks = manager.list(&states(arguments)?);
    Ok(json_text(&json!({ "tasks": tasks })))
}

type ToolAnswer = Result<CallToolResult, ArgumentError>;

fn not_found() -> CallToolResult {
    json_text(&json!({"error": "not_found"}))
}

/// The id in the arguments; none when no task can have it.
fn task_id(arguments: &JsonObject) -> Result<Option<TaskId>, ArgumentError> {
    match arguments.get("task_id") {
        Some(Value::String(text)) => Ok(TaskId::from_str(text).ok()),
        Some(other) => Err(ArgumentError::TaskId(kind(other))),
        None => Err(ArgumentError::NoTaskId),
    }
}

/// The states in the arguments; none means all.
fn states(arguments: &JsonObject) -> Result<Vec<TaskState>, ArgumentError> {
    let names = match arguments.get("states") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(names)) => names,
        Some(other) => return Err(ArgumentError::States(kind(other))),
    };
    names
        .iter()
        .map(|name| match name {
            Value::String(name) => name.parse().map_err(|_| ArgumentError::State(name.clone())),
            other => Err(ArgumentError::StateType(kind(other))),
        })
        .collect()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Why a tool's arguments were refused, written for a model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ArgumentError {
    #[error("task_id is required: the string that was returned when the task was started")]
    NoTaskId,
    #[error("task_id must be a string, not {0}")]
    TaskId(&'static str),
    #[error("states must be an array of strings, not {0}; valid states are {VALID}")]
    States(&'static str),
    #[error("each state must be a string, not {0}; valid states are {VALID}")]
    StateType(&'static str),
    #[error("{0:?} is no state; valid states are {VALID}")]
    State(String),
    #[error("timeout_s must be a number of seconds from 0 to 25, not {0}")]
    Timeout(&'static str),
}

const VALID: &str = "running, succeeded, failed, cancelled";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn arguments(value: Value) -> JsonObject {
        match value {
            Value::Object(arguments) => arguments,
            _ => unreachable!("a test passes objects"),
        }
    }

    #[test]
    fn no_states_mean_all() {
        for absent in [json!({}), json!({"states": null}), json!({"states": []})] {
            assert_eq!(states(&arguments(absent)), Ok(vec![]));
        }
        let two = json!({"states": ["failed", "running"]});
        assert_eq!(
            states(&arguments(two)),
            Ok(vec![TaskState::Failed, TaskState::Running])
        );
    }

    #[test]
    fn wrong_states_are_refused_with_the_valid_ones() {
        for wrong in [
            json!("running"),
            json!({"running": true}),
            json!(3),
            json!(["running", 3]),
            json!([null]),
            json!(["Running"]),
            json!(["working"]),
            json!([""]),
        ] {
            let error = states(&arguments(json!({ "states": wrong }))).unwrap_err();
            assert!(error.to_string().contains(VALID), "{error}");
        }
    }

    #[test]
    fn the_valid_states_are_the_ones_of_the_contract() {
        assert_eq!(VALID, TaskState::ALL.map(TaskState::as_str).join(", "));
    }

    #[test]
    fn a_task_id_is_a_string() {
        for wrong in [json!(7), json!(null), json!(["nav-7f3a2b"]), json!({})] {
            let error = task_id(&arguments(json!({ "task_id": wrong }))).unwrap_err();
            assert!(matches!(error, ArgumentError::TaskId(_)));
        }
        assert_eq!(task_id(&arguments(json!({}))), Err(ArgumentError::NoTaskId));
        let id = task_id(&arguments(json!({"task_id": "nav-7f3a2b"})));
        assert_eq!(id.unwrap().unwrap().as_str(), "nav-7f3a2b");
    }

    #[test]
    fn text_that_no_task_can_have_for_an_id_is_not_found() {
        assert_eq!(task_id(&arguments(json!({"task_id": ""}))), Ok(None));
    }

    #[test]
    fn every_tool_tells_a_model_that_it_starts_nothing() {
        for tool in [get_task_tool(), cancel_task_tool(), list_tasks_tool()] {
            let description = tool.description.unwrap();
            assert!(description.contains("long-running"));
            assert!(description.contains("it starts nothing"));
        }
    }

    #[test]
    fn annotations_say_what_each_tool_does_to_the_world() {
        let hints = |tool: Tool| {
            let hints = tool.annotations.unwrap();
            (
                hints.read_only_hint,
                hints.destructive_hint,
                hints.idempotent_hint,
            )
        };
        assert_eq!(hints(get_task_tool()), (Some(true), None, None));
        assert_eq!(hints(list_tasks_tool()), (Some(true), None, None));
        assert_eq!(
            hints(cancel_task_tool()),
            (Some(false), Some(true), Some(true))
        );
    }
}

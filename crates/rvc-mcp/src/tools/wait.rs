//! `wait_task`: a model need not poll in a loop.

use std::time::Duration;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rvc_tasks::TaskManager;
use serde_json::{Value, json};

use super::{ArgumentError, ToolAnswer, kind, not_found, schema, task_id, task_id_property};
use crate::answer::json_text;

/// Callers give a call about 30 seconds.
const MOST: Duration = Duration::from_secs(25);
const DEFAULT: Duration = Duration::from_secs(20);

pub(super) fn wait_task_tool() -> Tool {
    let description = "Wait for one long-running task that another tool has started, until it \
        ends or timeout_s seconds have passed, and answer its status as get_task does. \
        Call it again while the state is running. It starts nothing. \
        Answers {\"error\": \"not_found\"} for a task that this server does not know.";
    let schema = schema(json!({
        "type": "object",
        "properties": {
            "task_id": task_id_property(),
            "timeout_s": {
                "type": "number",
                "minimum": 0,
                "maximum": MOST.as_secs(),
                "default": DEFAULT.as_secs(),
                "description": "How many seconds to wait at most.",
            },
        },
        "required": ["task_id"],
    }));
    Tool::new("wait_task", description, schema).with_annotations(
        ToolAnnotations::with_title("Wait for a task")
            .read_only(true)
            .open_world(false),
    )
}

pub(super) async fn wait_task(manager: &TaskManager, arguments: &JsonObject) -> ToolAnswer {
    let most = most(arguments)?;
    let Some(id) = task_id(arguments)? else {
        return Ok(not_found());
    };
    let info = manager.wait(&id, most).await;
    Ok(info.map_or_else(not_found, |info| json_text(&info)))
}

/// How long to wait. More than the most is taken for it: the answer says that the task runs, and
/// the next call waits on.
fn most(arguments: &JsonObject) -> Result<Duration, ArgumentError> {
    match arguments.get("timeout_s") {
        None | Some(Value::Null) => Ok(DEFAULT),
        Some(Value::Number(number)) => match number.as_f64() {
            Some(seconds) if seconds >= 0.0 => {
                let wished = Duration::try_from_secs_f64(seconds).unwrap_or(MOST);
                Ok(wished.min(MOST))
            }
            _ => Err(ArgumentError::Timeout("a negative number")),
        },
        Some(other) => Err(ArgumentError::Timeout(kind(other))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_wait_is_twenty_seconds_and_at_most_twenty_five() {
        for (timeout, seconds) in [
            (Value::Null, 20.0),
            (json!(0), 0.0),
            (json!(0.5), 0.5),
            (json!(25), 25.0),
            (json!(26), 25.0),
            (json!(1e300), 25.0),
        ] {
            let arguments = json!({ "timeout_s": timeout });
            let most = most(arguments.as_object().unwrap()).unwrap();
            assert_eq!(most, Duration::from_secs_f64(seconds), "{timeout}");
        }
        assert_eq!(most(&JsonObject::new()), Ok(DEFAULT));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for timeout in [json!(-1), json!("20"), json!([20]), json!(true)] {
            let arguments = json!({ "timeout_s": timeout });
            let error = most(arguments.as_object().unwrap()).unwrap_err();
            assert!(error.to_string().contains("0 to 25"), "{error}");
        }
    }
}

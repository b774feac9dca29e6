#![allow(clippy::unwrap_used)]

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::ElicitationSchema;
use rvc_tasks::{CallScope, Caller, NoSink, TaskManager, TaskSpec};
use serde_json::json;

use super::*;
use crate::{form, protocol_error};

fn info(extra: &Value) -> TaskInfo {
    let mut info = json!({
        "task_id": "navi-000001", "server": "navigation", "tool": "navigate_to",
        "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:01.500Z",
    });
    let all = info.as_object_mut().unwrap();
    all.extend(extra.as_object().unwrap().clone());
    serde_json::from_value(info).unwrap()
}

/// As on the wire, without what is the same for every task.
fn mapped(info: &TaskInfo, questions: Vec<OpenQuestion>, stopped: bool) -> Value {
    let handed = Handed {
        task_id: "handle",
        ttl: Some(Duration::from_secs(60)),
        poll_interval: Duration::from_secs(1),
    };
    let detailed = detailed_task(&handed, info, questions, stopped);
    let mut json = serde_json::to_value(&detailed).unwrap();
    let fields = json.as_object_mut().unwrap();
    for (key, value) in [
        ("taskId", json!("handle")),
        ("createdAt", json!("2026-01-01T00:00:00.000Z")),
        ("lastUpdatedAt", json!("2026-01-01T00:00:01.500Z")),
        ("ttlMs", json!(60_000)),
        ("pollIntervalMs", json!(1_000)),
    ] {
        assert_eq!(fields.remove(key), Some(value), "{key}");
    }
    json
}

#[test]
fn each_state_of_the_contract_has_one_status() {
    let failure = json!({
        "error_code": "DOOR_CLOSED", "message": "The door is closed.", "recoverable": true,
        "suggestions": ["ask_reception"],
    });
    let internal = json!({
        "error_code": "INTERNAL", "message": "the task's body panicked: boom",
        "recoverable": false, "suggestions": [],
    });
    let completed = |content: &Value, is_error: bool| {
        json!({"status": "completed", "result": {
            "resultType": "complete",
            "content": [{"type": "text", "text": content.to_string()}],
            "structuredContent": content,
            "isError": is_error,
        }})
    };
    let arrived = json!({"arrived": true});
    for (extra, stopped, expected) in [
        (
            json!({"state": "running"}),
            false,
            json!({"status": "working"}),
        ),
        (
            json!({"state": "running", "progress": {"percent": 60}}),
            false,
            json!({"status": "working", "statusMessage": "60 % done"}),
        ),
        (
            json!({"state": "running", "cancel_requested": true, "progress": {"percent": 60}}),
            false,
            json!({
                "status": "working",
                "statusMessage": "A cancel was accepted; waiting for the work to stop.",
            }),
        ),
        (
            json!({"state": "succeeded", "result": arrived, "progress": {"percent": 100}}),
            true,
            completed(&arrived, false),
        ),
        (
            json!({"state": "failed", "failure": failure}),
            true,
            completed(&failure, true),
        ),
        (
            json!({"state": "failed", "failure": internal}),
            false,
            completed(&internal, true),
        ),
        (
            json!({"state": "cancelled"}),
            true,
            json!({"status": "cancelled"}),
        ),
        (
            json!({"state": "cancelled"}),
            false,
            json!({
                "status": "cancelled",
                "statusMessage":
                    "Cancelled, but the work did not stop in time: the robot may still be moving.",
            }),
        ),
    ] {
        assert_eq!(mapped(&info(&extra), vec![], stopped), expected, "{extra}");
    }
}

#[test]
fn an_error_of_the_protocol_is_a_failed_task() {
    let error = protocol_error(&ErrorData::internal_error("the map server is gone", None));
    let info = info(&json!({"state": "failed", "failure": error.failure()}));
    assert_eq!(
        mapped(&info, vec![], true),
        json!({
            "status": "failed",
            "error": {"code": -32603, "message": "the map server is gone"},
        })
    );
}

/// The questions of a task whose body asks them all at once.
async fn questions_of(requests: Vec<(&'static str, Map)>) -> Vec<OpenQuestion> {
    let manager = TaskManager::new("navigation".parse().unwrap(), NoSink);
    let scope = CallScope::new(Caller::Answers);
    let body = async move |task: rvc_tasks::TaskContext| {
        let asked = requests.into_iter().map(|(key, request)| {
            let task = task.clone();
            async move { task.ask::<Value>(key, Question::new(request)).await }
        });
        futures_util::future::try_join_all(asked).await?;
        Ok(Map::new())
    };
    let start = async { manager.start(TaskSpec::new("navigate_to"), body) };
    scope.run(start).await.unwrap();
    tokio::task::yield_now().await;
    scope.started()[0].questions()
}

use rvc_tasks::{Map, Question};

#[tokio::test]
async fn a_task_that_asks_shows_its_questions() {
    let schema = ElicitationSchema::builder()
        .required_bool("confirm")
        .build_unchecked();
    let request = json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form", "message": "Delete it?",
            "requestedSchema": serde_json::to_value(&schema).unwrap(),
        },
    });
    let Value::Object(map) = request.clone() else {
        unreachable!()
    };
    let questions = questions_of(vec![("confirm", map)]).await;
    let running = info(&json!({"state": "running", "progress": {"percent": 60}}));
    assert_eq!(
        mapped(&running, questions, false),
        json!({
            "status": "input_required", "statusMessage": "60 % done",
            "inputRequests": {"confirm": request},
        })
    );
    // That is what the helper makes.
    let made = format!("{:?}", form("Delete it?", schema));
    assert!(made.contains("elicitation/create") && made.contains("Delete it?"));
}

#[tokio::test]
async fn what_is_no_request_of_the_protocol_is_not_shown() {
    let questions = questions_of(vec![("odd", Map::new())]).await;
    assert_eq!(questions.len(), 1);
    let running = info(&json!({"state": "running"}));
    assert_eq!(
        mapped(&running, questions, false),
        json!({"status": "working"})
    );
}

#[test]
fn times_are_whole_milliseconds_and_never_too_short() {
    for (nanos, written) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
        assert_eq!(millis(Duration::from_nanos(nanos)), written);
    }
    assert_eq!(millis(Duration::MAX), u64::MAX);
}

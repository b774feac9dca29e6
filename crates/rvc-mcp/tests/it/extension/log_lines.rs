//! What is logged of a call.

use rmcp::model::{CallToolRequestParams, MetaObject, RequestMetaObject, RequestParamsMeta};
use rvc_tasks::{TaskState, payload};
use rvc_test::{LogLine, Logs};
use serde_json::json;
use tracing::Level;

use super::worker::{Worker, call, connect, declaring, error_of, keyed, plain};

fn with_ids(mut call: CallToolRequestParams) -> CallToolRequestParams {
    let meta = MetaObject(payload! {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "request_id": "r1", "turn_id": 2, "mission_id": "m3",
    });
    call.set_meta(RequestMetaObject(meta));
    call
}

/// The tool and the outcome of each call, checked for what every line has.
fn calls(logs: &Logs) -> Vec<(String, String)> {
    let lines = logs.lines().into_iter();
    let field = |line: &LogLine, name: &str| line.field(name).unwrap().to_owned();
    lines
        .filter(|line| line.message == "tool called")
        .map(|line| {
            field(&line, "duration_ms").parse::<u64>().unwrap();
            (field(&line, "tool"), field(&line, "outcome"))
        })
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |&(tool, outcome): &(&str, &str)| (tool.to_owned(), outcome.to_owned());
    expected.iter().map(owned).collect()
}

#[tokio::test(start_paused = true)]
async fn every_call_through_the_wrapper_is_logged_once_with_its_outcome() {
    let logs = Logs::capture();
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    client.start("work", "rest").await;
    let client = connect(worker.server(), plain()).await;
    for tool in [
        "work",
        "greet",
        "careful",
        "none_such",
        "fickle",
        "get_task",
        "list_tasks",
    ] {
        // Some are refused, which is the point.
        let _ = client.call(call(tool, json!({}))).await;
    }

    let expected = pairs(&[
        ("work", "task_handle"),
        ("work", "ok"),
        ("greet", "ok"),
        ("careful", "protocol_error"),
        ("none_such", "protocol_error"),
        ("fickle", "is_error"),
        ("get_task", "is_error"),
        ("list_tasks", "ok"),
    ]);
    assert_eq!(calls(&logs), expected);
}

#[tokio::test(start_paused = true)]
async fn the_kits_tools_are_logged_without_the_wrapper_too() {
    let logs = Logs::capture();
    let client = connect(Worker::new(), plain()).await;
    for tool in ["greet", "list_tasks", "cancel_task"] {
        client.call(with_ids(call(tool, json!({})))).await.unwrap();
    }

    let expected = pairs(&[("list_tasks", "ok"), ("cancel_task", "is_error")]);
    assert_eq!(calls(&logs), expected);
}

#[tokio::test(start_paused = true)]
async fn a_calls_line_says_whose_it_is_and_how_long_it_took() {
    let logs = Logs::capture();
    for is_wrapped in [true, false] {
        let worker = Worker::new();
        let client = if is_wrapped {
            connect(worker.server(), plain()).await
        } else {
            connect(worker.clone(), plain()).await
        };
        let info = client.contract("work", json!({"do": "rest"})).await;
        let wait = json!({"task_id": info["task_id"], "timeout_s": 5});
        client
            .call(with_ids(call("wait_task", wait)))
            .await
            .unwrap();

        let lines = logs.lines();
        let line = lines.iter().rfind(|line| line.message == "tool called");
        for (field, value) in [
            ("tool", "wait_task"),
            ("outcome", "ok"),
            ("duration_ms", "5000"),
            (
                "traceparent",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            ),
            ("request_id", "r1"),
            ("turn_id", "2"),
            ("mission_id", "m3"),
        ] {
            assert_eq!(line.unwrap().field(field), Some(value), "{line:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_ids_of_a_call_stand_in_its_tasks_lines_though_its_tool_knows_of_none() {
    for (client, outcome) in [(plain(), "ok"), (declaring(), "task_handle")] {
        let logs = Logs::capture();
        let client = connect(Worker::new().server(), client).await;
        let work = with_ids(call("work", json!({"do": "arrive"})));
        client.call(work).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;

        assert_eq!(calls(&logs), pairs(&[("work", outcome)]));
        for message in ["task started", "task ended"] {
            let lines = logs.lines();
            let line = lines.iter().find(|line| line.message == message).unwrap();
            for (field, value) in [
                (
                    "traceparent",
                    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                ),
                ("request_id", "r1"),
                ("turn_id", "2"),
                ("mission_id", "m3"),
            ] {
                assert_eq!(line.field(field), Some(value), "{line:#?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_is_answered_with_an_internal_error() {
    let logs = Logs::capture();
    let worker = Worker::new();
    for client in [plain(), declaring()] {
        let client = connect(worker.server(), client).await;
        let broken = with_ids(call("broken", json!({"do": "rest"})));
        let answer = client.call(broken).await;
        assert_eq!(error_of(answer), (-32603, "the call panicked".to_owned()));
        // The connection is none the worse for it.
        client.contract("list_tasks", json!({})).await;
    }

    let errors = logs.at(Level::ERROR);
    assert_eq!(errors.len(), 2, "{errors:#?}");
    for line in errors {
        assert_eq!(line.field("outcome"), Some("panicked"));
        assert_eq!(line.field("tool"), Some("broken"));
        assert_eq!(line.field("panic"), Some("a wheel came off"));
        assert_eq!(line.field("request_id"), Some("r1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panicked_leaves_its_task_under_its_key() {
    let worker = Worker::new();
    let client = connect(worker.server(), plain()).await;
    let broken = || keyed(call("broken", json!({"do": "rest"})), &json!("k-1"));
    assert_eq!(error_of(client.call(broken()).await).0, -32603);

    client.call(broken()).await.unwrap();

    assert_eq!(worker.manager.list(&[TaskState::Running]).len(), 1);
}

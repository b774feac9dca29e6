//! One task, seen by both kinds of client.

use rmcp::model::CallToolResponse;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::worker::{Worker, call, connect, declaring, plain, seconds};

/// What both say about the one task.
async fn views(
    plain: &super::worker::Client,
    declaring: &super::worker::Client,
    id: &str,
) -> (Value, Value) {
    let list = plain.contract("list_tasks", json!({})).await;
    let theirs = list["tasks"][0].clone();
    let by_id = plain
        .contract("get_task", json!({"task_id": theirs["task_id"]}))
        .await;
    assert_eq!(by_id, theirs);
    (theirs, declaring.get(id).await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn both_kinds_of_client_agree_at_every_step() {
    let worker = Worker::new();
    let plain = connect(worker.server(), plain()).await;
    let declaring = connect(worker.server(), declaring()).await;

    let handle = declaring.start("work", "arrive").await;
    assert_eq!(serde_json::to_value(handle.status).unwrap(), "working");
    let id = handle.task_id.as_str();

    for eta in ["2 s left", "1 s left", "0 s left"] {
        let (contract, official) = views(&plain, &declaring, id).await;
        assert_eq!(contract["state"], "running");
        assert_eq!(official["status"], "working");
        assert_eq!(official["createdAt"], contract["created_at"]);
        assert_eq!(official["lastUpdatedAt"], contract["updated_at"]);

        sleep(seconds(1)).await;
        let (contract, official) = views(&plain, &declaring, id).await;
        if contract["state"] == "running" {
            assert_eq!(official["statusMessage"], eta);
            let eta = eta.strip_suffix(" s left").unwrap();
            assert_eq!(contract["progress"]["eta_s"].to_string(), eta);
        }
    }

    let (contract, official) = views(&plain, &declaring, id).await;
    assert_eq!(contract["state"], "succeeded");
    assert_eq!(official["status"], "completed");
    assert_eq!(official["lastUpdatedAt"], contract["updated_at"]);
    let result = &official["result"];
    assert_eq!(result["structuredContent"], contract["result"]);
    assert_eq!(result["isError"], false);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(text).unwrap(),
        contract["result"]
    );
}

#[tokio::test(start_paused = true)]
async fn both_see_a_cancel_that_the_other_asked_for() {
    for by_contract in [true, false] {
        let worker = Worker::new();
        let plain = connect(worker.server(), plain()).await;
        let declaring = connect(worker.server(), declaring()).await;
        let handle = declaring.start("work", "stop_in_order").await;
        let id = handle.task_id.as_str();
        let (contract, _) = views(&plain, &declaring, id).await;

        let arguments = json!({"task_id": contract["task_id"]});
        let cancel = async {
            if by_contract {
                let answer = plain.contract("cancel_task", arguments).await;
                assert_eq!(answer["stopped"], true);
            } else {
                declaring.cancel(id).await.unwrap();
            }
        };
        let look = async {
            sleep(seconds(1)).await;
            let (contract, official) = views_while_busy(&worker, &declaring, id).await;
            assert_eq!(contract["state"], "running");
            assert_eq!(contract["cancel_requested"], true);
            assert_eq!(official["status"], "working");
            let message = official["statusMessage"].as_str().unwrap();
            assert!(message.contains("cancel was accepted"), "{message}");
        };
        tokio::join!(cancel, look);

        sleep(seconds(2)).await;
        let (contract, official) = views(&plain, &declaring, id).await;
        assert_eq!(contract["state"], "cancelled");
        assert_eq!(official["status"], "cancelled");
        assert_eq!(official.get("statusMessage"), None);
    }
}

/// As `views`, while the plain client waits for an answer.
async fn views_while_busy(
    worker: &Worker,
    declaring: &super::worker::Client,
    id: &str,
) -> (Value, Value) {
    let contract = serde_json::to_value(&worker.manager.list(&[])[0]).unwrap();
    (contract, declaring.get(id).await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_plain_client_is_answered_as_without_the_extension() {
    let worker = Worker::new();
    let with = connect(worker.server(), plain()).await;
    let without = connect(worker.clone(), plain()).await;

    let started = with.contract("work", json!({"do": "arrive"})).await;
    let reference = without.contract("work", json!({"do": "arrive"})).await;

    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&started), keys(&reference));
    assert_eq!(started["state"], "running");
    let ended = with
        .contract(
            "wait_task",
            json!({"task_id": started["task_id"], "timeout_s": 20}),
        )
        .await;
    assert_eq!(ended["result"], json!({"arrived": true}));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_time_out_with_the_task_as_it_stands() {
    let worker = Worker::new();
    let client = connect(worker.server(), plain()).await;
    let started = client.contract("work", json!({"do": "rest"})).await;
    let id = started["task_id"].clone();
    for (arguments, waited) in [
        (json!({"task_id": id}), 20),
        (json!({"task_id": id, "timeout_s": 0}), 0),
        (json!({"task_id": id, "timeout_s": 600}), 25),
    ] {
        let begin = tokio::time::Instant::now();
        let info = client.contract("wait_task", arguments).await;
        assert_eq!(info["state"], "running");
        assert_eq!(begin.elapsed().as_secs(), waited);
    }
    let unknown = client
        .contract("wait_task", json!({"task_id": "navi-000000"}))
        .await;
    assert_eq!(unknown, json!({"error": "not_found"}));
}

#[tokio::test(start_paused = true)]
async fn failures_and_panics_are_completed_tasks_with_an_error_result() {
    let worker = Worker::new();
    let plain = connect(worker.server(), plain()).await;
    let declaring = connect(worker.server(), declaring()).await;
    for (what, code) in [("fail", "DOOR_CLOSED"), ("panic", "INTERNAL")] {
        let handle = declaring.start("work", what).await;
        let ended = declaring.end(&handle.task_id).await;
        assert_eq!(ended["status"], "completed");
        assert_eq!(ended["result"]["isError"], true);
        let failure = &ended["result"]["structuredContent"];
        assert_eq!(failure["error_code"], code);
        let list = plain
            .contract("list_tasks", json!({"states": ["failed"]}))
            .await;
        let contract = list["tasks"].as_array().unwrap().last().unwrap();
        assert_eq!(&contract["failure"], failure);
    }
    let handle = declaring.start("work", "break").await;
    let ended = declaring.end(&handle.task_id).await;
    assert_eq!(ended["status"], "failed");
    assert_eq!(ended["error"], json!({"code": -32603, "message": "no map"}));
}

#[tokio::test(start_paused = true)]
async fn only_an_answer_that_is_a_started_task_becomes_a_handle() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    for (tool, says) in [
        ("greet", "Hello."),
        ("chatty", "I am on my way."),
        ("fickle", "navi-"),
    ] {
        match client.call(call(tool, json!({"do": "ask"}))).await.unwrap() {
            CallToolResponse::Complete(answer) => {
                let text = &answer.content[0].as_text().unwrap().text;
                assert!(text.contains(says), "{text}");
            }
            other => panic!("{other:?} is no plain answer"),
        }
    }
    // Nobody can answer what the tasks behind them ask.
    sleep(seconds(1)).await;
    for info in worker.manager.list(&[]) {
        assert_eq!(info.failure.unwrap().error_code, "INPUT_UNSUPPORTED");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_started_from_elsewhere_is_handed_out_too() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("from_elsewhere", "ask").await.task_id;
    sleep(seconds(2)).await;
    assert_eq!(client.get(&id).await.unwrap()["status"], "input_required");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_needs_the_extension_is_not_called_without_it() {
    let worker = Worker::new();
    let client = connect(worker.server(), plain()).await;
    let refused = client.call(call("careful", json!({"do": "arrive"}))).await;
    match refused.unwrap_err() {
        rmcp::ServiceError::McpError(error) => {
            assert_eq!(error.code.0, -32021);
            let required = &error.data.unwrap()["requiredCapabilities"];
            assert!(required["extensions"]["io.modelcontextprotocol/tasks"].is_object());
        }
        other => panic!("{other}"),
    }
    assert!(worker.manager.list(&[]).is_empty());

    let client = connect(worker.server(), declaring()).await;
    client.start("careful", "arrive").await;
}

#[tokio::test(start_paused = true)]
async fn the_poll_interval_follows_what_is_left() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let handle = client.start("work", "arrive").await;
    assert_eq!(handle.poll_interval_ms, Some(1_000));
    sleep(std::time::Duration::from_millis(2_700)).await;
    // A second was left at 2 s.
    let task = client.get(&handle.task_id).await.unwrap();
    assert_eq!(task["pollIntervalMs"], 300);
}

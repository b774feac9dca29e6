//! Cancels over the extension.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::worker::{Worker, connect, declaring, seconds};

#[tokio::test(start_paused = true)]
async fn a_cancel_is_acknowledged_at_once_and_shows_when_the_body_has_stopped() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "stop_in_order").await.task_id;
    client.settled(&id).await;
    let begin = tokio::time::Instant::now();

    client.cancel(&id).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
    let task = client.get(&id).await.unwrap();
    assert_eq!(task["status"], "working");
    assert!(task["statusMessage"].as_str().unwrap().contains("cancel"));
    assert_eq!(task["pollIntervalMs"], 500);

    sleep(seconds(3)).await;
    let task = client.get(&id).await.unwrap();
    assert_eq!(task["status"], "cancelled");
    assert_eq!(task.get("statusMessage"), None);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_did_not_stop_is_told_of() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "stop_never").await.task_id;
    client.settled(&id).await;
    client.cancel(&id).await.unwrap();
    sleep(seconds(4)).await;
    assert_eq!(client.get(&id).await.unwrap()["status"], "working");

    sleep(seconds(2)).await;
    let task = client.get(&id).await.unwrap();
    assert_eq!(task["status"], "cancelled");
    let message = task["statusMessage"].as_str().unwrap();
    assert!(message.contains("may still be moving"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn cancels_are_idempotent_and_leave_an_ended_task_as_it_is() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "arrive").await.task_id;
    let ended = client.end(&id).await;
    for _ in 0..3 {
        client.cancel(&id).await.unwrap();
    }
    assert_eq!(client.get(&id).await.unwrap(), ended);

    let id = client.start("work", "rest").await.task_id;
    for _ in 0..3 {
        client.cancel(&id).await.unwrap();
    }
    assert_eq!(client.end(&id).await["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_races_the_end_leaves_one_outcome_a_thousand_times() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let mut outcomes = std::collections::BTreeMap::new();
    for round in 0..1_000 {
        let id = client.start("work", "fail").await.task_id;
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        client.cancel(&id).await.unwrap();
        let first = loop {
            let task = client.get(&id).await.unwrap();
            if task["status"] != "working" {
                break task;
            }
        };
        // Both views, and every later look, say the same.
        assert_eq!(client.get(&id).await.unwrap(), first);
        let info = worker.manager.list(&[]).pop().unwrap();
        let agreed = match first["status"].as_str().unwrap() {
            "cancelled" => "cancelled",
            "completed" => "failed",
            other => panic!("{other}"),
        };
        assert_eq!(info.state.as_str(), agreed);
        *outcomes.entry(agreed).or_insert(0) += 1;
    }
    assert_eq!(outcomes.values().sum::<i32>(), 1_000, "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_cancels_its_tasks_and_still_answers() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "stop_in_order").await.task_id;
    client.settled(&id).await;
    let info = worker.manager.list(&[]).pop().unwrap();

    let arguments = json!({"task_id": info.task_id, "timeout_s": 25});
    let waiting = client.contract("wait_task", arguments);
    let closing = async {
        sleep(seconds(1)).await;
        worker.manager.close().await;
    };
    let (answer, ()) = tokio::join!(waiting, closing);

    assert_eq!(answer["state"], "cancelled");
    assert_eq!(client.get(&id).await.unwrap()["status"], "cancelled");
    // Nothing starts any more, and the client is told so.
    let refused = client
        .call(super::worker::call("work", json!({"do": "arrive"})))
        .await;
    match refused.unwrap() {
        rmcp::model::CallToolResponse::Complete(answer) => assert_eq!(answer.is_error, Some(true)),
        other => panic!("{other:?}"),
    }
}

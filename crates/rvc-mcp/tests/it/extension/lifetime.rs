//! How long a task stays readable.

use std::time::Duration;

use rmcp::model::CallToolResponse;
use rvc_mcp::{HandleLimits, ToolTasks};
use rvc_tasks::{Map, TaskSpec};
use serde_json::json;
use tokio::time::sleep;

use super::worker::{LONG, Worker, call, connect, declaring, error_of, seconds};

#[tokio::test(start_paused = true)]
async fn a_finished_task_is_readable_for_the_ttl_that_it_announced() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let handle = client.start("brief", "arrive").await;
    assert_eq!(handle.ttl_ms, Some(10_000));
    let id = handle.task_id;
    let ended = client.end(&id).await;
    assert_eq!(ended["ttlMs"], 10_000);

    sleep(seconds(6)).await;
    assert_eq!(client.get(&id).await.unwrap(), ended);
    sleep(seconds(1)).await;
    assert_eq!(
        error_of(client.get(&id).await),
        (-32602, "unknown task".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_running_task_outlives_its_ttl_which_is_raised_and_announced() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("brief", "stop_in_order").await.task_id;
    let begin = tokio::time::Instant::now();
    let age_ms = || u64::try_from(begin.elapsed().as_millis()).unwrap();
    for pause in [10, 30, 500] {
        sleep(seconds(pause)).await;
        let task = client.get(&id).await.unwrap();
        assert_eq!(task["status"], "working");
        assert!(task["ttlMs"].as_u64().unwrap() >= age_ms() + 5_000);
    }
    client.cancel(&id).await.unwrap();
    sleep(seconds(5)).await;
    let ended = client.get(&id).await.unwrap();
    assert_eq!(ended["status"], "cancelled");

    // What was announced last is kept to.
    let left = ended["ttlMs"].as_u64().unwrap() - age_ms();
    sleep(Duration::from_millis(left - 100)).await;
    assert_eq!(client.get(&id).await.unwrap(), ended);
    sleep(seconds(1)).await;
    assert!(client.get(&id).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_nobody_polled_is_readable_after_its_end() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("brief", "stop_in_order").await.task_id;
    sleep(seconds(1_000)).await;
    let info = worker.manager.list(&[]).pop().unwrap();
    worker.manager.cancel(&info.task_id).await.unwrap();
    sleep(seconds(4)).await;
    assert_eq!(client.get(&id).await.unwrap()["status"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn an_unlimited_task_is_never_forgotten() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let handle = client.start("endless", "fail").await;
    assert_eq!(handle.ttl_ms, None);
    sleep(LONG).await;
    let task = client.get(&handle.task_id).await.unwrap();
    assert_eq!(task["status"], "completed");
    assert_eq!(task["ttlMs"], serde_json::Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_handle_outlives_the_ring_of_finished_tasks() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "large").await.task_id;
    let ended = client.end(&id).await;
    let contract_id = worker.manager.list(&[])[0].task_id.clone();
    for _ in 0..300 {
        let spec = TaskSpec::new("other");
        let info = worker
            .manager
            .start(spec, async |_| Ok(Map::new()))
            .unwrap();
        worker.manager.wait(&info.task_id, LONG).await.unwrap();
    }
    assert!(worker.manager.get(&contract_id).is_none());
    assert_eq!(client.get(&id).await.unwrap(), ended);
}

#[tokio::test(start_paused = true)]
async fn under_pressure_new_handles_announce_less_and_announced_ones_are_kept() {
    let worker = Worker::new();
    let server = worker
        .server()
        .limits(HandleLimits::new().handles(10))
        .tool("careful", ToolTasks::new().required());
    let client = connect(server, declaring()).await;
    let mut handles = Vec::new();
    for _ in 0..10 {
        handles.push(client.start("work", "fail").await);
    }
    let ttls: Vec<_> = handles
        .iter()
        .map(|handle| handle.ttl_ms.unwrap())
        .collect();
    assert!(ttls[..6].iter().all(|ttl| *ttl == 3_600_000), "{ttls:?}");
    assert!(ttls[6..].is_sorted_by(|a, b| a > b), "{ttls:?}");
    assert!(ttls[9] < 3_600_000 / 4, "{ttls:?}");

    // Full: the contract's answer, and nothing that needs a handle is started.
    let answer = client
        .call(call("work", json!({"do": "fail"})))
        .await
        .unwrap();
    assert!(matches!(answer, CallToolResponse::Complete(_)));
    let tasks = worker.manager.list(&[]).len();
    let refused = client.call(call("careful", json!({"do": "fail"}))).await;
    assert_eq!(error_of(refused).0, -32603);
    assert_eq!(worker.manager.list(&[]).len(), tasks);

    for handle in &handles {
        sleep(seconds(1)).await;
        client.get(&handle.task_id).await.unwrap();
    }
    // The shortest goes first, and there is room again.
    sleep(seconds(3_000)).await;
    assert!(client.get(&handles[9].task_id).await.is_err());
    client.get(&handles[0].task_id).await.unwrap();
    client.start("work", "fail").await;
}

#[tokio::test(start_paused = true)]
async fn large_results_shorten_the_ttls_of_those_that_follow() {
    let worker = Worker::new();
    let limits = HandleLimits::new().bytes(400_000);
    let client = connect(worker.server().limits(limits), declaring()).await;
    let mut ttls = Vec::new();
    for _ in 0..3 {
        let handle = client.start("work", "large").await;
        ttls.push(handle.ttl_ms.unwrap());
        client.end(&handle.task_id).await;
    }
    assert!(ttls[2] < ttls[1], "{ttls:?}");
    let handle = client.start("endless", "fail").await;
    assert!(handle.ttl_ms.is_some());
}

#[tokio::test(start_paused = true)]
async fn wrappers_of_one_manager_know_the_same_handles() {
    let worker = Worker::new();
    let first = connect(worker.server(), declaring()).await;
    let id = first.start("work", "arrive").await.task_id;
    drop(first);
    // A session of its own, with a wrapper of its own.
    let second = connect(worker.server(), declaring()).await;
    assert_eq!(second.end(&id).await["status"], "completed");
}

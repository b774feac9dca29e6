//! A call that is made again under its key.

use rmcp::model::CallToolResponse;
use rvc_mcp::{Access, Principal};
use rvc_tasks::{Map, NoSink, TaskManager, TaskSpec};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::worker::{
    Client, LONG, Worker, call, connect, declaring, error_of, keyed, plain, seconds,
};

async fn answer(
    client: &Client,
    tool: &'static str,
    arguments: Value,
    key: &str,
) -> CallToolResponse {
    client
        .call(keyed(call(tool, arguments), &json!(key)))
        .await
        .unwrap()
}

fn handle(answer: CallToolResponse) -> String {
    match answer {
        CallToolResponse::Task(created) => created.task.task_id,
        other => panic!("{other:?} is no handle"),
    }
}

fn info(answer: CallToolResponse) -> Value {
    match answer {
        CallToolResponse::Complete(answer) => {
            serde_json::from_str(&answer.content[0].as_text().unwrap().text).unwrap()
        }
        other => panic!("{other:?} is no TaskInfo"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_call_under_one_key_starts_one_task() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let first = handle(answer(&client, "work", json!({"do": "rest", "n": 1}), "k").await);
    // The order of the keys is of no account.
    let again = handle(answer(&client, "work", json!({"n": 1, "do": "rest"}), "k").await);
    assert_eq!(first, again);
    let other = handle(answer(&client, "work", json!({"do": "rest", "n": 1}), "l").await);
    assert_ne!(first, other);
    assert_eq!(worker.manager.list(&[]).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_plain_client_gets_its_task_as_it_stands() {
    let worker = Worker::new();
    let client = connect(worker.server(), plain()).await;
    let first = info(answer(&client, "work", json!({"do": "arrive"}), "k").await);
    sleep(seconds(60)).await;
    let again = info(answer(&client, "work", json!({"do": "arrive"}), "k").await);
    assert_eq!(again["task_id"], first["task_id"]);
    assert_eq!(again["state"], "succeeded");
    assert_eq!(worker.manager.list(&[]).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_found_again_by_a_client_of_the_other_kind() {
    let worker = Worker::new();
    let plain = connect(worker.server(), plain()).await;
    let declaring = connect(worker.server(), declaring()).await;
    let started = info(answer(&plain, "work", json!({"do": "rest"}), "k").await);
    let first = handle(answer(&declaring, "work", json!({"do": "rest"}), "k").await);
    let again = handle(answer(&declaring, "work", json!({"do": "rest"}), "k").await);
    assert_eq!(first, again);
    assert_eq!(declaring.get(&first).await.unwrap()["status"], "working");
    let same = info(answer(&plain, "work", json!({"do": "rest"}), "k").await);
    assert_eq!(same["task_id"], started["task_id"]);
    assert_eq!(worker.manager.list(&[]).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_call_under_the_same_key_is_refused() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    answer(&client, "work", json!({"do": "rest", "to": [1, 2]}), "k").await;
    for (tool, arguments) in [
        ("work", json!({"do": "rest", "to": [2, 1]})),
        ("work", json!({"do": "rest"})),
        ("work", json!({"do": "rest", "to": [1, 2], "more": null})),
        ("brief", json!({"do": "rest", "to": [1, 2]})),
        ("greet", Value::Null),
    ] {
        let refused = client.call(keyed(call(tool, arguments), &json!("k"))).await;
        let (code, message) = error_of(refused);
        assert_eq!(code, -32602);
        assert!(message.contains("idempotency-key"), "{message}");
    }
    assert_eq!(worker.manager.list(&[]).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_calls_at_once_start_one_task() {
    let worker = Worker::new();
    let declaring = connect(worker.server(), declaring()).await;
    let plain = connect(worker.server(), plain()).await;
    let arguments = || json!({"do": "rest"});
    let (first, second, third) = tokio::join!(
        answer(&declaring, "slow_to_start", arguments(), "k"),
        answer(&declaring, "slow_to_start", arguments(), "k"),
        answer(&plain, "slow_to_start", arguments(), "k"),
    );
    assert_eq!(worker.manager.list(&[]).len(), 1);
    assert_eq!(handle(first), handle(second));
    assert_eq!(info(third)["state"], "running");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_broke_off_is_found_again() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    {
        let call = answer(&client, "slow_to_start", json!({"do": "rest"}), "k");
        assert!(tokio::time::timeout(seconds(1), call).await.is_err());
    }
    client.0.cancel().await.unwrap();
    let again = connect(worker.server(), declaring()).await;
    let id = handle(answer(&again, "slow_to_start", json!({"do": "rest"}), "k").await);
    assert_eq!(again.get(&id).await.unwrap()["status"], "working");
    sleep(seconds(60)).await;
    assert_eq!(worker.manager.list(&[]).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_of_others_are_not_ones_own() {
    let worker = Worker::new();
    let server = |user: &'static str| {
        worker
            .server()
            .authority(move |_: &Access<'_>| Ok(Principal::new(user)))
    };
    let ada = connect(server("ada"), declaring()).await;
    let bob = connect(server("bob"), declaring()).await;
    let hers = handle(answer(&ada, "work", json!({"do": "rest"}), "k").await);
    let his = handle(answer(&bob, "work", json!({"do": "rest"}), "k").await);
    assert_ne!(hers, his);
    assert_eq!(worker.manager.list(&[]).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_starts_nothing_leaves_its_key_free() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    for _ in 0..2 {
        answer(&client, "greet", Value::Null, "k").await;
    }
    handle(answer(&client, "work", json!({"do": "rest"}), "k").await);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_kept_while_its_task_is() {
    let manager = TaskManager::builder("navigation".parse().unwrap(), NoSink)
        .max_finished(1)
        .build()
        .unwrap();
    let worker = Worker::of(manager.clone());
    let client = connect(worker.server(), plain()).await;
    let declaring = connect(worker.server(), declaring()).await;
    let first = info(answer(&client, "work", json!({"do": "fail"}), "k").await);
    let held = handle(answer(&declaring, "brief", json!({"do": "fail"}), "held").await);
    sleep(seconds(1)).await;

    for _ in 0..3 {
        let other = manager.start(TaskSpec::new("other"), async |_| Ok(Map::new()));
        manager.wait(&other.unwrap().task_id, LONG).await;
    }

    let next = info(answer(&client, "work", json!({"do": "fail"}), "k").await);
    assert_ne!(next["task_id"], first["task_id"]);
    // A handle keeps its task, and with it the key.
    let still = handle(answer(&declaring, "brief", json!({"do": "fail"}), "held").await);
    assert_eq!(still, held);
    sleep(seconds(60)).await;
    let anew = handle(answer(&declaring, "brief", json!({"do": "fail"}), "held").await);
    assert_ne!(anew, held);
}

//! Who may see which task.

use std::sync::{Arc, Mutex};

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use rvc_mcp::{Access, AccessKind, Principal, TaskServer};
use serde_json::json;

use super::worker::{Client, Worker, call, connect, declaring, error_of, plain};

type Seen = Arc<Mutex<Vec<String>>>;

/// A server to which its client is this user; it notes what was asked for.
fn server_for(worker: &Worker, user: &'static str, seen: &Seen) -> TaskServer<Worker> {
    let seen = Arc::clone(seen);
    worker.server().authority(move |access: &Access<'_>| {
        let kind = match access.kind {
            AccessKind::Call(tool) => format!("call {tool}"),
            AccessKind::Get(_) => "get".to_owned(),
            AccessKind::Update(_) => "update".to_owned(),
            AccessKind::Cancel(_) => "cancel".to_owned(),
            _ => "else".to_owned(),
        };
        seen.lock().unwrap().push(kind);
        match user {
            "nobody" => Err(ErrorData::new(ErrorCode(-32000), "who is it?", None)),
            user => Ok(Principal::new(user)),
        }
    })
}

async fn client_of(worker: &Worker, user: &'static str) -> Client {
    connect(server_for(worker, user, &Seen::default()), declaring()).await
}

#[tokio::test(start_paused = true)]
async fn anothers_task_is_answered_as_an_unknown_one() {
    let worker = Worker::new();
    let ada = client_of(&worker, "ada").await;
    let bob = client_of(&worker, "bob").await;
    let id = ada.start("work", "ask").await.task_id;
    ada.settled(&id).await;
    let before = ada.get(&id).await.unwrap();

    let answers = json!({"door": {"action": "decline"}});
    let foreign = [
        error_of(bob.get(&id).await),
        error_of(bob.update(&id, answers.clone()).await),
        error_of(bob.cancel(&id).await),
    ];
    let unknown = "00000000-0000-4000-8000-000000000000";
    let unknown = [
        error_of(bob.get(unknown).await),
        error_of(bob.update(unknown, answers).await),
        error_of(bob.cancel(unknown).await),
    ];

    assert_eq!(foreign, unknown);
    assert!(foreign.iter().all(|(code, _)| *code == -32602));
    assert_eq!(ada.get(&id).await.unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn the_hook_sees_every_request_that_needs_a_principal() {
    let worker = Worker::new();
    let seen = Seen::default();
    let client = connect(server_for(&worker, "ada", &seen), declaring()).await;
    let id = client.start("work", "ask").await.task_id;
    client.settled(&id).await;
    client.update(&id, json!({})).await.unwrap();
    client.cancel(&id).await.unwrap();
    assert!(client.cancel("unknown").await.is_err());
    let all = ["call work", "get", "update", "cancel", "cancel"];
    assert_eq!(*seen.lock().unwrap(), all);
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_starts_nothing() {
    let worker = Worker::new();
    let client = client_of(&worker, "nobody").await;
    let refused = client.call(call("work", json!({"do": "arrive"}))).await;
    assert_eq!(error_of(refused), (-32000, "who is it?".to_owned()));
    assert!(worker.manager.list(&[]).is_empty());
    assert_eq!(error_of(client.get("any").await).0, -32000);
}

#[tokio::test(start_paused = true)]
async fn the_contract_knows_no_principals() {
    let worker = Worker::new();
    let seen = Seen::default();
    let client = connect(server_for(&worker, "nobody", &seen), plain()).await;
    let started = client.contract("work", json!({"do": "arrive"})).await;
    assert_eq!(started["state"], "running");
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_task_id_is_random_and_not_the_contracts() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..100 {
        let id = client.start("work", "fail").await.task_id;
        let id: uuid::Uuid = id.parse().unwrap();
        assert_eq!(id.get_version_num(), 4);
        assert!(ids.insert(id));
    }
    for info in worker.manager.list(&[]) {
        assert!(client.get(info.task_id.as_str()).await.is_err());
    }
}

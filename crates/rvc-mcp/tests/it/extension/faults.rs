//! What must not do harm.

use rmcp::model::{ClientRequest, CustomRequest};
use rmcp::service::ServiceError;
use serde_json::json;
use tokio::time::sleep;

use super::worker::{Worker, call, connect, declaring, error_of, plain, seconds};

#[tokio::test(start_paused = true)]
async fn unknown_and_malformed_ids_are_invalid_parameters() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    for id in [
        "00000000-0000-4000-8000-000000000000",
        "navi-000000",
        "",
        "\u{0}",
        "🤖",
        &"x".repeat(100_000),
    ] {
        let unknown = (-32602, "unknown task".to_owned());
        assert_eq!(error_of(client.get(id).await), unknown);
        assert_eq!(error_of(client.cancel(id).await), unknown);
        assert_eq!(
            error_of(client.update(id, json!({"door": 1})).await),
            unknown
        );
    }
}

#[tokio::test(start_paused = true)]
async fn parameters_of_the_wrong_shape_are_invalid_parameters() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "ask").await.task_id;
    client.settled(&id).await;
    for (method, params) in [
        ("tasks/get", json!({})),
        ("tasks/get", json!({"taskId": 7})),
        ("tasks/get", json!({"taskId": null})),
        ("tasks/cancel", json!({"taskId": [id]})),
        ("tasks/update", json!({"taskId": id})),
        ("tasks/update", json!({"taskId": id, "inputResponses": 5})),
        (
            "tasks/update",
            json!({"taskId": id, "inputResponses": null}),
        ),
        ("tasks/update", json!({"inputResponses": {}})),
    ] {
        let request = CustomRequest::new(method, Some(params.clone()));
        let answer = client
            .0
            .send_request(ClientRequest::CustomRequest(request))
            .await;
        assert_eq!(error_of(answer).0, -32602, "{method} {params}");
    }
    assert_eq!(client.settled(&id).await["status"], "input_required");
}

#[tokio::test(start_paused = true)]
async fn methods_that_the_extension_does_not_have_are_not_found() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    for method in ["tasks/list", "tasks/result"] {
        let request = CustomRequest::new(method, Some(json!({"taskId": "any"})));
        let answer = client
            .0
            .send_request(ClientRequest::CustomRequest(request))
            .await;
        assert_eq!(error_of(answer).0, -32601, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_declares_nothing_has_no_use_of_the_extension() {
    let worker = Worker::new();
    let declaring = connect(worker.server(), declaring()).await;
    let plain = connect(worker.server(), plain()).await;
    let id = declaring.start("work", "rest").await.task_id;
    assert_eq!(error_of(plain.get(&id).await).0, -32021);
    assert_eq!(error_of(plain.update(&id, json!({})).await).0, -32021);
    assert_eq!(error_of(plain.cancel(&id).await).0, -32021);
    let request = CustomRequest::new("tasks/get", Some(json!({"taskId": 7})));
    let answer = plain
        .0
        .send_request(ClientRequest::CustomRequest(request))
        .await;
    assert_eq!(error_of(answer).0, -32021);
    assert_eq!(declaring.get(&id).await.unwrap()["status"], "working");
}

#[tokio::test(start_paused = true)]
async fn an_expired_id_is_answered_as_an_unknown_one() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("brief", "fail").await.task_id;
    client.end(&id).await;
    sleep(seconds(20)).await;
    let expired = (
        error_of(client.get(&id).await),
        error_of(client.cancel(&id).await),
    );
    let unknown = (
        error_of(client.get("x").await),
        error_of(client.cancel("x").await),
    );
    assert_eq!(expired, unknown);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_polls_change_nothing_and_keep_nothing() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "rest").await.task_id;
    let first = client.settled(&id).await;
    for _ in 0..10_000 {
        assert_eq!(client.get(&id).await.unwrap(), first);
    }
    // No time has passed for the task, nothing was started, and it can still be cancelled.
    assert_eq!(worker.manager.list(&[]).len(), 1);
    client.cancel(&id).await.unwrap();
    assert_eq!(client.end(&id).await["status"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_at_once_leaves_its_task_as_it_is() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "arrive").await.task_id;
    client.0.cancel().await.unwrap();
    let again = connect(worker.server(), declaring()).await;
    assert_eq!(again.end(&id).await["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_amid_its_call_does_not_stop_what_it_started() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    {
        let call = client.call(call("slow_to_start", json!({"do": "arrive"})));
        let given_up = tokio::time::timeout(seconds(1), call).await;
        assert!(given_up.is_err());
    }
    client.0.cancel().await.unwrap();
    sleep(seconds(60)).await;
    let states: Vec<_> = worker
        .manager
        .list(&[])
        .into_iter()
        .map(|info| info.state)
        .collect();
    assert!(
        states.iter().all(|state| state.as_str() == "succeeded"),
        "{states:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_large_result_is_answered_whole() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "large").await.task_id;
    let ended = client.end(&id).await;
    let map = ended["result"]["structuredContent"]["map"].as_str();
    assert_eq!(map.map(str::len), Some(100_000));
}

#[tokio::test(start_paused = true)]
async fn a_key_of_the_wrong_shape_is_refused_before_anything_moves() {
    let worker = Worker::new();
    for client in [plain(), declaring()] {
        let client = connect(worker.server(), client).await;
        for key in [
            json!(7),
            json!(""),
            json!(null),
            json!("x".repeat(257)),
            json!({}),
        ] {
            let keyed = super::worker::keyed(call("work", json!({"do": "rest"})), &key);
            let answer: Result<_, ServiceError> = client.call(keyed).await;
            assert_eq!(error_of(answer).0, -32602, "{key}");
        }
    }
    assert_eq!(worker.manager.list(&[]).len(), 0);
}

//! Questions amid the work.

use serde_json::{Value, json};

use super::worker::{Worker, connect, declaring, error_of, plain, seconds, silent};

fn accept(way: &str) -> Value {
    json!({"action": "accept", "content": {"way": way}})
}

fn asked(task: &Value) -> Vec<&String> {
    task["inputRequests"].as_object().unwrap().keys().collect()
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_for_its_answer_and_goes_on_with_it() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "ask").await.task_id;

    let task = client.settled(&id).await;
    assert_eq!(task["status"], "input_required");
    let request = &task["inputRequests"]["door"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "The door is closed.");

    client
        .update(&id, json!({"door": accept("detour")}))
        .await
        .unwrap();
    let ended = client.end(&id).await;
    assert_eq!(ended["status"], "completed");
    assert_eq!(
        ended["result"]["structuredContent"],
        json!({"way": {"way": "detour"}})
    );
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_one_at_a_time_or_together() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    for together in [true, false] {
        let id = client.start("work", "ask_twice").await.task_id;
        let task = client.settled(&id).await;
        assert_eq!(asked(&task), ["door", "lift"]);
        let (door, lift) = (accept("wait"), accept("detour"));
        if together {
            client
                .update(&id, json!({"door": door, "lift": lift}))
                .await
                .unwrap();
        } else {
            client.update(&id, json!({"lift": lift})).await.unwrap();
            let task = client.settled(&id).await;
            assert_eq!(task["status"], "input_required");
            assert_eq!(asked(&task), ["door"]);
            client.update(&id, json!({"door": door})).await.unwrap();
        }
        let ended = client.end(&id).await;
        let content = &ended["result"]["structuredContent"];
        assert_eq!(
            *content,
            json!({"door": {"way": "wait"}, "lift": {"way": "detour"}})
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_answer_is_refused_whole_and_can_be_corrected() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "ask_twice").await.task_id;
    client.settled(&id).await;
    for wrong in [
        json!(7),
        json!({}),
        json!({"action": "shrug"}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept", "content": {"way": 7}}),
        json!({"action": "accept", "content": "wait"}),
    ] {
        let answers = json!({"door": accept("wait"), "lift": wrong});
        let (code, message) = error_of(client.update(&id, answers).await);
        assert_eq!(code, -32602, "{wrong}");
        assert!(message.contains("lift"), "{message}");
        let task = client.settled(&id).await;
        assert_eq!(asked(&task), ["door", "lift"], "{wrong}");
    }
    let answers = json!({"door": accept("wait"), "lift": {"action": "decline"}});
    client.update(&id, answers).await.unwrap();
    assert_eq!(client.end(&id).await["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_asked_for_are_acknowledged_and_ignored() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("work", "ask").await.task_id;
    client.settled(&id).await;

    client.update(&id, json!({"window": 7})).await.unwrap();
    client.update(&id, json!({})).await.unwrap();
    assert_eq!(client.settled(&id).await["status"], "input_required");
    client
        .update(&id, json!({"door": accept("wait")}))
        .await
        .unwrap();
    let ended = client.end(&id).await;

    // Late and twice.
    client
        .update(&id, json!({"door": accept("detour")}))
        .await
        .unwrap();
    assert_eq!(client.get(&id).await.unwrap(), ended);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_wakes_a_task_that_asks() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    for what in ["ask", "stop_asking"] {
        let id = client.start("work", what).await.task_id;
        assert_eq!(client.settled(&id).await["status"], "input_required");
        client.cancel(&id).await.unwrap();
        let task = client.settled(&id).await;
        assert_eq!(task["status"], "cancelled", "{what}");
        assert_eq!(task.get("statusMessage"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn who_cannot_answer_is_not_asked() {
    let worker = Worker::new();
    let plain = connect(worker.server(), plain()).await;
    let silent = connect(worker.server(), silent()).await;

    let id = silent.start("work", "ask").await.task_id;
    let ended = silent.end(&id).await;
    assert_eq!(
        ended["result"]["structuredContent"]["error_code"],
        "INPUT_UNSUPPORTED"
    );
    let started = plain.contract("work", json!({"do": "ask"})).await;
    let arguments = json!({"task_id": started["task_id"]});
    let ended = plain.contract("wait_task", arguments).await;
    assert_eq!(ended["failure"]["error_code"], "INPUT_UNSUPPORTED");

    let id = silent.start("work", "ask_or_wait").await.task_id;
    let ended = silent.end(&id).await;
    assert_eq!(
        ended["result"]["structuredContent"],
        json!({"way": {"way": "wait"}})
    );
    let started = plain.contract("work", json!({"do": "ask_or_wait"})).await;
    let arguments = json!({"task_id": started["task_id"]});
    let ended = plain.contract("wait_task", arguments).await;
    assert_eq!(ended["result"], json!({"way": {"way": "wait"}}));
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_as_long_as_it_takes() {
    let worker = Worker::new();
    let client = connect(worker.server(), declaring()).await;
    let id = client.start("brief", "ask").await.task_id;
    tokio::time::sleep(seconds(100_000)).await;
    assert_eq!(client.get(&id).await.unwrap()["status"], "input_required");
    client
        .update(&id, json!({"door": accept("wait")}))
        .await
        .unwrap();
    assert_eq!(client.end(&id).await["status"], "completed");
}

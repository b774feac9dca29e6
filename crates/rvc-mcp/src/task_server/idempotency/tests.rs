#![allow(clippy::unwrap_used)]

use rvc_tasks::{Caller, Map, NoSink, TaskManager, TaskSpec};
use serde_json::json;

use super::*;

fn meta(key: &Value) -> MetaObject {
    let key = json!({ META_KEY: key });
    MetaObject(key.as_object().unwrap().clone())
}

#[test]
fn a_key_is_a_string_of_one_to_256_bytes() {
    assert_eq!(key_of(&MetaObject::default()).unwrap(), None);
    assert_eq!(key_of(&meta(&json!("k"))).unwrap(), Some("k".to_owned()));
    let most = "x".repeat(256);
    assert_eq!(key_of(&meta(&json!(most))).unwrap(), Some(most));
    for wrong in [
        json!(""),
        json!("x".repeat(257)),
        json!(1),
        json!(null),
        json!(["k"]),
    ] {
        assert_eq!(key_of(&meta(&wrong)).unwrap_err().code.0, -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn keys_of_tasks_that_are_gone_are_not_kept() {
    let idempotency = Arc::new(Idempotency::default());
    let manager = TaskManager::builder("navigation".parse().unwrap(), NoSink)
        .max_finished(1)
        .build()
        .unwrap();
    for round in 0..1_000 {
        let scope = CallScope::new(Caller::Listens);
        let key = round.to_string();
        let principal = Principal::default();
        let begun = idempotency.begin(&principal, key, "go", None, &scope).await;
        let Ok(Begun::First(turn)) = begun else {
            panic!("it is the first");
        };
        let start = async { manager.start(TaskSpec::new("go"), async |_| Ok(Map::new())) };
        scope.run(start).await.unwrap();
        let task = scope.started().remove(0);
        turn.started(&task, None);
        task.ended().await;
    }
    tokio::task::yield_now().await;
    assert!(idempotency.lock().calls.len() <= 2 * SWEEP_LEAST);
}

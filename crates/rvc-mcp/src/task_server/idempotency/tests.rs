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

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_leaves_what_it_started_under_its_key() {
    let idempotency = Arc::new(Idempotency::default());
    let manager = TaskManager::new("navigation".parse().unwrap(), NoSink);
    let principal = Principal::default();
    let begin = |scope: CallScope| {
        let (idempotency, principal) = (Arc::clone(&idempotency), principal.clone());
        async move {
            let key = "k".to_owned();
            idempotency.begin(&principal, key, "go", None, &scope).await
        }
    };
    for has_started in [false, true] {
        let scope = CallScope::new(Caller::Listens);
        let Ok(Begun::First(turn)) = begin(scope.clone()).await else {
            panic!("nothing was started under the key");
        };
        let waiting = tokio::spawn(begin(CallScope::new(Caller::Listens)));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        if has_started {
            let start = async { manager.start(TaskSpec::new("go"), async |_| Ok(Map::new())) };
            scope.run(start).await.unwrap();
        }
        drop(turn);
        let is_again = matches!(waiting.await.unwrap(), Ok(Begun::Again(..)));
        assert_eq!(is_again, has_started);
    }
}

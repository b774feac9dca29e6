//! Tasks that are kept in hand, and the scope that learns of them.

use rvc_tasks::{CallScope, Caller, Map, NoSink, TaskManager, TaskState, WeakTaskHandle, payload};

use crate::support::{LONG, end, navigation, settle, spec};

#[tokio::test(start_paused = true)]
async fn a_task_in_hand_outlives_the_ring_of_finished_ones() {
    let manager = TaskManager::builder("navigation".parse().unwrap(), NoSink)
        .max_finished(2)
        .max_result_bytes(10_000)
        .build()
        .unwrap();
    let large = || payload! { "map": "x".repeat(9_000) };
    let first = manager.start(spec(), async move |_| Ok(large())).unwrap();
    let kept = manager.handle(&first.task_id).unwrap();
    end(&manager, &first.task_id).await;

    for _ in 0..5 {
        let next = manager.start(spec(), async move |_| Ok(large())).unwrap();
        end(&manager, &next.task_id).await;
    }

    assert!(manager.get(&first.task_id).is_none());
    assert_eq!(kept.info().result, Some(large()));
}

#[tokio::test(start_paused = true)]
async fn what_a_task_left_is_thinned_out_when_nobody_keeps_it_any_more() {
    let manager = TaskManager::builder("navigation".parse().unwrap(), NoSink)
        .max_result_bytes(10_000)
        .build()
        .unwrap();
    let large = || payload! { "map": "x".repeat(9_000) };
    let first = manager.start(spec(), async move |_| Ok(large())).unwrap();
    let kept = manager.handle(&first.task_id).unwrap();
    let also = kept.clone();
    end(&manager, &first.task_id).await;
    let next = manager.start(spec(), async move |_| Ok(large())).unwrap();
    end(&manager, &next.task_id).await;

    drop(kept);
    let whole = manager.get(&first.task_id).unwrap();
    assert_eq!(whole.result, Some(large()));
    drop(also);
    let thin = manager.get(&first.task_id).unwrap();
    assert!(thin.result.unwrap().contains_key("omitted"));
}

#[tokio::test(start_paused = true)]
async fn a_weak_handle_finds_its_task_while_somebody_keeps_it() {
    let manager = TaskManager::builder("navigation".parse().unwrap(), NoSink)
        .max_finished(1)
        .build()
        .unwrap();
    let first = manager.start(spec(), async |_| Ok(Map::new())).unwrap();
    let weak: WeakTaskHandle = manager.handle(&first.task_id).unwrap().downgrade();
    end(&manager, &first.task_id).await;
    assert_eq!(weak.upgrade().unwrap().info().task_id, first.task_id);

    let next = manager.start(spec(), async |_| Ok(Map::new())).unwrap();
    end(&manager, &next.task_id).await;
    settle().await;

    assert!(weak.is_gone());
    assert!(weak.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_requested_without_waiting_for_it() {
    let (manager, _) = navigation();
    let info = manager
        .start(spec(), async |_| std::future::pending().await)
        .unwrap();
    let task = manager.handle(&info.task_id).unwrap();

    task.request_cancel();
    assert!(task.info().cancel_requested);
    task.request_cancel();
    task.ended().await;

    assert_eq!(task.info().state, TaskState::Cancelled);
    assert!(task.has_stopped());
    let before = task.info();
    task.request_cancel();
    assert_eq!(task.info(), before);
}

#[tokio::test(start_paused = true)]
async fn a_task_in_hand_goes_on_without_its_manager() {
    let (manager, _) = navigation();
    let info = manager
        .start(spec(), async |_| std::future::pending().await)
        .unwrap();
    let task = manager.handle(&info.task_id).unwrap();
    drop(manager);

    task.request_cancel();
    task.ended().await;

    assert_eq!(task.info().state, TaskState::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_scope_knows_its_own_tasks_and_no_others() {
    let (manager, _) = navigation();
    let start = || manager.start(spec(), async |_| Ok(Map::new())).unwrap();
    let outside = start();
    let scope = CallScope::new(Caller::Listens);
    let inside = scope
        .run(async {
            let first = start();
            let elsewhere = tokio::spawn({
                let manager = manager.clone();
                async move { manager.start(spec(), async |_| Ok(Map::new())).unwrap() }
            });
            elsewhere.await.unwrap();
            [first.task_id, start().task_id]
        })
        .await;
    let started: Vec<_> = scope
        .started()
        .iter()
        .map(|task| task.info().task_id)
        .collect();
    assert_eq!(started, inside);
    assert!(!started.contains(&outside.task_id));
    manager.wait(&outside.task_id, LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn companions_of_a_manager_are_one_of_each_type() {
    let (manager, _) = navigation();
    let (other, _) = navigation();
    let text = manager.companion::<std::sync::Mutex<String>>();
    text.lock().unwrap().push('x');
    let number = manager.companion::<std::sync::atomic::AtomicU8>();
    assert_eq!(number.load(std::sync::atomic::Ordering::Relaxed), 0);
    let again = manager.clone().companion::<std::sync::Mutex<String>>();
    assert_eq!(*again.lock().unwrap(), "x");
    assert!(
        other
            .companion::<std::sync::Mutex<String>>()
            .lock()
            .unwrap()
            .is_empty()
    );
}

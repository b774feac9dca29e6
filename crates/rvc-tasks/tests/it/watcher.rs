use rvc_tasks::{EventType, MemorySink, TaskManager, TaskState, payload};
use tokio::time::sleep;

use crate::support::{SECOND, navigation, settle, spec, types};

#[tokio::test(start_paused = true)]
async fn a_watcher_pushes_what_it_sees_until_it_is_cancelled() {
    let (manager, sink) = navigation();
    let task = manager
        .start(spec(), async |task| {
            for n in 0_u64.. {
                sleep(3_600 * SECOND).await;
                task.emit(payload! { "n": n })?;
            }
            unreachable!("it watches for longer than that")
        })
        .unwrap()
        .task_id;

    sleep(72 * 3_600 * SECOND + SECOND).await;
    let info = manager.get(&task).unwrap();
    let cancelled = manager.cancel(&task).await.unwrap();

    assert_eq!(info.state, TaskState::Running);
    assert_eq!(info.progress, None, "watch events are not kept");
    assert!(cancelled.stopped);
    assert_eq!(types(&sink.events()), vec![EventType::WatchEvent; 72]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helpers_on_many_threads_share_one_gap_free_seq() {
    let sink = MemorySink::new();
    let manager = TaskManager::new("nav".parse().unwrap(), sink.clone());
    let task = manager
        .start(spec(), async |task| {
            let mut helpers = Vec::new();
            for helper in 0..8 {
                let task = task.clone();
                helpers.push(tokio::task::spawn_blocking(move || {
                    for n in 0..200 {
                        task.emit(payload! { "helper": helper, "n": n }).unwrap();
                        task.progress(payload! { "helper": helper, "n": n })
                            .unwrap();
                    }
                }));
            }
            for helper in helpers {
                helper.await?;
            }
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    while manager.get(&task).unwrap().state == TaskState::Running {
        tokio::task::yield_now().await;
    }
    settle().await;
    assert_eq!(types(&sink.events()).len(), 3_201);
}

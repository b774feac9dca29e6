use rvc_tasks::{Map, MemorySink, TaskError, TaskManager, TaskState, payload};
use tokio::time::sleep;

use crate::support::{SECOND, end, navigation, spec};

async fn run(manager: &TaskManager, result: Map) -> rvc_tasks::TaskId {
    let started = manager.start(spec(), async |_| Ok(result)).unwrap();
    end(manager, &started.task_id).await;
    started.task_id
}

#[tokio::test(start_paused = true)]
async fn the_200_newest_finished_tasks_are_kept_and_every_running_one() {
    let (manager, _) = navigation();
    let running = manager
        .start(spec(), async |_| {
            sleep(1_000 * SECOND).await;
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    let mut finished = Vec::new();
    for n in 0..210 {
        finished.push(run(&manager, payload! { "n": n }).await);
    }

    for gone in &finished[..10] {
        assert_eq!(manager.get(gone), None);
    }
    for kept in &finished[10..] {
        assert_eq!(manager.get(kept).unwrap().state, TaskState::Succeeded);
    }
    assert_eq!(manager.get(&running).unwrap().state, TaskState::Running);
    assert_eq!(manager.list(&[]).len(), 201);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_results_go_first_and_their_tasks_stay() {
    let manager = TaskManager::builder("nav".parse().unwrap(), MemorySink::new())
        .max_result_bytes(10_000)
        .build()
        .unwrap();
    let large = || payload! { "map": "x".repeat(4_000) };
    let first = run(&manager, large()).await;
    let small = run(&manager, payload! { "n": 1 }).await;
    let second = run(&manager, large()).await;
    assert_eq!(manager.get(&first).unwrap().result, Some(large()));

    let third = run(&manager, large()).await;

    let omitted = manager.get(&first).unwrap();
    assert_eq!(omitted.state, TaskState::Succeeded);
    assert_eq!(
        omitted.result,
        Some(payload! { "omitted": { "bytes": 4_010 } })
    );
    assert_eq!(
        manager.get(&small).unwrap().result,
        Some(payload! { "n": 1 })
    );
    assert_eq!(manager.get(&second).unwrap().result, Some(large()));
    assert_eq!(manager.get(&third).unwrap().result, Some(large()));

    let whole = run(&manager, payload! { "map": "x".repeat(20_000) }).await;
    assert_eq!(
        manager.get(&whole).unwrap().result,
        Some(payload! { "omitted": { "bytes": 20_010 } })
    );
    let after = run(&manager, large()).await;
    assert_eq!(manager.get(&after).unwrap().result, Some(large()));
}

#[tokio::test(start_paused = true)]
async fn failures_and_last_reports_count_as_well() {
    let manager = TaskManager::builder("nav".parse().unwrap(), MemorySink::new())
        .max_result_bytes(10_000)
        .build()
        .unwrap();
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let task = manager
            .start(spec(), async |task| {
                task.progress(payload! { "map": "x".repeat(5_000) })?;
                Err(TaskError::new("STUCK", "x".repeat(5_000)))
            })
            .unwrap()
            .task_id;
        end(&manager, &task).await;
        tasks.push(task);
    }
    for task in &tasks {
        let info = manager.get(task).unwrap();
        assert_eq!(info.progress, None);
        assert!(info.failure.unwrap().message.len() < 5_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_keeps_nothing_still_answers_those_who_wait() {
    let manager = TaskManager::builder("nav".parse().unwrap(), MemorySink::new())
        .max_finished(0)
        .build()
        .unwrap();
    let task = manager
        .start(spec(), async |_| Ok(payload! { "n": 1 }))
        .unwrap()
        .task_id;
    let info = manager.wait(&task, SECOND).await.unwrap();
    assert_eq!(info.result, Some(payload! { "n": 1 }));
    assert_eq!(manager.get(&task), None);
}

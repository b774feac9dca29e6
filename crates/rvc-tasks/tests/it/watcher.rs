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

#[cfg(target_os = "linux")]
mod memory {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use rvc_tasks::{EventSink, EventType, OutgoingEvent, TaskId, TaskManager, payload};

    use crate::support::spec;

    /// Counts the watch events and keeps none.
    #[derive(Clone, Default)]
    struct Counter(Arc<AtomicU64>);

    impl EventSink for Counter {
        fn post(&self, event: OutgoingEvent) {
            if *event.event_type() == EventType::WatchEvent {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }

        fn forget(&self, _: &TaskId) {}

        fn close(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(async {})
        }
    }

    /// How much memory this process has resident, in bytes.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
        kib.parse::<u64>().unwrap() * 1_024
    }

    /// Emits events after some to warm up; answers by how many bytes memory grew with them.
    async fn growth_while_emitting(warm_up: u64, events: u64) -> u64 {
        let counter = Counter::default();
        let manager = TaskManager::new("navigation".parse().unwrap(), counter.clone());
        let (grew, growth) = tokio::sync::oneshot::channel();
        manager
            .start(spec(), async move |task| {
                let mut before = 0;
                for n in 0..warm_up + events {
                    if n == warm_up {
                        before = resident();
                    }
                    task.emit(payload! { "n": n })?;
                    if n % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                let _ = grew.send(resident().saturating_sub(before));
                Ok(payload! {})
            })
            .unwrap();
        let growth = growth.await.unwrap();
        assert_eq!(counter.0.load(Ordering::Relaxed), warm_up + events);
        growth
    }

    /// Less than 32 bytes an event: not even an id of each is kept.
    #[tokio::test]
    async fn memory_does_not_grow_with_the_events_that_a_watcher_emits() {
        const EVENTS: u64 = 200_000;
        let growth = growth_while_emitting(EVENTS / 10, EVENTS).await;
        assert!(growth < EVENTS * 32, "grew by {growth} bytes");
    }

    /// Less than a byte an event.
    #[tokio::test]
    #[ignore = "runs long: `cargo xtask soak`"]
    async fn soak_memory_does_not_grow_while_a_watcher_emits_millions_of_events() {
        const EVENTS: u64 = 5_000_000;
        let growth = growth_while_emitting(EVENTS / 10, EVENTS).await;
        assert!(growth < EVENTS, "grew by {growth} bytes");
    }
}

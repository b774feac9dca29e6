use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rvc_tasks::{Clock, MemorySink, TaskManager, Timestamp, payload};
use tokio::time::{Instant, sleep};

use crate::support::{SECOND, end, spec};

#[derive(Clone)]
struct SetClock(Arc<AtomicI64>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

fn manager(clock: &SetClock) -> (TaskManager, MemorySink) {
    let sink = MemorySink::new();
    let manager = TaskManager::builder("nav".parse().unwrap(), sink.clone())
        .clock(clock.clone())
        .build()
        .unwrap();
    (manager, sink)
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_never_takes_a_task_back_in_time_or_changes_a_duration() {
    const IN_2026: i64 = 1_781_272_980_123;
    let clock = SetClock(Arc::new(AtomicI64::new(5_000)));
    let (manager, sink) = manager(&clock);
    let start = Instant::now();
    let body = {
        let clock = clock.clone();
        async move |task: rvc_tasks::TaskContext| {
            for now in [6_000, IN_2026, 7_000, IN_2026 + 1] {
                sleep(SECOND).await;
                clock.0.store(now, Ordering::SeqCst);
                task.progress(payload! {})?;
            }
            clock.0.store(0, Ordering::SeqCst);
            sleep(60 * SECOND).await;
            Ok(payload! {})
        }
    };
    let started = manager.start(spec().deadline(20 * SECOND), body).unwrap();
    assert_eq!(started.created_at.to_string(), "1970-01-01T00:00:05.000Z");

    let ended = end(&manager, &started.task_id).await;

    assert_eq!(start.elapsed(), 20 * SECOND);
    let times: Vec<_> = sink
        .events()
        .iter()
        .map(|event| event.ts.unix_ms())
        .collect();
    assert_eq!(times, [6_000, IN_2026, IN_2026, IN_2026 + 1, IN_2026 + 1]);
    assert_eq!(ended.created_at, started.created_at);
    assert_eq!(ended.updated_at.unix_ms(), IN_2026 + 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_lives_in_1970() {
    let clock = SetClock(Arc::new(AtomicI64::new(0)));
    let (manager, sink) = manager(&clock);
    let task = manager
        .start(spec(), async |_| Ok(payload! {}))
        .unwrap()
        .task_id;
    end(&manager, &task).await;
    assert_eq!(sink.events()[0].ts.to_string(), "1970-01-01T00:00:00.000Z");
}

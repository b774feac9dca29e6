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
async fn a_small_step_back_of_the_clock_is_not_seen_and_a_large_one_at_once() {
    const IN_2026: i64 = 1_781_272_980_123;
    let clock = SetClock(Arc::new(AtomicI64::new(5_000)));
    let (manager, sink) = manager(&clock);
    let start = Instant::now();
    let body = {
        let clock = clock.clone();
        async move |task: rvc_tasks::TaskContext| {
            for now in [
                6_000,
                // The network came.
                IN_2026,
                IN_2026 - 1,
                IN_2026 - 5_000,
                IN_2026 + 1,
                // An empty battery had made up that year.
                IN_2026 - 5_000,
                7_000,
                6_999,
            ] {
                sleep(SECOND).await;
                clock.0.store(now, Ordering::SeqCst);
                task.progress(payload! {})?;
            }
            clock.0.store(8_000, Ordering::SeqCst);
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
    assert_eq!(
        times,
        [
            6_000,
            IN_2026,
            IN_2026,
            IN_2026,
            IN_2026 + 1,
            IN_2026 - 5_000,
            7_000,
            7_000,
            8_000
        ]
    );
    assert_eq!(ended.created_at, started.created_at);
    assert_eq!(ended.updated_at.unix_ms(), 8_000);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_began_in_a_wrong_future_tells_the_right_time_once_the_clock_does() {
    const IN_2036: i64 = 2_096_890_000_000;
    const IN_2026: i64 = 1_781_272_980_123;
    let clock = SetClock(Arc::new(AtomicI64::new(IN_2036)));
    let (manager, sink) = manager(&clock);
    let watching = {
        let clock = clock.clone();
        async move |task: rvc_tasks::TaskContext| {
            task.emit(payload! {})?;
            for day in 0..3 {
                clock.0.store(IN_2026 + day * 86_400_000, Ordering::SeqCst);
                task.emit(payload! {})?;
            }
            Ok(payload! {})
        }
    };
    let task = manager.start(spec(), watching).unwrap().task_id;

    let ended = end(&manager, &task).await;

    let events = sink.events();
    let times: Vec<_> = events.iter().map(|event| event.ts.unix_ms()).collect();
    let days = [0, 1, 2, 2].map(|day| IN_2026 + day * 86_400_000);
    assert_eq!(times[0], IN_2036);
    assert_eq!(times[1..], days);
    assert_eq!(ended.created_at.unix_ms(), IN_2036);
    assert_eq!(ended.updated_at.unix_ms(), days[3]);
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

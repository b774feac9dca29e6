use std::time::Duration;

use rvc_tasks::{CancelMode, EmitError, EventType, TaskState, payload};
use rvc_test::Logs;
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::support::{COOPERATIVE, SECOND, end, navigation, seconds, spec, types};

#[tokio::test(start_paused = true)]
async fn a_task_that_runs_past_its_deadline_fails_with_time_out() {
    let (manager, sink) = navigation();
    let before = Instant::now();
    let task = manager
        .start(spec().deadline(30 * SECOND), async |task| {
            loop {
                task.progress(payload! {})?;
                sleep(20 * SECOND).await;
            }
        })
        .unwrap()
        .task_id;

    let info = end(&manager, &task).await;

    assert_eq!(before.elapsed(), 30 * SECOND);
    let failure = info.failure.unwrap();
    assert_eq!(failure.error_code, "TIMEOUT");
    assert_eq!(
        failure.message,
        "The task ran past its deadline of 30 s and was stopped."
    );
    assert!(failure.recoverable);
    assert_eq!(
        types(&sink.events()),
        [
            EventType::Progress,
            EventType::Progress,
            EventType::TaskFailed
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn no_poll_says_failed_while_the_body_still_stops() {
    let (manager, sink) = navigation();
    let task = manager
        .start(
            spec().deadline(SECOND).cancel_mode(COOPERATIVE),
            async |task| {
                task.cancelled().await;
                assert_eq!(task.progress(payload! {}), Err(EmitError::TimedOut));
                sleep(3 * SECOND).await;
                Ok(payload! { "arrived": true })
            },
        )
        .unwrap()
        .task_id;
    sleep(seconds(3.9)).await;
    let info = manager.get(&task).unwrap();
    assert_eq!(info.state, TaskState::Running);
    assert!(!info.cancel_requested, "nobody asked");
    assert_eq!(sink.events(), []);

    let cancelled = manager.cancel(&task).await.unwrap();

    assert!(cancelled.stopped);
    assert_eq!(cancelled.info.state, TaskState::Failed, "that was sealed");
    assert_eq!(cancelled.info.failure.unwrap().error_code, "TIMEOUT");
    assert_eq!(types(&sink.events()), [EventType::TaskFailed]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_heed_the_deadline_is_said_to_be_moving_still() {
    let logs = Logs::capture();
    let (manager, sink) = navigation();
    let mode = CancelMode::Cooperative {
        grace: Some(2 * SECOND),
    };
    let before = Instant::now();
    let task = manager
        .start(spec().deadline(SECOND).cancel_mode(mode), async |_| {
            std::future::pending().await
        })
        .unwrap()
        .task_id;

    let failure = end(&manager, &task).await.failure.unwrap();

    assert_eq!(before.elapsed(), 3 * SECOND);
    assert!(failure.message.contains("may still be moving"));
    assert_eq!(sink.events().len(), 1);
    let warnings = logs.at(Level::WARN);
    assert!(
        warnings
            .iter()
            .any(|line| line.message.contains("may still be moving"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_in_time_never_hears_of_its_deadline() {
    let (manager, sink) = navigation();
    for deadline in [3 * SECOND, Duration::MAX] {
        let task = manager
            .start(spec().deadline(deadline), async |_| {
                sleep(2 * SECOND).await;
                Ok(payload! {})
            })
            .unwrap()
            .task_id;
        assert_eq!(end(&manager, &task).await.state, TaskState::Succeeded);
        sleep(5 * SECOND).await;
        assert_eq!(types(&sink.events_of(&task)), [EventType::TaskDone]);
    }
}

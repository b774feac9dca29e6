use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rvc_tasks::{
    CancelMode, EmitError, EventType, MemorySink, TaskContext, TaskManager, TaskState, payload,
};
use rvc_test::Logs;
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::support::{COOPERATIVE, SECOND, navigation, seconds, settle, spec, types};

/// Stops a motor when it goes out of scope.
struct Motor(Arc<AtomicBool>);

impl Drop for Motor {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_droppable_body_is_dropped_at_its_next_await() {
    let (manager, sink) = navigation();
    let stopped = Arc::new(AtomicBool::new(false));
    let motor = Motor(Arc::clone(&stopped));
    let task = manager
        .start(spec(), async move |task| {
            let _motor = motor;
            loop {
                task.progress(payload! {})?;
                sleep(SECOND).await;
            }
        })
        .unwrap()
        .task_id;
    sleep(seconds(2.5)).await;
    let before = Instant::now();

    let cancelled = manager.cancel(&task).await.unwrap();

    assert!(cancelled.stopped);
    assert_eq!(cancelled.info.state, TaskState::Cancelled);
    assert!(!cancelled.info.cancel_requested);
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert!(stopped.load(Ordering::SeqCst));
    assert_eq!(types(&sink.events()), vec![EventType::Progress; 3]);
    sleep(10 * SECOND).await;
    assert_eq!(sink.events().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_has_not_begun_when_it_is_cancelled_never_begins() {
    for mode in [CancelMode::Droppable, COOPERATIVE] {
        let (manager, sink) = navigation();
        let task = manager
            .start(spec().cancel_mode(mode), async |_| {
                unreachable!("the robot must not move")
            })
            .unwrap()
            .task_id;

        let cancelled = manager.cancel(&task).await.unwrap();

        assert!(cancelled.stopped);
        assert_eq!(cancelled.info.state, TaskState::Cancelled);
        assert_eq!(sink.events(), []);
    }
}

/// Takes 3 s to stop, and tries to report on the way.
async fn slow_to_stop(task: TaskContext) -> Result<rvc_tasks::Map, rvc_tasks::TaskError> {
    task.progress(payload! { "percent": 1 })?;
    task.cancelled().await;
    for refused in [
        task.progress(payload! { "percent": 2 }),
        task.emit(payload! {}),
        task.fire_trigger(&task.triggers()[0], payload! {})
            .map(drop),
        task.check_cancelled(),
    ] {
        assert_eq!(refused, Err(EmitError::Cancelled));
    }
    sleep(3 * SECOND).await;
    Ok(payload! { "arrived": true })
}

fn start_slow_to_stop(manager: &TaskManager) -> rvc_tasks::TaskId {
    let eta = crate::support::trigger(r#"{"type":"eta_below","seconds":1}"#);
    let spec = spec().cancel_mode(COOPERATIVE).triggers([eta]);
    manager.start(spec, slow_to_stop).unwrap().task_id
}

#[tokio::test(start_paused = true)]
async fn no_poll_says_cancelled_while_the_body_tears_down_for_3_s() {
    let (manager, sink) = navigation();
    let task = start_slow_to_stop(&manager);
    sleep(SECOND).await;
    let cancel = tokio::spawn({
        let (manager, task) = (manager.clone(), task.clone());
        async move { manager.cancel(&task).await.unwrap() }
    });
    settle().await;

    for _ in 0..29 {
        let info = manager.get(&task).unwrap();
        assert_eq!(info.state, TaskState::Running);
        assert!(info.cancel_requested);
        assert!(!cancel.is_finished());
        sleep(Duration::from_millis(100)).await;
    }
    let cancelled = cancel.await.unwrap();

    assert!(cancelled.stopped);
    assert_eq!(cancelled.info.state, TaskState::Cancelled);
    assert_eq!(cancelled.info.result, None, "the outcome was sealed");
    assert_eq!(manager.get(&task).unwrap(), cancelled.info);
    assert_eq!(types(&sink.events()), [EventType::Progress]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_changes_nothing() {
    let (manager, sink) = navigation();
    let task = start_slow_to_stop(&manager);
    sleep(SECOND).await;

    let gave_up = tokio::time::timeout(SECOND, manager.cancel(&task)).await;

    assert!(gave_up.is_err());
    let info = manager.get(&task).unwrap();
    assert_eq!(
        (info.state, info.cancel_requested),
        (TaskState::Running, true)
    );
    sleep(seconds(2.1)).await;
    assert_eq!(manager.get(&task).unwrap().state, TaskState::Cancelled);
    assert_eq!(types(&sink.events()), [EventType::Progress]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ignores_the_cancel_is_dropped_after_its_grace() {
    for (grace, secs) in [(None, 5), (Some(2 * SECOND), 2)] {
        let logs = Logs::capture();
        let (manager, sink) = navigation();
        let dropped = Arc::new(AtomicBool::new(false));
        let motor = Motor(Arc::clone(&dropped));
        let task = manager
            .start(
                spec().cancel_mode(CancelMode::Cooperative { grace }),
                async move |task| {
                    let _motor = motor;
                    loop {
                        let _ = task.progress(payload! {});
                        sleep(SECOND).await;
                    }
                },
            )
            .unwrap()
            .task_id;
        sleep(seconds(0.5)).await;
        let before = Instant::now();

        let cancelled = manager.cancel(&task).await.unwrap();

        assert_eq!(before.elapsed(), secs * SECOND);
        assert!(!cancelled.stopped, "its teardown was not over");
        assert_eq!(cancelled.info.state, TaskState::Cancelled);
        let warned = &logs.at(Level::WARN)[0];
        assert!(warned.message.contains("may still be moving"), "{warned:?}");
        assert_eq!(warned.field("task_id"), Some(task.as_str()));
        settle().await;
        assert!(dropped.load(Ordering::SeqCst));
        assert_eq!(sink.events().len(), 1);
        let again = manager.cancel(&task).await.unwrap();
        assert!(!again.stopped, "nobody finished its teardown since");
        assert_eq!(again.info, cancelled.info);
    }
}

#[tokio::test(start_paused = true)]
async fn cancels_of_one_task_get_the_same_answer() {
    let (manager, _) = navigation();
    let task = start_slow_to_stop(&manager);
    sleep(SECOND).await;
    let cancel = |delay: Duration| {
        let (manager, task) = (manager.clone(), task.clone());
        tokio::spawn(async move {
            sleep(delay).await;
            manager.cancel(&task).await.unwrap()
        })
    };
    let cancels = [Duration::ZERO, Duration::ZERO, SECOND, seconds(2.9)].map(cancel);

    let mut answers = Vec::new();
    for cancel in cancels {
        answers.push(cancel.await.unwrap());
    }

    assert!(answers[0].stopped);
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_finished_task_leaves_it_as_it_is() {
    let (manager, sink) = navigation();
    let task = manager
        .start(spec(), async |_| Ok(payload! { "arrived": true }))
        .unwrap()
        .task_id;
    let ended = crate::support::end(&manager, &task).await;

    for _ in 0..2 {
        let cancelled = manager.cancel(&task).await.unwrap();
        assert_eq!(cancelled.info, ended);
        assert!(cancelled.stopped);
    }
    assert_eq!(types(&sink.events()), [EventType::TaskDone]);
    assert_eq!(manager.cancel(&"navi-x".parse().unwrap()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_task_cancels_itself() {
    let (manager, _) = navigation();
    let own = manager.clone();
    let task = manager
        .start(spec(), async move |task| {
            own.cancel(task.task_id()).await;
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    assert_eq!(
        crate::support::end(&manager, &task).await.state,
        TaskState::Cancelled
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_during_a_cancel_ends_it_and_says_that_the_stop_was_not_in_order() {
    struct Jammed;
    impl Drop for Jammed {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "brake jammed");
        }
    }

    let logs = Logs::capture();
    let (manager, sink) = navigation();
    let in_drop = manager
        .start(spec(), async |_| {
            let _brake = Jammed;
            std::future::pending().await
        })
        .unwrap()
        .task_id;
    let in_teardown = manager
        .start(spec().cancel_mode(COOPERATIVE), async |task| {
            task.cancelled().await;
            panic!("brake jammed")
        })
        .unwrap()
        .task_id;
    settle().await;

    for task in [in_drop, in_teardown] {
        let cancelled = manager.cancel(&task).await.unwrap();
        assert_eq!(cancelled.info.state, TaskState::Cancelled);
        assert!(!cancelled.stopped);
    }
    assert_eq!(sink.events(), []);
    let errors = logs.at(Level::ERROR);
    assert_eq!(errors.len(), 2);
    assert!(
        errors
            .iter()
            .all(|line| line.field("panic") == Some("brake jammed"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_close_cancels_all_tasks_side_by_side_and_then_closes_the_sink() {
    let (manager, sink) = navigation();
    for _ in 0..50 {
        start_slow_to_stop(&manager);
        manager
            .start(spec(), async |_| std::future::pending().await)
            .unwrap();
    }
    let done = manager
        .start(spec(), async |_| Ok(payload! {}))
        .unwrap()
        .task_id;
    settle().await;
    let before = Instant::now();

    manager.close().await;

    assert_eq!(before.elapsed(), 3 * SECOND);
    assert!(sink.is_closed());
    assert_eq!(manager.list(&[TaskState::Cancelled]).len(), 100);
    assert_eq!(manager.get(&done).unwrap().state, TaskState::Succeeded);
    manager.close().await;
    assert_eq!(
        before.elapsed(),
        3 * SECOND,
        "a second close has nothing to wait for"
    );
}

/// A blocked thread cannot be had on a paused clock, so the grace is short and real. Nothing here
/// depends on how long it takes: the thread is released by the test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_blocks_its_thread_is_reported_as_not_stopped() {
    for mode in [CancelMode::Droppable, COOPERATIVE] {
        let sink = MemorySink::new();
        let manager = TaskManager::builder("navigation".parse().unwrap(), sink.clone())
            .cancel_grace(Duration::from_millis(20))
            .build()
            .unwrap();
        let (release, blocked) = mpsc::channel::<()>();
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let (left, has_left) = tokio::sync::oneshot::channel();
        let task = manager
            .start(spec().cancel_mode(mode), async move |task| {
                began.send(()).unwrap();
                // Never do this in a body.
                let _ = blocked.recv();
                let refused = task.progress(payload! {});
                left.send((task, refused)).unwrap();
                Ok(payload! { "arrived": true })
            })
            .unwrap()
            .task_id;
        has_begun.await.unwrap();

        let cancelled = manager.cancel(&task).await.unwrap();

        assert!(!cancelled.stopped, "{mode:?}");
        assert_eq!(cancelled.info.state, TaskState::Cancelled);
        assert!(!manager.cancel(&task).await.unwrap().stopped);

        release.send(()).unwrap();
        let (_, refused) = has_left.await.unwrap();
        assert_eq!(refused, Err(EmitError::Cancelled));
        while !manager.cancel(&task).await.unwrap().stopped {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            manager.get(&task).unwrap(),
            cancelled.info,
            "the verdict stays"
        );
        assert_eq!(sink.events(), []);
    }
}

/// A body whose destructor, which runs when it has returned and its end is not yet recorded,
/// brings in a cancel.
struct CancelledInTheWindow {
    manager: TaskManager,
    task: TaskContext,
}

impl Future for CancelledInTheWindow {
    type Output = Result<rvc_tasks::Map, rvc_tasks::TaskError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(payload! { "arrived": true }))
    }
}

impl Drop for CancelledInTheWindow {
    fn drop(&mut self) {
        let mut cancel = Box::pin(self.manager.cancel(self.task.task_id()));
        let first_poll = cancel
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(first_poll.is_pending(), "the cancel is accepted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_completion_window_wins() {
    for mode in [CancelMode::Droppable, COOPERATIVE] {
        let (manager, sink) = navigation();
        let task = manager
            .start(spec().cancel_mode(mode), {
                let manager = manager.clone();
                |task| CancelledInTheWindow { manager, task }
            })
            .unwrap()
            .task_id;

        let info = crate::support::end(&manager, &task).await;

        assert_eq!(info.state, TaskState::Cancelled);
        assert_eq!(info.result, None);
        assert!(manager.cancel(&task).await.unwrap().stopped);
        assert_eq!(sink.events(), [], "no task_done after an accepted cancel");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_cancel_and_a_return_exactly_one_wins() {
    let (manager, sink) = navigation();
    let mut wins = [0, 0];
    for round in 0_u32..1_000 {
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let task = manager
            .start(spec().cancel_mode(COOPERATIVE), async move |task| {
                tokio::select! {
                    _ = gone => {}
                    () = task.cancelled() => {}
                }
                Ok(payload! { "round": round })
            })
            .unwrap()
            .task_id;
        let cancel = tokio::spawn({
            let (manager, task) = (manager.clone(), task.clone());
            async move { manager.cancel(&task).await.unwrap() }
        });
        // Ignored on purpose: the cancel may already have ended the body.
        let _ = go.send(());
        let cancelled = cancel.await.unwrap();

        let info = manager.get(&task).unwrap();
        assert_eq!(info, cancelled.info, "the answer is the end");
        assert!(cancelled.stopped);
        let events = types(&sink.events_of(&task));
        match info.state {
            TaskState::Succeeded => {
                wins[0] += 1;
                assert_eq!(events, [EventType::TaskDone]);
            }
            TaskState::Cancelled => {
                wins[1] += 1;
                assert_eq!(events, []);
                assert_eq!(info.result, None);
            }
            other => panic!("ended {other}"),
        }
    }
    assert_eq!(wins[0] + wins[1], 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_follows_an_accepted_cancel_however_hard_the_body_tries() {
    for _ in 0..200 {
        let (manager, sink) = navigation();
        let task = manager
            .start(spec().cancel_mode(COOPERATIVE), async |task| {
                loop {
                    if task.emit(payload! {}).is_err() {
                        return Ok(payload! {});
                    }
                    tokio::task::yield_now().await;
                }
            })
            .unwrap()
            .task_id;
        let watch = tokio::spawn({
            let (manager, sink, task) = (manager.clone(), sink.clone(), task.clone());
            async move {
                while !manager.get(&task).unwrap().cancel_requested
                    && manager.get(&task).unwrap().state == TaskState::Running
                {
                    tokio::task::yield_now().await;
                }
                sink.events().len()
            }
        });
        tokio::task::yield_now().await;

        manager.cancel(&task).await.unwrap();

        let when_accepted = watch.await.unwrap();
        assert_eq!(sink.events().len(), when_accepted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_task_starts_unseen_by_a_close() {
    for _ in 0..100 {
        let (manager, sink) = navigation();
        let starter = tokio::spawn({
            let manager = manager.clone();
            async move {
                let forever = async |_| std::future::pending().await;
                while manager.start(spec(), forever).is_ok() {
                    tokio::task::yield_now().await;
                }
            }
        });
        tokio::task::yield_now().await;

        manager.close().await;

        assert_eq!(manager.list(&[TaskState::Running]), []);
        assert!(sink.is_closed());
        starter.await.unwrap();
        assert_eq!(manager.list(&[TaskState::Running]), []);
    }
}

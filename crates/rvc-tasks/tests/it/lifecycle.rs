use std::time::Duration;

use rvc_tasks::{
    EmitError, EventType, MemorySink, NoSink, StartError, TaskError, TaskManager, TaskState,
    payload,
};
use rvc_test::Logs;
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::support::{LONG, SECOND, end, navigation, settle, spec, told, trigger, types};

#[tokio::test(start_paused = true)]
async fn progress_events_come_in_order_and_then_the_result() {
    let (manager, sink) = navigation();
    let started = manager
        .start(spec().est_duration(3 * SECOND), async |task| {
            for second in 1..=3 {
                sleep(SECOND).await;
                task.progress(payload! { "eta_s": 3 - second })?;
            }
            Ok(payload! { "arrived": true })
        })
        .unwrap();
    assert_eq!(started.state, TaskState::Running);
    assert_eq!(started.est_duration_s, Some(3.0));
    assert_eq!(started.tool.as_str(), "navigate_to");
    assert!(started.task_id.as_str().starts_with("navi-"));

    let ended = end(&manager, &started.task_id).await;

    assert_eq!(ended.state, TaskState::Succeeded);
    assert_eq!(ended.result, Some(payload! { "arrived": true }));
    assert_eq!(ended.progress, Some(payload! { "eta_s": 0 }));
    assert_eq!(ended.failure, None);
    assert_eq!(
        told(&sink.events()),
        [
            (EventType::Progress, r#"{"eta_s":2}"#.into()),
            (EventType::Progress, r#"{"eta_s":1}"#.into()),
            (EventType::Progress, r#"{"eta_s":0}"#.into()),
            (EventType::TaskDone, r#"{"result":{"arrived":true}}"#.into()),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_error_fails_the_task_with_its_structure() {
    let (manager, sink) = navigation();
    let task = manager
        .start(spec(), async |_| {
            Err(TaskError::new("DOOR_CLOSED", "The door is closed.").suggestion("ask_reception"))
        })
        .unwrap()
        .task_id;

    let info = end(&manager, &task).await;

    assert_eq!(info.state, TaskState::Failed);
    assert_eq!(info.result, None);
    assert_eq!(
        told(&sink.events()),
        [(
            EventType::TaskFailed,
            r#"{"error_code":"DOOR_CLOSED","message":"The door is closed.","recoverable":true,"suggestions":["ask_reception"]}"#.into()
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn any_other_error_fails_the_task_as_internal_and_is_logged_with_its_sources() {
    #[derive(Debug, thiserror::Error)]
    #[error("route not read")]
    struct RouteError(#[from] std::num::ParseIntError);

    let logs = Logs::capture();
    let (manager, _) = navigation();
    let task = manager
        .start(spec(), async |_| {
            let waypoint: u32 = "dock".parse().map_err(RouteError)?;
            Ok(payload! { "waypoint": waypoint })
        })
        .unwrap()
        .task_id;

    let failure = end(&manager, &task).await.failure.unwrap();

    assert_eq!(failure.error_code, "INTERNAL");
    assert_eq!(failure.message, "route not read");
    assert!(!failure.recoverable);
    let line = logs.at(Level::ERROR).remove(0);
    assert_eq!(
        line.field("error"),
        Some("route not read: invalid digit found in string")
    );
    assert_eq!(line.field("task_id"), Some(task.as_str()));
    assert_eq!(line.field("tool"), Some("navigate_to"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_its_task_and_nothing_else() {
    let logs = Logs::capture();
    let (manager, sink) = navigation();
    let at_once = manager
        .start(spec(), |_| -> std::future::Ready<_> {
            panic!("no body at all")
        })
        .unwrap()
        .task_id;
    let later = manager
        .start(spec(), async |task| {
            task.progress(payload! {})?;
            sleep(SECOND).await;
            panic!("wheel {} is gone", 3)
        })
        .unwrap()
        .task_id;
    let other = manager
        .start(spec(), async |_| {
            sleep(2 * SECOND).await;
            Ok(payload! {})
        })
        .unwrap()
        .task_id;

    for (task, message) in [
        (&at_once, "the task's body panicked: no body at all"),
        (&later, "the task's body panicked: wheel 3 is gone"),
    ] {
        let failure = end(&manager, task).await.failure.unwrap();
        assert_eq!(failure.error_code, "INTERNAL");
        assert_eq!(failure.message, message);
        assert!(!failure.recoverable);
    }
    assert_eq!(end(&manager, &other).await.state, TaskState::Succeeded);
    assert_eq!(
        types(&sink.events_of(&later)),
        [EventType::Progress, EventType::TaskFailed]
    );
    assert_eq!(logs.at(Level::ERROR).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn numbers_that_are_not_finite_become_null() {
    let (manager, sink) = navigation();
    let task = manager
        .start(spec(), async |task| {
            task.progress(payload! { "eta_s": f64::INFINITY, "percent": f64::NAN })?;
            Ok(payload! { "distance_m": -f64::INFINITY })
        })
        .unwrap()
        .task_id;

    end(&manager, &task).await;

    assert_eq!(
        told(&sink.events()),
        [
            (
                EventType::Progress,
                r#"{"eta_s":null,"percent":null}"#.into()
            ),
            (
                EventType::TaskDone,
                r#"{"result":{"distance_m":null}}"#.into()
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_result_of_8_mib_is_left_out_of_the_event_and_read_with_get_task() {
    let logs = Logs::capture();
    let (manager, sink) = navigation();
    let map = payload! { "map": "x".repeat(8 << 20) };
    let returned = map.clone();
    let task = manager
        .start(spec(), async |_| Ok(returned))
        .unwrap()
        .task_id;

    let info = end(&manager, &task).await;

    assert_eq!(info.state, TaskState::Succeeded);
    assert_eq!(info.result, Some(map));
    assert_eq!(
        told(&sink.events()),
        [(
            EventType::TaskDone,
            r#"{"result":{"omitted":{"bytes":8388618,"read_with":"get_task"}}}"#.into()
        )]
    );
    assert_eq!(
        logs.at(Level::WARN)[0].field("task_id"),
        Some(task.as_str())
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_larger_than_an_event_is_shortened_there_and_read_with_get_task() {
    let (manager, sink) = navigation();
    let task = manager
        .start(spec(), async |_| {
            Err(TaskError::new("STUCK", "x".repeat(1 << 20)).suggestion("y".repeat(1 << 20)))
        })
        .unwrap()
        .task_id;

    let failure = end(&manager, &task).await.failure.unwrap();

    assert_eq!(failure.message.len(), 1 << 20);
    let sent = &sink.events()[0].payload;
    assert_eq!(sent["error_code"], "STUCK");
    assert!(
        sent["message"]
            .as_str()
            .unwrap()
            .ends_with("x [cut, 1048576 bytes in all]")
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_too_large_is_refused_and_the_body_can_send_less() {
    let (manager, sink) = navigation();
    let task = manager
        .start(
            spec().triggers([trigger(r#"{"type":"eta_below","seconds":1}"#)]),
            async |task| {
                let large = payload! { "percent": 100, "image": "x".repeat(1 << 20) };
                let eta = &task.triggers()[0];
                for refused in [
                    task.progress(large.clone()),
                    task.emit(large.clone()),
                    task.fire_trigger(eta, large).map(drop),
                ] {
                    assert!(matches!(
                        refused,
                        Err(EmitError::TooLarge {
                            bytes: 1_048_577..,
                            most: 1_048_576
                        })
                    ));
                }
                task.progress(payload! { "percent": 1 })?;
                task.fire_trigger(eta, payload! {})?;
                Ok(payload! {})
            },
        )
        .unwrap()
        .task_id;

    let info = end(&manager, &task).await;

    assert_eq!(info.state, TaskState::Succeeded, "{info:?}");
    assert_eq!(info.progress, Some(payload! { "percent": 1 }));
    assert_eq!(
        types(&sink.events()),
        [
            EventType::Progress,
            EventType::TriggerFired,
            EventType::TaskDone
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_of_exactly_the_limit_is_sent() {
    let sink = MemorySink::new();
    let manager = TaskManager::builder("nav".parse().unwrap(), sink.clone())
        .max_event_bytes(10_000)
        .build()
        .unwrap();
    let task = manager
        .start(spec(), async |task| {
            task.emit(payload! { "text": "" })?;
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    end(&manager, &task).await;
    let room = 10_000 - sink.events()[0].to_json().len();

    let task = manager
        .start(spec(), async move |task| {
            task.emit(payload! { "text": "x".repeat(room) })?;
            let over = task.emit(payload! { "text": "x".repeat(room + 1) });
            assert_eq!(
                over,
                Err(EmitError::TooLarge {
                    bytes: 10_001,
                    most: 10_000
                })
            );
            Ok(payload! {})
        })
        .unwrap()
        .task_id;

    assert_eq!(end(&manager, &task).await.state, TaskState::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_helper_that_outlives_its_body_reports_no_more() {
    let (manager, sink) = navigation();
    let (send, helper) = tokio::sync::oneshot::channel();
    let task = manager
        .start(spec(), async |task| {
            let reports = tokio::spawn(async move {
                task.cancelled().await;
                [task.progress(payload! {}), task.emit(payload! {})]
            });
            send.send(reports).unwrap();
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    end(&manager, &task).await;

    let reports = helper.await.unwrap().await.unwrap();

    assert_eq!(reports, [Err(EmitError::Ended), Err(EmitError::Ended)]);
    assert_eq!(types(&sink.events()), [EventType::TaskDone]);
}

#[test]
fn a_start_outside_a_runtime_is_an_error() {
    let manager = TaskManager::new("nav".parse().unwrap(), NoSink);
    let start = manager.start(spec(), async |_| Ok(payload! {}));
    assert_eq!(start.unwrap_err(), StartError::NoRuntime);
}

#[test]
fn a_runtime_that_shuts_down_ends_its_tasks() {
    let (manager, sink) = navigation();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let task = runtime.block_on(async {
        manager
            .start(spec(), async |_| std::future::pending().await)
            .unwrap()
            .task_id
    });

    drop(runtime);

    assert_eq!(manager.get(&task).unwrap().state, TaskState::Cancelled);
    assert_eq!(sink.events(), []);
}

#[tokio::test(start_paused = true)]
async fn a_start_during_shutdown_is_refused() {
    let (manager, sink) = navigation();
    let slow = manager
        .start(
            spec().cancel_mode(crate::support::COOPERATIVE),
            async |task| {
                task.cancelled().await;
                sleep(SECOND).await;
                Ok(payload! {})
            },
        )
        .unwrap()
        .task_id;
    settle().await;
    let closing = tokio::spawn({
        let manager = manager.clone();
        async move { manager.close().await }
    });
    settle().await;

    let start = manager.start(spec(), async |_| unreachable!("it is not started"));

    assert_eq!(start.unwrap_err(), StartError::ShuttingDown);
    assert!(manager.get(&slow).unwrap().cancel_requested);
    assert!(!sink.is_closed());
    closing.await.unwrap();
    assert!(sink.is_closed());
    assert_eq!(manager.list(&[]).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn wait_answers_at_the_end_or_at_the_time_out() {
    let (manager, _) = navigation();
    let task = manager
        .start(spec(), async |_| {
            sleep(10 * SECOND).await;
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    let start = Instant::now();

    let running = manager.wait(&task, 4 * SECOND).await.unwrap();
    assert_eq!(
        (running.state, start.elapsed()),
        (TaskState::Running, 4 * SECOND)
    );
    let ended = manager.wait(&task, LONG).await.unwrap();
    assert_eq!(
        (ended.state, start.elapsed()),
        (TaskState::Succeeded, 10 * SECOND)
    );
    assert_eq!(
        manager.wait(&task, Duration::ZERO).await.unwrap().state,
        TaskState::Succeeded
    );
    assert_eq!(manager.wait(&"navi-x".parse().unwrap(), LONG).await, None);
}

#[tokio::test(start_paused = true)]
async fn list_has_the_tasks_in_the_asked_states_oldest_first() {
    let (manager, _) = navigation();
    let mut tasks = Vec::new();
    for secs in [1, 100, 2, 100] {
        let body = async move |_| {
            sleep(secs * SECOND).await;
            Ok(payload! {})
        };
        tasks.push(manager.start(spec(), body).unwrap().task_id);
    }
    sleep(10 * SECOND).await;

    let listed = |states: &[TaskState]| -> Vec<_> {
        let infos = manager.list(states);
        infos.into_iter().map(|info| info.task_id).collect()
    };
    assert_eq!(listed(&[]), tasks);
    assert_eq!(
        listed(&[TaskState::Running]),
        [tasks[1].clone(), tasks[3].clone()]
    );
    assert_eq!(
        listed(&[TaskState::Succeeded]),
        [tasks[0].clone(), tasks[2].clone()]
    );
    assert_eq!(listed(&[TaskState::Failed, TaskState::Cancelled]), []);
}

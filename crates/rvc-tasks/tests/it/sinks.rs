use std::pin::Pin;
use std::time::Duration;

use rvc_poster::{Connecting, Connector, Secret, Transport};
use rvc_tasks::{
    CancelMode, Endpoint, EventPoster, EventSink, EventType, MemorySink, NoSink, OutgoingEvent,
    SetupError, TaskContext, TaskId, TaskManager, TaskState, payload,
};
use rvc_test::{Logs, ScriptedEndpoint};
use tokio::time::{sleep, timeout};
use tracing::Level;

use crate::support::{COOPERATIVE, LONG, SECOND, end, navigation, settle, spec, trigger, types};

#[tokio::test(start_paused = true)]
async fn a_task_runs_the_same_behind_every_sink() {
    let server = || "nav".parse().unwrap();
    for manager in [
        TaskManager::new(server(), EventPoster::disabled(server())),
        TaskManager::new(server(), NoSink),
        TaskManager::new(server(), MemorySink::new()),
    ] {
        let task = manager
            .start(spec(), async |_| Ok(payload! { "n": 1 }))
            .unwrap()
            .task_id;
        assert_eq!(end(&manager, &task).await.result, Some(payload! { "n": 1 }));
        manager.close().await;
    }
}

struct PanickingSink;

impl EventSink for PanickingSink {
    fn post(&self, _: OutgoingEvent) {
        panic!("disk full");
    }

    fn forget(&self, _: &TaskId) {
        panic!("disk gone");
    }

    fn close(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_harms_no_task() {
    let logs = Logs::capture();
    let manager = TaskManager::new("nav".parse().unwrap(), PanickingSink);
    let task = manager
        .start(spec(), async |task| {
            task.progress(payload! {})?;
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    assert_eq!(end(&manager, &task).await.state, TaskState::Succeeded);
    assert_eq!(logs.at(Level::ERROR).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_keeps_no_body_from_being_stopped() {
    let manager = TaskManager::new("nav".parse().unwrap(), PanickingSink);
    let task = manager
        .start(spec(), async |_| std::future::pending().await)
        .unwrap()
        .task_id;
    let cancelled = manager.cancel(&task).await.unwrap();
    assert!(cancelled.stopped);
    assert_eq!(cancelled.info.state, TaskState::Cancelled);
}

/// Reports, fires and watches, and then stays.
async fn busy(task: TaskContext) -> Result<rvc_tasks::Map, rvc_tasks::TaskError> {
    task.progress(payload! { "eta_s": 9 })?;
    task.fire_trigger(&task.triggers()[0], payload! {})?;
    task.emit(payload! {})?;
    sleep(LONG).await;
    Ok(payload! {})
}

#[tokio::test(start_paused = true)]
async fn what_waits_in_the_sink_when_a_cancel_is_accepted_is_never_sent() {
    for mode in [CancelMode::Droppable, COOPERATIVE] {
        let (manager, sink) = navigation();
        sink.hold();
        let spec = || {
            let eta = trigger(r#"{"type":"eta_below","seconds":10}"#);
            spec().triggers([eta]).cancel_mode(mode)
        };
        let cancelled = manager.start(spec(), busy).unwrap().task_id;
        let goes_on = manager.start(spec(), busy).unwrap().task_id;
        settle().await;

        // Accepted, and not over yet: a cooperative body has its grace.
        let _ = timeout(Duration::ZERO, manager.cancel(&cancelled)).await;
        sink.release();

        sleep(10 * SECOND).await;
        let info = manager.get(&cancelled).unwrap();
        assert_eq!(info.state, TaskState::Cancelled);
        assert_eq!(sink.events_of(&cancelled), []);
        assert_eq!(sink.events_of(&goes_on).len(), 3);
    }
}

/// Connects to an endpoint in memory.
struct Memory(ScriptedEndpoint);

impl Connector for Memory {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async { Ok(Box::new(self.0.connect().await?) as Box<dyn Transport>) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_brain_that_comes_back_after_a_cancel_hears_nothing_of_that_task() {
    let brain = ScriptedEndpoint::answering([200]);
    brain.go_down();
    let endpoint = Endpoint::new("http://brain/events", Secret::new(b"s").unwrap()).unwrap();
    let poster = EventPoster::builder("nav".parse().unwrap(), endpoint)
        .connector(Memory(brain.clone()))
        .build()
        .unwrap();
    let manager = TaskManager::new("nav".parse().unwrap(), poster);
    let eta = trigger(r#"{"type":"eta_below","seconds":10}"#);
    let spec = spec().triggers([eta]);
    let task = manager.start(spec, busy).unwrap().task_id;
    sleep(5 * SECOND).await;
    assert!(manager.cancel(&task).await.unwrap().stopped);

    brain.come_back();

    sleep(900 * SECOND).await;
    assert!(brain.received().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_before_the_cancel_keeps_what_waits_in_the_sink() {
    let (manager, sink) = navigation();
    sink.hold();
    let task = manager
        .start(spec(), async |task| {
            task.progress(payload! {})?;
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    end(&manager, &task).await;
    assert_eq!(sink.events(), []);

    let cancelled = manager.cancel(&task).await.unwrap();
    sink.release();

    assert_eq!(cancelled.info.state, TaskState::Succeeded);
    let sent = types(&sink.events());
    assert_eq!(sent, [EventType::Progress, EventType::TaskDone]);
}

#[tokio::test(start_paused = true)]
async fn what_was_reported_before_a_close_is_left_to_the_drain_unless_somebody_cancels() {
    let (manager, sink) = navigation();
    sink.hold();
    let spec = || {
        let eta = trigger(r#"{"type":"eta_below","seconds":10}"#);
        spec().triggers([eta])
    };
    let left = manager.start(spec(), busy).unwrap().task_id;
    let cancelled = manager.start(spec(), busy).unwrap().task_id;
    settle().await;

    manager.close().await;
    manager.cancel(&cancelled).await;
    sink.release();

    assert_eq!(sink.events_of(&left).len(), 3);
    assert_eq!(sink.events_of(&cancelled), []);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_drops_nothing_that_waits_in_the_sink() {
    let (manager, sink) = navigation();
    sink.hold();
    let eta = trigger(r#"{"type":"eta_below","seconds":10}"#);
    let spec = spec().triggers([eta]).deadline(SECOND);
    let task = manager.start(spec, busy).unwrap().task_id;
    end(&manager, &task).await;
    manager.cancel(&task).await;
    sink.release();
    let sent = types(&sink.events());
    assert_eq!(sent.len(), 4);
    assert_eq!(sent[3], EventType::TaskFailed);
}

#[test]
fn a_manager_that_could_not_work_is_not_built() {
    let poster = EventPoster::disabled("perception".parse().unwrap());
    let other = TaskManager::builder("nav".parse().unwrap(), poster).build();
    assert!(matches!(other.unwrap_err(), SetupError::OtherServer { .. }));

    let small = TaskManager::builder("nav".parse().unwrap(), NoSink)
        .max_event_bytes(1_000)
        .build();
    assert!(matches!(
        small.unwrap_err(),
        SetupError::EventsTooSmall { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn an_end_fits_in_the_smallest_event() {
    let sink = MemorySink::new();
    let server = "s".repeat(64).parse().unwrap();
    let manager = TaskManager::builder(server, sink.clone())
        .short_name("n".repeat(32).parse().unwrap())
        .max_event_bytes(8_192)
        .build()
        .unwrap();
    let long = rvc_tasks::TaskError::new("C".repeat(9_000), "m\n".repeat(9_000));
    let task = manager.start(spec(), async |_| Err(long)).unwrap().task_id;
    end(&manager, &task).await;
    assert_eq!(types(&sink.events()), [EventType::TaskFailed]);
    assert!(sink.events()[0].to_json().len() <= 8_192);
}

use std::pin::Pin;
use std::time::Duration;

use rvc_tasks::{
    EventPoster, EventSink, EventType, MemorySink, NoSink, OutgoingEvent, SetupError, TaskManager,
    TaskState, payload,
};
use rvc_test::Logs;
use tracing::Level;

use crate::support::{end, spec, types};

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

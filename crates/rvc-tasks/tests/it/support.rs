use std::time::Duration;

use rvc_tasks::{
    CancelMode, EventType, MemorySink, TaskEvent, TaskId, TaskInfo, TaskManager, TaskSpec, Trigger,
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Longer than anything a test waits for; the clock is paused.
pub(crate) const LONG: Duration = Duration::from_secs(1_000_000);

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A manager of the server `navigation`, and what its tasks send.
pub(crate) fn navigation() -> (TaskManager, MemorySink) {
    let sink = MemorySink::new();
    let manager = TaskManager::new("navigation".parse().unwrap(), sink.clone());
    (manager, sink)
}

pub(crate) fn spec() -> TaskSpec {
    TaskSpec::new("navigate_to")
}

pub(crate) fn trigger(text: &str) -> Trigger {
    serde_json::from_str(text).unwrap()
}

pub(crate) async fn end(manager: &TaskManager, task: &TaskId) -> TaskInfo {
    manager.wait(task, LONG).await.unwrap()
}

/// Lets everything run that can without time passing.
pub(crate) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// The events' types and payloads; checks on the way that `seq` counts from 1 without a gap.
pub(crate) fn told(events: &[TaskEvent]) -> Vec<(EventType, String)> {
    events
        .iter()
        .zip(1..)
        .map(|(event, seq)| {
            assert_eq!(event.seq.get(), seq, "seq has a gap in {events:#?}");
            let payload = serde_json::to_string(&event.payload).unwrap();
            (event.event_type.clone(), payload)
        })
        .collect()
}

pub(crate) fn types(events: &[TaskEvent]) -> Vec<EventType> {
    told(events)
        .into_iter()
        .map(|(event_type, _)| event_type)
        .collect()
}

/// Told of a cancel, with the manager's grace.
pub(crate) const COOPERATIVE: CancelMode = CancelMode::Cooperative { grace: None };

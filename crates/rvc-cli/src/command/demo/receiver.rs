use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rvc_inbox::{Accepted, Handler, NotNow, Rejection};
use rvc_wire::{TaskEvent, TaskId};
use tokio::sync::watch;

use crate::command::demo::timeline::Timeline;

/// What the receiver got so far.
pub(crate) struct Received {
    log: Mutex<Log>,
    ended: watch::Sender<BTreeSet<TaskId>>,
}

#[derive(Default)]
struct Log {
    events: Vec<TaskEvent>,
    refused: Vec<String>,
}

impl Received {
    pub(crate) fn new() -> Self {
        Self {
            log: Mutex::default(),
            ended: watch::Sender::default(),
        }
    }

    /// Waits for the event that ends a task.
    pub(crate) async fn end_of(&self, task: &TaskId) {
        let mut ended = self.ended.subscribe();
        ended
            .wait_for(|ended| ended.contains(task))
            .await
            .expect("the sender lives as long as this");
    }

    /// The events that verified, and the verdicts of what did not.
    pub(crate) fn take(&self) -> (Vec<TaskEvent>, Vec<String>) {
        let log = std::mem::take(&mut *self.log());
        (log.events, log.refused)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes and prints what the service takes.
pub(crate) struct Receiver {
    pub(crate) received: Arc<Received>,
    pub(crate) timeline: Arc<Timeline>,
}

impl Handler for Receiver {
    async fn handle(&self, accepted: Accepted) -> Result<(), NotNow> {
        let event = accepted.event;
        self.timeline
            .event(&event)
            .map_err(|error| NotNow::new(error.to_string()))?;
        let end = event.event_type.is_end().then(|| event.task_id.clone());
        self.received.log().events.push(event);
        if let Some(task) = end {
            self.received.ended.send_modify(|ended| {
                ended.insert(task);
            });
        }
        Ok(())
    }

    fn rejected(&self, rejection: &Rejection) {
        let verdict = rejection.verdict();
        self.received.log().refused.push(verdict.to_owned());
        // The timeline keeps its own trouble.
        let _ = self.timeline.refusal(verdict, &rejection.to_string());
    }
}

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rvc_tasks::{EventPoster, EventSink, OutgoingEvent, ServerName, TaskId};

/// A poster that counts what is sent through it, so that what arrives can be compared.
#[derive(Clone)]
pub(crate) struct CountingPoster {
    poster: EventPoster,
    sent: Arc<Mutex<BTreeMap<TaskId, u64>>>,
}

impl CountingPoster {
    pub(crate) fn new(poster: EventPoster) -> Self {
        Self {
            poster,
            sent: Arc::default(),
        }
    }

    /// How many events of each task were sent so far.
    pub(crate) fn sent(&self) -> BTreeMap<TaskId, u64> {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.clone()
    }
}

impl EventSink for CountingPoster {
    fn post(&self, event: OutgoingEvent) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        *sent.entry(event.task_id().clone()).or_default() += 1;
        drop(sent);
        self.poster.post(event);
    }

    fn forget(&self, task: &TaskId) {
        self.poster.forget(task);
    }

    fn close(&self, drain: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        EventSink::close(&self.poster, drain)
    }

    fn server(&self) -> Option<&ServerName> {
        Some(self.poster.server())
    }
}

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rvc_poster::OutgoingEvent;
use rvc_wire::{TaskEvent, TaskId};

use crate::EventSink;

/// A sink that keeps every event, for tests. Clones share what they keep.
///
/// It delivers at once, unless it is told to [`hold`](Self::hold) events back, as a poster must
/// while the brain is out of reach.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use rvc_tasks::{EventType, MemorySink, TaskManager, TaskSpec, payload};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sink = MemorySink::new();
/// let manager = TaskManager::new("sleeper".parse()?, sink.clone());
///
/// let started = manager.start(TaskSpec::new("nap"), async |_| Ok(payload! { "slept_s": 0 }))?;
/// manager.wait(&started.task_id, Duration::from_secs(10)).await;
///
/// assert_eq!(sink.events()[0].event_type, EventType::TaskDone);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemorySink(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    events: Vec<TaskEvent>,
    held: Vec<TaskEvent>,
    holds: bool,
    closed: bool,
}

impl MemorySink {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds back what is posted from now on: [`events`](Self::events) has none of it before the
    /// [`release`](Self::release), and nothing of a task that is cancelled until then.
    pub fn hold(&self) {
        self.lock().holds = true;
    }

    /// Delivers what was held back, and holds nothing back any more.
    pub fn release(&self) {
        let mut kept = self.lock();
        kept.holds = false;
        let held = std::mem::take(&mut kept.held);
        kept.events.extend(held);
    }

    /// Every event that was delivered so far, in the order in which they were posted.
    #[must_use]
    pub fn events(&self) -> Vec<TaskEvent> {
        self.lock().events.clone()
    }

    /// The events of one task that were delivered so far.
    #[must_use]
    pub fn events_of(&self, task: &TaskId) -> Vec<TaskEvent> {
        let kept = self.lock();
        let of_task = kept.events.iter().filter(|event| event.task_id == *task);
        of_task.cloned().collect()
    }

    /// Whether it was closed; it keeps nothing that comes after that.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for MemorySink {
    fn post(&self, event: OutgoingEvent) {
        let mut kept = self.lock();
        if !kept.closed {
            let event = TaskEvent::from_json(event.body()).expect("a posted event is an event");
            let to = if kept.holds {
                &mut kept.held
            } else {
                &mut kept.events
            };
            to.push(event);
        }
    }

    fn forget(&self, task: &TaskId) {
        self.lock().held.retain(|event| event.task_id != *task);
    }

    fn close(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.lock().closed = true;
        Box::pin(std::future::ready(()))
    }
}

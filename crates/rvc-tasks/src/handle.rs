use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rvc_wire::TaskInfo;
use serde_json::Value;

use crate::manager::Inner;
use crate::question::{Answered, BadAnswer, OpenQuestion};
use crate::record::Record;
use crate::teardown;

/// A task kept in hand: it stays readable, whole, for as long as one exists, however many
/// others have finished since. Clones are cheap.
///
/// For surfaces beside the contract's, such as the official MCP Tasks extension.
#[derive(Clone)]
pub struct TaskHandle {
    // Weak, so that a handle kept beside the manager does not keep the manager. A task that
    // runs does.
    manager: Weak<Inner>,
    hold: Arc<Hold>,
}

/// Keeps the registry from thinning out what the task left.
struct Hold {
    record: Arc<Record>,
}

impl TaskHandle {
    pub(crate) fn new(manager: &Arc<Inner>, record: Arc<Record>) -> Self {
        Self::hold(Arc::downgrade(manager), record)
    }

    fn hold(manager: Weak<Inner>, record: Arc<Record>) -> Self {
        record.pin();
        let hold = Arc::new(Hold { record });
        Self { manager, hold }
    }

    /// The task as a poll sees it.
    #[must_use]
    pub fn info(&self) -> TaskInfo {
        self.record().info()
    }

    /// How long ago it was started; the wall clock has no part in it.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.record().age()
    }

    /// Whether the body has stopped in order by now. False while it runs.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.record().has_stopped()
    }

    /// Waits for the task's end.
    ///
    /// # Cancel safety
    ///
    /// It only looks; nothing is lost when it is dropped.
    pub async fn ended(&self) {
        self.record().ended().await;
    }

    /// Asks for a cancel and returns at once; the manager drives the teardown. A task that has
    /// ended, or is being cancelled, is left as it is.
    pub fn request_cancel(&self) {
        // Without a manager there is nothing left that runs.
        if let Some(manager) = self.manager.upgrade() {
            teardown::request_cancel(&manager, self.record());
            manager.silence(self.record());
        }
    }

    /// The questions that wait for an answer, in the order in which they were asked.
    #[must_use]
    pub fn questions(&self) -> Vec<OpenQuestion> {
        self.record().open_questions()
    }

    /// Checks an answer without giving it. One that nobody waits for passes.
    ///
    /// # Errors
    ///
    /// [`BadAnswer`].
    pub fn check_answer(&self, key: &str, answer: &Value) -> Result<(), BadAnswer> {
        self.record().check_answer(key, answer)
    }

    /// Answers a question.
    ///
    /// # Errors
    ///
    /// [`BadAnswer`]; then the question stays open.
    pub fn answer(&self, key: &str, answer: Value) -> Result<Answered, BadAnswer> {
        self.record().answer(key, answer)
    }

    /// Whether somebody can answer the body's questions.
    #[must_use]
    pub fn is_answerable(&self) -> bool {
        self.record().is_answerable()
    }

    /// Says whether somebody can answer the body's questions, from now on. Those that wait are
    /// withdrawn if nobody can.
    pub fn set_answerable(&self, answerable: bool) {
        self.record().set_answerable(answerable);
    }

    /// Whether both are of the same task.
    #[must_use]
    pub fn is_same_task(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.record(), other.record())
    }

    /// A handle that does not keep the task.
    #[must_use]
    pub fn downgrade(&self) -> WeakTaskHandle {
        WeakTaskHandle {
            manager: Weak::clone(&self.manager),
            record: Arc::downgrade(self.record()),
        }
    }

    fn record(&self) -> &Arc<Record> {
        &self.hold.record
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle")
            .field("task_id", self.record().id())
            .finish_non_exhaustive()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.record.unpin();
    }
}

/// Finds a task again for as long as somebody else keeps it.
#[derive(Clone)]
pub struct WeakTaskHandle {
    manager: Weak<Inner>,
    record: Weak<Record>,
}

impl WeakTaskHandle {
    /// The task, unless nobody keeps it any more.
    #[must_use]
    pub fn upgrade(&self) -> Option<TaskHandle> {
        let record = self.record.upgrade()?;
        Some(TaskHandle::hold(Weak::clone(&self.manager), record))
    }

    /// Whether the task is gone for good.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.record.strong_count() == 0
    }
}

impl fmt::Debug for WeakTaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakTaskHandle").finish_non_exhaustive()
    }
}

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{LogContext, TaskHandle};

tokio::task_local! {
    static CURRENT: CallScope;
}

/// Whether whoever made a call can answer its tasks' questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// It can: [`TaskContext::ask`](crate::TaskContext::ask) waits for its answer.
    Answers,
    /// It is on the contract alone.
    Listens,
}

/// The scope of one tool call: says who called and what of the call is to be found in the logs,
/// and learns which tasks the call has started.
///
/// For surfaces beside the contract's, around the tool that they call. A tool that starts its
/// task from another tokio task is out of it, and its task is one of the contract alone.
///
/// # Examples
///
/// ```
/// use rvc_tasks::{CallScope, Caller, Map, NoSink, TaskManager, TaskSpec};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let manager = TaskManager::new("waver".parse()?, NoSink);
/// let scope = CallScope::new(Caller::Answers);
/// let tool = async { manager.start(TaskSpec::new("wave"), async |_task| Ok(Map::new())) };
///
/// let info = scope.run(tool).await?;
///
/// assert_eq!(scope.started()[0].info().task_id, info.task_id);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CallScope {
    caller: Caller,
    log_context: Arc<LogContext>,
    started: Arc<Mutex<Vec<TaskHandle>>>,
}

impl CallScope {
    /// The scope of a call that was made by `caller`.
    #[must_use]
    pub fn new(caller: Caller) -> Self {
        Self {
            caller,
            log_context: Arc::default(),
            started: Arc::default(),
        }
    }

    /// What of the call is to be found in the logs of the tasks that it starts, where the tool
    /// says nothing else ([`TaskSpec::log_context`](crate::TaskSpec::log_context)).
    #[must_use]
    pub fn log_context(mut self, context: LogContext) -> Self {
        self.log_context = Arc::new(context);
        self
    }

    /// Runs a call in it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the call; what it has started goes on, and is known here.
    pub async fn run<F: Future>(&self, call: F) -> F::Output {
        CURRENT.scope(self.clone(), call).await
    }

    /// The tasks that were started in it, in their order.
    #[must_use]
    pub fn started(&self) -> Vec<TaskHandle> {
        self.list().clone()
    }

    /// Whether the current caller can answer questions.
    pub(crate) fn is_answerable() -> bool {
        CURRENT
            .try_with(|scope| scope.caller == Caller::Answers)
            .unwrap_or(false)
    }

    /// Fills in what a tool has not said of its call, if there is a current scope.
    pub(crate) fn complete(context: &mut LogContext) {
        // Outside of a scope nothing is known.
        let _ = CURRENT.try_with(|scope| context.fill_in(&scope.log_context));
    }

    /// Notes a task that was started, if there is a current scope.
    pub(crate) fn note(make: impl FnOnce() -> TaskHandle) {
        // Outside of a scope nobody wants to know.
        let _ = CURRENT.try_with(|scope| scope.list().push(make()));
    }

    fn list(&self) -> MutexGuard<'_, Vec<TaskHandle>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CallScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallScope")
            .field("caller", &self.caller)
            .field("log_context", &self.log_context)
            .field("started", &self.list())
            .finish()
    }
}

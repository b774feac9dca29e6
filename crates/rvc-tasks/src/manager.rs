mod builder;

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rvc_wire::{Map, ServerName, ShortName, TaskId, TaskInfo, TaskState};
use tokio::runtime::Handle;
use tokio::time::timeout;
use uuid::Uuid;

pub use self::builder::{SetupError, TaskManagerBuilder};
use crate::apart::Apart;
use crate::call_scope::CallScope;
use crate::companions::Companions;
use crate::json_size::json_size;
use crate::lifecycle::{Exit, Sealing};
use crate::port::Port;
use crate::record::{Plan, Record};
use crate::registry::Registry;
use crate::runner::Runner;
use crate::teardown::{request_cancel, watch_deadline};
use crate::{
    AttachedTrigger, EventSink, LogContext, StartError, TaskContext, TaskError, TaskHandle,
    TaskSpec,
};

/// The most that a task's triggers may take as JSON: they are kept for as long as the task is,
/// and each is sent whole when it fires.
const MAX_TRIGGER_BYTES: usize = 64 * 1_024;

/// Runs the tasks of one server. Clones share them.
///
/// Tasks run on the runtime in which they are started, which needs its time driver
/// (`enable_all`), or their bodies [apart](Self::run_bodies_apart). They go on when every clone is
/// dropped; [`close`](Self::close) ends them.
#[derive(Clone)]
pub struct TaskManager {
    inner: Arc<Inner>,
}

/// What a cancel came to (contract decision 19).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cancelled {
    /// The task at its end. A task that had ended before the cancel is unchanged.
    pub info: TaskInfo,
    /// Whether the body stopped in order and in time. False means that the robot may still be
    /// moving.
    pub stopped: bool,
}

pub(crate) struct Inner {
    pub(crate) cancel_grace: Duration,
    drain: Duration,
    short_name: ShortName,
    port: Arc<Port>,
    apart: OnceLock<Apart>,
    registry: Mutex<Registry>,
    companions: Companions,
}

impl TaskManager {
    /// A manager with the contract's limits. See [`builder`](Self::builder) for others.
    ///
    /// # Panics
    ///
    /// If the sink is bound to another server: its events would be refused one and all.
    #[must_use]
    pub fn new(server: ServerName, sink: impl EventSink) -> Self {
        match Self::builder(server, sink).build() {
            Ok(manager) => manager,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts from the contract's limits.
    pub fn builder(server: ServerName, sink: impl EventSink) -> TaskManagerBuilder {
        TaskManagerBuilder::new(server, Box::new(sink))
    }

    /// The server whose tasks these are.
    #[must_use]
    pub fn server(&self) -> &ServerName {
        &self.inner.port.server
    }

    /// Gives the bodies of all tasks that start from now on threads of their own: as many as there
    /// are cores, and at least two. What bodies spawn runs there too.
    ///
    /// The current runtime becomes that of everything else: graces, deadlines and delivery. So a
    /// body that blocks its thread keeps nobody from a poll, a cancel or the end of the process.
    /// It can still keep other bodies from going on, and when all the threads are blocked no body
    /// goes on: their cancels answer `stopped: false`.
    ///
    /// `rvc-mcp` calls it when it serves. A second call does nothing. Tasks that run already stay
    /// where they are, so a watcher that starts before the server should be started after this.
    ///
    /// # Errors
    ///
    /// What the system says when it has no threads to give; also outside of a runtime.
    pub fn run_bodies_apart(&self) -> io::Result<()> {
        if self.inner.apart.get().is_none() {
            // Of two calls at the same time one is too late, and its threads end.
            let _ = self.inner.apart.set(Apart::from_here()?);
        }
        Ok(())
    }

    /// Starts a task and returns at once; the answer's state is `running`.
    ///
    /// The body is an async closure. It begins on its runtime, never inside this call. What it
    /// returns, an error or a panic ends the task (contract section 4.2).
    ///
    /// # Errors
    ///
    /// [`StartError`]; then the body is dropped without being called.
    pub fn start<B, F>(&self, spec: TaskSpec, body: B) -> Result<TaskInfo, StartError>
    where
        B: FnOnce(TaskContext) -> F + Send + 'static,
        F: Future<Output = Result<Map, TaskError>> + Send + 'static,
    {
        let (home, bodies) = self.inner.runtimes()?;
        let deadline = spec.deadline;
        let record = self.inner.admit(spec, home)?;
        let info = record.info();
        // Boxed until it begins, so that what it captures is not kept twice.
        let start = Box::new(move |context| Box::pin(body(context)) as _);
        CallScope::note(|| TaskHandle::new(&self.inner, Arc::clone(&record)));
        let runner = Runner::new(Arc::clone(&self.inner), Arc::clone(&record), start);
        record.attach_runner(bodies.spawn(runner).abort_handle());
        if let Some(deadline) = deadline {
            watch_deadline(&self.inner, &record, deadline);
        }
        Ok(info)
    }

    /// The task as a poll sees it, if it is held.
    #[must_use]
    pub fn get(&self, task: &TaskId) -> Option<TaskInfo> {
        self.inner.get(task).map(|record| record.info())
    }

    /// Keeps the task in hand, if it is held.
    #[must_use]
    pub fn handle(&self, task: &TaskId) -> Option<TaskHandle> {
        let record = self.inner.get(task)?;
        Some(TaskHandle::new(&self.inner, record))
    }

    /// What another layer keeps beside this manager's tasks: one of each type, made when it is
    /// first asked for.
    #[must_use]
    pub fn companion<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        self.inner.companions.get()
    }

    /// The tasks in one of these states, oldest first; all tasks if there are none.
    #[must_use]
    pub fn list(&self, states: &[TaskState]) -> Vec<TaskInfo> {
        let records = self.inner.registry().all();
        records
            .iter()
            .filter_map(|record| record.info_in(states))
            .collect()
    }

    /// Cancels a task and waits until its body has stopped or its grace is over; `None` if it is
    /// not held.
    ///
    /// Accepting the cancel seals the outcome: the end is `cancelled`, whatever the body returns,
    /// and no event of the task is sent any more: those that wait in the sink are dropped. The
    /// one that is being sent at that moment cannot be recalled; it may arrive up to an attempt's
    /// time (10 s) later, even after this has returned. Cancels of the same task at the same time get
    /// the same answer; a task that had ended is left as it is.
    ///
    /// # Cancel safety
    ///
    /// Once polled, dropping it changes nothing: the teardown goes on by itself.
    pub async fn cancel(&self, task: &TaskId) -> Option<Cancelled> {
        let record = self.inner.get(task)?;
        let sealing = request_cancel(&self.inner, &record);
        self.inner.silence(&record);
        let stopped = match sealing {
            Sealing::Accepted | Sealing::UnderWay => {
                record.ended().await;
                record.stopped_in_time()
            }
            Sealing::TooLate => record.has_stopped(),
        };
        let info = record.info();
        Some(Cancelled { info, stopped })
    }

    /// Waits for the task's end, at most so long, and answers what a poll then sees; `None` at
    /// once if it is not held.
    ///
    /// # Cancel safety
    ///
    /// It only looks; nothing is lost when it is dropped.
    pub async fn wait(&self, task: &TaskId, most: Duration) -> Option<TaskInfo> {
        let record = self.inner.get(task)?;
        // Either way the info says where the task stands.
        let _ = timeout(most, record.ended()).await;
        Some(record.info())
    }

    /// Ends the server's work: no task starts any more, those that run are cancelled side by
    /// side, and then the sink has its drain time for what is still to be delivered: also for what
    /// these tasks reported before, since nobody was told that they are cancelled. What bodies
    /// that run [apart](Self::run_bodies_apart) have spawned is dropped meanwhile; it has a second
    /// for that.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the cancels go on by themselves; calling it again waits again, and closes
    /// the sink.
    pub async fn close(&self) {
        let records = {
            let mut registry = self.inner.registry();
            registry.close();
            registry.all()
        };
        for record in &records {
            // It was reported before the close, and goes out.
            record.release();
            request_cancel(&self.inner, record);
        }
        for record in &records {
            record.ended().await;
        }
        let leftovers = async {
            if let Some(apart) = self.inner.apart.get() {
                apart.end().await;
            }
        };
        tokio::join!(self.inner.port.sink.close(self.inner.drain), leftovers);
    }
}

impl fmt::Debug for TaskManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskManager")
            .field("server", self.server())
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Has the sink drop what it has not sent of a cancelled task. The id of one that was evicted
    /// may be another's by now.
    pub(crate) fn silence(&self, record: &Arc<Record>) {
        let current = self.registry().get(record.id());
        if current.is_some_and(|current| Arc::ptr_eq(&current, record)) {
            record.silence();
        }
    }

    /// Where a task's timers go, and its body.
    fn runtimes(&self) -> Result<(Handle, Handle), StartError> {
        if let Some(runtimes) = self.apart.get().and_then(Apart::runtimes) {
            return Ok(runtimes);
        }
        let here = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        Ok((here.clone(), here))
    }

    /// Checks a spec, and takes in the task that it describes.
    fn admit(&self, mut spec: TaskSpec, runtime: Handle) -> Result<Arc<Record>, StartError> {
        CallScope::complete(&mut spec.log_context);
        let tool = spec.tool.map_err(StartError::ToolName)?;
        let bytes = json_size(&spec.triggers);
        // Half of an event leaves room for what stands around a trigger when it fires.
        let most = MAX_TRIGGER_BYTES.min(self.port.max_event_bytes / 2);
        if bytes > most {
            return Err(StartError::TriggersTooLarge { bytes, most });
        }
        let attached = spec.triggers.into_iter().enumerate();
        let triggers: Box<[_]> = attached
            .map(|(index, trigger)| AttachedTrigger::new(index, trigger))
            .collect();
        let unknown = spec.evaluated.check(&triggers)?;
        let unknown = unknown.into_iter().collect::<Vec<_>>().join(", ");
        let plan = Plan {
            tool,
            triggers,
            est_duration: spec.est_duration,
            cancel_mode: spec.cancel_mode,
            min_progress_interval: spec.min_progress_interval,
        };
        let record = self.insert(plan, &spec.log_context, runtime)?;
        record.span().in_scope(|| {
            tracing::info!("task started");
            if !unknown.is_empty() {
                tracing::warn!(types = unknown, "triggers of unknown types are ignored");
            }
        });
        Ok(record)
    }

    /// Under one lock, so that a close finds every task that was started before it.
    fn insert(
        &self,
        plan: Plan,
        log_context: &LogContext,
        runtime: Handle,
    ) -> Result<Arc<Record>, StartError> {
        let mut registry = self.registry();
        if registry.is_closing() {
            return Err(StartError::ShuttingDown);
        }
        let id = registry
            .free_id(&self.short_name, random_bits)
            .ok_or(StartError::NoFreeId)?;
        let order = registry.next_order();
        let span = task_span(&self.port.server, &id, &plan, log_context);
        let port = Arc::clone(&self.port);
        let record = Arc::new(Record::new(port, id, order, plan, runtime, span));
        registry.insert(Arc::clone(&record));
        Ok(record)
    }

    pub(crate) fn body_stopped(&self, record: &Arc<Record>, exit: Exit) {
        if let Some(left) = record.body_stopped(exit) {
            self.retire(record, left);
        }
    }

    pub(crate) fn grace_over(&self, record: &Arc<Record>) {
        if let Some(left) = record.grace_over() {
            self.retire(record, left);
        }
    }

    fn retire(&self, record: &Arc<Record>, left: usize) {
        self.registry().retire(Arc::clone(record), left);
        record.announce_end();
    }

    fn get(&self, task: &TaskId) -> Option<Arc<Record>> {
        self.registry().get(task)
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        // Of what others wrote only the clock and the log run under the lock, and neither leaves
        // the maps half changed.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn random_bits() -> u32 {
    let [.., a, b, c] = Uuid::new_v4().into_bytes();
    u32::from_be_bytes([0, a, b, c])
}

/// At ERROR, so that warnings name their task under every log filter that lets them through; and
/// without a parent, which a task that runs for days would keep alive.
fn task_span(
    server: &ServerName,
    id: &TaskId,
    plan: &Plan,
    log_context: &LogContext,
) -> tracing::Span {
    let span = tracing::error_span!(
        parent: None,
        "task",
        %server,
        task_id = %id,
        tool = %plan.tool,
        traceparent = tracing::field::Empty,
        request_id = tracing::field::Empty,
        turn_id = tracing::field::Empty,
        mission_id = tracing::field::Empty,
    );
    log_context.record(&span);
    span
}

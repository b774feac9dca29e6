//! The outbox behind its lock, and the tokio tasks that empty it.
//!
//! ```text
//!  post ──► Outbox ◄── worker × n (one connection each: take, attempt, finish, take, …)
//!              ▲
//!              └────── timekeeper (retries that are due, events whose time is over)
//! ```
//!
//! A worker takes its next attempt itself, in the same locked step that ends the last one, so
//! that nothing is handed from task to task while events flow. Nothing is logged, dropped, rung
//! or spawned under the lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rvc_wire::TaskId;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::courier::Route;
use crate::crew::{Call, Crew};
use crate::departure::Departure;
use crate::outbox::{Attempt, Finished, Outbox, Outcome, Ticked};
use crate::queue::LineId;
use crate::timekeeper::Timekeeper;
use crate::worker::Worker;
use crate::{CloseReport, OutgoingEvent, QueueLimits, journal};

pub(crate) struct Engine {
    route: Arc<Route>,
    state: Mutex<State>,
    tasks: Mutex<JoinSet<()>>,
    timer_changed: Notify,
    drained: Notify,
}

struct State {
    phase: Phase,
    outbox: Outbox,
    crew: Crew,
    /// The runtime that the tasks live in, once one is known.
    runtime: Option<Handle>,
    is_timekeeper_hired: bool,
    /// When the timekeeper wakes up by itself.
    timer: Option<Instant>,
    refused: usize,
    lacked_runtime: bool,
}

#[derive(Clone)]
enum Phase {
    Open,
    Draining,
    Closed(CloseReport),
}

/// What a worker does next.
pub(crate) enum Next {
    Attempt(Attempt, Departure),
    Rest,
    GoHome,
}

/// Who must be called once the lock is free.
#[derive(Default)]
struct Calls {
    worker: Option<Call>,
    timekeeper: Option<TimekeeperCall>,
}

enum TimekeeperCall {
    Ring,
    Hire,
}

impl Engine {
    pub(crate) fn new(
        route: Route,
        limits: QueueLimits,
        max_connections: usize,
        give_up_after: Duration,
    ) -> Self {
        Self {
            route: Arc::new(route),
            state: Mutex::new(State {
                phase: Phase::Open,
                outbox: Outbox::new(limits, max_connections, give_up_after),
                crew: Crew::new(max_connections),
                runtime: Handle::try_current().ok(),
                is_timekeeper_hired: false,
                timer: None,
                refused: 0,
                lacked_runtime: false,
            }),
            tasks: Mutex::new(JoinSet::new()),
            timer_changed: Notify::new(),
            drained: Notify::new(),
        }
    }

    pub(crate) fn route(&self) -> &Arc<Route> {
        &self.route
    }

    /// Queues an event and calls for a worker if one is needed.
    pub(crate) fn post(self: &Arc<Self>, event: OutgoingEvent) {
        let event = Arc::new(event);
        let now = Instant::now();
        let mut state = self.state();
        if !matches!(state.phase, Phase::Open) {
            state.refused += 1;
            let refused = state.refused;
            drop(state);
            journal::refused_after_close(&self.route.server, &event, refused);
            return;
        }
        let shed = state.outbox.push(event, now);
        let calls = state.calls(now);
        drop(state);
        let is_somebody_called = calls.worker.is_some() || calls.timekeeper.is_some();
        self.make(calls);
        if is_somebody_called {
            let_other_threads_run_it();
        }
        drop(shed);
    }

    /// Drops a task's events, except one that is being attempted, which is not attempted again.
    pub(crate) fn forget(self: &Arc<Self>, task: &TaskId) {
        let now = Instant::now();
        let mut state = self.state();
        let dropped = state.outbox.forget_task(task);
        // Without a task that fails, others may use its share of the connections.
        let calls = state.all_calls(now);
        self.tell_if_drained(&state);
        drop(state);
        self.make_all(calls);
        if !dropped.is_empty() {
            journal::forgotten(&self.route.server, task, dropped.len());
        }
    }

    /// Ends a worker's last attempt and finds its next one.
    pub(crate) fn next(
        self: &Arc<Self>,
        place: usize,
        ended: Option<(LineId, &Outcome)>,
        now: Instant,
    ) -> (Option<Finished>, Next) {
        let mut state = self.state();
        if let Phase::Closed(_) = state.phase {
            return (None, Next::GoHome);
        }
        let finished = ended.map(|(line, outcome)| state.outbox.finish(line, outcome, now));
        let next = if let Some(attempt) = state.outbox.take(now) {
            state.crew.works(place);
            Next::Attempt(attempt, state.departure())
        } else {
            state.crew.rests(place);
            Next::Rest
        };
        let calls = state.calls(now);
        self.tell_if_drained(&state);
        drop(state);
        self.make(calls);
        (finished, next)
    }

    /// Whether a worker that has rested for long may go home.
    pub(crate) fn may_leave(&self, place: usize) -> bool {
        let mut state = self.state();
        let may_leave = state.crew.may_leave(place);
        if may_leave {
            state.crew.left(place);
        }
        may_leave
    }

    /// A worker was dropped before it went home: its runtime is gone, or it panicked.
    pub(crate) fn worker_lost(&self, place: usize, in_flight: Option<LineId>) {
        let mut state = self.state();
        state.crew.left(place);
        state.runtime = None;
        let dropped = in_flight
            .filter(|_| !matches!(state.phase, Phase::Closed(_)))
            .and_then(|line| state.outbox.abandon(line, Instant::now()));
        self.tell_if_drained(&state);
        drop(state);
        if let Some(event) = dropped {
            journal::forgotten(&self.route.server, event.task_id(), 1);
        }
    }

    /// What rings for the worker of a place.
    pub(crate) fn bell(&self, place: usize) -> Arc<Notify> {
        self.state().crew.bell(place)
    }

    /// Does what is due by time; returns when to come again at the latest, or that all is over.
    pub(crate) fn tick(self: &Arc<Self>) -> Result<Option<Instant>, PosterClosed> {
        let now = Instant::now();
        let mut state = self.state();
        if let Phase::Closed(_) = state.phase {
            return Err(PosterClosed);
        }
        let Ticked { given_up, shed } = state.outbox.tick(now);
        let timer = state.outbox.next_change(now);
        state.timer = timer;
        let calls = state.all_calls(now);
        self.tell_if_drained(&state);
        drop(state);
        self.make_all(calls);
        for given_up in given_up {
            journal::gave_up(&self.route.server, &given_up);
        }
        if let Some(shed) = shed {
            journal::shed(&self.route.server, &shed);
        }
        Ok(timer)
    }

    /// Rings when the timekeeper must look again.
    pub(crate) fn timer_changed(&self) -> &Notify {
        &self.timer_changed
    }

    /// The timekeeper was dropped: its runtime is gone.
    pub(crate) fn timekeeper_lost(&self) {
        let mut state = self.state();
        state.is_timekeeper_hired = false;
        state.timer = None;
        state.runtime = None;
    }

    /// Takes no more events, and delivers until everything is gone or the time is over.
    pub(crate) async fn close(self: &Arc<Self>, drain: Duration) -> CloseReport {
        let since = Instant::now();
        let calls = {
            let mut state = self.state();
            if let Phase::Open = state.phase {
                state.phase = Phase::Draining;
                state.outbox.hurry(since);
            }
            state.calls(since)
        };
        self.make(calls);
        // Without a runtime there are no timers, and nothing is being delivered here.
        if Handle::try_current().is_ok() {
            // A time-out leaves the rest undelivered, which the report says.
            let _ = timeout(drain, self.drained()).await;
        }
        self.finish(since)
    }

    /// Ends everything at once and says what was left.
    pub(crate) fn finish(&self, since: Instant) -> CloseReport {
        let mut state = self.state();
        if let Phase::Closed(report) = &state.phase {
            return report.clone();
        }
        let report = CloseReport {
            undelivered: state.outbox.counts(),
        };
        state.phase = Phase::Closed(report.clone());
        let shed = state.outbox.shed_rest();
        let empty = Outbox::new(QueueLimits::default(), 1, Duration::ZERO);
        let left = std::mem::replace(&mut state.outbox, empty);
        drop(state);
        drop(left);
        self.tasks().abort_all();
        self.drained.notify_waiters();
        if let Some(shed) = shed {
            journal::shed(&self.route.server, &shed);
        }
        journal::closed(&self.route.server, &report, since);
        report
    }

    async fn drained(&self) {
        loop {
            let drained = self.drained.notified();
            let mut drained = std::pin::pin!(drained);
            drained.as_mut().enable();
            if self.state().is_drained() {
                return;
            }
            drained.await;
        }
    }

    fn tell_if_drained(&self, state: &State) {
        if !matches!(state.phase, Phase::Open) && state.is_drained() {
            self.drained.notify_waiters();
        }
    }

    fn make_all(self: &Arc<Self>, calls: Vec<Calls>) {
        for calls in calls {
            self.make(calls);
        }
    }

    fn make(self: &Arc<Self>, calls: Calls) {
        match calls.timekeeper {
            Some(TimekeeperCall::Ring) => self.timer_changed.notify_one(),
            Some(TimekeeperCall::Hire) => self.spawn(Timekeeper::new(self.clone()).run()),
            None => {}
        }
        match calls.worker {
            Some(Call::Ring(bell)) => bell.notify_one(),
            Some(Call::Hire(place)) => self.spawn(Worker::new(self.clone(), place).run()),
            None => {}
        }
    }

    /// Spawns a task where the others live, or else here. Dropping it tells the engine.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let runtime = {
            let mut state = self.state();
            if state.runtime.is_none() {
                state.runtime = Handle::try_current().ok();
            }
            state.runtime.clone()
        };
        if let Some(runtime) = runtime {
            let mut tasks = self.tasks();
            while tasks.try_join_next().is_some() {}
            tasks.spawn_on(task, &runtime);
        } else {
            drop(task);
            if !std::mem::replace(&mut self.state().lacked_runtime, true) {
                journal::no_runtime(&self.route.server);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets another thread run what this one has just woken, should it be kept busy.
///
/// A thread of tokio's multi-thread runtime keeps the last task that it woke to itself, to run it
/// after the present one. If that is a body that computes for a minute after its report, the
/// report would wait as long, however many threads idle. One more task takes the place of the one
/// that was woken, which goes to the queue that idle threads steal from, and wakes one of these.
fn let_other_threads_run_it() {
    let is_in_task = tokio::task::try_id().is_some();
    if is_in_task
        && let Ok(runtime) = Handle::try_current()
        && runtime.runtime_flavor() == RuntimeFlavor::MultiThread
    {
        runtime.spawn(async {});
    }
}

/// The poster is closed; its tasks end.
pub(crate) struct PosterClosed;

impl State {
    /// Whom the present state needs.
    fn calls(&mut self, now: Instant) -> Calls {
        let worker = self.crew.call(self.outbox.takeable(now));
        let due = self.outbox.next_change(now);
        let is_sooner = due.is_some_and(|due| self.timer.is_none_or(|timer| due < timer));
        let timekeeper = if is_sooner {
            self.timer = due;
            if std::mem::replace(&mut self.is_timekeeper_hired, true) {
                Some(TimekeeperCall::Ring)
            } else {
                Some(TimekeeperCall::Hire)
            }
        } else {
            None
        };
        Calls { worker, timekeeper }
    }

    /// Everybody whom the present state needs.
    fn all_calls(&mut self, now: Instant) -> Vec<Calls> {
        let mut calls = vec![self.calls(now)];
        while calls.last().is_some_and(|calls| calls.worker.is_some()) {
            calls.push(self.calls(now));
        }
        calls
    }

    /// How the next request leaves. Where tasks can run on several threads, one that waits for
    /// the others wakes a second thread, which costs more than is gained.
    fn departure(&self) -> Departure {
        let is_one_thread = self
            .runtime
            .as_ref()
            .is_some_and(|it| it.runtime_flavor() == RuntimeFlavor::CurrentThread);
        if is_one_thread && self.crew.working() > 1 {
            Departure::Together
        } else {
            Departure::AtOnce
        }
    }

    fn is_drained(&self) -> bool {
        matches!(self.phase, Phase::Closed(_)) || self.outbox.is_empty()
    }
}

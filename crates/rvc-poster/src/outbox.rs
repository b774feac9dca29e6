//! Everything that is to be delivered, and what happens next: no I/O, no clock.
//!
//! ```text
//!  push ─► Queue (what)  ◄─►  Schedule (which, when) ─► take ─► an attempt ─► finish
//! ```
//!
//! What must be logged or dropped is handed out, because neither may happen under the lock that
//! this is kept in: a subscriber may run any code.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rvc_wire::TaskId;
use tokio::time::Instant;

use crate::delivery_error::DeliveryError;
use crate::queue::{LineId, Queue, Shed};
use crate::schedule::{Fate, Opened, Schedule};
use crate::shed_log::{ShedLog, ShedReport};
use crate::{OutgoingEvent, QueueLimits};

#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Queue,
    schedule: Schedule,
    shed_log: ShedLog,
}

/// An event to be attempted.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) line: LineId,
    /// From 1.
    pub(crate) number: u32,
    pub(crate) event: Arc<OutgoingEvent>,
}

/// What an attempt came to, and on which connection.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) result: Result<(), Arc<DeliveryError>>,
    pub(crate) connection: Opened,
}

/// What the outcome means for the event.
#[derive(Debug)]
pub(crate) enum Finished {
    /// It was acknowledged and is gone.
    Acknowledged,
    /// It is attempted again, not before this.
    Retry(Instant),
    /// It is gone, unacknowledged.
    GaveUp(GivenUp),
    /// It is gone, unacknowledged, because its task was forgotten.
    Forgotten,
}

/// An event that was not acknowledged in its time.
#[derive(Debug)]
pub(crate) struct GivenUp {
    pub(crate) event: Arc<OutgoingEvent>,
    pub(crate) attempts: u32,
    pub(crate) last_error: Option<Arc<DeliveryError>>,
}

/// What the passing of time brought about.
#[derive(Debug, Default)]
pub(crate) struct Ticked {
    pub(crate) given_up: Vec<GivenUp>,
    pub(crate) shed: Option<ShedReport>,
}

impl Outbox {
    pub(crate) fn new(
        limits: QueueLimits,
        max_connections: usize,
        give_up_after: Duration,
    ) -> Self {
        Self {
            queue: Queue::new(limits),
            schedule: Schedule::new(max_connections, give_up_after),
            shed_log: ShedLog::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds an event, and hands out what gave way for it.
    pub(crate) fn push(&mut self, event: Arc<OutgoingEvent>, now: Instant) -> Vec<Shed> {
        let line = self.queue.line_of(event.task_id());
        let shed = self.queue.push(line, event);
        self.schedule.arrived(line, now);
        for Shed {
            line,
            kind,
            event,
            was_front,
        } in &shed
        {
            self.shed_log.add(event.task_id(), *kind, now);
            if *was_front {
                let more = !self.queue.is_line_empty(*line);
                self.schedule.front_shed(*line, more, now);
            }
        }
        // Only now: one push can shed from a line twice, and it must not be forgotten in between.
        self.forget_excess();
        shed
    }

    /// How many attempts could begin now.
    pub(crate) fn takeable(&self, now: Instant) -> usize {
        self.schedule.takeable(now)
    }

    /// Begins the next attempt.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Attempt> {
        let line = self.schedule.take(now)?;
        let event = self.queue.pin(line).expect("a ready line has an event");
        Some(Attempt {
            line,
            number: self.schedule.attempts(line),
            event,
        })
    }

    /// Ends an attempt that has a result.
    pub(crate) fn finish(&mut self, line: LineId, outcome: &Outcome, now: Instant) -> Finished {
        match &outcome.result {
            Ok(()) => {
                self.schedule.acknowledged(line, outcome.connection);
                self.pop(line, now);
                Finished::Acknowledged
            }
            Err(error) => match self.schedule.failed(line, error, outcome.connection, now) {
                _ if self.schedule.is_last_attempt(line) => {
                    self.pop(line, now);
                    Finished::Forgotten
                }
                Fate::Retry(at) => Finished::Retry(at),
                Fate::GiveUp => Finished::GaveUp(self.give_up(line, now)),
            },
        }
    }

    /// Ends an attempt that has no result; hands out the event if that was its last attempt.
    pub(crate) fn abandon(&mut self, line: LineId, now: Instant) -> Option<Arc<OutgoingEvent>> {
        self.schedule.abandoned(line);
        let was_last = self.schedule.is_last_attempt(line);
        was_last.then(|| self.pop(line, now))
    }

    /// Drops a task's events, and hands them out. An attempt that is under way goes on, and is
    /// its event's last one.
    pub(crate) fn forget_task(&mut self, task: &TaskId) -> Vec<Arc<OutgoingEvent>> {
        let Some(line) = self.queue.find(task) else {
            return Vec::new();
        };
        let mut dropped = self.queue.drop_waiting(line);
        if !self.schedule.make_attempt_last(line) {
            // An event that waits for its next attempt.
            dropped.extend(self.queue.pop(line));
            self.forget(line);
        }
        dropped
    }

    /// Does what is due by time alone.
    pub(crate) fn tick(&mut self, now: Instant) -> Ticked {
        let mut ticked = Ticked::default();
        while let Some(line) = self.schedule.expired(now) {
            ticked.given_up.push(self.give_up(line, now));
        }
        self.schedule.release_due(now);
        ticked.shed = self.shed_log.report(now);
        ticked
    }

    /// When [`tick`](Self::tick) has something to do, or an attempt can begin.
    pub(crate) fn next_change(&self, now: Instant) -> Option<Instant> {
        self.schedule
            .next_change(now)
            .into_iter()
            .chain(self.shed_log.due())
            .min()
    }

    /// Ends every delay once, for a poster that is about to close.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.schedule.hurry(now);
    }

    /// How many events each task has.
    pub(crate) fn counts(&self) -> BTreeMap<TaskId, usize> {
        self.queue
            .counts()
            .map(|(task, events)| (task.clone(), events))
            .collect()
    }

    /// What gave way and has not been told yet.
    pub(crate) fn shed_rest(&mut self) -> Option<ShedReport> {
        self.shed_log.report_rest()
    }

    fn give_up(&mut self, line: LineId, now: Instant) -> GivenUp {
        let attempts = self.schedule.attempts(line);
        let last_error = self.schedule.last_error(line);
        let event = self.pop(line, now);
        GivenUp {
            event,
            attempts,
            last_error,
        }
    }

    /// Removes a line's next event, whose clock was running.
    fn pop(&mut self, line: LineId, now: Instant) -> Arc<OutgoingEvent> {
        let event = self.queue.pop(line).expect("a busy line has an event");
        let more = !self.queue.is_line_empty(line);
        let is_over = event.event_type().is_end() || self.schedule.is_last_attempt(line);
        self.schedule.next_event(line, more, now);
        if !more && is_over {
            self.forget(line);
        } else {
            self.forget_excess();
        }
        event
    }

    fn forget_excess(&mut self) {
        while let Some(line) = self.schedule.excess_idle() {
            self.forget(line);
        }
    }

    fn forget(&mut self, line: LineId) {
        self.schedule.forget(line);
        self.queue.remove(line);
    }
}

#[cfg(test)]
mod tests;

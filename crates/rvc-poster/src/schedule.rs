//! Which task's next event is attempted, and when (contract decisions 12 to 14).
//!
//! ```text
//!  Idle ──► Ready ──► InFlight ──► acknowledged or given up: Ready for the next event, or Idle
//!             ▲           │ failed
//!             └─ Waiting ◄┘
//! ```
//!
//! Invariants:
//! 1. A line is in the set of its phase and in no other, and while Ready or Waiting in `expiry` too.
//! 2. A line's standing changes only while it is in flight, so the counters never drift.
//! 3. Of a line at most one event is in flight.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::delivery_error::DeliveryError;
use crate::outage::Outage;
use crate::queue::LineId;
use crate::retry;

/// Says which line may go, for lines that the queue holds.
#[derive(Debug)]
pub(crate) struct Schedule {
    max_connections: usize,
    give_up_after: Duration,
    plans: Vec<Option<Plan>>,
    /// By ticket: the line that has been ready longest comes first.
    ready: [BTreeSet<(u64, LineId)>; STANDINGS],
    waiting: BTreeSet<(Instant, LineId)>,
    expiry: BTreeSet<(Instant, LineId)>,
    idle: BTreeSet<(Instant, LineId)>,
    suspects_in_flight: usize,
    troubled_with_events: usize,
    outage: Option<Outage>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Plan {
    phase: Phase,
    standing: Standing,
    /// When the present event came to the head of the line.
    since: Instant,
    attempts: u32,
    last_error: Option<Arc<DeliveryError>>,
    /// Before when the endpoint asked for no further attempt: now or earlier, if it did not.
    asked_until: Instant,
    /// Whether the event in flight is not to be attempted again, whatever its attempt comes to.
    is_last_attempt: bool,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Idle { since: Instant },
    Ready { ticket: u64 },
    Waiting { until: Instant },
    InFlight,
}

/// What a task's last attempt says about its next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The last attempt was acknowledged.
    Proven = 0,
    /// There was no attempt yet.
    New = 1,
    /// The last attempt failed or hung, though the endpoint could be reached.
    Troubled = 2,
}

/// What becomes of an event whose attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is attempted again, not before this.
    Retry(Instant),
    /// Its time is over.
    GiveUp,
}

impl Schedule {
    pub(crate) fn new(max_connections: usize, give_up_after: Duration) -> Self {
        Self {
            max_connections,
            give_up_after,
            plans: Vec::new(),
            ready: Default::default(),
            waiting: BTreeSet::new(),
            expiry: BTreeSet::new(),
            idle: BTreeSet::new(),
            suspects_in_flight: 0,
            troubled_with_events: 0,
            outage: None,
            next_ticket: 0,
        }
    }

    /// A line has an event, perhaps its first one.
    pub(crate) fn arrived(&mut self, id: LineId, now: Instant) {
        if self.plans.len() <= id.0 {
            self.plans.resize_with(id.0 + 1, || None);
        }
        match &self.plans[id.0] {
            None => {
                self.plans[id.0] = Some(Plan {
                    phase: Phase::Idle { since: now },
                    standing: Standing::New,
                    since: now,
                    attempts: 0,
                    last_error: None,
                    asked_until: now,
                    is_last_attempt: false,
                });
                self.enter(id, Phase::Idle { since: now });
            }
            Some(plan) if !matches!(plan.phase, Phase::Idle { .. }) => return,
            Some(_) => {}
        }
        self.next_event(id, true, now);
    }

    /// An event that was not attempted yet gave way; another one is the next, or none.
    pub(crate) fn front_shed(&mut self, id: LineId, more: bool, now: Instant) {
        if more {
            self.leave(id);
            let plan = self.plan_mut(id);
            plan.since = now;
            let phase = plan.phase;
            self.enter(id, phase);
        } else {
            self.next_event(id, false, now);
        }
    }

    /// How many lines could be taken now.
    pub(crate) fn takeable(&self, now: Instant) -> usize {
        let [proven, new, troubled] = self.ready.each_ref().map(BTreeSet::len);
        let takeable = proven + (new + troubled).min(self.room_for_suspects());
        match &self.outage {
            Some(outage) if !outage.may_probe(now) => 0,
            Some(_) => takeable.min(1),
            None => takeable,
        }
    }

    /// Takes the line that has waited longest of those that may go; its attempt begins.
    pub(crate) fn take(&mut self, now: Instant) -> Option<LineId> {
        if self.takeable(now) == 0 {
            return None;
        }
        let proven = self.first_ready(Standing::Proven);
        let suspect = if self.room_for_suspects() > 0 {
            // A new task goes before those that are known to fail.
            self.first_ready(Standing::New)
                .or_else(|| self.first_ready(Standing::Troubled))
        } else {
            None
        };
        let (_, id) = match (proven, suspect) {
            (Some(proven), Some(suspect)) => proven.min(suspect),
            (proven, suspect) => proven.or(suspect)?,
        };
        self.leave(id);
        self.enter(id, Phase::InFlight);
        self.plan_mut(id).attempts += 1;
        if let Some(outage) = &mut self.outage {
            outage.probe_began(id);
        }
        Some(id)
    }

    /// The present event's attempts, the one in flight included.
    pub(crate) fn attempts(&self, id: LineId) -> u32 {
        self.plan(id).attempts
    }

    /// Why the present event's last attempt failed, or that the endpoint is out of reach.
    pub(crate) fn last_error(&self, id: LineId) -> Option<Arc<DeliveryError>> {
        self.plan(id)
            .last_error
            .as_ref()
            .or(self.outage.as_ref().map(Outage::last_error))
            .cloned()
    }

    /// Makes the attempt in flight the present event's last one; false if none is in flight.
    pub(crate) fn make_attempt_last(&mut self, id: LineId) -> bool {
        let plan = self.plan_mut(id);
        plan.is_last_attempt = matches!(plan.phase, Phase::InFlight);
        plan.is_last_attempt
    }

    /// Whether the present event is not to be attempted again.
    pub(crate) fn is_last_attempt(&self, id: LineId) -> bool {
        self.plan(id).is_last_attempt
    }

    /// The attempt was broken off before it had a result; it does not count.
    pub(crate) fn abandoned(&mut self, id: LineId) {
        if let Some(outage) = &mut self.outage
            && outage.is_probe(id)
        {
            outage.probe_abandoned();
        }
        self.leave(id);
        self.plan_mut(id).attempts -= 1;
        self.enter_ready(id);
    }

    /// The endpoint acknowledged the event in flight; [`next_event`](Self::next_event) follows.
    pub(crate) fn acknowledged(&mut self, id: LineId, connection: Opened) {
        self.reached(connection);
        self.set_standing(id, Standing::Proven);
    }

    /// The attempt in flight failed. After [`Fate::GiveUp`] [`next_event`](Self::next_event)
    /// follows.
    pub(crate) fn failed(
        &mut self,
        id: LineId,
        error: &Arc<DeliveryError>,
        connection: Opened,
        now: Instant,
    ) -> Fate {
        if error.is_unreached() {
            match &mut self.outage {
                None => self.outage = Some(Outage::begin(error.clone(), now)),
                Some(outage) if outage.is_probe(id) => outage.probe_failed(error.clone(), now),
                Some(_) => {}
            }
        } else {
            let answered = matches!(**error, DeliveryError::Refused { .. });
            if answered || self.outage.as_ref().is_some_and(|it| it.is_probe(id)) {
                self.reached(connection);
            }
            self.set_standing(id, Standing::Troubled);
        }

        let give_up_after = self.give_up_after;
        let plan = self.plan_mut(id);
        plan.last_error = Some(error.clone());
        let give_up_at = plan.since + give_up_after;
        if give_up_at <= now {
            return Fate::GiveUp;
        }
        // A retry at or after the limit never happens: the expiry comes first.
        let after = |delay| now.checked_add(delay).unwrap_or(give_up_at).min(give_up_at);
        plan.asked_until = after(error.retry_after().unwrap_or_default());
        let until = after(retry::delay_after(plan.attempts)).max(plan.asked_until);
        self.leave(id);
        self.enter(id, Phase::Waiting { until });
        Fate::Retry(until)
    }

    /// The line's event is gone; the next one comes to its head, or the line is idle.
    pub(crate) fn next_event(&mut self, id: LineId, more: bool, now: Instant) {
        self.leave(id);
        let plan = self.plan_mut(id);
        plan.since = now;
        plan.attempts = 0;
        plan.last_error = None;
        plan.is_last_attempt = false;
        if more {
            self.enter_ready(id);
        } else {
            self.enter(id, Phase::Idle { since: now });
        }
    }

    /// A line whose event has been at its head for too long and is not in flight.
    /// [`next_event`](Self::next_event) follows.
    pub(crate) fn expired(&self, now: Instant) -> Option<LineId> {
        let &(since, id) = self.expiry.first()?;
        (since + self.give_up_after <= now).then_some(id)
    }

    /// Makes the lines ready whose delay is over.
    pub(crate) fn release_due(&mut self, now: Instant) {
        while let Some(&(until, id)) = self.waiting.first()
            && until <= now
        {
            self.leave(id);
            self.enter_ready(id);
        }
    }

    /// Ends every delay once, for a poster that is about to close: there may be no other attempt.
    /// What the endpoint asked for by `Retry-After` stays (contract decision 13), and no more of
    /// the delay than that.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if let Some(outage) = &mut self.outage {
            outage.probe_now(now);
        }
        for (_, id) in self.waiting.clone() {
            self.leave(id);
            let asked_until = self.plan(id).asked_until;
            if asked_until > now {
                self.enter(id, Phase::Waiting { until: asked_until });
            } else {
                self.enter_ready(id);
            }
        }
    }

    /// The line that has been idle longest, when more are remembered than are worth it.
    pub(crate) fn excess_idle(&self) -> Option<LineId> {
        let &(_, id) = self.idle.first()?;
        (self.idle.len() > IDLE_LINES).then_some(id)
    }

    /// Forgets a line without events.
    pub(crate) fn forget(&mut self, id: LineId) {
        self.leave(id);
        self.plans[id.0] = None;
    }

    /// When something changes by time alone, after now.
    pub(crate) fn next_change(&self, now: Instant) -> Option<Instant> {
        let due = self.waiting.first().map(|&(until, _)| until);
        let expiry = self
            .expiry
            .first()
            .map(|&(since, _)| since + self.give_up_after);
        let probe = self
            .outage
            .as_ref()
            .filter(|_| self.ready.iter().any(|lines| !lines.is_empty()))
            .and_then(Outage::next_probe)
            // A probe that may go already goes as soon as a worker is free.
            .filter(|&at| at > now);
        [due, expiry, probe].into_iter().flatten().min()
    }

    /// The endpoint gave an answer, or at least took a probe's connection.
    fn reached(&mut self, connection: Opened) {
        if self.outage.take().is_some() && connection == Opened::ForThisAttempt {
            // Connections can be made again. A kept one that still works while new ones are
            // refused does not say that.
            self.release_unreached();
        }
    }

    /// Ends the delays that are due to the outage alone.
    fn release_unreached(&mut self) {
        let unreached: Vec<_> = self
            .waiting
            .iter()
            .map(|&(_, id)| id)
            .filter(|&id| {
                let last_error = &self.plan(id).last_error;
                last_error.as_ref().is_some_and(|it| it.is_unreached())
            })
            .collect();
        for id in unreached {
            self.leave(id);
            self.enter_ready(id);
        }
    }

    /// How many more lines without a good last attempt may go. Half of the connections are kept
    /// for the healthy ones as soon as a task is known to fail.
    fn room_for_suspects(&self) -> usize {
        if self.troubled_with_events == 0 {
            return usize::MAX;
        }
        let share = (self.max_connections / 2).max(1);
        share.saturating_sub(self.suspects_in_flight)
    }

    fn first_ready(&self, standing: Standing) -> Option<(u64, LineId)> {
        self.ready[standing as usize].first().copied()
    }

    fn enter_ready(&mut self, id: LineId) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.enter(id, Phase::Ready { ticket });
    }

    fn enter(&mut self, id: LineId, phase: Phase) {
        let plan = self.plan_mut(id);
        plan.phase = phase;
        let (standing, since) = (plan.standing, plan.since);
        match phase {
            Phase::Idle { since } => {
                self.idle.insert((since, id));
                return;
            }
            Phase::Ready { ticket } => {
                self.ready[standing as usize].insert((ticket, id));
                self.expiry.insert((since, id));
            }
            Phase::Waiting { until } => {
                self.waiting.insert((until, id));
                self.expiry.insert((since, id));
            }
            Phase::InFlight => self.suspects_in_flight += usize::from(standing.is_suspect()),
        }
        self.troubled_with_events += usize::from(standing == Standing::Troubled);
    }

    fn leave(&mut self, id: LineId) {
        let &Plan {
            phase,
            standing,
            since,
            ..
        } = self.plan(id);
        match phase {
            Phase::Idle { since } => {
                self.idle.remove(&(since, id));
                return;
            }
            Phase::Ready { ticket } => {
                self.ready[standing as usize].remove(&(ticket, id));
                self.expiry.remove(&(since, id));
            }
            Phase::Waiting { until } => {
                self.waiting.remove(&(until, id));
                self.expiry.remove(&(since, id));
            }
            Phase::InFlight => self.suspects_in_flight -= usize::from(standing.is_suspect()),
        }
        self.troubled_with_events -= usize::from(standing == Standing::Troubled);
    }

    fn set_standing(&mut self, id: LineId, standing: Standing) {
        self.leave(id);
        self.plan_mut(id).standing = standing;
        self.enter(id, Phase::InFlight);
    }

    fn plan(&self, id: LineId) -> &Plan {
        self.plans[id.0].as_ref().expect("the line has a plan")
    }

    fn plan_mut(&mut self, id: LineId) -> &mut Plan {
        self.plans[id.0].as_mut().expect("the line has a plan")
    }
}

/// When the connection of an attempt was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// For an earlier attempt; it was kept alive.
    Earlier,
    /// For this one.
    ForThisAttempt,
}

impl Standing {
    fn is_suspect(self) -> bool {
        self != Self::Proven
    }
}

const STANDINGS: usize = 3;

/// How many idle tasks are remembered, so that a healthy one that posts now and then keeps its
/// standing.
const IDLE_LINES: usize = 1_024;

#[cfg(test)]
mod tests;

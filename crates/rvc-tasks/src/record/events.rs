use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rvc_poster::OutgoingEvent;
use rvc_wire::{EventId, EventType, Map, SCHEMA_VERSION, Seq, TaskEvent};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{Ledger, Record};
use crate::lifecycle::Stage;
use crate::trigger::is_crossed;
use crate::{AttachedTrigger, EmitError, EventSink, Firing, payload};

/// An event and its bytes, not posted yet.
pub(super) struct Draft {
    pub(super) event: TaskEvent,
    pub(super) body: Bytes,
}

impl Record {
    pub(crate) fn progress(self: &Arc<Self>, report: Map) -> Result<(), EmitError> {
        let mut guard = self.lock();
        let ledger = &mut *guard;
        ledger.stage.admit()?;
        // It takes the place of a report that is held back, and so its seq.
        let draft = self.draft(ledger, ledger.next_seq, EventType::Progress, report);
        self.check_size(&draft)?;
        ledger.updated_at = draft.event.ts;
        let now = Instant::now();
        let outgoing = self.outgoing(&draft);
        let due = match &mut ledger.thinning {
            Some(thinning) => thinning.offer(outgoing, now),
            None => Some(outgoing),
        };
        if let Some(due) = due {
            self.post(ledger, due);
        }
        let percent = draft.event.payload.get("percent").and_then(Value::as_f64);
        ledger.progress = Some(draft.event.payload);
        let fired = percent.map_or(Ok(()), |percent| self.fire_crossed(ledger, percent));
        self.arm_thinning_timer(ledger, now);
        fired
    }

    pub(crate) fn emit(&self, seen: Map) -> Result<(), EmitError> {
        let mut ledger = self.lock();
        ledger.stage.admit()?;
        self.send(&mut ledger, EventType::WatchEvent, seen)
    }

    pub(crate) fn fire_trigger(
        &self,
        trigger: &AttachedTrigger,
        extra: Map,
    ) -> Result<Firing, EmitError> {
        if self.plan.triggers.get(trigger.index()) != Some(trigger) {
            return Err(EmitError::ForeignTrigger);
        }
        let mut ledger = self.lock();
        ledger.stage.admit()?;
        self.fire(&mut ledger, trigger, extra)
    }

    fn fire_crossed(&self, ledger: &mut Ledger, percent: f64) -> Result<(), EmitError> {
        for trigger in &self.plan.triggers {
            if is_crossed(trigger, percent) {
                self.fire(ledger, trigger, payload! { "percent": percent })?;
            }
        }
        Ok(())
    }

    fn fire(
        &self,
        ledger: &mut Ledger,
        trigger: &AttachedTrigger,
        extra: Map,
    ) -> Result<Firing, EmitError> {
        if ledger.fired[trigger.index()] && !trigger.trigger().repeats() {
            return Ok(Firing::AlreadyFired);
        }
        let real = Value::Object(trigger.trigger().as_map().clone());
        let mut payload = Map::from_iter([("trigger".to_owned(), real)]);
        // The real trigger wins over an extra key of its name (contract decision 21).
        payload.extend(extra.into_iter().filter(|(key, _)| key != "trigger"));
        self.send(ledger, EventType::TriggerFired, payload)?;
        ledger.fired[trigger.index()] = true;
        Ok(Firing::Fired)
    }

    /// Sends an event that is never held back, and before it a report that was.
    fn send(
        &self,
        ledger: &mut Ledger,
        event_type: EventType,
        payload: Map,
    ) -> Result<(), EmitError> {
        let holds = ledger
            .thinning
            .as_ref()
            .is_some_and(|thinning| thinning.holds());
        let seq = if holds {
            ledger.next_seq.next()
        } else {
            ledger.next_seq
        };
        let draft = self.draft(ledger, seq, event_type, payload);
        self.check_size(&draft)?;
        self.release_held(ledger, Instant::now());
        ledger.updated_at = draft.event.ts;
        self.post(ledger, self.outgoing(&draft));
        Ok(())
    }

    /// Sends the report that is held back, if the task runs and there is one.
    pub(crate) fn release(&self) {
        let mut guard = self.lock();
        let ledger = &mut *guard;
        if matches!(ledger.stage, Stage::Running) {
            self.release_held(ledger, Instant::now());
        }
    }

    /// Sends the report that is held back, if there is one.
    pub(super) fn release_held(&self, ledger: &mut Ledger, now: Instant) {
        let held = ledger
            .thinning
            .as_mut()
            .and_then(|thinning| thinning.take(now));
        if let Some(held) = held {
            self.post(ledger, held);
        }
    }

    /// Has the sink drop what it has not sent yet, if the task is cancelled. One that ended first
    /// keeps its events.
    pub(crate) fn silence(&self) {
        let ledger = self.lock();
        if !ledger.stage.is_cancelled() {
            return;
        }
        if !self.tell_sink(|sink| sink.forget(&self.id)) {
            tracing::error!(task_id = %self.id, "the event sink panicked, events may still be sent");
        }
    }

    /// Sees to it that a report that is held back goes out when its time comes.
    fn arm_thinning_timer(self: &Arc<Self>, ledger: &mut Ledger, now: Instant) {
        let wait = ledger
            .thinning
            .as_ref()
            .and_then(|thinning| thinning.wait(now));
        if let (Some(mut wait), None) = (wait, &ledger.thinning_timer) {
            let record = Arc::clone(self);
            let timer = self.runtime.spawn(async move {
                loop {
                    sleep(wait).await;
                    match record.release_due() {
                        Some(longer) => wait = longer,
                        None => return,
                    }
                }
            });
            ledger.thinning_timer = Some(timer.abort_handle());
        }
    }

    /// Sends the report that is held back if its time has come. `Some` says how long to wait on.
    fn release_due(&self) -> Option<Duration> {
        let mut guard = self.lock();
        let ledger = &mut *guard;
        let now = Instant::now();
        let running = matches!(ledger.stage, Stage::Running);
        let thinning = ledger.thinning.as_mut().filter(|_| running);
        let (due, wait) = match thinning {
            Some(thinning) => (thinning.take_due(now), thinning.wait(now)),
            None => (None, None),
        };
        if wait.is_none() {
            ledger.thinning_timer = None;
        }
        if let Some(due) = due {
            self.post(ledger, due);
        }
        wait
    }

    pub(super) fn draft(
        &self,
        ledger: &Ledger,
        seq: Seq,
        event_type: EventType,
        payload: Map,
    ) -> Draft {
        let event = TaskEvent {
            schema_version: SCHEMA_VERSION,
            event_id: EventId::from_random(Uuid::new_v4().into_bytes()),
            task_id: self.id.clone(),
            server: self.port.server.clone(),
            tool: self.plan.tool.clone(),
            event_type,
            seq,
            ts: self.now(ledger),
            payload,
        };
        // To its exact size: it may wait in a queue that counts bytes.
        let body = event.to_json().into_boxed_slice().into();
        Draft { event, body }
    }

    pub(super) fn check_size(&self, draft: &Draft) -> Result<(), EmitError> {
        let (bytes, most) = (draft.body.len(), self.port.max_event_bytes);
        if bytes > most {
            return Err(EmitError::TooLarge { bytes, most });
        }
        Ok(())
    }

    pub(super) fn outgoing(&self, draft: &Draft) -> OutgoingEvent {
        OutgoingEvent::new(&draft.event, draft.body.clone(), self.span.clone())
    }

    pub(super) fn post(&self, ledger: &mut Ledger, event: OutgoingEvent) {
        debug_assert_eq!(event.seq(), ledger.next_seq, "events are drafted in order");
        ledger.next_seq = ledger.next_seq.next();
        if !self.tell_sink(|sink| sink.post(event)) {
            tracing::error!(task_id = %self.id, "the event sink panicked, an event is lost");
        }
    }

    /// Calls the sink; false if it panicked. That is wrong, but neither the body, nor its being
    /// stopped, nor the task's end may suffer.
    fn tell_sink(&self, tell: impl FnOnce(&dyn EventSink)) -> bool {
        // What a sink spawns belongs to the server, whichever thread a body reports from.
        let _home = self.runtime.enter();
        catch_unwind(AssertUnwindSafe(|| tell(self.port.sink.as_ref()))).is_ok()
    }
}

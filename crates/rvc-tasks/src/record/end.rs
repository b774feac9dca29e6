use rvc_wire::{EventType, Map, TaskFailure};
use serde_json::Value;
use tokio::time::Instant;

use super::events::Draft;
use super::{Ledger, Record};
use crate::failures::shortened;
use crate::json_size::json_size;
use crate::lifecycle::{End, Exit, Stage, Stop};
use crate::payload;

/// Up to this size, what a task leaves is not counted and always kept.
const SMALL_BYTES: usize = 1_024;

impl Record {
    /// The body is gone. `Some` if the task ended with that: how many bytes it leaves.
    pub(crate) fn body_stopped(&self, exit: Exit) -> Option<usize> {
        let mut ledger = self.lock();
        match ledger.stage.body_stopped(exit) {
            Stop::Ended => Some(self.end(&mut ledger)),
            Stop::Late => {
                drop(ledger);
                self.log_late_stop();
                None
            }
        }
    }

    /// The body had its time for stopping. `Some` if the task ended with that: how many bytes it
    /// leaves.
    pub(crate) fn grace_over(&self) -> Option<usize> {
        let mut ledger = self.lock();
        let ended = ledger.stage.grace_over();
        ended.then(|| self.end(&mut ledger))
    }

    /// Wakes and logs, once the manager has taken the end in.
    pub(crate) fn announce_end(&self) {
        self.changed.notify_waiters();
        let (state, stopped) = {
            let ledger = self.lock();
            (
                ledger.stage.state(),
                matches!(ledger.stage, Stage::Ended { stopped: true, .. }),
            )
        };
        let duration_ms = self.duration_ms();
        self.span.in_scope(|| {
            tracing::info!(%state, stopped, duration_ms, "task ended");
            if !stopped {
                tracing::warn!(
                    %state,
                    duration_ms,
                    "the body did not stop in order, the robot may still be moving"
                );
            }
        });
    }

    /// Gives up what is large of what an ended task leaves.
    pub(crate) fn shed(&self) {
        let mut ledger = self.lock();
        if ledger.pins.put_off() {
            return;
        }
        if let Stage::Ended { end, .. } = &mut ledger.stage {
            match end {
                End::Succeeded(result) => {
                    let bytes = json_size(result);
                    if bytes > SMALL_BYTES {
                        *result = payload! { "omitted": { "bytes": bytes } };
                    }
                }
                End::Failed(failure) if json_size(failure) > SMALL_BYTES => {
                    *failure = shortened(failure);
                }
                End::Failed(_) | End::Cancelled => {}
            }
        }
        if ledger
            .progress
            .as_ref()
            .is_some_and(|progress| json_size(progress) > SMALL_BYTES)
        {
            ledger.progress = None;
        }
    }

    /// Sends the end event, if this end has one, and lets go of what only a running task needs.
    /// Answers how many bytes are left.
    fn end(&self, ledger: &mut Ledger) -> usize {
        ledger.runner = None;
        for timer in [&mut ledger.thinning_timer, &mut ledger.deadline_timer] {
            if let Some(timer) = timer.take() {
                timer.abort();
            }
        }
        let mut end = ledger.replace_end(End::Cancelled);
        let left = match &mut end {
            End::Succeeded(result) => {
                self.send_done(ledger, result);
                json_size(result)
            }
            End::Failed(failure) => {
                self.send_failed(ledger, failure);
                json_size(failure)
            }
            End::Cancelled => {
                ledger.thinning = None;
                ledger.updated_at = self.now(ledger);
                0
            }
        };
        ledger.replace_end(end);
        let progress = ledger.progress.as_ref().map_or(0, json_size);
        [left, progress]
            .into_iter()
            .filter(|&bytes| bytes > SMALL_BYTES)
            .sum()
    }

    fn send_done(&self, ledger: &mut Ledger, result: &mut Map) {
        self.release_held(ledger, Instant::now());
        let whole = Value::Object(std::mem::take(result));
        let payload = Map::from_iter([("result".to_owned(), whole)]);
        let mut draft = self.draft(ledger, ledger.next_seq, EventType::TaskDone, payload);
        // Lent to the draft rather than cloned: it may be large.
        if let Some(Value::Object(whole)) = draft.event.payload.remove("result") {
            *result = whole;
        }
        if let Err(error) = self.check_size(&draft) {
            let bytes = json_size(result);
            self.span.in_scope(|| {
                tracing::warn!(
                    task_id = %self.id,
                    bytes,
                    reason = %error,
                    "the result is left out of task_done, get_task has it"
                );
            });
            let payload = payload! {
                "result": { "omitted": { "bytes": bytes, "read_with": "get_task" } }
            };
            draft = self.draft(ledger, ledger.next_seq, EventType::TaskDone, payload);
        }
        self.send_end(ledger, &draft);
    }

    fn send_failed(&self, ledger: &mut Ledger, failure: &TaskFailure) {
        self.release_held(ledger, Instant::now());
        let mut draft = self.draft_failed(ledger, failure);
        if let Err(error) = self.check_size(&draft) {
            self.span.in_scope(|| {
                tracing::warn!(
                    task_id = %self.id,
                    reason = %error,
                    "the failure is shortened in task_failed, get_task has it"
                );
            });
            draft = self.draft_failed(ledger, &shortened(failure));
        }
        self.send_end(ledger, &draft);
    }

    fn draft_failed(&self, ledger: &Ledger, failure: &TaskFailure) -> Draft {
        let Ok(Value::Object(payload)) = serde_json::to_value(failure) else {
            unreachable!("a failure is an object");
        };
        self.draft(ledger, ledger.next_seq, EventType::TaskFailed, payload)
    }

    /// Not checked for size: an end goes out.
    fn send_end(&self, ledger: &mut Ledger, draft: &Draft) {
        ledger.updated_at = draft.event.ts;
        self.post(ledger, self.outgoing(draft));
    }

    fn log_late_stop(&self) {
        let stopped = self.has_stopped();
        let duration_ms = self.duration_ms();
        self.span.in_scope(|| {
            tracing::warn!(
                stopped,
                duration_ms,
                "the body is gone, after its grace was over"
            );
        });
    }

    fn duration_ms(&self) -> u64 {
        u64::try_from(self.age().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Ledger {
    fn replace_end(&mut self, new: End) -> End {
        match &mut self.stage {
            Stage::Ended { end, .. } => std::mem::replace(end, new),
            Stage::Running | Stage::Stopping(_) => unreachable!("the caller ended it"),
        }
    }
}

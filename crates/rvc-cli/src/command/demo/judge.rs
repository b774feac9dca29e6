//! Says whether everything went as it must: a plain function over what was seen.

use std::collections::BTreeMap;

use rvc_wire::{EventType, TaskEvent, TaskId, TaskState};
use serde_json::Value;

/// What one task of the script must come to.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) task: TaskId,
    pub(crate) state: TaskState,
    /// The types of the triggers that must fire, each once.
    pub(crate) triggers: Vec<&'static str>,
}

/// What was seen of all tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// How many events of each task were sent.
    pub(crate) sent: BTreeMap<TaskId, u64>,
    /// The events that arrived and verified, without duplicates, in their order.
    pub(crate) arrived: Vec<TaskEvent>,
    /// The state of each task at the end, as `list_tasks` says.
    pub(crate) states: BTreeMap<TaskId, TaskState>,
    /// Verdicts of requests that were refused.
    pub(crate) refused: Vec<String>,
}

/// What one task came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) task: TaskId,
    pub(crate) state: Option<TaskState>,
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    pub(crate) triggers: Vec<String>,
    /// What is not as it must be; empty if all is well.
    pub(crate) faults: Vec<String>,
}

/// Judges each task. Refused requests are nobody's and judged by the caller.
pub(crate) fn judge(expected: &[Expected], seen: &Seen) -> Vec<Outcome> {
    expected.iter().map(|task| judge_task(task, seen)).collect()
}

fn judge_task(expected: &Expected, seen: &Seen) -> Outcome {
    let events: Vec<&TaskEvent> = seen
        .arrived
        .iter()
        .filter(|event| event.task_id == expected.task)
        .collect();
    let sent = seen.sent.get(&expected.task).copied().unwrap_or_default();
    let state = seen.states.get(&expected.task).copied();
    let triggers: Vec<String> = events
        .iter()
        .filter(|event| event.event_type == EventType::TriggerFired)
        .map(|event| {
            let kind = event
                .payload
                .get("trigger")
                .and_then(|trigger| trigger.get("type"));
            kind.and_then(Value::as_str).unwrap_or("?").to_owned()
        })
        .collect();
    let seqs: Vec<u64> = events.iter().map(|event| event.seq.get()).collect();

    let mut faults = Vec::new();
    if sent == 0 {
        faults.push("it sent no event".to_owned());
    }
    let is_cancelled = expected.state == TaskState::Cancelled;
    // What waits when a cancel is accepted is dropped (contract decision 19).
    let must_arrive = if is_cancelled {
        events.len().try_into().unwrap_or(u64::MAX)
    } else {
        sent
    };
    if seqs != (1..=must_arrive).collect::<Vec<_>>() {
        faults.push(format!("seq 1 to {sent} were sent, and {seqs:?} arrived"));
    }
    if state != Some(expected.state) {
        let is = state.map_or("unknown", TaskState::as_str);
        faults.push(format!("it is {is}, not {}", expected.state));
    }
    let mut fired: Vec<&str> = triggers.iter().map(String::as_str).collect();
    fired.sort_unstable();
    let mut must_fire = expected.triggers.clone();
    must_fire.sort_unstable();
    if fired != must_fire {
        faults.push(format!(
            "the triggers {must_fire:?} must fire, and {fired:?} did"
        ));
    }
    let ends: Vec<&EventType> = events
        .iter()
        .map(|event| &event.event_type)
        .filter(|event_type| event_type.is_end())
        .collect();
    let last_is_end = events.last().is_some_and(|event| event.event_type.is_end());
    let must_end = end_of(expected.state);
    if ends != Vec::from_iter(&must_end) || last_is_end != must_end.is_some() {
        let must = must_end.as_ref().map_or("none", EventType::as_str);
        faults.push(format!(
            "its last event must be its end ({must}), and its ends are {ends:?}"
        ));
    }
    Outcome {
        task: expected.task.clone(),
        state,
        sent,
        arrived: events.len().try_into().unwrap_or(u64::MAX),
        triggers,
        faults,
    }
}

/// The event that ends a task in this state; a cancel has none (contract section 4.2).
fn end_of(state: TaskState) -> Option<EventType> {
    match state {
        TaskState::Succeeded => Some(EventType::TaskDone),
        TaskState::Failed => Some(EventType::TaskFailed),
        TaskState::Running | TaskState::Cancelled => None,
    }
}

#[cfg(test)]
mod tests;

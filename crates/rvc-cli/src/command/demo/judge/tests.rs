#![allow(clippy::unwrap_used)]

use rvc_wire::Timestamp;
use serde_json::json;

use super::*;

const TASK: &str = "slee-000001";

fn id() -> TaskId {
    TASK.parse().unwrap()
}

fn event(seq: u64, event_type: EventType) -> TaskEvent {
    let payload = json!({"trigger": {"type": "eta_below", "seconds": 1}});
    TaskEvent {
        schema_version: 1,
        event_id: format!("event {seq}").parse().unwrap(),
        task_id: id(),
        server: "sleeper".parse().unwrap(),
        tool: "sleep_task".parse().unwrap(),
        event_type,
        seq: seq.try_into().unwrap(),
        ts: Timestamp::from_unix_ms(0).unwrap(),
        payload: payload.as_object().unwrap().clone(),
    }
}

fn expected() -> Expected {
    Expected {
        task: id(),
        state: TaskState::Succeeded,
        triggers: vec!["eta_below"],
    }
}

/// A run in which all went well.
fn good() -> Seen {
    Seen {
        sent: [(id(), 3)].into(),
        arrived: vec![
            event(1, EventType::Progress),
            event(2, EventType::TriggerFired),
            event(3, EventType::TaskDone),
        ],
        states: [(id(), TaskState::Succeeded)].into(),
        refused: Vec::new(),
    }
}

fn faults(expected: &Expected, seen: &Seen) -> Vec<String> {
    judge(std::slice::from_ref(expected), seen).remove(0).faults
}

#[test]
fn a_run_in_which_all_went_well_has_no_fault() {
    assert_eq!(
        judge(&[expected()], &good()),
        [Outcome {
            task: id(),
            state: Some(TaskState::Succeeded),
            sent: 3,
            arrived: 3,
            triggers: vec!["eta_below".into()],
            faults: Vec::new(),
        }]
    );
}

#[test]
fn whatever_goes_wrong_is_a_fault() {
    type Spoil = fn(&mut Seen);
    let cases: [(&str, Spoil); 8] = [
        ("seq 1 to 3 were sent, and [1, 3] arrived", |seen| {
            seen.arrived.remove(1);
        }),
        ("seq 1 to 3 were sent, and [2, 1, 3] arrived", |seen| {
            seen.arrived.swap(0, 1);
        }),
        ("seq 1 to 4 were sent, and [1, 2, 3] arrived", |seen| {
            seen.sent.insert(id(), 4);
        }),
        ("it is running, not succeeded", |seen| {
            seen.states.insert(id(), TaskState::Running);
        }),
        ("it is unknown, not succeeded", |seen| seen.states.clear()),
        (r#"["eta_below"] must fire, and [] did"#, |seen| {
            seen.arrived[1].event_type = EventType::Progress;
        }),
        (
            r#"["eta_below"] must fire, and ["eta_below", "eta_below"] did"#,
            |seen| {
                seen.arrived[0].event_type = EventType::TriggerFired;
            },
        ),
        ("must be its end (task_done)", |seen| {
            seen.arrived[2].event_type = EventType::TaskFailed;
        }),
    ];
    for (fault, spoil) in cases {
        let mut seen = good();
        spoil(&mut seen);
        let faults = faults(&expected(), &seen);
        assert!(
            faults.iter().any(|found| found.contains(fault)),
            "{fault}: {faults:?}"
        );
    }
}

#[test]
fn a_task_that_was_never_heard_of_is_a_fault() {
    assert!(!faults(&expected(), &Seen::default()).is_empty());
}

#[test]
fn a_cancelled_task_has_no_end_event() {
    let expected = Expected {
        state: TaskState::Cancelled,
        ..expected()
    };
    let mut seen = good();
    seen.states.insert(id(), TaskState::Cancelled);
    assert!(faults(&expected, &seen)[0].contains("must be its end (none)"));

    seen.arrived[2].event_type = EventType::Progress;
    assert!(faults(&expected, &seen).is_empty());
}

#[test]
fn of_a_cancelled_task_what_was_not_sent_yet_may_be_missing_and_nothing_before_it() {
    let expected = Expected {
        state: TaskState::Cancelled,
        ..expected()
    };
    let mut seen = good();
    seen.states.insert(id(), TaskState::Cancelled);
    seen.arrived.pop();
    assert!(faults(&expected, &seen).is_empty());

    seen.arrived.remove(0);
    assert!(faults(&expected, &seen)[0].contains("[2] arrived"));
}

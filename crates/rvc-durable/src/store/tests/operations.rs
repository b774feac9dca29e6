//! Random operations, as supervisors and hosts do them.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::phase::Phase;
use crate::plan::{PollAnswer, RemoteState};

#[derive(Clone, Debug)]
pub(super) enum Operation {
    Submit { action: u8, policy: usize },
    Claim { owner: usize, limit: u32 },
    Step { held: usize, kind: u8 },
    Renew { held: usize },
    Release { held: usize },
    Cancel { action: u8 },
    CancelRun { run: u8 },
    Wake { action: u8 },
    Answer { action: u8 },
    Pass { ms: u64 },
    SetBack { ms: i64 },
}

pub(super) fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..8_u8, 0..3_usize).prop_map(|(action, policy)| Operation::Submit { action, policy }),
        6 => (0..3_usize, 1..4_u32).prop_map(|(owner, limit)| Operation::Claim { owner, limit }),
        10 => (any::<usize>(), any::<u8>()).prop_map(|(held, kind)| Operation::Step { held, kind }),
        1 => any::<usize>().prop_map(|held| Operation::Renew { held }),
        1 => any::<usize>().prop_map(|held| Operation::Release { held }),
        2 => (0..8_u8).prop_map(|action| Operation::Cancel { action }),
        1 => (0..3_u8).prop_map(|run| Operation::CancelRun { run }),
        1 => (0..8_u8).prop_map(|action| Operation::Wake { action }),
        1 => (0..8_u8).prop_map(|action| Operation::Answer { action }),
        4 => (0..40_000_u64).prop_map(|ms| Operation::Pass { ms }),
        // To zero at most.
        1 => prop_oneof![Just(i64::MAX), 0..8_000_i64, 0..3_600_000_i64]
            .prop_map(|ms| Operation::SetBack { ms }),
    ]
}

pub(super) fn run_of(action: u8) -> RunId {
    format!("run{}", action % 3).parse().unwrap()
}

pub(super) fn name(action: u8) -> ActionId {
    format!("action{action}").parse().unwrap()
}

pub(super) fn request(action: u8, policy: usize) -> Submission {
    submission(name(action).as_str(), &format!("robot{}", action % 2))
        .run(run_of(action))
        .policy(crate::StartPolicy::ALL[policy])
        .input(crate::submission::InputHandling::Surface)
}

/// What a supervisor might write about a row it holds; `None` when nothing remains.
pub(super) fn step(row: &Linkage, kind: u8, remotes: &mut u32, now: Moment) -> Option<Linkage> {
    let settings = Settings::default();
    let row = row.clone();
    let requests = json!({"k": {}}).as_object().cloned().unwrap();
    Some(match row.phase {
        Phase::Intent => plan::begun(row, now),
        Phase::Sending => {
            let answer = match kind % 4 {
                0 => StartAnswer::Lost {
                    reason: "reset".into(),
                    retry_after: None,
                },
                1 => StartAnswer::NotSent {
                    reason: "refused".into(),
                    retry_after: None,
                },
                _ => {
                    *remotes += 1;
                    StartAnswer::Task(remote(&format!("t-{remotes}")))
                }
            };
            plan::started(row, answer, &settings, now, Jitter::NONE)
        }
        Phase::Working | Phase::InputRequired => {
            let state = match kind % 6 {
                0 => RemoteState::Completed(crate::ToolResultEnvelope::from_object(requests)),
                1 => RemoteState::Cancelled,
                2 => RemoteState::InputRequired(requests),
                _ => RemoteState::Working,
            };
            let mut task = row.remote.clone().unwrap();
            task.ended = kind % 6 < 2;
            let answer = PollAnswer::State { task, state };
            plan::polled(row, answer, &settings, now, Jitter::NONE)
        }
        _ if row.clean_up.open => match kind % 3 {
            0 => plan::closed(row),
            _ => plan::cancel_answered(
                row,
                plan::CancelAnswer::Acknowledged,
                &settings,
                now,
                Jitter::NONE,
            ),
        },
        _ => return None,
    })
}

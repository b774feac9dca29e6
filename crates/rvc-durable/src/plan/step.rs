use rvc_wire::Map;

use crate::error_code::ErrorCode;
use crate::linkage::Linkage;
use crate::moment::Moment;
use crate::outcome::Outcome;
use crate::phase::Phase;
use crate::policy::StartPolicy;
use crate::registration::{Access, Registration};
use crate::submission::InputHandling;

use super::Settings;

/// What the host says of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunState {
    /// It goes on.
    Active,
    /// It was cancelled, or no longer exists: no outcome is wanted.
    Cancelled,
}

/// What the supervisor found out before it planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The run, re-read now.
    pub run: RunState,
    /// The registration, re-read now.
    pub access: Access,
    /// Answers of the host that were not sent yet, by key.
    pub answers: Map,
}

/// The one thing to do with a row now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// Write this outcome; nothing is sent.
    Settle(Outcome),
    /// Connect, then `begun`, then send the start.
    Start(Registration),
    /// Ask for the task's state.
    Poll(Registration),
    /// Send the host's answers.
    Update(Registration, Map),
    /// Tell the foreign host the outcome.
    Deliver,
    /// Ask the server to cancel.
    Cancel(Registration),
    /// See what the cancelled task finally did.
    Look(Registration),
    /// Give the clean-up up; the reason is for the log.
    Close {
        /// Why.
        reason: &'static str,
        /// Whether remote work may go on unwatched.
        unwatched: bool,
    },
    /// Nothing remains.
    Rest,
}

/// The one thing to do with a row now.
///
/// `row` was just claimed: whoever claimed it before is dead, stale, or done.
#[must_use]
pub fn next(row: &Linkage, facts: &Facts, settings: &Settings, now: Moment) -> Step {
    if row.phase == Phase::Accepted {
        return Step::Deliver;
    }
    if row.phase.is_final() {
        return clean_up(row, facts, settings);
    }
    if facts.run == RunState::Cancelled {
        return Step::Settle(Outcome::cancelled_by_host());
    }
    let registration = match &facts.access {
        Access::Granted(registration) => registration.clone(),
        Access::Revoked { reason } => {
            let registration = &row.registration;
            let message = format!("registration {registration} {reason}{}", fate(row));
            return Step::Settle(Outcome::failed(ErrorCode::REGISTRATION_REVOKED, message));
        }
    };
    if row.deadline_at.is_some_and(|deadline| now >= deadline) {
        return Step::Settle(deadline_exceeded(row));
    }
    match row.phase {
        Phase::Intent => Step::Start(registration),
        Phase::Sending => interrupted(row, registration, settings),
        Phase::InputRequired => {
            let answers: Map = facts
                .answers
                .iter()
                .filter(|(key, _)| row.input_requests.contains_key(*key))
                .map(|(key, answer)| (key.clone(), answer.clone()))
                .collect();
            if row.input == InputHandling::Unsupported {
                Step::Settle(input_unsupported())
            } else if answers.is_empty() || !row.trouble.is_over() {
                // After a failure the task is asked first: it may have ended, and an answer that
                // never arrives must not keep that from being seen.
                Step::Poll(registration)
            } else {
                Step::Update(registration, answers)
            }
        }
        _ => Step::Poll(registration),
    }
}

/// A start whose sender is gone without a word.
fn interrupted(row: &Linkage, registration: Registration, settings: &Settings) -> Step {
    match row.policy {
        StartPolicy::ServerDedup | StartPolicy::IdempotentTool
            if row.starts < settings.start_limit =>
        {
            Step::Start(registration)
        }
        _ => Step::Settle(Outcome::failed(
            ErrorCode::START_OUTCOME_UNKNOWN,
            "the process that sent the start ended before it recorded an answer; \
             the tool may have run",
        )),
    }
}

fn clean_up(row: &Linkage, facts: &Facts, settings: &Settings) -> Step {
    if !row.clean_up.open {
        return Step::Rest;
    }
    let Some(remote) = &row.remote else {
        return Step::Close {
            reason: "the answer to the start never came",
            unwatched: true,
        };
    };
    if remote.ended {
        return Step::Close {
            reason: "the remote task ended",
            unwatched: false,
        };
    }
    match &facts.access {
        Access::Revoked { .. } => Step::Close {
            reason: "the registration may not be used any more",
            unwatched: true,
        },
        Access::Granted(registration) if row.clean_up.acknowledged_at.is_some() => {
            if row.clean_up.looked < settings.cancel_attempts {
                Step::Look(registration.clone())
            } else {
                Step::Close {
                    reason: "the server acknowledged, and the task was not seen to stop",
                    unwatched: true,
                }
            }
        }
        Access::Granted(registration) if row.clean_up.asked < settings.cancel_attempts => {
            Step::Cancel(registration.clone())
        }
        Access::Granted(_) => Step::Close {
            reason: "the server does not acknowledge",
            unwatched: true,
        },
    }
}

pub(super) fn input_unsupported() -> Outcome {
    Outcome::failed(
        ErrorCode::INPUT_UNSUPPORTED,
        "the remote task asks for input, and this host cannot give any",
    )
}

pub(super) fn deadline_exceeded(row: &Linkage) -> Outcome {
    let message = format!("the host's execution deadline passed{}", fate(row));
    Outcome::failed(ErrorCode::EXECUTION_DEADLINE_EXCEEDED, message)
}

/// What becomes of the work of a row that ends without its server.
fn fate(row: &Linkage) -> &'static str {
    if row.may_run_unnamed() {
        " before the start was answered; the tool may have run, or run still"
    } else {
        ""
    }
}

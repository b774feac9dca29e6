use std::time::Duration;

use super::settle::{settled, troubled};
use super::step::{deadline_exceeded, input_unsupported};
use super::timing::next_poll;
use super::{Jitter, Settings, StartAnswer};
use crate::error_code::ErrorCode;
use crate::linkage::{Linkage, RemoteTask};
use crate::moment::Moment;
use crate::outcome::Outcome;
use crate::phase::Phase;
use crate::policy::StartPolicy;

/// The row just before a start is sent. Only who commits this may send.
#[must_use]
pub fn begun(mut row: Linkage, now: Moment) -> Linkage {
    row.phase = Phase::Sending;
    row.starts += 1;
    row.sent_at = Some(now);
    row
}

/// The row after a connection could not be opened. Nothing was sent: always safe to retry.
#[must_use]
pub fn unreachable(
    row: Linkage,
    reason: String,
    retry_after: Option<Duration>,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    troubled(row, reason, retry_after, settings, now, jitter)
}

/// The row after the start it sent was answered, or was not.
#[must_use]
pub fn started(
    mut row: Linkage,
    answer: StartAnswer,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    match answer {
        StartAnswer::Task(task) => {
            row.phase = Phase::Working;
            row.trouble = crate::linkage::Trouble::default();
            row.remote = Some(task);
            row.next_due = Some(next_poll(&row, settings, now, jitter));
            row
        }
        StartAnswer::BrokenHandle { task, reason } => {
            row.remote = Some(task);
            let message = format!("the task's handle cannot be read: {reason}");
            settled(row, protocol_error(message), now)
        }
        StartAnswer::NotSent {
            reason,
            retry_after,
        } => {
            row.phase = Phase::Intent;
            row.starts -= 1;
            // An earlier start may have been carried out all the same.
            row.sent_at = row.sent_at.filter(|_| row.starts > 0);
            troubled(row, reason, retry_after, settings, now, jitter)
        }
        // The call is cut at the deadline. Whether the tool ran is no longer the host's question.
        StartAnswer::Lost { .. } if row.deadline_at.is_some_and(|deadline| now >= deadline) => {
            let outcome = deadline_exceeded(&row);
            settled(row, outcome, now)
        }
        StartAnswer::Lost {
            reason,
            retry_after,
        } if may_resend(&row, settings) => {
            troubled(row, reason, retry_after, settings, now, jitter)
        }
        ended => settled(row, outcome_of(ended), now),
    }
}

/// The row after an answer to a start that the host had cancelled meanwhile. The outcome stays;
/// what the answer names is cancelled too. Where work may go on that no answer names, the
/// clean-up stays open, to be closed with an error.
#[must_use]
pub fn late(mut row: Linkage, answer: StartAnswer, now: Moment) -> Linkage {
    let goes_on = match answer {
        StartAnswer::Lost { .. } => true,
        // An earlier one was sent.
        StartAnswer::NotSent { .. } => row.starts > 1,
        _ => false,
    };
    let named: Option<RemoteTask> = match answer {
        StartAnswer::Task(task) | StartAnswer::BrokenHandle { task, .. } => Some(task),
        _ => None,
    };
    row.clean_up.open = goes_on || named.as_ref().is_some_and(|task| !task.ended);
    row.remote = row.remote.or(named);
    row.next_due = row.clean_up.open.then_some(now);
    row
}

/// Whether the start that the row sent may be followed by another one.
#[must_use]
pub fn may_resend(row: &Linkage, settings: &Settings) -> bool {
    row.policy != StartPolicy::AtMostOnce && row.starts < settings.start_limit
}

fn outcome_of(answer: StartAnswer) -> Outcome {
    match answer {
        StartAnswer::Result(result) => Outcome::of_result(result),
        StartAnswer::Refused { code, message } => {
            Outcome::failed(ErrorCode::remote(code.to_string()), message)
        }
        StartAnswer::InputRequired => input_unsupported(),
        StartAnswer::TooLarge => too_large(),
        StartAnswer::Malformed { reason } => protocol_error(reason),
        StartAnswer::Lost { reason, .. } => Outcome::failed(
            ErrorCode::START_OUTCOME_UNKNOWN,
            format!("the answer to the start was lost ({reason}); the tool may have run"),
        ),
        StartAnswer::Task(_) | StartAnswer::BrokenHandle { .. } | StartAnswer::NotSent { .. } => {
            unreachable!("`started` handles every answer that is no outcome")
        }
    }
}

pub(super) fn protocol_error(message: impl Into<String>) -> Outcome {
    Outcome::failed(ErrorCode::REMOTE_PROTOCOL_ERROR, message)
}

pub(super) fn too_large() -> Outcome {
    Outcome::failed(
        ErrorCode::RESULT_TOO_LARGE,
        "the tool's result is larger than this host takes",
    )
}

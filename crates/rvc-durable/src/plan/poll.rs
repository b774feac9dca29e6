use super::settle::{settled, troubled};
use super::start::{protocol_error, too_large};
use super::step::input_unsupported;
use super::timing::{next_attempt, next_poll};
use super::{Jitter, PollAnswer, RemoteState, Settings, UpdateAnswer};
use crate::error_code::ErrorCode;
use crate::linkage::{Linkage, RemoteTask, Trouble};
use crate::moment::Moment;
use crate::outcome::Outcome;
use crate::phase::Phase;
use crate::submission::InputHandling;

/// The row after a poll.
#[must_use]
pub fn polled(
    mut row: Linkage,
    answer: PollAnswer,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    row.polls += 1;
    row.polled_at = Some(now);
    match answer {
        PollAnswer::State { task, state } => {
            row.trouble = Trouble {
                // Why its answer was not taken, for whoever is asked once more.
                last: row.trouble.last.take().filter(|_| still_asks(&row, &state)),
                ..Trouble::default()
            };
            row.remote = Some(refreshed(row.remote.take(), task));
            in_state(row, state, settings, now, jitter)
        }
        PollAnswer::Gone { message } => gone(row, &message, settings, now, jitter),
        PollAnswer::Restarted { message } => {
            mark_ended(&mut row);
            settled(
                row,
                Outcome::failed(ErrorCode::SERVER_RESTARTED, message),
                now,
            )
        }
        PollAnswer::Malformed { reason } => malformed(row, reason, settings, now, jitter),
        PollAnswer::TooLarge { task } => {
            // What could not be read may be of a task that still works: that is cancelled, which
            // does no harm to one that ended.
            if let Some(task) = task {
                row.remote = Some(refreshed(row.remote.take(), task));
            }
            settled(row, too_large(), now)
        }
        PollAnswer::Unavailable {
            reason,
            retry_after,
        } => {
            row = troubled(row, reason, retry_after, settings, now, jitter);
            // The backstop: nobody can be reached, and the task need not be there any more.
            if is_expired(&row, now) && row.trouble.errors >= settings.gone_confirmations {
                let message = "the remote task's time to live is over, \
                               and its server cannot be reached";
                return settled(row, expired(message), now);
            }
            row
        }
    }
}

fn still_asks(row: &Linkage, state: &RemoteState) -> bool {
    row.phase == Phase::InputRequired && matches!(state, RemoteState::InputRequired(_))
}

/// The row after the host's answers to `keys` were sent, or were not.
///
/// Whatever went wrong, a poll is next: it alone decides whether the task is there, and it ends
/// what no server answers for. Refused answers are forgotten, and so are their requests until the
/// poll finds them still open.
#[must_use]
pub fn updated(
    mut row: Linkage,
    keys: &[String],
    answer: UpdateAnswer,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    match answer {
        UpdateAnswer::Acknowledged => {
            // The acknowledgement is eventually consistent: the next poll tells.
            row.trouble = Trouble::default();
            row.next_due = Some(now.after(settings.min_poll_interval));
            row
        }
        UpdateAnswer::Refused { reason } => {
            for key in keys {
                row.input_requests.remove(key);
            }
            let reason = format!("the server refused the answer: {reason}");
            troubled(row, reason, None, settings, now, jitter)
        }
        UpdateAnswer::Unavailable {
            reason,
            retry_after,
        } => troubled(row, reason, retry_after, settings, now, jitter),
    }
}

fn in_state(
    mut row: Linkage,
    state: RemoteState,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    match state {
        RemoteState::Working => {
            row.phase = Phase::Working;
            row.input_requests.clear();
            row.next_due = Some(next_poll(&row, settings, now, jitter));
            row
        }
        RemoteState::InputRequired(requests) => {
            if row.input == InputHandling::Unsupported {
                return settled(row, input_unsupported(), now);
            }
            row.phase = Phase::InputRequired;
            row.input_requests = requests;
            row.next_due = Some(next_poll(&row, settings, now, jitter));
            row
        }
        RemoteState::Completed(result) => settled(row, Outcome::of_result(result), now),
        RemoteState::Failed { code, message } => settled(row, Outcome::failed(code, message), now),
        RemoteState::Cancelled => {
            let said = row
                .remote
                .as_ref()
                .and_then(|remote| remote.progress.clone());
            settled(row, Outcome::cancelled_by_server(said.as_deref()), now)
        }
    }
}

fn gone(
    mut row: Linkage,
    message: &str,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    if !is_gone(&mut row, message, settings, now) {
        row.next_due = Some(next_attempt(&row, settings, now, jitter, None));
        return row;
    }
    let outcome = if is_expired(&row, now) {
        expired("the remote task expired before its result was read")
    } else {
        let message = format!("the server no longer knows the task: {message}");
        Outcome::failed(ErrorCode::REMOTE_TASK_MISSING, message)
    };
    mark_ended(&mut row);
    settled(row, outcome, now)
}

fn malformed(
    mut row: Linkage,
    reason: String,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    row.trouble.malformed = row.trouble.malformed.saturating_add(1);
    row.trouble.last = Some(reason.clone());
    if row.trouble.malformed >= settings.malformed_limit {
        return settled(row, protocol_error(reason), now);
    }
    row.next_due = Some(next_attempt(&row, settings, now, jitter, None));
    row
}

fn expired(message: &str) -> Outcome {
    Outcome::failed(ErrorCode::REMOTE_TASK_EXPIRED, message)
}

fn is_expired(row: &Linkage, now: Moment) -> bool {
    row.expires_at().is_some_and(|expiry| now >= expiry)
}

/// One more answer that the task is unknown, and whether it is believed: at once after the time
/// to live, else after several in a row, because a replica that a balancer picked wrongly says
/// the same.
pub(super) fn is_gone(row: &mut Linkage, message: &str, settings: &Settings, now: Moment) -> bool {
    row.trouble.gone = row.trouble.gone.saturating_add(1);
    row.trouble.last = Some(format!("the server does not know the task: {message}"));
    row.trouble.gone >= settings.gone_confirmations || is_expired(row, now)
}

/// Nothing is left to cancel.
fn mark_ended(row: &mut Linkage) {
    if let Some(remote) = &mut row.remote {
        remote.ended = true;
    }
}

/// The newest metadata; what names the task stays what it was.
pub(super) fn refreshed(known: Option<RemoteTask>, newest: RemoteTask) -> RemoteTask {
    match known {
        None => newest,
        Some(known) => RemoteTask {
            kind: known.kind,
            id: known.id,
            created_at: known.created_at,
            // Silence is not the withdrawal of what was last said.
            progress: newest.progress.or(known.progress),
            ..newest
        },
    }
}

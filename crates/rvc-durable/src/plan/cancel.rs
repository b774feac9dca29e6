use super::poll::{is_gone, refreshed};
use super::settle::troubled;
use super::timing::{next_attempt, next_poll};
use super::{CancelAnswer, Jitter, PollAnswer, Settings};
use crate::linkage::{Linkage, RemoteKind, Trouble};
use crate::moment::Moment;

/// The row after the server was asked to cancel. The outcome is not touched.
#[must_use]
pub fn cancel_answered(
    mut row: Linkage,
    answer: CancelAnswer,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    row.clean_up.asked = row.clean_up.asked.saturating_add(1);
    match answer {
        CancelAnswer::Acknowledged => {
            row.clean_up.acknowledged_at = Some(now);
            row.trouble = Trouble::default();
            row.next_due = Some(next_poll(&row, settings, now, jitter));
            row
        }
        CancelAnswer::Ended { status } => {
            row.clean_up.acknowledged_at = Some(now);
            ended(row, status)
        }
        CancelAnswer::Gone { message } => gone(row, &message, settings, now, jitter),
        CancelAnswer::Unavailable {
            reason,
            retry_after,
        } => troubled(row, reason, retry_after, settings, now, jitter),
    }
}

/// The row after a look at what the cancelled task did. The outcome is not touched.
#[must_use]
pub fn looked(
    mut row: Linkage,
    answer: PollAnswer,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    row.clean_up.looked = row.clean_up.looked.saturating_add(1);
    match answer {
        PollAnswer::State { task, .. } => {
            let task = refreshed(row.remote.take(), task);
            let (over, status) = (task.ended, task.status.clone());
            row.remote = Some(task);
            if over {
                return ended(row, status);
            }
            row.trouble = Trouble::default();
            row.next_due = Some(next_poll(&row, settings, now, jitter));
            row
        }
        PollAnswer::Gone { message } => gone(row, &message, settings, now, jitter),
        PollAnswer::Restarted { .. } => ended(row, GONE.to_owned()),
        PollAnswer::TooLarge { task: Some(task) } => {
            let status = task.status.clone();
            row.remote = Some(refreshed(row.remote.take(), task));
            ended(row, status)
        }
        PollAnswer::TooLarge { task: None } => {
            // It stays so: nobody will see the task stop.
            row.clean_up.looked = settings.cancel_attempts;
            row.trouble.last = Some("the task's state is too large to be read".to_owned());
            row.next_due = Some(now);
            row
        }
        PollAnswer::Malformed { reason } => troubled(row, reason, None, settings, now, jitter),
        PollAnswer::Unavailable {
            reason,
            retry_after,
        } => troubled(row, reason, retry_after, settings, now, jitter),
    }
}

/// The row with its clean-up given up. The outcome is not touched.
#[must_use]
pub fn closed(mut row: Linkage) -> Linkage {
    row.clean_up.open = false;
    row.next_due = None;
    row
}

fn ended(mut row: Linkage, status: String) -> Linkage {
    if let Some(remote) = &mut row.remote {
        remote.status = status;
        remote.ended = true;
    }
    closed(row)
}

/// Unknown to the server: believed as a poll is, since a misrouted wish reaches nobody. Bounded
/// besides by the attempts of the clean-up.
fn gone(
    mut row: Linkage,
    message: &str,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    let kind = row.remote.as_ref().map(|remote| remote.kind);
    // A contract's task is lost with one answer, to a poll as well.
    if is_gone(&mut row, message, settings, now) || kind == Some(RemoteKind::Contract) {
        return ended(row, GONE.to_owned());
    }
    row.next_due = Some(next_attempt(&row, settings, now, jitter, None));
    row
}

/// Our word for a task that the server does not know any more.
const GONE: &str = "gone";

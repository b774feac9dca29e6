use super::poll::refreshed;
use super::settle::troubled;
use super::timing::next_poll;
use super::{CancelAnswer, Jitter, PollAnswer, Settings};
use crate::linkage::Linkage;
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
            row.trouble.errors = 0;
            row.next_due = Some(next_poll(&row, settings, now, jitter));
            row
        }
        CancelAnswer::Ended { status } => {
            row.clean_up.acknowledged_at = Some(now);
            ended(row, status)
        }
        CancelAnswer::Gone => ended(row, GONE.to_owned()),
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
            row.trouble.errors = 0;
            row.next_due = Some(next_poll(&row, settings, now, jitter));
            row
        }
        PollAnswer::Gone { .. } | PollAnswer::Restarted { .. } => ended(row, GONE.to_owned()),
        PollAnswer::TooLarge => ended(row, "completed".to_owned()),
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

/// Our word for a task that the server does not know any more.
const GONE: &str = "gone";

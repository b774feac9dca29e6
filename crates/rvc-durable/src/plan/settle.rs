use std::time::Duration;

use super::timing::next_attempt;
use super::{Jitter, Settings};
use crate::error_code::ErrorCode;
use crate::linkage::{HostKind, Linkage};
use crate::moment::Moment;
use crate::outcome::Outcome;
use crate::phase::Phase;

/// The row with its outcome, which is written here and nowhere else.
///
/// Remote work that may go on opens the clean-up. A foreign host is told before the phase is
/// final, unless the cancel was its own.
#[must_use]
pub fn settled(mut row: Linkage, outcome: Outcome, now: Moment) -> Linkage {
    if row.outcome.is_some() {
        return row;
    }
    let running = match &row.remote {
        Some(remote) => !remote.ended,
        // A start is on its way: its handle may yet come. Or it never will, and the clean-up says
        // so.
        None => row.may_run_unnamed() && outcome.phase == Phase::Cancelled,
    };
    let told =
        row.host == HostKind::Ledger || outcome.error_code.as_ref() == Some(&ErrorCode::CANCELLED);
    row.phase = if told { outcome.phase } else { Phase::Accepted };
    row.outcome = Some(outcome);
    row.finished_at = Some(now);
    row.input_requests.clear();
    row.clean_up.open = running;
    // Counts of the poll do not belong to the clean-up.
    row.trouble = crate::linkage::Trouble {
        last: row.trouble.last.take(),
        ..Default::default()
    };
    row.next_due = (!row.is_at_rest()).then_some(now);
    row
}

/// Whether a row with an outcome leaves remote work behind that may go on, that nobody here can
/// name, and of which the outcome does not come from the server: the host went ahead without it.
#[must_use]
pub fn leaves_unwatched(row: &Linkage) -> bool {
    let ours = [
        ErrorCode::REGISTRATION_REVOKED,
        ErrorCode::EXECUTION_DEADLINE_EXCEEDED,
    ];
    let code = row.outcome.as_ref().and_then(|it| it.error_code.as_ref());
    row.may_run_unnamed() && code.is_some_and(|code| ours.contains(code))
}

/// The row after the foreign host took the outcome, or said that it had it.
#[must_use]
pub fn delivered(mut row: Linkage, now: Moment) -> Linkage {
    if let (Phase::Accepted, Some(outcome)) = (row.phase, &row.outcome) {
        row.phase = outcome.phase;
        row.trouble.errors = 0;
        row.next_due = row.clean_up.open.then_some(now);
    }
    row
}

/// The row after the foreign host turned out to have cancelled, before it was told: what was
/// known is suppressed.
#[must_use]
pub fn suppressed(mut row: Linkage, now: Moment) -> Linkage {
    if row.phase == Phase::Accepted {
        row.phase = Phase::Cancelled;
        row.outcome = Some(Outcome::cancelled_by_host());
        row.next_due = row.clean_up.open.then_some(now);
    }
    row
}

/// The row after the foreign host could not be told.
#[must_use]
pub fn delivery_failed(
    row: Linkage,
    reason: String,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    troubled(row, reason, None, settings, now, jitter)
}

/// The row after something local was not at hand: it is tried again, and no count of the
/// server's behaviour moves.
#[must_use]
pub fn deferred(mut row: Linkage, reason: String, now: Moment, jitter: Jitter) -> Linkage {
    row.trouble.last = Some(reason);
    row.next_due = Some(now.after(jitter.spread(Duration::from_secs(2))));
    row
}

/// One more call that reached nobody.
pub(super) fn troubled(
    mut row: Linkage,
    reason: String,
    retry_after: Option<Duration>,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
) -> Linkage {
    row.trouble.errors = row.trouble.errors.saturating_add(1);
    row.trouble.last = Some(reason);
    row.next_due = Some(next_attempt(&row, settings, now, jitter, retry_after));
    row
}

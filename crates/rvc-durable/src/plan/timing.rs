use std::time::Duration;

use super::Settings;
use crate::linkage::Linkage;
use crate::moment::Moment;

/// The longest that any row sleeps and any lease lasts.
///
/// A due time or a lease further ahead than this was written under a clock that has since been
/// set back. It counts as due.
pub const HORIZON: Duration = Duration::from_secs(3600);

/// A random number that spreads due times, so that what started together does not poll together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter(f64);

impl Jitter {
    /// No spreading.
    pub const NONE: Self = Self(0.5);

    /// From a random number; anything outside 0..=1 is brought inside.
    #[must_use]
    pub fn new(unit: f64) -> Self {
        Self(if unit.is_finite() {
            unit.clamp(0.0, 1.0)
        } else {
            0.5
        })
    }

    /// `duration`, up to a tenth shorter or longer.
    #[must_use]
    pub fn spread(self, duration: Duration) -> Duration {
        duration.mul_f64(0.9 + self.0 * 0.2)
    }
}

/// The plan's ladder, when nobody says better: 1, 2, 3, 5, 5, … seconds.
fn ladder(rung: u64) -> Duration {
    const SECONDS: [u64; 4] = [1, 2, 3, 5];
    let rung = usize::try_from(rung).unwrap_or(usize::MAX);
    Duration::from_secs(SECONDS[rung.min(SECONDS.len() - 1)])
}

/// When a task that answered is asked again.
pub(super) fn next_poll(row: &Linkage, settings: &Settings, now: Moment, jitter: Jitter) -> Moment {
    let hint = row.remote.as_ref().and_then(|remote| remote.poll_interval);
    let wanted = hint.unwrap_or_else(|| ladder(row.polls));
    in_time(
        row,
        now.after(jitter.spread(clamp(wanted, settings)).min(HORIZON)),
        now,
    )
}

/// When a server that failed is tried again: the ladder, then twice as long each time up to the
/// longest interval, and never before its `Retry-After`.
pub(super) fn next_attempt(
    row: &Linkage,
    settings: &Settings,
    now: Moment,
    jitter: Jitter,
    retry_after: Option<Duration>,
) -> Moment {
    let failures = row
        .trouble
        .errors
        .max(row.trouble.malformed)
        .max(row.trouble.gone);
    let rung = u64::from(failures.saturating_sub(1));
    let doublings = u32::try_from(rung.saturating_sub(4))
        .unwrap_or(u32::MAX)
        .min(10);
    let wanted = ladder(rung) * 2_u32.pow(doublings);
    let hint = row.remote.as_ref().and_then(|remote| remote.poll_interval);
    let wanted = clamp(wanted.max(hint.unwrap_or_default()), settings);
    let wanted = jitter.spread(wanted).max(retry_after.unwrap_or_default());
    in_time(row, now.after(wanted.min(HORIZON)), now)
}

/// Not later than the host's deadline, while that is still to come and matters.
fn in_time(row: &Linkage, due: Moment, now: Moment) -> Moment {
    match row.deadline_at {
        Some(deadline) if row.outcome.is_none() && deadline > now => due.min(deadline),
        _ => due,
    }
}

fn clamp(wanted: Duration, settings: &Settings) -> Duration {
    wanted
        .max(settings.min_poll_interval)
        .min(settings.max_poll_interval)
}

//! How long a handle stays readable: pure decisions over ages from the task's creation.

use std::time::Duration;

/// How much is kept for handles of the official extension.
///
/// Above half of either limit new handles announce shorter TTLs, down to a minute; at the limit
/// a call is answered as the contract says, without a handle, and one to a tool that requires
/// the extension is refused before the tool is called. What was announced is kept in any case,
/// so tasks that are running when a limit is reached may take it further by what they leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct HandleLimits {
    pub(super) handles: usize,
    pub(super) bytes: usize,
}

impl HandleLimits {
    /// 10,000 handles and 64 MiB of what their tasks leave.
    pub const fn new() -> Self {
        Self {
            handles: 10_000,
            bytes: 64 * 1024 * 1024,
        }
    }

    /// The most handles.
    pub const fn handles(mut self, most: usize) -> Self {
        self.handles = most;
        self
    }

    /// The most bytes of what their tasks leave, as JSON.
    pub const fn bytes(mut self, most: usize) -> Self {
        self.bytes = most;
        self
    }
}

impl Default for HandleLimits {
    fn default() -> Self {
        Self::new()
    }
}

/// The shortest TTL that pressure leads to.
const LEAST: Duration = Duration::from_secs(60);
/// What pressure makes of an unlimited TTL, before it is shortened.
const UNLIMITED_UNDER_PRESSURE: Duration = Duration::from_secs(60 * 60);
/// The most by which a finished task outlives the TTL that it ran past.
const MOST_LINGER: Duration = Duration::from_secs(5 * 60);

/// What is kept at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) handles: usize,
    pub(super) bytes: usize,
}

/// Whether, and for how long, a new handle can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// For as long as its tool says.
    Full(Option<Duration>),
    /// For less: memory is scarce.
    Shortened(Duration),
    /// Not at all.
    Refused,
}

pub(super) fn grant(wish: Option<Duration>, usage: Usage, limits: HandleLimits) -> Grant {
    let load = load(usage.handles, limits.handles).max(load(usage.bytes, limits.bytes));
    if load >= 1.0 {
        return Grant::Refused;
    }
    if load <= 0.5 {
        return Grant::Full(wish);
    }
    let full = wish.unwrap_or(UNLIMITED_UNDER_PRESSURE);
    let shortened = full.mul_f64((1.0 - load) * 2.0);
    Grant::Shortened(shortened.max(LEAST).min(full))
}

#[expect(clippy::cast_precision_loss, reason = "a rough share is enough")]
fn load(used: usize, most: usize) -> f64 {
    if used >= most {
        1.0
    } else {
        used as f64 / most as f64
    }
}

/// What a task that runs, or has just ended, announces at this age: its TTL, raised in steps so
/// that there is always time left to read how it ended.
pub(super) fn raised(announced: Option<Duration>, age: Duration) -> Option<Duration> {
    let announced = announced?;
    let linger = linger(announced);
    if announced.saturating_sub(age) >= linger {
        Some(announced)
    } else {
        Some(age.saturating_add(linger * 2))
    }
}

fn linger(ttl: Duration) -> Duration {
    (ttl / 2).min(MOST_LINGER)
}

/// Whether a task that has ended need not be kept any more.
pub(super) fn is_over(announced: Option<Duration>, age: Duration) -> bool {
    announced.is_some_and(|announced| age >= announced)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn ttls_are_shortened_by_pressure_and_never_lengthened() {
        let limits = HandleLimits::new().handles(100).bytes(1_000);
        let hour = Some(secs(3_600));
        for (wish, handles, bytes, granted) in [
            (hour, 0, 0, Grant::Full(hour)),
            (hour, 50, 500, Grant::Full(hour)),
            (None, 50, 500, Grant::Full(None)),
            (hour, 75, 0, Grant::Shortened(secs(1_800))),
            (hour, 0, 750, Grant::Shortened(secs(1_800))),
            (None, 75, 0, Grant::Shortened(secs(1_800))),
            (hour, 99, 0, Grant::Shortened(secs(72))),
            (Some(secs(600)), 99, 0, Grant::Shortened(secs(60))),
            (Some(secs(10)), 99, 0, Grant::Shortened(secs(10))),
            (hour, 100, 0, Grant::Refused),
            (hour, 0, 1_000, Grant::Refused),
            (hour, 500, 0, Grant::Refused),
        ] {
            let granted_now = grant(wish, Usage { handles, bytes }, limits);
            match (granted_now, granted) {
                (Grant::Shortened(is), Grant::Shortened(about)) => {
                    assert!(is.abs_diff(about) < secs(1), "{is:?} is not {about:?}");
                }
                (is, expected) => assert_eq!(is, expected),
            }
        }
    }

    #[test]
    fn a_running_task_always_announces_time_to_read_its_end() {
        for (announced, age, raised_to) in [
            (Some(3_600), 0, Some(3_600)),
            (Some(3_600), 3_300, Some(3_600)),
            (Some(3_600), 3_301, Some(3_901)),
            (Some(3_600), 9_000, Some(9_600)),
            (Some(60), 10, Some(60)),
            (Some(60), 40, Some(100)),
            (None, 9_000, None),
        ] {
            let raised = raised(announced.map(secs), secs(age));
            assert_eq!(raised, raised_to.map(secs), "{announced:?} at {age}");
        }
    }

    #[test]
    fn an_announced_ttl_is_never_lowered() {
        for announced in [0, 1, 59, 3_600, u64::MAX] {
            for age in [0, 1, 30, 3_599, 100_000, u64::MAX] {
                let announced = secs(announced);
                assert!(raised(Some(announced), secs(age)) >= Some(announced));
            }
        }
    }

    #[test]
    fn it_is_over_when_the_announced_time_is() {
        assert!(!is_over(Some(secs(60)), secs(59)));
        assert!(is_over(Some(secs(60)), secs(60)));
        assert!(!is_over(None, Duration::MAX));
    }
}

//! Whether this clock and the endpoint's agree (contract decision 17).

use std::time::Duration;

use tokio::time::Instant;

/// Warns once an hour while the clocks are more than 60 s apart. Robots boot in 1970.
#[derive(Debug, Default)]
pub(crate) struct SkewWatch {
    last_warning: Option<Instant>,
}

impl SkewWatch {
    /// How many seconds this clock is ahead of the endpoint's (behind, if negative), when that is
    /// worth a warning now.
    pub(crate) fn observe(
        &mut self,
        endpoint_unix_s: i64,
        own_unix_s: i64,
        now: Instant,
    ) -> Option<i64> {
        let ahead_s = own_unix_s.saturating_sub(endpoint_unix_s);
        let told = self.last_warning.is_some_and(|last| now < last + HOUR);
        if told || ahead_s.unsigned_abs() <= TOLERATED_S {
            return None;
        }
        self.last_warning = Some(now);
        Some(ahead_s)
    }
}

const TOLERATED_S: u64 = 60;
const HOUR: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_minute_in_either_direction_is_told_once_an_hour() {
        let start = Instant::now();
        let mut watch = SkewWatch::default();
        let minutes = |minutes: u32| start + Duration::from_secs(60) * minutes;
        for (own, at, told) in [
            (1_060, minutes(0), None),
            (940, minutes(0), None),
            (0, minutes(1), Some(-1_000)),
            (1_061, minutes(2), None),
            (0, minutes(60), None),
            (1_061, minutes(61), Some(61)),
            (939, minutes(121), Some(-61)),
        ] {
            assert_eq!(watch.observe(1_000, own, at), told, "{own} at {at:?}");
        }
    }
}

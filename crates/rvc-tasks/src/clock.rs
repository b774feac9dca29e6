use std::time::{SystemTime, UNIX_EPOCH};

use rvc_wire::Timestamp;

/// The port to the wall clock, which only stamps events and infos.
///
/// Durations never come from it: robots boot in 1970, or in a future that an empty battery made
/// up, and jump to the present when the network comes. Within a task, a step back of up to 5 s is
/// not shown: the task's newest time is used again until the clock has passed it. A larger step
/// back is a correction, and shown at once: such a task's later times, and `updated_at`, can be
/// before the earlier ones, and before `created_at`. The order of events is that of `seq`.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        timestamp_of(SystemTime::now())
    }
}

/// A clock set outside the years 0 to 9999 reads as 1970, like one that was never set.
fn timestamp_of(time: SystemTime) -> Timestamp {
    let unix_ms = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => {
            i64::try_from(before.duration().as_millis()).map_or(i64::MIN, std::ops::Neg::neg)
        }
    };
    Timestamp::from_unix_ms(unix_ms)
        .unwrap_or_else(|_| Timestamp::from_unix_ms(0).expect("1970 can be written"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_setting_of_the_machine_clock_has_a_timestamp() {
        let years = |n: u64| Duration::from_secs(n * 31_556_952);
        for (time, written) in [
            (UNIX_EPOCH, "1970-01-01T00:00:00.000Z"),
            (
                UNIX_EPOCH - Duration::from_millis(1),
                "1969-12-31T23:59:59.999Z",
            ),
            (
                UNIX_EPOCH + Duration::from_millis(1_781_272_980_123),
                "2026-06-12T14:03:00.123Z",
            ),
            (UNIX_EPOCH + years(9_000), "1970-01-01T00:00:00.000Z"),
            (UNIX_EPOCH - years(3_000), "1970-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp_of(time).to_string(), written);
        }
    }
}

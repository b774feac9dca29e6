//! Keeps a smallest interval between a task's progress events (contract decision 25).

use std::time::Duration;

use tokio::time::Instant;

/// The newest report waits until the interval since the last one is over, unless another event
/// of the task goes out before.
#[derive(Debug)]
pub(crate) struct Thinning<T> {
    interval: Duration,
    last_sent: Option<Instant>,
    held: Option<T>,
}

impl<T> Thinning<T> {
    pub(crate) const fn new(interval: Duration) -> Self {
        Self {
            interval,
            last_sent: None,
            held: None,
        }
    }

    /// A new report, and back if it may go out at once; otherwise it takes the place of the one
    /// held back.
    pub(crate) fn offer(&mut self, report: T, now: Instant) -> Option<T> {
        self.held = Some(report);
        self.take_due(now)
    }

    /// The report held back, because another event goes out now.
    pub(crate) fn take(&mut self, now: Instant) -> Option<T> {
        let held = self.held.take()?;
        self.last_sent = Some(now);
        Some(held)
    }

    /// The report held back, if its time has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<T> {
        match self.last_sent {
            Some(last) if now.saturating_duration_since(last) < self.interval => None,
            _ => self.take(now),
        }
    }

    /// How long the report that is held back still waits; `None` if none is.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        self.held.as_ref()?;
        let last = self.last_sent?;
        Some(
            self.interval
                .saturating_sub(now.saturating_duration_since(last)),
        )
    }

    pub(crate) const fn holds(&self) -> bool {
        self.held.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn the_first_report_goes_out_at_once_and_the_newest_wins_after_it() {
        let start = Instant::now();
        let mut thinning = Thinning::new(SECOND);
        assert_eq!(thinning.offer(1, start), Some(1));
        assert_eq!(thinning.offer(2, at(start, 100)), None);
        assert_eq!(thinning.offer(3, at(start, 200)), None);
        assert_eq!(
            thinning.wait(at(start, 200)),
            Some(Duration::from_millis(800))
        );
        assert_eq!(thinning.take_due(at(start, 999)), None);
        assert_eq!(thinning.take_due(at(start, 1_000)), Some(3));
        assert_eq!(thinning.wait(at(start, 1_000)), None);
    }

    #[test]
    fn a_report_that_went_out_early_starts_the_interval_anew() {
        let start = Instant::now();
        let mut thinning = Thinning::new(SECOND);
        assert_eq!(thinning.offer(1, start), Some(1));
        assert_eq!(thinning.offer(2, at(start, 100)), None);
        assert_eq!(thinning.take(at(start, 900)), Some(2));
        assert_eq!(thinning.offer(3, at(start, 1_000)), None);
        assert_eq!(thinning.take_due(at(start, 1_899)), None);
        assert_eq!(thinning.take_due(at(start, 1_900)), Some(3));
    }

    #[test]
    fn a_report_after_a_quiet_interval_goes_out_at_once() {
        let start = Instant::now();
        let mut thinning = Thinning::new(SECOND);
        assert_eq!(thinning.offer(1, start), Some(1));
        assert_eq!(thinning.offer(2, at(start, 1_000)), Some(2));
        assert!(!thinning.holds());
    }

    #[test]
    fn an_endless_interval_sends_the_first_report_only() {
        let start = Instant::now();
        let mut thinning = Thinning::new(Duration::MAX);
        assert_eq!(thinning.offer(1, start), Some(1));
        assert_eq!(thinning.offer(2, at(start, 1_000_000)), None);
        assert!(thinning.holds());
    }
}

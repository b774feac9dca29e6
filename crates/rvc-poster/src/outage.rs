//! While the endpoint cannot be reached at all (contract decision 14).

use std::sync::Arc;

use tokio::time::Instant;

use crate::delivery_error::DeliveryError;
use crate::queue::LineId;
use crate::retry;

/// A time without any connection to the endpoint, in which one probe at a time is sent.
///
/// A probe is an ordinary attempt of some line's next event. Probes follow the delays of one
/// event's retries, however many tasks wait.
#[derive(Debug)]
pub(crate) struct Outage {
    probes: u32,
    next_probe: Instant,
    probing: Option<LineId>,
    last_error: Arc<DeliveryError>,
}

impl Outage {
    /// The attempt that found the endpoint unreachable counts as the first probe.
    pub(crate) fn begin(error: Arc<DeliveryError>, now: Instant) -> Self {
        Self {
            probes: 1,
            next_probe: now + retry::delay_after(1),
            probing: None,
            last_error: error,
        }
    }

    /// Whether a probe may go out now.
    pub(crate) fn may_probe(&self, now: Instant) -> bool {
        self.probing.is_none() && self.next_probe <= now
    }

    /// When the next probe may go out, unless one is out.
    pub(crate) fn next_probe(&self) -> Option<Instant> {
        self.probing.is_none().then_some(self.next_probe)
    }

    pub(crate) fn probe_now(&mut self, now: Instant) {
        self.next_probe = self.next_probe.min(now);
    }

    pub(crate) fn probe_began(&mut self, line: LineId) {
        self.probing = Some(line);
    }

    pub(crate) fn is_probe(&self, line: LineId) -> bool {
        self.probing == Some(line)
    }

    /// The probe's attempt was broken off and says nothing.
    pub(crate) fn probe_abandoned(&mut self) {
        self.probing = None;
    }

    pub(crate) fn probe_failed(&mut self, error: Arc<DeliveryError>, now: Instant) {
        self.probes += 1;
        self.next_probe = now + retry::delay_after(self.probes);
        self.probing = None;
        self.last_error = error;
    }

    pub(crate) fn last_error(&self) -> &Arc<DeliveryError> {
        &self.last_error
    }
}

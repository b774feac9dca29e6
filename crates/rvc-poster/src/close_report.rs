use std::collections::BTreeMap;

use rvc_wire::TaskId;

/// What was left when a poster was closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// How many events of which tasks were not acknowledged. An event whose answer was still
    /// awaited is among them; it may have arrived.
    pub undelivered: BTreeMap<TaskId, usize>,
}

impl CloseReport {
    /// How many events were not acknowledged.
    #[must_use]
    pub fn total(&self) -> usize {
        self.undelivered.values().sum()
    }

    /// Whether everything was acknowledged, given up or shed before the close.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.undelivered.is_empty()
    }
}

/// How much a poster keeps while it cannot deliver (contract decision 15).
///
/// One part in sixteen of each limit is kept free for ends. What never gives way can exceed a
/// limit: ends and attempted events, at most one of each for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Events, those in flight included. 10,000 unless set.
    pub events: usize,
    /// Bytes of their bodies. 64 MiB unless set.
    pub bytes: usize,
}

impl QueueLimits {
    /// What events other than ends may fill.
    pub(crate) fn without_room_for_ends(self) -> Self {
        Self {
            events: self.events - self.events / RESERVE,
            bytes: self.bytes - self.bytes / RESERVE,
        }
    }
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            events: 10_000,
            bytes: 64 << 20,
        }
    }
}

const RESERVE: usize = 16;

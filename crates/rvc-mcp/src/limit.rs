//! How much is taken on for clients over HTTP.

use std::sync::atomic::{AtomicBool, Ordering};

/// Connections at a time: half of the files that a process may have open by default, as the
/// robot needs some too.
pub(crate) const CONNECTIONS: usize = 512;

/// Event streams that listen for as long as they like. Each holds a connection, and half of the
/// connections stay for requests, so that a task can be cancelled whoever listens.
pub(crate) const STREAMS: usize = CONNECTIONS / 2;

/// Sessions of streamable HTTP, which outlive their connections.
pub(crate) const SESSIONS: usize = 1_000;

/// At most so many of something.
///
/// It warns once, and again only after half of it was free: a client that comes back and back
/// must not fill the log either.
#[derive(Debug)]
pub(crate) struct Limit {
    of: &'static str,
    most: usize,
    has_warned: AtomicBool,
}

impl Limit {
    pub(crate) const fn new(of: &'static str, most: usize) -> Self {
        Self {
            of,
            most,
            has_warned: AtomicBool::new(false),
        }
    }

    /// Whether there is room for one more beside those that are there.
    pub(crate) fn has_room(&self, taken: usize) -> bool {
        if taken >= self.most {
            if !self.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(most = self.most, of = self.of, "no room for more");
            }
            return false;
        }
        if taken <= self.most / 2 {
            self.has_warned.store(false, Ordering::Relaxed);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use rvc_test::Logs;
    use tracing::Level;

    use super::*;

    #[test]
    fn a_limit_warns_once_until_half_of_it_is_free_again() {
        let logs = Logs::capture();
        let limit = Limit::new("sessions", 4);
        for (taken, has_room, warnings) in [
            (3, true, 0),
            (4, false, 1),
            (5, false, 1),
            (3, true, 1),
            (4, false, 1),
            (2, true, 1),
            (4, false, 2),
        ] {
            assert_eq!(limit.has_room(taken), has_room, "{taken}");
            assert_eq!(logs.at(Level::WARN).len(), warnings, "{taken}");
        }
        assert_eq!(logs.lines()[0].field("of"), Some("sessions"));
    }
}

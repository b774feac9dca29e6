//! Which faults lasted when, and the supervisors that ended of them.

use std::ops::Range;

use super::super::history::{Entry, Seen};
use super::super::schedule::Fault;
use super::Violation;

/// A fault, from when to when.
struct Trouble {
    fault: Fault,
    from: u64,
    to: u64,
}

/// All that went wrong.
pub(super) struct Troubles(Vec<Trouble>);

impl Troubles {
    pub(super) fn read(entries: &[Entry]) -> Self {
        let mut troubles = Vec::<Trouble>::new();
        for entry in entries {
            match entry.seen {
                Seen::FaultBegan { fault } => troubles.push(Trouble {
                    fault,
                    from: entry.at,
                    to: u64::MAX,
                }),
                Seen::FaultEnded { fault } => {
                    let open =
                        |trouble: &&mut Trouble| trouble.fault == fault && trouble.to == u64::MAX;
                    if let Some(trouble) = troubles.iter_mut().rev().find(open) {
                        trouble.to = entry.at;
                    }
                }
                _ => {}
            }
        }
        Self(troubles)
    }

    /// Whether such a fault lasted, or had just ended, in the window.
    pub(super) fn any(&self, window: &Range<u64>, is_one: impl Fn(Fault) -> bool) -> bool {
        self.0.iter().any(|trouble| {
            is_one(trouble.fault)
                && trouble.from <= window.end
                && trouble.to.saturating_add(AFTERMATH) >= window.start
        })
    }

    /// A supervisor may end by itself only where it could not reach its database, or while it
    /// started: on a starved machine it may not reach it soon enough.
    pub(super) fn supervisors(&self, entries: &[Entry]) -> Vec<Violation> {
        let ended = entries.iter().filter_map(|entry| match &entry.seen {
            Seen::SupervisorEnded { supervisor, status } => Some((entry.at, *supervisor, status)),
            _ => None,
        });
        let begun = entries.first().map_or(0, |entry| entry.at);
        let unexplained = ended.filter(|(at, supervisor, _)| {
            *at > begun + OPENING
                && !self.0.iter().any(|trouble| {
                    let is_reason = match trouble.fault {
                        Fault::CrashDatabase => true,
                        Fault::CutDatabase(n)
                        | Fault::RefuseDatabase(n)
                        | Fault::StallDatabase(n)
                        | Fault::LoseDatabaseAnswer(n)
                        | Fault::StopSupervisor(n)
                        | Fault::KillSupervisor(n)
                        | Fault::EndSupervisor(n) => n == *supervisor,
                        _ => false,
                    };
                    is_reason && trouble.from <= *at && *at <= trouble.to.saturating_add(OPENING)
                })
        });
        unexplained
            .map(|(_, supervisor, status)| Violation {
                of: format!("supervisor {supervisor}"),
                what: format!("it ended by itself, and its database was there: {status}"),
            })
            .collect()
    }
}

/// What a fault broke shows for a moment, in microseconds: connections are found broken, a
/// process that was stopped goes on.
const AFTERMATH: u64 = 1_000_000;

/// How long a supervisor that starts may try to reach its database, in microseconds like the
/// other.
const OPENING: u64 = 12_000_000;

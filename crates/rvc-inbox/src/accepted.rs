use std::fmt;

use rvc_wire::{Seq, TaskEvent};

use crate::ledger::Entry;

/// An event that verified, and how it fits to what came before.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Accepted {
    /// The event.
    pub event: TaskEvent,
    /// Whether it came before.
    pub kind: Kind,
    /// What this inbox knew of the task. [`Sighting::Known`] for a duplicate.
    pub sighting: Sighting,
    /// The events of the task that should have come before this one and did not. `None` for a
    /// duplicate.
    pub gap: Option<Gap>,
    /// Which of the server's secrets it is signed with, in the order in which they were given.
    pub secret_index: usize,
    pub(crate) entry: Entry,
}

impl Accepted {
    /// Whether what the receiver knows of this task may be incomplete, so that `get_task` or
    /// `list_tasks` should be asked: push is the optimisation, poll is the truth.
    #[must_use]
    pub fn should_poll(&self) -> bool {
        self.gap.is_some() || matches!(self.sighting, Sighting::Late | Sighting::Again)
    }
}

/// Whether an event came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It did not. Act on it.
    New,
    /// It did: the sender missed the acknowledgement. Acknowledge it again, and do nothing.
    Duplicate,
}

/// What an inbox knew of a task when an event of it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sighting {
    /// Nothing. The task is new, or the receiver is: then a [`Gap`] says what it missed.
    First,
    /// Its events up to this one, as far as no [`Gap`] says otherwise.
    Known,
    /// A later event of it. No sender that keeps to the contract does this.
    Late,
    /// Another task of this id: the server was restarted, and drew the same six digits again. The
    /// task before has ended without a further word.
    Again,
}

/// A run of events that a receiver did not get, both ends included.
///
/// They may be lost (the sender gave up, or its queue was full); the contract's answer is to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gap {
    /// The first that is missing.
    pub first: Seq,
    /// The last that is missing.
    pub last: Seq,
}

impl Gap {
    /// The gap between the newest event so far and the one that came, if there is one.
    pub(crate) fn between(newest: Option<Seq>, came: Seq) -> Option<Self> {
        let first = newest.map_or(Seq::FIRST, Seq::next);
        let last = Seq::try_from(came.get() - 1).ok()?;
        (first <= last).then_some(Self { first, last })
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "seq {} is missing", self.first)
        } else {
            write!(f, "seq {} to {} are missing", self.first, self.last)
        }
    }
}

//! What one server's events looked like so far, in bounded memory.
//!
//! Invariants:
//! 1. An event is a duplicate only if its own id was remembered: an event that was never taken is
//!    never called one.
//! 2. A sender that keeps to the contract may send again only the newest event of a task, because
//!    the task's next one waits for its acknowledgement. That id is kept with the task, so such a
//!    retry is recognised however many events came between, while the task is tracked.
//! 3. Other copies (a late attempt, a replay) carry the signature time of their attempt. Once ids
//!    are forgotten, what was signed no later than they were cannot be told from such a copy, and
//!    is refused: the sender signs each attempt anew, so its next attempt gets through.

mod seen;
mod tracks;

use rvc_wire::{Seq, TaskEvent};

use crate::accepted::{Gap, Kind, Sighting};
use crate::fingerprint::{Fingerprint, Fingerprints};
use crate::ledger::seen::Seen;
use crate::ledger::tracks::{Track, Tracks};

/// The part of an event that a ledger keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    event: Fingerprint,
    task: Fingerprint,
    seq: Seq,
    is_end: bool,
    signed_at: i64,
}

/// What a ledger says of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Accepted {
        kind: Kind,
        sighting: Sighting,
        gap: Option<Gap>,
    },
    /// Signed no later than `forgotten_until`, and ids of that time are forgotten.
    Indistinct { forgotten_until: i64 },
}

/// The memory of one server's events.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    fingerprints: Fingerprints,
    seen: Seen,
    tracks: Tracks,
}

impl Ledger {
    pub(crate) fn new(remembered_events: usize, tracked_tasks: usize) -> Self {
        Self {
            fingerprints: Fingerprints::default(),
            seen: Seen::new(remembered_events),
            tracks: Tracks::new(tracked_tasks),
        }
    }

    pub(crate) fn entry(&self, event: &TaskEvent, signed_at: i64) -> Entry {
        Entry {
            event: self.fingerprints.of(event.event_id.as_str()),
            task: self.fingerprints.of(event.task_id.as_str()),
            seq: event.seq,
            is_end: event.event_type.is_end(),
            signed_at,
        }
    }

    /// Judges an event without remembering it.
    pub(crate) fn judge(&self, entry: &Entry) -> Judgement {
        if self.came_before(entry) {
            return Judgement::Accepted {
                kind: Kind::Duplicate,
                sighting: Sighting::Known,
                gap: None,
            };
        }
        if let Some(forgotten_until) = self.seen.forgotten_until()
            && entry.signed_at <= forgotten_until
        {
            return Judgement::Indistinct { forgotten_until };
        }
        let (sighting, gap) = place(self.tracks.get(entry.task), entry.seq);
        Judgement::Accepted {
            kind: Kind::New,
            sighting,
            gap,
        }
    }

    /// Remembers an event that was taken, or that it came again.
    pub(crate) fn remember(&mut self, entry: &Entry) {
        let came_before = self.came_before(entry);
        // Also for one that came before: its newest attempt counts once the id is forgotten.
        self.seen.insert(entry.event, entry.signed_at);
        if came_before {
            return;
        }
        let known = self.tracks.get(entry.task);
        // A late event tells nothing about where its task stands.
        if place(known, entry.seq).0 == Sighting::Late {
            return;
        }
        self.tracks.put(
            entry.task,
            Track {
                newest_event: entry.event,
                newest_seq: entry.seq,
                has_ended: entry.is_end,
            },
        );
    }

    fn came_before(&self, entry: &Entry) -> bool {
        let is_newest_of_its_task = self
            .tracks
            .get(entry.task)
            .is_some_and(|track| track.newest_event == entry.event);
        is_newest_of_its_task || self.seen.contains(entry.event)
    }
}

/// Where an event that was not seen before stands in its task.
///
/// Ids of six digits repeat after a server's restart (contract decision 2), so one id can stand
/// for several tasks, one after the other: a `seq` of 1, or a later one after the end, begins
/// another.
fn place(track: Option<&Track>, seq: Seq) -> (Sighting, Option<Gap>) {
    let Some(track) = track else {
        return (Sighting::First, Gap::between(None, seq));
    };
    let is_after = seq > track.newest_seq;
    if seq == Seq::FIRST || (track.has_ended && is_after) {
        (Sighting::Again, Gap::between(None, seq))
    } else if is_after {
        (Sighting::Known, Gap::between(Some(track.newest_seq), seq))
    } else {
        (Sighting::Late, None)
    }
}

#[cfg(test)]
mod tests;

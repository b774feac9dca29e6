use std::collections::{BTreeMap, HashMap};

use rvc_wire::Seq;

use crate::fingerprint::Fingerprint;

/// Where one task stands, as its newest event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Track {
    pub(crate) newest_event: Fingerprint,
    pub(crate) newest_seq: Seq,
    pub(crate) has_ended: bool,
}

/// The tracks of the tasks that were heard of last, up to a number of them.
///
/// When there are too many, ended tasks give way first, then the one that was silent longest.
#[derive(Clone, Debug)]
pub(crate) struct Tracks {
    most: usize,
    by_task: HashMap<Fingerprint, (Track, Rank)>,
    by_rank: BTreeMap<Rank, Fingerprint>,
    clock: u64,
}

/// Who gives way first: the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_running: bool,
    heard_at: u64,
}

impl Tracks {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            by_task: HashMap::new(),
            by_rank: BTreeMap::new(),
            clock: 0,
        }
    }

    pub(crate) fn get(&self, task: Fingerprint) -> Option<&Track> {
        self.by_task.get(&task).map(|(track, _)| track)
    }

    pub(crate) fn put(&mut self, task: Fingerprint, track: Track) {
        self.clock += 1;
        let rank = Rank {
            is_running: !track.has_ended,
            heard_at: self.clock,
        };
        if let Some((_, old_rank)) = self.by_task.insert(task, (track, rank)) {
            self.by_rank.remove(&old_rank);
        }
        self.by_rank.insert(rank, task);
        if self.by_task.len() > self.most
            && let Some((_, task)) = self.by_rank.pop_first()
        {
            self.by_task.remove(&task);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_task.len().max(self.by_rank.len())
    }
}

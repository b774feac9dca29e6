use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use crate::fingerprint::Fingerprint;

/// The ids of the newest events, up to a number of them.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    most: usize,
    // With the unix second in which the newest attempt that came was signed.
    signed_at: HashMap<Fingerprint, i64>,
    // Oldest first.
    order: VecDeque<Fingerprint>,
    forgotten_until: Option<i64>,
}

impl Seen {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            signed_at: HashMap::new(),
            order: VecDeque::new(),
            forgotten_until: None,
        }
    }

    pub(crate) fn contains(&self, event: Fingerprint) -> bool {
        self.signed_at.contains_key(&event)
    }

    /// The newest signature time, in unix seconds, of an event that is forgotten.
    pub(crate) fn forgotten_until(&self) -> Option<i64> {
        self.forgotten_until
    }

    /// Remembers an event, or that it came again with a newer signature.
    pub(crate) fn insert(&mut self, event: Fingerprint, signed_at: i64) {
        match self.signed_at.entry(event) {
            Entry::Occupied(mut known) => {
                let newest = signed_at.max(*known.get());
                known.insert(newest);
            }
            Entry::Vacant(free) => {
                free.insert(signed_at);
                self.order.push_back(event);
                self.forget_surplus();
            }
        }
    }

    fn forget_surplus(&mut self) {
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            let signed_at = self.signed_at.remove(&oldest);
            self.forgotten_until = self.forgotten_until.max(signed_at);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.signed_at.len().max(self.order.len())
    }
}

//! The tasks that a manager holds: their ids, and how long finished ones are kept.
//!
//! Lock order: a record's lock may be taken under the registry's, never the other way round.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rvc_wire::{ShortName, TaskId};

use crate::record::Record;

/// What is kept of finished tasks (contract decision 22).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// How many of the newest.
    pub(crate) tasks: usize,
    /// How many bytes of what they left: results, failures, last progress, as JSON.
    pub(crate) bytes: usize,
}

pub(crate) struct Registry {
    retention: Retention,
    tasks: HashMap<TaskId, Arc<Record>>,
    /// Oldest end first.
    finished: VecDeque<Finished>,
    /// How many of the oldest in `finished` gave up what they left.
    shed: usize,
    /// The bytes that the others left.
    bytes: usize,
    started: u64,
    closing: bool,
}

struct Finished {
    record: Arc<Record>,
    bytes: usize,
}

impl Registry {
    pub(crate) fn new(retention: Retention) -> Self {
        Self {
            retention,
            tasks: HashMap::new(),
            finished: VecDeque::new(),
            shed: 0,
            bytes: 0,
            started: 0,
            closing: false,
        }
    }

    pub(crate) fn get(&self, id: &TaskId) -> Option<Arc<Record>> {
        self.tasks.get(id).cloned()
    }

    /// Every task, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Record>> {
        let mut all: Vec<_> = self.tasks.values().cloned().collect();
        all.sort_unstable_by_key(|record| record.order());
        all
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing
    }

    pub(crate) const fn close(&mut self) {
        self.closing = true;
    }

    pub(crate) fn free_id(&self, short: &ShortName, random: impl FnMut() -> u32) -> Option<TaskId> {
        free_id(short, random, |id| self.tasks.contains_key(id))
    }

    /// The place of the next task in the order of starts.
    pub(crate) const fn next_order(&mut self) -> u64 {
        self.started += 1;
        self.started
    }

    pub(crate) fn insert(&mut self, record: Arc<Record>) {
        self.tasks.insert(record.id().clone(), record);
    }

    /// Takes in a task that has ended and left so many bytes, and lets go of older ones.
    pub(crate) fn retire(&mut self, record: Arc<Record>, bytes: usize) {
        self.finished.push_back(Finished { record, bytes });
        self.bytes += bytes;
        while self.finished.len() > self.retention.tasks {
            let oldest = self.finished.pop_front().expect("there is one");
            self.tasks.remove(oldest.record.id());
            if self.shed > 0 {
                self.shed -= 1;
            } else {
                self.bytes -= oldest.bytes;
            }
        }
        // The task stays, so that a poll finds how it ended; only what it left goes.
        while self.bytes > self.retention.bytes {
            let oldest = &self.finished[self.shed];
            oldest.record.shed();
            self.bytes -= oldest.bytes;
            self.shed += 1;
        }
    }
}

/// An id that no task holds, drawn again while it is taken (contract decision 2).
///
/// `None` after so many draws that hardly an id can be free: with half of the 2^24 ids taken,
/// that is one start in 2^256.
fn free_id(
    short: &ShortName,
    mut random: impl FnMut() -> u32,
    is_taken: impl Fn(&TaskId) -> bool,
) -> Option<TaskId> {
    (0..256)
        .map(|_| TaskId::draw(short, random()))
        .find(|id| !is_taken(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short() -> ShortName {
        "nav".parse().unwrap()
    }

    #[test]
    fn an_id_is_drawn_again_while_a_task_holds_it() {
        let mut draws = [7, 7, 9].into_iter();
        let held = TaskId::draw(&short(), 7);
        let id = free_id(&short(), || draws.next().unwrap(), |id| *id == held).unwrap();
        assert_eq!(id.as_str(), "nav-000009");
    }

    #[test]
    fn with_every_id_taken_the_search_ends() {
        assert_eq!(free_id(&short(), || 7, |_| true), None);
    }
}

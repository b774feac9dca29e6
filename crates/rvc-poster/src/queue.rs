//! The events of all tasks, bounded (contract decision 15).
//!
//! Invariants:
//! 1. Every line is in `by_task`. While there is a ranking, a line is in it exactly while it has
//!    events that may give way, under their present number and bytes.
//! 2. After every push the size is within the limits, or nothing is left that may give way.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rvc_wire::TaskId;

use crate::line::{Line, ShedKind, Size};
use crate::{OutgoingEvent, QueueLimits};

/// Each task's line, and which of them gives way when there is no room.
#[derive(Debug)]
pub(crate) struct Queue {
    limits: QueueLimits,
    lines: Vec<Option<(TaskId, Line)>>,
    free: Vec<usize>,
    by_task: HashMap<TaskId, LineId>,
    ranking: Option<Ranking>,
    size: Size,
    ends: Size,
}

/// Which line gives way next. Made when an event must, and kept until the queue is half empty: as
/// long as there is room it would cost each event more than all else here.
#[derive(Debug, Default)]
struct Ranking {
    longest: BTreeSet<(usize, LineId)>,
    heaviest: BTreeSet<(usize, LineId)>,
}

/// A line's place in the queue, reused after the line was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LineId(pub(crate) usize);

/// An event that gave way.
#[derive(Debug)]
pub(crate) struct Shed {
    pub(crate) line: LineId,
    pub(crate) kind: ShedKind,
    pub(crate) event: Arc<OutgoingEvent>,
    /// Whether it was the next of its task.
    pub(crate) was_front: bool,
}

impl Queue {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            lines: Vec::new(),
            free: Vec::new(),
            by_task: HashMap::new(),
            ranking: None,
            size: Size::default(),
            ends: Size::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.size.events == 0
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Whether the line exists and has no events.
    pub(crate) fn is_line_empty(&self, id: LineId) -> bool {
        self.line(id).is_some_and(Line::is_empty)
    }

    /// The line of a task, made if there is none.
    pub(crate) fn line_of(&mut self, task: &TaskId) -> LineId {
        if let Some(&id) = self.by_task.get(task) {
            return id;
        }
        let entry = Some((task.clone(), Line::default()));
        let id = if let Some(index) = self.free.pop() {
            self.lines[index] = entry;
            LineId(index)
        } else {
            self.lines.push(entry);
            LineId(self.lines.len() - 1)
        };
        self.by_task.insert(task.clone(), id);
        id
    }

    /// The line of a task, if there is one.
    pub(crate) fn find(&self, task: &TaskId) -> Option<LineId> {
        self.by_task.get(task).copied()
    }

    /// Adds an event to its line, and says what gave way for it: perhaps the event itself.
    pub(crate) fn push(&mut self, id: LineId, event: Arc<OutgoingEvent>) -> Vec<Shed> {
        self.size.add(&event);
        if event.event_type().is_end() {
            self.ends.add(&event);
        }
        self.change(id, |line| line.push(event));
        self.shed_to_limits()
    }

    /// The event of a line that is to be attempted; it is safe from shedding from now on.
    pub(crate) fn pin(&mut self, id: LineId) -> Option<Arc<OutgoingEvent>> {
        self.change(id, |line| line.pin().cloned())
    }

    /// Removes a line's next event.
    pub(crate) fn pop(&mut self, id: LineId) -> Option<Arc<OutgoingEvent>> {
        let event = self.change(id, Line::pop)?;
        self.removed(&event);
        Some(event)
    }

    /// Removes what waits in a line: all but an event that was attempted.
    pub(crate) fn drop_waiting(&mut self, id: LineId) -> Vec<Arc<OutgoingEvent>> {
        let events = self.change(id, Line::drop_waiting);
        for event in &events {
            self.removed(event);
        }
        events
    }

    /// Forgets an empty line.
    pub(crate) fn remove(&mut self, id: LineId) {
        debug_assert!(self.is_line_empty(id), "a line with events is kept");
        if let Some((task, _)) = self.lines[id.0].take() {
            self.by_task.remove(&task);
            self.free.push(id.0);
        }
    }

    /// How many events each task has.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&TaskId, usize)> {
        self.lines
            .iter()
            .flatten()
            .map(|(task, line)| (task, line.size().events))
            .filter(|&(_, events)| events > 0)
    }

    fn removed(&mut self, event: &OutgoingEvent) {
        self.size.subtract(event);
        if event.event_type().is_end() {
            self.ends.subtract(event);
        }
        if self.ranking.is_some() && self.is_half_empty() {
            self.ranking = None;
        }
    }

    fn is_half_empty(&self) -> bool {
        self.size.events <= self.limits.events / 2 && self.size.bytes <= self.limits.bytes / 2
    }

    fn rank(&self) -> Ranking {
        let mut ranking = Ranking::default();
        for (index, entry) in self.lines.iter().enumerate() {
            if let Some((_, line)) = entry {
                ranking.insert(LineId(index), line.sheddable());
            }
        }
        ranking
    }

    fn shed_to_limits(&mut self) -> Vec<Shed> {
        let others = self.limits.without_room_for_ends();
        let mut shed = Vec::new();
        loop {
            let too_many = self.size.events > self.limits.events
                || self.size.events - self.ends.events > others.events;
            let too_heavy = self.size.bytes > self.limits.bytes
                || self.size.bytes - self.ends.bytes > others.bytes;
            if !too_many && !too_heavy {
                break;
            }
            let ranking = self.ranking.take().unwrap_or_else(|| self.rank());
            let ranking = self.ranking.insert(ranking);
            let ranks = if too_many {
                &ranking.longest
            } else {
                &ranking.heaviest
            };
            let Some(&(_, id)) = ranks.last() else {
                break;
            };
            let (kind, event, was_front) = self
                .change(id, Line::shed)
                .expect("a ranked line has an event that may give way");
            self.size.subtract(&event);
            shed.push(Shed {
                line: id,
                kind,
                event,
                was_front,
            });
        }
        shed
    }

    /// Changes a line and keeps the ranking in step.
    fn change<T>(&mut self, id: LineId, change: impl FnOnce(&mut Line) -> T) -> T {
        let (_, line) = self.lines[id.0].as_mut().expect("the line exists");
        let before = line.sheddable();
        let result = change(line);
        let after = line.sheddable();
        if let Some(ranking) = &mut self.ranking
            && before != after
        {
            ranking.remove(id, before);
            ranking.insert(id, after);
        }
        result
    }

    fn line(&self, id: LineId) -> Option<&Line> {
        Some(&self.lines.get(id.0)?.as_ref()?.1)
    }
}

impl Ranking {
    fn insert(&mut self, id: LineId, sheddable: Size) {
        if sheddable.events > 0 {
            self.longest.insert((sheddable.events, id));
            self.heaviest.insert((sheddable.bytes, id));
        }
    }

    fn remove(&mut self, id: LineId, sheddable: Size) {
        self.longest.remove(&(sheddable.events, id));
        self.heaviest.remove(&(sheddable.bytes, id));
    }
}

#[cfg(test)]
mod tests;

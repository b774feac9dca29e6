//! One task's events that are not acknowledged yet.
//!
//! Invariants:
//! 1. The head was attempted at least once and leaves only by [`Line::pop`]; it never gives way.
//! 2. Events leave in the order of their positions, except that shed ones leave a gap.
//! 3. Every waiting event stands in the queue of its class, so that the oldest of a class is
//!    found without a search, and the line's front is the smallest of four fronts.

use std::collections::VecDeque;
use std::sync::Arc;

use rvc_wire::EventType;

use crate::OutgoingEvent;

/// A task's events: the attempted head and those that wait behind it.
#[derive(Debug, Default)]
pub(crate) struct Line {
    head: Option<Arc<OutgoingEvent>>,
    waiting: [VecDeque<Waiting>; CLASSES],
    next_position: u64,
    size: Size,
    sheddable: Size,
}

/// An amount of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// What an event was when it gave way (contract decision 15), in the order of giving way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShedKind {
    /// Progress that later progress of the task makes stale.
    SupersededProgress,
    /// The latest progress of the task.
    LatestProgress,
    /// A watch event, or one of a type that this version does not know.
    WatchEvent,
    /// A trigger that fired.
    Trigger,
}

#[derive(Debug)]
struct Waiting {
    position: u64,
    event: Arc<OutgoingEvent>,
}

impl Line {
    /// All of its events.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Those that may give way.
    pub(crate) fn sheddable(&self) -> Size {
        self.sheddable
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.size.events == 0
    }

    /// Adds an event at the end.
    pub(crate) fn push(&mut self, event: Arc<OutgoingEvent>) {
        let class = class_of(event.event_type());
        self.size.add(&event);
        if class != END {
            self.sheddable.add(&event);
        }
        let position = self.next_position;
        self.next_position += 1;
        self.waiting[class].push_back(Waiting { position, event });
    }

    /// The event to attempt: the head, or the front, which becomes the head.
    pub(crate) fn pin(&mut self) -> Option<&Arc<OutgoingEvent>> {
        if self.head.is_none() {
            let class = self.front_class()?;
            let Waiting { event, .. } = self.waiting[class].pop_front()?;
            if class != END {
                self.sheddable.subtract(&event);
            }
            self.head = Some(event);
        }
        self.head.as_ref()
    }

    /// Removes the head, or the front if nothing was attempted.
    pub(crate) fn pop(&mut self) -> Option<Arc<OutgoingEvent>> {
        self.pin()?;
        let event = self.head.take()?;
        self.size.subtract(&event);
        Some(event)
    }

    /// Removes the event that gives way first, and says whether it was the line's front.
    pub(crate) fn shed(&mut self) -> Option<(ShedKind, Arc<OutgoingEvent>, bool)> {
        let class = (0..END).find(|&class| !self.waiting[class].is_empty())?;
        let was_front = self.head.is_none() && self.front_class() == Some(class);
        let Waiting { event, .. } = self.waiting[class].pop_front()?;
        self.size.subtract(&event);
        self.sheddable.subtract(&event);
        let kind = match class {
            PROGRESS if self.waiting[PROGRESS].is_empty() => ShedKind::LatestProgress,
            PROGRESS => ShedKind::SupersededProgress,
            WATCH => ShedKind::WatchEvent,
            _ => ShedKind::Trigger,
        };
        Some((kind, event, was_front))
    }

    /// Removes everything but the head.
    pub(crate) fn drop_waiting(&mut self) -> Vec<Arc<OutgoingEvent>> {
        let waiting = self.waiting.iter_mut().flat_map(|class| class.drain(..));
        let events: Vec<_> = waiting.map(|waiting| waiting.event).collect();
        for event in &events {
            self.size.subtract(event);
        }
        self.sheddable = Size::default();
        events
    }

    fn front_class(&self) -> Option<usize> {
        (0..CLASSES)
            .filter_map(|class| Some((self.waiting[class].front()?.position, class)))
            .min()
            .map(|(_, class)| class)
    }
}

impl Size {
    pub(crate) fn add(&mut self, event: &OutgoingEvent) {
        self.events += 1;
        self.bytes += event.body().len();
    }

    pub(crate) fn subtract(&mut self, event: &OutgoingEvent) {
        self.events -= 1;
        self.bytes -= event.body().len();
    }
}

fn class_of(event_type: &EventType) -> usize {
    match event_type {
        EventType::Progress => PROGRESS,
        EventType::TriggerFired => TRIGGER,
        EventType::TaskDone | EventType::TaskFailed => END,
        _ => WATCH,
    }
}

// In the order of giving way; an end never does.
const PROGRESS: usize = 0;
const WATCH: usize = 1;
const TRIGGER: usize = 2;
const END: usize = 3;
const CLASSES: usize = 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::sample;

    fn line(types: &[EventType]) -> Line {
        let mut line = Line::default();
        for (seq, event_type) in (1..).zip(types) {
            line.push(Arc::new(sample::event("nav-1", seq, event_type.clone())));
        }
        line
    }

    #[test]
    fn progress_gives_way_before_watch_events_before_triggers_and_an_end_never() {
        let mut line = line(&[
            EventType::TriggerFired,
            EventType::Progress,
            EventType::WatchEvent,
            EventType::Progress,
            EventType::Unknown("new_type".into()),
            EventType::TaskDone,
        ]);
        let mut shed = Vec::new();
        while let Some((kind, event, was_front)) = line.shed() {
            shed.push((kind, event.seq().get(), was_front));
        }
        assert_eq!(
            shed,
            [
                (ShedKind::SupersededProgress, 2, false),
                (ShedKind::LatestProgress, 4, false),
                (ShedKind::WatchEvent, 3, false),
                (ShedKind::WatchEvent, 5, false),
                (ShedKind::Trigger, 1, true),
            ]
        );
        assert_eq!(line.pop().unwrap().event_type(), &EventType::TaskDone);
        assert!(line.is_empty());
    }

    #[test]
    fn an_attempted_event_is_never_shed() {
        let mut line = line(&[EventType::Progress, EventType::Progress]);
        assert_eq!(line.pin().unwrap().seq().get(), 1);
        assert_eq!(line.shed().unwrap().1.seq().get(), 2);
        assert!(line.shed().is_none());
        assert_eq!(line.pop().unwrap().seq().get(), 1);
    }

    #[test]
    fn events_leave_in_the_order_they_came() {
        let mut line = line(&[
            EventType::Progress,
            EventType::TriggerFired,
            EventType::Progress,
            EventType::WatchEvent,
            EventType::TaskFailed,
        ]);
        let mut order = Vec::new();
        while let Some(event) = line.pop() {
            order.push(event.seq().get());
        }
        assert_eq!(order, [1, 2, 3, 4, 5]);
        assert_eq!(line.size(), Size::default());
        assert_eq!(line.sheddable(), Size::default());
    }
}

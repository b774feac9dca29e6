#![allow(clippy::unwrap_used)]

use rvc_wire::{EventType, TaskEvent, Timestamp};

use super::*;

/// A ledger, and what it says of each event that it then remembers.
struct Told {
    ledger: Ledger,
    /// The signature time of the next event: later ones are signed later.
    now: i64,
}

impl Told {
    fn with_limits(remembered_events: usize, tracked_tasks: usize) -> Self {
        Self {
            ledger: Ledger::new(remembered_events, tracked_tasks),
            now: 1_000,
        }
    }

    fn of(&mut self, id: &str, task: &str, seq: u64) -> Judgement {
        self.now += 1;
        self.of_signed(id, task, seq, self.now)
    }

    fn of_signed(&mut self, id: &str, task: &str, seq: u64, signed_at: i64) -> Judgement {
        self.tell(&event(id, task, seq, EventType::Progress), signed_at)
    }

    fn of_end(&mut self, id: &str, task: &str, seq: u64) -> Judgement {
        self.now += 1;
        self.tell(&event(id, task, seq, EventType::TaskDone), self.now)
    }

    fn tell(&mut self, event: &TaskEvent, signed_at: i64) -> Judgement {
        let entry = self.ledger.entry(event, signed_at);
        let judgement = self.ledger.judge(&entry);
        if matches!(judgement, Judgement::Accepted { .. }) {
            self.ledger.remember(&entry);
        }
        judgement
    }
}

fn event(id: &str, task: &str, seq: u64, event_type: EventType) -> TaskEvent {
    TaskEvent {
        schema_version: 1,
        event_id: id.parse().unwrap(),
        task_id: task.parse().unwrap(),
        server: "navigation".parse().unwrap(),
        tool: "navigate_to".parse().unwrap(),
        event_type,
        seq: seq.try_into().unwrap(),
        ts: Timestamp::from_unix_ms(0).unwrap(),
        payload: rvc_wire::Map::new(),
    }
}

fn new(sighting: Sighting, missing: Option<(u64, u64)>) -> Judgement {
    Judgement::Accepted {
        kind: Kind::New,
        sighting,
        gap: missing.map(|(first, last)| Gap {
            first: first.try_into().unwrap(),
            last: last.try_into().unwrap(),
        }),
    }
}

const DUPLICATE: Judgement = Judgement::Accepted {
    kind: Kind::Duplicate,
    sighting: Sighting::Known,
    gap: None,
};

#[test]
fn a_task_in_order_has_no_gap_and_a_jump_names_what_is_missing() {
    let mut told = Told::with_limits(100, 100);
    assert_eq!(told.of("a", "nav-1", 1), new(Sighting::First, None));
    assert_eq!(told.of("b", "nav-1", 2), new(Sighting::Known, None));
    assert_eq!(told.of("c", "nav-1", 3), new(Sighting::Known, None));
    assert_eq!(told.of("d", "nav-1", 7), new(Sighting::Known, Some((4, 6))));
    assert_eq!(told.of("e", "nav-1", 8), new(Sighting::Known, None));
}

#[test]
fn a_receiver_that_starts_in_the_middle_of_a_task_misses_what_came_before() {
    let mut told = Told::with_limits(100, 100);
    assert_eq!(told.of("a", "nav-1", 5), new(Sighting::First, Some((1, 4))));
    assert_eq!(told.of("b", "nav-1", 6), new(Sighting::Known, None));
}

#[test]
fn an_event_that_comes_again_is_a_duplicate_and_leaves_its_task_where_it_stands() {
    let mut told = Told::with_limits(100, 100);
    for (id, seq) in [("a", 1), ("b", 2), ("c", 3)] {
        told.of(id, "nav-1", seq);
    }
    for id_and_seq in [("c", 3), ("a", 1), ("b", 2)] {
        assert_eq!(told.of(id_and_seq.0, "nav-1", id_and_seq.1), DUPLICATE);
    }
    assert_eq!(told.of("d", "nav-1", 4), new(Sighting::Known, None));
}

#[test]
fn a_seq_that_starts_again_with_a_new_event_id_is_another_task() {
    let mut told = Told::with_limits(100, 100);
    told.of("a", "nav-1", 1);
    told.of("b", "nav-1", 2);
    assert_eq!(told.of("c", "nav-1", 1), new(Sighting::Again, None));
    assert_eq!(told.of("d", "nav-1", 2), new(Sighting::Known, None));
    assert_eq!(told.of("a", "nav-1", 1), DUPLICATE);
    assert_eq!(told.of("e", "nav-1", 3), new(Sighting::Known, None));
}

#[test]
fn an_event_after_the_end_is_another_task_whose_beginning_is_missing() {
    let mut told = Told::with_limits(100, 100);
    told.of("a", "nav-1", 1);
    told.of_end("b", "nav-1", 2);
    assert_eq!(told.of("c", "nav-1", 3), new(Sighting::Again, Some((1, 2))));
}

#[test]
fn a_lower_seq_is_late_and_changes_nothing_for_its_task() {
    let mut told = Told::with_limits(100, 100);
    told.of("a", "nav-1", 1);
    told.of("c", "nav-1", 3);
    assert_eq!(told.of("b", "nav-1", 2), new(Sighting::Late, None));
    assert_eq!(told.of("b", "nav-1", 2), DUPLICATE);
    assert_eq!(told.of("d", "nav-1", 4), new(Sighting::Known, None));
}

#[test]
fn the_newest_event_of_a_task_is_recognised_after_its_id_is_forgotten() {
    let mut told = Told::with_limits(2, 100);
    told.of("a", "nav-1", 1);
    for (seq, id) in (1..).zip(["b", "c", "d", "e"]) {
        told.of(id, "nav-2", seq);
    }
    assert_eq!(told.of("a", "nav-1", 1), DUPLICATE);
    assert_eq!(told.of("f", "nav-1", 2), new(Sighting::Known, None));
}

#[test]
fn a_replay_of_a_forgotten_event_is_refused_and_a_newer_signature_gets_through() {
    let mut told = Told::with_limits(2, 100);
    told.of_signed("a", "nav-1", 1, 100);
    told.of_signed("b", "nav-1", 2, 101);
    // Came again, signed anew: the newest attempt counts.
    told.of_signed("a", "nav-1", 1, 105);
    told.of_signed("c", "nav-1", 3, 106);
    let refused = Judgement::Indistinct {
        forgotten_until: 105,
    };
    for signed_at in [100, 105] {
        assert_eq!(told.of_signed("a", "nav-1", 1, signed_at), refused);
    }
    // So is a new event that was long under way; its next attempt is signed again.
    assert_eq!(told.of_signed("d", "nav-1", 4, 105), refused);
    assert_eq!(
        told.of_signed("d", "nav-1", 4, 107),
        new(Sighting::Known, None)
    );
}

#[test]
fn memory_stays_bounded_however_many_events_and_tasks_come() {
    let mut told = Told::with_limits(10, 5);
    for number in 0..1_000 {
        let name = format!("x{number}");
        told.of(&name, &name, 1);
    }
    assert_eq!(told.ledger.seen.len(), 10);
    assert_eq!(told.ledger.tracks.len(), 5);
}

#[test]
fn an_ended_task_is_forgotten_before_a_silent_watcher() {
    let mut told = Told::with_limits(1_000, 3);
    told.of("watcher 1", "watcher", 1);
    for number in 0..100 {
        let name = format!("x{number}");
        told.of_end(&name, &name, 1);
    }
    assert_eq!(
        told.of("watcher 2", "watcher", 2),
        new(Sighting::Known, None)
    );
}

#[test]
fn a_forgotten_task_says_that_it_may_have_missed_something() {
    let mut told = Told::with_limits(1_000, 1);
    told.of("a", "nav-1", 1);
    told.of("b", "nav-2", 1);
    assert_eq!(told.of("c", "nav-1", 2), new(Sighting::First, Some((1, 1))));
}

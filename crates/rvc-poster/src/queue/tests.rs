#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rvc_wire::EventType;

use super::*;
use crate::sample;

fn queue(events: usize, bytes: usize) -> Queue {
    Queue::new(QueueLimits { events, bytes })
}

fn push(queue: &mut Queue, event: OutgoingEvent) -> Vec<Shed> {
    let line = queue.line_of(event.task_id());
    queue.push(line, Arc::new(event))
}

#[test]
fn the_longest_line_gives_way_even_to_another_tasks_event() {
    let mut queue = queue(10, 1 << 20);
    for seq in 1..=8 {
        assert!(
            push(
                &mut queue,
                sample::event("flood", seq, EventType::WatchEvent)
            )
            .is_empty()
        );
    }
    push(&mut queue, sample::event("calm", 1, EventType::Progress));
    push(&mut queue, sample::event("calm", 2, EventType::Progress));

    let shed = push(&mut queue, sample::event("calm", 3, EventType::Progress));

    assert_eq!(shed.len(), 1);
    assert_eq!(shed[0].event.task_id().as_str(), "flood");
    assert_eq!(shed[0].event.seq().get(), 1);
    assert!(shed[0].was_front);
}

#[test]
fn the_heaviest_line_gives_way_when_bytes_run_out() {
    let mut queue = queue(1_000, 10_000);
    for seq in 1..=50 {
        push(&mut queue, sample::event("many", seq, EventType::Progress));
    }
    for seq in 1..=3 {
        push(
            &mut queue,
            sample::sized_event("big", seq, EventType::Progress, 1_000),
        );
    }
    let shed = push(
        &mut queue,
        sample::sized_event("big", 4, EventType::Progress, 4_000),
    );
    let shed: Vec<_> = shed
        .iter()
        .map(|shed| (shed.event.task_id().as_str(), shed.event.seq().get()))
        .collect();
    assert_eq!(shed, [("big", 1), ("big", 2), ("big", 3)]);
}

#[test]
fn one_part_in_sixteen_is_kept_free_for_ends() {
    let mut queue = queue(16, 1 << 20);
    for seq in 1..=16 {
        push(&mut queue, sample::event("nav-1", seq, EventType::Progress));
    }
    assert_eq!(queue.size().events, 15);
    assert!(push(&mut queue, sample::event("nav-2", 1, EventType::TaskDone)).is_empty());
    assert_eq!(queue.size().events, 16);
}

#[test]
fn an_end_beyond_the_limits_is_taken_when_nothing_can_give_way() {
    let mut queue = queue(2, 200);
    for task in ["a", "b", "c"] {
        assert!(push(&mut queue, sample::event(task, 1, EventType::TaskFailed)).is_empty());
    }
    assert_eq!(queue.size().events, 3);
    // Nothing else finds room.
    let shed = push(&mut queue, sample::event("d", 1, EventType::TriggerFired));
    assert_eq!(shed[0].event.task_id().as_str(), "d");
}

#[test]
fn ten_thousand_lines_of_one_attempted_event_each_refuse_the_next_one() {
    let mut queue = queue(10_000, 64 << 20);
    for task in 0..9_375 {
        let event = sample::event(&format!("nav-{task}"), 1, EventType::Progress);
        let line = queue.line_of(event.task_id());
        queue.push(line, Arc::new(event));
        queue.pin(line);
    }
    let shed = push(&mut queue, sample::event("late", 1, EventType::Progress));
    assert_eq!(shed[0].event.task_id().as_str(), "late");
}

#[derive(Clone, Debug)]
enum Step {
    Push {
        task: usize,
        event_type: EventType,
        bytes: usize,
    },
    Pin(usize),
    Pop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let event_type = prop_oneof![
        8 => Just(EventType::Progress),
        4 => Just(EventType::WatchEvent),
        2 => Just(EventType::TriggerFired),
        1 => Just(EventType::TaskDone),
    ];
    let step = prop_oneof![
        6 => (0..TASKS, event_type, 0..400_usize)
            .prop_map(|(task, event_type, bytes)| Step::Push { task, event_type, bytes }),
        1 => (0..TASKS).prop_map(Step::Pin),
        1 => (0..TASKS).prop_map(Step::Pop),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    /// Against a model that keeps plain lists.
    #[test]
    fn order_bounds_ends_and_events_in_flight_are_kept(steps in steps()) {
        let limits = QueueLimits { events: 40, bytes: 6_000 };
        let mut queue = Queue::new(limits);
        let mut model: Vec<Vec<Arc<OutgoingEvent>>> = vec![Vec::new(); TASKS];
        let mut pinned = [false; TASKS];
        let mut seqs = [0; TASKS];
        let name = |task: usize| format!("nav-{task}");

        for step in steps {
            match step {
                Step::Push { task, event_type, bytes } => {
                    seqs[task] += 1;
                    let event = Arc::new(sample::sized_event(
                        &name(task), seqs[task], event_type, bytes,
                    ));
                    model[task].push(event.clone());
                    let line = queue.line_of(event.task_id());
                    for shed in queue.push(line, event) {
                        let task: usize = shed.event.task_id().as_str()[4..].parse().unwrap();
                        let at = model[task]
                            .iter()
                            .position(|event| event.seq() == shed.event.seq())
                            .unwrap();
                        prop_assert!(!shed.event.event_type().is_end());
                        prop_assert!(at > 0 || !pinned[task], "an event in flight was shed");
                        prop_assert_eq!(shed.was_front, at == 0);
                        model[task].remove(at);
                    }
                }
                Step::Pin(task) => {
                    let line = queue.line_of(&name(task).parse().unwrap());
                    let event = queue.pin(line);
                    pinned[task] = event.is_some();
                    prop_assert_eq!(
                        event.map(|event| event.seq()),
                        model[task].first().map(|event| event.seq())
                    );
                }
                Step::Pop(task) => {
                    let line = queue.line_of(&name(task).parse().unwrap());
                    let event = queue.pop(line);
                    pinned[task] = false;
                    let expected = (!model[task].is_empty()).then(|| model[task].remove(0));
                    prop_assert_eq!(
                        event.map(|event| event.seq()),
                        expected.map(|event| event.seq())
                    );
                }
            }
            let all = model.iter().flatten();
            prop_assert_eq!(queue.size().events, all.clone().count());
            prop_assert_eq!(queue.size().bytes, all.map(|event| event.body().len()).sum::<usize>());
            let may_give_way = model.iter().zip(pinned).any(|(line, pinned)| {
                line.iter().skip(usize::from(pinned)).any(|event| !event.event_type().is_end())
            });
            let within = queue.size().events <= limits.events && queue.size().bytes <= limits.bytes;
            prop_assert!(within || !may_give_way);
        }
    }
}

const TASKS: usize = 6;

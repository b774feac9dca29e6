#![allow(clippy::unwrap_used)]

use std::io;

use rvc_wire::EventType;

use super::*;
use crate::line::Size;
use crate::sample;

fn outbox(limits: QueueLimits) -> Outbox {
    Outbox::new(limits, 8, Duration::from_secs(600))
}

fn push(outbox: &mut Outbox, task: &str, seq: u64, event_type: EventType, now: Instant) {
    outbox.push(Arc::new(sample::event(task, seq, event_type)), now);
}

fn unreached() -> Outcome {
    Outcome {
        result: Err(Arc::new(DeliveryError::Connect(
            io::ErrorKind::ConnectionRefused.into(),
        ))),
        connection: Opened::ForThisAttempt,
    }
}

fn acknowledged() -> Outcome {
    Outcome {
        result: Ok(()),
        connection: Opened::ForThisAttempt,
    }
}

/// Delivers everything, all acknowledged.
fn deliver_all(outbox: &mut Outbox, now: Instant) -> Vec<(String, u64)> {
    let mut delivered = Vec::new();
    while let Some(attempt) = outbox.take(now) {
        let event = &attempt.event;
        delivered.push((event.task_id().to_string(), event.seq().get()));
        outbox.finish(attempt.line, &acknowledged(), now);
    }
    delivered
}

#[test]
fn a_shed_event_that_was_next_makes_way_for_the_one_behind_it() {
    let now = Instant::now();
    let mut outbox = outbox(QueueLimits {
        events: 2,
        bytes: 1 << 20,
    });
    push(&mut outbox, "a", 1, EventType::Progress, now);
    push(&mut outbox, "a", 2, EventType::TriggerFired, now);
    push(&mut outbox, "a", 3, EventType::TaskDone, now);
    assert_eq!(
        deliver_all(&mut outbox, now),
        [("a".to_owned(), 2), ("a".to_owned(), 3)]
    );
    assert!(outbox.is_empty());
}

#[test]
fn an_event_that_is_shed_at_once_leaves_its_task_idle() {
    let now = Instant::now();
    let mut outbox = outbox(QueueLimits {
        events: 1,
        bytes: 1 << 20,
    });
    push(&mut outbox, "end", 1, EventType::TaskDone, now);
    push(&mut outbox, "a", 1, EventType::Progress, now);
    push(&mut outbox, "a", 2, EventType::TaskFailed, now);
    assert_eq!(
        deliver_all(&mut outbox, now),
        [("end".to_owned(), 1), ("a".to_owned(), 2)]
    );
}

#[test]
fn one_large_event_may_take_the_place_of_more_tasks_events_than_idle_tasks_are_remembered() {
    let now = Instant::now();
    let mut outbox = outbox(QueueLimits {
        events: 10_000,
        bytes: 500_000,
    });
    // Every one of them loses both of its events in the one push below.
    for task in 0..2_000 {
        for seq in 1..=2 {
            let name = format!("nav-{task}");
            push(&mut outbox, &name, seq, EventType::Progress, now);
        }
    }
    let end = sample::sized_event("end", 1, EventType::TaskDone, 500_000);
    outbox.push(Arc::new(end), now);
    assert_eq!(deliver_all(&mut outbox, now), [("end".to_owned(), 1)]);
}

#[test]
fn twelve_minutes_of_ten_tasks_at_thirty_hertz_offline_stay_bounded() {
    let start = Instant::now();
    let mut outbox = outbox(QueueLimits::default());
    let mut probes = 0;
    let mut given_up = 0;
    let mut reports = Vec::new();
    let mut now = start;
    for frame in 0..30 * 720_u64 {
        now = start + Duration::from_millis(1_000 * frame / 30);
        for task in 0..10 {
            let name = format!("nav-{task}");
            push(&mut outbox, &name, frame + 1, EventType::Progress, now);
        }
        let ticked = outbox.tick(now);
        given_up += ticked.given_up.len();
        reports.extend(ticked.shed);
        if let Some(attempt) = outbox.take(now) {
            probes += 1;
            outbox.finish(attempt.line, &unreached(), now);
        }
    }
    assert_eq!(outbox.queue.size().events, 10_000 - 10_000 / 16);
    assert!(probes < 30, "{probes} probes");
    assert_eq!(reports.len(), 12);
    assert!(reports.iter().all(|report| report.triggers == 0));

    // Heads that were attempted are not shed, and have run out of time by now.
    assert!(given_up > 0);
    for task in 0..10 {
        let name = format!("nav-{task}");
        push(&mut outbox, &name, 30_000, EventType::TaskDone, now);
    }
    let delivered = deliver_all(&mut outbox, now + Duration::from_secs(31));
    let ends = delivered.iter().filter(|(_, seq)| *seq == 30_000);
    assert_eq!(ends.count(), 10);
}

#[test]
fn a_watcher_that_floods_offline_does_not_cost_another_task_its_events() {
    let start = Instant::now();
    let mut outbox = outbox(QueueLimits::default());
    push(&mut outbox, "nav-1", 1, EventType::Progress, start);
    push(&mut outbox, "nav-1", 2, EventType::TriggerFired, start);
    let mut now = start;
    for frame in 0..30 * 500_u64 {
        now = start + Duration::from_millis(1_000 * frame / 30);
        push(
            &mut outbox,
            "watch-1",
            frame + 1,
            EventType::WatchEvent,
            now,
        );
    }
    push(&mut outbox, "nav-1", 3, EventType::TaskDone, now);

    let delivered = deliver_all(&mut outbox, now);
    let of_task: Vec<_> = delivered
        .iter()
        .filter(|(task, _)| task == "nav-1")
        .map(|&(_, seq)| seq)
        .collect();
    assert_eq!(of_task, [1, 2, 3]);
    // The watcher kept its newest ones.
    assert_eq!(delivered.last(), Some(&("watch-1".to_owned(), 15_000)));
}

#[test]
fn a_task_that_has_ended_is_forgotten() {
    let now = Instant::now();
    let mut outbox = outbox(QueueLimits::default());
    for task in 0..5_000 {
        push(
            &mut outbox,
            &format!("t-{task}"),
            1,
            EventType::TaskDone,
            now,
        );
        deliver_all(&mut outbox, now);
    }
    assert_eq!(outbox.queue.line_of(&"new".parse().unwrap()).0, 0);
}

#[test]
fn a_forgotten_task_leaves_nothing_behind_whatever_its_events_were_doing() {
    let task = "a".parse().unwrap();
    let start = Instant::now();
    // Idle, ready, waiting for a retry, in flight and acknowledged, failed or abandoned.
    for state in 0..6 {
        let mut outbox = outbox(QueueLimits::default());
        push(&mut outbox, "a", 1, EventType::Progress, start);
        let mut line = None;
        if state != 1 {
            line = outbox.take(start).map(|attempt| attempt.line);
        }
        match (state, line) {
            (0, Some(line)) => drop(outbox.finish(line, &acknowledged(), start)),
            (2, Some(line)) => drop(outbox.finish(line, &unreached(), start)),
            _ => {}
        }
        if state > 0 {
            push(&mut outbox, "a", 2, EventType::TriggerFired, start);
            push(&mut outbox, "a", 3, EventType::TaskDone, start);
        }
        let dropped = outbox.forget_task(&task).len();
        assert_eq!(dropped, [0, 3, 3, 2, 2, 2][state], "{state}");
        match (state, line) {
            (3, Some(line)) => {
                let finished = outbox.finish(line, &acknowledged(), start);
                assert!(matches!(finished, Finished::Acknowledged));
            }
            (4, Some(line)) => {
                let finished = outbox.finish(line, &unreached(), start);
                assert!(matches!(finished, Finished::Forgotten));
            }
            (5, Some(line)) => {
                let event = outbox.abandon(line, start).unwrap();
                assert_eq!(event.seq().get(), 1);
            }
            _ => {}
        }
        assert!(outbox.is_empty(), "{state}");
        assert_eq!(outbox.queue.size(), Size::default(), "{state}");
        assert_eq!(outbox.queue.find(&task), None, "{state}");
        let later = start + Duration::from_secs(1_000);
        assert_eq!(deliver_all(&mut outbox, later), [], "{state}");
    }
}

#[test]
fn a_full_queue_has_room_again_when_a_task_is_forgotten() {
    let now = Instant::now();
    let mut outbox = outbox(QueueLimits {
        events: 32,
        bytes: 1 << 20,
    });
    for seq in 1..=100 {
        push(&mut outbox, "a", seq, EventType::WatchEvent, now);
        push(&mut outbox, "b", seq, EventType::WatchEvent, now);
    }
    assert_eq!(outbox.forget_task(&"a".parse().unwrap()).len(), 15);
    for seq in 101..=115 {
        push(&mut outbox, "b", seq, EventType::WatchEvent, now);
    }
    let seqs: Vec<_> = deliver_all(&mut outbox, now);
    let b = |seq| ("b".to_owned(), seq);
    assert_eq!(seqs, (86..=115).map(b).collect::<Vec<_>>());
}

use rvc_poster::QueueLimits;
use rvc_test::{Logs, ScriptedEndpoint};
use rvc_wire::EventType;
use tokio::time::sleep;
use tracing::Level;

use crate::support::{builder, event, poster, progress, seconds, seqs};

#[tokio::test(start_paused = true)]
async fn thirty_hertz_for_twelve_minutes_offline_overflow_in_an_orderly_way() {
    let logs = Logs::capture();
    let endpoint = ScriptedEndpoint::answering([200]);
    endpoint.go_down();
    let poster = poster(&endpoint);
    let mut seq = 0;
    for _ in 0..30 * 720 {
        seq += 1;
        poster.post(progress("nav-1", seq));
        sleep(seconds(1.0 / 30.0)).await;
    }
    poster.post(event("nav-1", seq + 1, EventType::TaskDone));
    endpoint.come_back();
    assert!(poster.close(seconds(60.0)).await.is_complete());

    let seqs = seqs(&endpoint, "nav-1");
    assert!(seqs.is_sorted());
    assert!(seqs.len() <= 10_000);
    assert_eq!(seqs.last(), Some(&(seq + 1)));

    let mut overflows = logs.at(Level::WARN);
    overflows.retain(|line| line.message.contains("queue is full"));
    // Full after five minutes; then once a minute.
    assert!(overflows.len() <= 8, "{}", overflows.len());
    let dropped = overflows.iter().map(|line| {
        assert_eq!(line.field("triggers"), Some("0"));
        line.field("events").unwrap().parse::<u64>().unwrap()
    });
    let dropped: u64 = dropped.sum();
    let given_up = logs.at(Level::ERROR);
    assert!(given_up.iter().all(|line| line.message == "event given up"));
    let accounted = dropped + (given_up.len() + seqs.len()) as u64;
    assert_eq!(accounted, seq + 1);
}

#[tokio::test(start_paused = true)]
async fn one_watcher_that_floods_for_twelve_minutes_offline_costs_no_other_task_its_end() {
    let logs = Logs::capture();
    let endpoint = ScriptedEndpoint::answering([200]);
    endpoint.go_down();
    let poster = poster(&endpoint);
    poster.post(event("nav-1", 1, EventType::TriggerFired));
    for seq in 1..=30 * 720 {
        poster.post(event("watch-1", seq, EventType::WatchEvent));
        if seq == 30 * 300 {
            poster.post(event("nav-1", 2, EventType::TaskDone));
        }
        sleep(seconds(1.0 / 30.0)).await;
    }
    endpoint.come_back();
    assert!(poster.close(seconds(60.0)).await.is_complete());

    // The trigger was at the head for ten minutes; the end was not.
    assert_eq!(seqs(&endpoint, "nav-1"), [2]);
    assert_eq!(seqs(&endpoint, "watch-1").last(), Some(&21_600));
    let overflows = logs.lines();
    let overflows = overflows
        .iter()
        .filter(|line| line.message.contains("queue is full"));
    assert!(overflows.clone().count() > 0);
    for line in overflows {
        let tasks = line.field("tasks").unwrap();
        assert!(tasks.starts_with("watch-1: "), "{tasks}");
        assert_eq!(line.field("triggers"), Some("0"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_trigger_that_gives_way_is_an_error() {
    let logs = Logs::capture();
    let endpoint = ScriptedEndpoint::answering([200]);
    endpoint.go_down();
    let limits = QueueLimits {
        events: 2,
        bytes: 1 << 20,
    };
    let poster = builder(&endpoint).queue(limits).build().unwrap();
    for seq in 1..=3 {
        poster.post(event("nav-1", seq, EventType::TriggerFired));
    }
    let report = poster.close(seconds(1.0)).await;

    assert_eq!(report.total(), 2);
    let overflows = logs.at(Level::ERROR);
    assert_eq!(overflows.len(), 1, "{overflows:?}");
    assert_eq!(overflows[0].field("triggers"), Some("1"));
}

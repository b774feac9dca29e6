use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rvc_poster::{Connecting, Connector};
use rvc_test::{Logs, ScriptedEndpoint};
use rvc_wire::EventType;
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::support::{assert_times, builder, event, poster, progress, seconds, seqs, times, until};

/// Connections that never come about, as behind a firewall that drops packets; counts them.
struct BlackHole(Arc<AtomicUsize>);

impl Connector for BlackHole {
    fn connect(&self) -> Connecting<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_down_for_twelve_minutes_gets_what_is_not_given_up() {
    let logs = Logs::capture();
    let start = Instant::now();
    let endpoint = ScriptedEndpoint::answering([200]);
    endpoint.go_down();
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.post(event("nav-1", 2, EventType::TriggerFired));
    poster.post(event("nav-1", 3, EventType::TaskDone));

    sleep(seconds(720.0)).await;
    endpoint.come_back();
    until(|| endpoint.received().len() == 2).await;

    assert_eq!(seqs(&endpoint, "nav-1"), [2, 3]);
    // The probes keep their pace: 30 s after the last failed one.
    let came = times(&endpoint, start)[0];
    assert!(came < 750.1, "{came}");

    let [given_up] = &logs.at(Level::ERROR)[..] else {
        panic!("one event was given up: {:?}", logs.at(Level::ERROR));
    };
    assert_eq!(given_up.message, "event given up");
    for (field, value) in [
        ("server", "navigation"),
        ("task_id", "nav-1"),
        ("tool", "navigate_to"),
        ("event_id", "00000000-0000-4001-8000-000000000000"),
        ("seq", "1"),
        ("attempts", "23"),
    ] {
        assert_eq!(given_up.field(field), Some(value), "{field}");
    }
    let reason = given_up.field("error").unwrap();
    assert!(
        reason.starts_with("could not connect to the endpoint: "),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hundred_tasks_send_one_probe_at_a_time_and_all_at_once_when_it_gets_through() {
    let start = Instant::now();
    let endpoint = ScriptedEndpoint::answering([200]);
    endpoint.go_down();
    let poster = poster(&endpoint);
    for task in 0..100 {
        poster.post(progress(&format!("nav-{task}"), 1));
    }
    sleep(seconds(120.0)).await;
    // At 0, 0.5, 2.5, 10.5, 40.5, 70.5 and 100.5 s.
    assert_eq!(endpoint.connects(), 7);

    endpoint.come_back();
    until(|| endpoint.received().len() == 100).await;
    let times = times(&endpoint, start);
    assert_times(&[times[0], times[99]], &[130.5, 130.5]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_restarts_between_events_costs_no_attempt() {
    let logs = Logs::capture();
    let start = Instant::now();
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    sleep(seconds(1.0)).await;
    endpoint.go_down();
    sleep(seconds(1.0)).await;
    endpoint.come_back();
    poster.post(progress("nav-1", 2));
    poster.close(seconds(5.0)).await;

    assert_times(&times(&endpoint, start), &[0.0, 2.0]);
    assert!(logs.at(Level::WARN).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_goes_down_in_the_middle_gets_every_event_afterwards() {
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = poster(&endpoint);
    for seq in 1..=100 {
        for task in 0..10 {
            poster.post(progress(&format!("nav-{task}"), seq));
        }
        sleep(seconds(0.1)).await;
        match seq {
            30 => endpoint.go_down(),
            60 => endpoint.come_back(),
            _ => {}
        }
    }
    assert!(poster.close(seconds(60.0)).await.is_complete());
    for task in 0..10 {
        let mut seqs = seqs(&endpoint, &format!("nav-{task}"));
        seqs.dedup();
        assert_eq!(seqs, (1..=100).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_never_come_about_cost_their_attempts_ten_seconds_and_then_are_probes() {
    let logs = Logs::capture();
    let connects = Arc::default();
    let poster = builder(&ScriptedEndpoint::answering([200]))
        .connector(BlackHole(Arc::clone(&connects)))
        .build()
        .unwrap();
    for task in 0..100 {
        poster.post(progress(&format!("nav-{task}"), 1));
    }
    sleep(seconds(60.0)).await;

    // Eight at once, for ten seconds; then one at a time, at 10.5, 22.5 and 40.5 s.
    assert_eq!(connects.load(Ordering::Relaxed), 8 + 3);
    let failed = logs.at(Level::WARN);
    assert_eq!(failed.len(), 8 + 3);
    for line in failed {
        let error = line.field("error").unwrap();
        assert_eq!(error, "no connection to the endpoint within 10s");
    }
    assert_eq!(poster.close(seconds(0.0)).await.total(), 100);
}

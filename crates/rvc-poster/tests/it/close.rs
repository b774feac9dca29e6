use rvc_poster::EventPoster;
use rvc_test::{Logs, Reply, ScriptedEndpoint};
use rvc_wire::EventType;
use tokio::time::{Instant, sleep, timeout};
use tracing::Level;

use crate::support::{assert_times, by_task, event, poster, progress, seconds, seqs, times, until};

#[tokio::test(start_paused = true)]
async fn closing_returns_as_soon_as_everything_is_delivered() {
    let endpoint = by_task(|_| Some(Reply::status(200).after(seconds(0.2))));
    let poster = poster(&endpoint);
    for seq in 1..=5 {
        poster.post(progress("nav-1", seq));
    }
    let start = Instant::now();
    let report = poster.close(seconds(5.0)).await;
    assert!(report.is_complete());
    assert_eq!(report.total(), 0);
    assert!(start.elapsed() < seconds(1.1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn closing_with_a_dead_endpoint_takes_the_drain_and_says_what_was_left() {
    let logs = Logs::capture();
    let endpoint = ScriptedEndpoint::answering([200]);
    endpoint.go_down();
    let poster = poster(&endpoint);
    for seq in 1..=3 {
        poster.post(progress("nav-1", seq));
    }
    poster.post(progress("nav-2", 1));

    let start = Instant::now();
    let report = poster.close(seconds(5.0)).await;

    assert_eq!(start.elapsed(), seconds(5.0));
    let left: Vec<_> = report
        .undelivered
        .iter()
        .map(|(task, events)| (task.as_str(), *events))
        .collect();
    assert_eq!(left, [("nav-1", 3), ("nav-2", 1)]);
    let mut warnings = logs.at(Level::WARN);
    warnings.retain(|line| line.message.contains("undelivered"));
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].field("events"), Some("4"));
    assert_eq!(warnings[0].field("tasks"), Some("nav-1: 3, nav-2: 1"));

    assert_eq!(poster.close(seconds(5.0)).await, report, "the same again");
    assert_eq!(start.elapsed(), seconds(5.0), "at once");
}

#[tokio::test(start_paused = true)]
async fn closing_with_a_hung_endpoint_ends_the_attempt_in_flight() {
    let endpoint = ScriptedEndpoint::answering([Reply::Hang]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    let report = poster.close(seconds(5.0)).await;
    assert_eq!(report.total(), 1);
    until(|| endpoint.open() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn closing_probes_at_once_an_endpoint_that_was_out_of_reach() {
    let endpoint = ScriptedEndpoint::answering([200]);
    endpoint.go_down();
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    sleep(seconds(50.0)).await;
    endpoint.come_back();
    assert!(poster.close(seconds(1.0)).await.is_complete());
}

#[tokio::test(start_paused = true)]
async fn closing_attempts_once_more_at_once_what_was_refused_before() {
    let start = Instant::now();
    let endpoint = ScriptedEndpoint::answering([502; 8]);
    let poster = poster(&endpoint);
    for task in ["nav-1", "nav-2"] {
        poster.post(progress(task, 1));
        poster.post(event(task, 2, EventType::TaskDone));
    }
    // Refused at 0, 0.5, 2.5 and 10.5 s; the next attempt is due at 40.5 s.
    sleep(seconds(20.0)).await;
    assert_eq!(endpoint.received().len(), 8);

    assert!(poster.close(seconds(5.0)).await.is_complete());

    assert!(start.elapsed() < seconds(20.1), "{:?}", start.elapsed());
    for task in ["nav-1", "nav-2"] {
        assert_eq!(seqs(&endpoint, task), [1, 1, 1, 1, 1, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_attempts_what_is_refused_again_no_more_often_than_its_delays_say() {
    let start = Instant::now();
    let endpoint = by_task(|_| Some(Reply::status(502)));
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    sleep(seconds(5.0)).await;
    assert_eq!(poster.close(seconds(5.0)).await.total(), 1);
    assert_times(&times(&endpoint, start), &[0.0, 0.5, 2.5, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_as_long_as_the_endpoint_asks_and_no_longer() {
    // Refused four times, the last time at 10.5 s; the delay of our own ends at 40.5 s.
    for (retry_after, last) in [("5", Some(15.5)), ("1", Some(12.0)), ("600", None)] {
        let start = Instant::now();
        let refusal = Reply::status(503).header("retry-after", retry_after);
        let refusals = [502, 502, 502].map(Reply::status).into_iter();
        let endpoint = ScriptedEndpoint::answering(refusals.chain([refusal]));
        let poster = poster(&endpoint);
        poster.post(progress("nav-1", 1));
        sleep(seconds(12.0)).await;

        let report = poster.close(seconds(5.0)).await;

        assert_eq!(report.is_complete(), last.is_some(), "{retry_after}");
        let mut expected = vec![0.0, 0.5, 2.5, 10.5];
        expected.extend(last);
        assert_times(&times(&endpoint, start), &expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_that_is_dropped_goes_on_delivering_and_can_be_called_again() {
    let endpoint = by_task(|_| Some(Reply::status(200).after(seconds(1.0))));
    let poster = poster(&endpoint);
    for seq in 1..=3 {
        poster.post(progress("nav-1", seq));
    }
    timeout(seconds(0.5), poster.close(seconds(5.0)))
        .await
        .unwrap_err();
    poster.post(progress("nav-1", 4));
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn an_event_posted_after_the_close_is_dropped_and_logged() {
    let logs = Logs::capture();
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = poster(&endpoint);
    poster.close(seconds(5.0)).await;
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));
    sleep(seconds(1.0)).await;

    assert!(endpoint.received().is_empty());
    let [warning] = &logs.at(Level::WARN)[..] else {
        panic!("the first is told loudly: {:?}", logs.lines());
    };
    assert_eq!(warning.field("seq"), Some("1"));
    let debug = logs.at(Level::DEBUG);
    let second = debug.iter().find(|line| line.field("seq") == Some("2"));
    assert_eq!(second.unwrap().field("refused"), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_clone_ends_delivery_and_leaves_no_task() {
    let logs = Logs::capture();
    let endpoint = ScriptedEndpoint::answering([Reply::Hang]);
    let poster = poster(&endpoint);
    let clone = poster.clone();
    poster.post(progress("nav-1", 1));
    until(|| endpoint.open() == 1).await;
    drop(poster);
    sleep(seconds(1.0)).await;
    assert_eq!(endpoint.open(), 1, "one clone is left");

    drop(clone);
    until(|| endpoint.open() == 0).await;
    let metrics = tokio::runtime::Handle::current().metrics();
    until(|| metrics.num_alive_tasks() == 0).await;
    let mut warnings = logs.at(Level::WARN);
    warnings.retain(|line| line.message.contains("undelivered"));
    assert_eq!(warnings.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_disabled_poster_logs_events_at_debug() {
    let logs = Logs::capture();
    let poster = EventPoster::disabled("navigation".parse().unwrap());
    poster.post(progress("nav-1", 1));
    assert!(poster.close(seconds(5.0)).await.is_complete());
    poster.post(progress("nav-1", 2));

    assert_eq!(poster.server().as_str(), "navigation");
    let lines = logs.at(Level::DEBUG);
    let seqs: Vec<_> = lines.iter().filter_map(|line| line.field("seq")).collect();
    assert_eq!(seqs, ["1", "2"]);
}

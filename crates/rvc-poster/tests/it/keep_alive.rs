use rvc_test::{Logs, Reply, ScriptedEndpoint};
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::support::{assert_times, by_task, poster, progress, seconds, seqs, tcp_poster, times};

/// No attempt failed: there is no warning, and nothing had to wait for a retry.
#[track_caller]
fn assert_all_came(endpoint: &ScriptedEndpoint, logs: &Logs, last: u64) {
    assert!(
        logs.at(Level::WARN).is_empty(),
        "{:?}",
        logs.at(Level::WARN)
    );
    let mut seqs = seqs(endpoint, "nav-1");
    // A request that the endpoint read before it closed the connection comes again.
    seqs.dedup();
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_after_each_answer_costs_no_attempt() {
    let logs = Logs::capture();
    let start = Instant::now();
    let endpoint = by_task(|_| Some(Reply::status(200).then_close()));
    let poster = poster(&endpoint);
    for seq in 1..=100 {
        poster.post(progress("nav-1", seq));
    }
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_all_came(&endpoint, &logs, 100);
    assert!(times(&endpoint, start).iter().all(|&time| time < 0.01));
}

#[tokio::test]
async fn a_socket_that_is_closed_after_each_answer_costs_no_attempt() {
    let logs = Logs::capture();
    let endpoint = by_task(|_| Some(Reply::status(200).then_close()));
    let poster = tcp_poster(&endpoint).await;
    for seq in 1..=300 {
        poster.post(progress("nav-1", seq));
    }
    assert!(poster.close(seconds(60.0)).await.is_complete());
    assert_all_came(&endpoint, &logs, 300);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_kept_connection_swallows_is_sent_again_at_once() {
    let logs = Logs::capture();
    let start = Instant::now();
    // The second request is read, and the connection closed without a byte.
    let endpoint = ScriptedEndpoint::answering([Reply::status(200), Reply::close()]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));
    assert!(poster.close(seconds(5.0)).await.is_complete());

    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2, 2]);
    assert_times(&times(&endpoint, start), &[0.0, 0.0, 0.0]);
    assert!(logs.at(Level::WARN).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_on_a_kept_connection_costs_the_attempt() {
    let start = Instant::now();
    let endpoint =
        ScriptedEndpoint::answering([Reply::status(200), Reply::Raw("HTTP/1.1 2".into())]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2, 2]);
    assert_times(&times(&endpoint, start), &[0.0, 0.0, 0.5]);
}

#[tokio::test(start_paused = true)]
async fn an_announced_close_is_followed() {
    let endpoint = by_task(|_| {
        let answer = Reply::status(200).header("connection", "close");
        Some(answer.then_close())
    });
    let poster = poster(&endpoint);
    for seq in 1..=10 {
        poster.post(progress("nav-1", seq));
    }
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), (1..=10).collect::<Vec<_>>());
    assert_eq!(endpoint.connects(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_needed_for_a_minute_is_closed() {
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    sleep(seconds(59.0)).await;
    assert_eq!(endpoint.open(), 1);
    sleep(seconds(2.0)).await;
    assert_eq!(endpoint.open(), 0);

    poster.post(progress("nav-1", 2));
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2]);
}

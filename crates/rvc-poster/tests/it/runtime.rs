use rvc_test::{Logs, Reply, ScriptedEndpoint};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;
use tracing::Level;

use crate::support::{poster, progress, seconds, seqs, until};

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
}

#[test]
fn events_posted_outside_a_runtime_wait_for_the_first_use_inside_one() {
    let logs = Logs::capture();
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));
    assert_eq!(logs.at(Level::WARN).len(), 1, "it is told once");

    runtime().block_on(async {
        poster.post(progress("nav-1", 3));
        until(|| endpoint.received().len() == 3).await;
    });
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2, 3]);
}

#[test]
fn a_close_delivers_what_was_posted_outside_a_runtime() {
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    let report = runtime().block_on(poster.close(seconds(5.0)));
    assert!(report.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), [1]);
}

#[test]
fn a_poster_that_never_saw_a_runtime_can_be_dropped() {
    let logs = Logs::capture();
    let poster = poster(&ScriptedEndpoint::answering([200]));
    poster.post(progress("nav-1", 1));
    drop(poster);
    let warnings = logs.at(Level::WARN);
    assert_eq!(warnings.last().unwrap().field("tasks"), Some("nav-1: 1"));
}

#[test]
fn events_may_come_from_threads_outside_the_runtime() {
    let endpoint = ScriptedEndpoint::answering([200]);
    runtime().block_on(async {
        let poster = poster(&endpoint);
        let outside = poster.clone();
        std::thread::spawn(move || {
            for seq in 1..=10 {
                outside.post(progress("nav-1", seq));
            }
        })
        .join()
        .unwrap();
        assert!(poster.close(seconds(5.0)).await.is_complete());
    });
    assert_eq!(seqs(&endpoint, "nav-1"), (1..=10).collect::<Vec<_>>());
}

#[test]
fn a_poster_survives_its_runtime_and_loses_no_event() {
    let endpoint = ScriptedEndpoint::answering([200]);
    let first = runtime();
    let poster = first.block_on(async {
        let poster = poster(&endpoint);
        poster.post(progress("nav-1", 1));
        until(|| endpoint.received().len() == 1).await;
        endpoint.go_down();
        sleep(seconds(1.0)).await;
        poster.post(progress("nav-1", 2));
        sleep(seconds(1.0)).await;
        poster
    });
    drop(first);
    endpoint.come_back();
    // Nobody can deliver it, and nobody notices.
    poster.post(progress("nav-1", 3));

    runtime().block_on(async {
        poster.post(progress("nav-1", 4));
        assert!(poster.close(seconds(60.0)).await.is_complete());
    });
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2, 3, 4]);
}

#[test]
fn an_event_leaves_while_the_thread_that_posted_it_is_blocked() {
    let (arrived, arrival) = std::sync::mpsc::channel();
    let endpoint = ScriptedEndpoint::new(move |_| {
        arrived.send(()).unwrap();
        Reply::status(200)
    });
    let two_threads = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let body = async move {
        let poster = poster(&endpoint);
        for seq in 1..=50 {
            poster.post(progress("nav-1", seq));
            // Far longer than any delivery, so that only one that waits for this thread fails.
            arrival.recv_timeout(seconds(30.0)).unwrap();
            tokio::task::yield_now().await;
        }
    };
    two_threads.block_on(async { tokio::spawn(body).await.unwrap() });
}

use rvc_test::{Logs, Reply, ScriptedEndpoint};
use rvc_wire::EventType;
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::support::{
    assert_times, builder, by_task, event, poster, progress, seconds, seen, seqs, times, until,
};

#[tokio::test(start_paused = true)]
async fn a_backlog_that_is_forgotten_is_never_sent_and_the_other_tasks_is() {
    let logs = Logs::capture();
    let endpoint = ScriptedEndpoint::answering([200]);
    endpoint.go_down();
    let poster = poster(&endpoint);
    for task in ["nav-1", "nav-2"] {
        poster.post(progress(task, 1));
        poster.post(event(task, 2, EventType::TriggerFired));
        poster.post(event(task, 3, EventType::WatchEvent));
    }
    // The first event of each was attempted and waits for its next attempt.
    sleep(seconds(5.0)).await;

    poster.forget(&"nav-1".parse().unwrap());

    endpoint.come_back();
    sleep(seconds(900.0)).await;
    assert!(seqs(&endpoint, "nav-1").is_empty());
    assert_eq!(seqs(&endpoint, "nav-2"), [1, 2, 3]);
    assert!(poster.close(seconds(5.0)).await.is_complete());
    let told = logs.at(Level::INFO);
    let told = told.iter().find(|line| line.message.contains("cancelled"));
    assert_eq!(told.unwrap().field("task_id"), Some("nav-1"));
    assert_eq!(told.unwrap().field("events"), Some("3"));
}

#[tokio::test(start_paused = true)]
async fn an_event_in_flight_when_its_task_is_forgotten_may_arrive_and_is_the_last() {
    let endpoint = by_task(|_| Some(Reply::status(200).after(seconds(1.0))));
    let poster = poster(&endpoint);
    for seq in 1..=3 {
        poster.post(progress("nav-1", seq));
    }
    until(|| endpoint.received().len() == 1).await;

    poster.forget(&"nav-1".parse().unwrap());

    sleep(seconds(60.0)).await;
    assert_eq!(seqs(&endpoint, "nav-1"), [1]);
    assert!(poster.close(seconds(0.0)).await.is_complete());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_fails_after_its_task_was_forgotten_is_not_repeated() {
    for reply in [Reply::status(500).after(seconds(1.0)), Reply::Hang] {
        let logs = Logs::capture();
        let endpoint = ScriptedEndpoint::answering([reply]);
        let poster = poster(&endpoint);
        poster.post(event("nav-1", 1, EventType::TriggerFired));
        until(|| endpoint.received().len() == 1).await;

        poster.forget(&"nav-1".parse().unwrap());

        sleep(seconds(900.0)).await;
        assert_eq!(seqs(&endpoint, "nav-1"), [1]);
        assert!(logs.at(Level::WARN).is_empty());
        let told = logs.at(Level::INFO);
        assert!(
            told.iter()
                .any(|line| line.message.contains("not repeated"))
        );
        assert!(poster.close(seconds(0.0)).await.is_complete());
    }
}

#[tokio::test(start_paused = true)]
async fn events_posted_after_their_task_was_forgotten_are_delivered() {
    let endpoint = ScriptedEndpoint::answering([Reply::status(500).after(seconds(1.0))]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    until(|| endpoint.received().len() == 1).await;
    poster.forget(&"nav-1".parse().unwrap());
    poster.post(progress("nav-1", 2));
    poster.post(event("nav-1", 3, EventType::TaskDone));
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn forgetting_a_task_that_fails_gives_its_connections_to_the_others_at_once() {
    let start = Instant::now();
    let endpoint = by_task(|task| match task {
        "fails" => Some(Reply::status(500)),
        "slow" => Some(Reply::status(200).after(seconds(5.0))),
        _ => None,
    });
    let poster = builder(&endpoint).max_connections(2).build().unwrap();
    poster.post(progress("fails", 1));
    until(|| endpoint.received().len() == 1).await;
    // A new task fills the half that is left for the unproven, and the next one waits.
    poster.post(progress("slow", 1));
    until(|| endpoint.received().len() == 2).await;
    poster.post(progress("new", 1));
    sleep(seconds(0.2)).await;
    assert_eq!(endpoint.received().len(), 2);

    poster.forget(&"fails".parse().unwrap());

    until(|| endpoint.received().len() == 3).await;
    assert_eq!(seen(&endpoint)[2].0, "new");
    assert_times(&times(&endpoint, start)[2..], &[0.2]);
}

#[tokio::test(start_paused = true)]
async fn a_close_does_not_wait_for_what_was_forgotten() {
    let endpoint = ScriptedEndpoint::answering([200]);
    endpoint.go_down();
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.post(event("nav-1", 2, EventType::TaskDone));
    sleep(seconds(5.0)).await;
    let start = Instant::now();
    let closing = tokio::spawn({
        let poster = poster.clone();
        async move { poster.close(seconds(60.0)).await }
    });
    sleep(seconds(1.0)).await;

    poster.forget(&"nav-1".parse().unwrap());

    assert!(closing.await.unwrap().is_complete());
    assert!(start.elapsed() < seconds(1.1), "{:?}", start.elapsed());
    poster.forget(&"nav-1".parse().unwrap());
}

#[tokio::test(start_paused = true)]
async fn forgetting_an_unknown_task_or_without_an_endpoint_does_nothing() {
    let task = "nav-1".parse().unwrap();
    let logs = Logs::capture();
    let poster = poster(&ScriptedEndpoint::answering([200]));
    poster.forget(&task);
    rvc_poster::EventPoster::disabled("navigation".parse().unwrap()).forget(&task);
    let lines = logs.lines();
    assert!(lines.iter().all(|line| !line.message.contains("cancelled")));
}

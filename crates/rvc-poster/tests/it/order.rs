use rvc_test::{Reply, ScriptedEndpoint};
use tokio::time::{Instant, sleep};

use crate::support::{
    assert_times, builder, by_task, poster, progress, seconds, seen, seqs, times,
};

#[tokio::test(start_paused = true)]
async fn next_event_waits_while_the_first_is_retried() {
    let endpoint = ScriptedEndpoint::answering([503, 200, 200]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));

    let report = poster.close(seconds(5.0)).await;

    assert!(report.is_complete());
    assert_eq!(seqs(&endpoint, "nav-1"), [1, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn one_tasks_events_arrive_in_order_over_one_connection() {
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = poster(&endpoint);
    for seq in 1..=500 {
        poster.post(progress("nav-1", seq));
    }
    poster.close(seconds(5.0)).await;

    assert_eq!(seqs(&endpoint, "nav-1"), (1..=500).collect::<Vec<_>>());
    assert_eq!(endpoint.connects(), 1);
}

#[tokio::test(start_paused = true)]
async fn tasks_go_out_side_by_side_over_at_most_eight_connections() {
    let start = Instant::now();
    let endpoint = by_task(|_| Some(Reply::status(200).after(seconds(1.0))));
    let poster = poster(&endpoint);
    for task in 0..9 {
        poster.post(progress(&format!("nav-{task}"), 1));
    }
    poster.close(seconds(5.0)).await;

    assert_times(
        &times(&endpoint, start),
        &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    );
    assert_eq!(endpoint.most_open(), 8);
    assert_eq!(endpoint.connects(), 8);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_connections_can_be_set() {
    let endpoint = by_task(|_| Some(Reply::status(200).after(seconds(1.0))));
    let poster = builder(&endpoint).max_connections(2).build().unwrap();
    for task in 0..6 {
        poster.post(progress(&format!("nav-{task}"), 1));
    }
    assert!(poster.close(seconds(5.0)).await.is_complete());
    assert_eq!(endpoint.most_open(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_with_many_events_takes_turns_with_others() {
    let endpoint = ScriptedEndpoint::answering([200]);
    let poster = builder(&endpoint).max_connections(1).build().unwrap();
    for seq in 1..=100 {
        poster.post(progress("busy", seq));
    }
    poster.post(progress("calm", 1));
    poster.close(seconds(5.0)).await;

    let turn = seen(&endpoint)
        .iter()
        .position(|(task, _)| task == "calm")
        .unwrap();
    assert!(turn <= 2, "{turn}");
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_event_is_refused_for_ever_is_not_noticed_by_another() {
    let endpoint = by_task(|task| (task == "refused").then_some(Reply::status(500)));
    let poster = poster(&endpoint);
    poster.post(progress("refused", 1));
    poster.post(progress("refused", 2));
    for seq in 1..=60 {
        poster.post(progress("fine", seq));
        sleep(seconds(0.1)).await;
        assert_eq!(seqs(&endpoint, "fine").last(), Some(&seq));
        sleep(seconds(0.9)).await;
    }
    assert_eq!(seqs(&endpoint, "fine"), (1..=60).collect::<Vec<_>>());
    assert_eq!(seqs(&endpoint, "refused"), [1, 1, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_refused_for_ever_is_given_up_and_the_next_one_has_its_turn() {
    let start = Instant::now();
    let endpoint = ScriptedEndpoint::answering([500; 23]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.post(progress("nav-1", 2));
    sleep(seconds(601.0)).await;

    assert_eq!(seqs(&endpoint, "nav-1")[22..], [1, 2]);
    assert_times(&times(&endpoint, start)[22..], &[580.5, 600.0]);
}

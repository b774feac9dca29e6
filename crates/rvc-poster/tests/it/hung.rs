use rvc_test::Reply;
use tokio::time::{Instant, sleep};

use crate::support::{by_task, parse, poster, progress, seconds};

#[tokio::test(start_paused = true)]
async fn one_healthy_task_goes_on_while_the_endpoint_hangs_for_a_hundred() {
    let start = Instant::now();
    let endpoint = by_task(|task| task.starts_with("hung").then_some(Reply::Hang));
    let poster = poster(&endpoint);
    poster.post(progress("fine", 1));
    for task in 0..100 {
        poster.post(progress(&format!("hung-{task}"), 1));
    }
    for seq in 2..=120 {
        sleep(seconds(1.0)).await;
        poster.post(progress("fine", seq));
    }
    sleep(seconds(1.0)).await;

    let received = endpoint.received();
    let mut fine = 0;
    for received in received {
        let event = parse(&received);
        if event.task_id.as_str() == "fine" {
            fine += 1;
            assert_eq!(event.seq.get(), fine);
            let came_from = start + seconds(1.0) * u32::try_from(fine - 1).unwrap();
            // At first nobody knows which tasks hang: they may hold every connection once.
            let most = if fine <= 11 { 10.0 } else { 0.1 };
            let delay = received.at - came_from;
            assert!(delay <= seconds(most), "event {fine} took {delay:?}");
        }
    }
    assert_eq!(fine, 120);
    assert!(endpoint.most_open() <= 8);
}

#[tokio::test(start_paused = true)]
async fn a_new_task_gets_through_while_the_endpoint_hangs_for_a_hundred() {
    let endpoint = by_task(|task| task.starts_with("hung").then_some(Reply::Hang));
    let poster = poster(&endpoint);
    for task in 0..100 {
        poster.post(progress(&format!("hung-{task}"), 1));
    }
    // Each of the hundred has failed once by now.
    sleep(seconds(300.0)).await;
    let start = Instant::now();
    poster.post(progress("new", 1));
    sleep(seconds(20.0)).await;

    let received = endpoint.received();
    let new = received
        .iter()
        .find(|it| parse(it).task_id.as_str() == "new")
        .unwrap();
    assert!(new.at - start <= seconds(10.0));
}

//! What closing leaves behind, and how long it takes.

use std::time::Duration;

use futures_util::future::BoxFuture;
use rvc_durable::remote::{BoxTransport, DialError, Dialer, Token};
use rvc_durable::store::StoreError;
use rvc_durable::{Durable, ErrorCode, Phase, Registration, StartPolicy, SupervisorOptions};
use serde_json::json;
use tokio::time::Instant;

use crate::faulty::FaultyStore;
use crate::peer::Reply;
use crate::world::{World, id, pass, submission};

#[tokio::test(start_paused = true)]
async fn close_finishes_the_step_in_hand_and_gives_the_rest_back() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::After(3, Box::new(Reply::text("there"))),
        _ => Reply::Silence,
    })
    .await;
    let first = world.process_with(SupervisorOptions::new().concurrency(1, 1));
    for action in ["a", "b"] {
        first.submit(submission(action)).await.unwrap();
    }
    pass(1).await;

    first.close().await;

    let phases = [world.row("a").await.phase, world.row("b").await.phase];
    assert!(phases.contains(&Phase::Completed), "{phases:?}");
    assert!(phases.contains(&Phase::Intent), "{phases:?}");
    assert_eq!(world.peer.count("tools/call"), 1);
    let second = world.process();
    second.idle().await.unwrap();
    assert_eq!(world.peer.count("tools/call"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_second_close_waits_for_the_same_end_as_the_first() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::After(3, Box::new(Reply::text("there"))),
        _ => Reply::Silence,
    })
    .await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(1).await;

    tokio::time::timeout(Duration::from_millis(100), process.close())
        .await
        .unwrap_err();
    process.close().await;

    assert_eq!(world.row("a").await.phase, Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_panicked_has_ended_and_one_that_works_has_not() {
    let world = World::new(|_| Reply::text("there")).await;
    let store = FaultyStore::new(world.store.clone(), |_| None);
    let process = Durable::new(store.clone(), world.peer.clone(), SupervisorOptions::new());
    process.supervise();
    let second = Duration::from_secs(1);
    let early = tokio::time::timeout(second * 60, process.ended()).await;
    early.expect_err("it works");

    store.break_down();

    tokio::time::timeout(second * 60, process.ended())
        .await
        .unwrap();
    process.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_awaited_while_the_store_is_away() {
    let world = World::new(|_| Reply::text("there")).await;
    let store = FaultyStore::new(world.store.clone(), |_| None);
    let process = Durable::new(store.clone(), world.peer.clone(), SupervisorOptions::new());
    process.submit(submission("a")).await.unwrap();
    store.go_away(true);
    process.supervise();
    let waiting = {
        let process = process.clone();
        tokio::spawn(async move {
            let outcome = process.outcome(&id("a")).await;
            process.idle().await.unwrap();
            outcome
        })
    };
    pass(600).await;
    assert!(!waiting.is_finished());
    assert_eq!(world.peer.count("tools/call"), 0);

    store.go_away(false);

    let outcome = waiting.await.unwrap().unwrap();
    assert_eq!(outcome.phase, Phase::Completed);
    process.close().await;
}

const GRACE: Duration = Duration::from_secs(10);

/// Closes, which may take the grace and what is written after it.
async fn closed(process: &Durable) {
    let begun = Instant::now();
    process.close().await;
    let took = begun.elapsed();
    assert!(took < GRACE + Duration::from_secs(8), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn close_gives_up_a_start_that_nobody_answers_and_its_outcome_is_unknown() {
    let world = World::new(|_| Reply::Silence).await;
    let first = world.process();
    first.submit(submission("a")).await.unwrap();
    pass(1).await;
    assert_eq!(world.row("a").await.phase, Phase::Sending);

    closed(&first).await;

    // Not a guess of whoever comes later: it is written.
    let row = world.row("a").await;
    let outcome = row.outcome.unwrap();
    assert_eq!(row.phase, Phase::Unknown);
    assert_eq!(outcome.error_code, Some(ErrorCode::START_OUTCOME_UNKNOWN));
    assert!(outcome.message.contains("closed"), "{}", outcome.message);
    let second = world.process();
    second.idle().await.unwrap();
    assert_eq!(world.peer.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_close_gave_up_is_sent_again_where_that_is_allowed() {
    for policy in [StartPolicy::ServerDedup, StartPolicy::IdempotentTool] {
        let world = World::new(|call| match (call.method.as_str(), call.nth) {
            ("tools/call", 1) => Reply::Silence,
            _ => Reply::text("there"),
        })
        .await;
        let first = world.process();
        first.submit(submission("a").policy(policy)).await.unwrap();
        pass(1).await;

        closed(&first).await;

        assert_eq!(world.row("a").await.phase, Phase::Sending);
        let second = world.process();
        let outcome = second.outcome(&id("a")).await.unwrap();
        assert_eq!(outcome.phase, Phase::Completed, "{policy:?}");
        assert_eq!(world.peer.count("tools/call"), 2, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_within_the_grace_is_taken_and_its_task_is_linked() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::After(8, Box::new(Reply::handle("t-1"))),
        _ => Reply::completed("t-1", "there"),
    })
    .await;
    let first = world.process();
    first.submit(submission("a")).await.unwrap();
    pass(1).await;

    closed(&first).await;

    assert_eq!(world.row("a").await.phase, Phase::Working);
    let second = world.process();
    let outcome = second.outcome(&id("a")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(world.peer.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn close_gives_back_a_poll_that_nobody_answers_as_if_it_had_not_been() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" if call.nth == 1 => Reply::Silence,
        _ => Reply::completed("t-1", "there"),
    })
    .await;
    let options = SupervisorOptions::new().close_grace(Duration::from_secs(1));
    let first = world.process_with(options);
    first.submit(submission("a")).await.unwrap();
    while world.peer.count("tasks/get") == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    closed(&first).await;

    let row = world.row("a").await;
    assert_eq!(
        (row.phase, row.polls, row.trouble.errors),
        (Phase::Working, 0, 0)
    );
    // Its lease would have kept it for 30 s.
    let second = world.process();
    let begun = Instant::now();
    let outcome = second.outcome(&id("a")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// Every dial takes for ever.
struct Nowhere;

impl Dialer for Nowhere {
    fn dial<'a>(
        &'a self,
        _: &'a Registration,
        _: Option<Token>,
    ) -> BoxFuture<'a, Result<BoxTransport, DialError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn close_gives_back_a_start_that_was_not_sent() {
    let world = World::new(|_| Reply::text("there")).await;
    let first = Durable::new(world.store.clone(), Nowhere, SupervisorOptions::new());
    first.supervise();
    first.submit(submission("a")).await.unwrap();
    pass(1).await;

    closed(&first).await;

    let row = world.row("a").await;
    assert_eq!((row.phase, row.starts), (Phase::Intent, 0));
    let second = world.process();
    let outcome = second.outcome(&id("a")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_a_store_that_takes_nothing() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" if call.nth < 3 => Reply::state("t-1", "working", &json!({})),
        _ => Reply::completed("t-1", "there"),
    })
    .await;
    let store = FaultyStore::new(world.store.clone(), |write| {
        (write.expect == Phase::Sending).then(|| StoreError::Locked {
            detail: "by a test".into(),
        })
    });
    let first = Durable::new(store, world.peer.clone(), SupervisorOptions::new());
    first.supervise();
    first.submit(submission("a")).await.unwrap();
    pass(1).await;

    closed(&first).await;

    // As after a crash.
    let second = world.process();
    let outcome = second.outcome(&id("a")).await.unwrap();
    assert_eq!(outcome.error_code, Some(ErrorCode::START_OUTCOME_UNKNOWN));
    assert_eq!(world.peer.count("tools/call"), 1);
}

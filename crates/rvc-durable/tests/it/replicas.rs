//! Two supervisors of one database.

use std::time::Duration;

use rvc_durable::store::{Filter, Store};
use rvc_durable::{Durable, DurableStep, Phase, SupervisorOptions};
use serde_json::json;

use crate::peer::{Call, Peer, Reply};
use crate::world::{World, code, id, pass, submission};

/// A server whose tools take three seconds.
fn slow(call: &Call) -> Reply {
    match call.method.as_str() {
        "tools/call" => Reply::After(3, Box::new(Reply::text("there"))),
        _ => Reply::Silence,
    }
}

#[tokio::test(start_paused = true)]
async fn two_supervisors_share_what_is_more_than_one_can_hold() {
    const EACH: usize = 16;
    let world = World::new(slow).await;
    let host = world.host();
    for n in 0..2 * EACH {
        host.submit(submission(&format!("a{n}"))).await.unwrap();
    }
    // The same server, by a way of its own: each counts what one supervisor starts.
    let ways = [Peer::new(slow), Peer::new(slow)];
    let options = || SupervisorOptions::new().concurrency(EACH, EACH);
    let supervisors = ways
        .clone()
        .map(|way| Durable::new(world.store.clone(), way, options()));

    supervisors.iter().for_each(Durable::supervise);
    // Sooner than any of them ends.
    pass(2).await;

    let started = ways.each_ref().map(|way| way.count("tools/call"));
    assert_eq!(started, [EACH, EACH]);
    host.idle().await.unwrap();
    let started: usize = ways.iter().map(|way| way.count("tools/call")).sum();
    assert_eq!(started, 2 * EACH);
    let rows = world.store.rows(Filter::all()).await.unwrap();
    for row in rows {
        assert_eq!((row.phase, row.starts), (Phase::Completed, 1), "{row:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_supervisor_held_is_anothers_within_a_lease_and_not_before() {
    // As they are by default: a lease that runs out is told to nobody.
    let (lease, tick) = (Duration::from_secs(30), Duration::from_secs(1));
    for (step, phase) in [
        (DurableStep::SendingCommitted, Phase::Sending),
        (DurableStep::PollAnswered, Phase::Working),
    ] {
        let world = World::new(|call| match call.method.as_str() {
            "tools/call" => Reply::handle(call.params["arguments"]["n"].as_str().unwrap()),
            "tasks/get" => Reply::completed(call.params["taskId"].as_str().unwrap(), "there"),
            _ => Reply::Silence,
        })
        .await;
        let named = |action: &str| {
            let arguments = json!({"n": action}).as_object().cloned().unwrap();
            submission(action).arguments(arguments)
        };
        let (first, crash) = world.crashing_at(step);
        first.submit(named("a")).await.unwrap();
        crash.wait().await;
        drop(first);
        // It waits for the crash in steps of 10 ms.
        let (died, slack) = (tokio::time::Instant::now(), Duration::from_millis(10));

        let second = world.process();
        second.submit(named("b")).await.unwrap();
        let other = second.outcome(&id("b")).await.unwrap();
        assert_eq!(other.phase, Phase::Completed, "{step}");
        tokio::time::sleep_until(died + lease - slack - Duration::from_millis(1)).await;
        assert_eq!(world.row("a").await.phase, phase, "{step}");
        let outcome = second.outcome(&id("a")).await.unwrap();

        assert!(
            died.elapsed() <= lease + tick + slack,
            "{step}: {:?}",
            died.elapsed()
        );
        let expected = match phase {
            Phase::Sending => "START_OUTCOME_UNKNOWN",
            _ => "",
        };
        assert_eq!(code(&outcome), expected, "{step}");
        second.close().await;
    }
}

//! A crash at every durable step, in one process: the step stops there for ever.

use rvc_durable::{DurableStep, InputHandling, Phase, StartPolicy};
use serde_json::json;

use crate::peer::{Call, Reply};
use crate::world::{World, id, pass, submission};

fn script(call: &Call) -> Reply {
    match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle("t-1"),
        ("tasks/get", 1) => Reply::state("t-1", "working", &json!({})),
        ("tasks/get", _) => Reply::completed("t-1", "there"),
        ("tasks/cancel", _) => Reply::acknowledged(),
        _ => Reply::Silence,
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_of_a_life_leaves_one_start_and_one_outcome() {
    for step in [
        DurableStep::Claimed,
        DurableStep::Connected,
        DurableStep::SendingCommitted,
        DurableStep::StartAnswered,
        DurableStep::LinkCommitted,
        DurableStep::PollAnswered,
        DurableStep::PollCommitted,
        DurableStep::OutcomeCommitted,
    ] {
        let world = World::new(script).await;
        let (first, crash) = world.crashing_at(step);
        first.submit(submission("a")).await.unwrap();
        crash.wait().await;
        drop(first);

        let second = world.process();
        let outcome = second.outcome(&id("a")).await.unwrap();
        second.idle().await.unwrap();

        let unknown = matches!(
            step,
            DurableStep::SendingCommitted | DurableStep::StartAnswered
        );
        let expected = if unknown {
            Phase::Unknown
        } else {
            Phase::Completed
        };
        assert_eq!(outcome.phase, expected, "{step}");
        let starts = usize::from(step != DurableStep::SendingCommitted);
        assert_eq!(world.peer.count("tools/call"), starts, "{step}");
        assert_eq!(world.row("a").await.outcome, Some(outcome), "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_a_start_is_repaired_where_the_server_tells_repeats_apart() {
    for step in [DurableStep::SendingCommitted, DurableStep::StartAnswered] {
        let world = World::new(script).await;
        let (first, crash) = world.crashing_at(step);
        let submission = submission("a").policy(StartPolicy::ServerDedup);
        first.submit(submission).await.unwrap();
        crash.wait().await;
        drop(first);

        let second = world.process();

        let outcome = second.outcome(&id("a")).await.unwrap();
        assert_eq!(outcome.phase, Phase::Completed, "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_cancelling_still_cancels_the_remote_task() {
    for step in [DurableStep::CancelAsked, DurableStep::CancelCommitted] {
        let world = World::new(|call| match call.method.as_str() {
            "tools/call" => Reply::handle("t-1"),
            "tasks/get" if call.nth > 3 => Reply::state("t-1", "cancelled", &json!({})),
            "tasks/get" => Reply::state("t-1", "working", &json!({})),
            _ => Reply::acknowledged(),
        })
        .await;
        let (first, crash) = world.crashing_at(step);
        first.submit(submission("a")).await.unwrap();
        pass(2).await;
        first.cancel_action(&id("a")).await.unwrap();
        crash.wait().await;
        drop(first);

        let second = world.process();
        second.idle().await.unwrap();

        let row = world.row("a").await;
        assert_eq!(row.phase, Phase::Cancelled, "{step}");
        assert_eq!(row.remote.unwrap().status, "cancelled", "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_arrives_after_the_cancel_is_cancelled_after_a_restart() {
    // The host cancels during `sending`, the handle arrives, and the process dies before it
    // sends `tasks/cancel`.
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::After(5, Box::new(Reply::handle("t-1"))),
        "tasks/get" => Reply::state("t-1", "cancelled", &json!({})),
        "tasks/cancel" => Reply::acknowledged(),
        _ => Reply::Silence,
    })
    .await;
    let (first, crash) = world.crashing_at(DurableStep::LinkCommitted);
    first.submit(submission("a")).await.unwrap();
    pass(2).await;
    assert_eq!(world.row("a").await.phase, Phase::Sending);
    first.cancel_action(&id("a")).await.unwrap();
    crash.wait().await;
    drop(first);
    assert_eq!(world.peer.count("tasks/cancel"), 0);

    let second = world.process();
    second.idle().await.unwrap();

    assert_eq!(world.peer.count("tasks/cancel"), 1);
    let row = world.row("a").await;
    assert_eq!(row.phase, Phase::Cancelled);
    assert_eq!(row.outcome.unwrap().result, None);
}

#[tokio::test(start_paused = true)]
async fn a_crash_around_an_answer_sends_it_again_and_loses_nothing() {
    for (step, updates) in [(DurableStep::InputSent, 2), (DurableStep::PollCommitted, 1)] {
        let mut answered = false;
        let world = World::new(move |call| match call.method.as_str() {
            "tools/call" => Reply::handle("t-1"),
            "tasks/get" if answered => Reply::completed("t-1", "there"),
            "tasks/get" => Reply::state(
                "t-1",
                "input_required",
                &json!({"inputRequests": {"which": {"method": "elicitation/create", "params":
                    {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}}}),
            ),
            "tasks/update" => {
                answered = true;
                Reply::acknowledged()
            }
            _ => Reply::Silence,
        })
        .await;
        let asking = world.process();
        let surfaced = submission("a").input(InputHandling::Surface);
        asking.submit(surfaced).await.unwrap();
        while world.row("a").await.phase != Phase::InputRequired {
            pass(1).await;
        }
        drop(asking);
        let answers = json!({"which": {"action": "accept", "content": {}}});
        let answers = answers.as_object().unwrap().clone();
        world.host().answer_input(&id("a"), answers).await.unwrap();
        let (first, crash) = world.crashing_at(step);
        crash.wait().await;
        drop(first);
        assert_eq!(world.peer.count("tasks/update"), 1, "{step}");

        let second = world.process();
        let outcome = second.outcome(&id("a")).await.unwrap();
        second.idle().await.unwrap();

        assert_eq!(outcome.phase, Phase::Completed, "{step}");
        let sent = world.peer.calls("tasks/update");
        assert_eq!(sent.len(), updates, "{step}");
        assert!(sent.iter().all(|call| call.params == sent[0].params));
        assert_eq!(world.peer.count("tools/call"), 1, "{step}");
    }
}

//! The plan's section 26, one test per line, named after it.

use std::time::Duration;

use rvc_durable::store::{AnswerOutcome, CancelOutcome, StoreError};
use rvc_durable::{
    ActionState, Durable, DurableStep, InputHandling, Phase, StartPolicy, SupervisorOptions,
};
use serde_json::{Value, json};

use crate::faulty::FaultyStore;
use crate::peer::{Call, Reply};
use crate::world::{World, code, id, pass, robot, submission};

/// A task that works twice and then ends as `end` says.
fn task_ending(end: Reply) -> impl FnMut(&Call) -> Reply + Send + 'static {
    move |call| match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle("t-1"),
        ("tasks/get", 1 | 2) => Reply::state("t-1", "working", &json!({"statusMessage": "half"})),
        ("tasks/get", _) => end.clone(),
        ("tasks/cancel", _) => Reply::acknowledged(),
        _ => Reply::Silence,
    }
}

// Creation

#[tokio::test(start_paused = true)]
async fn server_immediately_returns_ordinary_result_instead_of_task() {
    let world = World::new(|_| Reply::text("there")).await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(outcome.result.unwrap().text, "there");
    assert_eq!(world.peer.count("tools/call"), 1);
    assert_eq!(world.row("a").await.remote, None);
}

#[tokio::test(start_paused = true)]
async fn server_returns_durable_task() {
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(outcome.phase, Phase::Completed);
    let row = world.row("a").await;
    assert_eq!(row.remote.unwrap().id, "t-1");
    assert_eq!((row.starts, row.polls), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn connection_fails_before_task_id_is_received() {
    for (policy, starts, phase) in [
        (StartPolicy::AtMostOnce, 1, Phase::Unknown),
        (StartPolicy::ServerDedup, 2, Phase::Completed),
        (StartPolicy::IdempotentTool, 2, Phase::Completed),
    ] {
        let world = World::new(|call| match (call.method.as_str(), call.nth) {
            ("tools/call", 1) => Reply::HangUp,
            ("tools/call", _) => Reply::text("there"),
            _ => Reply::Silence,
        })
        .await;

        let outcome = world.run(submission("a").policy(policy)).await;

        assert_eq!(outcome.phase, phase, "{policy}");
        let calls = world.peer.calls("tools/call");
        assert_eq!(calls.len(), starts, "{policy}");
        let keys: Vec<&Value> = calls
            .iter()
            .map(|call| &call.params["_meta"]["io.rvc/idempotency-key"])
            .collect();
        if policy == StartPolicy::ServerDedup {
            assert!(keys[0].is_string());
            assert_eq!(keys[0], keys[1]);
        } else {
            assert!(keys.iter().all(|key| key.is_null()));
        }
        if policy == StartPolicy::AtMostOnce {
            assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn task_id_received_but_local_persistence_fails() {
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;
    let full = StoreError::Full {
        detail: "test".into(),
    };
    let broken = FaultyStore::new(world.store.clone(), move |write| {
        write.row.remote.is_some().then(|| full.clone())
    });
    let process = Durable::new(broken, world.peer.clone(), SupervisorOptions::new());
    process.supervise();
    process.submit(submission("a")).await.unwrap();

    pass(120).await;

    assert_eq!(world.peer.count("tools/call"), 1);
    assert_eq!(
        world.peer.count("tasks/cancel"),
        1,
        "the orphan is cancelled"
    );
    let outcome = process.outcome(&id("a")).await.unwrap();
    assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN");
}

#[tokio::test(start_paused = true)]
async fn task_id_received_and_local_persistence_fails_for_a_moment() {
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;
    let mut refusals = 3;
    let broken = FaultyStore::new(world.store.clone(), move |write| {
        let refuses = write.row.remote.is_some() && refusals > 0;
        refusals -= u32::from(refuses);
        refuses.then(|| StoreError::Locked {
            detail: "test".into(),
        })
    });
    let process = Durable::new(broken, world.peer.clone(), SupervisorOptions::new());
    process.supervise();
    process.submit(submission("a")).await.unwrap();

    let outcome = process.outcome(&id("a")).await.unwrap();

    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(world.peer.count("tasks/cancel"), 0);
}

#[tokio::test(start_paused = true)]
async fn one_task_id_for_two_actions_fails_the_second_and_leaves_the_first_alone() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" if call.nth < 5 => Reply::state("t-1", "working", &json!({})),
        "tasks/get" => Reply::completed("t-1", "there"),
        _ => Reply::acknowledged(),
    })
    .await;
    let process = world.process_with(SupervisorOptions::new().concurrency(1, 1));
    process.submit(submission("first")).await.unwrap();
    pass(1).await;
    process.submit(submission("second")).await.unwrap();

    let second = process.outcome(&id("second")).await.unwrap();
    let first = process.outcome(&id("first")).await.unwrap();
    process.idle().await.unwrap();

    assert_eq!(code(&second), "REMOTE_PROTOCOL_ERROR");
    assert_eq!(first.phase, Phase::Completed);
    assert_eq!(world.peer.count("tasks/cancel"), 0);
}

// Polling

#[tokio::test(start_paused = true)]
async fn working_to_completed() {
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(outcome.state(), ActionState::Completed);
    assert_eq!(
        world.row("a").await.remote.unwrap().progress.unwrap(),
        "half"
    );
}

#[tokio::test(start_paused = true)]
async fn working_to_failed() {
    let error = json!({"error": {"code": -32603, "message": "it broke"}});
    let world = World::new(task_ending(Reply::state("t-1", "failed", &error))).await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(outcome.phase, Phase::Failed);
    assert_eq!(
        (code(&outcome), outcome.message.as_str()),
        ("-32603", "it broke")
    );
}

#[tokio::test(start_paused = true)]
async fn working_to_cancelled() {
    let world = World::new(task_ending(Reply::state("t-1", "cancelled", &json!({})))).await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(outcome.phase, Phase::Cancelled);
    assert_eq!(code(&outcome), "REMOTE_CANCELLED");
    assert!(outcome.message.contains("by the server"));
    assert_eq!(world.peer.count("tasks/cancel"), 0);
}

#[tokio::test(start_paused = true)]
async fn working_to_input_required() {
    let requests = json!({"inputRequests": {"confirm": {
        "method": "elicitation/create",
        "params": {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}
    }}});
    let script = move |call: &Call| match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle("t-1"),
        ("tasks/get", 1) => Reply::state("t-1", "working", &json!({})),
        ("tasks/get", n) if n < 6 => Reply::state("t-1", "input_required", &requests),
        ("tasks/get", _) => Reply::completed("t-1", "there"),
        ("tasks/update" | "tasks/cancel", _) => Reply::acknowledged(),
        _ => Reply::Silence,
    };

    // Nobody can answer.
    let world = World::new(script.clone()).await;
    let outcome = world.run(submission("a")).await;
    assert_eq!(code(&outcome), "INPUT_UNSUPPORTED");
    assert_eq!(world.peer.count("tasks/cancel"), 1);

    // Somebody can.
    let world = World::new(script).await;
    let process = world.process();
    let mut updates = process.updates();
    process
        .submit(submission("a").input(InputHandling::Surface))
        .await
        .unwrap();
    pass(3).await;
    let row = world.row("a").await;
    assert_eq!(row.phase, Phase::InputRequired);
    assert_eq!(row.phase.action_state(), ActionState::Pending);
    assert_eq!(row.input_requests["confirm"]["params"]["message"], "sure?");
    let answers = |key: &str| {
        json!({key: {"action": "accept", "content": {}}})
            .as_object()
            .cloned()
            .unwrap()
    };
    let other = process.answer_input(&id("a"), answers("other")).await;
    assert_eq!(other, Ok(AnswerOutcome::NotAsked));
    let stored = process.answer_input(&id("a"), answers("confirm")).await;
    assert_eq!(stored, Ok(AnswerOutcome::Stored));
    let again = process.answer_input(&id("a"), answers("confirm")).await;
    assert_eq!(again, Ok(AnswerOutcome::NotAsked));

    let outcome = process.outcome(&id("a")).await.unwrap();

    assert_eq!(outcome.phase, Phase::Completed);
    let sent = world.peer.calls("tasks/update");
    assert_eq!(sent.len(), 1);
    assert_eq!(
        sent[0].params["inputResponses"]["confirm"]["action"],
        "accept"
    );
    let mut asked = Vec::new();
    while let Ok(update) = updates.try_recv() {
        asked.extend(update.asks);
    }
    assert_eq!(asked, ["confirm"], "surfaced once");
}

#[tokio::test(start_paused = true)]
async fn task_expires() {
    let world = World::new(|call| match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::Result(json!({
            "resultType": "task", "taskId": "t-1", "status": "working",
            "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": 5_000, "pollIntervalMs": 6_000
        })),
        ("tasks/get", _) => Reply::unknown_task(),
        _ => Reply::Silence,
    })
    .await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(outcome.phase, Phase::Expired);
    assert_eq!(outcome.state(), ActionState::Failed);
    assert_eq!(code(&outcome), "REMOTE_TASK_EXPIRED");
    assert_eq!(world.peer.count("tasks/cancel"), 0);
}

#[tokio::test(start_paused = true)]
async fn server_temporarily_unavailable() {
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(1).await;
    world.peer.set_down(true);
    world.peer.set_script(|_| Reply::HangUp);
    pass(60).await;
    assert_eq!(world.row("a").await.phase, Phase::Working);
    assert!(world.row("a").await.trouble.errors > 3);
    assert!(world.peer.dials() < 20, "it backs off");

    world.peer.set_down(false);
    world
        .peer
        .set_script(task_ending(Reply::completed("t-1", "there")));

    let outcome = process.outcome(&id("a")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(world.peer.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn malformed_task_state() {
    for state in [
        json!({"resultType": "complete", "taskId": "t-1", "status": "submitted",
            "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": null}),
        json!({"resultType": "complete", "taskId": "t-1", "status": "completed",
            "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": null}),
        json!({"resultType": "complete", "taskId": "t-1", "status": "working",
            "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": -5}),
        json!({"content": [{"type": "text", "text": "done"}]}),
        json!({"resultType": "complete", "taskId": "t-2", "status": "completed",
            "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": null,
            "result": {"content": [{"type": "text", "text": "another's"}]}}),
        json!({"resultType": "complete", "taskId": "t-1", "status": "completed",
            "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": null, "result": {"tools": []}}),
        json!({}),
    ] {
        let world = World::new(task_ending(Reply::Result(state.clone()))).await;

        let outcome = world.run(submission("a")).await;

        assert_eq!(outcome.phase, Phase::Failed, "{state}");
        assert_eq!(code(&outcome), "REMOTE_PROTOCOL_ERROR", "{state}");
        assert!(world.peer.count("tasks/cancel") > 0, "{state}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_task_id() {
    let world = World::new(task_ending(Reply::unknown_task())).await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(code(&outcome), "REMOTE_TASK_MISSING");
    assert_eq!(world.peer.count("tasks/get"), 2 + 3, "three confirmations");
}

#[tokio::test(start_paused = true)]
async fn unknown_task_id_on_one_of_several_replicas() {
    let world = World::new(|call| match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle("t-1"),
        ("tasks/get", n) if n > 9 => Reply::completed("t-1", "there"),
        ("tasks/get", n) if n % 3 == 0 => Reply::state("t-1", "working", &json!({})),
        ("tasks/get", _) => Reply::unknown_task(),
        _ => Reply::Silence,
    })
    .await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(outcome.phase, Phase::Completed);
}

// Result

#[tokio::test(start_paused = true)]
async fn completed_task_with_successful_call_tool_result() {
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;

    let outcome = world.run(submission("a")).await;

    let result = outcome.result.unwrap();
    assert_eq!((result.is_error, result.text.as_str()), (false, "there"));
}

#[tokio::test(start_paused = true)]
async fn completed_task_with_is_error_true() {
    let result =
        json!({"result": {"content": [{"type": "text", "text": "no door"}], "isError": true}});
    let world = World::new(task_ending(Reply::state("t-1", "completed", &result))).await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(outcome.state(), ActionState::Failed);
    assert_eq!(
        (code(&outcome), outcome.message.as_str()),
        ("TOOL_ERROR", "no door")
    );
    assert!(outcome.result.unwrap().is_error);
}

#[tokio::test(start_paused = true)]
async fn completed_task_with_rich_structured_result() {
    let rich = json!({
        "content": [
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///map", "name": "map"},
            {"type": "hologram", "beam": [1, 2.5]}
        ],
        "structuredContent": {"pose": {"x": 1.25, "y": -3}, "seen": ["door", null]},
        "_meta": {"io.example/trace": "abc"}
    });
    let with = json!({"result": rich});
    let world = World::new(task_ending(Reply::state("t-1", "completed", &with))).await;

    let outcome = world.run(submission("a")).await;

    let result = outcome.result.unwrap();
    assert_eq!(Value::Array(result.content), rich["content"]);
    assert_eq!(
        result.structured_content.unwrap(),
        rich["structuredContent"]
    );
    assert_eq!(Value::Object(result.metadata.unwrap()), rich["_meta"]);
    assert_eq!(result.text, rich["structuredContent"].to_string());
}

#[tokio::test(start_paused = true)]
async fn result_retrieval_fails_after_completed_status() {
    // Completed, but its result is cut off twice before it comes whole.
    let cut = json!({});
    let world = World::new(move |call| match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle("t-1"),
        ("tasks/get", 1) => Reply::state("t-1", "completed", &cut),
        ("tasks/get", 2) => Reply::HangUp,
        ("tasks/get", 3) => Reply::Silence,
        ("tasks/get", _) => Reply::completed("t-1", "there"),
        _ => Reply::Silence,
    })
    .await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(world.peer.count("tasks/cancel"), 0);
}

#[tokio::test(start_paused = true)]
async fn duplicate_result_retrieval() {
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;
    let (first, crash) = world.crashing_at(DurableStep::PollAnswered);
    first.submit(submission("a")).await.unwrap();
    crash.wait().await;
    drop(first);
    let first = world.process();

    let outcome = first.outcome(&id("a")).await.unwrap();
    let again = first.outcome(&id("a")).await.unwrap();

    assert_eq!(outcome, again);
    let row = world.row("a").await;
    assert_eq!(row.outcome, Some(outcome));
    let known = first.submit(submission("a")).await.unwrap();
    assert_eq!(known.outcome, row.outcome);
    assert_eq!(world.peer.count("tools/call"), 1);
}

// Cancellation

#[tokio::test(start_paused = true)]
async fn local_run_cancelled_while_remote_working() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" => Reply::state("t-1", "working", &json!({})),
        "tasks/cancel" => Reply::acknowledged(),
        _ => Reply::Silence,
    })
    .await;
    let process = world.process();
    let run = submission("a").run;
    process.submit(submission("a")).await.unwrap();
    pass(3).await;

    let cancelled = process.cancel_run(&run).await.unwrap();

    assert_eq!(cancelled, Some(vec![id("a")]));
    let row = world.row("a").await;
    assert_eq!(row.phase, Phase::Cancelled, "before the server knows");
    pass(1).await;
    assert_eq!(world.peer.count("tasks/cancel"), 1);
}

#[tokio::test(start_paused = true)]
async fn remote_cancel_succeeds() {
    let world = World::new(|call| match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle("t-1"),
        ("tasks/get", n) if n < 6 => Reply::state("t-1", "working", &json!({})),
        ("tasks/get", _) => Reply::state("t-1", "cancelled", &json!({})),
        ("tasks/cancel", _) => Reply::acknowledged(),
        _ => Reply::Silence,
    })
    .await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(3).await;
    process.cancel_action(&id("a")).await.unwrap();

    process.idle().await.unwrap();

    let row = world.row("a").await;
    assert_eq!(row.phase, Phase::Cancelled);
    assert_eq!(row.remote.unwrap().status, "cancelled");
    assert_eq!(row.clean_up.asked, 1);
    assert!(row.clean_up.acknowledged_at.is_some());
    assert_eq!(code(&row.outcome.unwrap()), "CANCELLED");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_reached_the_wrong_replica_is_asked_again() {
    let mut cancelled = false;
    let world = World::new(move |call| match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle("t-1"),
        ("tasks/get", _) if cancelled => Reply::state("t-1", "cancelled", &json!({})),
        ("tasks/get", _) => Reply::state("t-1", "working", &json!({})),
        ("tasks/cancel", 1) => Reply::unknown_task(),
        _ => {
            cancelled = true;
            Reply::acknowledged()
        }
    })
    .await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(3).await;

    process.cancel_action(&id("a")).await.unwrap();
    process.idle().await.unwrap();

    let row = world.row("a").await;
    assert_eq!(row.remote.unwrap().status, "cancelled");
    assert_eq!(world.peer.count("tasks/cancel"), 2);
}

#[tokio::test(start_paused = true)]
async fn remote_cancel_fails() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" => Reply::state("t-1", "working", &json!({})),
        "tasks/cancel" => Reply::Error(-32603, "will not"),
        _ => Reply::Silence,
    })
    .await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(3).await;

    process.cancel_action(&id("a")).await.unwrap();
    process.idle().await.unwrap();

    let row = world.row("a").await;
    assert_eq!(row.phase, Phase::Cancelled);
    assert_eq!(row.clean_up.asked, 20, "bounded attempts");
    assert_eq!(row.clean_up.acknowledged_at, None);
    assert_eq!(code(&row.outcome.unwrap()), "CANCELLED");
}

#[tokio::test(start_paused = true)]
async fn remote_completes_concurrently_with_local_cancellation() {
    // The completion is observed, and before it is written the host cancels.
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;
    let host = world.host();
    let late = FaultyStore::new(world.store.clone(), {
        let store = world.store.clone();
        move |write| {
            if write.row.phase == Phase::Completed {
                let cancel = rvc_durable::store::Store::cancel_action(&store, id("a"));
                let cancelled = futures_util::FutureExt::now_or_never(cancel).unwrap();
                assert_eq!(cancelled, Ok(CancelOutcome::Cancelled));
            }
            None
        }
    });
    let process = Durable::new(late, world.peer.clone(), SupervisorOptions::new());
    process.supervise();
    process.submit(submission("a")).await.unwrap();

    let outcome = host.outcome(&id("a")).await.unwrap();
    host.idle().await.unwrap();

    assert_eq!(outcome.phase, Phase::Cancelled);
    assert_eq!(outcome.result, None);
    let row = world.row("a").await;
    assert_eq!(row.outcome, Some(outcome));
}

#[tokio::test(start_paused = true)]
async fn local_cancellation_after_completion_changes_nothing() {
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    let outcome = process.outcome(&id("a")).await.unwrap();

    let cancelled = process.cancel_action(&id("a")).await.unwrap();

    assert!(matches!(cancelled, CancelOutcome::Ended(row) if row.outcome == Some(outcome)));
    assert_eq!(world.row("a").await.phase, Phase::Completed);
    assert_eq!(world.peer.count("tasks/cancel"), 0);
}

#[tokio::test(start_paused = true)]
async fn repeated_cancel_request() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" if call.nth > 4 => Reply::state("t-1", "cancelled", &json!({})),
        "tasks/get" => Reply::state("t-1", "working", &json!({})),
        "tasks/cancel" => Reply::acknowledged(),
        _ => Reply::Silence,
    })
    .await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(2).await;

    let first = process.cancel_action(&id("a")).await.unwrap();
    let second = process.cancel_action(&id("a")).await.unwrap();
    let run = process.cancel_run(&submission("a").run).await.unwrap();
    process.idle().await.unwrap();
    let third = process.cancel_action(&id("a")).await.unwrap();

    assert_eq!(first, CancelOutcome::Cancelled);
    assert!(matches!(second, CancelOutcome::Ended(_)));
    assert!(matches!(third, CancelOutcome::Ended(_)));
    assert_eq!(run, Some(vec![]));
    assert_eq!(world.peer.count("tasks/cancel"), 1);
}

// Recovery

#[tokio::test(start_paused = true)]
async fn process_restart_while_working() {
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;
    let first = world.process();
    first.submit(submission("a")).await.unwrap();
    pass(1).await;
    assert_eq!(world.row("a").await.phase, Phase::Working);
    drop(first);
    pass(3600).await;

    let second = world.process();

    let outcome = second.outcome(&id("a")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(world.peer.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn restart_after_remote_completion_but_before_local_result_persistence() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        _ => Reply::completed("t-1", "there"),
    })
    .await;
    let (first, crash) = world.crashing_at(DurableStep::PollAnswered);
    first.submit(submission("a")).await.unwrap();
    crash.wait().await;
    assert_eq!(world.row("a").await.outcome, None);
    drop(first);

    let second = world.process();

    let outcome = second.outcome(&id("a")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(world.peer.count("tasks/get"), 2);
}

#[tokio::test(start_paused = true)]
async fn restart_after_result_persistence_but_before_local_action_finalisation() {
    // In the ledger both commit together, so there is no such moment: the step dies right
    // after the commit, and everything is there.
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        _ => Reply::completed("t-1", "there"),
    })
    .await;
    let (first, crash) = world.crashing_at(DurableStep::OutcomeCommitted);
    first.submit(submission("a")).await.unwrap();
    crash.wait().await;
    drop(first);
    let polls = world.peer.count("tasks/get");

    let second = world.process();
    second.idle().await.unwrap();

    let outcome = second.outcome(&id("a")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed);
    assert_eq!(
        world.peer.count("tasks/get"),
        polls,
        "nothing is asked again"
    );
}

#[tokio::test(start_paused = true)]
async fn registration_disabled_or_deleted_during_recovery() {
    for deleted in [false, true] {
        let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;
        let first = world.process();
        first.submit(submission("a")).await.unwrap();
        pass(1).await;
        drop(first);
        let polls = world.peer.count("tasks/get");
        let host = world.host();
        if deleted {
            host.remove_registration(&robot()).await.unwrap();
        } else {
            host.enable_registration(&robot(), false).await.unwrap();
        }

        let second = world.process();
        let outcome = second.outcome(&id("a")).await.unwrap();
        second.idle().await.unwrap();

        assert_eq!(code(&outcome), "REGISTRATION_REVOKED");
        assert_eq!(world.peer.count("tasks/get"), polls, "nothing is sent");
        assert_eq!(world.peer.count("tasks/cancel"), 0, "nothing is sent");
    }
}

#[tokio::test(start_paused = true)]
async fn remote_task_missing_after_restart() {
    let world = World::new(task_ending(Reply::completed("t-1", "there"))).await;
    let first = world.process();
    first.submit(submission("a")).await.unwrap();
    pass(1).await;
    drop(first);
    world.peer.set_script(|_| Reply::unknown_task());

    let second = world.process();

    let outcome = second.outcome(&id("a")).await.unwrap();
    assert_eq!(code(&outcome), "REMOTE_TASK_MISSING");
    assert_eq!(world.peer.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn two_recovery_workers_race() {
    let world = World::new(|call| {
        if call.method == "tools/call" {
            let to = call.params["arguments"]["n"].to_string();
            Reply::handle(&format!("t-{to}"))
        } else {
            let id = call.params["taskId"].as_str().unwrap();
            Reply::completed(id, id)
        }
    })
    .await;
    let host = world.host();
    for n in 0..40 {
        let arguments = json!({"n": n}).as_object().cloned().unwrap();
        let submission = submission(&format!("a{n}")).arguments(arguments);
        host.submit(submission).await.unwrap();
    }

    let workers = [world.process(), world.process(), world.process()];
    host.idle().await.unwrap();

    assert_eq!(world.peer.count("tools/call"), 40);
    for n in 0..40 {
        let row = world.row(&format!("a{n}")).await;
        assert_eq!(row.starts, 1);
        assert_eq!(row.outcome.unwrap().result.unwrap().text, format!("t-{n}"));
    }
    for worker in workers {
        tokio::time::timeout(Duration::from_secs(60), worker.close())
            .await
            .unwrap();
    }
}

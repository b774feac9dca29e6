//! Tasks of the Async Task Contract, followed over ordinary tool calls.

use rvc_durable::{Phase, RemoteKind};
use serde_json::{Value, json};

use crate::peer::{Call, Reply};
use crate::world::{World, code, id, pass, robot, submission};

const CREATED: &str = "2026-06-12T14:03:00.123Z";

fn info(state: &str, with: &Value) -> Value {
    let mut info = json!({
        "task_id": "nav-7f3a2b", "server": "navigation", "tool": "navigate_to", "state": state,
        "created_at": CREATED, "updated_at": CREATED, "triggers": [], "est_duration_s": null,
        "progress": null, "result": null, "failure": null
    });
    for (key, value) in with.as_object().unwrap() {
        info[key] = value.clone();
    }
    info
}

fn json_reply(value: &Value) -> Reply {
    Reply::text(&value.to_string())
}

/// A contract server whose task works twice and then answers as `end` says.
fn task_ending(end: Value) -> impl FnMut(&Call) -> Reply + Send + 'static {
    let mut polls = 0;
    move |call| match call.tool() {
        "navigate_to" => json_reply(&info("running", &json!({}))),
        "get_task" => {
            polls += 1;
            assert_eq!(call.params["arguments"]["task_id"], "nav-7f3a2b");
            let eta = json!({"progress": {"eta_s": 22.4}});
            json_reply(&if polls <= 2 {
                info("running", &eta)
            } else {
                end.clone()
            })
        }
        "cancel_task" => json_reply(&json!({"task_id": "nav-7f3a2b", "state": "cancelled"})),
        _ => Reply::Silence,
    }
}

fn tools(world: &World, tool: &str) -> usize {
    let calls = world.peer.calls("tools/call");
    calls.iter().filter(|call| call.tool() == tool).count()
}

#[tokio::test(start_paused = true)]
async fn a_contract_task_is_followed_to_its_result() {
    let end = info("succeeded", &json!({"result": {"slept_s": 3.5}}));
    let world = World::new(task_ending(end)).await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(outcome.phase, Phase::Completed);
    let result = outcome.result.unwrap();
    assert_eq!(result.structured_content, Some(json!({"slept_s": 3.5})));
    assert_eq!(result.text, r#"{"slept_s":3.5}"#);
    let remote = world.row("a").await.remote.unwrap();
    assert_eq!(
        (remote.kind, remote.id.as_str()),
        (RemoteKind::Contract, "nav-7f3a2b")
    );
    assert_eq!(remote.progress.as_deref(), Some(r#"{"eta_s":22.4}"#));
    assert_eq!(tools(&world, "navigate_to"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_contract_task_keeps_its_own_code_and_message() {
    let failure = json!({"failure": {"error_code": "DOOR_CLOSED", "message": "shut",
        "recoverable": true, "suggestions": ["ask_reception"]}});
    let world = World::new(task_ending(info("failed", &failure))).await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(
        (code(&outcome), outcome.message.as_str()),
        ("DOOR_CLOSED", "shut")
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_server_no_longer_knows_is_server_restarted() {
    let world = World::new(task_ending(json!({"error": "not_found"}))).await;

    let outcome = world.run(submission("a")).await;

    assert_eq!(code(&outcome), "SERVER_RESTARTED");
    assert!(outcome.message.contains("evicted"), "{}", outcome.message);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reuses_the_id_after_a_restart_gives_no_foreign_result() {
    for other in [
        json!({"created_at": "2026-06-12T15:00:00.000Z", "result": {"foreign": true}}),
        json!({"tool": "find_object", "result": {"foreign": true}}),
    ] {
        let world = World::new(task_ending(info("succeeded", &other))).await;

        let outcome = world.run(submission("a")).await;

        assert_eq!(code(&outcome), "SERVER_RESTARTED", "{other}");
        assert_eq!(outcome.result, None);
        assert_eq!(
            tools(&world, "cancel_task"),
            0,
            "another's task is left alone"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_no_task_info_are_a_protocol_error_and_the_task_is_cancelled() {
    for (answer, cancels) in [
        // About another task: the server may take one for the other when it cancels, too.
        (json!({"task_id": "nav-000000", "state": "succeeded"}), 0),
        (
            info(
                "succeeded",
                &json!({"task_id": "nav-000000", "result": {"foreign": true}}),
            ),
            0,
        ),
        // It has ended.
        (info("succeeded", &json!({})), 0),
        (info("failed", &json!({})), 0),
        // It may go on: what can be compared is as it was, or nothing can be.
        (info("sleeping", &json!({})), 1),
        (
            info("running", &json!({"created_at": "2026-06-12 14:03"})),
            1,
        ),
        (json!({"state": "sleeping"}), 1),
        (json!([1, 2]), 1),
        // It is another one.
        (info("sleeping", &json!({"tool": "find_object"})), 0),
        (
            info(
                "sleeping",
                &json!({"created_at": "2026-06-12T15:00:00.000Z"}),
            ),
            0,
        ),
    ] {
        let world = World::new(task_ending(answer.clone())).await;

        let outcome = world.run(submission("a")).await;

        assert_eq!(code(&outcome), "REMOTE_PROTOCOL_ERROR", "{answer}");
        assert_eq!(tools(&world, "cancel_task"), cancels, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_task_info_of_the_called_tool_is_followed() {
    for (tool, answer) in [
        ("navigate_to", info("running", &json!({"tool": "another"}))),
        (
            "navigate_to",
            json!({"task_id": "nav-7f3a2b", "state": "running"}),
        ),
        ("get_task", info("running", &json!({"tool": "get_task"}))),
        (
            "cancel_task",
            info("running", &json!({"tool": "cancel_task"})),
        ),
    ] {
        let text = answer.to_string();
        let world = World::new(move |_| Reply::text(&text)).await;
        let mut submission = submission("a");
        submission.tool = tool.into();

        let outcome = world.run(submission).await;

        assert_eq!(outcome.phase, Phase::Completed, "{tool}: {answer}");
        assert_eq!(outcome.result.unwrap().text, answer.to_string());
        assert_eq!(world.row("a").await.remote, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_contract_handle_that_does_not_parse_is_cancelled_and_fails_the_action() {
    let broken = info("running", &json!({"created_at": "yesterday"}));
    for state in [
        json_reply(&broken),
        json_reply(&info("running", &json!({}))),
        Reply::text("no JSON"),
        Reply::Error(-32601, "no such method"),
        Reply::Error(-32602, "no such tool"),
    ] {
        let handle = json_reply(&broken);
        let get = state.clone();
        let world = World::new(move |call| match call.tool() {
            "navigate_to" => handle.clone(),
            "get_task" => get.clone(),
            "cancel_task" => json_reply(&json!({"task_id": "nav-7f3a2b", "state": "cancelled"})),
            _ => Reply::Silence,
        })
        .await;

        let outcome = world.run(submission("a")).await;

        assert_eq!(code(&outcome), "REMOTE_PROTOCOL_ERROR", "{state:?}");
        assert_eq!(tools(&world, "cancel_task"), 1, "{state:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_cancels_the_contract_task() {
    let world = World::new(|call| match call.tool() {
        "navigate_to" | "get_task" => json_reply(&info("running", &json!({}))),
        "cancel_task" => json_reply(&json!({"task_id": "nav-7f3a2b", "state": "cancelled"})),
        _ => Reply::Silence,
    })
    .await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(2).await;

    process.cancel_run(&submission("a").run).await.unwrap();
    process.idle().await.unwrap();

    let row = world.row("a").await;
    assert_eq!((row.phase, row.clean_up.asked), (Phase::Cancelled, 1));
    assert_eq!(row.remote.unwrap().status, "cancelled");
    assert_eq!(tools(&world, "cancel_task"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_push_makes_the_row_due_at_once_and_decides_nothing() {
    let end = info("succeeded", &json!({"result": {}}));
    let world = World::new(task_ending(end)).await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(3).await;
    let polls = tools(&world, "get_task");

    let woken = process
        .wake(&robot(), RemoteKind::Contract, "nav-7f3a2b")
        .await;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;

    assert_eq!(woken, Ok(1));
    assert_eq!(tools(&world, "get_task"), polls + 1);
    let stranger = process
        .wake(&robot(), RemoteKind::Contract, "nav-ffffff")
        .await;
    assert_eq!(stranger, Ok(0));
    let outcome = process.outcome(&id("a")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed);
}

//! Answers to a task that waits for input, on servers that do not take them.

use rvc_durable::store::AnswerOutcome;
use rvc_durable::{Durable, InputHandling, Outcome, Phase};
use rvc_wire::Map;
use serde_json::json;

use crate::peer::{Call, Reply};
use crate::world::{World, code, id, pass, submission};

fn asking() -> Reply {
    let requests = json!({"inputRequests": {"confirm": {
        "method": "elicitation/create",
        "params": {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}
    }}});
    Reply::state("t-1", "input_required", &requests)
}

fn answers() -> Map {
    let answers = json!({"confirm": {"action": "accept", "content": {}}});
    answers.as_object().cloned().unwrap()
}

/// A task that asks, and a server that answers the n-th update as `update` says. Once `until`
/// updates came in, the task completes.
fn task(
    until: usize,
    update: impl Fn(usize) -> Reply + Send + 'static,
) -> impl FnMut(&Call) -> Reply + Send + 'static {
    let mut updates = 0;
    move |call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" if updates >= until => Reply::completed("t-1", "there"),
        "tasks/get" => asking(),
        "tasks/update" => {
            updates += 1;
            update(updates)
        }
        _ => Reply::acknowledged(),
    }
}

/// A process whose action waits for input.
async fn waiting(world: &World) -> Durable {
    let process = world.process();
    let surfaced = submission("a").input(InputHandling::Surface);
    process.submit(surfaced).await.unwrap();
    pass(3).await;
    assert_eq!(world.row("a").await.phase, Phase::InputRequired);
    process
}

async fn answer(process: &Durable) {
    let stored = process.answer_input(&id("a"), answers()).await;
    assert_eq!(stored, Ok(AnswerOutcome::Stored));
}

async fn outcome(process: &Durable) -> Outcome {
    process.outcome(&id("a")).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_a_server_that_is_gone_lets_the_task_expire() {
    let world = World::new(task(usize::MAX, |_| Reply::acknowledged())).await;
    let process = waiting(&world).await;

    world.peer.set_down(true);
    world.peer.set_script(|_| Reply::HangUp);
    answer(&process).await;
    // It was to live for ten minutes.
    pass(900).await;

    assert_eq!(world.row("a").await.phase, Phase::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_takes_the_answer_is_polled_and_its_result_is_seen() {
    for error in [-32601, -32603] {
        let world = World::new(task(5, move |_| Reply::Error(error, "not today"))).await;
        let process = waiting(&world).await;
        answer(&process).await;

        let outcome = outcome(&process).await;

        assert_eq!(outcome.phase, Phase::Completed, "{error}");
        assert_eq!(world.peer.count("tasks/update"), 5, "{error}");
        assert!(world.peer.count("tasks/get") > 5, "a poll between two");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_never_taken_is_not_sent_more_often_than_the_task_is_polled() {
    let world = World::new(task(usize::MAX, |_| Reply::Error(-32603, "not today"))).await;
    let process = waiting(&world).await;

    answer(&process).await;
    pass(300).await;

    let updates = world.peer.count("tasks/update");
    assert!((5..=160).contains(&updates), "{updates} in five minutes");
    assert!(world.peer.count("tasks/get") >= updates);
}

#[tokio::test(start_paused = true)]
async fn a_refused_answer_is_asked_for_again_and_the_next_one_is_taken() {
    let world = World::new(task(2, |nth| match nth {
        1 => Reply::Error(-32602, "content is not what was asked for"),
        _ => Reply::acknowledged(),
    }))
    .await;
    let process = waiting(&world).await;
    let mut updates = process.updates();
    answer(&process).await;
    pass(5).await;

    let row = world.row("a").await;
    assert_eq!(row.phase, Phase::InputRequired);
    assert!(row.input_requests.contains_key("confirm"), "it still asks");
    let last = row.trouble.last.unwrap();
    assert!(last.contains("not what was asked for"), "{last}");
    assert_eq!(world.peer.count("tasks/update"), 1, "not the same again");
    answer(&process).await;
    assert_eq!(outcome(&process).await.phase, Phase::Completed);

    let mut asked = Vec::new();
    while let Ok(update) = updates.try_recv() {
        asked.extend(update.asks);
    }
    assert_eq!(asked, ["confirm"], "surfaced again");
    assert_eq!(world.peer.count("tasks/update"), 2);
}

#[tokio::test(start_paused = true)]
async fn refused_answers_never_make_a_task_missing() {
    let world = World::new(task(usize::MAX, |_| Reply::Error(-32602, "bad params"))).await;
    let process = waiting(&world).await;
    for _ in 0..7 {
        answer(&process).await;
        pass(5).await;
    }

    assert_eq!(world.row("a").await.phase, Phase::InputRequired);
    assert_eq!(world.peer.count("tasks/update"), 7);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_gone_when_it_is_answered_is_found_missing_by_polls() {
    let mut gone = false;
    let world = World::new(move |call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" if !gone => asking(),
        method => {
            gone |= method == "tasks/update";
            Reply::unknown_task()
        }
    })
    .await;
    let process = waiting(&world).await;
    answer(&process).await;

    let outcome = outcome(&process).await;

    assert_eq!(code(&outcome), "REMOTE_TASK_MISSING");
    assert_eq!(world.peer.count("tasks/update"), 1);
}

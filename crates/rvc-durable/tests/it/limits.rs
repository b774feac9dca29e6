//! Three clocks, and as many limits as a caller needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rvc_durable::plan::Settings;
use rvc_durable::remote::{BoxTransport, DialError, Dialer, Token};
use rvc_durable::store::{Store, StoreError};
use rvc_durable::{Durable, Phase, Registration, StartPolicy, SubmitError, SupervisorOptions};
use serde_json::json;
use tokio::time::Instant;

use crate::faulty::FaultyStore;
use crate::peer::{Call, Reply};
use crate::world::{World, code, id, pass, registration, submission};

fn working_for_ever(call: &Call) -> Reply {
    match call.method.as_str() {
        "tools/call" => Reply::handle(call.params["arguments"]["task"].as_str().unwrap_or("t-1")),
        "tasks/get" => {
            let id = call.params["taskId"].as_str().unwrap();
            Reply::state(id, "working", &json!({}))
        }
        "tasks/cancel" => Reply::acknowledged(),
        _ => Reply::Silence,
    }
}

#[tokio::test(start_paused = true)]
async fn the_execution_deadline_fails_the_action_and_cancels_the_remote_task() {
    let world = World::new(working_for_ever).await;
    let process = world.process();
    let begun = Instant::now();
    let submission = submission("a").execution_deadline(Duration::from_secs(10));
    process.submit(submission).await.unwrap();

    let outcome = process.outcome(&id("a")).await.unwrap();

    assert_eq!(code(&outcome), "EXECUTION_DEADLINE_EXCEEDED");
    assert!(begun.elapsed() < Duration::from_secs(13));
    pass(1).await;
    assert_eq!(world.peer.count("tasks/cancel"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_execution_deadline_also_ends_a_start_that_blocks() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::After(10_000, Box::new(Reply::text("late"))),
        _ => Reply::Silence,
    })
    .await;

    let submission = submission("a").execution_deadline(Duration::from_secs(300));
    let outcome = world.run(submission).await;

    assert_eq!(code(&outcome), "EXECUTION_DEADLINE_EXCEEDED");
    assert_eq!(world.peer.count("notifications/cancelled"), 1);
}

/// The way to a server takes this long.
struct Far(crate::peer::Peer, Duration);

impl Dialer for Far {
    fn dial<'a>(
        &'a self,
        registration: &'a Registration,
        token: Option<Token>,
    ) -> BoxFuture<'a, Result<BoxTransport, DialError>> {
        Box::pin(async {
            tokio::time::sleep(self.1).await;
            self.0.dial(registration, token).await
        })
    }
}

/// Submits an action with that deadline, and sees how it ends.
async fn nothing_is_sent_after_five_seconds(world: &World, process: &Durable) {
    process.supervise();
    let submission = submission("a").execution_deadline(Duration::from_secs(5));
    process.submit(submission).await.unwrap();

    let outcome = process.outcome(&id("a")).await.unwrap();

    assert_eq!(code(&outcome), "EXECUTION_DEADLINE_EXCEEDED");
    assert_eq!(world.peer.count("tools/call"), 0);
    assert_eq!(world.row("a").await.starts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_while_connecting_ends_the_action_and_nothing_is_sent() {
    let world = World::new(|_| Reply::text("late")).await;
    let way = Far(world.peer.clone(), Duration::from_secs(12));
    let process = Durable::new(world.store.clone(), way, SupervisorOptions::new());
    nothing_is_sent_after_five_seconds(&world, &process).await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_while_the_start_is_recorded_ends_the_action_and_nothing_is_sent() {
    let world = World::new(|_| Reply::text("late")).await;
    let begun = Instant::now();
    let store = FaultyStore::new(world.store.clone(), move |write| {
        let is_early = begun.elapsed() < Duration::from_secs(12);
        (is_early && write.row.phase == Phase::Sending).then(|| StoreError::Locked {
            detail: "by a test".into(),
        })
    });
    let process = Durable::new(store, world.peer.clone(), SupervisorOptions::new());
    nothing_is_sent_after_five_seconds(&world, &process).await;
}

#[tokio::test(start_paused = true)]
async fn any_number_of_steps_of_one_registration_is_a_limit_also_while_its_server_ails() {
    // The first of three gets no answer while the others go on.
    let world = World::new(|call| match call.nth {
        1 => Reply::Silence,
        _ => Reply::After(200, Box::new(Reply::text("there"))),
    })
    .await;
    let process = world.process_with(SupervisorOptions::new().concurrency(8, usize::MAX));
    for action in ["a", "b", "c"] {
        process.submit(submission(action)).await.unwrap();
    }

    let mut phases = Vec::new();
    for action in ["a", "b", "c"] {
        let action = id(action);
        let outcome = tokio::time::timeout(Duration::from_secs(1000), process.outcome(&action));
        phases.push(outcome.await.unwrap().unwrap().phase);
    }

    phases.sort_by_key(|phase| phase.as_str());
    assert_eq!(phases, [Phase::Completed, Phase::Completed, Phase::Unknown]);
}

#[tokio::test(start_paused = true)]
async fn progress_moves_the_start_timeout_on_and_silence_does_not() {
    // 200 s of progress, with a timeout of 60 s.
    let world = World::new(|_| Reply::After(200, Box::new(Reply::text("there")))).await;
    let outcome = world.run(submission("a")).await;
    assert_eq!(outcome.phase, Phase::Completed);

    let world = World::new(|_| Reply::Silence).await;
    let begun = Instant::now();
    let outcome = world.run(submission("a")).await;
    assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN");
    assert!(
        outcome.message.contains("no answer within 60s"),
        "{}",
        outcome.message
    );
    assert!(begun.elapsed() < Duration::from_secs(70));
    assert_eq!(world.peer.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn progress_without_end_ends_at_the_longest_start() {
    let world = World::new(|_| Reply::After(u32::MAX, Box::new(Reply::Silence))).await;
    let mut settings = Settings::default();
    settings.max_start_time = Duration::from_secs(500);
    let process = world.process_with(SupervisorOptions::new().settings(settings));
    process.submit(submission("a")).await.unwrap();

    let outcome = process.outcome(&id("a")).await.unwrap();

    assert_eq!(code(&outcome), "START_OUTCOME_UNKNOWN");
}

#[tokio::test(start_paused = true)]
async fn a_request_timeout_is_no_outcome_and_leaves_its_own_word() {
    let world = World::new(|call| match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle("t-1"),
        ("tasks/get", 1..=3) => Reply::Silence,
        _ => Reply::completed("t-1", "there"),
    })
    .await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(15).await;
    let row = world.row("a").await;
    assert_eq!(row.phase, Phase::Working);
    assert!(row.trouble.last.unwrap().contains("no answer within 10s"));

    let outcome = process.outcome(&id("a")).await.unwrap();

    assert_eq!(outcome.phase, Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_assumed_time_to_live_is_the_backstop_for_a_server_that_never_returns() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::Result(json!({
            "resultType": "task", "taskId": "t-1", "status": "working",
            "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": null
        })),
        _ => Reply::HangUp,
    })
    .await;

    let submission = submission("a").remote_task_ttl(Duration::from_secs(600));
    let outcome = world.run(submission).await;

    assert_eq!(code(&outcome), "REMOTE_TASK_EXPIRED");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_is_waited_for_and_nothing_is_lost() {
    let world = World::new(|_| Reply::text("there")).await;
    world.peer.set_down(true);
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(3600).await;
    let row = world.row("a").await;
    assert_eq!((row.phase, row.starts), (Phase::Intent, 0));

    world.peer.set_down(false);

    let outcome = process.outcome(&id("a")).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_does_not_slow_another_ones_tasks() {
    // 30 actions whose start never answers, and one on a healthy server.
    let world = World::new(|call| match call.tool() {
        "healthy" => Reply::text("there"),
        _ => Reply::Silence,
    })
    .await;
    let mut healthy = registration();
    healthy.id = "healthy".parse().unwrap();
    world.store.put_registration(healthy).await.unwrap();
    let process = world.process_with(SupervisorOptions::new().concurrency(12, 8));
    for n in 0..30 {
        process
            .submit(submission(&format!("dead{n}")))
            .await
            .unwrap();
    }
    pass(5).await;
    let mut quick = submission("quick");
    quick.registration = "healthy".parse().unwrap();
    quick.tool = "healthy".into();
    let begun = Instant::now();
    process.submit(quick).await.unwrap();

    let outcome = process.outcome(&id("quick")).await.unwrap();

    assert_eq!(outcome.phase, Phase::Completed);
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        world.peer.count("tools/call") <= 9,
        "eight of the dead one at once"
    );
}

#[tokio::test(start_paused = true)]
async fn many_dead_servers_leave_room_for_a_healthy_one() {
    let world = World::new(|call| match call.tool() {
        "healthy" => Reply::text("there"),
        _ => Reply::Silence,
    })
    .await;
    let process = world.process_with(SupervisorOptions::new().concurrency(24, 8));
    for n in 0..12 {
        let mut dead = registration();
        dead.id = format!("dead{n}").parse().unwrap();
        world.store.put_registration(dead.clone()).await.unwrap();
        for action in 0..4 {
            let mut submission = submission(&format!("dead{n}-{action}"));
            submission.policy = StartPolicy::IdempotentTool;
            submission.registration = dead.id.clone();
            process.submit(submission).await.unwrap();
        }
    }
    // Each has failed once.
    pass(70).await;
    let begun = Instant::now();
    let mut quick = submission("quick");
    quick.tool = "healthy".into();
    process.submit(quick).await.unwrap();

    process.outcome(&id("quick")).await.unwrap();

    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_result_over_the_cap_is_refused_at_the_start_and_at_a_poll() {
    let large = "x".repeat(5000);
    let (once, later) = (large.clone(), large);
    let mut settings = Settings::default();
    settings.max_result_bytes = 4000;
    for (name, script) in [
        (
            "start",
            Box::new(move |_: &Call| Reply::text(&once)) as Box<dyn FnMut(&Call) -> Reply + Send>,
        ),
        (
            "poll",
            Box::new(move |call: &Call| match call.method.as_str() {
                "tools/call" => Reply::handle("t-1"),
                _ => Reply::completed("t-1", &later),
            }),
        ),
    ] {
        let world = World::new(script).await;
        let options = SupervisorOptions::new().settings(settings.clone());
        let process = world.process_with(options);
        process.submit(submission("a")).await.unwrap();

        let outcome = process.outcome(&id("a")).await.unwrap();

        assert_eq!(code(&outcome), "RESULT_TOO_LARGE", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_action_with_other_arguments_is_refused_and_nothing_is_sent() {
    let world = World::new(|_| Reply::text("there")).await;
    let host = world.host();
    host.submit(submission("a")).await.unwrap();

    let refused = host
        .submit(submission("a").policy(StartPolicy::IdempotentTool))
        .await;

    assert_eq!(refused, Err(SubmitError::Different { action: id("a") }));
    assert_eq!(world.peer.count("tools/call"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_does_not_parse_is_cancelled_and_fails_the_action() {
    for ttl in [json!(-5), json!(1.5), json!("soon")] {
        let handle = json!({
            "resultType": "task", "taskId": "t-1", "status": "working",
            "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": ttl
        });
        let world = World::new(move |call| match call.method.as_str() {
            "tools/call" => Reply::Result(handle.clone()),
            "tasks/get" => Reply::state("t-1", "cancelled", &json!({})),
            _ => Reply::acknowledged(),
        })
        .await;

        let outcome = world.run(submission("a")).await;

        assert_eq!(code(&outcome), "REMOTE_PROTOCOL_ERROR", "{ttl}");
        let cancels = world.peer.calls("tasks/cancel");
        assert_eq!(cancels.len(), 1, "{ttl}");
        assert_eq!(cancels[0].params["taskId"], "t-1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_interval_of_zero_or_ten_years_is_clamped() {
    for (interval, polls) in [(0_u64, 15..=25), (10 * 365 * 86_400_000, 0..=1)] {
        let with = json!({"pollIntervalMs": interval});
        let handle = json!({"resultType": "task", "pollIntervalMs": interval});
        let world = World::new(move |call| match call.method.as_str() {
            "tools/call" => Reply::state("t-1", "working", &handle),
            _ => Reply::state("t-1", "working", &with),
        })
        .await;
        let process = world.process();
        process.submit(submission("a")).await.unwrap();

        pass(10).await;

        let count = world.peer.count("tasks/get");
        assert!(
            polls.contains(&count),
            "{interval} ms: {count} polls in 10 s"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_during_a_start_that_blocks_tells_the_server() {
    let world = World::new(|_| Reply::Silence).await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(5).await;

    process.cancel_action(&id("a")).await.unwrap();
    process.idle().await.unwrap();

    assert_eq!(world.row("a").await.phase, Phase::Cancelled);
    assert_eq!(world.peer.count("notifications/cancelled"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_update_takes_effect_at_the_next_step() {
    let world = World::new(working_for_ever).await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(3).await;
    let dials = world.peer.dials();

    let mut moved = registration();
    moved.endpoint = "http://elsewhere/mcp".parse().unwrap();
    process.put_registration(moved).await.unwrap();
    pass(3).await;

    assert_eq!(world.peer.dials(), dials + 1);
}

#[tokio::test(start_paused = true)]
async fn progress_is_news_for_whoever_watches() {
    let world = World::new(|call| match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle("t-1"),
        ("tasks/get", n) if n < 4 => {
            let message = json!({"statusMessage": format!("{n}0 %")});
            Reply::state("t-1", "working", &message)
        }
        _ => Reply::completed("t-1", "there"),
    })
    .await;
    let process = world.process();
    let mut updates = process.updates();
    process.submit(submission("a")).await.unwrap();
    process.outcome(&id("a")).await.unwrap();

    let mut seen = Vec::new();
    while let Ok(update) = updates.try_recv() {
        seen.extend(update.progress);
    }

    assert_eq!(seen, ["10 %", "20 %", "30 %", "30 %"]);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_the_store_cannot_record_is_not_sent_until_it_can() {
    let detail = String::from("by a test");
    for error in [
        StoreError::Full {
            detail: detail.clone(),
        },
        StoreError::ReadOnly {
            detail: detail.clone(),
        },
        StoreError::Locked {
            detail: detail.clone(),
        },
        StoreError::Corrupt { detail },
    ] {
        let world = World::new(|_| Reply::text("there")).await;
        let broken = Arc::new(AtomicBool::new(true));
        let (breaks, refusal) = (broken.clone(), error.clone());
        let store = FaultyStore::new(world.store.clone(), move |_| {
            breaks.load(Ordering::SeqCst).then(|| refusal.clone())
        });
        let process = Durable::new(store, world.peer.clone(), SupervisorOptions::new());
        process.supervise();
        process.submit(submission("a")).await.unwrap();
        pass(600).await;
        let row = world.row("a").await;
        assert_eq!((row.phase, row.starts), (Phase::Intent, 0), "{error}");
        assert_eq!(world.peer.count("tools/call"), 0, "{error}");

        broken.store(false, Ordering::SeqCst);

        let outcome = process.outcome(&id("a")).await.unwrap();
        assert_eq!(outcome.phase, Phase::Completed, "{error}");
        assert_eq!(world.peer.count("tools/call"), 1, "{error}");
    }
}

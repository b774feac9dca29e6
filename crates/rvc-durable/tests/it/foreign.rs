//! A host that keeps its runs and actions elsewhere.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rvc_durable::plan::RunState;
use rvc_durable::{
    ActionId, ActionState, Delivery, DurableStep, ForeignHost, HostError, OwnerId, Phase,
    Registration, RegistrationId, RunId, SupervisorOptions,
};
use serde_json::json;

use crate::peer::{Call, Reply};
use crate::world::{CrashAt, World, id, pass, registration, submission};

/// Who may use the server.
#[derive(Clone, Copy, Default)]
enum Access {
    #[default]
    Everybody,
    Nobody,
    /// It cannot say.
    Unknown,
}

#[derive(Default)]
struct Inner {
    cancelled: bool,
    away: bool,
    access: Access,
    /// What each of its answers takes.
    takes: Duration,
    delivered: HashMap<ActionId, Delivery>,
    deliveries: usize,
    finished: HashMap<ActionId, ActionState>,
}

#[derive(Clone, Default)]
struct Host(Arc<Mutex<Inner>>);

impl Host {
    /// How many deliveries there were, and what became of an action.
    fn told(&self, action: &str) -> (usize, Option<ActionState>) {
        let inner = self.0.lock().unwrap();
        (inner.deliveries, inner.finished.get(&id(action)).copied())
    }

    fn answer<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&mut Inner) -> T,
    ) -> BoxFuture<'_, Result<T, HostError>> {
        let mut inner = self.0.lock().unwrap();
        let answer = if inner.away {
            Err(HostError {
                reason: "away".into(),
            })
        } else {
            Ok(answer(&mut inner))
        };
        let takes = inner.takes;
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            answer
        })
    }
}

impl ForeignHost for Host {
    fn run_state(&self, _: RunId) -> BoxFuture<'_, Result<RunState, HostError>> {
        self.answer(|inner| {
            if inner.cancelled {
                RunState::Cancelled
            } else {
                RunState::Active
            }
        })
    }

    fn was_delivered(&self, action: ActionId) -> BoxFuture<'_, Result<bool, HostError>> {
        self.answer(|inner| inner.delivered.contains_key(&action))
    }

    fn deliver(&self, delivery: Delivery) -> BoxFuture<'_, Result<(), HostError>> {
        self.answer(|inner| {
            inner.deliveries += 1;
            inner.delivered.insert(delivery.action.clone(), delivery);
        })
    }

    fn finish(&self, action: ActionId, state: ActionState) -> BoxFuture<'_, Result<(), HostError>> {
        self.answer(|inner| {
            inner.finished.entry(action).or_insert(state);
        })
    }

    fn authorise(
        &self,
        _: RegistrationId,
        _: OwnerId,
    ) -> BoxFuture<'_, Result<Option<Registration>, HostError>> {
        let access = self.0.lock().unwrap().access;
        if matches!(access, Access::Unknown) {
            let reason = "the directory is away".into();
            return Box::pin(std::future::ready(Err(HostError { reason })));
        }
        self.answer(move |_| matches!(access, Access::Everybody).then(registration))
    }
}

fn script(call: &Call) -> Reply {
    match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle("t-1"),
        ("tasks/get", 1 | 2) => Reply::state("t-1", "working", &json!({})),
        ("tasks/get", _) => Reply::completed("t-1", "there"),
        _ => Reply::acknowledged(),
    }
}

fn options(host: &Host) -> SupervisorOptions {
    SupervisorOptions::new().host(Arc::new(host.clone()))
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_delivered_once_and_the_action_is_finished() {
    let world = World::new(script).await;
    let host = Host::default();
    let process = world.process_with(options(&host));
    process
        .submit(submission("a").tool_call_id("c-1"))
        .await
        .unwrap();

    process.idle().await.unwrap();

    let inner = host.0.lock().unwrap();
    assert_eq!(inner.deliveries, 1);
    let delivery = &inner.delivered[&id("a")];
    assert_eq!(delivery.tool_call_id.as_deref(), Some("c-1"));
    assert_eq!(delivery.outcome.result.as_ref().unwrap().text, "there");
    assert_eq!(inner.finished[&id("a")], ActionState::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_crash_around_the_delivery_repeats_nothing_that_the_host_has() {
    for step in [
        DurableStep::OutcomeCommitted,
        DurableStep::Delivered,
        DurableStep::DeliveryCommitted,
    ] {
        let world = World::new(script).await;
        let host = Host::default();
        let crash = Arc::new(CrashAt::new(step));
        let first = world.process_with(options(&host).checkpoint(crash.clone()));
        first.submit(submission("a")).await.unwrap();
        crash.wait().await;
        drop(first);

        let second = world.process_with(options(&host));
        second.idle().await.unwrap();

        let (deliveries, finished) = host.told("a");
        assert_eq!(deliveries, 1, "{step}");
        assert_eq!(finished, Some(ActionState::Completed), "{step}");
        assert_eq!(world.row("a").await.phase, Phase::Completed, "{step}");
    }
}

/// A world in which the outcome of an action is known, and its host was not told.
async fn accepted(host: &Host) -> World {
    let world = World::new(script).await;
    let crash = Arc::new(CrashAt::new(DurableStep::OutcomeCommitted));
    let first = world.process_with(options(host).checkpoint(crash.clone()));
    first.submit(submission("a")).await.unwrap();
    crash.wait().await;
    drop(first);
    assert_eq!(world.row("a").await.phase, Phase::Accepted);
    world
}

#[tokio::test(start_paused = true)]
async fn a_known_outcome_is_delivered_also_where_nobody_can_say_who_may_use_the_server() {
    let host = Host::default();
    let world = accepted(&host).await;
    host.0.lock().unwrap().access = Access::Unknown;

    let second = world.process_with(options(&host));
    tokio::time::timeout(Duration::from_secs(60), second.idle())
        .await
        .unwrap()
        .unwrap();

    assert_eq!(host.told("a"), (1, Some(ActionState::Completed)));
}

#[tokio::test(start_paused = true)]
async fn a_host_slower_than_the_lease_is_waited_for_under_it() {
    let world = World::new(script).await;
    let host = Host::default();
    host.0.lock().unwrap().takes = Duration::from_secs(2);
    let lease = Duration::from_secs(1);
    let first = world.process_with(options(&host).lease(lease));
    let _second = world.process_with(options(&host).lease(lease));
    first.submit(submission("a")).await.unwrap();

    tokio::time::timeout(Duration::from_secs(300), first.idle())
        .await
        .unwrap()
        .unwrap();

    assert_eq!(host.told("a"), (1, Some(ActionState::Completed)));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_may_still_be_suppressed_is_told_to_nobody() {
    let host = Host::default();
    let world = accepted(&host).await;
    host.0.lock().unwrap().away = true;
    let second = world.process_with(options(&host));
    let action = id("a");
    let waiting = tokio::time::timeout(Duration::from_secs(60), second.outcome(&action));
    waiting.await.expect_err("it is not final");

    host.0.lock().unwrap().cancelled = true;
    host.0.lock().unwrap().away = false;

    let outcome = second.outcome(&action).await.unwrap();
    assert_eq!(outcome.phase, Phase::Cancelled);
    assert_eq!(second.outcome(&action).await, Ok(outcome), "nor changes it");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_waits_for_a_host_that_is_away() {
    let world = World::new(script).await;
    let host = Host::default();
    let crash = Arc::new(CrashAt::new(DurableStep::OutcomeCommitted));
    let first = world.process_with(options(&host).checkpoint(crash.clone()));
    first.submit(submission("a")).await.unwrap();
    crash.wait().await;
    drop(first);
    host.0.lock().unwrap().away = true;
    let second = world.process_with(options(&host));
    pass(600).await;
    assert_eq!(world.row("a").await.phase, Phase::Accepted);

    host.0.lock().unwrap().away = false;
    second.idle().await.unwrap();

    assert_eq!(world.row("a").await.phase, Phase::Completed);
    assert_eq!(host.0.lock().unwrap().deliveries, 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_the_host_cancelled_gets_no_result_and_its_task_is_cancelled() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" if call.nth > 5 => Reply::state("t-1", "cancelled", &json!({})),
        "tasks/get" => Reply::state("t-1", "working", &json!({})),
        _ => Reply::acknowledged(),
    })
    .await;
    let host = Host::default();
    let process = world.process_with(options(&host));
    process.submit(submission("a")).await.unwrap();
    pass(2).await;

    host.0.lock().unwrap().cancelled = true;
    process.idle().await.unwrap();

    assert_eq!(world.row("a").await.phase, Phase::Cancelled);
    assert_eq!(world.peer.count("tasks/cancel"), 1);
    assert_eq!(host.0.lock().unwrap().deliveries, 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_between_the_outcome_and_its_delivery_suppresses_it() {
    let world = World::new(script).await;
    let host = Host::default();
    let crash = Arc::new(CrashAt::new(DurableStep::OutcomeCommitted));
    let first = world.process_with(options(&host).checkpoint(crash.clone()));
    first.submit(submission("a")).await.unwrap();
    crash.wait().await;
    drop(first);
    host.0.lock().unwrap().cancelled = true;

    let second = world.process_with(options(&host));
    second.idle().await.unwrap();

    let row = world.row("a").await;
    assert_eq!(row.phase, Phase::Cancelled);
    assert_eq!(row.outcome.unwrap().result, None);
    assert_eq!(host.0.lock().unwrap().deliveries, 0);
}

#[tokio::test(start_paused = true)]
async fn a_suppressed_outcome_leaves_the_remote_task_to_be_cancelled() {
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" => Reply::state("t-1", "working", &json!({})),
        _ => Reply::acknowledged(),
    })
    .await;
    let host = Host::default();
    let crash = Arc::new(CrashAt::new(DurableStep::OutcomeCommitted));
    let first = world.process_with(options(&host).checkpoint(crash.clone()));
    let patience = Duration::from_secs(5);
    first
        .submit(submission("a").execution_deadline(patience))
        .await
        .unwrap();
    crash.wait().await;
    drop(first);
    assert_eq!(world.row("a").await.phase, Phase::Accepted);
    host.0.lock().unwrap().cancelled = true;

    let second = world.process_with(options(&host));
    second.idle().await.unwrap();

    let row = world.row("a").await;
    assert_eq!(row.phase, Phase::Cancelled);
    assert!(row.clean_up.acknowledged_at.is_some(), "{:?}", row.clean_up);
    assert_eq!(host.0.lock().unwrap().deliveries, 0);
}

#[tokio::test(start_paused = true)]
async fn an_owner_who_lost_the_registration_gets_a_failure_and_nothing_is_sent() {
    let world = World::new(script).await;
    let host = Host::default();
    let process = world.process_with(options(&host));
    process.submit(submission("a")).await.unwrap();
    pass(1).await;
    let polls = world.peer.count("tasks/get");

    host.0.lock().unwrap().access = Access::Nobody;
    process.idle().await.unwrap();

    assert_eq!(world.peer.count("tasks/get"), polls);
    assert_eq!(world.peer.count("tasks/cancel"), 0);
    let inner = host.0.lock().unwrap();
    assert_eq!(inner.finished[&id("a")], ActionState::Failed);
    let outcome = &inner.delivered[&id("a")].outcome;
    assert_eq!(
        outcome.error_code.as_ref().unwrap().as_str(),
        "REGISTRATION_REVOKED"
    );
}

//! What an operator sees.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{KeyName, SharedString, Unit};
use rvc_durable::DurableStep;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::peer::Reply;
use crate::world::{World, code, id, pass, submission};

type Fields = BTreeMap<String, String>;

/// Collects events by message.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(String, tracing::Level, Fields)>>>);

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}"));
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        let message = fields.remove("message").unwrap_or_default();
        self.0
            .lock()
            .unwrap()
            .push((message, *event.metadata().level(), fields));
    }
}

impl Log {
    /// The named events, in order.
    fn names(&self) -> Vec<String> {
        let log = self.0.lock().unwrap();
        let names = log.iter().map(|(message, ..)| message.clone());
        names.filter(|name| name.starts_with("MCP_TASK_")).collect()
    }

    fn fields(&self, name: &str) -> Fields {
        let log = self.0.lock().unwrap();
        let found = log.iter().find(|(message, ..)| message == name);
        found.unwrap_or_else(|| panic!("no {name}")).2.clone()
    }

    /// Asserts that an event says whose it is, and shows of the remote id a hash.
    fn names_the_action(&self, name: &str) {
        let fields = self.fields(name);
        for (field, value) in [
            ("run_id", "a"),
            ("action_id", "a"),
            ("registration_id", "robot"),
            ("tool_call_id", "call-7"),
            ("provider_name", "acme"),
        ] {
            assert_eq!(fields[field], value, "{name}");
        }
        assert_eq!(fields["remote_task_id"].len(), 12, "{name}");
    }

    fn everything_from_info_up(&self) -> String {
        let log = self.0.lock().unwrap();
        let shown = log
            .iter()
            .filter(|(_, level, _)| *level <= tracing::Level::INFO);
        shown
            .map(|(message, _, fields)| format!("{message} {fields:?}\n"))
            .collect::<Vec<_>>()
            .concat()
    }
}

/// Counters and gauges by name and labels.
#[derive(Clone, Default)]
struct Metrics(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Metrics {
    fn cell(&self, key: &metrics::Key) -> Arc<AtomicU64> {
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        let mut cells = self.0.lock().unwrap();
        cells.entry(name.trim().to_owned()).or_default().clone()
    }

    fn counter(&self, name: &str) -> u64 {
        self.0.lock().unwrap()[name].load(Ordering::Relaxed)
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.counter(name))
    }
}

impl metrics::Recorder for Metrics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(
        &self,
        _: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn rows_lag_and_unknown_starts_are_counted() {
    let seen = Metrics::default();
    let _guard = metrics::set_default_local_recorder(&seen);
    let world = World::new(|call| match (call.method.as_str(), call.nth) {
        ("tools/call", 1) => Reply::HangUp,
        ("tools/call", _) => Reply::handle("t-1"),
        _ => Reply::state("t-1", "working", &json!({})),
    })
    .await;
    let process = world.process();
    process.submit(submission("lost")).await.unwrap();
    process.outcome(&id("lost")).await.unwrap();
    process.submit(submission("b")).await.unwrap();
    pass(60).await;

    assert_eq!(seen.counter("rvc_durable_starts_unknown_total"), 1);
    assert_eq!(seen.counter("rvc_durable_outcomes_total unknown"), 1);
    assert!(seen.counter("rvc_durable_steps_total poll") > 10);
    let gauges = [
        "rvc_durable_rows working",
        "rvc_durable_rows unknown",
        "rvc_durable_open_rows",
    ];
    for gauge in gauges {
        assert!((seen.gauge(gauge) - 1.0).abs() < f64::EPSILON, "{gauge}");
    }
    assert!(seen.gauge("rvc_durable_due_lag_seconds") < 2.0);
    assert!(seen.gauge("rvc_durable_cancels_unacknowledged") < 1.0);
}

#[tokio::test(start_paused = true)]
async fn each_cancel_of_the_host_is_counted_once() {
    let seen = Metrics::default();
    let _guard = metrics::set_default_local_recorder(&seen);
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" if call.nth == 1 => Reply::Silence,
        "tools/call" => Reply::handle("t-1"),
        "tasks/get" => Reply::state("t-1", "working", &json!({})),
        _ => Reply::acknowledged(),
    })
    .await;
    let process = world.process();
    // On its way, working, and never sent.
    for action in ["sending", "working"] {
        process.submit(submission(action)).await.unwrap();
        pass(2).await;
    }
    process.submit(submission("intent")).await.unwrap();
    for action in ["sending", "working"] {
        for _ in 0..2 {
            process.cancel_action(&id(action)).await.unwrap();
        }
    }
    let run = submission("intent").run;
    process.cancel_run(&run).await.unwrap();
    process.cancel_run(&run).await.unwrap();
    pass(300).await;

    assert_eq!(seen.counter("rvc_durable_outcomes_total cancelled"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_leaves_a_start_unanswered_is_an_error_and_an_unknown_start() {
    for dies in [false, true] {
        let seen = Metrics::default();
        let _guard = metrics::set_default_local_recorder(&seen);
        let log = Log::default();
        let registry = tracing_subscriber::registry().with(log.clone());
        let _default = tracing::subscriber::set_default(registry);
        let world = World::new(|_| Reply::Silence).await;
        let mut submission = submission("a");
        submission.execution_deadline = Some(Duration::from_secs(5));
        if dies {
            let (first, crash) = world.crashing_at(DurableStep::SendingCommitted);
            first.submit(submission).await.unwrap();
            crash.wait().await;
        } else {
            world.host().submit(submission).await.unwrap();
        }

        let process = world.process();
        let outcome = process.outcome(&id("a")).await.unwrap();

        assert_eq!(code(&outcome), "EXECUTION_DEADLINE_EXCEEDED");
        assert!(outcome.message.contains("may have run"), "{outcome:?}");
        assert_eq!(
            log.fields("remote work may go on unwatched")["action_id"],
            "a"
        );
        assert_eq!(seen.counter("rvc_durable_starts_unknown_total"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn no_step_is_in_hand_after_close() {
    let seen = Metrics::default();
    let _guard = metrics::set_default_local_recorder(&seen);
    let world = World::new(|_| Reply::After(5, Box::new(Reply::text("there")))).await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(1).await;
    let in_hand = || seen.gauge("rvc_durable_steps_in_hand");
    assert!((in_hand() - 1.0).abs() < f64::EPSILON);

    process.close().await;

    assert!(in_hand().abs() < f64::EPSILON, "{}", in_hand());
}

const ID: &str = "a-secret-task-id";

#[tokio::test(start_paused = true)]
async fn each_event_of_a_life_has_its_name_and_all_its_fields_and_no_remote_id() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let world = World::new(|call| match (call.method.as_str(), call.nth) {
        ("tools/call", _) => Reply::handle(ID),
        ("tasks/get", n) if n < 4 => Reply::state(ID, "working", &json!({})),
        _ => Reply::completed(ID, "there"),
    })
    .await;
    let submission = submission("a").tool_call_id("call-7").provider("acme");
    let (first, crash) = world.crashing_at(DurableStep::PollAnswered);
    first.submit(submission).await.unwrap();
    crash.wait().await;
    drop(first);

    let second = world.process();
    second.outcome(&id("a")).await.unwrap();

    assert_eq!(
        log.names(),
        [
            "MCP_TASK_CREATED",
            "MCP_TASK_WORKING",
            "MCP_TASK_RECOVERED",
            "MCP_TASK_COMPLETED"
        ]
    );
    for name in log.names() {
        log.names_the_action(&name);
    }
    let shown = log.everything_from_info_up();
    assert!(!shown.contains(ID), "{shown}");
}

/// A server whose task answers as `reply` says, for ever.
fn answering(reply: Reply) -> impl FnMut(&crate::peer::Call) -> Reply + Send + 'static {
    move |call| match call.method.as_str() {
        "tools/call" => Reply::handle(ID),
        "tasks/get" => reply.clone(),
        _ => Reply::acknowledged(),
    }
}

/// Every name that there is, each from a life that has it, with all its fields.
#[tokio::test(start_paused = true)]
async fn every_name_is_logged_with_all_its_fields_and_no_remote_id() {
    let requests = json!({"inputRequests": {"k": {"method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}}});
    let asking = Reply::state(ID, "input_required", &requests);
    let failed = json!({"error": {"code": -32603, "message": "no door"}});
    let lives: [(Reply, &[&str]); 6] = [
        (
            Reply::completed(ID, "there"),
            &["MCP_TASK_CREATED", "MCP_TASK_WORKING", "MCP_TASK_COMPLETED"],
        ),
        (Reply::state(ID, "failed", &failed), &["MCP_TASK_FAILED"]),
        (Reply::unknown_task(), &["MCP_TASK_FAILED"]),
        (
            Reply::state(ID, "cancelled", &json!({})),
            &["MCP_TASK_CANCELLED"],
        ),
        (
            asking,
            &[
                "MCP_TASK_INPUT_REQUIRED",
                "MCP_TASK_CANCELLED",
                "MCP_TASK_CANCEL_REQUESTED",
            ],
        ),
        // It was to live for ten minutes, and the process that comes back finds it expired.
        (
            Reply::unknown_task(),
            &["MCP_TASK_RECOVERED", "MCP_TASK_EXPIRED"],
        ),
    ];
    for (reply, expected) in lives {
        let log = Log::default();
        let _guard =
            tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
        let submission = submission("a")
            .tool_call_id("call-7")
            .provider("acme")
            .input(rvc_durable::InputHandling::Surface);
        let world = World::new(answering(reply)).await;
        if expected.contains(&"MCP_TASK_EXPIRED") {
            let (first, crash) = world.crashing_at(DurableStep::PollAnswered);
            first.submit(submission).await.unwrap();
            crash.wait().await;
            drop(first);
            pass(601).await;
            let second = world.process();
            second.outcome(&id("a")).await.unwrap();
        } else {
            let process = world.process();
            process.submit(submission).await.unwrap();
            pass(30).await;
            process.cancel_action(&id("a")).await.unwrap();
            process.idle().await.unwrap();
        }

        for name in expected {
            assert!(
                log.names().contains(&(*name).to_owned()),
                "no {name} in {:?}",
                log.names()
            );
            log.names_the_action(name);
        }
        if expected.contains(&"MCP_TASK_EXPIRED") {
            let fields = log.fields("MCP_TASK_EXPIRED");
            assert_eq!(fields["error_code"], "REMOTE_TASK_EXPIRED");
            assert!(!fields["reason"].is_empty());
        }
        let shown = log.everything_from_info_up();
        assert!(!shown.contains(ID), "{shown}");
    }
}

/// What servers say of a task often has its id in it.
#[tokio::test(start_paused = true)]
async fn a_servers_text_does_not_bring_the_remote_id_into_the_log() {
    let handle = json!({"resultType": "task", "taskId": ID, "status": "working",
        "createdAt": "t0", "lastUpdatedAt": "t0", "ttlMs": -5});
    let failed = json!({"error": {"code": ID, "message": format!("{ID} hit a wall")}});
    for (handle, state) in [
        (
            Reply::handle(ID),
            Reply::Error(-32602, "Task a-secret-task-id not found"),
        ),
        (Reply::handle(ID), Reply::state(ID, "failed", &failed)),
        (Reply::handle(ID), Reply::state(ID, "asleep", &json!({}))),
        (
            Reply::Result(handle),
            Reply::state(ID, "working", &json!({})),
        ),
    ] {
        let log = Log::default();
        let _guard =
            tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
        let world = World::new(move |call| match call.method.as_str() {
            "tools/call" => handle.clone(),
            "tasks/get" => state.clone(),
            _ => Reply::acknowledged(),
        })
        .await;

        let outcome = world.run(submission("a")).await;

        let reason = &log.fields("MCP_TASK_FAILED")["reason"];
        assert!(!reason.is_empty());
        let shown = log.everything_from_info_up();
        assert!(!shown.contains(ID), "{shown}");
        assert_eq!(outcome.phase, rvc_durable::Phase::Failed);
    }
}

#[tokio::test(start_paused = true)]
async fn remote_work_that_nobody_will_watch_is_an_error() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let world = World::new(|call| match call.method.as_str() {
        "tools/call" => Reply::handle(ID),
        _ => Reply::state(ID, "working", &json!({})),
    })
    .await;
    let process = world.process();
    process.submit(submission("a")).await.unwrap();
    pass(2).await;

    process
        .enable_registration(&crate::world::robot(), false)
        .await
        .unwrap();
    process.idle().await.unwrap();

    let fields = log.fields("remote work may go on unwatched");
    assert_eq!(fields["action_id"], "a");
    assert_eq!(fields["remote_task_id"].len(), 12);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_close_gives_up_is_a_warning_that_names_the_action() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let world = World::new(|_| Reply::Silence).await;
    let process = world.process();
    process
        .submit(submission("a").tool_call_id("c-1"))
        .await
        .unwrap();
    pass(1).await;

    process.close().await;

    let fields = log.fields("a start is given up before its answer came; the tool may go on");
    assert_eq!(fields["action_id"], "a");
    assert_eq!(fields["registration_id"], "robot");
    assert_eq!(fields["tool_call_id"], "c-1");
    assert_eq!(fields["policy"], "at_most_once");
    assert_eq!(log.fields("the steps in hand are given up")["steps"], "1");
    assert!(log.names().contains(&"MCP_TASK_FAILED".to_owned()));
}

use rvc_tasks::{CallScope, Caller, LogContext, TaskError, TaskManager, TaskSpec, payload};
use rvc_test::{LogLine, Logs};
use tokio::time::sleep;
use tracing::Level;

use crate::support::{SECOND, end, navigation, settle};

fn spec() -> TaskSpec {
    TaskSpec::new("navigate_to").log_context(LogContext {
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        request_id: Some("r1".into()),
        turn_id: Some("t2".into()),
        mission_id: Some("m".repeat(10_000)),
    })
}

fn line<'a>(lines: &'a [LogLine], message: &str) -> &'a LogLine {
    lines
        .iter()
        .find(|line| line.message == message)
        .unwrap_or_else(|| panic!("{message:?} is not in {lines:#?}"))
}

#[tokio::test(start_paused = true)]
async fn every_line_of_a_task_says_whose_it_is() {
    let logs = Logs::capture();
    let (manager, _) = navigation();
    let task = manager
        .start(spec(), async |_| {
            tracing::debug!("a line of the body's own");
            sleep(2 * SECOND).await;
            Ok(payload! {})
        })
        .unwrap()
        .task_id;
    end(&manager, &task).await;

    let lines = logs.lines();
    for message in ["task started", "a line of the body's own", "task ended"] {
        let line = line(&lines, message);
        for (field, value) in [
            ("server", "navigation"),
            ("task_id", task.as_str()),
            ("tool", "navigate_to"),
            (
                "traceparent",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            ),
            ("request_id", "r1"),
            ("turn_id", "t2"),
        ] {
            assert_eq!(line.field(field), Some(value), "{line:?}");
        }
        assert!(line.field("mission_id").unwrap().len() < 300, "it is cut");
    }
    let ended = line(&lines, "task ended");
    assert_eq!(ended.field("duration_ms"), Some("2000"));
    assert_eq!(ended.field("state"), Some("succeeded"));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_logged_when_it_is_accepted_and_an_error_after_it_is_no_news() {
    async fn cancelled(manager: &TaskManager) {
        let mode = crate::support::COOPERATIVE;
        let task = manager
            .start(spec().cancel_mode(mode), async |task| {
                task.cancelled().await;
                Err(TaskError::from(task.check_cancelled().unwrap_err()))
            })
            .unwrap()
            .task_id;
        settle().await;
        manager.cancel(&task).await;
    }

    let logs = Logs::capture();
    let (manager, _) = navigation();
    cancelled(&manager).await;

    let lines = logs.at(Level::INFO);
    let messages: Vec<_> = lines.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(messages, ["task started", "cancel accepted", "task ended"]);
    assert_eq!(lines[2].field("state"), Some("cancelled"));
    assert_eq!(lines[2].field("stopped"), Some("true"));
    assert!(logs.at(Level::WARN).is_empty());
    assert!(logs.at(Level::ERROR).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_task_is_no_child_of_the_call_that_starts_it() {
    let logs = Logs::capture();
    let (manager, _) = navigation();
    let call = tracing::info_span!("call", call = 1);
    let task = call
        .in_scope(|| manager.start(spec(), async |_| Ok(payload! {})))
        .unwrap()
        .task_id;
    end(&manager, &task).await;
    assert_eq!(line(&logs.lines(), "task ended").field("call"), None);
}

#[tokio::test(start_paused = true)]
async fn a_calls_scope_says_what_its_tool_does_not() {
    let logs = Logs::capture();
    let (manager, _) = navigation();
    let scope = CallScope::new(Caller::Listens).log_context(LogContext {
        request_id: Some("the call's".into()),
        turn_id: Some("the call's".into()),
        ..LogContext::default()
    });
    let spec = TaskSpec::new("navigate_to").log_context(LogContext {
        request_id: Some("the tool's".into()),
        ..LogContext::default()
    });
    let start = async { manager.start(spec, async |_| Ok(payload! {})) };
    let task = scope.run(start).await.unwrap().task_id;
    end(&manager, &task).await;

    let lines = logs.lines();
    let started = line(&lines, "task started");
    assert_eq!(started.field("request_id"), Some("the tool's"));
    assert_eq!(started.field("turn_id"), Some("the call's"));
    assert_eq!(started.field("mission_id"), None);
}

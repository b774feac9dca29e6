use rvc_poster::OutgoingEvent;
use rvc_test::{Logs, Reply, ScriptedEndpoint};
use rvc_wire::EventType;
use tracing::Level;

use crate::support::{builder, poster, progress, seconds, task_event};

#[tokio::test(start_paused = true)]
async fn every_attempt_is_logged_in_the_events_own_span() {
    let logs = Logs::capture();
    let endpoint =
        ScriptedEndpoint::answering([Reply::status(401).body("{\"reason\":\"mismatch\"}")]);
    let poster = poster(&endpoint);
    let span = tracing::info_span!("task", traceparent = "00-abc-def-01");
    let event = task_event("nav-1", 1, EventType::Progress);
    poster.post(OutgoingEvent::new(&event, event.to_json().into(), span));
    poster.close(seconds(5.0)).await;

    let failed = &logs.at(Level::WARN)[0];
    let debug = logs.at(Level::DEBUG);
    let acknowledged = debug
        .iter()
        .find(|line| line.message == "event acknowledged")
        .unwrap();
    for (line, attempt) in [(failed, "1"), (acknowledged, "2")] {
        for (field, value) in [
            ("server", "navigation"),
            ("task_id", "nav-1"),
            ("tool", "navigate_to"),
            ("event_id", event.event_id.as_str()),
            ("seq", "1"),
            ("type", "progress"),
            ("attempt", attempt),
            ("duration_ms", "0"),
            ("traceparent", "00-abc-def-01"),
        ] {
            assert_eq!(line.field(field), Some(value), "{field}");
        }
    }
    assert_eq!(failed.field("retry_in_ms"), Some("500"));
    assert_eq!(failed.field("answer"), Some("{\"reason\":\"mismatch\"}"));
    let error = failed.field("error").unwrap();
    assert!(error.starts_with("the endpoint answered 401"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_answers_body_cannot_forge_log_lines_or_flood_them() {
    let logs = Logs::capture();
    let body = format!("\u{1b}[2J\n{}", "x".repeat(10_000));
    let endpoint = ScriptedEndpoint::answering([Reply::status(500).body(body)]);
    let poster = poster(&endpoint);
    poster.post(progress("nav-1", 1));
    poster.close(seconds(5.0)).await;
    let answer = logs.at(Level::WARN)[0].field("answer").unwrap().to_owned();
    assert!(answer.len() <= 220, "{}", answer.len());
    assert!(!answer.contains(['\u{1b}', '\n']), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn the_secret_and_the_query_appear_in_no_line_and_no_debug_output() {
    let logs = Logs::capture();
    let endpoint = ScriptedEndpoint::answering([
        Reply::status(500),
        Reply::close(),
        Reply::Hang,
        Reply::status(200),
    ]);
    let builder = builder(&endpoint);
    let debug = format!("{builder:?}");
    let poster = builder.build().unwrap();
    let debug = format!("{debug} {poster:?} {:?}", progress("nav-1", 1));
    for seq in 1..=3 {
        poster.post(progress("nav-1", seq));
    }
    poster.close(seconds(60.0)).await;

    assert!(logs.lines().len() > 5);
    for shown in [debug, format!("{:?}", logs.lines())] {
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(!shown.contains("robot=1"), "{shown}");
        assert!(!shown.contains("sha256="), "{shown}");
    }
}

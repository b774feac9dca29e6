use rvc_wire::{EventType, TaskEvent};
use serde_json::Value;

fn cases(verdict: &str) -> Vec<(String, Value)> {
    let vectors: Value = serde_json::from_str(include_str!("vectors/events.json")).unwrap();
    let cases = vectors[verdict].as_array().unwrap();
    assert!(!cases.is_empty());
    cases
        .iter()
        .map(|case| {
            (
                case["name"].as_str().unwrap().to_owned(),
                case["event"].clone(),
            )
        })
        .collect()
}

#[test]
fn every_event_of_the_vectors_that_is_accepted_is_written_back() {
    for (name, mut given) in cases("accept") {
        let event = TaskEvent::from_json(given.to_string().as_bytes())
            .unwrap_or_else(|error| panic!("{name}: {error}"));

        let written: Value = serde_json::from_slice(&event.to_json()).unwrap();

        // What writing normalises: the time, a missing version, and fields that it does not know.
        given["ts"] = written["ts"].clone();
        given["schema_version"] = given.get("schema_version").cloned().unwrap_or(1.into());
        given.as_object_mut().unwrap().remove("robot");
        assert_eq!(written, given, "{name}");
        assert_eq!(
            written["ts"].as_str().map(str::len),
            Some("2026-06-12T14:03:00.123Z".len())
        );
    }
}

#[test]
fn every_event_of_the_vectors_that_is_rejected_is_refused_with_a_reason() {
    for (name, given) in cases("reject") {
        let refused = TaskEvent::from_json(given.to_string().as_bytes());
        assert!(!refused.expect_err(&name).to_string().is_empty());
    }
}

#[test]
fn an_offset_moves_the_time_to_utc() {
    let (_, given) = cases("accept")
        .into_iter()
        .find(|(name, _)| name == "offset timestamp")
        .unwrap();
    let event = TaskEvent::from_json(given.to_string().as_bytes()).unwrap();
    assert_eq!(event.ts.to_string(), "2026-06-12T14:03:00.123Z");
}

#[test]
fn an_event_is_written_in_the_contracts_field_order() {
    let (_, given) = cases("accept").into_iter().next().unwrap();
    let event = TaskEvent::from_json(given.to_string().as_bytes()).unwrap();
    assert_eq!(
        String::from_utf8(event.to_json()).unwrap(),
        concat!(
            r#"{"schema_version":1,"event_id":"8c1f0e2a-3f0d-4c59-9b52-6b1c6f5b7d11","#,
            r#""task_id":"navi-7f3a2b","server":"navigation","tool":"navigate_to","#,
            r#""type":"progress","seq":4,"ts":"2026-06-12T14:03:00.123Z","#,
            r#""payload":{"eta_s":22.4,"distance_m":14.1,"percent":60}}"#
        )
    );
}

#[test]
fn a_type_of_a_newer_schema_is_kept() {
    let (_, given) = cases("accept")
        .into_iter()
        .find(|(name, _)| name == "event type of a newer schema")
        .unwrap();
    let event = TaskEvent::from_json(given.to_string().as_bytes()).unwrap();
    assert_eq!(event.event_type, EventType::Unknown("task_paused".into()));
    assert!(!event.event_type.is_end());
}

#[test]
fn bodies_that_are_no_json_object_are_refused() {
    for body in [
        &b""[..],
        b"null",
        b"[]",
        b"\"event\"",
        b"{",
        b"\xff\xfe{}",
        b"{} {}",
        b"NaN",
    ] {
        assert!(TaskEvent::from_json(body).is_err(), "{body:?}");
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(TaskEvent::from_json(deep.as_bytes()).is_err());
}

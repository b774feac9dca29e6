use proptest::prelude::*;
use rvc_wire::{
    EventId, EventType, Map, Seq, TaskEvent, TaskFailure, TaskInfo, TaskState, Timestamp, Trigger,
};
use serde_json::{Value, json};

fn text() -> impl Strategy<Value = String> {
    prop::string::string_regex(".{1,20}").unwrap()
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // NaN and infinities become null, as they must.
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            map_of(inner).prop_map(Value::from),
        ]
    })
}

fn map_of(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map> {
    prop::collection::vec((text(), inner), 0..4).prop_map(|pairs| pairs.into_iter().collect())
}

fn map() -> impl Strategy<Value = Map> {
    map_of(value())
}

fn trigger() -> impl Strategy<Value = Trigger> {
    (map(), text()).prop_map(|(mut map, kind)| {
        map.insert("type".to_owned(), kind.into());
        map.try_into().unwrap()
    })
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    // The years 0 to 9999.
    (-62_167_219_200_000_i64..=253_402_300_799_999)
        .prop_map(|unix_ms| Timestamp::from_unix_ms(unix_ms).unwrap())
}

fn event_type() -> impl Strategy<Value = EventType> {
    prop_oneof![
        prop::sample::select(EventType::KNOWN.to_vec()),
        "task_[a-z]{12}".prop_map(|name| EventType::Unknown(name.into())),
    ]
}

prop_compose! {
    fn event()(
        schema_version in any::<u32>(),
        event_id in any::<[u8; 16]>(),
        task_id in text(),
        server in "[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        tool in text(),
        event_type in event_type(),
        seq in 1..=u64::MAX,
        ts in timestamp(),
        payload in map(),
    ) -> TaskEvent {
        TaskEvent {
            schema_version,
            event_id: EventId::from_random(event_id),
            task_id: task_id.parse().unwrap(),
            server: server.parse().unwrap(),
            tool: tool.parse().unwrap(),
            event_type,
            seq: Seq::try_from(seq).unwrap(),
            ts,
            payload,
        }
    }
}

prop_compose! {
    fn failure()(
        error_code in text(),
        message in text(),
        recoverable in any::<bool>(),
        suggestions in prop::collection::vec(text(), 0..3),
    ) -> TaskFailure {
        TaskFailure { error_code, message, recoverable, suggestions }
    }
}

prop_compose! {
    fn info()(
        state in prop::sample::select(TaskState::ALL.to_vec()),
        created_at in timestamp(),
        updated_at in timestamp(),
        triggers in prop::collection::vec(trigger(), 0..3),
        est_duration_s in prop::option::of(prop::num::f64::NORMAL),
        progress in prop::option::of(map()),
        result in prop::option::of(map()),
        failure in prop::option::of(failure()),
        cancel_requested in any::<bool>(),
    ) -> TaskInfo {
        TaskInfo {
            task_id: "nav-7f3a2b".parse().unwrap(),
            server: "navigation".parse().unwrap(),
            tool: "navigate_to".parse().unwrap(),
            state,
            created_at,
            updated_at,
            triggers,
            est_duration_s,
            progress,
            result,
            failure,
            cancel_requested,
        }
    }
}

proptest! {
    #[test]
    fn an_event_comes_back_as_it_was_written(event in event()) {
        let body = event.to_json();
        let back = TaskEvent::from_json(&body).unwrap();
        prop_assert_eq!(back.to_json(), body);
        prop_assert_eq!(back, event);
    }

    #[test]
    fn a_task_comes_back_as_it_was_written(info in info()) {
        let body = serde_json::to_vec(&info).unwrap();
        let back: TaskInfo = serde_json::from_slice(&body).unwrap();
        prop_assert_eq!(serde_json::to_vec(&back).unwrap(), body);
        prop_assert_eq!(back, info);
    }

    #[test]
    fn a_trigger_keeps_its_bytes(trigger in trigger()) {
        let body = serde_json::to_string(&trigger).unwrap();
        let back: Trigger = serde_json::from_str(&body).unwrap();
        prop_assert_eq!(serde_json::to_string(&back).unwrap(), body);
    }

    #[test]
    fn a_timestamp_comes_back_from_its_text(ts in timestamp()) {
        prop_assert_eq!(ts.to_string().parse::<Timestamp>().unwrap(), ts);
    }

    #[test]
    fn no_body_makes_the_parser_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = TaskEvent::from_json(&body);
    }
}

#[test]
fn absent_values_of_a_task_are_written_as_null_and_read_either_way() {
    let minimal = json!({
        "task_id": "nav-7f3a2b", "server": "navigation", "tool": "navigate_to",
        "state": "running",
        "created_at": "2026-06-12T14:03:00.123Z", "updated_at": "2026-06-12T14:03:00.123Z",
    });
    let info: TaskInfo = serde_json::from_value(minimal).unwrap();

    let written = serde_json::to_string(&info).unwrap();

    assert_eq!(
        written,
        concat!(
            r#"{"task_id":"nav-7f3a2b","server":"navigation","tool":"navigate_to","#,
            r#""state":"running","created_at":"2026-06-12T14:03:00.123Z","#,
            r#""updated_at":"2026-06-12T14:03:00.123Z","triggers":[],"est_duration_s":null,"#,
            r#""progress":null,"result":null,"failure":null}"#
        )
    );
    assert_eq!(serde_json::from_str::<TaskInfo>(&written).unwrap(), info);
}

#[test]
fn a_requested_cancel_is_written_only_when_true() {
    let body = json!({
        "task_id": "nav-7f3a2b", "server": "navigation", "tool": "navigate_to",
        "state": "running", "cancel_requested": true,
        "created_at": "2026-06-12T14:03:00.123Z", "updated_at": "2026-06-12T14:03:00.123Z",
    });
    let info: TaskInfo = serde_json::from_value(body).unwrap();
    assert!(info.cancel_requested);
    assert!(
        serde_json::to_string(&info)
            .unwrap()
            .ends_with(r#""cancel_requested":true}"#)
    );
}

#[test]
fn a_failure_is_recoverable_and_without_suggestions_unless_it_says_so() {
    let failure: TaskFailure =
        serde_json::from_str(r#"{"error_code":"DOOR_CLOSED","message":"The door is closed."}"#)
            .unwrap();
    assert!(failure.recoverable);
    assert!(failure.suggestions.is_empty());
}

#[test]
fn numbers_that_are_not_finite_become_null() {
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let payload: Map = [("eta_s".to_owned(), Value::from(number))]
            .into_iter()
            .collect();
        assert_eq!(
            serde_json::to_string(&payload).unwrap(),
            r#"{"eta_s":null}"#
        );
    }
}

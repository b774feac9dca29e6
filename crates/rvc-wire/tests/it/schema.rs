use rvc_wire::{TaskEvent, TaskFailure, TaskInfo, TaskState, Trigger};
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

fn schema<T: JsonSchema>() -> Value {
    schema_for!(T).to_value()
}

#[test]
fn the_schema_of_an_event_names_the_wires_fields_and_what_is_required() {
    let schema = schema::<TaskEvent>();
    let required: Vec<&str> = schema["required"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(
        required,
        [
            "event_id", "task_id", "server", "tool", "type", "seq", "ts", "payload"
        ]
    );
    assert_eq!(schema["$defs"]["Timestamp"]["format"], "date-time");
    assert_eq!(schema["$defs"]["Seq"]["minimum"], 1);
}

#[test]
fn the_schema_of_a_trigger_asks_for_a_text_type() {
    let schema = schema::<Trigger>();
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["properties"]["type"]["type"], "string");
    assert_eq!(schema["required"], serde_json::json!(["type"]));
}

#[test]
fn every_answer_of_a_poll_has_a_schema() {
    let states = schema::<TaskInfo>()["$defs"]["TaskState"].to_string();
    for state in TaskState::ALL {
        assert!(states.contains(&format!("\"{state}\"")), "{states}");
    }
    assert_eq!(
        schema::<TaskFailure>()["required"],
        serde_json::json!(["error_code", "message"])
    );
}

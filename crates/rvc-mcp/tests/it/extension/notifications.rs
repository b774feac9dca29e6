//! `notifications/tasks` waits for rmcp.

use rmcp::model::SubscriptionFilter;
use serde_json::json;

/// rmcp's filter drops the ids of the tasks that a client listens for, so nobody could be told.
/// When this fails, rmcp carries them, and `notifications/tasks` can be added.
#[test]
fn rmcp_drops_the_task_ids_that_a_client_listens_for() {
    for asked in [
        json!({"taskIds": ["a"]}),
        json!({"tasks": ["a"]}),
        json!({"taskSubscriptions": ["a"]}),
        json!({"taskStatus": ["a"]}),
    ] {
        let filter: SubscriptionFilter = serde_json::from_value(asked).unwrap();
        assert_eq!(serde_json::to_value(&filter).unwrap(), json!({}));
    }
    // And under any other name: these are all that it has.
    let all = SubscriptionFilter::builder()
        .tools_list_changed()
        .prompts_list_changed()
        .resources_list_changed()
        .resource_subscription("file:///x")
        .build();
    let schema = serde_json::to_value(rmcp::schemars::schema_for!(SubscriptionFilter)).unwrap();
    let fields = schema["properties"].as_object().unwrap();
    let known = serde_json::to_value(&all).unwrap();
    let known = known.as_object().unwrap();
    assert!(
        fields.keys().all(|field| known.contains_key(field)),
        "{fields:?}"
    );
}

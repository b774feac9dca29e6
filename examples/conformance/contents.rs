//! Tools that answer at once: each kind of content, what can happen on the way, and the requests
//! that older servers make of their clients.
#![expect(deprecated, reason = "the suite asks for sampling too")]

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolResult, ClientCapabilities, ContentBlock, JsonObject, RequestMetaObject,
    ServerNotification, ServerRequest,
};
use rmcp::service::{Peer, ServiceError};
use rmcp::{ErrorData, RoleServer, tool, tool_router};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::Fixtures;
use crate::library::{AUDIO, IMAGE};

#[tool_router(router = contents, vis = "pub(crate)")]
impl Fixtures {
    /// Answer with text.
    #[tool]
    async fn test_simple_text(&self) -> CallToolResult {
        content(json!([{"type": "text", "text": "This is a simple text response for testing."}]))
    }

    /// Answer with an image.
    #[tool]
    async fn test_image_content(&self) -> CallToolResult {
        content(json!([{"type": "image", "data": IMAGE, "mimeType": "image/png"}]))
    }

    /// Answer with sound.
    #[tool]
    async fn test_audio_content(&self) -> CallToolResult {
        content(json!([{"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}]))
    }

    /// Answer with a resource.
    #[tool]
    async fn test_embedded_resource(&self) -> CallToolResult {
        content(json!([{"type": "resource", "resource": {
            "uri": "test://embedded-resource",
            "mimeType": "text/plain",
            "text": "This is an embedded resource content.",
        }}]))
    }

    /// Answer with text, an image and a resource.
    #[tool]
    async fn test_multiple_content_types(&self) -> CallToolResult {
        content(json!([
            {"type": "text", "text": "Multiple content types test:"},
            {"type": "image", "data": IMAGE, "mimeType": "image/png"},
            {"type": "resource", "resource": {
                "uri": "test://mixed-content-resource",
                "mimeType": "application/json",
                "text": r#"{"test":"data","value":123}"#,
            }},
        ]))
    }

    /// Answer with an error.
    #[tool]
    async fn test_error_handling(&self) -> Result<(), String> {
        Err("This tool intentionally returns an error for testing".to_owned())
    }

    /// Answer with what came in a header.
    #[tool(input_schema = custom_header_schema())]
    async fn test_custom_header(&self, arguments: JsonObject) -> Result<String, String> {
        let value = arguments.get("value").and_then(Value::as_str);
        value
            .map(str::to_owned)
            .ok_or_else(|| "value must be a text".to_owned())
    }

    /// Take arguments whose schema needs JSON Schema 2020-12.
    #[tool(input_schema = schema_2020_12())]
    async fn json_schema_2020_12_tool(&self, arguments: JsonObject) -> String {
        Value::Object(arguments).to_string()
    }

    /// Log three lines to the client.
    #[tool]
    async fn test_tool_with_logging(&self, peer: Peer<RoleServer>) -> Result<String, ErrorData> {
        for line in [
            "Tool execution started",
            "Tool processing data",
            "Tool execution completed",
        ] {
            log(&peer, json!("info"), line).await?;
            sleep(PAUSE).await;
        }
        Ok("Logged".to_owned())
    }

    /// Log a line to the client if it asks for a level.
    #[tool]
    async fn test_logging_tool(
        &self,
        peer: Peer<RoleServer>,
        meta: RequestMetaObject,
    ) -> Result<String, ErrorData> {
        if let Some(level) = meta.log_level() {
            log(&peer, json!(level), "a level was asked for").await?;
        }
        Ok("Logged".to_owned())
    }

    /// Report progress, for a client that asks for it.
    #[tool]
    async fn test_tool_with_progress(
        &self,
        peer: Peer<RoleServer>,
        meta: RequestMetaObject,
    ) -> Result<String, ErrorData> {
        for progress in [0, 50, 100] {
            if let Some(token) = meta.get_progress_token() {
                let params = json!({"progressToken": token, "progress": progress, "total": 100});
                notify(&peer, "notifications/progress", params).await?;
            }
            sleep(PAUSE).await;
        }
        Ok("Done".to_owned())
    }

    /// Ask the client's model, as servers did before 2026-07-28.
    #[tool(input_schema = text_schema("prompt"))]
    async fn test_sampling(
        &self,
        arguments: JsonObject,
        peer: Peer<RoleServer>,
    ) -> Result<String, String> {
        let prompt = &arguments["prompt"];
        let params = json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
            "maxTokens": 100,
        });
        let answer = request(&peer, "sampling/createMessage", params).await?;
        Ok(format!("LLM response: {}", answer["content"]["text"]))
    }

    /// Ask the user, as servers did before 2026-07-28.
    #[tool(input_schema = text_schema("message"))]
    async fn test_elicitation(
        &self,
        arguments: JsonObject,
        peer: Peer<RoleServer>,
    ) -> Result<String, String> {
        let properties = json!({
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        });
        elicit(&peer, arguments["message"].clone(), properties).await
    }

    /// Ask the user with defaults.
    #[tool]
    async fn test_elicitation_sep1034_defaults(
        &self,
        peer: Peer<RoleServer>,
    ) -> Result<String, String> {
        let properties = json!({
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {
                "type": "string", "enum": ["active", "inactive", "pending"], "default": "active",
            },
            "verified": {"type": "boolean", "default": true},
        });
        elicit(&peer, json!("Every field has a default."), properties).await
    }

    /// Ask the user to choose, in each way in which a form can.
    #[tool]
    async fn test_elicitation_sep1330_enums(
        &self,
        peer: Peer<RoleServer>,
    ) -> Result<String, String> {
        let plain = json!(["option1", "option2", "option3"]);
        let titled = json!([
            {"const": "value1", "title": "First"},
            {"const": "value2", "title": "Second"},
            {"const": "value3", "title": "Third"},
        ]);
        let properties = json!({
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        });
        elicit(&peer, json!("Choose."), properties).await
    }

    /// Refuse a client that has no model to ask.
    #[tool]
    async fn test_missing_capability(&self, meta: RequestMetaObject) -> Result<String, ErrorData> {
        if meta
            .client_capabilities()
            .unwrap_or_default()
            .sampling
            .is_none()
        {
            let needed = ClientCapabilities::builder().enable_sampling().build();
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        Ok("It has one".to_owned())
    }

    /// Tell listeners that the tools have changed.
    #[tool]
    async fn test_trigger_tool_change(&self) -> String {
        for listener in self.listeners() {
            // One that has left is no reason not to tell the others.
            let _ = listener.notify_tool_list_changed().await;
        }
        "Told".to_owned()
    }

    /// Tell listeners that the prompts have changed.
    #[tool]
    async fn test_trigger_prompt_change(&self) -> String {
        for listener in self.listeners() {
            let _ = listener.notify_prompt_list_changed().await;
        }
        "Told".to_owned()
    }
}

/// Long enough that the suite sees one message come after the other.
const PAUSE: Duration = Duration::from_millis(50);

fn content(blocks: Value) -> CallToolResult {
    let blocks: Vec<ContentBlock> =
        serde_json::from_value(blocks).expect("they are written as the protocol has them");
    CallToolResult::success(blocks)
}

async fn log(peer: &Peer<RoleServer>, level: Value, line: &str) -> Result<(), ErrorData> {
    let params = json!({"level": level, "logger": "conformance", "data": line});
    notify(peer, "notifications/message", params).await
}

async fn notify(peer: &Peer<RoleServer>, method: &str, params: Value) -> Result<(), ErrorData> {
    let notification: ServerNotification =
        serde_json::from_value(json!({"method": method, "params": params}))
            .expect("it is written as the protocol has it");
    let sent = peer.send_notification(notification).await;
    sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

async fn request(peer: &Peer<RoleServer>, method: &str, params: Value) -> Result<Value, String> {
    let request: ServerRequest =
        serde_json::from_value(json!({"method": method, "params": params}))
            .expect("it is written as the protocol has it");
    let answer = peer.send_request(request).await;
    let answer = answer.map_err(|error: ServiceError| error.to_string())?;
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

async fn elicit(
    peer: &Peer<RoleServer>,
    message: Value,
    properties: Value,
) -> Result<String, String> {
    let params = json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "properties": properties},
    });
    let answer = request(peer, "elicitation/create", params).await?;
    Ok(format!(
        "User response: action={}, content={}",
        answer["action"].as_str().unwrap_or_default(),
        answer["content"]
    ))
}

fn schema(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => unreachable!("a schema is written as an object"),
    }
}

fn text_schema(name: &str) -> Arc<JsonObject> {
    schema(json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}))
}

fn custom_header_schema() -> Arc<JsonObject> {
    schema(json!({
        "type": "object",
        "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
        "required": ["value"],
    }))
}

fn schema_2020_12() -> Arc<JsonObject> {
    schema(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "address",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
        "if": {"required": ["address"]},
        "then": {"properties": {"address": {"required": ["street"]}}},
        "else": {"required": ["name"]},
        "additionalProperties": false,
    }))
}

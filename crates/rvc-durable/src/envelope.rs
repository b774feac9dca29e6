//! A tool's result, whole.

use rvc_wire::Map;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool's result with nothing left out: what the server sent, and one text of it.
///
/// The text is what a language model reads. It is the text blocks if there are any, else the
/// structured content as JSON, else the other blocks as JSON; an empty result says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResultEnvelope {
    /// The content blocks, as they came.
    pub content: Vec<Value>,
    /// The structured content, if the tool has some. An explicit `null` counts as some.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub structured_content: Option<Value>,
    /// The result's `_meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// The text projection.
    pub text: String,
}

impl ToolResultEnvelope {
    /// Reads a `CallToolResult`; `None` when the value is not one.
    ///
    /// A result may leave out `content`. It is no result when it has none of `content`,
    /// `structuredContent` and `isError`, unless it is empty but for `_meta` and
    /// `resultType: "complete"`: that is the empty result, which rmcp accepts too.
    #[must_use]
    pub fn from_result(result: &Map) -> Option<Self> {
        let kind = result.get("resultType").filter(|kind| !kind.is_null());
        if kind.is_some_and(|kind| kind != "complete") {
            return None;
        }
        let known = [
            "content",
            "structuredContent",
            "isError",
            "_meta",
            "resultType",
        ];
        let named = known[..3].iter().any(|key| result.contains_key(*key));
        if !named && result.keys().any(|key| !known.contains(&key.as_str())) {
            return None;
        }
        let content = match result.get("content") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(blocks)) if blocks.iter().all(is_block) => blocks.clone(),
            Some(_) => return None,
        };
        let is_error = match result.get("isError") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(is_error)) => *is_error,
            Some(_) => return None,
        };
        let metadata = match result.get("_meta") {
            None | Some(Value::Null) => None,
            Some(Value::Object(meta)) => Some(meta.clone()),
            Some(_) => return None,
        };
        let structured_content = result.get("structuredContent").cloned();
        let text = projection(&content, structured_content.as_ref());
        Some(Self {
            content,
            structured_content,
            metadata,
            is_error,
            text,
        })
    }

    /// The result of a tool that returned one JSON object, as contract tasks do.
    #[must_use]
    pub fn from_object(object: Map) -> Self {
        let structured = Value::Object(object);
        Self {
            text: projection(&[], Some(&structured)),
            content: Vec::new(),
            structured_content: Some(structured),
            metadata: None,
            is_error: false,
        }
    }
}

fn is_block(block: &Value) -> bool {
    block.get("type").is_some_and(Value::is_string)
}

fn projection(content: &[Value], structured: Option<&Value>) -> String {
    let texts: Vec<&str> = content
        .iter()
        .filter(|block| block["type"] == "text")
        .filter_map(|block| block["text"].as_str())
        .filter(|text| !text.is_empty())
        .collect();
    if !texts.is_empty() {
        return texts.join("\n");
    }
    if let Some(structured) = structured.filter(|value| !value.is_null()) {
        return structured.to_string();
    }
    let others: Vec<&Value> = content
        .iter()
        .filter(|block| block["type"] != "text")
        .collect();
    if others.is_empty() {
        "(the tool returned an empty result)".to_owned()
    } else {
        others
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// A field that is there is `Some`, also when it is `null`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(result: Value) -> Option<ToolResultEnvelope> {
        let Value::Object(result) = result else {
            panic!("not an object")
        };
        ToolResultEnvelope::from_result(&result)
    }

    #[test]
    fn the_text_is_text_else_structured_else_blocks_else_a_sentence() {
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        for (result, text) in [
            (
                json!({"content": [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}], "structuredContent": {"x": 1}}),
                "a\nb".to_owned(),
            ),
            (
                json!({"content": [image], "structuredContent": {"x": 1}}),
                r#"{"x":1}"#.to_owned(),
            ),
            (json!({"content": [image]}), image.to_string()),
            (
                json!({"content": []}),
                "(the tool returned an empty result)".to_owned(),
            ),
            (
                json!({"resultType": "complete"}),
                "(the tool returned an empty result)".to_owned(),
            ),
        ] {
            assert_eq!(
                read(result.clone()).map(|envelope| envelope.text),
                Some(text),
                "{result}"
            );
        }
    }

    #[test]
    fn what_is_no_tool_result_is_not_read_as_one() {
        for result in [
            json!({"resultType": "task", "taskId": "t"}),
            json!({"taskId": "t", "status": "completed"}),
            json!({"content": "text"}),
            json!({"content": [1]}),
            json!({"content": [], "isError": "yes"}),
            json!({"content": [], "_meta": 3}),
            json!({"tools": []}),
        ] {
            assert_eq!(read(result.clone()), None, "{result}");
        }
    }

    #[test]
    fn an_envelope_survives_its_own_json() {
        let envelope = read(json!({
            "content": [{"type": "text", "text": "a", "annotations": {"priority": 1}}],
            "structuredContent": null, "isError": true, "_meta": {"k": [1, 2]}
        }))
        .expect("a tool result");

        let json = serde_json::to_string(&envelope).expect("plain values");

        assert_eq!(
            serde_json::from_str::<ToolResultEnvelope>(&json).ok(),
            Some(envelope)
        );
    }
}

//! Resources, prompts and completions.

use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, CompleteResult, CompletionInfo, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ReadResourceResponse, ReadResourceResult,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::rounds::{CONTEXT, filled_in, text_in};

/// One red pixel, as PNG.
pub(crate) const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";
/// No sound at all, as WAV.
pub(crate) const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

pub(crate) fn resources() -> Result<ListResourcesResult, ErrorData> {
    let listed: ListResourcesResult = written(json!({"resources": [
        {"uri": TEXT_URI, "name": "Static text", "mimeType": "text/plain"},
        {"uri": BINARY_URI, "name": "Static image", "mimeType": "image/png"},
    ]}))?;
    Ok(listed.with_ttl_ms(0).with_cache_scope(CacheScope::Public))
}

pub(crate) fn templates() -> Result<ListResourceTemplatesResult, ErrorData> {
    let listed: ListResourceTemplatesResult = written(json!({"resourceTemplates": [{
        "uriTemplate": "test://template/{id}/data",
        "name": "Data by id",
        "mimeType": "application/json",
    }]}))?;
    Ok(listed.with_ttl_ms(0).with_cache_scope(CacheScope::Public))
}

pub(crate) fn read(uri: &str) -> Result<ReadResourceResponse, ErrorData> {
    let id = uri
        .strip_prefix("test://template/")
        .and_then(|rest| rest.strip_suffix("/data"));
    let contents = match (uri, id) {
        (TEXT_URI, _) => json!({"uri": uri, "mimeType": "text/plain", "text": TEXT}),
        (BINARY_URI, _) => json!({"uri": uri, "mimeType": "image/png", "blob": IMAGE}),
        (_, Some(id)) => {
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
        _ => {
            let data = json!({"uri": uri});
            return Err(ErrorData::resource_not_found(
                "there is no such resource",
                Some(data),
            ));
        }
    };
    let read: ReadResourceResult = written(json!({"contents": [contents]}))?;
    Ok(read
        .with_ttl_ms(0)
        .with_cache_scope(CacheScope::Public)
        .into())
}

pub(crate) fn prompts() -> Result<ListPromptsResult, ErrorData> {
    let listed: ListPromptsResult = written(json!({"prompts": [
        {"name": "test_simple_prompt", "description": "A prompt without arguments."},
        {"name": "test_prompt_with_arguments", "description": "A prompt with arguments.", "arguments": [
            {"name": "arg1", "description": "The first argument", "required": true},
            {"name": "arg2", "description": "The second argument", "required": true},
        ]},
        {"name": "test_prompt_with_embedded_resource", "description": "A prompt with a resource.", "arguments": [
            {"name": "resourceUri", "description": "The resource", "required": true},
        ]},
        {"name": "test_prompt_with_image", "description": "A prompt with an image."},
        {"name": "test_input_required_result_prompt", "description": "A prompt that asks the user."},
    ]}))?;
    Ok(listed.with_ttl_ms(0).with_cache_scope(CacheScope::Public))
}

pub(crate) fn prompt(request: GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let argument = |name: &str| {
        arguments
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let contents = match request.name.as_str() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![text(&format!(
                "Prompt with arguments: arg1='{first}', arg2='{second}'"
            ))]
        }
        "test_prompt_with_embedded_resource" => vec![
            json!({"type": "resource", "resource": {
                "uri": argument("resourceUri"), "mimeType": "text/plain", "text": TEXT,
            }}),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            json!({"type": "image", "data": IMAGE, "mimeType": "image/png"}),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => {
            let responses = request.input_responses.unwrap_or_default();
            let Some(answer) = responses.get("user_context") else {
                let question = filled_in("Which context?", CONTEXT);
                let questions = [("user_context".to_owned(), question)].into();
                return Ok(InputRequiredResult::from_input_requests(questions).into());
            };
            vec![text(&format!(
                "In the context {}",
                text_in(answer, "context")
            ))]
        }
        unknown => {
            let message = format!("there is no prompt {unknown:?}");
            return Err(ErrorData::invalid_params(message, None));
        }
    };
    let messages = contents
        .into_iter()
        .map(|content| json!({"role": "user", "content": content}));
    let prompt: GetPromptResult = written(json!({"messages": messages.collect::<Vec<_>>()}))?;
    Ok(prompt.into())
}

pub(crate) fn completion() -> Result<CompleteResult, ErrorData> {
    let values = ["paris", "park", "party"].map(String::from).to_vec();
    let values = CompletionInfo::new(values);
    values
        .map(CompleteResult::new)
        .map_err(|error| ErrorData::internal_error(error, None))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A result, of what is special about it.
fn written<T: DeserializeOwned>(mut json: Value) -> Result<T, ErrorData> {
    json["resultType"] = "complete".into();
    serde_json::from_value(json).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

const TEXT_URI: &str = "test://static-text";
const BINARY_URI: &str = "test://static-binary";
const TEXT: &str = "This is the content of the static text resource.";

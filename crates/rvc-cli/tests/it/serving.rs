//! What the tests' servers have in common: how they run, and what they say alike.

use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig, TaskPayload,
};
use rmcp::{ErrorData, ServerHandler};
use rvc_mcp::{ServeConfig, Server, Transport};
use rvc_tasks::{MemorySink, TaskManager};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Serves on a free port for as long as the runtime lives, and says where.
pub(crate) fn serve<H>(transport: Transport, handler: H) -> (Runtime, String)
where
    H: ServerHandler + Clone,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let config = ServeConfig::default()
        .with_transport(transport)
        .with_port(0);
    let server = runtime.block_on(Server::bind(config)).unwrap();
    let url = server.url().unwrap();
    let manager = {
        let _inside = runtime.enter();
        TaskManager::new("robot".parse().unwrap(), MemorySink::new())
    };
    runtime.spawn(async move {
        server
            .run(move || handler.clone(), manager, std::future::pending())
            .await
    });
    (runtime, url)
}

/// Tools and tasks.
pub(crate) fn config() -> ServerConfig {
    let capabilities = ServerCapabilities::builder()
        .enable_tools()
        .enable_tasks()
        .build();
    ServerConfig::new(capabilities)
}

/// A task of `ask` that was not answered yet.
pub(crate) fn question() -> TaskPayload {
    TaskPayload::InputRequired {
        input_requests: serde_json::from_value(json!({"confirm": {
            "method": "elicitation/create",
            "params": {
                "message": "sure?",
                "requestedSchema": {"type": "object", "properties": {}},
            },
        }}))
        .unwrap(),
    }
}

/// A task that ended with a result.
pub(crate) fn completed(text: &str, is_error: bool) -> TaskPayload {
    let result = json!({"content": [{"type": "text", "text": text}], "isError": is_error});
    TaskPayload::Completed {
        result: result.as_object().unwrap().clone(),
    }
}

/// What the contract's tools answer.
pub(crate) fn text(value: &Value) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(value.to_string())]).into()
}

pub(crate) fn unknown_task() -> ErrorData {
    ErrorData::invalid_params("unknown task", None)
}

/// When a task was made, as far as anybody is told.
pub(crate) const AT: &str = "2026-06-12T14:03:00Z";

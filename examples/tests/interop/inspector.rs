//! The MCP Inspector's command line drives tasks to their end.

use serde_json::{Value, json};

use crate::script::{node, output};
use crate::server::Server;

/// Calls the sleeper's tool as a client of 2026-07-28 with the Tasks extension.
fn sleep(arguments: &Value) -> Result<String, String> {
    let server = Server::start("sleeper");
    let mut inspector = node("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
    inspector
        .args(["--cli", &server.url, "--transport", "http"])
        .args(["--protocol-era", "modern", "--format", "json", "--quiet"])
        .args(["--method", "tools/call", "--tool-name", "sleep_task"])
        .args(["--tool-args-json", &arguments.to_string()]);
    output(inspector)
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn the_inspector_waits_for_a_tasks_result() {
    let written = sleep(&json!({"duration_s": 1.5})).unwrap_or_else(|failure| panic!("{failure}"));
    let written: Value = serde_json::from_str(&written).expect("it writes JSON");
    let result = &written["result"];
    assert_eq!(result["structuredContent"], json!({"slept_s": 1.5}));
    assert_eq!(result["isError"], false);
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn the_inspector_is_told_that_a_task_failed() {
    let written = sleep(&json!({"duration_s": 0.1, "fail": true})).unwrap_err();
    assert!(
        written.contains(r#""error_code":"FAKE_FAILURE""#),
        "{written}"
    );
    assert!(written.contains("tool_is_error"), "{written}");
}

//! Streamable HTTP, with rmcp's own client and without.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;
use rvc_mcp::Transport;
use serde_json::json;

use crate::robot::{ARGUMENTS, Robot, Running, arguments, triggers_text};
use crate::sse_client::send;
use crate::tools::text;

#[tokio::test]
async fn the_whole_contract_works_over_streamable_http() {
    let robot = Robot::new();
    let server = robot.listen(Transport::StreamableHttp).await;
    // rvc-durable, built beside this, has the client look for one. One that was chosen stands.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let transport = StreamableHttpClientTransport::from_uri(server.url.clone());
    let client = ().serve(transport).await.unwrap();

    let call = CallToolRequestParams::new("drive").with_arguments(arguments());
    let info = text(&client.call_tool(call).await.unwrap());
    // The keys in order, the numbers to the last bit.
    assert!(info.contains(triggers_text()), "{info}");

    let id: serde_json::Value = serde_json::from_str(&info).unwrap();
    let id = json!({"task_id": id["task_id"]});
    let call =
        CallToolRequestParams::new("cancel_task").with_arguments(id.as_object().unwrap().clone());
    let cancelled = text(&client.call_tool(call).await.unwrap());
    assert!(cancelled.contains(r#""state":"cancelled","stopped":true"#));

    client.cancel().await.unwrap();
    server.end().await;
}

/// A client of the protocol's newest version: no handshake, no session.
#[tokio::test]
async fn a_modern_request_is_answered_without_a_session() {
    let robot = Robot::new();
    let server = robot.listen(Transport::StreamableHttp).await;
    let body = format!(
        concat!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"drive","#,
            r#""arguments":{},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientInfo":{{"name":"test","version":"0"}},"#,
            r#""io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#,
        ),
        ARGUMENTS
    );
    let mut request = post(&server, body);
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "drive"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }

    let response = send(authority(&server), request).await;

    assert_eq!(response.status(), 200);
    assert!(!response.headers().contains_key("mcp-session-id"));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = std::str::from_utf8(&body).unwrap();
    let triggers = triggers_text().replace('"', "\\\"");
    assert!(body.contains(&triggers), "{body}");
    server.end().await;
}

#[tokio::test]
async fn bad_requests_are_refused_before_a_tool_is_called() {
    let robot = Robot::new();
    let server = robot.listen(Transport::StreamableHttp).await;
    let with = |name: header::HeaderName, value: &str| {
        let mut request = post(&server, PING);
        request.headers_mut().insert(name, value.parse().unwrap());
        request
    };
    let at = |path: &'static str| {
        let mut request = post(&server, PING);
        *request.uri_mut() = path.parse().unwrap();
        request
    };
    let table = [
        (with(header::HOST, "evil.example"), 403),
        (with(header::ORIGIN, "http://evil.example"), 403),
        (with(header::ORIGIN, "null"), 403),
        (with(header::HOST, "a b"), 400),
        (with(header::CONTENT_TYPE, "text/plain"), 415),
        (with("mcp-session-id".parse().unwrap(), "dead"), 404),
        (post(&server, vec![b' '; 4 * 1024 * 1024 + 1]), 413),
        (at("/"), 404),
        (at("/sse"), 404),
    ];
    for (request, status) in table {
        let what = format!("{:?} {:?}", request.uri(), request.headers());
        let response = send(authority(&server), request).await;
        assert_eq!(response.status(), status, "{what}");
    }
    server.end().await;
}

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn authority(server: &Running) -> &str {
    let rest = server.url.strip_prefix("http://").unwrap();
    rest.strip_suffix("/mcp").unwrap()
}

fn post(server: &Running, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post("/mcp")
        .header(header::HOST, authority(server))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .body(Full::new(body.into()))
        .unwrap()
}

//! The extension over streamable HTTP, in the protocol's newest version.

use ::http::{Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use rmcp::ErrorData;
use rvc_mcp::{Access, Principal, ServeConfig, Server, TaskServer, Transport};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::worker::Worker;
use crate::sse_client::send;

struct Http {
    authority: String,
    stop: CancellationToken,
    ended: tokio::task::JoinHandle<()>,
}

async fn listen(server: TaskServer<Worker>, worker: &Worker) -> Http {
    let config = ServeConfig::default()
        .with_transport(Transport::StreamableHttp)
        .with_port(0);
    let bound = Server::bind(config).await.unwrap();
    let authority = bound.local_addr().unwrap().to_string();
    let stop = CancellationToken::new();
    let run = bound.run(
        move || server.clone(),
        worker.manager.clone(),
        stop.clone().cancelled_owned(),
    );
    Http {
        authority,
        stop,
        ended: tokio::spawn(async { run.await.unwrap() }),
    }
}

impl Http {
    async fn end(self) {
        self.stop.cancel();
        self.ended.await.unwrap();
    }

    /// A request on its own terms; headers may replace what belongs to it, or take it away.
    async fn post(
        &self,
        method: &str,
        mut params: Value,
        headers: &[(&'static str, Option<&str>)],
    ) -> (StatusCode, Value) {
        let name = ["name", "taskId"]
            .iter()
            .find_map(|key| params[key].as_str());
        let name = name.map(str::to_owned);
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        if let Some(more) = params["_meta"].as_object() {
            meta.as_object_mut().unwrap().extend(more.clone());
        }
        params["_meta"] = meta;
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = Request::post("/mcp")
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .body(Full::<Bytes>::from(body.to_string()))
            .unwrap();
        if let Some(name) = name {
            request
                .headers_mut()
                .insert("mcp-name", name.parse().unwrap());
        }
        for (name, value) in headers {
            request.headers_mut().remove(*name);
            if let Some(value) = value {
                request.headers_mut().insert(*name, value.parse().unwrap());
            }
        }
        let response: Response<_> = send(&self.authority, request).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, read(std::str::from_utf8(&body).unwrap()))
    }

    async fn start(&self, what: &str, headers: &[(&'static str, Option<&str>)]) -> String {
        let params = json!({"name": "work", "arguments": {"do": what}});
        let (_, answer) = self.post("tools/call", params, headers).await;
        answer["result"]["taskId"].as_str().unwrap().to_owned()
    }
}

/// The message in a body, which may be framed as an event.
fn read(body: &str) -> Value {
    let mut framed = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let text = framed.rfind(|data| !data.trim().is_empty());
    serde_json::from_str(text.unwrap_or(body)).unwrap_or(Value::Null)
}

const NO_NAME: (&str, Option<&str>) = ("mcp-name", None);

#[tokio::test]
async fn a_task_is_driven_without_naming_it_in_a_header() {
    let worker = Worker::new();
    let http = listen(worker.server(), &worker).await;
    let id = http.start("ask", &[]).await;
    let params = json!({"taskId": id});

    let task = loop {
        let (status, answer) = http.post("tasks/get", params.clone(), &[NO_NAME]).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        if answer["result"]["status"] == "input_required" {
            break answer["result"].clone();
        }
    };
    assert!(task["inputRequests"]["door"].is_object());
    let answers = json!({
        "taskId": id,
        "inputResponses": {"door": {"action": "accept", "content": {"way": "wait"}}},
    });
    let (_, answer) = http.post("tasks/update", answers, &[NO_NAME]).await;
    assert_eq!(answer["result"], json!({"resultType": "complete"}));
    let (_, answer) = http.post("tasks/cancel", params, &[NO_NAME]).await;
    assert_eq!(answer["result"], json!({"resultType": "complete"}));
    http.end().await;
}

#[tokio::test]
async fn a_client_that_is_gone_before_its_answer_finds_its_task_again() {
    let worker = Worker::new();
    let http = listen(worker.server(), &worker).await;
    let call = || {
        json!({
            "name": "work", "arguments": {"do": "rest"},
            "_meta": {"io.rvc/idempotency-key": "k"},
        })
    };
    let mut ids = std::collections::BTreeSet::new();
    for patience_us in (0..20_000).step_by(1_000) {
        let patience = std::time::Duration::from_micros(patience_us);
        // The connection is dropped wherever the call then is.
        let _ = tokio::time::timeout(patience, http.post("tools/call", call(), &[])).await;
        let (_, answer) = http.post("tools/call", call(), &[]).await;
        ids.insert(answer["result"]["taskId"].to_string());
    }
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(worker.manager.list(&[]).len(), 1);
    http.end().await;
}

#[tokio::test]
async fn a_wrong_name_is_refused_and_so_is_what_only_looks_like_a_tasks_request() {
    let worker = Worker::new();
    let http = listen(worker.server(), &worker).await;
    let id = http.start("rest", &[]).await;
    let params = json!({"taskId": id});
    let call = json!({"name": "work", "arguments": {"do": "rest"}});
    for (method, params, headers) in [
        ("tasks/get", &params, vec![("mcp-name", Some("other"))]),
        ("tasks/get", &params, vec![("mcp-name", Some(""))]),
        (
            "tasks/get",
            &params,
            vec![NO_NAME, ("mcp-method", Some("tasks/cancel"))],
        ),
        ("tasks/get", &params, vec![NO_NAME, ("mcp-method", None)]),
        ("tools/call", &call, vec![NO_NAME]),
        (
            "tools/call",
            &call,
            vec![NO_NAME, ("mcp-method", Some("tasks/get"))],
        ),
    ] {
        let (status, answer) = http.post(method, params.clone(), &headers).await;
        assert_eq!(
            status,
            StatusCode::BAD_REQUEST,
            "{method} {headers:?} {answer}"
        );
        assert_eq!(
            answer["error"]["code"], -32020,
            "{method} {headers:?} {answer}"
        );
    }
    assert_eq!(worker.manager.list(&[]).len(), 1);
    http.end().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_where_the_name_is_filled_in_too() {
    let worker = Worker::new();
    let http = listen(worker.server(), &worker).await;
    let large = json!({"taskId": "x", "inputResponses": {"k": "x".repeat(4 * 1024 * 1024)}});
    let (status, _) = http.post("tasks/update", large, &[NO_NAME]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let (status, _) = http
        .post("tasks/get", json!({"taskId": "ü"}), &[NO_NAME])
        .await;
    assert_ne!(status, StatusCode::OK);
    http.end().await;
}

#[tokio::test]
async fn a_hook_reads_the_principal_from_the_head_of_the_request() {
    let worker = Worker::new();
    let server = worker.server().authority(|access: &Access<'_>| {
        let user = access.http().and_then(|parts| parts.headers.get("x-user"));
        match user.and_then(|user| user.to_str().ok()) {
            Some(user) => Ok(Principal::new(user)),
            None => Err(ErrorData::invalid_request("who is it?", None)),
        }
    });
    let http = listen(server, &worker).await;
    let id = http.start("rest", &[("x-user", Some("ada"))]).await;
    let params = json!({"taskId": id});
    let (_, hers) = http
        .post("tasks/get", params.clone(), &[("x-user", Some("ada"))])
        .await;
    assert_eq!(hers["result"]["status"], "working");
    let (_, his) = http
        .post("tasks/get", params.clone(), &[("x-user", Some("bob"))])
        .await;
    assert_eq!(his["error"]["code"], -32602);
    let (_, nobodys) = http.post("tasks/get", params, &[]).await;
    assert_eq!(nobodys["error"]["code"], -32600);
    http.end().await;
}

#[tokio::test]
async fn the_extension_is_in_what_a_server_says_of_itself() {
    let worker = Worker::new();
    let http = listen(worker.server(), &worker).await;
    let (_, answer) = http.post("server/discover", json!({}), &[]).await;
    let capabilities = &answer["result"]["capabilities"];
    assert_eq!(
        capabilities["extensions"]["io.modelcontextprotocol/tasks"],
        json!({})
    );
    assert_eq!(capabilities.get("tasks"), None);
    assert!(capabilities["tools"].is_object());
    http.end().await;
}

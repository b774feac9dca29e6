#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, select};
use futures_util::{FutureExt, poll};
use http::{Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomNotification,
    ServerNotification,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::SseService;
use super::body::MAX_BODY;
use super::session::MAX_OWED;
use crate::config::ServeConfig;

/// A handler whose tools answer, wait or talk without end.
#[derive(Clone, Default)]
struct Probe {
    gate: Arc<Notify>,
}

impl ServerHandler for Probe {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match &*request.name {
            "wait" => {
                let answered = self.gate.notified();
                let cancelled = context.ct.cancelled();
                select(pin!(answered), pin!(cancelled)).await;
            }
            "talk" => {
                let word = || CustomNotification::new("notifications/word", None);
                let word = || ServerNotification::CustomNotification(word());
                while context.peer.send_notification(word()).await.is_ok() {}
            }
            _ => {}
        }
        let text = serde_json::to_string(&request.arguments).unwrap();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

struct Rig {
    service: SseService<Box<dyn Fn() -> Probe + Send + Sync>>,
    calls: TaskTracker,
    services: TaskTracker,
    end: CancellationToken,
}

impl Rig {
    fn new(probe: &Probe) -> Self {
        let probe = probe.clone();
        let (calls, services) = (TaskTracker::new(), TaskTracker::new());
        let end = CancellationToken::new();
        let service = SseService::new(
            ServeConfig::default().access(),
            Box::new(move || probe.clone()) as Box<dyn Fn() -> Probe + Send + Sync>,
            calls.clone(),
            services.clone(),
            end.clone(),
        );
        Self {
            service,
            calls,
            services,
            end,
        }
    }

    async fn open(&self) -> Client<'_> {
        let response = self.service.handle(get("/sse")).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "text/event-stream"
        );
        let mut client = Client {
            rig: self,
            stream: response.into_body(),
            url: String::new(),
        };
        let first = client.frame().await.unwrap();
        client.url = first
            .strip_prefix("event: endpoint\ndata: ")
            .and_then(|rest| rest.strip_suffix("\n\n"))
            .unwrap()
            .to_owned();
        client
    }

    /// Open, and through the handshake.
    async fn connect(&self) -> Client<'_> {
        let mut client = self.open().await;
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2024-11-05", "capabilities": {},
                "clientInfo": {"name": "test", "version": "0"},
            },
        });
        assert_eq!(client.post(&hello).await, StatusCode::ACCEPTED);
        let answer = client.message().await;
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.post(&ready).await, StatusCode::ACCEPTED);
        client
    }
}

struct Client<'a> {
    rig: &'a Rig,
    stream: BoxBody<Bytes, Infallible>,
    url: String,
}

impl Client<'_> {
    async fn frame(&mut self) -> Option<String> {
        let frame = self.stream.frame().await?.unwrap().into_data().unwrap();
        Some(String::from_utf8(frame.to_vec()).unwrap())
    }

    async fn message(&mut self) -> Value {
        let frame = self.frame().await.unwrap();
        let data = frame.strip_prefix("event: message\ndata: ").unwrap();
        serde_json::from_str(data).unwrap()
    }

    async fn post(&self, message: &Value) -> StatusCode {
        let request = post(&self.url, message.to_string());
        self.rig.service.handle(request).await.status()
    }
}

fn call(id: u64, tool: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": {"z": id, "a": 1}},
    })
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path)
        .header(header::HOST, "localhost:9100")
        .body(Full::default())
        .unwrap()
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(path)
        .header(header::HOST, "localhost:9100")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

/// Lets everything that can run do so.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_answers_on_its_stream() {
    let rig = Rig::new(&Probe::default());
    let mut client = rig.connect().await;

    assert_eq!(client.post(&call(7, "echo")).await, StatusCode::ACCEPTED);

    let answer = client.message().await;
    assert_eq!(answer["id"], 7);
    // The keys come back in the order in which they were sent.
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"z":7,"a":1}"#);
}

#[tokio::test(start_paused = true)]
async fn session_ids_are_long_random_and_never_the_same() {
    let rig = Rig::new(&Probe::default());
    let (one, other) = (rig.open().await, rig.open().await);

    for client in [&one, &other] {
        let id = client.url.strip_prefix("/messages/?session_id=").unwrap();
        assert_eq!(id.len(), 32);
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    assert_ne!(one.url, other.url);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_sessions_at_once_get_their_own_answers() {
    let rig = Rig::new(&Probe::default());
    let sessions = (0..100).map(async |id| {
        let mut client = rig.connect().await;
        client.post(&call(id, "echo")).await;
        assert_eq!(client.message().await["id"], id);
    });

    join_all(sessions).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_ends_its_service_and_its_session() {
    let rig = Rig::new(&Probe::default());
    let client = rig.connect().await;
    // In the middle of a call.
    client.post(&call(1, "wait")).await;
    assert_eq!(rig.services.len(), 1);
    let url = client.url.clone();
    let begin = Instant::now();

    drop(client);

    rig.services.close();
    rig.services.wait().await;
    // The call was told at once, not after a time-out of rmcp.
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert!(rig.service.sessions().is_empty());
    assert!(rig.calls.is_empty());
    let dead = rig.service.handle(post(&url, call(2, "echo").to_string()));
    assert_eq!(dead.await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_before_the_handshake_ends_its_session() {
    let rig = Rig::new(&Probe::default());

    drop(rig.open().await);

    rig.services.close();
    rig.services.wait().await;
    assert!(rig.service.sessions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_begin_with_a_handshake_loses_its_stream() {
    let rig = Rig::new(&Probe::default());
    let mut client = rig.open().await;

    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    assert_eq!(client.post(&answer).await, StatusCode::ACCEPTED);

    assert_eq!(client.frame().await, None);
    // The service is gone, the stream is not dropped yet.
    assert_eq!(client.post(&answer).await, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_ends_every_stream() {
    let rig = Rig::new(&Probe::default());
    let mut idle = rig.connect().await;
    let mut silent = rig.open().await;

    rig.end.cancel();

    assert_eq!(idle.frame().await, None);
    assert_eq!(silent.frame().await, None);
    let mut late = rig.open().await;
    assert_eq!(late.frame().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_carries_a_comment_every_15_seconds() {
    let rig = Rig::new(&Probe::default());
    let mut client = rig.connect().await;

    sleep(Duration::from_secs(14)).await;
    client.post(&call(1, "echo")).await;
    client.message().await;

    for _ in 0..3 {
        let early = timeout(Duration::from_secs(14), client.frame()).await;
        assert!(early.is_err(), "the stream was not silent for 15 s");
        assert_eq!(client.frame().await.unwrap(), ": keep-alive\n\n");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_session_still_takes_messages() {
    let probe = Probe::default();
    let rig = Rig::new(&probe);
    let mut client = rig.connect().await;
    for id in 0..MAX_OWED as u64 {
        assert_eq!(client.post(&call(id, "wait")).await, StatusCode::ACCEPTED);
    }

    // Notifications are taken at once: a client can always cancel.
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3},
    });
    let taken = timeout(Duration::from_secs(1), client.post(&cancelled)).await;
    assert_eq!(taken, Ok(StatusCode::ACCEPTED));

    // Which also makes room for one more request.
    assert_eq!(client.post(&call(999, "echo")).await, StatusCode::ACCEPTED);
    assert_eq!(client.message().await["id"], 999);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_refused_before_it_makes_the_server_grow() {
    let rig = Rig::new(&Probe::default());
    let mut client = rig.connect().await;
    for id in 0..MAX_OWED as u64 {
        assert_eq!(client.post(&call(id, "echo")).await, StatusCode::ACCEPTED);
    }
    settle().await;
    assert_eq!(rig.calls.len(), MAX_OWED);

    let refused = client.post(&call(998, "echo")).await;
    assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS);

    // A request that waits for room gets it as soon as the client reads.
    let url = client.url.clone();
    let waiting = rig
        .service
        .handle(post(&url, call(999, "echo").to_string()));
    let mut waiting = pin!(waiting);
    assert!(poll!(waiting.as_mut()).is_pending());
    client.message().await;
    assert_eq!(waiting.await.status(), StatusCode::ACCEPTED);
    for _ in 0..MAX_OWED {
        client.message().await;
    }
    assert!(rig.calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_talks_to_a_client_that_does_not_read_ends_the_session() {
    let rig = Rig::new(&Probe::default());
    let client = rig.connect().await;
    client.post(&call(1, "talk")).await;

    rig.services.close();
    sleep(Duration::from_secs(59)).await;
    assert_eq!(rig.services.len(), 1);
    // rmcp's own end takes two seconds while a handler does not return.
    timeout(Duration::from_secs(4), rig.services.wait())
        .await
        .unwrap();
    assert_eq!(client.post(&call(2, "echo")).await, StatusCode::NOT_FOUND);
}

fn with(
    mut request: Request<Full<Bytes>>,
    name: header::HeaderName,
    value: Option<&str>,
) -> Request<Full<Bytes>> {
    request.headers_mut().remove(&name);
    if let Some(value) = value {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

/// Every request is answered with its status.
async fn assert_statuses<const N: usize>(rig: &Rig, table: [(Request<Full<Bytes>>, u16); N]) {
    for (request, status) in table {
        let what = format!(
            "{} {} {:?}",
            request.method(),
            request.uri(),
            request.headers()
        );
        let response = rig.service.handle(request).await;
        assert_eq!(response.status(), status, "{what}");
        let is_405 = status == 405;
        assert_eq!(response.headers().contains_key(header::ALLOW), is_405);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_for_nobody_or_of_no_form_is_refused_with_the_status_that_says_why() {
    let rig = Rig::new(&Probe::default());
    let client = rig.connect().await;
    let url = &client.url;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let as_method = |method, path: &str| {
        let mut request = post(path, ping);
        *request.method_mut() = method;
        request
    };
    let unknown = "/messages/?session_id=00000000000040008000000000000000";
    let table = [
        (get("/"), 404),
        (get("/mcp"), 404),
        (as_method(Method::POST, "/sse"), 405),
        (as_method(Method::DELETE, "/sse"), 405),
        (as_method(Method::GET, url), 405),
        (as_method(Method::PUT, url), 405),
        (as_method(Method::OPTIONS, url), 405),
        (post("/messages/", ping), 400),
        (post("/messages/?session_id=", ping), 400),
        (post("/messages/?sessionId=1", ping), 400),
        (post(unknown, ping), 404),
        (post("/messages/?session_id=%00", ping), 404),
        (with(post(url, ping), header::CONTENT_TYPE, None), 415),
        (
            with(post(url, ping), header::CONTENT_TYPE, Some("text/plain")),
            415,
        ),
        (post(url, ""), 400),
        (post(url, "{"), 400),
        (post(url, "\u{0}"), 400),
        (post(url, "[]"), 400),
        (post(url, r#"{"id":1,"method":"ping"}"#), 400),
        (post(url, vec![b' '; MAX_BODY + 1]), 413),
        // And this is fine, without the slash too.
        (
            with(
                post(&url.replace("/?", "?"), ping),
                header::CONTENT_TYPE,
                Some("Application/JSON; charset=utf-8"),
            ),
            202,
        ),
    ];
    assert_statuses(&rig, table).await;
    // None of this opened a session, or hurt the one that is open.
    assert_eq!(rig.service.sessions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_host_or_origin_is_refused_before_anything_else_is_looked_at() {
    let rig = Rig::new(&Probe::default());
    let client = rig.connect().await;
    let url = &client.url;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let host = |request, host| with(request, header::HOST, Some(host));
    let origin = |request, origin| with(request, header::ORIGIN, Some(origin));
    let table = [
        (with(get("/sse"), header::HOST, None), 400),
        (host(get("/sse"), "a b"), 400),
        (host(get("/sse"), "evil.example"), 403),
        (origin(get("/sse"), "http://evil.example"), 403),
        (origin(get("/sse"), "null"), 403),
        (host(post(url, ping), "evil.example"), 403),
        (origin(post(url, ping), "http://evil.example"), 403),
        (host(get("/nothing"), "evil.example"), 403),
        (
            host(post(url, vec![b' '; MAX_BODY + 1]), "evil.example"),
            403,
        ),
        (origin(post(url, ping), "http://localhost:1"), 202),
    ];
    assert_statuses(&rig, table).await;
    assert_eq!(rig.service.sessions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_largest_body_is_taken() {
    let rig = Rig::new(&Probe::default());
    let client = rig.connect().await;
    let mut body = call(1, "echo").to_string();
    body.push_str(&" ".repeat(MAX_BODY - body.len()));

    let response = rig.service.handle(post(&client.url, body)).await;

    assert_eq!(response.status(), StatusCode::ACCEPTED);
}

/// A POST whose body comes in pieces, without a declared length.
async fn stream_to<S>(client: &Client<'_>, pieces: S) -> Response<BoxBody<Bytes, Infallible>>
where
    S: futures_util::Stream<Item = Result<Frame<Bytes>, std::io::Error>>,
{
    let request = post(&client.url, "").map(|_| StreamBody::new(pieces));
    client.rig.service.handle(request).await
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_cut_off_at_the_cap() {
    let rig = Rig::new(&Probe::default());
    let client = rig.connect().await;
    let piece = || Ok(Frame::data(Bytes::from(vec![b' '; 64 * 1024])));
    let endless = futures_util::stream::repeat_with(piece);

    let response = stream_to(&client, endless).await;

    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stands_still_is_given_up() {
    let rig = Rig::new(&Probe::default());
    let client = rig.connect().await;

    let response = stream_to(&client, futures_util::stream::pending()).await;

    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_is_a_bad_request() {
    let rig = Rig::new(&Probe::default());
    let client = rig.connect().await;
    let broken = futures_util::stream::iter([
        Ok(Frame::data(Bytes::from_static(b"{\"jsonrpc\""))),
        Err(std::io::Error::other("reset")),
    ]);

    let response = stream_to(&client, broken).await;

    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

/// A body that says how large it is, and must not be read.
struct Declared(u64);

impl Body for Declared {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("the body was read");
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_is_refused_unread_when_its_length_or_its_session_is_wrong() {
    let rig = Rig::new(&Probe::default());
    let client = rig.connect().await;

    for (url, length, status) in [
        (&*client.url, MAX_BODY as u64 + 1, 413),
        ("/messages/?session_id=1", 1, 404),
    ] {
        let request = post(url, "").map(|_| Declared(length));
        let response = rig.service.handle(request).now_or_never().unwrap();
        assert_eq!(response.status(), status);
    }
}

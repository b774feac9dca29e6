#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::unfold;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{Method, Request, Response};
use rmcp::model::{CallToolRequestParams, CallToolResult, ErrorData};
use rmcp::service::{RunningService, ServiceError};
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{SseBody, SseClient, SseClientConfig, SseClientError, SseHttp, TOO_LARGE};

type Body = SseBody<Broken>;
type Failure = SseClientError<Broken>;
type Script = dyn Fn(&Value, &Stream) -> Post + Send + Sync;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Broken(&'static str);

/// What a POST gets.
enum Post {
    Accepted,
    Answer(u16, Option<&'static str>),
    Refused,
    Silence,
}

/// The server's end of the event stream.
#[derive(Clone)]
struct Stream(mpsc::UnboundedSender<Result<Bytes, Broken>>);

impl Stream {
    fn write(&self, text: impl Into<Bytes>) {
        let _ = self.0.send(Ok(text.into()));
    }

    fn message(&self, message: &Value) {
        self.write(format!("event: message\r\ndata: {message}\r\n\r\n"));
    }

    fn answer(&self, request: &Value, result: &Value) {
        self.message(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    fn text(&self, request: &Value, text: &str) {
        self.answer(
            request,
            &json!({"content": [{"type": "text", "text": text}]}),
        );
    }
}

/// A server in memory, as the HTTP to it.
#[derive(Clone)]
struct Wire {
    requests: Arc<Mutex<Vec<Request<Bytes>>>>,
    /// What the GET gets, once.
    opening: Arc<Mutex<Option<Response<Body>>>>,
    stream: Arc<Mutex<Option<Stream>>>,
    script: Arc<Script>,
}

impl Wire {
    fn new(script: impl Fn(&Value, &Stream) -> Post + Send + Sync + 'static) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let body = unfold(receiver, async |mut receiver| {
            Some((receiver.recv().await?, receiver))
        });
        let response = Response::builder()
            .header(CONTENT_TYPE, "text/event-stream; charset=utf-8")
            .body(body.boxed());
        Self {
            requests: Arc::default(),
            opening: Arc::new(Mutex::new(Some(response.unwrap()))),
            stream: Arc::new(Mutex::new(Some(Stream(sender)))),
            script: Arc::new(script),
        }
    }

    /// One whose stream begins like this.
    fn saying(text: impl Into<Bytes>) -> Self {
        let wire = Self::silent();
        wire.stream().write(text);
        wire
    }

    fn silent() -> Self {
        Self::new(|_, _| Post::Accepted)
    }

    /// One that answers the GET with something else than a stream.
    fn opening_with(status: u16, header: (http::HeaderName, &'static str)) -> Self {
        let wire = Self::silent();
        let response = Response::builder()
            .status(status)
            .header(header.0, header.1)
            .body(futures_util::stream::empty().boxed());
        *wire.opening.lock().unwrap() = Some(response.unwrap());
        wire
    }

    /// A server that went through the handshake with a client.
    async fn serving(
        script: impl Fn(&Value, &Stream) -> Post + Send + Sync + 'static,
    ) -> (Self, RunningService<RoleClient, ()>) {
        Self::serving_to(config(), script).await
    }

    async fn serving_to(
        config: SseClientConfig,
        script: impl Fn(&Value, &Stream) -> Post + Send + Sync + 'static,
    ) -> (Self, RunningService<RoleClient, ()>) {
        let wire = Self::new(move |message, stream| match message["method"].as_str() {
            Some("initialize") => {
                let hello = json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "old", "version": "0"}});
                stream.answer(message, &hello);
                Post::Accepted
            }
            Some("tools/call") => script(message, stream),
            _ => Post::Accepted,
        });
        wire.stream().write(ENDPOINT);
        let client = SseClient::connect(wire.clone(), config).await.unwrap();
        let service = ().serve(client).await.unwrap();
        (wire, service)
    }

    fn stream(&self) -> Stream {
        self.stream.lock().unwrap().clone().unwrap()
    }

    /// The stream ends.
    fn hang_up(&self) {
        self.stream.lock().unwrap().take();
    }

    /// The requests so far, as method and path.
    fn seen(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let seen = requests.iter();
        seen.map(|it| format!("{} {}", it.method(), it.uri()))
            .collect()
    }

    fn calls(&self) -> usize {
        let requests = self.requests.lock().unwrap();
        let is_call = |it: &&Request<Bytes>| it.body().windows(10).any(|it| it == b"tools/call");
        requests.iter().filter(is_call).count()
    }
}

impl SseHttp for Wire {
    type Error = Broken;

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, Broken> {
        self.requests.lock().unwrap().push(request.clone());
        if request.method() == Method::GET {
            return Ok(self.opening.lock().unwrap().take().unwrap());
        }
        let message = serde_json::from_slice(request.body()).unwrap();
        let stream = self.stream.lock().unwrap().clone();
        let post = match &stream {
            Some(stream) => (self.script)(&message, stream),
            None => Post::Answer(404, None),
        };
        drop(stream);
        let (status, retry_after) = match post {
            Post::Accepted => (202, None),
            Post::Answer(status, retry_after) => (status, retry_after),
            Post::Refused => return Err(Broken("connection refused")),
            Post::Silence => std::future::pending().await,
        };
        let mut response = Response::builder().status(status);
        if let Some(retry_after) = retry_after {
            response = response.header(RETRY_AFTER, retry_after);
        }
        if (300..400).contains(&status) {
            response = response.header(LOCATION, "http://elsewhere/");
        }
        let body = futures_util::stream::iter([Ok(Bytes::from_static(b"words"))]);
        Ok(response.body(body.boxed()).unwrap())
    }
}

const ENDPOINT: &str = "event: endpoint\ndata: /messages/?session_id=1\n\n";

fn config() -> SseClientConfig {
    SseClientConfig::new("http://robot:9100/sse".parse().unwrap())
}

async fn refusal(wire: Wire) -> Failure {
    let client = SseClient::connect(wire, config()).await;
    client.err().expect("it is refused")
}

async fn call(service: &RunningService<RoleClient, ()>) -> Result<CallToolResult, ServiceError> {
    service
        .peer()
        .call_tool(CallToolRequestParams::new("drive"))
        .await
}

/// The transport's own error in a request's.
fn transport_error(error: ServiceError) -> Failure {
    let ServiceError::TransportSend(error) = error else {
        panic!("{error:?}");
    };
    *error.error.downcast::<Failure>().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_endpoint_is_resolved_against_the_url_and_posts_go_there() {
    for (named, expected) in [
        ("/messages/?session_id=1", "/messages/?session_id=1"),
        ("messages?sid=1&x=y", "/messages?sid=1&x=y"),
        ("?sid=1", "/sse?sid=1"),
        ("http://robot:9100/m", "/m"),
    ] {
        let wire = Wire::saying(format!(
            ": hello\r\nevent: endpoint\r\ndata: {named}\r\n\r\n"
        ));
        let client = SseClient::connect(wire.clone(), config()).await.unwrap();

        // Nobody answers the handshake.
        let _ = tokio::time::timeout(Duration::from_secs(1), ().serve(client)).await;

        assert_eq!(
            wire.seen()[..2],
            [
                "GET http://robot:9100/sse".to_owned(),
                format!("POST http://robot:9100{expected}")
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_of_another_origin_is_refused_and_nothing_is_posted() {
    for named in [
        "http://elsewhere:9100/messages",
        "http://robot:9101/messages",
        "https://robot:9100/messages",
        "//elsewhere/messages",
        "http://user:password@robot:9100/messages",
        "file:///etc/passwd",
        "data:text/plain,x",
    ] {
        let wire = Wire::saying(format!("event: endpoint\ndata: {named}\n\n"));

        let refused = refusal(wire.clone()).await;

        assert!(
            matches!(refused, Failure::ForeignEndpoint { .. }),
            "{named}: {refused:?}"
        );
        assert_eq!(wire.seen(), ["GET http://robot:9100/sse"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_names_no_endpoint_times_out() {
    let wire = Wire::saying(": ping\n\nevent: message\ndata: {}\n\nevent: endpoint\ndata: /m\n");
    let begun = Instant::now();

    let refused = refusal(wire).await;

    let within = Duration::from_secs(30);
    assert!(
        matches!(refused, Failure::NoEndpoint { within: it } if it == within),
        "{refused:?}"
    );
    assert_eq!(begun.elapsed(), within);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_or_breaks_before_its_endpoint_is_an_error() {
    let wire = Wire::silent();
    wire.hang_up();
    assert!(matches!(refusal(wire).await, Failure::Ended));

    let wire = Wire::silent();
    let _ = wire.stream().0.send(Err(Broken("reset")));
    assert!(matches!(
        refusal(wire).await,
        Failure::Http(Broken("reset"))
    ));

    let wire = Wire::silent();
    for _ in 0..20 {
        wire.stream().write("x".repeat(1_000));
    }
    let client = SseClient::connect(wire, config().max_message_bytes(1_000)).await;
    assert!(matches!(client.err(), Some(Failure::Endless)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_event_stream_is_refused() {
    let wire = Wire::opening_with(200, (CONTENT_TYPE, "application/json"));
    assert!(matches!(refusal(wire).await, Failure::NoEventStream));

    for (status, header) in [
        (307, (LOCATION, "http://robot:9100/sse/")),
        (401, (CONTENT_TYPE, "text/event-stream")),
        (503, (RETRY_AFTER, "7")),
    ] {
        let wire = Wire::opening_with(status, header);

        let refused = refusal(wire.clone()).await;

        let Failure::Status {
            status: seen,
            retry_after,
        } = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(seen, status);
        assert_eq!(retry_after.is_some(), status == 503);
        assert_eq!(wire.seen().len(), 1, "a redirect is not followed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_answered_on_the_stream_between_comments_and_other_events() {
    let (wire, service) = Wire::serving(|call, stream| {
        stream.write(": ping\r\n\r\nevent: ping\r\ndata: 1\r\n\r\ndata: no JSON\r\n\r\n");
        stream.write("event: endpoint\ndata: http://elsewhere/\n\n");
        stream.text(call, "there");
        Post::Accepted
    })
    .await;

    for _ in 0..2 {
        let result = call(&service).await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap().text, "there");
    }

    let seen = wire.seen();
    let endpoint = "POST http://robot:9100/messages/?session_id=1";
    assert!(seen[1..].iter().all(|it| it == endpoint), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_drops_fails_every_pending_request_at_once() {
    let (wire, service) = Wire::serving(|_, _| Post::Accepted).await;
    let begun = Instant::now();
    let dropping = async {
        while wire.calls() < 3 {
            tokio::task::yield_now().await;
        }
        wire.hang_up();
    };

    let calls = join_all((0..3).map(|_| call(&service)));
    let (answers, ()) = tokio::join!(calls, dropping);

    for answer in answers {
        assert!(matches!(answer, Err(ServiceError::TransportClosed)));
    }
    assert!(service.peer().is_transport_closed());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(wire.calls(), 3, "nothing is posted again");
}

#[tokio::test(start_paused = true)]
async fn a_refused_post_says_how_and_is_not_repeated_or_redirected() {
    for (status, retry_after) in [
        (302, None),
        (307, None),
        (401, None),
        (403, None),
        (404, None),
        (429, Some("7")),
        (500, None),
        (503, Some("Wed, 21 Oct 2065 07:28:00 GMT")),
    ] {
        let (wire, service) = Wire::serving(move |_, _| Post::Answer(status, retry_after)).await;

        let failed = transport_error(call(&service).await.unwrap_err());

        let Failure::Status {
            status: seen,
            retry_after: after,
        } = failed
        else {
            panic!("{failed:?}");
        };
        assert_eq!((seen.as_u16(), after.as_deref()), (status, retry_after));
        assert_eq!(wire.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_post_that_cannot_be_sent_fails_alone_and_says_why() {
    let (_wire, service) = Wire::serving(|call, stream| {
        if call["params"]["name"] == "drive" {
            return Post::Refused;
        }
        stream.text(call, "there");
        Post::Accepted
    })
    .await;

    let failed = transport_error(call(&service).await.unwrap_err());
    assert!(matches!(
        failed,
        Failure::Http(Broken("connection refused"))
    ));

    let other = CallToolRequestParams::new("other");
    assert!(service.peer().call_tool(other).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_come_before_its_post_is_acknowledged() {
    let (_wire, service) = Wire::serving(|call, stream| {
        stream.text(call, "there");
        Post::Silence
    })
    .await;

    assert!(call(&service).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_the_cap_is_an_error_for_its_own_request_alone() {
    let wire = Wire::new(|message, stream| {
        match (
            message["method"].as_str(),
            message["params"]["name"].as_str(),
        ) {
            (Some("initialize"), _) => {
                let hello = json!({"protocolVersion": "2024-11-05", "capabilities": {},
                    "serverInfo": {"name": "old", "version": "0"}});
                stream.answer(message, &hello);
            }
            (_, Some("drive")) => stream.text(message, &"x".repeat(5_000)),
            (_, Some("other")) => stream.text(message, "there"),
            _ => {}
        }
        Post::Accepted
    });
    wire.stream().write(ENDPOINT);
    let config = config().max_message_bytes(1_000);
    let client = SseClient::connect(wire.clone(), config).await.unwrap();
    let service = ().serve(client).await.unwrap();

    let too_large = call(&service);
    let other = service
        .peer()
        .call_tool(CallToolRequestParams::new("other"));
    let (too_large, other) = tokio::join!(too_large, other);

    let Err(ServiceError::McpError(ErrorData {
        data: Some(data), ..
    })) = too_large
    else {
        panic!("{too_large:?}");
    };
    assert_eq!(data[TOO_LARGE], true);
    assert!(other.is_ok());

    // A request of the server's is nobody's answer, whatever its id.
    let id = 3;
    let padding = "x".repeat(5_000);
    wire.stream()
        .message(&json!({"jsonrpc": "2.0", "id": id, "method": "ping",
        "params": {"padding": padding}}));
    let after = CallToolRequestParams::new("other");
    assert!(service.peer().call_tool(after).await.is_ok());

    // And one without an end ends the session.
    wire.stream().write("data: ");
    for _ in 0..20 {
        wire.stream().write("x".repeat(1_000));
    }
    let ended = call(&service).await;
    assert!(ended.is_err(), "{ended:?}");
    assert!(service.peer().is_transport_closed());
}

/// An answer of 5,000 bytes that begins with its result, and how it ends.
fn oversized(end: &str) -> String {
    let text = "x".repeat(5_000);
    format!("data: {{\"jsonrpc\":\"2.0\",\"result\":{{\"x\":\"{text}\"}}{end}}}\n\n")
}

fn is_too_large(answer: &Result<CallToolResult, ServiceError>) -> bool {
    let Err(ServiceError::McpError(error)) = answer else {
        return false;
    };
    error.data.as_ref().is_some_and(|it| it[TOO_LARGE] == true)
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_the_cap_that_names_its_request_last_is_an_error_for_it_alone() {
    let config = config().max_message_bytes(1_000);
    let (_wire, service) = Wire::serving_to(config, |call, stream| {
        if call["params"]["name"] == "drive" {
            stream.write(oversized(&format!(",\"id\":{}", call["id"])));
            stream.text(&json!({"id": call["id"].as_i64().unwrap() - 1}), "there");
        }
        Post::Accepted
    })
    .await;
    let other = CallToolRequestParams::new("other");

    let other = service.peer().call_tool(other);
    let (other, too_large) = tokio::join!(other, call(&service));

    assert!(is_too_large(&too_large), "{too_large:?}");
    assert!(other.is_ok(), "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_the_cap_without_an_id_is_for_the_only_request_or_ends_the_session() {
    let config = config().max_message_bytes(1_000);
    let (wire, service) = Wire::serving_to(config.clone(), |call, stream| {
        if call["params"]["name"] == "drive" {
            stream.write(oversized(""));
        }
        Post::Accepted
    })
    .await;
    let only = call(&service).await;
    assert!(is_too_large(&only), "{only:?}");
    assert_eq!(wire.calls(), 1);

    let other = CallToolRequestParams::new("other");
    let other = service.peer().call_tool(other);
    let both = tokio::join!(other, call(&service));
    assert!(matches!(both.0, Err(ServiceError::TransportClosed)));
    assert!(matches!(both.1, Err(ServiceError::TransportClosed)));

    // One that goes on for so long that the session ends before it does.
    let (_wire, service) = Wire::serving_to(config, |_, stream| {
        stream.write("data: {\"jsonrpc\":\"2.0\",\"result\":{\"x\":\"");
        for _ in 0..20 {
            stream.write("x".repeat(1_000));
        }
        Post::Accepted
    })
    .await;
    let endless = call(&service).await;
    assert!(is_too_large(&endless), "{endless:?}");
    assert!(call(&service).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_token_goes_with_every_request_and_is_shown_nowhere() {
    let config = config().bearer_token("s3cret");
    assert!(!format!("{config:?}").contains("s3cret"));
    let wire = Wire::saying(ENDPOINT);
    let client = SseClient::connect(wire.clone(), config.clone())
        .await
        .unwrap();
    let _ = tokio::time::timeout(Duration::from_secs(1), ().serve(client)).await;

    let requests = wire.requests.lock().unwrap().clone();
    assert!(requests.len() >= 2);
    for request in &requests {
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer s3cret");
        assert!(!format!("{request:?}").contains("s3cret"));
    }

    let client = SseClient::connect(wire, config.bearer_token("two\nlines")).await;
    let refused = client.err().unwrap();
    assert!(matches!(refused, Failure::Token));
}

//! rmcp's streamable HTTP server, at `/mcp`.

mod admission;
mod body;
mod task_name;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::SessionId;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::admission::{admit, may_open, no_room};
use self::task_name::{Filled, fill_in};
use crate::access::AccessPolicy;
use crate::limit::{Limit, SESSIONS, STREAMS};

/// How long a session that nobody uses is kept for its client to come back.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// The streamable HTTP transport as a function from requests to responses.
///
/// Clients of the protocol's older versions get a session, newer ones need none.
pub(crate) struct Streamable<H> {
    service: StreamableHttpService<H, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    calls: TaskTracker,
    listeners: TaskTracker,
    most_sessions: Limit,
    most_listeners: Limit,
}

impl<H: ServerHandler> Streamable<H> {
    /// `calls` counts the requests in flight; `end` ends all sessions and streams.
    pub(crate) fn new<F>(
        access: &AccessPolicy,
        factory: F,
        calls: TaskTracker,
        end: CancellationToken,
    ) -> Self
    where
        F: Fn() -> H + Send + Sync + 'static,
    {
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(access.hosts())
            .with_cancellation_token(end);
        if *access != AccessPolicy::Any {
            config = config
                .with_allowed_origins(access.origins())
                .enforce_origin_validation();
        }
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(IDLE);
        let sessions = Arc::new(sessions);
        Self {
            service: StreamableHttpService::new(
                move || Ok(factory()),
                Arc::clone(&sessions),
                config,
            ),
            sessions,
            calls,
            listeners: TaskTracker::new(),
            most_sessions: Limit::new("sessions", SESSIONS),
            most_listeners: Limit::new("listening streams", STREAMS),
        }
    }

    pub(crate) async fn handle<B>(
        &self,
        request: Request<B>,
    ) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Error: std::fmt::Display,
    {
        if request.uri().path() != "/mcp" {
            let mut response = Response::new(Full::from("not found").boxed());
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
        let call = (request.method() == Method::POST).then(|| self.calls.token());
        let listening = (request.method() == Method::GET).then(|| self.listeners.token());
        if listening.is_some() && !self.most_listeners.has_room(self.listeners.len() - 1) {
            return no_room("too many streams are open; try again later");
        }
        let listener = listening
            .as_ref()
            .and_then(|_| session_id(&request))
            .map(SessionId::from);

        // Requests on their way may open some more: no more than there are connections.
        let response = if may_open(&request) && !self.has_room().await {
            match admit(request).await {
                Ok(request) => self.answer(request).await,
                Err(refused) => refused,
            }
        } else {
            self.answer(request).await
        };

        let keeper = listener
            .filter(|_| response.status() == StatusCode::OK)
            .map(|id| keep_session(Arc::clone(&self.sessions), id));
        response.map(|body| {
            let held = HeldBody {
                body,
                _call: call,
                _listening: listening,
                _keeper: keeper,
            };
            held.boxed()
        })
    }

    /// Whether another session may be opened.
    async fn has_room(&self) -> bool {
        let open = self.sessions.sessions.read().await.len();
        self.most_sessions.has_room(open)
    }

    async fn answer<B>(&self, request: Request<B>) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Error: std::fmt::Display,
    {
        match fill_in(request).await {
            Filled::Kept(request) => self.service.handle(request).await,
            Filled::Read(request) => self.service.handle(request).await,
            Filled::Refused(response) => response,
        }
    }
}

/// The session that a request is for.
fn session_id<B>(request: &Request<B>) -> Option<&str> {
    request.headers().get("mcp-session-id")?.to_str().ok()
}

/// Keeps a session in use while its client listens.
///
/// rmcp counts messages only: a client that listens for an hour and says nothing would lose its
/// session. Closing a channel that does not exist counts as a message, and does nothing.
fn keep_session(sessions: Arc<LocalSessionManager>, id: SessionId) -> AbortOnDropHandle<()> {
    const NO_CHANNEL: u64 = u64::MAX;
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            sleep(IDLE / 4).await;
            let handle = sessions.sessions.read().await.get(&id).cloned();
            let Some(handle) = handle else { return };
            if handle.close_request_wise_channel(NO_CHANNEL).await.is_err() {
                return;
            }
        }
    }))
}

/// A response's body, and what lasts as long as it does.
struct HeldBody {
    body: BoxBody<Bytes, Infallible>,
    _call: Option<TaskTrackerToken>,
    _listening: Option<TaskTrackerToken>,
    _keeper: Option<AbortOnDropHandle<()>>,
}

impl Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::header;
    use rvc_test::Logs;
    use tracing::Level;

    use super::*;
    use crate::config::ServeConfig;

    const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":
        {"protocolVersion":"2025-06-18","capabilities":{},
        "clientInfo":{"name":"test","version":"0"}}}"#;

    struct Bare;
    impl ServerHandler for Bare {}

    fn service() -> Streamable<Bare> {
        let access = ServeConfig::default().access();
        Streamable::new(
            &access,
            || Bare,
            TaskTracker::new(),
            CancellationToken::new(),
        )
    }

    async fn send(
        service: &Streamable<Bare>,
        method: Method,
        session: Option<&str>,
        body: &'static str,
    ) -> Response<BoxBody<Bytes, Infallible>> {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .body(Full::<Bytes>::from(body))
            .unwrap();
        if let Some(session) = session {
            let session = session.parse().unwrap();
            request.headers_mut().insert("mcp-session-id", session);
        }
        service.handle(request).await
    }

    async fn open(service: &Streamable<Bare>) -> String {
        let response = send(service, Method::POST, None, HELLO).await;
        assert_eq!(response.status(), StatusCode::OK);
        response.headers()["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned()
    }

    async fn ping(service: &Streamable<Bare>, session: &str) -> StatusCode {
        let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        send(service, Method::POST, Some(session), ping)
            .await
            .status()
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_lasts_while_its_client_listens_and_says_nothing() {
        let service = service();
        let session = open(&service).await;
        let listening = send(&service, Method::GET, Some(&session), "").await;
        assert_eq!(listening.status(), StatusCode::OK);

        sleep(IDLE * 100).await;
        assert_eq!(ping(&service, &session).await, StatusCode::OK);

        drop(listening);
        sleep(IDLE * 2).await;
        assert_eq!(ping(&service, &session).await, StatusCode::NOT_FOUND);
        assert!(service.sessions.sessions.read().await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_nobody_uses_is_kept_for_an_hour() {
        let service = service();
        let session = open(&service).await;

        sleep(IDLE / 60 * 59).await;
        assert_eq!(ping(&service, &session).await, StatusCode::OK);
        sleep(IDLE / 60 * 61).await;
        assert_eq!(ping(&service, &session).await, StatusCode::NOT_FOUND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_in_flight_until_its_answer_was_read() {
        let service = service();
        let session = open(&service).await;
        assert!(service.calls.is_empty());

        let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        let answer = send(&service, Method::POST, Some(&session), ping).await;
        assert_eq!(service.calls.len(), 1);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(body.ends_with(b"\n\n"));
        assert!(service.calls.is_empty());

        let listening = send(&service, Method::GET, Some(&session), "").await;
        assert!(service.calls.is_empty());
        drop(listening);
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_that_nobody_ends_are_not_more_than_a_thousand() {
        let logs = Logs::capture();
        let service = service();
        let first = open(&service).await;
        for _ in 1..SESSIONS {
            open(&service).await;
        }

        for _ in 0..3 {
            let refused = send(&service, Method::POST, None, HELLO).await;
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(refused.headers().contains_key(header::RETRY_AFTER));
            let reason = refused.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(reason, "too many sessions are open; try again later");
        }
        let sessions = service.sessions.sessions.read().await.len();
        assert_eq!(sessions, SESSIONS);
        let warnings = logs.at(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        assert_eq!(warnings[0].field("of"), Some("sessions"));

        // Those that are there go on, and one that ends makes room.
        assert_eq!(ping(&service, &first).await, StatusCode::OK);
        send(&service, Method::DELETE, Some(&first), "").await;
        open(&service).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_without_a_session_is_answered_when_there_is_room_for_none() {
        let mut service = service();
        service.most_sessions = Limit::new("sessions", 0);
        let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{
            "io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "io.modelcontextprotocol/clientInfo":{"name":"test","version":"0"},
            "io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let mut request = Request::post("/mcp")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        for (name, value) in [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "server/discover"),
        ] {
            request = request.header(name, value);
        }
        let request = request.body(Full::<Bytes>::from(discover)).unwrap();
        assert_eq!(service.handle(request).await.status(), StatusCode::OK);

        for refused in [HELLO, "[]", r#"{"method":"x","method":"initialize"}"#] {
            let refused = send(&service, Method::POST, None, refused).await;
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn streams_that_listen_leave_room_for_requests() {
        let logs = Logs::capture();
        let mut service = service();
        service.most_listeners = Limit::new("listening streams", 2);
        let session = open(&service).await;
        let listen = || send(&service, Method::GET, Some(&session), "");
        // One that is refused takes no room.
        let unknown = send(&service, Method::GET, Some("unknown"), "").await;
        assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
        drop(unknown);
        let (one, _two) = (listen().await, listen().await);

        for _ in 0..3 {
            let refused = listen().await;
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        assert_eq!(logs.at(Level::WARN).len(), 1);

        assert_eq!(ping(&service, &session).await, StatusCode::OK);
        drop(one);
        assert_eq!(listen().await.status(), StatusCode::OK);
    }
}

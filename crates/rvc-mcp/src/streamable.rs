//! rmcp's streamable HTTP server, at `/mcp`.

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

use self::task_name::{Filled, fill_in};
use crate::access::AccessPolicy;

/// How long a session that nobody uses is kept for its client to come back.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// The streamable HTTP transport as a function from requests to responses.
///
/// Clients of the protocol's older versions get a session, newer ones need none.
pub(crate) struct Streamable<H> {
    service: StreamableHttpService<H, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    calls: TaskTracker,
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
        let listener = (request.method() == Method::GET)
            .then(|| request.headers().get("mcp-session-id")?.to_str().ok())
            .flatten()
            .map(SessionId::from);

        let response = match fill_in(request).await {
            Filled::Kept(request) => self.service.handle(request).await,
            Filled::Read(request) => self.service.handle(request).await,
            Filled::Refused(response) => response,
        };

        let listener = listener
            .filter(|_| response.status() == StatusCode::OK)
            .map(|id| keep_session(Arc::clone(&self.sessions), id));
        response.map(|body| {
            let held = HeldBody {
                body,
                _call: call,
                _listener: listener,
            };
            held.boxed()
        })
    }
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
    _listener: Option<AbortOnDropHandle<()>>,
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

    use super::*;
    use crate::config::ServeConfig;

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
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":
            "2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}"#;
        let response = send(service, Method::POST, None, hello).await;
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
}

//! Routes HTTP requests to sessions.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::ServerHandler;
use rmcp::service::serve_server_with_ct;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::AccessPolicy;
use crate::sse::body;
use crate::sse::session::{Opened, PushError, Sessions};

/// The HTTP+SSE transport as a function from requests to responses.
pub(crate) struct SseService<F> {
    access: AccessPolicy,
    factory: F,
    sessions: Arc<Sessions>,
    services: TaskTracker,
}

impl<F, H> SseService<F>
where
    F: Fn() -> H + Send + Sync,
    H: ServerHandler,
{
    /// `calls` counts the requests in flight, `services` the rmcp services; `end` ends all
    /// sessions.
    pub(crate) fn new(
        access: AccessPolicy,
        factory: F,
        calls: TaskTracker,
        services: TaskTracker,
        end: CancellationToken,
    ) -> Self {
        Self {
            access,
            factory,
            sessions: Sessions::new(calls, end),
            services,
        }
    }

    #[cfg(test)]
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub(crate) async fn handle<B>(
        &self,
        request: Request<B>,
    ) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body<Data = Bytes>,
        B::Error: Display + Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Err(refusal) = self.access.check(request.uri(), request.headers()) {
            tracing::warn!(%refusal, "refused a request");
            return text(refusal.status(), &refusal);
        }
        let (allowed, is_stream) = match request.uri().path() {
            "/sse" => (Method::GET, true),
            "/messages/" | "/messages" => (Method::POST, false),
            _ => return text(StatusCode::NOT_FOUND, "not found"),
        };
        if request.method() != allowed {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
            let allowed = HeaderValue::from_str(allowed.as_str()).expect("a method is a token");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        if is_stream {
            self.open()
        } else {
            self.post(request).await
        }
    }

    /// Opens a session and starts its service.
    fn open(&self) -> Response<BoxBody<Bytes, Infallible>> {
        let Opened {
            stream,
            transport,
            end,
        } = self.sessions.open();
        let handler = (self.factory)();
        self.services.spawn(async move {
            match serve_server_with_ct(handler, transport, end).await {
                Ok(running) => {
                    // How it ended was logged by rmcp.
                    let _ = running.waiting().await;
                }
                Err(error) => tracing::debug!(%error, "a session ended before its handshake"),
            }
        });

        let mut response = Response::new(stream.boxed());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // nginx would hold events back.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    /// Passes one message to its session.
    async fn post<B>(&self, request: Request<B>) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body<Data = Bytes>,
        B::Error: Display + Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let Some(id) = session_id(parts.uri.query()) else {
            return text(StatusCode::BAD_REQUEST, "session_id is required");
        };
        // Before the body: nothing is read for a session that does not exist.
        let Some(session) = self.sessions.get(id) else {
            return text(StatusCode::NOT_FOUND, "no such session");
        };
        // A web page can send other types to any origin unasked.
        if !is_json(parts.headers.get(CONTENT_TYPE)) {
            let reason = "the Content-Type must be application/json";
            return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason);
        }
        let mut message = match body::read(body).await {
            Ok(message) => message,
            Err(error) => return text(error.status(), &error),
        };
        // As rmcp's streamable HTTP server does: handlers can see the HTTP request.
        message.insert_extension(parts);
        match session.push(message).await {
            Ok(()) => text(StatusCode::ACCEPTED, "Accepted"),
            Err(error @ PushError::Ended) => text(StatusCode::NOT_FOUND, error),
            Err(error @ PushError::Busy) => {
                let mut response = text(StatusCode::TOO_MANY_REQUESTS, error);
                response
                    .headers_mut()
                    .insert(RETRY_AFTER, HeaderValue::from_static("1"));
                response
            }
        }
    }
}

/// The session that a POST is for.
fn session_id(query: Option<&str>) -> Option<&str> {
    query?
        .split('&')
        .find_map(|pair| pair.strip_prefix("session_id="))
        .filter(|id| !id.is_empty())
}

fn is_json(content_type: Option<&HeaderValue>) -> bool {
    content_type
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

fn text(status: StatusCode, reason: impl Display) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::from(reason.to_string()).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

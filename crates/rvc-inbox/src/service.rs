mod body;
mod desk;
mod reply;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body::Body;
use hyper::service::Service;
use rvc_wire::TaskEvent;
use tracing::{Instrument, Span};

use crate::gate::{Gate, Verified};
use crate::service::desk::{Claim, Desk, Step};
use crate::service::reply::Reply;
use crate::{Accepted, Handler, Inbox, Kind, NotNow, Rejection};

/// A hyper service that receives events at one path and hands them to a [`Handler`].
///
/// An answer is a short JSON object: `{"status": "accepted"}` or `"duplicate"` with 200, else
/// `{"error": …, "reason": …}` with the status of the [`Rejection`], with 503 when the handler
/// says [`NotNow`], 500 when it panics, 404 and 405 for another path or method.
///
/// Clones share the inbox. It needs a Tokio runtime, also when it is mounted into another server;
/// [`serve`](crate::serve) is one of its own.
pub struct EventService<H> {
    shared: Arc<Shared<H>>,
}

struct Shared<H> {
    gate: Gate,
    desk: Desk,
    handler: H,
    path: String,
    body_timeout: Duration,
    clock: Clock,
}

/// Answers unix seconds.
type Clock = Box<dyn Fn() -> i64 + Send + Sync>;

impl<H: Handler> EventService<H> {
    /// Starts to build a service around an inbox.
    pub fn builder(inbox: Inbox, handler: H) -> EventServiceBuilder<H> {
        EventServiceBuilder {
            inbox,
            handler,
            path: "/api/agent/events".to_owned(),
            body_timeout: Duration::from_secs(10),
            clock: Box::new(unix_seconds),
        }
    }

    /// Answers one request. It never fails: what goes wrong is a status.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: when it is dropped, an event that the handler already has is handled to its
    /// end and remembered, and the sender's next attempt is acknowledged as a duplicate. An event
    /// that the handler does not have yet is untouched.
    pub async fn respond<B>(&self, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: fmt::Display,
    {
        let started = Instant::now();
        let shared = &self.shared;
        if request.uri().path() != shared.path {
            return reply::not_found(&shared.path);
        }
        if request.method() != Method::POST {
            return reply::method_not_allowed();
        }
        let (head, body) = request.into_parts();
        match shared.verify(&head.headers, body).await {
            Ok(verified) => {
                let span = span_of(&verified.event);
                shared.take(verified, started).instrument(span).await
            }
            Err(rejection) => shared.refuse(&rejection, started),
        }
    }

    /// Waits until every event that the handler has is handled.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn idle(&self) {
        self.shared.desk.idle().await;
    }
}

impl<H: Handler> Shared<H> {
    async fn verify<B>(&self, headers: &HeaderMap, mut body: B) -> Result<Verified, Rejection>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: fmt::Display,
    {
        // The skew is that of the request's head: a body that drips in does not age it.
        let now = (self.clock)();
        let announced = self.gate.check_size(body.size_hint().lower());
        let read = match announced.and_then(|()| self.gate.admit(headers, now)) {
            Ok(candidate) => body::read(&mut body, &self.gate, self.body_timeout)
                .await
                .and_then(|bytes| candidate.open(&bytes)),
            Err(rejection) => Err(rejection),
        };
        // One that is too slow has had its time.
        if let Err(rejection) = &read
            && !matches!(rejection, Rejection::TooSlow { .. })
        {
            tokio::spawn(body::discard(body, self.body_timeout));
        }
        read
    }

    async fn take(self: &Arc<Self>, mut verified: Verified, started: Instant) -> Reply {
        loop {
            match self.desk.receive(verified) {
                Step::Handle(accepted, claim) => {
                    return self.handle(accepted, claim, started).await;
                }
                Step::Acknowledge(accepted) => {
                    self.handler.duplicate(&accepted);
                    tracing::debug!(duration_ms = ms_since(started), "duplicate acknowledged");
                    return reply::acknowledged(Kind::Duplicate);
                }
                Step::Refuse(rejection) => return self.refuse(&rejection, started),
                Step::Wait(again, end) => {
                    desk::ended(end).await;
                    verified = again;
                }
            }
        }
    }

    async fn handle(self: &Arc<Self>, accepted: Accepted, claim: Claim, started: Instant) -> Reply {
        if let Some(gap) = accepted.gap {
            tracing::warn!(%gap, sighting = ?accepted.sighting, "events are missing");
        }
        let shared = Arc::clone(self);
        let handle = async move {
            shared.handler.handle(accepted).await?;
            claim.taken();
            Ok::<(), NotNow>(())
        };
        // A task of its own: a sender that hangs up must not leave the event half handled.
        let handled = tokio::spawn(handle.in_current_span()).await;
        let duration_ms = ms_since(started);
        match handled {
            Ok(Ok(())) => {
                tracing::debug!(duration_ms, "event taken");
                reply::acknowledged(Kind::New)
            }
            Ok(Err(refusal)) => {
                tracing::warn!(reason = %refusal, duration_ms, "event not taken");
                reply::not_now(&refusal)
            }
            Err(error) => {
                tracing::error!(%error, duration_ms, "handler failed");
                reply::broken()
            }
        }
    }

    fn refuse(&self, rejection: &Rejection, started: Instant) -> Reply {
        self.handler.rejected(rejection);
        tracing::warn!(
            status = rejection.status().as_u16(),
            verdict = rejection.verdict(),
            reason = %rejection,
            duration_ms = ms_since(started),
            "request refused"
        );
        reply::rejected(rejection)
    }
}

impl<H> Clone for EventService<H> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<H> fmt::Debug for EventService<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventService")
            .field("path", &self.shared.path)
            .finish_non_exhaustive()
    }
}

impl<H, B> Service<Request<B>> for EventService<H>
where
    H: Handler,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: fmt::Display + Send,
{
    type Response = Reply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}

/// Configures an [`EventService`].
#[must_use]
pub struct EventServiceBuilder<H> {
    inbox: Inbox,
    handler: H,
    path: String,
    body_timeout: Duration,
    clock: Clock,
}

impl<H: Handler> EventServiceBuilder<H> {
    /// The path that events are sent to; `/api/agent/events` by default.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// How long a body may take to come whole; 10 s by default, as long as a sender's attempt.
    pub const fn body_timeout(mut self, allowed: Duration) -> Self {
        self.body_timeout = allowed;
        self
    }

    /// Where the time comes from, in unix seconds; the system's clock by default.
    pub fn clock(mut self, clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Makes the service.
    pub fn build(self) -> EventService<H> {
        let (gate, ledgers) = self.inbox.into_parts();
        EventService {
            shared: Arc::new(Shared {
                gate,
                desk: Desk::new(ledgers),
                handler: self.handler,
                path: self.path,
                body_timeout: self.body_timeout,
                clock: self.clock,
            }),
        }
    }
}

impl<H> fmt::Debug for EventServiceBuilder<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventServiceBuilder")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn span_of(event: &TaskEvent) -> Span {
    tracing::info_span!(
        "event",
        server = %event.server,
        task_id = %event.task_id,
        event_id = %event.event_id,
        tool = %event.tool,
        r#type = %event.event_type,
        seq = event.seq.get(),
    )
}

fn ms_since(started: Instant) -> u64 {
    started.elapsed().as_millis().try_into().unwrap_or(u64::MAX)
}

fn unix_seconds() -> i64 {
    // A clock before 1970 is wrong; at 0 everything is stale, and the log says by how much.
    SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_secs().try_into().unwrap_or(i64::MAX))
}

//! One attempt: connect if need be, sign, send, read the answer. All under one deadline.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{CONTENT_TYPE, DATE, HOST, HeaderMap, HeaderName, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use rvc_sign::{SERVER_HEADER, SIGNATURE_HEADER, SignedHeaders, TIMESTAMP_HEADER};
use rvc_wire::ServerName;
use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::connection::Connection;
use crate::delivery_error::DeliveryError;
use crate::departure::Departure;
use crate::outbox::Outcome;
use crate::schedule::Opened;
use crate::skew::SkewWatch;
use crate::{Connector, Endpoint, OutgoingEvent, journal, retry};

/// What every attempt of a poster has in common.
pub(crate) struct Route {
    pub(crate) server: ServerName,
    pub(crate) server_header: HeaderValue,
    pub(crate) endpoint: Endpoint,
    pub(crate) connector: Box<dyn Connector>,
    pub(crate) clock: WallClock,
    pub(crate) attempt_timeout: Duration,
    pub(crate) skew: Mutex<SkewWatch>,
    /// When the last attempt began that a kept connection left without an answer.
    pub(crate) doubtful_since: Mutex<Option<Instant>>,
}

/// Gives the present time in unix seconds.
pub(crate) type WallClock = Box<dyn Fn() -> i64 + Send + Sync>;

/// Carries events over one connection at a time.
pub(crate) struct Courier {
    route: Arc<Route>,
    connection: Option<Connection>,
    /// When the last attempt began that the connection brought an answer to.
    answered: Option<Instant>,
    alarm: Alarm,
    /// The last `Date` that was compared with the clock.
    last_date: Option<HeaderValue>,
}

impl Courier {
    pub(crate) fn new(route: Arc<Route>) -> Self {
        Self {
            route,
            connection: None,
            answered: None,
            alarm: Alarm::default(),
            last_date: None,
        }
    }

    /// Makes one attempt to deliver an event, which begins now.
    pub(crate) async fn deliver(
        &mut self,
        event: &OutgoingEvent,
        departure: Departure,
        now: Instant,
    ) -> Outcome {
        let limit = self.route.attempt_timeout;
        let deadline = now + limit;
        let mut connection = Opened::Earlier;
        if self.is_doubtful() {
            self.connection = None;
        }
        let mut alarm = std::mem::take(&mut self.alarm);
        let exchange = self.exchange(event, departure, &mut connection);
        let result = match alarm.before(deadline, exchange).await {
            Some(Ok(answer)) => {
                self.answered = Some(now);
                self.conclude(answer, deadline, &mut alarm).await
            }
            Some(Err(error)) => Err(error),
            None if self.connection.is_some() => {
                if connection == Opened::Earlier {
                    self.route.doubt_kept_connections(now);
                }
                Err(DeliveryError::AnswerTimeout(limit))
            }
            None => Err(DeliveryError::ConnectTimeout(limit)),
        };
        self.alarm = alarm;
        if !matches!(result, Ok(()) | Err(DeliveryError::Refused { .. })) {
            self.connection = None;
        }
        Outcome {
            result: result.map_err(Arc::new),
            connection,
        }
    }

    /// Waits until the kept connection has ended, or for ever if there is none.
    pub(crate) async fn connection_ended(&mut self) {
        match &mut self.connection {
            Some(connection) => connection.ended().await,
            None => std::future::pending().await,
        }
        self.connection = None;
    }

    /// Whether the connection may be dead without having said so: another one was silent since it
    /// last brought an answer, as all of them are after a change of networks.
    fn is_doubtful(&self) -> bool {
        // Without a doubt nothing is earlier.
        self.connection.is_some() && self.answered < *self.route.doubtful_since()
    }

    /// Sends the event and waits for the answer's head.
    async fn exchange(
        &mut self,
        event: &OutgoingEvent,
        departure: Departure,
        opened: &mut Opened,
    ) -> Result<Response<Incoming>, DeliveryError> {
        if let Some(connection) = &mut self.connection {
            if connection.is_ready() {
                let request = self.route.request(event);
                departure.wait().await;
                match connection.send(request).await {
                    Ok(answer) => return Ok(answer),
                    Err(failure) if failure.received => {
                        return Err(DeliveryError::Broken(failure.error));
                    }
                    // The peer closed it while it was idle, or before it had read the request.
                    // That is no failed attempt. If the peer did read it, it dedupes.
                    Err(_) => {}
                }
            }
            self.connection = None;
        }
        *opened = Opened::ForThisAttempt;
        let transport = self.route.connector.connect().await;
        let transport = transport.map_err(DeliveryError::Connect)?;
        let connection = Connection::open(transport).await;
        let connection = self
            .connection
            .insert(connection.map_err(DeliveryError::Broken)?);
        connection
            .send(self.route.request(event))
            .await
            .map_err(|failure| DeliveryError::Broken(failure.error))
    }

    /// Judges an answer, and reads its body so that the connection can be kept.
    ///
    /// The status decides; a body without an end costs the connection and nothing else.
    async fn conclude(
        &mut self,
        answer: Response<Incoming>,
        deadline: Instant,
        alarm: &mut Alarm,
    ) -> Result<(), DeliveryError> {
        let status = answer.status();
        let retry_after = self.route.retry_after(answer.headers());
        self.compare_clocks(answer.headers());

        let mut excerpt = Vec::new();
        let body = answer.into_body();
        if let Some(connection) = &mut self.connection
            && !body.is_end_stream()
        {
            let drain = connection.drain(body, MOST_DRAINED, &mut excerpt);
            let limit = deadline.min(Instant::now() + LONGEST_DRAIN);
            if alarm.before(limit, drain).await != Some(true) {
                self.connection = None;
            }
        }
        if status.is_success() {
            return Ok(());
        }
        Err(DeliveryError::Refused {
            status,
            retry_after,
            answer: printable(&excerpt),
        })
    }

    fn compare_clocks(&mut self, headers: &HeaderMap) {
        let Some(date) = headers.get(DATE) else {
            return;
        };
        // It changes once a second, whatever the rate of events.
        if self.last_date.as_ref() == Some(date) {
            return;
        }
        self.last_date = Some(date.clone());
        if let Some(endpoint_unix_s) = parse_date(date) {
            let own_unix_s = (self.route.clock)();
            let mut watch = self
                .route
                .skew
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let skew = watch.observe(endpoint_unix_s, own_unix_s, Instant::now());
            drop(watch);
            if let Some(ahead_s) = skew {
                journal::skewed(&self.route.server, ahead_s);
            }
        }
    }
}

impl Route {
    /// Signs the event for an attempt that begins now (contract decision 9).
    fn request(&self, event: &OutgoingEvent) -> Request<Full<Bytes>> {
        let body = event.body().clone();
        // A clock before 1970 has no timestamp on the wire; the receiver calls 0 stale as well.
        let now = (self.clock)().max(0);
        let signed = SignedHeaders::new(self.endpoint.secret(), now, &body);

        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from(self.endpoint.path().clone());
        let headers = request.headers_mut();
        headers.insert(HOST, self.endpoint.host_header().clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(&SERVER, self.server_header.clone());
        headers.insert(&TIMESTAMP, header_value(signed.timestamp()));
        headers.insert(&SIGNATURE, header_value(signed.signature()));
        request
    }

    /// Has connections opened anew that brought no answer to an attempt which began since then.
    fn doubt_kept_connections(&self, since: Instant) {
        let mut doubtful_since = self.doubtful_since();
        *doubtful_since = (*doubtful_since).max(Some(since));
    }

    fn doubtful_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.doubtful_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        let header = headers.get(RETRY_AFTER)?.to_str().ok()?;
        // A date is the endpoint's, so its own clock is the one to compare it with.
        let now = headers.get(DATE).and_then(parse_date);
        retry::retry_after(header, now.unwrap_or_else(|| (self.clock)()))
    }
}

/// The value of a header that is plain ASCII.
///
/// # Panics
///
/// If it is not.
pub(crate) fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("the value is plain ASCII")
}

/// What an answer says, in one line that moves no terminal's cursor.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let chars = text.trim().chars();
    chars
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn parse_date(header: &HeaderValue) -> Option<i64> {
    retry::http_date(header.to_str().ok()?)
}

static SERVER: HeaderName = HeaderName::from_static(SERVER_HEADER);
static TIMESTAMP: HeaderName = HeaderName::from_static(TIMESTAMP_HEADER);
static SIGNATURE: HeaderName = HeaderName::from_static(SIGNATURE_HEADER);

/// How much of an answer's body is read to keep the connection.
const MOST_DRAINED: usize = 64 << 10;

/// How long it is read. The answer is known by then, and the task's next event waits.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

//! The client's side of the deprecated HTTP+SSE transport.
//!
//! ```text
//! SseClient::connect ─► GET /sse ─────► event: endpoint ─► where to POST
//! rmcp ─► send ───────► POST endpoint ◄── 202
//!      ◄─ receive ◄──── event: message … on the one stream
//! ```
//!
//! 1. A message is posted once. Nothing is repeated here, and no redirect is followed.
//! 2. The stream is the session. When it ends, [`SseClient`] has nothing more to receive, and
//!    rmcp fails every request that is under way; a new session is a new [`SseClient`].
//! 3. What a server sends is kept up to the cap. What goes over it is thrown away unread.

mod decoder;
mod error;
mod http;
mod oversized;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::time::Duration;

use ::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use ::http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use bytes::Bytes;
use futures_util::StreamExt as _;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::timeout;
use url::Url;

use self::decoder::{Decoder, Heard};
pub use self::error::SseClientError;
pub use self::http::{SseBody, SseHttp};
use self::oversized::Beginning;
pub use self::oversized::TOO_LARGE;

/// Where a server is, and how much of it is put up with.
#[derive(Clone)]
#[must_use]
pub struct SseClientConfig {
    url: Url,
    token: Option<String>,
    max_message_bytes: usize,
    open_timeout: Duration,
}

impl SseClientConfig {
    /// The event stream's URL, such as `http://127.0.0.1:9100/sse`.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            token: None,
            max_message_bytes: 16 << 20,
            open_timeout: Duration::from_secs(30),
        }
    }

    /// Sends a bearer token with every request.
    pub fn bearer_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The largest message that is taken (16 MiB).
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// How long the server gets to open its stream and to name its endpoint (30 s).
    pub fn open_timeout(mut self, timeout: Duration) -> Self {
        self.open_timeout = timeout;
        self
    }
}

impl fmt::Debug for SseClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseClientConfig")
            .field("url", &self.url.as_str())
            .field("has_token", &self.token.is_some())
            .field("max_message_bytes", &self.max_message_bytes)
            .field("open_timeout", &self.open_timeout)
            .finish()
    }
}

/// A session with an HTTP+SSE server, as a transport for an rmcp client.
///
/// An answer that is larger than the cap is thrown away; its request gets a JSON-RPC error
/// instead, whose data has [`TOO_LARGE`]. The request is the one that the answer names at its
/// beginning or at its end, or else the only one that is under way; when there are several, the
/// session is ended, since one of them would wait for ever. A session in which more than 16 caps
/// of one message had to be thrown away is ended too.
///
/// How long an answer may take is for the caller to say, as with every rmcp transport.
pub struct SseClient<H: SseHttp> {
    http: H,
    endpoint: Uri,
    headers: HeaderMap,
    /// None after its end.
    stream: Option<SseBody<H::Error>>,
    decoder: Decoder,
    heard: VecDeque<Heard>,
    /// What was posted and not answered. A request that failed or was given up stays here: its
    /// answer may come all the same, and must not be taken for another's.
    pending: HashSet<RequestId>,
    /// An answer goes on that is too large and did not say to what.
    is_unnamed: bool,
}

impl<H: SseHttp> SseClient<H> {
    /// Opens the event stream and waits for the endpoint that it names.
    ///
    /// # Errors
    ///
    /// When the stream cannot be had, when it is none, and when it names no endpoint of its own
    /// origin in time. Nothing was sent to the server but this one GET.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a stream that is half open is dropped.
    pub async fn connect(
        http: H,
        config: SseClientConfig,
    ) -> Result<Self, SseClientError<H::Error>> {
        let within = config.open_timeout;
        timeout(within, Self::open(http, config))
            .await
            .unwrap_or(Err(SseClientError::NoEndpoint { within }))
    }

    async fn open(http: H, config: SseClientConfig) -> Result<Self, SseClientError<H::Error>> {
        let mut headers = HeaderMap::new();
        if let Some(token) = config.token {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| SseClientError::Token)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut get = request(Method::GET, uri(&config.url)?, &headers, Bytes::new());
        let accept = HeaderValue::from_static(EVENT_STREAM);
        get.headers_mut().insert(ACCEPT, accept);
        let response = succeeded(http.send(get).await.map_err(SseClientError::Http)?)?;
        if !is_event_stream(response.headers()) {
            return Err(SseClientError::NoEventStream);
        }
        let mut client = Self {
            http,
            // Replaced before anything is sent there.
            endpoint: Uri::default(),
            headers,
            stream: Some(response.into_body()),
            decoder: Decoder::new(config.max_message_bytes),
            heard: VecDeque::new(),
            pending: HashSet::new(),
            is_unnamed: false,
        };
        loop {
            match client.hear().await? {
                Some(Heard::Endpoint(reference)) => {
                    client.endpoint = endpoint(&config.url, &reference)?;
                    return Ok(client);
                }
                // A session begins with its endpoint.
                Some(Heard::Message(_) | Heard::Oversized(_) | Heard::OversizedEnd(_)) => {}
                None => return Err(SseClientError::Ended),
            }
        }
    }

    /// The next that the stream says; none at its end. Cancel safe.
    async fn hear(&mut self) -> Result<Option<Heard>, SseClientError<H::Error>> {
        loop {
            if let Some(heard) = self.heard.pop_front() {
                return Ok(Some(heard));
            }
            let Some(stream) = &mut self.stream else {
                return Ok(None);
            };
            let Some(chunk) = stream.next().await else {
                return Ok(None);
            };
            let chunk = chunk.map_err(SseClientError::Http)?;
            self.decoder
                .push(&chunk, &mut self.heard)
                .map_err(|_| SseClientError::Endless)?;
        }
    }

    /// What a request gets whose answer is too large.
    fn too_large(&mut self, request: RequestId) -> ServerJsonRpcMessage {
        self.pending.remove(&request);
        oversized::answer(request)
    }

    /// The request that is under way, if it is the only one.
    fn only_pending(&self) -> Option<RequestId> {
        let mut pending = self.pending.iter();
        let only = pending.next().filter(|_| pending.next().is_none());
        only.cloned()
    }
}

impl<H: SseHttp> Transport<RoleClient> for SseClient<H> {
    type Error = SseClientError<H::Error>;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &message {
            self.pending.insert(request.id.clone());
        }
        let http = self.http.clone();
        let mut post = request(
            Method::POST,
            self.endpoint.clone(),
            &self.headers,
            Bytes::new(),
        );
        async move {
            *post.body_mut() = serde_json::to_vec(&message)
                .map_err(SseClientError::Encode)?
                .into();
            let json = HeaderValue::from_static("application/json");
            post.headers_mut().insert(CONTENT_TYPE, json);
            let response = http.send(post).await.map_err(SseClientError::Http)?;
            drain(succeeded(response)?.into_body()).await;
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let heard = self.hear().await.unwrap_or_else(|error| {
                tracing::debug!(%error, "an event stream ended");
                self.stream = None;
                self.heard.pop_front()
            });
            match heard {
                Some(Heard::Message(json)) => match serde_json::from_slice(&json) {
                    Ok(message) => {
                        if let Some(request) = answered(&message) {
                            self.pending.remove(request);
                        }
                        return Some(message);
                    }
                    Err(error) => tracing::debug!(%error, "an event is no JSON-RPC message"),
                },
                Some(Heard::Oversized(bytes)) => match oversized::beginning(&bytes) {
                    Beginning::Answers(request) => return Some(self.too_large(request)),
                    Beginning::Answer => self.is_unnamed = true,
                    Beginning::Other => {
                        tracing::debug!("a message is too large, and answers nothing");
                    }
                },
                Some(Heard::OversizedEnd(tail)) if self.is_unnamed => {
                    self.is_unnamed = false;
                    let request = oversized::last_id(&tail).or_else(|| self.only_pending());
                    if let Some(request) = request {
                        return Some(self.too_large(request));
                    }
                    tracing::warn!(
                        "an answer is too large and does not say to what; the session ends"
                    );
                    self.stream = None;
                    self.heard.clear();
                    return None;
                }
                // What is answered already, and a session's second endpoint.
                Some(Heard::OversizedEnd(_) | Heard::Endpoint(_)) => {}
                None => {
                    self.stream = None;
                    // Its end does not come any more.
                    let is_unnamed = std::mem::take(&mut self.is_unnamed);
                    let request = self.only_pending().filter(|_| is_unnamed)?;
                    return Some(self.too_large(request));
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.stream = None;
        self.heard.clear();
        Ok(())
    }
}

/// The request that a message answers.
fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

fn request(method: Method, uri: Uri, headers: &HeaderMap, body: Bytes) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers.clone();
    request
}

/// An answer in the 2xx; anything else is an error, a redirect too.
fn succeeded<B, E>(response: Response<B>) -> Result<Response<B>, SseClientError<E>> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = response.headers().get(RETRY_AFTER);
    Err(SseClientError::Status {
        status,
        retry_after: retry_after
            .and_then(|value| value.to_str().ok())
            .filter(|value| value.len() <= 64)
            .map(str::to_owned),
    })
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case(EVENT_STREAM))
}

/// Where to POST: a reference, as a server writes it, from the stream's URL.
///
/// What is posted has arguments in it, and the token: it goes to nobody else.
fn endpoint<E>(stream: &Url, reference: &str) -> Result<Uri, SseClientError<E>> {
    let foreign = || SseClientError::ForeignEndpoint {
        // What follows is the session's secret.
        endpoint: reference
            .chars()
            .take_while(|it| !matches!(it, '?' | '#'))
            .take(200)
            .collect(),
    };
    let endpoint = stream.join(reference).map_err(|_| foreign())?;
    let has_user = !endpoint.username().is_empty() || endpoint.password().is_some();
    if endpoint.origin() != stream.origin() || has_user {
        return Err(foreign());
    }
    uri(&endpoint)
}

fn uri<E>(url: &Url) -> Result<Uri, SseClientError<E>> {
    url.as_str().parse().map_err(SseClientError::Url)
}

/// Reads the little that an answer to a POST says, so that its connection can be used again.
async fn drain<E>(mut body: SseBody<E>) {
    let mut left = DRAINED;
    let read = async {
        while let Some(Ok(chunk)) = body.next().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                return;
            }
        }
    };
    // The message has arrived, whatever becomes of the words about it.
    let _ = timeout(DRAIN_TIMEOUT, read).await;
}

const EVENT_STREAM: &str = "text/event-stream";

/// The most bytes of an answer to a POST that are read.
const DRAINED: usize = 16 << 10;

/// How long they are waited for.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

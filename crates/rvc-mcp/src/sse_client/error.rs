use std::time::Duration;

use http::StatusCode;

/// Why a session could not be opened, or a message not be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SseClientError<E> {
    /// No response, or the stream broke.
    #[error("the HTTP request failed")]
    Http(#[source] E),

    /// The server answered outside 2xx. No redirect is followed.
    #[error("the server answered HTTP {status}")]
    Status {
        /// The HTTP status.
        status: StatusCode,
        /// The `Retry-After` header as it is.
        retry_after: Option<String>,
    },

    /// The answer to the GET is something else.
    #[error("the answer is no event stream")]
    NoEventStream,

    /// The stream did not name its endpoint in time.
    #[error("the event stream named no endpoint within {within:?}")]
    NoEndpoint {
        /// How long it was waited for.
        within: Duration,
    },

    /// The stream ended before it named its endpoint.
    #[error("the event stream ended before it named its endpoint")]
    Ended,

    /// The endpoint belongs to another origin than the stream.
    #[error("the event stream names an endpoint of another origin: {endpoint:?}")]
    ForeignEndpoint {
        /// What it named, without its query.
        endpoint: String,
    },

    /// The server goes on with a message long after it is too large.
    #[error("the event stream has a message without end")]
    Endless,

    /// HTTP cannot carry the URL.
    #[error("the URL cannot be requested")]
    Url(#[source] http::uri::InvalidUri),

    /// HTTP cannot carry the token.
    #[error("the token is not of visible characters")]
    Token,

    /// The message does not serialize. Nothing was sent.
    #[error("the message does not serialize")]
    Encode(#[source] serde_json::Error),
}

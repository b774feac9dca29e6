use std::error::Error;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rvc_mcp::SseClientError;

use super::capped::says_too_large;

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallFailure {
    /// The server answered with a JSON-RPC error.
    Rpc(ErrorData),
    /// No byte of the call reached the server: the connection was refused.
    NotSent {
        reason: String,
        retry_after: Option<Duration>,
    },
    /// The server wants other credentials.
    Denied { status: u16 },
    /// The answer is larger than what is read.
    TooLarge,
    /// No answer, for any other reason.
    Lost {
        reason: String,
        retry_after: Option<Duration>,
    },
}

impl CallFailure {
    pub(super) fn of(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) if says_too_large(&error) => Self::TooLarge,
            ServiceError::McpError(error) => Self::Rpc(error),
            ServiceError::Timeout { timeout } => Self::Lost {
                reason: format!("no answer within {timeout:?}"),
                retry_after: None,
            },
            ServiceError::TransportSend(error) => in_transport(error.error.as_ref()),
            other => Self::Lost {
                reason: other.to_string(),
                retry_after: None,
            },
        }
    }
}

/// Reads what HTTP said out of a transport's error.
pub(super) fn in_transport(error: &(dyn Error + 'static)) -> CallFailure {
    let mut reason = error.to_string();
    let mut source = Some(error);
    while let Some(current) = source {
        if let Some(error) = current.downcast_ref::<SseClientError<reqwest::Error>>() {
            return over_sse(error);
        }
        match current.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::Client(error)) => {
                reason = chain(error);
                if error.is_connect() {
                    return CallFailure::NotSent {
                        reason,
                        retry_after: None,
                    };
                }
            }
            Some(StreamableHttpError::HttpStatus(status)) => {
                let retry_after = status.retry_after.as_deref().and_then(retry_after);
                return CallFailure::Lost {
                    reason: status.to_string(),
                    retry_after,
                };
            }
            Some(StreamableHttpError::AuthRequired(_)) => {
                return CallFailure::Denied { status: 401 };
            }
            Some(StreamableHttpError::InsufficientScope(_)) => {
                return CallFailure::Denied { status: 403 };
            }
            Some(StreamableHttpError::UnexpectedServerResponse(text)) => {
                if let Some(status) = unchallenged(text) {
                    return CallFailure::Denied { status };
                }
            }
            Some(StreamableHttpError::ResponseBodyTooLarge { .. }) => {
                return CallFailure::TooLarge;
            }
            _ => {}
        }
        source = current.source();
    }
    CallFailure::Lost {
        reason,
        retry_after: None,
    }
}

/// The same for HTTP+SSE.
fn over_sse(error: &SseClientError<reqwest::Error>) -> CallFailure {
    let mut after = None;
    match error {
        SseClientError::Http(cause) if cause.is_connect() => {
            return CallFailure::NotSent {
                reason: chain(error),
                retry_after: None,
            };
        }
        SseClientError::Status { status, .. } if matches!(status.as_u16(), 401 | 403) => {
            return CallFailure::Denied {
                status: status.as_u16(),
            };
        }
        SseClientError::Status {
            retry_after: it, ..
        } => {
            after = it.as_deref().and_then(retry_after);
        }
        _ => {}
    }
    CallFailure::Lost {
        reason: chain(error),
        retry_after: after,
    }
}

/// The status of a denial without a `WWW-Authenticate`, of which rmcp keeps only the text.
fn unchallenged(text: &str) -> Option<u16> {
    let status = text.strip_prefix("HTTP ")?.split(' ').next()?;
    status
        .parse()
        .ok()
        .filter(|status| matches!(status, 401 | 403))
}

/// A denial in words.
pub(super) fn denied(status: u16) -> String {
    format!("the server wants other credentials (HTTP {status})")
}

/// An error and its causes in one line.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The seconds of a `Retry-After`, or the time until its date.
fn retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(
        date.duration_since(std::time::SystemTime::now())
            .unwrap_or_default(),
    )
}

//! Reading a POST's body: not more than allowed, and not for ever.

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rmcp::model::ClientJsonRpcMessage;
use tokio::time::timeout;

/// The largest body; rmcp's streamable HTTP server has the same cap.
pub(crate) const MAX_BODY: usize = 4 * 1024 * 1024;

/// One deadline for a whole body.
const DEADLINE: Duration = Duration::from_secs(30);

/// Why a body held no message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than {MAX_BODY} bytes")]
    TooLarge,
    #[error("the body did not come within {} s", DEADLINE.as_secs())]
    TooSlow,
    #[error("the body broke off")]
    Broken,
    #[error("the body is no JSON-RPC message: {0}")]
    Malformed(serde_json::Error),
}

impl BodyError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken | Self::Malformed(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads one JSON-RPC message.
pub(crate) async fn read<B>(body: B) -> Result<ClientJsonRpcMessage, BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: Display + Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // A length that is declared too large is refused before a byte of it is read.
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(BodyError::TooLarge);
    }
    let bytes = timeout(DEADLINE, Limited::new(body, MAX_BODY).collect())
        .await
        .map_err(|_| BodyError::TooSlow)?
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                BodyError::TooLarge
            } else {
                BodyError::Broken
            }
        })?
        .to_bytes();
    serde_json::from_slice(&bytes).map_err(BodyError::Malformed)
}

//! A request's body, read before rmcp does.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};

/// What rmcp takes at most.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The whole body, or the answer to a client whose body cannot be read.
pub(super) async fn read<B>(body: B) -> Result<Bytes, Response<BoxBody<Bytes, Infallible>>>
where
    B: Body + Send + 'static,
    B::Error: std::fmt::Display,
{
    // A body's own error is only known to be printable.
    let body = body.map_err(|error| error.to_string());
    match Limited::new(body, MOST_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(refused(&*error)),
    }
}

fn refused(error: &(dyn std::error::Error + 'static)) -> Response<BoxBody<Bytes, Infallible>> {
    let (status, text) = if error.is::<LengthLimitError>() {
        (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large")
    } else {
        (StatusCode::BAD_REQUEST, "the body could not be read")
    };
    let mut response = Response::new(Full::from(text).boxed());
    *response.status_mut() = status;
    response
}

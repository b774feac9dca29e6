//! Which requests open a session, and how they are refused.
//!
//! It is asked only when there is no room: to know, the body must be read.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::model::{ConstString, InitializeResultMethod};
use serde::Deserialize;

use super::body::read;
use super::session_id;

/// Whether a request may open a session, as far as its head tells.
pub(super) fn may_open<B>(request: &Request<B>) -> bool {
    request.method() == Method::POST && session_id(request).is_none()
}

/// Lets a request pass that opens no session; clients of newer versions need none.
pub(super) async fn admit<B>(
    request: Request<B>,
) -> Result<Request<Full<Bytes>>, Response<BoxBody<Bytes, Infallible>>>
where
    B: Body + Send + 'static,
    B::Error: std::fmt::Display,
{
    let (head, body) = request.into_parts();
    let body = read(body).await?;
    if opens(&body) {
        return Err(no_room("too many sessions are open; try again later"));
    }
    Ok(Request::from_parts(head, Full::new(body)))
}

/// What cannot be read is refused too: it is not for us to guess how rmcp would read it.
fn opens(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message {
        method: String,
    }
    let message = serde_json::from_slice::<Message>(body);
    message.map_or(true, |message| {
        message.method == InitializeResultMethod::VALUE
    })
}

/// The answer when there is no room for what was asked.
pub(super) fn no_room(reason: &'static str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::from(reason).boxed());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("60"));
    response
}

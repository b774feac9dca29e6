//! Clients that do not name their task in a header.
//!
//! The protocol wants the `taskId` of `tasks/*` in `Mcp-Name` too, so that proxies can route by
//! it; rmcp refuses a request without. `FastMCP`'s client sends none, and nothing here routes by
//! it, so it is filled in from the body. One that is there is rmcp's to check.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use rmcp::model::{CancelTaskMethod, ConstString, GetTaskMethod, UpdateTaskMethod};
use serde::Deserialize;

const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
/// What rmcp takes at most.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// A request, with the name filled in where that is to be done.
pub(super) enum Filled<B> {
    /// It is as it came.
    Kept(Request<B>),
    /// Its body was read.
    Read(Request<Full<Bytes>>),
    /// Its body could not be read.
    Refused(Response<BoxBody<Bytes, Infallible>>),
}

pub(super) async fn fill_in<B>(request: Request<B>) -> Filled<B>
where
    B: Body + Send + 'static,
    B::Error: std::fmt::Display,
{
    if !lacks_name(&request) {
        return Filled::Kept(request);
    }
    let (mut head, body) = request.into_parts();
    // A body's own error is only known to be printable.
    let body = body.map_err(|error| error.to_string());
    let body = match Limited::new(body, MOST_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Filled::Refused(refused(&*error)),
    };
    if let Some(name) = task_id(&body) {
        head.headers.insert(NAME, name);
    }
    Filled::Read(Request::from_parts(head, Full::new(body)))
}

fn lacks_name<B>(request: &Request<B>) -> bool {
    let ours = [
        GetTaskMethod::VALUE,
        UpdateTaskMethod::VALUE,
        CancelTaskMethod::VALUE,
    ];
    let method = request.headers().get(METHOD);
    request.method() == Method::POST
        && !request.headers().contains_key(NAME)
        && method.is_some_and(|method| ours.iter().any(|ours| method == ours))
}

/// The task that the body names. None if it is no such request, or no task can have the id:
/// then rmcp says what is wrong.
fn task_id(body: &[u8]) -> Option<HeaderValue> {
    #[derive(Deserialize)]
    struct Message {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "taskId")]
        task_id: String,
    }
    let message: Message = serde_json::from_slice(body).ok()?;
    HeaderValue::from_str(&message.params.task_id).ok()
}

fn refused(error: &(dyn std::error::Error + 'static)) -> Response<BoxBody<Bytes, Infallible>> {
    let (status, text) = if error.is::<http_body_util::LengthLimitError>() {
        (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large")
    } else {
        (StatusCode::BAD_REQUEST, "the body could not be read")
    };
    let mut response = Response::new(Full::from(text).boxed());
    *response.status_mut() = status;
    response
}

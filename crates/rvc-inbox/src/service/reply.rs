use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

use crate::{Kind, NotNow, Rejection};

/// What a service answers with: a short JSON object.
pub(crate) type Reply = Response<Full<Bytes>>;

pub(crate) fn acknowledged(kind: Kind) -> Reply {
    let status = match kind {
        Kind::New => "accepted",
        Kind::Duplicate => "duplicate",
    };
    json(StatusCode::OK, &serde_json::json!({ "status": status }))
}

pub(crate) fn rejected(rejection: &Rejection) -> Reply {
    error(
        rejection.status(),
        rejection.verdict(),
        &rejection.to_string(),
    )
}

pub(crate) fn not_now(refusal: &NotNow) -> Reply {
    error(
        StatusCode::SERVICE_UNAVAILABLE,
        "not_now",
        &refusal.to_string(),
    )
}

pub(crate) fn broken() -> Reply {
    error(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the receiver failed on this event",
    )
}

pub(crate) fn not_found(path: &str) -> Reply {
    let reason = format!("events are received at {path}");
    error(StatusCode::NOT_FOUND, "not_found", &reason)
}

pub(crate) fn method_not_allowed() -> Reply {
    let mut reply = error(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "events are sent with POST",
    );
    reply
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("POST"));
    reply
}

fn error(status: StatusCode, verdict: &str, reason: &str) -> Reply {
    json(
        status,
        &serde_json::json!({ "error": verdict, "reason": reason }),
    )
}

fn json(status: StatusCode, value: &serde_json::Value) -> Reply {
    let mut reply = Response::new(Full::new(value.to_string().into()));
    *reply.status_mut() = status;
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

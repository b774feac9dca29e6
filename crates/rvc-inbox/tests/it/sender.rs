//! Events as a server would send them.

use http::HeaderMap;
use rvc_inbox::{Inbox, InboxBuilder};
use rvc_sign::{Secret, SignedHeaders};
use rvc_wire::{EventType, TaskEvent, Timestamp};

pub(crate) const NOW: i64 = 1_765_532_000;

pub(crate) fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

/// An inbox for the servers of these tests: navigation's secret is being rotated.
pub(crate) fn builder() -> InboxBuilder {
    Inbox::builder()
        .server(
            "navigation".parse().unwrap(),
            [secret("n3w"), secret("s3cret")],
        )
        .server("perception".parse().unwrap(), [secret("perc")])
}

pub(crate) fn inbox() -> Inbox {
    builder().build().unwrap()
}

/// An event of the server navigation, whose id follows from task, creation and seq.
pub(crate) fn event(task: &str, creation: u8, seq: u64) -> TaskEvent {
    TaskEvent {
        schema_version: 1,
        event_id: format!("{task}/{creation}/{seq}").parse().unwrap(),
        task_id: task.parse().unwrap(),
        server: "navigation".parse().unwrap(),
        tool: "navigate_to".parse().unwrap(),
        event_type: EventType::Progress,
        seq: seq.try_into().unwrap(),
        ts: Timestamp::from_unix_ms(NOW * 1_000).unwrap(),
        payload: rvc_wire::Map::new(),
    }
}

/// The headers of a POST.
pub(crate) fn headers(server: &str, secret_text: &str, signed_at: i64, body: &[u8]) -> HeaderMap {
    let signed = SignedHeaders::new(&secret(secret_text), signed_at, body);
    let mut headers = HeaderMap::new();
    headers.insert(rvc_sign::SERVER_HEADER, server.parse().unwrap());
    headers.insert(
        rvc_sign::TIMESTAMP_HEADER,
        signed.timestamp().parse().unwrap(),
    );
    headers.insert(
        rvc_sign::SIGNATURE_HEADER,
        signed.signature().parse().unwrap(),
    );
    headers
}

/// The headers and body of navigation's POST of an event.
pub(crate) fn post(event: &TaskEvent, signed_at: i64) -> (HeaderMap, Vec<u8>) {
    let body = event.to_json();
    (headers("navigation", "s3cret", signed_at, &body), body)
}

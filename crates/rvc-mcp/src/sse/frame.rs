//! How messages are written on an event stream.

use bytes::Bytes;
use serde::Serialize;

/// Keeps proxies and read time-outs from ending a quiet stream. Clients ignore comments.
pub(crate) const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// The first event of a stream: where to POST messages for it.
pub(crate) fn endpoint(session_id: &str) -> Bytes {
    Bytes::from(format!(
        "event: endpoint\ndata: /messages/?session_id={session_id}\n\n"
    ))
}

/// One JSON-RPC message as one event.
///
/// JSON holds no raw line ending, so its text is one `data` line. Some deployed clients also
/// break lines at NEL, LS and PS, which JSON allows inside strings: those are written escaped.
///
/// # Errors
///
/// When the message does not serialize.
pub(crate) fn message(message: &impl Serialize) -> Result<Bytes, serde_json::Error> {
    const HEAD: &[u8] = b"event: message\ndata: ";
    let mut frame = HEAD.to_vec();
    serde_json::to_writer(&mut frame, message)?;
    frame.extend_from_slice(b"\n\n");

    let text = std::str::from_utf8(&frame).expect("serde_json writes UTF-8");
    if text.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
        let escaped = text
            .replace('\u{85}', "\\u0085")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029");
        return Ok(Bytes::from(escaped));
    }
    Ok(Bytes::from(frame))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_message_is_one_event_with_one_data_line() {
        let frame = message(&json!({"jsonrpc": "2.0", "text": "two\nlines"})).unwrap();

        assert_eq!(
            frame,
            "event: message\ndata: {\"jsonrpc\":\"2.0\",\"text\":\"two\\nlines\"}\n\n"
        );
    }

    #[test]
    fn unusual_line_separators_stay_on_one_line_and_read_back_the_same() {
        let sent = json!({"text": "a\u{85}b\u{2028}c\u{2029}d\r\ne\u{b}f"});
        let frame = message(&sent).unwrap();

        let text = std::str::from_utf8(&frame).unwrap();
        let separators = ['\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
        assert!(!text.contains(separators));
        assert_eq!(text.matches('\n').count(), 3);
        let data = text.lines().nth(1).unwrap().strip_prefix("data: ").unwrap();
        assert_eq!(serde_json::from_str::<Value>(data).unwrap(), sent);
    }

    #[test]
    fn the_endpoint_is_a_path_of_the_same_origin() {
        assert_eq!(
            endpoint("0a1b"),
            "event: endpoint\ndata: /messages/?session_id=0a1b\n\n"
        );
    }
}

//! Whose answer was too large.

use std::fmt;

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::json;

/// The member of an error's data that says that the answer was larger than what is taken.
pub const TOO_LARGE: &str = "io.rvc/too-large";

/// What a request gets instead of its answer.
pub(super) fn answer(request: RequestId) -> ServerJsonRpcMessage {
    let error = ErrorData::new(
        ErrorCode(-32000),
        "the answer is too large",
        Some(json!({TOO_LARGE: true})),
    );
    ServerJsonRpcMessage::error(error, Some(request))
}

/// The request that a message answers, as far as its beginning says.
///
/// A request of the server's has an id too, which is not ours.
pub(super) fn answered(head: &[u8]) -> Option<RequestId> {
    let mut found = Found::default();
    // It breaks off, so it always is an error; what came before is what counts.
    let _ = serde_json::Deserializer::from_slice(head).deserialize_map(&mut found);
    found.id.filter(|_| found.is_answer)
}

#[derive(Default)]
struct Found {
    id: Option<RequestId>,
    is_answer: bool,
}

impl<'de> Visitor<'de> for &mut Found {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut id = None;
        while let Some(key) = map.next_key::<String>()? {
            // Only now it is certain that the id before it was whole.
            if let Some(id) = id.take() {
                self.id = Some(id);
            }
            if key == "id" {
                id = Some(map.next_value()?);
            } else {
                self.is_answer |= matches!(key.as_str(), "result" | "error");
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_a_whole_id_names_its_request() {
        for (head, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":17,"result":{"content":[{"te"#,
                Some(17),
            ),
            (
                r#"{"id":17,"jsonrpc":"2.0","error":{"code":1,"mess"#,
                Some(17),
            ),
            (r#"{"result":{"id":3},"id":17,"x":"#, Some(17)),
            // Cut in the id, or before what it is.
            (r#"{"result":{},"id":1"#, None),
            (r#"{"jsonrpc":"2.0","id":17,"res"#, None),
            // The server's own requests and notifications.
            (
                r#"{"jsonrpc":"2.0","id":17,"method":"sampling/createMessage","params":{"#,
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"id":17,"result":"#,
                None,
            ),
            (r#"{"jsonrpc":"2.0","result":{"id":17,"#, None),
            ("[1,", None),
            ("", None),
        ] {
            let expected = expected.map(RequestId::Number);
            assert_eq!(answered(head.as_bytes()), expected, "{head}");
        }
    }
}

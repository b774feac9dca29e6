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

/// What a message is, as far as its beginning says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// The answer to this request.
    Answers(RequestId),
    /// An answer, and nobody knows yet to what.
    Answer,
    /// None. A request of the server's has an id too, which is not ours.
    Other,
}

/// Reads the beginning of a message.
pub(super) fn beginning(head: &[u8]) -> Beginning {
    let mut found = Found::default();
    // It breaks off, which is an error; what came before is what counts.
    let _ = serde_json::Deserializer::from_slice(head).deserialize_map(&mut found);
    match found {
        Found {
            is_answer: false, ..
        } => Beginning::Other,
        Found { id: Some(id), .. } => Beginning::Answers(id),
        Found { id: None, .. } => Beginning::Answer,
    }
}

/// The id among the last members of a message, of which this is the end.
///
/// What follows a comma is the rest of the message's own object when it is one with a brace before
/// it and nothing is left over. A comma in a string has an odd number of quotes after it, and one
/// in an inner value more that closes than opens.
pub(super) fn last_id(tail: &[u8]) -> Option<RequestId> {
    let commas = tail.iter().enumerate().filter(|(_, byte)| **byte == b',');
    let rests = commas.map(|(at, _)| &tail[at + 1..]);
    rests.map(|rest| [b"{", rest].concat()).find_map(|object| {
        let mut found = Found::default();
        let mut json = serde_json::Deserializer::from_slice(&object);
        json.deserialize_map(&mut found).ok()?;
        json.end().ok()?;
        found.id
    })
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
        self.id = id.or(self.id.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_a_whole_id_names_its_request() {
        let answers = Beginning::Answers(RequestId::Number(17));
        for (head, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":17,"result":{"content":[{"te"#,
                &answers,
            ),
            (
                r#"{"id":17,"jsonrpc":"2.0","error":{"code":1,"mess"#,
                &answers,
            ),
            (r#"{"result":{"id":3},"id":17,"x":"#, &answers),
            (r#"{"result":{"id":3},"id":17}"#, &answers),
            // Cut in the id, or before it.
            (r#"{"result":{},"id":1"#, &Beginning::Answer),
            (r#"{"jsonrpc":"2.0","result":{"id":17,"#, &Beginning::Answer),
            // Cut before what it is.
            (r#"{"jsonrpc":"2.0","id":17,"res"#, &Beginning::Other),
            // The server's own requests and notifications.
            (
                r#"{"jsonrpc":"2.0","id":17,"method":"sampling/createMessage","params":{"#,
                &Beginning::Other,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"id":17,"result":"#,
                &Beginning::Other,
            ),
            ("[1,", &Beginning::Other),
            ("", &Beginning::Other),
        ] {
            assert_eq!(&beginning(head.as_bytes()), expected, "{head}");
        }
    }

    #[test]
    fn an_id_at_the_end_is_read_and_one_of_an_inner_object_or_a_string_is_not() {
        for (tail, expected) in [
            (r#"xxx"}]},"id":17}"#, Some(17)),
            (
                r#"xxx"}], "isError": false}, "id": 17, "jsonrpc": "2.0"} "#,
                Some(17),
            ),
            (r#"x, y"},"id":17,"_meta":{"id":3}}"#, Some(17)),
            // Of an inner object.
            (r#"xxx"}],"id":3}}"#, None),
            (r#"xxx"}]},"_meta":{"a":1,"id":3}}"#, None),
            // In a string.
            (r#"x,\"id\":3}"}]}}"#, None),
            (r#"x,"}]}}"#, None),
            // Cut off, or none.
            (r#"xxx"}]},"id":17"#, None),
            (r#"xxx"}]},"id":{}}"#, None),
            ("", None),
        ] {
            let expected = expected.map(RequestId::Number);
            assert_eq!(last_id(tail.as_bytes()), expected, "{tail}");
        }
    }
}

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;

use crate::Rejection;
use crate::gate::Gate;

/// Reads a body to its end, or refuses it as soon as it is too large or too slow.
pub(crate) async fn read<B>(
    body: &mut B,
    gate: &Gate,
    allowed: Duration,
) -> Result<Bytes, Rejection>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let reading = async {
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Rejection::CutShort {
                reason: error.to_string(),
            })?;
            // Trailers are of no interest.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let bytes = whole.len().saturating_add(data.len());
            gate.check_size(bytes.try_into().unwrap_or(u64::MAX))?;
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    };
    tokio::time::timeout(allowed, reading)
        .await
        .unwrap_or(Err(Rejection::TooSlow {
            allowed_ms: allowed.as_millis(),
        }))
}

/// Reads on while the answer is under way, and keeps nothing.
///
/// A connection that is closed with unread bytes is reset, and the sender would lose the answer
/// that says why. What is endless is cut off all the same.
pub(crate) async fn discard<B>(mut body: B, allowed: Duration)
where
    B: Body<Data = Bytes> + Unpin,
{
    let reading = async {
        let mut left = DISCARD_MOST_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(bytes) else {
                return;
            };
            left = rest;
        }
    };
    // Late or done, the body is dropped, and with it the connection if it is not at its end.
    let _ = tokio::time::timeout(allowed, reading).await;
}

const DISCARD_MOST_BYTES: usize = 16 << 20;

//! The two signing headers of one attempt.

use core::fmt;

use crate::timestamp::TimestampText;
use crate::{Secret, Signature, sign};

/// The values of the two headers that sign one attempt to deliver a body.
///
/// Make new ones for every attempt, with the time of that attempt: retries go
/// on for longer than the receiver's tolerance (contract decision 9).
#[derive(Clone, Copy)]
pub struct SignedHeaders {
    timestamp: TimestampText,
    signature: Signature,
}

impl SignedHeaders {
    /// Signs a body for an attempt at `timestamp`, in unix seconds.
    #[must_use]
    pub fn new(secret: &Secret, timestamp: i64, body: &[u8]) -> Self {
        Self {
            timestamp: TimestampText::new(timestamp),
            signature: sign(secret, timestamp, body),
        }
    }

    /// The value of [`TIMESTAMP_HEADER`](crate::TIMESTAMP_HEADER).
    #[must_use]
    pub fn timestamp(&self) -> &str {
        self.timestamp.as_str()
    }

    /// The value of [`SIGNATURE_HEADER`](crate::SIGNATURE_HEADER).
    #[must_use]
    pub fn signature(&self) -> &str {
        self.signature.header_value()
    }
}

impl fmt::Debug for SignedHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedHeaders")
            .field("timestamp", &self.timestamp())
            .field("signature", &self.signature())
            .finish()
    }
}

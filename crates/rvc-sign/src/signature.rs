//! Signing a body for one attempt.

use core::fmt;

use crate::Secret;
use crate::hex::{self, HEX_LEN, TAG_LEN};
use crate::tag::Tag;

/// Signs a body for an attempt at `timestamp`, in unix seconds (contract section
/// 4.3): `HMAC-SHA256(secret, "<timestamp>.<body>")`.
///
/// A negative timestamp is signed as it is, with its sign, but no strict
/// verifier accepts it.
#[must_use]
pub fn sign(secret: &Secret, timestamp: i64, body: &[u8]) -> Signature {
    let tag = Tag::of_event(secret, timestamp, body);
    let mut text = [0; PREFIX.len() + HEX_LEN];
    let (prefix, digits) = text
        .split_first_chunk_mut::<{ PREFIX.len() }>()
        .expect("the text is longer than its prefix");
    *prefix = *PREFIX;
    tag.write_hex(digits.try_into().expect("the rest are the hex digits"));
    Signature { text }
}

/// The signature of one body at one time, as text.
///
/// It is not comparable: to check one that was received, use a
/// [`Verifier`](crate::Verifier), which compares in constant time.
#[derive(Clone, Copy)]
pub struct Signature {
    // PREFIX and the hex digits.
    text: [u8; PREFIX.len() + HEX_LEN],
}

impl Signature {
    /// The tag alone, as 64 lower-case hex digits.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.header_value()[PREFIX.len()..]
    }

    /// The value of [`SIGNATURE_HEADER`](crate::SIGNATURE_HEADER):
    /// `sha256=` and the hex digits.
    #[must_use]
    pub fn header_value(&self) -> &str {
        str::from_utf8(&self.text).expect("prefix and hex digits are ASCII")
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signature")
            .field(&self.header_value())
            .finish()
    }
}

/// Reads a signature header: `sha256=` and exactly 64 lower-case hex digits
/// (contract decision 10).
pub(crate) fn parse(header: &[u8]) -> Option<[u8; TAG_LEN]> {
    hex::decode(header.strip_prefix(PREFIX)?)
}

const PREFIX: &[u8; 7] = b"sha256=";

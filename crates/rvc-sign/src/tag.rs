//! The HMAC-SHA256 tag of a message, and its comparison.

use ring::hmac;

use crate::Secret;
use crate::hex::{self, TAG_LEN};
use crate::timestamp::{TEN_DIGITS_AND_DOT, TimestampText, ten_digits_and_dot};

/// The tag that a secret gives a message.
pub(crate) struct Tag(hmac::Tag);

impl Tag {
    /// The tag of an event: of its timestamp, a dot and its body.
    pub(crate) fn of_event(secret: &Secret, timestamp: i64, body: &[u8]) -> Self {
        match (ten_digits_and_dot(timestamp), body.split_first_chunk()) {
            // The body is too long to copy behind the timestamp, but its beginning is not: with a
            // whole block to start from, ring hashes the rest in place at full speed.
            (Some(prefix), Some((begin, rest))) => {
                let begin: &[u8; BLOCK_LEN - TEN_DIGITS_AND_DOT] = begin;
                let mut block = [0; BLOCK_LEN];
                block[..TEN_DIGITS_AND_DOT].copy_from_slice(&prefix);
                block[TEN_DIGITS_AND_DOT..].copy_from_slice(begin);
                Self::of_two_pieces(secret, &block, rest)
            }
            _ => Self::of_two_pieces(secret, TimestampText::new(timestamp).with_dot(), body),
        }
    }

    fn of_two_pieces(secret: &Secret, first: &[u8], second: &[u8]) -> Self {
        let mut context = hmac::Context::with_key(secret.key());
        context.update(first);
        context.update(second);
        Self(context.sign())
    }

    /// The tag of bare bytes.
    pub(crate) fn of_bytes(secret: &Secret, message: &[u8]) -> Self {
        Self(hmac::sign(secret.key(), message))
    }

    pub(crate) fn as_bytes(&self) -> &[u8; TAG_LEN] {
        self.0
            .as_ref()
            .try_into()
            .expect("a SHA-256 tag has 32 bytes")
    }

    /// Whether `given` is this tag, in a time that depends on neither.
    ///
    /// `ring` compares in constant time only inside `hmac::verify`, and that
    /// takes one contiguous message. So this compares the MACs of both tags
    /// under the same key, which are equal only when the tags are.
    pub(crate) fn is(&self, given: &[u8; TAG_LEN], secret: &Secret) -> bool {
        let blind = Self::of_bytes(secret, self.as_bytes());
        hmac::verify(secret.key(), given, blind.as_bytes()).is_ok()
    }

    pub(crate) fn write_hex(&self, into: &mut [u8; hex::HEX_LEN]) {
        hex::encode(self.as_bytes(), into);
    }
}

/// Bytes that SHA-256 hashes at a time.
const BLOCK_LEN: usize = 64;

#[cfg(test)]
mod tests;

//! The HMAC-SHA256 tag of a message in parts, and its comparison.

use ring::hmac;

use crate::Secret;
use crate::hex::{self, TAG_LEN};

/// The tag that a secret gives a message.
pub(crate) struct Tag(hmac::Tag);

impl Tag {
    /// The tag of the parts one after the other, without joining them.
    pub(crate) fn new(secret: &Secret, parts: &[&[u8]]) -> Self {
        let mut context = hmac::Context::with_key(secret.key());
        for part in parts {
            context.update(part);
        }
        Self(context.sign())
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
        let blind = hmac::sign(secret.key(), self.as_bytes());
        hmac::verify(secret.key(), given, blind.as_ref()).is_ok()
    }

    pub(crate) fn write_hex(&self, into: &mut [u8; hex::HEX_LEN]) {
        hex::encode(self.as_bytes(), into);
    }
}

#[cfg(test)]
mod tests;

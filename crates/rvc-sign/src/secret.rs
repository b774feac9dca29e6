//! The key that a server shares with its receiver.

use core::fmt;

use ring::hmac;

use crate::tag::Tag;

/// The secret that a server shares with its receiver, ready to sign with.
///
/// The HMAC key is built once, here. The bytes themselves are not kept: nothing
/// gives them back, and `Debug` shows the [`KeyId`] only.
#[derive(Clone)]
pub struct Secret {
    key: hmac::Key,
}

impl Secret {
    /// Makes a secret of exactly these bytes.
    ///
    /// For a value that a person wrote into a configuration, use
    /// [`from_config`](Self::from_config), which catches the usual accidents.
    ///
    /// # Errors
    ///
    /// [`SecretError::Empty`] if there are none: anybody can sign with that.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretError> {
        if bytes.is_empty() {
            return Err(SecretError::Empty);
        }
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, bytes),
        })
    }

    /// Makes a secret of a configuration value, such as the bytes of
    /// `RVC_EVENT_SECRET` (contract decision 11).
    ///
    /// The bytes are taken exactly as they are. What looks like an accident
    /// that must not break a working pair is returned as a warning, for the
    /// caller to log.
    ///
    /// ```
    /// use rvc_sign::{Secret, SecretError, SecretWarning};
    ///
    /// let (_, warning) = Secret::from_config(b"\"s3cret\"")?;
    /// assert_eq!(warning, Some(SecretWarning::Quoted));
    /// assert_eq!(
    ///     Secret::from_config(b"s3cret\n").unwrap_err(),
    ///     SecretError::OuterWhitespace,
    /// );
    /// # Ok::<(), SecretError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SecretError::Empty`], which counts as no secret at all, or
    /// [`SecretError::OuterWhitespace`].
    pub fn from_config(value: &[u8]) -> Result<(Self, Option<SecretWarning>), SecretError> {
        if has_outer_whitespace(value) {
            return Err(SecretError::OuterWhitespace);
        }
        let warning = is_quoted(value).then_some(SecretWarning::Quoted);
        Ok((Self::new(value)?, warning))
    }

    /// Makes a secret of a file's contents, such as those of the file that
    /// `RVC_EVENT_SECRET_FILE` names (contract decision 11).
    ///
    /// One final line ending (`\n` or `\r\n`) belongs to the file, not to the
    /// secret, and is removed; the rest is a value as
    /// [`from_config`](Self::from_config) takes it.
    ///
    /// # Errors
    ///
    /// As [`from_config`](Self::from_config).
    pub fn from_file_contents(
        contents: &[u8],
    ) -> Result<(Self, Option<SecretWarning>), SecretError> {
        Self::from_config(without_final_line_ending(contents))
    }

    /// A short name of this secret, safe to log, the same wherever the secret
    /// is.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        // No signed message begins with a letter, so this tag signs nothing.
        let tag = Tag::of_bytes(self, b"rvc-sign key id");
        let [a, b, c, d, ..] = *tag.as_bytes();
        KeyId(u32::from_be_bytes([a, b, c, d]))
    }

    pub(crate) const fn key(&self) -> &hmac::Key {
        &self.key
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secret").field(&self.key_id()).finish()
    }
}

/// A short name of a secret: eight hex digits that tell one from another.
///
/// It is a truncated MAC under the secret. It says no more about it than one
/// signature on the wire does, and two secrets share one by chance only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(u32);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {self}")
    }
}

/// Why bytes cannot be a secret. It never shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// There are no bytes.
    #[error("the secret is empty")]
    Empty,

    /// The value begins or ends with white space, most often a line ending that
    /// only one of the two sides would use.
    #[error("the secret begins or ends with white space")]
    OuterWhitespace,
}

impl SecretError {
    /// Whether the value counts as not given at all, rather than as given
    /// wrongly (contract decision 11).
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

/// What is odd about a secret that is accepted all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretWarning {
    /// It stands in quotes, which are part of it: a shell or an env file on the
    /// other side may have removed them.
    Quoted,
}

impl fmt::Display for SecretWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quoted => "the secret stands in quotes, and they are part of it",
        })
    }
}

/// Looks at both ends for white space as Unicode has it; bytes that are no
/// UTF-8 are none.
fn has_outer_whitespace(value: &[u8]) -> bool {
    let begins = value
        .utf8_chunks()
        .next()
        .is_some_and(|chunk| chunk.valid().starts_with(char::is_whitespace));
    let ends = value.utf8_chunks().last().is_some_and(|chunk| {
        chunk.invalid().is_empty() && chunk.valid().ends_with(char::is_whitespace)
    });
    begins || ends
}

fn is_quoted(value: &[u8]) -> bool {
    matches!(value, [b'"', .., b'"'] | [b'\'', .., b'\''])
}

fn without_final_line_ending(contents: &[u8]) -> &[u8] {
    contents
        .strip_suffix(b"\r\n")
        .or_else(|| contents.strip_suffix(b"\n"))
        .unwrap_or(contents)
}

#[cfg(test)]
mod tests;

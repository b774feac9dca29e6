//! Tries what usually went wrong, and says which of it makes the signature fit.

use std::io;

use rvc_sign::{Secret, Verifier, VerifyError};
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use crate::secret_source::decode_hex;

/// What was verified.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) secret: &'a [u8],
    pub(crate) timestamp: &'a [u8],
    pub(crate) signature: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) now: i64,
}

/// The likely causes of an error; often none is found.
pub(crate) fn hints(attempt: &Attempt<'_>, error: &VerifyError) -> Vec<&'static str> {
    match error {
        VerifyError::BadTimestamp => bad_timestamp(attempt.timestamp).into_iter().collect(),
        VerifyError::MalformedSignature => malformed(attempt.signature).into_iter().collect(),
        VerifyError::Stale { .. } => stale(attempt),
        VerifyError::Mismatch => mismatch(attempt),
        _ => Vec::new(),
    }
}

fn bad_timestamp(timestamp: &[u8]) -> Option<&'static str> {
    let trimmed = timestamp.trim_ascii();
    if trimmed.is_empty() {
        Some("the timestamp is empty")
    } else if trimmed.len() < timestamp.len() {
        Some("there is white space around the timestamp")
    } else if timestamp.contains(&b'.') {
        Some("the timestamp has a fraction; it must be whole seconds")
    } else {
        None
    }
}

fn malformed(signature: &[u8]) -> Option<&'static str> {
    let trimmed = signature.trim_ascii();
    if trimmed.len() < signature.len() {
        Some("there is white space around the signature")
    } else if signature.contains(&b',') {
        Some("there seem to be two signatures; exactly one header is allowed")
    } else if !signature.starts_with(b"sha256=") {
        Some("the signature does not begin with sha256=")
    } else if signature[7..].iter().any(u8::is_ascii_uppercase) {
        Some("the hex digits must be in lower case")
    } else if signature.len() != 7 + 64 {
        Some("there are not exactly 64 hex digits; was the value cut?")
    } else {
        None
    }
}

fn stale(attempt: &Attempt<'_>) -> Vec<&'static str> {
    let mut hints = Vec::new();
    let timestamp: Option<i64> = str::from_utf8(attempt.timestamp)
        .ok()
        .and_then(|digits| digits.parse().ok());
    let Some(timestamp) = timestamp else {
        return hints;
    };
    if attempt.now.abs_diff(timestamp / 1_000) <= 86_400 {
        hints.push("the timestamp looks like milliseconds; it must be seconds");
    }
    let in_time = Attempt {
        now: timestamp,
        ..*attempt
    };
    if in_time.fits() {
        hints.push(
            "the signature itself is right: only the time is off. Compare both clocks; a retry \
             must be signed again with the time of its attempt",
        );
    }
    hints
}

fn mismatch(attempt: &Attempt<'_>) -> Vec<&'static str> {
    let mut hints = Vec::new();
    for (body, hint) in other_bodies(attempt.body) {
        let other = Attempt {
            body: &body,
            ..*attempt
        };
        if other.fits() {
            hints.push(hint);
        }
    }
    for (secret, hint) in other_secrets(attempt.secret) {
        let other = Attempt {
            secret: &secret,
            ..*attempt
        };
        if other.fits() {
            hints.push(hint);
        }
    }
    if hints.is_empty() {
        hints.push(
            "secret, timestamp or body differ from what was signed; the body must be the raw \
             bytes of the request, not JSON that was read and written again",
        );
    }
    hints
}

impl Attempt<'_> {
    fn fits(&self) -> bool {
        Secret::new(self.secret).is_ok_and(|secret| {
            Verifier::new([secret])
                .verify_values(self.timestamp, self.signature, self.body, self.now)
                .is_ok()
        })
    }
}

/// Bodies that the signed one often was.
fn other_bodies(body: &[u8]) -> Vec<(Vec<u8>, &'static str)> {
    let mut others = Vec::new();
    if let Some(shorter) = body.strip_suffix(b"\n") {
        let shorter = shorter.strip_suffix(b"\r").unwrap_or(shorter);
        others.push((
            shorter.to_vec(),
            "it fits without the line ending at the end of the input (`echo` adds one, \
             `printf %s` does not)",
        ));
    }
    others.push((
        [body, b"\n"].concat(),
        "it fits with a line ending after the body",
    ));
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        others.push((
            value.to_string().into_bytes(),
            "it fits the same JSON without spaces: something read it and wrote it again",
        ));
        if let Some(spaced) = as_python_writes(&value) {
            others.push((
                spaced,
                "it fits the same JSON as Python's json.dumps writes it: sign the bytes that are \
                 sent, and verify the bytes that came",
            ));
        }
    }
    // What is equal to the input was refused already.
    others.retain(|(other, _)| other != body);
    others
}

/// Secrets that the other side often has instead.
fn other_secrets(secret: &[u8]) -> Vec<(Vec<u8>, &'static str)> {
    let mut others = vec![(
        [secret, b"\n"].concat(),
        "it fits with a line ending after the secret: the other side read it from a file, and \
         kept the line ending",
    )];
    if let [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] = secret {
        others.push((
            inner.to_vec(),
            "it fits without the quotes around the secret",
        ));
    }
    for quote in [b"\"".as_slice(), b"'"] {
        others.push((
            [quote, secret, quote].concat(),
            "it fits with quotes around the secret: the other side kept them",
        ));
    }
    if let Some(bytes) = str::from_utf8(secret).ok().and_then(decode_hex) {
        others.push((
            bytes,
            "it fits the bytes that the secret's hex digits stand for; the contract uses the \
             text as it is",
        ));
    }
    others
}

/// JSON with a space after each comma and colon, and everything outside ASCII escaped.
fn as_python_writes(value: &Value) -> Option<Vec<u8>> {
    let mut written = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut written, Spaced);
    serde::Serialize::serialize(value, &mut serializer).ok()?;
    Some(written)
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.begin_object_key(writer, first)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for character in fragment.chars() {
            if character.is_ascii() {
                write!(writer, "{character}")?;
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

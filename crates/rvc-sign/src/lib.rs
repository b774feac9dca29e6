//! Signs and verifies the events of the Async Task Contract with HMAC-SHA256.
//!
//! ```text
//!  server                                        receiver
//!  body, now ─► SignedHeaders ─► HTTP POST ─► Headers ─► Verifier ─► which secret | VerifyError
//!                    ▲                                       ▲
//!                 Secret          the same bytes          Secret(s)
//! ```
//!
//! The signature is `HMAC-SHA256(secret, "<timestamp>.<body>")`, where the
//! timestamp is in unix seconds and the body is the raw bytes that are sent
//! (contract section 3.1). This crate does no I/O and reads no clock: the
//! caller passes the time in. It builds without `std` and never allocates.
//!
//! # Examples
//!
//! A receiver, in full. `Headers::from_pairs` takes an `&http::HeaderMap` as it
//! takes this list.
//!
//! ```
//! use rvc_sign::{Headers, Secret, Verifier, VerifyError};
//!
//! /// Who sent `body`, or why it is refused.
//! fn authenticate<'a>(
//!     headers: &[(&'a str, &'a str)],
//!     body: &[u8],
//!     now_unix_s: i64,
//! ) -> Result<&'a str, VerifyError> {
//!     // Exactly one of each of the three headers, or an error.
//!     let headers = Headers::from_pairs(headers.iter().copied())?;
//!
//!     // The server name says which secrets to try: the new one and, while it
//!     // is being rotated, the old one. An unknown server has none, and
//!     // a verifier without secrets refuses everything.
//!     let secrets = match headers.server() {
//!         b"navigation" => vec![secret(b"n3w"), secret(b"s3cret")],
//!         _ => vec![],
//!     };
//!     Verifier::new(secrets).verify(&headers, body, now_unix_s)?;
//!
//!     // The header is not signed. Compare it with `server` in the body, too.
//!     Ok(str::from_utf8(headers.server()).expect("a server that we know"))
//! }
//!
//! fn secret(bytes: &[u8]) -> Secret {
//!     Secret::new(bytes).expect("the secret is not empty")
//! }
//!
//! let headers = [
//!     ("Content-Type", "application/json"),
//!     ("X-RVC-Server", "navigation"),
//!     ("X-RVC-Timestamp", "1765532000"),
//!     (
//!         "X-RVC-Signature",
//!         "sha256=749c43f515532ab88ec9261c9e76e29b4aa57c24824d4429f468e6e30519a070",
//!     ),
//! ];
//!
//! assert_eq!(authenticate(&headers, b"", 1_765_532_007), Ok("navigation"));
//! assert_eq!(
//!     authenticate(&headers, b"forged", 1_765_532_007),
//!     Err(VerifyError::Mismatch),
//! );
//! assert_eq!(
//!     authenticate(&headers, b"", 1_765_532_301).unwrap_err().to_string(),
//!     "timestamp is 301 s behind the receiver's clock",
//! );
//! ```
//!
//! A sender signs each attempt again, with the time of that attempt:
//!
//! ```
//! use rvc_sign::{Secret, SignedHeaders};
//!
//! let secret = Secret::new(b"s3cret")?;
//! let signed = SignedHeaders::new(&secret, 1_765_532_000, b"");
//! assert_eq!(signed.timestamp(), "1765532000");
//! assert!(signed.signature().starts_with("sha256=749c43f5"));
//! # Ok::<(), rvc_sign::SecretError>(())
//! ```
//!
//! # Guarantees
//!
//! - A verdict is strict, and the checks run in one order: exactly one of each
//!   header, the timestamp's form, the signature's form, the skew, the tag
//!   (contract decision 10). No input makes a check panic or skips one.
//! - Tags are compared in constant time.
//! - A secret's bytes never appear in `Debug` output or in an error; `Debug`
//!   shows a [`KeyId`]. They are not wiped from memory when it is dropped.
//! - Nothing allocates. A program that fails to link once something does is
//!   part of the gate.
//!
//! An event that is replayed within the tolerance verifies again: a receiver
//! dedupes on `event_id`.
//!
//! # Cancel safety
//!
//! Nothing here is async; every function returns without waiting.
//!
//! # Crate features
//!
//! - `std` (default): lets the dependencies use the standard library. No item
//!   of this crate depends on it; without it the crate needs neither `std` nor
//!   `alloc`.

#![no_std]

#[cfg(test)]
extern crate std;

mod error;
mod headers;
mod hex;
mod secret;
mod signature;
mod signed_headers;
mod tag;
mod timestamp;
mod verifier;

pub use crate::error::{SkewDirection, VerifyError};
pub use crate::headers::{Headers, SERVER_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
pub use crate::secret::{KeyId, Secret, SecretError, SecretWarning};
pub use crate::signature::{Signature, sign};
pub use crate::signed_headers::SignedHeaders;
pub use crate::verifier::Verifier;

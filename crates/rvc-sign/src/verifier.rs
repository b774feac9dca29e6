//! The strict check of a received event.

use crate::tag::Tag;
use crate::{Headers, Secret, SkewDirection, VerifyError, signature, timestamp};

/// Checks received events against the secrets of one server.
///
/// Several secrets are tried in their order, so that one can be rotated: give
/// the receiver the new one beside the old one, then change the server, then
/// remove the old one. Without any secret nothing verifies.
#[derive(Debug, Clone)]
pub struct Verifier<S> {
    secrets: S,
    max_skew_s: u64,
}

impl<S: AsRef<[Secret]>> Verifier<S> {
    /// Makes a verifier that tolerates a skew of 300 s in either direction
    /// (contract section 3.1).
    #[must_use]
    pub const fn new(secrets: S) -> Self {
        Self {
            secrets,
            max_skew_s: 300,
        }
    }

    /// Sets the largest tolerated skew, in whole seconds as timestamps are, in
    /// either direction.
    ///
    /// Zero accepts the present second only; it does not turn the check off.
    #[must_use]
    pub const fn max_skew_s(mut self, seconds: u64) -> Self {
        self.max_skew_s = seconds;
        self
    }

    /// Checks the headers of a request against the raw bytes of its body and
    /// the receiver's clock, `now` in unix seconds.
    ///
    /// Returns the index of the secret that the body is signed with. The server
    /// header is not signed: compare it with `server` in the body afterwards.
    ///
    /// # Errors
    ///
    /// The first check that fails, in the order of contract decision 10.
    /// [`Headers`] has made the first of them.
    pub fn verify(
        &self,
        headers: &Headers<'_>,
        body: &[u8],
        now: i64,
    ) -> Result<usize, VerifyError> {
        self.verify_values(headers.timestamp(), headers.signature(), body, now)
    }

    /// Checks the values of a timestamp and a signature header, for a caller
    /// that has made sure that there is exactly one of each.
    ///
    /// ```
    /// use rvc_sign::{Secret, SecretError, Verifier, VerifyError};
    ///
    /// let verifier = Verifier::new([Secret::new(b"s3cret")?]);
    /// let hex = "749c43f515532ab88ec9261c9e76e29b4aa57c24824d4429f468e6e30519a070";
    /// assert_eq!(
    ///     verifier.verify_values("1765532000", hex, b"", 1_765_532_000),
    ///     Err(VerifyError::MalformedSignature), // `sha256=` is missing
    /// );
    /// # Ok::<(), SecretError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first check that fails, in the order of contract decision 10.
    pub fn verify_values(
        &self,
        timestamp_header: impl AsRef<[u8]>,
        signature_header: impl AsRef<[u8]>,
        body: &[u8],
        now: i64,
    ) -> Result<usize, VerifyError> {
        let timestamp =
            timestamp::parse(timestamp_header.as_ref()).ok_or(VerifyError::BadTimestamp)?;
        let given =
            signature::parse(signature_header.as_ref()).ok_or(VerifyError::MalformedSignature)?;
        self.check_skew(timestamp, now)?;
        // Only one text reads as this timestamp, so the header's is what is signed.
        self.secrets
            .as_ref()
            .iter()
            .position(|secret| Tag::of_event(secret, timestamp, body).is(&given, secret))
            .ok_or(VerifyError::Mismatch)
    }

    fn check_skew(&self, timestamp: i64, now: i64) -> Result<(), VerifyError> {
        let skew_s = now.abs_diff(timestamp);
        if skew_s <= self.max_skew_s {
            return Ok(());
        }
        let direction = if timestamp < now {
            SkewDirection::Behind
        } else {
            SkewDirection::Ahead
        };
        Err(VerifyError::Stale { skew_s, direction })
    }
}
